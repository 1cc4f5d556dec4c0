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
use std::cmp::Reverse;

/// Looks at a node in one search: some milliseconds.
const STEPS_MAX: usize = 50_000;

struct Search<'a, 'b, 'c> {
    ask: &'b Ask<'a>,
    terms: &'b Terms<'a, 'c>,
    nodes: Option<&'b [u32]>,
    pods: Vec<PodId>,
    steps: usize,
}

/// True if a way was found; it is left in the room.
pub fn search<'a>(room: &mut Room<'a>, ask: &Ask<'a>, terms: &Terms<'a, '_>, nodes: Option<&[u32]>) -> bool {
    let snapshot = room.snapshot;
    let shapes = ask.shapes(snapshot);
    let is_related = |shape: &u32| {
        let shape = &snapshot.shapes[*shape];
        shape.is_related() || !shape.ports.is_empty()
    };
    // One shape that cares for nothing but room: the straight way has found all that there is.
    if shapes.len() == 1 && !shapes.iter().any(is_related) && snapshot.keeping_apart.is_empty() {
        return false;
    }
    let mut pods = ask.pods.clone();
    // The largest first: they have the fewest places. Equals stay together.
    let largest = |pod: &PodId| {
        let shape = &snapshot.shapes[snapshot.pods[*pod].shape];
        let parts = shape.request.iter().zip(terms.ledger.total()).filter(|(_, total)| **total > 0);
        parts.map(|(need, total)| (*need as f64 / *total as f64 * 1e9) as i64).max().unwrap_or(0)
    };
    pods.sort_by_key(|pod| {
        let known = &snapshot.pods[*pod];
        (Reverse(largest(pod)), known.role.clone(), known.shape)
    });
    let mut search = Search { ask, terms, nodes, pods, steps: 0 };
    search.go(room, 0, &mut ask.tally.clone(), &mut Amounts::new(), None)
}

impl Search<'_, '_, '_> {
    /// `last` is where the pod before was put, or `Some(None)` if it was left out.
    fn go(
        &mut self,
        room: &mut Room,
        at: usize,
        tally: &mut Tally,
        asked: &mut Amounts,
        last: Option<Option<usize>>,
    ) -> bool {
        if tally.lack(self.ask.group).is_none() {
            return true;
        }
        if at == self.pods.len() || tally.ready + (self.pods.len() - at) < self.ask.group.members_min {
            return false;
        }
        let snapshot = room.snapshot;
        let pod = self.pods[at];
        let known = &snapshot.pods[pod];
        let like = |other: PodId| {
            let other = &snapshot.pods[other];
            other.shape == known.shape && other.role == known.role
        };
        // Of equal pods the later goes no further left, and none goes once one was left out.
        let last = last.filter(|_| at > 0 && like(self.pods[at - 1]));
        if last != Some(None) {
            let shape = &snapshot.shapes[known.shape];
            let is_plain = !shape.is_related() && shape.ports.is_empty();
            let first = last.flatten().filter(|_| is_plain).unwrap_or(0);
            add(asked, &shape.request);
            let has_room = self.terms.ledger.shortage(self.ask.queue, asked, self.terms.freed).is_none();
            for position in if has_room { self.places(room, pod, first) } else { Vec::new() } {
                let before = tally.clone();
                room.put(pod, position);
                tally.count(&known.role, self.ask.sub_group_of.get(&pod));
                if self.go(room, at + 1, tally, asked, Some(Some(position))) {
                    return true;
                }
                *tally = before;
                room.undo_to(room.steps.len() - 1);
                if self.steps > STEPS_MAX {
                    return false;
                }
            }
            take(asked, &shape.request);
        }
        self.go(room, at + 1, tally, asked, Some(None))
    }

    /// Where the pod could go, from the position `first` on.
    fn places(&mut self, room: &mut Room, pod: PodId, first: usize) -> Vec<usize> {
        let snapshot = room.snapshot;
        let known = &snapshot.pods[pod];
        let queue = node_groups(self.terms.ledger, room, self.ask.queue);
        if snapshot.shapes[known.shape].is_related() {
            room.ensure_view(known.shape);
        }
        let away = relations::kept_apart(room, pod);
        let is_away =
            |room: &Room, at: usize| away.iter().any(|(key, value)| room.nodes[at].labels.get(key) == Some(value));
        let scope = self.nodes;
        self.steps += room.nodes.len();
        room.with_candidates(known.shape, queue, |room, candidates| {
            let is_in = |at: &usize| scope.is_none_or(|nodes| nodes.binary_search(&(*at as u32)).is_ok());
            let suits = |at: &usize| {
                candidates.fits(room, *at) && !is_away(room, *at) && relations::refusal(room, pod, *at).is_none()
            };
            (first..room.nodes.len()).filter(is_in).filter(suits).collect()
        })
    }
}
