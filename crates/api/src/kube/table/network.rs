//! Rows of services, endpoints and ingress kinds.

use super::Cell::{Labels, Made, Selector, Text, TextOr};
use super::cell::{self, ITEMS_MAX, NONE, UNSET, count, list, text_or};
use super::{Column, Printer};
use crate::kube::{at, text};
use serde_json::Value;
use std::collections::BTreeSet;

const NETWORKING: &str = "networking.k8s.io";

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of("", "Service").columns(&[
        Column::NAME,
        Column::text("Type", "How the service is exposed.", Text("spec.type")),
        Column::text("Cluster-IP", "Address inside the cluster.", Made(cluster_ip)),
        Column::text("External-IP", "Addresses outside the cluster.", Made(external_ip)),
        Column::text("Port(s)", "Ports, with the node port where there is one.", Made(service_ports)),
        Column::AGE,
        Column::text("Selector", "Labels of the pods behind the service.", Labels("spec.selector")).wide(),
    ]),
    Printer::of("", "Endpoints").columns(&[
        Column::NAME,
        Column::text("Endpoints", "Ready addresses with their ports.", Made(endpoints)),
        Column::AGE,
    ]),
    Printer::of("discovery.k8s.io", "EndpointSlice").columns(&[
        Column::NAME,
        Column::text("AddressType", "Family of the addresses.", Text("addressType")),
        Column::text("Ports", "Ports that the endpoints serve.", Made(slice_ports)),
        Column::text("Endpoints", "Addresses of the endpoints.", Made(slice_addresses)),
        Column::AGE,
    ]),
    Printer::of(NETWORKING, "Ingress").columns(&[
        Column::NAME,
        Column::text("Class", "Class of controller that serves the ingress.", TextOr("spec.ingressClassName", NONE)),
        Column::text("Hosts", "Host names that are routed.", Made(hosts)),
        Column::text(
            "Address",
            "Addresses of the load balancer.",
            Made(|ingress| cell::joined(load_balancer(ingress).into_iter(), "")),
        ),
        Column::text(
            "Ports",
            "Ports that are open.",
            Made(|ingress| if list(ingress, "spec.tls").is_empty() { "80".into() } else { "80, 443".into() }),
        ),
        Column::AGE,
    ]),
    Printer::of(NETWORKING, "IngressClass").columns(&[
        Column::NAME,
        Column::text("Controller", "Controller that serves the class.", Text("spec.controller")),
        Column::text("Parameters", "Object with further settings.", Made(parameters)),
        Column::AGE,
    ]),
    Printer::of(NETWORKING, "NetworkPolicy").columns(&[
        Column::NAME,
        Column::text("Pod-Selector", "Labels of the pods that the policy covers.", Selector("spec.podSelector")),
        Column::AGE,
    ]),
];

fn cluster_ip(service: &Value) -> Value {
    let first = list(service, "spec.clusterIPs").first().and_then(Value::as_str);
    cell::or(first.unwrap_or(text(service, "spec.clusterIP")), NONE).into()
}

fn service_ports(service: &Value) -> Value {
    let ports: Vec<String> = list(service, "spec.ports").iter().map(port_text).collect();
    cell::joined(ports.iter().map(String::as_str), NONE)
}

fn port_text(port: &Value) -> String {
    let (number, node_port, protocol) = (count(port, "port"), count(port, "nodePort"), text(port, "protocol"));
    if node_port > 0 { format!("{number}:{node_port}/{protocol}") } else { format!("{number}/{protocol}") }
}

fn external_ip(service: &Value) -> Value {
    let mut addresses: Vec<&str> = list(service, "spec.externalIPs").iter().filter_map(Value::as_str).collect();
    let fallback = match text(service, "spec.type") {
        "ClusterIP" | "NodePort" => NONE,
        "LoadBalancer" => {
            addresses.splice(0..0, load_balancer(service));
            "<pending>"
        }
        "ExternalName" => return text(service, "spec.externalName").into(),
        _ => return cell::UNKNOWN.into(),
    };
    cell::joined(addresses.into_iter(), fallback)
}

/// Addresses (or else names) of the load balancer, sorted.
fn load_balancer(object: &Value) -> BTreeSet<&str> {
    let ingress = list(object, "status.loadBalancer.ingress").iter();
    ingress.map(|point| text_or(point, "ip", text(point, "hostname"))).filter(|point| !point.is_empty()).collect()
}

fn endpoints(endpoints: &Value) -> Value {
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
    if subsets.is_empty() { NONE.into() } else { cell::shortened(&items, ITEMS_MAX, ",").into() }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn slice_ports(slice: &Value) -> Value {
    let port = |port: &Value| match at(port, "port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None => text_or(port, "name", "*").to_owned(),
    };
    let ports: Vec<String> = list(slice, "ports").iter().map(port).collect();
    cell::or(&cell::shortened(&ports, ITEMS_MAX, ","), UNSET).into()
}

fn slice_addresses(slice: &Value) -> Value {
    let addresses = list(slice, "endpoints").iter().flat_map(|endpoint| list(endpoint, "addresses"));
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    cell::or(&cell::shortened(&addresses, ITEMS_MAX, ","), UNSET).into()
}

fn hosts(ingress: &Value) -> Value {
    let rules = list(ingress, "spec.rules").iter();
    let hosts: Vec<String> = rules.map(|rule| text(rule, "host").to_owned()).filter(|host| !host.is_empty()).collect();
    cell::or(&cell::shortened(&hosts, ITEMS_MAX, ","), "*").into()
}

fn parameters(class: &Value) -> Value {
    let Some(parameters) = at(class, "spec.parameters") else { return NONE.into() };
    let (kind, group, name) = (text(parameters, "kind"), text(parameters, "apiGroup"), text(parameters, "name"));
    if group.is_empty() { format!("{kind}/{name}").into() } else { format!("{kind}.{group}/{name}").into() }
}
