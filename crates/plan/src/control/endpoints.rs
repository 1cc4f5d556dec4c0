//! The endpoints of a service: EndpointSlices of at most 100 endpoints, and the older Endpoints object (K-SVC-2).
//!
//! Called with a service and the pods of its namespace. Endpoints stay in the slice they are in, so that one pod's
//! change rewrites one slice.

use super::{Plan, Target, controller_reference, controller_uid, name_of, pods, uid_of};
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as CorePort, EndpointSubset, Endpoints, ObjectReference, Pod, Service, ServicePort,
    ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

const ENDPOINTS_PER_SLICE_MAX: usize = 100;
/// Upstream cuts an Endpoints object off here; slices have no such limit.
const ENDPOINTS_ADDRESSES_MAX: usize = 1000;
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// A service, the pods and EndpointSlices of its namespace, and the Endpoints object of its name.
#[derive(Debug)]
pub struct Observed<'a> {
    pub service: &'a Service,
    pub pods: &'a [Pod],
    pub slices: &'a [EndpointSlice],
    pub endpoints: Option<&'a Endpoints>,
}

pub fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = seen.service.spec.as_ref().filter(|_| seen.service.metadata.deletion_timestamp.is_none()) else {
        return plan;
    };
    // Without a selector somebody else writes the endpoints.
    let Some(selector) = spec.selector.as_ref().filter(|selector| !selector.is_empty()) else {
        return plan;
    };
    if spec.type_.as_deref() == Some("ExternalName") {
        return plan;
    }
    let is_selected = |pod: &&Pod| {
        let labels = pod.metadata.labels.as_ref();
        let matches = selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value));
        matches && pod.metadata.namespace == seen.service.metadata.namespace && !pods::is_terminal(pod)
    };
    let mut selected: Vec<&Pod> = seen.pods.iter().filter(is_selected).collect();
    selected.sort_by_key(|pod| name_of(&pod.metadata));
    for family in spec.ip_families.clone().unwrap_or_else(|| vec!["IPv4".to_owned()]) {
        plan_slices(seen, spec, &selected, &family, &mut plan);
    }
    plan_endpoints(seen, spec, &selected, &mut plan);
    plan
}

/// Removes the Endpoints object of a service that was deleted; its slices go by their owner reference.
pub fn plan_without_service(endpoints: &Endpoints) -> Plan {
    let mut plan = Plan::default();
    plan.delete(Target::of(endpoints));
    plan
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some("None")
}

fn publishes_not_ready(spec: &ServiceSpec) -> bool {
    spec.publish_not_ready_addresses == Some(true)
}

fn address<'a>(pod: &'a Pod, family: &str) -> Option<&'a str> {
    let status = pod.status.as_ref()?;
    let addresses = status.pod_ips.iter().flatten().map(|entry| entry.ip.as_str()).chain(status.pod_ip.as_deref());
    addresses.filter(|ip| !ip.is_empty()).find(|ip| ip.contains(':') == (family == "IPv6"))
}

fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_of_service = spec.subdomain == service.metadata.name;
    spec.hostname.clone().filter(|name| is_of_service && !name.is_empty())
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The pod's number for a service port; a name is looked up among the ports of its containers.
fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(if *number == 0 { port.port } else { *number }),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let is_it = |p: &&k8s_openapi::api::core::v1::ContainerPort| {
        p.name.as_ref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol
    };
    ports.into_iter().find(is_it).map(|found| found.container_port)
}

fn resolved(pod: &Pod, spec: &ServiceSpec) -> Vec<EndpointPort> {
    let ports = spec.ports.iter().flatten().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(target_port(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    ports.collect()
}

fn endpoint(service: &Service, spec: &ServiceSpec, pod: &Pod, address: &str) -> Endpoint {
    let (serving, terminating) = (pods::is_ready(pod), pods::is_being_deleted(pod));
    let ready = publishes_not_ready(spec) || (serving && !terminating);
    let conditions = EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) };
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(conditions),
        hostname: hostname(service, pod),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(reference(pod)),
        ..Endpoint::default()
    }
}

/// Endpoints that share their ports, by pod uid.
struct Group {
    ports: Vec<EndpointPort>,
    endpoints: BTreeMap<String, Endpoint>,
}

fn groups(seen: &Observed, spec: &ServiceSpec, selected: &[&Pod], family: &str) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for pod in selected {
        let Some(address) = address(pod, family) else {
            continue;
        };
        let ports = resolved(pod, spec);
        let has_service_ports = spec.ports.iter().flatten().next().is_some();
        if ports.is_empty() && has_service_ports {
            continue;
        }
        let endpoint = endpoint(seen.service, spec, pod, address);
        let uid = uid_of(&pod.metadata).to_owned();
        match groups.iter_mut().find(|group| group.ports == ports) {
            Some(group) => {
                group.endpoints.insert(uid, endpoint);
            }
            None => groups.push(Group { ports, endpoints: BTreeMap::from([(uid, endpoint)]) }),
        }
    }
    groups
}

/// A slice as it is and as it should be; `before` is `None` for one to be created.
struct Draft<'a> {
    before: Option<&'a EndpointSlice>,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
}

fn plan_slices(seen: &Observed, spec: &ServiceSpec, selected: &[&Pod], family: &str, plan: &mut Plan) {
    let service_uid = uid_of(&seen.service.metadata);
    let is_ours = |slice: &&EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        let manager = labels.and_then(|labels| labels.get(SLICE_MANAGED_BY)).map(String::as_str);
        let is_controlled = controller_uid(&slice.metadata) == Some(service_uid);
        is_controlled && manager == Some(SLICE_MANAGER) && slice.address_type == family
    };
    let mut drafts: Vec<Draft> = Vec::new();
    let mut existing: Vec<&EndpointSlice> = seen.slices.iter().filter(is_ours).collect();
    existing.sort_by_key(|slice| name_of(&slice.metadata));
    for group in groups(seen, spec, selected, family) {
        existing = fill(group, existing, &mut drafts);
    }
    let mut spare = existing;
    for draft in drafts.iter_mut().filter(|draft| draft.before.is_none()) {
        draft.before = spare.pop();
    }
    if drafts.is_empty() {
        // A service without pods keeps one empty slice, so that it is seen to be looked after.
        drafts.push(Draft { before: spare.pop(), ports: Vec::new(), endpoints: Vec::new() });
    }
    for draft in drafts {
        write_slice(seen.service, spec, family, draft, plan);
    }
    for slice in spare {
        plan.delete(Target::of(slice));
    }
}

/// Puts a group into the slices that have its ports, then into new ones. Returns the slices it did not use.
fn fill<'a>(group: Group, existing: Vec<&'a EndpointSlice>, drafts: &mut Vec<Draft<'a>>) -> Vec<&'a EndpointSlice> {
    let (fitting, others): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|slice| slice.ports.clone().unwrap_or_default() == group.ports);
    let mut missing = group.endpoints;
    let mut unused = others;
    let mut used = Vec::new();
    for slice in fitting {
        let uid = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
        let kept: Vec<Endpoint> =
            slice.endpoints.iter().flatten().filter_map(|endpoint| missing.remove(&uid(endpoint)?)).collect();
        if kept.is_empty() {
            unused.push(slice);
        } else {
            used.push(Draft { before: Some(slice), ports: group.ports.clone(), endpoints: kept });
        }
    }
    let mut missing = missing.into_values().collect::<Vec<_>>();
    missing.sort_by_key(|endpoint| endpoint.target_ref.as_ref().and_then(|target| target.name.clone()));
    let mut missing = missing.into_iter();
    for draft in &mut used {
        draft.endpoints.extend(missing.by_ref().take(ENDPOINTS_PER_SLICE_MAX - draft.endpoints.len()));
    }
    loop {
        let endpoints: Vec<Endpoint> = missing.by_ref().take(ENDPOINTS_PER_SLICE_MAX).collect();
        if endpoints.is_empty() {
            break;
        }
        used.push(Draft { before: None, ports: group.ports.clone(), endpoints });
    }
    drafts.extend(used);
    unused
}

fn write_slice(service: &Service, spec: &ServiceSpec, family: &str, draft: Draft, plan: &mut Plan) {
    let service_name = name_of(&service.metadata);
    let mut labels = labels(service, spec);
    labels.insert(SERVICE_NAME.to_owned(), service_name.to_owned());
    labels.insert(SLICE_MANAGED_BY.to_owned(), SLICE_MANAGER.to_owned());
    let mut slice = draft.before.cloned().unwrap_or_else(|| EndpointSlice {
        address_type: family.to_owned(),
        metadata: ObjectMeta {
            generate_name: Some(format!("{service_name}-")),
            namespace: service.metadata.namespace.clone(),
            owner_references: Some(vec![controller_reference(service)]),
            ..ObjectMeta::default()
        },
        ..EndpointSlice::default()
    });
    slice.metadata.labels = Some(labels);
    slice.endpoints = Some(draft.endpoints);
    slice.ports = Some(draft.ports);
    let with_lists = draft.before.map(|before| EndpointSlice {
        endpoints: Some(before.endpoints.clone().unwrap_or_default()),
        ports: Some(before.ports.clone().unwrap_or_default()),
        ..before.clone()
    });
    plan.write(with_lists.as_ref(), &slice);
}

/// The labels of a service as its endpoints carry them.
fn labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(spec) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

fn plan_endpoints(seen: &Observed, spec: &ServiceSpec, selected: &[&Pod], plan: &mut Plan) {
    let mut labels = labels(seen.service, spec);
    labels.insert(ENDPOINTS_MANAGED_BY.to_owned(), "endpoint-controller".to_owned());
    let subsets = subsets(seen, spec, selected);
    let mut endpoints = seen.endpoints.cloned().unwrap_or_else(|| Endpoints {
        metadata: ObjectMeta {
            name: seen.service.metadata.name.clone(),
            namespace: seen.service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        subsets: None,
    });
    endpoints.metadata.labels = Some(labels);
    endpoints.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
    plan.write(seen.endpoints, &endpoints);
}

/// One subset for each set of ports, addresses in order.
fn subsets(seen: &Observed, spec: &ServiceSpec, selected: &[&Pod]) -> Vec<EndpointSubset> {
    let family = spec.ip_families.as_ref().and_then(|families| families.first()).map_or("IPv4", String::as_str);
    let stays = |pod: &&&Pod| publishes_not_ready(spec) || !pods::is_being_deleted(pod);
    let live: Vec<&Pod> = selected.iter().filter(stays).copied().take(ENDPOINTS_ADDRESSES_MAX).collect();
    let mut subsets = Vec::new();
    for group in groups(seen, spec, &live, family) {
        let (mut ready, mut not_ready) = (Vec::new(), Vec::new());
        for endpoint in group.endpoints.into_values() {
            let is_ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(true);
            let address = EndpointAddress {
                ip: endpoint.addresses.into_iter().next().unwrap_or_default(),
                hostname: endpoint.hostname,
                node_name: endpoint.node_name,
                target_ref: endpoint.target_ref,
            };
            if is_ready { ready.push(address) } else { not_ready.push(address) }
        }
        let ordered = |mut addresses: Vec<EndpointAddress>| {
            addresses.sort_by(|a, b| a.ip.cmp(&b.ip));
            Some(addresses).filter(|addresses| !addresses.is_empty())
        };
        let ports = group.ports.into_iter().map(|port| CorePort {
            name: port.name.filter(|name| !name.is_empty()),
            port: port.port.unwrap_or(0),
            protocol: port.protocol,
            app_protocol: port.app_protocol,
        });
        let ports = Some(ports.collect::<Vec<_>>()).filter(|ports| !ports.is_empty());
        subsets.push(EndpointSubset { addresses: ordered(ready), not_ready_addresses: ordered(not_ready), ports });
    }
    subsets
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
