//! Lists of type `set` and `map`: no value and no combination of keys may occur twice.

use super::place::Place;
use super::schema::{ListKind, Node};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use volley_api::kube::field::FieldError;

pub(super) fn validate(root: &Node, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // The root is an object; a list there would be refused by its type.
    if object.is_object() {
        walk(root, object, &Place::Root, &mut errors);
    }
    errors
}

fn walk(node: &Node, value: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if !node.holds.keyed_lists {
        return;
    }
    if let Value::Array(items) = value {
        match &node.list {
            ListKind::Atomic => {}
            ListKind::Set => duplicates(items.iter().cloned(), place, errors),
            ListKind::Map(keys) => keyed(items, keys, place, errors),
        }
    }
    for (sub, value, place) in node.below(value, place) {
        walk(sub, value, &place, errors);
    }
}

fn keyed(items: &[Value], keys: &[Box<str>], place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let is_item = |item: &Value| item.is_object() || item.is_null();
    if let Some(index) = items.iter().position(|item| !is_item(item)) {
        let path = Place::Index(place, index).field_path();
        errors.push(FieldError::invalid(path, items[index].clone(), "must be an object for an array of list-type map"));
        return;
    }
    duplicates(items.iter().map(|item| key_of(item, keys)), place, errors);
}

/// The part of an item that identifies it.
pub(super) fn key_of(item: &Value, keys: &[Box<str>]) -> Value {
    let keys = keys.iter().map(AsRef::as_ref);
    let present = keys.filter_map(|key: &str| item.get(key).map(|value| (key.to_owned(), value.clone())));
    Value::Object(present.collect::<Map<_, _>>())
}

/// Reports the second occurrence of each value; later ones add nothing.
fn duplicates(values: impl Iterator<Item = Value>, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(Place::Index(place, index).field_path(), value));
        }
    }
}
