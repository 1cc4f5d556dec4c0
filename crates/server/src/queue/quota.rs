//! Quotas at the two moments that count: when something is submitted, and when an agent takes something.
//!
//! `plan::people::quota` decides; here the numbers are gathered and the reasons kept. A server without quotas pays one
//! look into an empty table.

use super::Queue;
use super::items::{self, Popped};
use crate::args;
use crate::database::{Dialect, Result, Write};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_plan::people::quota::{Account, Quota, Usage, Waiting, choose, reason};
use volley_plan::queue::gpus;
use volley_plan::queue::item::LEASE;

/// How far behind the first an agent looks for something that fits.
const LOOK_AHEAD: usize = 1000;
/// Held from counting to commit, so that two who take at once do not both fit. Any number will do.
const POSTGRES_LOCK: i64 = 0x7175_6f74_6173;
/// What is handed out counts, unless the lease ran out.
const RUNS: &str = "(i.state IN ('CLAIMED', 'RUNNING') OR (i.state = 'LEASED' AND i.leased_until > $1))";

pub async fn exist(write: &mut Write) -> Result<bool> {
    Ok(write.maybe("SELECT entity_id FROM quotas LIMIT 1", args![]).await?.is_some())
}

/// Notes what a new item asks for, and why it must wait if it must.
pub async fn note(write: &mut Write, queue: &Queue, item: (i64, &Value), user: i64, now: Timestamp) -> Result<()> {
    let (id, spec) = item;
    let gpus = gpus::asked(spec);
    let waiting = match exist(write).await? {
        true => {
            let Accounts { users, team } = accounts(write, queue, now).await?;
            reason(gpus, users.get(&user).into_iter().chain(&team))
        }
        false => None,
    };
    if gpus > 0 || waiting.is_some() {
        write.run("UPDATE items SET gpus = $2, waiting = $3 WHERE id = $1", args![id, gpus, waiting]).await?;
    }
    Ok(())
}

/// Hands out the first item that fits; those before it are told why they wait.
pub async fn pop(write: &mut Write, queue: &Queue, agent: Option<i64>, now: Timestamp) -> Result<Option<Popped>> {
    if write.dialect() == Dialect::Postgres {
        write.all("SELECT pg_advisory_xact_lock($1)", args![POSTGRES_LOCK]).await?;
    }
    let sql = "SELECT id, user_id, gpus FROM items WHERE queue_id = $1 AND (state = 'PENDING' OR (state = 'LEASED' AND \
               leased_until <= $2)) ORDER BY rank, id LIMIT $3";
    let mut waiting = Vec::new();
    for row in write.all(sql, args![queue.id, now, LOOK_AHEAD]).await? {
        waiting.push(Waiting { item: row.get("id")?, user: row.get("user_id")?, gpus: row.get("gpus")? });
    }
    let Accounts { users, team } = accounts(write, queue, now).await?;
    let choice = choose(&waiting, &users, team.as_ref());
    for (item, reason) in &choice.held {
        let sql = "UPDATE items SET waiting = $2 WHERE id = $1 AND (waiting IS NULL OR waiting <> $2)";
        write.run(sql, args![*item, reason]).await?;
    }
    let Some(item) = choice.item else {
        return Ok(None);
    };
    let sql = "UPDATE items SET state = 'LEASED', lease = lease + 1, leased_until = $3, agent_id = $4, updated_at = $2, \
               waiting = NULL WHERE id = $1 AND (state = 'PENDING' OR (state = 'LEASED' AND leased_until <= $2)) \
               RETURNING id, lease, spec, attempt";
    let Some(row) = write.maybe(sql, args![item, now, now + LEASE, agent]).await? else {
        return Ok(None);
    };
    items::leased(write, queue, &row, now).await.map(Some)
}

struct Accounts {
    users: BTreeMap<i64, Account>,
    team: Option<Account>,
}

/// Those who have a quota, with what of theirs runs now: a user's on all queues, a team's on its own.
async fn accounts(write: &mut Write, queue: &Queue, now: Timestamp) -> Result<Accounts> {
    let sql = format!(
        "SELECT u.id, u.username AS name, q.jobs, q.gpus, COUNT(i.id) AS n, CAST(COALESCE(SUM(i.gpus), 0) AS BIGINT) AS used \
         FROM quotas q JOIN users u ON u.entity_id = q.entity_id LEFT JOIN items i ON i.user_id = u.id AND {RUNS} \
         GROUP BY u.id, u.username, q.jobs, q.gpus"
    );
    let mut users = BTreeMap::new();
    for row in write.all(sqlx::AssertSqlSafe(sql), args![now]).await? {
        users.insert(row.get("id")?, account(&row, "user")?);
    }
    let sql = format!(
        "SELECT e.name, q.jobs, q.gpus, COUNT(i.id) AS n, CAST(COALESCE(SUM(i.gpus), 0) AS BIGINT) AS used \
         FROM quotas q JOIN entities e ON e.id = q.entity_id AND e.is_team = 1 JOIN projects p ON p.entity_id = e.id \
         JOIN queues k ON k.project_id = p.id LEFT JOIN items i ON i.queue_id = k.id AND {RUNS} \
         WHERE e.id = $2 GROUP BY e.name, q.jobs, q.gpus"
    );
    let team = write.maybe(sqlx::AssertSqlSafe(sql), args![now, queue.entity_id]).await?;
    Ok(Accounts { users, team: team.map(|row| account(&row, "team")).transpose()? })
}

fn account(row: &crate::database::Row, kind: &str) -> Result<Account> {
    Ok(Account {
        name: format!("{kind} {}", row.get::<String>("name")?),
        quota: Quota { jobs: row.get("jobs")?, gpus: row.get("gpus")? },
        usage: Usage { jobs: row.get("n")?, gpus: row.get("used")? },
    })
}
