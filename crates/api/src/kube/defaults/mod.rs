//! What the server fills in: the fields that a user left out, as every client expects to read them back (spec K D).
//!
//! Each kind's function stands in the table of its file. Filling in twice changes nothing the second time.

pub mod core;
pub mod network;
pub mod pod;
pub mod policy;
pub mod prepare;
pub mod rows;
pub mod status;
pub mod storage;
pub mod workloads;

use serde_json::{Map, Value};

/// Group, kind, and the function that completes an object of it.
pub type Row = (&'static str, &'static str, fn(&mut Value));

/// One row set per file; the first match wins.
const TABLES: &[&[Row]] = &[pod::ROWS];

/// Completes an object of a built-in kind; other kinds stay as they are.
pub fn fill(group: &str, kind: &str, object: &mut Value) {
    let row = TABLES.iter().flat_map(|table| table.iter()).find(|row| row.0 == group && row.1 == kind);
    match row {
        Some((_, _, complete)) => complete(object),
        None => rows::fill(group, kind, object),
    }
    status::complete(group, kind, object);
}

/// Sets a field that is absent or null.
pub fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut().filter(|map| map.get(key).is_none_or(Value::is_null)) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a field whose zero value (`""`, `0`) means that it was left out.
pub fn set_zero(object: &mut Value, key: &str, value: impl Into<Value>) {
    let is_zero = |value: &Value| value.is_null() || value == "" || value == 0;
    if let Some(map) = object.as_object_mut().filter(|map| map.get(key).is_none_or(is_zero)) {
        map.insert(key.to_owned(), value.into());
    }
}

/// The object in a field, made if it is not there; `None` if `object` is not an object itself.
pub fn section<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    set(object, key, Map::new());
    object.get_mut(key)
}

/// The items of a list field, for changing.
pub fn items<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// A field that holds an object, for changing.
pub fn inner<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    object.get_mut(key).filter(|value| value.is_object())
}

#[cfg(test)]
mod kinds_tests;
