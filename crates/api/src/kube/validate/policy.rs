//! Priorities, budgets, autoscalers, leases and runtime classes (K-ADM-4).

use super::Rule;
use super::metadata::label_selector;
use super::place::{IMMUTABLE, Place};
use super::rollout::count_or_percent;
use crate::kube::field::Problem;
use crate::kube::names;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const RULES: &[Rule] = &[
    Rule::of("scheduling.k8s.io", "PriorityClass", |_| {})
        .cluster_wide()
        .on_create(priority_class)
        .on_update(priority_class_update)
        .fixed(&["preemptionPolicy"]),
    Rule::of("scheduling.k8s.io", "Workload", |workload| self::workload(&workload.field("spec")))
        .on_update(workload_update),
    Rule::of("policy", "PodDisruptionBudget", |budget| disruption_budget(&budget.field("spec"))),
    Rule::of("coordination.k8s.io", "Lease", |lease| self::lease(&lease.field("spec"))),
    Rule::of("autoscaling", "HorizontalPodAutoscaler", |autoscaler| self::autoscaler(&autoscaler.field("spec"))),
    Rule::of("node.k8s.io", "RuntimeClass", |_| {})
        .cluster_wide()
        .on_create(|class| class.named("handler", names::dns_label))
        .fixed(&["handler"]),
];

/// The most that a class of the user's may have; more is for the system's own.
const PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn priority_class(class: &Place) {
    class.one_of_if_given("preemptionPolicy", &["Never", "PreemptLowerPriority"]);
    let (name, value) = (class.text("metadata.name"), class.integer("value").unwrap_or(0));
    if !name.starts_with("system-") {
        let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        return class.forbidden_if(value > PRIORITY_MAX, "value", &detail);
    }
    let why = match SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, right)) if *right != value => format!("value of {name} PriorityClass must be {right}"),
        Some(_) if class.flag("globalDefault") => format!("globalDefault of {name} PriorityClass must be false"),
        Some(_) => return,
    };
    let detail = format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
    class.forbidden("metadata.name", &detail);
}

fn priority_class_update(new: &Place, old: &Value) {
    let is_changed = new.integer("value").unwrap_or(0) != old["value"].as_i64().unwrap_or(0);
    new.forbidden_if(is_changed, "value", "may not be changed in an update.");
}

/// The most groups of one Workload.
const WORKLOAD_GROUPS_MAX: usize = 8;

fn workload(spec: &Place) {
    if spec.list("podGroups").is_empty() {
        spec.required("podGroups", "must have at least one item");
    }
    spec.items_at_most("podGroups", WORKLOAD_GROUPS_MAX);
    let mut seen = BTreeSet::new();
    for group in spec.items("podGroups") {
        let name = group.text("name");
        group.needs_name("name", names::dns_label);
        group.duplicate_if(!name.is_empty() && !seen.insert(name), "name", name);
        let policy = group.field("policy");
        match (policy.has("basic"), policy.has("gang")) {
            (false, false) => group.required("policy", "exactly one of `basic`, `gang` is required"),
            (true, true) => {
                let detail = "exactly one of `basic`, `gang` is required, but multiple fields are set";
                group.invalid("policy", "{`basic`, `gang`}", detail);
            }
            (true, false) | (false, true) => {}
        }
        let gang = policy.field("gang");
        let is_none = policy.has("gang") && gang.integer("minCount").unwrap_or(0) < 1;
        gang.wrong_if(is_none, "minCount", "must be greater than zero");
    }
}

/// The reference names the field from the spec on.
fn workload_update(new: &Place, old: &Value) {
    let (spec, old) = (new.get("spec"), &old["spec"]);
    let (groups, owner) = (&spec["podGroups"], &spec["controllerRef"]);
    new.invalid_if(*groups != old["podGroups"], "podGroups", groups.clone(), IMMUTABLE);
    let is_other = !old["controllerRef"].is_null() && *owner != old["controllerRef"];
    new.invalid_if(is_other, "controllerRef", owner.clone(), IMMUTABLE);
}

fn disruption_budget(spec: &Place) {
    spec.one_of_if_given("unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]);
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let parts = ["minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"];
        let [min, selector, max, policy] = parts.map(|key| spec.get(key));
        let shown = format!(
            r#"{{"MinAvailable":{min},"Selector":{selector},"MaxUnavailable":{max},"UnhealthyPodEvictionPolicy":{policy}}}"#
        );
        let text = format!("Invalid value: {shown}: minAvailable and maxUnavailable cannot be both set");
        spec.worded("", Problem::Invalid, text);
    }
    count_or_percent(spec, "minAvailable", true);
    count_or_percent(spec, "maxUnavailable", true);
    label_selector(&spec.field("selector"));
}

fn lease(spec: &Place) {
    spec.not_negative(&["leaseTransitions"]);
    let is_over = spec.integer("leaseDurationSeconds").is_some_and(|seconds| seconds <= 0);
    spec.wrong_if(is_over, "leaseDurationSeconds", "must be greater than 0");
    let is_lost = !spec.text("preferredHolder").is_empty() && spec.text("strategy").is_empty();
    spec.forbidden_if(is_lost, "preferredHolder", "may only be specified if `strategy` is defined");
}

/// The types of metrics, and the field of each.
const METRICS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const METRIC_FIELDS: [&str; 5] = ["containerResource", "external", "object", "pods", "resource"];

fn autoscaler(spec: &Place) {
    spec.needs(&["scaleTargetRef.kind", "scaleTargetRef.name"]);
    let (min, max) = (spec.integer("minReplicas"), spec.integer("maxReplicas").unwrap_or(0));
    spec.wrong_if(min.is_some_and(|min| min < 1), "minReplicas", "must be greater than or equal to 1");
    spec.invalid_if(max < 1, "maxReplicas", max, "must be greater than 0");
    let is_less = min.is_some_and(|min| max < min);
    spec.invalid_if(is_less, "maxReplicas", max, "must be greater than or equal to `minReplicas`");
    for metric in spec.items("metrics") {
        metric.one_of("type", &METRICS);
        let field = METRICS.iter().zip(METRIC_FIELDS).find(|(kind, _)| **kind == metric.text("type"));
        if let Some((_, field)) = field.filter(|(_, field)| !metric.has(field)) {
            metric.required(field, "must populate information for the given metric source");
        }
    }
}
