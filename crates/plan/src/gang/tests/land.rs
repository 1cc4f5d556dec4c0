//! A small land of queues, nodes and gangs that lives by placements, told by a story of turns.
//!
//! It keeps its own books, in whole GPUs, and shows the snapshot only what has changed; so thousands of lands are cheap,
//! and what a placement does is judged by other sums than its own.

use super::world::{GPU, at};
use crate::gang::policy::Policy;
use crate::gang::snapshot::{Kind, Snapshot};
use crate::gang::{Placement, place};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const QUEUES: [&str; 3] = ["default", "x", "y"];
/// The queue above two of them, in some lands.
pub const FAMILY: &str = "family";
pub const CLASSES: [&str; 3] = ["low", "middle", "high"];

#[derive(Debug, Clone)]
pub struct GangPlan {
    pub pods: usize,
    pub min: usize,
    pub gpus: i64,
    /// A second task with a pod of another size, which is needed.
    pub other: Option<i64>,
    pub queue: usize,
    /// Its place in `CLASSES`.
    pub class: usize,
    pub is_preemptable: bool,
    /// It has yet to be let in.
    pub is_pending: bool,
    pub zone: Option<usize>,
    /// No two of its pods on one node.
    pub is_apart: bool,
}

impl GangPlan {
    pub fn members_min(&self) -> usize {
        self.min + usize::from(self.other.is_some())
    }

    /// GPUs that its minimum asks for; a gang that is in from the start does not say.
    pub fn least(&self) -> i64 {
        let all = self.gpus * i64::try_from(self.min).unwrap() + self.other.unwrap_or(0);
        if self.is_pending { all } else { 0 }
    }
}

#[derive(Debug, Clone)]
pub struct QueuePlan {
    pub weight: i64,
    pub capability: Option<i64>,
    pub guarantee: i64,
    pub is_reclaimable: bool,
    /// Only in lands in which queues say what they deserve.
    pub deserved: i64,
}

#[derive(Debug, Clone, Copy)]
pub struct NodePlan {
    pub gpus: i64,
    pub cpus: i64,
}

/// How a pod is found: on this node if it has room, else waiting.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    node: usize,
    is_leaving: bool,
    /// Where it was told that room is made for it, whether that is still so or not.
    nominated: Option<usize>,
}

#[derive(Debug, Clone)]
pub enum Turn {
    Arrive(GangPlan),
    /// The gang that came so many before the last one ends.
    End(usize),
    /// A pod of it fails and is made again.
    Break(usize),
    /// The node takes no more pods, or takes them again.
    Cordon(usize),
}

#[derive(Debug, Clone)]
pub struct Story {
    pub nodes: Vec<NodePlan>,
    pub queues: Vec<QueuePlan>,
    pub declares: bool,
    /// The second and third queue are below one of this capability.
    pub family: Option<i64>,
    /// GPUs that gangs may be let in for in the namespace.
    pub quota: Option<i64>,
    /// Evicted pods are made again and wait.
    pub makes_again: bool,
    /// What is there at the beginning.
    pub standing: Vec<(GangPlan, Vec<Start>)>,
    pub cordoned: Option<usize>,
    pub turns: Vec<Turn>,
}

fn gang() -> impl Strategy<Value = GangPlan> {
    let zone = prop::option::weighted(0.2, 0..2_usize);
    let other = prop::option::weighted(0.3, 0..4_i64);
    let sizes = (1..5_usize, 0..5_usize, 0..5_i64, other);
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.3), prop::bool::weighted(0.1));
    (sizes, select(vec![0, 0, 0, 1, 2]), 0..3_usize, flags, zone).prop_map(
        |((pods, min, gpus, other), queue, class, (is_preemptable, is_pending, is_apart), zone)| GangPlan {
            pods,
            min: min.min(pods),
            gpus,
            other,
            queue,
            class,
            is_preemptable,
            is_pending,
            zone,
            is_apart,
        },
    )
}

fn queue() -> impl Strategy<Value = QueuePlan> {
    let bounds = (1..4_i64, prop::option::weighted(0.15, 0..9_i64), select(vec![0, 0, 0, 0, 0, 0, 0, 0, 1, 2]));
    (bounds, any::<bool>(), 0..7_i64).prop_map(|((weight, capability, guarantee), is_reclaimable, deserved)| {
        QueuePlan { weight, capability, guarantee, is_reclaimable, deserved }
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        7 => gang().prop_map(Turn::Arrive),
        2 => (0..6_usize).prop_map(Turn::End),
        1 => (0..6_usize).prop_map(Turn::Break),
        1 => (0..5_usize).prop_map(Turn::Cordon),
    ]
}

/// A land without gangs.
fn ground(nodes_max: usize) -> impl Strategy<Value = Story> {
    let node = (0..9_i64, select(vec![64, 64, 3])).prop_map(|(gpus, cpus)| NodePlan { gpus, cpus });
    let rules = (prop::option::weighted(0.15, 0..9_i64), prop::option::weighted(0.15, 0..9_i64));
    let flags = (prop::bool::weighted(0.2), any::<bool>());
    (prop::collection::vec(node, 1..=nodes_max), prop::collection::vec(queue(), 3), rules, flags).prop_map(
        |(nodes, queues, (family, quota), (declares, makes_again))| Story {
            nodes,
            queues,
            declares,
            family,
            quota,
            makes_again,
            standing: Vec::new(),
            cordoned: None,
            turns: Vec::new(),
        },
    )
}

/// A land that is empty at first, and much happens.
pub fn story() -> impl Strategy<Value = Story> {
    (ground(4), prop::collection::vec(turn(), 1..10)).prop_map(|(ground, turns)| Story { turns, ..ground })
}

/// A land in the middle of its life, in which one thing happens.
pub fn scene() -> impl Strategy<Value = Story> {
    let start = (0..7_usize, prop::bool::weighted(0.1), prop::option::weighted(0.1, 0..3_usize))
        .prop_map(|(node, is_leaving, nominated)| Start { node, is_leaving, nominated });
    let standing = prop::collection::vec((gang(), prop::collection::vec(start, 5)), 1..5);
    let cordoned = prop::option::weighted(0.15, 0..3_usize);
    (ground(3), standing, cordoned, turn()).prop_map(|(ground, standing, cordoned, turn)| Story {
        standing,
        cordoned,
        turns: vec![turn],
        ..ground
    })
}

/// A land in which two queues share what the one above them may hold, and all say what they deserve within that.
pub fn family_scene() -> impl Strategy<Value = Story> {
    (scene(), 1..9_i64).prop_map(|(mut story, most)| {
        for queue in &mut story.queues {
            (queue.capability, queue.deserved) = (None, queue.deserved.min(most));
        }
        Story { declares: true, family: Some(most), ..story }
    })
}

#[derive(Debug, Clone)]
pub struct Pod {
    pub gang: String,
    pub task: &'static str,
    pub gpus: i64,
    pub node: Option<String>,
    pub is_leaving: bool,
    nominated: Option<String>,
    /// When it was made, bound or evicted.
    since: i64,
}

#[derive(Clone)]
pub struct Land {
    pub snapshot: Snapshot,
    pub nodes: BTreeMap<String, NodePlan>,
    pub queues: Vec<QueuePlan>,
    declares: bool,
    pub family: Option<i64>,
    /// What gangs may be let in for, and were.
    pub quota: Option<(i64, i64)>,
    pub gangs: BTreeMap<String, GangPlan>,
    pub pods: BTreeMap<String, Pod>,
    admitted: BTreeSet<String>,
    cordoned: BTreeSet<String>,
    created: BTreeMap<String, i64>,
    pub now: i64,
}

impl Land {
    pub fn new(story: &Story) -> Land {
        let mut land = Land::bare(story);
        for (plan, starts) in &story.standing {
            land.now += 10;
            land.stand(plan, starts);
        }
        if let Some(at) = story.cordoned {
            land.happen(&Turn::Cordon(at));
        }
        land
    }

    fn bare(story: &Story) -> Land {
        let policy = Policy { keeps_quotas: story.quota.is_some(), ..Policy::default() };
        let mut land = Land {
            snapshot: Snapshot::new(policy, &["volcano"], &[]),
            nodes: BTreeMap::new(),
            queues: story.queues.clone(),
            declares: story.declares,
            family: story.family,
            quota: story.quota.map(|hard| (hard, 0)),
            gangs: BTreeMap::new(),
            pods: BTreeMap::new(),
            admitted: BTreeSet::new(),
            cordoned: BTreeSet::new(),
            created: BTreeMap::new(),
            now: 1_000_000,
        };
        if let Some(most) = story.family {
            let guarantee: i64 = story.queues[1..].iter().map(|queue| queue.guarantee).sum();
            let plan = QueuePlan { weight: 1, capability: Some(most), guarantee, is_reclaimable: true, deserved: 0 };
            land.show_queue(FAMILY, &plan, "root");
        }
        (0..QUEUES.len()).for_each(|at| land.show_own_queue(at));
        land.show_quota();
        for (value, class) in CLASSES.iter().enumerate() {
            land.snapshot.see(Kind::PriorityClass, &json!({"metadata": {"name": class}, "value": value}));
        }
        for (at, plan) in story.nodes.iter().enumerate() {
            land.add_node(&format!("n{at}"), *plan, at % 2);
        }
        land
    }

    pub fn show_own_queue(&mut self, at: usize) {
        let parent = if self.family.is_some() && at > 0 { FAMILY } else { "root" };
        let plan = self.queues[at].clone();
        self.show_queue(QUEUES[at], &plan, parent);
    }

    fn show_queue(&mut self, name: &str, plan: &QueuePlan, parent: &str) {
        let mut spec = json!({"weight": plan.weight, "reclaimable": plan.is_reclaimable, "parent": parent});
        if let Some(capability) = plan.capability {
            spec["capability"] = json!({GPU: capability.to_string()});
        }
        if plan.guarantee > 0 {
            spec["guarantee"] = json!({"resource": {GPU: plan.guarantee.to_string()}});
        }
        if self.declares && plan.deserved > 0 {
            spec["deserved"] = json!({GPU: plan.deserved.to_string()});
        }
        let queue = json!({"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}});
        self.snapshot.see(Kind::Queue, &queue);
    }

    /// What the family may hold together grows.
    pub fn widen_family(&mut self, most: i64) {
        self.family = Some(most);
        let plan = QueuePlan { weight: 1, capability: Some(most), guarantee: 0, is_reclaimable: true, deserved: 0 };
        self.show_queue(FAMILY, &plan, "root");
    }

    pub fn show_quota(&mut self) {
        let Some((hard, used)) = self.quota else { return };
        let name = format!("requests.{GPU}");
        self.snapshot.see(
            Kind::ResourceQuota,
            &json!({"metadata": {"name": "q", "namespace": "d"}, "spec": {"hard": {&*name: hard.to_string()}},
                "status": {"used": {&*name: used.to_string()}}}),
        );
    }

    /// A gang that is here already, its pods where they are said to be.
    fn stand(&mut self, plan: &GangPlan, starts: &[Start]) {
        let name = self.arrive(plan);
        let place = |at: usize| format!("n{at}");
        for (pod, start) in self.pods_of(&name).into_iter().zip(starts) {
            let node = Some(place(start.node)).filter(|node| self.has_room(node, self.pods[&pod].gpus));
            let is_placed = node.is_some();
            let nominated = start.nominated.map(place).filter(|_| !is_placed);
            let since = self.now;
            let known = self.pods.get_mut(&pod).expect("it was made above");
            *known = Pod { node, nominated, is_leaving: is_placed && start.is_leaving, since, ..known.clone() };
            if is_placed {
                self.admitted.insert(name.clone());
            }
            self.show_pod(&pod);
        }
        self.show_group(&name);
    }

    fn has_room(&self, node: &str, gpus: i64) -> bool {
        let on_it = || self.pods.values().filter(|pod| pod.node.as_deref() == Some(node));
        self.nodes.get(node).is_some_and(|plan| {
            on_it().map(|pod| pod.gpus).sum::<i64>() + gpus <= plan.gpus && (on_it().count() as i64) < plan.cpus
        })
    }

    pub fn add_node(&mut self, name: &str, plan: NodePlan, zone: usize) {
        self.nodes.insert(name.to_owned(), plan);
        let is_cordoned = self.cordoned.contains(name);
        let labels = json!({"kubernetes.io/hostname": name, "zone": zone.to_string()});
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": is_cordoned},
            "status": {"allocatable": {GPU: plan.gpus.to_string(), "cpu": plan.cpus.to_string(), "pods": "100"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        self.snapshot.see(Kind::Node, &node);
    }

    fn show_group(&mut self, name: &str) {
        let plan = &self.gangs[name];
        let min = plan.members_min();
        let phase = if self.admitted.contains(name) { "Inqueue" } else { "Pending" };
        let mut spec = json!({"minMember": min, "queue": QUEUES[plan.queue], "priorityClassName": CLASSES[plan.class]});
        if plan.other.is_some() {
            spec["minTaskMember"] = json!({"w": plan.min, "m": 1});
        }
        if plan.is_pending {
            spec["minResources"] = json!({GPU: plan.least().to_string()});
        }
        let created = at(self.created[name]);
        let group = json!({"metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": created},
            "spec": spec, "status": {"phase": phase}});
        self.snapshot.see(Kind::PodGroup, &group);
    }

    pub fn pod_json(&self, name: &str) -> Value {
        let pod = &self.pods[name];
        let plan = &self.gangs[&pod.gang];
        let marks = json!({"scheduling.k8s.io/group-name": pod.gang, "volcano.sh/task-spec": pod.task,
            "volcano.sh/preemptable": plan.is_preemptable.to_string()});
        let mut object = json!({
            "metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": at(self.created[&pod.gang]),
                "annotations": marks, "labels": {"app": pod.gang}},
            "spec": {"schedulerName": "volcano", "nodeName": pod.node, "containers": [
                {"name": "c", "resources": {"requests": {GPU: pod.gpus.to_string(), "cpu": "1"}}}]},
            "status": {"phase": if pod.node.is_some() { "Running" } else { "Pending" },
                "nominatedNodeName": pod.nominated, "startTime": pod.node.as_ref().map(|_| at(pod.since))}});
        if pod.is_leaving {
            object["metadata"]["deletionTimestamp"] = json!(at(pod.since + 30));
        }
        if let Some(zone) = plan.zone {
            object["spec"]["nodeSelector"] = json!({"zone": zone.to_string()});
        }
        if plan.is_apart {
            let term =
                json!({"labelSelector": {"matchLabels": {"app": pod.gang}}, "topologyKey": "kubernetes.io/hostname"});
            object["spec"]["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        object
    }

    fn show_pod(&mut self, name: &str) {
        let object = self.pod_json(name);
        self.snapshot.see(Kind::Pod, &object);
    }

    fn make_pod(&mut self, name: &str, gang: &str, task: &'static str, gpus: i64) {
        let pod =
            Pod { gang: gang.to_owned(), task, gpus, node: None, is_leaving: false, nominated: None, since: self.now };
        self.pods.insert(name.to_owned(), pod);
        self.show_pod(name);
    }

    /// The gang's name tells when it came.
    pub fn arrive(&mut self, plan: &GangPlan) -> String {
        let name = format!("g{:02}", self.created.len());
        self.gangs.insert(name.clone(), plan.clone());
        self.created.insert(name.clone(), self.now);
        if !plan.is_pending {
            self.admitted.insert(name.clone());
        }
        self.show_group(&name);
        self.make_pods(&name, plan);
        name
    }

    fn make_pods(&mut self, gang: &str, plan: &GangPlan) {
        let workers = (0..plan.pods).map(|index| (format!("{gang}-w-{index}"), "w", plan.gpus));
        let other = plan.other.map(|gpus| (format!("{gang}-m-0"), "m", gpus));
        for (name, task, gpus) in workers.chain(other) {
            if !self.pods.contains_key(&name) {
                self.make_pod(&name, gang, task, gpus);
            }
        }
    }

    pub fn pods_of(&self, gang: &str) -> Vec<String> {
        self.pods.iter().filter(|(_, pod)| pod.gang == gang).map(|(name, _)| name.clone()).collect()
    }

    pub fn remove_pod(&mut self, name: &str) {
        self.pods.remove(name);
        self.snapshot.forget(Kind::Pod, "d", name);
    }

    pub fn end(&mut self, gang: &str) {
        self.pods_of(gang).iter().for_each(|pod| self.remove_pod(pod));
        self.gangs.remove(gang);
        self.snapshot.forget(Kind::PodGroup, "d", gang);
    }

    /// Nobody else waits: gangs that hold nothing give up, the others make do with what they have.
    pub fn drop_waiting_but(&mut self, gang: &str) {
        let waits = |pod: &Pod| pod.node.is_none() && pod.gang != gang;
        let names: Vec<String> = self.pods.iter().filter(|(_, pod)| waits(pod)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.remove_pod(name));
        let is_idle = |other: &&String| **other != gang && self.pods_of(other).is_empty();
        let idle: Vec<String> = self.gangs.keys().filter(is_idle).cloned().collect();
        idle.iter().for_each(|other| self.end(other));
    }

    /// The pod runs on this node, whoever said so.
    pub fn put(&mut self, name: &str, node: &str) {
        let pod = self.pods.get_mut(name).expect("only pods that are there are put somewhere");
        (pod.node, pod.since) = (Some(node.to_owned()), self.now);
        self.show_pod(name);
    }

    /// All pods of the gang exist and none is on its way out.
    pub fn complete(&mut self, gang: &str) {
        let going: Vec<String> = self.pods_of(gang).into_iter().filter(|pod| self.pods[pod].is_leaving).collect();
        going.iter().for_each(|pod| self.renew(pod));
        let plan = self.gangs[gang].clone();
        self.make_pods(gang, &plan);
    }

    pub fn happen(&mut self, turn: &Turn) {
        self.now += 10;
        let named = |land: &Land, back: usize| land.gangs.keys().rev().nth(back).cloned();
        match turn {
            Turn::Arrive(plan) => drop(self.arrive(plan)),
            Turn::End(back) => {
                if let Some(gang) = named(self, *back) {
                    self.end(&gang);
                }
            }
            Turn::Break(back) => {
                if let Some(pod) = named(self, *back).and_then(|gang| self.pods_of(&gang).pop()) {
                    self.renew(&pod);
                }
            }
            Turn::Cordon(at) => {
                let name = format!("n{at}");
                if let Some(plan) = self.nodes.get(&name).copied() {
                    if !self.cordoned.remove(&name) {
                        self.cordoned.insert(name.clone());
                    }
                    self.add_node(&name, plan, at % 2);
                }
            }
        }
    }

    /// Its controller makes the pod again: it waits like any other.
    pub fn renew(&mut self, name: &str) {
        let pod = self.pods[name].clone();
        self.remove_pod(name);
        self.make_pod(name, &pod.gang, pod.task, pod.gpus);
    }

    pub fn place(&self) -> Placement {
        place(&mut self.snapshot.clone(), Timestamp::from_second(self.now).unwrap())
    }

    /// Does what the placement says: bound pods run, evicted ones are on their way out.
    pub fn apply(&mut self, placement: &Placement) {
        for key in &placement.admit {
            self.admitted.insert(key.name.to_string());
            self.show_group(&key.name);
            if let Some((_, used)) = &mut self.quota {
                *used += self.gangs[&*key.name].least();
                self.show_quota();
            }
        }
        let mut changed: BTreeSet<String> = BTreeSet::new();
        let nominated: BTreeMap<&str, &str> =
            placement.nominate.iter().map(|bind| (&*bind.pod.key.name, &*bind.node)).collect();
        for (name, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.node.is_none()) {
            let now = nominated.get(&**name).map(|node| (*node).to_owned());
            if pod.nominated != now {
                pod.nominated = now;
                changed.insert(name.clone());
            }
        }
        for bind in &placement.bind {
            let pod = self.pods.get_mut(&*bind.pod.key.name).expect("only pods that are there are bound");
            (pod.node, pod.since) = (Some(bind.node.to_string()), self.now);
            changed.insert(bind.pod.key.name.to_string());
        }
        for evict in &placement.evict {
            let pod = self.pods.get_mut(&*evict.pod.key.name).expect("only pods that are there are evicted");
            (pod.is_leaving, pod.since) = (true, self.now);
            changed.insert(evict.pod.key.name.to_string());
        }
        changed.iter().for_each(|name| self.show_pod(name));
    }

    /// Pods that were evicted have gone.
    pub fn let_go(&mut self, makes_again: bool) {
        let gone: Vec<String> =
            self.pods.iter().filter(|(_, pod)| pod.is_leaving).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| if makes_again { self.renew(name) } else { self.remove_pod(name) });
    }

    /// Whether those of its pods that stand are enough.
    pub fn is_complete(&self, gang: &str) -> bool {
        let plan = &self.gangs[gang];
        let stands = |pod: &&Pod| pod.gang == gang && pod.node.is_some() && !pod.is_leaving;
        let count = |task: &str| self.pods.values().filter(stands).filter(|pod| pod.task == task).count();
        count("w") >= plan.min && (plan.other.is_none() || count("m") >= 1)
    }

    pub fn is_cordoned(&self, node: &str) -> bool {
        self.cordoned.contains(node)
    }

    pub fn used_by_queue(&self, queue: usize) -> i64 {
        let is_in = |pod: &&Pod| pod.node.is_some() && self.gangs[&pod.gang].queue == queue;
        self.pods.values().filter(is_in).map(|pod| pod.gpus).sum()
    }

    /// The same objects, seen in the opposite order and the pods twice.
    pub fn seen_backwards(&self, story: &Story) -> Snapshot {
        let mut other = Land::bare(story);
        other.cordoned = self.cordoned.clone();
        other.quota = self.quota;
        (other.gangs, other.pods) = (self.gangs.clone(), self.pods.clone());
        (other.admitted, other.created, other.now) = (self.admitted.clone(), self.created.clone(), self.now);
        let names: Vec<String> = self.pods.keys().rev().cloned().collect();
        names.iter().for_each(|name| other.show_pod(name));
        self.gangs.keys().rev().for_each(|name| other.show_group(name));
        for (at, plan) in story.nodes.iter().enumerate() {
            other.add_node(&format!("n{at}"), *plan, at % 2);
        }
        for name in &names {
            other.snapshot.forget(Kind::Pod, "d", name);
            other.show_pod(name);
        }
        other.show_quota();
        other.snapshot
    }
}
