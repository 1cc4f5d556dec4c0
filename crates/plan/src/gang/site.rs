//! Which nodes suit pods however much those ask for, and which of them are in the same state.
//!
//! Pods that differ only in their amounts share a site. Of nodes that are as large, as full and as much liked as each other
//! the first is as good as any: a look at a cluster of thousands of nodes is a look at a few groups.

use super::amounts::PODS;
use super::candidates::part;
use super::fit::{self, Refusal};
use super::objects::Queue;
use super::policy::Weights;
use super::room::Room;
use super::shape::Shape;
use super::terms::NodeTerm;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

/// A full score, as in `candidates`.
const FULL: i64 = 100_000;
/// So many times all nodes are gone through before groups are made of them, which costs as much as some looks.
const SCANS_MAX: usize = 16;

/// Up to so many groups, going through them is as quick as a heap.
const GROUPS_FEW: usize = 64;

/// What nodes of a group have in common, what is free of the leading resource first.
type State = Rc<[i64]>;

#[derive(Debug)]
pub struct Site {
    pub refusals: Vec<Option<Refusal>>,
    /// What nodes are liked for, which does not change while placing.
    pub fixed: Vec<i64>,
    scans: Cell<usize>,
    /// How many groups were gone through last.
    looks: Cell<usize>,
    groups: RefCell<Groups>,
}

#[derive(Debug, Default)]
struct Groups {
    all: BTreeMap<State, BTreeSet<u32>>,
    /// By position; none for nodes that do not suit.
    of: Vec<Option<State>>,
    /// A device where there is one: mostly it is what pods are short of.
    lead: usize,
    seen: usize,
}

impl Site {
    pub fn new(room: &Room, shape: &Shape, queue: Option<&Queue>) -> Site {
        let snapshot = room.snapshot;
        let places = fit::places(snapshot, shape);
        let refuse = |node| match &places {
            Ok(places) => fit::refusal(node, shape, places, queue),
            Err(_) => Some(Refusal::Volume),
        };
        let refusals: Vec<Option<Refusal>> = room.nodes.iter().map(|node| refuse(node)).collect();
        let mut fixed = preferences(room, shape, &snapshot.policy.weights);
        fixed.iter_mut().zip(&room.fill).for_each(|(score, fill)| *score += fill);
        if let Some(queue) = queue {
            room.nodes.iter().zip(&mut fixed).for_each(|(node, score)| *score += fit::group_score(node, queue) * 1000);
        }
        Site { refusals, fixed, scans: Cell::new(0), looks: Cell::new(0), groups: RefCell::default() }
    }

    /// Whether another shape is looked up quickly without a list of its own.
    pub fn is_quick(&self) -> bool {
        self.scans.get() >= SCANS_MAX && self.looks.get() <= GROUPS_FEW
    }

    /// The position with the highest score, of equals the first; `score` is the same for all nodes of a group.
    pub fn best(&self, room: &Room, need: &[(usize, i64)], score: impl Fn(usize) -> Option<i64>) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        if self.scans.get() < SCANS_MAX {
            self.scans.set(self.scans.get() + 1);
            for position in 0..room.nodes.len() {
                if let Some(score) = score(position).filter(|score| best.is_none_or(|(most, _)| *score > most)) {
                    best = Some((score, position));
                }
            }
            return best.map(|(_, position)| position);
        }
        let mut groups = self.groups.borrow_mut();
        groups.catch_up(room, self);
        let least = need.iter().find(|(number, _)| *number == groups.lead).map_or(i64::MIN, |(_, need)| *need);
        let mut looks = 0;
        for (_, nodes) in groups.all.range::<[i64], _>((Bound::Included(&[least][..]), Bound::Unbounded)) {
            looks += 1;
            let Some(position) = nodes.first().map(|first| *first as usize) else { continue };
            let Some(score) = score(position) else { continue };
            if best.is_none_or(|(most, at)| score > most || (score == most && position < at)) {
                best = Some((score, position));
            }
        }
        self.looks.set(looks);
        best.map(|(_, position)| position)
    }
}

impl Groups {
    fn catch_up(&mut self, room: &Room, site: &Site) {
        if self.of.is_empty() {
            self.of = vec![None; room.nodes.len()];
            self.lead = room.snapshot.names.by_name().first().copied().unwrap_or(PODS);
            (0..room.nodes.len()).for_each(|position| self.enter(room, site, position));
        } else if room.changes.len() - self.seen > room.nodes.len() {
            *self = Groups::default();
            return self.catch_up(room, site);
        } else {
            for index in self.seen..room.changes.len() {
                self.enter(room, site, room.changes[index] as usize);
            }
        }
        self.seen = room.changes.len();
    }

    /// Puts a node among its equals.
    fn enter(&mut self, room: &Room, site: &Site, position: usize) {
        if site.refusals[position].is_some() {
            return;
        }
        let (free, total) = (room.free(position), room.total(position));
        let state = || [free[self.lead], site.fixed[position]].into_iter().chain(free.iter().chain(total).copied());
        if self.of[position].as_ref().is_some_and(|known| known.iter().copied().eq(state())) {
            return;
        }
        let state: State = state().collect();
        if let Some(old) = self.of[position].take() {
            let is_last = self.all.get_mut(&old).is_some_and(|nodes| {
                nodes.remove(&(position as u32));
                nodes.is_empty()
            });
            if is_last {
                self.all.remove(&old);
            }
        }
        self.all.entry(state.clone()).or_default().insert(position as u32);
        self.of[position] = Some(state);
    }
}

/// Preferred node affinity and taints that are wishes.
fn preferences(room: &Room, shape: &Shape, weights: &Weights) -> Vec<i64> {
    let liking = |term: &(i64, NodeTerm), position: usize| {
        let node = &room.nodes[position];
        if term.1.matches(&node.name, &node.labels) { term.0 } else { 0 }
    };
    let most: i64 = shape.preferred.iter().map(|(weight, _)| *weight).sum();
    let score = |position: usize| {
        let mut score = 0;
        if most > 0 {
            let liked: i64 = shape.preferred.iter().map(|term| liking(term, position)).sum();
            score += weights.node_affinity * part(liked, most);
        }
        let is_borne = |taint| shape.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        let taints = &room.nodes[position].taints;
        let disliked = taints.iter().filter(|taint| taint.is_wish() && !is_borne(taint)).count();
        score - weights.taint * FULL * i64::try_from(disliked).unwrap_or(0)
    };
    (0..room.nodes.len()).map(score).collect()
}
