//! A gang that wants to be placed: which of its pods wait, which count already, and when it has enough (GANG-1 to 5).

use super::amounts::{Amounts, add, take};
use super::objects::{Gang, GangId, Group, Phase, PodId, ShapeId, State};
use super::room::Room;
use super::snapshot::Snapshot;
use crate::queue::spec::PRIORITY_DEFAULT;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of a gang that nobody says anything of.
const PRECEDENCE_DEFAULT: u8 = PRIORITY_DEFAULT as u8;

/// A sub-group: its policy's place in the list, and the values of its labels.
pub type SubGroup = (usize, Vec<String>);

/// How much of a gang is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub ready: usize,
    /// No task has a minimum of its own, so that they need not be told apart.
    is_plain: bool,
    roles: BTreeMap<Arc<str>, usize>,
    pub sub_groups: BTreeMap<SubGroup, usize>,
}

#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub id: GangId,
    pub gang: &'a Gang,
    pub group: &'a Group,
    pub queue: usize,
    pub priority: i64,
    /// Smaller goes first among equals.
    pub precedence: u8,
    /// Pods that wait, in task order; those that ask for nothing are apart (SCH-31).
    pub pods: Vec<PodId>,
    pub light: Vec<PodId>,
    pub tally: Tally,
    /// What exists at all, for validity.
    pub existing: Tally,
    pub gated: usize,
    /// Since when it waits: a job that ran for days and has lost a pod has not waited for days.
    pub since: i64,
    /// Positions of nodes that its pods are on.
    pub placed: Vec<usize>,
    /// What its pods hold, with what it is given in this round; of that, what is leaving.
    pub held: Amounts,
    pub leaving: Amounts,
    /// It has been let in; it has had a turn in this pass.
    pub is_in: bool,
    /// Room is being made for pods of it.
    pub is_nominated: bool,
    pub has_begun: bool,
    /// Per pod of a divided gang.
    pub sub_group_of: BTreeMap<PodId, SubGroup>,
}

/// What keeps a gang from being complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    Members { have: usize, need: usize },
    Task { task: Arc<str>, have: usize, need: usize },
    SubGroups { have: usize, need: usize },
}

impl Tally {
    pub fn count(&mut self, role: &Arc<str>, sub_group: Option<&SubGroup>) {
        self.ready += 1;
        match self.roles.get_mut(role) {
            _ if self.is_plain => {}
            Some(count) => *count += 1,
            None => drop(self.roles.insert(role.clone(), 1)),
        }
        if let Some(sub_group) = sub_group {
            *self.sub_groups.entry(sub_group.clone()).or_default() += 1;
        }
    }

    pub fn role(&self, role: &str) -> usize {
        self.roles.get(role).copied().unwrap_or(0)
    }

    pub fn complete(&self, group: &Group, division: usize) -> usize {
        let size = group.divisions[division].size;
        self.sub_groups.iter().filter(|((of, _), count)| *of == division && **count >= size).count()
    }

    /// What is missing to the minimum; the minima of tasks count only if they are within the gang's (GANG-4).
    pub fn lack(&self, group: &Group) -> Option<Lack> {
        if self.ready < group.members_min {
            return Some(Lack::Members { have: self.ready, need: group.members_min });
        }
        for (task, need) in role_minima(group) {
            let have = self.role(task);
            if have < *need {
                return Some(Lack::Task { task: task.clone(), have, need: *need });
            }
        }
        for (number, division) in group.divisions.iter().enumerate() {
            let have = self.complete(group, number);
            if have < division.groups_min {
                return Some(Lack::SubGroups { have, need: division.groups_min });
            }
        }
        None
    }
}

/// The minima of tasks that are in force.
pub fn role_minima(group: &Group) -> impl Iterator<Item = (&Arc<str>, &usize)> {
    let sum: usize = group.tasks_min.values().sum();
    group.tasks_min.iter().filter(move |_| group.members_min >= sum)
}

impl<'a> Ask<'a> {
    pub fn new(snapshot: &'a Snapshot, room: &Room, id: GangId, queue: usize) -> Option<Ask<'a>> {
        let gang = &snapshot.gangs[id];
        let group = gang.group.as_ref()?;
        let mut ask = Ask {
            id,
            gang,
            group,
            queue,
            priority: priority(snapshot, &group.class),
            precedence: precedence(snapshot, gang, group),
            pods: Vec::new(),
            light: Vec::new(),
            tally: Tally { is_plain: group.tasks_min.is_empty(), ..Tally::default() },
            existing: Tally { is_plain: group.tasks_min.is_empty(), ..Tally::default() },
            gated: 0,
            since: waits_since(snapshot, gang, group),
            placed: Vec::new(),
            held: gang.allocated.clone(),
            leaving: Amounts::new(),
            is_in: group.phase != Phase::Pending,
            is_nominated: false,
            has_begun: false,
            sub_group_of: BTreeMap::new(),
        };
        gang.members.iter().for_each(|pod| ask.take_in(snapshot, room, *pod));
        ask.line_up(snapshot, room);
        ask.placed.sort_unstable();
        Some(ask)
    }

    /// Brings its pods into the order in which they are tried.
    pub fn line_up(&mut self, snapshot: &Snapshot, room: &Room) {
        let order = |number: &PodId| {
            let pod = &snapshot.pods[*number];
            // Those for which room is made come first, or others would take it and be one too few.
            (room.nominated(*number).is_none(), Reverse(pod.priority), pod.index, pod.created, &pod.key)
        };
        self.pods.sort_by(|a, b| order(a).cmp(&order(b)));
        self.light.sort_by(|a, b| order(a).cmp(&order(b)));
        self.is_nominated = self.pods.iter().any(|pod| room.nominated(*pod).is_some());
    }

    fn take_in(&mut self, snapshot: &Snapshot, room: &Room, number: PodId) {
        let pod = &snapshot.pods[number];
        let is_in = |(_, division): &(usize, &super::objects::Division)| {
            division.selector.matches_with(|key| pod.labels.get(key))
        };
        let sub_group = self.group.divisions.iter().enumerate().find(is_in).map(|(at, division)| {
            (at, division.keys.iter().map(|key| pod.labels.get(key).unwrap_or("").to_owned()).collect())
        });
        // A pod that stands alone is placed as by Kubernetes' own scheduler, in its turn and with whom it may evict.
        let is_light = snapshot.shapes[pod.shape].is_best_effort && !self.gang.is_single;
        let state = room.state(number);
        if state.is_ready() || state == State::Pending {
            self.existing.count(&pod.role, sub_group.as_ref());
        }
        if state.is_ready() || (state == State::Pending && is_light) {
            self.tally.count(&pod.role, sub_group.as_ref());
        }
        match state {
            State::Pending if is_light => self.light.push(number),
            State::Pending => self.pods.push(number),
            State::Gated => self.gated += 1,
            State::Bound | State::Running => {
                self.placed.extend(room.position_of(number));
            }
            State::Leaving => add(&mut self.leaving, &snapshot.shapes[pod.shape].request),
            State::Succeeded | State::Failed => {}
        }
        if let Some(sub_group) = sub_group {
            self.sub_group_of.insert(number, sub_group);
        }
    }

    /// What it will hold once those that leave have gone: by that it is ranked, or it would be another place then.
    pub fn staying(&self) -> Cow<'_, Amounts> {
        let mut staying = Cow::Borrowed(&self.held);
        if !self.leaving.is_empty() {
            take(staying.to_mut(), &self.leaving);
        }
        staying
    }

    pub fn is_ready(&self) -> bool {
        self.tally.lack(self.group).is_none()
    }

    /// GANG-2.
    pub fn is_valid(&self) -> bool {
        self.existing.lack(self.group).is_none()
    }

    /// A pod has been placed for good.
    pub fn settle(&mut self, snapshot: &Snapshot, placed: &[(PodId, u32)]) {
        for (pod, position) in placed {
            self.tally.count(&snapshot.pods[*pod].role, self.sub_group_of.get(pod));
            self.placed.push(*position as usize);
        }
        let is_left = |pod: &PodId| !placed.iter().any(|(known, _)| known == pod);
        if let [one] = placed {
            self.pods.retain(|pod| *pod != one.0);
        } else if placed.len() < 8 {
            self.pods.retain(is_left);
        } else {
            let mut gone: Vec<PodId> = placed.iter().map(|(pod, _)| *pod).collect();
            gone.sort_unstable();
            self.pods.retain(|pod| gone.binary_search(pod).is_err());
        }
    }

    /// Pods that bring the gang to its minimum, in the order in which they are tried: first what its tasks need.
    pub fn needed_first(&self, snapshot: &Snapshot) -> Vec<PodId> {
        let minima: BTreeMap<&Arc<str>, &usize> = role_minima(self.group).collect();
        if minima.is_empty() {
            return self.pods.clone();
        }
        let mut open: BTreeMap<&str, usize> =
            minima.iter().map(|(role, need)| (&***role, need.saturating_sub(self.tally.role(role)))).collect();
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for pod in &self.pods {
            match open.get_mut(&*snapshot.pods[*pod].role).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    first.push(*pod);
                }
                None => rest.push(*pod),
            }
        }
        first.extend(rest);
        first
    }

    /// The pods that are missing to the minimum.
    pub fn needed(&self, snapshot: &Snapshot) -> Vec<PodId> {
        let mut tally = self.tally.clone();
        let mut needed = self.needed_first(snapshot);
        let mut count = 0;
        while count < needed.len() && tally.lack(self.group).is_some() {
            let pod = needed[count];
            tally.count(&snapshot.pods[pod].role, self.sub_group_of.get(&pod));
            count += 1;
        }
        needed.truncate(count);
        needed
    }

    /// How many they are and what they ask for, at least.
    pub fn missing(&self, snapshot: &Snapshot) -> (usize, Amounts) {
        let needed = self.needed(snapshot);
        let mut total = Amounts::new();
        needed.iter().for_each(|pod| add(&mut total, &snapshot.shapes[snapshot.pods[*pod].shape].request));
        (needed.len(), total)
    }

    pub fn shapes(&self, snapshot: &Snapshot) -> Vec<ShapeId> {
        let mut shapes: Vec<ShapeId> = self.pods.iter().map(|pod| snapshot.pods[*pod].shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes
    }
}

/// When the gang began to wait: with the oldest of its pods that wait, but not before it was there itself.
pub fn waits_since(snapshot: &Snapshot, gang: &Gang, group: &Group) -> i64 {
    let waiting = gang.members.iter().map(|pod| &snapshot.pods[*pod]).filter(|pod| pod.state == State::Pending);
    waiting.map(|pod| pod.created).min().unwrap_or(group.created).max(group.created)
}

fn precedence(snapshot: &Snapshot, gang: &Gang, group: &Group) -> u8 {
    let said = || gang.members.first().and_then(|pod| snapshot.pods[*pod].precedence);
    group.precedence.or_else(said).unwrap_or(PRECEDENCE_DEFAULT)
}

/// SCH-3: the class of the group, else the default class, else 0.
pub fn priority(snapshot: &Snapshot, class: &str) -> i64 {
    let own = snapshot.classes.get(class).copied().filter(|_| !class.is_empty());
    // Of several defaults the lowest counts, as for pods.
    own.or_else(|| snapshot.default_classes.values().min().copied()).unwrap_or(0)
}
