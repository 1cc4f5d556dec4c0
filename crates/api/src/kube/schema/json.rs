//! Compiles a CRD's `openAPIV3Schema` into a `Shape`: list and map types, open objects, keys and their defaults.
//!
//! Called once per CRD version; patching, applying and pruning then walk the shape, never the schema's JSON.
//! `x-kubernetes-patch-strategy` and `-merge-key` are read too, so that a built-in type can be written down as a schema.

use super::{Field, ListPatch, ListType, Scalar, Shape, Struct, StructRef, builtin};
use serde_json::Value;
use std::sync::Arc;

/// The shape of the value that a schema describes.
pub fn shape(schema: &Value) -> Shape {
    keyed_shape(schema, &[])
}

/// The shape of a whole custom resource: `apiVersion`, `kind` and `metadata` are the same for every kind.
pub fn root(schema: &Value, name: &str) -> StructRef {
    let mut fields = fields_of(schema, &[]);
    insert_type_meta(&mut fields);
    custom(finish(schema, name, fields))
}

/// Key properties of a keyed list carry the default that completes an item's key.
fn keyed_shape(schema: &Value, keys: &[Box<str>]) -> Shape {
    if is_set(schema, "x-kubernetes-int-or-string") {
        return Shape::Scalar(Scalar::IntOrString);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => object_shape(schema, keys),
        Some("array") => list_shape(schema),
        Some("string") => Shape::Scalar(Scalar::String),
        Some("boolean") => Shape::Scalar(Scalar::Boolean),
        Some("number") => Shape::Scalar(Scalar::Number),
        Some("integer") if schema["format"] == "int32" => Shape::Scalar(Scalar::Int32),
        Some("integer") => Shape::Scalar(Scalar::Int64),
        _ if schema.get("properties").is_some() => object_shape(schema, keys),
        _ => Shape::Any,
    }
}

fn object_shape(schema: &Value, keys: &[Box<str>]) -> Shape {
    let is_embedded = is_set(schema, "x-kubernetes-embedded-resource");
    if !is_embedded && schema.get("properties").is_none() {
        let values = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(Shape::Any),
            Some(values @ Value::Object(_)) => Some(shape(values)),
            _ => None,
        };
        if let Some(values) = values {
            return Shape::Map { values: Box::new(values), atomic: is_atomic_map(schema) };
        }
    }
    let mut fields = fields_of(schema, keys);
    if is_embedded {
        insert_type_meta(&mut fields);
    }
    Shape::Struct(custom(finish(schema, "", fields)))
}

fn list_shape(schema: &Value) -> Shape {
    let keys: Vec<Box<str>> = strings(schema, "x-kubernetes-list-map-keys").map(Box::from).collect();
    let items = schema.get("items").map_or(Shape::Any, |items| keyed_shape(items, &keys));
    let list = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("map") if !keys.is_empty() => ListType::Map(keys),
        Some("set") => ListType::Set,
        _ => ListType::Atomic,
    };
    Shape::List { items: Box::new(items), list, patch: list_patch(schema) }
}

fn list_patch(schema: &Value) -> ListPatch {
    if !has_strategy(schema, "merge") {
        return ListPatch::Replace;
    }
    match schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str) {
        Some(key) => ListPatch::MergeBy { key: key.into(), retain_keys: has_strategy(schema, "retainKeys") },
        None => ListPatch::MergeValues,
    }
}

fn fields_of(schema: &Value, keys: &[Box<str>]) -> Vec<Field> {
    let required: Vec<&str> = strings(schema, "required").collect();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    // A JSON map iterates in key order, which is the order that `Struct::field` searches by.
    properties
        .iter()
        .map(|(name, property)| {
            let is_key = keys.iter().any(|key| **key == **name);
            Field {
                key_default: property.get("default").filter(|_| is_key).cloned(),
                required: required.contains(&name.as_str()),
                ..field(name, shape(property))
            }
        })
        .collect()
}

fn finish(schema: &Value, name: &str, fields: Vec<Field>) -> Struct {
    Struct {
        name: name.into(),
        fields,
        open: is_set(schema, "x-kubernetes-preserve-unknown-fields"),
        atomic: is_atomic_map(schema),
        retain_keys: has_strategy(schema, "retainKeys"),
    }
}

/// Every embedded or whole object has these, whatever its schema says of them.
fn insert_type_meta(fields: &mut Vec<Field>) {
    let meta = Shape::Struct(object_meta());
    for (name, shape) in [("apiVersion", text()), ("kind", text()), ("metadata", meta)] {
        fields.retain(|field| field.name.as_ref() != name);
        fields.push(field(name, shape));
    }
    fields.sort_by(|a, b| a.name.cmp(&b.name));
}

/// `ObjectMeta` is the same for custom kinds as for built-in ones.
fn object_meta() -> StructRef {
    builtin::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the built-in table has ObjectMeta")
}

fn field(name: &str, shape: Shape) -> Field {
    Field { name: name.into(), shape, required: false, key_default: None, proto: None }
}

fn custom(structure: Struct) -> StructRef {
    StructRef::Custom(Arc::new(structure))
}

fn text() -> Shape {
    Shape::Scalar(Scalar::String)
}

fn is_set(schema: &Value, extension: &str) -> bool {
    schema.get(extension).and_then(Value::as_bool).unwrap_or(false)
}

fn is_atomic_map(schema: &Value) -> bool {
    schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
}

/// Strategies are a comma-separated list: `merge,retainKeys`.
fn has_strategy(schema: &Value, strategy: &str) -> bool {
    let list = schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or("");
    list.split(',').any(|one| one == strategy)
}

fn strings<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    let list = schema.get(key).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    list.iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn structure_of(shape: &Shape) -> &Struct {
        match shape {
            Shape::Struct(structure) => structure.get(),
            other => unreachable!("not a struct: {other:?}"),
        }
    }

    // K-CRD-6
    #[test]
    fn scalars_follow_type_and_format() {
        let cases = [
            (json!({"type": "string"}), Scalar::String),
            // A custom resource keeps its times and bytes as they were sent, so the format changes nothing.
            (json!({"type": "string", "format": "date-time"}), Scalar::String),
            (json!({"type": "integer"}), Scalar::Int64),
            (json!({"type": "integer", "format": "int32"}), Scalar::Int32),
            (json!({"type": "number", "format": "double"}), Scalar::Number),
            (json!({"type": "boolean"}), Scalar::Boolean),
            (json!({"x-kubernetes-int-or-string": true}), Scalar::IntOrString),
        ];
        for (schema, expected) in cases {
            assert!(matches!(shape(&schema), Shape::Scalar(scalar) if scalar == expected), "{schema}");
        }
    }

    // K-CRD-6 K-CR-7
    #[test]
    fn lists_and_maps_take_their_types_from_the_extensions() {
        let schema = json!({"type": "object", "required": ["ports"], "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "port",
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "note": {"type": "string", "default": "none"}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "rest": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "free": {}}});
        let top = shape(&schema);
        let top = structure_of(&top);
        let ports = top.field("ports").expect("declared");
        assert!(ports.required);
        let Shape::List { items, list, patch } = &ports.shape else { unreachable!("not a list") };
        assert_eq!(*list, ListType::Map(vec!["port".into(), "protocol".into()]));
        assert_eq!(*patch, ListPatch::MergeBy { key: "port".into(), retain_keys: true });
        let item = structure_of(items);
        assert_eq!(item.field("protocol").expect("declared").key_default, Some(json!("TCP")));
        assert_eq!(item.field("note").expect("declared").key_default, None, "only keys need a default");
        let kinds = ["tags", "selector", "rest", "free"].map(|name| &top.field(name).expect("declared").shape);
        assert!(matches!(kinds[0], Shape::List { list: ListType::Set, patch: ListPatch::Replace, .. }));
        assert!(matches!(kinds[1], Shape::Map { atomic: true, .. }));
        assert!(structure_of(kinds[2]).open);
        assert!(matches!(kinds[3], Shape::Any));
    }

    // K-CRD-6
    #[test]
    fn roots_and_embedded_resources_have_type_and_object_meta() {
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}});
        let root = root(&schema, "dev.example.v1.Box");
        assert_eq!(&*root.get().name, "dev.example.v1.Box");
        let inner = structure_of(&root.get().field("spec").expect("declared").shape);
        for structure in [root.get(), inner] {
            assert!(structure.field("kind").is_some() && structure.field("apiVersion").is_some());
            let meta = structure_of(&structure.field("metadata").expect("implied").shape);
            let owners = &meta.field("ownerReferences").expect("declared").shape;
            assert!(matches!(owners, Shape::List { list: ListType::Map(_), .. }));
        }
    }
}
