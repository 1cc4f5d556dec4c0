//! Gangs that are alike hear the same: what one was told is told to the next without looking again, as long as nothing
//! has been placed, kept or evicted in between. A queue of thousands of equal gangs costs one look.

use super::ask::Ask;
use super::objects::ShapeId;
use super::relations;
use super::room::Room;
use super::why::WaitingOn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All that the outcome of a turn depends on, of a gang of which nothing is placed yet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness<'a> {
    queue: usize,
    priority: i64,
    members_min: usize,
    tasks_min: &'a BTreeMap<Arc<str>, usize>,
    estimate: Option<i64>,
    /// Of most gangs all pods are alike.
    first: Option<Row<'a>>,
    rest: Vec<Row<'a>>,
}

/// Shape, task and whether it never preempts, and how many pods in a row have them.
type Row<'a> = (ShapeId, &'a str, bool, usize);

/// What became of a gang's turn.
#[derive(Debug, Clone)]
pub struct Known {
    pub on: WaitingOn,
    /// Other ways of placing were searched; it was among those for whom room was sought.
    pub was_sought: bool,
    pub was_tried: bool,
}

#[derive(Debug, Default)]
pub struct Alike<'a> {
    kinds: BTreeMap<Likeness<'a>, usize>,
    /// By the gang's place among those that ask.
    of: Vec<Option<usize>>,
    known: Vec<Option<(u64, Known)>>,
    /// The turn that is under way would end like this for every gang alike.
    pub is_final: bool,
}

impl<'a> Alike<'a> {
    /// The number of the gang's kind; none if where other pods are, or what it has already, makes it one of its own.
    pub fn kind(&mut self, room: &Room<'a>, at: usize, ask: &Ask<'a>) -> Option<usize> {
        let snapshot = room.snapshot;
        let holds = ask.gang.allocated.iter().any(|amount| *amount > 0);
        let is_untouched = ask.is_in && !ask.is_nominated && ask.tally.ready == 0 && !ask.is_ready() && !holds;
        let is_simple = ask.light.is_empty() && ask.gated == 0 && ask.group.topology.is_none();
        let has_apart = !snapshot.keeping_apart.is_empty() || room.put_apart > 0;
        if !is_untouched || !is_simple || !ask.group.divisions.is_empty() || has_apart {
            return None;
        }
        if let Some(kind) = self.of.get(at).copied().flatten() {
            return Some(kind);
        }
        let (mut first, mut rest): (Option<Row>, Vec<Row>) = (None, Vec::new());
        for pod in ask.pods.iter().map(|pod| &snapshot.pods[*pod]) {
            let shape = &snapshot.shapes[pod.shape];
            if relations::is_choosy(snapshot, shape) || pod.numa_policy.is_some() {
                return None;
            }
            let row = (pod.shape, &*pod.role, pod.never_preempts, 1);
            match rest.last_mut().or(first.as_mut()) {
                None => first = Some(row),
                Some(last) if (last.0, last.1, last.2) == (row.0, row.1, row.2) => last.3 += 1,
                Some(_) => rest.push(row),
            }
        }
        let (queue, priority, group) = (ask.queue, ask.priority, ask.group);
        let (members_min, tasks_min, estimate) = (group.members_min, &group.tasks_min, group.estimate);
        let next = self.kinds.len();
        let likeness = Likeness { queue, priority, members_min, tasks_min, estimate, first, rest };
        let kind = *self.kinds.entry(likeness).or_insert(next);
        self.of.resize(self.of.len().max(at + 1), None);
        self.of[at] = Some(kind);
        Some(kind)
    }

    /// What gangs of the kind heard, if nothing has changed since.
    pub fn known(&self, kind: usize, generation: u64) -> Option<Known> {
        self.known.get(kind)?.as_ref().filter(|known| known.0 == generation).map(|known| known.1.clone())
    }

    pub fn learn(&mut self, kind: usize, generation: u64, known: Known) {
        self.known.resize(self.known.len().max(kind + 1), None);
        self.known[kind] = Some((generation, known));
    }
}
