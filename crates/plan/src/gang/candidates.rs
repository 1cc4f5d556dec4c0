//! The nodes that suit one shape, the best first, kept in step with what is placed meanwhile.
//!
//! A node's score changes only when something is placed on it or taken away; the room notes such changes, and each
//! heap catches up when it is asked. So thousands of pods of one shape cost one look at each node and one step each.
//! A shape that is asked for a few times only needs no heap: its site knows which nodes are alike.

use super::amounts::{PODS, get};
use super::fit::Refusal;
use super::room::Room;
use super::shape::Shape;
use super::site::Site;
use super::snapshot::Snapshot;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

/// Scores are hundredths of a point in thousandths: whole numbers, so that no order of adding matters.
const SCALE: f64 = 100_000.0;
const FULL: i64 = 100_000;
const NEVER: i64 = i64::MIN;
/// Asked for more often, a shape gets a heap.
const ASKED_MAX: usize = 1;

#[derive(Debug, Clone)]
pub struct Candidates {
    /// Number and amount of what is asked for.
    pub need: Vec<(usize, i64)>,
    packing: Vec<(usize, i64, i64)>,
    site: Rc<Site>,
    asked: usize,
    heap: Option<Heap>,
}

#[derive(Debug, Clone)]
struct Heap {
    /// By position, the score that counts.
    current: Vec<i64>,
    entries: BinaryHeap<(i64, Reverse<u32>)>,
    seen: usize,
}

impl Candidates {
    pub fn new(snapshot: &Snapshot, shape: &Shape, site: Rc<Site>) -> Candidates {
        let weights = &snapshot.policy.weights;
        let need: Vec<(usize, i64)> = shape.request.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
        let weight = |number: usize| {
            let name = snapshot.names.name(number);
            let default = if name.contains('/') { weights.binpack_device } else { 0 };
            weights.binpack_resources.get(name).copied().unwrap_or(default)
        };
        let packed = need.iter().map(|(number, amount)| (*number, *amount, weight(*number)));
        let packing = packed.filter(|(number, _, weight)| *number != PODS && *weight > 0).collect();
        Candidates { need, packing, site, asked: 0, heap: None }
    }

    pub fn has_heap(&self) -> bool {
        self.heap.is_some()
    }

    pub fn refusal(&self, position: usize) -> Option<Refusal> {
        self.site.refusals[position]
    }

    /// How many nodes refuse it, and why.
    pub fn refusals(&self) -> BTreeMap<Refusal, usize> {
        let mut counts = BTreeMap::new();
        self.site.refusals.iter().flatten().for_each(|refusal| *counts.entry(*refusal).or_default() += 1);
        counts
    }

    /// The best node, or none.
    pub fn best(&mut self, room: &Room) -> Option<usize> {
        self.asked += 1;
        if self.heap.is_none() && (self.asked <= ASKED_MAX || self.site.is_quick()) {
            return self.site.best(room, &self.need, |position| self.score_of(room, position));
        }
        let mut heap = self.heap.take().unwrap_or_else(|| self.heap_of(room));
        for index in heap.seen..room.changes.len() {
            let position = room.changes[index] as usize;
            let score = self.score(room, position);
            if score != heap.current[position] {
                heap.current[position] = score;
                if score != NEVER {
                    heap.entries.push((score, Reverse(position as u32)));
                }
            }
        }
        heap.seen = room.changes.len();
        let best = heap.best();
        self.heap = Some(heap);
        best
    }

    fn heap_of(&self, room: &Room) -> Heap {
        let current: Vec<i64> = (0..room.nodes.len()).map(|position| self.score(room, position)).collect();
        let entries = (0..).zip(&current).filter(|(_, score)| **score != NEVER);
        let entries = entries.map(|(position, score)| (*score, Reverse(position))).collect();
        Heap { current, entries, seen: room.changes.len() }
    }

    pub fn fits(&self, room: &Room, position: usize) -> bool {
        let free = room.free(position);
        self.site.refusals[position].is_none() && self.need.iter().all(|(number, need)| *need <= free[*number])
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
        let mut score = self.site.fixed[position];
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

impl Heap {
    fn best(&mut self) -> Option<usize> {
        while let Some((score, Reverse(position))) = self.entries.peek().copied() {
            if self.current[position as usize] == score {
                return Some(position as usize);
            }
            self.entries.pop();
        }
        None
    }
}

/// `amount` of `total`, between 0 and `FULL`.
pub fn part(amount: i64, total: i64) -> i64 {
    if total <= 0 {
        return 0;
    }
    let part = (amount as f64 / total as f64 * SCALE).clamp(0.0, SCALE);
    // To the nearest: `round` would be a call.
    (part + 0.5) as i64
}

/// What the shape asks for of a resource.
pub fn asked(shape: &Shape, number: usize) -> i64 {
    get(&shape.request, number)
}
