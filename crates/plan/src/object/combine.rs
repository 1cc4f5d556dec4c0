//! The two halves of an apply on the object itself: the configuration is merged in, what its manager dropped is cut out.

use super::entry::Entry;
use super::fields::{Fields, Node, child, children, is_member};
use super::managed::Tracked;
use super::typed::{List, View, entry, granular_list, is_granular_map, view};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::schema::Shape;

/// Merges the parts that the endpoint writes. Identity (`apiVersion`, `kind`, names) always comes along.
pub(super) fn merge_root(root: &Shape, merged: &mut Value, config: &Value, tracked: Tracked) {
    let (Value::Object(merged), Value::Object(config)) = (merged, config) else { return };
    let is_status = matches!(tracked, Tracked::Status { .. });
    for (key, value) in config {
        let is_type = key == "apiVersion" || key == "kind";
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                // Manifests carry `creationTimestamp: null`; what the server keeps is not theirs to empty.
                let is_merged = |key: &str, value: &Value| tracked.has_metadata(key) || !(is_status || value.is_null());
                let part = metadata.iter().filter(|(key, value)| is_merged(key, value));
                let part: Map<String, Value> = part.map(|(key, value)| (key.clone(), value.clone())).collect();
                merge_entry(root, merged, key, &Value::Object(part));
            }
            (_, value) if is_type || tracked.has_part(key) => merge_entry(root, merged, key, value),
            _ => {}
        }
    }
}

fn merge_entry(shape: &Shape, target: &mut Map<String, Value>, key: &str, config: &Value) {
    match target.get_mut(key) {
        Some(live) => merge(entry(shape, key).0, live, config),
        None => drop(target.insert(key.to_owned(), config.clone())),
    }
}

fn merge(shape: &Shape, live: &mut Value, config: &Value) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if is_granular_map(shape) => {
            for (key, value) in config {
                merge_entry(shape, live, key, value);
            }
        }
        // Null claims a container without emptying it.
        (Value::Object(live), Value::Null) if is_granular_map(shape) && !live.is_empty() => {}
        (Value::Array(live), Value::Null) if granular_list(shape).is_some() && !live.is_empty() => {}
        (live, config) => match (view(shape, live), view(shape, config)) {
            (View::List(list, old), View::List(_, new)) => *live = Value::Array(merged_items(list, old, new)),
            _ => *live = config.clone(),
        },
    }
}

/// Merges keyed lists: the configuration's items in its order, the live ones in theirs, interleaved where they meet.
fn merged_items(list: List<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    // Most applies repeat the list as it is; no keys need to be spelt for that.
    if live.len() == config.len() && live.iter().zip(config).all(|(live, config)| list.is_same(live, config)) {
        return live.iter().zip(config).map(|(live, config)| merged_item(list, live, config)).collect();
    }
    let element = |item: &Value| list.element(item).unwrap_or_default();
    let live_elements: Vec<String> = live.iter().map(element).collect();
    let config_elements: Vec<String> = config.iter().map(element).collect();
    let wanted: BTreeSet<&String> = config_elements.iter().collect();
    // Live items with one key cannot be told apart: the configuration's item replaces them.
    let mut place: BTreeMap<&String, Option<usize>> = BTreeMap::new();
    for (index, element) in live_elements.iter().enumerate() {
        place.entry(element).and_modify(|place| *place = None).or_insert(Some(index));
    }
    let joined = |index: usize| match place.get(&config_elements[index]).copied().flatten() {
        Some(place) => merged_item(list, &live[place], &config[index]),
        None => config[index].clone(),
    };
    let mut shared = config_elements.iter().filter(|element| place.contains_key(element)).peekable();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let mut done: BTreeSet<&String> = BTreeSet::new();
    let (mut at_live, mut at_config) = (0, 0);
    while at_live < live.len() || at_config < config.len() {
        if let Some(element) = live_elements.get(at_live) {
            let is_next = config_elements.get(at_config) == Some(element);
            let is_elsewhere = at_config < config.len() && shared.peek().is_some_and(|next| *next != element);
            if !wanted.contains(element) {
                merged.push(live[at_live].clone());
                at_live += 1;
                continue;
            }
            let is_config_done = at_config >= config.len();
            if is_next || is_elsewhere || is_config_done || done.contains(element) {
                at_live += 1;
            }
            if !is_next && (is_elsewhere || is_config_done) {
                continue;
            }
        }
        if let Some(element) = config_elements.get(at_config) {
            merged.push(joined(at_config));
            done.insert(element);
            shared.next_if(|next| *next == element);
            at_config += 1;
        }
    }
    merged
}

fn merged_item(list: List<'_>, live: &Value, config: &Value) -> Value {
    let mut item = live.clone();
    merge(list.items, &mut item, config);
    item
}

/// Removes what this manager claimed before, claims no longer, and nobody else owns.
pub(super) fn prune_root(root: &Shape, merged: &mut Value, (last, claimed): (&Fields, &Fields), others: &[Entry]) {
    if claimed.contains(last) {
        return;
    }
    let mut kept = claimed.clone();
    others.iter().for_each(|entry| kept.unite(&entry.fields));
    prune(root, merged, last.root(), kept.root());
}

fn prune(shape: &Shape, value: &mut Value, last: &Node, kept: &Node) {
    let nobody = Node::new();
    match value {
        Value::Object(fields) if is_granular_map(shape) => {
            for (element, last) in children(last) {
                let Some(key) = element.strip_prefix("f:") else { continue };
                let Some(value) = fields.get_mut(key) else { continue };
                let (shape, declared) = entry(shape, key);
                let kept = child(kept, element);
                // A declared field is claimed through its contents; other containers have to be claimed themselves.
                let was_claimed = declared.is_some() || is_member(last);
                let is_kept = kept.is_some_and(|kept| declared.is_some() || is_member(kept));
                if was_claimed && !is_kept {
                    fields.remove(key);
                } else if !is_empty(value) {
                    prune(shape, value, last, kept.unwrap_or(&nobody));
                    // An empty struct or map entry that somebody wants says something (`emptyDir: {}`), other containers
                    // say nothing without contents.
                    let says_something = declared.is_none() || matches!(shape, Shape::Struct(_));
                    let is_wanted = says_something && kept.is_some_and(is_member);
                    if is_empty(value) && !is_wanted {
                        fields.remove(key);
                    }
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = granular_list(shape) else { return };
            items.retain_mut(|item| {
                let Some(element) = list.element(item) else { return true };
                let Some(last) = child(last, &element) else { return true };
                let kept = child(kept, &element);
                let is_kept = !is_member(last) || kept.is_some_and(is_member);
                if is_kept {
                    prune(list.items, item, last, kept.unwrap_or(&nobody));
                }
                is_kept
            });
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
