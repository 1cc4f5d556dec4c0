//! Finds a way to place a gang's minimum if there is one, by trying all ways that differ, within a limit.
//!
//! The straight way can fail where another would not: a small pod in the last place where a large one fits. The search
//! is for the first gangs in line; on small clusters it is complete.

use super::amounts::{Amounts, add, take};
use super::ask::{Ask, Tally};
use super::attempt::{Terms, node_groups};
use super::objects::PodId;
use super::relations;
use super::room::Room;
use super::shape::Shape;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// For the first gang in line: some milliseconds.
pub const LOOKS_MAX: usize = 50_000;
/// While victims are chosen, again and again.
pub const LOOKS_FEW: usize = 4_000;

struct Search<'a, 'b, 'c> {
    ask: &'b Ask<'a>,
    terms: &'b Terms<'a, 'c>,
    nodes: Option<&'b [u32]>,
    /// Pods that are alike, the largest first: they have the fewest places.
    classes: Vec<Vec<PodId>>,
    /// A step can make another one possible: pods that want to be near or evenly spread are tried in every order.
    is_order_free: bool,
    seen: BTreeSet<Vec<Put>>,
    looks: usize,
}

/// A pod of this class was put at this position.
type Put = (usize, usize);

/// True if a way was found; it is left in the room.
pub fn search<'a>(room: &mut Room<'a>, ask: &Ask<'a>, terms: &Terms<'a, '_>, nodes: Option<&[u32]>) -> bool {
    let snapshot = room.snapshot;
    let shapes: Vec<&Shape> = ask.shapes(snapshot).into_iter().map(|shape| &snapshot.shapes[shape]).collect();
    let is_choosy = |shape: &&Shape| relations::is_choosy(snapshot, shape);
    // One shape that cares for nothing but room: the straight way has found all that there is.
    if shapes.len() == 1 && !shapes.iter().any(is_choosy) && snapshot.keeping_apart.is_empty() {
        return false;
    }
    let largest = |pod: PodId| {
        let shape = &snapshot.shapes[snapshot.pods[pod].shape];
        let parts = shape.request.iter().zip(terms.ledger.total()).filter(|(_, total)| **total > 0);
        parts.map(|(need, total)| (*need as f64 / *total as f64 * 1e9) as i64).max().unwrap_or(0)
    };
    let mut classes: BTreeMap<(Reverse<i64>, &str, u32), Vec<PodId>> = BTreeMap::new();
    for pod in &ask.pods {
        let known = &snapshot.pods[*pod];
        classes.entry((Reverse(largest(*pod)), &known.role, known.shape)).or_default().push(*pod);
    }
    let mut search = Search {
        ask,
        terms,
        nodes,
        classes: classes.into_values().collect(),
        is_order_free: shapes.iter().any(|shape| !shape.near.is_empty() || !shape.spread.is_empty()),
        seen: BTreeSet::new(),
        looks: 0,
    };
    search.go(room, &mut Vec::new(), &ask.tally, &mut Amounts::new())
}

impl Search<'_, '_, '_> {
    fn go(&mut self, room: &mut Room, puts: &mut Vec<Put>, tally: &Tally, asked: &mut Amounts) -> bool {
        if tally.lack(self.ask.group).is_none() {
            return true;
        }
        if self.is_order_free {
            let mut state = puts.clone();
            state.sort_unstable();
            if !self.seen.insert(state) {
                return false;
            }
        }
        // If the order does not matter, classes follow each other, and equal pods go from left to right.
        let last = puts.last().copied().filter(|_| !self.is_order_free);
        for class in last.map_or(0, |(class, _)| class)..self.classes.len() {
            let used = puts.iter().filter(|(other, _)| *other == class).count();
            let Some(pod) = self.classes[class].get(used).copied() else { continue };
            let first = last.filter(|(other, _)| *other == class).map_or(0, |(_, position)| position);
            let known = &room.snapshot.pods[pod];
            let request = &room.snapshot.shapes[known.shape].request;
            add(asked, request);
            let has_room = self.terms.ledger.shortage(self.ask.queue, asked, self.terms.freed).is_none();
            for position in if has_room { self.places(room, pod, first) } else { Vec::new() } {
                let mut tally = tally.clone();
                tally.count(&known.role, self.ask.sub_group_of.get(&pod));
                room.put(pod, position);
                puts.push((class, position));
                if self.go(room, puts, &tally, asked) {
                    return true;
                }
                puts.pop();
                room.undo_to(room.steps.len() - 1);
                if self.looks > self.terms.looks_max {
                    break;
                }
            }
            take(asked, request);
        }
        false
    }

    /// Where the pod could go, from the position `first` on.
    fn places(&mut self, room: &mut Room, pod: PodId, first: usize) -> Vec<usize> {
        let snapshot = room.snapshot;
        let known = &snapshot.pods[pod];
        let queue = node_groups(self.terms.ledger, room, self.ask.queue);
        if snapshot.shapes[known.shape].is_related() {
            room.ensure_view(known.shape);
        }
        room.ensure_needs(known.shape);
        let away = relations::kept_apart(room, pod);
        let is_away =
            |room: &Room, at: usize| away.iter().any(|(key, value)| room.nodes[at].labels.get(key) == Some(value));
        let scope = self.nodes;
        self.looks += room.nodes.len();
        room.with_candidates(known.shape, queue, |room, candidates| {
            let is_in = |at: &usize| scope.is_none_or(|nodes| nodes.binary_search(&(*at as u32)).is_ok());
            let suits = |at: &usize| {
                candidates.fits(room, *at) && !is_away(room, *at) && relations::refusal(room, pod, *at).is_none()
            };
            (first..room.nodes.len()).filter(is_in).filter(suits).collect()
        })
    }
}
