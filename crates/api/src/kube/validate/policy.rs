//! Access rules, priorities, budgets, autoscalers, leases, webhooks and runtime classes.

use super::Rule;
use super::label_selector::check_selector;
use super::rollout::check_count_or_percent;
use super::rows::{Row, check, check_update as fixed, flag, is_empty, items, join, named, number, same, set_at};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{names, text};
use serde_json::Value;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

pub const RULES: &[Rule] = &[
    Rule { group: RBAC, kind: "Role", is_namespaced: true, create: check_role, update: |new, _| check_role(new) },
    Rule {
        group: RBAC,
        kind: "ClusterRole",
        is_namespaced: false,
        create: check_cluster_role,
        update: |new, _| check_cluster_role(new),
    },
    Rule {
        group: RBAC,
        kind: "RoleBinding",
        is_namespaced: true,
        create: check_role_binding,
        update: check_role_binding_update,
    },
    Rule {
        group: RBAC,
        kind: "ClusterRoleBinding",
        is_namespaced: false,
        create: check_cluster_role_binding,
        update: check_cluster_role_binding_update,
    },
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
        group: ADMISSION,
        kind: "ValidatingWebhookConfiguration",
        is_namespaced: false,
        create: check_webhooks,
        update: |new, _| check_webhooks(new),
    },
    Rule {
        group: ADMISSION,
        kind: "MutatingWebhookConfiguration",
        is_namespaced: false,
        create: check_webhooks,
        update: |new, _| check_webhooks(new),
    },
    Rule {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        is_namespaced: false,
        create: check_runtime_class,
        update: check_runtime_class_update,
    },
];

pub fn check_role(role: &Value) -> Vec<FieldError> {
    check_rules(role, true)
}

pub fn check_cluster_role(role: &Value) -> Vec<FieldError> {
    let mut errors = check_rules(role, false);
    if let Some(aggregation) = set_at(role, "aggregationRule") {
        let path = "aggregationRule.clusterRoleSelectors";
        let selectors = items(aggregation, "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(path, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            errors.extend(check_selector(Some(selector), &format!("{path}[{index}]")));
        }
    }
    errors
}

fn check_rules(role: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in items(role, "rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        errors.extend(check(rule, &path, &[Row::Required("verbs", "verbs must contain at least one value")]));
        let urls = items(rule, "nonResourceURLs");
        if urls.is_empty() {
            const RESOURCE_ROWS: &[Row] = &[
                Row::Required("apiGroups", "resource rules must supply at least one api group"),
                Row::Required("resources", "resource rules must supply at least one resource"),
            ];
            errors.extend(check(rule, &path, RESOURCE_ROWS));
            continue;
        }
        let place = join(&path, "nonResourceURLs");
        if is_namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(place.as_str(), urls.to_vec(), detail));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !items(rule, name).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(place, urls.to_vec(), detail));
        }
    }
    errors
}

pub fn check_role_binding(binding: &Value) -> Vec<FieldError> {
    check_binding(binding, true)
}

pub fn check_cluster_role_binding(binding: &Value) -> Vec<FieldError> {
    check_binding(binding, false)
}

fn check_binding(binding: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let (group, kind, name) =
        (text(binding, "roleRef.apiGroup"), text(binding, "roleRef.kind"), text(binding, "roleRef.name"));
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let mut errors = Vec::new();
    if group != RBAC {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[RBAC]));
    }
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    errors.extend(named(name, "roleRef.name", names::path_segment));
    for (index, subject) in items(binding, "subjects").iter().enumerate() {
        errors.extend(check_subject(subject, &format!("subjects[{index}]"), is_namespaced));
    }
    errors
}

fn check_subject(subject: &Value, path: &str, is_namespaced: bool) -> Vec<FieldError> {
    let (kind, group, name) = (text(subject, "kind"), text(subject, "apiGroup"), text(subject, "name"));
    let mut errors = check(subject, path, &[Row::Required("name", "")]);
    let place = join(path, "apiGroup");
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(named(name, &join(path, "name"), names::dns_subdomain));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(place, group, &[""]));
            }
            if !is_namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(join(path, "namespace"), ""));
            }
        }
        "User" | "Group" if group != RBAC => errors.push(FieldError::not_supported(place, group, &[RBAC])),
        "User" | "Group" => {}
        other => {
            let kinds = &["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(join(path, "kind"), other, kinds));
        }
    }
    errors
}

pub fn check_role_binding_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_binding(new, true);
    errors.extend(check_role_ref(new, old));
    errors
}

pub fn check_cluster_role_binding_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_binding(new, false);
    errors.extend(check_role_ref(new, old));
    errors
}

fn check_role_ref(new: &Value, old: &Value) -> Option<FieldError> {
    if same(new.get("roleRef"), old.get("roleRef")) {
        return None;
    }
    let part = |name: &str| Value::from(text(new, &join("roleRef", name)));
    // The reference prints the reference with the field names of its own code.
    let shown = format!(r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#, part("apiGroup"), part("kind"), part("name"));
    Some(FieldError::new("roleRef", Problem::Invalid, format!("Invalid value: {shown}: cannot change roleRef")))
}

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

pub fn check_webhooks(configuration: &Value) -> Vec<FieldError> {
    const ROWS: &[Row] = &[
        Row::OneOf("failurePolicy", &["Fail", "Ignore"]),
        Row::OneOf("matchPolicy", &["Equivalent", "Exact"]),
        Row::OneOf("reinvocationPolicy", &["IfNeeded", "Never"]),
        Row::Required("sideEffects", "must specify one of None, NoneOnDryRun"),
        Row::OneOf("sideEffects", &["None", "NoneOnDryRun"]),
        Row::Required("admissionReviewVersions", "must specify one of v1, v1beta1"),
    ];
    let mut errors = Vec::new();
    for (index, hook) in items(configuration, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        errors.extend(check_hook_name(text(hook, "name"), &join(&path, "name")));
        errors.extend(check(hook, &path, ROWS));
        if let Some(seconds) = number(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(join(&path, "timeoutSeconds"), seconds, detail));
        }
        for name in ["namespaceSelector", "objectSelector"] {
            errors.extend(check_selector(hook.get(name), &join(&path, name)));
        }
        if set_at(hook, "clientConfig.url").is_some() == set_at(hook, "clientConfig.service").is_some() {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::required(join(&path, "clientConfig"), detail));
        }
        for (place, rule) in items(hook, "rules").iter().enumerate() {
            errors.extend(check_hook_rule(rule, &format!("{path}.rules[{place}]")));
        }
    }
    errors
}

fn check_hook_name(name: &str, path: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = named(name, path, names::dns_subdomain);
    if errors.is_empty() && name.split('.').count() < 3 {
        errors.push(FieldError::invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        ));
    }
    errors
}

fn check_hook_rule(rule: &Value, path: &str) -> Vec<FieldError> {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    const ROWS: &[Row] = &[
        Row::Required("operations", ""),
        Row::Required("apiGroups", ""),
        Row::Required("apiVersions", ""),
        Row::Required("resources", ""),
        Row::OneOf("scope", &["*", "Cluster", "Namespaced"]),
    ];
    let mut errors = check(rule, path, ROWS);
    for (index, operation) in items(rule, "operations").iter().enumerate() {
        errors.extend(super::rows::one_of(operation, &format!("{path}.operations[{index}]"), OPERATIONS));
    }
    for (name, what) in [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = items(rule, name);
        if list.len() > 1 && list.iter().any(|item| item == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(join(path, name), list.to_vec(), &detail));
        }
    }
    errors
}

pub fn check_runtime_class(class: &Value) -> Vec<FieldError> {
    let handler = text(class, "handler");
    if is_empty(class.get("handler")) {
        return vec![FieldError::required("handler", "")];
    }
    named(handler, "handler", names::dns_label)
}

pub fn check_runtime_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    fixed(new, old, "", &[Row::Fixed("handler")])
}
