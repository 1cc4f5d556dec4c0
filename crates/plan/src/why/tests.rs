//! The table of situations: each as the sentence that people read and the fields that programs do.

use super::world::{Change, World};
use super::{Answer, Observed, State, why};
use crate::gang::policy::Policy;
use crate::gang::snapshot::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const GPU: &str = "nvidia.com/gpu";
const NOW: i64 = 1_000_000;

fn at(second: i64) -> String {
    Timestamp::from_second(second).unwrap().to_string()
}

fn merged(mut object: Value, more: Value) -> Value {
    json_patch::merge(&mut object, &more);
    object
}

/// A cluster and a job `j` in namespace `d`, about which the question is asked.
struct Case {
    world: World,
    kind: &'static str,
    job: Value,
    events: Vec<Value>,
    lines: BTreeMap<String, Vec<String>>,
    policy: Policy,
}

impl Case {
    fn new() -> Case {
        let job = json!({"metadata": {"name": "j", "namespace": "d", "uid": "j"}, "spec": {}, "status": {}});
        let mut case = Case {
            world: World::default(),
            kind: "vcjob",
            job,
            events: Vec::new(),
            lines: BTreeMap::new(),
            policy: Policy::default(),
        };
        case.add(
            Kind::Queue,
            json!({"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}),
        );
        case
    }

    fn add(&mut self, kind: Kind, object: Value) -> &mut Case {
        match self.world.objects.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, objects)) => objects.push(object),
            None => self.world.objects.push((kind, vec![object])),
        }
        self
    }

    fn node(&mut self, name: &str, gpus: i64, more: Value) -> &mut Case {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
            "status": {"allocatable": {GPU: gpus.to_string(), "cpu": "64", "memory": "256Gi", "pods": "100"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        self.add(Kind::Node, merged(node, more))
    }

    fn queue(&mut self, name: &str, more: Value) -> &mut Case {
        let queue = json!({"metadata": {"name": name}, "spec": {"weight": 1}, "status": {"state": "Open"}});
        self.add(Kind::Queue, merged(queue, more))
    }

    fn group(&mut self, name: &str, min: usize, more: Value) -> &mut Case {
        let group = json!({"metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": at(NOW - 60)},
            "spec": {"minMember": min, "queue": "default"}, "status": {"phase": "Inqueue"}});
        self.add(Kind::PodGroup, merged(group, more))
    }

    fn pods(&mut self, group: &str, count: usize, gpus: i64, more: Value) -> &mut Case {
        for index in 0..count {
            let requests = json!({GPU: gpus.to_string(), "cpu": "1"});
            let pod = json!({
                "metadata": {"name": format!("{group}-{index}"), "namespace": "d", "uid": format!("{group}-{index}"),
                    "creationTimestamp": at(NOW - 60), "annotations": {"scheduling.k8s.io/group-name": group},
                    "labels": {"app": group}},
                "spec": {"schedulerName": "volcano",
                    "containers": [{"name": "main", "image": "i:1", "resources": {"requests": requests}}]},
                "status": {"phase": "Pending"}});
            self.add(Kind::Pod, merged(pod, more.clone()));
        }
        self
    }

    /// A gang that holds what it asks for.
    fn holder(&mut self, name: &str, node: &str, gpus: i64, group: Value) -> &mut Case {
        self.group(name, 1, merged(json!({"status": {"phase": "Running"}}), group));
        let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(NOW - 600)});
        let running = json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [condition]}});
        self.pods(name, 1, gpus, running)
    }

    fn event(&mut self, about: &str, reason: &str, message: &str) -> &mut Case {
        let event = json!({"type": "Warning", "reason": reason, "message": message, "lastTimestamp": at(NOW - 5),
            "involvedObject": {"name": about}});
        self.events.push(event);
        self
    }

    fn job(&mut self, more: Value) -> &mut Case {
        json_patch::merge(&mut self.job, &more);
        self
    }

    fn answer(&self) -> Answer {
        let own = |object: &&Value| object["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "j";
        let pods: Vec<Value> = match self.kind {
            "pod" => vec![self.job.clone()],
            _ => self.world.of(Kind::Pod).iter().filter(own).cloned().collect(),
        };
        let group = self.world.of(Kind::PodGroup).iter().find(|group| group["metadata"]["name"] == "j");
        let snapshot = self.world.snapshot(self.policy.clone(), &pods);
        let (events, lines) = (self.events.as_slice(), &self.lines);
        let seen = Observed { kind: self.kind, job: &self.job, pods: &pods, group, events, snapshot: &snapshot, lines };
        why(&seen, Timestamp::from_second(NOW).unwrap())
    }

    /// The sentence, and from the JSON: state, reason and the first thing that would help.
    #[track_caller]
    fn check(&self, message: &str, fields: (&str, &str, &str)) {
        let answer = self.answer();
        let shown = serde_json::to_value(&answer).unwrap();
        assert_eq!(answer.message, message, "{shown:#}");
        assert_eq!(shown["message"], message);
        let first = shown["unblock"][0].as_str().unwrap_or_default();
        assert_eq!((shown["state"].as_str().unwrap(), shown["reason"].as_str().unwrap(), first), fields);
        assert_eq!((&shown["job"]["name"], &shown["job"]["kind"]), (&json!("j"), &json!(self.kind)));
        let is_of_scheduler = shown.get("waitingOn").is_some_and(|on| on["on"].is_string());
        let has_numbers = message.chars().any(|letter| letter.is_ascii_digit());
        assert!(!is_of_scheduler || has_numbers || shown["waitingOn"].as_object().unwrap().len() <= 3, "{message}");
    }
}

/// `j` asks for `gpus` in each of `pods` pods.
fn asks(pods: usize, gpus: i64) -> Case {
    let mut case = Case::new();
    case.group("j", pods, json!({})).pods("j", pods, gpus, json!({}));
    case
}

fn running(more: Value) -> Value {
    let status = json!({"phase": "Running", "startTime": "1970-01-12T13:00:00Z"});
    merged(json!({"spec": {"nodeName": "a"}, "status": status}), more)
}

fn waiting_container(reason: &str, message: &str) -> Value {
    let status =
        json!([{"name": "main", "image": "i:1", "state": {"waiting": {"reason": reason, "message": message}}}]);
    json!({"spec": {"nodeName": "a"}, "status": {"phase": "Pending", "containerStatuses": status}})
}

#[test]
fn one_gpu_short() {
    let mut case = asks(8, 1);
    let lasts = json!({"metadata": {"annotations": {"volley.dev/running-estimate": "1h"}}});
    case.node("a", 8, json!({})).holder("h", "a", 1, lasts);
    case.check(
        "needs 8 nvidia.com/gpu together, 7 free; d/h of queue default holds 1 until about 14:36 UTC; room by about \
         14:36 UTC",
        ("waiting", "Room", "d/h gives back 1 nvidia.com/gpu when it ends"),
    );
    let answer = case.answer();
    assert_eq!(answer.unblock[1], "1 more nvidia.com/gpu may do; try it: volley why j -n d --what-if gpus=+1");
    assert_eq!(answer.when.unwrap().to_string(), "1970-01-12T14:36:40Z");
    let shown = serde_json::to_value(&answer).unwrap();
    let holder = json!({"gang": "d/h", "queue": "default", "amount": "1", "until": "1970-01-12T14:36:40Z"});
    assert_eq!(shown["waitingOn"]["holders"], json!({"first": [holder], "more": 0}));
    assert_eq!((&shown["waitingOn"]["asked"], &shown["waitingOn"]["free"]), (&json!("8"), &json!("7")));
    assert_eq!(shown["pods"], json!({"total": 8, "pending": 8, "running": 0, "succeeded": 0, "failed": 0}));
}

#[test]
fn fragmented() {
    let mut case = asks(1, 4);
    case.node("a", 4, json!({})).node("b", 4, json!({})).holder("x", "a", 2, json!({})).holder("y", "b", 2, json!({}));
    case.check(
        "needs 1 places with 4 nvidia.com/gpu on one node, 0 free; 4 nvidia.com/gpu are free in all; d/x of queue \
         default holds 2, d/y of queue default holds 2",
        ("waiting", "Fragmented", "d/x ends or moves"),
    );
}

#[test]
fn larger_than_any_node_or_the_whole_cluster_has() {
    let mut case = asks(1, 16);
    case.node("a", 8, json!({}));
    case.check(
        "one pod needs 16 nvidia.com/gpu, the largest node has 8; it can never run here",
        ("waiting", "TooLarge", "ask for at most 8 nvidia.com/gpu per pod, or add a larger node"),
    );
    let mut case = asks(3, 8);
    case.node("a", 8, json!({})).node("b", 8, json!({}));
    case.check(
        "needs 24 nvidia.com/gpu together, suitable nodes have 16 in all; it can never run here",
        ("waiting", "TooLarge", "ask for at most 16 nvidia.com/gpu together, or add nodes"),
    );
    let mut case = asks(2, 5);
    case.node("a", 8, json!({})).node("b", 4, json!({}));
    case.check(
        "needs 2 places with 5 nvidia.com/gpu on one node, empty nodes have 1; it can never run here",
        ("waiting", "TooLarge", "ask for at most 1 such pod, or add nodes"),
    );
}

#[test]
fn queues_that_are_closed_missing_full_or_parents() {
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("q", json!({"status": {"state": "Closed"}}));
    case.group("j", 1, json!({"spec": {"queue": "q"}})).pods("j", 1, 1, json!({}));
    case.check(
        "queue q is closed; it takes gangs once it is open",
        ("waiting", "QueueClosed", "open it: volley vcqueue operate q -a open"),
    );
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("research", json!({}));
    case.group("j", 1, json!({"spec": {"queue": "reserch"}})).pods("j", 1, 1, json!({}));
    case.check(
        "queue reserch does not exist; create it or name another",
        ("waiting", "QueueMissing", "did you mean queue research? else create it: volley vcqueue create reserch"),
    );
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("q", json!({"spec": {"capability": {GPU: "4"}}}));
    let mine = json!({"spec": {"queue": "q"}});
    case.holder("h", "a", 4, mine.clone()).group("j", 1, mine).pods("j", 1, 2, json!({}));
    case.check(
        "needs 2 nvidia.com/gpu, queue q uses 4 and its capability is 4; d/h of queue q holds 4",
        ("waiting", "QueueCapability", "d/h of the same queue ends"),
    );
    assert_eq!(case.answer().unblock[2], "try it: volley why j -n d --what-if queue.q.capability.nvidia.com/gpu=8");
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("p", json!({})).queue("c", json!({"spec": {"parent": "p"}}));
    case.group("j", 1, json!({"spec": {"queue": "p"}})).pods("j", 1, 1, json!({}));
    case.check(
        "queue p has queues below it and takes no gangs itself; name one of those",
        ("waiting", "QueueHasChildren", "name a queue below it in spec.queue"),
    );
}

#[test]
fn advice_about_queues_is_such_as_can_help() {
    let small = json!({"spec": {"capability": {GPU: "4"}}});
    let of = |queue: &str| json!({"spec": {"queue": queue}});
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("q", small.clone()).holder("h", "a", 1, of("q"));
    case.group("j", 6, of("q")).pods("j", 6, 1, json!({}));
    case.check(
        "needs 6 nvidia.com/gpu, queue q uses 1 and its capability is 4; d/h of queue q holds 1; it can never run like this",
        ("waiting", "QueueCapability", "ask for at most 4 nvidia.com/gpu together, or name another queue"),
    );
    assert_eq!(
        case.answer().unblock[1..],
        [
            "raise spec.capability of queue q to 6 nvidia.com/gpu or more",
            "try it: volley why j -n d --what-if queue.q.capability.nvidia.com/gpu=6"
        ]
    );
    // What fills the queue above is of another queue than its own.
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("q", small.clone());
    case.queue("one", json!({"spec": {"parent": "q"}})).queue("two", json!({"spec": {"parent": "q"}}));
    case.holder("h", "a", 4, of("one")).group("j", 1, of("two")).pods("j", 1, 1, json!({}));
    case.check(
        "needs 1 nvidia.com/gpu, queue q uses 4 and its capability is 4; d/h of queue one holds 4",
        ("waiting", "QueueCapability", "d/h of queue one ends"),
    );
    // It does not wait for itself.
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("q", small).holder("h", "a", 1, of("q"));
    case.group("j", 1, of("q")).pods("j", 1, 3, running(json!({})));
    case.pods("j", 1, 1, json!({"metadata": {"name": "j-9"}}));
    case.check(
        "runs with 1 pod; 1 more waits: needs 1 nvidia.com/gpu, queue q uses 4 and its capability is 4; d/h of queue q holds 1",
        ("running", "QueueCapability", "d/h of the same queue ends"),
    );
}

#[test]
fn commands_name_the_namespace_unless_it_is_the_usual_one() {
    let mut case = asks(1, 4);
    case.node("a", 4, json!({})).holder("h", "a", 4, json!({}));
    assert!(case.answer().unblock[1].ends_with("volley why j -n d --what-if gpus=+4"), "{:?}", case.answer().unblock);
    let mut case = Case::new();
    case.kind = "job";
    case.job(json!({"metadata": {"namespace": "default"}, "spec": {"suspend": true}}));
    assert_eq!(case.answer().unblock, ["kubectl patch job j --type merge -p '{\"spec\":{\"suspend\":false}}'"]);
}

#[test]
fn selectors_with_a_slip_of_the_pen() {
    let mut case = Case::new();
    case.node("a", 8, json!({"metadata": {"labels": {"gpu-model": "h100"}}})).group("j", 1, json!({}));
    case.pods("j", 1, 1, json!({"spec": {"nodeSelector": {"gpu-model": "h1oo"}}}));
    case.check(
        "no node can take pod d/j-0: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector; no \
         node has gpu-model=h1oo; did you mean gpu-model=h100?",
        (
            "waiting",
            "NoSuitableNode",
            "write gpu-model=h100 in nodeSelector or nodeAffinity, or label a node as it says now",
        ),
    );
    let mut case = Case::new();
    case.node("a", 8, json!({"metadata": {"labels": {"gpu-model": "h100"}}})).group("j", 1, json!({}));
    case.pods("j", 1, 1, json!({"spec": {"nodeSelector": {"gpu-modle": "h100"}}}));
    let answer = case.answer();
    assert!(answer.message.ends_with("; no node has a label gpu-modle; did you mean gpu-model?"), "{}", answer.message);
    assert!(answer.unblock[0].starts_with("write gpu-model in nodeSelector"), "{:?}", answer.unblock);
}

#[test]
fn taints_cordons_and_nodes_that_are_not_ready() {
    let mut case = asks(1, 1);
    let taint = json!({"spec": {"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}});
    case.node("a", 8, taint.clone()).node("b", 8, taint);
    let hint = "node a and 1 more have taint dedicated=ml:NoSchedule; to go there, add to tolerations: \
                {\"effect\":\"NoSchedule\",\"key\":\"dedicated\",\"value\":\"ml\"}";
    case.check(
        &format!("no node can take pod d/j-0: 0/2 nodes are available: 2 node(s) had untolerated taint(s); {hint}"),
        (
            "waiting",
            "NoSuitableNode",
            "add to tolerations: {\"effect\":\"NoSchedule\",\"key\":\"dedicated\",\"value\":\"ml\"}",
        ),
    );
    let mut case = asks(1, 1);
    case.node("a", 8, json!({"spec": {"unschedulable": true}}));
    case.check(
        "no node can take pod d/j-0: 0/1 nodes are available: 1 node(s) were unschedulable",
        ("waiting", "NoSuitableNode", "kubectl uncordon the node"),
    );
    let mut case = asks(1, 1);
    case.node("a", 8, json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    case.check(
        "no node can take pod d/j-0: 0/1 nodes are available: 1 node(s) were not ready",
        ("waiting", "NoSuitableNode", "see why the node is not ready: kubectl describe node"),
    );
}

#[test]
fn priority_and_turns() {
    let mut case = Case::new();
    case.node("a", 4, json!({})).holder("h", "a", 1, json!({}));
    case.group("big", 1, json!({"metadata": {"creationTimestamp": at(NOW - 120)}})).pods("big", 1, 4, json!({}));
    case.group("j", 1, json!({})).pods("j", 1, 1, json!({}));
    case.check(
        "would fit, but what is free is kept for d/big, which comes first",
        ("waiting", "Behind", "give it a running-estimate that ends before d/big can start, or a higher priority"),
    );
    let mut case = Case::new();
    case.node("a", 4, json!({})).add(Kind::PriorityClass, json!({"metadata": {"name": "high"}, "value": 10}));
    case.holder("h", "a", 4, json!({}));
    case.group("j", 1, json!({"spec": {"priorityClassName": "high"}})).pods("j", 1, 4, json!({}));
    case.check(
        "starts when 1 pod that is ending has gone; evicted for it: d/h",
        ("waiting", "Leaving", "nothing: the room is kept for it"),
    );
    let mut case = Case::new();
    case.node("a", 4, json!({})).add(Kind::PriorityClass, json!({"metadata": {"name": "high"}, "value": 10}));
    case.group("j", 1, json!({"spec": {"priorityClassName": "hihg"}})).pods("j", 1, 4, json!({}));
    case.check(
        "PriorityClass hihg does not exist; did you mean high?",
        ("waiting", "PriorityClassMissing", "create PriorityClass hihg, or name one of high"),
    );
}

#[test]
fn gates_missing_pods_and_admission() {
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 2, json!({}));
    case.pods("j", 2, 1, json!({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}}));
    case.check(
        "2 pods have scheduling gates that nobody has removed yet",
        ("waiting", "Gates", "whoever set the gates has to take them away from spec.schedulingGates"),
    );
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 3, json!({})).pods("j", 1, 1, json!({}));
    case.check(
        "needs 3 pods together, 1 exist",
        ("waiting", "PodsMissing", "2 pods more must be created by the job's controller"),
    );
    let mut case = Case::new();
    let promised = json!({"spec": {"minResources": {GPU: "8"}}, "metadata": {"creationTimestamp": at(NOW - 600)}});
    case.node("a", 8, json!({})).group("first", 1, promised).pods("first", 1, 8, json!({}));
    case.holder("h", "a", 8, json!({}));
    case.group("j", 1, json!({"spec": {"minResources": {GPU: "4"}}, "status": {"phase": "Pending"}}));
    let answer = case.answer();
    assert_eq!((answer.state, answer.reason), (State::Waiting, "Admission"), "{answer:?}");
    assert!(
        answer.message.starts_with("needs 4 nvidia.com/gpu together; 8 are in use and 8 are promised"),
        "{answer:?}"
    );
}

#[test]
fn claims_ports_and_neighbours() {
    let claim = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 1, json!({})).pods("j", 1, 1, claim.clone());
    case.check(
        "persistentvolumeclaim \"data\" not found; create it",
        ("waiting", "ClaimMissing", "create PersistentVolumeClaim data"),
    );
    case.add(
        Kind::Claim,
        json!({"metadata": {"name": "data", "namespace": "d"}, "spec": {}, "status": {"phase": "Pending"}}),
    );
    let answer = case.answer();
    assert_eq!(
        (answer.reason, &*answer.message),
        ("ClaimUnbound", "persistentvolumeclaim \"data\" is not bound to a volume yet")
    );
    let port = json!({"spec": {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]}});
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 1, json!({})).pods("j", 1, 0, port.clone());
    case.group("h", 1, json!({})).pods("h", 1, 0, merged(port.clone(), running(json!({}))));
    case.check(
        "1 pod has no place beside the pods that run: 1 node(s) didn't have free ports for the requested pod ports",
        ("waiting", "Neighbours", "choose another hostPort, or none: pods have addresses of their own"),
    );
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 1, json!({})).pods("j", 1, 0, merged(port.clone(), running(json!({}))));
    case.pods("j", 1, 0, merged(port, json!({"metadata": {"name": "j-9"}})));
    let answer = case.answer();
    assert!(answer.message.starts_with("runs with 1 pod; 1 more waits: 1 pod has no place"), "{}", answer.message);
    let port = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: "1"}},
        "ports": [{"hostPort": 80, "containerPort": 80}]}]}});
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 1, json!({})).pods("j", 1, 0, port.clone());
    case.group("h", 1, json!({})).pods("h", 1, 0, merged(port, running(json!({}))));
    assert_eq!(case.answer().reason, "Neighbours");
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "h"}}}]}}}});
    let mut case = Case::new();
    case.node("a", 4, json!({})).holder("h", "a", 1, json!({})).group("j", 1, json!({})).pods("j", 1, 1, apart);
    assert_eq!(case.answer().unblock, ["fewer pods that keep apart, or more nodes"]);
}

#[test]
fn network_topology() {
    let hard = json!({"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}});
    let mut case = Case::new();
    case.node("a", 4, json!({})).node("b", 4, json!({})).group("j", 2, hard).pods("j", 2, 4, json!({}));
    case.check(
        "needs a network domain, but no HyperNode is known yet",
        ("waiting", "Topology", "create HyperNodes, or take networkTopology out of the job"),
    );
    for node in ["a", "b"] {
        let member = json!({"type": "Node", "selector": {"exactMatch": {"name": node}}});
        case.add(
            Kind::HyperNode,
            json!({"metadata": {"name": format!("s-{node}")}, "spec": {"tier": 1, "members": [member]}}),
        );
    }
    case.check(
        "needs 8 nvidia.com/gpu in one network domain up to tier 1; of 2 domains the one with most has 4 free",
        ("waiting", "Topology", "allow a higher tier in networkTopology.highestTierAllowed, or make it soft"),
    );
}

#[test]
fn images_and_containers_that_do_not_start() {
    let mut case = Case::new();
    case.node("a", 4, json!({})).group("j", 2, json!({}));
    case.pods("j", 2, 1, waiting_container("ImagePullBackOff", "Back-off pulling image \"i:1\""));
    case.event("j-0", "Failed", "Failed to pull image \"i:1\": not found: manifest unknown");
    case.check(
        "image i:1 of pod j-0 and 1 more cannot be had: not found: manifest unknown",
        ("starting", "Image", "see that image i:1 exists and that its registry may be read (imagePullSecrets)"),
    );
    let mut case = Case::new();
    case.group("j", 1, json!({})).pods("j", 1, 1, waiting_container("InvalidImageName", "couldn't parse image name"));
    case.check(
        "image \"i:1\" of pod j-0 is no valid name: couldn't parse image name",
        ("starting", "Image", "correct the image's name"),
    );
    let mut case = Case::new();
    case.group("j", 1, json!({}));
    case.pods("j", 1, 1, waiting_container("CreateContainerConfigError", "configmap \"c\" not found"));
    case.check(
        "container main of pod j-0 cannot start: configmap \"c\" not found",
        ("starting", "Container", "create or correct what the message names; it is tried again by itself"),
    );
    let mut case = Case::new();
    case.group("j", 1, json!({})).pods("j", 1, 1, json!({"spec": {"nodeName": "a"}}));
    case.event("j-0", "FailedMount", "MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found");
    case.check(
        "pod j-0 comes up on a: MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found",
        ("starting", "Starting", "kubectl describe pod j-0 -n d"),
    );
}

#[test]
fn a_crash_loop_shows_the_last_lines() {
    let mut case = Case::new();
    let status = json!([{"name": "main", "image": "i:1", "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]);
    case.group("j", 1, json!({})).pods("j", 1, 1, running(json!({"status": {"containerStatuses": status}})));
    case.lines.insert("j-0".to_owned(), vec!["ImportError: no torch".to_owned()]);
    case.check(
        "container main of pod j-0 ended with exit code 1 and was restarted 3 times",
        ("starting", "CrashLoop", "volley logs vcjob/j -n d --previous"),
    );
    assert_eq!(serde_json::to_value(case.answer()).unwrap()["lines"], json!(["ImportError: no torch"]));
}

#[test]
fn jobs_that_have_ended() {
    let mut case = Case::new();
    case.job(json!({"status": {"state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T12:30:00Z"}}}));
    case.check("finished at 12:30 UTC", ("finished", "Finished", ""));
    let mut case = Case::new();
    let ended = json!([{"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]);
    case.pods("j", 1, 1, json!({"spec": {"nodeName": "a"}, "status": {"phase": "Failed", "containerStatuses": ended}}));
    case.job(json!({"status": {"state": {"phase": "Failed"}}}));
    case.check(
        "failed: pod j-0 container main used more memory than its limit and was killed",
        ("failed", "OutOfMemory", "raise resources.limits.memory of the container, or use less"),
    );
    let mut case = Case::new();
    let told = "exec: \"nosuchprog\": executable file not found in $PATH";
    let ended =
        json!([{"name": "main", "state": {"terminated": {"exitCode": 128, "reason": "StartError", "message": told}}}]);
    case.pods("j", 1, 1, json!({"spec": {"nodeName": "a"}, "status": {"phase": "Failed", "containerStatuses": ended}}));
    case.job(json!({"status": {"state": {"phase": "Failed"}}}));
    case.check(
        &format!("failed: pod j-0 container main could not start: {told}"),
        ("failed", "Failed", "volley logs vcjob/j -n d --tail 50"),
    );
    let mut case = Case::new();
    case.kind = "pytorchjob";
    case.job(json!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "PyTorchJobFailed",
        "message": "master failed"}]}}));
    case.check(
        "failed: PyTorchJobFailed: master failed",
        ("failed", "Failed", "volley logs pytorchjob/j -n d --tail 50"),
    );
    let mut case = Case::new();
    case.job(json!({"status": {"state": {"phase": "Aborted"}}}));
    case.check(
        "was aborted, and its pods were removed",
        ("suspended", "Aborted", "volley vcjob resume j -n d runs it again"),
    );
}

#[test]
fn suspended_deleted_and_untouched_jobs() {
    let mut case = Case::new();
    case.kind = "job";
    case.job(json!({"spec": {"suspend": true}}));
    case.check(
        "is suspended: spec.suspend is true",
        ("suspended", "Suspended", "kubectl patch job j -n d --type merge -p '{\"spec\":{\"suspend\":false}}'"),
    );
    let mut case = Case::new();
    case.job(json!({"metadata": {"deletionTimestamp": "2026-01-01T12:30:00Z", "finalizers": ["example.com/x"]}}));
    case.check("is being deleted since 12:30 UTC; it is held by finalizer example.com/x", ("waiting", "Deleting", ""));
    let mut case = Case::new();
    case.event("other", "PVCError", "not about it");
    case.event("j", "PVCError", "Failed to create PVC, err: persistentvolumeclaim \"mine\" not found");
    case.check(
        "has no pods: PVCError: Failed to create PVC, err: persistentvolumeclaim \"mine\" not found",
        ("waiting", "Refused", "change what the message names; the controller tries again by itself"),
    );
    Case::new().check(
        "nothing has acted on vcjob j yet: it has no pods",
        (
            "waiting",
            "NoController",
            "see that an operator for vcjobs runs: `volley operator`, or `volley up` on the embedded cluster",
        ),
    );
}

#[test]
fn pods_that_are_refused() {
    let mut case = Case::new();
    case.event("j", "FailedCreate", "pods \"j-0\" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=8");
    case.check(
        "ResourceQuota team refuses its pods: requested requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=4, \
         limited: requests.nvidia.com/gpu=8",
        ("waiting", "ResourceQuota", "free some of it in the namespace, or raise ResourceQuota team"),
    );
    let mut case = Case::new();
    case.event("j", "FailedCreate", "pods \"j-0\" is forbidden: no PriorityClass with name urgent was found");
    case.check(
        "PriorityClass urgent does not exist",
        ("waiting", "PriorityClassMissing", "create PriorityClass urgent"),
    );
    let mut case = Case::new();
    case.event(
        "j",
        "FailedCreate",
        "pods \"j-0\" is forbidden: error looking up service account d/bot: serviceaccount \"bot\" not found",
    );
    case.check(
        "its pods run as ServiceAccount bot, which does not exist",
        (
            "waiting",
            "ServiceAccountMissing",
            "kubectl create serviceaccount bot -n d, or name another in serviceAccountName",
        ),
    );
    let mut case = Case::new();
    case.event("j", "FailedCreate", "admission webhook \"x\" denied the request: no");
    assert_eq!(case.answer().reason, "Refused");
}

#[test]
fn tasks_that_start_after_others() {
    let mut case = Case::new();
    case.job(json!({"spec": {"tasks": [{"name": "ps", "replicas": 2}, {"name": "worker", "replicas": 2,
        "dependsOn": {"name": ["ps"]}}]}}));
    let task = json!({"metadata": {"annotations": {"volcano.sh/task-spec": "ps"}}});
    case.group("j", 2, json!({})).pods("j", 2, 1, merged(running(json!({})), task));
    case.check(
        "task worker starts after task ps, of which 0 of 2 pods are ready",
        ("waiting", "Dependency", "see why ps is not ready: volley logs j -n d --rank ps"),
    );
}

#[test]
fn jobs_that_run_come_up_or_could() {
    let mut case = Case::new();
    case.group("j", 2, json!({})).pods("j", 2, 1, running(json!({})));
    case.check("runs since 13:00 UTC: 2 of 2 pods on a", ("running", "Running", ""));
    let mut case = Case::new();
    case.group("j", 1, json!({})).pods("j", 1, 1, json!({"spec": {"nodeName": "a"}}));
    case.check("1 of 1 pod is coming up on its node", ("starting", "Starting", ""));
    let mut case = Case::new();
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T12:30:00Z"}});
    case.node("a", 4, json!({})).group("j", 1, json!({"status": {"phase": "Running"}})).pods("j", 1, 1, deleted);
    case.check(
        "pod j-0 has no node yet: it is being deleted since 12:30 UTC",
        ("waiting", "NoNode", "if it stays so, see that scheduler volcano runs"),
    );
    let mut case = asks(2, 1);
    case.node("a", 4, json!({}));
    case.check(
        "2 pods fit now on a; scheduler volcano has not placed them yet",
        ("starting", "Fits", "if it stays so, see that scheduler volcano runs; volley's serves volcano and volley"),
    );
    let mut case = Case::new();
    case.node("a", 4, json!({})).group(
        "j",
        1,
        json!({"status": {"phase": "Pending"}, "spec": {"minResources": {GPU: "1"}}}),
    );
    case.check("there is room: it is let in now, and its pods are made next", ("starting", "Admitted", ""));
    let mut case = Case::new();
    case.node("a", 2, json!({})).group("j", 1, json!({})).pods("j", 1, 2, running(json!({})));
    let late = json!({"metadata": {"name": "j-9"}});
    case.pods("j", 1, 2, late);
    let answer = case.answer();
    assert_eq!(answer.state, State::Running);
    assert!(answer.message.starts_with("runs with 1 pod; 1 more waits: needs 2 nvidia.com/gpu"), "{}", answer.message);
}

#[test]
fn a_pod_without_a_group_is_explained_too() {
    let mut case = Case::new();
    case.kind = "pod";
    case.node("a", 2, json!({})).pods(
        "j",
        1,
        4,
        json!({"metadata": {"name": "j", "annotations": null}, "spec": {"schedulerName": "default-scheduler"}}),
    );
    case.job = case.world.of(Kind::Pod)[0].clone();
    case.check(
        "one pod needs 4 nvidia.com/gpu, the largest node has 2; it can never run here",
        ("waiting", "TooLarge", "ask for at most 2 nvidia.com/gpu per pod, or add a larger node"),
    );
}

#[test]
fn what_if_changes_a_copy_of_the_cluster() {
    let mut case = asks(8, 1);
    case.node("a", 8, json!({})).holder("h", "a", 4, json!({})).queue("q", json!({"spec": {"capability": {GPU: "2"}}}));
    let after = |words: &str| {
        let mut world = case.world.clone();
        Change::parse(words).unwrap().make(&mut world, "d").unwrap();
        let changed = Case {
            world,
            kind: "vcjob",
            job: case.job.clone(),
            events: Vec::new(),
            lines: BTreeMap::new(),
            policy: Policy::default(),
        };
        changed.answer()
    };
    assert_eq!(after("gpus=+3").reason, "Room");
    assert_eq!(after("gpus=+4").reason, "Fits");
    assert_eq!(after("nodes=+1").reason, "Fits");
    assert_eq!(after("without=h").reason, "Fits");
    assert_eq!(after("without=d/h").reason, "Fits");
    assert_eq!(after("queue.q.capability.gpu=16").reason, "Room");
    for wrong in
        ["gpus", "gpus=4", "gpus=-1", "nodes=+0", "queue.q.gpu=3", "queue.q.capability.gpu=x", "colour=+1", "without="]
    {
        assert!(Change::parse(wrong).is_err(), "{wrong}");
    }
    let mut world = case.world.clone();
    assert!(Change::parse("without=nobody").unwrap().make(&mut world, "d").is_err());
    assert!(Change::parse("queue.none.capability.gpu=1").unwrap().make(&mut world, "d").is_err());
}

// SCH-1: on a cluster with a scheduler of its own
#[test]
fn pods_of_other_schedulers_hold_room_and_are_in_no_queue() {
    let mut case = Case::new();
    case.node("a", 8, json!({})).queue("default", json!({"spec": {"capability": {GPU: "4"}}}));
    let alone = json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": null}},
        "spec": {"schedulerName": "default-scheduler", "nodeName": "a"}, "status": {"phase": "Running"}});
    case.pods("plain", 1, 6, alone).group("j", 1, json!({})).pods("j", 1, 4, json!({}));
    assert!(case.answer().message.contains("queue default uses 6"), "{}", case.answer().message);
    case.world.has_others = true;
    assert_eq!(case.answer().message, "needs 4 nvidia.com/gpu together, 2 free");
}

#[test]
fn groups_are_called_by_the_jobs_that_own_them() {
    let owner =
        json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "controller": true}]);
    let group = json!({"metadata": {"namespace": "d", "name": "train-u", "ownerReferences": owner}});
    let bare = json!({"metadata": {"namespace": "d", "name": "train-u2"}});
    let world = World { objects: vec![(Kind::PodGroup, vec![group, bare])], ..World::default() };
    let said = world.in_owners_words("d/train-u, d/train-u2 and pod/d/x hold 4; try without=d/train-u.");
    assert_eq!(said, "vcjob/d/train, d/train-u2 and pod/d/x hold 4; try without=vcjob/d/train.");
}
