//! Where a pod may run: node and pod affinity, tolerations, topology spread.

use super::metadata::{label_selector, selector_operator};
use super::place::{NOT_POSITIVE, Place};
use crate::kube::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Place) {
    let node = affinity.field("nodeAffinity");
    if let Some(selector) = node.given(REQUIRED) {
        node_selector(&selector);
    }
    for term in node.items(PREFERRED) {
        weight(&term);
        node_term(&term.field("preference"), false);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.field(key);
        terms.items(REQUIRED).for_each(|term| pod_term(&term));
        for term in terms.items(PREFERRED) {
            weight(&term);
            pod_term(&term.field("podAffinityTerm"));
        }
    }
}

fn weight(term: &Place) {
    let weight = term.integer("weight").unwrap_or(0);
    term.invalid_if(!(1..=100).contains(&weight), "weight", weight, "must be in the range 1-100");
}

fn node_selector(selector: &Place) {
    selector.needs_because("nodeSelectorTerms", "must have at least one node selector term");
    selector.items("nodeSelectorTerms").for_each(|term| node_term(&term, true));
}

/// Label values are checked only where the term is binding.
fn node_term(term: &Place, checks_values: bool) {
    for expression in term.items("matchExpressions") {
        selector_operator(&expression, &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
        expression.named("key", names::qualified_name);
        for value in expression.items("values").filter(|_| checks_values) {
            value.named("", names::label_value);
        }
    }
    term.items("matchFields").for_each(|requirement| node_field_requirement(&requirement));
}

fn node_field_requirement(requirement: &Place) {
    let (operator, key) = (requirement.text("operator"), requirement.text("key"));
    if !matches!(operator, "In" | "NotIn") {
        requirement.invalid("operator", operator, "not a valid selector operator");
    } else if requirement.list("values").len() != 1 {
        let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        requirement.required("values", detail);
    }
    if key != "metadata.name" {
        return requirement.invalid("key", key, "not a valid field selector key");
    }
    requirement.items("values").for_each(|value| value.named("", names::dns_subdomain));
}

fn pod_term(term: &Place) {
    label_selector(&term.field("labelSelector"));
    label_selector(&term.field("namespaceSelector"));
    for namespace in term.texts("namespaces") {
        term.complain("namespace", namespace, names::dns_label(namespace));
    }
    match_label_keys(term);
    term.needs_because("topologyKey", "can not be empty");
    term.named("topologyKey", names::qualified_name);
}

/// Keys whose values are copied from the pod into the selector; a key stands in one place only.
fn match_label_keys(term: &Place) {
    for key in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.has("labelSelector") {
            term.items(key).for_each(|name| name.named("", names::qualified_name));
        } else {
            let detail = "must not be specified when labelSelector is not set";
            term.forbidden_if(!term.list(key).is_empty(), key, detail);
        }
    }
    let selector = term.field("labelSelector");
    for (index, key) in term.items("matchLabelKeys").enumerate() {
        let name = key.text("");
        // The merged selector holds each key once as an expression; any further mention is the user's own.
        let expressions = selector.items("matchExpressions").filter(|e| e.text("key") == name).count();
        let labels = selector.entries("matchLabels").filter(|(key, _)| *key == name).count();
        let is_mentioned = expressions > 0 && expressions + labels > 1;
        // The reference leaves the name of the list out of this path.
        let place = format!("[{index}]");
        term.invalid_if(is_mentioned, &place, name, "exists in both matchLabelKeys and labelSelector");
        let is_mismatch = term.texts("mismatchLabelKeys").any(|other| other == name);
        key.wrong_if(is_mismatch, "", "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

pub(super) fn toleration(toleration: &Place) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|key| toleration.text(key));
    if key.is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        toleration.invalid("operator", operator, detail);
    }
    toleration.named_unless_empty("key", names::qualified_name);
    let is_timed = toleration.has("tolerationSeconds") && effect != "NoExecute";
    toleration.invalid_if(is_timed, "effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    match operator {
        "" | "Equal" => {
            let complaints = names::label_value(value);
            toleration.invalid_if(!complaints.is_empty(), "operator", value, &complaints.join(";"));
        }
        "Exists" => {
            let detail = "value must be empty when `operator` is 'Exists'";
            toleration.invalid_if(!value.is_empty(), "operator", value, detail);
        }
        // Switched off in 1.35, yet named among the supported ones.
        "Lt" | "Gt" => toleration.not_supported("operator", operator, &["Equal", "Exists", "Lt", "Gt"]),
        _ => toleration.not_supported("operator", operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        toleration.one_of("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

pub(super) fn topology_spread(spec: &Place) {
    let pair = |place: &Place| format!("{{{}, {}}}", place.text("topologyKey"), place.text("whenUnsatisfiable"));
    for (index, constraint) in spec.items("topologySpreadConstraints").enumerate() {
        let skew = constraint.integer("maxSkew").unwrap_or(0);
        constraint.invalid_if(skew <= 0, "maxSkew", skew, NOT_POSITIVE);
        constraint.needs_because("topologyKey", "can not be empty");
        constraint.one_of("whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]);
        let mut later = spec.items("topologySpreadConstraints").skip(index + 1);
        let own = pair(&constraint);
        constraint.duplicate_if(later.any(|it| pair(&it) == own), "{topologyKey, whenUnsatisfiable}", own.as_str());
        if let Some(domains) = constraint.integer("minDomains") {
            let action = constraint.text("whenUnsatisfiable");
            constraint.wrong_if(domains <= 0, "minDomains", NOT_POSITIVE);
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            constraint.wrong_if(action != "DoNotSchedule", "minDomains", &detail);
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.one_of_if_given(key, &["Honor", "Ignore"]);
        }
        match_label_keys(&constraint);
        label_selector(&constraint.field("labelSelector"));
    }
}
