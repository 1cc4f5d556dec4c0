//! Leader election by a Lease: of several replicas one acts, and another takes over when it is gone.
//!
//! `plan::lease` decides; here the Lease is read, written with the resourceVersion that was read, and renewed by a task of
//! its own. Every span is measured by this process' monotonic clock from before the call, so that a holder stops leading
//! before anybody else can start.

use crate::health::{Health, Stage};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::fmt;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use volley_plan::lease::{self, Record, Step, Timing};

/// Resigning is a courtesy: a server that does not answer must not hold up the end.
const RESIGN_TIMEOUT: Duration = Duration::from_secs(5);

/// Which Lease, and who we are.
#[derive(Debug, Clone)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    pub identity: String,
    pub timing: Timing,
}

/// We lead until `lost` is cancelled; `resign` lets another take over at once.
#[derive(Debug)]
pub struct Leadership {
    pub lost: CancellationToken,
    stop: CancellationToken,
    renewing: JoinHandle<Elector>,
}

/// Waits until we lead, and says so in `health` while another does; `None` when `stop` came first.
pub async fn lead(client: Client, election: Election, health: &Health, stop: CancellationToken) -> Option<Leadership> {
    let mut elector = Elector::new(client, election);
    let began = stop.run_until_cancelled(elector.acquire(health)).await?;
    let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
    let renewing = tokio::spawn(elector.hold(began, lost.clone(), stop.clone()));
    Some(Leadership { lost, stop, renewing })
}

impl Leadership {
    /// Stops leading, and says so in the Lease.
    pub async fn resign(mut self) {
        self.stop.cancel();
        if let Ok(mut elector) = (&mut self.renewing).await {
            elector.resign().await;
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// One who wants to lead: the Lease as it last was, and since when it has been like that.
struct Elector {
    leases: Api<Lease>,
    namespaces: Api<Namespace>,
    election: Election,
    seen: Option<Lease>,
    seen_since: Instant,
}

impl fmt::Debug for Elector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Elector").field("election", &self.election).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Elector {
    fn new(client: Client, election: Election) -> Elector {
        let leases = Api::namespaced(client.clone(), &election.namespace);
        Elector { leases, namespaces: Api::all(client), election, seen: None, seen_since: Instant::now() }
    }

    /// Tries until we hold the Lease; since when we do.
    async fn acquire(&mut self, health: &Health) -> Instant {
        let mut waiting_for = None;
        loop {
            let began = Instant::now();
            match timeout(self.election.timing.renew_deadline, self.take()).await {
                Ok(Ok(true)) => {
                    tracing::info!(lease = %self.lease_name(), "{} leads", self.election.identity);
                    return began;
                }
                Ok(Ok(false)) => {
                    health.set(Stage::Standby);
                    self.tell_holder(&mut waiting_for);
                }
                Ok(Err(error)) => self.complain(&error),
                Err(_) => self.complain(&"the API server does not answer"),
            }
            sleep(self.election.timing.retry).await;
        }
    }

    /// Renews until that fails for too long, another has it, or `stop`. Then we lead no more.
    async fn hold(mut self, began: Instant, lost: CancellationToken, stop: CancellationToken) -> Elector {
        // Cancelled however this ends, a panic and an end of the runtime included.
        let _lost = lost.drop_guard();
        let mut renewed = began;
        loop {
            let deadline = renewed + self.election.timing.renew_deadline;
            match stop.run_until_cancelled(timeout_at(deadline, self.renew())).await {
                Some(Ok(Some(at))) => renewed = at,
                Some(Ok(None)) => {
                    tracing::warn!(lease = %self.lease_name(), "another leads now: `{}`", self.holder());
                    return self;
                }
                Some(Err(_)) => {
                    tracing::warn!(lease = %self.lease_name(), "stopped leading: the Lease could not be renewed in time");
                    return self;
                }
                None => return self,
            }
        }
    }

    /// Renews once, however many tries it takes; `None` when another has the Lease.
    async fn renew(&mut self) -> Option<Instant> {
        loop {
            sleep(self.election.timing.retry).await;
            let began = Instant::now();
            match self.take().await {
                Ok(true) => return Some(began),
                Ok(false) => return None,
                Err(error) => self.complain(&error),
            }
        }
    }

    /// Takes or renews the Lease if that is ours to do; whether we hold it then.
    async fn take(&mut self) -> kube::Result<bool> {
        let is_ours = self.holder() == self.election.identity;
        // The holder writes without reading first: the resourceVersion tells when it should have.
        if !is_ours {
            let found = self.leases.get_opt(&self.election.name).await?;
            self.see(found);
        }
        let record = self.seen.as_ref().map(record_of);
        let unchanged_for = self.seen_since.elapsed();
        let now = Timestamp::now();
        let Election { identity, timing, .. } = &self.election;
        let written = match lease::step(record.as_ref(), identity, unchanged_for, now, timing) {
            Step::Wait => return Ok(false),
            Step::Create(record) => self.create(&record).await,
            Step::Write(record) => {
                self.leases.replace(&self.election.name, &PostParams::default(), &self.lease(&record)).await
            }
        };
        match written {
            Ok(lease) => self.see(Some(lease)),
            // Whether it was written is not known, or another wrote: read before the next try.
            Err(error) => {
                if is_ours {
                    self.seen = None;
                }
                return match is_conflict(&error) && !is_ours {
                    true => Ok(false),
                    false => Err(error),
                };
            }
        }
        Ok(true)
    }

    /// Makes the Lease and, where we may, the namespace that it needs.
    async fn create(&self, record: &Record) -> kube::Result<Lease> {
        let (lease, params) = (self.lease(record), PostParams::default());
        match self.leases.create(&params, &lease).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let name = Some(self.election.namespace.clone());
                let metadata = ObjectMeta { name, ..ObjectMeta::default() };
                self.namespaces.create(&params, &Namespace { metadata, ..Namespace::default() }).await?;
                self.leases.create(&params, &lease).await
            }
            other => other,
        }
    }

    /// Gives up a Lease that is still ours.
    async fn resign(&mut self) {
        let record = self.seen.as_ref().map(record_of).unwrap_or_default();
        let Some(record) = lease::resigned(&record, &self.election.identity, Timestamp::now()) else { return };
        let (lease, params) = (self.lease(&record), PostParams::default());
        let write = self.leases.replace(&self.election.name, &params, &lease);
        match timeout(RESIGN_TIMEOUT, write).await {
            Ok(Ok(_)) => tracing::info!(lease = %self.lease_name(), "{} resigned", self.election.identity),
            Ok(Err(error)) => self.complain(&error),
            Err(_) => self.complain(&"the API server does not answer"),
        }
    }

    fn see(&mut self, found: Option<Lease>) {
        if self.seen.as_ref().map(record_of) != found.as_ref().map(record_of) {
            self.seen_since = Instant::now();
        }
        self.seen = found;
    }

    /// The Lease with another record; what others wrote into it stays.
    fn lease(&self, record: &Record) -> Lease {
        let mut lease = self.seen.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.election.name.clone()),
                namespace: Some(self.election.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(record.holder.clone());
        spec.lease_duration_seconds = Some(record.duration_s);
        spec.acquire_time = record.acquired.map(MicroTime);
        spec.renew_time = record.renewed.map(MicroTime);
        spec.lease_transitions = Some(record.transitions);
        lease
    }

    fn holder(&self) -> String {
        self.seen.as_ref().map(record_of).unwrap_or_default().holder
    }

    fn lease_name(&self) -> String {
        format!("{}/{}", self.election.namespace, self.election.name)
    }

    /// Says once for whom we wait.
    fn tell_holder(&self, told: &mut Option<String>) {
        let holder = self.holder();
        if told.as_ref() != Some(&holder) {
            tracing::info!(lease = %self.lease_name(), "waiting to lead: `{holder}` does");
            *told = Some(holder);
        }
    }

    fn complain(&self, why: &dyn fmt::Display) {
        tracing::warn!(lease = %self.lease_name(), "failed to write the Lease: {why}");
    }
}

/// What an election reads of a Lease.
pub(crate) fn record_of(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let time = |time: Option<MicroTime>| -> Option<Timestamp> { time.map(|time| time.0) };
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration_s: spec.lease_duration_seconds.unwrap_or_default(),
        acquired: time(spec.acquire_time),
        renewed: time(spec.renew_time),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
