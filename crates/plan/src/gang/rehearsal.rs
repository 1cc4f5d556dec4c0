//! What comes of a placement, tried on the snapshot itself and undone: when those who are evicted have gone, and when it is
//! looked at once more.
//!
//! Who gets what a victim leaves is decided by another placement, when it has gone. Only that placement knows: a gang at the
//! door may come in by then, a queue may be within its due again.

use super::lessons::Lessons;
use super::objects::{ClaimKey, Gang, GangId, Group, Key, Phase, Pod, PodId, State};
use super::round::Outcome;
use super::snapshot::Snapshot;
use super::{Placement, begin};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A placement that is only rehearsed begins anew so often: each time may be rehearsed itself.
const REHEARSED_MAX: usize = 4;

/// What would better have been left undone, as only the next looks tell.
pub fn look_ahead(snapshot: &mut Snapshot, now: Timestamp, outcome: &Outcome, lessons: &Lessons) -> Lessons {
    let learned = when_they_have_gone(snapshot, now, outcome, lessons);
    // A round sees by itself what it would undo, unless it was told to leave something: others then go on from there.
    if !learned.is_empty() || lessons.is_empty() || outcome.placement.bind.is_empty() {
        return learned;
    }
    Lessons { futile: undone(snapshot, &outcome.placement, now), ..learned }
}

fn when_they_have_gone(snapshot: &mut Snapshot, now: Timestamp, outcome: &Outcome, _: &Lessons) -> Lessons {
    let vain = if outcome.is_doubtful { in_vain(snapshot, &outcome.placement, now) } else { BTreeSet::new() };
    Lessons { vain, ..Lessons::default() }
}

/// Pods that are placed now and that the next look would evict, and for whom.
fn undone(snapshot: &mut Snapshot, placement: &Placement, now: Timestamp) -> BTreeMap<PodId, Key> {
    let next = rehearsed(snapshot, placement, (now, State::Leaving), when_they_have_gone);
    let new: BTreeSet<&Key> = placement.bind.iter().map(|bind| &bind.pod.key).collect();
    let undone = next.evict.iter().filter(|evict| new.contains(&evict.pod.key));
    undone.filter_map(|evict| Some((snapshot.pods.find(&evict.pod.key)?, evict.for_gang.clone()))).collect()
}

/// Gangs for which the placement evicts, and which would not run when the evicted have gone.
///
/// Pods that are evicted may be made anew by then, or not; it must help either way. Where nobody else waits, nobody else
/// would have the room.
fn in_vain(snapshot: &mut Snapshot, placement: &Placement, now: Timestamp) -> BTreeSet<GangId> {
    if placement.waiting.len() < 2 {
        return BTreeSet::new();
    }
    let vain = [State::Failed, State::Pending].into_iter().find_map(|evicted| {
        let next = rehearsed(snapshot, placement, (now, evicted), |_, _, _, _| Lessons::default());
        let runs: BTreeSet<&Key> = next.bind.iter().map(|bind| &bind.gang).collect();
        let waits = placement.evict.iter().map(|evict| &evict.for_gang).filter(|gang| !runs.contains(gang));
        let vain: BTreeSet<GangId> = waits.filter_map(|gang| snapshot.gangs.find(gang)).collect();
        Some(vain).filter(|vain| !vain.is_empty())
    });
    vain.unwrap_or_default()
}

/// What is decided next, once the placement is done and those whom it evicts are in this state.
fn rehearsed(
    snapshot: &mut Snapshot,
    placement: &Placement,
    (now, evicted): (Timestamp, State),
    look_ahead: fn(&mut Snapshot, Timestamp, &Outcome, &Lessons) -> Lessons,
) -> Placement {
    let before = snapshot.rehearse(placement, now, evicted);
    let next = begin(snapshot, now, REHEARSED_MAX, look_ahead);
    snapshot.undo(before);
    next
}

/// Pods and groups as they were.
#[derive(Debug, Default)]
struct Before {
    pods: Vec<(PodId, Pod)>,
    groups: Vec<(GangId, Option<Group>)>,
    promised: BTreeMap<ClaimKey, Arc<str>>,
}

impl Snapshot {
    /// Does what the placement says. Those whom it evicts are on their way out then, or are `evicted` and all who left have
    /// gone.
    fn rehearse(&mut self, placement: &Placement, now: Timestamp, evicted: State) -> Before {
        let mut before = Before { promised: self.promised.clone(), ..Before::default() };
        self.promised.extend(placement.volumes.clone());
        for key in &placement.admit {
            self.change_group(key, &mut before, |group| group.phase = Phase::Inqueue);
        }
        for (key, domain) in &placement.domains {
            self.change_group(key, &mut before, |group| group.domain = Some(domain.as_str().into()));
        }
        let victims = placement.evict.iter().filter_map(|evict| self.pods.find(&evict.pod.key)).collect::<Vec<_>>();
        if evicted == State::Leaving {
            for pod in victims {
                self.change_pod(pod, &mut before, |pod| pod.state = evicted);
            }
        } else {
            for pod in self.on_their_way_out() {
                self.change_pod(pod, &mut before, |pod| (pod.state, pod.node) = (State::Failed, None));
            }
            for pod in victims {
                self.change_pod(pod, &mut before, |pod| (pod.state, pod.node, pod.started) = (evicted, None, None));
            }
        }
        for bind in &placement.bind {
            let (pod, node) = (self.pods.find(&bind.pod.key), self.nodes.find(&bind.node));
            if let (Some(pod), true) = (pod, node.is_some()) {
                let started = Some(now.as_second());
                self.change_pod(pod, &mut before, |pod| {
                    (pod.state, pod.node, pod.started) = (State::Bound, node, started)
                });
            }
        }
        self.renew_nominations(placement, &mut before);
        before
    }

    fn on_their_way_out(&self) -> Vec<PodId> {
        let leaving = self.nodes.iter().filter(|(_, node)| node.leaving.iter().any(|amount| *amount > 0));
        let leaving = leaving.flat_map(|(_, node)| node.pods.iter().copied());
        leaving.filter(|pod| self.pods[*pod].state == State::Leaving).collect()
    }

    fn renew_nominations(&mut self, placement: &Placement, before: &mut Before) {
        let told = placement.nominate.iter().map(|bind| (&bind.pod.key, &bind.node));
        let told: BTreeMap<PodId, _> = told.filter_map(|(pod, node)| Some((self.pods.find(pod)?, node))).collect();
        let members = self.standing.waiting.values().flat_map(|gang| &self.gangs[*gang].members);
        let is_other = |pod: &&PodId| self.pods[**pod].nominated.as_ref() != told.get(*pod).copied();
        let others: Vec<PodId> = members.filter(is_other).copied().collect();
        for pod in others {
            self.change_pod(pod, before, |known| known.nominated = told.get(&pod).map(|node| (*node).clone()));
        }
    }

    fn change_pod(&mut self, number: PodId, before: &mut Before, change: impl FnOnce(&mut Pod)) {
        before.pods.push((number, self.pods[number].clone()));
        self.count(number, false);
        change(&mut self.pods[number]);
        self.count(number, true);
    }

    fn change_group(&mut self, key: &Key, before: &mut Before, change: impl FnOnce(&mut Group)) {
        let Some(number) = self.gangs.find(key) else { return };
        let Gang { group, .. } = &self.gangs[number];
        before.groups.push((number, group.clone()));
        let changed = group.clone().map(|mut group| {
            change(&mut group);
            group
        });
        self.set_group(number, changed);
    }

    fn undo(&mut self, before: Before) {
        for (number, pod) in before.pods.into_iter().rev() {
            self.count(number, false);
            self.pods[number] = pod;
            self.count(number, true);
        }
        for (number, group) in before.groups.into_iter().rev() {
            self.set_group(number, group);
        }
        self.promised = before.promised;
    }
}
