//! How a queue was used, for its monitor: over time, and by person. `plan::queue::load` counts.
//!
//! None of this is in W&B's schema; its clients do not ask for it.

use crate::args;
use crate::database::{Database, Row};
use crate::fault::Result;
use crate::graphql::scalars::DateTime;
use async_graphql::SimpleObject;
use jiff::{SignedDuration, Timestamp};
use volley_plan::queue::load::{Share, Stay, by_person, over_time};

/// The newest so many items are counted; a chart of more would say the same.
const STAYS_MAX: usize = 50_000;
/// A chart has fewer points than a screen has columns.
const POINTS_MAX: usize = 500;
const POINTS_DEFAULT: usize = 96;
const SECOND: f64 = 1e6;

#[derive(SimpleObject)]
pub struct RunQueueLoad {
    over_time: Vec<RunQueueLoadPoint>,
    people: Vec<RunQueueShare>,
}

/// The most at once, from this time to that of the next point.
#[derive(SimpleObject)]
pub struct RunQueueLoadPoint {
    at: DateTime,
    waiting: i32,
    running: i32,
    gpus: i32,
}

/// What one person had of it.
#[derive(SimpleObject)]
pub struct RunQueueShare {
    username: String,
    submitted: i32,
    waiting: i32,
    running: i32,
    failed: i32,
    wait_seconds: Option<f64>,
    run_seconds: f64,
    gpu_seconds: f64,
}

/// What is asked for: the last hours, in so many points.
pub struct Window {
    pub hours: Option<i32>,
    pub points: Option<i32>,
}

pub async fn load(database: &Database, queue: i64, window: Window, now: Timestamp) -> Result<RunQueueLoad> {
    let hours = window.hours.unwrap_or(24 * 7).clamp(1, 24 * 366);
    let since = now - SignedDuration::from_hours(i64::from(hours));
    let points = window.points.and_then(|points| usize::try_from(points).ok()).unwrap_or(POINTS_DEFAULT);
    let stays = stays(database, queue, since).await?;
    // A queue that is younger than the time begins with its first item.
    let first = stays.iter().map(|stay| stay.created).min().unwrap_or(0).max(since.as_microsecond());
    let now = now.as_microsecond();
    let count = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
    let points =
        over_time(&stays, first, now, points.clamp(2, POINTS_MAX)).into_iter().map(|point| RunQueueLoadPoint {
            at: DateTime(point.at),
            waiting: count(point.waiting),
            running: count(point.running),
            gpus: count(point.gpus),
        });
    Ok(RunQueueLoad { over_time: points.collect(), people: by_person(&stays, now).into_iter().map(share).collect() })
}

fn share(share: Share) -> RunQueueShare {
    let count = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
    RunQueueShare {
        username: share.user,
        submitted: count(share.submitted),
        waiting: count(share.waiting),
        running: count(share.running),
        failed: count(share.failed),
        wait_seconds: share.wait_p50.map(|wait| wait as f64 / SECOND),
        run_seconds: share.ran as f64 / SECOND,
        gpu_seconds: share.gpu_time as f64 / SECOND,
    }
}

/// What was in the queue at any time since then.
async fn stays(database: &Database, queue: i64, since: Timestamp) -> Result<Vec<Stay>> {
    let sql = "SELECT u.username, i.gpus, i.created_at, i.started_at, i.ended_at, i.state FROM items i \
               JOIN users u ON u.id = i.user_id WHERE i.queue_id = $1 AND (i.ended_at IS NULL OR i.ended_at >= $2) \
               ORDER BY i.id DESC LIMIT $3";
    let stay = |row: &Row| -> Result<Stay> {
        Ok(Stay {
            user: row.get("username")?,
            gpus: row.get("gpus")?,
            created: row.get("created_at")?,
            started: row.get("started_at")?,
            ended: row.get("ended_at")?,
            has_failed: row.get::<String>("state")? == "FAILED",
        })
    };
    database.all(sql, args![queue, since, STAYS_MAX]).await?.iter().map(stay).collect()
}
