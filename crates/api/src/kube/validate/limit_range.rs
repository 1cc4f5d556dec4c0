//! Limit ranges: types, resource names, and bounds that must agree.

use super::Rule;
use super::quota::{COMPUTE, check_resource_name, is_huge_page, is_native};
use super::read::quantity;
use super::rows::{entries, items, join, named, set_at};
use crate::kube::field::FieldError;
use crate::kube::quantity::Quantity;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const RULES: &[Rule] = &[Rule {
    group: "",
    kind: "LimitRange",
    is_namespaced: true,
    create: check_limit_range,
    update: |new, _| check_limit_range(new),
}];

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
        let overcommits = is_native(name) && !is_huge_page(name);
        let pair = amount("default", name).zip(amount("defaultRequest", name));
        if let Some((limit, request)) = pair.filter(|(limit, request)| !overcommits && limit != request) {
            let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
            errors.push(FieldError::invalid(format!("{path}.defaultRequest[{name}]"), request.to_string(), &detail));
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
