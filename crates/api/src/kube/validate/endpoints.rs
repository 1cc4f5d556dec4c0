//! Endpoints and endpoint slices.

use super::Rule;
use super::address::{endpoint_ip, ip};
use super::compare::same;
use super::place::Place;
use super::service::PROTOCOLS;
use crate::kube::names;
use std::collections::BTreeSet;

pub(super) const RULES: &[Rule] = &[
    Rule::of("", "Endpoints", |_| {}).on_create(endpoints).on_update(|new, old| {
        if !same(new.get("subsets"), &old["subsets"]) {
            endpoints(new);
        }
    }),
    Rule::of("discovery.k8s.io", "EndpointSlice", slice).fixed(&["addressType"]),
];

fn endpoints(endpoints: &Place) {
    for subset in endpoints.items("subsets") {
        let fields = ["addresses", "notReadyAddresses"];
        if fields.iter().all(|key| subset.list(key).is_empty()) {
            subset.required("", "must specify `addresses` or `notReadyAddresses`");
        }
        for address in fields.iter().flat_map(|key| subset.items(key)) {
            ip(&address.field("ip"));
            address.named_unless_empty("hostname", names::dns_label);
            address.named_if_given("nodeName", names::dns_subdomain);
            endpoint_ip(&address.field("ip"));
        }
        for port in subset.items("ports") {
            if port.text("name").is_empty() && subset.list("ports").len() > 1 {
                port.required("name", "");
            }
            port.port_number("port");
            endpoint_port(&port);
        }
    }
}

/// What the ports of endpoints and of endpoint slices have in common.
fn endpoint_port(port: &Place) {
    port.named_unless_empty("name", names::dns_label);
    port.needs_one_of("protocol", PROTOCOLS);
    port.named_if_given("appProtocol", names::qualified_name);
}

const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const SLICE_PORTS_MAX: usize = 20_000;

fn slice(slice: &Place) {
    slice.needs_one_of("addressType", &["FQDN", "IPv4", "IPv6"]);
    slice.items_at_most("ports", SLICE_PORTS_MAX);
    let mut seen = BTreeSet::new();
    for port in slice.items("ports").take(SLICE_PORTS_MAX) {
        endpoint_port(&port);
        port.duplicate_if(!seen.insert(port.text("name")), "name", port.text("name"));
    }
    slice.items_at_most("endpoints", ENDPOINTS_MAX);
    if slice.list("endpoints").len() <= ENDPOINTS_MAX {
        slice.items("endpoints").for_each(|item| endpoint(&item, slice.text("addressType")));
    }
}

fn endpoint(endpoint: &Place, kind: &str) {
    endpoint.named_if_given("nodeName", names::dns_subdomain);
    endpoint.named_if_given("hostname", names::dns_label);
    endpoint.needs_because("addresses", "must contain at least 1 address");
    endpoint.items_at_most("addresses", ADDRESSES_MAX);
    for address in endpoint.items("addresses") {
        let text = address.text("");
        if kind == "FQDN" {
            address.named("", names::dns_subdomain);
        } else if ip(&address) {
            let is_other = names::parse_ip(text).is_some_and(|parsed| parsed.is_ipv4() != (kind == "IPv4"));
            let is_wrong = matches!(kind, "IPv4" | "IPv6") && is_other;
            endpoint.invalid_if(is_wrong, "addresses", text, &format!("must be an {kind} address"));
            endpoint_ip(&address);
        }
    }
}
