//! Limit ranges: types, resource names, and bounds that must agree.

use super::Rule;
use super::place::{Place, quantity};
use super::pod_resources::{is_container_resource, may_overcommit, resource_name};
use crate::kube::names;
use crate::kube::quantity::Quantity;
use std::collections::BTreeSet;

pub(super) const RULES: &[Rule] = &[Rule::of("", "LimitRange", limit_range)];

const LIMIT_TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
const BOUNDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn limit_range(limit_range: &Place) {
    let mut seen = BTreeSet::new();
    for limit in limit_range.items("spec.limits") {
        let kind = limit.text("type");
        limit.named("type", names::qualified_name);
        let is_other = names::qualified_name(kind).is_empty() && !kind.contains('/') && !LIMIT_TYPES.contains(&kind);
        limit.wrong_if(is_other, "type", "must be a standard limit type or fully qualified");
        limit.duplicate_if(!seen.insert(kind), "type", kind);
        resource_names(&limit);
        bounds(&limit);
    }
}

fn resource_names(limit: &Place) {
    let kind = limit.text("type");
    for field in BOUNDS {
        if kind == "Pod" && field.starts_with("default") {
            let is_given = limit.entries(field).next().is_some();
            limit.forbidden_if(is_given, field, "may not be specified when `type` is 'Pod'");
            continue;
        }
        for (name, amount) in limit.entries(field) {
            resource_name(&amount, name);
            let is_other = !name.contains('/') && !is_container_resource(name);
            let is_wrong = matches!(kind, "Pod" | "Container") && is_other;
            amount.invalid_if(is_wrong, "", name, "must be a standard resource for containers");
        }
    }
    if kind == "PersistentVolumeClaim" && !limit.has("min.storage") && !limit.has("max.storage") {
        limit.required("limits", "either minimum or maximum storage value is required, but neither was provided");
    }
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

fn bounds(limit: &Place) {
    let is_pod = limit.text("type") == "Pod";
    let used = BOUNDS.into_iter().filter(|field| !(is_pod && field.starts_with("default")));
    let resources: BTreeSet<&str> = used.flat_map(|field| limit.entries(field).map(|(name, _)| name)).collect();
    for name in resources {
        let amount = |field: &str| {
            let is_used = !(is_pod && field.starts_with("default"));
            limit.get(field).get(name).filter(|_| is_used).and_then(quantity)
        };
        let invalid = |place: &str, value: Quantity, detail: &str| {
            limit.invalid(&format!("{place}[{name}]"), value.to_string(), detail);
        };
        for (low, high, place, shown, [low_name, high_name]) in ORDER {
            let (Some(low), Some(high)) = (amount(low), amount(high)) else { continue };
            if low > high {
                let detail = format!("{low_name} {low} is greater than {high_name} {high}");
                invalid(place, amount(shown).unwrap_or_default(), &detail);
            }
        }
        if let Some(ratio) = amount("maxLimitRequestRatio")
            && let Some(detail) = ratio_problem(ratio, amount("min"), amount("max"))
        {
            invalid("maxLimitRequestRatio", ratio, &detail);
        }
        if let (Some(default), Some(request)) = (amount("default"), amount("defaultRequest"))
            && default != request
            && !may_overcommit(name)
        {
            let detail = format!("default value {default} must equal to defaultRequest value {request} in {name}");
            invalid("defaultRequest", request, &detail);
        }
    }
}

fn ratio_problem(ratio: Quantity, min: Option<Quantity>, max: Option<Quantity>) -> Option<String> {
    if ratio < Quantity::whole(1) {
        return Some(format!("ratio {ratio} is less than 1"));
    }
    let widest = max?.milli_value() as f64 / min?.milli_value() as f64;
    let is_greater = ratio.milli_value() as f64 / 1000.0 > widest;
    is_greater.then(|| format!("ratio {ratio} is greater than max/min = {widest:.6}"))
}
