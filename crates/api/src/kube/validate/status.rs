//! What a write to `/status` may not say: negative counts, counts that contradict each other, wrong phases.

use super::rows::{Row, check, number, set_at};
use crate::kube::field::FieldError;
use crate::kube::text;
use serde_json::Value;

/// Group, kind, the counts of its status, and those that cannot be above `status.replicas`.
type StatusRow = (&'static str, &'static str, &'static [Row], &'static [&'static str]);

const REPLICA_COUNTS: &[Row] = &[
    Row::NotNegative("replicas"),
    Row::NotNegative("fullyLabeledReplicas"),
    Row::NotNegative("readyReplicas"),
    Row::NotNegative("availableReplicas"),
    Row::NotNegative("updatedReplicas"),
    Row::NotNegative("currentReplicas"),
    Row::NotNegative("unavailableReplicas"),
    Row::NotNegative("terminatingReplicas"),
    Row::NotNegative("observedGeneration"),
    Row::NotNegative("collisionCount"),
];

const TABLE: &[StatusRow] = &[
    ("apps", "Deployment", REPLICA_COUNTS, &["updatedReplicas", "readyReplicas", "availableReplicas"]),
    ("apps", "ReplicaSet", REPLICA_COUNTS, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
    ("", "ReplicationController", REPLICA_COUNTS, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
    (
        "apps",
        "StatefulSet",
        REPLICA_COUNTS,
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ),
    (
        "apps",
        "DaemonSet",
        &[
            Row::NotNegative("currentNumberScheduled"),
            Row::NotNegative("numberMisscheduled"),
            Row::NotNegative("desiredNumberScheduled"),
            Row::NotNegative("numberReady"),
            Row::NotNegative("observedGeneration"),
            Row::NotNegative("updatedNumberScheduled"),
            Row::NotNegative("numberAvailable"),
            Row::NotNegative("numberUnavailable"),
        ],
        &[],
    ),
    (
        "batch",
        "Job",
        &[
            Row::NotNegative("active"),
            Row::NotNegative("succeeded"),
            Row::NotNegative("failed"),
            Row::NotNegative("ready"),
        ],
        &[],
    ),
    (
        "policy",
        "PodDisruptionBudget",
        &[
            Row::NotNegative("disruptionsAllowed"),
            Row::NotNegative("currentHealthy"),
            Row::NotNegative("desiredHealthy"),
            Row::NotNegative("expectedPods"),
        ],
        &[],
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        &[Row::NotNegative("currentReplicas"), Row::NotNegative("desiredReplicas")],
        &[],
    ),
];

/// Everything wrong with the status of a built-in kind other than Pod.
pub fn check_status(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    if (group, kind) == ("", "Namespace") {
        return check_namespace_phase(object).into_iter().collect();
    }
    let Some((_, _, rows, parts)) = TABLE.iter().find(|row| row.0 == group && row.1 == kind) else { return Vec::new() };
    let status = &object["status"];
    let mut errors = check(status, "status", rows);
    let count = |name: &str| number(status, name).unwrap_or(0);
    for name in parts.iter().filter(|name| count(name) > count("replicas")) {
        let detail = "cannot be greater than status.replicas";
        errors.push(FieldError::invalid(format!("status.{name}"), count(name), detail));
    }
    let available = count("availableReplicas");
    if !parts.is_empty() && available > count("readyReplicas") {
        let detail = "cannot be greater than readyReplicas";
        errors.push(FieldError::invalid("status.availableReplicas", available, detail));
    }
    errors
}

/// The phase of a namespace tells whether it is being deleted.
fn check_namespace_phase(namespace: &Value) -> Option<FieldError> {
    let is_deleted = set_at(namespace, "metadata.deletionTimestamp").is_some();
    let (expected, when) = if is_deleted { ("Terminating", "is not empty") } else { ("Active", "is empty") };
    let phase = text(namespace, "status.phase");
    let detail = format!("may only be '{expected}' if `deletionTimestamp` {when}");
    (phase != expected).then(|| FieldError::invalid("status.Phase", phase, &detail))
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
