//! Defaults of the plain kinds of the core group: configuration, namespaces, nodes, events, limits.

use super::rows::Fill::{Null, Number, Object, Text};
use super::rows::{Kind, make_map};
use crate::kube::{at, items_mut, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

pub(super) const KINDS: &[Kind] = &[
    Kind::of("", "Secret").then(merge_string_data).rows(&[("type", Text("Opaque"))]),
    Kind::of("", "Namespace").then(fill_namespace).rows(&[("spec", Object), ("status.phase", Text("Active"))]),
    Kind::of("", "Node").then(fill_node).rows(&[
        ("spec", Object),
        ("status.daemonEndpoints.kubeletEndpoint.Port", Number(0)),
        ("status.nodeInfo.architecture", Text("")),
        ("status.nodeInfo.bootID", Text("")),
        ("status.nodeInfo.containerRuntimeVersion", Text("")),
        ("status.nodeInfo.kernelVersion", Text("")),
        ("status.nodeInfo.kubeProxyVersion", Text("")),
        ("status.nodeInfo.kubeletVersion", Text("")),
        ("status.nodeInfo.machineID", Text("")),
        ("status.nodeInfo.operatingSystem", Text("")),
        ("status.nodeInfo.osImage", Text("")),
        ("status.nodeInfo.systemUUID", Text("")),
        ("status.conditions[].lastHeartbeatTime", Null),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("", "Event").rows(&[
        ("involvedObject", Object),
        ("source", Object),
        ("firstTimestamp", Null),
        ("lastTimestamp", Null),
        ("eventTime", Null),
        ("reportingComponent", Text("")),
        ("reportingInstance", Text("")),
    ]),
    Kind::of("events.k8s.io", "Event").rows(&[
        ("regarding", Object),
        ("eventTime", Null),
        ("deprecatedSource", Object),
        ("deprecatedFirstTimestamp", Null),
        ("deprecatedLastTimestamp", Null),
    ]),
    Kind::of("", "LimitRange").then(fill_limit_range).rows(&[("spec.limits", Null)]),
    Kind::of("", "ResourceQuota").rows(&[("spec", Object), ("status", Object)]),
];

/// `stringData` is only a way to write `data`: it wins over it and is never stored.
fn merge_string_data(secret: &mut Value) {
    let Some(Value::Object(plain)) = secret.as_object_mut().and_then(|map| map.remove("stringData")) else { return };
    let Some(data) = make_map(secret, "data") else { return };
    for (key, value) in plain {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or("")).into());
    }
}

fn fill_namespace(namespace: &mut Value) {
    let name = text(namespace, "metadata.name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = make_map(namespace, "metadata.labels") {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn fill_node(node: &mut Value) {
    let capacity = at(node, "status.capacity").filter(|value| value.is_object()).cloned();
    let allocatable_unset = at(node, "status.allocatable").is_none_or(Value::is_null);
    if let (Some(capacity), true) = (capacity, allocatable_unset) {
        node["status"]["allocatable"] = capacity;
    }
}

/// For containers: `max` stands in for `default`, `default` and then `min` for `defaultRequest`.
fn fill_limit_range(limit_range: &mut Value) {
    for item in items_mut(limit_range, "spec.limits").filter(|item| text(item, "type") == "Container") {
        add_missing(item, "max", "default");
        add_missing(item, "default", "defaultRequest");
        add_missing(item, "min", "defaultRequest");
    }
}

fn add_missing(item: &mut Value, from: &str, into: &str) {
    let source: Map<String, Value> = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
    if source.is_empty() {
        return;
    }
    if let Some(target) = make_map(item, into) {
        for (key, value) in source {
            target.entry(key).or_insert(value);
        }
    }
}
