//! Rows of services, endpoints and ingress kinds.

use super::cell::{self, ITEMS_MAX, NONE, UNSET, count, list, text_or};
use super::{Column, Printer};
use crate::kube::{at, text};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

pub const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        kind: "Service",
        columns: &[
            Column::NAME,
            Column::text("Type", "How the service is exposed."),
            Column::text("Cluster-IP", "Address inside the cluster."),
            Column::text("External-IP", "Addresses outside the cluster."),
            Column::text("Port(s)", "Ports, with the node port where there is one."),
            Column::AGE,
            Column::text("Selector", "Labels of the pods behind the service.").wide(),
        ],
        cells: service_cells,
    },
    Printer {
        group: "",
        kind: "Endpoints",
        columns: &[Column::NAME, Column::text("Endpoints", "Ready addresses with their ports."), Column::AGE],
        cells: endpoints_cells,
    },
    Printer {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        columns: &[
            Column::NAME,
            Column::text("AddressType", "Family of the addresses."),
            Column::text("Ports", "Ports that the endpoints serve."),
            Column::text("Endpoints", "Addresses of the endpoints."),
            Column::AGE,
        ],
        cells: endpoint_slice_cells,
    },
    Printer {
        group: "networking.k8s.io",
        kind: "Ingress",
        columns: &[
            Column::NAME,
            Column::text("Class", "Class of controller that serves the ingress."),
            Column::text("Hosts", "Host names that are routed."),
            Column::text("Address", "Addresses of the load balancer."),
            Column::text("Ports", "Ports that are open."),
            Column::AGE,
        ],
        cells: ingress_cells,
    },
    Printer {
        group: "networking.k8s.io",
        kind: "IngressClass",
        columns: &[
            Column::NAME,
            Column::text("Controller", "Controller that serves the class."),
            Column::text("Parameters", "Object with further settings."),
            Column::AGE,
        ],
        cells: ingress_class_cells,
    },
    Printer {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        columns: &[
            Column::NAME,
            Column::text("Pod-Selector", "Labels of the pods that the policy covers."),
            Column::AGE,
        ],
        cells: network_policy_cells,
    },
];

fn service_cells(service: &Value, now: Timestamp) -> Vec<Value> {
    let ip =
        list(service, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or(text(service, "spec.clusterIP"));
    let ports: Vec<String> = list(service, "spec.ports").iter().map(port_text).collect();
    vec![
        cell::name(service),
        text(service, "spec.type").into(),
        cell::or(ip, NONE).into(),
        external_ip(service).into(),
        cell::or(&ports.join(","), NONE).into(),
        cell::age(service, now),
        cell::labels(service, "spec.selector"),
    ]
}

fn port_text(port: &Value) -> String {
    let (number, node_port, protocol) = (count(port, "port"), count(port, "nodePort"), text(port, "protocol"));
    if node_port > 0 { format!("{number}:{node_port}/{protocol}") } else { format!("{number}/{protocol}") }
}

fn external_ip(service: &Value) -> String {
    let mut addresses: Vec<&str> = list(service, "spec.externalIPs").iter().filter_map(Value::as_str).collect();
    let fallback = match text(service, "spec.type") {
        "ClusterIP" | "NodePort" => NONE,
        "LoadBalancer" => {
            addresses.splice(0..0, load_balancer(service));
            "<pending>"
        }
        "ExternalName" => return text(service, "spec.externalName").to_owned(),
        _ => return cell::UNKNOWN.to_owned(),
    };
    if addresses.is_empty() { fallback.to_owned() } else { addresses.join(",") }
}

/// Addresses (or else names) of the load balancer, sorted.
fn load_balancer(object: &Value) -> BTreeSet<&str> {
    let ingress = list(object, "status.loadBalancer.ingress").iter();
    ingress.map(|point| text_or(point, "ip", text(point, "hostname"))).filter(|point| !point.is_empty()).collect()
}

fn endpoints_cells(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    let subsets = list(endpoints, "subsets");
    let mut items = Vec::new();
    for subset in subsets {
        let addresses = || list(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = list(subset, "ports");
        if ports.is_empty() {
            items.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            items.extend(addresses().map(|ip| host_port(ip, count(port, "port"))));
        }
    }
    let shown = if subsets.is_empty() { NONE.to_owned() } else { cell::shortened(&items, ITEMS_MAX, ",") };
    vec![cell::name(endpoints), shown.into(), cell::age(endpoints, now)]
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn endpoint_slice_cells(slice: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match at(port, "port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None => text_or(port, "name", "*").to_owned(),
    };
    let ports: Vec<String> = list(slice, "ports").iter().map(port).collect();
    let addresses = list(slice, "endpoints").iter().flat_map(|endpoint| list(endpoint, "addresses"));
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    vec![
        cell::name(slice),
        text(slice, "addressType").into(),
        cell::or(&cell::shortened(&ports, ITEMS_MAX, ","), UNSET).into(),
        cell::or(&cell::shortened(&addresses, ITEMS_MAX, ","), UNSET).into(),
        cell::age(slice, now),
    ]
}

fn ingress_cells(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let rules = list(ingress, "spec.rules").iter();
    let hosts: Vec<String> = rules.map(|rule| text(rule, "host").to_owned()).filter(|host| !host.is_empty()).collect();
    let addresses: Vec<&str> = load_balancer(ingress).into_iter().collect();
    let ports = if list(ingress, "spec.tls").is_empty() { "80" } else { "80, 443" };
    vec![
        cell::name(ingress),
        text_or(ingress, "spec.ingressClassName", NONE).into(),
        cell::or(&cell::shortened(&hosts, ITEMS_MAX, ","), "*").into(),
        addresses.join(",").into(),
        ports.into(),
        cell::age(ingress, now),
    ]
}

fn ingress_class_cells(class: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = at(class, "spec.parameters").map_or(NONE.to_owned(), |parameters| {
        let (kind, group, name) = (text(parameters, "kind"), text(parameters, "apiGroup"), text(parameters, "name"));
        if group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{group}/{name}") }
    });
    vec![cell::name(class), text(class, "spec.controller").into(), parameters.into(), cell::age(class, now)]
}

fn network_policy_cells(policy: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(policy), cell::selector(policy, "spec.podSelector"), cell::age(policy, now)]
}
