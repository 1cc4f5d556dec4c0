//! Nodes, the shell: a placeholder for this machine until a node agent runs, and pods that no node will ever end.
//!
//! The placeholder says in its Ready condition that nothing runs pods here. What is deleted while bound to it, or to a
//! node that does not exist, has no process to wait for, so its graceful deletion is finished here.

use super::apply::{SyncError, Synced};
use super::{Shell, split};
use crate::apiserver::discovery::{arch, kubelet_version};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use volley_api::kube::{text, time};
use volley_plan::control::node;

/// How long a pod on a node that is not there is left alone: upstream's time, in which a node may (re-)register.
const MISSING_NODE_PATIENCE: Duration = Duration::from_secs(40);
/// The reason by which the placeholder is known.
const AGENT_MISSING: &str = "NodeAgentMissing";
const LEASES: &str = "kube-node-lease";
/// Upstream's default of pods per node.
const PODS_MAX: &str = "110";

impl Shell {
    /// Registers this machine, unless it is registered already.
    pub async fn sync_own_node(&self) -> Synced {
        let node = own_node(&self.home, Timestamp::now());
        let name = text(&node, "metadata.name").to_owned();
        if self.stored("nodes", &name).is_some() {
            return Ok(None);
        }
        let local = self.server.local("node-placeholder");
        let created = local.create("", "nodes", "", node).await;
        let node = created.map_err(|error| SyncError::of(format!("register node `{name}`"), error))?;
        let lease = lease(&node, Timestamp::now());
        let created = local.create("coordination.k8s.io", "leases", LEASES, lease).await;
        match created {
            Err(error) if error.reason != "AlreadyExists" => {
                Err(SyncError::of(format!("make the lease of node `{name}`"), error))
            }
            _ => Ok(None),
        }
    }

    /// Keeps new pods away from a node as its conditions demand.
    pub async fn sync_node_taints(&self, name: &str) -> Synced {
        let Some(seen) = self.get::<Value>("nodes", name) else { return Ok(None) };
        self.apply("node-lifecycle-controller", node::plan(&seen, Timestamp::now())).await
    }

    /// Ends a pod whose node cannot: the placeholder at once, a missing node after some patience.
    pub async fn sync_pod_end(&self, key: &str) -> Synced {
        let Some(pod) = self.get::<Value>("pods", key) else { return Ok(None) };
        let node = text(&pod, "spec.nodeName");
        if node.is_empty() {
            return Ok(None);
        }
        let is_deleting = pod["metadata"].get("deletionTimestamp").is_some();
        match self.get::<Value>("nodes", node) {
            Some(found) => {
                self.missing_nodes.lock().remove(node);
                if !is_deleting || !is_placeholder(&found) {
                    return Ok(None);
                }
            }
            None => {
                let since = *self.missing_nodes.lock().entry(node.to_owned()).or_insert_with(Instant::now);
                let left = MISSING_NODE_PATIENCE.saturating_sub(since.elapsed());
                if !left.is_zero() {
                    return Ok(Some(left));
                }
            }
        }
        let uid = text(&pod, "metadata.uid");
        let deleted = self.server.local("pod-garbage-collector").delete_pod_now(split(key), uid).await;
        deleted.map(|()| None).map_err(|error| SyncError::of(format!("end pod `{key}`"), error))
    }
}

fn is_placeholder(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["reason"] == AGENT_MISSING)
}

/// This machine as a Node object (spec K 21).
fn own_node(home: &std::path::Path, now: Timestamp) -> Value {
    let name = host_name();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut capacity = json!({"cpu": cpus.to_string(), "memory": format!("{}Ki", memory_kib()), "pods": PODS_MAX});
    if let Some(bytes) = disk_bytes(home) {
        capacity["ephemeral-storage"] = format!("{}Ki", bytes / 1024).into();
    }
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": time::seconds(now), "lastTransitionTime": time::seconds(now)})
    };
    let mut addresses = vec![json!({"type": "Hostname", "address": name})];
    if let Some(address) = crate::apiserver::bootstrap::own_address() {
        addresses.insert(0, json!({"type": "InternalIP", "address": address}));
    }
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch(),
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": arch(),
            "node-role.kubernetes.io/control-plane": "",
        }},
        "spec": {},
        "status": {
            "capacity": capacity, "allocatable": capacity, "addresses": addresses, "nodeInfo": node_info(),
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "False", AGENT_MISSING, "this build runs no pods yet: it has no node agent"),
            ],
        },
    })
}

/// The node's lease. Nobody renews it: there is no agent whose life it could prove.
fn lease(node: &Value, now: Timestamp) -> Value {
    let meta = &node["metadata"];
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]});
    json!({"metadata": {"name": meta["name"], "namespace": LEASES, "ownerReferences": [owner]},
        "spec": {"holderIdentity": meta["name"], "leaseDurationSeconds": 40, "renewTime": time::micros(now)}})
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The host's name as a name of an object.
fn host_name() -> String {
    let name = read("/proc/sys/kernel/hostname").to_lowercase();
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.chars().map(legal).collect();
    match name.trim_matches(['-', '.']) {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

fn memory_kib() -> u64 {
    let text = read("/proc/meminfo");
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn disk_bytes(path: &std::path::Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_blocks.saturating_mul(disk.f_frsize))
}

fn node_info() -> Value {
    let system = read("/etc/os-release");
    let image = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux").trim_matches('"');
    let machine = read("/etc/machine-id");
    json!({
        "machineID": machine, "systemUUID": machine, "bootID": read("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": read("/proc/sys/kernel/osrelease"), "osImage": image,
        "containerRuntimeVersion": concat!("volley://", env!("CARGO_PKG_VERSION")),
        "kubeletVersion": kubelet_version(), "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": arch(),
    })
}
