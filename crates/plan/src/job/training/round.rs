//! One pass over a job: the steps in their order (spec PT 5), and what all of them know.

use super::conditions::{self, Said};
use super::{Observed, Settings, autoscaler, clean, group, limits, mpi, outcome, pods, report, restart, services};
use crate::control::{Plan, Voice, pods as pod_facts, to_value, wire_time};
use crate::job::head::Head;
use crate::job::members::{Members, SlotKeys};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::text;
use volley_api::kubeflow::job::{Replica, TrainingJob};
use volley_api::kubeflow::types::{JobStatus, ReplicaStatus};

pub const JOB_NAME: &str = "training.kubeflow.org/job-name";
pub const OPERATOR_NAME: &str = "training.kubeflow.org/operator-name";
pub const REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
pub const REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";

/// What one pass knows about the job; `status` and `plan` are being made.
pub struct Round<'a> {
    pub head: Head,
    pub job: &'a TrainingJob,
    pub seen: &'a Observed<'a>,
    pub settings: &'a Settings,
    pub now: Timestamp,
    pub members: Members<'a>,
    pub services: BTreeMap<&'a str, &'a Value>,
    pub status: JobStatus,
    pub plan: Plan,
    pub voice: Voice,
    /// The job's metadata is written in this pass, so the status must wait for the next.
    pub holds_status: bool,
}

impl<'a> Round<'a> {
    pub fn new(
        head: Head,
        job: &'a TrainingJob,
        seen: &'a Observed<'a>,
        settings: &'a Settings,
        now: Timestamp,
    ) -> Self {
        let members = Members::of(&head, seen.pods, SlotKeys { task: REPLICA_TYPE, index: REPLICA_INDEX });
        let own = seen.services.iter().filter(|service| head.controls_object(service));
        let services = own.map(|service| (text(service, "metadata.name"), service)).collect();
        let voice = head.voice(job.row.component);
        let status = job.status.clone();
        Round {
            head,
            job,
            seen,
            settings,
            now,
            members,
            services,
            status,
            plan: Plan::default(),
            voice,
            holds_status: false,
        }
    }

    pub fn run(mut self) -> Plan {
        self.step();
        let (old, new) = (to_value(&self.job.status), to_value(&self.status));
        if let Some(write) = self.head.write_status(&old, &new).filter(|_| !self.holds_status) {
            self.plan.actions.push(write);
        }
        self.plan
    }

    fn step(&mut self) {
        if conditions::terminal(&self.status).is_some() {
            return clean::finish(self);
        }
        // The first sight of a job, and its start, are written down before anything is made of them (PT-CND-7).
        let is_new = self.said("Created", "Created", format!("{} is created.", self.title(false)));
        if self.job.is_suspended() {
            return clean::suspend(self);
        }
        if conditions::is_true(&self.status, "Suspended") {
            return restart::resume(self);
        }
        if is_new {
            return self.start_unless_held();
        }
        autoscaler::sync(self);
        report::pods(self);
        if let Some(message) = limits::exceeded(self) {
            // Once it has failed its pods go, and with them all that tells how many of them had failed.
            if !self.settings.is_strict {
                self.count();
            }
            return outcome::fail(self, message);
        }
        if group::holds_back(self) {
            self.status.last_reconcile_time.get_or_insert(wire_time(self.now).0);
            return;
        }
        if self.status.start_time.is_none() {
            self.status.start_time = Some(wire_time(self.now).0);
            return;
        }
        self.count();
        let course = match outcome::judge(self) {
            outcome::Outcome::Ended => return,
            outcome::Outcome::GoesOn(course) => course,
        };
        if restart::is_recorded_first(self, &course) {
            return;
        }
        // A restart is told before the failed pod goes, which is all that tells of it.
        if outcome::report(self, &course) {
            return;
        }
        restart::replace(self, &course);
        mpi::sync(self);
        for replica in &self.job.replicas {
            pods::sync(self, replica);
            services::sync(self, replica);
        }
        // Pods that have just been deleted need no gate taken off.
        if !restart::holds_creation(self) {
            pods::open_gates(self);
        }
    }

    /// A job that no gang holds back starts at once.
    fn start_unless_held(&mut self) {
        if self.settings.gang.is_none() {
            self.status.start_time.get_or_insert(wire_time(self.now).0);
        }
    }

    /// The counters of every replica type, from the pods that are there (PT-STA-1, PT-STA-2).
    pub fn count(&mut self) {
        let counted = self.job.replicas.iter().map(|replica| {
            let mut counters = ReplicaStatus { selector: Some(self.selector(replica)), ..ReplicaStatus::default() };
            for (_, pod) in self.pods_of(replica.type_) {
                match (pod_facts::phase(pod), pod_facts::is_being_deleted(pod)) {
                    ("Running", false) => counters.active += 1,
                    ("Running", true) | ("Failed", _) => counters.failed += 1,
                    ("Succeeded", _) => counters.succeeded += 1,
                    _ => {}
                }
            }
            (replica.type_.to_owned(), counters)
        });
        self.status.replica_statuses = counted.collect();
    }

    fn selector(&self, replica: &Replica) -> String {
        let labels = self.labels(replica);
        labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    /// The labels that all pods of a replica type have, and no others do.
    pub fn labels(&self, replica: &Replica) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            (JOB_NAME, self.job.name.clone()),
            (OPERATOR_NAME, self.job.row.component.to_owned()),
            (REPLICA_TYPE, replica.type_.to_lowercase()),
        ])
    }

    /// The job's pods of a replica type with their indexes.
    pub fn pods_of(&self, type_: &str) -> Vec<(i32, &'a Pod)> {
        self.members.of_task(&type_.to_lowercase()).collect()
    }

    /// The pods of a replica type that hold one of its slots; those beyond its count are on their way out.
    pub fn slots(&self, replica: &Replica) -> Vec<(i32, &'a Pod)> {
        self.pods_of(replica.type_).into_iter().filter(|(index, _)| *index < replica.count).collect()
    }

    /// The pod that decides for the job, if it has one and that exists.
    pub fn leader_pod(&self) -> Option<&'a Pod> {
        let leader = self.job.leader()?;
        self.slots(leader).first().map(|(_, pod)| *pod)
    }

    pub fn counters(&self, type_: &str) -> ReplicaStatus {
        self.status.replica_statuses.get(type_).cloned().unwrap_or_default()
    }

    /// Sets a condition to True; says whether that changed anything.
    pub fn said(&mut self, type_: &'static str, word: &str, message: String) -> bool {
        let reason = self.job.row.reason(word);
        conditions::set(&mut self.status, Said { type_, is_true: true, reason, message }, self.now)
    }

    /// As `said`, for a condition that no longer holds.
    pub fn denied(&mut self, type_: &'static str, word: &str, message: String) -> bool {
        let reason = self.job.row.reason(word);
        conditions::set(&mut self.status, Said { type_, is_true: false, reason, message }, self.now)
    }

    /// `PyTorchJob x`, or `PyTorchJob d/x` where the reference names the namespace.
    pub fn title(&self, with_namespace: bool) -> String {
        let (kind, name) = (self.job.row.name, &self.job.name);
        if with_namespace { format!("{kind} {}/{name}", self.job.namespace) } else { format!("{kind} {name}") }
    }
}
