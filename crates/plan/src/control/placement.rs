//! A plain scheduler: one pod after the other onto a node with room, or the reasons why there is none.
//!
//! Called with the pods that wait, all nodes and what is placed on them. It knows readiness, cordons, taints, node
//! selectors, required node affinity and resource requests; it neither scores nodes nor preempts pods.

use super::quota::{Usage, usage};
use super::{Action, Event, EventType, Plan, Target};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text, time};

pub const COMPONENT: &str = "default-scheduler";

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

/// A node and what is left of it.
struct Room<'a> {
    node: &'a Value,
    free: Usage,
}

pub fn place(seen: &Observed, now: Timestamp) -> Placement {
    let mut rooms: Vec<Room> = seen.nodes.iter().map(|node| Room { node, free: allocatable(node) }).collect();
    rooms.sort_by_key(|room| text(room.node, "metadata.name"));
    let by_name: BTreeMap<&str, usize> =
        rooms.iter().enumerate().map(|(at, room)| (text(room.node, "metadata.name"), at)).collect();
    for pod in seen.placed {
        if let Some(at) = by_name.get(text(pod, "spec.nodeName")) {
            take(&mut rooms[*at].free, &requests(pod));
        }
    }
    let mut waiting: Vec<&Value> = seen.waiting.iter().collect();
    waiting.sort_by_key(|pod| {
        let priority = at(pod, "spec.priority").and_then(Value::as_i64).unwrap_or(0);
        let name = (text(pod, "metadata.namespace"), text(pod, "metadata.name"));
        (Reverse(priority), text(pod, "metadata.creationTimestamp"), name)
    });
    let mut placement = Placement::default();
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
                take(&mut rooms[position].free, &wish);
                let node = text(rooms[position].node, "metadata.name").to_owned();
                placement.bind.push(Binding { pod: target(pod), node });
            }
            None => tell(pod, why(rooms.len(), &reasons), now, &mut placement.unplaced),
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
    let one = |reason: &str| vec![reason.to_owned()];
    if !is_ready(room.node) {
        return one("node(s) were not ready");
    }
    if at(room.node, "spec.unschedulable") == Some(&Value::Bool(true)) && !tolerates(pod, &cordon()) {
        return one("node(s) were unschedulable");
    }
    if taints(room.node).any(|taint| !tolerates(pod, taint)) {
        return one("node(s) had untolerated taint(s)");
    }
    if !is_wanted(room.node, pod) {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    let has_room =
        |(name, amount): &(&String, &Quantity)| room.free.get(*name).copied().unwrap_or(Quantity::ZERO) >= **amount;
    let short = wish.iter().filter(|row| !has_room(row)).map(|(name, _)| match name.as_str() {
        "pods" => "Too many pods".to_owned(),
        name => format!("Insufficient {name}"),
    });
    short.collect()
}

fn is_ready(node: &Value) -> bool {
    let conditions = at(node, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True")
}

fn cordon() -> Value {
    json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
}

/// The taints that keep new pods away; `PreferNoSchedule` is only a wish.
fn taints(node: &Value) -> impl Iterator<Item = &Value> {
    let taints = at(node, "spec.taints").and_then(Value::as_array).into_iter().flatten();
    taints.filter(|taint| matches!(text(taint, "effect"), "NoSchedule" | "NoExecute"))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let tolerations = at(pod, "spec.tolerations").and_then(Value::as_array).into_iter().flatten();
    tolerations.into_iter().any(|toleration| {
        let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
        let has_key = key == text(taint, "key") || (key.is_empty() && text(toleration, "operator") == "Exists");
        let has_effect = effect.is_empty() || effect == text(taint, "effect");
        let has_value = text(toleration, "operator") == "Exists" || text(toleration, "value") == text(taint, "value");
        has_key && has_effect && has_value
    })
}

fn is_wanted(node: &Value, pod: &Value) -> bool {
    let label = |key: &str| node["metadata"]["labels"][key].as_str();
    let selector = at(pod, "spec.nodeSelector").and_then(Value::as_object).into_iter().flatten();
    if !selector.into_iter().all(|(key, value)| label(key) == value.as_str()) {
        return false;
    }
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let Some(terms) = at(pod, path).and_then(Value::as_array) else {
        return true;
    };
    let list = |term: &Value, key: &str| term.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    terms.iter().any(|term| {
        let (labels, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
        let name = Some(text(node, "metadata.name"));
        let is_empty = labels.is_empty() && fields.is_empty();
        !is_empty
            && labels.iter().all(|wish| holds(wish, label(text(wish, "key"))))
            && fields.iter().all(|wish| holds(wish, name.filter(|_| text(wish, "key") == "metadata.name")))
    })
}

fn holds(wish: &Value, found: Option<&str>) -> bool {
    let values: Vec<&str> =
        wish.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(|text| number(text));
    let is_listed = found.is_some_and(|found| values.contains(&found));
    match text(wish, "operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => found.and_then(number).zip(bound).is_some_and(|(found, bound)| found > bound),
        "Lt" => found.and_then(number).zip(bound).is_some_and(|(found, bound)| found < bound),
        // Validation refuses other operators.
        _ => false,
    }
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
        check(&[node("a", json!({}))], pod("p", "3", json!({})), "0/1 nodes are available: 1 Insufficient cpu.");
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
