//! Pods that care where other pods are: (anti-)affinity to pods, topology spread, host ports, NUMA cells.
//!
//! A `View` counts, for one shape, the pods that each of its terms means by the value of the node's label. The room
//! keeps the counts in step while it places and undoes.

use super::candidates::asked;
use super::fit::{Refusal, is_tolerated, is_wanted};
use super::objects::{Node, Pod, PodId, ShapeId, State};
use super::room::Room;
use super::shape::Shape;
use super::snapshot::Snapshot;
use super::strings::Labels;
use super::terms::{PodTerm, Spread};
use super::volumes;
use std::collections::{BTreeMap, BTreeSet};

const CPU: usize = 1;
/// A full score, as in `candidates`.
const FULL: i64 = 100_000;

type Counts = BTreeMap<String, i64>;

/// In the order near, apart, leanings, spread.
#[derive(Debug, Clone)]
pub struct View {
    shape: ShapeId,
    counts: Vec<Counts>,
    /// For each spread constraint, the values that count.
    domains: Vec<BTreeSet<String>>,
}

fn terms(shape: &Shape) -> impl Iterator<Item = &PodTerm> {
    let leanings = shape.leanings.iter().map(|(_, term)| term);
    let spread = shape.spread.iter().map(|spread| &spread.term);
    shape.near.iter().chain(&shape.apart).chain(leanings).chain(spread)
}

/// Whether more than room decides which nodes suit the shape: pods, ports or volumes that are there.
pub fn is_choosy(snapshot: &Snapshot, shape: &Shape) -> bool {
    heeds_others(shape) || volumes::matter_to(snapshot, shape)
}

fn heeds_others(shape: &Shape) -> bool {
    shape.is_related() || !shape.ports.is_empty()
}

impl Room<'_> {
    /// As `is_choosy`, of a pod, with its NUMA cell; what its claims ask for is known then.
    pub fn is_choosy(&mut self, pod: PodId) -> bool {
        let known = &self.snapshot.pods[pod];
        let shape = &self.snapshot.shapes[known.shape];
        let has_needs = self.ensure_needs(known.shape);
        has_needs || heeds_others(shape) || known.numa_policy.is_some()
    }
}

/// Whether the term means the pod.
fn means(snapshot: &Snapshot, term: &PodTerm, pod: &Pod) -> bool {
    let is_named = || term.namespaces.iter().any(|name| **name == *pod.key.namespace);
    let is_selected = || {
        let selector = term.namespace_selector.as_ref();
        let labels = snapshot.namespaces.get(&*pod.key.namespace);
        selector.is_some_and(|selector| selector.matches_with(|key| labels.and_then(|labels| labels.get(key))))
    };
    (is_named() || is_selected()) && term.selector.matches_with(|key| pod.labels.get(key))
}

/// Whether pods on the node matter to a pod of this shape that spreads itself so: it could go there, and the node has a
/// part in everything that it must spread over.
fn is_counted(node: &Node, spread: &Spread, shape: &Shape) -> bool {
    let has_part = |other: &Spread| !other.is_hard || node.labels.get(&other.term.key).is_some();
    (!spread.is_hard || shape.spread.iter().all(has_part))
        && (spread.ignores_affinity || is_wanted(node, shape))
        && (!spread.honours_taints || is_tolerated(node, shape))
}

impl View {
    pub fn new(room: &Room, shape: ShapeId) -> View {
        let asks = &room.snapshot.shapes[shape];
        let domains = |spread: &Spread| {
            let nodes = room.nodes.iter().filter(|node| is_counted(node, spread, asks));
            nodes.filter_map(|node| Some(node.labels.get(&spread.term.key)?.to_owned())).collect()
        };
        let mut view = View {
            shape,
            counts: vec![Counts::new(); terms(asks).count()],
            domains: asks.spread.iter().map(domains).collect(),
        };
        for (pod, position) in room.standing() {
            view.count(room.snapshot, pod, room.nodes[position], 1);
        }
        view
    }

    pub fn count(&mut self, snapshot: &Snapshot, pod: PodId, node: &Node, more: i64) {
        let (shape, pod) = (&snapshot.shapes[self.shape], &snapshot.pods[pod]);
        let first_spread = self.counts.len() - shape.spread.len();
        // Only who is meant by all of them is a pod that this one must be near to.
        let is_near = shape.near.iter().all(|term| means(snapshot, term, pod));
        for (index, (term, counts)) in terms(shape).zip(&mut self.counts).enumerate() {
            let spread = index.checked_sub(first_spread).map(|at| &shape.spread[at]);
            // As Kubernetes' own scheduler counts: neither pods that end, nor nodes that are not for this pod.
            let is_left_out = |spread: &Spread| pod.state == State::Leaving || !is_counted(node, spread, shape);
            let value = node.labels.get(&term.key).filter(|_| !spread.is_some_and(is_left_out));
            let is_meant = || if index < shape.near.len() { is_near } else { means(snapshot, term, pod) };
            if let Some(value) = value.filter(|_| is_meant()) {
                *counts.entry(value.to_owned()).or_default() += more;
            }
        }
    }

    fn counted(&self, index: usize, value: &str) -> i64 {
        self.counts[index].get(value).copied().unwrap_or(0)
    }

    fn refusal(&self, snapshot: &Snapshot, pod: &Pod, node: &Labels) -> Option<Refusal> {
        let shape = &snapshot.shapes[self.shape];
        let near = shape.near.len();
        let is_alone = || {
            let nobody = self.counts[..near].iter().all(|counts| counts.values().all(|count| *count <= 0));
            nobody && shape.near.iter().all(|term| means(snapshot, term, pod))
        };
        let is_near = |(index, term): (usize, &PodTerm)| {
            node.get(&term.key).is_some_and(|value| self.counted(index, value) > 0 || is_alone())
        };
        if !shape.near.iter().enumerate().all(is_near) {
            return Some(Refusal::Near);
        }
        let clashes = |(index, term): (usize, &PodTerm)| {
            node.get(&term.key).is_some_and(|value| self.counted(near + index, value) > 0)
        };
        if shape.apart.iter().enumerate().any(clashes) {
            return Some(Refusal::Apart);
        }
        let is_even = |(index, spread): (usize, &Spread)| !spread.is_hard || self.is_even(snapshot, index, pod, node);
        if !shape.spread.iter().enumerate().all(is_even) {
            return Some(Refusal::Spread);
        }
        None
    }

    fn is_even(&self, snapshot: &Snapshot, index: usize, pod: &Pod, node: &Labels) -> bool {
        let shape = &snapshot.shapes[self.shape];
        let spread = &shape.spread[index];
        let Some(value) = node.get(&spread.term.key) else { return false };
        let at = self.counts.len() - shape.spread.len() + index;
        let domains = &self.domains[index];
        let has_few = i64::try_from(domains.len()).unwrap_or(i64::MAX) < spread.domains_min;
        let least = domains.iter().map(|domain| self.counted(at, domain)).min().unwrap_or(0);
        let least = if has_few { 0 } else { least };
        let own = i64::from(means(snapshot, &spread.term, pod));
        self.counted(at, value) + own - least <= spread.skew_max
    }

    /// What it would like: pods that attract or repel it, and few of its kind where it spreads.
    fn score(&self, snapshot: &Snapshot, node: &Labels) -> i64 {
        let shape = &snapshot.shapes[self.shape];
        let weights = &snapshot.policy.weights;
        let first = shape.near.len() + shape.apart.len();
        let mut score = 0;
        for (index, (weight, term)) in shape.leanings.iter().enumerate() {
            let count = node.get(&term.key).map_or(0, |value| self.counted(first + index, value));
            score += weights.pod_affinity * weight * count.min(100) * FULL / 100;
        }
        for (index, spread) in shape.spread.iter().enumerate().filter(|(_, spread)| !spread.is_hard) {
            let at = first + shape.leanings.len() + index;
            let count = node.get(&spread.term.key).map_or(10, |value| self.counted(at, value));
            score -= weights.spread * count.min(10) * FULL / 4;
        }
        score
    }
}

/// Why the node cannot take the pod because of what is there already; the room has a view for it if it needs one.
pub fn refusal(room: &Room, pod: PodId, position: usize) -> Option<Refusal> {
    let asks = &room.snapshot.pods[pod];
    let shape = &room.snapshot.shapes[asks.shape];
    let labels = &room.nodes[position].labels;
    let related = room.views.get(&asks.shape).and_then(|view| view.refusal(room.snapshot, asks, labels));
    if related.is_some() {
        return related;
    }
    if !shape.ports.is_empty() {
        let held = |other: PodId| &room.snapshot.shapes[room.snapshot.pods[other].shape].ports;
        let clashes =
            |other: PodId| held(other).iter().any(|port| shape.ports.iter().any(|own| own.clashes_with(port)));
        if room.standing_at(position).any(clashes) {
            return Some(Refusal::Ports);
        }
    }
    let refused = volumes::refusal(room, pod, position);
    if refused.is_some() {
        return refused;
    }
    if room.snapshot.policy.knows_numa && asks.numa_policy.is_some() && !has_cell(room, pod, position) {
        return Some(Refusal::Numa);
    }
    None
}

pub fn score(room: &Room, shape: ShapeId, position: usize) -> i64 {
    room.views.get(&shape).map_or(0, |view| view.score(room.snapshot, &room.nodes[position].labels))
}

/// The labels and values of nodes that pods which are placed keep this pod away from.
pub fn kept_apart(room: &Room, pod: PodId) -> BTreeSet<(String, String)> {
    let snapshot = room.snapshot;
    let asks = &snapshot.pods[pod];
    let mut away = BTreeSet::new();
    let mut add = |other: PodId, position: usize| {
        for term in &snapshot.shapes[snapshot.pods[other].shape].apart {
            let value = room.nodes[position].labels.get(&term.key);
            if let Some(value) = value.filter(|_| means(snapshot, term, asks)) {
                away.insert((term.key.clone(), value.to_owned()));
            }
        }
    };
    for other in &snapshot.keeping_apart {
        let is_away = room.gone.contains(other) || (room.is_without_ours && snapshot.pods[*other].is_ours);
        let position = snapshot.pods[*other].node.and_then(|node| room.position(node));
        if let Some(position) = position.filter(|_| !is_away) {
            add(*other, position);
        }
    }
    for (position, pods) in &room.put_at {
        let standing = pods.iter().filter(|other| !room.gone.contains(other));
        standing.for_each(|other| add(*other, *position as usize));
    }
    away
}

/// Whether one NUMA cell has the CPUs that the pod is to have for itself, after those that are put there in this round.
fn has_cell(room: &Room, pod: PodId, position: usize) -> bool {
    let snapshot = room.snapshot;
    let node = room.nodes[position];
    let policy = snapshot.pods[pod].numa_policy.as_deref().unwrap_or_default();
    if node.cells.is_empty() || policy == "best-effort" {
        return true;
    }
    let wish = |pod: PodId| asked(&snapshot.shapes[snapshot.pods[pod].shape], CPU);
    let mut cells = node.cells.clone();
    let before = room.put_at.get(&(position as u32)).into_iter().flatten().copied();
    for pod in before.filter(|pod| snapshot.pods[*pod].numa_policy.is_some()).chain([pod]) {
        // The tightest cell that has enough, so that large ones stay whole.
        let all: i64 = cells.iter().sum();
        let tightest = cells.iter_mut().filter(|free| **free >= wish(pod)).min();
        match tightest {
            Some(free) => *free -= wish(pod),
            // `restricted` takes as few cells as it can: several only if no cell is large enough when empty.
            None if policy == "restricted" && all >= wish(pod) => return true,
            None => return false,
        }
    }
    true
}
