//! Taking items: as many as there is room for, from the queues in turns.

use crate::item::Item;
use crate::runner::Failure;
use crate::shell::Shell;
use std::sync::Arc;
use std::time::Duration;
use volley_plan::agent::capacity::{Capacity, Load, turns};
use volley_plan::launch::Submission;
use volley_plan::launch::demand::{self, Amounts};

/// After a failure; what wakes the taker comes by itself otherwise.
const RETRY: Duration = Duration::from_secs(1);

impl Shell {
    /// Takes whenever somebody says that there may be something.
    pub async fn take_always(self: Arc<Self>) {
        let mut last: Option<String> = None;
        loop {
            self.taking.notified().await;
            loop {
                match self.take_round(&mut last).await {
                    Ok(true) => (),
                    Ok(false) => break,
                    Err(error) => {
                        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                        tracing::debug!(%error, cause, "nothing could be taken, will try again");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        }
    }

    /// Asks each queue once; says whether there may be more.
    async fn take_round(&self, last: &mut Option<String>) -> Result<bool, Failure> {
        let mut has_more = false;
        let queues: Vec<String> = self.queues.lock().iter().map(|queue| queue.name.clone()).collect();
        for queue in turns(&queues, last.as_deref()) {
            let (mut capacity, mut load) = self.capacity();
            let room = capacity.room(&load);
            if room == 0 {
                return Ok(false);
            }
            let taken = match self.desk.take(&queue, room).await {
                // It was deleted a moment ago, which must not keep the others from being asked.
                Err(Failure::Server(error)) if error.is_missing() => continue,
                taken => taken?,
            };
            if !taken.is_empty() {
                *last = Some(queue);
            }
            let (count, mut is_full) = (taken.len(), false);
            for item in taken {
                match self.fits(&mut capacity, &mut load, &item).await? {
                    Ok(()) => {
                        let key = self.table.put(item);
                        self.wake(&key);
                    }
                    Err(why) => {
                        tracing::info!(item = item.id, why, "does not fit here, and goes back to its queue");
                        is_full = true;
                        self.desk.release(&item).await?;
                    }
                }
            }
            // What did not fit is asked for again when something has ended.
            has_more |= count > 0 && !is_full;
        }
        Ok(has_more)
    }

    /// What is left of the agent's own limits.
    fn capacity(&self) -> (Capacity, Load) {
        let held = self.table.held();
        let schedulers = held.iter().filter(|item| item.is_scheduler()).count();
        let load = Load { jobs: held.len() - schedulers, schedulers };
        self.health.set_held(held.len());
        let mut free = self.limits.amounts.clone();
        let counted: &[Item] = if free.is_empty() { &[] } else { &held };
        for item in counted {
            for (name, amount) in self.demand_of(item) {
                if let Some(left) = free.get_mut(&name) {
                    *left = *left - amount;
                }
            }
        }
        (Capacity { jobs: self.limits.jobs, schedulers: self.limits.schedulers, free }, load)
    }

    fn demand_of(&self, item: &Item) -> Amounts {
        let entry = self.table.get(&item.key());
        let prepared = entry.and_then(|entry| entry.prepared).map(|(_, prepared)| prepared);
        prepared.and_then(|prepared| prepared.submission.as_ref().ok().map(demanded)).unwrap_or_default()
    }

    async fn fits(&self, capacity: &mut Capacity, load: &mut Load, item: &Item) -> Result<Result<(), String>, Failure> {
        let asked = match self.limits.amounts.is_empty() {
            true => Amounts::new(),
            false => self.bench.prepare(item).await?.submission.as_ref().map(demanded).unwrap_or_default(),
        };
        Ok(capacity.take(load, item.is_scheduler(), &asked))
    }
}

fn demanded(submission: &Submission) -> Amounts {
    match submission {
        Submission::Kubernetes(manifests) => demand::of(&manifests.workload),
        Submission::Container(_) | Submission::Process(_) => Amounts::new(),
    }
}
