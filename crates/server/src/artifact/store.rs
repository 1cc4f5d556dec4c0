//! Artifacts in the database; their bytes are in `blobs` under `artifacts/{artifact}/{md5}` and `manifests/{id}`.

use super::{Artifact, Collection, Type, members};
use crate::args;
use crate::blobs::Stored;
use crate::database::{Database, Result, Row, Value, Write, places};
use crate::people::keys::hex;
use jiff::Timestamp;

const ARTIFACTS: &str = "SELECT a.*, p.entity_id FROM artifacts a JOIN collections c ON c.id = a.collection_id \
    JOIN projects p ON p.id = c.project_id";
const COLLECTIONS: &str = "SELECT c.*, p.entity_id FROM collections c JOIN projects p ON p.id = c.project_id";

fn artifacts(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{ARTIFACTS} {rest}"))
}

fn collections(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{COLLECTIONS} {rest}"))
}

pub fn blob_key(artifact: i64, md5: &str) -> String {
    format!("artifacts/{artifact}/{md5}")
}

pub fn manifest_key(manifest: i64) -> String {
    format!("manifests/{manifest}")
}

pub async fn ensure_type(write: &mut Write, project: i64, name: &str, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO artifact_types (project_id, name, created_at) VALUES ($1, $2, $3) \
               ON CONFLICT (project_id, name) DO NOTHING";
    write.run(sql, args![project, name, now]).await?;
    write
        .one("SELECT id FROM artifact_types WHERE project_id = $1 AND name = $2", args![project, name])
        .await?
        .get("id")
}

/// The collection of this name, which may be of another type.
pub async fn ensure_collection(
    write: &mut Write,
    project: i64,
    kind: i64,
    name: &str,
    now: Timestamp,
) -> Result<Collection> {
    let sql = "INSERT INTO collections (project_id, type_id, name, created_at, updated_at, versions) \
               VALUES ($1, $2, $3, $4, $4, 0) ON CONFLICT (project_id, name) DO NOTHING";
    write.run(sql, args![project, kind, name, now]).await?;
    // The row's lock keeps two creators of the same digest from both missing the other's.
    write
        .run("UPDATE collections SET updated_at = $3 WHERE project_id = $1 AND name = $2", args![project, name, now])
        .await?;
    collection(&write.one(collections("WHERE c.project_id = $1 AND c.name = $2"), args![project, name]).await?)
}

pub async fn types(database: &Database, project: i64) -> Result<Vec<Type>> {
    let sql = "SELECT * FROM artifact_types WHERE project_id = $1 ORDER BY name";
    database.all(sql, args![project]).await?.iter().map(kind).collect()
}

pub async fn type_by_id(database: &Database, id: i64) -> Result<Option<Type>> {
    database.maybe("SELECT * FROM artifact_types WHERE id = $1", args![id]).await?.map(|row| kind(&row)).transpose()
}

pub async fn type_by_name(database: &Database, project: i64, name: &str) -> Result<Option<Type>> {
    let sql = "SELECT * FROM artifact_types WHERE project_id = $1 AND name = $2";
    database.maybe(sql, args![project, name]).await?.map(|row| kind(&row)).transpose()
}

pub async fn collection_by_id(database: &Database, id: i64) -> Result<Option<Collection>> {
    database.maybe(collections("WHERE c.id = $1"), args![id]).await?.map(|row| collection(&row)).transpose()
}

pub async fn collection_by_name(database: &Database, project: i64, name: &str) -> Result<Option<Collection>> {
    let row = database.maybe(collections("WHERE c.project_id = $1 AND c.name = $2"), args![project, name]).await?;
    row.map(|row| collection(&row)).transpose()
}

/// A project's collections, of one type or of all.
pub async fn collections_of(database: &Database, project: i64, kind: Option<i64>) -> Result<Vec<Collection>> {
    let sql = collections("WHERE c.project_id = $1 AND ($2 = 0 OR c.type_id = $2) AND c.is_deleted = 0 ORDER BY c.id");
    database.all(sql, args![project, kind.unwrap_or(0)]).await?.iter().map(collection).collect()
}

/// The portfolio of this name; what is there under the name may be something else.
pub async fn ensure_portfolio(
    write: &mut Write,
    (project, kind): (i64, i64),
    name: &str,
    now: Timestamp,
) -> Result<Collection> {
    let sql = "INSERT INTO collections (project_id, type_id, name, is_portfolio, created_at, updated_at, versions) \
               VALUES ($1, $2, $3, 1, $4, $4, 0) ON CONFLICT (project_id, name) DO NOTHING";
    write.run(sql, args![project, kind, name, now]).await?;
    collection(&write.one(collections("WHERE c.project_id = $1 AND c.name = $2"), args![project, name]).await?)
}

pub struct CollectionEdit<'a> {
    pub name: Option<&'a str>,
    pub description: Option<&'a str>,
    pub kind: Option<i64>,
    pub tags: Option<&'a str>,
}

pub async fn edit_collection(write: &mut Write, id: i64, edit: &CollectionEdit<'_>, now: Timestamp) -> Result<()> {
    let sql = "UPDATE collections SET name = COALESCE($2, name), description = COALESCE($3, description), \
               type_id = COALESCE($4, type_id), tags = COALESCE($5, tags), updated_at = $6 WHERE id = $1";
    write.run(sql, args![id, edit.name, edit.description, edit.kind, edit.tags, now]).await?;
    Ok(())
}

/// Deletes a collection with its versions and gives its name away; no collection can be named with a colon.
pub async fn delete_collection(write: &mut Write, id: i64, now: Timestamp) -> Result<()> {
    const OWN: &str = "SELECT id FROM artifacts WHERE collection_id = $1";
    let sql = format!(
        "SELECT collection_id FROM aliases WHERE alias = 'latest' AND collection_id <> $1 AND artifact_id IN ({OWN})"
    );
    let places = write.all(sqlx::AssertSqlSafe(sql), args![id]).await?;
    for table in ["aliases", "artifact_links"] {
        let sql = format!("DELETE FROM {table} WHERE collection_id = $1 OR artifact_id IN ({OWN})");
        write.run(sqlx::AssertSqlSafe(sql), args![id]).await?;
    }
    write
        .run("UPDATE artifacts SET state = 'DELETED', updated_at = $2 WHERE collection_id = $1", args![id, now])
        .await?;
    let sql = "UPDATE collections SET name = name || ':' || id, is_deleted = 1, updated_at = $2 WHERE id = $1";
    write.run(sql, args![id, now]).await?;
    members::hand_on_latest(write, &places).await
}

pub struct NewArtifact<'a> {
    pub collection: i64,
    pub client_id: Option<&'a str>,
    pub digest: &'a str,
    pub description: Option<&'a str>,
    pub metadata: Option<&'a str>,
    pub ttl: Option<i64>,
    pub run: Option<i64>,
    pub user: i64,
    pub history_step: Option<i64>,
    pub wanted: &'a str,
    pub tags: &'a str,
    pub distributed_id: Option<&'a str>,
}

pub async fn insert(write: &mut Write, new: &NewArtifact<'_>, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO artifacts (collection_id, client_id, digest, state, description, metadata, ttl, size, file_count, \
               run_id, user_id, history_step, wanted, tags, distributed_id, created_at, updated_at) \
               VALUES ($1, $2, $3, 'PENDING', $4, $5, $6, 0, 0, $7, $8, $9, $10, $11, $12, $13, $13) RETURNING id";
    let args = args![
        new.collection, new.client_id, new.digest, new.description, new.metadata, new.ttl, new.run, new.user,
        new.history_step, new.wanted, new.tags, new.distributed_id, now
    ];
    write.one(sql, args).await?.get("id")
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Artifact>> {
    database.maybe(artifacts("WHERE a.id = $1"), args![id]).await?.map(|row| artifact(&row)).transpose()
}

pub async fn by_client_id(database: &Database, client_id: &str) -> Result<Option<Artifact>> {
    database.maybe(artifacts("WHERE a.client_id = $1"), args![client_id]).await?.map(|row| artifact(&row)).transpose()
}

/// The newest committed version.
pub async fn latest(database: &Database, collection: i64) -> Result<Option<Artifact>> {
    let sql = artifacts("WHERE a.collection_id = $1 AND a.state = 'COMMITTED' ORDER BY a.version DESC LIMIT 1");
    database.maybe(sql, args![collection]).await?.map(|row| artifact(&row)).transpose()
}

/// The same, as a transaction sees it that holds the collection's lock.
pub async fn latest_locked(write: &mut Write, collection: i64) -> Result<Option<Artifact>> {
    let sql = artifacts("WHERE a.collection_id = $1 AND a.state = 'COMMITTED' ORDER BY a.version DESC LIMIT 1");
    write.maybe(sql, args![collection]).await?.map(|row| artifact(&row)).transpose()
}

/// The artifact that several runs fill together, so long as it is not complete.
pub async fn distributed(write: &mut Write, collection: i64, id: &str) -> Result<Option<Artifact>> {
    let sql = artifacts("WHERE a.collection_id = $1 AND a.distributed_id = $2 AND a.state = 'PENDING'");
    write.maybe(sql, args![collection, id]).await?.map(|row| artifact(&row)).transpose()
}

/// The newest committed version with this content.
pub async fn with_digest(write: &mut Write, collection: i64, digest: &str) -> Result<Option<Artifact>> {
    let sql = artifacts(
        "WHERE a.collection_id = $1 AND a.digest = $2 AND a.state = 'COMMITTED' ORDER BY a.version DESC LIMIT 1",
    );
    write.maybe(sql, args![collection, digest]).await?.map(|row| artifact(&row)).transpose()
}

/// What a run logged, also where the same content was there before.
pub async fn made_by_run(database: &Database, run: i64) -> Result<Vec<Artifact>> {
    let sql = artifacts(
        "WHERE (a.run_id = $1 OR a.id IN (SELECT artifact_id FROM artifact_makers WHERE run_id = $1)) \
         AND a.state = 'COMMITTED' ORDER BY a.id",
    );
    database.all(sql, args![run]).await?.iter().map(artifact).collect()
}

pub async fn used_by_run(database: &Database, run: i64) -> Result<Vec<Artifact>> {
    let sql = artifacts("JOIN artifact_uses s ON s.artifact_id = a.id WHERE s.run_id = $1 ORDER BY a.id");
    database.all(sql, args![run]).await?.iter().map(artifact).collect()
}

/// The runs that use an artifact, each with its entity.
pub async fn users_of(database: &Database, artifact: i64) -> Result<Vec<(i64, i64)>> {
    let sql = "SELECT s.run_id, p.entity_id FROM artifact_uses s JOIN runs r ON r.id = s.run_id \
               JOIN projects p ON p.id = r.project_id WHERE s.artifact_id = $1 ORDER BY s.run_id";
    let rows = database.all(sql, args![artifact]).await?;
    rows.iter().map(|row| Ok((row.get("run_id")?, row.get("entity_id")?))).collect()
}

/// Notes that a run logged what another had made before.
pub async fn note_maker(write: &mut Write, artifact: i64, run: i64) -> Result<()> {
    let sql = "INSERT INTO artifact_makers (artifact_id, run_id) VALUES ($1, $2) ON CONFLICT (artifact_id, run_id) DO NOTHING";
    write.run(sql, args![artifact, run]).await?;
    Ok(())
}

pub async fn note_use(write: &mut Write, artifact: i64, run: i64, used_as: Option<&str>) -> Result<()> {
    let sql = "INSERT INTO artifact_uses (artifact_id, run_id, used_as) VALUES ($1, $2, $3) \
               ON CONFLICT (artifact_id, run_id) DO NOTHING";
    write.run(sql, args![artifact, run, used_as]).await?;
    Ok(())
}

#[derive(Clone, Debug)]
pub struct Alias {
    pub id: i64,
    pub collection_id: i64,
    pub artifact_id: i64,
    pub alias: String,
}

pub async fn aliases_of(database: &Database, artifact: i64) -> Result<Vec<Alias>> {
    let sql = "SELECT id, collection_id, artifact_id, alias FROM aliases WHERE artifact_id = $1 ORDER BY id";
    database.all(sql, args![artifact]).await?.iter().map(alias).collect()
}

pub async fn aliases_in(database: &Database, collection: i64) -> Result<Vec<Alias>> {
    let sql = "SELECT id, collection_id, artifact_id, alias FROM aliases WHERE collection_id = $1 ORDER BY id";
    database.all(sql, args![collection]).await?.iter().map(alias).collect()
}

/// Points an alias at an artifact, away from the one that had it.
pub async fn set_alias(write: &mut Write, collection: i64, alias: &str, artifact: i64) -> Result<()> {
    let sql = "INSERT INTO aliases (collection_id, alias, artifact_id) VALUES ($1, $2, $3) \
               ON CONFLICT (collection_id, alias) DO UPDATE SET artifact_id = excluded.artifact_id";
    write.run(sql, args![collection, alias, artifact]).await?;
    Ok(())
}

pub async fn drop_alias(write: &mut Write, collection: i64, alias: &str, artifact: i64) -> Result<()> {
    let sql = "DELETE FROM aliases WHERE collection_id = $1 AND alias = $2 AND artifact_id = $3";
    write.run(sql, args![collection, alias, artifact]).await?;
    Ok(())
}

#[derive(Default)]
pub struct Edit<'a> {
    pub description: Option<&'a str>,
    pub metadata: Option<&'a str>,
    pub tags: Option<&'a str>,
    pub ttl: Option<i64>,
}

pub async fn edit(write: &mut Write, id: i64, edit: &Edit<'_>, now: Timestamp) -> Result<()> {
    let sql = "UPDATE artifacts SET description = COALESCE($2, description), metadata = COALESCE($3, metadata), \
               tags = COALESCE($4, tags), ttl = COALESCE($5, ttl), updated_at = $6 WHERE id = $1";
    write.run(sql, args![id, edit.description, edit.metadata, edit.tags, edit.ttl, now]).await?;
    Ok(())
}

/// Deletes an artifact; where it was the latest, the newest that is left is it then.
pub async fn mark_deleted(write: &mut Write, id: i64, now: Timestamp) -> Result<()> {
    // The rows' locks keep two who delete at once from naming what the other deletes.
    let sql = "UPDATE collections SET updated_at = $2 WHERE id IN (SELECT collection_id FROM artifacts WHERE id = $1 \
               UNION ALL SELECT collection_id FROM artifact_links WHERE artifact_id = $1)";
    write.run(sql, args![id, now]).await?;
    let sql = "SELECT collection_id FROM aliases WHERE artifact_id = $1 AND alias = 'latest'";
    let places = write.all(sql, args![id]).await?;
    for table in ["aliases", "artifact_links"] {
        let sql = format!("DELETE FROM {table} WHERE artifact_id = $1");
        write.run(sqlx::AssertSqlSafe(sql), args![id]).await?;
    }
    write.run("UPDATE artifacts SET state = 'DELETED', updated_at = $2 WHERE id = $1", args![id, now]).await?;
    members::hand_on_latest(write, &places).await
}

/// The manifest of this name; asking again gives the same one, with the new digest.
pub async fn ensure_manifest(write: &mut Write, artifact: i64, name: &str, kind: &str, digest: &str) -> Result<i64> {
    let sql = "INSERT INTO manifests (artifact_id, name, kind, digest) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (artifact_id, name, kind) DO UPDATE SET digest = excluded.digest RETURNING id";
    write.one(sql, args![artifact, name, kind, digest]).await?.get("id")
}

/// The manifest that says what an artifact is made of, with its digest.
pub async fn manifest_of(database: &Database, artifact: i64) -> Result<Option<(i64, String)>> {
    let sql = "SELECT id, digest FROM manifests WHERE artifact_id = $1 AND kind = 'FULL' ORDER BY id DESC LIMIT 1";
    database.maybe(sql, args![artifact]).await?.map(|row| Ok((row.get("id")?, row.get("digest")?))).transpose()
}

/// The manifests that each say a part of what an artifact is made of.
pub async fn parts_of(database: &Database, artifact: i64) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM manifests WHERE artifact_id = $1 AND kind <> 'FULL' ORDER BY id";
    database.all(sql, args![artifact]).await?.iter().map(|row| row.get("id")).collect()
}

pub async fn manifest_by_id(database: &Database, id: i64) -> Result<Option<(i64, String)>> {
    let row = database.maybe("SELECT artifact_id, digest FROM manifests WHERE id = $1", args![id]).await?;
    row.map(|row| Ok((row.get("artifact_id")?, row.get("digest")?))).transpose()
}

pub async fn set_manifest_digest(write: &mut Write, id: i64, digest: &str) -> Result<()> {
    write.run("UPDATE manifests SET digest = $2 WHERE id = $1", args![id, digest]).await?;
    Ok(())
}

pub async fn set_digest(write: &mut Write, artifact: i64, digest: &str) -> Result<()> {
    write.run("UPDATE artifacts SET digest = $2 WHERE id = $1", args![artifact, digest]).await?;
    Ok(())
}

pub async fn set_base(write: &mut Write, artifact: i64, base: i64) -> Result<()> {
    write.run("UPDATE artifacts SET base_id = $2 WHERE id = $1", args![artifact, base]).await?;
    Ok(())
}

pub async fn has_blob(database: &Database, artifact: i64, md5: &str) -> Result<bool> {
    let sql = "SELECT size FROM blobs WHERE artifact_id = $1 AND md5 = $2";
    Ok(database.maybe(sql, args![artifact, md5]).await?.is_some())
}

/// Under which artifact of an entity these bytes are kept; `first` is asked before all others, the oldest next.
pub async fn home_of_blob(database: &Database, entity: i64, md5: &str, first: i64) -> Result<Option<i64>> {
    const HOMES: &str = "SELECT b.artifact_id FROM blobs b JOIN artifacts a ON a.id = b.artifact_id \
                         JOIN collections c ON c.id = a.collection_id JOIN projects p ON p.id = c.project_id \
                         WHERE b.md5 = $1 AND p.entity_id = $2";
    // Two look-ups, each by its index: many artifacts may hold the same bytes, such as those of an empty file.
    let own = sqlx::AssertSqlSafe(format!("{HOMES} AND b.artifact_id = $3"));
    let row = match database.maybe(own, args![md5, entity, first]).await? {
        Some(row) => Some(row),
        None => {
            let any = sqlx::AssertSqlSafe(format!("{HOMES} ORDER BY b.artifact_id LIMIT 1"));
            database.maybe(any, args![md5, entity]).await?
        }
    };
    row.map(|row| row.get("artifact_id")).transpose()
}

/// The bytes of an artifact's file have arrived. What was sent under a wrong name is not remembered.
pub async fn note_blob(
    database: &Database,
    artifact: &str,
    md5: &str,
    stored: &Stored,
) -> std::result::Result<(), crate::fault::Fault> {
    let Ok(artifact) = artifact.parse::<i64>() else {
        return Ok(());
    };
    if hex(&stored.md5) != md5 {
        return Err(crate::fault::Fault::bad(
            "the bytes do not have the MD5 that was announced; hint: send them again",
        ));
    }
    let mut write = database.write().await?;
    let sql =
        "INSERT INTO blobs (artifact_id, md5, size) VALUES ($1, $2, $3) ON CONFLICT (artifact_id, md5) DO NOTHING";
    write.run(sql, args![artifact, md5, stored.size]).await?;
    Ok(write.commit().await?)
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub digest: String,
    pub size: i64,
    pub reference: Option<String>,
    /// Under which artifact the bytes are kept.
    pub birth_id: Option<i64>,
}

pub async fn add_entry(write: &mut Write, artifact: i64, entry: &Entry) -> Result<()> {
    let sql = "INSERT INTO entries (artifact_id, name, digest, size, ref, birth_id) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (artifact_id, name) DO NOTHING";
    let args = args![artifact, &entry.name, &entry.digest, entry.size, entry.reference.clone(), entry.birth_id];
    write.run(sql, args).await?;
    Ok(())
}

pub async fn entries(database: &Database, artifact: i64, after: &str, limit: usize) -> Result<Vec<Entry>> {
    let sql = "SELECT * FROM entries WHERE artifact_id = $1 AND name > $2 ORDER BY name LIMIT $3";
    let rows = database.all(sql, args![artifact, after, limit]).await?;
    rows.iter().map(entry).collect()
}

/// Those of these names that there are, in order.
pub async fn entries_named(database: &Database, artifact: i64, names: &[String]) -> Result<Vec<Entry>> {
    let places = places(2, names.len());
    let sql = format!("SELECT * FROM entries WHERE artifact_id = $1 AND name IN ({places}) ORDER BY name");
    let mut args = args![artifact];
    args.extend(names.iter().map(|name| Value::from(name.as_str())));
    database.all(sqlx::AssertSqlSafe(sql), args).await?.iter().map(entry).collect()
}

pub async fn entry_by_name(database: &Database, artifact: i64, name: &str) -> Result<Option<Entry>> {
    let sql = "SELECT * FROM entries WHERE artifact_id = $1 AND name = $2";
    database.maybe(sql, args![artifact, name]).await?.map(|row| entry(&row)).transpose()
}

/// Makes a pending artifact the next version of its collection.
pub async fn commit(write: &mut Write, artifact: &Artifact, files: i64, size: i64, now: Timestamp) -> Result<i64> {
    let sql = "UPDATE collections SET versions = versions + 1, updated_at = $2 WHERE id = $1 RETURNING versions";
    let next: i64 = write.one(sql, args![artifact.collection_id, now]).await?.get("versions")?;
    let sql = "UPDATE artifacts SET state = 'COMMITTED', version = $2, file_count = $3, size = $4, updated_at = $5 WHERE id = $1";
    write.run(sql, args![artifact.id, next - 1, files, size, now]).await?;
    Ok(next - 1)
}

/// Whether an artifact still waits to be committed; others must wait until the transaction ends.
pub async fn lock_pending(write: &mut Write, id: i64) -> Result<bool> {
    Ok(write.run("UPDATE artifacts SET updated_at = updated_at WHERE id = $1 AND state = 'PENDING'", args![id]).await?
        > 0)
}

pub(super) fn artifact(row: &Row) -> Result<Artifact> {
    Ok(Artifact {
        id: row.get("id")?,
        collection_id: row.get("collection_id")?,
        entity_id: row.get("entity_id")?,
        digest: row.get("digest")?,
        state: row.get("state")?,
        version: row.get("version")?,
        description: row.get("description")?,
        metadata: row.get("metadata")?,
        ttl: row.get("ttl")?,
        size: row.get("size")?,
        file_count: row.get("file_count")?,
        run_id: row.get("run_id")?,
        user_id: row.get("user_id")?,
        history_step: row.get("history_step")?,
        wanted: row.get("wanted")?,
        tags: row.get("tags")?,
        base_id: row.get("base_id")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

pub(super) fn collection(row: &Row) -> Result<Collection> {
    Ok(Collection {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        entity_id: row.get("entity_id")?,
        type_id: row.get("type_id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        is_portfolio: row.is("is_portfolio")?,
        is_deleted: row.is("is_deleted")?,
        tags: row.get("tags")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

fn kind(row: &Row) -> Result<Type> {
    Ok(Type {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        created_at: row.get("created_at")?,
    })
}

fn alias(row: &Row) -> Result<Alias> {
    Ok(Alias {
        id: row.get("id")?,
        collection_id: row.get("collection_id")?,
        artifact_id: row.get("artifact_id")?,
        alias: row.get("alias")?,
    })
}

fn entry(row: &Row) -> Result<Entry> {
    Ok(Entry {
        name: row.get("name")?,
        digest: row.get("digest")?,
        size: row.get("size")?,
        reference: row.get("ref")?,
        birth_id: row.get("birth_id")?,
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
