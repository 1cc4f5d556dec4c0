//! Kubeflow's training jobs: one lifecycle for PyTorchJob and its siblings, which differ by their row.
//!
//! `plan` takes a job with what exists of it and returns what to do. Reading order: `round` (the steps of one pass),
//! `conditions`, `outcome` (how a job ends), `restart`, `limits`, `clean`, `pods`, `environment`, `services`, `owned`,
//! `group`, `autoscaler`, `report`, `mpi`, `metrics`. Whatever must outlive a pass is in the job's status or annotations, never in memory.

mod autoscaler;
mod clean;
mod conditions;
mod environment;
mod environment_siblings;
mod group;
mod limits;
pub mod metrics;
mod mpi;
mod outcome;
mod owned;
mod pods;
mod report;
mod restart;
mod round;
mod services;

#[cfg(test)]
mod definition_tests;
#[cfg(test)]
mod end_tests;
#[cfg(test)]
mod environment_tests;
#[cfg(test)]
mod gang_tests;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod life_tests;
#[cfg(test)]
mod pods_tests;
#[cfg(test)]
mod siblings_tests;
#[cfg(test)]
mod stage;

use super::head::Head;
use crate::control::{Action, Event, Plan};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use round::Round;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::text;
use volley_api::kubeflow::job::{CleanPodPolicy, TrainingJob};
use volley_api::kubeflow::kinds::Row;
use volley_api::kubeflow::{MANAGED_HERE, Rules};

/// A job and what exists of it; objects of others are ignored.
#[derive(Debug)]
pub struct Observed<'a> {
    pub job: &'a Value,
    /// At least those that the job controls.
    pub pods: &'a [Pod],
    /// At least those that the job controls.
    pub services: &'a [Value],
    /// The PodGroup of the job's name, of the flavour that `Settings::gang` names.
    pub pod_group: Option<&'a Value>,
    /// The HorizontalPodAutoscaler of the job's name.
    pub autoscaler: Option<&'a Value>,
    /// MPIJob: ConfigMap, ServiceAccount, Role and RoleBinding that the job controls.
    pub helpers: &'a [Value],
    /// The values of priority classes by name; only gang scheduling asks.
    pub priorities: &'a BTreeMap<String, i32>,
}

/// What the operator was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `compat.trainingOperator = strict`: what the reference does, quirks included (spec PT 24).
    pub is_strict: bool,
    /// Whether the cluster takes services whose names start with a digit (PT-DEC-7).
    pub accepts_digit_names: bool,
    pub gang: Option<Gang>,
    pub gate: Gate,
    /// What a job without `cleanPodPolicy` has (PT-DEC-12).
    pub clean_pod_policy: CleanPodPolicy,
    /// `CUSTOM_CLUSTER_DOMAIN` of TFJobs.
    pub cluster_domain: Option<String>,
    /// The image that brings kubectl to an MPIJob's launcher.
    pub kubectl_image: String,
}

/// Who places pods together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gang {
    Volcano,
    /// The flavour of scheduler-plugins, by the scheduler's name.
    Plugins(String),
}

impl Gang {
    /// The flag `--gang-scheduler-name`: empty is none, `volcano` in any case is Volcano.
    pub fn parse(name: &str) -> Option<Gang> {
        match name {
            "" => None,
            name if name.eq_ignore_ascii_case("volcano") => Some(Gang::Volcano),
            name => Some(Gang::Plugins(name.to_owned())),
        }
    }
}

/// What keeps a worker from starting before its master (PT-GATE).
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// The pod waits for a node until the master runs: no image, no time limit. Not with a gang, which must be placed
    /// as a whole.
    Scheduling,
    /// Init containers, in whose texts `{{.MasterAddr}}` stands for the master's address.
    InitContainers(Vec<Value>),
    None,
}

impl Gate {
    /// The reference's init container (PT-GATE-1).
    pub fn init_container(image: &str, tries: u32) -> Gate {
        let wait = format!(
            "err=1; for i in $(seq {tries}); do if nslookup {{{{.MasterAddr}}}}; then err=0; break; fi; \
             echo waiting for master; sleep 2; done; exit $err"
        );
        Gate::InitContainers(vec![json!({
            "name": "init-pytorch", "image": image, "imagePullPolicy": "IfNotPresent",
            "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
            "command": ["sh", "-c", wait],
        })])
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            is_strict: false,
            accepts_digit_names: false,
            gang: None,
            gate: Gate::Scheduling,
            clean_pod_policy: CleanPodPolicy::None,
            cluster_domain: None,
            kubectl_image: "kubeflow/kubectl-delivery:latest".to_owned(),
        }
    }
}

impl Settings {
    /// As the reference, in everything (the gate's image and tries are settings of their own).
    pub fn strict() -> Settings {
        Settings { is_strict: true, gate: Gate::init_container("alpine:3.10", 100), ..Settings::default() }
    }

    pub fn rules(&self) -> Rules {
        Rules { is_strict: self.is_strict, accepts_digit_names: self.accepts_digit_names }
    }
}

/// What to do about a job now. Applied in order; the status is the last action.
pub fn plan(row: &'static Row, seen: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let head = Head::of(seen.job);
    let manager = text(seen.job, "spec.runPolicy.managedBy");
    let is_ours = manager.is_empty() || manager == MANAGED_HERE;
    if head.is_being_deleted || !is_ours {
        return Plan::default();
    }
    match TrainingJob::read(row, seen.job, settings.rules()) {
        Ok(job) => Round::new(head, &job, seen, settings, now).run(),
        Err(errors) => outcome::refuse(row, &head, seen.job, &errors, now),
    }
}

/// The event for a write that failed, if it is one of those that the job's user hears of (spec PT 18).
pub fn failure(row: &'static Row, job: &Value, action: &Action, error: &str) -> Option<Event> {
    let (verb, kind) = match action {
        Action::Create { object, .. } => ("Create", text(object, "kind")),
        Action::Delete { target, .. } => ("Delete", target.kind.as_str()),
        Action::Patch { .. } | Action::PatchStatus { .. } | Action::Finalize { .. } => return None,
    };
    let is_told = matches!((verb, kind), (_, "Pod" | "Service" | "PodGroup"));
    let doing = if verb == "Create" { "creating" } else { "deleting" };
    let voice = Head::of(job).voice(row.component);
    is_told.then(|| voice.warning(&format!("Failed{verb}{kind}"), format!("Error {doing}: {error}")))
}
