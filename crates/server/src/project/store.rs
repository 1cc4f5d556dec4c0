//! Projects in the database.

use super::Project;
use crate::args;
use crate::database::{Database, Result, Row, Write};
use jiff::Timestamp;

const PROJECTS: &str = "SELECT p.*, e.name AS entity FROM projects p JOIN entities e ON e.id = p.entity_id";

pub async fn by_name(database: &Database, entity: i64, name: &str) -> Result<Option<Project>> {
    let sql = sqlx::AssertSqlSafe(format!("{PROJECTS} WHERE p.entity_id = $1 AND p.folded = $2"));
    database.maybe(sql, args![entity, name.to_lowercase()]).await?.map(|row| project(&row)).transpose()
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Project>> {
    let sql = sqlx::AssertSqlSafe(format!("{PROJECTS} WHERE p.id = $1"));
    database.maybe(sql, args![id]).await?.map(|row| project(&row)).transpose()
}

pub async fn of_entity(database: &Database, entity: i64, after: i64, limit: usize) -> Result<Vec<Project>> {
    let sql = sqlx::AssertSqlSafe(format!("{PROJECTS} WHERE p.entity_id = $1 AND p.id > $2 ORDER BY p.id LIMIT $3"));
    database.all(sql, args![entity, after, limit]).await?.iter().map(project).collect()
}

/// The project of this name, which keeps the spelling of whoever made it first.
pub async fn ensure(write: &mut Write, entity: i64, name: &str, user: i64, now: Timestamp) -> Result<Project> {
    let sql = "INSERT INTO projects (entity_id, name, folded, user_id, created_at) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (entity_id, folded) DO NOTHING";
    write.run(sql, args![entity, name, name.to_lowercase(), user, now]).await?;
    let sql = sqlx::AssertSqlSafe(format!("{PROJECTS} WHERE p.entity_id = $1 AND p.folded = $2"));
    project(&write.one(sql, args![entity, name.to_lowercase()]).await?)
}

pub struct Edit<'a> {
    pub description: Option<&'a str>,
    pub access: Option<&'a str>,
    pub views: Option<&'a str>,
}

/// Changes what is given and leaves the rest alone.
pub async fn edit(write: &mut Write, id: i64, edit: &Edit<'_>) -> Result<()> {
    let sql = "UPDATE projects SET description = COALESCE($1, description), access = COALESCE($2, access), \
               views = COALESCE($3, views) WHERE id = $4";
    write.run(sql, args![edit.description, edit.access, edit.views, id]).await?;
    Ok(())
}

pub async fn rename(write: &mut Write, id: i64, name: &str) -> Result<()> {
    let sql = "UPDATE projects SET name = $2, folded = $3 WHERE id = $1";
    write.run(sql, args![id, name, name.to_lowercase()]).await?;
    Ok(())
}

/// Whether nothing was ever run in it or waits for it, as is so with a registry.
pub async fn is_free_of_work(write: &mut Write, id: i64) -> Result<bool> {
    let sql = "SELECT (SELECT COUNT(*) FROM runs WHERE project_id = $1) + (SELECT COUNT(*) FROM queues WHERE project_id = $1) \
               + (SELECT COUNT(*) FROM sweeps WHERE project_id = $1) + (SELECT COUNT(*) FROM agents WHERE project_id = $1) AS n";
    Ok(write.one(sql, args![id]).await?.get::<i64>("n")? == 0)
}

/// Whether a project has neither work nor artifacts in it.
pub async fn is_empty(write: &mut Write, id: i64) -> Result<bool> {
    let sql =
        "SELECT COUNT(*) AS n FROM artifacts a JOIN collections c ON c.id = a.collection_id WHERE c.project_id = $1";
    Ok(is_free_of_work(write, id).await? && write.one(sql, args![id]).await?.get::<i64>("n")? == 0)
}

/// Deletes a project that is free of work, with its artifacts.
pub async fn delete(write: &mut Write, id: i64) -> Result<()> {
    const COLLECTIONS: &str = "SELECT id FROM collections WHERE project_id = $1";
    let own = format!("SELECT id FROM artifacts WHERE collection_id IN ({COLLECTIONS})");
    for table in ["artifact_links", "aliases"] {
        let sql = format!("DELETE FROM {table} WHERE collection_id IN ({COLLECTIONS}) OR artifact_id IN ({own})");
        write.run(sqlx::AssertSqlSafe(sql), args![id]).await?;
    }
    for table in ["entries", "blobs", "manifests", "artifact_uses", "artifact_makers"] {
        let sql = format!("DELETE FROM {table} WHERE artifact_id IN ({own})");
        write.run(sqlx::AssertSqlSafe(sql), args![id]).await?;
    }
    write
        .run(sqlx::AssertSqlSafe(format!("DELETE FROM artifacts WHERE collection_id IN ({COLLECTIONS})")), args![id])
        .await?;
    for table in ["collections", "artifact_types"] {
        write.run(sqlx::AssertSqlSafe(format!("DELETE FROM {table} WHERE project_id = $1")), args![id]).await?;
    }
    write.run("DELETE FROM projects WHERE id = $1", args![id]).await?;
    Ok(())
}

fn project(row: &Row) -> Result<Project> {
    Ok(Project {
        id: row.get("id")?,
        entity_id: row.get("entity_id")?,
        entity: row.get("entity")?,
        name: row.get("name")?,
        description: row.get("description")?,
        access: row.get("access")?,
        views: row.get("views")?,
        user_id: row.get("user_id")?,
        created_at: row.get("created_at")?,
    })
}
