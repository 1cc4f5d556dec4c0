//! Quotas at the two moments that count: when something is submitted, and when an agent takes something.
//!
//! `plan::people::quota` decides; here the numbers are gathered and the reasons kept. A server without quotas pays one
//! look into an empty table.

use super::Queue;
use super::items::{self, Popped};
use crate::args;
use crate::database::{Dialect, Result, Value as Argument, Write, places};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use volley_plan::people::quota::{Account, Quota, Usage, Waiting, choose, reason};
use volley_plan::queue::gpus;
use volley_plan::queue::item::LEASE;

/// Items that are looked at together.
const PAGE: usize = 1000;
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
pub async fn pop(
    write: &mut Write,
    queue: &Queue,
    agent: Option<i64>,
    without: &[i64],
    now: Timestamp,
) -> Result<Option<Popped>> {
    if write.dialect() == Dialect::Postgres {
        write.all("SELECT pg_advisory_xact_lock($1)", args![POSTGRES_LOCK]).await?;
    }
    let Some(item) = first_that_fits(write, queue, without, now).await? else {
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

/// Looks past those who are at their limit, however much they have submitted.
async fn first_that_fits(write: &mut Write, queue: &Queue, without: &[i64], now: Timestamp) -> Result<Option<i64>> {
    let Accounts { users, team } = accounts(write, queue, now).await?;
    let mut held_from = BTreeMap::new();
    loop {
        let (waiting, told) = page(write, queue, now, (&held_from, without)).await?;
        let choice = choose(&waiting, &users, team.as_ref());
        tell(write, &told, &choice.held).await?;
        if choice.item.is_some() || waiting.len() < PAGE {
            return Ok(choice.item);
        }
        // Every item of a full page is held, so the next one leaves out more than this one did.
        held_from.extend(choice.held_from);
    }
}

/// The first items that wait, without those of whom it is known that they must, and the reasons that they were told.
async fn page(
    write: &mut Write,
    queue: &Queue,
    now: Timestamp,
    (held_from, without): (&BTreeMap<i64, i64>, &[i64]),
) -> Result<(Vec<Waiting>, HashMap<i64, String>)> {
    let mut users_by_gpus: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (user, gpus) in held_from {
        users_by_gpus.entry(*gpus).or_default().push(*user);
    }
    let mut args = args![queue.id, now, PAGE];
    let mut rest = String::new();
    for (gpus, users) in users_by_gpus {
        let at = args.len() + 1;
        let places = places(at + 1, users.len());
        rest += &format!(" AND NOT (gpus >= ${at} AND user_id IN ({places}))");
        args.extend(std::iter::once(gpus).chain(users).map(Argument::from));
    }
    if !without.is_empty() {
        let places = places(args.len() + 1, without.len());
        rest += &format!(" AND id NOT IN ({places})");
        args.extend(without.iter().map(|id| Argument::from(*id)));
    }
    // Two look-ups, each by its index; joined by OR they would read the queue.
    let sql = format!(
        "SELECT * FROM (SELECT id, rank, user_id, gpus, waiting FROM items WHERE queue_id = $1 AND state = 'PENDING'{rest} \
             ORDER BY rank, id LIMIT $3) AS fresh UNION ALL \
         SELECT * FROM (SELECT id, rank, user_id, gpus, waiting FROM items WHERE queue_id = $1 AND state = 'LEASED' \
             AND leased_until <= $2{rest} ORDER BY +rank, +id LIMIT $3) AS lapsed ORDER BY rank, id LIMIT $3"
    );
    let (mut waiting, mut told) = (Vec::new(), HashMap::new());
    for row in write.all(sqlx::AssertSqlSafe(sql), args).await? {
        let item = row.get("id")?;
        waiting.push(Waiting { item, user: row.get("user_id")?, gpus: row.get("gpus")? });
        if let Some(reason) = row.get::<Option<String>>("waiting")? {
            told.insert(item, reason);
        }
    }
    Ok((waiting, told))
}

/// Keeps the reasons that are new, each with one statement for all who share it.
async fn tell(write: &mut Write, told: &HashMap<i64, String>, held: &[(i64, String)]) -> Result<()> {
    let mut items_by_reason: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (item, reason) in held.iter().filter(|(item, reason)| told.get(item) != Some(reason)) {
        items_by_reason.entry(reason).or_default().push(*item);
    }
    for (reason, items) in items_by_reason {
        let places = places(2, items.len());
        let sql = format!("UPDATE items SET waiting = $1 WHERE id IN ({places})");
        let args = args![reason].into_iter().chain(items.into_iter().map(Argument::from)).collect();
        write.run(sqlx::AssertSqlSafe(sql), args).await?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;

    /// A queue of users 1 and 2, of whom the first may run nothing that needs a GPU.
    async fn queue() -> (tempfile::TempDir, Database, Queue) {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
        let mut write = database.write().await.unwrap();
        let setup = "INSERT INTO entities (id, name, is_team, created_at) VALUES (1, 'a', 0, 0), (2, 'b', 0, 0); \
                     INSERT INTO users (id, username, name, is_admin, is_service, entity_id, created_at) \
                     VALUES (1, 'a', 'a', 0, 0, 1, 0), (2, 'b', 'b', 0, 0, 2, 0); \
                     INSERT INTO projects (id, entity_id, name, folded, created_at) VALUES (1, 1, 'p', 'p', 0); \
                     INSERT INTO queues (id, project_id, name, access, mode, links, user_id, created_at, updated_at) \
                     VALUES (1, 1, 'q', 'PROJECT', 'V0', '{}', 1, 0, 0); \
                     INSERT INTO quotas (entity_id, gpus) VALUES (1, 0)";
        write.script(setup.to_owned()).await.unwrap();
        write.commit().await.unwrap();
        let queue = super::super::store::by_id(&database, 1).await.unwrap().unwrap();
        (folder, database, queue)
    }

    async fn push(write: &mut Write, user: i64, gpus: i64) -> i64 {
        let sql = "INSERT INTO items (queue_id, state, spec, template_values, priority, rank, lease, warnings, user_id, \
                   created_at, updated_at, gpus) VALUES (1, 'PENDING', '{}', '{}', 1, 1, 0, '[]', $1, 0, 0, $2) RETURNING id";
        write.one(sql, args![user, gpus]).await.unwrap().get("id").unwrap()
    }

    #[tokio::test]
    async fn who_is_over_quota_blocks_nobody_however_much_they_submit() {
        let (_folder, database, queue) = queue().await;
        let now = Timestamp::UNIX_EPOCH;
        let mut write = database.write().await.unwrap();
        for number in 0..2 * PAGE {
            push(&mut write, 1, 8 - i64::from(number >= PAGE)).await;
        }
        let small = push(&mut write, 1, 0).await;
        let of_other = push(&mut write, 2, 8).await;
        for expected in [Some(small), Some(of_other), None] {
            let popped = pop(&mut write, &queue, None, &[], now).await.unwrap();
            assert_eq!(popped.map(|popped| popped.id), expected);
        }
        let sql = "SELECT COUNT(*) AS n FROM items WHERE waiting = $1";
        let reason = "the quota of user a is 0 GPUs, and this needs 8: it can never start";
        let told: i64 = write.one(sql, args![reason]).await.unwrap().get("n").unwrap();
        assert!(told >= i64::try_from(PAGE).unwrap(), "those who wait are told why, not only {told}");
    }

    #[tokio::test]
    async fn a_lease_that_ran_out_has_its_turn_again() {
        let (_folder, database, queue) = queue().await;
        let mut write = database.write().await.unwrap();
        let (first, second) = (push(&mut write, 2, 0).await, push(&mut write, 2, 0).await);
        let later = Timestamp::UNIX_EPOCH + LEASE;
        for (now, expected) in [(Timestamp::UNIX_EPOCH, first), (later, first), (later, second)] {
            let popped = pop(&mut write, &queue, None, &[], now).await.unwrap();
            assert_eq!(popped.map(|popped| popped.id), Some(expected));
        }
    }
}
