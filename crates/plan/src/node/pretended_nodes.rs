//! Nodes that are not there: how a user describes them, and the Node objects and leases that show them.
//!
//! `volley cluster --pretend-nodes` makes them in the embedded cluster and `volley simulate --nodes` in a simulation.

use super::machine::LEASE_NAMESPACE;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{text, time};

/// By this label pretended nodes are known, and found again after a restart.
const PRETEND: &str = "volley.dev/pretend";
pub const GPU: &str = "nvidia.com/gpu";
/// More than any cluster has; a typing error must not fill the memory.
const NODES_MAX: usize = 100_000;
const LEASE_S_MIN: i64 = 40;
/// Leases are renewed so slowly that all nodes together make at most this many writes each second.
const RENEWALS_PER_SECOND: usize = 20;
/// A lease lasts so many renewals, as the kubelet's does.
const RENEWALS_PER_LEASE: i64 = 4;
const RENEW_S_MIN: i64 = 10;
/// What a node of a group has that does not say; those of a usual machine with eight GPUs.
const DEFAULTS: [(&str, &str); 4] = [("cpu", "96"), ("memory", "1Ti"), ("ephemeral-storage", "1Ti"), ("pods", "110")];
const WANTED: &str = "want COUNTxGPUSgpu and then what each has, such as \
                      100x8gpu,cpu=64,memory=256Gi,label.zone=a,taint.dedicated=ml:NoSchedule";

pub fn is_pretended(node: &Value) -> bool {
    node["metadata"]["labels"][PRETEND] == "true"
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub count: usize,
    /// Nodes are called by it and a number.
    pub name: String,
    pub resources: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    /// Key, and value and effect as they were written.
    pub taints: BTreeMap<String, String>,
}

/// All groups of one option: `100x8gpu,label.zone=a,50x4gpu`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups(pub Vec<Group>);

impl Groups {
    pub fn parse(words: &str) -> Result<Groups, String> {
        let mut groups: Vec<Group> = Vec::new();
        for part in words.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if let Some(group) = head(part) {
                groups.push(group?);
                continue;
            }
            let group = groups.last_mut().ok_or_else(|| format!("`{part}` stands before any group; {WANTED}"))?;
            property(group, part)?;
        }
        if groups.is_empty() {
            return Err(WANTED.to_owned());
        }
        Groups::joined([Groups(groups.clone())])?;
        Ok(Groups(groups))
    }

    /// Groups of several options as one; those without a name get one by their place.
    pub fn joined(all: impl IntoIterator<Item = Groups>) -> Result<Groups, String> {
        let mut groups: Vec<Group> = all.into_iter().flat_map(|groups| groups.0).collect();
        let mut names = BTreeSet::new();
        for (number, group) in groups.iter_mut().enumerate() {
            if group.name.is_empty() {
                group.name = unnamed(number);
            }
            if !names.insert(group.name.clone()) {
                return Err(format!("two groups are called `{}`; give each its own name=", group.name));
            }
        }
        let count: usize = groups.iter().map(|group| group.count).sum();
        match count > NODES_MAX {
            true => Err(format!("{count} nodes are more than the {NODES_MAX} that can be pretended")),
            false => Ok(Groups(groups)),
        }
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|group| group.count).sum()
    }

    /// The Node objects, ready from the start.
    pub fn nodes(&self, now: Timestamp) -> Vec<Value> {
        let mut nodes = Vec::with_capacity(self.count());
        for group in &self.0 {
            for number in 0..group.count {
                nodes.push(group.node(number, nodes.len(), now));
            }
        }
        nodes
    }

    /// Seconds between two renewals of a node's lease.
    pub fn renew_seconds(&self) -> i64 {
        i64::try_from(self.count() / RENEWALS_PER_SECOND).unwrap_or(i64::MAX).max(RENEW_S_MIN)
    }

    pub fn lease(&self, node: &Value, now: Timestamp) -> Value {
        let meta = &node["metadata"];
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]});
        let lasts = self.renew_seconds().saturating_mul(RENEWALS_PER_LEASE).max(LEASE_S_MIN);
        json!({"metadata": {"name": meta["name"], "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": meta["name"], "leaseDurationSeconds": lasts, "renewTime": time::micros(now)}})
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&parts.join(","))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}x", self.count)?;
        if !self.name.is_empty() {
            write!(out, ",name={}", self.name)?;
        }
        let plain = self.resources.iter().map(|(name, amount)| format!(",{name}={amount}"));
        let labels = self.labels.iter().map(|(name, value)| format!(",label.{name}={value}"));
        let taints = self.taints.iter().map(|(key, value)| format!(",taint.{key}={value}"));
        plain.chain(labels).chain(taints).try_for_each(|part| out.write_str(&part))
    }
}

fn unnamed(number: usize) -> String {
    if number == 0 { "pretend".to_owned() } else { format!("pretend-{}", number + 1) }
}

/// `100x8gpu`, `100x` or nothing if it is something else.
fn head(part: &str) -> Option<Result<Group, String>> {
    let (count, rest) = part.split_once('x')?;
    if count.is_empty() || !count.chars().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(read_head(count, rest).ok_or_else(|| format!("`{part}` begins no group; {WANTED}")))
}

fn read_head(count: &str, rest: &str) -> Option<Group> {
    let count: usize = count.parse().ok().filter(|count| *count > 0)?;
    let gpus: u32 = match rest {
        "" => 0,
        rest => rest.strip_suffix("gpus").or_else(|| rest.strip_suffix("gpu"))?.parse().ok()?,
    };
    let mut resources: BTreeMap<String, String> =
        DEFAULTS.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect();
    if gpus > 0 {
        resources.insert(GPU.to_owned(), gpus.to_string());
    }
    Some(Group { count, name: String::new(), resources, labels: BTreeMap::new(), taints: BTreeMap::new() })
}

fn property(group: &mut Group, part: &str) -> Result<(), String> {
    let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is no KEY=VALUE; {WANTED}"))?;
    if key == "name" {
        value.clone_into(&mut group.name);
    } else if let Some(label) = key.strip_prefix("label.") {
        group.labels.insert(label.to_owned(), value.to_owned());
    } else if let Some(taint) = key.strip_prefix("taint.") {
        let effect = value.rsplit(':').next().unwrap_or_default();
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(format!("`{part}`: want taint.KEY=VALUE:NoSchedule, :PreferNoSchedule or :NoExecute"));
        }
        group.taints.insert(taint.to_owned(), value.to_owned());
    } else {
        let is_known =
            DEFAULTS.iter().any(|(name, _)| *name == key) || key.contains('/') || key.starts_with("hugepages-");
        if !is_known {
            let known = "cpu, memory, ephemeral-storage, pods, a resource with a slash, name, label.KEY, taint.KEY";
            return Err(format!("`{key}` is nothing that a node has; want one of {known}"));
        }
        Quantity::parse(value).map_err(|_| format!("`{part}`: `{value}` is no amount, such as 64 or 256Gi"))?;
        group.resources.insert(key.to_owned(), value.to_owned());
    }
    Ok(())
}

impl Group {
    fn node(&self, number: usize, position: usize, now: Timestamp) -> Value {
        let width = self.count.saturating_sub(1).to_string().len();
        let name = format!("{}-{number:0width$}", self.name);
        let mut labels: Map<String, Value> = [
            ("kubernetes.io/hostname", name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            (PRETEND, "true"),
        ]
        .map(|(key, value)| (key.to_owned(), value.into()))
        .into_iter()
        .collect();
        labels.extend(self.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
        let taint = |(key, written): (&String, &String)| {
            let (value, effect) = written.rsplit_once(':').unwrap_or(("", written));
            json!({"key": key, "value": value, "effect": effect})
        };
        let taints: Vec<Value> = self.taints.iter().map(taint).collect();
        let spec = if taints.is_empty() { json!({}) } else { json!({ "taints": taints }) };
        let info = json!({"machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "pretend",
            "osImage": "pretend", "containerRuntimeVersion": "pretend://1", "kubeletVersion": "pretend",
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"});
        let addresses = json!([{"type": "InternalIP", "address": node_address(position)},
            {"type": "Hostname", "address": name}]);
        json!({"metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {"capacity": self.resources, "allocatable": self.resources, "addresses": addresses,
                "nodeInfo": info, "conditions": conditions(now)}})
    }
}

/// The network that is set apart for benchmarks: nothing real answers there.
fn node_address(position: usize) -> String {
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 1));
    Ipv4Addr::from(first + u32::try_from(position % 131_000).unwrap_or(0)).to_string()
}

fn conditions(now: Timestamp) -> Vec<Value> {
    let stamp = time::seconds(now);
    let words = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let condition = |(kind, status, reason, message)| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": stamp, "lastTransitionTime": stamp})
    };
    words.map(condition).to_vec()
}

/// What must change of a node that is there from an earlier run: its amounts, labels and taints of ours.
pub fn renewed(stored: &Value, wanted: &Value) -> Option<Value> {
    let is_same = ["capacity", "allocatable"].iter().all(|part| stored["status"][part] == wanted["status"][part]);
    let ready = stored["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready = ready.into_iter().any(|one| text(one, "type") == "Ready" && text(one, "status") == "True");
    if is_same && is_ready {
        return None;
    }
    let gone = |part: &str| {
        let names = stored["status"][part].as_object().into_iter().flatten().map(|(name, _)| name);
        names.filter(|name| wanted["status"][part].get(name.as_str()).is_none()).cloned().collect::<Vec<_>>()
    };
    let mut status = wanted["status"].clone();
    for part in ["capacity", "allocatable"] {
        gone(part).into_iter().for_each(|name| status[part][name] = Value::Null);
    }
    Some(json!({ "status": status }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &str) -> Groups {
        Groups::joined([Groups::parse(words).unwrap()]).unwrap()
    }

    fn names(words: &str) -> Vec<String> {
        let nodes = named(words).nodes(Timestamp::UNIX_EPOCH);
        nodes.iter().map(|node| text(node, "metadata.name").to_owned()).collect()
    }

    #[test]
    fn groups_are_read_and_named() {
        assert_eq!(names("2x8gpu"), ["pretend-0", "pretend-1"]);
        assert_eq!(names("1x8gpu,cpu=64,2x4gpus,name=small"), ["pretend-0", "small-0", "small-1"]);
        assert_eq!(names("1x,1x"), ["pretend-0", "pretend-2-0"]);
        assert_eq!(names("11x8gpu").last().unwrap(), "pretend-10");
        assert_eq!(names("11x8gpu")[3], "pretend-03");
    }

    #[test]
    fn a_node_has_what_was_said_and_the_usual_rest() {
        let words = "1x8gpu,cpu=64,memory=256Gi,label.zone=a,taint.own=x:NoSchedule,example.com/nic=2";
        let node = &named(words).nodes(Timestamp::UNIX_EPOCH)[0];
        let amounts = json!({"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110",
            "ephemeral-storage": "1Ti", "example.com/nic": "2"});
        assert_eq!(node["status"]["allocatable"], amounts);
        assert_eq!(node["metadata"]["labels"]["zone"], "a");
        assert_eq!(node["spec"]["taints"], json!([{"key": "own", "value": "x", "effect": "NoSchedule"}]));
        assert_eq!(renewed(node, node), None);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_wanted() {
        for wrong in [
            "", "8gpu", "0x8gpu", "3x8tpu", "cpu=3", "3x8gpu,cpu", "3x8gpu,cores=8", "3x8gpu,cpu=many",
            "3x8gpu,taint.a=b", "1x,name=a,1x,name=a", "200000x8gpu",
        ] {
            assert!(Groups::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_as_the_same() {
        for words in ["5000x8gpu", "2x,name=cpu-only", "3x4gpu,label.zone=a,taint.k=v:NoExecute,7x1gpu"] {
            let groups = Groups::parse(words).unwrap();
            assert_eq!(Groups::parse(&groups.to_string()).unwrap(), groups, "{groups}");
        }
    }

    #[test]
    fn many_nodes_renew_seldom_and_few_as_a_kubelet() {
        assert_eq!(Groups::parse("5000x8gpu").unwrap().renew_seconds(), 250);
        assert_eq!(Groups::parse("3x8gpu").unwrap().renew_seconds(), 10);
        let groups = Groups::parse("5000x8gpu").unwrap();
        assert_eq!(
            groups.lease(&json!({"metadata": {"name": "n"}}), Timestamp::UNIX_EPOCH)["spec"]["leaseDurationSeconds"],
            1000
        );
    }
}
