//! Defaults of the plain kinds of the core group: configuration, namespaces, nodes, events, limits.

use super::rows::{Fill, KindRow, items_mut, make_map, nothing_more};
use crate::kube::{at, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

pub const ROWS: &[KindRow] = &[
    KindRow { group: "", kind: "Secret", rows: &[("type", Fill::Text("Opaque"))], more: merge_string_data },
    KindRow {
        group: "",
        kind: "Namespace",
        rows: &[("spec", Fill::Map), ("status.phase", Fill::Text("Active"))],
        more: fill_namespace,
    },
    KindRow {
        group: "",
        kind: "Node",
        rows: &[
            ("spec", Fill::Map),
            ("status.daemonEndpoints.kubeletEndpoint.Port", Fill::Number(0)),
            ("status.nodeInfo.architecture", Fill::Text("")),
            ("status.nodeInfo.bootID", Fill::Text("")),
            ("status.nodeInfo.containerRuntimeVersion", Fill::Text("")),
            ("status.nodeInfo.kernelVersion", Fill::Text("")),
            ("status.nodeInfo.kubeProxyVersion", Fill::Text("")),
            ("status.nodeInfo.kubeletVersion", Fill::Text("")),
            ("status.nodeInfo.machineID", Fill::Text("")),
            ("status.nodeInfo.operatingSystem", Fill::Text("")),
            ("status.nodeInfo.osImage", Fill::Text("")),
            ("status.nodeInfo.systemUUID", Fill::Text("")),
        ],
        more: fill_node,
    },
    KindRow {
        group: "",
        kind: "Event",
        rows: &[
            ("involvedObject", Fill::Map),
            ("source", Fill::Map),
            ("firstTimestamp", Fill::Null),
            ("lastTimestamp", Fill::Null),
            ("eventTime", Fill::Null),
            ("reportingComponent", Fill::Text("")),
            ("reportingInstance", Fill::Text("")),
        ],
        more: nothing_more,
    },
    KindRow {
        group: "events.k8s.io",
        kind: "Event",
        rows: &[
            ("regarding", Fill::Map),
            ("eventTime", Fill::Null),
            ("deprecatedSource", Fill::Map),
            ("deprecatedFirstTimestamp", Fill::Null),
            ("deprecatedLastTimestamp", Fill::Null),
        ],
        more: nothing_more,
    },
    KindRow { group: "", kind: "LimitRange", rows: &[("spec.limits", Fill::Null)], more: fill_limit_range },
    KindRow {
        group: "",
        kind: "ResourceQuota",
        rows: &[("spec", Fill::Map), ("status", Fill::Map)],
        more: nothing_more,
    },
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
