//! Electors against an API server, in this process or named as `jobs/place.rs` says: whatever happens to them, at most one
//! leads at a time.
//!
//! All run on one thread. Its timers fire in order, so a machine that stalls cannot make a holder late in noticing that
//! its time is over; what is asserted of the order of things does not depend on how fast they are.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it finds its world broken")]

#[path = "jobs/place.rs"]
mod place;

use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use place::{PATIENCE, Place};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use volley_operator::health::Health;
use volley_operator::lead::{Election, Leadership, lead};
use volley_plan::lease::Timing;

const NAME: &str = "volley-operator";
/// Like the usual ones, but quicker.
const QUICK: Timing = Timing {
    lease: Duration::from_secs(2),
    renew_deadline: Duration::from_millis(1300),
    retry: Duration::from_millis(100),
};
/// Times under which nobody ever loses a Lease by being slow.
const SLOW: Timing = Timing {
    lease: Duration::from_secs(600),
    renew_deadline: Duration::from_secs(300),
    retry: Duration::from_millis(50),
};

struct World {
    place: Place,
    namespace: String,
}

impl World {
    async fn new() -> World {
        let place = Place::find().await;
        World { namespace: place.namespace().await, place }
    }

    fn client(&self) -> Client {
        self.place.client("test")
    }

    fn election(&self, identity: &str) -> Election {
        Election {
            namespace: self.namespace.clone(),
            name: NAME.to_owned(),
            identity: identity.to_owned(),
            timing: SLOW,
        }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client(), &self.namespace)
    }

    async fn holder(&self) -> (String, i32) {
        let spec = self.leases().get(NAME).await.unwrap().spec.unwrap();
        (spec.holder_identity.unwrap(), spec.lease_transitions.unwrap())
    }
}

async fn lead_timed(client: Client, election: Election, timing: Timing, stop: CancellationToken) -> Option<Leadership> {
    lead(client, Election { timing, ..election }, &Health::default(), stop).await
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it happens in time")
}

/// A client whose line can be cut.
#[derive(Clone)]
struct Line {
    client: Client,
    is_cut: Arc<AtomicBool>,
}

impl tower::Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = kube::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let line = self.clone();
        Box::pin(async move {
            if line.is_cut.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            line.client.send(request).await
        })
    }
}

/// Counts who leads, and tells who came to lead.
#[derive(Clone)]
struct Stage {
    leaders: Arc<AtomicUsize>,
    entered: mpsc::UnboundedSender<String>,
}

impl Stage {
    fn new() -> (Stage, mpsc::UnboundedReceiver<String>) {
        let (entered, told) = mpsc::unbounded_channel();
        (Stage { leaders: Arc::default(), entered }, told)
    }

    /// Runs for election again and again until `stop`, and ends as `exit` says.
    async fn run(self, client: Client, election: Election, timing: Timing, stop: CancellationToken) {
        let identity = election.identity.clone();
        while let Some(leadership) = lead_timed(client.clone(), election.clone(), timing, stop.clone()).await {
            assert_eq!(self.leaders.fetch_add(1, Ordering::SeqCst), 0, "{identity} leads beside another");
            let _ = self.entered.send(identity.clone());
            let lost = stop.run_until_cancelled(leadership.lost.cancelled()).await;
            self.leaders.fetch_sub(1, Ordering::SeqCst);
            if lost.is_none() {
                return leadership.resign().await;
            }
        }
    }
}

#[tokio::test]
async fn a_lease_says_who_leads_as_other_controllers_write_it() {
    let world = World::new().await;
    let leadership =
        soon(lead_timed(world.client(), world.election("a"), SLOW, CancellationToken::new())).await.unwrap();
    assert_eq!(world.holder().await, ("a".to_owned(), 0));
    let first = world.leases().get(NAME).await.unwrap().spec.unwrap();
    assert_eq!(first.lease_duration_seconds, Some(600));
    soon(async {
        while world.leases().get(NAME).await.unwrap().spec.unwrap().renew_time == first.renew_time {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(world.leases().get(NAME).await.unwrap().spec.unwrap().acquire_time, first.acquire_time);
    assert!(!leadership.lost.is_cancelled());
    leadership.resign().await;
    assert_eq!(world.holder().await, (String::new(), 0));
    world.place.leave().await;
}

#[tokio::test]
async fn whoever_comes_back_under_its_old_name_leads_at_once() {
    let world = World::new().await;
    let never = CancellationToken::new();
    // As a process that is killed: the Lease stands for ten minutes more.
    drop(soon(lead_timed(world.client(), world.election("home"), SLOW, never.clone())).await.unwrap());
    let again = soon(lead_timed(world.client(), world.election("home"), SLOW, never)).await.unwrap();
    assert_eq!(world.holder().await, ("home".to_owned(), 0));
    again.resign().await;
    world.place.leave().await;
}

#[tokio::test]
async fn the_namespace_of_the_lease_is_made_where_it_is_missing() {
    let world = World::new().await;
    let namespace = format!("{}-new", world.namespace);
    let election = Election { namespace: namespace.clone(), ..world.election("a") };
    let leadership = soon(lead_timed(world.client(), election, SLOW, CancellationToken::new())).await.unwrap();
    assert!(Api::<Lease>::namespaced(world.client(), &namespace).get_opt(NAME).await.unwrap().is_some());
    leadership.resign().await;
    Api::<Namespace>::all(world.client()).delete(&namespace, &DeleteParams::default()).await.unwrap();
    world.place.leave().await;
}

#[tokio::test]
async fn resigning_hands_over_at_once() {
    let world = World::new().await;
    let never = CancellationToken::new();
    let first = soon(lead_timed(world.client(), world.election("a"), SLOW, never.clone())).await.unwrap();
    let second = tokio::spawn(lead_timed(world.client(), world.election("b"), SLOW, never));
    assert!(!first.lost.is_cancelled() && !second.is_finished());
    let lost = first.lost.clone();
    first.resign().await;
    assert!(lost.is_cancelled());
    // Far sooner than the ten minutes for which the Lease was held.
    let second: Leadership = soon(second).await.unwrap().unwrap();
    assert_eq!(world.holder().await, ("b".to_owned(), 1));
    second.resign().await;
    world.place.leave().await;
}

#[tokio::test]
async fn a_holder_that_vanishes_is_followed_by_exactly_one() {
    let world = World::new().await;
    let stop = CancellationToken::new();
    let vanishing = soon(lead_timed(world.client(), world.election("gone"), QUICK, stop.clone())).await.unwrap();
    let (stage, mut told) = Stage::new();
    let runs: Vec<_> = ["b", "c"]
        .map(|name| tokio::spawn(stage.clone().run(world.client(), world.election(name), QUICK, stop.clone())))
        .into();
    // As a process that is killed: it renews no more, and does not resign.
    drop(vanishing);
    let winner = soon(told.recv()).await.unwrap();
    assert!(["b", "c"].contains(&winner.as_str()));
    stop.cancel();
    for run in runs {
        soon(run).await.unwrap();
    }
    assert_eq!(world.holder().await.0, "");
    world.place.leave().await;
}

#[tokio::test]
async fn a_holder_that_cannot_renew_stops_before_another_starts() {
    let world = World::new().await;
    let stop = CancellationToken::new();
    let (stage, mut told) = Stage::new();
    let mut lines = Vec::new();
    let mut runs = Vec::new();
    for name in ["a", "b", "c"] {
        let line = Line { client: world.client(), is_cut: Arc::default() };
        let client = Client::new(line.clone(), "default");
        lines.push((name.to_owned(), line));
        runs.push(tokio::spawn(stage.clone().run(client, world.election(name), QUICK, stop.clone())));
    }
    // Each time the leader is cut off, and comes back when another leads.
    for _ in 0..3 {
        let leader = soon(told.recv()).await.unwrap();
        for (name, line) in &lines {
            line.is_cut.store(*name == leader, Ordering::SeqCst);
        }
    }
    for (_, line) in &lines {
        line.is_cut.store(false, Ordering::SeqCst);
    }
    stop.cancel();
    for run in runs {
        soon(run).await.unwrap();
    }
    world.place.leave().await;
}

#[tokio::test]
async fn a_lease_that_another_has_taken_is_lost() {
    let world = World::new().await;
    let leadership =
        soon(lead_timed(world.client(), world.election("a"), SLOW, CancellationToken::new())).await.unwrap();
    let patch = Patch::Merge(serde_json::json!({ "spec": { "holderIdentity": "thief" } }));
    world.leases().patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    soon(leadership.lost.cancelled()).await;
    leadership.resign().await;
    assert_eq!(world.holder().await.0, "thief", "who does not hold the Lease has nothing to resign");
    world.place.leave().await;
}

#[tokio::test]
async fn waiting_ends_when_it_is_told_to_stop() {
    let world = World::new().await;
    let stop = CancellationToken::new();
    let leadership = soon(lead_timed(world.client(), world.election("a"), SLOW, stop.clone())).await.unwrap();
    let waiting = tokio::spawn(lead_timed(world.client(), world.election("b"), SLOW, stop.clone()));
    stop.cancel();
    assert!(soon(waiting).await.unwrap().is_none());
    assert!(!leadership.lost.is_cancelled(), "the wait was stopped, not the one who leads");
    leadership.resign().await;
    world.place.leave().await;
}
