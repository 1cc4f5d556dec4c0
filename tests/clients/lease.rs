//! Leader election on a Lease, as client-go does it: GET, POST when missing, PUT with the version that was read.

use crate::support::{Running, namespace, soon};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const NAMESPACE: &str = "election";
const LEASE: &str = "leader";
/// Short, because the test waits for it; the proportions are client-go's (15 s, 10 s, 2 s).
const LEASE_MS: i64 = 1500;
const RETRY: Duration = Duration::from_millis(100);

struct Candidate {
    name: &'static str,
    api: Api<Lease>,
    /// The lease as last seen and when, by this candidate's own clock: others' clocks are not trusted.
    seen: Option<(Lease, Timestamp)>,
}

impl Candidate {
    fn new(client: Client, name: &'static str) -> Candidate {
        Candidate { name, api: Api::namespaced(client, NAMESPACE), seen: None }
    }

    fn record(&self, old: Option<&Lease>, now: Timestamp) -> Lease {
        let spec = old.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let held_before = spec.holder_identity.as_deref() == Some(self.name);
        let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(old.is_some() && !held_before);
        let acquired = if held_before { spec.acquire_time } else { Some(MicroTime(now)) };
        Lease {
            metadata: old.map_or_else(
                || ObjectMeta { name: Some(LEASE.into()), ..ObjectMeta::default() },
                |l| l.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.into()),
                lease_duration_seconds: Some(2),
                acquire_time: acquired,
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Tries once to take or to keep the lease; true when it is ours.
    async fn try_once(&mut self) -> Result<bool, kube::Error> {
        let now = Timestamp::now();
        let Some(current) = self.api.get_opt(LEASE).await? else {
            let created = self.api.create(&PostParams::default(), &self.record(None, now)).await?;
            self.seen = Some((created, now));
            return Ok(true);
        };
        if self.seen.as_ref().is_none_or(|(seen, _)| seen.spec != current.spec) {
            self.seen = Some((current.clone(), now));
        }
        let holder = current.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        let seen_at = self.seen.as_ref().map_or(now, |(_, at)| *at);
        let valid = seen_at + SignedDuration::from_millis(LEASE_MS) > now;
        if holder != self.name && !holder.is_empty() && valid {
            return Ok(false);
        }
        let updated = self.api.replace(LEASE, &PostParams::default(), &self.record(Some(&current), now)).await?;
        self.seen = Some((updated, now));
        Ok(true)
    }
}

/// Leads while it can; counts how many lead at once.
async fn run(
    mut candidate: Candidate,
    leaders: Arc<AtomicUsize>,
    leader: watch::Sender<&'static str>,
    mut stop: watch::Receiver<bool>,
) {
    let mut leads = false;
    while !*stop.borrow_and_update() {
        let now_leads = match candidate.try_once().await {
            Ok(ours) => ours,
            Err(kube::Error::Api(status)) if status.code == 409 => false,
            Err(error) => panic!("{}: {error}", candidate.name),
        };
        if now_leads && !leads {
            let others = leaders.fetch_add(1, Ordering::SeqCst);
            assert_eq!(others, 0, "{} leads beside another", candidate.name);
            leader.send_replace(candidate.name);
        }
        if leads && !now_leads {
            leaders.fetch_sub(1, Ordering::SeqCst);
        }
        leads = now_leads;
        // client-go's renewals come at fixed distances too; there is no event to wait for.
        let _ = tokio::time::timeout(RETRY, stop.changed()).await;
    }
    if leads {
        leaders.fetch_sub(1, Ordering::SeqCst);
    }
}

// K-LEASE-1
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_leads_and_the_other_takes_over() {
    let running = Running::start().await;
    let client = running.remote().await;
    namespace(&client, NAMESPACE).await;
    let leaders = Arc::new(AtomicUsize::new(0));
    let (leader, mut leading) = watch::channel("");
    let mut stops = Vec::new();
    for name in ["first", "second"] {
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate::new(running.remote().await, name);
        let task = tokio::spawn(run(candidate, leaders.clone(), leader.clone(), stopped));
        stops.push((name, stop, task));
    }
    let first = *soon("a leader", leading.wait_for(|name| !name.is_empty())).await.expect("the candidates live");
    let position = stops.iter().position(|(name, ..)| *name == first).expect("one of the two");
    let (_, stop, task) = stops.remove(position);
    stop.send_replace(true);
    task.await.expect("the first leader ended well");
    let second = *soon("another leader", leading.wait_for(|name| *name != first)).await.expect("the other lives");
    let (name, stop, task) = stops.remove(0);
    assert_eq!(name, second);
    stop.send_replace(true);
    task.await.expect("the second leader ended well");
    let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let spec = api.get(LEASE).await.expect("the lease stays").spec.expect("it has a spec");
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some(second), Some(1)));
}

// K-LEASE-1 K-WR-1
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_not_taken_without_the_version_that_was_read() {
    let running = Running::start().await;
    let client = running.local();
    namespace(&client, NAMESPACE).await;
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let candidate = Candidate::new(client, "one");
    let mut lease = candidate.record(None, Timestamp::now());
    let made = api.replace(LEASE, &PostParams::default(), &lease).await.expect("a PUT of a missing lease creates it");
    lease.metadata = ObjectMeta { name: Some(LEASE.into()), ..ObjectMeta::default() };
    let error = api.replace(LEASE, &PostParams::default(), &lease).await.expect_err("no version");
    let kube::Error::Api(status) = error else { panic!("not a Status: {error}") };
    assert_eq!(status.code, 422);
    assert!(
        status.message.contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        "{}",
        status.message
    );
    let renewed = candidate.record(Some(&made), Timestamp::now());
    api.replace(LEASE, &PostParams::default(), &renewed).await.expect("renewed");
    let error = api.replace(LEASE, &PostParams::default(), &renewed).await.expect_err("the version is used up");
    assert!(matches!(error, kube::Error::Api(status) if status.code == 409));
}
