//! Cells that many kinds share: ages, counts, container lists, selectors, shortened lists.

use crate::kube::selector::LabelSelector;
use crate::kube::{at, text, time};
use jiff::Timestamp;
use serde_json::{Map, Value};

pub const NONE: &str = "<none>";
pub const UNSET: &str = "<unset>";
pub const UNKNOWN: &str = "<unknown>";

/// Time since creation.
pub fn age(object: &Value, now: Timestamp) -> Value {
    since(object, "metadata.creationTimestamp", now).into()
}

/// Time since the moment at `path`; `<unknown>` without one.
pub fn since(object: &Value, path: &str, now: Timestamp) -> String {
    time::age(time::parse(text(object, path)), now)
}

/// The number at `path`; Kubernetes leaves zeros out, so absent is 0.
pub fn count(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

pub fn flag(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The text at `path`, or `other` when it is empty.
pub fn text_or<'a>(object: &'a Value, path: &str, other: &'a str) -> &'a str {
    or(text(object, path), other)
}

pub fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// A string, number or flag as text; quantities and int-or-string values may be any of them.
pub fn scalar(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

pub fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(object, path).and_then(Value::as_object)
}

/// How many keys the map at `path` has.
pub fn keys(object: &Value, path: &str) -> usize {
    map(object, path).map_or(0, Map::len)
}

/// The status (`True`, `False`, `Unknown`) of a condition, if the object has it.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    list(object, "status.conditions").iter().find(|c| text(c, "type") == kind).map(|c| text(c, "status"))
}

pub fn is_deleting(object: &Value) -> bool {
    !text(object, "metadata.deletionTimestamp").is_empty()
}

/// A list of texts comma joined, or `other` when it is empty.
pub fn joined<'a>(texts: impl Iterator<Item = &'a str>, other: &str) -> Value {
    or(&texts.collect::<Vec<_>>().join(","), other).into()
}

/// One field of the containers of a pod spec, comma joined.
pub fn containers(object: &Value, path: &str, key: &str) -> Value {
    joined(list(object, path).iter().map(|container| text(container, key)), "")
}

/// A plain label map as `k=v,…` or `<none>`.
pub fn labels(object: &Value, path: &str) -> Value {
    let selector = LabelSelector::from_labels(map(object, path)).to_string();
    or(&selector, NONE).into()
}

/// A label selector object as text: `<none>` when it asks for nothing, `<error>` when it cannot be read.
pub fn selector(object: &Value, path: &str) -> Value {
    match LabelSelector::from_object(at(object, path)) {
        Ok(selector) => or(&selector.to_string(), NONE).into(),
        Err(_) => "<error>".into(),
    }
}

/// Lists are cut after this many items so that a row stays one line.
pub const ITEMS_MAX: usize = 3;

/// The first items comma joined, then how many are left out.
pub fn shortened(items: &[String], items_max: usize, separator: &str) -> String {
    let shown = items[..items.len().min(items_max)].join(separator);
    if items.len() > items_max { format!("{shown} + {} more...", items.len() - items_max) } else { shown }
}
