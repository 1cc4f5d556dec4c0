//! The nodes that suit one shape, the best first, kept in step with what is placed meanwhile.
//!
//! A node's score changes only when something is placed on it or taken away; the room notes such changes, and each
//! heap catches up when it is asked. So thousands of pods of one shape cost one look at each node and one step each.

use super::amounts::{PODS, get};
use super::fit::{self, Refusal};
use super::objects::Queue;
use super::policy::Weights;
use super::room::Room;
use super::shape::Shape;
use super::terms::NodeTerm;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Scores are hundredths of a point in thousandths: whole numbers, so that no order of adding matters.
const SCALE: f64 = 100_000.0;
const FULL: i64 = 100_000;
const NEVER: i64 = i64::MIN;

#[derive(Debug, Clone)]
pub struct Candidates {
    /// Number and amount of what is asked for.
    pub need: Vec<(usize, i64)>,
    packing: Vec<(usize, i64, i64)>,
    refusals: Vec<Option<Refusal>>,
    fixed: Vec<i64>,
    current: Vec<i64>,
    heap: BinaryHeap<(i64, Reverse<u32>)>,
    seen: usize,
}

impl Candidates {
    pub fn new(room: &Room, shape: &Shape, queue: Option<&Queue>) -> Candidates {
        let snapshot = room.snapshot;
        let weights = &snapshot.policy.weights;
        let places = fit::places(snapshot, shape);
        let need: Vec<(usize, i64)> = shape.request.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
        let weight = |number: usize| {
            let name = snapshot.names.name(number);
            let default = if name.contains('/') { weights.binpack_device } else { 0 };
            weights.binpack_resources.get(name).copied().unwrap_or(default)
        };
        let packed = need.iter().map(|(number, amount)| (*number, *amount, weight(*number)));
        let packing = packed.filter(|(number, _, weight)| *number != PODS && *weight > 0).collect();
        let refuse = |node| match &places {
            Ok(places) => fit::refusal(node, shape, places, queue),
            Err(_) => Some(Refusal::Volume),
        };
        let refusals: Vec<Option<Refusal>> = room.nodes.iter().map(|node| refuse(node)).collect();
        let mut fixed = preferences(room, shape, weights);
        if let Some(queue) = queue {
            room.nodes.iter().zip(&mut fixed).for_each(|(node, score)| *score += fit::group_score(node, queue) * 1000);
        }
        let mut made = Candidates {
            need,
            packing,
            refusals,
            fixed,
            current: vec![NEVER; room.nodes.len()],
            heap: BinaryHeap::new(),
            seen: room.changes.len(),
        };
        let mut entries = Vec::with_capacity(room.nodes.len());
        for position in 0..room.nodes.len() {
            made.current[position] = made.score(room, position);
            if made.current[position] != NEVER {
                entries.push((made.current[position], Reverse(position as u32)));
            }
        }
        made.heap = BinaryHeap::from(entries);
        made
    }

    pub fn refusal(&self, position: usize) -> Option<Refusal> {
        self.refusals[position]
    }

    /// How many nodes refuse it, and why.
    pub fn refusals(&self) -> BTreeMap<Refusal, usize> {
        let mut counts = BTreeMap::new();
        self.refusals.iter().flatten().for_each(|refusal| *counts.entry(*refusal).or_default() += 1);
        counts
    }

    /// The best node, or none.
    pub fn best(&mut self, room: &Room) -> Option<usize> {
        for index in self.seen..room.changes.len() {
            let position = room.changes[index] as usize;
            let score = self.score(room, position);
            if score != self.current[position] {
                self.current[position] = score;
                if score != NEVER {
                    self.heap.push((score, Reverse(position as u32)));
                }
            }
        }
        self.seen = room.changes.len();
        while let Some((score, Reverse(position))) = self.heap.peek().copied() {
            if self.current[position as usize] == score {
                return Some(position as usize);
            }
            self.heap.pop();
        }
        None
    }

    pub fn fits(&self, room: &Room, position: usize) -> bool {
        let free = room.free(position);
        self.refusals[position].is_none() && self.need.iter().all(|(number, need)| *need <= free[*number])
    }

    /// Higher is better; `None` if it does not fit.
    pub fn score_of(&self, room: &Room, position: usize) -> Option<i64> {
        Some(self.score(room, position)).filter(|score| *score != NEVER)
    }

    fn score(&self, room: &Room, position: usize) -> i64 {
        if !self.fits(room, position) {
            return NEVER;
        }
        let (free, total) = (room.free(position), room.total(position));
        let weights = &room.snapshot.policy.weights;
        let mut score = self.fixed[position];
        if weights.binpack > 0 && !self.packing.is_empty() {
            let mut sum = 0;
            let mut all = 0;
            for (number, need, weight) in &self.packing {
                sum += weight * part(total[*number] - free[*number] + need, total[*number]);
                all += weight;
            }
            score += weights.binpack * (sum / all);
        }
        if weights.least != 0 || weights.most != 0 || weights.balanced != 0 {
            let [cpu, memory] = [1, 2].map(|number| {
                let need = self.need.iter().find(|(known, _)| *known == number).map_or(0, |(_, need)| *need);
                part(total[number] - free[number] + need, total[number])
            });
            let used = (cpu + memory) / 2;
            score += weights.least * (FULL - used) + weights.most * used;
            score += weights.balanced * (FULL - (cpu - memory).abs() / 2);
        }
        score
    }
}

/// `amount` of `total`, between 0 and `FULL`.
fn part(amount: i64, total: i64) -> i64 {
    if total <= 0 {
        return 0;
    }
    let part = (amount as f64 / total as f64 * SCALE).clamp(0.0, SCALE);
    // To the nearest: `round` would be a call.
    (part + 0.5) as i64
}

/// Preferred node affinity and taints that are wishes, which do not change while placing.
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

/// What the shape asks for of a resource.
pub fn asked(shape: &Shape, number: usize) -> i64 {
    get(&shape.request, number)
}
