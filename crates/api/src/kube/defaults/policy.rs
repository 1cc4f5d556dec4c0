//! Defaults of access rules, priorities, budgets, autoscalers, webhooks, leases, devices and reviews.

use super::rows::Fill::{self, Null, Number, Object, Text};
use super::rows::{Kind, fill_row, make_map};
use crate::kube::{at, items_mut, text};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

const BINDING_ROWS: &[(&str, Fill)] =
    &[("roleRef.apiGroup", Text(RBAC)), ("roleRef.kind", Text("")), ("roleRef.name", Text(""))];

const VALIDATING_ROWS: &[(&str, Fill)] = &[
    ("webhooks[].failurePolicy", Text("Fail")),
    ("webhooks[].matchPolicy", Text("Equivalent")),
    ("webhooks[].namespaceSelector", Object),
    ("webhooks[].objectSelector", Object),
    ("webhooks[].timeoutSeconds", Number(10)),
    ("webhooks[].clientConfig", Object),
    ("webhooks[].clientConfig?.service?.port", Number(443)),
    ("webhooks[].rules[].scope", Text("*")),
];

pub(super) const KINDS: &[Kind] = &[
    Kind::of(RBAC, "Role").rows(&[("rules", Null)]),
    Kind::of(RBAC, "ClusterRole").rows(&[("rules", Null)]),
    Kind::of(RBAC, "RoleBinding").then(fill_subjects).rows(BINDING_ROWS),
    Kind::of(RBAC, "ClusterRoleBinding").then(fill_subjects).rows(BINDING_ROWS),
    Kind::of("scheduling.k8s.io", "PriorityClass")
        .rows(&[("value", Number(0)), ("preemptionPolicy", Text("PreemptLowerPriority"))]),
    Kind::of("coordination.k8s.io", "Lease").rows(&[("spec", Object)]),
    Kind::of("policy", "PodDisruptionBudget").rows(&[
        ("spec", Object),
        ("status.currentHealthy", Number(0)),
        ("status.desiredHealthy", Number(0)),
        ("status.disruptionsAllowed", Number(0)),
        ("status.expectedPods", Number(0)),
    ]),
    Kind::of("autoscaling", "HorizontalPodAutoscaler").then(fill_autoscaler).rows(&[
        ("spec.minReplicas", Number(1)),
        ("spec.maxReplicas", Number(0)),
        ("spec.scaleTargetRef.kind", Text("")),
        ("spec.scaleTargetRef.name", Text("")),
        ("status.desiredReplicas", Number(0)),
    ]),
    Kind::of("autoscaling", "Scale").rows(&[("spec", Object), ("status.replicas", Number(0))]),
    Kind::of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration").rows(VALIDATING_ROWS),
    Kind::of("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
        .then(fill_mutating_webhooks)
        .rows(VALIDATING_ROWS),
    Kind::of("node.k8s.io", "RuntimeClass").rows(&[("handler", Text(""))]),
    Kind::of("resource.k8s.io", "DeviceClass").rows(&[("spec", Object)]),
    Kind::of("resource.k8s.io", "ResourceClaim").then(fill_claim_counts).rows(&[
        ("spec.devices", Object),
        ("spec.devices.requests[].exactly?.allocationMode", Text("ExactCount")),
        ("status", Object),
    ]),
    Kind::of("resource.k8s.io", "ResourceClaimTemplate").then(fill_claim_template_counts).rows(&[
        ("spec.metadata", Object),
        ("spec.spec.devices", Object),
        ("spec.spec.devices.requests[].exactly?.allocationMode", Text("ExactCount")),
    ]),
    Kind::of("authentication.k8s.io", "TokenRequest")
        .rows(&[("spec.audiences", Null), ("spec.expirationSeconds", Number(3600))]),
];

fn fill_subjects(binding: &mut Value) {
    for subject in items_mut(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill_row(subject, "apiGroup", Text(RBAC));
        }
    }
}

/// The newer version of the kind speaks of metrics, the older one of a CPU percentage; each is filled in its own way.
fn fill_autoscaler(autoscaler: &mut Value) {
    if text(autoscaler, "apiVersion") == "autoscaling/v1" {
        fill_row(autoscaler, "status.currentReplicas", Number(0));
        return;
    }
    fill_row(autoscaler, "status.currentMetrics", Null);
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
        fill_row(autoscaler, "spec.behavior.scaleUp.stabilizationWindowSeconds", Number(0));
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
    fill_row(configuration, "webhooks[].reinvocationPolicy", Text("Never"));
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
            fill_row(request, "exactly?.count", Number(1));
        }
        for choice in items_mut(request, "firstAvailable") {
            fill_row(choice, "allocationMode", Text("ExactCount"));
            if text(choice, "allocationMode") == "ExactCount" {
                fill_row(choice, "count", Number(1));
            }
        }
    }
}
