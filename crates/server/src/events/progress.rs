//! Runs that have logged something: told at once, and then no more than once a second for each run.
//!
//! A run may post ten times a second. What it posted is noted here, and one task tells of all runs that moved in one
//! transaction. What was noted and not yet told is lost with the process; its followers come back and ask again anyway.

use super::{Event, record};
use crate::Shared;
use crate::database::Result;
use crate::run::Run;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Notify;

/// The shortest time between two events of one run.
const PAUSE: Duration = Duration::from_secs(1);
/// Runs that are told of at once; beyond it a run is told of at its next post.
const RUNS_MAX: usize = 10_000;

#[derive(Default)]
pub struct Progress {
    moved: Mutex<BTreeMap<i64, Moved>>,
    arrival: Notify,
}

/// How far a run has come.
pub struct Moved {
    run: i64,
    entity: i64,
    subject: String,
    body: Value,
}

impl Moved {
    pub fn new(run: &Run, history_lines: i64, log_lines: i64) -> Moved {
        let body = json!({ "run": run.path(), "history": history_lines, "log": log_lines });
        Moved { run: run.id, entity: run.entity_id, subject: run.global_id().to_string(), body }
    }
}

impl Progress {
    pub fn note(&self, run: Moved) {
        let mut moved = self.moved.lock();
        if moved.len() < RUNS_MAX || moved.contains_key(&run.run) {
            moved.insert(run.run, run);
            self.arrival.notify_one();
        }
    }

    /// Tells until the server stops.
    pub async fn run(&self, shared: &Shared) {
        while let Some(()) = shared.stop.run_until_cancelled(self.arrival.notified()).await {
            if let Err(error) = self.tell(shared).await {
                tracing::warn!(%error, "failed to tell how far runs have come");
            }
            shared.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }

    async fn tell(&self, shared: &Shared) -> Result<()> {
        let moved = std::mem::take(&mut *self.moved.lock());
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        for run in moved.into_values() {
            let event = Event { entity: run.entity, kind: "run.progress", subject: &run.subject, body: run.body };
            record(&mut write, event, now).await?;
        }
        write.commit().await?;
        shared.news.announce();
        Ok(())
    }
}
