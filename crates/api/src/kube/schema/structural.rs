//! A built-in type as the structural schema of a CRD: what a definition says of the pod templates that it holds.

use super::{Field, ListType, Scalar, Shape, Struct, builtin};
use serde_json::{Map, Value, json};

/// All that a template's metadata may say; the rest is the server's.
const TEMPLATE_METADATA: [&str; 5] = ["annotations", "finalizers", "labels", "name", "namespace"];
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The schema of a built-in type by its OpenAPI name, for example `io.k8s.api.core.v1.PodTemplateSpec`.
pub fn named(name: &str) -> Option<Value> {
    builtin::named(name).map(|found| of_struct(found.get(), &[]))
}

fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(scalar) => of_scalar(*scalar),
        Shape::Struct(inner) => of_struct(inner.get(), &[]),
        Shape::Map { values, atomic } => {
            let mut schema = json!({ "type": "object", "additionalProperties": of(values) });
            if *atomic {
                schema["x-kubernetes-map-type"] = json!("atomic");
            }
            schema
        }
        Shape::List { items, list, .. } => of_list(items, list),
        Shape::Any => json!({ "x-kubernetes-preserve-unknown-fields": true }),
    }
}

fn of_scalar(scalar: Scalar) -> Value {
    let formatted = |kind: &str, format: &str| json!({ "type": kind, "format": format });
    let either = json!([{ "type": "integer" }, { "type": "string" }]);
    match scalar {
        Scalar::String | Scalar::Duration => json!({ "type": "string" }),
        Scalar::Int32 => formatted("integer", "int32"),
        Scalar::Int64 => formatted("integer", "int64"),
        Scalar::Number => json!({ "type": "number" }),
        Scalar::Boolean => json!({ "type": "boolean" }),
        Scalar::Bytes => formatted("string", "byte"),
        Scalar::Time | Scalar::MicroTime => formatted("string", "date-time"),
        Scalar::Quantity => json!({ "anyOf": either, "pattern": QUANTITY, "x-kubernetes-int-or-string": true }),
        Scalar::IntOrString => json!({ "anyOf": either, "x-kubernetes-int-or-string": true }),
    }
}

fn of_list(items: &Shape, list: &ListType) -> Value {
    let mut schema = json!({ "type": "array", "items": of(items) });
    match list {
        ListType::Atomic => {}
        ListType::Set => schema["x-kubernetes-list-type"] = json!("set"),
        ListType::Map(keys) => {
            schema["x-kubernetes-list-type"] = json!("map");
            schema["x-kubernetes-list-map-keys"] = json!(keys);
            if let Shape::Struct(item) = items {
                schema["items"] = of_struct(item.get(), keys);
            }
        }
    }
    schema
}

/// The schema of a struct; a field that is a list's key must be there, so an optional one has a default.
fn of_struct(item: &Struct, keys: &[Box<str>]) -> Value {
    let is_metadata = item.name.ends_with("meta.v1.ObjectMeta");
    let is_kept = |field: &&Field| !is_metadata || TEMPLATE_METADATA.contains(&&*field.name);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in item.fields.iter().filter(is_kept) {
        let mut schema = of(&field.shape);
        if field.required {
            required.push(&field.name);
        } else if keys.contains(&field.name) {
            schema["default"] = field.key_default.clone().unwrap_or_else(|| json!(""));
        }
        properties.insert(field.name.to_string(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if item.atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if item.open {
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    schema
}
