//! Network policies: peers, ports and address blocks.

use super::Rule;
use super::address::{is_strict_subset, network};
use super::metadata::label_selector;
use super::place::Place;
use crate::kube::names;
use serde_json::Value;

pub(super) const RULES: &[Rule] = &[Rule::of("networking.k8s.io", "NetworkPolicy", network_policy)];

fn network_policy(policy: &Place) {
    const TYPES: &[&str] = &["Ingress", "Egress"];
    let spec = policy.field("spec");
    label_selector(&spec.field("podSelector"));
    for (key, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(key) {
            rule.items("ports").for_each(|item| port(&item));
            rule.items(peers).for_each(|item| peer(&item));
        }
    }
    if spec.list("policyTypes").len() > TYPES.len() {
        return spec.wrong("policyTypes", "may not specify more than two policyTypes");
    }
    spec.items("policyTypes").for_each(|kind| kind.one_of("", TYPES));
}

fn port(port: &Place) {
    port.one_of_if_given("protocol", &["TCP", "UDP", "SCTP"]);
    if port.has("port") {
        port.port_or_name("port");
    }
    let Some(end) = port.integer("endPort") else { return };
    match port.get("port") {
        Value::Null => port.wrong("endPort", "may not be specified when `port` is not specified"),
        Value::String(_) => port.wrong("endPort", "may not be specified when `port` is non-numeric"),
        first => {
            let first = first.as_i64().unwrap_or(0);
            port.invalid_if(end < first, "endPort", first, "must be greater than or equal to `port`");
            port.port_number("endPort");
        }
    }
}

fn peer(peer: &Place) {
    let selectors = ["podSelector", "namespaceSelector"];
    selectors.iter().for_each(|key| label_selector(&peer.field(key)));
    let has_selector = selectors.iter().any(|key| peer.has(key));
    match peer.given("ipBlock") {
        None if has_selector => {}
        None => peer.required("", "must specify a peer"),
        Some(ip_block) => {
            block(&ip_block);
            peer.forbidden_if(has_selector, "", "may not specify both ipBlock and another peer");
        }
    }
}

fn block(block: &Place) {
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        return block.required("cidr", "");
    }
    let Some(outer) = names::parse_network(cidr) else { return network(&block.field("cidr"), cidr) };
    for except in block.items("except") {
        let is_beyond = names::parse_network(except.text("")).is_some_and(|inner| !is_strict_subset(inner, outer));
        except.wrong_if(is_beyond, "", "must be a strict subset of `cidr`");
        network(&except, except.text(""));
    }
}
