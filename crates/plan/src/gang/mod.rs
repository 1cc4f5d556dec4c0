//! The gang scheduler: which pods go where, who must leave for them, and why the rest waits.
//!
//! `Snapshot` is kept up to date by a shell one object at a time; `place` looks at it and decides; `report` words what
//! PodGroups and pods are told. Nothing is half done: a gang gets its minimum or nothing.
//! Reading order: `objects`, `snapshot`, `queues`, `room`, `attempt`, `round`.

pub mod amounts;
mod strings;
mod slots;
mod terms;
mod shape;
pub mod objects;
pub mod read;
pub mod policy;
mod standing;
pub mod snapshot;

pub mod queues;
mod kin;
pub mod fit;
mod site;
mod candidates;
mod relations;
pub mod volumes;
mod room;
mod topology;
mod ask;
mod attempt;
mod search;
mod trial;
pub mod victims;
pub mod why;
pub mod hint;
mod reasons;
mod alike;
mod admission;
mod round;
mod blocked;
mod lessons;
mod rehearsal;
pub mod report;
pub mod torn;
pub mod chores;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use lessons::Lessons;
use objects::{ClaimKey, Key};
use round::{Outcome, Round};
use snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;
use victims::Cause;
use why::WaitingOn;

/// A pod, by name and identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub key: Key,
    pub uid: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub pod: Member,
    pub node: Arc<str>,
    pub gang: Key,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evict {
    pub pod: Member,
    pub gang: Key,
    pub cause: Cause,
    /// The gang that it makes room for.
    pub for_gang: Key,
}

/// A gang that is not, or not wholly, placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub on: WaitingOn,
    /// How many of its pods wait.
    pub pods: usize,
    /// It has its minimum; only more would be better.
    pub has_minimum: bool,
}

/// What to do, complete and in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Gangs that are let in now: their pods may be made (ACT-1).
    pub admit: Vec<Key>,
    /// All binds of a gang follow each other; a bind that fails gives back its whole gang.
    pub bind: Vec<Bind>,
    pub evict: Vec<Evict>,
    /// Pods for which room is being made, and where.
    pub nominate: Vec<Bind>,
    /// Volumes that claims of bound pods are to have; other claims get theirs made.
    pub volumes: BTreeMap<ClaimKey, Arc<str>>,
    /// The network domain that a gang now keeps to.
    pub domains: BTreeMap<Key, String>,
    /// Per HyperNode, how many nodes it has with those of all below it.
    pub node_counts: BTreeMap<String, usize>,
    pub waiting: BTreeMap<Key, Waiting>,
}

/// So often a placement begins anew because it would better have left something undone; the last one stays as it is.
const BEGINNINGS_MAX: usize = 8;

/// The snapshot is lent: what would come of a placement is tried on it and undone, so that it is as before.
pub fn place(snapshot: &mut Snapshot, now: Timestamp) -> Placement {
    begin(snapshot, now, BEGINNINGS_MAX, rehearsal::look_ahead)
}

/// Begins anew until nothing more is learned; `look_ahead` asks what would come of an outcome that a round has no doubts of.
fn begin(
    snapshot: &mut Snapshot,
    now: Timestamp,
    beginnings_max: usize,
    look_ahead: fn(&mut Snapshot, Timestamp, &Outcome, &Lessons) -> Lessons,
) -> Placement {
    let mut lessons = Lessons::default();
    for _ in 1..beginnings_max {
        let outcome = Round::new(snapshot, now).run(&lessons);
        let learned =
            if outcome.learned.is_empty() { look_ahead(snapshot, now, &outcome, &lessons) } else { outcome.learned };
        if learned.is_empty() {
            return outcome.placement;
        }
        lessons.learn(learned);
    }
    let mut last = Round::new(snapshot, now);
    last.is_last = true;
    last.run(&lessons).placement
}
