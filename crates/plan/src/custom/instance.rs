//! What a write does to a custom resource besides its schema: type checks, status and generation (K-CR-1 to K-CR-3).

use serde_json::{Map, Value};
use volley_api::kube::field::FieldError;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;

/// As much of a body as the reference repeats in an error.
const SUMMARY_BYTES_MAX: usize = 30;

/// The kind that a request's path names.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

/// Checks that a body says what it is and that this is what the path expects; `body` is the text that was sent.
pub fn check_type(object: &Value, expected: Expected<'_>, body: &str) -> Result<(), ApiError> {
    let kind = text(object, "kind");
    if kind.is_empty() {
        let detail = format!("Object 'Kind' is missing in '{body}'");
        let kind = expected.kind;
        let summary = summary(body);
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {detail} ({summary})"
        )));
    }
    let version = text(object, "apiVersion");
    let wanted = format!("{}/{}", expected.group, expected.version);
    if version != wanted {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )));
    }
    if kind != expected.kind {
        let error = FieldError::invalid("kind", kind, &format!("must be {}", expected.kind));
        return Err(ApiError::invalid(expected.group, expected.kind, text(object, "metadata.name"), vec![error]));
    }
    Ok(())
}

fn summary(body: &str) -> String {
    match body.char_indices().map(|(at, _)| at).take_while(|at| *at <= SUMMARY_BYTES_MAX).last() {
        None => "<empty>".to_owned(),
        Some(_) if body.len() <= SUMMARY_BYTES_MAX => body.to_owned(),
        Some(end) => format!("{} ...", &body[..end]),
    }
}

/// Whether an update counts: any change outside metadata, and outside status where that has its own endpoint.
pub fn generation_changes(old: &Value, new: &Value, has_status: bool) -> bool {
    let counts = |name: &str| name != "metadata" && !(has_status && name == "status");
    let members = |object: &Value| -> Map<String, Value> {
        let members = object.as_object().into_iter().flatten();
        members.filter(|(name, _)| counts(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    members(old) != members(new)
}

/// Prepares a new object: no status where that has its own endpoint, generation 1.
pub fn prepare_create(object: &mut Value, has_status: bool) {
    if has_status && let Value::Object(members) = object {
        members.remove("status");
    }
    set_generation(object, 1);
}

/// Prepares a changed object: the status stays where it has its own endpoint, the generation counts changes.
pub fn prepare_update(object: &mut Value, old: &Value, has_status: bool) {
    if has_status && let Value::Object(members) = object {
        match old.get("status") {
            Some(status) => members.insert("status".to_owned(), status.clone()),
            None => members.remove("status"),
        };
    }
    let generation = generation(old);
    let step = i64::from(generation_changes(old, object, has_status));
    set_generation(object, generation + step);
}

fn generation(object: &Value) -> i64 {
    object.get("metadata").and_then(|metadata| metadata.get("generation")).and_then(Value::as_i64).unwrap_or(0)
}

fn set_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WIDGET: Expected<'static> = Expected { group: "example.com", version: "v1", kind: "Widget" };

    // K-CR-1
    #[test]
    fn a_body_must_say_its_kind_and_version() {
        let good = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
        assert_eq!(check_type(&good, WIDGET, ""), Ok(()));

        let body = r#"{"apiVersion":"example.com/v1"}"#;
        let error = check_type(&json!({"apiVersion": "example.com/v1"}), WIDGET, body).unwrap_err();
        assert_eq!(error.code, 400);
        assert_eq!(
            error.message,
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in \
             '{\"apiVersion\":\"example.com/v1\"}' ({\"apiVersion\":\"example.com/v1\" ...)"
        );

        let other_version = json!({"apiVersion": "example.com/v2", "kind": "Widget"});
        assert_eq!(
            check_type(&other_version, WIDGET, "").unwrap_err().message,
            "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"
        );

        let other_kind = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}});
        let error = check_type(&other_kind, WIDGET, "").unwrap_err();
        assert_eq!(error.code, 422);
        assert_eq!(error.message, "Widget.example.com \"a\" is invalid: kind: Invalid value: \"Foo\": must be Widget");
    }

    // K-CR-2
    #[test]
    fn the_generation_counts_changes_outside_metadata_and_status() {
        let old = json!({"metadata": {"generation": 4}, "spec": {"a": 1}, "status": {"s": 1}});
        let metadata_only =
            json!({"metadata": {"generation": 9, "labels": {"a": "b"}}, "spec": {"a": 1}, "status": {"s": 1}});
        let status_only = json!({"metadata": {}, "spec": {"a": 1}, "status": {"s": 2}});
        let other_field = json!({"metadata": {}, "spec": {"a": 1}, "status": {"s": 1}, "data": 1});
        assert!(!generation_changes(&old, &metadata_only, true));
        assert!(!generation_changes(&old, &status_only, true));
        assert!(generation_changes(&old, &status_only, false));
        assert!(generation_changes(&old, &other_field, true));

        let mut new = json!({"metadata": {}, "spec": {"a": 2}, "status": {"s": 7}});
        prepare_update(&mut new, &old, true);
        assert_eq!(new, json!({"metadata": {"generation": 5}, "spec": {"a": 2}, "status": {"s": 1}}));
    }

    // K-CRD-7 K-OBJ-3
    #[test]
    fn a_new_object_starts_without_status_at_generation_one() {
        let mut object = json!({"metadata": {}, "spec": 1, "status": 2});
        prepare_create(&mut object, true);
        assert_eq!(object, json!({"metadata": {"generation": 1}, "spec": 1}));
        let mut object = json!({"metadata": {}, "status": 2});
        prepare_create(&mut object, false);
        assert_eq!(object["status"], 2);
    }
}
