//! The objects of a snapshot, as far as placing needs to know them; `snapshot` reads and keeps them.

use super::amounts::Amounts;
use super::strings::Labels;
use super::terms::{NodeTerm, Taint};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::selector::LabelSelector;

pub type NodeId = u32;
pub type PodId = u32;
pub type GangId = u32;
pub type ShapeId = u32;

/// Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// A node. One that pods name before it is seen has only its name and them.
#[derive(Debug, Clone)]
pub struct Node {
    pub name: Arc<str>,
    pub is_here: bool,
    pub is_ready: bool,
    pub is_cordoned: bool,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub allocatable: Amounts,
    /// What pods on it ask for; of that, what those ask for that are about to leave, and those that are not ours.
    pub used: Amounts,
    pub leaving: Amounts,
    pub foreign: Amounts,
    pub pods: BTreeSet<PodId>,
    /// Whole CPUs, in thousandths, that are free in each NUMA cell, if the node tells, and its manager's policy.
    pub cells: Vec<i64>,
    pub numa_policy: String,
    /// By driver, how many of its volumes may be attached at a time, if the node tells.
    pub volumes_max: BTreeMap<String, usize>,
}

/// Task states of SCH-4, as far as they can be told from the pod itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Pending,
    /// Waits for someone to take away its scheduling gates.
    Gated,
    Bound,
    Running,
    Leaving,
    Succeeded,
    Failed,
}

impl State {
    /// Counts towards the gang's readiness (GANG-1).
    pub fn is_ready(self) -> bool {
        matches!(self, State::Bound | State::Running | State::Succeeded)
    }

    /// Holds resources of its node.
    pub fn holds(self) -> bool {
        matches!(self, State::Bound | State::Running | State::Leaving)
    }
}

#[derive(Debug, Clone)]
pub struct Pod {
    pub key: Key,
    pub uid: Arc<str>,
    pub gang: Option<GangId>,
    pub shape: ShapeId,
    pub node: Option<NodeId>,
    pub state: State,
    /// The task it is of, and its number there.
    pub role: Arc<str>,
    pub index: u32,
    pub priority: i64,
    /// The place of its gang among gangs of the same priority, which the queue that it was launched from gave it.
    pub precedence: Option<u8>,
    pub is_ours: bool,
    pub is_preemptable: bool,
    /// Of the system: never evicted (conformance).
    pub is_critical: bool,
    pub never_preempts: bool,
    /// `Some` only for Guaranteed pods that ask for it.
    pub numa_policy: Option<String>,
    /// Seconds since 1970: made, placed, sure to be gone.
    pub created: i64,
    pub started: Option<i64>,
    pub until: Option<i64>,
    /// Not a victim for so long after it was placed.
    pub cooldown: i64,
    pub nominated: Option<Arc<str>>,
    /// What it was told last of its waiting.
    pub told: Arc<str>,
    pub labels: Labels,
}

/// How near to each other pods must be, or would like to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub is_hard: bool,
    pub highest_tier: Option<i64>,
    pub highest_tier_name: String,
}

/// A `subGroupPolicy`.
#[derive(Debug, Clone)]
pub struct Division {
    pub size: usize,
    pub groups_min: usize,
    pub selector: LabelSelector,
    pub keys: Vec<String>,
    pub topology: Option<Topology>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    Inqueue,
    Running,
    Unknown,
    Completed,
}

impl Phase {
    pub fn read(text: &str) -> Phase {
        match text {
            "Inqueue" => Phase::Inqueue,
            "Running" => Phase::Running,
            "Unknown" => Phase::Unknown,
            "Completed" => Phase::Completed,
            _ => Phase::Pending,
        }
    }
}

/// A PodGroup.
#[derive(Debug, Clone)]
pub struct Group {
    pub uid: Arc<str>,
    pub queue: Arc<str>,
    pub class: Arc<str>,
    pub members_min: usize,
    pub tasks_min: BTreeMap<Arc<str>, usize>,
    pub divisions: Vec<Division>,
    pub resources_min: Option<Amounts>,
    pub phase: Phase,
    pub created: i64,
    pub topology: Option<Topology>,
    /// The HyperNode that it has been given (NT-3).
    pub domain: Option<Arc<str>>,
    /// Seconds that it may wait before it must be let in (sla).
    pub patience: Option<i64>,
    /// How long it says that it will run.
    pub estimate: Option<i64>,
    /// Its place among equals, if it says so; its pods may say it instead.
    pub precedence: Option<u8>,
    /// As it is written, to tell what has changed.
    pub status: serde_json::Value,
}

/// A PodGroup with its pods; the pods may come first.
#[derive(Debug, Clone)]
pub struct Gang {
    pub key: Key,
    pub group: Option<Group>,
    /// No PodGroup stands for it: a pod alone, or pods that say themselves how many they are.
    pub is_single: bool,
    pub members: BTreeSet<PodId>,
    /// How many of them wait, count towards its readiness, and are on nodes.
    pub pending: usize,
    pub ready: usize,
    pub standing: usize,
    /// What its pods hold on nodes.
    pub allocated: Amounts,
}

#[derive(Debug, Clone, Default)]
pub struct Queue {
    pub weight: i64,
    pub priority: i64,
    pub capability: BTreeMap<usize, i64>,
    pub deserved: BTreeMap<usize, i64>,
    pub guarantee: Amounts,
    pub is_reclaimable: bool,
    pub parent: Option<Arc<str>>,
    /// Its `volcano.sh/hierarchy` below the root, with the weight of each step in thousandths.
    pub path: Vec<(String, i64)>,
    /// Empty while its controller has not said anything, which is as good as open.
    pub state: String,
    pub created: i64,
    /// Node groups: required, refused, preferred, disliked.
    pub groups: [Vec<String>; 4],
}

impl Queue {
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "" | "Open")
    }
}

#[derive(Debug, Clone)]
pub struct Budget {
    pub namespace: String,
    pub selector: LabelSelector,
    pub allowed: i64,
}

/// A claim's namespace and name.
pub type ClaimKey = (String, String);

#[derive(Debug, Clone)]
pub struct Claim {
    pub uid: String,
    /// The volume that it has, and before it has one, the volume that it names.
    pub volume: String,
    pub chosen: String,
    pub class: String,
    /// Where its volume is to be, once that is known.
    pub node: String,
    pub size: Quantity,
    pub modes: Vec<String>,
    pub is_block: bool,
    pub selector: LabelSelector,
    /// The pod that it was made for, if it was made for one.
    pub owner: String,
    pub is_leaving: bool,
}

impl Claim {
    /// Whether at most one pod at a time may use it.
    pub fn is_exclusive(&self) -> bool {
        self.modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}

/// A PersistentVolume.
#[derive(Debug, Clone)]
pub struct Volume {
    pub version: String,
    /// Where it can be used; anywhere if nothing is said.
    pub terms: Option<Vec<NodeTerm>>,
    pub class: String,
    pub size: Quantity,
    pub modes: Vec<String>,
    pub is_block: bool,
    pub labels: Labels,
    /// The claim that it is for, and that claim's uid if it is bound to it already.
    pub owner: Option<(ClaimKey, String)>,
    /// Whether a claim may still have it: it is available and nobody deletes it.
    pub is_available: bool,
    /// Its driver and what the driver calls it.
    pub handle: Option<(String, String)>,
}

/// When a claim of the class is bound, and where its volumes may be.
#[derive(Debug, Clone)]
pub struct Class {
    pub waits_for_pod: bool,
    /// Who makes its volumes; they are made by hand if nobody does.
    pub provisioner: String,
    pub terms: Vec<NodeTerm>,
}

impl Class {
    pub fn is_static(&self) -> bool {
        self.provisioner == "kubernetes.io/no-provisioner"
    }
}

/// A CSIStorageCapacity: how large a volume of the class can be made on some nodes.
#[derive(Debug, Clone)]
pub struct Capacity {
    pub class: String,
    pub nodes: NodeTerm,
    pub largest: Quantity,
}

/// A ResourceQuota: what is left of it.
#[derive(Debug, Clone)]
pub struct Quota {
    pub namespace: String,
    pub hard: BTreeMap<String, i64>,
    pub used: BTreeMap<String, i64>,
}

/// A HyperNode as it is written; `topology` makes trees of them.
#[derive(Debug, Clone)]
pub struct HyperNode {
    pub tier: i64,
    pub tier_name: String,
    pub members: Vec<Member>,
}

#[derive(Debug, Clone)]
pub struct Member {
    pub is_node: bool,
    pub choice: Choice,
}

#[derive(Debug, Clone)]
pub enum Choice {
    Name(String),
    Pattern(Option<regex::Regex>),
    Labels(LabelSelector),
}
