//! The Node object: what this machine says of itself, and which part of it must be written again.
//!
//! The node's shell reads `Facts` once and keeps the object up to date with `object`, `metadata_patch` and
//! `status_patch`; a cluster without a node shows the same machine as a placeholder that is not ready.

use super::admission::{NodeAmounts, node_amounts};
use super::devices::Inventory;
use super::pressure::{Pressures, disk_threshold};
use super::resources::Amounts;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text, time};

/// Upstream's default of pods per node.
const PODS_MAX: i64 = 110;
/// The kubelet's default threshold of eviction: what is below it is not given to pods either. Processor time is not
/// kept back: volley needs little of it, and a pod that asks for all cores of a machine shall fit on it.
const MEMORY_KEPT_BACK: i64 = 100 << 20;
/// How old the conditions' heart-beat may become while nothing changes; upstream's default.
const HEARTBEAT_S: i64 = 300;
/// As many images as the kubelet lists, the largest first, and as many names of each.
const IMAGES_MAX: usize = 50;
const IMAGE_NAMES_MAX: usize = 5;
/// The reason by which the placeholder is known.
pub const AGENT_MISSING: &str = "NodeAgentMissing";
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How long a node counts as alive after its last word; upstream's default.
pub const LEASE_S: i64 = 40;
const RUNTIME: &str = "volley.dev/runtime";
const RUNTIME_LACKS: &str = "volley.dev/runtime-lacks";
/// Which labels an earlier run has set for the machine's devices; the ones that no longer hold are taken away.
const DEVICE_LABELS: &str = "volley.dev/device-labels";

/// What was read of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub name: String,
    /// Towards others; a machine without network has none.
    pub address: Option<String>,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub disk_bytes: i64,
    /// Bytes of huge pages by the size of a page.
    pub huge_page_bytes: BTreeMap<i64, i64>,
    pub architecture: String,
    pub kernel: String,
    pub system: String,
    pub machine_id: String,
    pub boot_id: String,
    pub kubelet_version: String,
    pub volley_version: String,
}

/// How pods run here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtime {
    /// `oci`, `rootless` or `process`.
    pub mode: String,
    /// What pods cannot have, as sentences for people.
    pub lacks: Vec<String>,
}

/// The Node object as it shall be.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub facts: &'a Facts,
    /// `None` is the placeholder: the machine is shown, but nothing runs pods on it.
    pub runtime: Option<&'a Runtime>,
    pub amounts: &'a NodeAmounts,
    pub device_labels: &'a BTreeMap<String, String>,
    pub pressures: Pressures,
    /// Names and bytes of each image; `None` leaves the list as it is.
    pub images: Option<&'a [(Vec<String>, u64)]>,
}

pub fn amounts(facts: &Facts, inventory: &Inventory) -> NodeAmounts {
    let mut machine = Amounts::from([
        ("cpu".to_owned(), Quantity::milli(facts.cpu_milli)),
        ("memory".to_owned(), Quantity::bytes(facts.memory_bytes)),
        ("ephemeral-storage".to_owned(), Quantity::bytes(facts.disk_bytes)),
        ("pods".to_owned(), Quantity::whole(PODS_MAX)),
    ]);
    for (page, bytes) in &facts.huge_page_bytes {
        machine.insert(format!("hugepages-{}", Quantity::bytes(*page)), Quantity::bytes(*bytes));
    }
    // Huge pages are set apart from the memory that everybody else shares.
    let set_apart: i64 = facts.huge_page_bytes.values().sum();
    let kept_back = Amounts::from([
        ("memory".to_owned(), Quantity::bytes(MEMORY_KEPT_BACK + set_apart)),
        ("ephemeral-storage".to_owned(), Quantity::bytes(disk_threshold(facts.disk_bytes))),
    ]);
    node_amounts(&machine, &kept_back, inventory)
}

impl Wanted<'_> {
    /// The object of a machine that is not registered yet (spec K 21).
    pub fn object(&self, now: Timestamp) -> Value {
        let mut metadata = json!({"name": self.facts.name, "labels": self.labels()});
        let annotations = self.annotations();
        if !annotations.is_empty() {
            metadata["annotations"] = annotations.into();
        }
        json!({"metadata": metadata, "spec": {}, "status": self.status(&Value::Null, now)})
    }

    /// What must change of labels and annotations; those of others are left alone.
    pub fn metadata_patch(&self, node: &Value) -> Option<Value> {
        let (mut labels, mut annotations) = (self.labels(), self.annotations());
        let before = node["metadata"]["annotations"][DEVICE_LABELS].as_str().unwrap_or_default();
        for stale in before.split(',').filter(|name| !name.is_empty() && !self.device_labels.contains_key(*name)) {
            labels.insert(stale.to_owned(), Value::Null);
        }
        for own in [RUNTIME, RUNTIME_LACKS, DEVICE_LABELS] {
            annotations.entry(own).or_insert(Value::Null);
        }
        let is_new = |part: &str, name: &str, value: &Value| match value {
            Value::Null => node["metadata"][part].get(name).is_some(),
            value => node["metadata"][part].get(name) != Some(value),
        };
        labels.retain(|name, value| is_new("labels", name, value));
        annotations.retain(|name, value| is_new("annotations", name, value));
        let is_same = labels.is_empty() && annotations.is_empty();
        (!is_same).then(|| json!({"metadata": {"labels": labels, "annotations": annotations}}))
    }

    /// What must change of the status, guarded by the version that was seen; `None` while it is right and fresh.
    pub fn status_patch(&self, node: &Value, now: Timestamp) -> Option<Value> {
        let mut status = self.status(node, now);
        let is_fresh = list(node, "status.conditions").iter().all(|condition| {
            let beat = time::parse(text(condition, "lastHeartbeatTime"));
            !is_own(condition) || beat.is_some_and(|beat| now.as_second() - beat.as_second() < HEARTBEAT_S)
        });
        if is_fresh && is_same_but_for_beats(&status, &node["status"]) {
            return None;
        }
        for part in ["capacity", "allocatable"] {
            let gone: Vec<String> = gone_resources(&node["status"][part], &status[part]);
            gone.into_iter().for_each(|name| status[part][name] = Value::Null);
        }
        Some(json!({"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "status": status}))
    }

    fn labels(&self) -> Map<String, Value> {
        let facts = self.facts;
        let fixed = [
            ("kubernetes.io/hostname", facts.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", &facts.architecture),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", &facts.architecture),
            ("node-role.kubernetes.io/control-plane", ""),
        ];
        let devices = self.device_labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        fixed.into_iter().chain(devices).map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    fn annotations(&self) -> Map<String, Value> {
        let mut annotations = Map::new();
        if let Some(runtime) = self.runtime {
            annotations.insert(RUNTIME.to_owned(), runtime.mode.as_str().into());
            if !runtime.lacks.is_empty() {
                annotations.insert(RUNTIME_LACKS.to_owned(), runtime.lacks.join("; ").into());
            }
        }
        if !self.device_labels.is_empty() {
            let names: Vec<&str> = self.device_labels.keys().map(String::as_str).collect();
            annotations.insert(DEVICE_LABELS.to_owned(), names.join(",").into());
        }
        annotations
    }

    fn status(&self, node: &Value, now: Timestamp) -> Value {
        let facts = self.facts;
        let mut addresses = vec![json!({"type": "Hostname", "address": facts.name})];
        if let Some(address) = &facts.address {
            addresses.insert(0, json!({"type": "InternalIP", "address": address}));
        }
        let mut status = json!({
            "capacity": wire(&self.amounts.capacity), "allocatable": wire(&self.amounts.allocatable),
            "addresses": addresses, "nodeInfo": self.node_info(), "conditions": self.conditions(node, now),
        });
        if let Some(images) = self.images {
            let is_listed = at(node, "status.images").is_some();
            if is_listed || !images.is_empty() {
                status["images"] = wire_images(images).into();
            }
        }
        status
    }

    fn node_info(&self) -> Value {
        let facts = self.facts;
        let runtime = self.runtime.map(|runtime| format!("volley-{}", runtime.mode));
        let runtime = runtime.unwrap_or_else(|| "volley".to_owned());
        json!({
            "machineID": facts.machine_id, "systemUUID": facts.machine_id, "bootID": facts.boot_id,
            "kernelVersion": facts.kernel, "osImage": facts.system,
            "containerRuntimeVersion": format!("{runtime}://{}", facts.volley_version),
            "kubeletVersion": facts.kubelet_version, "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": facts.architecture,
        })
    }

    /// Our conditions in the kubelet's order and words; those of others stay.
    fn conditions(&self, node: &Value, now: Timestamp) -> Vec<Value> {
        let before = list(node, "status.conditions");
        let mut conditions = Vec::new();
        for (kind, is_under, good, bad) in pressure_texts(self.pressures) {
            let (status, (reason, message)) = if is_under { ("True", bad) } else { ("False", good) };
            conditions.push(condition(&before, [kind, status, reason, message], now));
        }
        let ready = match self.runtime {
            Some(_) => ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
            None => {
                ["Ready", "False", AGENT_MISSING, "nothing runs pods here: the cluster was started without its node"]
            }
        };
        conditions.push(condition(&before, ready, now));
        conditions.extend(before.into_iter().filter(|condition| !is_own(condition)));
        conditions
    }
}

fn wire_images(images: &[(Vec<String>, u64)]) -> Vec<Value> {
    let mut images: Vec<&(Vec<String>, u64)> = images.iter().collect();
    images.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    let wire = |(names, bytes): &(Vec<String>, u64)| {
        let names: Vec<&String> = names.iter().take(IMAGE_NAMES_MAX).collect();
        json!({"names": names, "sizeBytes": bytes})
    };
    images.into_iter().take(IMAGES_MAX).map(wire).collect()
}

type Words = (&'static str, &'static str);

/// Condition, whether it holds, and reason and message of its absence and presence.
fn pressure_texts(pressures: Pressures) -> [(&'static str, bool, Words, Words); 3] {
    [
        (
            "MemoryPressure",
            pressures.memory,
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ),
        (
            "DiskPressure",
            pressures.disk,
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ),
        (
            "PIDPressure",
            pressures.pids,
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ),
    ]
}

fn condition(before: &[Value], [kind, status, reason, message]: [&str; 4], now: Timestamp) -> Value {
    let known = before.iter().find(|condition| text(condition, "type") == kind && text(condition, "status") == status);
    let since = known.map(|known| text(known, "lastTransitionTime")).filter(|since| !since.is_empty());
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": time::seconds(now),
        "lastTransitionTime": since.map_or_else(|| time::seconds(now), str::to_owned)})
}

fn is_own(condition: &Value) -> bool {
    matches!(text(condition, "type"), "MemoryPressure" | "DiskPressure" | "PIDPressure" | "Ready")
}

/// Resources of ours that the machine no longer has; those that somebody else has put there stay.
fn gone_resources(before: &Value, after: &Value) -> Vec<String> {
    let names = before.as_object().into_iter().flatten().map(|(name, _)| name);
    let is_ours = |name: &&String| name.starts_with("nvidia.com/") || name.starts_with("hugepages-");
    names.filter(is_ours).filter(|name| after.get(name.as_str()).is_none()).cloned().collect()
}

fn is_same_but_for_beats(after: &Value, before: &Value) -> bool {
    let without_beats = |conditions: &Value| {
        let mut conditions = conditions.as_array().cloned().unwrap_or_default();
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastHeartbeatTime");
        }
        conditions
    };
    let is_same = |(name, value): (&String, &Value)| match name.as_str() {
        "conditions" => without_beats(value) == without_beats(&before["conditions"]),
        "capacity" | "allocatable" => {
            let mut all = value.as_object().into_iter().flatten();
            all.all(|(resource, amount)| before[name].get(resource) == Some(amount))
                && gone_resources(&before[name], value).is_empty()
        }
        name => before.get(name) == Some(value),
    };
    after.as_object().into_iter().flatten().all(is_same)
}

fn wire(amounts: &Amounts) -> BTreeMap<&str, String> {
    amounts.iter().map(|(name, amount)| (name.as_str(), amount.to_string())).collect()
}

fn list(object: &Value, path: &str) -> Vec<Value> {
    at(object, path).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The lease by which the node shows that it lives, bound to its Node object.
pub fn lease(node: &Value, now: Timestamp) -> Value {
    let meta = &node["metadata"];
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]});
    json!({"metadata": {"name": meta["name"], "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": meta["name"], "leaseDurationSeconds": LEASE_S, "renewTime": time::micros(now)}})
}

/// Seconds that a lease still lasts; none when it has run out or was never renewed.
pub fn lease_left_s(lease: &Value, now: Timestamp) -> Option<i64> {
    let renewed = time::parse(text(lease, "spec.renewTime"))?;
    Some(renewed.as_second() + LEASE_S - now.as_second()).filter(|left| *left > 0)
}

pub fn is_placeholder(node: &Value) -> bool {
    let conditions = at(node, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["reason"] == AGENT_MISSING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::devices::{Device, DeviceId, GPU};

    struct Sample {
        facts: Facts,
        runtime: Runtime,
        inventory: Inventory,
        labels: BTreeMap<String, String>,
    }

    fn sample(gpus: u32) -> Sample {
        let facts = Facts {
            name: "n".to_owned(),
            cpu_milli: 2000,
            memory_bytes: 8 << 30,
            disk_bytes: 100 << 30,
            huge_page_bytes: BTreeMap::from([(2 << 20, 64 << 20)]),
            architecture: "amd64".to_owned(),
            volley_version: "0.1.0".to_owned(),
            ..Facts::default()
        };
        let device = |board| Device {
            id: DeviceId(format!("GPU-{board}")),
            resource: GPU.to_owned(),
            board,
            numa_node: None,
            is_healthy: true,
        };
        let runtime = Runtime { mode: "oci".to_owned(), lacks: vec!["no a".to_owned(), "no b".to_owned()] };
        let product = ("nvidia.com/gpu.product".to_owned(), "H".to_owned());
        let labels = if gpus > 0 { BTreeMap::from([product]) } else { BTreeMap::new() };
        Sample { facts, runtime, inventory: Inventory { devices: (0..gpus).map(device).collect(), slices: 1 }, labels }
    }

    /// Brings the object up to date as the shell does; returns how many writes it took.
    fn update(sample: &Sample, pressures: Pressures, node: &mut Value, now: Timestamp) -> usize {
        let amounts = amounts(&sample.facts, &sample.inventory);
        let (facts, runtime, device_labels) = (&sample.facts, Some(&sample.runtime), &sample.labels);
        let wanted = Wanted { facts, runtime, amounts: &amounts, device_labels, pressures, images: None };
        if node.is_null() {
            *node = wanted.object(now);
            return 1;
        }
        let patches = [wanted.metadata_patch(node), wanted.status_patch(node, now)];
        patches.iter().flatten().map(|patch| json_patch::merge(node, patch)).count()
    }

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    // K 21
    #[test]
    fn a_machine_shows_what_it_has_and_how_it_runs_pods() {
        let mut node = Value::Null;
        update(&sample(4), Pressures::default(), &mut node, at_second(0));
        let expected = json!({"cpu": "2", "memory": "8028Mi", "ephemeral-storage": "96Gi", "pods": "110",
            "hugepages-2Mi": "64Mi", "nvidia.com/gpu": "4"});
        assert_eq!(node["status"]["allocatable"], expected);
        assert_eq!(node["status"]["capacity"]["memory"], "8Gi");
        assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "volley-oci://0.1.0");
        assert_eq!(node["metadata"]["annotations"]["volley.dev/runtime-lacks"], "no a; no b");
        assert_eq!(node["metadata"]["labels"]["nvidia.com/gpu.product"], "H");
    }

    #[test]
    fn nothing_is_written_twice_until_the_beat_is_due() {
        let mut node = Value::Null;
        update(&sample(1), Pressures::default(), &mut node, at_second(0));
        assert_eq!(update(&sample(1), Pressures::default(), &mut node, at_second(299)), 0);
        assert_eq!(update(&sample(1), Pressures::default(), &mut node, at_second(300)), 1);
        let ready = &node["status"]["conditions"][3];
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(ready["lastHeartbeatTime"], "1970-01-01T00:05:00Z");
    }

    #[test]
    fn a_restart_with_fewer_gpus_keeps_what_users_have_set() {
        let mut node = Value::Null;
        update(&sample(2), Pressures::default(), &mut node, at_second(0));
        let users = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
            "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"capacity": {"example.com/dongle": "3"}, "conditions": node["status"]["conditions"]}});
        json_patch::merge(&mut node, &users);
        let spec = node["spec"].clone();
        assert_eq!(update(&sample(0), Pressures::default(), &mut node, at_second(10)), 2);
        assert_eq!(
            (&node["metadata"]["labels"]["team"], &node["metadata"]["annotations"]["note"]),
            (&json!("a"), &json!("b"))
        );
        assert_eq!((&node["spec"], &node["status"]["capacity"]["example.com/dongle"]), (&spec, &json!("3")));
        for gone in ["/metadata/labels/nvidia.com~1gpu.product", "/status/capacity/nvidia.com~1gpu"] {
            assert_eq!(node.pointer(gone), None, "{gone}");
        }
        assert_eq!(update(&sample(0), Pressures::default(), &mut node, at_second(10)), 0, "planning again");
    }

    #[test]
    fn pressure_shows_in_the_conditions_with_the_time_of_its_change() {
        let mut node = Value::Null;
        update(&sample(0), Pressures::default(), &mut node, at_second(0));
        let network = json!({"type": "NetworkUnavailable", "status": "False"});
        node["status"]["conditions"].as_array_mut().unwrap().push(network.clone());
        let pressures = Pressures { disk: true, ..Pressures::default() };
        assert_eq!(update(&sample(0), pressures, &mut node, at_second(60)), 1);
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let disk = &conditions[1];
        assert_eq!((&disk["status"], &disk["reason"]), (&json!("True"), &json!("KubeletHasDiskPressure")));
        assert_eq!(disk["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(conditions.last(), Some(&network));
    }

    #[test]
    fn a_lease_lasts_forty_seconds() {
        let lease = lease(&json!({"metadata": {"name": "n", "uid": "u"}}), at_second(100));
        assert_eq!(lease_left_s(&lease, at_second(110)), Some(30));
        assert_eq!(lease_left_s(&lease, at_second(140)), None);
        assert_eq!(lease_left_s(&json!({}), at_second(0)), None);
    }
}
