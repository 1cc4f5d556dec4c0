//! Defaults of access rules, priorities, budgets, autoscalers, webhooks, leases, devices and reviews.

use super::rows::{Fill, KindRow, fill_row, items_mut, make_map, nothing_more};
use crate::kube::{at, text};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

const BINDING_ROWS: &[(&str, Fill)] =
    &[("roleRef.apiGroup", Fill::Text(RBAC)), ("roleRef.kind", Fill::Text("")), ("roleRef.name", Fill::Text(""))];

const VALIDATING_ROWS: &[(&str, Fill)] = &[
    ("webhooks[].failurePolicy", Fill::Text("Fail")),
    ("webhooks[].matchPolicy", Fill::Text("Equivalent")),
    ("webhooks[].namespaceSelector", Fill::Map),
    ("webhooks[].objectSelector", Fill::Map),
    ("webhooks[].timeoutSeconds", Fill::Number(10)),
    ("webhooks[].clientConfig", Fill::Map),
    ("webhooks[].clientConfig?.service?.port", Fill::Number(443)),
    ("webhooks[].rules[].scope", Fill::Text("*")),
];

pub const ROWS: &[KindRow] = &[
    KindRow { group: RBAC, kind: "Role", rows: &[("rules", Fill::Null)], more: nothing_more },
    KindRow { group: RBAC, kind: "ClusterRole", rows: &[("rules", Fill::Null)], more: nothing_more },
    KindRow { group: RBAC, kind: "RoleBinding", rows: BINDING_ROWS, more: fill_subjects },
    KindRow { group: RBAC, kind: "ClusterRoleBinding", rows: BINDING_ROWS, more: fill_subjects },
    KindRow {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        rows: &[("value", Fill::Number(0)), ("preemptionPolicy", Fill::Text("PreemptLowerPriority"))],
        more: nothing_more,
    },
    KindRow { group: "coordination.k8s.io", kind: "Lease", rows: &[("spec", Fill::Map)], more: nothing_more },
    KindRow {
        group: "policy",
        kind: "PodDisruptionBudget",
        rows: &[
            ("spec", Fill::Map),
            ("status.currentHealthy", Fill::Number(0)),
            ("status.desiredHealthy", Fill::Number(0)),
            ("status.disruptionsAllowed", Fill::Number(0)),
            ("status.expectedPods", Fill::Number(0)),
        ],
        more: nothing_more,
    },
    KindRow {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        rows: &[
            ("spec.minReplicas", Fill::Number(1)),
            ("spec.maxReplicas", Fill::Number(0)),
            ("spec.scaleTargetRef.kind", Fill::Text("")),
            ("spec.scaleTargetRef.name", Fill::Text("")),
            ("status.desiredReplicas", Fill::Number(0)),
        ],
        more: fill_autoscaler,
    },
    KindRow {
        group: "autoscaling",
        kind: "Scale",
        rows: &[("spec", Fill::Map), ("status.replicas", Fill::Number(0))],
        more: nothing_more,
    },
    KindRow {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        rows: VALIDATING_ROWS,
        more: nothing_more,
    },
    KindRow {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        rows: VALIDATING_ROWS,
        more: fill_mutating_webhooks,
    },
    KindRow { group: "node.k8s.io", kind: "RuntimeClass", rows: &[("handler", Fill::Text(""))], more: nothing_more },
    KindRow { group: "resource.k8s.io", kind: "DeviceClass", rows: &[("spec", Fill::Map)], more: nothing_more },
    KindRow {
        group: "resource.k8s.io",
        kind: "ResourceClaim",
        rows: &[
            ("spec.devices", Fill::Map),
            ("spec.devices.requests[].exactly?.allocationMode", Fill::Text("ExactCount")),
            ("status", Fill::Map),
        ],
        more: fill_claim_counts,
    },
    KindRow {
        group: "resource.k8s.io",
        kind: "ResourceClaimTemplate",
        rows: &[
            ("spec.metadata", Fill::Map),
            ("spec.spec.devices", Fill::Map),
            ("spec.spec.devices.requests[].exactly?.allocationMode", Fill::Text("ExactCount")),
        ],
        more: fill_claim_template_counts,
    },
    KindRow {
        group: "authentication.k8s.io",
        kind: "TokenRequest",
        rows: &[("spec.audiences", Fill::Null), ("spec.expirationSeconds", Fill::Number(3600))],
        more: nothing_more,
    },
];

fn fill_subjects(binding: &mut Value) {
    for subject in items_mut(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill_row(subject, "apiGroup", Fill::Text(RBAC));
        }
    }
}

/// The newer version of the kind speaks of metrics, the older one of a CPU percentage; each is filled in its own way.
fn fill_autoscaler(autoscaler: &mut Value) {
    if text(autoscaler, "apiVersion") == "autoscaling/v1" {
        fill_row(autoscaler, "status.currentReplicas", Fill::Number(0));
        return;
    }
    fill_row(autoscaler, "status.currentMetrics", Fill::Null);
    let has_metrics = at(autoscaler, "spec.metrics").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let has_behavior = at(autoscaler, "spec.behavior").is_some_and(Value::is_object);
    let Some(spec) = make_map(autoscaler, "spec") else { return };
    if !has_metrics {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    if has_behavior {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        fill_scaling_rules(autoscaler, "spec.behavior.scaleUp", json!([pods, percent]));
        fill_row(autoscaler, "spec.behavior.scaleUp.stabilizationWindowSeconds", Fill::Number(0));
        fill_scaling_rules(autoscaler, "spec.behavior.scaleDown", json!([percent]));
    }
}

fn fill_scaling_rules(autoscaler: &mut Value, path: &str, policies: Value) {
    if let Some(rules) = make_map(autoscaler, path) {
        rules.entry("selectPolicy").or_insert_with(|| "Max".into());
        rules.entry("policies").or_insert(policies);
    }
}

fn fill_mutating_webhooks(configuration: &mut Value) {
    fill_row(configuration, "webhooks[].reinvocationPolicy", Fill::Text("Never"));
}

fn fill_claim_counts(claim: &mut Value) {
    fill_device_counts(claim, "spec.devices.requests");
}

fn fill_claim_template_counts(template: &mut Value) {
    fill_device_counts(template, "spec.spec.devices.requests");
}

/// One device each, unless a request asks for all or for another number.
fn fill_device_counts(object: &mut Value, path: &str) {
    for request in items_mut(object, path) {
        if text(request, "exactly.allocationMode") == "ExactCount" {
            fill_row(request, "exactly?.count", Fill::Number(1));
        }
        for choice in items_mut(request, "firstAvailable") {
            fill_row(choice, "allocationMode", Fill::Text("ExactCount"));
            if text(choice, "allocationMode") == "ExactCount" {
                fill_row(choice, "count", Fill::Number(1));
            }
        }
    }
}
