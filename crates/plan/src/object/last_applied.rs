//! The annotation of client-side `kubectl apply`, and how server-side apply by `kubectl` lives with it.
//!
//! A user who changes over must not conflict with what the same file set before, and may change back later.

use super::changes::changes;
use super::fields::Fields;
use super::managed::Manager;
use super::typed::set;
use serde_json::{Value, json};
use volley_api::kube::schema::{Shape, StructRef};

/// The only manager whose applies concern the annotation.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together (K-OBJ-4); rather no annotation than an object that cannot be stored.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The fields that client-side apply set and that still have its values.
pub(super) fn unchanged(shape: &StructRef, live: &Value, manager: &Manager<'_>) -> Option<Fields> {
    let annotation = live.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    let applied: Value = serde_json::from_str(annotation).ok()?;
    if applied.get("apiVersion")?.as_str() != Some(manager.api_version) {
        return None;
    }
    let mut fields = Fields::trusted(set(&Shape::Struct(shape.clone()), &applied)?);
    let changes = changes(shape, Some(&applied), live, manager.tracked);
    fields.subtract(&changes.set);
    fields.subtract(&changes.removed);
    Some(fields)
}

/// Makes an annotation that is there say what was applied last.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    let Some(annotations) = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations")) else {
        return;
    };
    let Some(annotations) = annotations.as_object_mut() else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(own)) = config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations")) {
        own.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), json!(format!("{config}\n")));
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}
