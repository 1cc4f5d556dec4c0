//! Defaults of services, their endpoints, ingresses and network policies, and what a service still has to be given.
//!
//! Addresses and node ports are handed out by the server; `ports_without_node_port` says where, `set_cluster_ip`
//! writes the one that was chosen.

use super::rows::Fill::{Flag, Null, Number, Object, Text};
use super::rows::{Kind, fill_row, make_map, map_at};
use crate::kube::{at, items_mut, text};
use serde_json::{Value, json};

pub(super) const KINDS: &[Kind] = &[
    Kind::of("", "Service").then(fill_service).rows(&[
        ("spec.sessionAffinity", Text("None")),
        ("spec.type", Text("ClusterIP")),
        ("spec.ports[].protocol", Text("TCP")),
        ("status.loadBalancer", Object),
    ]),
    Kind::of("", "Endpoints").rows(&[("subsets[].ports[].protocol", Text("TCP"))]),
    Kind::of("discovery.k8s.io", "EndpointSlice").rows(&[
        ("endpoints", Null),
        ("ports", Null),
        ("endpoints[].conditions", Object),
        ("ports[].name", Text("")),
        ("ports[].protocol", Text("TCP")),
    ]),
    Kind::of("networking.k8s.io", "Ingress").rows(&[("spec", Object), ("status.loadBalancer", Object)]),
    Kind::of("networking.k8s.io", "IngressClass")
        .rows(&[("spec", Object), ("spec.parameters?.scope", Text("Cluster"))]),
    Kind::of("networking.k8s.io", "NetworkPolicy").then(fill_network_policy).rows(&[
        ("spec.podSelector", Object),
        ("spec.ingress[].ports[].protocol", Text("TCP")),
        ("spec.egress[].ports[].protocol", Text("TCP")),
    ]),
];

/// How long a client stays with one backend under `ClientIP` affinity, by default.
const AFFINITY_SECONDS: i64 = 10_800;

fn fill_service(service: &mut Value) {
    match text(service, "spec.sessionAffinity") {
        "None" => {
            if let Some(spec) = map_at(service, "spec") {
                spec.remove("sessionAffinityConfig");
            }
        }
        "ClientIP" => {
            let seconds = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            fill_row(service, seconds, Number(AFFINITY_SECONDS));
        }
        _ => {}
    }
    for port in items_mut(service, "spec.ports") {
        let unset =
            matches!(&port["targetPort"], Value::Null) || port["targetPort"] == json!(0) || port["targetPort"] == "";
        if unset && !port["port"].is_null() {
            port["targetPort"] = port["port"].clone();
        }
    }
    if is_externally_accessible(service) {
        fill_row(service, "spec.externalTrafficPolicy", Text("Cluster"));
    }
    if matches!(text(service, "spec.type"), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill_row(service, "spec.internalTrafficPolicy", Text("Cluster"));
    }
    match text(service, "spec.type") {
        "LoadBalancer" => {
            fill_row(service, "spec.allocateLoadBalancerNodePorts", Flag(true));
            for address in items_mut(service, "status.loadBalancer.ingress") {
                if !text(address, "ip").is_empty() {
                    fill_row(address, "ipMode", Text("VIP"));
                }
            }
        }
        "ExternalName" => {
            if let Some(spec) = map_at(service, "spec") {
                spec.remove("internalTrafficPolicy");
            }
        }
        _ => {}
    }
    let cluster_ip = text(service, "spec.clusterIP").to_owned();
    let has_list = at(service, "spec.clusterIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if !cluster_ip.is_empty() && !has_list {
        set_cluster_ip(service, &cluster_ip);
    }
}

/// Services that traffic from outside can reach.
pub fn is_externally_accessible(service: &Value) -> bool {
    let has_external_ips = at(service, "spec.externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    match text(service, "spec.type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => has_external_ips,
        _ => false,
    }
}

pub fn is_headless(service: &Value) -> bool {
    text(service, "spec.clusterIP") == "None"
}

/// Services of this type are reached through a port of the node.
pub fn uses_node_ports(service: &Value) -> bool {
    matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer")
}

/// The places in `spec.ports` that still have to be given a node port.
pub fn ports_without_node_port(service: &Value) -> Vec<usize> {
    let declined = at(service, "spec.allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    if !uses_node_ports(service) || (text(service, "spec.type") == "LoadBalancer" && declined) {
        return Vec::new();
    }
    let ports = at(service, "spec.ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let missing = |port: &Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0;
    ports.iter().enumerate().filter(|(_, port)| missing(port)).map(|(index, _)| index).collect()
}

/// A `Local` load balancer wants one more node port, for its health check.
pub fn needs_health_check_port(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer" && text(service, "spec.externalTrafficPolicy") == "Local"
}

/// Writes a service's one address, or `None` for a headless service.
pub fn set_cluster_ip(service: &mut Value, address: &str) {
    if let Some(spec) = make_map(service, "spec") {
        spec.insert("clusterIP".to_owned(), address.into());
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

/// Fills in the address families of a single-stack IPv4 cluster; the server calls it once the address is known.
///
/// A headless service without a selector is dual-stack everywhere: its endpoints are not ours to choose.
pub fn fill_ip_families(service: &mut Value) {
    if text(service, "spec.type") == "ExternalName" {
        return;
    }
    let has_selector = at(service, "spec.selector").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    let both = is_headless(service) && !has_selector;
    let (policy, families) =
        if both { ("RequireDualStack", json!(["IPv4", "IPv6"])) } else { ("SingleStack", json!(["IPv4"])) };
    fill_row(service, "spec.ipFamilyPolicy", Text(policy));
    if let Some(spec) = make_map(service, "spec") {
        let unset = spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if unset {
            spec.insert("ipFamilies".to_owned(), families);
        }
    }
}

fn fill_network_policy(policy: &mut Value) {
    let is_filled = |path: &str| at(policy, path).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if is_filled("spec.policyTypes") {
        return;
    }
    let types = if is_filled("spec.egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    if let Some(spec) = make_map(policy, "spec") {
        spec.insert("policyTypes".to_owned(), types);
    }
}
