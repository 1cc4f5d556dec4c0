//! A working copy of what is free, on which placing is tried: every step can be undone, so that all of a gang is kept
//! or nothing.

use super::amounts::Amounts;
use super::candidates::Candidates;
use super::objects::{Key, Node, NodeId, PodId, Queue, ShapeId, State};
use super::relations::View;
use super::site::Site;
use super::snapshot::Snapshot;
use super::volumes::{self, Volumes};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The pod goes onto the node at this position.
    Put(PodId, u32),
    /// The pod leaves the node at this position.
    Remove(PodId, u32),
}

impl Step {
    /// The pod that is put somewhere.
    pub fn put(&self) -> Option<PodId> {
        match self {
            Step::Put(pod, _) => Some(*pod),
            Step::Remove(..) => None,
        }
    }
}

/// Amounts kept free on a node for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub position: u32,
    pub amounts: Amounts,
}

#[derive(Debug)]
pub struct Room<'a> {
    pub snapshot: &'a Snapshot,
    width: usize,
    /// Sorted by name; a node's place here is its position.
    pub nodes: Vec<&'a Node>,
    positions: Vec<u32>,
    total: Vec<i64>,
    free: Vec<i64>,
    pub steps: Vec<Step>,
    /// Positions whose free amounts have changed, in order of time; heaps catch up by it.
    pub changes: Vec<u32>,
    candidates: BTreeMap<(ShapeId, u32), Box<Candidates>>,
    sites: BTreeMap<(&'a str, u32), Rc<Site>>,
    /// How many of the candidates have a heap.
    heaps: usize,
    /// Positions of nodes that pods are leaving.
    leaving_at: Vec<usize>,
    pub views: BTreeMap<ShapeId, View>,
    pub put_at: BTreeMap<u32, Vec<PodId>>,
    put_of: BTreeMap<PodId, u32>,
    /// How many of those keep others apart from them.
    pub put_apart: usize,
    pub gone: BTreeSet<PodId>,
    pub is_without_ours: bool,
    /// By position, what a pod without a topology likes a node for; empty if nothing.
    pub fill: Vec<i64>,
    /// Pods that the placement evicts, and for whom: they are on their way out.
    pub going: BTreeMap<PodId, Key>,
    pub volumes: Volumes<'a>,
    /// Where room is being made, once that has been decided anew; until then, what the pods were told.
    nominated: Option<BTreeMap<PodId, Arc<str>>>,
}

const NOWHERE: u32 = u32::MAX;
/// Lists of candidates with a heap take some 40 bytes per node; beyond so many all are made anew.
const CANDIDATES_MAX: usize = 4096;
const HEAPS_MAX: usize = 128;
const SITES_MAX: usize = 128;

impl<'a> Room<'a> {
    /// What is free now.
    pub fn new(snapshot: &'a Snapshot) -> Room<'a> {
        Self::with(snapshot, false)
    }

    /// What would be free if nothing of ours were placed.
    pub fn without_ours(snapshot: &'a Snapshot) -> Room<'a> {
        Self::with(snapshot, true)
    }

    fn with(snapshot: &'a Snapshot, is_without_ours: bool) -> Room<'a> {
        let width = snapshot.names.width();
        let mut room = Room {
            snapshot,
            width,
            nodes: Vec::with_capacity(snapshot.nodes.len()),
            positions: vec![NOWHERE; snapshot.nodes.bound()],
            total: Vec::with_capacity(snapshot.nodes.len() * width),
            free: Vec::with_capacity(snapshot.nodes.len() * width),
            steps: Vec::new(),
            changes: Vec::new(),
            candidates: BTreeMap::new(),
            sites: BTreeMap::new(),
            heaps: 0,
            leaving_at: Vec::new(),
            views: BTreeMap::new(),
            put_at: BTreeMap::new(),
            put_of: BTreeMap::new(),
            put_apart: 0,
            gone: BTreeSet::new(),
            is_without_ours,
            fill: Vec::new(),
            going: BTreeMap::new(),
            volumes: Volumes::default(),
            nominated: None,
        };
        for (number, node) in snapshot.nodes.iter().filter(|(_, node)| node.is_here) {
            room.positions[number as usize] = room.nodes.len() as u32;
            if node.leaving.iter().any(|amount| *amount > 0) {
                room.leaving_at.push(room.nodes.len());
            }
            room.nodes.push(node);
            let used = if is_without_ours { &node.foreign } else { &node.used };
            for resource in 0..width {
                let total = node.allocatable.get(resource).copied().unwrap_or(0);
                room.total.push(total);
                room.free.push(total - used.get(resource).copied().unwrap_or(0));
            }
        }
        room
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.positions.get(node as usize).filter(|position| **position != NOWHERE).map(|position| *position as usize)
    }

    pub fn free(&self, position: usize) -> &[i64] {
        &self.free[position * self.width..][..self.width]
    }

    pub fn total(&self, position: usize) -> &[i64] {
        &self.total[position * self.width..][..self.width]
    }

    /// Of all nodes together.
    pub fn total_of_all(&self) -> Amounts {
        self.sum(&self.total)
    }

    pub fn free_of_all(&self) -> Amounts {
        self.sum(&self.free)
    }

    fn sum(&self, all: &[i64]) -> Amounts {
        let mut sum = vec![0_i64; self.width];
        for one in all.chunks_exact(self.width) {
            sum.iter_mut().zip(one).for_each(|(sum, one)| *sum = sum.saturating_add((*one).max(0)));
        }
        sum
    }

    fn change(&mut self, position: u32, amounts: &[i64], sign: i64) {
        let base = position as usize * self.width;
        for (number, amount) in amounts.iter().enumerate() {
            self.free[base + number] += sign * amount;
        }
        self.changes.push(position);
    }

    pub fn put(&mut self, pod: PodId, position: usize) {
        self.apply(Step::Put(pod, position as u32), 1);
        self.steps.push(Step::Put(pod, position as u32));
    }

    /// Where the pod is, or was put in this room.
    pub fn position_of(&self, pod: PodId) -> Option<usize> {
        let put = self.put_of.get(&pod).map(|position| *position as usize);
        put.or_else(|| self.snapshot.pods[pod].node.and_then(|node| self.position(node)))
    }

    /// Pods that were put in this room.
    pub fn put_pods(&self) -> impl Iterator<Item = PodId> {
        self.put_of.keys().copied()
    }

    pub fn is_put(&self, pod: PodId) -> bool {
        self.put_of.contains_key(&pod)
    }

    /// Takes a pod off its node; nothing if its node is not here.
    pub fn remove(&mut self, pod: PodId) {
        if let Some(position) = self.position_of(pod).filter(|_| !self.gone.contains(&pod)) {
            self.apply(Step::Remove(pod, position as u32), 1);
            self.steps.push(Step::Remove(pod, position as u32));
        }
    }

    fn apply(&mut self, step: Step, sign: i64) {
        let (pod, position, is_put) = match step {
            Step::Put(pod, position) => (pod, position, true),
            Step::Remove(pod, position) => (pod, position, false),
        };
        let snapshot = self.snapshot;
        let shape = &snapshot.shapes[snapshot.pods[pod].shape];
        self.change(position, &shape.request, if is_put { -sign } else { sign });
        match (is_put, sign > 0) {
            (true, true) => {
                self.put_at.entry(position).or_default().push(pod);
                self.put_of.insert(pod, position);
            }
            (true, false) => {
                self.put_at.get_mut(&position).and_then(Vec::pop);
                self.put_of.remove(&pod);
            }
            (false, true) => drop(self.gone.insert(pod)),
            (false, false) => drop(self.gone.remove(&pod)),
        }
        if is_put && !shape.claims.is_empty() {
            volumes::note(self, pod, position as usize, sign > 0);
        }
        if is_put && !shape.apart.is_empty() {
            self.put_apart = if sign > 0 { self.put_apart + 1 } else { self.put_apart - 1 };
        }
        if !self.views.is_empty() {
            let more = if is_put == (sign > 0) { 1 } else { -1 };
            let (snapshot, node) = (self.snapshot, self.nodes[position as usize]);
            self.views.values_mut().for_each(|view| view.count(snapshot, pod, node, more));
        }
    }

    /// Undoes all steps after the first `kept`.
    pub fn undo_to(&mut self, kept: usize) {
        while self.steps.len() > kept {
            let step = self.steps.pop().expect("the list is longer than what is kept");
            self.apply(step, -1);
        }
    }

    /// Keeps amounts free, or gives them back (`sign` 1 or -1).
    pub fn hold(&mut self, holds: &[Hold], sign: i64) {
        holds.iter().for_each(|hold| self.change(hold.position, &hold.amounts, -sign));
    }

    /// The candidates for a shape, made when first asked for.
    pub fn with_candidates<T>(
        &mut self,
        shape: ShapeId,
        queue: Option<(u32, &Queue)>,
        ask: impl FnOnce(&Room, &mut Candidates) -> T,
    ) -> T {
        let key = (shape, queue.map_or(NOWHERE, |(number, _)| number));
        let made = self.candidates.remove(&key);
        let mut candidates = made.unwrap_or_else(|| {
            let site = self.site(shape, queue);
            Box::new(Candidates::new(self.snapshot, &self.snapshot.shapes[shape], site))
        });
        let had_heap = candidates.has_heap();
        let answer = ask(self, &mut candidates);
        self.heaps += usize::from(candidates.has_heap() && !had_heap);
        if self.candidates.len() >= CANDIDATES_MAX || self.heaps > HEAPS_MAX {
            self.candidates.clear();
            self.heaps = usize::from(candidates.has_heap());
        }
        self.candidates.insert(key, candidates);
        answer
    }

    /// Which nodes suit the shape, shared by all that ask for more or less of the same nodes.
    fn site(&mut self, shape: ShapeId, queue: Option<(u32, &Queue)>) -> Rc<Site> {
        let asks = &self.snapshot.shapes[shape];
        let key = (asks.site.as_str(), queue.map_or(NOWHERE, |(number, _)| number));
        if let Some(site) = self.sites.get(&key) {
            return site.clone();
        }
        let site = Rc::new(Site::new(self, asks, queue.map(|(_, queue)| queue)));
        if self.sites.len() >= SITES_MAX {
            self.sites.clear();
        }
        self.sites.insert(key, site.clone());
        site
    }

    /// Makes sure that the view of what is where is there for a shape that cares.
    pub fn ensure_view(&mut self, shape: ShapeId) {
        if !self.views.contains_key(&shape) {
            let view = View::new(self, shape);
            self.views.insert(shape, view);
        }
    }

    /// Pods that hold something on a node, as things stand in this room, and the node's position.
    pub fn standing(&self) -> impl Iterator<Item = (PodId, usize)> {
        let on_nodes = self.nodes.iter().enumerate().flat_map(|(at, node)| node.pods.iter().map(move |pod| (*pod, at)));
        let stays = |pod: &PodId| {
            let known = &self.snapshot.pods[*pod];
            known.state.holds() && !self.gone.contains(pod) && !(self.is_without_ours && known.is_ours)
        };
        let put = self.put_of.iter().map(|(pod, at)| (*pod, *at as usize));
        on_nodes.filter(move |(pod, _)| stays(pod)).chain(put.filter(|(pod, _)| !self.gone.contains(pod)))
    }

    /// Pods on one node, as things stand in this room.
    pub fn standing_at(&self, position: usize) -> impl Iterator<Item = PodId> {
        let stays = |pod: &&PodId| {
            let known = &self.snapshot.pods[**pod];
            known.state.holds() && !self.gone.contains(pod) && !(self.is_without_ours && known.is_ours)
        };
        let put = self.put_at.get(&(position as u32)).into_iter().flatten();
        self.nodes[position].pods.iter().filter(stays).chain(put.filter(|pod| !self.gone.contains(pod))).copied()
    }

    /// Pods that are on their way out.
    pub fn leaving(&self) -> Vec<PodId> {
        let pods = self.leaving_at.iter().flat_map(|at| self.nodes[*at].pods.iter().copied());
        let leaving = pods.filter(|pod| self.snapshot.pods[*pod].state == State::Leaving);
        leaving.chain(self.going.keys().copied()).collect()
    }

    /// The pod's state, as it will be seen after what the placement places and evicts.
    pub fn state(&self, pod: PodId) -> State {
        if self.going.contains_key(&pod) {
            State::Leaving
        } else if self.is_put(pod) {
            State::Bound
        } else {
            self.snapshot.pods[pod].state
        }
    }

    /// When the pod was placed, if it was: what is placed now is seen as it will be.
    pub fn started(&self, pod: PodId, now: i64) -> Option<i64> {
        if self.is_put(pod) { Some(now) } else { self.snapshot.pods[pod].started }
    }

    /// Where room is being made for the pod.
    pub fn nominated(&self, pod: PodId) -> Option<&Arc<str>> {
        match &self.nominated {
            Some(nominated) => nominated.get(&pod),
            None => self.snapshot.pods[pod].nominated.as_ref(),
        }
    }

    pub fn nominate(&mut self, nominated: BTreeMap<PodId, Arc<str>>) {
        self.nominated = Some(nominated);
    }
}
