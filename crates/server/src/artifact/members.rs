//! Who is in a collection: its own versions, or in a portfolio the artifacts that were linked to it.

use super::{Artifact, Collection, store};
use crate::args;
use crate::database::{Database, Result, Row, Write};
use jiff::Timestamp;

/// An artifact as a member of a collection, where it may have another number than at home.
#[derive(Clone, Debug)]
pub struct Member {
    pub artifact: Artifact,
    pub version: i64,
    pub at: i64,
}

const OWN: &str = "SELECT a.*, p.entity_id, a.version AS member_version, a.created_at AS member_at FROM artifacts a \
    JOIN collections c ON c.id = a.collection_id JOIN projects p ON p.id = c.project_id \
    WHERE a.collection_id = $1 AND a.state = 'COMMITTED'";
const LINKED: &str = "SELECT a.*, p.entity_id, k.version AS member_version, k.created_at AS member_at FROM artifact_links k \
    JOIN artifacts a ON a.id = k.artifact_id JOIN collections c ON c.id = a.collection_id \
    JOIN projects p ON p.id = c.project_id WHERE k.collection_id = $1 AND a.state = 'COMMITTED'";

fn members(collection: &Collection, rest: &str) -> sqlx::AssertSqlSafe<String> {
    let (select, version) = if collection.is_portfolio { (LINKED, "k.version") } else { (OWN, "a.version") };
    sqlx::AssertSqlSafe(format!("{select} {}", rest.replace("{version}", version)))
}

pub async fn by_version(database: &Database, collection: &Collection, version: i64) -> Result<Option<Member>> {
    let sql = members(collection, "AND {version} = $2");
    database.maybe(sql, args![collection.id, version]).await?.map(|row| member(&row)).transpose()
}

pub async fn by_alias(database: &Database, collection: &Collection, alias: &str) -> Result<Option<Member>> {
    let sql =
        members(collection, "AND a.id = (SELECT artifact_id FROM aliases WHERE collection_id = $1 AND alias = $2)");
    database.maybe(sql, args![collection.id, alias]).await?.map(|row| member(&row)).transpose()
}

/// All members, oldest first.
pub async fn all(database: &Database, collection: &Collection) -> Result<Vec<Member>> {
    let sql = members(collection, "ORDER BY {version}");
    database.all(sql, args![collection.id]).await?.iter().map(member).collect()
}

/// The portfolios that an artifact was linked to, with its number in each.
pub async fn portfolios_of(database: &Database, artifact: i64) -> Result<Vec<(Collection, i64, i64)>> {
    let sql = "SELECT c.*, p.entity_id, k.version AS member_version, k.created_at AS member_at FROM artifact_links k \
               JOIN collections c ON c.id = k.collection_id JOIN projects p ON p.id = c.project_id \
               WHERE k.artifact_id = $1 ORDER BY k.id";
    let rows = database.all(sql, args![artifact]).await?;
    rows.iter().map(|row| Ok((store::collection(row)?, row.get("member_version")?, row.get("member_at")?))).collect()
}

/// Adds an artifact to a portfolio; linking it again changes nothing.
pub async fn link(write: &mut Write, portfolio: i64, artifact: i64, now: Timestamp) -> Result<i64> {
    let sql = "SELECT version FROM artifact_links WHERE collection_id = $1 AND artifact_id = $2";
    if let Some(row) = write.maybe(sql, args![portfolio, artifact]).await? {
        return row.get("version");
    }
    let sql = "UPDATE collections SET versions = versions + 1, updated_at = $2 WHERE id = $1 RETURNING versions";
    let version = write.one(sql, args![portfolio, now]).await?.get::<i64>("versions")? - 1;
    let sql = "INSERT INTO artifact_links (collection_id, artifact_id, version, created_at) VALUES ($1, $2, $3, $4)";
    write.run(sql, args![portfolio, artifact, version, now]).await?;
    Ok(version)
}

/// Takes an artifact out of a portfolio; the newest that is left is then the latest.
pub async fn unlink(write: &mut Write, portfolio: i64, artifact: i64) -> Result<()> {
    write
        .run("DELETE FROM artifact_links WHERE collection_id = $1 AND artifact_id = $2", args![portfolio, artifact])
        .await?;
    write.run("DELETE FROM aliases WHERE collection_id = $1 AND artifact_id = $2", args![portfolio, artifact]).await?;
    name_latest(write, portfolio).await
}

/// Collections in which an artifact was, that is in them no longer, get another latest.
pub(super) async fn hand_on_latest(write: &mut Write, places: &[Row]) -> Result<()> {
    for place in places {
        name_latest(write, place.get("collection_id")?).await?;
    }
    Ok(())
}

/// The newest member of a collection is its latest, unless something is.
async fn name_latest(write: &mut Write, collection: i64) -> Result<()> {
    let sql = "SELECT id FROM (SELECT id, version FROM artifacts WHERE collection_id = $1 AND state = 'COMMITTED' \
               UNION ALL SELECT artifact_id, version FROM artifact_links WHERE collection_id = $1) AS members \
               ORDER BY version DESC LIMIT 1";
    if let Some(row) = write.maybe(sql, args![collection]).await? {
        let sql = "INSERT INTO aliases (collection_id, alias, artifact_id) VALUES ($1, 'latest', $2) \
                   ON CONFLICT (collection_id, alias) DO NOTHING";
        write.run(sql, args![collection, row.get::<i64>("id")?]).await?;
    }
    Ok(())
}

fn member(row: &Row) -> Result<Member> {
    Ok(Member { artifact: store::artifact(row)?, version: row.get("member_version")?, at: row.get("member_at")? })
}
