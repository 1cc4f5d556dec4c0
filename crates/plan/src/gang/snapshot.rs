//! Everything that placing needs to know, kept up to date one object at a time.
//!
//! `see` takes an object that is new or has changed, `forget` one that has gone. The result does not depend on the order
//! of the calls: pods may come before their group or their node.

use super::amounts::{self, Amounts, Names};
use super::objects::{
    Budget, Capacity, Claim, ClaimKey, Class, Gang, GangId, Group, HyperNode, Key, Node, NodeId, Phase, Pod, PodId,
    Queue, Quota, ShapeId, State, Volume,
};
use super::shape::{self, Shape};
use super::slots::Slots;
use super::standing::Standing;
use super::strings::{Labels, Strings};
use super::{policy::Policy, read};
use crate::pod_groups::{queue_of, stands_alone};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use volley_api::kube::{at, text};
use volley_api::volcano::keys;

/// What can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Node,
    Pod,
    PodGroup,
    Queue,
    PriorityClass,
    DisruptionBudget,
    Claim,
    Volume,
    StorageClass,
    Namespace,
    ResourceQuota,
    HyperNode,
    Numatopology,
    /// How many volumes a node takes.
    CsiNode,
    /// Whether a driver tells how much it can make, and what it tells.
    CsiDriver,
    StorageCapacity,
    /// Kubernetes' own gangs.
    Workload,
}

/// Labels by which other schedulers' users name their group.
const GROUP_LABELS: [&str; 2] = ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"];
/// The oldest of them need no object: the pods say how many they are.
const LIGHT_NAME: &str = "pod-group.scheduling.sigs.k8s.io/name";
const LIGHT_MIN: &str = "pod-group.scheduling.sigs.k8s.io/min-available";
const GROUP_MARKS: [&str; 2] = [keys::GROUP, "scheduling.volcano.sh/group-name"];
const ROLE_LABELS: [&str; 2] = [keys::TASK, "training.kubeflow.org/replica-type"];
const INDEX_LABELS: [&str; 2] = [keys::INDEX, "training.kubeflow.org/replica-index"];
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// Namespaces cannot hold a slash: no PodGroup has such a key. One pod alone, and several that need no PodGroup.
const SINGLE: &str = "pod/";
const SEVERAL: &str = "pods/";

#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub policy: Policy,
    /// Pods of these are ours; of the second, also those that have no group.
    pub schedulers: Vec<String>,
    pub plain_schedulers: Vec<String>,
    /// The queue of groups that name none.
    pub default_queue: String,
    pub names: Names,
    strings: Strings,
    pub nodes: Slots<Arc<str>, Node>,
    pub pods: Slots<Key, Pod>,
    pub gangs: Slots<Key, Gang>,
    pub shapes: Slots<String, Shape>,
    shape_keys: BTreeMap<ShapeId, String>,
    pub queues: BTreeMap<Arc<str>, Queue>,
    pub classes: BTreeMap<Arc<str>, i64>,
    pub default_classes: BTreeMap<Arc<str>, i64>,
    pub budgets: BTreeMap<(String, String), Budget>,
    pub claims: BTreeMap<ClaimKey, Claim>,
    pub volumes: BTreeMap<String, Volume>,
    /// By class, the volumes that claims may still have.
    pub stock: BTreeMap<String, BTreeSet<String>>,
    /// By claim, the volumes that are set aside for it or bound to it.
    pub owned: BTreeMap<ClaimKey, BTreeSet<String>>,
    /// How many nodes tell how many volumes they take.
    pub nodes_with_limits: usize,
    /// Volumes that claims are being given. The shell says so.
    pub promised: BTreeMap<ClaimKey, Arc<str>>,
    /// By claim, the pods on nodes that use it.
    pub claim_users: BTreeMap<ClaimKey, BTreeSet<PodId>>,
    pub storage_classes: BTreeMap<String, Class>,
    /// Drivers that tell how large a volume they can make where, and what they tell.
    pub metered: BTreeSet<String>,
    pub capacities: BTreeMap<(String, String), Capacity>,
    pub namespaces: BTreeMap<String, Labels>,
    pub quotas: BTreeMap<(String, String), Quota>,
    pub hyper_nodes: BTreeMap<String, HyperNode>,
    /// Pods on nodes that keep others away.
    pub keeping_apart: BTreeSet<PodId>,
    pub standing: Standing,
    /// Gangs that are not to be tried for now, because their binds were refused, and with which words. The shell says so.
    pub resting: BTreeMap<Key, String>,
    /// How many pods of each of a Workload's groups start together; pods whose Workload is not known yet.
    workloads: BTreeMap<(String, String), BTreeMap<String, usize>>,
    orphans: BTreeMap<(String, String), BTreeMap<Key, Value>>,
}

impl Snapshot {
    /// `schedulers` names whose pods are placed; of `plain_schedulers`, those without a group too, each alone.
    pub fn new(policy: Policy, schedulers: &[&str], plain_schedulers: &[&str]) -> Snapshot {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Snapshot {
            policy,
            schedulers: owned(schedulers),
            plain_schedulers: owned(plain_schedulers),
            default_queue: "default".to_owned(),
            ..Snapshot::default()
        }
    }

    pub fn see(&mut self, kind: Kind, object: &Value) {
        let name = text(object, "metadata.name");
        let pair = || (text(object, "metadata.namespace").to_owned(), name.to_owned());
        match kind {
            Kind::Node => {
                let number = self.node_id(name);
                read::node(&mut self.nodes[number], object, &mut self.names, &mut self.strings);
            }
            Kind::Pod => self.see_pod(object),
            Kind::PodGroup => {
                let group = read::group(object, &self.default_queue, &mut self.names, &mut self.strings);
                let number = self.gang_id(self.key(text(object, "metadata.namespace"), name));
                self.set_group(number, Some(group));
            }
            Kind::Queue => {
                let queue = read::queue(object, &mut self.names, &mut self.strings);
                self.queues.insert(name.into(), queue);
            }
            Kind::PriorityClass => self.see_class(object),
            Kind::DisruptionBudget => drop(self.budgets.insert(pair(), read::budget(object))),
            Kind::Claim => drop(self.claims.insert(pair(), read::claim(object))),
            Kind::Volume => {
                let volume = read::volume(object, &mut self.strings);
                self.set_volume(name, Some(volume));
            }
            Kind::StorageClass => drop(self.storage_classes.insert(name.to_owned(), read::class(object))),
            Kind::Namespace => {
                let labels = self.strings.labels(at(object, "metadata.labels"));
                self.namespaces.insert(name.to_owned(), labels);
            }
            Kind::ResourceQuota => drop(self.quotas.insert(pair(), read::quota(object))),
            Kind::HyperNode => drop(self.hyper_nodes.insert(name.to_owned(), read::hyper_node(object))),
            Kind::Numatopology => {
                let number = self.node_id(name);
                let node = &mut self.nodes[number];
                node.cells = read::numa_cells(object);
                node.numa_policy = text(object, "spec.policies.TopologyManagerPolicy").to_owned();
            }
            Kind::CsiNode => {
                let number = self.node_id(name);
                self.set_volumes_max(number, read::volumes_max(object));
            }
            Kind::CsiDriver if at(object, "spec.storageCapacity") == Some(&Value::Bool(true)) => {
                self.metered.insert(name.to_owned());
            }
            Kind::CsiDriver => drop(self.metered.remove(name)),
            Kind::StorageCapacity => match read::capacity(object) {
                Some(capacity) => drop(self.capacities.insert(pair(), capacity)),
                None => drop(self.capacities.remove(&pair())),
            },
            Kind::Workload => {
                self.workloads.insert(pair(), read::workload(object));
                for pod in self.orphans.remove(&pair()).unwrap_or_default().into_values() {
                    self.see_pod(&pod);
                }
            }
        }
    }

    /// Cluster-wide kinds have no namespace.
    pub fn forget(&mut self, kind: Kind, namespace: &str, name: &str) {
        let pair = || (namespace.to_owned(), name.to_owned());
        match kind {
            Kind::Node => {
                if let Some(number) = self.nodes.find(name) {
                    self.nodes[number].is_here = false;
                    self.tidy_node(number);
                }
            }
            Kind::Pod => self.forget_pod(&self.key(namespace, name)),
            Kind::PodGroup => {
                if let Some(number) = self.gangs.find(&self.key(namespace, name)) {
                    self.set_group(number, None);
                    self.tidy_gang(number);
                }
            }
            Kind::Queue => drop(self.queues.remove(name)),
            Kind::PriorityClass => {
                self.classes.remove(name);
                self.default_classes.remove(name);
            }
            Kind::DisruptionBudget => drop(self.budgets.remove(&pair())),
            Kind::Claim => drop(self.claims.remove(&pair())),
            Kind::Volume => self.set_volume(name, None),
            Kind::StorageClass => drop(self.storage_classes.remove(name)),
            Kind::Namespace => drop(self.namespaces.remove(name)),
            Kind::ResourceQuota => drop(self.quotas.remove(&pair())),
            Kind::HyperNode => drop(self.hyper_nodes.remove(name)),
            Kind::Workload => drop(self.workloads.remove(&pair())),
            Kind::Numatopology => {
                if let Some(number) = self.nodes.find(name) {
                    self.nodes[number].cells.clear();
                    self.tidy_node(number);
                }
            }
            Kind::CsiDriver => drop(self.metered.remove(name)),
            Kind::StorageCapacity => drop(self.capacities.remove(&pair())),
            Kind::CsiNode => {
                if let Some(number) = self.nodes.find(name) {
                    self.set_volumes_max(number, BTreeMap::new());
                    self.tidy_node(number);
                }
            }
        }
    }

    fn set_volumes_max(&mut self, node: NodeId, volumes_max: BTreeMap<String, usize>) {
        let node = &mut self.nodes[node];
        self.nodes_with_limits -= usize::from(!node.volumes_max.is_empty());
        self.nodes_with_limits += usize::from(!volumes_max.is_empty());
        node.volumes_max = volumes_max;
    }

    fn set_volume(&mut self, name: &str, volume: Option<Volume>) {
        if let Some(old) = self.volumes.remove(name) {
            let stock = self.stock.get_mut(&old.class);
            if stock.is_some_and(|names| names.remove(name) && names.is_empty()) {
                self.stock.remove(&old.class);
            }
            let owned = old.owner.as_ref().and_then(|(claim, _)| self.owned.get_mut(claim));
            if owned.is_some_and(|names| names.remove(name) && names.is_empty()) {
                self.owned.remove(&old.owner.expect("it was just there").0);
            }
        }
        let Some(volume) = volume else { return };
        if let Some((claim, _)) = &volume.owner {
            self.owned.entry(claim.clone()).or_default().insert(name.to_owned());
        } else if volume.is_available {
            self.stock.entry(volume.class.clone()).or_default().insert(name.to_owned());
        }
        self.volumes.insert(name.to_owned(), volume);
    }

    fn key(&self, namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into() }
    }

    fn see_class(&mut self, class: &Value) {
        let name: Arc<str> = text(class, "metadata.name").into();
        let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
        self.classes.insert(name.clone(), value);
        self.default_classes.remove(&name);
        if class.get("globalDefault") == Some(&Value::Bool(true)) {
            self.default_classes.insert(name, value);
        }
    }

    fn node_id(&mut self, name: &str) -> NodeId {
        let name = self.strings.keep(name);
        let empty = || Node {
            name: name.clone(),
            is_here: false,
            is_ready: false,
            is_cordoned: false,
            labels: Labels::default(),
            taints: Vec::new(),
            allocatable: Amounts::new(),
            used: Amounts::new(),
            leaving: Amounts::new(),
            foreign: Amounts::new(),
            pods: BTreeSet::new(),
            cells: Vec::new(),
            numa_policy: String::new(),
            volumes_max: BTreeMap::new(),
        };
        self.nodes.ensure(name.clone(), empty)
    }

    fn tidy_node(&mut self, number: NodeId) {
        let node = &self.nodes[number];
        let is_unknown = node.cells.is_empty() && node.volumes_max.is_empty();
        if !node.is_here && node.pods.is_empty() && is_unknown {
            let name = node.name.clone();
            self.nodes.remove(&*name);
        }
    }

    fn gang_id(&mut self, key: Key) -> GangId {
        let is_single = key.namespace.contains('/');
        let empty = || Gang {
            key: key.clone(),
            group: None,
            is_single,
            members: BTreeSet::new(),
            pending: 0,
            ready: 0,
            standing: 0,
            allocated: Amounts::new(),
        };
        self.gangs.ensure(key.clone(), empty)
    }

    fn tidy_gang(&mut self, number: GangId) {
        let gang = &self.gangs[number];
        if gang.members.is_empty() && (gang.group.is_none() || gang.is_single) {
            let key = gang.key.clone();
            self.set_group(number, None);
            self.gangs.remove(&key);
        }
    }

    pub(super) fn set_group(&mut self, number: GangId, group: Option<Group>) {
        self.standing.count(number, &self.gangs[number], false);
        self.gangs[number].group = group;
        self.standing.count(number, &self.gangs[number], true);
    }

    fn shape_id(&mut self, pod: &Value) -> ShapeId {
        let key = shape::key(pod);
        if let Some(number) = self.shapes.find(&key) {
            return number;
        }
        let shape = shape::read(pod, &mut self.names);
        let number = self.shapes.ensure(key.clone(), || shape);
        self.shape_keys.insert(number, key);
        number
    }

    fn see_pod(&mut self, object: &Value) {
        let key = Key {
            namespace: self.strings.keep(text(object, "metadata.namespace")),
            name: text(object, "metadata.name").into(),
        };
        let is_ours =
            self.schedulers.iter().chain(&self.plain_schedulers).any(|n| n == text(object, "spec.schedulerName"));
        // It counts no more when it is placed and replaced by one of the same name, so what was known goes first. The new
        // shape is taken before that, so that it is not made anew when it is the old one.
        let shape = self.shape_id(object);
        self.shapes[shape].uses += 1;
        self.forget_pod(&key);
        self.shapes[shape].uses -= 1;
        let gang = if is_ours { self.gang_of(object, &key) } else { None };
        let node = Some(text(object, "spec.nodeName")).filter(|name| !name.is_empty()).map(|name| self.node_id(name));
        let pod = self.pod(object, Pod { gang, node, ..self.blank(key.clone(), shape, is_ours) });
        let number = self.pods.ensure(key, || pod);
        self.count(number, true);
    }

    fn blank(&self, key: Key, shape: ShapeId, is_ours: bool) -> Pod {
        let empty: Arc<str> = "".into();
        Pod {
            is_critical: &*key.namespace == "kube-system",
            key,
            uid: empty.clone(),
            gang: None,
            shape,
            node: None,
            state: State::Pending,
            role: empty.clone(),
            told: empty,
            index: 0,
            priority: 0,
            precedence: None,
            is_ours,
            is_preemptable: true,
            never_preempts: false,
            numa_policy: None,
            created: 0,
            started: None,
            until: None,
            cooldown: 0,
            nominated: None,
            labels: Labels::default(),
        }
    }

    fn pod(&mut self, object: &Value, blank: Pod) -> Pod {
        let label = |keys: &[&str]| {
            let labels = at(object, "metadata.labels");
            let find = |key: &&str| {
                let label = labels.and_then(|labels| labels.get(*key)).and_then(Value::as_str);
                Some(read::annotation(object, key)).filter(|mark| !mark.is_empty()).or(label)
            };
            keys.iter().find_map(find)
        };
        let own = at(object, "spec.priority").and_then(Value::as_i64).unwrap_or(0);
        let marked = read::annotation(object, "volcano.sh/task-priority").parse().ok();
        let started = read::started(object);
        let deadline = at(object, "spec.activeDeadlineSeconds").and_then(Value::as_i64);
        let leaves = read::seconds(object, "metadata.deletionTimestamp");
        let last = || blank.key.name.rsplit('-').next().and_then(|part| part.parse().ok());
        Pod {
            uid: text(object, "metadata.uid").into(),
            state: read::state(object),
            role: self.strings.keep(label(&ROLE_LABELS).unwrap_or("")),
            index: label(&INDEX_LABELS).and_then(|index| index.parse().ok()).or_else(last).unwrap_or(0),
            priority: marked.unwrap_or(own),
            precedence: read::precedence(object),
            is_preemptable: read::is_preemptable(object),
            is_critical: blank.is_critical || CRITICAL.contains(&text(object, "spec.priorityClassName")),
            never_preempts: text(object, "spec.preemptionPolicy") == "Never",
            numa_policy: read::numa_policy(object),
            created: read::seconds(object, "metadata.creationTimestamp").unwrap_or(0),
            started,
            until: leaves.or_else(|| Some(read::seconds(object, "status.startTime").or(started)? + deadline?)),
            cooldown: read::cooldown(object),
            nominated: Some(text(object, "status.nominatedNodeName"))
                .filter(|n| !n.is_empty())
                .map(|n| self.strings.keep(n)),
            told: self.strings.keep(read::told(object)),
            labels: self.strings.labels(at(object, "metadata.labels")),
            ..blank
        }
    }

    /// KEY-1, coscheduling's labels, a Workload, or for plain schedulers a gang of its own.
    fn gang_of(&mut self, pod: &Value, key: &Key) -> Option<GangId> {
        let labels = at(pod, "metadata.labels");
        let label = |name: &&str| labels.and_then(|labels| labels.get(*name)).and_then(Value::as_str);
        let marks = GROUP_MARKS.iter().map(|mark| read::annotation(pod, mark)).find(|name| !name.is_empty());
        if let Some(name) = marks.or_else(|| GROUP_LABELS.iter().find_map(label)) {
            return Some(self.gang_id(Key { namespace: key.namespace.clone(), name: name.into() }));
        }
        if let Some(name) = label(&LIGHT_NAME) {
            let least = label(&LIGHT_MIN).and_then(|least| least.parse().ok()).unwrap_or(1);
            return Some(self.made_gang(pod, format!("{SEVERAL}{}", key.namespace), name, least));
        }
        let reference = |field: &str| at(pod, "spec.workloadRef").map_or("", |reference| text(reference, field));
        let (workload, group) = (reference("name"), reference("podGroup"));
        if !workload.is_empty() {
            let pair = (key.namespace.to_string(), workload.to_owned());
            let Some(known) = self.workloads.get(&pair) else {
                self.orphans.entry(pair).or_default().insert(key.clone(), pod.clone());
                return None;
            };
            let least = known.get(group).copied().unwrap_or(1);
            let parts = [workload, group, reference("podGroupReplicaKey")];
            let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
            return Some(self.made_gang(pod, format!("{SEVERAL}{}", key.namespace), &name, least));
        }
        let is_plain = self.plain_schedulers.iter().any(|name| name == text(pod, "spec.schedulerName"));
        (is_plain || stands_alone(pod)).then(|| self.made_gang(pod, format!("{SINGLE}{}", key.namespace), &key.name, 1))
    }

    /// A gang that no PodGroup stands for.
    fn made_gang(&mut self, pod: &Value, namespace: String, name: &str, members_min: usize) -> GangId {
        let number = self.gang_id(Key { namespace: namespace.into(), name: name.into() });
        let created = read::seconds(pod, "metadata.creationTimestamp").unwrap_or(0);
        let first = self.gangs[number].group.as_ref().map_or(created, |group| group.created.min(created));
        let group = Group {
            uid: name.into(),
            queue: self.strings.keep(queue_of(pod).unwrap_or(&self.default_queue)),
            class: self.strings.keep(text(pod, "spec.priorityClassName")),
            members_min,
            tasks_min: BTreeMap::new(),
            divisions: Vec::new(),
            resources_min: None,
            phase: Phase::Inqueue,
            created: first,
            topology: None,
            domain: None,
            patience: None,
            estimate: None,
            precedence: read::precedence(pod),
            status: Value::Null,
        };
        self.set_group(number, Some(group));
        number
    }

    fn forget_pod(&mut self, key: &Key) {
        let Some(number) = self.pods.find(key) else { return };
        self.orphans.values_mut().for_each(|pods| drop(pods.remove(key)));
        self.count(number, false);
        let pod = self.pods.remove(key).expect("it was found");
        if let Some(node) = pod.node {
            self.tidy_node(node);
        }
        if let Some(gang) = pod.gang {
            self.tidy_gang(gang);
        }
        if self.shapes[pod.shape].uses == 0 {
            let key = self.shape_keys.remove(&pod.shape).expect("every shape has its key");
            self.shapes.remove(&key);
        }
    }

    /// Adds the pod to all sums that it is part of, or takes it out again.
    pub(super) fn count(&mut self, number: PodId, is_new: bool) {
        let pod = &self.pods[number];
        let change: fn(&mut Amounts, &[i64]) = if is_new { amounts::add } else { amounts::take };
        let step = |total: &mut usize| *total = if is_new { *total + 1 } else { *total - 1 };
        let shape = &mut self.shapes[pod.shape];
        step(&mut shape.uses);
        if let Some(node) = pod.node {
            let node = &mut self.nodes[node];
            if is_new {
                node.pods.insert(number)
            } else {
                node.pods.remove(&number)
            };
            if pod.state.holds() {
                change(&mut node.used, &shape.request);
                if pod.state == State::Leaving {
                    change(&mut node.leaving, &shape.request);
                }
                if !pod.is_ours {
                    change(&mut node.foreign, &shape.request);
                }
                if !shape.apart.is_empty() {
                    if is_new {
                        self.keeping_apart.insert(number)
                    } else {
                        self.keeping_apart.remove(&number)
                    };
                }
                for claim in shape.claim_keys() {
                    let users = self.claim_users.entry(claim.clone()).or_default();
                    if is_new {
                        users.insert(number)
                    } else {
                        users.remove(&number)
                    };
                    if users.is_empty() {
                        self.claim_users.remove(&claim);
                    }
                }
            }
        }
        let Some(id) = pod.gang else { return };
        self.standing.count(id, &self.gangs[id], false);
        let gang = &mut self.gangs[id];
        if is_new {
            gang.members.insert(number)
        } else {
            gang.members.remove(&number)
        };
        if pod.state == State::Pending {
            step(&mut gang.pending);
        }
        if pod.state.is_ready() {
            step(&mut gang.ready);
        }
        if matches!(pod.state, State::Bound | State::Running) {
            step(&mut gang.standing);
        }
        if pod.state.holds() && pod.node.is_some() {
            change(&mut gang.allocated, &shape.request);
        }
        self.standing.count(id, &self.gangs[id], true);
    }
}
