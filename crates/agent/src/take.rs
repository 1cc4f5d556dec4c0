//! Taking items: as many as there is room for, from the queues in turns.

use crate::item::Item;
use crate::runner::Failure;
use crate::shell::Shell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use volley_plan::agent::capacity::{Capacity, Load, turns};
use volley_plan::launch::Submission;
use volley_plan::launch::demand::{self, Amounts};

/// After a failure; what wakes the taker comes by itself otherwise.
const RETRY: Duration = Duration::from_secs(1);

/// So long what did not fit is left for others, unless something here has ended.
const ASIDE: Duration = Duration::from_secs(60);
/// An agent that so much does not fit is full: it takes nothing more until something has ended.
const ASIDE_MAX: usize = 256;

/// Items that did not fit here, and since when: they wait in their queue, and are not asked for.
#[derive(Default)]
pub struct Aside(BTreeMap<String, Instant>);

impl Aside {
    fn put(&mut self, item: &str, now: Instant) {
        self.0.insert(item.to_owned(), now);
    }

    fn items(&mut self, now: Instant) -> Vec<String> {
        self.0.retain(|_, since| now.duration_since(*since) < ASIDE);
        self.0.keys().cloned().collect()
    }
}

impl Shell {
    /// Something here has ended: what did not fit may fit now.
    pub fn make_room(&self) {
        self.aside.lock().0.clear();
        self.taking.notify_one();
    }

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
            let without = self.aside.lock().items(Instant::now());
            if room == 0 || without.len() >= ASIDE_MAX || self.is_leaving.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let taken = match self.desk.take(&queue, room, &without).await {
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
                        self.aside.lock().put(&item.id, Instant::now());
                        self.desk.release(&item).await?;
                    }
                }
            }
            // Behind what did not fit there may be something that does. W&B's server would lease all of it to see.
            has_more |= count > 0 && (!is_full || self.desk.can_leave_out());
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

#[cfg(test)]
mod tests {
    use super::*;

    //
    #[test]
    fn what_did_not_fit_is_left_alone_for_a_while() {
        let (mut aside, now) = (Aside::default(), Instant::now());
        aside.put("a", now);
        aside.put("b", now + ASIDE / 2);
        assert_eq!(aside.items(now + ASIDE / 2), ["a", "b"]);
        assert_eq!(aside.items(now + ASIDE), ["b"]);
        assert!(aside.items(now + ASIDE * 2).is_empty());
    }
}
