//! Reads objects from their JSON for `snapshot`.

use super::amounts::Names;
use super::objects::{
    Budget, Capacity, Choice, Claim, Class, Division, Group, HyperNode, Member, Node, Phase, Queue, Quota, State,
    Topology, Volume,
};
use super::strings::Strings;
use super::terms::{NodeTerm, Taint, list, read_selector, volume_terms};
use super::volumes::SELECTED_NODE;
use crate::launch::label;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::selector::LabelSelector;
use volley_api::kube::{at, text, time};
use volley_api::volcano::keys;

pub const ESTIMATE: &str = "volley.dev/running-estimate";
pub const DOMAIN: &str = "volcano.sh/job-allocated-hypernode";
const PATIENCE: [&str; 2] = ["volcano.sh/sla-waiting-time", "sla-waiting-time"];

pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    at(object, "metadata.annotations").and_then(|marks| marks.get(key)).and_then(Value::as_str).unwrap_or("")
}

/// What a launch queue said how important it is: 0 goes first. It orders those who wait and evicts nobody.
pub fn precedence(object: &Value) -> Option<u8> {
    at(object, "metadata.labels")?.get(label::PRIORITY)?.as_str()?.parse().ok()
}

pub fn seconds(object: &Value, path: &str) -> Option<i64> {
    time::parse(text(object, path)).map(|time| time.as_second())
}

fn duration(text: &str) -> Option<i64> {
    time::parse_duration(text).map(|duration| duration.as_secs())
}

fn integer(object: &Value, path: &str) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

fn count(object: &Value, path: &str) -> usize {
    integer(object, path).and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

/// Everything about a node but its pods.
pub fn node(node: &mut Node, object: &Value, names: &mut Names, strings: &mut Strings) {
    let is_false = |condition: &Value| text(condition, "type") == "Ready" && text(condition, "status") != "True";
    node.is_here = true;
    // One that says nothing of it is as good as ready, as for other schedulers.
    node.is_ready = !list(object, "status.conditions").any(is_false);
    node.is_cordoned = at(object, "spec.unschedulable") == Some(&Value::Bool(true));
    node.labels = strings.labels(at(object, "metadata.labels"));
    node.taints = list(object, "spec.taints").map(Taint::read).collect();
    node.allocatable = names.read(at(object, "status.allocatable"));
}

pub fn state(pod: &Value) -> State {
    let is_bound = !text(pod, "spec.nodeName").is_empty();
    let is_going = !text(pod, "metadata.deletionTimestamp").is_empty();
    match text(pod, "status.phase") {
        "Succeeded" => State::Succeeded,
        "Failed" => State::Failed,
        _ if is_going => State::Leaving,
        "Running" if is_bound => State::Running,
        _ if is_bound => State::Bound,
        _ if list(pod, "spec.schedulingGates").next().is_some() => State::Gated,
        _ => State::Pending,
    }
}

/// When the pod was placed: the last time that it was told so.
pub fn started(pod: &Value) -> Option<i64> {
    let is_it = |condition: &&Value| text(condition, "type") == "PodScheduled" && text(condition, "status") == "True";
    let told = list(pod, "status.conditions").find(is_it).and_then(|it| seconds(it, "lastTransitionTime"));
    told.or_else(|| seconds(pod, "status.startTime"))
}

/// What the pod was told last of its waiting.
pub fn told(pod: &Value) -> &str {
    let is_it = |condition: &&Value| text(condition, "type") == "PodScheduled" && text(condition, "status") == "False";
    list(pod, "status.conditions").find(is_it).map_or("", |condition| text(condition, "message"))
}

/// KEY-2: the annotation, else the label; without either it is.
pub fn is_preemptable(pod: &Value) -> bool {
    let label = at(pod, "metadata.labels").and_then(|labels| labels.get(keys::PREEMPTABLE)).and_then(Value::as_str);
    let mark = Some(annotation(pod, keys::PREEMPTABLE)).filter(|mark| !mark.is_empty());
    mark.or(label).is_none_or(|mark| matches!(mark, "true" | "True" | "TRUE" | "t" | "T" | "1"))
}

pub fn cooldown(pod: &Value) -> i64 {
    let label = at(pod, "metadata.labels").and_then(|labels| labels.get(keys::COOLDOWN)).and_then(Value::as_str);
    let mark = Some(annotation(pod, keys::COOLDOWN)).filter(|mark| !mark.is_empty());
    mark.or(label).and_then(duration).unwrap_or(0)
}

/// The policy, of a pod that is to have whole CPUs of its own.
pub fn numa_policy(pod: &Value) -> Option<String> {
    let policy = Some(annotation(pod, keys::NUMA_POLICY)).filter(|policy| !matches!(*policy, "" | "none"))?;
    let amount = |container: &Value, which: &str, name: &str| {
        at(container, "resources").and_then(|all| all.get(which)).and_then(|list| list.get(name)).map(Value::to_string)
    };
    let is_exact = |container: &Value, name: &str| {
        let limit = amount(container, "limits", name);
        limit.is_some() && amount(container, "requests", name).is_none_or(|asked| Some(asked) == limit)
    };
    let is_guaranteed = list(pod, "spec.containers").all(|one| is_exact(one, "cpu") && is_exact(one, "memory"));
    is_guaranteed.then(|| policy.to_owned())
}

fn topology(object: Option<&Value>) -> Option<Topology> {
    let object = object.filter(|object| object.is_object())?;
    Some(Topology {
        is_hard: text(object, "mode") != "soft",
        highest_tier: integer(object, "highestTierAllowed"),
        highest_tier_name: text(object, "highestTierName").to_owned(),
    })
}

fn division(policy: &Value) -> Division {
    Division {
        size: integer(policy, "subGroupSize").map_or(1, |size| usize::try_from(size).unwrap_or(1).max(1)),
        groups_min: count(policy, "minSubGroups"),
        selector: read_selector(policy.get("labelSelector")),
        keys: list(policy, "matchLabelKeys").filter_map(Value::as_str).map(str::to_owned).collect(),
        topology: topology(policy.get("networkTopology")),
    }
}

pub fn group(object: &Value, default_queue: &str, names: &mut Names, strings: &mut Strings) -> Group {
    let queue = Some(text(object, "spec.queue")).filter(|queue| !queue.is_empty()).unwrap_or(default_queue);
    let minima = at(object, "spec.minTaskMember").and_then(Value::as_object).into_iter().flatten();
    let minima = minima.filter_map(|(task, least)| Some((task, usize::try_from(least.as_i64()?).ok()?)));
    let resources =
        at(object, "spec.minResources").filter(|list| list.as_object().is_some_and(|list| !list.is_empty()));
    Group {
        uid: text(object, "metadata.uid").into(),
        queue: strings.keep(queue),
        class: strings.keep(text(object, "spec.priorityClassName")),
        members_min: count(object, "spec.minMember"),
        tasks_min: minima.filter(|(_, least)| *least > 0).map(|(task, least)| (strings.keep(task), least)).collect(),
        divisions: list(object, "spec.subGroupPolicy").map(division).collect(),
        resources_min: resources.map(|list| min_resources(list, names)),
        phase: Phase::read(text(object, "status.phase")),
        created: seconds(object, "metadata.creationTimestamp").unwrap_or(0),
        topology: topology(at(object, "spec.networkTopology")),
        domain: Some(annotation(object, DOMAIN)).filter(|name| !name.is_empty()).map(|name| strings.keep(name)),
        patience: PATIENCE.iter().find_map(|key| duration(annotation(object, key))),
        estimate: duration(annotation(object, ESTIMATE)),
        precedence: precedence(object),
        status: object.get("status").cloned().unwrap_or_default(),
    }
}

/// A quota's names for the same amounts (`requests.cpu`, `count/pods`) are left out: they would count twice.
fn min_resources(list: &Value, names: &mut Names) -> Vec<i64> {
    let is_plain = |name: &str| !["requests.", "limits.", "count/"].iter().any(|prefix| name.starts_with(prefix));
    let entries = list.as_object().into_iter().flatten().filter(|(name, _)| is_plain(name));
    let plain: serde_json::Map<String, Value> = entries.map(|(name, value)| (name.clone(), value.clone())).collect();
    names.read(Some(&Value::Object(plain)))
}

pub fn queue(object: &Value, names: &mut Names, strings: &mut Strings) -> Queue {
    let mut declared = |path: &str| -> BTreeMap<usize, i64> {
        let list = at(object, path).and_then(Value::as_object).into_iter().flatten();
        let all: Vec<&String> = list.map(|(name, _)| name).collect();
        let amounts = names.read(at(object, path));
        all.into_iter().filter_map(|name| names.find(name)).filter_map(|at| Some((at, *amounts.get(at)?))).collect()
    };
    let (capability, deserved) = (declared("spec.capability"), declared("spec.deserved"));
    let group = |path: &str| list(object, path).filter_map(Value::as_str).map(str::to_owned).collect();
    Queue {
        weight: integer(object, "spec.weight").unwrap_or(1).max(1),
        priority: integer(object, "spec.priority").unwrap_or(0),
        capability,
        deserved,
        guarantee: names.read(at(object, "spec.guarantee.resource")),
        is_reclaimable: at(object, "spec.reclaimable") != Some(&Value::Bool(false)),
        parent: Some(text(object, "spec.parent")).filter(|parent| !parent.is_empty()).map(|name| strings.keep(name)),
        path: path(object),
        state: text(object, "status.state").to_owned(),
        created: seconds(object, "metadata.creationTimestamp").unwrap_or(0),
        groups: [
            group("spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
            group("spec.affinity.nodeGroupAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
            group("spec.affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution"),
            group("spec.affinity.nodeGroupAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"),
        ],
    }
}

/// Where the queue stands below the root, if its annotations say so (ADM-43).
fn path(queue: &Value) -> Vec<(String, i64)> {
    let (steps, weights) = (annotation(queue, keys::HIERARCHY), annotation(queue, keys::HIERARCHY_WEIGHTS));
    let weights = weights.split('/').map(|weight| weight.trim().parse::<f64>().unwrap_or(1.0));
    let steps = steps.split('/').zip(weights).filter(|(step, _)| !step.is_empty()).skip(1);
    steps.map(|(step, weight)| (step.to_owned(), ((weight * 1000.0) as i64).clamp(1, 1 << 40))).collect()
}

pub fn budget(object: &Value) -> Budget {
    Budget {
        namespace: text(object, "metadata.namespace").to_owned(),
        selector: read_selector(at(object, "spec.selector")),
        allowed: integer(object, "status.disruptionsAllowed").unwrap_or(0),
    }
}

fn size(object: &Value, path: &str) -> Quantity {
    let size = at(object, path).and_then(|sizes| sizes.get("storage")).and_then(Value::as_str);
    size.and_then(|size| Quantity::parse(size).ok()).unwrap_or(Quantity::ZERO)
}

fn modes(object: &Value) -> Vec<String> {
    list(object, "spec.accessModes").filter_map(Value::as_str).map(str::to_owned).collect()
}

pub fn claim(object: &Value) -> Claim {
    let chosen = text(object, "spec.volumeName");
    let volume = if text(object, "status.phase") == "Bound" { chosen } else { "" };
    let selector = at(object, "spec.selector").filter(|selector| !selector.is_null());
    let is_owner = |owner: &&Value| text(owner, "kind") == "Pod" && owner.get("controller") == Some(&Value::Bool(true));
    let owner = list(object, "metadata.ownerReferences").find(is_owner);
    Claim {
        uid: text(object, "metadata.uid").to_owned(),
        volume: volume.to_owned(),
        chosen: chosen.to_owned(),
        class: text(object, "spec.storageClassName").to_owned(),
        node: annotation(object, SELECTED_NODE).to_owned(),
        size: size(object, "spec.resources.requests"),
        modes: modes(object),
        is_block: text(object, "spec.volumeMode") == "Block",
        selector: selector.map_or_else(LabelSelector::everything, |selector| read_selector(Some(selector))),
        owner: owner.map_or("", |owner| text(owner, "name")).to_owned(),
        is_leaving: !text(object, "metadata.deletionTimestamp").is_empty(),
    }
}

pub fn volume(object: &Value, strings: &mut Strings) -> Volume {
    let part = |path: &str| text(object, path).to_owned();
    let owner = || ((part("spec.claimRef.namespace"), part("spec.claimRef.name")), part("spec.claimRef.uid"));
    let driver = part("spec.csi.driver");
    Volume {
        version: part("metadata.resourceVersion"),
        terms: volume_terms(object),
        class: part("spec.storageClassName"),
        size: size(object, "spec.capacity"),
        modes: modes(object),
        is_block: text(object, "spec.volumeMode") == "Block",
        labels: strings.labels(at(object, "metadata.labels")),
        owner: at(object, "spec.claimRef").filter(|reference| reference.is_object()).map(|_| owner()),
        is_available: text(object, "status.phase") == "Available"
            && text(object, "metadata.deletionTimestamp").is_empty(),
        handle: (!driver.is_empty()).then(|| (driver, part("spec.csi.volumeHandle"))),
    }
}

/// By driver, how many volumes may be attached to a CSINode's node.
pub fn volumes_max(object: &Value) -> BTreeMap<String, usize> {
    let limit = |driver: &Value| {
        let count = integer(driver, "allocatable.count").and_then(|count| usize::try_from(count).ok())?;
        Some((text(driver, "name").to_owned(), count))
    };
    list(object, "spec.drivers").filter_map(limit).collect()
}

pub fn class(object: &Value) -> Class {
    Class {
        waits_for_pod: text(object, "volumeBindingMode") == "WaitForFirstConsumer",
        provisioner: text(object, "provisioner").to_owned(),
        terms: list(object, "allowedTopologies").map(NodeTerm::of_topology).collect(),
    }
}

/// Nothing where it says of no nodes, or nothing of sizes.
pub fn capacity(object: &Value) -> Option<Capacity> {
    let size = |name: &str| object.get(name).and_then(Value::as_str).and_then(|size| Quantity::parse(size).ok());
    let nodes = object.get("nodeTopology").filter(|nodes| nodes.is_object())?;
    Some(Capacity {
        class: text(object, "storageClassName").to_owned(),
        nodes: NodeTerm::of_selector(nodes),
        largest: size("maximumVolumeSize").or_else(|| size("capacity"))?,
    })
}

/// How many pods of each of its groups start together; one that is no gang is as good as single pods.
pub fn workload(object: &Value) -> BTreeMap<String, usize> {
    let least = |group: &Value| count(group, "policy.gang.minCount").max(1);
    list(object, "spec.podGroups").map(|group| (text(group, "name").to_owned(), least(group))).collect()
}

pub fn quota(object: &Value) -> Quota {
    let amounts = |path: &str| {
        let entries = at(object, path).and_then(Value::as_object).into_iter().flatten();
        let amount = |value: &Value| Some(Quantity::parse(value.as_str()?).ok()?.milli_value());
        entries.filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
    };
    let namespace = text(object, "metadata.namespace").to_owned();
    Quota { namespace, hard: amounts("spec.hard"), used: amounts("status.used") }
}

pub fn hyper_node(object: &Value) -> HyperNode {
    let member = |member: &Value| {
        let pattern = text(member, "selector.regexMatch.pattern");
        let name = text(member, "selector.exactMatch.name");
        let choice = if !name.is_empty() {
            Choice::Name(name.to_owned())
        } else if !pattern.is_empty() {
            Choice::Pattern(regex::Regex::new(pattern).ok())
        } else {
            Choice::Labels(read_selector(at(member, "selector.labelMatch")))
        };
        Member { is_node: text(member, "type") != "HyperNode", choice }
    };
    HyperNode {
        tier: integer(object, "spec.tier").unwrap_or(0),
        tier_name: text(object, "spec.tierName").to_owned(),
        members: list(object, "spec.members").map(member).collect(),
    }
}

/// Free whole CPUs by NUMA cell, in thousandths, from a Numatopology.
pub fn numa_cells(object: &Value) -> Vec<i64> {
    let mut cells: BTreeMap<String, i64> = BTreeMap::new();
    let free = cpu_set(text(object, "spec.numares.cpu.allocatable"));
    for (cpu, detail) in at(object, "spec.cpuDetail").and_then(Value::as_object).into_iter().flatten() {
        let cell = cells.entry(detail.get("numa").map(Value::to_string).unwrap_or_default()).or_default();
        if cpu.parse().is_ok_and(|cpu| free.iter().any(|(first, last)| (*first..=*last).contains(&cpu))) {
            *cell += 1000;
        }
    }
    cells.into_values().collect()
}

/// `0-3,8`
fn cpu_set(text: &str) -> Vec<(u32, u32)> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.split(',').filter_map(range).collect()
}
