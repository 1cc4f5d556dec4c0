//! Files of runs in the database; their bytes are in `blobs` under `files/{run}/{file}`.

use super::File;
use crate::args;
use crate::blobs::Stored;
use crate::database::{Database, Result, Row, Write, places};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

pub fn key(run: i64, file: i64) -> String {
    format!("files/{run}/{file}")
}

/// The id of the file of this name, which may not have any bytes yet.
pub async fn ensure(write: &mut Write, run: i64, name: &str, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO files (run_id, name, size, is_stored, updated_at) VALUES ($1, $2, 0, 0, $3) \
               ON CONFLICT (run_id, name) DO UPDATE SET updated_at = excluded.updated_at RETURNING id";
    write.one(sql, args![run, name, now]).await?.get("id")
}

/// The bytes of a file have arrived.
pub async fn note_stored(database: &Database, file: &str, stored: &Stored) -> Result<()> {
    let Ok(file) = file.parse::<i64>() else {
        return Ok(());
    };
    let mut write = database.write().await?;
    let sql = "UPDATE files SET size = $2, md5 = $3, is_stored = 1, updated_at = $4 WHERE id = $1";
    write.run(sql, args![file, stored.size, STANDARD.encode(stored.md5), Timestamp::now()]).await?;
    write.commit().await
}

/// A client says that these are complete. They were shown when their bytes arrived; this only notes the time.
pub async fn show(write: &mut Write, run: i64, names: &[String], now: Timestamp) -> Result<()> {
    for name in names {
        let sql = "UPDATE files SET updated_at = $3 WHERE run_id = $1 AND name = $2 AND is_stored = 1";
        write.run(sql, args![run, name, now]).await?;
    }
    Ok(())
}

pub async fn count(database: &Database, run: i64) -> Result<i64> {
    let sql = "SELECT COUNT(*) AS n FROM files WHERE run_id = $1 AND is_stored = 1";
    database.maybe(sql, args![run]).await?.map_or(Ok(0), |row| row.get("n"))
}

/// Which files are listed.
pub struct Wanted<'a> {
    pub names: &'a [String],
    /// An SQL pattern.
    pub pattern: Option<&'a str>,
    pub after: i64,
    pub limit: usize,
}

pub async fn list(database: &Database, run: i64, wanted: &Wanted<'_>) -> Result<Vec<File>> {
    let mut sql = "SELECT * FROM files WHERE run_id = $1 AND is_stored = 1 AND id > $2".to_owned();
    let mut args = args![run, wanted.after];
    if let Some(pattern) = wanted.pattern {
        args.push(pattern.into());
        sql += &format!(" AND name LIKE ${}", args.len());
    }
    if !wanted.names.is_empty() {
        sql += &format!(" AND name IN ({})", places(args.len() + 1, wanted.names.len()));
        args.extend(wanted.names.iter().map(Into::into));
    }
    args.push(wanted.limit.into());
    sql += &format!(" ORDER BY id LIMIT ${}", args.len());
    database.all(sqlx::AssertSqlSafe(sql), args).await?.iter().map(file).collect()
}

/// A file and the entity it belongs to.
pub async fn by_id(database: &Database, id: i64) -> Result<Option<(File, i64)>> {
    let sql = "SELECT f.*, p.entity_id FROM files f JOIN runs r ON r.id = f.run_id JOIN projects p ON p.id = r.project_id \
               WHERE f.id = $1";
    let row = database.maybe(sql, args![id]).await?;
    row.map(|row| Ok((file(&row)?, row.get("entity_id")?))).transpose()
}

pub async fn delete(write: &mut Write, id: i64) -> Result<()> {
    write.run("DELETE FROM files WHERE id = $1", args![id]).await?;
    Ok(())
}

fn file(row: &Row) -> Result<File> {
    Ok(File {
        id: row.get("id")?,
        run_id: row.get("run_id")?,
        name: row.get("name")?,
        size: row.get("size")?,
        md5: row.get("md5")?,
        updated_at: row.get("updated_at")?,
    })
}
