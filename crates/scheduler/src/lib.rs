//! The scheduler, the shell of `volley_plan::gang`: it observes what pods and nodes there are, has the placement planned, carries it
//! out and reports.
//!
//! The embedded cluster hosts it for all pods, the operator on any other cluster for those that ask for `volcano` or
//! `volley`. Reading order: `kinds`, `watch` (what is observed), `view` (what is known), `shell` (the loop), `binding`, `claims`,
//! `eviction`, `telling`, `pace`, `groups` (what it does), `calls`, `events`; `policy` is how to place and `realm` for whom, `metrics` what was done.

mod kinds;
mod watch;
mod view;
mod shell;
mod binding;
mod claims;
mod eviction;
mod telling;
mod groups;
mod pace;
mod calls;
mod events;
pub mod metrics;
pub mod policy;
pub mod realm;

use calls::Calls;
use kube::Client;
use metrics::Metrics;
use policy::Source;
use realm::Realm;
use shell::Shell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use view::View;
use volley_plan::aside;
use volley_plan::gang::policy::built_in;
use volley_plan::gang::snapshot::Snapshot;
use volley_turns::events::Reporter;

/// Pods of these are placed by group, if nobody says otherwise.
pub const GANG_SCHEDULERS: [&str; 2] = ["volcano", "volley"];
/// Pods of this are placed one by one, where there is no other scheduler.
pub const PLAIN_SCHEDULERS: [&str; 1] = ["default-scheduler"];
/// News that may wait to be taken in.
const NEWS_MAX: usize = 4096;
/// After a fault of its own the scheduler starts over, but not in a tight loop.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// By kind or `scheduler/NAME`: what others hold on this cluster.
pub type Held = BTreeMap<String, String>;

/// What the scheduler is told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether pods that ask for no scheduler of ours are placed too.
    pub is_only_scheduler: bool,
    pub policy: Source,
    pub realm: Realm,
    /// What others' schedulers hold, if somebody looks for them.
    pub held: Option<channel::Receiver<Held>>,
    pub metrics: Arc<Metrics>,
}

impl Options {
    /// The schedulers by whose names pods ask for us, without those that are here themselves.
    fn gang_schedulers(&self) -> Vec<String> {
        let held = self.held.as_ref().map(|held| held.borrow().clone()).unwrap_or_default();
        self.realm.names.iter().filter(|name| !held.contains_key(&aside::scheduler(name))).cloned().collect()
    }

    fn tell_aside(&self) {
        let Some(held) = &self.held else { return };
        for name in &self.realm.names {
            if let Some(sentence) = held.borrow().get(&aside::scheduler(name)) {
                tracing::warn!(scheduler = name, "{sentence}; pods that ask for `{name}` are left to it");
            }
        }
    }
}

/// Places pods until `stop` is cancelled.
pub async fn run(client: Client, mut options: Options, stop: CancellationToken) {
    loop {
        options.tell_aside();
        let served = options.gang_schedulers();
        let mut task = AbortOnDrop(tokio::spawn(work(client.clone(), options.clone(), served.clone())));
        tokio::select! {
            () = stop.cancelled() => return,
            () = others_changed(&mut options, &served) => {}
            ended = &mut task.0 => {
                // A panic has been logged where it happened. What is known can be observed again.
                tracing::error!(is_panic = ended.is_err(), "the scheduler stopped by a fault of its own, and starts over");
                tokio::time::sleep(RESTART_PAUSE).await;
            }
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until other names are to be served.
async fn others_changed(options: &mut Options, served: &[String]) {
    while options.gang_schedulers() == served {
        let Some(held) = &mut options.held else { return std::future::pending().await };
        if held.changed().await.is_err() {
            // Whoever looks for others has stopped; what was found stays.
            return std::future::pending().await;
        }
    }
}

async fn work(client: Client, options: Options, served: Vec<String>) {
    let plain: &[&str] = if options.is_only_scheduler { &PLAIN_SCHEDULERS } else { &[] };
    let names: Vec<&str> = served.iter().map(String::as_str).collect();
    let snapshot = Snapshot::new(built_in(), &names, plain);
    let calls = Calls::new(client.clone());
    let (reporter, waiting) = Reporter::new();
    let reporter = Arc::new(reporter);
    let (sender, news) = mpsc::channel(NEWS_MAX);
    let has_rival = served.len() < options.realm.names.len();
    let shell =
        Shell::new(View::new(snapshot, options.realm), calls.clone(), reporter.clone(), options.metrics, has_rival);
    tokio::select! {
        () = shell.run(news) => {}
        () = watch::run(client.clone(), sender.clone()) => {}
        () = policy::follow(client, options.policy, sender, reporter) => {}
        () = events::write(calls, waiting) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pods_of_a_scheduler_that_is_here_itself_are_left_to_it_while_it_is() {
        let (sender, held) = channel::channel(Held::new());
        let mut options = Options { held: Some(held), ..Options::default() };
        assert_eq!(options.gang_schedulers(), GANG_SCHEDULERS);
        sender.send_replace([(aside::scheduler("volcano"), "it is here".to_owned())].into());
        assert_eq!(options.gang_schedulers(), ["volley"]);
        others_changed(&mut options, &GANG_SCHEDULERS.map(str::to_owned)).await;
        sender.send_replace(Held::new());
        others_changed(&mut options, &["volley".to_owned()]).await;
        assert_eq!(options.gang_schedulers(), GANG_SCHEDULERS);
    }
}
