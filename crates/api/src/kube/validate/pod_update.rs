//! What may change in a stored pod (spec K-POD-5): images, deadlines, added tolerations, removed scheduling gates.

use super::compare::is_empty;
use super::place::{Place, problems};
use super::pod::pod;
use crate::kube::field::FieldError;
use crate::kube::text;
use serde_json::{Map, Value, json};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Everything wrong with replacing pod `old` by `new`.
pub(super) fn pod_update(new: &Place, old: &Value) {
    let (new, old) = (new.field("spec"), &old["spec"]);
    for key in ["containers", "initContainers"] {
        if new.list(key).len() != list(old, key).len() {
            return new.forbidden(key, "pod updates may not add or remove containers");
        }
    }
    if !active_deadline(&new, old) {
        return;
    }
    added_tolerations(&new, old);
    for gate in new.items("schedulingGates") {
        let name = gate.text("name");
        let is_new = !list(old, "schedulingGates").iter().any(|old| text(old, "name") == name);
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        gate.forbidden_if(is_new, "name", &detail);
    }
    if is_same(new.value, old) {
        return;
    }
    let mut rest = without_allowed(new.value, old);
    if !list(old, "schedulingGates").is_empty() {
        gated_pod(&new, &mut rest, old);
    }
    if !is_same(&rest, old) {
        let detail = format!("pod updates may not change fields other than {UPDATABLE}\n{}", difference(old, &rest));
        new.forbidden("", &detail);
    }
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

/// Everything wrong with writing `new` as the ephemeral containers of pod `old`: some may be added, and that is all.
pub fn ephemeral_containers_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const KEY: &str = "ephemeralContainers";
    problems(new, "", |new| {
        pod(new);
        let new = new.field("spec");
        for was in list(&old["spec"], KEY) {
            let name = text(was, "name");
            let detail = match new.list(KEY).iter().find(|is| text(is, "name") == name) {
                None => format!("existing ephemeral containers {name:?} may not be removed\n"),
                Some(is) if !is_same(is, was) => {
                    format!("existing ephemeral containers {name:?} may not be changed\n{}", difference(was, is))
                }
                Some(_) => continue,
            };
            new.forbidden(KEY, &detail);
        }
    })
}

/// Booleans whose `false` the reference does not tell from an absent one.
const PLAIN_FLAGS: &[&str] = &["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"];

/// Equal but for fields that are there and empty on one side only.
fn is_same(a: &Value, b: &Value) -> bool {
    let is_absent = |key: &str, value: &Value| is_empty(value) || (*value == false && PLAIN_FLAGS.contains(&key));
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let matches = |x: &Map<String, Value>, y: &Map<String, Value>| {
                x.iter().all(|(key, value)| {
                    y.get(key).map_or(is_absent(key, value), |other| {
                        is_same(value, other) || (is_absent(key, value) && is_absent(key, other))
                    })
                })
            };
            matches(a, b) && matches(b, a)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

/// False stops all further checks.
fn active_deadline(new: &Place, old: &Value) -> bool {
    const KEY: &str = "activeDeadlineSeconds";
    let noted_before = new.noted();
    match (new.integer(KEY), old[KEY].as_i64()) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            new.wrong(KEY, "must be between 0 and 2147483647, inclusive");
        }
        (Some(now), Some(before)) => new.wrong_if(before < now, KEY, "must be less than or equal to previous value"),
        (None, Some(_)) => {
            new.invalid(KEY, Value::Null, "must not update from a positive integer to nil value");
            return true;
        }
        (_, None) => {}
    }
    new.noted() == noted_before
}

fn added_tolerations(new: &Place, old: &Value) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let now: Vec<Value> = new.list("tolerations").iter().map(without_seconds).collect();
    let is_kept = list(old, "tolerations").iter().all(|old| now.contains(&without_seconds(old)));
    let detail = "existing toleration can not be modified except its tolerationSeconds";
    new.forbidden_if(!is_kept, "tolerations", detail);
}

/// Puts the old value of `key` into `object`, or removes the key if there was none.
fn restore(object: &mut Value, old: &Value, key: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

/// The new spec without the changes that are allowed, so that what still differs is not.
fn without_allowed(new: &Value, old: &Value) -> Value {
    const GRACE: &str = "terminationGracePeriodSeconds";
    let mut rest = new.clone();
    for key in ["containers", "initContainers"] {
        let Some(containers) = rest.get_mut(key).and_then(Value::as_array_mut) else { continue };
        for (container, old) in containers.iter_mut().zip(list(old, key)) {
            restore(container, old, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut rest, old, key);
    }
    if old[GRACE].as_i64().is_some_and(|seconds| seconds < 0) && rest[GRACE] == 1 {
        restore(&mut rest, old, GRACE);
    }
    rest
}

/// Until its gates are gone, a pod may still be narrowed to fewer nodes.
fn gated_pod(new: &Place, rest: &mut Value, old: &Value) {
    let (selector, old_selector) = (new.get("nodeSelector"), &old["nodeSelector"]);
    if !is_same(selector, old_selector) {
        let mut pairs = old_selector.as_object().into_iter().flatten();
        let is_kept = pairs.all(|(key, value)| selector.get(key) == Some(value));
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        new.wrong_if(!is_kept, "nodeSelector", detail);
        restore(rest, old, "nodeSelector");
    }
    let (new_affinity, old_affinity) = (new.field("affinity.nodeAffinity"), &old["affinity"]["nodeAffinity"]);
    if is_same(new_affinity.value, old_affinity) {
        return;
    }
    node_affinity_additions(&new_affinity, old_affinity);
    let has_others = ["podAffinity", "podAntiAffinity"].iter().any(|key| new.field("affinity").has(key));
    if old["affinity"].is_null() && !has_others {
        restore(rest, old, "affinity");
    } else {
        if rest["affinity"].is_null() {
            rest["affinity"] = json!({});
        }
        restore(&mut rest["affinity"], &old["affinity"], "nodeAffinity");
    }
}

fn node_affinity_additions(new: &Place, old: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const TERMS: &str = "nodeSelectorTerms";
    let (new, old_terms) = (new.field(REQUIRED), list(&old[REQUIRED], TERMS));
    if !old_terms.is_empty() && old_terms.len() != new.list(TERMS).len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return new.invalid(TERMS, new.list(TERMS).to_vec(), detail);
    }
    for (new, old) in new.items(TERMS).zip(old_terms) {
        let was_empty = ["matchExpressions", "matchFields"].iter().all(|key| list(old, key).is_empty());
        let only_adds = |key| new.list(key).starts_with(list(old, key));
        let is_allowed = only_adds("matchExpressions") && only_adds("matchFields") && (!was_empty || new.value == old);
        new.wrong_if(!is_allowed, "", "only additions are allowed (no mutations or deletions)");
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
