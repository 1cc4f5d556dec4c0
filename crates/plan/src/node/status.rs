//! The status that clients see of a pod on this node (spec K 16.1, K-POD-1 to K-POD-3).

use super::conditions::Facts;
use super::container_status::{View, never_located};
use super::course::{Course, Ending, course};
use super::devices::GPU;
use super::phase::phase;
use super::seen::Seen;
use super::{
    Role, ephemeral_containers, init_containers, init_role, is_host_network, is_terminal, main_containers,
    stored_phase, wire_time,
};
use crate::control::{difference, to_value};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, HostIP, Pod, PodIP, PodStatus, ResourceHealth, ResourceStatus,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// What the machine contributes to every pod's status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostFacts {
    /// The machine's addresses, its main one first.
    pub addresses: Vec<String>,
}

/// The pod's whole status, made from the stored one: what the node does not own stays as it is.
pub fn status(pod: &Pod, seen: &Seen, host: &HostFacts, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    if let Some(rejection) = &seen.rejected {
        status.phase = Some("Failed".to_owned());
        status.reason = Some(rejection.reason.clone());
        status.message = Some(format!("Pod was rejected: {}", rejection.message));
        status.start_time = status.start_time.or(Some(wire_time(seen.accepted_at.unwrap_or(now))));
        status.observed_generation = pod.metadata.generation;
        return status;
    }
    let ending = match course(pod, seen, now) {
        Course::Run => None,
        Course::End(ending) => Some(ending),
    };
    fill_containers(pod, seen, ending, now, &mut status);
    let meant = fill_phase(pod, seen, ending, &mut status);
    fill_addresses(pod, seen, host, &mut status);
    status.start_time = status.start_time.or(Some(wire_time(seen.accepted_at.unwrap_or(now))));
    status.observed_generation = pod.metadata.generation;
    let statuses = all_statuses(&status);
    status.conditions = Some(Facts { pod, seen, phase: &meant, statuses: &statuses, now }.conditions());
    status
}

/// Says which devices each container has, by the names of the pod's containers; what was said stays when they are given back.
pub fn tell_devices(status: &mut PodStatus, pod: &Pod, granted: &BTreeMap<String, Vec<String>>) {
    let stored = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    for container in status.container_statuses.iter_mut().flatten() {
        let devices = granted.get(&container.name).filter(|devices| !devices.is_empty());
        container.allocated_resources_status = match devices {
            Some(devices) => Some(vec![ResourceStatus {
                name: GPU.to_owned(),
                resources: Some(devices.iter().map(|id| health(id)).collect()),
            }]),
            None => {
                let known = stored.iter().find(|known| known.name == container.name);
                known.and_then(|known| known.allocated_resources_status.clone())
            }
        };
    }
}

fn health(id: &str) -> ResourceHealth {
    ResourceHealth { health: Some("Healthy".to_owned()), resource_id: id.to_owned(), ..ResourceHealth::default() }
}

/// A status as the wire has it: times that are not known are `null`, as Go writes them (K-POD-1).
fn wire(status: &PodStatus) -> Value {
    let mut value = to_value(status);
    let lists = [("conditions", &["/lastProbeTime"][..]), ("containerStatuses", &END_TIMES)];
    for (key, paths) in lists
        .into_iter()
        .chain(["initContainerStatuses", "ephemeralContainerStatuses"].map(|key| (key, &END_TIMES[..])))
    {
        for item in value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            paths.iter().for_each(|path| write_null(item, path));
        }
    }
    value
}

const END_TIMES: [&str; 4] = [
    "/state/terminated/startedAt",
    "/state/terminated/finishedAt",
    "/lastState/terminated/startedAt",
    "/lastState/terminated/finishedAt",
];

/// Writes `null` where the parent is there and the field is not.
fn write_null(value: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    if let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.entry(key).or_insert(Value::Null);
    }
}

/// The JSON merge patch that brings the stored status to `new`; `None` if it is that already.
///
/// It names the pod's uid, so that a later pod of the same name is never written to.
pub fn patch(pod: &Pod, new: &PodStatus) -> Option<Value> {
    let old = pod.status.as_ref().map_or_else(|| json!({}), wire);
    let status = difference(&old, &wire(new))?;
    Some(json!({ "metadata": { "uid": pod.metadata.uid }, "status": status }))
}

fn all_statuses(status: &PodStatus) -> Vec<ContainerStatus> {
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let mains = status.container_statuses.as_deref().unwrap_or_default();
    init.iter().chain(mains).cloned().collect()
}

fn fill_containers(pod: &Pod, seen: &Seen, ending: Option<Ending>, now: Timestamp, status: &mut PodStatus) {
    // What a finished pod has told of a container is not taken back when the runtime forgets it.
    let is_forgotten = is_terminal(pod) && seen.containers.is_empty();
    if is_forgotten {
        return;
    }
    let view = View { pod, seen, is_ending: ending.is_some(), now };
    let make = |containers: &[Container], role: fn(&Container) -> Role, stored: Option<&Vec<ContainerStatus>>| {
        let stored = stored.map(Vec::as_slice).unwrap_or_default();
        let make_one = |container: &Container| {
            let stored = stored.iter().find(|status| status.name == container.name);
            let made = view.status(role(container), container, stored);
            keep_monotone(made, stored)
        };
        containers.iter().map(make_one).collect::<Vec<_>>()
    };
    let mut mains = make(main_containers(pod), |_| Role::Main, status.container_statuses.as_ref());
    // Clients find the main containers sorted by name, as the kubelet lists them.
    mains.sort_by(|left, right| left.name.cmp(&right.name));
    let mut inits = make(init_containers(pod), init_role, status.init_container_statuses.as_ref());
    let is_cut_short =
        matches!(ending, Some(Ending::Deleted | Ending::Evicted | Ending::DeadlineExceeded | Ending::Over));
    if is_cut_short && !seen.is_anything_alive() {
        close(pod, seen, &mut inits, &mut mains);
    }
    let ephemerals =
        make(&ephemeral_containers(pod), |_| Role::Ephemeral, status.ephemeral_container_statuses.as_ref());
    status.ephemeral_container_statuses = Some(ephemerals).filter(|ephemerals| !ephemerals.is_empty());
    status.container_statuses = Some(mains);
    status.init_container_statuses = Some(inits).filter(|inits| !inits.is_empty());
}

/// Restart counts never fall, even if the runtime has lost its records.
fn keep_monotone(mut made: ContainerStatus, stored: Option<&ContainerStatus>) -> ContainerStatus {
    made.restart_count = made.restart_count.max(stored.map_or(0, |stored| stored.restart_count));
    made
}

/// A pod that was cut short ends with no container left waiting: what never ran counts as failed.
fn close(pod: &Pod, seen: &Seen, inits: &mut [ContainerStatus], mains: &mut [ContainerStatus]) {
    let has_initialised = init_containers(pod).iter().all(|init| match init_role(init) {
        Role::Init => seen.container(&init.name).exited().is_some_and(|exit| exit.code == 0),
        Role::Sidecar | Role::Main | Role::Ephemeral => seen.container(&init.name).attempt().is_some(),
    });
    let is_open = |state: &Option<ContainerState>| state.as_ref().is_none_or(|state| state.terminated.is_none());
    let reached = inits.iter().rposition(|status| !is_open(&status.state)).unwrap_or(0);
    let reached = inits.iter_mut().take(reached + 1);
    let mains = mains.iter_mut().filter(|_| has_initialised);
    for status in reached.chain(mains).filter(|status| is_open(&status.state)) {
        status.state = Some(never_located());
        status.started = Some(false);
    }
}

/// Writes the phase with its reason; returns the one that the pod is bound for, which the conditions tell at once.
fn fill_phase(pod: &Pod, seen: &Seen, ending: Option<Ending>, status: &mut PodStatus) -> String {
    if is_terminal(pod) {
        return stored_phase(pod).to_owned();
    }
    let mut next = phase(pod, seen, &all_statuses(status), ending);
    let is_cut_short = matches!(ending, Some(Ending::Deleted | Ending::Evicted | Ending::DeadlineExceeded));
    // A pod that ends without ever having come up has failed.
    if is_cut_short && !seen.is_anything_alive() && next != "Succeeded" {
        next = "Failed";
    }
    let meant = next.to_owned();
    // The end is told when it has come: watchers of the phase rely on no process being left.
    if matches!(next, "Succeeded" | "Failed") && seen.is_anything_alive() {
        next = if stored_phase(pod) == "Running" { "Running" } else { "Pending" };
    }
    status.phase = Some(next.to_owned());
    let cause = match ending {
        Some(Ending::Evicted) => seen.eviction.as_ref().map(|eviction| ("Evicted", eviction.message.as_str())),
        Some(Ending::DeadlineExceeded) => Some(("DeadlineExceeded", DEADLINE_MESSAGE)),
        Some(Ending::Rejected | Ending::Over | Ending::Deleted | Ending::Finished) | None => None,
    };
    if let Some((reason, message)) = cause.filter(|_| next == "Failed") {
        status.reason = Some(reason.to_owned());
        status.message = Some(message.to_owned());
    }
    meant
}

fn fill_addresses(pod: &Pod, seen: &Seen, host: &HostFacts, status: &mut PodStatus) {
    status.host_ip = host.addresses.first().cloned();
    let host_ips: Vec<HostIP> = host.addresses.iter().map(|ip| HostIP { ip: ip.clone() }).collect();
    status.host_ips = Some(host_ips).filter(|ips| !ips.is_empty());
    let addresses = if is_host_network(pod) { &host.addresses } else { &seen.addresses };
    if let Some(first) = addresses.first() {
        status.pod_ip = Some(first.clone());
        status.pod_ips = Some(addresses.iter().map(|ip| PodIP { ip: ip.clone() }).collect());
    }
}
