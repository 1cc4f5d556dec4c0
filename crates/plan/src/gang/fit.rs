//! Whether a node suits a pod however much room it has, and the words for why a node is refused.

use super::objects::{Key, Node, PodId, Queue};
use super::shape::Shape;
use super::snapshot::Snapshot;
use super::terms::{NodeTerm, Taint};
use super::why::WaitingOn;
use std::fmt;

const NODE_GROUP: &str = "volcano.sh/nodegroup-name";
/// What a claim is told by: whoever makes its volume makes it there.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Why a node cannot take a pod. The texts are those that Kubernetes' users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    NotReady,
    Cordoned,
    Taint,
    Selector,
    Volume,
    QueueNodes,
    Ports,
    Near,
    Apart,
    KeptApart,
    Spread,
    Numa,
    Domain,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refusal::NotReady => "node(s) were not ready",
            Refusal::Cordoned => "node(s) were unschedulable",
            Refusal::Taint => "node(s) had untolerated taint(s)",
            Refusal::Selector => "node(s) didn't match Pod's node affinity/selector",
            Refusal::Volume => "node(s) had volume node affinity conflict",
            Refusal::QueueNodes => "node(s) didn't belong to the queue's node groups",
            Refusal::Ports => "node(s) didn't have free ports for the requested pod ports",
            Refusal::Near => "node(s) didn't match pod affinity rules",
            Refusal::Apart => "node(s) didn't match pod anti-affinity rules",
            Refusal::KeptApart => "node(s) didn't satisfy existing pods anti-affinity rules",
            Refusal::Spread => "node(s) didn't match pod topology spread constraints",
            Refusal::Numa => "node(s) had no NUMA cell with enough free CPUs",
            Refusal::Domain => "node(s) were outside the gang's network domain",
        })
    }
}

/// What its claims ask of a node.
pub type Places<'a> = Vec<&'a [NodeTerm]>;

/// Where the pod's claims let it go; an error if they let it go nowhere yet.
pub fn places<'a>(snapshot: &'a Snapshot, shape: &Shape) -> Result<Places<'a>, Box<WaitingOn>> {
    if let Some(claim) = shape.device_claims.first() {
        return Err(Box::new(WaitingOn::Devices { claim: claim.clone() }));
    }
    let mut places = Places::new();
    for name in &shape.claims {
        let problem = |is_missing| Box::new(WaitingOn::Claim { claim: name.clone(), is_missing });
        let claim = snapshot.claims.get(&(shape.namespace.clone(), name.clone())).ok_or_else(|| problem(true))?;
        if claim.volume.is_empty() {
            let class = snapshot.storage_classes.get(&claim.class).filter(|class| class.waits_for_pod);
            // Nobody makes a volume where the pod goes: one that is there is to be bound first, and says where it is.
            let class = class.filter(|class| !class.is_static).ok_or_else(|| problem(false))?;
            if !class.terms.is_empty() {
                places.push(&class.terms);
            }
        } else if let Some(Some(terms)) = snapshot.volumes.get(&claim.volume) {
            places.push(terms);
        }
    }
    Ok(places)
}

/// A claim that gets its volume where its pod goes, and whether it was told that it is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenClaim {
    pub key: Key,
    pub is_told: bool,
}

/// The claims that must have their volumes before the pod can be bound to the node.
pub fn open_claims(snapshot: &Snapshot, pod: PodId, node: &str) -> Vec<OpenClaim> {
    let namespace = &snapshot.pods[pod].key.namespace;
    let open = |name: &String| {
        let claim = snapshot.claims.get(&(namespace.to_string(), name.clone()))?;
        let key = Key { namespace: namespace.clone(), name: name.as_str().into() };
        claim.volume.is_empty().then(|| OpenClaim { key, is_told: claim.node == node })
    };
    snapshot.shapes[snapshot.pods[pod].shape].claims.iter().filter_map(open).collect()
}

pub fn is_wanted(node: &Node, shape: &Shape) -> bool {
    let matches = |term: &NodeTerm| term.matches(&node.name, &node.labels);
    shape.selector.iter().all(|wish| wish.holds(node.labels.get(&wish.key)))
        && shape.required.as_ref().is_none_or(|terms| terms.iter().any(matches))
}

pub fn is_tolerated(node: &Node, shape: &Shape) -> bool {
    let tolerates = |taint: &Taint| shape.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    node.taints.iter().all(|taint| taint.is_wish() || tolerates(taint))
}

/// Why the node takes no pod, or not this one. `queue` is given only if it cares for node groups.
pub fn refusal(node: &Node, shape: &Shape, places: &Places, queue: Option<&Queue>) -> Option<Refusal> {
    let bears_cordon = || {
        let (key, effect) = ("node.kubernetes.io/unschedulable".to_owned(), "NoSchedule".to_owned());
        let cordon = Taint { key, value: String::new(), effect };
        shape.tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
    };
    let is_reached = |terms: &&[NodeTerm]| terms.iter().any(|term| term.matches(&node.name, &node.labels));
    if !node.is_ready {
        Some(Refusal::NotReady)
    } else if node.is_cordoned && !bears_cordon() {
        Some(Refusal::Cordoned)
    } else if !is_tolerated(node, shape) {
        Some(Refusal::Taint)
    } else if !is_wanted(node, shape) {
        Some(Refusal::Selector)
    } else if !places.iter().all(is_reached) {
        Some(Refusal::Volume)
    } else if queue.is_some_and(|queue| !is_in_groups(node, queue)) {
        Some(Refusal::QueueNodes)
    } else {
        None
    }
}

/// A queue with required or preferred groups keeps to them; one with refused groups keeps out of those.
fn is_in_groups(node: &Node, queue: &Queue) -> bool {
    let group = node.labels.get(NODE_GROUP);
    let is_in = |list: &Vec<String>| group.is_some_and(|group| list.iter().any(|name| name == group));
    let [required, refused, preferred, _] = &queue.groups;
    let keeps = !required.is_empty() || !preferred.is_empty();
    if keeps { (is_in(required) || is_in(preferred)) && !is_in(refused) } else { !is_in(refused) }
}

/// How much the queue likes the node's group: 100 required, 50 preferred, -1 disliked.
pub fn group_score(node: &Node, queue: &Queue) -> i64 {
    let group = node.labels.get(NODE_GROUP);
    let is_in = |list: &Vec<String>| group.is_some_and(|group| list.iter().any(|name| name == group));
    let [required, _, preferred, disliked] = &queue.groups;
    if is_in(required) {
        100
    } else if is_in(preferred) {
        50
    } else if is_in(disliked) {
        -1
    } else {
        0
    }
}
