//! A plain scheduler: one pod after the other onto a node with room, or the reasons why there is none.
//!
//! Called with the pods that wait, all nodes and what is placed on them. It knows readiness, cordons, taints, node
//! selectors, required node affinity, host ports and resource requests; it neither scores nodes nor preempts pods.

use super::quota::{Usage, usage};
use super::suitability::{HostPort, host_ports, unsuitable};
use super::{Action, Event, EventType, Plan, Target};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text, time};

pub const COMPONENT: &str = "default-scheduler";
/// Only so many pods, those whose turn is next, hear new numbers while their reason stays the same: otherwise every pod
/// that ends would rewrite all that wait.
const RETOLD_MAX: usize = 32;
/// How many nodes' numbers, and of each how many holders, a message names.
const NODES_SHOWN: usize = 3;
const HOLDERS_SHOWN: usize = 3;
/// An event's message may have 1024 bytes.
const MESSAGE_BYTES_MAX: usize = 1000;

#[derive(Debug)]
pub struct Observed<'a> {
    /// Pods that want a node.
    pub waiting: &'a [Value],
    pub nodes: &'a [Value],
    /// Pods that are on a node and have not ended.
    pub placed: &'a [Value],
}

/// A pod and the node it shall go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub pod: Target,
    pub node: String,
}

impl Binding {
    /// The event that tells of a binding that has landed (spec K 16.2).
    pub fn event(&self) -> Event {
        let namespace = self.pod.namespace.as_deref().unwrap_or_default();
        let message = format!("Successfully assigned {namespace}/{} to {}", self.pod.name, self.node);
        event(EventType::Normal, "Scheduled", message, self.pod.clone())
    }
}

/// Every waiting pod is either bound or, in `unplaced`, told why not.
#[derive(Debug, Default)]
pub struct Placement {
    pub bind: Vec<Binding>,
    pub unplaced: Plan,
}

/// A node, what is left of it, and who has the rest.
struct Room<'a> {
    node: &'a Value,
    free: Usage,
    held: Vec<(&'a Value, Usage)>,
}

impl<'a> Room<'a> {
    fn name(&self) -> &'a str {
        text(self.node, "metadata.name")
    }

    fn give(&mut self, pod: &'a Value, amounts: Usage) {
        take(&mut self.free, &amounts);
        self.held.push((pod, amounts));
    }

    fn left(&self, resource: &str) -> Quantity {
        self.free.get(resource).copied().unwrap_or(Quantity::ZERO)
    }
}

pub fn place(seen: &Observed, now: Timestamp) -> Placement {
    let room = |node| Room { node, free: allocatable(node), held: Vec::new() };
    let mut rooms: Vec<Room> = seen.nodes.iter().map(room).collect();
    rooms.sort_by_key(Room::name);
    let by_name: BTreeMap<&str, usize> = rooms.iter().enumerate().map(|(at, room)| (room.name(), at)).collect();
    for pod in seen.placed {
        if let Some(at) = by_name.get(text(pod, "spec.nodeName")) {
            rooms[*at].give(pod, requests(pod));
        }
    }
    let mut waiting: Vec<&Value> = seen.waiting.iter().collect();
    waiting.sort_by_key(|pod| {
        let priority = at(pod, "spec.priority").and_then(Value::as_i64).unwrap_or(0);
        let name = (text(pod, "metadata.namespace"), text(pod, "metadata.name"));
        (Reverse(priority), text(pod, "metadata.creationTimestamp"), name)
    });
    let mut placement = Placement::default();
    let mut unplaced = 0;
    for pod in waiting {
        let wish = requests(pod);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut chosen = None;
        for (position, room) in rooms.iter().enumerate() {
            let refusals = refusals(room, pod, &wish);
            if refusals.is_empty() {
                chosen = Some(position);
                break;
            }
            refusals.into_iter().for_each(|reason| *reasons.entry(reason).or_default() += 1);
        }
        match chosen {
            Some(position) => {
                rooms[position].give(pod, wish);
                let node = rooms[position].name().to_owned();
                placement.bind.push(Binding { pod: target(pod), node });
            }
            None => {
                let reason = why(rooms.len(), &reasons);
                unplaced += 1;
                if unplaced <= RETOLD_MAX || !told(pod).starts_with(&reason) {
                    let message = with_numbers(reason, &rooms, pod, &wish);
                    tell(pod, message, now, &mut placement.unplaced);
                }
            }
        }
    }
    placement
}

fn target(pod: &Value) -> Target {
    Target {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some(text(pod, "metadata.namespace").to_owned()),
        name: text(pod, "metadata.name").to_owned(),
        uid: text(pod, "metadata.uid").to_owned(),
    }
}

fn event(kind: EventType, reason: &str, message: String, about: Target) -> Event {
    Event { kind, reason: reason.to_owned(), message, about, component: COMPONENT, field_path: None }
}

/// `0/1 nodes are available: 1 Insufficient cpu.`
fn why(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut listed: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    listed.sort();
    format!("0/{nodes} nodes are available: {}.", listed.join(", "))
}

/// The reason, and after it what of which node was asked for, is free, is there in all, and who has it:
/// `Node n: nvidia.com/gpu asked 2, free 1 of 4; held by default/a (2), default/b (1).`
fn with_numbers(reason: String, rooms: &[Room], pod: &Value, wish: &Usage) -> String {
    let is_suitable = |room: &&Room| unsuitable(room.node, pod).is_none();
    let mut message = reason;
    for room in rooms.iter().filter(is_suitable).take(NODES_SHOWN) {
        let parts: Vec<String> = match port_clash(room, pod) {
            Some((port, holder)) => vec![format!("host port {port} is held by {}", full_name(holder))],
            None => short_of(room, wish).map(|(name, asked)| numbers(room, name, asked)).collect(),
        };
        let sentence = format!(" Node {}: {}.", room.name(), parts.join("; "));
        if message.len() + sentence.len() > MESSAGE_BYTES_MAX {
            break;
        }
        message += &sentence;
    }
    message
}

fn numbers(room: &Room, resource: &str, asked: Quantity) -> String {
    let total = allocatable(room.node).get(resource).copied().unwrap_or(Quantity::ZERO);
    let free = room.left(resource).max(Quantity::ZERO);
    let mut text = format!("{resource} asked {asked}, free {free} of {total}");
    // Every pod counts as one of them; a list of names would say nothing.
    if resource == "pods" {
        return text;
    }
    let amount = |held: &Usage| held.get(resource).copied().filter(|amount| !amount.is_zero());
    let mut holders: Vec<(Quantity, String)> =
        room.held.iter().filter_map(|(pod, held)| Some((amount(held)?, full_name(pod)))).collect();
    holders.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    let shown: Vec<String> =
        holders.iter().take(HOLDERS_SHOWN).map(|(amount, name)| format!("{name} ({amount})")).collect();
    if !shown.is_empty() {
        text += &format!("; held by {}", shown.join(", "));
    }
    if holders.len() > HOLDERS_SHOWN {
        text += &format!(" and {} more", holders.len() - HOLDERS_SHOWN);
    }
    text
}

fn full_name(pod: &Value) -> String {
    format!("{}/{}", text(pod, "metadata.namespace"), text(pod, "metadata.name"))
}

fn allocatable(node: &Value) -> Usage {
    let entries = at(node, "status.allocatable").and_then(Value::as_object).into_iter().flatten();
    let amount = |value: &Value| Quantity::parse(value.as_str()?).ok();
    entries.filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
}

/// What a pod takes of a node, itself included.
fn requests(pod: &Value) -> Usage {
    let used = usage("", "pods", pod);
    let asked = used.iter().filter_map(|(name, amount)| Some((name.strip_prefix("requests.")?.to_owned(), *amount)));
    let mut requests: Usage = asked.filter(|(_, amount)| !amount.is_zero()).collect();
    requests.insert("pods".to_owned(), Quantity::whole(1));
    requests
}

fn take(free: &mut Usage, amounts: &Usage) {
    for (name, amount) in amounts {
        let left = free.get(name).copied().unwrap_or(Quantity::ZERO);
        free.insert(name.clone(), left - *amount);
    }
}

/// Why the pod cannot go there: the first of the node's own reasons, else everything that it has too little of.
fn refusals(room: &Room, pod: &Value, wish: &Usage) -> Vec<String> {
    if let Some(reason) = unsuitable(room.node, pod) {
        return vec![reason.to_owned()];
    }
    if port_clash(room, pod).is_some() {
        return vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
    }
    let short = short_of(room, wish).map(|(name, _)| match name {
        "pods" => "Too many pods".to_owned(),
        name => format!("Insufficient {name}"),
    });
    short.collect()
}

/// A port of the machine that the pod wants, and the pod that has it.
fn port_clash<'a>(room: &Room<'a>, pod: &Value) -> Option<(u64, &'a Value)> {
    let wanted = host_ports(pod);
    if wanted.is_empty() {
        return None;
    }
    let clash = |held: &HostPort| wanted.iter().find(|port| port.clashes_with(held)).map(|port| port.port);
    room.held.iter().find_map(|(holder, _)| Some((host_ports(holder).iter().find_map(clash)?, *holder)))
}

/// What the node has too little of, with what was asked for.
fn short_of<'a>(room: &Room, wish: &'a Usage) -> impl Iterator<Item = (&'a str, Quantity)> {
    let asked = wish.iter().map(|(name, amount)| (name.as_str(), *amount));
    asked.filter(|(name, amount)| room.left(name) < *amount)
}

/// What the pod was told last.
fn told(pod: &Value) -> &str {
    let conditions = at(pod, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    let mut known = conditions.into_iter().filter(|condition| text(condition, "type") == "PodScheduled");
    known.next().map_or("", |condition| text(condition, "message"))
}

/// Notes on the pod why it waits, and says so once for each new reason.
fn tell(pod: &Value, message: String, now: Timestamp, plan: &mut Plan) {
    let mut conditions = at(pod, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let known = conditions.iter().position(|condition| text(condition, "type") == "PodScheduled");
    let is_told = |condition: &Value| text(condition, "status") == "False" && text(condition, "message") == message;
    if known.is_some_and(|at| is_told(&conditions[at])) {
        return;
    }
    let since = known.filter(|at| text(&conditions[*at], "status") == "False");
    let since = since.map_or_else(|| time::seconds(now), |at| text(&conditions[at], "lastTransitionTime").to_owned());
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": since, "observedGeneration": pod["metadata"]["generation"]});
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    let version = &pod["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
    plan.actions.push(Action::PatchStatus { target: target(pod), patch });
    plan.events.push(event(EventType::Warning, "FailedScheduling", message, target(pod)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(name: &str, more: Value) -> Value {
        let mut node = json!({"metadata": {"name": name, "labels": {"disk": "fast"}}, "spec": {},
            "status": {"allocatable": {"cpu": "2", "pods": "3"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        json_patch::merge(&mut node, &more);
        node
    }

    fn pod(name: &str, cpu: &str, spec: Value) -> Value {
        let mut pod = json!({"metadata": {"name": name, "namespace": "d", "uid": name, "resourceVersion": "1"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        json_patch::merge(&mut pod["spec"], &spec);
        pod
    }

    fn placed(waiting: &[Value], nodes: &[Value]) -> Placement {
        place(&Observed { waiting, nodes, placed: &[] }, Timestamp::UNIX_EPOCH)
    }

    fn check(nodes: &[Value], pod: Value, expected: &str) {
        let placement = placed(&[pod], nodes);
        let said = match (placement.bind.as_slice(), placement.unplaced.events.as_slice()) {
            ([one], []) => one.node.clone(),
            ([], [one]) => one.message.clone(),
            other => panic!("neither bound nor told: {other:?}"),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_pod_goes_where_there_is_room_or_hears_why_not() {
        let pods = |spec| pod("p", "1", spec);
        check(&[node("a", json!({}))], pods(json!({})), "a");
        check(&[], pods(json!({})), "no nodes available to schedule pods");
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        check(&[node("a", unready)], pods(json!({})), "0/1 nodes are available: 1 node(s) were not ready.");
        let tainted = json!({"spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}});
        let nodes = [node("a", tainted), node("b", json!({"spec": {"unschedulable": true}}))];
        check(
            &nodes,
            pods(json!({})),
            "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.",
        );
        check(&nodes, pods(json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]})), "a");
        let slow = pods(json!({"nodeSelector": {"disk": "slow"}}));
        check(
            &[node("a", json!({}))],
            slow,
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        );
        check(
            &[node("a", json!({}))],
            pod("p", "3", json!({})),
            "0/1 nodes are available: 1 Insufficient cpu. Node a: cpu asked 3, free 2 of 2.",
        );
    }

    #[test]
    fn a_pod_that_must_wait_hears_the_numbers_and_who_holds_what() {
        let gpus = |name: &str, count: &str, node: &str| {
            let spec = json!({"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": count}}}]});
            pod(name, "0", spec)
        };
        let nodes = [
            node("n", json!({"status": {"allocatable": {"nvidia.com/gpu": "4", "pods": "9"}}})),
            node("tainted", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})),
        ];
        let held = [gpus("a", "1", "n"), gpus("b", "2", "n")];
        let wish = gpus("p", "2", "");
        let said = |placed: &[Value]| {
            let seen = Observed { waiting: std::slice::from_ref(&wish), nodes: &nodes, placed };
            let plan = place(&seen, Timestamp::UNIX_EPOCH).unplaced;
            let Action::PatchStatus { patch, .. } = &plan.actions[0] else { panic!("a status is written") };
            let condition = text(&patch["status"]["conditions"][0], "message").to_owned();
            assert_eq!(condition, plan.events[0].message);
            condition
        };
        let kube = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s).";
        let numbers = "Node n: nvidia.com/gpu asked 2, free 1 of 4; held by d/b (2), d/a (1).";
        assert_eq!(said(&held), format!("{kube} {numbers}"));
        let many: Vec<Value> = (0..4).map(|index| gpus(&format!("p{index}"), "1", "n")).collect();
        let numbers = "Node n: nvidia.com/gpu asked 2, free 0 of 4; held by d/p0 (1), d/p1 (1), d/p2 (1) and 1 more.";
        assert_eq!(said(&many), format!("{kube} {numbers}"));
        let full: Vec<Value> = (0..9).map(|index| pod(&format!("q{index}"), "0", json!({"nodeName": "n"}))).collect();
        let seen = Observed { waiting: &[pod("p", "0", json!({}))], nodes: &nodes[..1], placed: &full };
        let told = &place(&seen, Timestamp::UNIX_EPOCH).unplaced.events[0].message;
        assert_eq!(told, "0/1 nodes are available: 1 Too many pods. Node n: pods asked 1, free 0 of 9.");
    }

    #[test]
    fn a_host_port_is_given_once() {
        let with_port = |name: &str, address: &str, node: &str| {
            let port = json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": address});
            pod(name, "0", json!({"nodeName": node, "containers": [{"name": "c", "ports": [port]}]}))
        };
        let nodes = [node("n", json!({}))];
        let bound = |address: &str, held: &str| {
            let (waiting, placed) = ([with_port("p", address, "")], [with_port("a", held, "n")]);
            let placement =
                place(&Observed { waiting: &waiting, nodes: &nodes, placed: &placed }, Timestamp::UNIX_EPOCH);
            placement.unplaced.events.first().map(|event| event.message.clone())
        };
        let expected = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. \
            Node n: host port 80 is held by d/a.";
        assert_eq!(bound("", "127.0.0.1").as_deref(), Some(expected));
        assert_eq!(bound("127.0.0.2", "127.0.0.1"), None);
    }

    #[test]
    fn only_the_first_in_line_hear_new_numbers() {
        let nodes = [node("n", json!({}))];
        let waiting: Vec<Value> = (10..60).map(|index| pod(&format!("p{index}"), "3", json!({}))).collect();
        let mut told = waiting.clone();
        for (pod, action) in told.iter_mut().zip(placed(&waiting, &nodes).unplaced.actions) {
            let Action::PatchStatus { patch, .. } = action else { panic!("a status is written") };
            json_patch::merge(pod, &patch);
        }
        assert!(placed(&told, &nodes).unplaced.is_empty());
        let holder = pod("holder", "1", json!({"nodeName": "n"}));
        let seen = Observed { waiting: &told, nodes: &nodes, placed: &[holder] };
        assert_eq!(place(&seen, Timestamp::UNIX_EPOCH).unplaced.events.len(), RETOLD_MAX);
    }

    #[test]
    fn node_affinity_is_honoured() {
        let affinity = |operator: &str, values: Value| {
            let term = json!({"matchExpressions": [{"key": "disk", "operator": operator, "values": values}]});
            let required = json!({"nodeSelectorTerms": [term]});
            let key = "requiredDuringSchedulingIgnoredDuringExecution";
            pod("p", "1", json!({"affinity": {"nodeAffinity": {key: required}}}))
        };
        check(&[node("a", json!({}))], affinity("In", json!(["fast"])), "a");
        let refused = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
        check(&[node("a", json!({}))], affinity("NotIn", json!(["fast"])), refused);
    }

    #[test]
    fn the_same_reason_is_told_once() {
        let nodes = [node("a", json!({"status": {"conditions": []}}))];
        let mut pod = pod("p", "1", json!({}));
        let first = placed(std::slice::from_ref(&pod), &nodes).unplaced;
        let Action::PatchStatus { patch, .. } = &first.actions[0] else { panic!("a status is written") };
        json_patch::merge(&mut pod, patch);
        assert!(placed(&[pod], &nodes).unplaced.is_empty());
    }

    #[test]
    fn the_more_important_pod_goes_first() {
        let waiting = [pod("a", "2", json!({})), pod("b", "2", json!({"priority": 5}))];
        let placement = placed(&waiting, &[node("n", json!({}))]);
        let bound: Vec<&str> = placement.bind.iter().map(|binding| binding.pod.name.as_str()).collect();
        assert_eq!(bound, ["b"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_node_is_promised_more_than_it_has(sizes in proptest::collection::vec(1_i64..2500, 0..12)) {
            let waiting: Vec<Value> =
                sizes.iter().enumerate().map(|(i, size)| pod(&format!("p{i}"), &format!("{size}m"), json!({}))).collect();
            let nodes = [node("a", json!({})), node("b", json!({}))];
            let placement = placed(&waiting, &nodes);
            prop_assert_eq!(placement.bind.len() + placement.unplaced.events.len(), sizes.len());
            for name in ["a", "b"] {
                let on_it: Vec<&Binding> = placement.bind.iter().filter(|binding| binding.node == name).collect();
                let index = |binding: &&Binding| binding.pod.name[1..].parse::<usize>().unwrap();
                let total: i64 = on_it.iter().map(|binding| sizes[index(binding)]).sum();
                prop_assert!(total <= 2000 && on_it.len() <= 3);
            }
        }
    }
}
