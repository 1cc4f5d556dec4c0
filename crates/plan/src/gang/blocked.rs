//! A gang that found no room: what is kept, what leaves, whom it may evict, and what is kept for it.

use super::amounts::{Amounts, add, take};
use super::attempt::{Blocked, Terms, put_next};
use super::kin::Kin;
use super::objects::{Key, PodId};
use super::queues::Shortage;
use super::reasons::ending_units;
use super::room::{Hold, Room};
use super::round::{Round, member};
use super::search::LOOKS_FEW;
use super::trial::{self, Options, Promise, Trial, Unit};
use super::victims::{self, Cause};
use super::why::WaitingOn;
use super::{Bind, Evict};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// For so many blocked gangs of a queue, room is sought among what leaves and whom they may evict; the rest would come
/// after them anyhow.
const TRIED_MAX: usize = 16;

/// So many victims are looked at before all are.
const VICTIMS_FEW: usize = 1024;

/// What is kept for a gang.
#[derive(Debug)]
pub struct Reservation {
    pub ask: usize,
    pub holds: Vec<Hold>,
    when: Option<i64>,
    /// None if nobody goes for it yet.
    pub promise: Option<Promise>,
}

impl<'a> Round<'a> {
    /// Looks for room among what is kept, what leaves and whom it may evict; whatever comes of it, there is one reason.
    pub fn blocked(&mut self, at: usize, blocked: Blocked) {
        if let Blocked::Queue(shortage) = &blocked {
            let shortage = shortage.clone();
            let ways = self.ways_in_queue(at, &shortage);
            if !ways.iter().any(|cause| self.make_room(at, *cause)) {
                self.leave_unserved(at);
                let on = self.reason(at, &blocked);
                self.wait(at, on);
                self.keep_in_queue(at, &shortage.queue);
                self.alike.is_final = true;
            }
            return;
        }
        if self.is_behind(at) {
            return;
        }
        let ways = [None, Some(Cause::Preempt), Some(Cause::Reclaim)];
        if self.is_among_first(at) && ways.into_iter().any(|cause| self.make_room(at, cause)) {
            return;
        }
        self.leave_unserved(at);
        let on = self.reason(at, &blocked);
        let is_head = !self.has_head && self.fits_ever(at);
        let when = if is_head { self.reserve(at) } else { None };
        // The next may have waited longer, and have room kept; and a pod is named where no node takes it.
        self.alike.is_final = !is_head && !matches!(on, WaitingOn::Nodes { .. });
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

    /// How room may be made where a queue is at its bound.
    fn ways_in_queue(&mut self, at: usize, shortage: &Shortage) -> Vec<Option<Cause>> {
        // What is kept for a gang that comes first is not won by evicting others.
        if shortage.held > 0 {
            return vec![None];
        }
        let mut ways = vec![None, Some(Cause::Preempt)];
        // Of a queue above its own others may have more than they deserve.
        let is_above = shortage.queue != self.ledger.accounts[self.asks[at].queue].name;
        if is_above && self.is_among_first(at) {
            ways.push(Some(Cause::Reclaim));
        }
        ways
    }

    fn is_among_first(&mut self, at: usize) -> bool {
        let tried = self.tried.entry(self.asks[at].queue).or_default();
        *tried += 1;
        *tried <= TRIED_MAX
    }

    /// Keeps what is left of the queue's bound for the first of its gangs that it could ever hold.
    fn keep_in_queue(&mut self, at: usize, queue: &str) {
        let (_, need) = self.asks[at].missing(self.snapshot);
        let Some(number) = self.ledger.find(queue) else { return };
        if self.heads.contains(&number) || !self.ledger.is_ever_enough(self.asks[at].queue, &need) {
            return;
        }
        if self.fits_ever(at) {
            self.heads.insert(number);
            self.kept.entry(number).or_insert_with(|| self.asks[at].gang.key.clone());
            add(&mut self.ledger.accounts[number].held, &need);
            let level = self.ledger.line(self.asks[at].queue).iter().position(|above| *above == number);
            if let Some((kept, level)) = self.due_unserved.get_mut(&at).zip(level) {
                add(&mut kept[level], &need);
            }
            self.generation += 1;
        }
    }

    /// Whether the gang would fit if nothing were kept for others: it may pass only if it is gone before they come.
    fn is_behind(&mut self, at: usize) -> bool {
        if self.reservations.is_empty() {
            return false;
        }
        let start = self.room.steps.len();
        self.lift(-1);
        let domain = self.attempt(at, 0);
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
        self.alike.is_final = true;
        true
    }

    fn lift(&mut self, sign: i64) {
        for kept in &self.reservations {
            self.room.hold(&kept.holds, sign);
        }
    }

    /// Gives back what is kept in the room for those for whom others go, or keeps it again.
    pub fn lift_promises(&mut self, sign: i64) {
        for kept in self.reservations.iter().filter(|kept| kept.promise.is_some()) {
            self.room.hold(&kept.holds, sign);
        }
    }

    pub fn promises(&self) -> Vec<Promise> {
        self.reservations.iter().filter_map(|kept| kept.promise.clone()).collect()
    }

    /// Whether it would fit if nothing of ours were placed.
    pub fn fits_ever(&mut self, at: usize) -> bool {
        let mut empty = self.empty.take().unwrap_or_else(|| Room::without_ours(self.snapshot));
        let ask = &self.asks[at];
        let unbounded = vec![vec![i64::MAX / 4; self.room.width()]; self.ledger.line(ask.queue).len()];
        let terms = Terms { ledger: &self.ledger, domains: &self.domains, freed: &unbounded, looks_max: LOOKS_FEW };
        let fits = put_next(&mut empty, ask, &terms);
        empty.undo_to(0);
        self.empty = Some(empty);
        fits
    }

    /// Runs `seek` with the room and a test whether the gang fits there; at the `places` that its pods were told, if any.
    pub fn with_fit<T>(
        &mut self,
        at: usize,
        (kin, places): (&Kin, &[(PodId, usize)]),
        seek: impl FnOnce(&mut Room<'a>, trial::Fits<'_, 'a>) -> T,
    ) -> T {
        let mut given = self.given_back(kin);
        let kept = self.due_unserved.get(&at).into_iter().flatten();
        given.iter_mut().zip(kept).for_each(|(given, kept)| add(given, kept));
        let Round { room, asks, ledger, domains, .. } = self;
        let ask = &asks[at];
        let mut fits = |room: &mut Room<'a>, freed: &[Amounts]| {
            let mut freed = freed.to_vec();
            freed.iter_mut().zip(&given).for_each(|(freed, given)| add(freed, given));
            let terms = Terms { ledger, domains, freed: &freed, looks_max: LOOKS_FEW };
            let start = room.steps.len();
            let is_placed = put_next(room, ask, &terms);
            let is_there = |(pod, place): &(PodId, usize)| room.position_of(*pod).is_none_or(|at| at == *place);
            let fits = is_placed && places.iter().all(is_there);
            if !fits {
                room.undo_to(start);
            }
            fits
        };
        seek(room, &mut fits)
    }

    /// Where the gang's pods were told that room is made for them.
    fn places(&self, at: usize) -> Vec<(PodId, usize)> {
        let place = |pod: &PodId| {
            let node = self.snapshot.nodes.find(&**self.room.nominated(*pod)?)?;
            Some((*pod, self.room.position(node)?))
        };
        self.asks[at].pods.iter().filter_map(place).collect()
    }

    pub fn kin(&self, at: usize) -> Kin {
        Kin::new(&self.ledger, self.asks[at].queue, &self.next_wish(at))
    }

    /// What a gang's queue and those above it get back from pods whose room is promised to others.
    fn given_back(&self, kin: &Kin) -> Vec<Amounts> {
        let mut given = kin.nothing();
        for pod in &self.claimed {
            let held = &self.snapshot.shapes[self.snapshot.pods[*pod].shape].request;
            kin.give(&mut given, self.queue_of(*pod), held);
        }
        given
    }

    /// Pods that are ending and promised to nobody; those of the queue give back its share too.
    fn leaving_units(&self, at: usize) -> Vec<Unit> {
        let snapshot = self.snapshot;
        // Its own victims are kept for it rather than others'.
        let nominated = |pod: &PodId| snapshot.nodes.find(&**self.room.nominated(*pod)?);
        let nodes: BTreeSet<u32> = self.asks[at].pods.iter().filter_map(nominated).collect();
        let unit = |pod: PodId| {
            let known = &snapshot.pods[pod];
            let held = snapshot.shapes[known.shape].request.clone();
            let cost = i64::from(!known.node.is_some_and(|node| nodes.contains(&node)));
            Unit {
                gang: None,
                queue: self.queue_of(pod),
                pods: vec![pod],
                is_core: true,
                cost,
                held,
                until: known.until,
                is_leaving: true,
            }
        };
        let mut leaving: Vec<PodId> =
            self.room.leaving().into_iter().filter(|pod| !self.claimed.contains(pod)).collect();
        leaving.sort_by_key(|pod| (snapshot.pods[*pod].until.unwrap_or(i64::MAX), &snapshot.pods[*pod].key));
        leaving.into_iter().map(unit).collect()
    }

    /// If the gang fits once pods have gone that are ending, or that may be evicted for the cause, their room is kept
    /// for it.
    pub fn make_room(&mut self, at: usize, cause: Option<Cause>) -> bool {
        let is_vain = self.lessons.vain.contains(&self.asks[at].id);
        if cause.is_some_and(|cause| is_vain || !self.may_evict(at, cause)) {
            return false;
        }
        let promises = self.promises();
        self.lift_promises(-1);
        let mut found = self.seek_room(at, cause, &promises);
        if let Some((units, trial)) = found.as_ref().filter(|_| cause == Some(Cause::Preempt))
            && self.would_go_to_others(at, units, (trial, &promises))
        {
            found = None;
        }
        self.lift_promises(1);
        let Some((units, trial)) = found else { return false };
        // Better not to place it at all than to evict it as soon as it is placed.
        let is_new = |pod: &PodId| self.room.is_put(*pod);
        let new: Vec<PodId> = trial.units.iter().flat_map(|unit| &units[*unit].pods).copied().filter(is_new).collect();
        if !new.is_empty() {
            self.regret(at, new);
            return true;
        }
        let shared = self.shared(at, &trial, &promises);
        let is_any = !trial.units.is_empty() || !shared.is_empty();
        if is_any {
            self.keep(at, &units, (trial, shared), cause);
        }
        is_any
    }

    fn seek_room(&mut self, at: usize, cause: Option<Cause>, promises: &[Promise]) -> Option<(Vec<Unit>, Trial)> {
        let (mut units, places) = (self.leaving_units(at), self.places(at));
        let Some(cause) = cause else {
            if units.is_empty() && promises.is_empty() {
                return None;
            }
            let kin = self.kin(at);
            let options = Options { units: &units, kin: &kin, promises };
            let mut seek = |places: &[_]| {
                self.with_fit(at, (&kin, places), |room, fits| trial::needed(room, &options, units.len(), fits))
            };
            // Elsewhere only if it must: what others were told may depend on it.
            let trial = if places.is_empty() { seek(&[]) } else { seek(&places).or_else(|| seek(&[])) };
            return trial.map(|trial| (units, trial));
        };
        let (leaving, kin) = (units.len(), self.kin(at));
        for count_max in [VICTIMS_FEW, usize::MAX] {
            let Round { room, ledger, claimed, lessons, is_last, now, .. } = &*self;
            let (now, spares_new, needless) = (*now, *is_last, &lessons.needless);
            let choice = victims::Choice { room, ledger, claimed, spares_new, needless, now };
            let (victims, is_all) = victims::units(&choice, &self.asks[at], cause, count_max);
            units.truncate(leaving);
            units.extend(victims);
            if units.len() == leaving && is_all {
                return None;
            }
            // Beyond the last power of two the search would have gone another way, had it known of the others.
            let sure = (units.len() - leaving).checked_ilog2().map_or(0, |power| 1 << power);
            let options = Options { units: &units, kin: &kin, promises };
            let trial = self.with_fit(at, (&kin, &[]), |room, fits| {
                let count = trial::shortest(room, &options, fits)?;
                let is_sure = is_all || count - leaving <= sure;
                if is_sure { trial::needed(room, &options, count, fits) } else { None }
            });
            if trial.is_some() || is_all {
                return trial.map(|trial| (units, trial));
            }
        }
        None
    }

    /// Whether a queue that has not what it deserves would have what the units leave, before one that borrows; or it would
    /// be kept for the first gang that waits.
    fn would_go_to_others(&mut self, at: usize, units: &[Unit], (trial, promises): (&Trial, &[Promise])) -> bool {
        let own = self.asks[at].queue;
        if !self.ledger.accounts[own].queue.is_reclaimable || !self.borrows(at) {
            return false;
        }
        let heads = self.reservations.iter().filter(|kept| kept.promise.is_none());
        let kept: BTreeSet<u32> = heads.flat_map(|kept| &kept.holds).map(|hold| hold.position).collect();
        if trial.puts.iter().any(|(_, position)| kept.contains(position)) {
            return true;
        }
        // All of such a queue come first, whoever of them would borrow.
        let queue = |other: &usize| self.asks[*other].queue;
        let due: BTreeSet<usize> = self.due_unserved.keys().map(queue).filter(|queue| *queue != own).collect();
        let others = self.unserved.iter().filter(|other| due.contains(&queue(other)));
        let others: Vec<usize> = others.copied().take(TRIED_MAX).collect();
        others.into_iter().any(|other| {
            let kin = self.kin(other);
            let options = Options { units, kin: &kin, promises };
            // It would have what is kept for it, too.
            let is_its = |kept: &&Reservation| kept.ask == other && kept.promise.is_none();
            let kept: Vec<Hold> = self.reservations.iter().filter(is_its).flat_map(|kept| kept.holds.clone()).collect();
            self.room.hold(&kept, -1);
            let chosen = &trial.units;
            let fits = self.with_fit(other, (&kin, &[]), |room, fits| trial::is_enough(room, &options, chosen, fits));
            self.room.hold(&kept, 1);
            fits
        })
    }

    /// Pods that go for others and of whose room the gang gets a part.
    fn shared(&self, at: usize, trial: &Trial, promises: &[Promise]) -> Vec<PodId> {
        let kin = self.kin(at);
        let used: BTreeSet<usize> = trial.puts.iter().map(|(_, position)| *position as usize).collect();
        let is_shared = |pod: &PodId| {
            kin.contains(self.queue_of(*pod))
                || self.room.position_of(*pod).is_some_and(|position| used.contains(&position))
        };
        promises.iter().flat_map(|promise| &promise.gone).copied().filter(is_shared).collect()
    }

    pub fn queue_of(&self, pod: PodId) -> Option<usize> {
        let gang = self.snapshot.pods[pod].gang?;
        self.ledger.find(&self.snapshot.gangs[gang].group.as_ref()?.queue)
    }

    fn may_evict(&mut self, at: usize, cause: Cause) -> bool {
        let (policy, ask) = (&self.snapshot.policy, &self.asks[at]);
        let is_allowed = match cause {
            Cause::Preempt => policy.preempts,
            Cause::Reclaim => policy.reclaims && self.ledger.may_reclaim(ask.queue, &ask.missing(self.snapshot).1),
        };
        let is_willing = ask.pods.iter().any(|pod| !self.snapshot.pods[*pod].never_preempts);
        is_allowed && is_willing && !self.is_outranked(at)
    }

    /// What is freed would go to a more important gang of the queue first.
    fn is_outranked(&mut self, at: usize) -> bool {
        let (queue, priority) = (self.asks[at].queue, self.asks[at].priority);
        let outranks = |other: &usize| self.asks[*other].queue == queue && self.asks[*other].priority > priority;
        let above: Vec<usize> = self.unserved.iter().copied().filter(outranks).collect();
        above.into_iter().any(|other| self.fits_ever(other))
    }

    /// Keeps the room that the units leave and what is left of others'; evicts the units if there is a cause, else they
    /// leave by themselves.
    fn keep(&mut self, at: usize, units: &[Unit], (trial, shared): (Trial, Vec<PodId>), cause: Option<Cause>) {
        let (gang, queue) = (self.asks[at].gang.key.clone(), self.asks[at].queue);
        let mut gone: Vec<PodId> = Vec::new();
        for unit in trial.units.iter().map(|unit| &units[*unit]) {
            let cause = cause.filter(|_| !unit.is_leaving);
            if let Some(id) = unit.gang.filter(|_| unit.is_core) {
                self.evicted.insert(id, gang.clone());
            }
            for pod in &unit.pods {
                if !self.claimed.insert(*pod) {
                    continue;
                }
                gone.push(*pod);
                if let Some(cause) = cause {
                    self.evict(*pod, cause, &gang);
                }
            }
            if let Some(queue) = unit.queue.filter(|_| cause.is_some()) {
                self.ledger.enter(queue, |account| &mut account.leaving, &unit.held);
                self.lost.push((queue, unit.held.clone()));
            }
        }
        self.wait_for(at, &[&gone[..], &shared].concat());
        let promised = self.asked_by(trial.puts.iter().map(|(pod, _)| *pod));
        self.ledger.enter(queue, |account| &mut account.held, &promised);
        for number in self.ledger.line(queue) {
            self.kept.entry(number).or_insert_with(|| gang.clone());
        }
        for (pod, position) in &trial.puts {
            let node = self.room.nodes[*position as usize].name.clone();
            self.nominations.insert(*pod, node.clone());
            self.placement.nominate.push(Bind { pod: member(self.snapshot, *pod), node, gang: gang.clone() });
        }
        let until = trial.units.iter().filter_map(|unit| units[*unit].until).max();
        self.generation += 1;
        let holds = self.beyond_promises(trial.holds);
        self.room.hold(&holds, 1);
        let promise = Some(Promise { gone, puts: trial.puts });
        self.reservations.push(Reservation { ask: at, holds, when: until, promise });
    }

    /// What is to be kept now that is not kept for others already.
    fn beyond_promises(&self, mut holds: Vec<Hold>) -> Vec<Hold> {
        let kept = || self.reservations.iter().filter(|kept| kept.promise.is_some()).flat_map(|kept| &kept.holds);
        for hold in &mut holds {
            for other in kept().filter(|other| other.position == hold.position) {
                take(&mut hold.amounts, &other.amounts);
            }
            hold.amounts.iter_mut().for_each(|amount| *amount = (*amount).max(0));
        }
        holds
    }

    fn wait_for(&mut self, at: usize, gone: &[PodId]) {
        let gang = &self.asks[at].gang.key;
        let is_its = |pod: &&PodId| self.evicting.get(*pod).or_else(|| self.room.going.get(*pod)) == Some(gang);
        let names: BTreeSet<String> = gone.iter().filter(is_its).map(|pod| self.gang_of(*pod).to_string()).collect();
        let until = gone.iter().filter_map(|pod| self.snapshot.pods[*pod].until).max();
        let when = until.and_then(|until| Timestamp::from_second(until).ok());
        self.wait(at, WaitingOn::Leaving { pods: gone.len(), when, victims: names.into_iter().collect() });
    }

    fn gang_of(&self, pod: PodId) -> Key {
        let known = &self.snapshot.pods[pod];
        known.gang.map_or_else(|| known.key.clone(), |gang| self.snapshot.gangs[gang].key.clone())
    }

    fn evict(&mut self, pod: PodId, cause: Cause, for_gang: &Key) {
        let evict =
            Evict { pod: member(self.snapshot, pod), gang: self.gang_of(pod), cause, for_gang: for_gang.clone() };
        self.placement.evict.push(evict);
        self.evicting.insert(pod, for_gang.clone());
    }

    /// Keeps room for the first gang that waits: where it will fit soonest, going by what is known to end, then by age.
    fn reserve(&mut self, at: usize) -> Option<i64> {
        let waited = self.now - self.asks[at].group.created;
        if waited < self.snapshot.policy.reserve_after {
            return None;
        }
        // Those for whom room is being made come and go like all others.
        self.lift(-1);
        let units = ending_units(self);
        let kin = self.kin(at);
        let options = Options { units: &units, kin: &kin, promises: &[] };
        let trial = self.with_fit(at, (&kin, &[]), |room, fits| {
            let count = trial::shortest(room, &options, fits)?;
            trial::settle(room, &options, (0..count).collect(), fits)
        });
        self.lift(1);
        let trial = trial?;
        let untils: Option<Vec<i64>> = trial.units.iter().map(|unit| units[*unit].until).collect();
        let when = untils.and_then(|untils| untils.into_iter().max());
        self.generation += 1;
        self.has_head = true;
        // Its part of the queue is kept too: a gang larger than the fair share runs only while the queue holds nothing else.
        let (gang, queue) = (self.asks[at].gang.key.clone(), self.asks[at].queue);
        let (_, need) = self.asks[at].missing(self.snapshot);
        self.ledger.enter(queue, |account| &mut account.held, &need);
        self.due_unserved.get_mut(&at).into_iter().flatten().for_each(|kept| add(kept, &need));
        for number in self.ledger.line(queue) {
            self.kept.entry(number).or_insert_with(|| gang.clone());
        }
        self.room.hold(&trial.holds, 1);
        self.reservations.push(Reservation { ask: at, holds: trial.holds, when, promise: None });
        when
    }
}
