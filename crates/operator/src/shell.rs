//! What all controllers share, and the loop: a change makes keys, a key is visited, a visit is observe → plan → apply.

use crate::Options;
use crate::apply::{SyncError, Synced};
use crate::aside::Held;
use crate::cache::{Cache, Change};
use crate::calls::Calls;
use crate::health::{Health, Stage};
use crate::kinds::{KINDS, Kind, Source, own};
use crate::queue::{Key, Queue};
use crate::route;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use volley_api::volcano;
use volley_turns::events::Reporter;

/// From this many failures in a row on, a key's error is worth a line in the log: about half a second of retries.
const FAILURES_QUIET_MAX: u32 = 7;

pub struct Shell {
    pub calls: Arc<Calls>,
    pub cache: Arc<Cache>,
    pub queue: Queue,
    pub reporter: Reporter,
    pub options: Options,
    pub health: Arc<Health>,
    pub readiness: Readiness,
    pub held: watch::Receiver<Held>,
    /// The kinds that have been listed and not undefined since.
    pub served: Mutex<BTreeSet<&'static Kind>>,
    /// Per Volcano Job, how often in a row its plan was refused for good, and the last refusal.
    pub refusals: Mutex<BTreeMap<Key, (u32, String)>>,
}

/// Whether everything that there is has been listed once; nothing is decided before.
pub struct Readiness {
    state: Mutex<Awaited>,
    ready: watch::Sender<bool>,
}

#[derive(Default)]
struct Awaited {
    kinds: BTreeSet<&'static Kind>,
    has_definitions: bool,
}

impl Default for Readiness {
    fn default() -> Self {
        Readiness { state: Mutex::default(), ready: watch::channel(false).0 }
    }
}

impl Readiness {
    pub fn expect(&self, kind: &'static Kind) {
        self.state.lock().kinds.insert(kind);
    }

    pub fn note_listed(&self, kind: &'static Kind) {
        self.change(|state| {
            state.kinds.remove(kind);
        });
    }

    pub fn note_definitions(&self) {
        self.change(|state| state.has_definitions = true);
    }

    fn change(&self, change: impl FnOnce(&mut Awaited)) {
        let mut state = self.state.lock();
        change(&mut state);
        if state.has_definitions && state.kinds.is_empty() {
            self.ready.send_replace(true);
        }
    }

    async fn wait(&self) {
        // The sender lives as long as this does.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }
}

impl Shell {
    /// Takes in what an object is now, and has those look who must.
    pub fn learn(&self, kind: &'static Kind, object: Value) {
        if kind.source != Source::Asked
            && let Some(change) = self.cache.put(kind, object)
        {
            self.health.count(&change);
            route::keys(&change, &self.cache, &self.options.realm).into_iter().for_each(|key| self.queue.add(key));
        }
    }

    /// As `learn`, for an object that is gone.
    pub fn forget(&self, kind: &'static Kind, place: &str, uid: &str) {
        if let Some(change) = self.cache.remove(kind, place, uid) {
            self.health.count(&change);
            route::keys(&change, &self.cache, &self.options.realm).into_iter().for_each(|key| self.queue.add(key));
        }
    }

    /// Asks for what a kind needs beside its objects: the first queues, and groups of pods that were there before it.
    pub fn visit_kind(&self, kind: &'static Kind) {
        if kind == own::queue() {
            self.queue.add(Key { kind, namespace: String::new(), name: String::new() });
        } else if kind == own::group() {
            self.visit_all(own::pod());
        }
    }

    /// Has those look whom the objects of a kind concern.
    fn visit_all(&self, kind: &'static Kind) {
        for object in self.cache.list(kind, None) {
            let change = Change { kind, old: None, new: Some(object) };
            route::keys(&change, &self.cache, &self.options.realm).into_iter().for_each(|key| self.queue.add(key));
        }
    }

    /// Hands keys to visits, a bounded number at a time.
    pub async fn work(self: Arc<Self>) {
        self.readiness.wait().await;
        self.health.set(Stage::Working);
        let permits = Arc::new(Semaphore::new(self.options.visits));
        let mut visits = JoinSet::new();
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while visits.try_join_next().is_some() {}
            let key = self.queue.next().await;
            let shell = self.clone();
            visits.spawn(async move {
                let visit = Visit { shell: &shell, key: &key, is_over: false };
                let result = shell.sync(&key).await;
                visit.end(result);
                drop(permit);
            });
        }
    }

    async fn sync(&self, key: &Key) -> Synced {
        if self.is_held(key.kind) || !self.has_groups(key.kind) {
            return Ok(None);
        }
        match (key.kind.training, &*key.kind.resource.api_version, &*key.kind.resource.kind) {
            (Some(row), ..) => self.sync_training(row, key).await,
            (None, volcano::BATCH, "Job") => self.sync_job(key).await,
            (None, volcano::BATCH, "CronJob") => self.sync_cron(key).await,
            (None, volcano::SCHEDULING, "Queue") => self.sync_queue(key).await,
            (None, "v1", "Pod") => self.sync_plain_pod(key).await,
            _ => self.sync_owner(key).await,
        }
    }

    /// Whether somebody else's controller looks after this; groups of plain pods go with the PodGroups.
    fn is_held(&self, kind: &'static Kind) -> bool {
        let is_own = kind.source == Source::Custom;
        let kind = if is_own { kind } else { own::group() };
        self.held.borrow().contains_key(&kind.full_name())
    }

    /// Whether plain pods and their owners can have groups: a cluster may have none yet, and they wait for the definition.
    fn has_groups(&self, kind: &'static Kind) -> bool {
        kind.source == Source::Custom || self.served.lock().contains(own::group())
    }

    /// Says who holds what whenever that changes, and looks at everything again that is free now.
    pub async fn mind_others(self: Arc<Self>) {
        let mut held = self.held.clone();
        let mut before = Held::new();
        loop {
            let now = held.borrow_and_update().clone();
            for (kind, sentence) in now.iter().filter(|(kind, _)| !before.contains_key(*kind)) {
                tracing::warn!(kind, "{sentence}");
            }
            let freed: Vec<&String> = before.keys().filter(|kind| !now.contains_key(*kind)).collect();
            for kind in KINDS.iter().filter(|kind| freed.contains(&&kind.full_name())) {
                tracing::warn!(
                    kind = kind.full_name(),
                    "nobody else holds these any more, so they are looked after here"
                );
                self.visit_kind(kind);
                self.visit_all(kind);
            }
            self.health.set_held(&now);
            before = now;
            if held.changed().await.is_err() {
                // Whoever looks for others has stopped; what was found stays.
                return std::future::pending().await;
            }
        }
    }
}

/// One visit of one key; however it ends, the queue gets the key back.
struct Visit<'a> {
    shell: &'a Shell,
    key: &'a Key,
    is_over: bool,
}

impl Visit<'_> {
    fn end(mut self, result: Synced) {
        self.is_over = true;
        let (queue, key) = (&self.shell.queue, self.key);
        let error = match result {
            Ok(again) => return queue.done(key, again),
            Err(error) => error,
        };
        let (failures, delay) = queue.failed(key);
        let is_stale = matches!(error, SyncError::Stale { .. });
        // Once in a row is enough: what keeps failing does so for the same reason.
        if failures == FAILURES_QUIET_MAX || (failures == 1 && !is_stale) {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let (kind, name) = (key.kind.full_name(), format!("{}/{}", key.namespace, key.name));
            tracing::warn!(kind, name, %error, cause, ?delay, "will try again");
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The visit panicked, or the shell is stopping.
            self.shell.queue.failed(self.key);
        }
    }
}
