//! Where kinds differ on the way into the store: what is cleared, carried over or filled in besides the common rules.
//!
//! Defaults and checks that need nothing but the object are tables in `volley_api::kube`; here is what needs a uid, the
//! old object, or the subresource that was written.

use super::catalogue::Resource;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use volley_api::kube::defaults::{self, prepare};
use volley_api::kube::{text, time};

/// `metadata` of an object as a map; made when it is missing.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let map = object.as_object_mut().expect("an object since the line above");
    let entry = map.entry("metadata").or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    entry.as_object_mut().expect("an object since the line above")
}

/// Metadata that a client may send but the server decides (spec K-OBJ-1).
pub fn begin(resource: &Resource, object: &mut Value, uid: &str, now: Timestamp) {
    let meta = metadata(object);
    for key in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"] {
        meta.remove(key);
    }
    meta.insert("uid".into(), uid.into());
    meta.insert("creationTimestamp".into(), time::seconds(now).into());
    if resource.traits.generation || resource.custom.is_some() {
        meta.insert("generation".into(), 1.into());
    }
}

/// What a new object of this kind starts with, and what a creator may not bring along.
pub fn on_create(resource: &Resource, object: &mut Value, now: Timestamp) {
    if let Some(custom) = &resource.custom {
        if custom.has_status {
            remove(object, "status");
        }
        return;
    }
    prepare::prepare_create(&resource.group, &resource.kind, object);
    match &*resource.kind {
        "CustomResourceDefinition" => {
            object["status"] =
                json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []});
            finalizer(object, "customresourcecleanup.apiextensions.k8s.io");
        }
        "Job" => {
            let uid = text(object, "metadata.uid").to_owned();
            defaults::workloads::job_labels(object, &uid);
        }
        "Event" if object["metadata"]["name"].is_null() => {
            object["metadata"]["name"] = format!("event.{:x}", now.as_nanosecond()).into();
        }
        _ => {}
    }
    if resource.has("status") && object.get("status").is_none() {
        object["status"] = json!({});
    }
}

/// What an update of the main resource or of a subresource may not change, taken from the old object.
pub fn on_update(resource: &Resource, subresource: &str, old: &Value, new: &mut Value) {
    carry_metadata(old, new);
    let has_status = resource.custom.as_ref().map_or_else(|| resource.has("status"), |custom| custom.has_status);
    match subresource {
        "status" if resource.custom.is_some() => {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            replace(new, "status", status);
            let meta = metadata(new);
            match managed {
                Some(managed) => meta.insert("managedFields".into(), managed),
                None => meta.remove("managedFields"),
            };
        }
        "status" => {
            let keep: Vec<String> = old.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
            for key in keep.iter().filter(|key| !matches!(key.as_str(), "metadata" | "status")) {
                replace(new, key, old.get(key).cloned());
            }
            let added: Vec<String> = new
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .filter(|key| !matches!(key.as_str(), "metadata" | "status") && old.get(key).is_none())
                .collect();
            for key in added {
                remove(new, &key);
            }
            if &*resource.group == "apps" {
                replace_in(new, "metadata", "labels", old["metadata"].get("labels").cloned());
            }
            if &*resource.kind == "Pod" {
                replace_in(new, "metadata", "ownerReferences", old["metadata"].get("ownerReferences").cloned());
            }
        }
        // A binding writes the node's name and a condition in one step.
        "binding" => {}
        "ephemeralcontainers" => {
            let containers = new["spec"].get("ephemeralContainers").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            replace_in(new, "spec", "ephemeralContainers", containers);
            replace_in(new, "metadata", "managedFields", managed);
        }
        "finalize" => {
            let finalizers = new["spec"].get("finalizers").cloned();
            *new = old.clone();
            replace_in(new, "spec", "finalizers", finalizers);
        }
        _ => {
            if has_status {
                replace(new, "status", old.get("status").cloned());
            }
            if resource.custom.is_none() {
                prepare::prepare_update(&resource.group, &resource.kind, new, old);
            }
        }
    }
}

/// Identity and life-cycle of the object, which no writer may change.
fn carry_metadata(old: &Value, new: &mut Value) {
    let old_meta = &old["metadata"];
    let meta = metadata(new);
    for key in [
        "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "name",
        "namespace",
    ] {
        match old_meta.get(key) {
            Some(value) => meta.insert(key.into(), value.clone()),
            None => meta.remove(key),
        };
    }
    meta.remove("selfLink");
}

/// The metadata that a kind takes through `/status` (spec K-WR-5).
pub fn status_metadata(resource: &Resource) -> &'static [&'static str] {
    match (&*resource.group, resource.custom.is_some()) {
        (_, true) => &[],
        ("apps", _) => &["annotations", "finalizers", "ownerReferences"],
        _ => &["annotations", "finalizers", "labels", "ownerReferences"],
    }
}

/// Whether `metadata.generation` rises with this change (spec K-OBJ-3, K-CR-2).
pub fn generation_rises(resource: &Resource, subresource: &str, old: &Value, new: &Value) -> bool {
    if matches!(subresource, "status" | "binding") {
        return false;
    }
    if let Some(custom) = &resource.custom {
        return volley_plan::custom::instance::generation_changes(old, new, custom.has_status);
    }
    if !resource.traits.generation {
        return false;
    }
    // A slice counts every change, those of its labels too.
    if &*resource.kind == "EndpointSlice" && owned(old) != owned(new) {
        return true;
    }
    if &*resource.kind == "Deployment" && old["metadata"].get("annotations") != new["metadata"].get("annotations") {
        return true;
    }
    if old.get("spec").is_some() || new.get("spec").is_some() {
        return old.get("spec") != new.get("spec");
    }
    outside(old) != outside(new)
}

/// The metadata that its writers decide.
fn owned(object: &Value) -> [Option<&Value>; 4] {
    ["labels", "annotations", "finalizers", "ownerReferences"].map(|key| object["metadata"].get(key))
}

fn outside(object: &Value) -> Map<String, Value> {
    let map = object.as_object().cloned().unwrap_or_default();
    map.into_iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status")).collect()
}

pub fn finalizer(object: &mut Value, name: &str) {
    let list = metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|item| item == name)
    {
        list.push(name.into());
    }
}

pub fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(key);
    }
}

/// Sets or removes a top-level key.
fn replace(object: &mut Value, key: &str, value: Option<Value>) {
    match (object.as_object_mut(), value) {
        (Some(map), Some(value)) => drop(map.insert(key.to_owned(), value)),
        (Some(map), None) => drop(map.remove(key)),
        (None, _) => {}
    }
}

fn replace_in(object: &mut Value, parent: &str, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[parent][key] = value;
    } else if let Some(map) = object.get_mut(parent).and_then(Value::as_object_mut) {
        map.remove(key);
    }
}
