//! Resource quotas: resource names, amounts and scopes.

use super::Rule;
use super::read::quantity;
use super::rows::{entries, items, join, named};
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::BTreeSet;

pub const RULES: &[Rule] =
    &[Rule { group: "", kind: "ResourceQuota", is_namespaced: true, create: check_quota, update: check_quota_update }];

pub const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that come in whole objects: no fractions, here or in pods.
pub const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

/// Names without a prefix that a quota knows.
fn is_quota_name(name: &str) -> bool {
    let compute = name.strip_prefix("requests.").or(name.strip_prefix("limits.")).unwrap_or(name);
    COMPUTE.contains(&compute) || COUNTED.contains(&name) || name == "requests.storage" || is_huge_page(name)
}

fn is_standard(name: &str) -> bool {
    is_quota_name(name) || name == "storage"
}

/// Not an extended resource such as `nvidia.com/gpu`.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Extended resources and object counts come in whole numbers.
fn is_whole(name: &str) -> bool {
    COUNTED.contains(&name) || (!is_native(name) && !name.starts_with("requests."))
}

pub fn check_resource_name(name: &str, path: &str) -> Vec<FieldError> {
    let errors = named(name, path, names::qualified_name);
    if errors.is_empty() && !name.contains('/') && !is_standard(name) {
        return vec![FieldError::invalid(path, name, "must be a standard resource type or fully qualified")];
    }
    errors
}

fn check_amount(name: &str, value: &Value, path: &str) -> Vec<FieldError> {
    let Some(amount) = quantity(value) else { return Vec::new() };
    let mut errors = Vec::new();
    if amount.is_negative() {
        errors.push(FieldError::invalid(path, value.clone(), "must be greater than or equal to 0"));
    }
    if is_whole(name) && amount.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
    }
    errors
}

pub fn check_quota(quota: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["spec.hard", "status.hard", "status.used"] {
        for (name, value) in entries(quota, field) {
            let path = format!("{field}[{name}]");
            errors.extend(check_resource_name(name, &path));
            if !name.contains('/') && !is_quota_name(name) {
                errors.push(FieldError::invalid(path.as_str(), name.as_str(), "must be a standard resource for quota"));
            }
            errors.extend(check_amount(name, value, &path));
        }
    }
    errors.extend(check_scopes(quota));
    errors.extend(check_scope_selector(quota));
    errors
}

pub fn check_quota_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let scopes = |quota: &Value| items(quota, "spec.scopes").iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let mut errors = check_quota(new);
    if scopes(new) != scopes(old) {
        let value = new["spec"].get("scopes").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("spec.scopes", value, super::rows::IMMUTABLE));
    }
    errors
}

const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// What a scope can be combined with; `None` for a scope that does not exist.
fn scope_fits(scope: &str, name: &str) -> Option<bool> {
    let compute = name.strip_prefix("requests.").or(name.strip_prefix("limits.")).unwrap_or(name);
    let is_pod_compute = matches!(compute, "cpu" | "memory");
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            Some(name == "pods" || is_pod_compute)
        }
        "BestEffort" => Some(name == "pods"),
        "VolumeAttributesClass" => Some(matches!(name, "persistentvolumeclaims" | "requests.storage")),
        _ => None,
    }
}

fn check_scopes(quota: &Value) -> Vec<FieldError> {
    let scopes: Vec<&str> = items(quota, "spec.scopes").iter().filter_map(Value::as_str).collect();
    let invalid = |detail: &str| FieldError::invalid("spec.scopes", quota["spec"]["scopes"].clone(), detail);
    let mut errors = Vec::new();
    for scope in &scopes {
        if scope_fits(scope, "pods").is_none() {
            errors.push(invalid("unsupported scope"));
        }
        let hard = entries(quota, "spec.hard").map(|(name, _)| name.as_str()).filter(|name| is_quota_name(name));
        errors.extend(
            hard.filter(|name| scope_fits(scope, name) == Some(false))
                .map(|_| invalid("unsupported scope applied to resource")),
        );
    }
    if CONFLICTS.iter().any(|pair| pair.iter().all(|scope| scopes.contains(scope))) {
        errors.push(invalid("conflicting scopes"));
    }
    errors
}

fn check_scope_selector(quota: &Value) -> Vec<FieldError> {
    let path = "spec.scopeSelector.matchExpressions";
    let mut errors = Vec::new();
    for expression in items(quota, path) {
        let (scope, operator) = (text(expression, "scopeName"), text(expression, "operator"));
        if scope_fits(scope, "pods").is_none() {
            errors.push(FieldError::invalid(join(path, "scopeName"), scope, "unsupported scope"));
        }
        let only_exists =
            !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && scope_fits(scope, "pods").is_some();
        if only_exists && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(join(path, "operator"), operator, detail));
        }
        let values = items(expression, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                join(path, "values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
                join(path, "values"),
                values.to_vec(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(join(path, "operator"), other, "not a valid selector operator")),
        }
    }
    errors
}
