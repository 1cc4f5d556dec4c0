//! A cluster as people look at it: nodes and their GPUs, who holds which, what waits and the one reason, what happened last.
//!
//! The agent tells it to the server (`agent::picture`), which adds whose runs they are; the web page draws it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text, time};

use crate::launch::label;

const GPU: &str = "nvidia.com/gpu";
const GROUP: &str = "scheduling.k8s.io/group-name";
const PRODUCT: &str = "nvidia.com/gpu.product";
const COUNT: &str = "nvidia.com/gpu.count";
const FAKE: &str = "volley.dev/fake-gpus";
/// What the embedded cluster's node tells of its GPUs beside its processor and memory.
pub const GPU_USAGE: &str = "volley.dev/gpu-usage";

/// More nodes are counted and not drawn: nobody can look at them.
const NODES_MAX: usize = 256;
const WAITING_MAX: usize = 100;
pub const EVENTS_MAX: usize = 50;
const WORDS_MAX: usize = 400;

/// What was seen of a cluster; all lists are in the order of their names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen<'a> {
    pub nodes: &'a [&'a Value],
    pub pods: &'a [&'a Value],
    pub groups: &'a [&'a Value],
    pub events: &'a [&'a Value],
    /// `NodeMetrics`, where somebody measures.
    pub metrics: &'a [Value],
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Picture {
    pub nodes: Vec<Node>,
    pub nodes_total: usize,
    pub waiting: Vec<Waiting>,
    /// The newest first.
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    pub name: String,
    /// `ready`, `cordoned` or `lost`.
    pub state: &'static str,
    pub product: Option<String>,
    pub is_pretended: bool,
    pub gpus: Vec<Gpu>,
    /// Of processors in thousandths, and of memory in bytes: what pods were promised, and what there is.
    pub cpu: Share,
    pub memory: Share,
    pub pods: Vec<Holder>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub held: i64,
    pub total: i64,
}

/// One GPU; what nobody measures is not told.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Gpu {
    pub id: Option<String>,
    /// Which of the node's pods hold it; several where GPUs are shared.
    pub held_by: Vec<usize>,
    pub utilisation_percent: Option<u64>,
    pub memory_used_mib: Option<u64>,
    pub memory_total_mib: Option<u64>,
    pub is_healthy: bool,
}

/// A pod that takes room on a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holder {
    pub namespace: String,
    pub pod: String,
    /// The key of the item that it runs for.
    pub item: Option<String>,
    pub gpus: i64,
}

/// Pods that start together or not at all, and have no node yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waiting {
    pub namespace: String,
    pub name: String,
    pub item: Option<String>,
    pub pods: usize,
    pub gpus: i64,
    pub since: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub at: String,
    pub is_warning: bool,
    pub reason: String,
    pub namespace: String,
    pub about: String,
    pub message: String,
    /// The key of the item that it is about.
    pub item: Option<String>,
}

/// What of an object a picture needs; the rest of a large cluster need not be kept.
pub fn kept(kind: &str, object: &Value) -> Value {
    let pick = |paths: &[&str]| {
        let mut kept = json!({});
        for path in paths {
            if let Some(value) = at(object, path) {
                put(&mut kept, path, value.clone());
            }
        }
        kept
    };
    let meta = ["metadata.name", "metadata.namespace", "metadata.uid", "metadata.creationTimestamp"];
    let own: &[&str] = match kind {
        "Node" => &["metadata.labels", "spec.unschedulable", "status.allocatable", "status.conditions"],
        "Pod" => &[
            "metadata.labels", "metadata.annotations", "spec.nodeName", "spec.containers", "status.phase",
            "status.conditions", "status.containerStatuses",
        ],
        "PodGroup" => &["status.conditions"],
        _ => &["type", "reason", "message", "involvedObject", "lastTimestamp", "eventTime", "firstTimestamp"],
    };
    let mut kept = pick(&[&meta, own].concat());
    match kind {
        "Pod" => slim_pod(&mut kept),
        "Node" => slim_node(&mut kept),
        _ => (),
    }
    kept
}

/// Containers have programs and variables, which a picture does not need and must not tell.
fn slim_pod(pod: &mut Value) {
    let containers = |list: &Value, field: &str| -> Value {
        let all = list.as_array().into_iter().flatten();
        all.map(|each| picked(each, &[field])).collect()
    };
    pod["spec"]["containers"] = containers(&pod["spec"]["containers"], "resources");
    pod["status"]["containerStatuses"] = containers(&pod["status"]["containerStatuses"], "allocatedResourcesStatus");
    pod["metadata"]["annotations"] = picked(&pod["metadata"]["annotations"], &[GROUP]);
    pod["metadata"]["labels"] = picked(&pod["metadata"]["labels"], &[label::ITEM]);
    keep_condition(pod, "PodScheduled");
}

fn slim_node(node: &mut Value) {
    node["metadata"]["labels"] = picked(&node["metadata"]["labels"], &[PRODUCT, COUNT, FAKE]);
    node["status"]["allocatable"] = picked(&node["status"]["allocatable"], &["cpu", "memory", GPU]);
    keep_condition(node, "Ready");
}

fn keep_condition(object: &mut Value, kind: &str) {
    let own = conditions(object).filter(|each| each["type"] == kind);
    object["status"]["conditions"] = own.map(|each| picked(each, &["type", "status", "message"])).collect();
}

fn picked(object: &Value, fields: &[&str]) -> Value {
    let found = fields.iter().filter_map(|field| Some(((*field).to_owned(), object.get(field)?.clone())));
    Value::Object(found.collect())
}

fn put(object: &mut Value, path: &str, value: Value) {
    match path.split_once('.') {
        Some((first, rest)) => put(&mut object[first], rest, value),
        None => object[path] = value,
    }
}

pub fn draw(seen: &Seen<'_>, now: Timestamp) -> Picture {
    // By the node that they are on; those that wait have none.
    let mut pods: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in seen.pods.iter().filter(|pod| !is_over(pod)) {
        pods.entry(text(pod, "spec.nodeName")).or_default().push(pod);
    }
    let metrics: BTreeMap<&str, &Value> = seen.metrics.iter().map(|each| (text(each, "metadata.name"), each)).collect();
    let on = |name: &str| pods.get(name).map_or(&[][..], Vec::as_slice);
    let mut nodes: Vec<(usize, &str, &Value)> = Vec::new();
    for node in seen.nodes {
        let name = text(node, "metadata.name");
        nodes.push((gpus(node, &[], metrics.get(name).copied()).len(), name, node));
    }
    // What is drawn of a cluster that is too large is where the GPUs are.
    nodes.sort_by_key(|(gpus, name, _)| (Reverse(*gpus), *name));
    let drawn = nodes.iter().take(NODES_MAX);
    let drawn = drawn.map(|(_, name, node)| draw_node(node, on(name), metrics.get(name).copied()));
    Picture {
        nodes: drawn.collect(),
        nodes_total: nodes.len(),
        waiting: waiting(on(""), seen.groups, now),
        events: events(seen),
    }
}

fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "status.phase"), "Succeeded" | "Failed")
}

fn draw_node(node: &Value, own: &[&Value], metrics: Option<&Value>) -> Node {
    let labels = &node["metadata"]["labels"];
    let condition = conditions(node).find(|each| each["type"] == "Ready");
    let is_ready = condition.is_some_and(|each| each["status"] == "True");
    let state = match (is_ready, node["spec"]["unschedulable"] == true) {
        (false, _) => "lost",
        (true, true) => "cordoned",
        (true, false) => "ready",
    };
    let share = |resource: &str, unit: fn(Quantity) -> i64| {
        let total = amount(&node["status"]["allocatable"][resource]).map_or(0, unit);
        Share { held: own.iter().map(|pod| promised(pod, resource, unit)).sum(), total }
    };
    Node {
        name: text(node, "metadata.name").to_owned(),
        state,
        product: labels[PRODUCT].as_str().map(str::to_owned),
        is_pretended: labels[FAKE].is_string(),
        gpus: gpus(node, own, metrics),
        cpu: share("cpu", Quantity::milli_value),
        memory: share("memory", Quantity::value),
        pods: own.iter().map(|pod| holder(pod)).collect(),
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))?;
    Quantity::parse(&text).ok()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["spec"]["containers"].as_array().into_iter().flatten()
}

fn promised(pod: &Value, resource: &str, unit: fn(Quantity) -> i64) -> i64 {
    let asked = |container: &Value| {
        let resources = &container["resources"];
        amount(&resources["requests"][resource]).or_else(|| amount(&resources["limits"][resource]))
    };
    containers(pod).filter_map(asked).map(unit).sum()
}

/// The key of the item that the pod runs for.
fn item(pod: &Value) -> Option<String> {
    pod["metadata"]["labels"][label::ITEM].as_str().map(str::to_owned)
}

fn holder(pod: &Value) -> Holder {
    Holder {
        namespace: text(pod, "metadata.namespace").to_owned(),
        pod: text(pod, "metadata.name").to_owned(),
        item: item(pod),
        gpus: promised(pod, GPU, Quantity::value),
    }
}

/// The node's GPUs: those that are measured by their names, else as many as it offers.
fn gpus(node: &Value, own: &[&Value], metrics: Option<&Value>) -> Vec<Gpu> {
    // Shared GPUs are offered several times each; how many there are is a label then.
    let labelled = node["metadata"]["labels"][COUNT].as_str().and_then(|count| count.parse::<i64>().ok());
    let offered = amount(&node["status"]["allocatable"][GPU]).map_or(0, |all| all.value());
    let count = labelled.map_or(offered, |count| count.min(offered));
    let told = metrics.and_then(|metrics| metrics["metadata"]["annotations"][GPU_USAGE].as_str());
    let measured: Vec<Value> = told.and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default();
    let mut gpus: Vec<Gpu> = measured.iter().map(measure).collect();
    let count = usize::try_from(count).unwrap_or(0).min(1024);
    while gpus.len() < count {
        gpus.push(Gpu { is_healthy: true, ..Gpu::default() });
    }
    let mut unnamed = Vec::new();
    for (number, pod) in own.iter().enumerate() {
        let devices = devices(pod);
        for device in &devices {
            grant(&mut gpus, device, number);
        }
        let rest = promised(pod, GPU, Quantity::value) - i64::try_from(devices.len()).unwrap_or(0);
        unnamed.extend((0..rest.max(0)).map(|_| number));
    }
    // Whose devices the node does not tell have some of those that nobody else has.
    for number in unnamed {
        if let Some(free) = gpus.iter_mut().min_by_key(|gpu| gpu.held_by.len()) {
            free.held_by.push(number);
        }
    }
    gpus.sort_by(|one, other| (one.id.is_none(), &one.id).cmp(&(other.id.is_none(), &other.id)));
    gpus
}

fn measure(told: &Value) -> Gpu {
    Gpu {
        id: told["uuid"].as_str().map(str::to_owned),
        held_by: Vec::new(),
        utilisation_percent: told["utilisationPercent"].as_u64(),
        memory_used_mib: told["memoryUsedMib"].as_u64(),
        memory_total_mib: told["memoryTotalMib"].as_u64(),
        is_healthy: told["isHealthy"].as_bool().unwrap_or(true),
    }
}

/// A slice of a shared GPU is named after it, with a number behind.
fn grant(gpus: &mut [Gpu], device: &str, holder: usize) {
    let name = device.split("::").next().unwrap_or(device);
    let known = gpus.iter().position(|gpu| gpu.id.as_deref() == Some(name));
    let Some(place) = known.or_else(|| gpus.iter().position(|gpu| gpu.id.is_none())) else { return };
    gpus[place].id = Some(name.to_owned());
    if !gpus[place].held_by.contains(&holder) {
        gpus[place].held_by.push(holder);
    }
}

fn devices(pod: &Value) -> Vec<String> {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let resources = statuses.filter_map(|status| status["allocatedResourcesStatus"].as_array()).flatten();
    let own = resources.filter_map(|resource| resource["resources"].as_array()).flatten();
    own.filter_map(|device| device["resourceID"].as_str().map(str::to_owned)).collect()
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    at(object, "status.conditions").and_then(Value::as_array).into_iter().flatten()
}

fn waiting(pods: &[&Value], groups: &[&Value], now: Timestamp) -> Vec<Waiting> {
    let mut gangs: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for pod in pods {
        let group = pod["metadata"]["annotations"][GROUP].as_str();
        let name = group.unwrap_or_else(|| text(pod, "metadata.name"));
        gangs.entry((text(pod, "metadata.namespace"), name)).or_default().push(pod);
    }
    let now = time::seconds(now);
    let since = |pods: &[&Value]| {
        let first = pods.iter().map(|pod| text(pod, "metadata.creationTimestamp")).min().unwrap_or_default();
        if first.is_empty() { now.clone() } else { first.to_owned() }
    };
    let mut all: Vec<_> = gangs.into_iter().map(|(key, pods)| (since(&pods), key, pods)).collect();
    all.sort_by(|one, other| (&one.0, one.1.1).cmp(&(&other.0, other.1.1)));
    let told = |(since, (namespace, name), pods): (String, (&str, &str), Vec<&Value>)| {
        let is_own =
            |group: &&&Value| text(group, "metadata.name") == name && text(group, "metadata.namespace") == namespace;
        let group = groups.iter().find(is_own).and_then(|group| reason(group, "Unschedulable", "True"));
        let pod = || pods.iter().find_map(|pod| reason(pod, "PodScheduled", "False"));
        Waiting {
            item: pods.iter().find_map(|pod| item(pod)),
            pods: pods.len(),
            gpus: pods.iter().map(|pod| promised(pod, GPU, Quantity::value)).sum(),
            since,
            reason: group.or_else(pod).unwrap_or_default(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    };
    all.into_iter().take(WAITING_MAX).map(told).collect()
}

/// The last word of a condition.
fn reason(object: &Value, kind: &str, status: &str) -> Option<String> {
    let found = conditions(object).filter(|each| each["type"] == kind && each["status"] == status).last()?;
    found["message"].as_str().filter(|message| !message.is_empty()).map(brief)
}

fn brief(words: &str) -> String {
    words.chars().take(WORDS_MAX).collect()
}

/// When an event was last seen; empty where it does not say.
pub fn event_time(event: &Value) -> &str {
    let times = ["lastTimestamp", "eventTime", "metadata.creationTimestamp"];
    times.into_iter().map(|path| text(event, path)).find(|time| !time.is_empty()).unwrap_or_default()
}

/// Where the item of an event is noted: its pod may be gone when people look at it.
pub const ITEM: &str = "item";

/// The item that an event is about: its pod's, or that of the pods that are called after the object.
pub fn item_of<'a>(event: &Value, pods: impl Iterator<Item = &'a Value>) -> Option<String> {
    let (namespace, name) = (text(event, "involvedObject.namespace"), text(event, "involvedObject.name"));
    let is_named = |pod: &str| pod.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let is_own = |pod: &&Value| text(pod, "metadata.namespace") == namespace && is_named(text(pod, "metadata.name"));
    let mut own = pods.filter(|_| !name.is_empty()).filter(is_own);
    own.find_map(item)
}

fn events(seen: &Seen<'_>) -> Vec<Event> {
    let mut all: Vec<(&str, &&Value)> = seen.events.iter().map(|event| (event_time(event), event)).collect();
    all.sort_by_key(|(time, event)| (Reverse(*time), text(event, "metadata.name")));
    let ours: Vec<&Value> = seen.pods.iter().copied().filter(|pod| item(pod).is_some()).collect();
    let told = |(time, event): (&str, &&Value)| {
        let about = &event["involvedObject"];
        Event {
            at: time.to_owned(),
            is_warning: event["type"] == "Warning",
            reason: text(event, "reason").to_owned(),
            namespace: text(about, "namespace").to_owned(),
            about: format!("{} {}", text(about, "kind"), text(about, "name")),
            message: brief(text(event, "message")),
            item: event[ITEM].as_str().map(str::to_owned).or_else(|| item_of(event, ours.iter().copied())),
        }
    };
    all.into_iter().take(EVENTS_MAX).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, gpus: u32) -> Value {
        json!({ "metadata": { "name": name, "labels": { PRODUCT: "NVIDIA-H200" } },
            "status": { "allocatable": { "cpu": "8", "memory": "16Gi", GPU: gpus.to_string() },
                "conditions": [{ "type": "Ready", "status": "True" }] } })
    }

    fn pod(name: &str, node: &str, gpus: u32, devices: &[&str]) -> Value {
        let own: Vec<Value> = devices.iter().map(|device| json!({ "resourceID": device })).collect();
        json!({ "metadata": { "name": name, "namespace": "ml", "labels": { label::ITEM: "key" },
                "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "env": [{ "name": "KEY", "value": "secret" }],
                "resources": { "limits": { GPU: gpus, "cpu": "500m" } } }] },
            "status": { "phase": "Running",
                "containerStatuses": [{ "allocatedResourcesStatus": [{ "name": GPU, "resources": own }] }] } })
    }

    fn drawn(nodes: &[Value], pods: &[Value]) -> Picture {
        let (nodes, pods): (Vec<Value>, Vec<Value>) =
            (nodes.iter().map(|node| kept("Node", node)).collect(), pods.iter().map(|pod| kept("Pod", pod)).collect());
        let (nodes, pods): (Vec<&Value>, Vec<&Value>) = (nodes.iter().collect(), pods.iter().collect());
        draw(&Seen { nodes: &nodes, pods: &pods, ..Seen::default() }, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn an_empty_cluster_is_an_empty_picture() {
        assert_eq!(drawn(&[], &[]), Picture::default());
    }

    #[test]
    fn every_gpu_is_drawn_once_with_the_pod_that_has_it() {
        let pods = [pod("a", "n1", 1, &["GPU-2"]), pod("b", "n1", 2, &[]), pod("gone", "n2", 4, &[])];
        let picture = drawn(&[node("n1", 4)], &pods);
        let seen: Vec<(Option<&str>, &[usize])> =
            picture.nodes[0].gpus.iter().map(|gpu| (gpu.id.as_deref(), &gpu.held_by[..])).collect();
        assert_eq!(seen, [(Some("GPU-2"), &[0][..]), (None, &[1]), (None, &[1]), (None, &[])]);
        assert_eq!(picture.nodes[0].cpu, Share { held: 1000, total: 8000 });
        assert_eq!(
            picture.nodes[0].pods[1],
            Holder { namespace: "ml".into(), pod: "b".into(), item: Some("key".into()), gpus: 2 }
        );
    }

    #[test]
    fn what_is_kept_of_a_pod_has_none_of_its_variables() {
        let kept = kept("Pod", &pod("a", "n1", 1, &["GPU-2"])).to_string();
        assert!(!kept.contains("secret") && kept.contains("GPU-2"), "{kept}");
    }

    #[test]
    fn measured_gpus_say_how_busy_they_are_and_shared_ones_who_shares_them() {
        let usage = json!([{ "uuid": "GPU-1", "utilisationPercent": 97, "memoryUsedMib": 10, "memoryTotalMib": 80,
            "isHealthy": true }]);
        let metrics = [json!({ "metadata": { "name": "n1", "annotations": { GPU_USAGE: usage.to_string() } } })];
        let pods = [pod("a", "n1", 1, &["GPU-1::0"]), pod("b", "n1", 1, &["GPU-1::1"])];
        let (one, pods) = (node("n1", 1), pods.iter().collect::<Vec<_>>());
        let picture =
            draw(&Seen { nodes: &[&one], pods: &pods, metrics: &metrics, ..Seen::default() }, Timestamp::UNIX_EPOCH);
        let gpu = &picture.nodes[0].gpus[0];
        assert_eq!(
            (gpu.utilisation_percent, gpu.memory_total_mib, &gpu.held_by[..]),
            (Some(97), Some(80), &[0, 1][..])
        );
    }

    #[test]
    fn a_gang_that_waits_is_told_once_with_its_groups_reason() {
        let mut pods = [pod("r-0", "", 4, &[]), pod("r-1", "", 4, &[])];
        for pod in &mut pods {
            pod["metadata"]["annotations"] = json!({ GROUP: "g" });
            pod["status"] = json!({ "phase": "Pending", "conditions":
                [{ "type": "PodScheduled", "status": "False", "message": "of one pod" }] });
        }
        let group = json!({ "metadata": { "name": "g", "namespace": "ml" }, "status": { "conditions": [
            { "type": "Unschedulable", "status": "True", "message": "needs 8 nvidia.com/gpu together, 6 free" }] } });
        let pods: Vec<&Value> = pods.iter().collect();
        let seen = Seen { pods: &pods, ..Seen::default() };
        assert_eq!(draw(&seen, Timestamp::UNIX_EPOCH).waiting[0].reason, "of one pod");
        let waiting = draw(&Seen { groups: &[&group], ..seen }, Timestamp::UNIX_EPOCH).waiting;
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].pods, waiting[0].gpus), (2, 8));
        assert_eq!(waiting[0].reason, "needs 8 nvidia.com/gpu together, 6 free");
    }

    #[test]
    fn a_node_that_does_not_answer_is_lost_and_a_cordoned_one_says_so() {
        let (mut lost, mut cordoned) = (node("a", 0), node("b", 0));
        lost["status"]["conditions"][0]["status"] = json!("Unknown");
        cordoned["spec"]["unschedulable"] = json!(true);
        let states: Vec<&str> =
            drawn(&[lost, cordoned, node("c", 0)], &[]).nodes.iter().map(|node| node.state).collect();
        assert_eq!(states, ["lost", "cordoned", "ready"]);
    }

    #[test]
    fn events_are_told_newest_first_and_not_all_of_them() {
        let all: Vec<Value> = (0..60)
            .map(|second| {
                json!({ "type": "Normal", "reason": "Scheduled", "message": "bound",
                    "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
                    "involvedObject": { "kind": "Pod", "name": "p", "namespace": "ml" } })
            })
            .collect();
        let all: Vec<&Value> = all.iter().collect();
        let told = draw(&Seen { events: &all, ..Seen::default() }, Timestamp::UNIX_EPOCH).events;
        assert_eq!((told.len(), told[0].at.as_str()), (EVENTS_MAX, "2026-01-01T00:00:59Z"));
        assert_eq!((told[0].about.as_str(), told[0].item.as_deref()), ("Pod p", None));
        let pod = pod("p", "n1", 0, &[]);
        let told = draw(&Seen { events: &all, pods: &[&pod], ..Seen::default() }, Timestamp::UNIX_EPOCH).events;
        assert_eq!(told[0].item.as_deref(), Some("key"), "whose it is decides who may read it");
    }
}
