//! Items in the database. `plan::queue::item` decides; here the row is locked, and what was decided written.

use super::{Queue, story};
use crate::args;
use crate::database::{Database, Result, Row, Write, places};
use crate::events::{self, Event};
use crate::ids;
use crate::run::{Run, names};
use jiff::Timestamp;
use serde_json::Value;
use volley_plan::launch::names::item_key;
use volley_plan::queue::item::{self, Answer, Keeper, LEASE, ORPHANED_AFTER, State};
use volley_plan::queue::spec::{Prior, Resolved};
use volley_plan::run::state::State as RunState;

#[derive(Clone, Debug)]
pub struct Item {
    pub id: i64,
    /// Stands for it on clusters, whoever else's items are there.
    pub key: String,
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
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub error: Option<String>,
    /// A JSON list.
    pub warnings: String,
    pub user_id: i64,
    pub author: String,
    pub created_at: i64,
    pub updated_at: i64,
    /// The queue's config when it was pushed.
    pub config_id: Option<i64>,
    /// Its resource arguments are its own and not the queue's.
    pub has_own_args: bool,
    pub keeper: Keeper,
    pub agent_id: Option<i64>,
    /// Where its work was begun, if its agent said so.
    pub site: Option<String>,
    /// Who registered its agent.
    pub agent_user: Option<i64>,
    /// The agent's name and when it was last heard of; one that said that it ends is not heard of since.
    pub agent: Option<(String, i64)>,
    pub run_id: Option<i64>,
    /// The entity and the project of its run, if that exists.
    pub run_home: Option<(String, String)>,
    pub stop_by: Option<String>,
    pub exit_code: Option<i64>,
    /// JSON texts, as the agent noted them.
    pub place: Option<String>,
    pub manifest: Option<String>,
}

/// What an agent reports of an item: an error, or a warning.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Report {
    pub message: String,
    pub stage: String,
    #[serde(default)]
    pub file_paths: Vec<String>,
}

/// What is read at once of what agents have in hand.
const HELD_MAX: usize = 10_000;
/// As many of those that wait as an agent can take at once.
const WAITING_TOLD_MAX: usize = 64;

const ITEMS: &str = "SELECT i.*, p.entity_id, CASE q.access WHEN 'USER' THEN -q.id ELSE p.entity_id END AS audience, \
     (SELECT w.username FROM users w WHERE w.id = i.user_id) AS author, a.name AS agent_name, a.user_id AS agent_user, \
     CASE a.status WHEN 'KILLED' THEN 0 ELSE a.heartbeat_at END AS heard, e.name AS run_entity, h.name AS run_project \
     FROM items i JOIN queues q ON q.id = i.queue_id JOIN projects p ON p.id = q.project_id JOIN users u ON u.id = q.user_id \
     LEFT JOIN agents a ON a.id = i.agent_id LEFT JOIN runs r ON r.id = i.run_id LEFT JOIN projects h ON h.id = r.project_id \
     LEFT JOIN entities e ON e.id = h.entity_id";

fn items(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{ITEMS} {rest}"))
}

pub async fn insert(write: &mut Write, queue: &Queue, resolved: &Resolved, user: i64, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO items (queue_id, state, spec, template_values, priority, rank, attempt, lease, warnings, user_id, \
               created_at, updated_at, config_id, has_own_args, cluster_key) \
               VALUES ($1, 'PENDING', $2, $3, $4, $5, $6, 0, '[]', $7, $8, $8, $9, $10, $11) RETURNING id";
    let args = args![
        queue.id,
        resolved.spec.to_string(),
        resolved.values.to_string(),
        resolved.priority,
        resolved.rank,
        resolved.attempt,
        user,
        now,
        queue.config_id,
        resolved.has_own_args,
        names::new_key()
    ];
    let id = write.one(sql, args).await?.get("id")?;
    let attempt = resolved.attempt;
    let told = Told { audience: queue.audience(), item: id, queue: queue.id, attempt, state: State::Pending };
    announce(write, &told, now).await?;
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
/// long queue is not read as a whole. Those `without` are passed over: the agent that asks has no room for them.
pub async fn pop(
    write: &mut Write,
    queue: &Queue,
    agent: Option<i64>,
    without: &[i64],
    now: Timestamp,
) -> Result<Option<Popped>> {
    // On PostgreSQL an item that another transaction is taking is passed over, instead of waited for.
    let skip = write.dialect().skip_locked();
    let places = places(5, without.len());
    let rest = if without.is_empty() { String::new() } else { format!(" AND id NOT IN ({places})") };
    let sql = format!(
        "WITH fresh AS MATERIALIZED (SELECT id, rank FROM items WHERE queue_id = $1 AND state = 'PENDING' {rest} \
             ORDER BY rank, id LIMIT 1 {skip}), \
         lapsed AS MATERIALIZED (SELECT id, rank FROM items WHERE queue_id = $1 AND state = 'LEASED' \
             AND leased_until <= $2 {rest} ORDER BY +rank, +id LIMIT 1 {skip}) \
         UPDATE items SET state = 'LEASED', lease = lease + 1, leased_until = $3, agent_id = $4, updated_at = $2, \
         waiting = NULL WHERE id = (SELECT id FROM (SELECT id, rank FROM fresh UNION ALL SELECT id, rank FROM lapsed) AS waiting \
             ORDER BY rank, id LIMIT 1) RETURNING id, lease, spec, attempt"
    );
    let mut args = args![queue.id, now, now + LEASE, agent];
    args.extend(without.iter().map(|id| crate::database::Value::from(*id)));
    let row = write.maybe(sqlx::AssertSqlSafe(sql), args).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    leased(write, queue, &row, now).await.map(Some)
}

pub struct Popped {
    pub id: i64,
    pub lease: i64,
    pub spec: String,
}

/// Tells of an item that was just handed out.
pub async fn leased(write: &mut Write, queue: &Queue, row: &Row, now: Timestamp) -> Result<Popped> {
    let popped = Popped { id: row.get("id")?, lease: row.get("lease")?, spec: row.get("spec")? };
    let attempt = row.get("attempt")?;
    let told = Told { audience: queue.audience(), item: popped.id, queue: queue.id, attempt, state: State::Leased };
    tell(write, told, now).await?;
    Ok(popped)
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Item>> {
    database.maybe(items("WHERE i.id = $1"), args![id]).await?.map(|row| read(&row)).transpose()
}

pub async fn page(database: &Database, queue: i64, after: i64, limit: usize) -> Result<Vec<Item>> {
    let sql = items("WHERE i.queue_id = $1 AND i.id > $2 ORDER BY i.id LIMIT $3");
    database.all(sql, args![queue, after, limit]).await?.iter().map(read).collect()
}

/// A queue's items: those that wait or run, in their order, or all, newest first.
pub async fn listed(database: &Database, queue: i64, all: bool, limit: usize) -> Result<Vec<Item>> {
    let sql = match all {
        true => items("WHERE i.queue_id = $1 ORDER BY i.id DESC LIMIT $2"),
        false => {
            items("WHERE i.queue_id = $1 AND i.state NOT IN ('FINISHED', 'FAILED') ORDER BY i.rank, i.id LIMIT $2")
        }
    };
    database.all(sql, args![queue, limit]).await?.iter().map(read).collect()
}

/// The items of a queue that ran under this name, newest first.
pub async fn of_run_name(database: &Database, queue: i64, run: &str, limit: usize) -> Result<Vec<Item>> {
    let sql = items("WHERE i.queue_id = $1 AND i.run_name = $2 ORDER BY i.id DESC LIMIT $3");
    database.all(sql, args![queue, run, limit]).await?.iter().map(read).collect()
}

/// What an agent of a queue has to know of: what it holds or may take over, what has ended since, and the first of what waits.
pub async fn of_interest(
    database: &Database,
    queue: i64,
    agent: i64,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<Item>> {
    let waiting = "WHERE i.queue_id = $1 AND i.state = 'PENDING' ORDER BY i.rank, i.id LIMIT $2";
    let ended = "WHERE i.queue_id = $1 AND i.ended_at > $3 ORDER BY i.ended_at DESC LIMIT $2";
    let mut found = own_and_orphaned(database, queue, agent, now, HELD_MAX).await?;
    let mut rows = database.all(items(waiting), args![queue, WAITING_TOLD_MAX]).await?;
    rows.extend(database.all(items(ended), args![queue, HELD_MAX, since]).await?);
    for row in &rows {
        found.push(read(row)?);
    }
    Ok(found)
}

/// All that an agent holds of a queue, and what others have left alone; page by page, as what is missing counts as over.
async fn own_and_orphaned(
    database: &Database,
    queue: i64,
    agent: i64,
    now: Timestamp,
    page: usize,
) -> Result<Vec<Item>> {
    let sql = "WHERE i.queue_id = $1 AND i.state IN ('LEASED', 'CLAIMED', 'RUNNING') AND i.id > $2 AND (i.agent_id = $3 \
               OR i.keeper = 'agent' AND (a.id IS NULL OR a.status = 'KILLED' OR a.heartbeat_at < $4)) ORDER BY i.id LIMIT $5";
    let mut found: Vec<Item> = Vec::new();
    loop {
        let last = found.last().map_or(0, |item| item.id);
        let rows = database.all(items(sql), args![queue, last, agent, now - ORPHANED_AFTER, page]).await?;
        for row in &rows {
            found.push(read(row)?);
        }
        if rows.len() < page {
            return Ok(found);
        }
    }
}

/// The item that a run was last launched from.
pub async fn latest_of_run(database: &Database, run: i64) -> Result<Option<Item>> {
    let sql = items("WHERE i.run_id = $1 ORDER BY i.id DESC LIMIT 1");
    database.maybe(sql, args![run]).await?.map(|row| read(&row)).transpose()
}

/// What agents of a queue have in hand.
pub async fn held(database: &Database, queue: i64) -> Result<Vec<Item>> {
    let sql = items("WHERE i.queue_id = $1 AND i.state IN ('LEASED', 'CLAIMED', 'RUNNING') ORDER BY i.id LIMIT $2");
    database.all(sql, args![queue, HELD_MAX]).await?.iter().map(read).collect()
}

/// The first of what waits in a queue.
pub async fn first_waiting(database: &Database, queue: i64, limit: usize) -> Result<Vec<Item>> {
    let sql = items("WHERE i.queue_id = $1 AND i.state = 'PENDING' ORDER BY i.rank, i.id LIMIT $2");
    database.all(sql, args![queue, limit]).await?.iter().map(read).collect()
}

/// The items of a run that have not ended.
pub async fn open_of_run(write: &mut Write, run: i64) -> Result<Vec<Item>> {
    let sql = items("WHERE i.run_id = $1 AND i.state NOT IN ('FINISHED', 'FAILED')");
    write.all(sql, args![run]).await?.iter().map(read).collect()
}

/// Those that wait, in their order: ids, and what was noted of why.
pub async fn waiting(database: &Database, queue: i64, limit: usize) -> Result<Vec<(i64, Option<String>)>> {
    let sql = "SELECT id, waiting FROM items WHERE queue_id = $1 AND state = 'PENDING' ORDER BY rank, id LIMIT $2";
    let rows = database.all(sql, args![queue, limit]).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("waiting")?))).collect()
}

/// How many go before an item that waits.
pub async fn before(database: &Database, item: &Item) -> Result<i64> {
    let sql = "SELECT COUNT(*) AS n FROM items i JOIN items own ON own.id = $1 WHERE i.queue_id = own.queue_id \
               AND i.state = 'PENDING' AND (i.rank < own.rank OR (i.rank = own.rank AND i.id < own.id))";
    database.maybe(sql, args![item.id]).await?.map_or(Ok(0), |row| row.get("n"))
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
    let sql = "UPDATE items SET state = $2, run_name = $3, updated_at = $4, lease = $6, leased_until = $7, attempt = $8, \
               is_stop_asked = $9, was_stopped = $10, waiting = CASE WHEN state = $2 THEN waiting ELSE NULL END, \
               agent_id = CASE WHEN $2 = 'PENDING' THEN NULL ELSE agent_id END, \
               site = CASE WHEN $2 = 'PENDING' THEN NULL ELSE site END WHERE id = $1 AND lease = $5";
    let args = args![
        item.id,
        next.state.name(),
        next.run_name,
        now,
        item.life.lease,
        next.lease,
        next.leased_until,
        next.attempt,
        next.is_stop_asked,
        next.was_stopped
    ];
    write.run(sql, args).await?;
    note_times(write, item.id, next.state, now).await?;
    if next.state != item.life.state {
        tell(write, Told { attempt: next.attempt, ..item.told(next.state) }, now).await?;
    }
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
    let sql = "SELECT spec, template_values, priority, attempt, has_own_args FROM items WHERE queue_id = $1 AND run_name = $2 \
               ORDER BY id DESC LIMIT 1";
    let row = database.maybe(sql, args![queue, run]).await?;
    let read = |row: Row| {
        Ok(Prior {
            spec: serde_json::from_str(&row.get::<String>("spec")?).unwrap_or_default(),
            values: serde_json::from_str(&row.get::<String>("template_values")?).unwrap_or_default(),
            priority: row.get("priority")?,
            attempt: row.get("attempt")?,
            has_own_args: row.is("has_own_args")?,
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
    let state = item::follow(item.life.state, RunState::Running, item.keeper);
    let sql =
        "UPDATE items SET run_id = $2, run_name = COALESCE(run_name, $3), state = $4, updated_at = $5 WHERE id = $1";
    write.run(sql, args![id, run.id, &run.name, state.name(), now]).await?;
    if item.life.is_stop_asked {
        crate::run::store::stop(write, run.id, now).await?;
    }
    if state != item.life.state {
        note_times(write, id, state, now).await?;
        tell(write, item.told(state), now).await?;
    }
    Ok(())
}

/// A run's state changed: so does that of the item that it came from.
pub async fn follow_run(write: &mut Write, run: &Run, state: RunState, now: Timestamp) -> Result<()> {
    for row in write.all(items("WHERE i.run_id = $1"), args![run.id]).await? {
        let item = read(&row)?;
        let next = item::follow(item.life.state, state, item.keeper);
        if next != item.life.state {
            let sql = "UPDATE items SET state = $2, updated_at = $3 WHERE id = $1";
            write.run(sql, args![item.id, next.name(), now]).await?;
            note_times(write, item.id, next, now).await?;
            tell(write, item.told(next), now).await?;
        }
    }
    Ok(())
}

/// Started items whose agent has not been heard of since: without a run, asked to stop, or kept by an agent of ours.
pub async fn left_alone(database: &Database, before: Timestamp, limit: usize) -> Result<Vec<Item>> {
    let sql = items(
        "WHERE (i.state = 'CLAIMED' AND (i.run_id IS NULL OR i.is_stop_asked = 1) OR i.keeper = 'agent' AND i.state IN ('CLAIMED', 'RUNNING')) \
         AND COALESCE(a.heartbeat_at, i.updated_at) < $1 ORDER BY i.updated_at LIMIT $2",
    );
    database.all(sql, args![before, limit]).await?.iter().map(read).collect()
}

/// What an event says of an item.
pub struct Told {
    pub audience: i64,
    pub item: i64,
    pub queue: i64,
    pub attempt: i64,
    pub state: State,
}

/// Notes and tells of a new state.
pub async fn tell(write: &mut Write, told: Told, now: Timestamp) -> Result<()> {
    story::add(write, &told, None, now).await?;
    announce(write, &told, now).await
}

async fn announce(write: &mut Write, told: &Told, now: Timestamp) -> Result<()> {
    let id = ids::encode("RunQueueItem", told.item);
    let queue = ids::encode("RunQueue", told.queue);
    let body = serde_json::json!({ "state": told.state.name(), "queue": queue.as_str(), "attempt": told.attempt + 1 });
    events::record(write, Event { entity: told.audience, kind: "item.state", subject: &id, body }, now).await
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

    pub fn told(&self, state: State) -> Told {
        Told { audience: self.audience, item: self.id, queue: self.queue_id, attempt: self.life.attempt, state }
    }

    /// When its agent was last heard of; of one that has none, when it last changed.
    pub fn heard(&self) -> Timestamp {
        let heard = self.agent.as_ref().map_or(self.updated_at, |(_, heard)| *heard);
        Timestamp::from_microsecond(heard).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Whether an agent of ours may take it over. What another's agent started has no name that ours would find.
    pub fn is_orphaned(&self, now: Timestamp) -> bool {
        self.keeper == Keeper::Agent && item::is_orphaned(self.life.state, self.heard(), now)
    }
}

fn read(row: &Row) -> Result<Item> {
    let until: Option<i64> = row.get("leased_until")?;
    let id: i64 = row.get("id")?;
    let key: Option<String> = row.get("cluster_key")?;
    Ok(Item {
        id,
        key: key.unwrap_or_else(|| item_key(&ids::encode("RunQueueItem", id))),
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
            attempt: row.get("attempt")?,
            is_stop_asked: row.is("is_stop_asked")?,
            was_stopped: row.is("was_stopped")?,
        },
        spec: row.get("spec")?,
        template_values: row.get("template_values")?,
        priority: row.get("priority")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        error: row.get("error")?,
        warnings: row.get("warnings")?,
        user_id: row.get("user_id")?,
        author: row.get::<Option<String>>("author")?.unwrap_or_default(),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        config_id: row.get("config_id")?,
        has_own_args: row.is("has_own_args")?,
        keeper: match row.get::<Option<String>>("keeper")? {
            Some(_) => Keeper::Agent,
            None => Keeper::Run,
        },
        agent_id: row.get("agent_id")?,
        site: row.get("site")?,
        agent_user: row.get("agent_user")?,
        agent: row.get::<Option<String>>("agent_name")?.zip(row.get("heard")?),
        run_id: row.get("run_id")?,
        run_home: row.get::<Option<String>>("run_entity")?.zip(row.get("run_project")?),
        stop_by: row.get("stop_by")?,
        exit_code: row.get("exit_code")?,
        place: row.get("place")?,
        manifest: row.get("manifest")?,
    })
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
