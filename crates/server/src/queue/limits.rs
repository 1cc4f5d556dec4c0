//! How much of a queue's work there may be at once, and what its waits and durations come to.
//!
//! None of this is in W&B's schema; its clients do not ask for it.

use super::graphql::RunQueue;
use super::{Queue, store};
use crate::args;
use crate::database::{self, Database, Write};
use crate::events;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::queue;
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::{SignedDuration, Timestamp};
use volley_plan::people::Deed;
use volley_plan::queue::limits::{Limits, rank};

/// What agents have; a lease that ran out is nobody's.
const HELD: &str = "SELECT COUNT(*) AS n FROM items WHERE queue_id = $1 AND \
    (state IN ('CLAIMED', 'RUNNING') OR (state = 'LEASED' AND leased_until > $2))";
const WAITING: &str = "SELECT COUNT(*) AS n FROM items WHERE queue_id = $1 AND state = 'PENDING'";

/// Whether one more item may be handed out; the queue is locked until the transaction ends.
pub async fn is_room_to_run(write: &mut Write, queue: &Queue, now: Timestamp) -> database::Result<bool> {
    if queue.limits.running_max.is_none() {
        return Ok(true);
    }
    store::lock(write, queue.id).await?;
    let held = write.one(HELD, args![queue.id, now]).await?.get("n")?;
    Ok(queue.limits.is_room_to_run(held))
}

pub async fn is_room_to_wait(write: &mut Write, queue: &Queue) -> database::Result<bool> {
    if queue.limits.pending_max.is_none() {
        return Ok(true);
    }
    store::lock(write, queue.id).await?;
    let waiting = write.one(WAITING, args![queue.id]).await?.get("n")?;
    Ok(queue.limits.is_room_to_wait(waiting))
}

/// Nothing is no limit.
#[derive(SimpleObject)]
pub struct RunQueueLimits {
    running_max: Option<i32>,
    pending_max: Option<i32>,
}

impl From<Limits> for RunQueueLimits {
    fn from(limits: Limits) -> RunQueueLimits {
        let told = |limit: Option<i64>| limit.and_then(|limit| i32::try_from(limit).ok());
        RunQueueLimits { running_max: told(limits.running_max), pending_max: told(limits.pending_max) }
    }
}

#[derive(InputObject)]
pub struct UpdateRunQueueLimitsInput {
    #[graphql(name = "queueID")]
    queue_id: ID,
    running_max: Option<i32>,
    pending_max: Option<i32>,
}

#[derive(SimpleObject)]
pub struct UpdateRunQueueLimitsPayload {
    queue: Option<RunQueue>,
}

#[derive(Default)]
pub struct QueueLimitMutation;

#[Object]
impl QueueLimitMutation {
    /// Replaces both limits; one that is left out is lifted.
    async fn update_run_queue_limits(
        &self,
        ctx: &Context<'_>,
        input: UpdateRunQueueLimitsInput,
    ) -> Result<Option<UpdateRunQueueLimitsPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let found = queue::expect_id(shared, caller, Deed::ManageQueue, &input.queue_id).await?;
        if [input.running_max, input.pending_max].into_iter().flatten().any(|limit| limit < 0) {
            return Err(Fault::bad("a limit is a number from 0 on; hint: leave it out to have none"));
        }
        let limits =
            Limits { running_max: input.running_max.map(i64::from), pending_max: input.pending_max.map(i64::from) };
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        store::set_limits(&mut write, found.id, limits, now).await?;
        events::audit(&mut write, caller, "queue.limits", &found.name, now).await?;
        write.commit().await?;
        let queue = store::by_id(&shared.database, found.id).await?.map(RunQueue);
        Ok(Some(UpdateRunQueueLimitsPayload { queue }))
    }
}

/// What a queue came to in some hours.
#[derive(SimpleObject)]
pub struct RunQueueStatistics {
    pending: i32,
    leased: i32,
    claimed: i32,
    running: i32,
    finished: i32,
    failed: i32,
    /// How long the item that waits longest has waited.
    oldest_pending_seconds: Option<f64>,
    /// From submitting to when an agent began.
    wait_seconds: Percentiles,
    /// From when an agent began to the end.
    duration_seconds: Percentiles,
    /// GPUs that were asked for, times how long the work took, for each who submitted some.
    gpu_seconds_by_user: Vec<UserGpuSeconds>,
}

#[derive(SimpleObject)]
pub struct UserGpuSeconds {
    username: String,
    seconds: f64,
}

#[derive(SimpleObject)]
pub struct Percentiles {
    count: i32,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
}

const SECOND: f64 = 1e6;

pub async fn statistics(database: &Database, queue: i64, hours: i32, now: Timestamp) -> Result<RunQueueStatistics> {
    let since = now - SignedDuration::from_hours(i64::from(hours.clamp(1, 24 * 366)));
    let sql = "SELECT state, COUNT(*) AS n FROM items WHERE queue_id = $1 AND (created_at >= $2 OR \
               state IN ('PENDING', 'LEASED', 'CLAIMED', 'RUNNING')) GROUP BY state";
    let rows = database.all(sql, args![queue, since]).await?;
    let mut counts = std::collections::BTreeMap::new();
    for row in &rows {
        counts.insert(row.get::<String>("state")?, row.get::<i64>("n")?);
    }
    let count = |state: &str| i32::try_from(counts.get(state).copied().unwrap_or(0)).unwrap_or(i32::MAX);
    let sql = "SELECT MIN(created_at) AS oldest FROM items WHERE queue_id = $1 AND state = 'PENDING'";
    let oldest = database.maybe(sql, args![queue]).await?.map(|row| row.get::<Option<i64>>("oldest")).transpose()?;
    let age = |at: i64| (now.as_microsecond() - at) as f64 / SECOND;
    Ok(RunQueueStatistics {
        pending: count("PENDING"),
        leased: count("LEASED"),
        claimed: count("CLAIMED"),
        running: count("RUNNING"),
        finished: count("FINISHED"),
        failed: count("FAILED"),
        oldest_pending_seconds: oldest.flatten().map(age),
        wait_seconds: percentiles(database, queue, since, ("created_at", "started_at")).await?,
        duration_seconds: percentiles(database, queue, since, ("started_at", "ended_at")).await?,
        gpu_seconds_by_user: gpu_seconds(database, queue, since, now).await?,
    })
}

async fn gpu_seconds(database: &Database, queue: i64, since: Timestamp, now: Timestamp) -> Result<Vec<UserGpuSeconds>> {
    let sql = "SELECT u.username, CAST(SUM(i.gpus * (COALESCE(i.ended_at, $3) - i.started_at)) AS BIGINT) AS used \
               FROM items i JOIN users u ON u.id = i.user_id WHERE i.queue_id = $1 AND i.created_at >= $2 AND i.gpus > 0 \
               AND i.started_at IS NOT NULL GROUP BY u.username ORDER BY u.username";
    let rows = database.all(sql, args![queue, since, now]).await?;
    let read = |row: &database::Row| -> Result<UserGpuSeconds> {
        let seconds = row.get::<i64>("used")? as f64 / SECOND;
        Ok(UserGpuSeconds { username: row.get("username")?, seconds })
    };
    rows.iter().map(read).collect()
}

async fn percentiles(
    database: &Database,
    queue: i64,
    since: Timestamp,
    (from, to): (&str, &str),
) -> Result<Percentiles> {
    let rows =
        format!("FROM items WHERE queue_id = $1 AND created_at >= $2 AND {from} IS NOT NULL AND {to} IS NOT NULL");
    let sql = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) AS n {rows}"));
    let row = database.maybe(sql, args![queue, since]).await?;
    let count: i64 = row.map_or(Ok(0), |row| row.get("n"))?;
    let mut found = [None; 3];
    for (place, percent) in found.iter_mut().zip([50, 90, 99]) {
        let Some(offset) = rank(count, percent) else {
            continue;
        };
        let sql = format!("SELECT {to} - {from} AS took {rows} ORDER BY took LIMIT 1 OFFSET $3");
        let row = database.maybe(sqlx::AssertSqlSafe(sql), args![queue, since, offset]).await?;
        *place = row.map(|row| row.get::<i64>("took")).transpose()?.map(|took| took as f64 / SECOND);
    }
    let [p50, p90, p99] = found;
    Ok(Percentiles { count: i32::try_from(count).unwrap_or(i32::MAX), p50, p90, p99 })
}
