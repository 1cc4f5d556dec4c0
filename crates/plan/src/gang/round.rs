//! One round: gangs are let in, take their turns queue by queue, and what is left over hears why.

use super::admission::{Door, outstanding};
use super::amounts::{Amounts, add, take};
use super::ask::Ask;
use super::attempt::{Blocked, Scope, Terms, attempt, node_groups, pick_for};
use super::objects::{GangId, Key, Phase, PodId};
use super::policy::Order;
use super::queues::{Ledger, ROOT};
use super::reasons::{Stand, ending_units};
use super::room::{Hold, Room, Step};
use super::snapshot::Snapshot;
use super::topology::Domains;
use super::trial::{self, Trial, Unit};
use super::victims::{self, Cause, dominant};
use super::why::{Holders, WaitingOn};
use super::{Bind, Evict, Member, Placement, Waiting};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For so many blocked gangs of a queue, room is sought among what leaves and whom they may evict; the rest would come
/// after them anyhow.
const TRIED_MAX: usize = 16;
/// For so many blocked gangs of a round all ways of placing are searched.
const SEARCHES_MAX: usize = 4;

/// What is kept for a gang.
#[derive(Debug)]
pub struct Reservation {
    pub ask: usize,
    holds: Vec<Hold>,
    pub when: Option<i64>,
}

/// Smaller goes first: as the policy orders, then by age, then by identity.
type Rank = ([i64; 4], i64, Arc<str>, Key, usize);

pub struct Round<'a> {
    pub snapshot: &'a Snapshot,
    pub now: i64,
    pub room: Room<'a>,
    pub empty: Option<Room<'a>>,
    pub ledger: Ledger<'a>,
    pub domains: Domains,
    pub asks: Vec<Ask<'a>>,
    pub placement: Placement,
    pub reservations: Vec<Reservation>,
    lines: BTreeMap<usize, BTreeSet<Rank>>,
    pub claimed: BTreeSet<PodId>,
    pub door: Door,
    tried: BTreeMap<usize, usize>,
    searches: usize,
    /// Queues in which the rest is kept for a gang.
    pub kept: BTreeMap<usize, Key>,
    pub holders: BTreeMap<(usize, Option<usize>), Holders>,
}

impl<'a> Round<'a> {
    pub fn new(snapshot: &'a Snapshot, now: Timestamp) -> Round<'a> {
        let room = Room::new(snapshot);
        let domains = Domains::new(&room);
        let ledger = Ledger::new(snapshot, room.total_of_all());
        let mut round = Round {
            snapshot,
            now: now.as_second(),
            room,
            empty: None,
            ledger,
            domains,
            asks: Vec::new(),
            placement: Placement::default(),
            reservations: Vec::new(),
            lines: BTreeMap::new(),
            claimed: BTreeSet::new(),
            door: Door::default(),
            tried: BTreeMap::new(),
            searches: SEARCHES_MAX,
            kept: BTreeMap::new(),
            holders: BTreeMap::new(),
        };
        for (id, gang) in snapshot.gangs.iter() {
            if let Some(group) = &gang.group {
                round.take_in(id, &group.queue);
            }
        }
        round.ledger.settle();
        round
    }

    /// Enters what the gang has and wants; it gets a turn if anything of it waits.
    fn take_in(&mut self, id: GangId, queue: &str) {
        let gang = &self.snapshot.gangs[id];
        let group = gang.group.as_ref().expect("the caller has looked");
        let waits = gang.pending > 0 || matches!(group.phase, Phase::Pending | Phase::Inqueue);
        let Some(number) = self.ledger.find(queue) else {
            if waits && !gang.is_single {
                let on = if queue == ROOT {
                    WaitingOn::ParentQueue { queue: queue.to_owned() }
                } else {
                    WaitingOn::NoQueue { queue: queue.to_owned() }
                };
                let has_minimum = gang.ready >= group.members_min;
                self.placement.waiting.insert(gang.key.clone(), Waiting { on, pods: gang.pending, has_minimum });
            }
            return;
        };
        self.ledger.enter(number, |account| &mut account.allocated, &gang.allocated);
        self.ledger.enter(number, |account| &mut account.request, &gang.allocated);
        let least = group.resources_min.as_deref().unwrap_or_default();
        if matches!(group.phase, Phase::Inqueue | Phase::Running) {
            self.ledger.enter(number, |account| &mut account.inqueue, &outstanding(least, &gang.allocated));
        }
        if group.resources_min.is_some() {
            self.ledger.enter(number, |account| &mut account.elastic, &outstanding(&gang.allocated, least));
        }
        if !waits {
            return;
        }
        let Some(ask) = Ask::new(self.snapshot, &self.room, id, number) else { return };
        let mut wish = Amounts::new();
        for pod in ask.pods.iter().chain(&ask.light) {
            add(&mut wish, &self.snapshot.shapes[self.snapshot.pods[*pod].shape].request);
        }
        let wish = if gang.members.is_empty() { least } else { &wish };
        self.ledger.enter(number, |account| &mut account.request, wish);
        self.asks.push(ask);
    }

    pub fn run(mut self) -> Placement {
        self.open_door();
        for at in 0..self.asks.len() {
            self.line_up(at);
        }
        while let Some(at) = self.next() {
            self.turn(at);
        }
        self.place_light();
        self.placement
    }

    fn rank(&self, at: usize) -> Rank {
        let ask = &self.asks[at];
        let part = |order: &Order| match order {
            Order::Priority => -ask.priority,
            Order::Gang => i64::from(ask.is_ready()),
            Order::Drf => dominant(&self.ledger, &ask.held),
            Order::Sla => {
                ask.group.patience.or(self.snapshot.policy.patience).map_or(i64::MAX, |p| p + ask.group.created)
            }
        };
        let mut parts = [0; 4];
        parts.iter_mut().zip(&self.snapshot.policy.order).for_each(|(slot, order)| *slot = part(order));
        (parts, ask.group.created, ask.group.uid.clone(), ask.gang.key.clone(), at)
    }

    fn line_up(&mut self, at: usize) {
        let rank = self.rank(at);
        self.lines.entry(self.asks[at].queue).or_default().insert(rank);
    }

    /// The first gang of the first queue.
    fn next(&mut self) -> Option<usize> {
        let oldest = |line: &BTreeSet<Rank>| line.first().map_or(i64::MAX, |rank| rank.1);
        let rank = |queue: usize, line: &BTreeSet<Rank>| self.ledger.rank(queue, oldest(line));
        let queue = *self.lines.iter().min_by_key(|(queue, line)| rank(**queue, line))?.0;
        let line = self.lines.get_mut(&queue)?;
        let (_, _, _, _, at) = line.pop_first()?;
        if line.is_empty() {
            self.lines.remove(&queue);
        }
        Some(at)
    }

    pub fn wait(&mut self, at: usize, on: WaitingOn) {
        let ask = &self.asks[at];
        let pods = ask.pods.len() + ask.gated;
        let waiting = Waiting { on, pods, has_minimum: ask.is_ready() };
        self.placement.waiting.insert(ask.gang.key.clone(), waiting);
    }

    fn turn(&mut self, at: usize) {
        if !std::mem::replace(&mut self.asks[at].has_begun, true) {
            if let Some(on) = self.admit(at) {
                return self.wait(at, on);
            }
            match self.stand(at) {
                Stand::Wait(on) => return self.wait(at, on),
                Stand::Rest => return,
                Stand::Go => {}
            }
        }
        let start = self.room.steps.len();
        if self.asks[at].is_ready() {
            return self.turn_for_more(at);
        }
        match self.attempt(at, &[], false) {
            Ok(domain) => self.commit(at, start, domain),
            Err(blocked) => {
                let is_head = self.searches > 0 && self.reservations.is_empty();
                if is_head && !matches!(blocked, Blocked::Queue(_)) {
                    self.searches -= 1;
                    if let Ok(domain) = self.attempt(at, &[], true) {
                        return self.commit(at, start, domain);
                    }
                }
                self.blocked(at, blocked);
            }
        }
    }

    fn attempt(&mut self, at: usize, freed: &[i64], is_thorough: bool) -> Result<Option<String>, Blocked> {
        let terms = Terms { ledger: &self.ledger, domains: &self.domains, freed, is_thorough };
        attempt(&mut self.room, &self.asks[at], &terms)
    }

    /// One pod above the minimum (GANG-7), or the reason why there is none more.
    fn turn_for_more(&mut self, at: usize) {
        let start = self.room.steps.len();
        let mut failed = BTreeSet::new();
        let mut first = None;
        for pod in self.asks[at].pods.clone() {
            let shape = self.snapshot.pods[pod].shape;
            if failed.contains(&shape) {
                continue;
            }
            let request = &self.snapshot.shapes[shape].request;
            let shortage = self.ledger.shortage(self.asks[at].queue, request, &[]);
            let found = if shortage.is_none() { self.pick(at, pod) } else { None };
            if let Some(position) = found {
                self.room.put(pod, position);
                return self.commit(at, start, None);
            }
            failed.insert(shape);
            first.get_or_insert(shortage.map_or(Blocked::Node(pod), Blocked::Queue));
        }
        if let Some(blocked) = first {
            let on = self.reason(at, &blocked);
            self.wait(at, on);
        }
    }

    fn pick(&mut self, at: usize, pod: PodId) -> Option<usize> {
        let ask = &self.asks[at];
        let queue = node_groups(&self.ledger, &self.room, ask.queue);
        let topology = ask.group.topology.as_ref().filter(|_| self.snapshot.policy.knows_topology);
        let Some(topology) = topology else {
            return pick_for(&mut self.room, ask, pod, queue, Scope::default(), &self.domains);
        };
        let near = self.domains.common(&ask.placed);
        let near = Scope { nodes: None, near: Some(&near) };
        if !topology.is_hard {
            return pick_for(&mut self.room, ask, pod, queue, near, &self.domains);
        }
        let allowed = self.domains.allowed(topology, &ask.placed);
        let scopes = allowed.iter().map(|domain| Scope { nodes: Some(&domain.nodes), near: None });
        scopes.into_iter().find_map(|scope| pick_for(&mut self.room, ask, pod, queue, scope, &self.domains))
    }

    /// Keeps what has been put since `start`.
    fn commit(&mut self, at: usize, start: usize, domain: Option<String>) {
        let ask = &mut self.asks[at];
        let mut placed = Vec::new();
        let mut taken = Amounts::new();
        for step in &self.room.steps[start..] {
            let Step::Put(pod, position) = *step else { continue };
            let node = self.room.nodes[position as usize].name.clone();
            self.placement.bind.push(Bind { pod: member(self.snapshot, pod), node, gang: ask.gang.key.clone() });
            add(&mut taken, &self.snapshot.shapes[self.snapshot.pods[pod].shape].request);
            placed.push((pod, position));
        }
        self.ledger.enter(ask.queue, |account| &mut account.allocated, &taken);
        let least = ask.group.resources_min.as_deref().unwrap_or_default();
        let mut served = outstanding(least, &ask.held);
        add(&mut ask.held, &taken);
        take(&mut served, &outstanding(least, &ask.held));
        self.ledger.leave(ask.queue, |account| &mut account.inqueue, &served);
        take(&mut self.door.promised, &served);
        add(&mut self.door.used, &taken);
        ask.settle(self.snapshot, &placed);
        if let Some(domain) = domain {
            self.placement.domains.insert(ask.gang.key.clone(), domain);
        }
        if !self.asks[at].pods.is_empty() {
            self.line_up(at);
        } else if self.asks[at].gated > 0 {
            let pods = self.asks[at].gated;
            self.wait(at, WaitingOn::Gates { pods });
        }
    }

    /// Looks for room among what is kept, what leaves and whom it may evict; whatever comes of it, there is one reason.
    fn blocked(&mut self, at: usize, blocked: Blocked) {
        if let Blocked::Queue(shortage) = &blocked {
            let shortage = shortage.clone();
            if !self.make_room(at, None) && !self.make_room(at, Some(Cause::Preempt)) {
                let on = self.reason(at, &blocked);
                self.wait(at, on);
                self.keep_in_queue(at, &shortage.queue);
            }
            return;
        }
        if self.is_behind(at) {
            return;
        }
        let tried = self.tried.entry(self.asks[at].queue).or_default();
        *tried += 1;
        let is_among_first = *tried <= TRIED_MAX;
        let ways = [None, Some(Cause::Preempt), Some(Cause::Reclaim)];
        if is_among_first && ways.into_iter().any(|cause| self.make_room(at, cause)) {
            return;
        }
        let on = self.reason(at, &blocked);
        let is_first = self.reservations.is_empty();
        let when = if is_first && self.fits_ever(at) { self.reserve(at) } else { None };
        let on = match on {
            WaitingOn::Room { resource, asked, free, holders, .. } => WaitingOn::Room {
                resource,
                asked,
                free,
                holders,
                when: when.and_then(|when| Timestamp::from_second(when).ok()),
            },
            other => other,
        };
        self.wait(at, on);
    }

    /// Keeps what is left of the queue's bound for the first of its gangs that it could ever hold.
    fn keep_in_queue(&mut self, at: usize, queue: &str) {
        let (_, need) = self.asks[at].missing(self.snapshot);
        let Some(number) = self.ledger.find(queue) else { return };
        if !self.kept.contains_key(&number) && self.ledger.is_ever_enough(self.asks[at].queue, &need) {
            self.kept.insert(number, self.asks[at].gang.key.clone());
            add(&mut self.ledger.accounts[number].held, &need);
        }
    }

    /// Whether the gang would fit if nothing were kept for others: it may pass only if it is gone before they come.
    fn is_behind(&mut self, at: usize) -> bool {
        if self.reservations.is_empty() {
            return false;
        }
        let start = self.room.steps.len();
        self.lift(-1);
        let domain = self.attempt(at, &[], false);
        self.lift(1);
        let Ok(domain) = domain else {
            self.room.undo_to(start);
            return false;
        };
        let ends = self.asks[at].group.estimate.map(|estimate| self.now + estimate);
        let when = self.reservations.iter().map(|kept| kept.when).min().flatten();
        let passes = ends.zip(when).is_some_and(|(ends, when)| ends <= when);
        if passes {
            self.commit(at, start, domain);
            return true;
        }
        self.room.undo_to(start);
        let first = &self.reservations[0];
        let gang = self.asks[first.ask].gang.key.to_string();
        let when = first.when.and_then(|when| Timestamp::from_second(when).ok());
        self.wait(at, WaitingOn::Behind { gang, when });
        true
    }

    fn lift(&mut self, sign: i64) {
        for kept in &self.reservations {
            self.room.hold(&kept.holds, sign);
        }
    }

    /// Whether it would fit if nothing of ours were placed.
    pub fn fits_ever(&mut self, at: usize) -> bool {
        let mut empty = self.empty.take().unwrap_or_else(|| Room::without_ours(self.snapshot));
        let unbounded = vec![i64::MAX / 4; self.room.width()];
        let terms = Terms { ledger: &self.ledger, domains: &self.domains, freed: &unbounded, is_thorough: false };
        let fits = attempt(&mut empty, &self.asks[at], &terms).is_ok();
        empty.undo_to(0);
        self.empty = Some(empty);
        fits
    }

    /// Runs `seek` with the room and a test whether the gang fits there.
    fn with_fit<T>(&mut self, at: usize, seek: impl FnOnce(&mut Room<'a>, trial::Fits<'_, 'a>) -> T) -> T {
        let Round { room, asks, ledger, domains, .. } = self;
        let ask = &asks[at];
        let mut fits = |room: &mut Room<'a>, freed: &[i64]| {
            let terms = Terms { ledger, domains, freed, is_thorough: false };
            attempt(room, ask, &terms).is_ok()
        };
        seek(room, &mut fits)
    }

    /// Pods that are ending and promised to nobody, those of the queue apart: they give back its share too.
    fn leaving_units(&self, queue: usize) -> Vec<Unit> {
        let snapshot = self.snapshot;
        let of_queue = |pod: &PodId| {
            let gang = snapshot.pods[*pod].gang.and_then(|gang| snapshot.gangs[gang].group.as_ref());
            gang.and_then(|group| self.ledger.find(&group.queue)) == Some(queue)
        };
        let leaving = self.room.leaving().into_iter().filter(|pod| !self.claimed.contains(pod));
        let (own, others): (Vec<PodId>, Vec<PodId>) = leaving.partition(of_queue);
        let unit = |pods: Vec<PodId>, queue: Option<usize>| {
            let mut held = Amounts::new();
            pods.iter().for_each(|pod| add(&mut held, &snapshot.shapes[snapshot.pods[*pod].shape].request));
            let until = pods.iter().filter_map(|pod| snapshot.pods[*pod].until).max();
            Unit { gang: None, queue, pods, is_core: true, cost: 0, held, until, is_leaving: true }
        };
        let units = [unit(own, Some(queue)), unit(others, None)];
        units.into_iter().filter(|unit| !unit.pods.is_empty()).collect()
    }

    /// If the gang fits once pods have gone that are ending, or that may be evicted for the cause, their room is kept
    /// for it.
    fn make_room(&mut self, at: usize, cause: Option<Cause>) -> bool {
        let ask = &self.asks[at];
        let queue = ask.queue;
        let mut units = self.leaving_units(queue);
        let leaving = units.len();
        if let Some(cause) = cause {
            if !self.may_evict(at, cause, leaving > 0) {
                return false;
            }
            let choice =
                victims::Choice { room: &self.room, ledger: &self.ledger, claimed: &self.claimed, now: self.now };
            units.extend(victims::units(&choice, ask, cause));
        }
        if units.len() == leaving && (cause.is_some() || leaving == 0) {
            return false;
        }
        let trial = self.with_fit(at, |room, fits| match cause {
            None => trial::settle(room, &units, (0..leaving).collect(), queue, fits),
            Some(_) => {
                let count = trial::shortest(room, &units, queue, fits)?;
                trial::needed(room, &units, count, queue, fits)
            }
        });
        let Some(trial) = trial else { return false };
        self.keep(at, &units, trial, cause);
        true
    }

    fn may_evict(&self, at: usize, cause: Cause, is_leaving: bool) -> bool {
        let (policy, ask) = (&self.snapshot.policy, &self.asks[at]);
        let is_allowed = match cause {
            Cause::Preempt => policy.preempts,
            Cause::Reclaim => policy.reclaims && self.ledger.may_reclaim(ask.queue, &ask.missing(self.snapshot).1),
        };
        let is_willing = ask.pods.iter().any(|pod| !self.snapshot.pods[*pod].never_preempts);
        // ACT-7: what it was given room for by evictions is still on its way.
        let is_served = is_leaving && ask.pods.iter().any(|pod| self.snapshot.pods[*pod].nominated.is_some());
        is_allowed && is_willing && !is_served
    }

    /// Keeps the room that the units leave; evicts them if there is a cause, else they leave by themselves.
    fn keep(&mut self, at: usize, units: &[Unit], trial: Trial, cause: Option<Cause>) {
        let gang = self.asks[at].gang.key.clone();
        let used: BTreeSet<u32> = trial.puts.iter().map(|(_, position)| *position).collect();
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut pods = 0;
        for unit in trial.units.iter().map(|unit| &units[*unit]) {
            let cause = cause.filter(|_| !unit.is_leaving);
            for pod in &unit.pods {
                let position = self.snapshot.pods[*pod].node.and_then(|node| self.room.position(node));
                if cause.is_some() || position.is_some_and(|position| used.contains(&(position as u32))) {
                    self.claimed.insert(*pod);
                    pods += 1;
                }
                if let Some(cause) = cause {
                    names.insert(self.evict(*pod, cause, &gang));
                }
            }
            if let Some(queue) = unit.queue.filter(|_| cause == Some(Cause::Reclaim)) {
                self.ledger.leave(queue, |account| &mut account.allocated, &unit.held);
            }
        }
        for (pod, position) in &trial.puts {
            let node = self.room.nodes[*position as usize].name.clone();
            self.placement.nominate.push(Bind { pod: member(self.snapshot, *pod), node, gang: gang.clone() });
        }
        let until = trial.units.iter().filter_map(|unit| units[*unit].until).max();
        self.room.hold(&trial.holds, 1);
        self.reservations.push(Reservation { ask: at, holds: trial.holds, when: until });
        let when = until.and_then(|until| Timestamp::from_second(until).ok());
        self.wait(at, WaitingOn::Leaving { pods, when, victims: names.into_iter().collect() });
    }

    /// Gives the name of the gang that loses the pod.
    fn evict(&mut self, pod: PodId, cause: Cause, for_gang: &Key) -> String {
        let known = &self.snapshot.pods[pod];
        let gang = known.gang.map_or_else(|| known.key.clone(), |gang| self.snapshot.gangs[gang].key.clone());
        let name = gang.to_string();
        self.placement.evict.push(Evict { pod: member(self.snapshot, pod), gang, cause, for_gang: for_gang.clone() });
        name
    }

    /// Keeps room for the first gang that waits: where it will fit soonest, going by what is known to end, then by age.
    fn reserve(&mut self, at: usize) -> Option<i64> {
        let waited = self.now - self.asks[at].group.created;
        if waited < self.snapshot.policy.reserve_after {
            return None;
        }
        let units = ending_units(self);
        let queue = usize::MAX;
        let trial = self.with_fit(at, |room, fits| {
            let count = trial::shortest(room, &units, queue, fits)?;
            trial::settle(room, &units, (0..count).collect(), queue, fits)
        })?;
        let untils: Option<Vec<i64>> = trial.units.iter().map(|unit| units[*unit].until).collect();
        let when = untils.and_then(|untils| untils.into_iter().max());
        self.room.hold(&trial.holds, 1);
        self.reservations.push(Reservation { ask: at, holds: trial.holds, when });
        when
    }

    /// ACT-5: pods that ask for nothing go anywhere, at once, whatever becomes of their gang.
    fn place_light(&mut self) {
        for at in 0..self.asks.len() {
            let is_in =
                !self.placement.waiting.get(&self.asks[at].gang.key).is_some_and(|waiting| is_outside(&waiting.on));
            if self.asks[at].light.is_empty() || !is_in {
                continue;
            }
            let mut blocked = None;
            for pod in self.asks[at].light.clone() {
                let queue = node_groups(&self.ledger, &self.room, self.asks[at].queue);
                let found = pick_for(&mut self.room, &self.asks[at], pod, queue, Scope::default(), &self.domains);
                let Some(position) = found else {
                    blocked.get_or_insert(Blocked::Node(pod));
                    continue;
                };
                self.room.put(pod, position);
                let node = self.room.nodes[position].name.clone();
                let gang = self.asks[at].gang.key.clone();
                self.placement.bind.push(Bind { pod: member(self.snapshot, pod), node, gang });
            }
            let is_told = self.placement.waiting.contains_key(&self.asks[at].gang.key);
            if let Some(blocked) = blocked.filter(|_| !is_told) {
                let on = self.reason(at, &blocked);
                self.wait(at, on);
            }
        }
    }
}

/// The gang is not valid or not let in, so that nothing of it may be placed.
fn is_outside(on: &WaitingOn) -> bool {
    use WaitingOn::{Admission, ClosedQueue, Members, NamespaceQuota, NoQueue, ParentQueue, SubGroups, TaskMembers};
    matches!(
        on,
        NoQueue { .. }
            | ClosedQueue { .. }
            | ParentQueue { .. }
            | Members { .. }
            | TaskMembers { .. }
            | SubGroups { .. }
            | Admission { .. }
            | NamespaceQuota { .. }
    )
}

pub fn member(snapshot: &Snapshot, pod: PodId) -> Member {
    let pod = &snapshot.pods[pod];
    Member { key: pod.key.clone(), uid: pod.uid.clone() }
}
