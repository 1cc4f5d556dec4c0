//! Resource quotas: resource names, amounts and scopes.

use super::Rule;
use super::place::{IMMUTABLE, Place};
use super::pod_resources::{is_quota_resource, resource_amount, resource_name};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const RULES: &[Rule] = &[Rule::of("", "ResourceQuota", quota).on_update(quota_update)];

fn quota(quota: &Place) {
    for field in ["spec.hard", "status.hard", "status.used"] {
        for (name, amount) in quota.entries(field) {
            resource_name(&amount, name);
            let is_other = !name.contains('/') && !is_quota_resource(name);
            amount.invalid_if(is_other, "", name, "must be a standard resource for quota");
            resource_amount(&amount, name);
        }
    }
    scopes(&quota.field("spec"));
    quota.list("spec.scopeSelector.matchExpressions").iter().for_each(|expression| {
        // The reference leaves the index out of the path.
        scope_requirement(&quota.stand_in("spec.scopeSelector.matchExpressions", expression));
    });
}

fn quota_update(new: &Place, old: &Value) {
    let scopes = |quota: &Value| -> BTreeSet<String> {
        quota["spec"]["scopes"].as_array().into_iter().flatten().map(ToString::to_string).collect()
    };
    new.wrong_if(scopes(new.value) != scopes(old), "spec.scopes", IMMUTABLE);
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

fn scopes(spec: &Place) {
    let scopes: Vec<&str> = spec.texts("scopes").collect();
    for scope in &scopes {
        spec.wrong_if(scope_fits(scope, "pods").is_none(), "scopes", "unsupported scope");
        for (name, _) in spec.entries("hard").filter(|(name, _)| is_quota_resource(name)) {
            let is_unfit = scope_fits(scope, name) == Some(false);
            spec.wrong_if(is_unfit, "scopes", "unsupported scope applied to resource");
        }
    }
    let is_torn = CONFLICTS.iter().any(|pair| pair.iter().all(|scope| scopes.contains(scope)));
    spec.wrong_if(is_torn, "scopes", "conflicting scopes");
}

fn scope_requirement(expression: &Place) {
    let (scope, operator) = (expression.text("scopeName"), expression.text("operator"));
    let is_known = scope_fits(scope, "pods").is_some();
    expression.invalid_if(!is_known, "scopeName", scope, "unsupported scope");
    let only_exists = is_known && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
    expression.invalid_if(only_exists && operator != "Exists", "operator", operator, detail);
    let has_values = !expression.list("values").is_empty();
    match operator {
        "In" | "NotIn" => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            expression.needs_because("values", detail);
        }
        "Exists" | "DoesNotExist" => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            expression.wrong_if(has_values, "values", detail);
        }
        other => expression.invalid("operator", other, "not a valid selector operator"),
    }
}
