//! What may change in a stored pod (spec K-POD-5): images, deadlines, added tolerations, removed scheduling gates.

use super::path::Path;
use super::pod::pod_content;
use super::pod_security::pod_annotations_update;
use super::read::{given, integer, list, string};
use crate::kube::field::FieldError;
use serde_json::Value;

const SPEC: Path = Path::new("spec");
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Everything wrong with replacing pod `old` by `new`.
pub(super) fn pod_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = pod_content(new);
    pod_annotations_update(&mut errors, &new["metadata"], &old["metadata"]);
    let (new, old) = (&new["spec"], &old["spec"]);
    for key in ["containers", "initContainers"] {
        if !same_containers(&mut errors, new, old, key) {
            return errors;
        }
    }
    if !active_deadline(&mut errors, new, old) {
        return errors;
    }
    added_tolerations(&mut errors, list(new, "tolerations"), list(old, "tolerations"));
    removed_gates(&mut errors, new, old);
    if is_same(new, old) {
        return errors;
    }
    let mut rest = new.clone();
    take_back_allowed(&mut rest, old);
    if !list(old, "schedulingGates").is_empty() {
        gated_pod(&mut errors, &mut rest, old);
    }
    if !is_same(&rest, old) {
        let detail = format!("pod updates may not change fields other than {UPDATABLE}\n{}", difference(old, &rest));
        errors.push(FieldError::forbidden(SPEC, &detail));
    }
    errors
}

/// Everything wrong with writing `new` as the ephemeral containers of pod `old`: some may be added, and that is all.
pub fn ephemeral_containers_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = pod_content(new);
    for was in list(&old["spec"], "ephemeralContainers") {
        let name = string(was, "name");
        let detail = match list(&new["spec"], "ephemeralContainers").iter().find(|is| string(is, "name") == name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(is) if !is_same(is, was) => {
                format!("existing ephemeral containers {name:?} may not be changed\n{}", difference(was, is))
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(SPEC.field("ephemeralContainers"), &detail));
    }
    errors
}

/// Booleans whose `false` the reference does not tell from an absent one.
const PLAIN_FLAGS: &[&str] = &["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"];

/// Equal but for fields that are there and empty on one side only.
fn is_same(a: &Value, b: &Value) -> bool {
    let is_absent = |key: &str, value: &Value| match value {
        Value::Null => true,
        Value::Bool(flag) => !flag && PLAIN_FLAGS.contains(&key),
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let matches = |x: &serde_json::Map<String, Value>, y: &serde_json::Map<String, Value>| {
                x.iter().all(|(key, value)| {
                    y.get(key).map_or(is_absent(key, value), |other| {
                        is_same(value, other) || (is_absent(key, value) && is_absent(key, other))
                    })
                })
            };
            matches(a, b) && matches(b, a)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        _ => a == b || (is_absent("", a) && is_absent("", b)),
    }
}

/// The list keeps its length. False stops all further checks.
fn same_containers(errors: &mut Vec<FieldError>, new: &Value, old: &Value, key: &str) -> bool {
    let path = SPEC.field(key);
    if list(new, key).len() != list(old, key).len() {
        errors.push(FieldError::forbidden(path, "pod updates may not add or remove containers"));
        return false;
    }
    true
}

fn active_deadline(errors: &mut Vec<FieldError>, new: &Value, old: &Value) -> bool {
    const KEY: &str = "activeDeadlineSeconds";
    let path = SPEC.field(KEY);
    match (integer(new, KEY), integer(old, KEY)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.push(FieldError::invalid(path, new, "must be between 0 and 2147483647, inclusive"));
            false
        }
        (Some(new), Some(old)) if old < new => {
            errors.push(FieldError::invalid(path, new, "must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, Value::Null, detail));
            true
        }
        (Some(_), _) | (None, None) => true,
    }
}

fn added_tolerations(errors: &mut Vec<FieldError>, new: &[Value], old: &[Value]) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let is_kept = |old: &Value| new.contains(old) || new.iter().any(|new| without_seconds(new) == without_seconds(old));
    if !old.iter().all(is_kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(SPEC.field("tolerations"), detail));
    }
}

fn removed_gates(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let path = SPEC.field("schedulingGates");
    for (index, gate) in list(new, "schedulingGates").iter().enumerate() {
        let name = string(gate, "name");
        if !list(old, "schedulingGates").iter().any(|old| string(old, "name") == name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(path.index(index).field("name"), &detail));
        }
    }
}

/// Puts the old value of `key` into `object`, or removes the key if there was none.
fn restore(object: &mut Value, old: &Value, key: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

/// Undoes the changes that are allowed, so that what still differs is not.
fn take_back_allowed(rest: &mut Value, old: &Value) {
    for key in ["containers", "initContainers"] {
        let Some(containers) = rest.get_mut(key).and_then(Value::as_array_mut) else { continue };
        for (container, old) in containers.iter_mut().zip(list(old, key)) {
            restore(container, old, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(rest, old, key);
    }
    const GRACE: &str = "terminationGracePeriodSeconds";
    if integer(old, GRACE).is_some_and(|seconds| seconds < 0) && integer(rest, GRACE) == Some(1) {
        restore(rest, old, GRACE);
    }
}

/// Until its gates are gone, a pod may still be narrowed to fewer nodes.
fn gated_pod(errors: &mut Vec<FieldError>, rest: &mut Value, old: &Value) {
    if !is_same(&rest["nodeSelector"], &old["nodeSelector"]) {
        let kept = |(key, value): (&String, &Value)| rest["nodeSelector"].get(key) == Some(value);
        if !old["nodeSelector"].as_object().into_iter().flatten().all(kept) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(SPEC.field("nodeSelector"), rest["nodeSelector"].clone(), detail));
        }
        restore(rest, old, "nodeSelector");
    }
    let (new_affinity, old_affinity) = (&rest["affinity"]["nodeAffinity"], &old["affinity"]["nodeAffinity"]);
    if is_same(new_affinity, old_affinity) {
        return;
    }
    node_affinity_additions(errors, new_affinity, old_affinity);
    let has_others = ["podAffinity", "podAntiAffinity"].iter().any(|key| given(&rest["affinity"], key).is_some());
    match given(old, "affinity") {
        None if !has_others => restore(rest, old, "affinity"),
        Some(old_affinity) if given(rest, "affinity").is_none() && given(old_affinity, "nodeAffinity").is_some() => {
            rest["affinity"] = serde_json::json!({ "nodeAffinity": old_affinity["nodeAffinity"] });
        }
        _ => restore(&mut rest["affinity"], &old["affinity"], "nodeAffinity"),
    }
}

fn node_affinity_additions(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let (old_terms, new_terms) = (list(&old[REQUIRED], "nodeSelectorTerms"), list(&new[REQUIRED], "nodeSelectorTerms"));
    let affinity = SPEC.field("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    let path = affinity.field("nodeSelectorTerms");
    if !old_terms.is_empty() && old_terms.len() != new_terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, new_terms.to_vec(), detail));
        return;
    }
    for (index, (new, old)) in new_terms.iter().zip(old_terms).enumerate() {
        let was_empty = ["matchExpressions", "matchFields"].iter().all(|key| list(old, key).is_empty());
        let only_adds = |key| list(new, key).starts_with(list(old, key));
        let is_allowed = only_adds("matchExpressions") && only_adds("matchFields") && (!was_empty || new == old);
        if !is_allowed {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(path.index(index), new.clone(), detail));
        }
    }
}

/// How many unchanged lines stand around the change.
const CONTEXT_LINES: usize = 3;

/// A unified diff with one hunk from the first to the last line that differs.
fn difference(old: &Value, new: &Value) -> String {
    let pretty = |value: &Value| {
        let text = format!("{value:#}");
        text.lines()
            .map(|line| {
                let depth = line.len() - line.trim_start().len();
                format!("{}{}", " ".repeat(depth / 2), line.trim_start())
            })
            .collect::<Vec<_>>()
    };
    let (old, new) = (pretty(old), pretty(new));
    let shorter = old.len().min(new.len());
    let head = (0..shorter).take_while(|n| old[*n] == new[*n]).count();
    let tail = (0..shorter - head).take_while(|n| old[old.len() - 1 - n] == new[new.len() - 1 - n]).count();
    let start = head.saturating_sub(CONTEXT_LINES);
    let after = tail.min(CONTEXT_LINES);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut text =
        format!("@@ -{},{} +{},{} @@\n", start + 1, old_end + after - start, start + 1, new_end + after - start);
    let lines = old[start..head].iter().map(|line| (' ', line));
    let lines = lines.chain(old[head..old_end].iter().map(|line| ('-', line)));
    let lines = lines.chain(new[head..new_end].iter().map(|line| ('+', line)));
    for (sign, line) in lines.chain(old[old_end..old_end + after].iter().map(|line| (' ', line))) {
        text.push(sign);
        text.push_str(line);
        text.push('\n');
    }
    text
}
