//! Rows of nodes, namespaces and the small kinds that configure what runs in them.

use super::Cell::{self, Made, Text, TextOr};
use super::cell::{self, NONE, UNKNOWN, keys, list};
use super::{Column, Printer};
use crate::kube::text;
use serde_json::Value;
use std::collections::BTreeSet;

const RUNTIME: Cell = TextOr("status.nodeInfo.containerRuntimeVersion", UNKNOWN);
const OS_IMAGE: Cell = TextOr("status.nodeInfo.osImage", UNKNOWN);
const KERNEL: Cell = TextOr("status.nodeInfo.kernelVersion", UNKNOWN);

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of("", "Node").columns(&[
        Column::NAME,
        Column::text("Status", "Whether the node takes pods.", Made(node_status)),
        Column::text("Roles", "Roles that the node's labels give it.", Made(roles)),
        Column::AGE,
        Column::text("Version", "Version of the node agent.", Text("status.nodeInfo.kubeletVersion")),
        Column::text("Internal-IP", "Address inside the cluster.", Made(|node| address(node, "InternalIP"))).wide(),
        Column::text("External-IP", "Address outside the cluster.", Made(|node| address(node, "ExternalIP"))).wide(),
        Column::text("OS-Image", "Operating system of the node.", OS_IMAGE).wide(),
        Column::text("Kernel-Version", "Kernel of the node.", KERNEL).wide(),
        Column::text("Container-Runtime", "What runs the containers.", RUNTIME).wide(),
    ]),
    Printer::of("", "Namespace").columns(&[
        Column::NAME,
        Column::text("Status", "Whether the namespace is being deleted.", Text("status.phase")),
        Column::AGE,
    ]),
    Printer::of("", "ConfigMap").columns(&[
        Column::NAME,
        Column::text("Data", "Number of keys.", Made(|map| (keys(map, "data") + keys(map, "binaryData")).into())),
        Column::AGE,
    ]),
    Printer::of("", "Secret").columns(&[
        Column::NAME,
        Column::text("Type", "What the secret is for.", Text("type")),
        Column::text("Data", "Number of keys.", Made(|secret| keys(secret, "data").into())),
        Column::AGE,
    ]),
    Printer::of("", "ServiceAccount").columns(&[Column::NAME, Column::AGE]),
    Printer::of("", "ComponentStatus").columns(&[
        Column::NAME,
        Column::text("Status", "Whether the component is healthy.", Made(component_status)),
        Column::text("Message", "What the component says.", Made(|component| of_health(component, "message"))),
        Column::text("Error", "What is wrong with it.", Made(|component| of_health(component, "error"))),
    ]),
    Printer::of("coordination.k8s.io", "Lease").columns(&[
        Column::NAME,
        Column::text("Holder", "Who holds the lease.", Text("spec.holderIdentity")),
        Column::AGE,
    ]),
    Printer::of("node.k8s.io", "RuntimeClass").columns(&[
        Column::NAME,
        Column::text("Handler", "Runtime that runs the pods.", Text("handler")),
        Column::AGE,
    ]),
];

fn node_status(node: &Value) -> Value {
    let status = match cell::condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if cell::flag(node, "spec.unschedulable") { format!("{status},SchedulingDisabled").into() } else { status.into() }
}

fn roles(node: &Value) -> Value {
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
    cell::joined(roles.into_iter(), NONE)
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list(node, "status.addresses").iter().find(|address| text(address, "type") == kind);
    found.map_or(NONE, |address| text(address, "address")).into()
}

fn of_health(component: &Value, key: &str) -> Value {
    let health = list(component, "conditions").iter().find(|condition| text(condition, "type") == "Healthy");
    health.map_or("", |condition| text(condition, key)).into()
}

fn component_status(component: &Value) -> Value {
    match of_health(component, "status").as_str() {
        Some("True") => "Healthy".into(),
        Some("") | None => "Unknown".into(),
        Some(_) => "Unhealthy".into(),
    }
}
