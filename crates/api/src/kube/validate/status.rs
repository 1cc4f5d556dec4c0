//! What a write to `/status` may not say: negative counts, counts that contradict each other, wrong phases.

use super::place::{Place, problems};
use crate::kube::field::FieldError;
use serde_json::Value;

/// Everything wrong with the status of a built-in kind other than Pod.
pub fn check_status(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    problems(object, "", |object| {
        let status = object.field("status");
        match (group, kind) {
            ("", "Namespace") => namespace_phase(object),
            ("apps", "Deployment") => replicas(&status, &["updatedReplicas", "readyReplicas", "availableReplicas"]),
            ("apps", "ReplicaSet") | ("", "ReplicationController") => {
                replicas(&status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
            }
            ("apps", "StatefulSet") => {
                replicas(&status, &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]);
            }
            ("apps", "DaemonSet") => {
                status.not_negative(&["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled"]);
                status.not_negative(&["numberReady", "observedGeneration", "updatedNumberScheduled"]);
                status.not_negative(&["numberAvailable", "numberUnavailable"]);
            }
            ("batch", "Job") => status.not_negative(&["active", "succeeded", "failed", "ready"]),
            ("policy", "PodDisruptionBudget") => {
                status.not_negative(&["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]);
            }
            ("autoscaling", "HorizontalPodAutoscaler") => {
                status.not_negative(&["currentReplicas", "desiredReplicas"]);
            }
            _ => {}
        }
    })
}

/// `parts` are the counts that cannot be above `status.replicas`.
fn replicas(status: &Place, parts: &[&str]) {
    status.not_negative(&["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
    status.not_negative(&["updatedReplicas", "currentReplicas", "unavailableReplicas", "terminatingReplicas"]);
    status.not_negative(&["observedGeneration", "collisionCount"]);
    let count = |key: &str| status.integer(key).unwrap_or(0);
    for part in parts {
        let is_more = count(part) > count("replicas");
        status.invalid_if(is_more, part, count(part), "cannot be greater than status.replicas");
    }
    let (key, available) = ("availableReplicas", count("availableReplicas"));
    let is_more = available > count("readyReplicas");
    status.invalid_if(is_more, key, available, "cannot be greater than readyReplicas");
}

/// The phase of a namespace tells whether it is being deleted.
fn namespace_phase(namespace: &Place) {
    let is_deleted = namespace.has("metadata.deletionTimestamp");
    let (expected, when) = if is_deleted { ("Terminating", "is not empty") } else { ("Active", "is empty") };
    let phase = namespace.text("status.phase");
    let detail = format!("may only be '{expected}' if `deletionTimestamp` {when}");
    namespace.invalid_if(phase != expected, "status.Phase", phase, &detail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(group: &str, kind: &str, object: &Value) -> Vec<String> {
        check_status(group, kind, object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn counts_must_agree() {
        let status = |status: Value| json!({"status": status});
        let good = status(json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1}));
        assert_eq!(texts("apps", "Deployment", &good), Vec::<String>::new());
        let bad = status(json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": -1}));
        assert_eq!(
            texts("apps", "ReplicaSet", &bad),
            [
                "status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ]
        );
    }

    #[test]
    fn a_namespace_is_active_until_it_is_deleted() {
        let namespace = json!({"metadata": {}, "status": {"phase": "Terminating"}});
        let expected =
            r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#;
        assert_eq!(texts("", "Namespace", &namespace), [expected]);
        let deleted =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Terminating"}});
        assert_eq!(texts("", "Namespace", &deleted), Vec::<String>::new());
    }
}
