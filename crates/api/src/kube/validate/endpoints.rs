//! Endpoints and endpoint slices.

use super::Rule;
use super::address::{check_endpoint_ip, check_ip, parse};
use super::rows::{Row, check, check_update as fixed, items, join, named, number, one_of, same, set_at};
use super::service::PROTOCOLS;
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::BTreeSet;

pub const RULES: &[Rule] = &[
    Rule { group: "", kind: "Endpoints", is_namespaced: true, create: check_endpoints, update: check_endpoints_update },
    Rule {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        is_namespaced: true,
        create: check_slice,
        update: check_slice_update,
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
        if matches!(kind, "IPv4" | "IPv6") && (kind == "IPv4") != parsed.is_ipv4() {
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
