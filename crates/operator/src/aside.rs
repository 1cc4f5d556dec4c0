//! Kinds that upstream's own controllers hold on this cluster: ours stand aside for them, and say so.
//!
//! Deployments and upstream's Leases are watched, and `plan::aside` is asked after every change, and when a Lease has
//! stood still for its time.

use crate::lead::record_of;
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use volley_plan::aside::{Renewed, held, is_upstream, lease_names};
use volley_plan::lease::{Record, USUAL, span, stands};

/// By `kind.group` (`Job.batch.volcano.sh`): who holds it, as a sentence for the log and `volley status`.
pub type Held = BTreeMap<String, String>;

/// A cluster that does not say by then, or may not, does not keep the operator from starting: it learns it when the answer
/// comes.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(15);

/// Looks for upstream's controllers, now and as they come and go.
pub async fn watch(client: Client, stop: CancellationToken) -> watch::Receiver<Held> {
    let (sender, receiver) = watch::channel(Held::new());
    let (first, looked) = oneshot::channel();
    let mut scene = Scene::new(client, sender, first);
    tokio::spawn(async move { stop.run_until_cancelled_owned(scene.run()).await });
    if timeout(FIRST_LOOK_MAX, looked).await.is_err() {
        tracing::warn!(
            "could not find out whether upstream's controllers run on this cluster; Volley drives every kind until it is known"
        );
    }
    receiver
}

const DEPLOYMENTS: &str = "deployments";

/// Namespace and name.
type Name = (String, String);

#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is used up at once")]
enum Change {
    Deployment(Event<Deployment>),
    /// Of the Lease with this name, in whichever namespace.
    Lease(&'static str, Event<Lease>),
}

/// Everything that is known of upstream.
struct Scene {
    changes: SelectAll<BoxStream<'static, watcher::Result<Change>>>,
    /// Watches that have not told all that they found, by their Lease's name or `DEPLOYMENTS`.
    unread: BTreeSet<&'static str>,
    deployments: BTreeMap<Name, Deployment>,
    /// A Lease's record, and since when it has been seen.
    leases: BTreeMap<Name, (Record, Instant)>,
    sender: watch::Sender<Held>,
    first: Option<oneshot::Sender<()>>,
}

impl Scene {
    fn new(client: Client, sender: watch::Sender<Held>, first: oneshot::Sender<()>) -> Scene {
        let mut changes = SelectAll::new();
        let deployments = watcher(Api::<Deployment>::all(client.clone()), watcher::Config::default());
        changes.push(deployments.default_backoff().map_ok(Change::Deployment).boxed());
        for name in lease_names() {
            // By name: a cluster's nodes renew a Lease each, which is nothing to us.
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let leases = watcher(Api::<Lease>::all(client.clone()), config);
            changes.push(leases.default_backoff().map_ok(move |event| Change::Lease(name, event)).boxed());
        }
        let unread = lease_names().chain([DEPLOYMENTS]).collect();
        let (deployments, leases) = (BTreeMap::new(), BTreeMap::new());
        Scene { changes, unread, deployments, leases, sender, first: Some(first) }
    }

    async fn run(&mut self) {
        loop {
            let next = self.next_expiry();
            tokio::select! {
                change = self.changes.next() => match change {
                    Some(Ok(change)) => self.take(change),
                    Some(Err(error)) => tracing::warn!("failed to watch for upstream's controllers: {error}"),
                    None => return,
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            // A list that is being read again must not look as if upstream were gone.
            if self.unread.is_empty() {
                self.report();
            }
        }
    }

    /// When the next Lease that somebody holds would have stood still for its time.
    fn next_expiry(&self) -> Option<Instant> {
        let standing = self.leases.values().filter(|(record, since)| stands(record, since.elapsed(), &USUAL));
        standing.map(|(record, since)| *since + span(record, &USUAL)).min()
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Deployment(Event::Apply(deployment) | Event::InitApply(deployment)) => {
                let name = (deployment.namespace().unwrap_or_default(), deployment.name_any());
                match is_upstream(&deployment) {
                    true => self.deployments.insert(name, deployment),
                    false => self.deployments.remove(&name),
                };
            }
            Change::Deployment(Event::Delete(deployment)) => {
                self.deployments.remove(&(deployment.namespace().unwrap_or_default(), deployment.name_any()));
            }
            // The list that follows says what is there.
            Change::Deployment(Event::Init) => {
                self.unread.insert(DEPLOYMENTS);
                self.deployments.clear();
            }
            Change::Deployment(Event::InitDone) => {
                self.unread.remove(DEPLOYMENTS);
            }
            Change::Lease(_, Event::Apply(lease) | Event::InitApply(lease)) => self.take_lease(&lease),
            Change::Lease(_, Event::Delete(lease)) => {
                self.leases.remove(&(lease.namespace().unwrap_or_default(), lease.name_any()));
            }
            Change::Lease(watched, Event::Init) => {
                self.unread.insert(watched);
                self.leases.retain(|(_, name), _| name != watched);
            }
            Change::Lease(watched, Event::InitDone) => {
                self.unread.remove(watched);
            }
        }
    }

    fn take_lease(&mut self, lease: &Lease) {
        let name = (lease.namespace().unwrap_or_default(), lease.name_any());
        let record = record_of(lease);
        let is_known = self.leases.get(&name).is_some_and(|(known, _)| *known == record);
        if !is_known {
            self.leases.insert(name, (record, Instant::now()));
        }
    }

    /// Tells what is held, if that has changed.
    fn report(&mut self) {
        let deployments: Vec<_> = self.deployments.values().cloned().collect();
        let renewed: Vec<_> = self.leases.iter().filter_map(renewed).collect();
        let now = held(&deployments, &renewed);
        self.sender.send_if_modified(|held| match *held == now {
            true => false,
            false => {
                *held = now;
                true
            }
        });
        if let Some(first) = self.first.take() {
            let _ = first.send(());
        }
    }
}

fn renewed(((namespace, name), (record, since)): (&Name, &(Record, Instant))) -> Option<Renewed> {
    let is_held = stands(record, since.elapsed(), &USUAL);
    is_held.then(|| Renewed { namespace: namespace.clone(), name: name.clone(), holder: record.holder.clone() })
}
