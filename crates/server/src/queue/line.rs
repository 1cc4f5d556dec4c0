//! The line of a queue: who is next, why each waits, and when it may start.

use super::{Queue, items};
use crate::database::{Database, Result};
use crate::{agent, args, ids};
use async_graphql::{ID, SimpleObject};
use jiff::{SignedDuration, Timestamp};
use volley_plan::queue::wait;

/// How fast a queue goes, from what began in its last hour.
pub struct Line {
    queue: String,
    is_served: bool,
    held: i64,
    running_max: Option<i64>,
    starts: i64,
    span_s: i64,
}

impl Line {
    pub async fn read(database: &Database, queue: &Queue, now: Timestamp) -> Result<Line> {
        let since = now - SignedDuration::from_hours(1);
        let sql = "SELECT COUNT(*) AS n, MIN(started_at) AS first FROM items WHERE queue_id = $1 AND started_at > $2";
        let row = database.maybe(sql, args![queue.id, since]).await?;
        let starts = row.as_ref().map_or(Ok(0), |row| row.get("n"))?;
        let first: Option<i64> = row.map_or(Ok(None), |row| row.get("first"))?;
        let sql = "SELECT COUNT(*) AS n FROM items WHERE queue_id = $1 AND state IN ('LEASED', 'CLAIMED', 'RUNNING')";
        let row = database.maybe(sql, args![queue.id]).await?;
        Ok(Line {
            queue: queue.name.clone(),
            is_served: agent::store::is_queue_served(database, queue.id, now).await?,
            held: row.map_or(Ok(0), |row| row.get("n"))?,
            running_max: queue.limits.running_max,
            starts,
            span_s: first.map_or(0, |first| now.as_microsecond() - first) / 1_000_000,
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
        wait::estimate_s(before, self.starts, self.span_s).filter(|_| self.is_served)
    }
}

/// Where an item stands in its queue. Not in W&B's schema.
#[derive(SimpleObject)]
pub struct RunQueuePlace {
    item_id: ID,
    /// The next one is 1.
    place: i32,
    /// What it waits for, in one sentence.
    reason: String,
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
