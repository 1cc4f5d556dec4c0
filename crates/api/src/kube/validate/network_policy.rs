//! Network policies: peers, ports and address blocks.

use super::Rule;
use super::address::{check_network, is_strict_subset, parse_network};
use super::label_selector::check_selector;
use super::rows::{Row, check, items, join, number, one_of, set_at};
use super::service::check_port_or_name;
use crate::kube::field::FieldError;
use crate::kube::text;
use serde_json::Value;

const NETWORKING: &str = "networking.k8s.io";

pub const RULES: &[Rule] = &[Rule {
    group: NETWORKING,
    kind: "NetworkPolicy",
    is_namespaced: true,
    create: check_network_policy,
    update: |new, _| check_network_policy(new),
}];

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
