//! Kubernetes' vocabulary on plain JSON: names, quantities, times, selectors, errors, shapes, defaults, checks, tables.
//!
//! Objects stay `serde_json::Value` throughout: a typed struct would drop the fields that it does not know.

pub mod decode;
pub mod defaults;
pub mod autoscalers;
pub mod events;
pub mod field;
pub mod names;
pub mod protobuf;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod time;
pub mod validate;
pub mod warnings;

use serde_json::Value;

/// The value at a dotted path of object keys (`spec.nodeName`), if every step is there.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

/// The items of the list at a dotted path, to be changed in place; none when there is no list.
///
/// (`value["key"]` on a mutable value would put a null there.)
pub fn items_mut<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = path.split('.').try_fold(object, |value, key| value.get_mut(key));
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// The string at a dotted path, or `""`: Kubernetes treats an absent string as an empty one.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or("")
}
