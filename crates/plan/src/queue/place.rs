//! What a place in a queue's config wants, by the shape of its kind. `template` asks it, so that a number that is put into
//! a field of texts becomes one (T-9).
//!
//! Where nothing is known of a place, the value tells: an object of a kind that we know, metadata, a pod's spec.

use crate::check::schema::{self, Form};
use serde_json::{Map, Value};
use volley_api::kube::schema::{Scalar, Shape, builtin};

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";

/// The shape of an object at a place.
pub fn of_object(place: &Shape, object: &Map<String, Value>) -> Shape {
    if !is_open(place) {
        return place.clone();
    }
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if object.get("containers").is_some_and(Value::is_array) {
        return named(POD_SPEC);
    }
    if version.is_empty() && kind.is_empty() {
        return place.clone();
    }
    match schema::of(&[], version, kind) {
        Form::Object { shape: Some(shape), .. } => shape,
        Form::Object { shape: None, .. } | Form::Queue | Form::Agent(_) | Form::Chart(_) | Form::Other => place.clone(),
    }
}

pub fn of_member(shape: &Shape, key: &str) -> Shape {
    match key {
        "metadata" if is_open(shape) => named(METADATA),
        key => schema::member(shape, key).unwrap_or(Shape::Any),
    }
}

pub fn of_item(shape: &Shape) -> Shape {
    match shape {
        Shape::List { items, .. } => (**items).clone(),
        Shape::Scalar(_) | Shape::Struct(_) | Shape::Map { .. } | Shape::Any => Shape::Any,
    }
}

pub fn is_text(shape: &Shape) -> bool {
    match shape {
        Shape::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration => true,
            Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::Boolean => false,
            // Both take numbers as they are.
            Scalar::Quantity | Scalar::IntOrString => false,
        },
        Shape::Struct(_) | Shape::Map { .. } | Shape::List { .. } | Shape::Any => false,
    }
}

/// Whether a shape says nothing of what is in it.
fn is_open(shape: &Shape) -> bool {
    match shape {
        Shape::Any => true,
        Shape::Struct(own) => own.get().open && own.get().fields.is_empty(),
        Shape::Scalar(_) | Shape::Map { .. } | Shape::List { .. } => false,
    }
}

fn named(name: &str) -> Shape {
    builtin::named(name).map_or(Shape::Any, Shape::Struct)
}
