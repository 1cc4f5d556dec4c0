//! GPUs: which devices a container gets. A device is held by one container, or by at most `slices` when it is shared.
//!
//! What is held is an argument and comes back unchanged for containers that hold something already, so grants survive
//! restarts. The choice is deterministic: devices close together first, then in the order of their boards.

use super::{Role, all_containers};
use k8s_openapi::api::core::v1::{Container, Pod};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::quantity::Quantity;

/// The resource name of whole GPUs, the only ones that are sliced.
pub const GPU: &str = "nvidia.com/gpu";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub id: DeviceId,
    /// `nvidia.com/gpu`, or for a part of one `nvidia.com/mig-1g.5gb` and the like.
    pub resource: String,
    /// The place on the machine's bus: the order in which devices are given out.
    pub board: u32,
    pub numa_node: Option<u32>,
    pub is_healthy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    pub devices: Vec<Device>,
    /// How many containers may share one GPU; 1 is exclusive.
    pub slices: u32,
}

/// Who holds which devices.
pub type Held = BTreeMap<Holder, Vec<DeviceId>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub pod_uid: String,
    pub container: String,
    /// An init container: what it holds passes on to the containers after it.
    pub is_init: bool,
}

/// Fewer devices are free than asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}")]
pub struct Shortage {
    pub resource: String,
    pub requested: u32,
    pub available: u32,
}

impl Inventory {
    fn slices_of(&self, device: &Device) -> u32 {
        if device.resource == GPU { self.slices.max(1) } else { 1 }
    }

    /// What the node has of each kind, sick devices included.
    pub fn capacity(&self) -> BTreeMap<String, u32> {
        self.count(|_| true)
    }

    /// What the node has to give of each kind; a kind whose devices are all sick counts 0.
    pub fn allocatable(&self) -> BTreeMap<String, u32> {
        self.count(|device| device.is_healthy)
    }

    fn count(&self, is_counted: impl Fn(&Device) -> bool) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for device in &self.devices {
            let slices = if is_counted(device) { self.slices_of(device) } else { 0 };
            *counts.entry(device.resource.clone()).or_insert(0) += slices;
        }
        counts
    }

    fn has_kind(&self, resource: &str) -> bool {
        self.devices.iter().any(|device| device.resource == resource)
    }

    /// Whether containers are given devices for this resource (rather than a share of a number).
    pub fn is_device_kind(&self, resource: &str) -> bool {
        resource == GPU || resource.starts_with("nvidia.com/mig-") || self.has_kind(resource)
    }
}

/// Devices for one container: `wanted` is how many of each kind.
///
/// The same device comes twice only when it is shared and no other is free.
pub fn grant(inventory: &Inventory, held: &Held, wanted: &BTreeMap<String, u32>) -> Result<Vec<DeviceId>, Shortage> {
    let mut free = Free::new(inventory, held);
    let mut granted = Vec::new();
    for (resource, requested) in wanted {
        granted.extend(free.take(resource, *requested, &[])?);
    }
    Ok(granted)
}

/// Devices for all containers of a pod. Those that hold theirs already keep them; what an init container has used is
/// used again by the containers after it.
pub fn grant_pod(inventory: &Inventory, held: &Held, pod: &Pod) -> Result<BTreeMap<String, Vec<DeviceId>>, Shortage> {
    let pod_uid = super::uid(pod).to_owned();
    let mut granted = BTreeMap::new();
    let mut reusable: Vec<DeviceId> = Vec::new();
    let mut free = Free::new(inventory, held);
    for (role, container) in all_containers(pod) {
        let is_init = role == Role::Init;
        let holder = Holder { pod_uid: pod_uid.clone(), container: container.name.clone(), is_init };
        let mut devices = Vec::new();
        match held.get(&holder) {
            Some(kept) => devices.clone_from(kept),
            None => {
                for (resource, requested) in wanted(inventory, container) {
                    devices.extend(free.take(&resource, requested, &reusable)?);
                }
            }
        }
        match role {
            Role::Init => {
                reusable.extend(devices.iter().filter(|id| !reusable.contains(id)).cloned().collect::<Vec<_>>())
            }
            Role::Sidecar | Role::Main | Role::Ephemeral => reusable.retain(|id| !devices.contains(id)),
        }
        if !devices.is_empty() {
            granted.insert(container.name.clone(), devices);
        }
    }
    Ok(granted)
}

/// How many devices of each kind a container asks for; extended resources have their limit as request.
pub fn wanted(inventory: &Inventory, container: &Container) -> BTreeMap<String, u32> {
    let limits = super::resources::limits(container.resources.as_ref());
    let kinds = limits.into_iter().filter(|(name, _)| inventory.is_device_kind(name));
    let number = |amount: Quantity| u32::try_from(amount.value()).unwrap_or(0);
    kinds.map(|(name, amount)| (name, number(amount))).filter(|(_, number)| *number > 0).collect()
}

/// What is left to give while a grant is being put together.
struct Free<'a> {
    inventory: &'a Inventory,
    used: BTreeMap<DeviceId, u32>,
}

impl<'a> Free<'a> {
    /// Init containers use a device in turn with those after them, so a pod uses it as often as they do at once.
    fn new(inventory: &'a Inventory, held: &Held) -> Self {
        let mut by_pod: BTreeMap<(&str, &DeviceId), [u32; 2]> = BTreeMap::new();
        for (holder, devices) in held {
            for id in devices {
                let [init, together] = by_pod.entry((&holder.pod_uid, id)).or_default();
                if holder.is_init {
                    let again = devices.iter().filter(|other| *other == id).count();
                    *init = u32::try_from(again).unwrap_or(u32::MAX).max(*init);
                } else {
                    *together += 1;
                }
            }
        }
        let mut used = BTreeMap::new();
        for ((_, id), [init, together]) in by_pod {
            *used.entry(id.clone()).or_insert(0) += init.max(together);
        }
        Free { inventory, used }
    }

    fn left(&self, device: &Device) -> u32 {
        let used = self.used.get(&device.id).copied().unwrap_or(0);
        if device.is_healthy { self.inventory.slices_of(device).saturating_sub(used) } else { 0 }
    }

    fn take(&mut self, resource: &str, requested: u32, reusable: &[DeviceId]) -> Result<Vec<DeviceId>, Shortage> {
        let of_kind = |device: &&Device| device.resource == resource;
        let devices: Vec<&Device> = self.inventory.devices.iter().filter(of_kind).collect();
        let reused = devices.iter().filter(|device| reusable.contains(&device.id)).map(|device| device.id.clone());
        let mut granted: Vec<DeviceId> = reused.take(requested as usize).collect();
        let missing = requested - u32::try_from(granted.len()).unwrap_or(requested);
        let available: u32 = devices.iter().map(|device| self.left(device)).sum();
        if available < missing {
            let available = available + (requested - missing);
            return Err(Shortage { resource: resource.to_owned(), requested, available });
        }
        for _ in 0..missing {
            let id = self.next(&devices, &granted, requested).expect("as many are left as are missing");
            *self.used.entry(id.clone()).or_insert(0) += 1;
            granted.push(id);
        }
        granted.sort_by_key(|id| devices.iter().find(|device| device.id == *id).map(|device| device.board));
        Ok(granted)
    }

    /// The best next device: not one that the container has, near those that it has, least shared, first board.
    fn next(&self, devices: &[&Device], granted: &[DeviceId], requested: u32) -> Option<DeviceId> {
        let chosen: BTreeSet<Option<u32>> =
            devices.iter().filter(|device| granted.contains(&device.id)).map(|device| device.numa_node).collect();
        let room = |numa: Option<u32>| devices.iter().filter(|d| d.numa_node == numa && self.left(d) > 0).count();
        let best = devices.iter().filter(|device| self.left(device) > 0).min_by_key(|device| {
            let is_again = granted.contains(&device.id);
            let is_far = !chosen.is_empty() && !chosen.contains(&device.numa_node);
            let room = room(device.numa_node);
            // A fresh choice goes to the smallest group that holds all of it, so that large groups stay whole.
            let group = if room >= requested as usize { (0, room) } else { (1, usize::MAX - room) };
            let group = if chosen.is_empty() { group } else { (0, 0) };
            let used = self.used.get(&device.id).copied().unwrap_or(0);
            (is_again, is_far, used, group, device.board, device.id.clone())
        });
        best.map(|device| device.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn inventory(numa: &[u32], slices: u32) -> Inventory {
        let devices = numa.iter().enumerate().map(|(index, numa)| Device {
            id: DeviceId(format!("GPU-{index}")),
            resource: GPU.to_owned(),
            board: u32::try_from(index).unwrap(),
            numa_node: Some(*numa),
            is_healthy: true,
        });
        Inventory { devices: devices.collect(), slices }
    }

    fn ask(count: u32) -> BTreeMap<String, u32> {
        BTreeMap::from([(GPU.to_owned(), count)])
    }

    fn names(devices: &[DeviceId]) -> Vec<&str> {
        devices.iter().map(|id| id.0.as_str()).collect()
    }

    fn holding(uid: &str, devices: &[&str]) -> Held {
        let holder = Holder { pod_uid: uid.to_owned(), container: "c".to_owned(), is_init: false };
        BTreeMap::from([(holder, devices.iter().map(|id| DeviceId((*id).to_owned())).collect())])
    }

    fn pod(uid: &str, init: u32, main: u32) -> Pod {
        let container =
            |name: &str, count: u32| json!({"name": name, "resources": {"limits": {GPU: count.to_string()}}});
        let spec = json!({"initContainers": [container("i", init)], "containers": [container("c", main)]});
        serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": spec})).unwrap()
    }

    #[test]
    fn nothing_asked_nothing_given() {
        assert_eq!(grant(&inventory(&[0, 0], 1), &Held::new(), &BTreeMap::new()), Ok(vec![]));
    }

    #[test]
    fn devices_come_in_board_order_and_never_twice() {
        let inventory = inventory(&[0, 0, 0, 0], 1);
        let first = grant(&inventory, &Held::new(), &ask(2)).unwrap();
        assert_eq!(names(&first), ["GPU-0", "GPU-1"]);
        let next = grant(&inventory, &holding("a", &["GPU-0", "GPU-1"]), &ask(2)).unwrap();
        assert_eq!(names(&next), ["GPU-2", "GPU-3"]);
        let shortage = grant(&inventory, &holding("a", &["GPU-0", "GPU-1"]), &ask(3)).unwrap_err();
        let text = "requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2";
        assert_eq!(shortage.to_string(), text);
    }

    #[test]
    fn a_container_gets_devices_that_are_close_together() {
        let inventory = inventory(&[0, 0, 1, 1], 1);
        let granted = grant(&inventory, &holding("a", &["GPU-0"]), &ask(2)).unwrap();
        assert_eq!(names(&granted), ["GPU-2", "GPU-3"]);
        let single = grant(&inventory, &holding("a", &["GPU-0"]), &ask(1)).unwrap();
        assert_eq!(names(&single), ["GPU-1"], "the pair stays whole");
    }

    #[test]
    fn slices_share_a_device_between_containers() {
        let inventory = inventory(&[0, 0], 2);
        assert_eq!(inventory.allocatable(), ask(4));
        let second = grant(&inventory, &holding("a", &["GPU-0"]), &ask(1)).unwrap();
        assert_eq!(names(&second), ["GPU-1"], "the idle one first");
        let third = grant(&inventory, &holding("a", &["GPU-0", "GPU-1"]), &ask(2)).unwrap();
        assert_eq!(names(&third), ["GPU-0", "GPU-1"]);
        assert!(grant(&inventory, &holding("a", &["GPU-0", "GPU-0", "GPU-1"]), &ask(2)).is_err());
    }

    #[test]
    fn mig_devices_are_their_own_kind_and_sick_devices_are_not_given() {
        let mut inventory = inventory(&[0, 0], 2);
        inventory.devices[0].resource = "nvidia.com/mig-1g.5gb".to_owned();
        inventory.devices[1].is_healthy = false;
        let expected = [("nvidia.com/gpu".to_owned(), 0), ("nvidia.com/mig-1g.5gb".to_owned(), 1)];
        assert_eq!(inventory.allocatable(), BTreeMap::from(expected));
        assert_eq!(inventory.capacity()[GPU], 2);
        assert!(grant(&inventory, &Held::new(), &ask(1)).is_err());
        let mig = BTreeMap::from([("nvidia.com/mig-1g.5gb".to_owned(), 1)]);
        assert_eq!(names(&grant(&inventory, &Held::new(), &mig).unwrap()), ["GPU-0"]);
    }

    #[test]
    fn what_an_init_container_used_serves_the_main_container() {
        let granted = grant_pod(&inventory(&[0, 0], 1), &Held::new(), &pod("p", 2, 2)).unwrap();
        assert_eq!(granted["i"], granted["c"]);
    }

    #[test]
    fn a_restart_finds_the_same_grants() {
        let inventory = inventory(&[0, 0, 0], 1);
        let pod = pod("p", 1, 2);
        let granted = grant_pod(&inventory, &Held::new(), &pod).unwrap();
        let holder = |container: &String| Holder {
            pod_uid: "p".to_owned(),
            container: container.clone(),
            is_init: container == "i",
        };
        let held: Held = granted.iter().map(|(name, ids)| (holder(name), ids.clone())).collect();
        assert_eq!(grant_pod(&inventory, &held, &pod).unwrap(), granted);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_device_is_given_beyond_its_slices_and_totals_are_conserved(
            numa in proptest::collection::vec(0u32..3, 1..9),
            slices in 1u32..4,
            requests in proptest::collection::vec(1u32..6, 1..12),
        ) {
            let inventory = inventory(&numa, slices);
            let total = inventory.allocatable()[GPU];
            let (mut held, mut given) = (Held::new(), 0);
            for (index, count) in requests.into_iter().enumerate() {
                let granted = grant(&inventory, &held, &ask(count));
                prop_assert_eq!(granted.clone(), grant(&inventory, &held, &ask(count)), "the same again");
                match granted {
                    Ok(ids) => {
                        prop_assert_eq!(ids.len(), count as usize);
                        given += count;
                        let pod_uid = format!("p{index}");
                        held.insert(Holder { pod_uid, container: "c".to_owned(), is_init: false }, ids);
                    }
                    Err(shortage) => prop_assert_eq!(shortage.available, total - given),
                }
                let mut uses: BTreeMap<&DeviceId, u32> = BTreeMap::new();
                held.values().flatten().for_each(|id| *uses.entry(id).or_insert(0) += 1);
                prop_assert!(uses.values().all(|uses| *uses <= slices));
                prop_assert_eq!(uses.values().sum::<u32>(), given);
            }
        }
    }
}
