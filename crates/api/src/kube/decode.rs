//! Request bodies become objects: JSON text to a value, and a value to one that fits its shape.
//!
//! `json` notices duplicate keys; `conform` drops and reports unknown fields, refuses wrong types in Go's words, and
//! rewrites quantities and times as they are stored. Both run on every write, so paths are spelt only for a report.

mod scalar;
mod text;

use super::schema::{Field, Scalar, SchemaUnion, Shape, Struct, StructRef, builtin};
use serde_json::{Map, Value};
use std::fmt::Write;

pub use scalar::spell_time;
pub use text::json;

/// As many strict problems as upstream's decoder reports; a body with more is refused or warned about all the same.
const STRICT_MAX: usize = 100;

/// A body that could be read, with what strict decoding would refuse (`duplicate field "…"`).
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    pub strict: Vec<String>,
}

/// Makes an object fit its shape and returns what strict decoding would refuse (`unknown field "…"`).
///
/// The error is what Go's decoder says; the caller puts `<Kind> in version … cannot be handled as a <Kind>: ` before it.
/// Fields of custom structs are only pruned: their types are checked by the schema, which has its own words.
pub fn conform(shape: &StructRef, kind: &str, version: &str, value: &mut Value) -> Result<Vec<String>, String> {
    let Value::Object(object) = value else {
        return Err(format!("json: cannot unmarshal {} into Go value of type {version}.{kind}", word(value)));
    };
    let mut walk = Walk { strict: Vec::new() };
    walk.object(shape, object, &Step::Root)?;
    Ok(walk.strict)
}

/// How a value was reached. Steps live on the stack and point to their parents, so walking allocates nothing.
enum Step<'a> {
    Root,
    Field(&'a Step<'a>, &'a Struct, &'a str),
    Key(&'a Step<'a>, &'a str),
    Index(&'a Step<'a>, usize),
}

impl Step<'_> {
    /// `spec.containers[0].image`
    fn path(&self, into: &mut String) {
        match self {
            Step::Root => {}
            Step::Field(parent, _, name) | Step::Key(parent, name) => {
                parent.path(into);
                if !into.is_empty() {
                    into.push('.');
                }
                into.push_str(name);
            }
            Step::Index(parent, index) => {
                parent.path(into);
                let _ = write!(into, "[{index}]");
            }
        }
    }

    /// Go's names of the place: the innermost struct, and the struct fields that lead here (`PodSpec`, `spec.containers`).
    fn go_field(&self) -> (&str, String) {
        match self {
            Step::Root => ("", String::new()),
            Step::Key(parent, _) | Step::Index(parent, _) => parent.go_field(),
            Step::Field(parent, owner, name) => {
                let (_, mut path) = parent.go_field();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                (owner.name.rsplit('.').next().unwrap_or(""), path)
            }
        }
    }

    fn wrong_type(&self, found: &str, wanted: &str) -> String {
        let (owner, path) = self.go_field();
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
    }
}

/// The name that Go's decoder gives to a JSON value of the wrong type.
pub fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

struct Walk {
    strict: Vec<String>,
}

impl Walk {
    fn object(&mut self, shape: &StructRef, object: &mut Map<String, Value>, step: &Step) -> Result<(), String> {
        let owner = shape.get();
        let is_builtin = matches!(shape, StructRef::Builtin(_));
        let mut outcome = Ok(());
        object.retain(|name, value| {
            if outcome.is_err() {
                return true;
            }
            let Some(field) = owner.field(name) else {
                if !owner.open {
                    self.unknown(&Step::Field(step, owner, name));
                }
                return owner.open;
            };
            // Go leaves the field unset; a custom object keeps its nulls, which its schema may allow.
            if value.is_null() && is_builtin {
                return false;
            }
            outcome = match is_builtin {
                true => self.field(field, value, &Step::Field(step, owner, name)),
                false => self.custom(&field.shape, value, &Step::Field(step, owner, name)),
            };
            !(is_builtin && is_omitted(field, value))
        });
        outcome
    }

    fn unknown(&mut self, step: &Step) {
        if self.strict.len() < STRICT_MAX {
            let mut path = String::new();
            step.path(&mut path);
            self.strict.push(format!("unknown field \"{path}\""));
        }
    }

    fn field(&mut self, field: &Field, value: &mut Value, step: &Step) -> Result<(), String> {
        match field.proto.and_then(|proto| proto.union) {
            Some(union) => schema_union(union, value, step),
            None => self.value(&field.shape, value, step),
        }
    }

    fn value(&mut self, shape: &Shape, value: &mut Value, step: &Step) -> Result<(), String> {
        match (shape, value) {
            (Shape::Any, _) => Ok(()),
            (Shape::Scalar(scalar), value) => scalar::conform(*scalar, value, step),
            (Shape::Struct(inner), Value::Object(object)) => self.object(inner, object, step),
            (Shape::Map { values, .. }, Value::Object(object)) => {
                for (key, value) in object.iter_mut() {
                    self.item(values, value, &Step::Key(step, key))?;
                }
                Ok(())
            }
            (Shape::List { items, .. }, Value::Array(list)) => {
                for (index, value) in list.iter_mut().enumerate() {
                    self.item(items, value, &Step::Index(step, index))?;
                }
                Ok(())
            }
            (Shape::Struct(_) | Shape::Map { .. } | Shape::List { .. }, value) => {
                Err(step.wrong_type(word(value), &go_type(shape)))
            }
        }
    }

    /// An item of a list or map: there Go cannot leave a null unset, so it becomes the zero value.
    fn item(&mut self, shape: &Shape, value: &mut Value, step: &Step) -> Result<(), String> {
        if value.is_null() {
            *value = zero(shape);
        }
        if value.is_null() { Ok(()) } else { self.value(shape, value, step) }
    }

    /// Prunes below a custom struct; a value of another type than the shape's is left for the schema to refuse.
    fn custom(&mut self, shape: &Shape, value: &mut Value, step: &Step) -> Result<(), String> {
        match (shape, value) {
            (Shape::Struct(inner), Value::Object(object)) => self.object(inner, object, step),
            (Shape::Map { values, .. }, Value::Object(object)) => {
                for (key, value) in object.iter_mut() {
                    self.custom(values, value, &Step::Key(step, key))?;
                }
                Ok(())
            }
            (Shape::List { items, .. }, Value::Array(list)) => {
                for (index, value) in list.iter_mut().enumerate() {
                    self.custom(items, value, &Step::Index(step, index))?;
                }
                Ok(())
            }
            (Shape::Scalar(_) | Shape::Struct(_) | Shape::Map { .. } | Shape::List { .. } | Shape::Any, _) => Ok(()),
        }
    }
}

/// Go reads these unions with a decoder of their own that is never strict: what is unknown in them goes silently.
fn schema_union(union: SchemaUnion, value: &mut Value, step: &Step) -> Result<(), String> {
    let Some(schema) = builtin::named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    else {
        return Ok(());
    };
    let mut silent = Walk { strict: Vec::new() };
    match (union, value) {
        (_, Value::Object(object)) => silent.object(&schema, object, step),
        (SchemaUnion::OrArray, Value::Array(list)) => {
            list.iter_mut().try_for_each(|item| silent.value(&Shape::Struct(schema.clone()), item, step))
        }
        (SchemaUnion::OrBool, Value::Bool(_)) => Ok(()),
        (SchemaUnion::OrBool, _) => Err("boolean or JSON schema expected".to_owned()),
        (SchemaUnion::OrArray, value) => Err(step.wrong_type(word(value), "v1.JSONSchemaPropsOrArray")),
    }
}

/// Whether Go writes nothing for the value: it is the zero value of a field that is neither required nor a pointer.
fn is_omitted(field: &Field, value: &Value) -> bool {
    let is_plain = field.proto.is_some_and(|proto| !proto.pointer && proto.union.is_none());
    match (&field.shape, value) {
        (_, Value::Null) => true,
        _ if field.required => false,
        (Shape::List { .. }, Value::Array(list)) => list.is_empty(),
        (Shape::Map { .. }, Value::Object(map)) => map.is_empty(),
        (Shape::Scalar(Scalar::String | Scalar::Bytes), Value::String(text)) => is_plain && text.is_empty(),
        (Shape::Scalar(Scalar::Boolean), Value::Bool(flag)) => is_plain && !flag,
        (Shape::Scalar(Scalar::Int32 | Scalar::Int64), Value::Number(number)) => is_plain && number.as_i64() == Some(0),
        _ => false,
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(scalar) => scalar::zero(*scalar),
        Shape::Struct(_) => Value::Object(Map::new()),
        Shape::Map { .. } | Shape::List { .. } | Shape::Any => Value::Null,
    }
}

/// Go's name of the type, without the aliases of plain strings, which the table does not know.
fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Scalar(scalar) => scalar::go_type(*scalar).to_owned(),
        Shape::Struct(inner) => {
            let name = &inner.get().name;
            name.rmatch_indices('.').nth(1).map_or(name.as_ref(), |(dot, _)| &name[dot + 1..]).to_owned()
        }
        Shape::Map { values, .. } => match **values {
            Shape::Scalar(Scalar::Quantity) => "v1.ResourceList".to_owned(),
            _ => format!("map[string]{}", go_type(values)),
        },
        Shape::List { items, .. } => format!("[]{}", go_type(items)),
        Shape::Any => "runtime.RawExtension".to_owned(),
    }
}

#[cfg(test)]
mod tests;
