//! Queues: what is filled in, what is refused, and whether one takes jobs (spec/volcano.md 2.4, ADM-25).
//!
//! `queues` are all queues as they are stored; a change is judged in the tree that it would make.

use super::keys;
use crate::kube::defaults::rows::Fill::{Flag, NotZero};
use crate::kube::defaults::rows::fill_rows;
use crate::kube::field::FieldError;
use crate::kube::quantity::Quantity;
use crate::kube::{at, text};
use serde_json::Value;
use std::collections::BTreeMap;

const ROOT: &str = "root";
/// A child of the root is on level 1.
const LEVELS_MAX: usize = 5;

/// The lists of a queue's spec that hold amounts.
const AMOUNTS: [&str; 3] = ["capability", "deserved", "guarantee.resource"];

type Amounts = BTreeMap<String, Quantity>;

/// Completes a new queue (ADM-40).
pub fn complete(queue: &mut Value) {
    fill_rows(queue, &[("spec.reclaimable", Flag(true)), ("spec.weight", NotZero(1))]);
    let Some(annotations) = queue.pointer_mut("/metadata/annotations").filter(|marks| marks.is_object()) else {
        return;
    };
    let path = annotations[keys::HIERARCHY].as_str().unwrap_or_default();
    if path.is_empty() || path == ROOT || path.starts_with("root/") {
        return;
    }
    annotations[keys::HIERARCHY] = format!("root/{path}").into();
    let weights = annotations[keys::HIERARCHY_WEIGHTS].as_str().unwrap_or_default();
    annotations[keys::HIERARCHY_WEIGHTS] = format!("1/{weights}").into();
}

fn find<'a>(name: &str, queues: &'a [Value]) -> Option<&'a Value> {
    queues.iter().find(|queue| text(queue, "metadata.name") == name)
}

fn parent_of(queue: &Value) -> &str {
    match text(queue, "spec.parent") {
        "" => ROOT,
        parent => parent,
    }
}

fn children<'a>(name: &'a str, queues: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    queues.iter().filter(move |queue| text(queue, "metadata.name") != ROOT && parent_of(queue) == name)
}

/// Whether the queue exists and is open.
pub fn is_open(name: &str, queues: &[Value]) -> Result<(), FieldError> {
    let Some(queue) = find(name, queues) else {
        let detail = format!("unable to find job queue: queues.scheduling.volcano.sh \"{name}\" not found");
        return Err(FieldError::invalid("spec.queue", name, &detail));
    };
    match text(queue, "status.state") {
        // A new queue is open as soon as its controller has seen it (QC-2); nobody need wait for that.
        "" | "Open" => Ok(()),
        state => {
            let detail = format!("can only submit job to queue with state `Open`, queue `{name}` status is `{state}`");
            Err(FieldError::invalid("spec.queue", name, &detail))
        }
    }
}

/// Whether a Job may be put into the queue: it is open, a leaf, and not the root (ADM-25).
pub fn takes_jobs(name: &str, queues: &[Value]) -> Result<(), FieldError> {
    let refused = |detail: String| Err(FieldError::invalid("spec.queue", name, &detail));
    if name == ROOT {
        return refused("can not submit job to root queue".to_owned());
    }
    is_open(name, queues)?;
    let below = children(name, queues).count();
    if below > 0 {
        return refused(format!("can only submit job to leaf queue, queue `{name}` has {below} child queues"));
    }
    Ok(())
}

/// Everything wrong with a queue that is being created or changed (ADM-41 to ADM-44); `old` is what it was.
pub fn check(queue: &Value, old: Option<&Value>, queues: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &queue["spec"];
    let state = text(queue, "status.state");
    let is_states_own = old.is_some_and(|old| text(old, "status.state") == state);
    if !matches!(state, "" | "Open" | "Closed") && !is_states_own {
        errors.push(FieldError::invalid("status.state", state, "queue state must be in [Open Closed]"));
    }
    if let Some(weight) = spec["weight"].as_i64().filter(|weight| *weight < 1) {
        errors.push(FieldError::invalid("spec.weight", weight, "queue weight must be a positive integer"));
    }
    for list in AMOUNTS {
        for (name, amount) in amounts(queue, list).iter().filter(|(_, amount)| amount.is_negative()) {
            let path = format!("spec.{list}[{name}]");
            errors.push(FieldError::invalid(path, amount.to_string(), "must be greater than or equal to 0"));
        }
    }
    check_own(&mut errors, queue);
    check_hierarchy(&mut errors, queue, queues);
    check_tree(&mut errors, queue, old, queues);
    errors
}

/// What a queue's own amounts must keep to (ADM-42).
fn check_own(errors: &mut Vec<FieldError>, queue: &Value) {
    let [capability, deserved, guarantee] = AMOUNTS.map(|list| amounts(queue, list));
    for (name, amount) in &guarantee {
        let due = deserved.get(name);
        if due.is_none_or(|due| due < amount) {
            let (path, due) = (format!("spec.deserved[{name}]"), due.map(ToString::to_string));
            let is = due.as_ref().map(|due| format!("={due}")).unwrap_or_default();
            let detail = format!("deserved[{name}]{is} must be >= guarantee[{name}]={amount}");
            errors.push(FieldError::invalid(path, due.as_deref().unwrap_or("<nil>"), &detail));
        }
    }
    for (word, list, lower) in [("deserved", "deserved", &deserved), ("guarantee", "guarantee.resource", &guarantee)] {
        for (name, amount) in lower {
            if let Some(most) = capability.get(name).filter(|most| *most < amount) {
                let detail = format!("{word}[{name}]={amount} must be <= capability[{name}]={most}");
                errors.push(FieldError::invalid(format!("spec.{list}[{name}]"), amount.to_string(), &detail));
            }
        }
    }
}

/// The annotations by which `drf` orders queues (ADM-43).
fn check_hierarchy(errors: &mut Vec<FieldError>, queue: &Value, queues: &[Value]) {
    let mark = |queue: &Value, key: &str| queue["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
    let (path, weights) = (mark(queue, keys::HIERARCHY), mark(queue, keys::HIERARCHY_WEIGHTS));
    if path.is_empty() && weights.is_empty() {
        return;
    }
    let at = |key: &str| format!("metadata.annotations[{key}]");
    if path.split('/').count() != weights.split('/').count() || path.is_empty() || weights.is_empty() {
        let detail = format!("{} must have the same length with {}", keys::HIERARCHY, keys::HIERARCHY_WEIGHTS);
        errors.push(FieldError::invalid(at(keys::HIERARCHY), path, &detail));
        return;
    }
    if !weights.split('/').all(|weight| weight.parse::<f64>().is_ok_and(|weight| weight > 0.0)) {
        errors.push(FieldError::invalid(at(keys::HIERARCHY_WEIGHTS), weights, "every weight must be larger than 0"));
    }
    for other in queues.iter().filter(|other| text(other, "metadata.name") != text(queue, "metadata.name")) {
        let theirs = mark(other, keys::HIERARCHY);
        if !theirs.is_empty() && (theirs.starts_with(&format!("{path}/")) || path.starts_with(&format!("{theirs}/"))) {
            let detail = format!("{path} is not allowed to be in the sub path of {theirs} or the other way round");
            errors.push(FieldError::invalid(at(keys::HIERARCHY), path.as_str(), &detail));
        }
    }
}

/// Parents and children (ADM-44).
fn check_tree(errors: &mut Vec<FieldError>, queue: &Value, old: Option<&Value>, queues: &[Value]) {
    let name = text(queue, "metadata.name");
    if name == ROOT {
        let is_changed = |list: &str| old.is_some_and(|old| amounts(old, list) != amounts(queue, list));
        for list in AMOUNTS.into_iter().filter(|list| is_changed(list)) {
            errors.push(FieldError::forbidden(format!("spec.{list}"), "root queue's resources can not be changed"));
        }
        return;
    }
    // A tree that was wrong before does not keep its queues from being changed otherwise.
    let shape = |queue: &Value| (parent_of(queue).to_owned(), AMOUNTS.map(|list| amounts(queue, list)));
    if old.is_some_and(|old| shape(old) == shape(queue)) {
        return;
    }
    let parent = parent_of(queue);
    let mut tree: Vec<Value> = queues.iter().filter(|other| text(other, "metadata.name") != name).cloned().collect();
    tree.push(queue.clone());
    let named = find(parent, &tree);
    if parent == name {
        errors.push(FieldError::invalid("spec.parent", parent, &format!("queue {name} cannot use itself as parent")));
        return;
    } else if parent != ROOT && named.is_none() {
        errors.push(FieldError::not_found("spec.parent", parent));
        return;
    }
    // The pods of a queue that has children already are theirs.
    let is_first_child = children(parent, &tree).all(|child| text(child, "metadata.name") == name);
    let is_new_child = old.is_none_or(|old| parent_of(old) != parent);
    if is_new_child && is_first_child && named.is_some_and(has_pods) && parent != ROOT {
        let detail = format!("queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods");
        errors.push(FieldError::invalid("spec.parent", parent, &detail));
    }
    let above = ancestors(queue, &tree);
    if above.len() > LEVELS_MAX {
        let detail = format!("queue {name} exceeds the maximum allowed depth of {LEVELS_MAX}");
        errors.push(FieldError::invalid("spec.parent", parent, &detail));
    }
    check_ceiling(errors, queue, &above);
    if let Some(parent) = named {
        check_sums(errors, parent, &tree);
    }
    check_sums(errors, queue, &tree);
    for below in tree.iter().filter(|other| *other != queue) {
        let above = ancestors(below, &tree);
        if above.iter().any(|other| text(other, "metadata.name") == name) {
            check_ceiling(errors, below, &above);
        }
    }
}

fn has_pods(queue: &Value) -> bool {
    let pods = at(queue, "status.allocated").map_or(Value::Null, |allocated| allocated["pods"].clone());
    !matches!(pods, Value::Null) && pods != "0" && pods != 0
}

/// From the parent up to the root; one more than the most when the queue stands in a circle.
fn ancestors<'a>(queue: &'a Value, tree: &'a [Value]) -> Vec<&'a Value> {
    let mut above = Vec::new();
    let mut at = queue;
    while above.len() <= LEVELS_MAX && text(at, "metadata.name") != ROOT {
        let Some(parent) = find(parent_of(at), tree) else { break };
        above.push(parent);
        at = parent;
    }
    above
}

/// No more than the nearest ancestor that says how much there may be.
fn check_ceiling(errors: &mut Vec<FieldError>, queue: &Value, above: &[&Value]) {
    for (name, amount) in amounts(queue, "capability") {
        let ceiling = above
            .iter()
            .find_map(|other| Some((text(other, "metadata.name"), *amounts(other, "capability").get(&name)?)));
        if let Some((other, most)) = ceiling.filter(|(_, most)| *most < amount) {
            let detail = format!(
                "queue {} has more {name} than {most}, the capability of queue {other}",
                text(queue, "metadata.name")
            );
            errors.push(FieldError::invalid(format!("spec.capability[{name}]"), amount.to_string(), &detail));
        }
    }
}

/// Children together have no more than their parent declares.
fn check_sums(errors: &mut Vec<FieldError>, parent: &Value, tree: &[Value]) {
    let parent_name = text(parent, "metadata.name");
    for (list, limits) in
        [("guarantee.resource", &["guarantee.resource", "capability"][..]), ("deserved", &["deserved"])]
    {
        let mut sums = Amounts::new();
        for child in children(parent_name, tree) {
            for (name, amount) in amounts(child, list) {
                *sums.entry(name).or_insert(Quantity::ZERO) += amount;
            }
        }
        for (name, sum) in sums {
            let limit = limits.iter().find_map(|limit| amounts(parent, limit).get(&name).copied());
            if let Some(most) = limit.filter(|most| *most < sum) {
                let detail =
                    format!("children of queue {parent_name} have {sum} of {name} together, more than its {most}");
                errors.push(FieldError::invalid(format!("spec.{list}[{name}]"), sum.to_string(), &detail));
            }
        }
    }
}

/// Why the queue cannot be deleted, if so (ADM-45).
pub fn check_delete(name: &str, queues: &[Value]) -> Result<(), String> {
    if name == "default" || name == ROOT {
        return Err(format!("`{name}` queue can not be deleted"));
    }
    let below: Vec<&str> = children(name, queues).map(|child| text(child, "metadata.name")).collect();
    if below.is_empty() {
        return Ok(());
    }
    let (count, list) = (below.len(), below.join(", "));
    Err(format!("queue {name} can not be deleted because it has {count} child queues: {list}"))
}

fn amounts(queue: &Value, list: &str) -> Amounts {
    let entries = at(&queue["spec"], list).and_then(Value::as_object).into_iter().flatten();
    let read = |value: &Value| match value {
        Value::String(text) => Quantity::parse(text).ok(),
        other => Quantity::parse(&other.to_string()).ok(),
    };
    entries.filter_map(|(name, value)| Some((name.clone(), read(value)?))).collect()
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
