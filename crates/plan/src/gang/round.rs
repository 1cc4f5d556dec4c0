//! One round: gangs are let in, take their turns queue by queue, and what is left over hears why.

use super::admission::{Door, outstanding};
use super::amounts::{Amounts, add, take};
use super::ask::Ask;
use super::attempt::{Blocked, Scope, Terms, attempt, beside, node_groups, pick_for};
use super::blocked::Reservation;
use super::objects::{GangId, Key, Phase, PodId};
use super::policy::Order;
use super::queues::{Ledger, ROOT};
use super::reasons::{Stand, Supply};
use super::room::{Room, Step};
use super::snapshot::Snapshot;
use super::topology::Domains;
use super::victims::dominant;
use super::why::{Holders, WaitingOn};
use super::{Bind, Member, Placement, Waiting};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// For so many blocked gangs of a round all ways of placing are searched.
const SEARCHES_MAX: usize = 4;
/// Two passes are usual: one that places and one that finds nothing more. Each but the last places something.
const PASSES_MAX: usize = 16;

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
    /// How many gangs in line have room made for them.
    nominated: usize,
    pub door: Door,
    /// Gangs that wait; what queues lose by evictions.
    told: BTreeSet<usize>,
    /// Queues in which pods above a gang's minimum wait for room: what is freed would go to them first.
    pub stalled: BTreeSet<usize>,
    pub lost: Vec<(usize, Amounts)>,
    pub tried: BTreeMap<usize, usize>,
    searches: usize,
    /// How often what is free has changed for good; what was counted before a change is counted again after it.
    pub generation: u64,
    pub supplies: BTreeMap<(u32, usize), (u64, Rc<Supply>)>,
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
            nominated: 0,
            door: Door::default(),
            told: BTreeSet::new(),
            stalled: BTreeSet::new(),
            lost: Vec::new(),
            tried: BTreeMap::new(),
            searches: SEARCHES_MAX,
            generation: 0,
            supplies: BTreeMap::new(),
            kept: BTreeMap::new(),
            holders: BTreeMap::new(),
        };
        for (id, gang) in snapshot.gangs.iter() {
            if let Some(group) = &gang.group {
                round.take_in(id, &group.queue);
            }
        }
        round.ledger.settle();
        for pod in round.room.leaving() {
            let pod = &snapshot.pods[pod];
            let group = pod.gang.and_then(|gang| snapshot.gangs[gang].group.as_ref());
            if let Some(queue) = group.and_then(|group| round.ledger.find(&group.queue)) {
                round.ledger.enter(queue, |account| &mut account.leaving, &snapshot.shapes[pod.shape].request);
            }
        }
        round
    }

    /// Enters what the gang has and wants; it gets a turn if anything of it waits.
    fn take_in(&mut self, id: GangId, queue: &str) {
        let gang = &self.snapshot.gangs[id];
        let group = gang.group.as_ref().expect("the caller has looked");
        let is_short = group.phase == Phase::Inqueue && gang.ready < group.members_min;
        let waits = gang.pending > 0 || group.phase == Phase::Pending || is_short;
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
        self.door.used = self.used();
        let mut again: Vec<usize> = (0..self.asks.len()).collect();
        for _ in 0..PASSES_MAX {
            let bound = self.placement.bind.len();
            self.begin_pass();
            again.iter().for_each(|at| self.line_up(*at));
            self.nominated = again.iter().filter(|at| self.asks[**at].is_nominated).count();
            while let Some(at) = self.next() {
                self.turn(at);
            }
            again = self.told.iter().copied().collect();
            if self.placement.bind.len() == bound || again.is_empty() {
                break;
            }
        }
        self.place_light();
        self.placement
    }

    /// Those that wait are asked again after others were placed, as they would be in the next round: what was kept or
    /// evicted for them is decided anew.
    fn begin_pass(&mut self) {
        for kept in std::mem::take(&mut self.reservations) {
            self.room.hold(&kept.holds, -1);
        }
        for (queue, amounts) in std::mem::take(&mut self.lost) {
            self.ledger.leave(queue, |account| &mut account.leaving, &amounts);
        }
        self.ledger.accounts.iter_mut().for_each(|account| account.held.clear());
        self.placement.evict.clear();
        self.placement.nominate.clear();
        self.kept.clear();
        self.stalled.clear();
        self.claimed.clear();
        self.tried.clear();
        self.searches = SEARCHES_MAX;
        self.generation += 1;
        for at in std::mem::take(&mut self.told) {
            self.placement.waiting.remove(&self.asks[at].gang.key);
            self.asks[at].has_begun = false;
        }
        self.open_door();
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
    ///
    /// Before it goes a gang for which room is being made, unless a more important one waits: what was evicted for it
    /// is not for others.
    fn next(&mut self) -> Option<usize> {
        if self.nominated == 0 {
            return self.next_in_line();
        }
        let highest = self.lines.values().flatten().map(|rank| self.asks[rank.4].priority).max();
        let is_next = |at: usize| self.asks[at].is_nominated && Some(self.asks[at].priority) == highest;
        let found = self.lines.iter().flat_map(|(queue, line)| line.iter().map(move |rank| (*queue, rank)));
        let nominated = found.filter(|(_, rank)| is_next(rank.4)).min_by_key(|(_, rank)| *rank);
        if let Some((queue, rank)) = nominated.map(|(queue, rank)| (queue, rank.clone())) {
            let line = self.lines.entry(queue).or_default();
            line.remove(&rank);
            if line.is_empty() {
                self.lines.remove(&queue);
            }
            self.nominated -= 1;
            return Some(rank.4);
        }
        self.next_in_line()
    }

    fn next_in_line(&mut self) -> Option<usize> {
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
        self.told.insert(at);
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

    pub fn attempt(&mut self, at: usize, freed: &[i64], is_thorough: bool) -> Result<Option<String>, Blocked> {
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
            let shortage = self.ledger.shortage_for_more(self.asks[at].queue, request);
            let found = if shortage.is_none() { self.pick(at, pod) } else { None };
            if let Some(position) = found {
                self.room.put(pod, position);
                return self.commit(at, start, None);
            }
            failed.insert(shape);
            first.get_or_insert(shortage.map_or(Blocked::Node(pod), Blocked::Queue));
        }
        if let Some(blocked) = first {
            if !matches!(blocked, Blocked::Queue(_)) {
                self.stalled.insert(self.asks[at].queue);
            }
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
    pub fn commit(&mut self, at: usize, start: usize, domain: Option<String>) {
        self.generation += 1;
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
        let mut extra = outstanding(&taken, &served);
        add(&mut ask.held, &taken);
        if ask.group.resources_min.is_none() {
            extra.clear();
        }
        self.ledger.enter(ask.queue, |account| &mut account.elastic, &extra);
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
                    let why = || {
                        beside(&mut self.room, pod, queue)
                            .map_or(Blocked::Node(pod), |found| Blocked::Beside(pod, found))
                    };
                    blocked.get_or_insert_with(why);
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
