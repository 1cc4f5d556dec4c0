//! What all loops of the agent share, and the loop of visits: a change makes keys, a key is visited, a visit is
//! observe → plan → apply → report.

use crate::OnStop;
use crate::attempt::Bench;
use crate::build::Builds;
use crate::console::Consoles;
use crate::container::ContainerRunner;
use crate::desk::Desk;
use crate::folder::Folder;
use crate::health::Health;
use crate::item::Table;
use crate::kube::KubeRunner;
use crate::process::ProcessRunner;
use crate::runner::Failure;
use crate::take::Aside;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use volley_plan::agent::capacity::Limit;
use volley_plan::agent::life::Timers;
use volley_plan::agent::serving::{Served, Wanted};
use volley_plan::launch::demand::Amounts;
use volley_turns::queue::{self, Queue};

/// Items looked at side by side; the visits mostly wait for the cluster and the server.
const VISITS_MAX: usize = 64;
/// From this many failures in a row on, a visit's error is worth a line in the log: about half a second of retries.
const FAILURES_QUIET_MAX: u32 = 7;

/// How often an agent that leaves looks at what it still has.
const LEAVING_ROUND: Duration = Duration::from_millis(200);

/// An item's key, as the labels have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

impl queue::Key for Key {
    type Lane = ();

    fn lane(&self) {}
}

/// How many and how much this agent may run.
#[derive(Debug, Clone)]
pub struct Limits {
    pub jobs: Limit,
    pub schedulers: Limit,
    /// What it may use of the cluster, where that is less than all.
    pub amounts: Amounts,
}

pub struct Shell {
    pub agent: String,
    pub entity: String,
    pub wanted: Wanted,
    /// Those that it takes from.
    pub queues: Mutex<Vec<Served>>,
    /// What the server was told last of them, by id.
    pub told_queues: Mutex<Option<Vec<String>>>,
    pub bench: Bench,
    pub builds: Arc<Builds>,
    pub desk: Desk,
    pub table: Arc<Table>,
    pub keys: Arc<Queue<Key>>,
    pub kube: Arc<KubeRunner>,
    pub process: Arc<ProcessRunner>,
    pub container: Arc<ContainerRunner>,
    pub consoles: Consoles,
    pub limits: Limits,
    pub timers: Timers,
    /// There may be something to take, or room for it.
    pub taking: Notify,
    pub aside: Mutex<Aside>,
    /// It takes nothing more, neither from queues nor from other agents.
    pub is_leaving: AtomicBool,
    pub health: Arc<Health>,
    /// What the server was told last of the agent itself; nothing at first, as it may still have its last goodbye.
    pub status: Mutex<&'static str>,
    /// Nobody else uses it while this lives.
    pub _folder: Folder,
}

impl Shell {
    /// Asks for a look at an item.
    pub fn wake(&self, key: &str) {
        self.keys.add(Key(key.to_owned()));
    }

    /// Waits for the work that it has, or ends it first, as far as it was told so (L-33).
    pub async fn leave(&self, on_stop: OnStop) {
        if on_stop == OnStop::Detach {
            return;
        }
        self.is_leaving.store(true, Ordering::Relaxed);
        let mut told = None;
        loop {
            let held = self.table.held();
            if held.is_empty() {
                return;
            }
            if on_stop == OnStop::Kill {
                // Again and again: what the server says of an item meanwhile takes the word's place.
                held.iter().for_each(|item| self.stop_item(&item.key()));
            }
            if told.replace(held.len()) != Some(held.len()) {
                tracing::info!(items = held.len(), "takes nothing more, and waits for what it has");
            }
            tokio::time::sleep(LEAVING_ROUND).await;
        }
    }

    /// Hands keys to visits, a bounded number at a time.
    pub async fn work(self: Arc<Self>) {
        let permits = Arc::new(Semaphore::new(VISITS_MAX));
        let mut visits = JoinSet::new();
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while visits.try_join_next().is_some() {}
            let key = self.keys.next().await;
            let shell = self.clone();
            visits.spawn(async move {
                let visit = Visit { shell: &shell, key: &key, is_over: false };
                let result = shell.visit(&key.0).await;
                visit.end(result);
                drop(permit);
            });
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
    fn end(mut self, result: Result<Option<Duration>, Failure>) {
        self.is_over = true;
        let error = match result {
            Ok(again) => return self.shell.keys.done(self.key, again),
            Err(error) => error,
        };
        let (failures, delay) = self.shell.keys.failed(self.key);
        if failures == 1 || failures == FAILURES_QUIET_MAX {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let item = self.shell.table.get(&self.key.0).map(|entry| entry.item.id).unwrap_or_default();
            tracing::warn!(item, %error, cause, ?delay, "will try again");
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The visit panicked, or the agent is stopping.
            self.shell.keys.failed(self.key);
        }
    }
}
