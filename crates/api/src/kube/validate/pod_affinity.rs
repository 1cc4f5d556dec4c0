//! Where a pod may run: node and pod affinity, tolerations, topology spread.

use super::metadata::label_selector;
use super::path::Path;
use super::read::{NOT_POSITIVE, complain, entries, given, integer, list, one_of, optional_one_of, string};
use crate::kube::field::FieldError;
use crate::kube::names;
use serde_json::Value;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(errors: &mut Vec<FieldError>, affinity: &Value, path: &Path) {
    if let Some(node) = given(affinity, "nodeAffinity") {
        node_affinity(errors, node, &path.field("nodeAffinity"));
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let (terms, path) = (&affinity[key], path.field(key));
        let required = path.field(REQUIRED);
        for (index, term) in list(terms, REQUIRED).iter().enumerate() {
            pod_term(errors, term, &required.index(index));
        }
        let preferred = path.field(PREFERRED);
        for (index, term) in list(terms, PREFERRED).iter().enumerate() {
            let path = preferred.index(index);
            weight(errors, term, &path);
            pod_term(errors, &term["podAffinityTerm"], &path.field("podAffinityTerm"));
        }
    }
}

fn weight(errors: &mut Vec<FieldError>, term: &Value, path: &Path) {
    let weight = integer(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(path.field("weight"), weight, "must be in the range 1-100"));
    }
}

fn node_affinity(errors: &mut Vec<FieldError>, affinity: &Value, path: &Path) {
    if let Some(selector) = given(affinity, REQUIRED) {
        node_selector(errors, selector, &path.field(REQUIRED));
    }
    let preferred = path.field(PREFERRED);
    for (index, term) in list(affinity, PREFERRED).iter().enumerate() {
        let path = preferred.index(index);
        weight(errors, term, &path);
        node_term(errors, &term["preference"], &path.field("preference"), false);
    }
}

/// A node selector with at least one term, as in affinity and in persistent volumes.
pub fn node_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &Path) {
    let terms = path.field("nodeSelectorTerms");
    if list(selector, "nodeSelectorTerms").is_empty() {
        errors.push(FieldError::required(terms, "must have at least one node selector term"));
    }
    for (index, term) in list(selector, "nodeSelectorTerms").iter().enumerate() {
        node_term(errors, term, &terms.index(index), true);
    }
}

/// Label values are checked only where the term is binding.
fn node_term(errors: &mut Vec<FieldError>, term: &Value, path: &Path, checks_values: bool) {
    let expressions = path.field("matchExpressions");
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        node_requirement(errors, expression, &path);
        for (index, value) in list(expression, "values").iter().filter_map(Value::as_str).enumerate() {
            if checks_values {
                complain(errors, &path.field("values").index(index), value, names::label_value(value));
            }
        }
    }
    let fields = path.field("matchFields");
    for (index, requirement) in list(term, "matchFields").iter().enumerate() {
        node_field_requirement(errors, requirement, &fields.index(index));
    }
}

fn node_requirement(errors: &mut Vec<FieldError>, requirement: &Value, path: &Path) {
    let (operator, count) = (string(requirement, "operator"), list(requirement, "values").len());
    let values = path.field("values");
    match operator {
        "In" | "NotIn" if count == 0 => {
            errors.push(FieldError::required(values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(values, detail));
        }
        "Gt" | "Lt" if count != 1 => {
            errors.push(FieldError::required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(FieldError::invalid(path.field("operator"), operator, "not a valid selector operator")),
    }
    let key = string(requirement, "key");
    complain(errors, &path.field("key"), key, names::qualified_name(key));
}

fn node_field_requirement(errors: &mut Vec<FieldError>, requirement: &Value, path: &Path) {
    let (operator, key) = (string(requirement, "operator"), string(requirement, "key"));
    if !matches!(operator, "In" | "NotIn") {
        errors.push(FieldError::invalid(path.field("operator"), operator, "not a valid selector operator"));
    } else if list(requirement, "values").len() != 1 {
        let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        errors.push(FieldError::required(path.field("values"), detail));
    }
    if key != "metadata.name" {
        errors.push(FieldError::invalid(path.field("key"), key, "not a valid field selector key"));
        return;
    }
    for (index, value) in list(requirement, "values").iter().filter_map(Value::as_str).enumerate() {
        complain(errors, &path.field("values").index(index), value, names::dns_subdomain(value));
    }
}

fn pod_term(errors: &mut Vec<FieldError>, term: &Value, path: &Path) {
    for key in ["labelSelector", "namespaceSelector"] {
        label_selector(errors, &term[key], &path.field(key));
    }
    for namespace in list(term, "namespaces").iter().filter_map(Value::as_str) {
        complain(errors, &path.field("namespace"), namespace, names::dns_label(namespace));
    }
    match_label_keys(errors, term, path);
    let topology = string(term, "topologyKey");
    if topology.is_empty() {
        errors.push(FieldError::required(path.field("topologyKey"), "can not be empty"));
    }
    complain(errors, &path.field("topologyKey"), topology, names::qualified_name(topology));
}

/// Keys whose values are copied from the pod into the selector; a key stands in one place only.
fn match_label_keys(errors: &mut Vec<FieldError>, term: &Value, path: &Path) {
    let selector = given(term, "labelSelector");
    for key in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = path.field(key);
        if !list(term, key).is_empty() && selector.is_none() {
            errors.push(FieldError::forbidden(at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, name) in list(term, key).iter().filter_map(Value::as_str).enumerate() {
            complain(errors, &at.index(index), name, names::qualified_name(name));
        }
    }
    for (index, name) in list(term, "matchLabelKeys").iter().filter_map(Value::as_str).enumerate() {
        // The merged selector holds each key once as an expression; any further mention is the user's own.
        let expressions = selector.map_or(0, |selector| {
            list(selector, "matchExpressions").iter().filter(|e| string(e, "key") == name).count()
        });
        let labels =
            selector.map_or(0, |selector| entries(selector, "matchLabels").filter(|(key, _)| *key == name).count());
        if expressions > 0 && expressions + labels > 1 {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(path.index(index), name, detail));
        }
        if list(term, "mismatchLabelKeys").iter().any(|other| other.as_str() == Some(name)) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(path.field("matchLabelKeys").index(index), name, detail));
        }
    }
}

pub(super) fn tolerations(errors: &mut Vec<FieldError>, tolerations: &[Value], path: &Path) {
    for (index, toleration) in tolerations.iter().enumerate() {
        self::toleration(errors, toleration, &path.index(index));
    }
}

fn toleration(errors: &mut Vec<FieldError>, toleration: &Value, path: &Path) {
    let key = string(toleration, "key");
    let (operator, value, effect) =
        (string(toleration, "operator"), string(toleration, "value"), string(toleration, "effect"));
    if key.is_empty() {
        if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(path.field("operator"), operator, detail));
        }
    } else {
        complain(errors, &path.field("key"), key, names::qualified_name(key));
    }
    if given(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(path.field("effect"), effect, detail));
    }
    match operator {
        "" | "Equal" => {
            let complaints = names::label_value(value);
            if !complaints.is_empty() {
                errors.push(FieldError::invalid(path.field("operator"), value, &complaints.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(path.field("operator"), value, detail));
        }
        "Exists" => {}
        "Lt" | "Gt" => {
            // Switched off in 1.35, yet named among the supported ones.
            let supported = &["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::not_supported(path.field("operator"), operator, supported));
        }
        _ => one_of(errors, toleration, path, "operator", &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        one_of(errors, toleration, path, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

pub(super) fn topology_spread(errors: &mut Vec<FieldError>, constraints: &[Value], path: &Path) {
    let pair = |constraint: &Value| {
        format!("{{{}, {}}}", string(constraint, "topologyKey"), string(constraint, "whenUnsatisfiable"))
    };
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let skew = integer(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(path.field("maxSkew"), skew, NOT_POSITIVE));
        }
        if string(constraint, "topologyKey").is_empty() {
            errors.push(FieldError::required(path.field("topologyKey"), "can not be empty"));
        }
        one_of(errors, constraint, &path, "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]);
        if constraints[index + 1..].iter().any(|other| pair(other) == pair(constraint)) {
            errors.push(FieldError::duplicate(path.field("{topologyKey, whenUnsatisfiable}"), pair(constraint)));
        }
        minimum_domains(errors, constraint, &path);
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            optional_one_of(errors, constraint, &path, key, &["Honor", "Ignore"]);
        }
        match_label_keys(errors, constraint, &path);
        label_selector(errors, &constraint["labelSelector"], &path.field("labelSelector"));
    }
}

fn minimum_domains(errors: &mut Vec<FieldError>, constraint: &Value, path: &Path) {
    let Some(domains) = integer(constraint, "minDomains") else { return };
    let action = string(constraint, "whenUnsatisfiable");
    if domains <= 0 {
        errors.push(FieldError::invalid(path.field("minDomains"), domains, NOT_POSITIVE));
    }
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(path.field("minDomains"), domains, &detail));
    }
}
