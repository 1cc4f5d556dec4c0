//! Brings the tables forward to this program's version; never back.
//!
//! A migration is one SQL file for both engines, with the few words in braces in which they differ. It runs in one
//! transaction together with the note that it ran.

use super::{Database, Dialect, Error, Result};
use crate::args;

/// In order; a released one is never edited, the next one is added below it.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/001.sql"),
    include_str!("migrations/people.sql"),
    include_str!("migrations/speed.sql"),
    include_str!("migrations/protocol.sql"),
    include_str!("migrations/agents.sql"),
    include_str!("migrations/sweeps.sql"),
    include_str!("migrations/story.sql"),
    include_str!("migrations/tokens.sql"),
    include_str!("migrations/search.sql"),
    include_str!("migrations/indexes.sql"),
    include_str!("migrations/site.sql"),
    include_str!("migrations/traces.sql"),
    include_str!("migrations/keys.sql"),
    include_str!("migrations/columns.sql"),
];

/// Held while migrating, so that two replicas that start together do not do it twice. Any number will do.
const POSTGRES_LOCK: i64 = 0x766f_6c6c_6579;

pub async fn run(database: &Database) -> Result<()> {
    let known = i64::try_from(MIGRATIONS.len()).expect("a handful");
    let mut write = database.write().await?;
    if write.dialect() == Dialect::Postgres {
        write.all("SELECT pg_advisory_xact_lock($1)", args![POSTGRES_LOCK]).await?;
    }
    write.run("CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY)", args![]).await?;
    let row = write.one("SELECT COALESCE(MAX(version), 0) AS version FROM migrations", args![]).await?;
    let found: i64 = row.get("version")?;
    if found > known {
        return Err(Error::Newer { found, known });
    }
    for (version, sql) in (1..).zip(MIGRATIONS) {
        if version <= found {
            continue;
        }
        let sql = words(sql, write.dialect());
        write.script(sql).await.map_err(|error| match error {
            Error::Query(cause) => Error::Migration { version, cause },
            other => other,
        })?;
        write.run("INSERT INTO migrations (version) VALUES ($1)", args![version]).await?;
    }
    write.commit().await
}

fn words(sql: &str, dialect: Dialect) -> String {
    let (id, bytes) = match dialect {
        // AUTOINCREMENT, because an id that was deleted must never name something else.
        Dialect::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB"),
        Dialect::Postgres => ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BYTEA"),
    };
    sql.replace("{id}", id).replace("{bytes}", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

    #[tokio::test]
    async fn opening_again_changes_nothing_and_a_newer_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volley.db").display().to_string();
        for _ in 0..2 {
            let database = Database::open(&path).await.unwrap();
            let rows = database.all("SELECT version FROM migrations", args![]).await.unwrap();
            assert_eq!(rows.len(), MIGRATIONS.len());
            database.close().await;
        }
        let database = Database::open(&path).await.unwrap();
        let mut write = database.write().await.unwrap();
        write.run("INSERT INTO migrations (version) VALUES (999)", args![]).await.unwrap();
        write.commit().await.unwrap();
        database.close().await;
        let refusal = Database::open(&path).await.err().unwrap();
        assert!(matches!(refusal, Error::Newer { found: 999, .. }), "{refusal}");
    }

    /// A database that an earlier program left behind.
    async fn left_behind(path: &str, sql: &'static str) {
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).foreign_keys(false);
        let mut connection = options.connect().await.unwrap();
        connection.execute(sqlx::raw_sql(sql)).await.unwrap();
        connection.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_database_of_the_first_version_is_brought_forward_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volley.db").display().to_string();
        left_behind(&path, include_str!("fixtures/version-1.sql")).await;
        let database = Database::open(&path).await.unwrap();
        let run = crate::run::store::by_name(&database, 1, "r").await.unwrap().unwrap();
        assert_eq!((run.path().as_str(), run.tag_list()), ("alice/p/r", vec!["a".to_owned()]));
        // Its history was kept before segments knew which keys their lines have.
        let spec = r#"{"keys": ["_step", "loss"], "samples": 2}"#;
        let rows = crate::run::chart::rows(&database, run.id, serde_json::from_str(spec).unwrap()).await.unwrap();
        assert_eq!(serde_json::json!(rows), serde_json::json!([{"_step": 0, "loss": 3}, {"_step": 2, "loss": 1}]));
        let queue = crate::queue::store::by_id(&database, 1).await.unwrap().unwrap();
        let mut write = database.write().await.unwrap();
        let popped =
            crate::queue::items::pop(&mut write, &queue, None, &[], jiff::Timestamp::UNIX_EPOCH).await.unwrap();
        write.commit().await.unwrap();
        assert_eq!(popped.map(|popped| (popped.id, popped.lease)), Some((1, 1)));
    }

    #[tokio::test]
    async fn what_is_asked_often_is_found_without_reading_all() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
        for (sql, index) in [
            ("EXPLAIN QUERY PLAN SELECT summary FROM runs WHERE project_id = 1 AND sweep_name = 's'", "runs_by_sweep"),
            ("EXPLAIN QUERY PLAN SELECT id FROM artifacts WHERE run_id = 1", "artifacts_by_run"),
            ("EXPLAIN QUERY PLAN SELECT artifact_id FROM blobs WHERE md5 = 'm' ORDER BY artifact_id", "blobs_by_md5"),
        ] {
            let steps = database.all(sql, args![]).await.unwrap();
            let steps: Vec<String> = steps.iter().map(|row| row.get("detail").unwrap()).collect();
            assert!(steps.len() == 1 && steps[0].contains(index), "{sql}: {steps:?}");
        }
    }
}
