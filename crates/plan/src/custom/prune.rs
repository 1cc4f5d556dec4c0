//! Pruning: fields that a schema does not know are removed, and their paths reported for `fieldValidation`.
//!
//! `apiVersion`, `kind` and `metadata` are known at the root and in embedded resources; inside `metadata` the fields
//! of ObjectMeta are.

use super::place::Place;
use super::schema::{Additional, Node};
use serde_json::{Map, Value};

const OBJECT_META: [&str; 15] = [
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion",
    "selfLink", "uid",
];
const OWNER_REFERENCE: [&str; 6] = ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGED_FIELDS: [&str; 7] =
    ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];

/// Prunes a whole resource and returns the paths of what it removed: metadata first, then the rest sorted.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get_mut("metadata") {
        prune_metadata(metadata, &Place::Field(&Place::Root, "metadata"), &mut unknown);
    }
    let metadata_count = unknown.len();
    prune_resource(root, object, true, &Place::Root, &mut unknown);
    unknown[metadata_count..].sort();
    unknown
}

/// Prunes a value that is not a whole resource, such as a default.
pub(super) fn prune_value(node: &Node, value: &mut Value) -> bool {
    let mut unknown = Vec::new();
    prune_resource(node, value, node.is_embedded, &Place::Root, &mut unknown);
    !unknown.is_empty()
}

fn prune_node(node: &Node, value: &mut Value, place: &Place<'_>, unknown: &mut Vec<String>) {
    prune_resource(node, value, node.is_embedded, place, unknown);
}

fn prune_resource(node: &Node, value: &mut Value, is_resource: bool, place: &Place<'_>, unknown: &mut Vec<String>) {
    if node.keeps_unknown {
        keep(node, value, is_resource, place, unknown);
        return;
    }
    match value {
        Value::Object(members) => prune_members(node, members, is_resource, place, unknown),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let here = Place::Index(place, index);
                match &node.items {
                    Some(sub) => prune_node(sub, item, &here, unknown),
                    None => prune_all(item, &here, unknown),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Walks an open value: what is undeclared stays, also in the items of lists; what is declared is pruned as usual.
fn keep(node: &Node, value: &mut Value, is_resource: bool, place: &Place<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if is_resource && is_meta_field(name) {
                    prune_embedded_metadata(name, member, place, unknown);
                } else if let Some(sub) = node.member(name) {
                    prune_node(sub, member, &Place::Field(place, name), unknown);
                }
            }
        }
        Value::Array(items) => {
            let Some(sub) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                keep(sub, item, sub.is_embedded, &Place::Index(place, index), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn prune_members(
    node: &Node,
    members: &mut Map<String, Value>,
    is_resource: bool,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) {
    members.retain(|name, value| {
        if is_resource && is_meta_field(name) {
            prune_embedded_metadata(name, value, place, unknown);
            return true;
        }
        let here = Place::Field(place, name);
        if let Some(sub) = node.member(name) {
            prune_node(sub, value, &here, unknown);
            return true;
        }
        match node.additional {
            Additional::Any | Additional::Never => {
                prune_all(value, &here, unknown);
                true
            }
            Additional::Absent | Additional::Of(_) => {
                unknown.push(here.name());
                false
            }
        }
    });
}

/// Removes all fields of a value that no schema describes; lists and scalars stay.
fn prune_all(value: &mut Value, place: &Place<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            unknown.extend(members.keys().map(|name| Place::Field(place, name).name()));
            members.clear();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_all(item, &Place::Index(place, index), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The root's own metadata is done before the walk, so that its paths come first.
fn prune_embedded_metadata(name: &str, value: &mut Value, place: &Place<'_>, unknown: &mut Vec<String>) {
    if name == "metadata" && !matches!(place, Place::Root) {
        prune_metadata(value, &Place::Field(place, name), unknown);
    }
}

fn prune_metadata(metadata: &mut Value, place: &Place<'_>, unknown: &mut Vec<String>) {
    keep_only(metadata, &OBJECT_META, place, unknown);
    for (list, known) in [("ownerReferences", &OWNER_REFERENCE[..]), ("managedFields", &MANAGED_FIELDS[..])] {
        let Some(items) = metadata.get_mut(list).and_then(Value::as_array_mut) else { continue };
        let here = Place::Field(place, list);
        for (index, item) in items.iter_mut().enumerate() {
            keep_only(item, known, &Place::Index(&here, index), unknown);
        }
    }
}

fn keep_only(value: &mut Value, known: &[&str], place: &Place<'_>, unknown: &mut Vec<String>) {
    let Value::Object(members) = value else { return };
    members.retain(|name, _| {
        let is_known = known.contains(&name.as_str());
        if !is_known {
            unknown.push(Place::Field(place, name).name());
        }
        is_known
    });
}
