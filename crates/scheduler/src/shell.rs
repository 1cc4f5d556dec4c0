//! The loop: news is taken in, the placement is planned, and it is carried out. Nothing polls: without news and a time that
//! a plan has named, no task runs.
//!
//! Binds and status writes are under way while the next placement is planned; what is assumed of them is in the view.

use crate::binding::{self, Failing, Part};
use crate::calls::{Calls, Refusal};
use crate::kinds::{PODS, Row};
use crate::metrics::Metrics;
use crate::pace::Told;
use crate::view::View;
use crate::watch::News;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use volley_plan::gang::objects::Key;
use volley_plan::gang::{Placement, chores, place};
use volley_turns::events::Reporter;

/// News that is taken in before the placement is looked at again, so that a stream of it cannot keep everybody waiting.
const BURST_MAX: usize = 4096;
/// Planning takes at most about half of the time of a thread: after each look there is a rest as long as it took, but no
/// longer than this.
const REST_MAX: Duration = Duration::from_millis(100);
/// Statuses are written at most this often, and what is over before then is never told: that only half of a gang's pods
/// are made is no news while the others are being made.
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// After a write that failed for no reason of the object's.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Up to so many pods and nodes a placement takes less time than handing it to another thread is worth.
const INLINE_MAX: usize = 500;
/// Binds in flight, and writes of statuses: they share the server's commits, and other clients hardly notice.
const BINDS_MAX: usize = 64;
const WRITES_MAX: usize = 16;

/// What came of something that was under way.
#[derive(Debug)]
pub enum Outcome {
    Bound(binding::Outcome),
    Wrote { row: Row, key: Key, answer: Result<Value, Refusal> },
}

pub struct Shell {
    pub view: View,
    pub calls: Calls,
    pub reporter: Arc<Reporter>,
    pub metrics: Arc<Metrics>,
    /// Whether a scheduler of Volcano's own looks after the groups whose pods are not ours.
    pub has_rival: bool,
    /// The last one, without the binds, which are under way.
    pub placement: Placement,
    pub tasks: JoinSet<Outcome>,
    pub binds: Arc<Semaphore>,
    pub writes: Arc<Semaphore>,
    /// Per gang, how many batches of binds are under way.
    pub binding: BTreeMap<Key, usize>,
    pub failing: BTreeMap<Key, Failing>,
    pub parts: BTreeMap<Key, Part>,
    /// What groups were told last.
    pub told: BTreeMap<Key, Told>,
    /// Statuses that are being written.
    pub writing: BTreeSet<(Row, Key)>,
    /// Whether something was left out because it was being written.
    pub has_left_out: bool,
    pub place_at: Option<Instant>,
    pub report_at: Option<Instant>,
    rested_at: Instant,
}

impl Shell {
    pub fn new(view: View, calls: Calls, reporter: Arc<Reporter>, metrics: Arc<Metrics>, has_rival: bool) -> Shell {
        Shell {
            view,
            calls,
            reporter,
            metrics,
            has_rival,
            placement: Placement::default(),
            tasks: JoinSet::new(),
            binds: Arc::new(Semaphore::new(BINDS_MAX)),
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
            binding: BTreeMap::new(),
            failing: BTreeMap::new(),
            parts: BTreeMap::new(),
            told: BTreeMap::new(),
            writing: BTreeSet::new(),
            has_left_out: false,
            place_at: None,
            report_at: None,
            rested_at: Instant::now(),
        }
    }

    /// Works until nobody brings news any more.
    pub async fn run(mut self, mut news: mpsc::Receiver<News>) {
        loop {
            let due = [self.place_at, self.report_at].into_iter().flatten().min();
            let is_due = async {
                match due.filter(|_| self.view.is_complete()) {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                one = news.recv() => match one {
                    Some(one) => self.take(one),
                    None => return,
                },
                Some(outcome) = self.tasks.join_next() => self.settle(outcome),
                () = is_due => {}
            }
            // What has come by now belongs to the same look.
            for _ in 0..BURST_MAX {
                let Ok(one) = news.try_recv() else { break };
                self.take(one);
            }
            while let Some(outcome) = self.tasks.try_join_next() {
                self.settle(outcome);
            }
            if self.view.is_complete() {
                self.look().await;
            }
        }
    }

    fn take(&mut self, news: News) {
        if self.view.take(news) {
            self.place_soon();
        }
    }

    /// As soon as the rest after the last look is over.
    pub fn place_soon(&mut self) {
        let at = self.rested_at.max(Instant::now());
        self.place_at = Some(self.place_at.map_or(at, |known| known.min(at)));
    }

    pub fn report_soon(&mut self) {
        let at = Instant::now() + REPORT_PAUSE;
        self.report_at = Some(self.report_at.map_or(at, |known| known.min(at)));
    }

    fn settle(&mut self, outcome: Result<Outcome, JoinError>) {
        match outcome {
            Ok(Outcome::Bound(outcome)) => self.settle_binds(outcome),
            Ok(Outcome::Wrote { row, key, answer }) => self.settle_write(row, key, answer),
            // A task of ours does not end but by a fault; then everything is observed anew.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => self.place_soon(),
            },
        }
    }

    fn settle_write(&mut self, row: Row, key: Key, answer: Result<Value, Refusal>) {
        if answer.is_err() {
            // Nobody was told, nor heard of an event.
            match (row == PODS, self.view.pending.get_mut(&key)) {
                (true, Some(pending)) => pending.told = None,
                _ => drop(self.told.remove(&key)),
            }
        }
        match answer {
            Ok(object) if self.view.learn(row, &object) => self.place_soon(),
            Ok(_) => {}
            // What is true of it now is told after the news of it, which is under way.
            Err(refusal) if refusal.is_stale() => self.report_soon(),
            Err(refusal) => {
                tracing::debug!(%key, words = refusal.words, "a status was not written, will try again");
                let at = Instant::now() + RETRY_PAUSE;
                self.report_at = Some(self.report_at.map_or(at, |known| known.min(at)));
                // A gang that was not let in is let in by the next placement.
                self.place_at = Some(self.place_at.map_or(at, |known| known.min(at)));
            }
        }
        self.writing.remove(&(row, key));
        if std::mem::take(&mut self.has_left_out) {
            self.report_soon();
        }
    }

    /// Does what is due.
    async fn look(&mut self) {
        let now = Instant::now();
        if self.place_at.is_some_and(|at| at <= now) {
            self.turn().await;
        }
        if self.report_at.is_some_and(|at| at <= Instant::now()) {
            self.report_at = None;
            self.report();
        }
    }

    async fn turn(&mut self) {
        self.place_at = None;
        let (began, now) = (Instant::now(), Timestamp::now());
        self.view.snapshot.resting = self.resting();
        let mut placement = self.decide(now).await;
        let took = began.elapsed();
        let pods = placement.waiting.values().map(|waiting| waiting.pods).sum();
        self.metrics.decided(took, (placement.waiting.len(), pods));
        self.admit(&placement.admit);
        self.bind(&mut placement);
        let has_evicted = self.evict(&placement).await;
        self.rested_at = Instant::now() + took.min(REST_MAX);
        let second = chores::next_look(&self.view.snapshot, &placement, now.as_second());
        let after = second.and_then(|second| u64::try_from(second - now.as_second()).ok());
        let named = after.map(|after| Instant::now() + Duration::from_secs(after));
        let rested = self.failing.values().filter_map(|failing| failing.rests_until);
        let given_back = self.parts.values().map(|part| part.until);
        self.place_at = self.place_at.into_iter().chain(named).chain(rested).chain(given_back).min();
        self.placement = placement;
        // Pods for which room is being made are told so at once: that keeps it for them.
        self.report_at = if has_evicted { Some(Instant::now()) } else { self.report_at };
        self.report_soon();
    }

    async fn decide(&mut self, now: Timestamp) -> Placement {
        let snapshot = &mut self.view.snapshot;
        if snapshot.pods.len() + snapshot.nodes.len() <= INLINE_MAX {
            return place(snapshot, now);
        }
        let mut moved = std::mem::take(snapshot);
        let planned = tokio::task::spawn_blocking(move || {
            let placement = place(&mut moved, now);
            (moved, placement)
        });
        match planned.await {
            Ok((moved, placement)) => {
                self.view.snapshot = moved;
                placement
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The process is about to end.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// The group's gang has pods of ours, or nobody else looks after it.
    pub fn is_group_ours(&self, key: &Key) -> bool {
        let gangs = &self.view.snapshot.gangs;
        !self.has_rival || gangs.find(key).is_some_and(|gang| !gangs[gang].members.is_empty())
    }

    pub fn pending(&self, key: &Key, uid: &str) -> Option<&crate::view::Pending> {
        self.view.pending.get(key).filter(|pending| pending.object["metadata"]["uid"] == uid)
    }

    /// Takes in what is left of a pod that was deleted, or that it is gone.
    pub fn learn_pod(&mut self, object: &Value) {
        let _no_group = self.view.learn(PODS, object);
    }
}

/// A shell that nobody answers.
#[cfg(test)]
pub fn lonely(has_rival: bool) -> Shell {
    use volley_plan::gang::policy::Policy;
    use volley_plan::gang::snapshot::Snapshot;
    let snapshot = Snapshot::new(Policy::default(), &["volcano"], &[]);
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("it is an address"));
    let client = kube::Client::try_from(config).expect("it names no files");
    let reporter = Arc::new(Reporter::new().0);
    Shell::new(
        View::new(snapshot, crate::realm::Realm::default()),
        Calls::new(client),
        reporter,
        Arc::default(),
        has_rival,
    )
}
