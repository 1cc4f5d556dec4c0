//! What admission adds to a training job before it is stored: `runPolicy` and the fields of the first generation.
//!
//! Everything else that has a default is filled in when the job is read (`job`), so that the stored spec stays as the
//! user wrote it.

use super::kinds::{Kind, Row};
use super::{Rules, kinds};
use serde_json::{Map, Value, json};

/// The run policy's fields that the API's first generation had directly under `spec` (PT-ADM-12).
pub const LEGACY_FIELDS: [&str; 4] =
    ["cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"];

/// Fills in a job that is created (`old` is `None`) or updated, and returns the warnings for its sender.
pub fn fill(row: &Row, object: &mut Value, old: Option<&Value>, rules: Rules) -> Vec<String> {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    if rules.is_strict {
        return Vec::new();
    }
    let old_spec = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let warnings = fold_legacy(row, spec, old_spec);
    let policy = spec.entry("runPolicy").or_insert(Value::Null);
    if policy.is_null() {
        *policy = json!({});
    }
    if let Some(policy) = policy.as_object_mut() {
        // The published Python client cannot read a job without a run policy (PT-DEF-6).
        policy.entry("suspend").or_insert(json!(false));
    }
    warnings
}

/// Copies each legacy field into the run policy where that does not set it, or set it only by an earlier copy.
pub fn fold_legacy(row: &Row, spec: &mut Map<String, Value>, old: Option<&Map<String, Value>>) -> Vec<String> {
    let mut warnings = Vec::new();
    for field in LEGACY_FIELDS {
        let Some(value) = spec.get(field).filter(|value| !value.is_null()).cloned() else {
            continue;
        };
        let is_official = row.kind == Kind::Mpi && field == "cleanPodPolicy";
        if !is_official {
            warnings.push(format!("spec.{field} is deprecated, use spec.runPolicy.{field} instead"));
        }
        let policy = spec.entry("runPolicy").or_insert(Value::Null);
        if policy.is_null() {
            *policy = json!({});
        }
        let Some(policy) = policy.as_object_mut() else {
            continue;
        };
        let earlier_copy = old.filter(|old| {
            let copied = old.get("runPolicy").and_then(|policy| policy.get(field));
            copied.is_some() && copied == old.get(field)
        });
        let set = policy.get(field).filter(|value| !value.is_null());
        let is_copy = set.is_some() && set == earlier_copy.and_then(|old| old.get(field));
        if set.is_none() || is_copy {
            policy.insert(field.to_owned(), value);
        }
    }
    warnings
}

/// The row of an object by its `kind`, if it is one of the training jobs.
pub fn row_of(object: &Value) -> Option<&'static Row> {
    let is_ours = object.get("apiVersion").and_then(Value::as_str) == Some(super::API_VERSION);
    object.get("kind").and_then(Value::as_str).filter(|_| is_ours).and_then(kinds::row)
}
