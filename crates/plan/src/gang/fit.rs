//! Whether a node suits a pod however much room it has, and the words for why a node is refused.

use super::objects::{Node, Queue};
use super::shape::Shape;
use super::snapshot::Snapshot;
use super::terms::{NodeTerm, Taint};
use super::volumes;
use super::why::WaitingOn;
use std::fmt;

const NODE_GROUP: &str = "volcano.sh/nodegroup-name";

/// Why a node cannot take a pod. The texts are those that Kubernetes' users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    NotReady,
    Cordoned,
    Taint,
    Selector,
    Volume,
    QueueNodes,
    /// No volume that a claim could have is there.
    NoVolume,
    /// A volume for a claim could be made there, were there storage for it.
    NoStorage,
    VolumesMax,
    /// Another pod uses a claim that only one may use.
    ClaimInUse,
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
            Refusal::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Refusal::NoStorage => "node(s) did not have enough free storage",
            Refusal::VolumesMax => "node(s) exceed max volume count",
            Refusal::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                 another pod"
            }
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
    for key in shape.claim_keys() {
        let wait = |is_missing, problem: Option<String>| {
            let claim = key.1.clone();
            Box::new(WaitingOn::Claim { claim, is_missing, problem })
        };
        let claim = snapshot.claims.get(&key).ok_or_else(|| wait(true, None))?;
        let maker = shape.made_claims.iter().find(|(name, _)| *name == key.1).map(|(_, pod)| pod);
        if let Some(pod) = maker.filter(|pod| **pod != claim.owner) {
            return Err(wait(false, Some(format!("was not created for pod {pod}, which would have made it"))));
        }
        if claim.is_leaving {
            return Err(wait(false, Some("is being deleted".to_owned())));
        }
        let promised = snapshot.promised.get(&key).map(|volume| &**volume);
        let volume = Some(claim.volume.as_str()).filter(|volume| !volume.is_empty()).or(promised);
        if let Some(name) = volume {
            let lost = || wait(false, Some(format!("is bound to volume \"{name}\", which does not exist")));
            let volume = snapshot.volumes.get(name).ok_or_else(lost)?;
            places.extend(volume.terms.as_deref());
            continue;
        }
        // One that names its volume is bound without us.
        let class = snapshot.storage_classes.get(&claim.class).filter(|class| class.waits_for_pod);
        let class = class.filter(|_| claim.chosen.is_empty()).ok_or_else(|| wait(false, None))?;
        // Where there are volumes, `volumes` looks for one node by node; they may be where the class makes none.
        if !class.terms.is_empty() && !volumes::may_have_one(snapshot, &key, claim) {
            places.push(&class.terms);
        }
    }
    Ok(places)
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
    let bears = |key: &str| {
        let taint = Taint { key: key.to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
        shape.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
    };
    let is_reached = |terms: &&[NodeTerm]| terms.iter().any(|term| term.matches(&node.name, &node.labels));
    // Its taint follows a moment later; who bears that may go there.
    if !node.is_ready && !bears("node.kubernetes.io/not-ready") {
        Some(Refusal::NotReady)
    } else if node.is_cordoned && !bears("node.kubernetes.io/unschedulable") {
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
