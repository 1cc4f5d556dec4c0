//! Protobuf bodies, as Go clients send them for built-in kinds, to the same JSON objects that everyone else sends.
//!
//! The table of built-in types tells the field numbers (spec K 3.3, Appendix A). Only what Go writes is read: proto2
//! without groups. What the table does not know is skipped (K-PB-1).

mod wire;

use super::decode;
use super::schema::{Field, Scalar, SchemaUnion, Shape, Struct, StructRef, builtin};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};
use wire::{Payload, Reader};

/// The four bytes that open every protobuf body.
pub const MAGIC: &[u8] = b"k8s\0";

/// Nested messages beyond this are refused, so that no body can exhaust the stack. JSON is limited to 128 levels.
const DEPTH_MAX: usize = 100;

/// What stands around an object on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub raw: &'a [u8],
}

/// Opens a body; the object inside stays as it is until its shape is known.
pub fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, String> {
    let body = bytes.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
    let mut reader = Reader::new(body);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(type_meta)) => {
                let mut fields = Reader::new(type_meta);
                while let Some((number, payload)) = fields.next()? {
                    match number {
                        1 => envelope.api_version = payload.text()?,
                        2 => envelope.kind = payload.text()?,
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

/// The object of an envelope as JSON, with its `apiVersion` and `kind`.
pub fn object(shape: &StructRef, envelope: &Envelope) -> Result<Value, String> {
    let mut value = to_json(shape, envelope.raw)?;
    for (field, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            value[field] = text.into();
        }
    }
    Ok(value)
}

/// One message as JSON, without `apiVersion` and `kind`, which stand in the envelope.
pub fn to_json(shape: &StructRef, raw: &[u8]) -> Result<Value, String> {
    message(shape, raw, 0).map(Value::Object)
}

fn message(shape: &StructRef, raw: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    if depth > DEPTH_MAX {
        return Err("exceeded max depth".to_owned());
    }
    let mut into = Map::new();
    fields(shape.get(), [0, 0], raw, depth, &mut into)?;
    Ok(into)
}

/// Reads the fields of a message, or those of a message inlined in it: `via` says which.
fn fields(owner: &Struct, via: [u8; 2], raw: &[u8], depth: usize, into: &mut Map<String, Value>) -> Result<(), String> {
    let mut reader = Reader::new(raw);
    while let Some((number, payload)) = reader.next()? {
        let at = |field: &&Field| field.proto.is_some_and(|proto| proto.number == number && proto.via == via);
        if let Some(field) = owner.fields.iter().find(at) {
            put(field, payload, depth, into)?;
            continue;
        }
        if let (Some(inlined), Payload::Bytes(raw)) = (deeper(owner, via, number), payload) {
            fields(owner, inlined, raw, depth, into)?;
        }
    }
    Ok(())
}

/// The `via` of the message inlined under this number, when some field comes through it.
fn deeper(owner: &Struct, via: [u8; 2], number: u32) -> Option<[u8; 2]> {
    let number = u8::try_from(number).ok()?;
    let inlined = match via {
        [0, 0] => [number, 0],
        [first, 0] => [first, number],
        _ => return None,
    };
    let passes = |through: [u8; 2]| through[0] == inlined[0] && (inlined[1] == 0 || through[1] == inlined[1]);
    owner.fields.iter().filter_map(|field| field.proto).any(|proto| passes(proto.via)).then_some(inlined)
}

/// Adds one occurrence of a field to the object.
fn put(field: &Field, payload: Payload, depth: usize, into: &mut Map<String, Value>) -> Result<(), String> {
    let name = field.name.as_ref();
    let proto = field.proto.as_ref();
    if let Some(union) = proto.and_then(|proto| proto.union) {
        into.insert(name.to_owned(), schema_union(union, payload.bytes()?, depth + 1)?);
        return Ok(());
    }
    match &field.shape {
        Shape::List { items, .. } => {
            let list = into.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                push(items, payload, depth, list)?;
            }
        }
        Shape::Map { values, .. } => {
            let (key, value) = entry(values, payload.bytes()?, depth)?;
            if let Value::Object(map) = into.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                map.insert(key, value);
            }
        }
        Shape::Scalar(_) | Shape::Struct(_) | Shape::Any => {
            let value = single(&field.shape, payload, depth)?;
            // Go writes plain fields even when they are zero. A zero is meant behind a pointer, and where Go's JSON
            // shows it too: a required number or boolean.
            let is_shown = field.required && (value.is_number() || value.is_boolean());
            let is_meant = proto.is_some_and(|proto| proto.pointer) || is_shown || !is_zero(&field.shape, &value);
            if is_meant && !value.is_null() {
                into.insert(name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn is_zero(shape: &Shape, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Object(object) => object.is_empty() && !matches!(shape, Shape::Any),
        Value::Array(_) => false,
    }
}

/// Adds items to a list: one, or several integers packed into one payload.
fn push(items: &Shape, payload: Payload, depth: usize, list: &mut Vec<Value>) -> Result<(), String> {
    let is_number = matches!(items, Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Boolean));
    if let (true, Payload::Bytes(packed)) = (is_number, payload) {
        let mut reader = Reader::new(packed);
        while !reader.is_empty() {
            list.push(single(items, Payload::Varint(reader.varint()?), depth)?);
        }
        return Ok(());
    }
    list.push(single(items, payload, depth)?);
    Ok(())
}

/// A map entry; what the entry leaves out is zero.
fn entry(values: &Shape, raw: &[u8], depth: usize) -> Result<(String, Value), String> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = Reader::new(raw);
    while let Some((number, payload)) = reader.next()? {
        match number {
            1 => key = payload.text()?.to_owned(),
            2 => value = Some(single(values, payload, depth)?),
            _ => {}
        }
    }
    let value = value.unwrap_or_else(|| absent(values));
    Ok((key, value))
}

fn absent(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        Shape::Scalar(Scalar::Quantity) => "0".into(),
        Shape::Scalar(Scalar::Boolean) => false.into(),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => 0.into(),
        Shape::Scalar(Scalar::Time | Scalar::MicroTime | Scalar::Duration) | Shape::Any => Value::Null,
        Shape::Struct(_) | Shape::Map { .. } => Value::Object(Map::new()),
        Shape::List { .. } => Value::Array(Vec::new()),
    }
}

/// One value of a shape; zero values are kept, for the caller knows whether they are meant.
fn single(shape: &Shape, payload: Payload, depth: usize) -> Result<Value, String> {
    match shape {
        Shape::Scalar(scalar) => scalar_of(*scalar, payload),
        Shape::Struct(inner) => message(inner, payload.bytes()?, depth + 1).map(Value::Object),
        Shape::Any => raw_json(payload.bytes()?),
        // Protobuf has no list inside a map or list, so Go wraps it in a message whose field 1 holds the items.
        Shape::List { items, .. } => {
            let mut list = Vec::new();
            let mut reader = Reader::new(payload.bytes()?);
            while let Some((number, payload)) = reader.next()? {
                if number == 1 {
                    push(items, payload, depth, &mut list)?;
                }
            }
            Ok(Value::Array(list))
        }
        Shape::Map { .. } => Err("a map inside a map or list is not on the wire of any built-in kind".to_owned()),
    }
}

fn scalar_of(scalar: Scalar, payload: Payload) -> Result<Value, String> {
    Ok(match scalar {
        Scalar::String => payload.text()?.into(),
        Scalar::Int32 => (payload.varint()? as i32).into(),
        Scalar::Int64 => (payload.varint()? as i64).into(),
        Scalar::Boolean => (payload.varint()? != 0).into(),
        Scalar::Number => Number::from_f64(payload.double()?).map_or(Value::Null, Value::Number),
        Scalar::Bytes => STANDARD.encode(payload.bytes()?).into(),
        Scalar::Time | Scalar::MicroTime => time(scalar, payload.bytes()?)?,
        Scalar::Quantity => member(payload.bytes()?, 1)?.map_or(Ok(""), |text| text.text())?.into(),
        Scalar::IntOrString => int_or_string(payload.bytes()?)?,
        Scalar::Duration => return Err("a duration is not on the wire of any built-in kind".to_owned()),
    })
}

/// The last occurrence of a field in a small message.
fn member(raw: &[u8], wanted: u32) -> Result<Option<Payload<'_>>, String> {
    let mut found = None;
    let mut reader = Reader::new(raw);
    while let Some((number, payload)) = reader.next()? {
        if number == wanted {
            found = Some(payload);
        }
    }
    Ok(found)
}

fn number_member(raw: &[u8], wanted: u32) -> Result<i64, String> {
    member(raw, wanted)?.map_or(Ok(0), |payload| Ok(payload.varint()? as i64))
}

/// An empty message is Go's zero time, which JSON does not show.
fn time(scalar: Scalar, raw: &[u8]) -> Result<Value, String> {
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanos) = (number_member(raw, 1)?, number_member(raw, 2)?);
    let nanos = i32::try_from(nanos).map_err(|_| "a time is out of range".to_owned())?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| "a time is out of range".to_owned())?;
    Ok(decode::spell_time(scalar, time).into())
}

fn int_or_string(raw: &[u8]) -> Result<Value, String> {
    const STRING: i64 = 1;
    if number_member(raw, 1)? == STRING {
        return Ok(member(raw, 3)?.map_or(Ok(""), |text| text.text())?.into());
    }
    Ok((number_member(raw, 2)? as i32).into())
}

/// RawExtension, JSON and FieldsV1 hold their JSON text in field 1.
fn raw_json(raw: &[u8]) -> Result<Value, String> {
    match member(raw, 1)?.map_or(Ok(&[][..]), |payload| payload.bytes())? {
        [] => Ok(Value::Null),
        text => decode::json(text).map(|decoded| decoded.value),
    }
}

fn schema_union(union: SchemaUnion, raw: &[u8], depth: usize) -> Result<Value, String> {
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = builtin::named(name).ok_or("the table has no JSON schema")?;
    let (schema_number, is_array) = match union {
        SchemaUnion::OrBool => (2, false),
        SchemaUnion::OrArray => (1, true),
    };
    if let Some(payload) = member(raw, schema_number)? {
        return message(&schema, payload.bytes()?, depth).map(Value::Object);
    }
    if !is_array {
        return Ok((number_member(raw, 1)? != 0).into());
    }
    let mut list = Vec::new();
    let mut reader = Reader::new(raw);
    while let Some((number, payload)) = reader.next()? {
        if number == 2 {
            list.push(Value::Object(message(&schema, payload.bytes()?, depth)?));
        }
    }
    Ok(Value::Array(list))
}

#[cfg(test)]
mod tests;
