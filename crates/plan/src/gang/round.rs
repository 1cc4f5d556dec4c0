//! One round: gangs are let in, take their turns queue by queue, and what is left over hears why.

use super::admission::Door;
use super::alike::{Alike, Known};
use super::amounts::{Amounts, add, take};
use super::ask::Ask;
use super::attempt::{Blocked, Scope, Terms, attempt, no_node, node_groups, pick_for};
use super::blocked::Reservation;
use super::lessons::Lessons;
use super::objects::{GangId, Key, PodId};
use super::policy::Order;
use super::queues::{Ledger, ROOT};
use super::reasons::{Holding, Stand, Supply};
use super::room::{Room, Step};
use super::search::{LOOKS_FEW, LOOKS_MAX};
use super::snapshot::Snapshot;
use super::standing::outstanding;
use super::topology::Domains;
use super::victims::dominant;
use super::volumes;
use super::why::WaitingOn;
use super::{Bind, Member, Placement, Waiting};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// For so many blocked gangs of a round other ways of placing are searched.
const SEARCHES_MAX: usize = 64;
/// Two passes are usual: one that places and one that finds nothing more. Each but the last places, evicts or promises
/// something.
const PASSES_MAX: usize = 32;
/// Of so many gangs that have waited too long it is asked whether they could run at all.
const RIPE_MAX: usize = 16;

/// Smaller goes first: as the policy orders, then by what its launch queue said, then by age.
type Rank = ([i64; 4], u8, u32, usize);

/// What comes of a round: if anything is learned from it, it is to be begun anew; if it is doubtful, to be rehearsed.
#[derive(Debug)]
pub struct Outcome {
    pub placement: Placement,
    pub learned: Lessons,
    pub is_doubtful: bool,
}

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
    /// By gang: how many that wait are older.
    ages: Vec<u32>,
    /// What gangs hear, by their place among those that ask.
    verdicts: Vec<Option<Waiting>>,
    pub alike: Alike<'a>,
    /// By queue, the part that it has of what it deserves, and the generation of that.
    shares: BTreeMap<usize, (u64, i64)>,
    borrowers: Vec<usize>,
    /// Of those, by queue, gangs that would not borrow themselves.
    due: BTreeMap<usize, BTreeSet<usize>>,
    pub claimed: BTreeSet<PodId>,
    /// What earlier beginnings have taught, and what this one does: then it comes to nothing. The last one stays.
    pub lessons: Lessons,
    pub learned: Lessons,
    pub is_last: bool,
    /// Pods that have no turn now.
    withheld: BTreeSet<PodId>,
    pub door: Door,
    /// Gangs that wait; what queues lose by evictions.
    told: BTreeSet<usize>,
    /// Gangs that lose their minimum, and for whom.
    pub evicted: BTreeMap<GangId, Key>,
    /// Gangs for which nobody makes room: what is freed would go to the more important of them first.
    pub unserved: Vec<usize>,
    /// Of those, the ones that would not borrow, and what their queues and those above keep for them already.
    pub due_unserved: BTreeMap<usize, Vec<Amounts>>,
    /// Room is kept for the first gang that waits.
    pub has_head: bool,
    pub lost: Vec<(usize, Amounts)>,
    /// Pods that are evicted in this pass, and for whom; where room is made in this pass.
    pub evicting: BTreeMap<PodId, Key>,
    pub nominations: BTreeMap<PodId, Arc<str>>,
    /// So many evictions are decided for good.
    evictions: usize,
    pub tried: BTreeMap<usize, usize>,
    searches: usize,
    /// How often what is free has changed for good; what was counted before a change is counted again after it.
    pub generation: u64,
    pub supplies: BTreeMap<(u32, usize), (u64, Rc<Supply>)>,
    /// Queues in which something is kept for a gang; those in which all that is left is kept for the first that waits.
    pub kept: BTreeMap<usize, Key>,
    pub heads: BTreeSet<usize>,
    pub holding: BTreeMap<(usize, Option<usize>), Rc<Holding>>,
}

impl<'a> Round<'a> {
    pub fn new(snapshot: &'a Snapshot, now: Timestamp) -> Round<'a> {
        let mut room = Room::new(snapshot);
        let domains = Domains::new(&room);
        let weights = &snapshot.policy.weights;
        if snapshot.policy.knows_topology && weights.fill_fading > 0 && !domains.all.is_empty() {
            room.fill = domains.fill(&room).into_iter().map(|fill| weights.topology * fill).collect();
        }
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
            ages: vec![0; snapshot.gangs.bound()],
            verdicts: Vec::new(),
            alike: Alike::default(),
            shares: BTreeMap::new(),
            borrowers: Vec::new(),
            due: BTreeMap::new(),
            claimed: BTreeSet::new(),
            lessons: Lessons::default(),
            learned: Lessons::default(),
            is_last: false,
            withheld: BTreeSet::new(),
            door: Door::default(),
            told: BTreeSet::new(),
            evicted: BTreeMap::new(),
            unserved: Vec::new(),
            due_unserved: BTreeMap::new(),
            has_head: false,
            lost: Vec::new(),
            evicting: BTreeMap::new(),
            nominations: BTreeMap::new(),
            evictions: 0,
            tried: BTreeMap::new(),
            searches: SEARCHES_MAX,
            generation: 0,
            supplies: BTreeMap::new(),
            kept: BTreeMap::new(),
            heads: BTreeSet::new(),
            holding: BTreeMap::new(),
        };
        round.open_books();
        round
    }

    /// Enters what queues have and what gangs want.
    fn open_books(&mut self) {
        let snapshot = self.snapshot;
        for (queue, sums) in &snapshot.standing.sums {
            if let Some(number) = self.ledger.find(queue) {
                self.ledger.enter(number, |account| &mut account.allocated, &sums.allocated);
                self.ledger.enter(number, |account| &mut account.request, &sums.allocated);
                self.ledger.enter(number, |account| &mut account.inqueue, &sums.inqueue);
                self.ledger.enter(number, |account| &mut account.elastic, &sums.elastic);
            }
        }
        self.asks.reserve(snapshot.standing.waiting.len());
        self.verdicts.reserve(snapshot.standing.waiting.len());
        snapshot.standing.waiting.values().for_each(|id| self.take_in(*id));
        for (age, (_, _, _, id)) in (0..).zip(&snapshot.standing.ages) {
            self.ages[*id as usize] = age;
        }
        self.ledger.settle();
        for pod in self.room.leaving() {
            if let Some(queue) = self.queue_of(pod) {
                let held = &snapshot.shapes[snapshot.pods[pod].shape].request;
                self.ledger.enter(queue, |account| &mut account.leaving, held);
            }
        }
    }

    /// Enters what a gang wants of which something waits, and gives it a turn.
    fn take_in(&mut self, id: GangId) {
        let gang = &self.snapshot.gangs[id];
        let group = gang.group.as_ref().expect("only gangs with a group are listed as waiting");
        let queue = &group.queue;
        let Some(number) = self.ledger.find(queue) else {
            let on = if &**queue == ROOT {
                WaitingOn::ParentQueue { queue: queue.to_string() }
            } else {
                WaitingOn::NoQueue { queue: queue.to_string() }
            };
            let has_minimum = gang.ready >= group.members_min;
            self.placement.waiting.insert(gang.key.clone(), Waiting { on, pods: gang.pending, has_minimum });
            return;
        };
        let Some(ask) = Ask::new(self.snapshot, &self.room, id, number) else { return };
        let mut wish = Amounts::new();
        for pod in ask.pods.iter().chain(&ask.light) {
            add(&mut wish, &self.snapshot.shapes[self.snapshot.pods[*pod].shape].request);
        }
        let least = group.resources_min.as_deref().unwrap_or_default();
        let wish = if gang.members.is_empty() { least } else { &wish };
        self.ledger.enter(number, |account| &mut account.request, wish);
        self.asks.push(ask);
        self.verdicts.push(None);
    }

    pub fn run(mut self, lessons: &Lessons) -> Outcome {
        self.door.used = self.used();
        self.lessons = lessons.clone();
        self.withheld = lessons.hasty.iter().chain(lessons.futile.keys()).copied().collect();
        self.settle(&(0..self.asks.len()).collect::<Vec<_>>());
        if !self.withheld.is_empty() && self.learned.is_empty() {
            self.withheld = lessons.futile.keys().copied().collect();
            self.settle(&self.told.iter().copied().collect::<Vec<_>>());
        }
        if !self.is_last && self.learned.is_empty() && !self.room.going.is_empty() {
            self.review();
        }
        let learned = std::mem::take(&mut self.learned);
        // Where nobody borrows, those for whom room was made come before all who could take it.
        let is_doubtful = self.ledger.is_capacity && !self.placement.evict.is_empty();
        self.place_light();
        Outcome { placement: self.tell(), learned, is_doubtful }
    }

    /// Passes until nothing more comes of it: after others were placed, or with what was evicted seen as it will be.
    fn settle(&mut self, asks: &[usize]) {
        let mut has_news = self.pass(asks);
        for _ in 1..PASSES_MAX {
            let is_over = self.told.is_empty() || !self.learned.is_empty();
            if is_over || (!has_news && !self.foresee()) {
                break;
            }
            let again: Vec<usize> = self.told.iter().copied().collect();
            has_news = self.pass(&again);
        }
    }

    fn tell(mut self) -> Placement {
        let verdicts = self.asks.iter().zip(self.verdicts);
        let told = verdicts.filter_map(|(ask, verdict)| Some((ask.gang.key.clone(), verdict?)));
        // In the order of their names, as the gangs ask: so the map is made at once.
        let mut told: BTreeMap<Key, Waiting> = told.collect();
        told.append(&mut self.placement.waiting);
        self.placement.waiting = told;
        let domains = self.domains.all.into_iter();
        self.placement.node_counts = domains.map(|domain| (domain.name, domain.nodes.len())).collect();
        self.placement
    }

    /// A gang that loses pods asks for what it has then, with what it was given before.
    fn ask_anew(&mut self, at: usize) {
        let Ask { id, queue, is_in, .. } = self.asks[at];
        let Some(mut ask) = Ask::new(self.snapshot, &self.room, id, queue) else { return };
        for pod in self.room.put_pods().filter(|pod| self.snapshot.pods[*pod].gang == Some(id)) {
            add(&mut ask.held, &self.snapshot.shapes[self.snapshot.pods[pod].shape].request);
        }
        self.asks[at] = Ask { is_in, ..ask };
    }

    /// Everybody of them has a turn; whether anything was placed.
    fn pass(&mut self, asks: &[usize]) -> bool {
        let bound = self.placement.bind.len();
        self.begin_pass();
        let mut line = asks.to_vec();
        self.pass_over_resting(&mut line);
        self.serve_nominated(&mut line, false);
        if let Some(place) = self.ripe(&line) {
            let at = line.remove(place);
            self.turn(at);
        }
        line.iter().for_each(|at| self.line_up(*at));
        while let Some(at) = self.next() {
            if self.borrows(at) {
                self.defer(at);
            } else {
                self.turn(at);
            }
        }
        self.lend();
        self.placement.bind.len() > bound
    }

    /// Gangs that cannot be bound for now have no turn and hold nothing.
    fn pass_over_resting(&mut self, line: &mut Vec<usize>) {
        let resting = &self.snapshot.resting;
        line.retain(|at| {
            let words = resting.get(&self.asks[*at].gang.key);
            if let Some(words) = words {
                self.wait(*at, WaitingOn::Refused { words: words.clone() });
            }
            words.is_none()
        });
    }

    /// Where in the line the gang is that has waited longest, if that is too long for one that could run.
    fn ripe(&mut self, line: &[usize]) -> Option<usize> {
        let due = self.now - self.snapshot.policy.ripe_after;
        let is_due = |place: &usize| self.asks[line[*place]].since <= due && !self.asks[line[*place]].is_ready();
        let mut places: Vec<usize> = (0..line.len()).filter(is_due).collect();
        let age = |place: &usize| {
            let ask = &self.asks[line[*place]];
            (ask.since, &ask.gang.key)
        };
        // Thousands may be due: only the first are put in order.
        if places.len() > RIPE_MAX {
            places.select_nth_unstable_by(RIPE_MAX, |a, b| age(a).cmp(&age(b)));
            places.truncate(RIPE_MAX);
        }
        places.sort_by(|a, b| age(a).cmp(&age(b)));
        places.into_iter().find(|place| self.could_run(line[*place]))
    }

    /// Whether only other gangs keep it from running.
    fn could_run(&mut self, at: usize) -> bool {
        let ask = &self.asks[at];
        let is_whole = ask.is_valid() && ask.gated == 0 && self.queue_refusal(ask).is_none();
        let least = ask.missing(self.snapshot).1;
        is_whole && self.ledger.is_ever_enough(ask.queue, &least) && self.fits_ever(at)
    }

    /// Makes what was decided last be seen as it will be next: those who are evicted are on their way out, and pods know
    /// where room is made for them. False if that is how it was seen already.
    fn foresee(&mut self) -> bool {
        let knew = |(pod, node): (&PodId, &Arc<str>)| self.room.nominated(*pod) == Some(node);
        let is_known = self.nominations.iter().all(knew);
        let told = self.told.iter().flat_map(|at| &self.asks[*at].pods);
        let is_over =
            told.into_iter().any(|pod| self.room.nominated(*pod).is_some() && !self.nominations.contains_key(pod));
        if self.told.is_empty() || (self.evicting.is_empty() && is_known && !is_over) {
            return false;
        }
        let losers: BTreeSet<GangId> = self.evicting.keys().filter_map(|pod| self.snapshot.pods[*pod].gang).collect();
        self.room.going.append(&mut self.evicting);
        self.room.nominate(std::mem::take(&mut self.nominations));
        self.evictions = self.placement.evict.len();
        self.lost.clear();
        for at in self.told.clone() {
            if losers.contains(&self.asks[at].id) {
                self.ask_anew(at);
            } else {
                self.asks[at].line_up(self.snapshot, &self.room);
            }
        }
        true
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
        self.placement.evict.truncate(self.evictions);
        self.evicting.clear();
        self.placement.nominate.clear();
        self.nominations.clear();
        self.kept.clear();
        self.heads.clear();
        self.evicted.clear();
        self.unserved.clear();
        self.due_unserved.clear();
        self.has_head = false;
        self.claimed.clear();
        self.tried.clear();
        self.searches = SEARCHES_MAX;
        self.generation += 1;
        for at in std::mem::take(&mut self.told) {
            self.verdicts[at] = None;
            self.asks[at].has_begun = false;
            // Those for which room was made may have been placed.
            self.asks[at].is_nominated = self.asks[at].pods.iter().any(|pod| self.room.nominated(*pod).is_some());
        }
        self.open_door();
    }

    fn rank(&self, at: usize) -> Rank {
        let ask = &self.asks[at];
        let part = |order: &Order| match order {
            Order::Priority => -ask.priority,
            // Who has a part already, by a crash or a loss, works for nobody until it is whole.
            Order::Gang if ask.is_ready() => 2,
            Order::Gang => i64::from(ask.placed.is_empty()),
            Order::Drf => dominant(&self.ledger, &ask.staying()),
            Order::Sla => {
                ask.group.patience.or(self.snapshot.policy.patience).map_or(i64::MAX, |p| p + ask.group.created)
            }
        };
        let mut parts = [0; 4];
        parts.iter_mut().zip(&self.snapshot.policy.order).for_each(|(slot, order)| *slot = part(order));
        (parts, ask.precedence, self.ages[ask.id as usize], at)
    }

    fn line_up(&mut self, at: usize) {
        let rank = self.rank(at);
        self.lines.entry(self.asks[at].queue).or_default().insert(rank);
    }

    /// Gangs for which room is being made come before all others, but for more important ones of their queue: what was
    /// evicted for them is not for others. One whose room is not there any more takes its place in line; so does one that
    /// borrows what others would take back at once.
    fn serve_nominated(&mut self, again: &mut Vec<usize>, may_borrow: bool) {
        let mut nominated: Vec<usize> = again.extract_if(.., |at| self.asks[*at].is_nominated).collect();
        nominated.sort_by_cached_key(|at| (Reverse(self.asks[*at].priority), self.rank(*at)));
        for at in nominated {
            let outranks = |other: &Ask| other.queue == self.asks[at].queue && other.priority > self.asks[at].priority;
            let mut ahead: Vec<usize> = again.extract_if(.., |other| outranks(&self.asks[*other])).collect();
            let is_reclaimable = self.ledger.accounts[self.asks[at].queue].queue.is_reclaimable;
            let waits = |round: &Round, at: usize| !may_borrow && is_reclaimable && round.borrows(at);
            if ahead.iter().chain([&at]).any(|at| waits(self, *at)) {
                again.append(&mut ahead);
                again.push(at);
                continue;
            }
            ahead.sort_by_cached_key(|other| self.rank(*other));
            ahead.into_iter().for_each(|other| self.turn(other));
            // A more important one has just had it evicted, or has taken what it would not have had to borrow.
            if self.evicted.contains_key(&self.asks[at].id) || waits(self, at) {
                again.push(at);
                continue;
            }
            let start = self.room.steps.len();
            if !self.begins(at) {
                continue;
            }
            match self.attempt(at, LOOKS_FEW) {
                Ok(domain) if !self.asks[at].is_ready() => self.commit(at, start, domain),
                Err(_) if self.make_room(at, None) => {}
                Ok(_) | Err(_) => {
                    self.room.undo_to(start);
                    again.push(at);
                }
            }
        }
    }

    /// Whether the gang's queue waits until all others have what they deserve: what it borrowed before them would be
    /// taken back at once.
    pub fn borrows(&self, at: usize) -> bool {
        if !self.ledger.is_capacity {
            return false;
        }
        !self.ledger.stays_within(self.asks[at].queue, &self.next_wish(at))
    }

    pub fn leave_unserved(&mut self, at: usize) {
        self.unserved.push(at);
        self.note_due(at, true);
    }

    fn note_due(&mut self, at: usize, may_come: bool) {
        if self.ledger.is_capacity && may_come && !self.borrows(at) {
            self.due_unserved.insert(at, vec![Amounts::new(); self.ledger.line(self.asks[at].queue).len()]);
        }
    }

    /// What the gang asks for in its turn: its minimum, then a pod at a time.
    pub fn next_wish(&self, at: usize) -> Amounts {
        let ask = &self.asks[at];
        let first = || ask.pods.first().map(|pod| &self.snapshot.shapes[self.snapshot.pods[*pod].shape].request);
        if ask.is_ready() { first().cloned().unwrap_or_default() } else { ask.missing(self.snapshot).1 }
    }

    /// The whole queue: nobody overtakes its first gang.
    fn defer(&mut self, at: usize) {
        self.borrowers.push(at);
        let line = self.lines.remove(&self.asks[at].queue).unwrap_or_default();
        self.borrowers.extend(line.into_iter().map(|(.., at)| at));
    }

    /// Queues go first in which somebody who would not borrow stands behind one who would: they would take back what the
    /// others borrow.
    fn lend(&mut self) {
        for at in std::mem::take(&mut self.borrowers) {
            self.line_up(at);
            if !self.borrows(at) {
                self.due.entry(self.asks[at].queue).or_default().insert(at);
            }
        }
        while !self.due.is_empty() {
            let Some(at) = self.next() else { break };
            let queue = self.asks[at].queue;
            if self.due.get_mut(&queue).is_some_and(|due| due.remove(&at) && due.is_empty()) {
                self.due.remove(&queue);
            }
            self.turn(at);
        }
        let lines = std::mem::take(&mut self.lines).into_values();
        let mut rest: Vec<usize> = lines.flatten().map(|(.., at)| at).collect();
        self.serve_nominated(&mut rest, true);
        rest.into_iter().for_each(|at| self.line_up(at));
        while let Some(at) = self.next() {
            self.turn(at);
        }
    }

    /// The first gang of the first queue.
    fn next(&mut self) -> Option<usize> {
        if !self.learned.is_empty() {
            return None;
        }
        let queue = if self.lines.len() > 1 { self.first_queue()? } else { *self.lines.keys().next()? };
        let line = self.lines.get_mut(&queue)?;
        let (.., at) = line.pop_first()?;
        if line.is_empty() {
            self.lines.remove(&queue);
        }
        Some(at)
    }

    fn first_queue(&mut self) -> Option<usize> {
        for queue in self.lines.keys() {
            let known = self.shares.entry(*queue).or_insert((u64::MAX, 0));
            if known.0 != self.generation {
                *known = (self.generation, self.ledger.share(*queue));
            }
        }
        let oldest = |line: &BTreeSet<Rank>| line.first().map_or(i64::MAX, |rank| self.asks[rank.3].group.created);
        let rank = |queue: usize, line| {
            (!self.due.contains_key(&queue), self.ledger.rank(queue, self.shares[&queue].1, oldest(line)))
        };
        self.lines.iter().min_by_key(|(queue, line)| rank(**queue, line)).map(|(queue, _)| *queue)
    }

    pub fn wait(&mut self, at: usize, on: WaitingOn) {
        let ask = &self.asks[at];
        let pods = ask.pods.len() + ask.gated;
        self.verdicts[at] = Some(Waiting { on, pods, has_minimum: ask.is_ready() });
        self.told.insert(at);
    }

    /// Whether the gang takes its turn: it is let in, and there is something to place.
    fn begins(&mut self, at: usize) -> bool {
        if std::mem::replace(&mut self.asks[at].has_begun, true) {
            return true;
        }
        if let Some(on) = self.admit(at) {
            // When somebody goes, there is room at the door, too.
            let may_come = matches!(on, WaitingOn::Admission { .. } | WaitingOn::QueueLimit { .. });
            self.unserved.push(at);
            self.note_due(at, may_come);
            self.wait(at, on);
            return false;
        }
        match self.stand(at) {
            Stand::Wait(on) => {
                self.alike.is_final = true;
                self.wait(at, on);
            }
            Stand::Rest => {}
            Stand::Go if !self.asks[at].is_ready() && self.is_withheld(at) => self.put_off(at),
            Stand::Go => return true,
        }
        false
    }

    /// Whether its minimum has to wait for all others.
    fn is_withheld(&self, at: usize) -> bool {
        let needs = || self.asks[at].needed(self.snapshot).into_iter();
        !self.withheld.is_empty() && needs().any(|pod| self.withheld.contains(&pod))
    }

    /// It is asked again when all others have had their turns, and hears then why it waits; or somebody else has what it
    /// would take.
    fn put_off(&mut self, at: usize) {
        let first = self.asks[at].pods.iter().find_map(|pod| self.lessons.futile.get(pod));
        let gang = first.unwrap_or(&self.asks[at].gang.key).to_string();
        self.wait(at, WaitingOn::Behind { gang, when: None });
    }

    fn turn(&mut self, at: usize) {
        if let Some(gang) = self.evicted.get(&self.asks[at].id) {
            let on = WaitingOn::Behind { gang: gang.to_string(), when: None };
            return self.wait(at, on);
        }
        let kind = self.alike.kind(&self.room, at, &self.asks[at]);
        if let Some(known) = kind.and_then(|kind| self.alike.known(kind, self.generation)) {
            self.searches -= usize::from(known.was_sought).min(self.searches);
            *self.tried.entry(self.asks[at].queue).or_default() += usize::from(known.was_tried);
            return self.wait(at, known.on);
        }
        let (generation, searches) = (self.generation, self.searches);
        let tried = self.tried.get(&self.asks[at].queue).copied();
        self.alike.is_final = false;
        self.take_turn(at);
        let verdict = self.verdicts[at].as_ref().filter(|_| self.alike.is_final && self.generation == generation);
        if let Some((kind, verdict)) = kind.zip(verdict) {
            let was_tried = self.tried.get(&self.asks[at].queue).copied() != tried;
            let was_sought = self.searches != searches;
            self.alike.learn(kind, generation, Known { on: verdict.on.clone(), was_sought, was_tried });
        }
    }

    fn take_turn(&mut self, at: usize) {
        if !self.begins(at) {
            return;
        }
        let start = self.room.steps.len();
        if self.asks[at].is_ready() {
            return self.turn_for_more(at);
        }
        match self.attempt(at, 0) {
            Ok(domain) => self.commit(at, start, domain),
            Err(blocked) => {
                let looks_max = if self.has_head { LOOKS_FEW } else { LOOKS_MAX };
                if self.searches > 0 {
                    self.searches -= 1;
                    if let Ok(domain) = self.attempt(at, looks_max) {
                        return self.commit(at, start, domain);
                    }
                }
                self.blocked(at, blocked);
            }
        }
    }

    pub fn attempt(&mut self, at: usize, looks_max: usize) -> Result<Option<String>, Blocked> {
        let terms = Terms { ledger: &self.ledger, domains: &self.domains, freed: &[], looks_max };
        attempt(&mut self.room, &self.asks[at], &terms)
    }

    /// One pod above the minimum (GANG-7), or the reason why there is none more.
    fn turn_for_more(&mut self, at: usize) {
        let start = self.room.steps.len();
        let mut failed = BTreeSet::new();
        let mut first = None;
        for pod in self.asks[at].pods.clone() {
            let shape = self.snapshot.pods[pod].shape;
            if failed.contains(&shape) || self.withheld.contains(&pod) {
                continue;
            }
            let request = &self.snapshot.shapes[shape].request;
            let shortage = self.ledger.shortage_for_more(self.asks[at].queue, request, &[]);
            let found = if shortage.is_none() { self.pick(at, pod) } else { None };
            if let Some(position) = found {
                self.room.put(pod, position);
                return self.commit(at, start, None);
            }
            failed.insert(shape);
            let groups = node_groups(&self.ledger, &self.room, self.asks[at].queue);
            let room = &mut self.room;
            first.get_or_insert_with(|| shortage.map_or_else(|| no_node(room, pod, groups, 0), Blocked::Queue));
        }
        if let Some(blocked) = first {
            self.leave_unserved(at);
            let on = self.reason(at, &blocked);
            self.wait(at, on);
        } else {
            self.put_off(at);
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
        let is_put = |step: &Step| if let Step::Put(pod, position) = *step { Some((pod, position)) } else { None };
        let placed: Vec<(PodId, u32)> = self.room.steps[start..].iter().filter_map(is_put).collect();
        placed.iter().for_each(|(pod, position)| self.bind(at, *pod, *position as usize));
        let taken = self.asked_by(placed.iter().map(|(pod, _)| *pod));
        let ask = &mut self.asks[at];
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

    /// Says that the pod goes there, with the volumes that were picked for it.
    fn bind(&mut self, at: usize, pod: PodId, position: usize) {
        let node = self.room.nodes[position].name.clone();
        let gang = self.asks[at].gang.key.clone();
        self.placement.bind.push(Bind { pod: member(self.snapshot, pod), node, gang });
        let picked = volumes::picked(&self.room, pod).map(|(claim, name)| (claim, name.into()));
        self.placement.volumes.extend(picked);
    }

    /// ACT-5: pods that ask for nothing go anywhere, at once, whatever becomes of their gang.
    fn place_light(&mut self) {
        for at in 0..self.asks.len() {
            let is_in = !self.verdicts[at].as_ref().is_some_and(|waiting| is_outside(&waiting.on));
            if self.asks[at].light.is_empty() || !is_in {
                continue;
            }
            let mut blocked = None;
            let light = self.asks[at].light.clone();
            if light.iter().any(|pod| self.lessons.futile.contains_key(pod)) && self.verdicts[at].is_none() {
                self.put_off(at);
            }
            for pod in light {
                if self.lessons.futile.contains_key(&pod) {
                    continue;
                }
                let queue = node_groups(&self.ledger, &self.room, self.asks[at].queue);
                let found = pick_for(&mut self.room, &self.asks[at], pod, queue, Scope::default(), &self.domains);
                let Some(position) = found else {
                    let room = &mut self.room;
                    blocked.get_or_insert_with(|| no_node(room, pod, queue, 0));
                    continue;
                };
                self.room.put(pod, position);
                self.bind(at, pod, position);
            }
            let is_told = self.verdicts[at].is_some();
            if let Some(blocked) = blocked.filter(|_| !is_told) {
                let on = self.reason(at, &blocked);
                self.wait(at, on);
            }
        }
    }
}

/// The gang is not valid or not let in, so that nothing of it may be placed.
fn is_outside(on: &WaitingOn) -> bool {
    use WaitingOn::{
        Admission, ClosedQueue, Members, NamespaceQuota, NoQueue, ParentQueue, Refused, SubGroups, TaskMembers,
    };
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
            | Refused { .. }
    )
}

pub fn member(snapshot: &Snapshot, pod: PodId) -> Member {
    let pod = &snapshot.pods[pod];
    Member { key: pod.key.clone(), uid: pod.uid.clone() }
}
