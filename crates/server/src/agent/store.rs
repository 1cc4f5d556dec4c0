//! Agents in the database.

use super::Agent;
use crate::args;
use crate::database::{Database, Result, Row, Write};
use crate::ids;
use jiff::Timestamp;
use volley_plan::queue::item::ORPHANED_AFTER;

/// Agents of one queue that are told of; who has more of them sees some.
const LIVING_MAX: usize = 100;

const AGENTS: &str = "SELECT a.*, p.entity_id FROM agents a JOIN projects p ON p.id = a.project_id";

pub struct NewAgent<'a> {
    pub project: i64,
    pub name: &'a str,
    pub hostname: &'a str,
    pub queues: &'a str,
    pub config: Option<&'a str>,
    pub version: Option<&'a str>,
    pub user: i64,
}

pub async fn insert(write: &mut Write, new: &NewAgent<'_>, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO agents (project_id, name, hostname, queues, status, is_told_to_stop, config, version, user_id, \
               created_at, heartbeat_at) VALUES ($1, $2, $3, $4, 'POLLING', 0, $5, $6, $7, $8, $8) RETURNING id";
    let args = args![new.project, new.name, new.hostname, new.queues, new.config, new.version, new.user, now];
    write.one(sql, args).await?.get("id")
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Agent>> {
    let sql = sqlx::AssertSqlSafe(format!("{AGENTS} WHERE a.id = $1"));
    database.maybe(sql, args![id]).await?.map(|row| agent(&row)).transpose()
}

/// Agents of a project that serve a queue. Its id is one of a JSON list of quoted ids, so it is found by its quotes.
pub async fn of_queue(database: &Database, project: i64, queue: &str, limit: usize) -> Result<Vec<Agent>> {
    let sql = format!("{AGENTS} WHERE a.project_id = $1 AND a.queues LIKE $2 ORDER BY a.heartbeat_at DESC LIMIT $3");
    let listed = format!("%\"{queue}\"%");
    database.all(sqlx::AssertSqlSafe(sql), args![project, listed, limit]).await?.iter().map(agent).collect()
}

/// Whether an agent that was heard of lately says that it serves the queue.
pub async fn is_queue_served(database: &Database, queue: i64, now: Timestamp) -> Result<bool> {
    Ok(!living(database, queue, now).await?.is_empty())
}

/// The agents of a queue that live, by their names and hosts.
pub async fn living(database: &Database, queue: i64, now: Timestamp) -> Result<Vec<(String, String)>> {
    let sql = "SELECT name, hostname FROM agents WHERE queues LIKE $1 AND heartbeat_at > $2 AND status <> 'KILLED' \
               ORDER BY id LIMIT $3";
    let listed = format!("%\"{}\"%", ids::encode("RunQueue", queue).as_str());
    let rows = database.all(sql, args![listed, now - ORPHANED_AFTER, LIVING_MAX]).await?;
    rows.iter().map(|row| Ok((row.get("name")?, row.get("hostname")?))).collect()
}

/// An agent was heard of; a new status comes with it, or the old one stays.
pub async fn hear(write: &mut Write, id: i64, status: Option<&str>, now: Timestamp) -> Result<()> {
    let sql = "UPDATE agents SET heartbeat_at = $2, status = COALESCE($3, status) WHERE id = $1";
    write.run(sql, args![id, now, status]).await?;
    Ok(())
}

/// It serves these queues from now on, a JSON list of global ids.
pub async fn serve(write: &mut Write, id: i64, queues: &str) -> Result<()> {
    write.run("UPDATE agents SET queues = $2 WHERE id = $1", args![id, queues]).await?;
    Ok(())
}

/// It reads this when it asks the next time, and ends.
pub async fn tell_to_stop(write: &mut Write, id: i64) -> Result<()> {
    write.run("UPDATE agents SET is_told_to_stop = 1 WHERE id = $1", args![id]).await?;
    Ok(())
}

fn agent(row: &Row) -> Result<Agent> {
    Ok(Agent {
        id: row.get("id")?,
        entity_id: row.get("entity_id")?,
        name: row.get("name")?,
        hostname: row.get("hostname")?,
        queues: row.get("queues")?,
        status: row.get("status")?,
        is_told_to_stop: row.is("is_told_to_stop")?,
        config: row.get("config")?,
        version: row.get("version")?,
        heartbeat_at: row.get("heartbeat_at")?,
    })
}
