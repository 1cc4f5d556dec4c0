//! Embedded resources (`x-kubernetes-embedded-resource`): whole objects inside an object, with a version, a kind and
//! metadata of their own.

use super::place::Place;
use super::schema::Node;
use serde_json::{Map, Value};
use volley_api::kube::decode::word;
use volley_api::kube::field::FieldError;
use volley_api::kube::names;

pub(super) fn validate(root: &Node, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, object, &Place::Root, &mut errors);
    errors
}

fn walk(node: &Node, value: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if !node.holds.embedded {
        return;
    }
    if let Value::Object(members) = value
        && node.is_embedded
    {
        check_resource(members, place, errors);
    }
    for (sub, value, place) in node.below(value, place) {
        walk(sub, value, &place, errors);
    }
}

fn check_resource(members: &Map<String, Value>, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    check_text(members, "apiVersion", place, errors, |version| {
        let is_group_version = version.matches('/').count() <= 1;
        (!is_group_version).then(|| format!("unexpected GroupVersion string: {version}"))
    });
    check_text(members, "kind", place, errors, |kind| {
        let problems = names::dns1035_label(&kind.to_ascii_lowercase());
        let advice = "may have mixed case, but should otherwise match: ";
        (!problems.is_empty()).then(|| format!("{advice}{}", problems.join(",")))
    });
    if let Some(metadata) = members.get("metadata").filter(|metadata| !metadata.is_object() && !metadata.is_null()) {
        let detail = format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", word(metadata));
        errors.push(FieldError::invalid(Place::Field(place, "metadata").field_path(), metadata.clone(), &detail));
    }
}

fn check_text(
    members: &Map<String, Value>,
    field: &str,
    place: &Place<'_>,
    errors: &mut Vec<FieldError>,
    problem: impl Fn(&str) -> Option<String>,
) {
    let path = Place::Field(place, field).field_path();
    match members.get(field) {
        None => errors.push(FieldError::required(path, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(path, text.as_str(), "must not be empty"));
        }
        Some(Value::String(text)) => {
            if let Some(detail) = problem(text) {
                errors.push(FieldError::invalid(path, text.as_str(), &detail));
            }
        }
        Some(other) => errors.push(FieldError::invalid(path, other.clone(), "must be a string")),
    }
}
