//! Reading fields of a decoded object, and the checks that every kind repeats.
//!
//! The object has the right types already (decoding saw to that), so an absent field and an empty one read alike,
//! as they do in the reference.

use super::path::Path;
use crate::kube::field::FieldError;
use crate::kube::names;
use crate::kube::quantity::Quantity;
use serde_json::Value;

/// The string field, or `""`.
pub fn string<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or("")
}

pub fn integer(object: &Value, key: &str) -> Option<i64> {
    object[key].as_i64()
}

pub fn flag(object: &Value, key: &str) -> bool {
    object[key].as_bool().unwrap_or(false)
}

/// The items of a list field; none when it is absent.
pub fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

/// The entries of a map field in key order; none when it is absent.
pub fn entries<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    object[key].as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// A field that is there and not null.
pub fn given<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// The quantity in a value that decoding has put into canonical form.
pub fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// One `Invalid value` for each complaint.
pub fn complain(errors: &mut Vec<FieldError>, path: &Path, value: impl Into<Value> + Clone, complaints: Vec<String>) {
    errors.extend(complaints.iter().map(|text| FieldError::invalid(path, value.clone(), text)));
}

/// A string field that must not be empty and must pass `check`.
pub fn required_name(errors: &mut Vec<FieldError>, object: &Value, path: &Path, check: names::Check) {
    let value = object.as_str().unwrap_or("");
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        complain(errors, path, value, check(value));
    }
}

/// String fields that must not be empty.
pub fn required(errors: &mut Vec<FieldError>, object: &Value, path: &Path, keys: &[&str]) {
    for key in keys {
        if string(object, key).is_empty() {
            errors.push(FieldError::required(path.field(key), ""));
        }
    }
}

/// A string field that must be one of `supported`; absent counts as `""`.
pub fn one_of(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str, supported: &[&str]) {
    let value = string(object, key);
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path.field(key), value, supported));
    }
}

/// As `one_of`, for a field that may be absent.
pub fn optional_one_of(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str, supported: &[&str]) {
    if given(object, key).is_some() {
        one_of(errors, object, path, key, supported);
    }
}

pub const NEGATIVE: &str = "must be greater than or equal to 0";
pub const NOT_POSITIVE: &str = "must be greater than zero";

/// Integer fields that must not be negative; absent is fine.
pub fn not_negative(errors: &mut Vec<FieldError>, object: &Value, path: &Path, keys: &[&str]) {
    for key in keys {
        if let Some(value) = integer(object, key).filter(|value| *value < 0) {
            errors.push(FieldError::invalid(path.field(key), value, NEGATIVE));
        }
    }
}

/// An integer field that, if given, must lie within bounds, both included.
pub fn in_range(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str, (low, high): (i64, i64)) {
    if let Some(value) = integer(object, key) {
        complain(errors, &path.field(key), value, names::in_range(value, low, high));
    }
}
