//! Items in the database. `plan::queue::item` decides; here the row is locked, and what was decided written.

use super::Queue;
use crate::args;
use crate::database::{Database, Dialect, Result, Row, Write};
use crate::events::{self, Event};
use crate::ids;
use crate::run::Run;
use jiff::Timestamp;
use serde_json::Value;
use volley_plan::queue::item::{self, Answer, LEASE, State};
use volley_plan::queue::spec::{Prior, Resolved};
use volley_plan::run::state::State as RunState;

#[derive(Clone, Debug)]
pub struct Item {
    pub id: i64,
    pub queue_id: i64,
    pub entity_id: i64,
    /// Whose members are told of it, as `Queue::audience` says.
    pub audience: i64,
    /// Why it is not handed out although it is its turn.
    pub waiting: Option<String>,
    pub gpus: i64,
    pub life: item::Item,
    /// JSON text.
    pub spec: String,
    /// A JSON object: what the submitter chose, and defaults for the rest.
    pub template_values: String,
    pub priority: i64,
    pub attempt: i64,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub agent_id: Option<i64>,
    pub error: Option<String>,
    /// A JSON list.
    pub warnings: String,
    pub user_id: i64,
    pub created_at: i64,
}

/// What an agent reports of an item: an error, or a warning.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Report {
    pub message: String,
    pub stage: String,
    #[serde(default)]
    pub file_paths: Vec<String>,
}

const ITEMS: &str = "SELECT i.*, p.entity_id, CASE q.access WHEN 'USER' THEN -q.id ELSE p.entity_id END AS audience, \
     (SELECT a.username FROM users a WHERE a.id = i.user_id) AS author FROM items i \
     JOIN queues q ON q.id = i.queue_id JOIN projects p ON p.id = q.project_id JOIN users u ON u.id = q.user_id";

fn items(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{ITEMS} {rest}"))
}

pub async fn insert(write: &mut Write, queue: &Queue, resolved: &Resolved, user: i64, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO items (queue_id, state, spec, template_values, priority, rank, attempt, lease, warnings, user_id, \
               created_at, updated_at) VALUES ($1, 'PENDING', $2, $3, $4, $5, $6, 0, '[]', $7, $8, $8) RETURNING id";
    let args = args![
        queue.id,
        resolved.spec.to_string(),
        resolved.values.to_string(),
        resolved.priority,
        resolved.rank,
        resolved.attempt,
        user,
        now
    ];
    let id = write.one(sql, args).await?.get("id")?;
    tell(write, queue.audience(), id, State::Pending, now).await?;
    Ok(id)
}

/// Whether there is anything to take, without taking the lock that taking needs: agents ask much more often than not in vain.
pub async fn is_anything_waiting(database: &Database, queue: i64, now: Timestamp) -> Result<bool> {
    // Two look-ups, each by its index; joined by OR they would read the queue.
    let sql = "SELECT id FROM items WHERE queue_id = $1 AND state = 'PENDING' UNION ALL \
               SELECT id FROM items WHERE queue_id = $1 AND state = 'LEASED' AND leased_until <= $2 LIMIT 1";
    Ok(database.maybe(sql, args![queue, now]).await?.is_some())
}

/// Hands out the first item that waits: `item::pop` as one statement, so that two agents never get the same.
///
/// The first that was never taken and the first whose lease ran out are looked up apart, each by its index, so that a
/// long queue is not read as a whole.
pub async fn pop(write: &mut Write, queue: &Queue, agent: Option<i64>, now: Timestamp) -> Result<Option<Popped>> {
    // On PostgreSQL an item that another transaction is taking is passed over, instead of waited for.
    let skip = match write.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE SKIP LOCKED",
    };
    let sql = format!(
        "WITH fresh AS MATERIALIZED (SELECT id, rank FROM items WHERE queue_id = $1 AND state = 'PENDING' \
             ORDER BY rank, id LIMIT 1 {skip}), \
         lapsed AS MATERIALIZED (SELECT id, rank FROM items WHERE queue_id = $1 AND state = 'LEASED' \
             AND leased_until <= $2 ORDER BY +rank, +id LIMIT 1 {skip}) \
         UPDATE items SET state = 'LEASED', lease = lease + 1, leased_until = $3, agent_id = $4, updated_at = $2 \
         WHERE id = (SELECT id FROM (SELECT id, rank FROM fresh UNION ALL SELECT id, rank FROM lapsed) AS waiting \
             ORDER BY rank, id LIMIT 1) RETURNING id, lease, spec"
    );
    let row = write.maybe(sqlx::AssertSqlSafe(sql), args![queue.id, now, now + LEASE, agent]).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let popped = Popped { id: row.get("id")?, lease: row.get("lease")?, spec: row.get("spec")? };
    tell(write, queue.audience(), popped.id, State::Leased, now).await?;
    Ok(Some(popped))
}

pub struct Popped {
    pub id: i64,
    pub lease: i64,
    pub spec: String,
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Item>> {
    database.maybe(items("WHERE i.id = $1"), args![id]).await?.map(|row| read(&row)).transpose()
}

pub async fn page(database: &Database, queue: i64, after: i64, limit: usize) -> Result<Vec<Item>> {
    let sql = items("WHERE i.queue_id = $1 AND i.id > $2 ORDER BY i.id LIMIT $3");
    database.all(sql, args![queue, after, limit]).await?.iter().map(read).collect()
}

/// A queue's items with who submitted them: those that wait or run, in their order, or all, newest first.
pub async fn listed(database: &Database, queue: i64, all: bool, limit: usize) -> Result<Vec<(Item, String)>> {
    let sql = match all {
        true => items("WHERE i.queue_id = $1 ORDER BY i.id DESC LIMIT $2"),
        false => {
            items("WHERE i.queue_id = $1 AND i.state NOT IN ('FINISHED', 'FAILED') ORDER BY i.rank, i.id LIMIT $2")
        }
    };
    database.all(sql, args![queue, limit]).await?.iter().map(|row| Ok((read(row)?, row.get("author")?))).collect()
}

/// Reads an item inside a transaction, and keeps others from changing it until the transaction ends.
pub async fn lock(write: &mut Write, id: i64) -> Result<Option<Item>> {
    write.run("UPDATE items SET updated_at = updated_at WHERE id = $1", args![id]).await?;
    write.maybe(items("WHERE i.id = $1"), args![id]).await?.map(|row| read(&row)).transpose()
}

/// Writes what was decided; says whether the one who asked may go on.
pub async fn settle(write: &mut Write, item: &Item, answer: Answer, now: Timestamp) -> Result<bool> {
    let next = match answer {
        Answer::Done(next) => next,
        Answer::Again => return Ok(true),
        Answer::Refused => return Ok(false),
    };
    let sql = "UPDATE items SET state = $2, run_name = $3, updated_at = $4 WHERE id = $1 AND lease = $5";
    write.run(sql, args![item.id, next.state.name(), next.run_name, now, item.life.lease]).await?;
    note_times(write, item.id, next.state, now).await?;
    tell(write, item.audience, item.id, next.state, now).await?;
    Ok(true)
}

/// When an agent began with an item, and when that was over; the first time counts.
async fn note_times(write: &mut Write, id: i64, state: State, now: Timestamp) -> Result<()> {
    let sql = match state {
        State::Pending | State::Leased => return Ok(()),
        State::Claimed | State::Running => "UPDATE items SET started_at = COALESCE(started_at, $2) WHERE id = $1",
        State::Finished | State::Failed => "UPDATE items SET ended_at = COALESCE(ended_at, $2) WHERE id = $1",
    };
    write.run(sql, args![id, now]).await?;
    Ok(())
}

/// The last item that was run under this name, which another may go on for.
pub async fn of_run(database: &Database, queue: i64, run: &str) -> Result<Option<Prior>> {
    let sql = "SELECT spec, template_values, priority, attempt FROM items WHERE queue_id = $1 AND run_name = $2 \
               ORDER BY id DESC LIMIT 1";
    let row = database.maybe(sql, args![queue, run]).await?;
    let read = |row: Row| {
        Ok(Prior {
            spec: serde_json::from_str(&row.get::<String>("spec")?).unwrap_or_default(),
            values: serde_json::from_str(&row.get::<String>("template_values")?).unwrap_or_default(),
            priority: row.get("priority")?,
            attempt: row.get("attempt")?,
        })
    };
    row.map(read).transpose()
}

pub async fn set_error(write: &mut Write, id: i64, report: &Report) -> Result<()> {
    let text = serde_json::to_string(report).unwrap_or_default();
    write.run("UPDATE items SET error = $2 WHERE id = $1", args![id, text]).await?;
    Ok(())
}

pub async fn set_warnings(write: &mut Write, id: i64, reports: &[Report]) -> Result<()> {
    let text = serde_json::to_string(reports).unwrap_or_default();
    write.run("UPDATE items SET warnings = $2 WHERE id = $1", args![id, text]).await?;
    Ok(())
}

pub async fn delete(write: &mut Write, id: i64) -> Result<()> {
    write.run("DELETE FROM items WHERE id = $1", args![id]).await?;
    Ok(())
}

/// A run says which item it was started for. It is believed if the item is of its entity, or was acknowledged for it.
pub async fn link_run(write: &mut Write, item: &str, run: &Run, now: Timestamp) -> Result<()> {
    let Some((id, _)) = ids::decode_lease(item) else {
        return Ok(());
    };
    let Some(item) = lock(write, id).await? else {
        return Ok(());
    };
    let is_acknowledged = item.life.run_name.as_deref() == Some(&run.name);
    if !is_acknowledged && item.entity_id != run.entity_id {
        return Ok(());
    }
    let state = item::follow(item.life.state, RunState::Running);
    let sql =
        "UPDATE items SET run_id = $2, run_name = COALESCE(run_name, $3), state = $4, updated_at = $5 WHERE id = $1";
    write.run(sql, args![id, run.id, &run.name, state.name(), now]).await?;
    if state != item.life.state {
        note_times(write, id, state, now).await?;
        tell(write, item.audience, id, state, now).await?;
    }
    Ok(())
}

/// A run's state changed: so does that of the item that it came from.
pub async fn follow_run(write: &mut Write, run: &Run, state: RunState, now: Timestamp) -> Result<()> {
    for row in write.all(items("WHERE i.run_id = $1"), args![run.id]).await? {
        let item = read(&row)?;
        let next = item::follow(item.life.state, state);
        if next != item.life.state {
            let sql = "UPDATE items SET state = $2, updated_at = $3 WHERE id = $1";
            write.run(sql, args![item.id, next.name(), now]).await?;
            note_times(write, item.id, next, now).await?;
            tell(write, item.audience, item.id, next, now).await?;
        }
    }
    Ok(())
}

/// Acknowledged items without a run, with when their agent was last heard of.
pub async fn waiting_for_a_run(database: &Database, before: Timestamp, limit: usize) -> Result<Vec<(Item, i64)>> {
    let sql = "SELECT i.*, p.entity_id, p.entity_id AS audience, COALESCE(a.heartbeat_at, i.updated_at) AS heard \
               FROM items i JOIN queues q ON q.id = i.queue_id JOIN projects p ON p.id = q.project_id \
               LEFT JOIN agents a ON a.id = i.agent_id \
               WHERE i.state = 'CLAIMED' AND i.run_id IS NULL AND COALESCE(a.heartbeat_at, i.updated_at) < $1 LIMIT $2";
    database.all(sql, args![before, limit]).await?.iter().map(|row| Ok((read(row)?, row.get("heard")?))).collect()
}

pub async fn tell(write: &mut Write, entity: i64, item: i64, state: State, now: Timestamp) -> Result<()> {
    let id = ids::encode("RunQueueItem", item);
    let body = serde_json::json!({ "state": state.name() });
    events::record(write, Event { entity, kind: "item.state", subject: &id, body }, now).await
}

impl Item {
    pub fn warnings(&self) -> Vec<Report> {
        serde_json::from_str(&self.warnings).unwrap_or_default()
    }

    pub fn error(&self) -> Option<Report> {
        serde_json::from_str(self.error.as_deref()?).ok()
    }

    pub fn spec(&self) -> Value {
        serde_json::from_str(&self.spec).unwrap_or_default()
    }
}

fn read(row: &Row) -> Result<Item> {
    let until: Option<i64> = row.get("leased_until")?;
    Ok(Item {
        id: row.get("id")?,
        queue_id: row.get("queue_id")?,
        entity_id: row.get("entity_id")?,
        audience: row.get("audience")?,
        waiting: row.get("waiting")?,
        gpus: row.get("gpus")?,
        life: item::Item {
            state: State::named(&row.get::<String>("state")?).unwrap_or(State::Failed),
            lease: row.get("lease")?,
            leased_until: until.and_then(|until| Timestamp::from_microsecond(until).ok()),
            run_name: row.get("run_name")?,
        },
        spec: row.get("spec")?,
        template_values: row.get("template_values")?,
        priority: row.get("priority")?,
        attempt: row.get("attempt")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        agent_id: row.get("agent_id")?,
        error: row.get("error")?,
        warnings: row.get("warnings")?,
        user_id: row.get("user_id")?,
        created_at: row.get("created_at")?,
    })
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
