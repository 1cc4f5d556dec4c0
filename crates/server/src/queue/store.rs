//! Queues and their configs in the database.

use super::{Config, Queue};
use crate::args;
use crate::database::{Database, Result, Row, Write};
use jiff::Timestamp;
use std::collections::BTreeMap;
use volley_plan::people::{Role, UserId};
use volley_plan::queue::limits::Limits;
use volley_plan::queue::spec::PRIORITY_DEFAULT;

const QUEUES: &str = "SELECT q.*, p.entity_id, u.username AS maker, u.entity_id AS maker_entity FROM queues q JOIN projects p ON p.id = q.project_id \
    JOIN users u ON u.id = q.user_id";

fn queues(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{QUEUES} {rest}"))
}

pub async fn by_name(database: &Database, project: i64, name: &str) -> Result<Option<Queue>> {
    let row = database
        .maybe(queues("WHERE q.project_id = $1 AND q.name = $2 AND q.deleted_at IS NULL"), args![project, name])
        .await?;
    row.map(|row| queue(&row)).transpose()
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Queue>> {
    database.maybe(queues("WHERE q.id = $1"), args![id]).await?.map(|row| queue(&row)).transpose()
}

pub async fn of_project(database: &Database, project: i64) -> Result<Vec<Queue>> {
    database
        .all(queues("WHERE q.project_id = $1 AND q.deleted_at IS NULL ORDER BY q.id"), args![project])
        .await?
        .iter()
        .map(queue)
        .collect()
}

/// The queues of an entity, whichever project they are kept in.
pub async fn of_entity(database: &Database, entity: i64) -> Result<Vec<Queue>> {
    database
        .all(queues("WHERE p.entity_id = $1 AND q.deleted_at IS NULL ORDER BY q.name, q.id"), args![entity])
        .await?
        .iter()
        .map(queue)
        .collect()
}

pub struct NewQueue<'a> {
    pub project: i64,
    pub name: &'a str,
    pub access: &'a str,
    pub mode: &'a str,
    pub config: Option<i64>,
    pub links: &'a str,
    pub user: i64,
}

/// Adds a queue unless its name is taken.
pub async fn insert(write: &mut Write, new: &NewQueue<'_>, now: Timestamp) -> Result<Option<i64>> {
    let sql = "INSERT INTO queues (project_id, name, access, mode, config_id, links, user_id, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT (project_id, name) DO NOTHING RETURNING id";
    let args = args![new.project, new.name, new.access, new.mode, new.config, new.links, new.user, now];
    let Some(row) = write.maybe(sql, args).await? else {
        return Ok(None);
    };
    let id = row.get("id")?;
    remember(write, id, new, now).await?;
    Ok(Some(id))
}

/// Keeps what a queue is now, so that it can be looked up when it is something else.
pub async fn remember(write: &mut Write, queue: i64, new: &NewQueue<'_>, now: Timestamp) -> Result<()> {
    let sql =
        "INSERT INTO queue_history (queue_id, config_id, mode, links, user_id, at) VALUES ($1, $2, $3, $4, $5, $6)";
    write.run(sql, args![queue, new.config, new.mode, new.links, new.user, now]).await?;
    Ok(())
}

/// What a queue was at a time.
pub struct Past {
    pub id: i64,
    pub config_id: Option<i64>,
    pub mode: String,
    pub username: String,
    pub at: i64,
}

pub async fn history(database: &Database, queue: i64, limit: usize) -> Result<Vec<Past>> {
    let sql = "SELECT h.*, u.username FROM queue_history h JOIN users u ON u.id = h.user_id WHERE h.queue_id = $1 \
               ORDER BY h.id DESC LIMIT $2";
    let past = |row: &Row| {
        Ok(Past {
            id: row.get("id")?,
            config_id: row.get("config_id")?,
            mode: row.get("mode")?,
            username: row.get("username")?,
            at: row.get("at")?,
        })
    };
    database.all(sql, args![queue, limit]).await?.iter().map(past).collect()
}

/// Writes who may use a queue.
pub async fn set_access(write: &mut Write, queue: &Queue) -> Result<()> {
    let grants: BTreeMap<i64, &str> = queue.grants.iter().map(|(user, role)| (user.0, role.name())).collect();
    let text = serde_json::to_string(&grants).unwrap_or_default();
    write.run("UPDATE queues SET access = $2, grants = $3 WHERE id = $1", args![queue.id, &queue.access, text]).await?;
    Ok(())
}

fn grants(text: &str) -> BTreeMap<UserId, Role> {
    let kept: BTreeMap<i64, String> = serde_json::from_str(text).unwrap_or_default();
    kept.into_iter().filter_map(|(user, role)| Some((UserId(user), Role::named(&role)?))).collect()
}

/// Replaces what a queue is made of; those who wait in it are put in order by its new mode.
pub async fn replace(write: &mut Write, id: i64, config: i64, mode: &str, links: &str, now: Timestamp) -> Result<()> {
    let sql = "UPDATE queues SET config_id = $2, mode = $3, links = $4, updated_at = $5 WHERE id = $1";
    write.run(sql, args![id, config, mode, links, now]).await?;
    let sql = "UPDATE items SET rank = CASE WHEN $2 = 'V0' THEN priority ELSE $3 END WHERE queue_id = $1 AND state IN ('PENDING', 'LEASED')";
    write.run(sql, args![id, mode, PRIORITY_DEFAULT]).await?;
    Ok(())
}

/// Keeps others from changing a queue, or from counting what is in it, until the transaction ends.
pub async fn lock(write: &mut Write, id: i64) -> Result<()> {
    write.run("UPDATE queues SET updated_at = updated_at WHERE id = $1", args![id]).await?;
    Ok(())
}

pub async fn set_limits(write: &mut Write, id: i64, limits: Limits, now: Timestamp) -> Result<()> {
    let sql = "UPDATE queues SET running_max = $2, pending_max = $3, updated_at = $4 WHERE id = $1";
    write.run(sql, args![id, limits.running_max, limits.pending_max, now]).await?;
    Ok(())
}

const HAS_STARTED: &str =
    "EXISTS (SELECT 1 FROM items i WHERE i.queue_id = queues.id AND i.state IN ('CLAIMED', 'RUNNING'))";

/// Removes a queue with all that waits in it. What has started goes on: until its end the queue is kept under another name,
/// out of everybody's sight.
pub async fn delete(write: &mut Write, id: i64, now: Timestamp) -> Result<()> {
    write.run("DELETE FROM items WHERE queue_id = $1 AND state IN ('PENDING', 'LEASED')", args![id]).await?;
    let hide = format!(
        "UPDATE queues SET deleted_at = $2, name = name || ' (deleted ' || CAST(id AS TEXT) || ')' \
         WHERE id = $1 AND {HAS_STARTED}"
    );
    if write.run(sqlx::AssertSqlSafe(hide), args![id, now]).await? == 0 {
        write.run("DELETE FROM queues WHERE id = $1", args![id]).await?;
    }
    Ok(())
}

/// Removes the queues that were deleted while something of theirs ran, once nothing does.
pub async fn forget_deleted(database: &Database) -> Result<()> {
    if database.maybe("SELECT id FROM queues WHERE deleted_at IS NOT NULL LIMIT 1", args![]).await?.is_none() {
        return Ok(());
    }
    let mut write = database.write().await?;
    let over = format!("DELETE FROM queues WHERE deleted_at IS NOT NULL AND NOT {HAS_STARTED}");
    write.run(sqlx::AssertSqlSafe(over), args![]).await?;
    write.commit().await
}

pub async fn add_config(write: &mut Write, config: &Config, user: i64, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO resource_configs (entity_id, resource, config, variables, user_id, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
    let args = args![config.entity_id, &config.resource, &config.config, &config.variables, user, now];
    write.one(sql, args).await?.get("id")
}

pub async fn config_by_id(database: &Database, id: i64) -> Result<Option<Config>> {
    let row = database.maybe("SELECT * FROM resource_configs WHERE id = $1", args![id]).await?;
    row.map(|row| config(&row)).transpose()
}

pub async fn configs_of(database: &Database, entity: i64, limit: usize) -> Result<Vec<Config>> {
    let sql = "SELECT * FROM resource_configs WHERE entity_id = $1 ORDER BY id DESC LIMIT $2";
    database.all(sql, args![entity, limit]).await?.iter().map(config).collect()
}

fn queue(row: &Row) -> Result<Queue> {
    Ok(Queue {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        entity_id: row.get("entity_id")?,
        name: row.get("name")?,
        access: row.get("access")?,
        mode: row.get("mode")?,
        config_id: row.get("config_id")?,
        links: row.get("links")?,
        user_id: row.get("user_id")?,
        maker: row.get("maker")?,
        limits: Limits { running_max: row.get("running_max")?, pending_max: row.get("pending_max")? },
        maker_entity: row.get("maker_entity")?,
        grants: grants(&row.get::<String>("grants")?),
        is_deleted: row.get::<Option<i64>>("deleted_at")?.is_some(),
    })
}

fn config(row: &Row) -> Result<Config> {
    Ok(Config {
        id: row.get("id")?,
        entity_id: row.get("entity_id")?,
        resource: row.get("resource")?,
        config: row.get("config")?,
        variables: row.get("variables")?,
    })
}
