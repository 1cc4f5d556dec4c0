//! What the view has of an attempt, as facts to decide by.

use super::view::{Around, attempt_of};
use crate::attempt::Attempt;
use crate::runner::{Sight, Tails};
use jiff::Timestamp;
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_plan::agent::failure;
use volley_plan::agent::life::Workload;
use volley_plan::agent::state::{self, State};
use volley_plan::agent::trouble::{self, Trouble};
use volley_plan::launch::label;
use volley_plan::logs::ranks;

/// Why we take a workload away, written on it.
pub const VERDICT: &str = "volley.dev/verdict";
/// Held until the garbage collector has taken what it owns.
const FOREGROUND: &str = "foregroundDeletion";
const GPU: &str = "nvidia.com/gpu";

/// The workload of the attempt.
pub fn present<'a>(around: &'a Around, attempt: &Attempt) -> Option<&'a Value> {
    around.workloads.iter().find(|workload| attempt_of(workload) == attempt.item.attempt)
}

/// Workloads of attempts before it.
pub fn older<'a>(around: &'a Around, attempt: &Attempt) -> Vec<&'a Value> {
    around.workloads.iter().filter(|workload| attempt_of(workload) < attempt.item.attempt).collect()
}

/// Its pods, without those of services beside it.
pub fn own_pods<'a>(around: &'a Around, attempt: &Attempt) -> impl Iterator<Item = &'a Value> {
    let number = attempt.item.attempt;
    around.pods.iter().filter(move |pod| !is_auxiliary(pod) && attempt_of(pod) == number)
}

fn is_auxiliary(pod: &Value) -> bool {
    pod["metadata"]["labels"][label::AUXILIARY].is_string()
}

pub fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|each| each == label::FINALIZER))
}

/// It is being deleted, and its pods are not: our finalizer keeps it, and it keeps them.
pub fn is_deleted_alone(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let takes_its_pods = finalizers.is_some_and(|all| all.iter().any(|each| each == FOREGROUND));
    object["metadata"]["deletionTimestamp"].is_string() && !takes_its_pods
}

pub fn of(around: &Around, attempt: &Attempt, tails: Tails<'_>) -> Sight {
    let now = Timestamp::now();
    let pods: Vec<Value> = own_pods(around, attempt).cloned().collect();
    let has_ended = |pod: &&Value| matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    let object = present(around, attempt);
    let seen = trouble::Around { pods: &pods, events: &around.events, group: around.group.as_ref() };
    Sight {
        workload: object.map(|object| workload(object, around, attempt, &pods, tails)),
        has_older: !older(around, attempt).is_empty(),
        strays: object
            .filter(|object| is_deleted_alone(object))
            .map_or(0, |_| pods.iter().filter(|pod| !has_ended(pod)).count()),
        pods: around.pods.iter().filter(|pod| !is_auxiliary(pod)).filter(|pod| !has_ended(pod)).count(),
        has_helpers: !around.helpers.is_empty(),
        trouble: trouble::find(&seen, now).into_iter().next().map(|trouble| spoken(trouble, tails)),
        exit_code: failure::exit_code(&pods),
        place: object.map(|object| place(object, &pods)).unwrap_or_default(),
    }
}

/// With the last lines of what crashes.
fn spoken(trouble: Trouble, tails: Tails<'_>) -> Trouble {
    let last_lines = trouble.speaker.as_ref().map(|(pod, container)| tails(pod, container)).unwrap_or_default();
    Trouble { last_lines, ..trouble }
}

fn workload(object: &Value, around: &Around, attempt: &Attempt, pods: &[Value], tails: Tails<'_>) -> Workload {
    let state = state::among(object, pods, around.group.as_ref());
    let uid = &object["metadata"]["uid"];
    let is_owned = |helper: &Value| {
        let owners = helper["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
    };
    Workload {
        state,
        since: state::since(object, pods).unwrap_or_else(Timestamp::now),
        is_being_deleted: object["metadata"]["deletionTimestamp"].is_string(),
        is_held: is_held(object),
        verdict: object["metadata"]["annotations"][VERDICT].as_str().map(str::to_owned),
        owns_its_own: around.helpers.iter().all(is_owned),
        is_disrupted: around.disrupted.contains(&attempt.item.attempt),
        failure: (state == State::Failed).then(|| failure::reason(object, pods, |pod, name| tails(pod, name))),
    }
}

/// Who is where, in order of the ranks.
fn place(object: &Value, pods: &[Value]) -> Value {
    let mut rows: Vec<(u64, Value)> = Vec::new();
    for pod in pods {
        let rank = ranks::rank(object, pod);
        let row = json!({ "rank": rank.number, "role": rank.role, "label": rank.label, "pod": rank.pod, "node": pod["spec"]["nodeName"],
            "phase": pod["status"]["phase"], "gpus": gpus(pod), "devices": devices(pod) });
        rows.push((rank.number.unwrap_or(u64::MAX), row));
    }
    rows.sort_by_key(|(rank, row)| (*rank, row["pod"].to_string()));
    Value::Array(rows.into_iter().map(|(_, row)| row).collect())
}

fn gpus(pod: &Value) -> i64 {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let count = |container: &Value| match &container["resources"]["limits"][GPU] {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(number) => number.parse().unwrap_or(0),
        _ => 0,
    };
    containers.map(count).sum()
}

/// The devices that the node gave it, where the node tells.
fn devices(pod: &Value) -> Vec<String> {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let resources = statuses.filter_map(|status| status["allocatedResourcesStatus"].as_array()).flatten();
    let own = resources.filter_map(|resource| resource["resources"].as_array()).flatten();
    own.filter_map(|device| device["resourceID"].as_str().map(str::to_owned)).collect()
}
