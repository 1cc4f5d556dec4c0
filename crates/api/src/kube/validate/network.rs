//! Endpoints, endpoint slices, ingresses, ingress classes and network policies.

use super::Rule;
use super::address::{check_endpoint_ip, check_ip, check_network, is_strict_subset, parse, parse_network};
use super::label_selector::check_selector;
use super::rows::{Row, check, check_update as fixed, items, join, named, number, one_of, same, set_at};
use super::service::{PROTOCOLS, check_port_or_name};
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::BTreeSet;

const NETWORKING: &str = "networking.k8s.io";

pub const RULES: &[Rule] = &[
    Rule { group: "", kind: "Endpoints", is_namespaced: true, create: check_endpoints, update: check_endpoints_update },
    Rule {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        is_namespaced: true,
        create: check_slice,
        update: check_slice_update,
    },
    Rule {
        group: NETWORKING,
        kind: "Ingress",
        is_namespaced: true,
        create: check_ingress,
        update: |new, _| check_ingress_spec(new),
    },
    Rule {
        group: NETWORKING,
        kind: "IngressClass",
        is_namespaced: false,
        create: check_ingress_class,
        update: check_ingress_class_update,
    },
    Rule {
        group: NETWORKING,
        kind: "NetworkPolicy",
        is_namespaced: true,
        create: check_network_policy,
        update: |new, _| check_network_policy(new),
    },
];

pub fn check_endpoints(endpoints: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, subset) in items(endpoints, "subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        let fields = ["addresses", "notReadyAddresses"];
        if fields.iter().all(|field| items(subset, field).is_empty()) {
            errors.push(FieldError::required(path.as_str(), "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in fields {
            for (place, address) in items(subset, field).iter().enumerate() {
                errors.extend(check_address(address, &format!("{path}.{field}[{place}]")));
            }
        }
        let ports = items(subset, "ports");
        for (place, port) in ports.iter().enumerate() {
            let place = format!("{path}.ports[{place}]");
            let name = text(port, "name");
            if name.is_empty() && ports.len() > 1 {
                errors.push(FieldError::required(join(&place, "name"), ""));
            }
            let wanted = number(port, "port").unwrap_or(0);
            let wrong = names::port_number(wanted);
            errors.extend(wrong.iter().map(|why| FieldError::invalid(join(&place, "port"), wanted, why)));
            errors.extend(check_endpoint_port(port, &place));
        }
    }
    errors
}

fn check_address(address: &Value, path: &str) -> Vec<FieldError> {
    let place = join(path, "ip");
    let ip = text(address, "ip");
    let mut errors: Vec<FieldError> = check_ip(ip, &place).into_iter().collect();
    if !text(address, "hostname").is_empty() {
        errors.extend(named(text(address, "hostname"), &join(path, "hostname"), names::dns_label));
    }
    errors.extend(check(address, path, &[Row::Named("nodeName", names::dns_subdomain)]));
    errors.extend(check_endpoint_ip(ip, &place));
    errors
}

/// What the ports of endpoints and of endpoint slices have in common.
fn check_endpoint_port(port: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !text(port, "name").is_empty() {
        errors.extend(named(text(port, "name"), &join(path, "name"), names::dns_label));
    }
    match set_at(port, "protocol") {
        None => errors.push(FieldError::required(join(path, "protocol"), "")),
        Some(protocol) => errors.extend(one_of(protocol, &join(path, "protocol"), PROTOCOLS)),
    }
    errors.extend(check(port, path, &[Row::Named("appProtocol", names::qualified_name)]));
    errors
}

pub fn check_endpoints_update(new: &Value, old: &Value) -> Vec<FieldError> {
    if same(new.get("subsets"), old.get("subsets")) { Vec::new() } else { check_endpoints(new) }
}

const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const SLICE_PORTS_MAX: usize = 20_000;

pub fn check_slice(slice: &Value) -> Vec<FieldError> {
    let mut errors =
        check(slice, "", &[Row::Required("addressType", ""), Row::OneOf("addressType", &["FQDN", "IPv4", "IPv6"])]);
    let ports = items(slice, "ports");
    if ports.len() > SLICE_PORTS_MAX {
        errors.push(FieldError::too_many("ports", ports.len(), SLICE_PORTS_MAX));
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate().take(SLICE_PORTS_MAX) {
        let path = format!("ports[{index}]");
        errors.extend(check_endpoint_port(port, &path));
        if !seen.insert(text(port, "name")) {
            errors.push(FieldError::duplicate(join(&path, "name"), text(port, "name")));
        }
    }
    let endpoints = items(slice, "endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        errors.push(FieldError::too_many("endpoints", endpoints.len(), ENDPOINTS_MAX));
        return errors;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        errors.extend(check_endpoint(endpoint, &format!("endpoints[{index}]"), text(slice, "addressType")));
    }
    errors
}

fn check_endpoint(endpoint: &Value, path: &str, kind: &str) -> Vec<FieldError> {
    let list = join(path, "addresses");
    let addresses = items(endpoint, "addresses");
    let mut errors = check(
        endpoint,
        path,
        &[Row::Named("nodeName", names::dns_subdomain), Row::Named("hostname", names::dns_label)],
    );
    if addresses.is_empty() {
        errors.push(FieldError::required(list.as_str(), "must contain at least 1 address"));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(FieldError::too_many(list.as_str(), addresses.len(), ADDRESSES_MAX));
    }
    for (index, address) in addresses.iter().enumerate() {
        let (address, place) = (address.as_str().unwrap_or(""), format!("{list}[{index}]"));
        if kind == "FQDN" {
            errors.extend(named(address, &place, names::dns_subdomain));
            continue;
        }
        let Some(parsed) = parse(address) else {
            errors.extend(check_ip(address, &place));
            continue;
        };
        if (kind == "IPv4") != parsed.is_ipv4() {
            errors.push(FieldError::invalid(list.as_str(), address, &format!("must be an {kind} address")));
        }
        errors.extend(check_endpoint_ip(address, &place));
    }
    errors
}

pub fn check_slice_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_slice(new);
    errors.extend(fixed(new, old, "", &[Row::Fixed("addressType")]));
    errors
}

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub fn check_ingress(ingress: &Value) -> Vec<FieldError> {
    let mut errors = check_ingress_spec(ingress);
    let annotation = ingress["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = set_at(ingress, "spec.ingressClassName").and_then(Value::as_str);
    if let (Some(annotation), true) = (annotation, class.is_some() && annotation != class) {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{CLASS_ANNOTATION}"), annotation, detail));
    }
    errors
}

fn check_ingress_spec(ingress: &Value) -> Vec<FieldError> {
    let spec = &ingress["spec"];
    let mut errors = check(spec, "spec", &[Row::Named("ingressClassName", names::dns_subdomain)]);
    let (rules, backend) = (items(spec, "rules"), set_at(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_none() {
        let present = spec.get("rules").cloned().unwrap_or_default();
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", present, detail));
    }
    if let Some(backend) = backend {
        errors.extend(check_backend(backend, "spec.defaultBackend"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        errors.extend(check_host(text(rule, "host"), &join(&path, "host")));
        if let Some(http) = set_at(rule, "http") {
            errors.extend(check_paths(http, &join(&path, "http.paths")));
        }
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        for (place, host) in items(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or("");
            let complaints = if host.contains('*') { names::wildcard_dns_subdomain } else { names::dns_subdomain };
            errors.extend(named(host, &format!("spec.tls[{index}].hosts[{place}]"), complaints));
        }
        if !text(tls, "secretName").is_empty() {
            errors.extend(named(
                text(tls, "secretName"),
                &format!("spec.tls[{index}].secretName"),
                names::dns_subdomain,
            ));
        }
    }
    errors
}

fn check_host(host: &str, path: &str) -> Vec<FieldError> {
    if host.is_empty() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if parse(host).is_some() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    let complaints = if host.contains('*') { names::wildcard_dns_subdomain } else { names::dns_subdomain };
    errors.extend(named(host, path, complaints));
    errors
}

fn check_paths(http: &Value, path: &str) -> Vec<FieldError> {
    let paths = items(http, "paths");
    if paths.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    paths.iter().enumerate().flat_map(|(index, rule)| check_path(rule, &format!("{path}[{index}]"))).collect()
}

fn check_path(rule: &Value, path: &str) -> Vec<FieldError> {
    let Some(kind) = set_at(rule, "pathType").and_then(Value::as_str) else {
        return vec![FieldError::required(join(path, "pathType"), "pathType must be specified")];
    };
    let (wanted, place) = (text(rule, "path"), join(path, "path"));
    let invalid = |detail: &str| FieldError::invalid(place.as_str(), wanted, detail);
    let mut errors = Vec::new();
    match kind {
        "Exact" | "Prefix" => {
            if !wanted.starts_with('/') {
                errors.push(invalid("must be an absolute path"));
            }
            let parts = ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| wanted.contains(part));
            errors.extend(parts.map(|part| invalid(&format!("must not contain '{part}'"))));
            let ends = ["/..", "/."].into_iter().filter(|end| wanted.ends_with(end));
            errors.extend(ends.map(|end| invalid(&format!("cannot end with '{end}'"))));
        }
        "ImplementationSpecific" => {
            if !wanted.is_empty() && !wanted.starts_with('/') {
                errors.push(invalid("must be an absolute path"));
            }
        }
        other => {
            let supported = &["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(join(path, "pathType"), other, supported));
        }
    }
    errors.extend(check_backend(&rule["backend"], &join(path, "backend")));
    errors
}

fn check_backend(backend: &Value, path: &str) -> Vec<FieldError> {
    match (set_at(backend, "resource"), set_at(backend, "service")) {
        (Some(_), Some(_)) => vec![FieldError::invalid(path, "", "cannot set both resource and service backends")],
        (Some(resource), None) => {
            check(resource, &join(path, "resource"), &[Row::Required("kind", ""), Row::Required("name", "")])
        }
        (None, None) => vec![FieldError::invalid(path, "", "resource or service backend is required")],
        (None, Some(service)) => {
            let place = join(path, "service.name");
            let mut errors = match text(service, "name") {
                "" => vec![FieldError::required(place, "")],
                name => named(name, &place, names::dns1035_label),
            };
            match (text(service, "port.name"), number(service, "port.number").unwrap_or(0)) {
                ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
                ("", number) => errors.extend(check_port_or_name(&number.into(), &join(path, "service.port.number"))),
                (name, 0) => errors.extend(named(name, &join(path, "service.port.name"), names::port_name)),
                _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
            }
            errors
        }
    }
}

pub fn check_ingress_class(class: &Value) -> Vec<FieldError> {
    let mut errors = check(class, "", &[Row::Required("spec.controller", "")]);
    if let Some(parameters) = set_at(class, "spec.parameters") {
        let rows =
            &[Row::Required("kind", ""), Row::Required("name", ""), Row::OneOf("scope", &["Cluster", "Namespace"])];
        let path = "spec.parameters";
        errors.extend(check(parameters, path, rows));
        let namespace = text(parameters, "namespace");
        match text(parameters, "scope") {
            "Namespace" if namespace.is_empty() => {
                let detail = "`parameters.scope` is set to 'Namespace'";
                errors.push(FieldError::required(join(path, "namespace"), detail));
            }
            "Cluster" if !namespace.is_empty() => {
                let detail = "`parameters.scope` is set to 'Cluster'";
                errors.push(FieldError::forbidden(join(path, "namespace"), detail));
            }
            _ => {}
        }
    }
    errors
}

pub fn check_ingress_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_ingress_class(new);
    errors.extend(fixed(new, old, "", &[Row::Fixed("spec.controller")]));
    errors
}

pub fn check_network_policy(policy: &Value) -> Vec<FieldError> {
    const TYPES: &[&str] = &["Ingress", "Egress"];
    let spec = &policy["spec"];
    let mut errors = check_selector(spec.get("podSelector"), "spec.podSelector");
    for (field, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, field).iter().enumerate() {
            let path = format!("spec.{field}[{index}]");
            for (place, port) in items(rule, "ports").iter().enumerate() {
                errors.extend(check_policy_port(port, &format!("{path}.ports[{place}]")));
            }
            for (place, peer) in items(rule, peers).iter().enumerate() {
                errors.extend(check_peer(peer, &format!("{path}.{peers}[{place}]")));
            }
        }
    }
    let types = items(spec, "policyTypes");
    if types.len() > TYPES.len() {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid("spec.policyTypes", types.to_vec(), detail));
        return errors;
    }
    let types = types.iter().enumerate();
    errors.extend(types.filter_map(|(index, kind)| one_of(kind, &format!("spec.policyTypes[{index}]"), TYPES)));
    errors
}

fn check_policy_port(port: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = check(port, path, &[Row::OneOf("protocol", &["TCP", "UDP", "SCTP"])]);
    let end = number(port, "endPort");
    let place = join(path, "endPort");
    let first = set_at(port, "port");
    if let Some(first) = first {
        errors.extend(check_port_or_name(first, &join(path, "port")));
    }
    match (first, end) {
        (_, None) => {}
        (None, Some(end)) => {
            errors.push(FieldError::invalid(place, end, "may not be specified when `port` is not specified"));
        }
        (Some(Value::String(_)), Some(end)) => {
            errors.push(FieldError::invalid(place, end, "may not be specified when `port` is non-numeric"));
        }
        (Some(first), Some(end)) => {
            let first = first.as_i64().unwrap_or(0);
            if end < first {
                errors.push(FieldError::invalid(place.as_str(), first, "must be greater than or equal to `port`"));
            }
            errors.extend(check_port_or_name(&end.into(), &place));
        }
    }
    errors
}

fn check_peer(peer: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selectors = ["podSelector", "namespaceSelector"];
    for name in selectors {
        errors.extend(check_selector(peer.get(name), &join(path, name)));
    }
    let has_selector = selectors.iter().any(|name| set_at(peer, name).is_some());
    match (set_at(peer, "ipBlock"), has_selector) {
        (None, false) => errors.push(FieldError::required(path, "must specify a peer")),
        (None, true) => {}
        (Some(block), has_selector) => {
            errors.extend(check_block(block, &join(path, "ipBlock")));
            if has_selector {
                errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
            }
        }
    }
    errors
}

fn check_block(block: &Value, path: &str) -> Vec<FieldError> {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        return vec![FieldError::required(join(path, "cidr"), "")];
    }
    let Some(network) = parse_network(cidr) else {
        return check_network(cidr, &join(path, "cidr")).into_iter().collect();
    };
    let mut errors = Vec::new();
    for (index, except) in items(block, "except").iter().enumerate() {
        let (except, place) = (except.as_str().unwrap_or(""), format!("{path}.except[{index}]"));
        match parse_network(except) {
            None => errors.extend(check_network(except, &place)),
            Some(inner) if !is_strict_subset(inner, network) => {
                errors.push(FieldError::invalid(place, except, "must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
    errors
}
