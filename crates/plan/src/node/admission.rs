//! Whether the node takes a pod that is bound to it; a refusal carries the numbers (`OutOfcpu`, …).

use super::devices::{DeviceId, Held, Inventory, grant_pod};
use super::resources::{Amounts, add, pod_requests};
use super::seen::Rejection;
use super::{all_containers, spec};
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;

/// What the node says that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAmounts {
    pub capacity: Amounts,
    pub allocatable: Amounts,
}

/// The machine's own amounts (`cpu`, `memory`, `ephemeral-storage`, `pods`) and its devices, less what is kept back.
pub fn node_amounts(machine: &Amounts, kept_back: &Amounts, inventory: &Inventory) -> NodeAmounts {
    let devices = |counts: BTreeMap<String, u32>| {
        counts.into_iter().map(|(name, count)| (name, Quantity::whole(i64::from(count))))
    };
    let mut capacity = machine.clone();
    capacity.extend(devices(inventory.capacity()));
    let left = |(name, amount): (&String, &Quantity)| {
        let kept_back = kept_back.get(name).copied().unwrap_or_default();
        (name.clone(), (*amount - kept_back).max(Quantity::ZERO))
    };
    let mut allocatable: Amounts = machine.iter().map(left).collect();
    allocatable.extend(devices(inventory.allocatable()));
    NodeAmounts { capacity, allocatable }
}

/// The node as it is before the pod comes.
pub struct Room<'a> {
    /// With `pods` in it.
    pub allocatable: &'a Amounts,
    /// The pods that the node has taken and that have not ended.
    pub others: &'a [&'a Pod],
    pub inventory: &'a Inventory,
    pub held: &'a Held,
}

/// Takes the pod, with the devices of each of its containers, or says why not.
pub fn admit(pod: &Pod, room: &Room) -> Result<BTreeMap<String, Vec<DeviceId>>, Rejection> {
    if spec(pod).and_then(|spec| spec.os.as_ref()).is_some_and(|os| os.name != "linux") {
        let message = "Failed to admit pod as the OS field doesn't match node OS".to_owned();
        return Err(Rejection { reason: "PodOSNotSupported".to_owned(), message });
    }
    let devices = grant_pod(room.inventory, room.held, pod).map_err(|shortage| Rejection {
        reason: "UnexpectedAdmissionError".to_owned(),
        message: format!("Allocate failed due to {shortage}, which is unexpected"),
    })?;
    check_ports(pod, room)?;
    check_amounts(pod, room)?;
    Ok(devices)
}

fn check_amounts(pod: &Pod, room: &Room) -> Result<(), Rejection> {
    let count = i64::try_from(room.others.len()).unwrap_or(i64::MAX);
    if let Some(allocatable) = room.allocatable.get("pods")
        && count >= allocatable.value()
    {
        return Err(out_of("pods", [1, count, allocatable.value()]));
    }
    let requests = pod_requests(pod);
    let mut used = Amounts::new();
    for other in room.others {
        add(&mut used, &pod_requests(other));
    }
    // The well-known ones first, as the kubelet reports them; then the others by name.
    let known = ["cpu", "memory", "ephemeral-storage"];
    let rest = requests.keys().map(String::as_str).filter(|name| !known.contains(name));
    for name in known.into_iter().chain(rest) {
        let Some(requested) = requests.get(name).filter(|amount| !amount.is_zero()) else { continue };
        let used = used.get(name).copied().unwrap_or_default();
        let capacity = room.allocatable.get(name).copied().unwrap_or_default();
        if used + *requested > capacity {
            let number = |amount: Quantity| match name {
                "cpu" => amount.milli_value(),
                _ => amount.value(),
            };
            return Err(out_of(name, [number(*requested), number(used), number(capacity)]));
        }
    }
    Ok(())
}

fn out_of(name: &str, [requested, used, capacity]: [i64; 3]) -> Rejection {
    let message =
        format!("Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}");
    Rejection { reason: format!("OutOf{name}"), message }
}

/// A host port can be held by one pod only.
fn check_ports(pod: &Pod, room: &Room) -> Result<(), Rejection> {
    let wanted = host_ports(pod);
    let is_clash = |port: &HostPort| {
        let taken = room.others.iter().flat_map(|other| host_ports(other));
        taken.into_iter().any(|other| port.clashes_with(&other))
    };
    if wanted.iter().any(is_clash) {
        let message =
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports".to_owned();
        return Err(Rejection { reason: "NodePorts".to_owned(), message });
    }
    Ok(())
}

struct HostPort {
    protocol: String,
    address: String,
    port: i32,
}

impl HostPort {
    fn clashes_with(&self, other: &HostPort) -> bool {
        let is_any = |address: &str| matches!(address, "" | "0.0.0.0");
        let is_same_address = self.address == other.address || is_any(&self.address) || is_any(&other.address);
        self.port == other.port && self.protocol == other.protocol && is_same_address
    }
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let ports = all_containers(pod).flat_map(|(_, container)| container.ports.as_deref().unwrap_or_default());
    let host_port = |port: &k8s_openapi::api::core::v1::ContainerPort| {
        Some(HostPort {
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            address: port.host_ip.clone().unwrap_or_default(),
            port: port.host_port.filter(|port| *port > 0)?,
        })
    };
    ports.filter_map(host_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(container: Value) -> Pod {
        let mut container = container;
        container["name"] = json!("c");
        serde_json::from_value(json!({"metadata": {"uid": "u"}, "spec": {"containers": [container]}})).unwrap()
    }

    fn asking(requests: Value) -> Pod {
        pod(json!({"resources": {"requests": requests, "limits": requests}}))
    }

    fn check(pod: &Pod, others: &[Pod], expected: Result<(), (&str, &str)>) {
        let allocatable =
            [("cpu", Quantity::whole(4)), ("memory", Quantity::bytes(1 << 30)), ("pods", Quantity::whole(2))];
        let allocatable = allocatable.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
        let inventory = Inventory { devices: vec![], slices: 1 };
        let others: Vec<&Pod> = others.iter().collect();
        let room = Room { allocatable: &allocatable, others: &others, inventory: &inventory, held: &Held::new() };
        let found = admit(pod, &room);
        let expected =
            expected.map_err(|(reason, message)| Rejection { reason: reason.into(), message: message.into() });
        assert_eq!(found.map(|_| ()), expected);
    }

    #[test]
    fn a_node_offers_what_it_has_less_what_it_keeps_back() {
        let amounts = |milli: i64| Amounts::from([("cpu".to_owned(), Quantity::milli(milli))]);
        let gpu = super::super::devices::Device {
            id: DeviceId("GPU-0".to_owned()),
            resource: "nvidia.com/gpu".to_owned(),
            board: 0,
            numa_node: None,
            is_healthy: false,
        };
        let node = node_amounts(&amounts(4000), &amounts(250), &Inventory { devices: vec![gpu], slices: 2 });
        let text = |amounts: &Amounts| amounts.iter().map(|(n, q)| format!("{n}={q}")).collect::<Vec<_>>();
        assert_eq!(text(&node.capacity), ["cpu=4", "nvidia.com/gpu=2"]);
        assert_eq!(text(&node.allocatable), ["cpu=3750m", "nvidia.com/gpu=0"]);
    }

    #[test]
    fn a_pod_that_fits_is_taken() {
        check(&asking(json!({"cpu": "2", "memory": "1Gi"})), &[asking(json!({"cpu": "2"}))], Ok(()));
    }

    #[test]
    fn a_refusal_has_the_numbers() {
        let text = "Node didn't have enough resource: cpu, requested: 2500, used: 2000, capacity: 4000";
        check(&asking(json!({"cpu": "2500m"})), &[asking(json!({"cpu": "2"}))], Err(("OutOfcpu", text)));
        let text = "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824";
        check(&asking(json!({"memory": "2Gi"})), &[], Err(("OutOfmemory", text)));
        let text = "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2";
        check(&pod(json!({})), &[pod(json!({})), pod(json!({}))], Err(("OutOfpods", text)));
    }

    #[test]
    fn missing_gpus_are_never_silently_left_out() {
        let text = "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. \
                    Requested: 1, Available: 0, which is unexpected";
        check(&asking(json!({"nvidia.com/gpu": "1"})), &[], Err(("UnexpectedAdmissionError", text)));
    }

    #[test]
    fn a_host_port_is_given_once() {
        let serving = || pod(json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}));
        let text = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        check(&serving(), &[serving()], Err(("NodePorts", text)));
        let udp = pod(json!({"ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]}));
        check(&udp, &[serving()], Ok(()));
    }
}
