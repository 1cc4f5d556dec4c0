//! Services: ports, types, addresses, traffic policies, and what stays once it is set (K-SVC-1).

use super::Rule;
use super::address::{endpoint_ip, ip, network};
use super::compare::{is_empty, same};
use super::metadata::labels;
use super::place::{IMMUTABLE, Place};
use crate::kube::defaults::network::{is_externally_accessible, is_headless, needs_health_check_port};
use crate::kube::field::Problem;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const RULES: &[Rule] = &[Rule::of("", "Service", service).on_update(service_update)];

pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// A day.
const AFFINITY_SECONDS_MAX: i64 = 86_400;

fn service(service: &Place) {
    let spec = service.field("spec");
    spec.needs_one_of("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    spec.needs_one_of("sessionAffinity", &["ClientIP", "None"]);
    spec.one_of_if_given("internalTrafficPolicy", &["Cluster", "Local"]);
    spec.one_of_if_given("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    spec.one_of_if_given("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]);
    let (kind, is_headless) = (spec.text("type"), is_headless(service.value));
    if !is_headless && kind != "ExternalName" {
        spec.needs(&["ports"]);
    }
    match kind {
        "LoadBalancer" | "NodePort" => {
            let detail = format!("may not be set to 'None' for {kind} services");
            spec.invalid_if(is_headless, "clusterIPs[0]", "None", &detail);
        }
        "ExternalName" => external_name(&spec),
        _ => {}
    }
    ports(&spec);
    labels(&spec.field("selector"));
    affinity(&spec);
    if kind != "ExternalName" {
        cluster_ips(&spec);
    }
    for address in spec.items("externalIPs") {
        if ip(&address) {
            endpoint_ip(&address);
        }
    }
    load_balancer(&spec);
    traffic(&spec, service.value);
}

fn external_name(spec: &Place) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        spec.forbidden_if(!is_empty(spec.get(key)), key, "may not be set for ExternalName services");
    }
    match spec.text("externalName").trim_end_matches('.') {
        "" => spec.required("externalName", ""),
        name => spec.complain("externalName", name, names::dns_subdomain(name)),
    }
}

fn ports(spec: &Place) {
    let (mut port_names, mut numbers, mut node_ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for port in spec.items("ports") {
        let (name, protocol) = (port.text("name"), port.text("protocol"));
        if name.is_empty() && spec.list("ports").len() > 1 {
            port.required("name", "");
        }
        port.named_unless_empty("name", names::dns_label);
        port.port_number("port");
        port.needs_one_of("protocol", PROTOCOLS);
        port.port_or_name("targetPort");
        port.named_if_given("appProtocol", names::qualified_name);
        port.duplicate_if(!name.is_empty() && !port_names.insert(name), "name", name);
        let wanted = port.integer("port").unwrap_or(0);
        if !numbers.insert((protocol, wanted)) {
            // The reference prints the key that it compares by: a port of its own code with the other fields empty.
            let key = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{wanted},"TargetPort":0,"NodePort":0}}"#
            );
            port.worded("", Problem::Duplicate, format!("Duplicate value: {key}"));
        }
        let node_port = port.integer("nodePort").unwrap_or(0);
        if node_port != 0 {
            let is_inner = spec.text("type") == "ClusterIP";
            port.forbidden_if(is_inner, "nodePort", "may not be used when `type` is 'ClusterIP'");
            port.duplicate_if(!node_ports.insert((protocol, node_port)), "nodePort", node_port);
        }
    }
}

fn affinity(spec: &Place) {
    const SECONDS: &str = "sessionAffinityConfig.clientIP.timeoutSeconds";
    match spec.text("sessionAffinity") {
        "None" => {
            let detail = "must not be set when session affinity is None";
            spec.forbidden_if(spec.has("sessionAffinityConfig"), "sessionAffinityConfig", detail);
        }
        "ClientIP" => {
            let is_beyond = spec.integer(SECONDS).is_some_and(|seconds| !(1..=AFFINITY_SECONDS_MAX).contains(&seconds));
            spec.wrong_if(is_beyond, SECONDS, &format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}"));
        }
        _ => {}
    }
}

fn cluster_ips(spec: &Place) {
    const KEY: &str = "clusterIPs";
    let (single, list) = (spec.text("clusterIP"), spec.list(KEY));
    match list.first().and_then(Value::as_str) {
        Some(_) if single.is_empty() => spec.wrong(KEY, "must be empty when `clusterIP` is not specified"),
        Some(first) => spec.wrong_if(first != single, KEY, "first value must match `clusterIP`"),
        None => {}
    }
    spec.wrong_if(list.len() > 2, KEY, "may only hold up to 2 values");
    let has_none = list.len() > 1 && list[0] == "None";
    spec.wrong_if(has_none, KEY, "'None' must be the first and only value");
    let is_headless = list.first().is_some_and(|first| first == "None");
    for address in spec.items(KEY).skip(usize::from(is_headless)) {
        ip(&address);
    }
    let mut seen = BTreeSet::new();
    for family in spec.items("ipFamilies") {
        family.one_of("", &["IPv4", "IPv6"]);
        family.duplicate_if(!seen.insert(family.text("")), "", family.value.clone());
    }
}

fn load_balancer(spec: &Place) {
    const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
    let is_other = spec.text("type") != "LoadBalancer";
    // The reference writes this one field with a capital.
    let ranges = spec.stand_in("LoadBalancerSourceRanges", spec.get("loadBalancerSourceRanges"));
    ranges.forbidden_if(is_other && !ranges.list("").is_empty(), "", ONLY_BALANCED);
    ranges.items("").for_each(|range| network(&range, range.text("").trim()));
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        spec.forbidden_if(is_other && spec.has(key), key, ONLY_BALANCED);
    }
    if !is_other {
        spec.named_if_given("loadBalancerClass", names::qualified_name);
    }
}

fn traffic(spec: &Place, service: &Value) {
    const POLICY: &str = "externalTrafficPolicy";
    const CHECK_PORT: &str = "healthCheckNodePort";
    if is_externally_accessible(service) {
        spec.needs_one_of(POLICY, &["Cluster", "Local"]);
    } else {
        let detail = "may only be set for externally-accessible services";
        spec.wrong_if(!spec.text(POLICY).is_empty(), POLICY, detail);
    }
    match (needs_health_check_port(service), spec.integer(CHECK_PORT).unwrap_or(0)) {
        (true, 0) => spec.required(CHECK_PORT, ""),
        (true, _) => spec.port_number(CHECK_PORT),
        (false, 0) => {}
        (false, _) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            spec.wrong(CHECK_PORT, detail);
        }
    }
}

fn service_update(new: &Place, old: &Value) {
    const CLASS: &str = "loadBalancerClass";
    const CHECK_PORT: &str = "healthCheckNodePort";
    let both = |fits: &dyn Fn(&Value) -> bool| fits(new.value) && fits(old);
    let (spec, old_spec) = (new.field("spec"), &old["spec"]);
    if both(&|service| text(service, "spec.type") != "ExternalName") && !both(&is_headless) {
        kept_addresses(&spec, old_spec, "clusterIPs", "primary clusterIP can not be unset");
        if is_headless(new.value) == is_headless(old) {
            kept_addresses(&spec, old_spec, "ipFamilies", "primary ipFamily can not be unset");
        }
    }
    let is_other_class =
        both(&|service| text(service, "spec.type") == "LoadBalancer") && !same(spec.get(CLASS), &old_spec[CLASS]);
    spec.wrong_if(is_other_class, CLASS, "may not change once set");
    let is_other_port = both(&needs_health_check_port) && spec.integer(CHECK_PORT) != old_spec[CHECK_PORT].as_i64();
    spec.forbidden_if(is_other_port, CHECK_PORT, IMMUTABLE);
}

/// The first address and the first family stay what they are; a second may come and go.
fn kept_addresses(spec: &Place, old: &Value, key: &str, when_unset: &str) {
    let (now, before) = (spec.list(key), old[key].as_array().map_or(&[][..], Vec::as_slice));
    let invalid = |index: usize, detail: &str| {
        spec.invalid(&format!("{key}[{index}]"), spec.get(key).clone(), detail);
    };
    match (now.len(), before.len()) {
        (_, 0) => {}
        (0, _) => invalid(0, when_unset),
        (count, count_before) => {
            let compared = if count == count_before { count } else { 1 };
            let changed = (0..compared).filter(|index| now[*index] != before[*index]);
            changed.for_each(|index| invalid(index, "may not change once set"));
        }
    }
}
