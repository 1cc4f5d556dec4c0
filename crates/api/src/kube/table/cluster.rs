//! Rows of nodes, namespaces and the small kinds that configure what runs in them.

use super::cell::{self, NONE, UNKNOWN, keys, list, text_or};
use super::{Column, Printer};
use crate::kube::text;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

pub const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        kind: "Node",
        columns: &[
            Column::NAME,
            Column::text("Status", "Whether the node takes pods."),
            Column::text("Roles", "Roles that the node's labels give it."),
            Column::AGE,
            Column::text("Version", "Version of the node agent."),
            Column::text("Internal-IP", "Address inside the cluster.").wide(),
            Column::text("External-IP", "Address outside the cluster.").wide(),
            Column::text("OS-Image", "Operating system of the node.").wide(),
            Column::text("Kernel-Version", "Kernel of the node.").wide(),
            Column::text("Container-Runtime", "What runs the containers.").wide(),
        ],
        cells: node_cells,
    },
    Printer {
        group: "",
        kind: "Namespace",
        columns: &[Column::NAME, Column::text("Status", "Whether the namespace is being deleted."), Column::AGE],
        cells: namespace_cells,
    },
    Printer {
        group: "",
        kind: "ConfigMap",
        columns: &[Column::NAME, Column::text("Data", "Number of keys."), Column::AGE],
        cells: config_map_cells,
    },
    Printer {
        group: "",
        kind: "Secret",
        columns: &[
            Column::NAME,
            Column::text("Type", "What the secret is for."),
            Column::text("Data", "Number of keys."),
            Column::AGE,
        ],
        cells: secret_cells,
    },
    Printer { group: "", kind: "ServiceAccount", columns: &[Column::NAME, Column::AGE], cells: name_and_age },
    Printer {
        group: "",
        kind: "ComponentStatus",
        columns: &[
            Column::NAME,
            Column::text("Status", "Whether the component is healthy."),
            Column::text("Message", "What the component says."),
            Column::text("Error", "What is wrong with it."),
        ],
        cells: component_status_cells,
    },
    Printer {
        group: "coordination.k8s.io",
        kind: "Lease",
        columns: &[Column::NAME, Column::text("Holder", "Who holds the lease."), Column::AGE],
        cells: lease_cells,
    },
    Printer {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        columns: &[Column::NAME, Column::text("Handler", "Runtime that runs the pods."), Column::AGE],
        cells: runtime_class_cells,
    },
];

/// For kinds of which there is nothing else to say.
pub fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(object), cell::age(object, now)]
}

fn node_cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match cell::condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if cell::flag(node, "spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let of_system = |key: &str| text_or(node, &format!("status.nodeInfo.{key}"), UNKNOWN).into();
    vec![
        cell::name(node),
        status.into(),
        roles(node).into(),
        cell::age(node, now),
        text(node, "status.nodeInfo.kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        of_system("osImage"),
        of_system("kernelVersion"),
        of_system("containerRuntimeVersion"),
    ]
}

fn roles(node: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in cell::map(node, "metadata.labels").into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value,
            None => "",
            Some(role) => role,
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");
    cell::or(&roles, NONE).to_owned()
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let found = list(node, "status.addresses").iter().find(|address| text(address, "type") == kind);
    found.map_or(NONE, |address| text(address, "address"))
}

fn namespace_cells(namespace: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(namespace), text(namespace, "status.phase").into(), cell::age(namespace, now)]
}

fn config_map_cells(config_map: &Value, now: Timestamp) -> Vec<Value> {
    let data = keys(config_map, "data") + keys(config_map, "binaryData");
    vec![cell::name(config_map), data.into(), cell::age(config_map, now)]
}

fn secret_cells(secret: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(secret), text(secret, "type").into(), keys(secret, "data").into(), cell::age(secret, now)]
}

fn component_status_cells(component: &Value, _now: Timestamp) -> Vec<Value> {
    let health = list(component, "conditions").iter().find(|condition| text(condition, "type") == "Healthy");
    let status = match health.map(|condition| text(condition, "status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let of_health = |key: &str| health.map_or("", |condition| text(condition, key)).into();
    vec![cell::name(component), status.into(), of_health("message"), of_health("error")]
}

fn lease_cells(lease: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(lease), text(lease, "spec.holderIdentity").into(), cell::age(lease, now)]
}

fn runtime_class_cells(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(class), text(class, "handler").into(), cell::age(class, now)]
}
