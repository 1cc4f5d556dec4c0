//! The line of a queue: who is next, why each waits, and when it may start.

use super::{Queue, items};
use crate::database::{Database, Result};
use crate::{agent, args, ids};
use async_graphql::{ID, SimpleObject};
use jiff::{SignedDuration, Timestamp};
use volley_plan::queue::wait;

/// Starts that say how fast a queue goes; older ones say less.
const STARTS_MAX: i64 = 200;

/// How fast a queue goes, from what began in its last hour.
pub struct Line {
    queue: String,
    is_served: bool,
    held: i64,
    running_max: Option<i64>,
    starts: i64,
    /// How long something waited meanwhile.
    waited_s: i64,
}

impl Line {
    pub async fn read(database: &Database, queue: &Queue, now: Timestamp) -> Result<Line> {
        let since = now - SignedDuration::from_hours(1);
        let sql = "SELECT created_at, started_at FROM items WHERE queue_id = $1 AND started_at > $2 \
                   ORDER BY started_at DESC LIMIT $3";
        let mut waits: Vec<(i64, i64)> = Vec::new();
        for row in database.all(sql, args![queue.id, since, STARTS_MAX]).await? {
            waits.push((row.get("created_at")?, row.get("started_at")?));
        }
        let starts = i64::try_from(waits.len()).unwrap_or(i64::MAX);
        let began = waits.last().map_or(0, |(_, first)| *first);
        let sql = "SELECT MIN(created_at) AS oldest FROM items WHERE queue_id = $1 AND state = 'PENDING'";
        let row = database.maybe(sql, args![queue.id]).await?;
        let oldest: Option<i64> = row.map_or(Ok(None), |row| row.get("oldest"))?;
        waits.extend(oldest.map(|oldest| (oldest, now.as_microsecond())));
        // What waited before the first of these starts was before their time.
        let waits = waits.into_iter().map(|(from, to)| (from.max(began), to)).collect();
        let sql = "SELECT COUNT(*) AS n FROM items WHERE queue_id = $1 AND state IN ('LEASED', 'CLAIMED', 'RUNNING')";
        let row = database.maybe(sql, args![queue.id]).await?;
        Ok(Line {
            queue: queue.name.clone(),
            is_served: agent::store::is_queue_served(database, queue.id, now).await?,
            held: row.map_or(Ok(0), |row| row.get("n"))?,
            running_max: queue.limits.running_max,
            starts,
            waited_s: wait::waited(waits) / 1_000_000,
        })
    }

    /// What it waits for, with so many before it; `noted` is what was seen when it was last looked at.
    pub fn reason(&self, before: i64, noted: Option<&str>) -> String {
        let Line { queue, is_served, held, running_max, .. } = self;
        let (is_served, held, running_max) = (*is_served, *held, *running_max);
        wait::reason(&wait::Facts { queue, before, is_served, held, running_max, noted })
    }

    /// Nothing starts without an agent.
    pub fn estimate_s(&self, before: i64) -> Option<i64> {
        wait::estimate_s(before, self.starts, self.waited_s).filter(|_| self.is_served)
    }
}

/// Where an item stands in its queue. Not in W&B's schema.
#[derive(SimpleObject)]
pub struct RunQueuePlace {
    pub item_id: ID,
    /// The next one is 1.
    place: i32,
    /// What it waits for, in one sentence.
    pub reason: String,
    /// If the queue goes on as it did in the last hour; nothing if it hardly moved.
    starts_in_seconds: Option<i32>,
}

/// The first of those that wait, in their order.
pub async fn places(
    database: &Database,
    queue: &Queue,
    limit: usize,
    now: Timestamp,
) -> crate::fault::Result<Vec<RunQueuePlace>> {
    let line = Line::read(database, queue, now).await?;
    let place = |(before, (id, noted)): (i64, (i64, Option<String>))| RunQueuePlace {
        item_id: ids::encode("RunQueueItem", id),
        place: i32::try_from(before + 1).unwrap_or(i32::MAX),
        reason: line.reason(before, noted.as_deref()),
        starts_in_seconds: line.estimate_s(before).map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX)),
    };
    let waiting = items::waiting(database, queue.id, limit).await?;
    Ok((0..).zip(waiting).map(place).collect())
}
