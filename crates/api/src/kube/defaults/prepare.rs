//! What the server itself writes into a built-in object on create and on update, apart from defaults.
//!
//! The server calls `prepare_create` or `prepare_update` after defaults and before admission and validation
//! (spec K-WR-5). Doing so twice changes nothing.

use super::fill;
use super::network::uses_node_ports;
use super::rows::{make_map, map_at};
use crate::kube::{at, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Sets the fields that only the server may choose for a new object.
pub fn prepare_create(group: &str, kind: &str, object: &mut Value) {
    // A node registers itself together with its status; for every other kind the status is the controllers' to write.
    let has_status = object.get("status").is_some();
    if let (true, Some(map)) = (has_status && kind != "Node", object.as_object_mut()) {
        map.remove("status");
        fill(group, kind, object);
    }
    match (group, kind) {
        // "At once" is one second.
        ("", "Pod")
            if at(object, "spec.terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0) =>
        {
            if let Some(spec) = map_at(object, "spec") {
                spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
            }
        }
        ("", "Namespace") => {
            add_to_list(object, "spec", "finalizers", "kubernetes");
        }
        ("", "PersistentVolumeClaim") => {
            add_to_list(object, "metadata", "finalizers", "kubernetes.io/pvc-protection");
        }
        ("", "PersistentVolume") => {
            add_to_list(object, "metadata", "finalizers", "kubernetes.io/pv-protection");
        }
        ("apps", "DaemonSet") => set_template_generation(object, 1),
        _ => {}
    }
}

/// Carries over what an update may not touch or need not repeat.
pub fn prepare_update(group: &str, kind: &str, new: &mut Value, old: &Value) {
    match (group, kind) {
        ("", "Namespace") => {
            if let Some(finalizers) = at(old, "spec.finalizers") {
                let finalizers = finalizers.clone();
                if let Some(spec) = make_map(new, "spec") {
                    spec.insert("finalizers".to_owned(), finalizers);
                }
            }
        }
        ("", "Service") => prepare_service_update(new, old),
        ("apps", "DaemonSet") => {
            let before = at(old, "metadata.annotations").and_then(|map| map.get(TEMPLATE_GENERATION));
            let generation = before.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(1);
            let changed = at(new, "spec.template") != at(old, "spec.template");
            set_template_generation(new, if changed { generation + 1 } else { generation });
        }
        _ => {}
    }
}

fn add_to_list(object: &mut Value, path: &str, key: &str, item: &str) {
    let Some(map) = make_map(object, path) else { return };
    let list = map.entry(key).or_insert_with(|| json!([]));
    match list {
        Value::Array(items) if !items.iter().any(|present| present == item) => items.push(item.into()),
        Value::Null => *list = json!([item]),
        _ => {}
    }
}

fn set_template_generation(daemon_set: &mut Value, generation: i64) {
    if let Some(annotations) = make_map(daemon_set, "metadata.annotations") {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    }
}

/// Keeps allocated addresses and ports that the update leaves out, and drops the ones its new type cannot have.
fn prepare_service_update(new: &mut Value, old: &Value) {
    let has_address = |service: &Value| text(service, "spec.type") != "ExternalName";
    if has_address(old) && has_address(new) {
        keep(new, old, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
        follow_changed_address(new, old);
    } else if has_address(old) {
        drop_unchanged(new, old, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if uses_node_ports(old) && uses_node_ports(new) {
        keep_node_ports(new, old);
    } else if uses_node_ports(old) && node_ports(new).is_subset(&node_ports(old)) {
        for port in new.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
        drop_unchanged(new, old, &["externalTrafficPolicy"]);
    }
    let balances = |service: &Value| text(service, "spec.type") == "LoadBalancer";
    if balances(old) && !balances(new) {
        drop_unchanged(new, old, &["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]);
    } else if balances(old) && text(new, "spec.externalTrafficPolicy") == "Local" {
        keep(new, old, &["healthCheckNodePort"]);
    }
    if let (false, Some(status)) = (balances(new), map_at(new, "status")) {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(value) => value.as_i64() == Some(0),
    }
}

fn keep(new: &mut Value, old: &Value, keys: &[&str]) {
    let Some(spec) = map_at(new, "spec") else { return };
    for key in keys {
        if let (true, Some(value)) = (is_unset(spec.get(*key)), old["spec"].get(*key)) {
            spec.insert((*key).to_owned(), value.clone());
        }
    }
}

fn drop_unchanged(new: &mut Value, old: &Value, keys: &[&str]) {
    let Some(spec) = map_at(new, "spec") else { return };
    for key in keys {
        if spec.get(*key) == old["spec"].get(*key) {
            spec.remove(*key);
        }
    }
}

/// Old clients know only the single field: when it alone has changed, the list follows.
fn follow_changed_address(new: &mut Value, old: &Value) {
    let address = text(new, "spec.clusterIP").to_owned();
    let list_unchanged = at(new, "spec.clusterIPs") == at(old, "spec.clusterIPs");
    let only_single_changed = address != text(old, "spec.clusterIP") && list_unchanged;
    if let (true, Some(spec)) = (only_single_changed, map_at(new, "spec")) {
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = at(service, "spec.ports").and_then(Value::as_array).into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_i64()).filter(|number| *number != 0).collect()
}

/// Ports meet by name; a number that another port of the update now claims is not given back.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let taken: BTreeSet<i64> = node_ports(new).intersection(&node_ports(old)).copied().collect();
    let old_ports = at(old, "spec.ports").and_then(Value::as_array).cloned().unwrap_or_default();
    for port in new.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let before = old_ports.iter().find(|other| text(other, "name") == text(port, "name"));
        let number = before.and_then(|other| other["nodePort"].as_i64()).unwrap_or(0);
        let may_keep = number != 0 && !taken.contains(&number) && is_unset(port.get("nodePort"));
        if let (true, Some(port)) = (may_keep, port.as_object_mut()) {
            port.insert("nodePort".to_owned(), number.into());
        }
    }
}
