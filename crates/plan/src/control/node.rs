//! The taints that a node's conditions call for, as upstream's node lifecycle controller keeps them.
//!
//! They keep new pods away; taints with other keys or effects are their owners' business.

use super::{Action, Plan, Target};
use crate::node::pretended_nodes::is_pretended;
use jiff::Timestamp;
use serde_json::{Value, json};
use volley_api::kube::{at, text, time};

const NO_SCHEDULE: &str = "NoSchedule";
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, its status, and the key of the taint that goes with it.
const TAINTS: &[(&str, &str, &str)] = &[
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Marks a node that has just been made: nothing is known about it yet.
pub fn taint_new(node: &mut Value) {
    // A pretended node is ready from the start; thousands of them would each be written once more.
    if is_pretended(node) {
        return;
    }
    let mut taints = list(node, "spec.taints");
    if !taints.iter().any(|taint| text(taint, "key") == NOT_READY && text(taint, "effect") == NO_SCHEDULE) {
        taints.push(json!({"key": NOT_READY, "effect": NO_SCHEDULE}));
        node["spec"]["taints"] = taints.into();
    }
}

pub fn plan(node: &Value, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let conditions = list(node, "status.conditions");
    // Before its agent has spoken, a node keeps the mark that it was made with.
    if !conditions.iter().any(|condition| text(condition, "type") == "Ready") {
        return plan;
    }
    let holds = |kind: &str, status: &str| {
        conditions.iter().any(|condition| text(condition, "type") == kind && text(condition, "status") == status)
    };
    let mut wanted: Vec<&str> =
        TAINTS.iter().filter(|(kind, status, _)| holds(kind, status)).map(|(_, _, key)| *key).collect();
    if at(node, "spec.unschedulable") == Some(&Value::Bool(true)) {
        wanted.push(UNSCHEDULABLE);
    }
    let before = list(node, "spec.taints");
    let is_kept = |taint: &&Value| !is_managed(taint) || wanted.contains(&text(taint, "key"));
    let mut after: Vec<Value> = before.iter().filter(is_kept).cloned().collect();
    for key in wanted {
        if !after.iter().any(|taint| is_managed(taint) && text(taint, "key") == key) {
            after.push(json!({"key": key, "effect": NO_SCHEDULE, "timeAdded": time::seconds(now)}));
        }
    }
    if after != before {
        let taints = if after.is_empty() { Value::Null } else { after.into() };
        let version = &node["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        plan.actions.push(Action::Patch { target: target(node), patch });
    }
    plan
}

fn is_managed(taint: &Value) -> bool {
    let key = text(taint, "key");
    let is_ours = key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, known)| *known == key);
    is_ours && text(taint, "effect") == NO_SCHEDULE
}

fn list(object: &Value, path: &str) -> Vec<Value> {
    at(object, path).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn target(node: &Value) -> Target {
    Target {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: None,
        name: text(node, "metadata.name").to_owned(),
        uid: text(node, "metadata.uid").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut node: Value, conditions: Value, expected: &[&str]) {
        node["status"]["conditions"] = conditions;
        for action in &plan(&node, Timestamp::UNIX_EPOCH).actions {
            let Action::Patch { patch, .. } = action else { panic!("only patches are expected") };
            json_patch::merge(&mut node, patch);
        }
        let taints = list(&node, "spec.taints");
        assert_eq!(taints.iter().map(|taint| text(taint, "key")).collect::<Vec<_>>(), expected);
        assert!(plan(&node, Timestamp::UNIX_EPOCH).is_empty(), "planning again changes nothing");
    }

    #[test]
    fn taints_follow_conditions_and_leave_others_alone() {
        let mut new = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}});
        taint_new(&mut new);
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        check(new.clone(), json!([]), &["own", NOT_READY]);
        check(new.clone(), ready("False"), &["own", NOT_READY]);
        check(new.clone(), ready("True"), &["own"]);
        check(new.clone(), ready("Unknown"), &["own", "node.kubernetes.io/unreachable"]);
        new["spec"]["unschedulable"] = true.into();
        check(new, ready("True"), &["own", UNSCHEDULABLE]);
        let mut pretended = json!({"metadata": {"name": "n", "labels": {"volley.dev/pretend": "true"}}, "spec": {}});
        taint_new(&mut pretended);
        check(pretended, ready("True"), &[]);
    }
}
