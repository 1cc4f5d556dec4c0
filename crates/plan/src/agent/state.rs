//! A workload's state, read off its own status, kind by kind (K-75).

use super::trouble::placed_at;
use jiff::Timestamp;
use serde_json::Value;
use volley_api::kube::{at, text, time};
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

/// As its own status says, unless nothing of it has been given a node: then it waits for room, which is no failure to
/// start (K-76). A pod of which no scheduler has said anything is not waiting for room.
pub fn among(object: &Value, pods: &[Value], group: Option<&Value>) -> State {
    let state = of(object);
    let live = || pods.iter().filter(|pod| !matches!(text(pod, "status.phase"), "Succeeded" | "Failed"));
    let is_placed = live().any(|pod| placed_at(pod).is_some());
    if is_placed || !matches!(state, State::Unknown | State::Starting) {
        return state;
    }
    let is_refused =
        |pod: &Value| conditions(pod).any(|each| each["type"] == "PodScheduled" && each["status"] == "False");
    let is_queued = group.is_some_and(|group| matches!(text(group, "status.phase"), "Pending" | "Inqueue"));
    // Volcano makes pods when its queue has room for them.
    let is_before_pods = pods.is_empty() && state == State::Starting && text(object, "apiVersion") == volcano::BATCH;
    if is_queued || is_before_pods || live().any(is_refused) { State::Waiting } else { state }
}

/// Since when it could start: its last pod was given a node, else it was no longer held back, else it was made.
pub fn since(object: &Value, pods: &[Value]) -> Option<Timestamp> {
    let freed = |each: &Value| time::parse(text(each, "lastTransitionTime"));
    let mut resumed = conditions(object).filter(|each| each["type"] == "Suspended" && each["status"] == "False");
    let placed = pods.iter().filter_map(placed_at).max();
    placed.or_else(|| resumed.find_map(freed)).or_else(|| time::parse(text(object, "metadata.creationTimestamp")))
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

    // K-75, K-76
    #[test]
    fn what_waits_for_room_is_not_starting_and_starts_when_it_is_placed() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1},
            "metadata": {"creationTimestamp": "1970-01-01T00:00:01Z"}});
        let pod = |status: &str, reason: &str| {
            json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": status, "reason": reason,
                "lastTransitionTime": "1970-01-01T01:00:00Z"}]}})
        };
        let second = |object: &Value, pods: &[Value]| since(object, pods).map(Timestamp::as_second);
        assert_eq!(among(&job, &[], None), State::Starting, "nobody has said that it waits");
        assert_eq!(among(&job, &[json!({"status": {"phase": "Pending"}})], None), State::Starting);
        assert_eq!(among(&job, &[pod("False", "Unschedulable")], None), State::Waiting);
        assert_eq!(among(&job, &[pod("False", "SchedulingGated")], None), State::Waiting);
        let group = json!({"status": {"phase": "Pending"}});
        assert_eq!(among(&job, &[json!({"status": {"phase": "Pending"}})], Some(&group)), State::Waiting);
        let placed = [pod("True", "")];
        assert_eq!((among(&job, &placed, Some(&group)), second(&job, &placed)), (State::Starting, Some(3600)));
        assert_eq!(second(&job, &[pod("False", "")]), Some(1));
        let mut resumed = job.clone();
        resumed["status"]["conditions"] =
            json!([{"type": "Suspended", "status": "False", "lastTransitionTime": "1970-01-01T00:30:00Z"}]);
        assert_eq!(second(&resumed, &[]), Some(1800));
        let mut retried = vec![pod("True", ""), pod("False", "Unschedulable")];
        retried[0]["status"]["phase"] = json!("Failed");
        assert_eq!(among(&job, &retried, None), State::Waiting, "its second pod has no room");
        let volcano = json!({"apiVersion": volcano::BATCH, "kind": "Job", "status": {"state": {"phase": "Pending"}}});
        assert_eq!(among(&volcano, &[], None), State::Waiting, "its queue has no room");
        let ended = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Failed"}});
        assert_eq!(among(&ended, &[pod("False", "")], None), State::Failed);
    }

    // K-75
    #[test]
    fn ends_are_final() {
        assert!(State::Stopped.is_final() && State::Failed.is_final() && !State::Stopping.is_final());
        assert_eq!(State::Waiting.name(), "waiting");
    }
}
