//! A workload's state, read off its own status, kind by kind (K-75).

use serde_json::Value;
use volley_api::kube::{at, text};
use volley_api::{kubeflow, volcano};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Its controller has not said anything yet.
    Unknown,
    /// Held back by the cluster: suspended, or queued there.
    Waiting,
    Starting,
    Running,
    Stopping,
    Stopped,
    Finished,
    Failed,
}

impl State {
    pub fn is_final(self) -> bool {
        match self {
            State::Stopped | State::Finished | State::Failed => true,
            State::Unknown | State::Waiting | State::Starting | State::Running | State::Stopping => false,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            State::Unknown => "unknown",
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Running => "running",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
            State::Finished => "finished",
            State::Failed => "failed",
        }
    }
}

/// Words that statuses use, whatever the kind.
const WORDS: &[(&str, State)] = &[
    ("created", State::Starting),
    ("pending", State::Starting),
    ("initializing", State::Starting),
    ("running", State::Running),
    ("completing", State::Running),
    ("restarting", State::Running),
    ("suspended", State::Waiting),
    ("succeeded", State::Finished),
    ("completed", State::Finished),
    ("complete", State::Finished),
    ("failed", State::Failed),
    ("aborted", State::Failed),
    ("timeout", State::Failed),
    ("terminated", State::Failed),
    ("terminating", State::Stopping),
    ("aborting", State::Stopping),
    ("stopped", State::Stopped),
];

fn word(text: &str) -> Option<State> {
    let text = text.to_lowercase();
    WORDS.iter().find(|(word, _)| *word == text).map(|(_, state)| *state)
}

pub fn of(object: &Value) -> State {
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    match kind {
        "Job" if version == "batch/v1" => job(object),
        "Job" if version == volcano::BATCH => word(text(object, "status.state.phase")).unwrap_or(State::Unknown),
        "Pod" if version == "v1" => word(text(object, "status.phase")).unwrap_or(State::Unknown),
        "RayJob" => ray(object),
        "TrainJob" | "JobSet" => child_jobs(object),
        _ if kubeflow::kinds::row(kind).is_some() => by_conditions(object),
        _ => other(object),
    }
}

fn is_true(object: &Value, condition: &str) -> bool {
    conditions(object).any(|each| each["type"] == condition && each["status"] == "True")
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    at(object, "status.conditions").and_then(Value::as_array).into_iter().flatten()
}

fn count(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// A Job ends by its conditions only: one failed pod may have retries left, and one success may be of many.
fn job(object: &Value) -> State {
    match () {
        () if is_true(object, "Complete") => State::Finished,
        () if is_true(object, "Failed") => State::Failed,
        () if is_true(object, "FailureTarget") => State::Stopping,
        () if is_true(object, "Suspended") => State::Waiting,
        () if count(object, "status.ready") > 0 || is_true(object, "SuccessCriteriaMet") => State::Running,
        () if count(object, "status.active") > 0 => State::Starting,
        () => State::Unknown,
    }
}

/// An end counts above all; otherwise the latest condition that is true.
fn by_conditions(object: &Value) -> State {
    let truths = conditions(object).filter(|each| each["status"] == "True");
    let states: Vec<State> = truths.filter_map(|each| word(text(each, "type"))).collect();
    let ended = states.iter().copied().find(|state| state.is_final());
    ended.or(states.last().copied()).unwrap_or(State::Unknown)
}

/// JobSet and TrainJob: conditions for the end, counts of their children for the way.
fn child_jobs(object: &Value) -> State {
    let children: Vec<&Value> = ["status.replicatedJobsStatus", "status.jobsStatus"]
        .iter()
        .filter_map(|path| at(object, path).and_then(Value::as_array))
        .flatten()
        .collect();
    let sum = |key: &str| children.iter().map(|child| count(child, key)).sum::<i64>();
    match by_conditions(object) {
        ended if ended.is_final() => ended,
        State::Waiting => State::Waiting,
        _ if sum("ready") > 0 => State::Running,
        _ if sum("active") > 0 => State::Starting,
        _ => State::Unknown,
    }
}

fn ray(object: &Value) -> State {
    let job = text(object, "status.jobStatus");
    let deployment = text(object, "status.jobDeploymentStatus");
    match word(job) {
        Some(state) => state,
        None if deployment.is_empty() => State::Unknown,
        None => word(deployment).unwrap_or(State::Starting),
    }
}

/// A kind that nobody has told us of: whatever of the usual fields it has.
fn other(object: &Value) -> State {
    let words = ["status.state.phase", "status.phase", "status.state"];
    words.iter().find_map(|path| word(text(object, path))).unwrap_or_else(|| by_conditions(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(version: &str, kind: &str, status: Value) -> State {
        of(&json!({"apiVersion": version, "kind": kind, "status": status}))
    }

    fn condition(types: &[&str]) -> Value {
        json!({"conditions": types.iter().map(|kind| json!({"type": kind, "status": "True"})).collect::<Vec<_>>()})
    }

    // K-72, K-73, K-74, K-75
    #[test]
    fn every_kind_has_its_states() {
        let job = |status| state("batch/v1", "Job", status);
        assert_eq!(job(json!({})), State::Unknown);
        assert_eq!(job(json!({"active": 1, "ready": 0})), State::Starting);
        assert_eq!(job(json!({"active": 1, "ready": 1})), State::Running);
        assert_eq!(job(json!({"failed": 1, "active": 1, "ready": 1})), State::Running, "a retry is left");
        assert_eq!(job(json!({"succeeded": 1, "active": 1, "ready": 1})), State::Running, "one of several");
        assert_eq!(job(condition(&["SuccessCriteriaMet", "Complete"])), State::Finished);
        assert_eq!(job(condition(&["FailureTarget"])), State::Stopping);
        assert_eq!(job(condition(&["FailureTarget", "Failed"])), State::Failed);
        assert_eq!(job(condition(&["Suspended"])), State::Waiting);
        let phase = |phase: &str| state("batch.volcano.sh/v1alpha1", "Job", json!({"state": {"phase": phase}}));
        for (name, expected) in [
            ("Pending", State::Starting),
            ("Running", State::Running),
            ("Completing", State::Running),
            ("Restarting", State::Running),
            ("Completed", State::Finished),
            ("Failed", State::Failed),
            ("Aborted", State::Failed),
            ("Terminated", State::Failed),
            ("Aborting", State::Stopping),
            ("Terminating", State::Stopping),
            ("Odd", State::Unknown),
        ] {
            assert_eq!(phase(name), expected, "{name}");
        }
        for kind in ["PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"] {
            let training = |types: &[&str]| state("kubeflow.org/v1", kind, condition(types));
            assert_eq!(training(&["Created"]), State::Starting);
            assert_eq!(training(&["Created", "Running"]), State::Running);
            assert_eq!(training(&["Created", "Suspended"]), State::Waiting);
            assert_eq!(training(&["Created", "Restarting"]), State::Running);
            assert_eq!(training(&["Created", "Succeeded"]), State::Finished);
            assert_eq!(training(&["Failed", "Restarting"]), State::Failed);
        }
    }

    // K-75
    #[test]
    fn newer_kinds_and_unknown_ones_have_theirs() {
        let set = |status| state("jobset.x-k8s.io/v1alpha2", "JobSet", status);
        assert_eq!(set(condition(&["Completed"])), State::Finished);
        assert_eq!(set(json!({"replicatedJobsStatus": [{"active": 2}, {"ready": 1}]})), State::Running);
        assert_eq!(set(json!({"replicatedJobsStatus": [{"active": 2}]})), State::Starting);
        let ray = |job: &str, deployment: &str| {
            state("ray.io/v1", "RayJob", json!({"jobStatus": job, "jobDeploymentStatus": deployment}))
        };
        assert_eq!(ray("", ""), State::Unknown);
        assert_eq!(ray("", "Initializing"), State::Starting);
        assert_eq!(ray("STOPPED", "Complete"), State::Stopped);
        assert_eq!(ray("SUCCEEDED", "Complete"), State::Finished);
        assert_eq!(state("trainer.kubeflow.org/v1alpha1", "TrainJob", condition(&["Complete"])), State::Finished);
        assert_eq!(state("v1", "Pod", json!({"phase": "Failed"})), State::Failed);
        assert_eq!(state("a/v1", "Thing", json!({"phase": "Running"})), State::Running);
        assert_eq!(state("a/v1", "Thing", json!({"state": "succeeded"})), State::Finished);
        assert_eq!(state("a/v1", "Thing", condition(&["Ready"])), State::Unknown);
    }

    // K-75
    #[test]
    fn ends_are_final() {
        assert!(State::Stopped.is_final() && State::Failed.is_final() && !State::Stopping.is_final());
        assert_eq!(State::Waiting.name(), "waiting");
    }
}
