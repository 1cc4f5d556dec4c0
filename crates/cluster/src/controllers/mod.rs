//! The built-in controllers, the shell: what happened → `plan::control` → calls on the API.
//!
//! Reading order: `observe` (one reader of the store's events) → `index`, `route` (what is known, who must look) →
//! `queue` (whose turn it is) → the files named after what they look after → `apply`, `report` (the only writers).
//! Nothing polls: without events and due timers, no task runs.

mod facts;
mod index;
mod observe;
mod route;
mod queue;
mod apply;
pub(crate) mod report;

mod garbage;
mod namespaces;
mod workloads;
mod services;
mod volumes;
mod quotas;
mod access;
mod definitions;
mod expiry;
mod nodes;

use crate::apiserver::ApiServer;
use crate::apiserver::object::{self, Stored};
use crate::apiserver::serve::InProcess;
use apply::Synced;
use facts::parsed;
use index::Child;
use observe::{Observer, View};
use parking_lot::{Mutex, MutexGuard};
use queue::{Controller, Key, Queue};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_api::kube::selector::LabelSelector;
use volley_plan::access::User;
use volley_scheduler::policy::Source;
use volley_turns::events::Reporter;

/// Rounds at work at the same time. They mostly wait for the disk, and share its commits.
const ROUNDS_MAX: usize = 32;
/// From this many failures in a row on, a key's error is worth a line in the log: about half a second of retries.
const FAILURES_QUIET_MAX: u32 = 7;

/// What all controllers share.
pub(crate) struct Shell {
    server: Arc<ApiServer>,
    home: PathBuf,
    queue: Queue,
    observer: Observer,
    reporter: Reporter,
    /// Per ReplicaSet, what the server said when a pod could not be created.
    create_failures: Mutex<BTreeMap<Arc<str>, String>>,
    /// Per claim uid, the reason last given for its waiting.
    reported_claims: Mutex<BTreeMap<String, String>>,
    /// Nodes that pods are bound to and that do not exist, since when.
    missing_nodes: Mutex<BTreeMap<String, Instant>>,
}

/// Runs all controllers, and the scheduler with this policy, until `stop` is cancelled.
pub async fn run(server: Arc<ApiServer>, home: PathBuf, policy: Source, stop: CancellationToken) {
    let (reporter, waiting) = Reporter::new();
    let observer = Observer::new(server.clone());
    let queue = Queue::default();
    let shell = Arc::new(Shell {
        server: server.clone(),
        home,
        queue,
        observer,
        reporter,
        create_failures: Mutex::default(),
        reported_claims: Mutex::default(),
        missing_nodes: Mutex::default(),
    });
    let tasks = TaskTracker::new();
    let metrics = server.scheduling.clone();
    let scheduling =
        volley_scheduler::Options { is_only_scheduler: true, policy, metrics, ..volley_scheduler::Options::default() };
    shell.queue.add(Key::new(Controller::OwnNode, ""));
    tokio::select! {
        () = stop.cancelled() => {}
        () = watch(&shell) => {}
        () = work(&shell, &tasks) => {}
        () = report::write(server.clone(), waiting) => {}
        () = volley_scheduler::run(scheduler_client(&server), scheduling, stop.clone()) => {}
    }
    tasks.close();
    tasks.wait().await;
}

/// The scheduler meets this cluster as it meets any other, but without a socket.
fn scheduler_client(server: &Arc<ApiServer>) -> kube::Client {
    let user = User::authenticated("system:volley:scheduler", ["system:masters".to_owned()]);
    InProcess::new(server.clone(), user).client()
}

/// Takes in what happens, as it happens.
async fn watch(shell: &Shell) {
    let mut wake = None;
    loop {
        drop(shell.look());
        shell.observer.changed(&mut wake).await;
    }
}

/// Hands keys to rounds, a bounded number at a time.
async fn work(shell: &Arc<Shell>, tasks: &TaskTracker) {
    let rounds = Arc::new(Semaphore::new(ROUNDS_MAX));
    loop {
        let Ok(permit) = rounds.clone().acquire_owned().await else { return };
        let key = shell.queue.next().await;
        let shell = shell.clone();
        tasks.spawn(async move {
            let round = Round { shell: &shell, key: &key, is_over: false };
            let result = shell.sync(&key).await;
            round.end(result);
            drop(permit);
        });
    }
}

/// One visit of one key; however it ends, the queue gets the key back.
struct Round<'a> {
    shell: &'a Shell,
    key: &'a Key,
    is_over: bool,
}

impl Round<'_> {
    fn end(mut self, result: Synced) {
        self.is_over = true;
        let (queue, key) = (&self.shell.queue, self.key);
        match result {
            Ok(again) => queue.done(key, again),
            Err(error) => {
                let is_stale = matches!(error, apply::SyncError::Stale { .. });
                let (failures, delay) = queue.failed(key);
                // Once in a row is enough: what keeps failing does so for the same reason.
                if failures == FAILURES_QUIET_MAX || (failures == 1 && !is_stale) {
                    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();

                    tracing::warn!(controller = ?key.controller, key = %key.name, %error, cause, ?delay, "a controller will try again");
                }
            }
        }
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The round panicked, or the shell is stopping.
            self.shell.queue.failed(self.key);
        }
    }
}

impl Shell {
    async fn sync(&self, key: &Key) -> Synced {
        let name = &key.name;
        match key.controller {
            Controller::Garbage => self.collect_garbage().await,
            Controller::Namespace => self.sync_namespace(name).await,
            Controller::Account => self.sync_accounts(name).await,
            Controller::Job => self.sync_job(name).await,
            Controller::TrackedPod => self.sync_tracked_pod(name).await,
            Controller::CronJob => self.sync_cron_job(name).await,
            Controller::ReplicaSet => self.sync_replica_set(name).await,
            Controller::Deployment => self.sync_deployment(name).await,
            Controller::Endpoints => self.sync_endpoints(name).await,
            Controller::Budget => self.sync_budget(name).await,
            Controller::Volumes => self.sync_volumes().await,
            Controller::Quota => self.sync_quota(name).await,
            Controller::TokenSecret => self.sync_token_secret(name).await,
            Controller::ClusterRoles => self.sync_cluster_roles().await,
            Controller::Definition => self.sync_definition(name).await,
            Controller::EventExpiry => self.sync_events().await,
            Controller::OwnNode => self.sync_own_node(name).await,
            Controller::NodeTaints => self.sync_node_taints(name).await,
            Controller::PodEnd => self.sync_pod_end(name).await,
        }
    }

    /// The indexes, up to date with the store. The guard must not be held over an await.
    fn look(&self) -> MutexGuard<'_, View> {
        self.observer.look(&self.queue)
    }

    fn stored(&self, bucket: &str, key: &str) -> Option<Arc<Stored>> {
        self.server.store.get(&self.server.store.bucket(bucket), key)
    }

    fn get<T: DeserializeOwned>(&self, bucket: &str, key: &str) -> Option<T> {
        parsed(&*self.stored(bucket, key)?)
    }

    fn load<T: DeserializeOwned>(&self, bucket: &str, keys: &[Arc<str>]) -> Vec<T> {
        keys.iter().filter_map(|key| self.get(bucket, key)).collect()
    }

    fn list<T: DeserializeOwned>(&self, bucket: &str, prefix: &str) -> Vec<T> {
        let bucket = self.server.store.bucket(bucket);
        self.server.store.list(&bucket, prefix).entries.iter().filter_map(|stored| parsed(stored)).collect()
    }

    /// Objects below a prefix whose labels match; the others are not parsed.
    fn list_selected<T: DeserializeOwned>(&self, child: Child, prefix: &str, selector: &LabelSelector) -> Vec<T> {
        let bucket = self.server.store.bucket(child.bucket());
        let listing = self.server.store.list(&bucket, prefix);
        listing
            .entries
            .iter()
            .filter(|stored| self.is_selected(child, stored, selector))
            .filter_map(|s| parsed(s))
            .collect()
    }

    /// The objects that a controller may own: its children, and strays that its selector matches.
    fn family<T: DeserializeOwned>(
        &self,
        child: Child,
        (uid, namespace): (&str, &str),
        selector: Option<&LabelSelector>,
    ) -> Vec<T> {
        let (children, strays) = {
            let view = self.look();
            let strays = selector.map(|_| view.index.strays(child, namespace)).unwrap_or_default();
            (view.index.children(uid, child), strays)
        };
        let mut family = self.load(child.bucket(), &children);
        if let Some(selector) = selector {
            let found = strays.iter().filter_map(|key| self.stored(child.bucket(), key));
            family.extend(found.filter(|stored| self.is_selected(child, stored, selector)).filter_map(|s| parsed(&s)));
        }
        family
    }

    fn is_selected(&self, child: Child, stored: &Stored, selector: &LabelSelector) -> bool {
        let catalogue = self.server.catalogue();
        let (group, plural) = child.bucket().split_once('/').unwrap_or(("", child.bucket()));
        let Some(resource) = catalogue.get(group, "v1", plural) else { return false };
        let selectable = object::selectable(resource, stored);
        selector.matches_with(|label| selectable.label(label))
    }
}

/// Namespace and name of a key.
fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}
