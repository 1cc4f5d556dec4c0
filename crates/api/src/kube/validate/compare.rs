//! When two values mean the same, and whether labels satisfy a selector.

use crate::kube::{at, text};
use serde_json::{Map, Value, json};

/// Absent, null, `""`, `[]` and `{}` are all one to Kubernetes.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Equal in meaning: what is absent equals what is empty, at every depth.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => same_keys(one, other) && same_keys(other, one),
        (Value::Object(map), Value::Null) | (Value::Null, Value::Object(map)) => {
            map.values().all(|value| same(value, &Value::Null))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (one, other) => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn same_keys(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.iter().all(|(key, value)| same(value, other.get(key).unwrap_or(&Value::Null)))
}

/// The old value with what stands at these JSON pointers taken over from the new one.
pub fn with_changes(old: &Value, new: &Value, pointers: &[&str]) -> Value {
    let mut allowed = old.clone();
    for pointer in pointers {
        put(&mut allowed, pointer, new.pointer(pointer).cloned().unwrap_or_default());
    }
    allowed
}

/// Writes a value at a JSON pointer, making the objects on the way; does nothing where something else stands there.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut target = object;
    for key in pointer.split('/').skip(1) {
        if target.is_null() {
            *target = json!({});
        }
        let Some(map) = target.as_object_mut() else { return };
        target = map.entry(key).or_insert(Value::Null);
    }
    *target = value;
}

/// Whether labels satisfy every part of a selector; an empty selector is satisfied by all.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    let mut pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    pairs.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| satisfies(expression, labels))
}

fn satisfies(expression: &Value, labels: &Value) -> bool {
    let present = labels.get(text(expression, "key"));
    let listed = at(expression, "values").and_then(Value::as_array);
    let is_listed = present.is_some_and(|value| listed.is_some_and(|values| values.contains(value)));
    match text(expression, "operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => present.is_some(),
        "DoesNotExist" => present.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_are_the_same_at_every_depth() {
        let one = json!({"a": {"z": null}, "b": [{"c": ""}], "d": 1});
        let other = json!({"b": [{}], "d": 1, "e": null});
        assert!(same(&one, &other));
        assert!(!same(&json!({"d": 0}), &json!({})), "a number may be set to zero");
        assert!(!same(&json!([1, 2]), &json!([2, 1])), "lists are ordered");
    }

    #[test]
    fn selectors_match_by_labels_and_by_expressions() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let labels = json!({"a": "1", "b": "2"});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "c": "3"}}), false),
            (expression("In", &["1", "5"]), true),
            (expression("NotIn", &["1"]), false),
            (expression("Exists", &[]), true),
            (expression("DoesNotExist", &[]), false),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
