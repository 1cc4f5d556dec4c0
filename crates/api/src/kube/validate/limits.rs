//! Resource quotas and limit ranges: resource names, amounts, scopes, and bounds that must agree.

use super::Rule;
use super::read::quantity;
use super::rows::{entries, items, join, named, set_at};
use crate::kube::field::FieldError;
use crate::kube::quantity::Quantity;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const RULES: &[Rule] = &[
    Rule { group: "", kind: "ResourceQuota", is_namespaced: true, create: check_quota, update: check_quota_update },
    Rule {
        group: "",
        kind: "LimitRange",
        is_namespaced: true,
        create: check_limit_range,
        update: |new, _| check_limit_range(new),
    },
];

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that a quota counts in whole objects.
const COUNTED: [&str; 9] = [
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

fn is_huge_page(name: &str) -> bool {
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

/// Extended resources (`nvidia.com/gpu`) and object counts come in whole numbers.
fn is_whole(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    COUNTED.contains(&name) || (!is_native && !name.starts_with("requests."))
}

fn check_resource_name(name: &str, path: &str) -> Vec<FieldError> {
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

const LIMIT_TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
const BOUNDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

pub fn check_limit_range(limit_range: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, limit) in items(limit_range, "spec.limits").iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = text(limit, "type");
        let wrong = named(kind, &join(&path, "type"), names::qualified_name);
        if wrong.is_empty() && !kind.contains('/') && !LIMIT_TYPES.contains(&kind) {
            let detail = "must be a standard limit type or fully qualified";
            errors.push(FieldError::invalid(join(&path, "type"), kind, detail));
        }
        errors.extend(wrong);
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(join(&path, "type"), kind));
        }
        errors.extend(check_limit_names(limit, &path));
        errors.extend(check_bounds(limit, &path));
    }
    errors
}

fn check_limit_names(limit: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(limit, "type");
    for field in BOUNDS {
        let place = join(path, field);
        if kind == "Pod" && field.starts_with("default") {
            if entries(limit, field).next().is_some() {
                errors.push(FieldError::forbidden(place, "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (name, _) in entries(limit, field) {
            let place = format!("{place}[{name}]");
            errors.extend(check_resource_name(name, &place));
            let is_container_resource = name.contains('/') || COMPUTE.contains(&name.as_str()) || is_huge_page(name);
            if matches!(kind, "Pod" | "Container") && !is_container_resource {
                errors.push(FieldError::invalid(place, name.as_str(), "must be a standard resource for containers"));
            }
        }
    }
    let has_storage = ["min.storage", "max.storage"].iter().any(|field| set_at(limit, field).is_some());
    if kind == "PersistentVolumeClaim" && !has_storage {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(join(path, "limits"), detail));
    }
    errors
}

/// Which bound may not be above which other, where the error goes, whose value it shows, and both their names.
const ORDER: [(&str, &str, &str, &str, [&str; 2]); 6] = [
    ("min", "max", "min", "min", ["min value", "max value"]),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", ["min value", "default request value"]),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", ["default request value", "max value"]),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", ["default request value", "default limit value"]),
    ("min", "default", "default", "min", ["min value", "default value"]),
    ("default", "max", "default", "max", ["default value", "max value"]),
];

fn check_bounds(limit: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let is_pod = text(limit, "type") == "Pod";
    let used = BOUNDS.iter().filter(|field| !(is_pod && field.starts_with("default")));
    let bounds: BTreeMap<&str, BTreeMap<&str, Quantity>> = used
        .map(|field| {
            let amounts = entries(limit, field).filter_map(|(name, value)| Some((name.as_str(), quantity(value)?)));
            (*field, amounts.collect())
        })
        .collect();
    let amount = |field: &str, name: &str| bounds.get(field).and_then(|amounts| amounts.get(name)).copied();
    let resources: BTreeSet<&str> = bounds.values().flat_map(|amounts| amounts.keys().copied()).collect();
    for name in resources {
        for (low, high, place, shown, [low_name, high_name]) in ORDER {
            let (Some(low), Some(high)) = (amount(low, name), amount(high, name)) else { continue };
            if low > high {
                let value = amount(shown, name).unwrap_or_default().to_string();
                let detail = format!("{low_name} {low} is greater than {high_name} {high}");
                errors.push(FieldError::invalid(format!("{path}.{place}[{name}]"), value, &detail));
            }
        }
        if let Some(ratio) = amount("maxLimitRequestRatio", name) {
            errors.extend(check_ratio(ratio, amount("min", name), amount("max", name), path, name));
        }
        let overcommits = !name.contains('/') && !is_huge_page(name);
        if let (false, Some(limit), Some(request)) =
            (overcommits, amount("default", name), amount("defaultRequest", name))
        {
            if limit != request {
                let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
                errors.push(FieldError::invalid(
                    format!("{path}.defaultRequest[{name}]"),
                    request.to_string(),
                    &detail,
                ));
            }
        }
    }
    errors
}

fn check_ratio(
    ratio: Quantity,
    min: Option<Quantity>,
    max: Option<Quantity>,
    path: &str,
    name: &str,
) -> Option<FieldError> {
    let place = format!("{path}.maxLimitRequestRatio[{name}]");
    if ratio < Quantity::whole(1) {
        return Some(FieldError::invalid(place, ratio.to_string(), &format!("ratio {ratio} is less than 1")));
    }
    let (min, max) = (min?.milli_value() as f64, max?.milli_value() as f64);
    let widest = max / min;
    let detail = format!("ratio {ratio} is greater than max/min = {widest:.6}");
    (ratio.milli_value() as f64 / 1000.0 > widest).then(|| FieldError::invalid(place, ratio.to_string(), &detail))
}
