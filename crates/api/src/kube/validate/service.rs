//! Services: ports, types, addresses, traffic policies, and what stays once it is set (K-SVC-1).

use super::Rule;
use super::address::{check_endpoint_ip, check_ip, check_network};
use super::metadata::labels;
use super::path::Path;
use super::rows::{Row, check, items, named, number, one_of, same, set_at};
use crate::kube::defaults::network::{is_externally_accessible, is_headless, needs_health_check_port};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{at, names, text};
use serde_json::Value;
use std::collections::BTreeSet;

pub const RULES: &[Rule] =
    &[Rule { group: "", kind: "Service", is_namespaced: true, create: check_service, update: check_service_update }];

pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
/// A day.
const AFFINITY_SECONDS_MAX: i64 = 86_400;

const SPEC_ROWS: &[Row] = &[
    Row::Required("type", ""),
    Row::OneOf("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
    Row::Required("sessionAffinity", ""),
    Row::OneOf("sessionAffinity", &["ClientIP", "None"]),
    Row::OneOf("internalTrafficPolicy", &["Cluster", "Local"]),
    Row::OneOf("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]),
    Row::OneOf("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]),
];

pub fn check_service(service: &Value) -> Vec<FieldError> {
    let spec = &service["spec"];
    let mut errors = check(spec, "spec", SPEC_ROWS);
    let kind = text(spec, "type");
    if items(spec, "ports").is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    errors.extend(check_type(service, kind));
    errors.extend(check_ports(service));
    labels(&mut errors, spec, "selector", &Path::new("spec"));
    errors.extend(check_affinity(spec));
    errors.extend(check_cluster_ips(spec, kind));
    for (index, address) in items(spec, "externalIPs").iter().enumerate() {
        let (address, place) = (address.as_str().unwrap_or(""), format!("spec.externalIPs[{index}]"));
        match check_ip(address, &place) {
            Some(error) => errors.push(error),
            None => errors.extend(check_endpoint_ip(address, &place)),
        }
    }
    errors.extend(check_load_balancer(spec, kind));
    errors.extend(check_traffic(service));
    errors
}

fn check_type(service: &Value, kind: &str) -> Vec<FieldError> {
    let spec = &service["spec"];
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            vec![FieldError::invalid("spec.clusterIPs[0]", "None", &detail)]
        }
        "ExternalName" => {
            let mut errors = Vec::new();
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !super::rows::is_empty(spec.get(name)) {
                    let path = format!("spec.{name}");
                    errors.push(FieldError::forbidden(path, "may not be set for ExternalName services"));
                }
            }
            let name = text(spec, "externalName").trim_end_matches('.');
            if name.is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            } else {
                errors.extend(named(name, "spec.externalName", names::dns_subdomain));
            }
            errors
        }
        _ => Vec::new(),
    }
}

fn check_ports(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ports = items(&service["spec"], "ports");
    let (mut port_names, mut numbers, mut node_ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        errors.extend(check_port(port, &path, ports.len() > 1));
        let (name, protocol) = (text(port, "name"), text(port, "protocol"));
        if !name.is_empty() && !port_names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        let wanted = number(port, "port").unwrap_or(0);
        if !numbers.insert((protocol, wanted)) {
            // The reference prints the key that it compares by: a port of its own code with the other fields empty.
            let key = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{wanted},"TargetPort":0,"NodePort":0}}"#
            );
            errors.push(FieldError::new(path.as_str(), Problem::Duplicate, format!("Duplicate value: {key}")));
        }
        let node_port = number(port, "nodePort").unwrap_or(0);
        if node_port != 0 && text(service, "spec.type") == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("{path}.nodePort"), detail));
        }
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.push(FieldError::duplicate(format!("{path}.nodePort"), node_port));
        }
    }
    errors
}

fn check_port(port: &Value, path: &str, needs_name: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(port, "name");
    if name.is_empty() && needs_name {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else if !name.is_empty() {
        errors.extend(named(name, &format!("{path}.name"), names::dns_label));
    }
    let wanted = number(port, "port").unwrap_or(0);
    let wrong = names::port_number(wanted);
    errors.extend(wrong.iter().map(|why| FieldError::invalid(format!("{path}.port"), wanted, why)));
    match set_at(port, "protocol") {
        None => errors.push(FieldError::required(format!("{path}.protocol"), "")),
        Some(protocol) => errors.extend(one_of(protocol, &format!("{path}.protocol"), PROTOCOLS)),
    }
    errors.extend(check_port_or_name(&port["targetPort"], &format!("{path}.targetPort")));
    if let Some(protocol) = set_at(port, "appProtocol").and_then(Value::as_str) {
        errors.extend(named(protocol, &format!("{path}.appProtocol"), names::qualified_name));
    }
    errors
}

/// A port number, or the name of a container's port.
pub fn check_port_or_name(port: &Value, path: &str) -> Vec<FieldError> {
    match port {
        Value::String(name) => named(name, path, names::port_name),
        port => {
            let number = port.as_i64().unwrap_or(0);
            names::port_number(number).iter().map(|why| FieldError::invalid(path, number, why)).collect()
        }
    }
}

fn check_affinity(spec: &Value) -> Option<FieldError> {
    let config = set_at(spec, "sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "None" if config.is_some() => {
            let detail = "must not be set when session affinity is None";
            Some(FieldError::forbidden("spec.sessionAffinityConfig", detail))
        }
        "ClientIP" => {
            let seconds = number(spec, "sessionAffinityConfig.clientIP.timeoutSeconds")?;
            let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
            let is_wrong = seconds <= 0 || seconds > AFFINITY_SECONDS_MAX;
            let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            is_wrong.then(|| FieldError::invalid(path, seconds, &detail))
        }
        _ => None,
    }
}

fn check_cluster_ips(spec: &Value, kind: &str) -> Vec<FieldError> {
    if kind == "ExternalName" {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let (single, list) = (text(spec, "clusterIP"), items(spec, "clusterIPs"));
    let listed = || at(spec, "clusterIPs").cloned().unwrap_or_default();
    let mut invalid = |detail: &str| errors.push(FieldError::invalid("spec.clusterIPs", listed(), detail));
    match list.first().and_then(Value::as_str) {
        Some(_) if single.is_empty() => invalid("must be empty when `clusterIP` is not specified"),
        Some(first) if first != single => invalid("first value must match `clusterIP`"),
        _ => {}
    }
    if list.len() > 2 {
        invalid("may only hold up to 2 values");
    }
    if list.len() > 1 && list[0] == "None" {
        invalid("'None' must be the first and only value");
    }
    for (index, address) in list.iter().enumerate().filter(|(index, address)| *index > 0 || **address != "None") {
        errors.extend(check_ip(address.as_str().unwrap_or(""), &format!("spec.clusterIPs[{index}]")));
    }
    let mut seen = BTreeSet::new();
    for (index, family) in items(spec, "ipFamilies").iter().enumerate() {
        let place = format!("spec.ipFamilies[{index}]");
        errors.extend(one_of(family, &place, &["IPv4", "IPv6"]));
        if !seen.insert(family.as_str()) {
            errors.push(FieldError::duplicate(place, family.clone()));
        }
    }
    errors
}

fn check_load_balancer(spec: &Value, kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let balances = kind == "LoadBalancer";
    let ranges = items(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() && !balances {
        errors.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", ONLY_BALANCED));
    }
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or("").trim();
        errors.extend(check_network(range, &format!("spec.LoadBalancerSourceRanges[{index}]")));
    }
    if set_at(spec, "allocateLoadBalancerNodePorts").is_some() && !balances {
        errors.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED));
    }
    match set_at(spec, "loadBalancerClass").and_then(Value::as_str) {
        Some(class) if balances => errors.extend(named(class, "spec.loadBalancerClass", names::qualified_name)),
        Some(_) => errors.push(FieldError::forbidden("spec.loadBalancerClass", ONLY_BALANCED)),
        None => {}
    }
    errors
}

fn check_traffic(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = "spec.externalTrafficPolicy";
    match (is_externally_accessible(service), text(service, path)) {
        (true, "") => errors.push(FieldError::required(path, "")),
        (true, policy) => errors.extend(one_of(&policy.into(), path, &["Cluster", "Local"])),
        (false, "") => {}
        (false, policy) => {
            errors.push(FieldError::invalid(path, policy, "may only be set for externally-accessible services"));
        }
    }
    let port = number(service, "spec.healthCheckNodePort").unwrap_or(0);
    let path = "spec.healthCheckNodePort";
    if needs_health_check_port(service) {
        if port == 0 {
            errors.push(FieldError::required(path, ""));
        } else {
            errors.extend(names::port_number(port).iter().map(|why| FieldError::invalid(path, port, why)));
        }
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(path, port, detail));
    }
    errors
}

pub fn check_service_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_service(new);
    let both_addressed = [new, old].iter().all(|service| text(service, "spec.type") != "ExternalName");
    let both_headless = is_headless(new) && is_headless(old);
    if both_addressed && !both_headless {
        errors.extend(check_kept_addresses(new, old, "clusterIPs", "primary clusterIP can not be unset"));
        if is_headless(new) == is_headless(old) {
            errors.extend(check_kept_addresses(new, old, "ipFamilies", "primary ipFamily can not be unset"));
        }
    }
    let balances = |service: &Value| text(service, "spec.type") == "LoadBalancer";
    let class = "spec.loadBalancerClass";
    if balances(new) && balances(old) && !same(at(new, class), at(old, class)) {
        let value = at(new, class).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(class, value, "may not change once set"));
    }
    let port = "spec.healthCheckNodePort";
    if needs_health_check_port(new) && needs_health_check_port(old) && number(new, port) != number(old, port) {
        errors.push(FieldError::forbidden(port, super::rows::IMMUTABLE));
    }
    errors
}

/// The first address and the first family stay what they are; a second may come and go.
fn check_kept_addresses(new: &Value, old: &Value, name: &str, when_unset: &str) -> Vec<FieldError> {
    let (now, before) = (items(&new["spec"], name), items(&old["spec"], name));
    let value = new["spec"].get(name).cloned().unwrap_or_default();
    let invalid =
        |index: usize, detail: &str| FieldError::invalid(format!("spec.{name}[{index}]"), value.clone(), detail);
    match (now.first(), before.first()) {
        (None, Some(_)) => vec![invalid(0, when_unset)],
        (Some(_), Some(_)) => {
            let compared = if now.len() == before.len() { now.len() } else { 1 };
            let changed = (0..compared).filter(|index| now[*index] != before[*index]);
            changed.map(|index| invalid(index, "may not change once set")).collect()
        }
        (_, None) => Vec::new(),
    }
}
