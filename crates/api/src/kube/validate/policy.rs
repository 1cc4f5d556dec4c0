//! Priorities, budgets, autoscalers, leases and runtime classes (K-ADM-4).

use super::Rule;
use super::label_selector::check_selector;
use super::rollout::check_count_or_percent;
use super::rows::{Row, check, check_update as fixed, flag, items, join, named, number, set_at};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{names, text};
use serde_json::Value;

pub const RULES: &[Rule] = &[
    Rule {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        is_namespaced: false,
        create: check_priority_class,
        update: check_priority_class_update,
    },
    Rule {
        group: "policy",
        kind: "PodDisruptionBudget",
        is_namespaced: true,
        create: check_budget,
        update: |new, _| check_budget(new),
    },
    Rule {
        group: "coordination.k8s.io",
        kind: "Lease",
        is_namespaced: true,
        create: check_lease,
        update: |new, _| check_lease(new),
    },
    Rule {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        is_namespaced: true,
        create: check_autoscaler,
        update: |new, _| check_autoscaler(new),
    },
    Rule {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        is_namespaced: false,
        create: check_runtime_class,
        update: check_runtime_class_update,
    },
];

/// The most that a class of the user's may have; more is for the system's own.
pub const PRIORITY_MAX: i64 = 1_000_000_000;
pub const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub fn check_priority_class(class: &Value) -> Vec<FieldError> {
    let mut errors = check(class, "", &[Row::OneOf("preemptionPolicy", &["Never", "PreemptLowerPriority"])]);
    let (name, value) = (text(class, "metadata.name"), number(class, "value").unwrap_or(0));
    if name.starts_with("system-") {
        errors.extend(system_class_problem(name, value, flag(class, "globalDefault")).map(|why| {
            let detail =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            FieldError::forbidden("metadata.name", &detail)
        }));
    } else if value > PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        errors.push(FieldError::forbidden("value", &detail));
    }
    errors
}

fn system_class_problem(name: &str, value: i64, is_default: bool) -> Option<String> {
    match SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, right)) if *right != value => Some(format!("value of {name} PriorityClass must be {right}")),
        Some(_) if is_default => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
    }
}

pub fn check_priority_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if number(new, "value").unwrap_or(0) != number(old, "value").unwrap_or(0) {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    errors.extend(fixed(new, old, "", &[Row::Fixed("preemptionPolicy")]));
    errors
}

pub fn check_budget(budget: &Value) -> Vec<FieldError> {
    let spec = &budget["spec"];
    let mut errors =
        check(spec, "spec", &[Row::OneOf("unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"])]);
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|name| set_at(spec, name).is_some()) {
        let part = |name: &str| spec.get(name).cloned().unwrap_or_default();
        let shown = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy"),
        );
        let text = format!("Invalid value: {shown}: minAvailable and maxUnavailable cannot be both set");
        errors.push(FieldError::new("spec", Problem::Invalid, text));
    }
    for name in bounds {
        errors.extend(check_count_or_percent(spec, "spec", name, true));
    }
    errors.extend(check_selector(spec.get("selector"), "spec.selector"));
    errors
}

pub fn check_lease(lease: &Value) -> Vec<FieldError> {
    let spec = &lease["spec"];
    let mut errors = check(spec, "spec", &[Row::NotNegative("leaseTransitions")]);
    if let Some(seconds) = number(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden("spec.preferredHolder", detail));
    }
    errors
}

/// Which field of a metric goes with its type.
const METRICS: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub fn check_autoscaler(autoscaler: &Value) -> Vec<FieldError> {
    let spec = &autoscaler["spec"];
    let mut errors =
        check(spec, "spec", &[Row::Required("scaleTargetRef.kind", ""), Row::Required("scaleTargetRef.name", "")]);
    let (min, max) = (number(spec, "minReplicas"), number(spec, "maxReplicas").unwrap_or(0));
    if let Some(min) = min.filter(|min| *min < 1) {
        errors.push(FieldError::invalid("spec.minReplicas", min, "must be greater than or equal to 1"));
    }
    if max < 1 {
        errors.push(FieldError::invalid("spec.maxReplicas", max, "must be greater than 0"));
    }
    if min.is_some_and(|min| max < min) {
        errors.push(FieldError::invalid("spec.maxReplicas", max, "must be greater than or equal to `minReplicas`"));
    }
    for (index, metric) in items(spec, "metrics").iter().enumerate() {
        let path = format!("spec.metrics[{index}]");
        let kind = text(metric, "type");
        match METRICS.iter().find(|(name, _)| *name == kind) {
            Some((_, field)) if set_at(metric, field).is_none() => {
                let detail = "must populate information for the given metric source";
                errors.push(FieldError::required(join(&path, field), detail));
            }
            Some(_) => {}
            None => {
                let known: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
                errors.push(FieldError::not_supported(join(&path, "type"), kind, &known));
            }
        }
    }
    errors
}

pub fn check_runtime_class(class: &Value) -> Vec<FieldError> {
    named(text(class, "handler"), "handler", names::dns_label)
}

pub fn check_runtime_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    fixed(new, old, "", &[Row::Fixed("handler")])
}
