//! The operator: the shell (observe, plan, apply, report) for training jobs, on any cluster that kube's client reaches.
//!
//! `run` watches each kind once (`watch`, `kinds`) into one view (`cache`). A change makes keys (`route`) that wait their
//! turn (`queue`); a visit (`shell`) gathers what `volley_plan::job` wants to see (`volcano`, `training`, `plain_pods`) and
//! carries out what it says (`apply`, `calls`, `report`). Pods are placed by `volley_scheduler`, which runs beside it. `lead` chooses one of several replicas, `aside` finds kinds that
//! upstream's controllers hold, `rate` bounds the calls, `manifests` is what a real cluster needs: definitions, roles, a Deployment.

pub mod aside;
pub mod health;
pub mod lead;
pub mod manifests;
pub mod rate;

mod cache;
mod kinds;
mod queue;
mod route;

mod shell;
mod watch;

mod plain_pods;
mod ssh_key;
mod training;
mod volcano;

mod apply;
mod calls;
mod report;

use cache::Cache;
use calls::Calls;
use health::{Health, Stage};
use kube::Client;
use lead::{Election, lead};
use queue::Queue;
use rate::Limiter;
use shell::{Readiness, Shell};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;
use volley_scheduler::policy::Source;
use volley_scheduler::realm::Realm;
use volley_turns::events::Reporter;

/// What the operator is told.
#[derive(Debug, Clone)]
pub struct Options {
    pub volcano: volley_plan::job::volcano::Settings,
    pub training: volley_plan::job::training::Settings,
    /// How one of several replicas is chosen; without it there is only this one.
    pub election: Option<Election>,
    pub rate: Rate,
    /// Objects looked at side by side; the visits mostly wait for the server.
    pub visits: usize,
    /// The only namespace that is looked at, if there is one.
    pub namespace: Option<String>,
    /// The training kinds that are looked after, in small letters; none means all.
    pub schemes: BTreeSet<String>,
    /// How pods that ask for our scheduler are placed; none means that somebody else does it.
    pub scheduler: Option<Source>,
    /// For whom, where and in which queue.
    pub realm: Realm,
    /// Where it says how it is.
    pub health: Arc<Health>,
}

/// Calls on the API: so many a second, and so many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

const VISITS_DEFAULT: usize = 16;
/// In the version of an embedded cluster.
const EMBEDDED: &str = "+volley.";
/// A large job's pods are made within a second or two, and other clients of a shared server hardly notice.
const RATE_DEFAULT: Rate = Rate { per_second: 200, burst: 400 };

impl Default for Options {
    fn default() -> Self {
        Options {
            volcano: volley_plan::job::volcano::Settings::default(),
            training: volley_plan::job::training::Settings::default(),
            election: None,
            rate: RATE_DEFAULT,
            visits: VISITS_DEFAULT,
            namespace: None,
            schemes: BTreeSet::new(),
            scheduler: Some(Source::default()),
            realm: Realm::default(),
            health: Arc::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("failed to reach the cluster's API")]
    Unreachable(#[source] Box<kube::Error>),
}

/// Looks after training jobs until `stop` is cancelled. While another replica leads, it only waits.
pub async fn run(client: Client, options: Options, stop: CancellationToken) -> Result<(), OperatorError> {
    let health = options.health.clone();
    let version = client.apiserver_version().await.map_err(|error| OperatorError::Unreachable(Box::new(error)))?;
    let mut options = options;
    options.scheduler =
        options.scheduler.filter(|_| is_ours_to_schedule(&version.git_version, options.namespace.as_deref()));
    while !stop.is_cancelled() {
        health.set(Stage::Starting);
        let Some(election) = options.election.clone() else {
            work(&client, &options, stop.clone()).await;
            continue;
        };
        let Some(leadership) = lead(client.clone(), election, &health, stop.clone()).await else { break };
        let over = leadership.lost.child_token();
        tokio::select! {
            () = stop.cancelled() => over.cancel(),
            () = work(&client, &options, over.clone()) => {}
        }
        if stop.is_cancelled() {
            leadership.resign().await;
        } else {
            tracing::warn!(
                "lost the leadership (another replica has it, or the Lease could not be renewed in time), and stands for it again"
            );
        }
    }
    health.set(Stage::Stopped);
    Ok(())
}

/// The embedded cluster places pods itself, and nobody can who sees only a part of them.
fn is_ours_to_schedule(version: &str, namespace: Option<&str>) -> bool {
    if let Some(namespace) = namespace {
        tracing::warn!(
            "pods are not placed by this operator: it looks at namespace `{namespace}` only, and nodes are shared"
        );
    }
    namespace.is_none() && !version.contains(EMBEDDED)
}

async fn schedule(client: Client, options: &Options, held: channel::Receiver<aside::Held>, stop: CancellationToken) {
    let Some(policy) = options.scheduler.clone() else { return std::future::pending().await };
    let (realm, metrics) = (options.realm.clone(), options.health.scheduling.clone());
    let options = volley_scheduler::Options { is_only_scheduler: false, policy, realm, held: Some(held), metrics };
    volley_scheduler::run(client, options, stop).await;
}

/// Leads until `over`: what is under way then is dropped, and whoever leads next sees it as it is.
async fn work(client: &Client, options: &Options, over: CancellationToken) {
    options.health.set(Stage::Starting);
    let (reporter, waiting) = Reporter::new();
    let calls = Arc::new(Calls::new(client.clone(), Limiter::new(options.rate.per_second, options.rate.burst)));
    let cache = Arc::new(Cache::default());
    let looking = over.child_token();
    let _look_ends_with_us = looking.clone().drop_guard();
    let held = tokio::select! {
        () = over.cancelled() => return,
        held = aside::watch(client.clone(), looking) => held,
    };
    let scheduling = schedule(client.clone(), options, held.clone(), over.clone());
    let shell = Arc::new(Shell {
        calls: calls.clone(),
        cache: cache.clone(),
        queue: Queue::default(),
        reporter,
        options: options.clone(),
        health: options.health.clone(),
        readiness: Readiness::default(),
        held,
        served: Default::default(),
        refusals: Default::default(),
    });
    tokio::select! {
        () = over.cancelled() => {}
        () = watch::run(shell.clone()) => {}
        () = shell.clone().work() => {}
        () = shell.mind_others() => {}
        () = report::write(calls, cache, waiting) => {}
        () = scheduling => {}
    }
}
