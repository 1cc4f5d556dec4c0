//! Small checks that many kinds share, as rows of a table and as functions.
//!
//! A table lists what is required, bounded, one of a few words, or fixed after creation; `check` and `check_update`
//! read it. What a table cannot say is a function in the kind's own file.

use crate::kube::field::FieldError;
use crate::kube::{at, names};
use serde_json::{Map, Value, json};

pub const IMMUTABLE: &str = "field is immutable";

/// One check of one field; paths are relative to the value that `check` is given.
#[derive(Debug, Clone, Copy)]
pub enum Row {
    /// Must be there and not empty; the second text is the detail of the answer.
    Required(&'static str, &'static str),
    /// If there, one of these words, sorted as the reference lists them.
    OneOf(&'static str, &'static [&'static str]),
    /// If there, zero or more.
    NotNegative(&'static str),
    /// If there, a name without complaints.
    Named(&'static str, fn(&str) -> Vec<String>),
    /// Fixed after creation.
    Fixed(&'static str),
}

/// Checks a value against a table; `path` is where the value stands, `""` for the object itself.
pub fn check(value: &Value, path: &str, rows: &[Row]) -> Vec<FieldError> {
    rows.iter().flat_map(|row| check_one(value, path, *row)).collect()
}

fn check_one(value: &Value, path: &str, row: Row) -> Vec<FieldError> {
    match row {
        Row::Required(name, detail) if is_empty(at(value, name)) => {
            vec![FieldError::required(join(path, name), detail)]
        }
        Row::OneOf(name, words) => match set_at(value, name) {
            Some(present) => one_of(present, &join(path, name), words).into_iter().collect(),
            None => Vec::new(),
        },
        Row::NotNegative(name) => not_negative(value, path, name).into_iter().collect(),
        Row::Named(name, complaints) => match set_at(value, name).and_then(Value::as_str) {
            Some(text) => named(text, &join(path, name), complaints),
            None => Vec::new(),
        },
        Row::Required(..) | Row::Fixed(_) => Vec::new(),
    }
}

/// Checks the `Fixed` rows of a table on an update.
pub fn check_update(new: &Value, old: &Value, path: &str, rows: &[Row]) -> Vec<FieldError> {
    let fixed = rows.iter().filter_map(|row| match row {
        Row::Fixed(name) => Some(*name),
        Row::Required(..) | Row::OneOf(..) | Row::NotNegative(_) | Row::Named(..) => None,
    });
    fixed.filter_map(|name| fixed_field(new, old, path, name)).collect()
}

/// `field is immutable`, if the field has changed.
pub fn fixed_field(new: &Value, old: &Value, path: &str, name: &str) -> Option<FieldError> {
    let (now, before) = (at(new, name), at(old, name));
    if same(now, before) {
        return None;
    }
    Some(FieldError::invalid(join(path, name), now.cloned().unwrap_or_default(), IMMUTABLE))
}

pub fn one_of(present: &Value, path: &str, words: &[&str]) -> Option<FieldError> {
    let known = present.as_str().is_some_and(|text| words.contains(&text));
    (!known).then(|| FieldError::not_supported(path, present.clone(), words))
}

pub fn not_negative(value: &Value, path: &str, name: &str) -> Option<FieldError> {
    let number = number(value, name)?;
    (number < 0).then(|| FieldError::invalid(join(path, name), number, "must be greater than or equal to 0"))
}

/// One error for each complaint about a name.
pub fn named(text: &str, path: &str, complaints: impl Fn(&str) -> Vec<String>) -> Vec<FieldError> {
    complaints(text).iter().map(|complaint| FieldError::invalid(path, text, complaint)).collect()
}

/// A path behind a domain (`acme.io/foo`): who manages a Job, who serves an ingress class.
pub fn domain_path(text: &str, path: &str, bytes_max: usize) -> Vec<FieldError> {
    let is_path_byte = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    let mut errors = match text.split_once('/') {
        _ if text.is_empty() => vec![FieldError::required(path, "")],
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            let mut errors = named(host, path, names::dns_subdomain);
            if !rest.bytes().all(is_path_byte) {
                let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                errors.push(FieldError::invalid(path, rest, detail));
            }
            errors
        }
        _ => vec![FieldError::invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")")],
    };
    if text.len() > bytes_max {
        errors.push(FieldError::too_long(path, bytes_max));
    }
    errors
}

/// `parent.child`, or only the one that is not empty.
pub fn join(parent: &str, child: &str) -> String {
    if parent.is_empty() { child.to_owned() } else { format!("{parent}.{child}") }
}

/// The value at a dotted path, unless it is absent or null.
pub fn set_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    at(value, path).filter(|value| !value.is_null())
}

pub fn number(value: &Value, path: &str) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

pub fn flag(value: &Value, path: &str) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of a list; none when it is absent.
pub fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of an object; none when it is absent.
pub fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(value, path).and_then(Value::as_object).into_iter().flatten()
}

/// Writes a value at a JSON pointer, making the objects on the way; does nothing where something else stands there.
pub fn put(object: &mut Value, pointer: &str, value: Value) {
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

/// Absent, null, `""`, `[]` and `{}` are all one to Kubernetes.
pub fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Bool(_) | Value::Number(_)) => false,
    }
}

/// Equal in meaning: what is absent equals what is empty, at every depth.
pub fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => same_keys(one, other) && same_keys(other, one),
        (Some(Value::Object(map)), None | Some(Value::Null)) | (None | Some(Value::Null), Some(Value::Object(map))) => {
            map.values().all(|value| same(Some(value), None))
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(Some(one), Some(other)))
        }
        (one, other) => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn same_keys(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.iter().all(|(key, value)| same(Some(value), other.get(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_are_the_same_at_every_depth() {
        let one = json!({"a": {"z": null}, "b": [{"c": ""}], "d": 1});
        let other = json!({"b": [{}], "d": 1, "e": null});
        assert!(same(Some(&one), Some(&other)));
        assert!(!same(Some(&json!({"d": 0})), Some(&json!({}))), "a number may be set to zero");
        assert!(!same(Some(&json!([1, 2])), Some(&json!([2, 1]))), "lists are ordered");
    }

    #[test]
    fn a_table_reports_every_broken_row() {
        const ROWS: &[Row] =
            &[Row::Required("name", ""), Row::OneOf("kind", &["A", "B"]), Row::NotNegative("count"), Row::Fixed("x")];
        let texts = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(check(&json!({"name": "n", "kind": "A", "count": 0}), "spec", ROWS)), Vec::<String>::new());
        assert_eq!(
            texts(check(&json!({"kind": "C", "count": -1}), "spec", ROWS)),
            [
                "spec.name: Required value",
                r#"spec.kind: Unsupported value: "C": supported values: "A", "B""#,
                "spec.count: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        let changed = check_update(&json!({"x": 2}), &json!({"x": 1}), "", ROWS);
        assert_eq!(texts(changed), ["x: Invalid value: 2: field is immutable"]);
    }
}
