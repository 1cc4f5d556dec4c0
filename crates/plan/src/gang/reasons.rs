//! Finds the one reason for which a gang waits, and its numbers.

use super::amounts::{Amounts, PODS, covers, get};
use super::attempt::{Blocked, free_in, node_groups};
use super::candidates::Candidates;
use super::fit::{self, Refusal};
use super::hint;
use super::objects::{Gang, GangId, PodId, ShapeId, State};
use super::queues::Shortage;
use super::room::Room;
use super::round::Round;
use super::trial::Unit;
use super::volumes;
use super::why::{Holder, Holders, SHOWN_MAX, WaitingOn};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Of more gangs it is not asked when they end: one that waits for so many of them waits long anyhow.
const ENDINGS_MAX: usize = 1024;

/// Whether a gang takes its turn.
#[derive(Debug)]
pub enum Stand {
    Go,
    Wait(WaitingOn),
    /// Nothing of it is to be placed.
    Rest,
}

/// What nodes that suit a shape have.
#[derive(Debug)]
pub struct Supply {
    nodes: usize,
    free: Amounts,
    total: Amounts,
    largest_total: Amounts,
    /// How many pods of the shape fit, now and on empty nodes.
    places: usize,
    places_ever: usize,
    refusals: BTreeMap<Refusal, usize>,
}

/// Who holds most of something: one more than is shown, because who asks may be among them.
#[derive(Debug)]
pub struct Holding {
    largest: Vec<(GangId, Holder)>,
    count: usize,
    shown: Holders,
}

impl Round<'_> {
    /// What keeps a gang that is let in from trying, before any node is looked at.
    pub fn stand(&self, at: usize) -> Stand {
        let ask = &self.asks[at];
        let is_idle = ask.pods.is_empty() && ask.light.is_empty();
        if is_idle && ask.gated == 0 && ask.is_ready() {
            return Stand::Rest;
        }
        if let Some(on) = self.queue_refusal(ask) {
            return Stand::Wait(on);
        }
        if let Some(lack) = ask.existing.lack(ask.group) {
            let on = if ask.gated > 0 { WaitingOn::Gates { pods: ask.gated } } else { WaitingOn::of_lack(lack) };
            return Stand::Wait(on);
        }
        if is_idle {
            return Stand::Wait(WaitingOn::Gates { pods: ask.gated });
        }
        let knows = self.snapshot.policy.knows_topology && self.snapshot.hyper_nodes.is_empty();
        if knows && ask.group.topology.as_ref().is_some_and(|topology| topology.is_hard) {
            return Stand::Wait(WaitingOn::NoHyperNodes);
        }
        let claim = |shape: u32| fit::places(self.snapshot, &self.snapshot.shapes[shape]).err();
        if let Some(problem) = ask.shapes(self.snapshot).into_iter().find_map(claim).filter(|_| !ask.is_ready()) {
            return Stand::Wait(*problem);
        }
        if ask.pods.is_empty() { Stand::Rest } else { Stand::Go }
    }

    pub fn reason(&mut self, at: usize, blocked: &Blocked) -> WaitingOn {
        match blocked {
            Blocked::Queue(shortage) => {
                // The first pods may be too many already; what is told is what all of them need.
                let need = self.asks[at].missing(self.snapshot).1;
                let whole = self.ledger.shortage(self.asks[at].queue, &need, &[]);
                self.queue_reason(at, whole.as_ref().unwrap_or(shortage))
            }
            Blocked::Domains(tried) => self.domain_reason(at, *tried),
            Blocked::Node(pod, placed) => self.node_reason(at, *pod, *placed),
            Blocked::Beside(pod, refusals) => {
                let nodes = refusals.values().sum();
                let lack = match refusals.keys().copied().collect::<Vec<_>>()[..] {
                    [refusal @ (Refusal::NoVolume | Refusal::NoStorage)] => {
                        volumes::lack(&self.room, *pod, nodes, refusal)
                    }
                    _ => None,
                };
                lack.unwrap_or_else(|| WaitingOn::Neighbours {
                    pods: self.missing_alike(at, *pod),
                    refusals: worded(refusals),
                })
            }
        }
    }

    fn queue_reason(&mut self, at: usize, shortage: &Shortage) -> WaitingOn {
        let number = self.ledger.find(&shortage.queue);
        let names = &self.snapshot.names;
        let show = |amount| names.show(shortage.resource, amount);
        let kept_for = number.and_then(|number| self.kept.get(&number)).filter(|_| shortage.held > 0);
        WaitingOn::QueueLimit {
            queue: shortage.queue.to_string(),
            bound: shortage.bound,
            resource: names.name(shortage.resource).to_owned(),
            asked: show(shortage.asked),
            used: show(shortage.used),
            limit: show(shortage.limit),
            kept_for: kept_for.map(ToString::to_string),
            holders: self.holders(at, shortage.resource, number),
        }
    }

    fn domain_reason(&mut self, at: usize, tried: usize) -> WaitingOn {
        let ask = &self.asks[at];
        let names = &self.snapshot.names;
        let (_, need) = ask.missing(self.snapshot);
        let topology = ask.group.topology.as_ref();
        let allowed = topology.map(|topology| self.domains.allowed(topology, &ask.placed)).unwrap_or_default();
        let free: Vec<Amounts> = allowed.iter().map(|domain| free_in(&self.room, domain)).collect();
        let most = |resource: usize| free.iter().map(|free| get(free, resource)).max().unwrap_or(0);
        let asked = || self.ledger.resources().iter().copied().filter(|resource| get(&need, *resource) > 0);
        let short = asked().find(|resource| get(&need, *resource) > most(*resource));
        let resource = short.or_else(|| asked().next()).unwrap_or(PODS);
        WaitingOn::Domains {
            tried,
            highest_tier: topology.and_then(|topology| topology.highest_tier),
            resource: names.name(resource).to_owned(),
            asked: names.show(resource, get(&need, resource)),
            largest: names.show(resource, most(resource)),
        }
    }

    fn node_reason(&mut self, at: usize, pod: PodId, placed: usize) -> WaitingOn {
        let snapshot = self.snapshot;
        let known = &snapshot.pods[pod];
        let shape = &snapshot.shapes[known.shape];
        if let Err(on) = fit::places(snapshot, shape) {
            return *on;
        }
        let supply = self.supply(known.shape, self.asks[at].queue);
        if supply.nodes == 0 {
            let hint = hint::selector(snapshot, shape).or_else(|| hint::toleration(snapshot, shape));
            let (nodes, refusals) = (self.room.nodes.len(), worded(&supply.refusals));
            return WaitingOn::Nodes { pod: known.key.to_string(), nodes, refusals, hint };
        }
        let alike = self.missing_alike(at, pod);
        self.room_reason(at, &shape.request, alike, &supply).unwrap_or_else(|| {
            let resource = self.first_asked(&shape.request);
            let names = &snapshot.names;
            WaitingOn::Fragments {
                resource: names.name(resource).to_owned(),
                pods: alike,
                each: names.show(resource, get(&shape.request, resource)),
                free: names.show(resource, supply.free[resource]),
                // Beside the gang's other pods there are fewer places than there would be for these alone.
                places: supply.places.min(placed).min(alike - 1),
                holders: self.holders(at, resource, None),
            }
        })
    }

    fn first_asked(&self, request: &[i64]) -> usize {
        self.ledger.resources().iter().copied().find(|resource| get(request, *resource) > 0).unwrap_or(PODS)
    }

    /// Counted once while nothing changes: many gangs that wait have the same shape.
    fn supply(&mut self, shape: ShapeId, queue: usize) -> Rc<Supply> {
        let generation = self.generation;
        let known = self.supplies.get(&(shape, queue)).filter(|(counted, _)| *counted == generation);
        if let Some((_, supply)) = known {
            return supply.clone();
        }
        let groups = node_groups(&self.ledger, &self.room, queue);
        let supply = Rc::new(self.room.with_candidates(shape, groups, |room, candidates| count(room, candidates)));
        self.supplies.insert((shape, queue), (generation, supply.clone()));
        supply
    }

    /// How many pods of this shape are missing to the minimum, or one if the minimum is there.
    fn missing_alike(&self, at: usize, pod: PodId) -> usize {
        let (snapshot, ask) = (self.snapshot, &self.asks[at]);
        if ask.is_ready() {
            return 1;
        }
        let is_alike = |other: &&PodId| snapshot.pods[**other].shape == snapshot.pods[pod].shape;
        ask.needed(snapshot).iter().filter(is_alike).count().max(1)
    }

    /// What there is too little of: for one pod, for the whole gang on all nodes, or for its pods of one shape on the nodes
    /// that suit them. What can never be is told before what is only in use.
    fn room_reason(&mut self, at: usize, request: &[i64], pods: usize, supply: &Supply) -> Option<WaitingOn> {
        let names = &self.snapshot.names;
        let times = i64::try_from(pods).unwrap_or(i64::MAX);
        let alike: Amounts = request.iter().map(|amount| amount.saturating_mul(times)).collect();
        // Of pods of several sizes the smaller may be enough.
        let ask = &self.asks[at];
        let whole = (pods < ask.pods.len()).then(|| ask.missing(self.snapshot));
        let whole =
            whole.filter(|(count, whole)| *count == ask.pods.len() && !covers(&alike, whole)).map(|(_, whole)| whole);
        let free = whole.as_ref().map(|_| self.room.free_of_all());
        let short = |asked: &[i64], have: &[i64]| {
            let resources = self.ledger.resources().iter().copied();
            let resource = resources.into_iter().find(|resource| get(asked, *resource) > get(have, *resource))?;
            let show = |amounts| names.show(resource, get(amounts, resource));
            Some((resource, names.name(resource).to_owned(), show(asked), show(have)))
        };
        let short_of_all = |have: &[i64]| whole.as_ref().and_then(|whole| short(whole, have));
        if let Some((_, resource, asked, total)) = short(request, &supply.largest_total) {
            return Some(WaitingOn::TooLarge { resource, asked, total, is_one_pod: true });
        }
        let never = short_of_all(self.ledger.total()).or_else(|| short(&alike, &supply.total));
        if let Some((_, resource, asked, total)) = never {
            return Some(WaitingOn::TooLarge { resource, asked, total, is_one_pod: false });
        }
        let places = supply.places_ever;
        if places < pods {
            let first = self.first_asked(request);
            let each = names.show(first, get(request, first));
            return Some(WaitingOn::TooFewPlaces { resource: names.name(first).to_owned(), pods, each, places });
        }
        let now = free.and_then(|free| short_of_all(&free)).or_else(|| short(&alike, &supply.free));
        let (number, resource, asked, free) = now?;
        Some(WaitingOn::Room { resource, asked, free, holders: self.holders(at, number, None), when: None })
    }

    /// Who holds most of a resource, in all or in one queue; looked up once per round.
    ///
    /// A gang that lacks its minimum does not wait for what it has; one that wants more may be what its queue is full of.
    fn holders(&mut self, at: usize, resource: usize, queue: Option<usize>) -> Holders {
        let key = (resource, queue);
        let known = self.holding.get(&key).cloned().unwrap_or_else(|| Rc::new(self.find_holders(resource, queue)));
        self.holding.entry(key).or_insert_with(|| known.clone());
        let ask = &self.asks[at];
        let is_in = queue.is_none_or(|queue| self.ledger.line(ask.queue).contains(&queue));
        if !is_in || ask.is_ready() || get(&ask.gang.allocated, resource) == 0 {
            return known.shown.clone();
        }
        let others = known.largest.iter().filter(|(other, _)| *other != ask.id).map(|(_, holder)| holder.clone());
        let first: Arc<[Holder]> = others.take(SHOWN_MAX).collect();
        Holders { more: known.count - 1 - first.len(), first }
    }

    fn find_holders(&self, resource: usize, queue: Option<usize>) -> Holding {
        let snapshot = self.snapshot;
        let is_in = |gang: &Gang| {
            let of = || gang.group.as_ref().and_then(|group| self.ledger.find(&group.queue));
            get(&gang.allocated, resource) > 0
                && queue.is_none_or(|queue| of().is_some_and(|of| self.ledger.line(of).contains(&queue)))
        };
        let mut count = 0;
        let mut found: Vec<(GangId, &Gang)> = Vec::new();
        // In the order of their names, so that of equals the first stay.
        for (id, gang) in snapshot.gangs.iter().filter(|(_, gang)| is_in(gang)) {
            count += 1;
            let held = get(&gang.allocated, resource);
            let place = found.partition_point(|(_, other)| get(&other.allocated, resource) >= held);
            if place <= SHOWN_MAX {
                found.insert(place, (id, gang));
                found.truncate(SHOWN_MAX + 1);
            }
        }
        let holder = |(id, gang): &(GangId, &Gang)| {
            let queue = gang.group.as_ref().map_or_else(String::new, |group| group.queue.to_string());
            let amount = snapshot.names.show(resource, get(&gang.allocated, resource));
            let until = self.ends(gang).and_then(|ends| Timestamp::from_second(ends).ok());
            (*id, Holder { gang: gang.key.to_string(), queue, amount, until })
        };
        let largest: Vec<(GangId, Holder)> = found.iter().map(holder).collect();
        let first: Arc<[Holder]> = largest.iter().take(SHOWN_MAX).map(|(_, holder)| holder.clone()).collect();
        Holding { largest, count, shown: Holders { more: count - first.len(), first } }
    }

    /// When the gang will have ended, if that is known: by its own word, or when the last deadline of its pods is over.
    fn ends(&self, gang: &Gang) -> Option<i64> {
        let pods = || gang.members.iter().copied().filter(|pod| self.room.state(*pod).holds());
        let started = |pod| self.room.started(pod, self.now).unwrap_or(self.now);
        let started = pods().map(started).max().or(Some(self.now));
        let estimate = gang.group.as_ref().and_then(|group| group.estimate);
        let promised = started.zip(estimate).map(|(started, estimate)| (started + estimate).max(self.now));
        let deadlines: Option<Vec<i64>> = pods().map(|pod| self.snapshot.pods[pod].until).collect();
        promised.or_else(|| deadlines.and_then(|deadlines| deadlines.into_iter().max()))
    }
}

fn count(room: &Room, candidates: &Candidates) -> Supply {
    let nothing = || vec![0; room.width()];
    let refusals = candidates.refusals();
    let mut supply = Supply {
        nodes: 0,
        free: nothing(),
        total: nothing(),
        largest_total: nothing(),
        places: 0,
        places_ever: 0,
        refusals,
    };
    let fit = |have: &[i64]| {
        let times = candidates.need.iter().map(|(number, need)| have[*number].max(0) / need);
        times.min().map_or(0, |times| usize::try_from(times).unwrap_or(0))
    };
    for position in (0..room.nodes.len()).filter(|position| candidates.refusal(*position).is_none()) {
        supply.nodes += 1;
        supply.places += fit(room.free(position));
        supply.places_ever += fit(room.total(position));
        for resource in 0..room.width() {
            let (free, total) = (room.free(position)[resource].max(0), room.total(position)[resource]);
            supply.free[resource] += free;
            supply.total[resource] += total;
            supply.largest_total[resource] = supply.largest_total[resource].max(total);
        }
    }
    supply
}

fn worded(refusals: &BTreeMap<Refusal, usize>) -> Vec<(String, usize)> {
    refusals.iter().map(|(refusal, count)| (refusal.to_string(), *count)).collect()
}

/// All gangs that hold something, in the order in which they will have gone: what leaves already, what is known to end,
/// then the longest running.
pub fn ending_units(round: &Round) -> Vec<Unit> {
    let snapshot = round.snapshot;
    let unit = |pods: Vec<PodId>, until| Unit {
        gang: None,
        queue: None,
        pods,
        is_core: true,
        cost: 0,
        held: Amounts::new(),
        until,
        is_leaving: false,
    };
    let mut found = Vec::new();
    let listed = snapshot.standing.endings.iter().take(ENDINGS_MAX).map(|(_, _, _, id)| *id);
    let new = round.room.put_pods().filter_map(|pod| snapshot.pods[pod].gang);
    let ids: BTreeSet<GangId> = listed.chain(new).collect();
    for id in ids {
        let gang = &snapshot.gangs[id];
        let holds = |pod: &&PodId| matches!(round.room.state(**pod), State::Bound | State::Running);
        let pods: Vec<PodId> = gang.members.iter().filter(holds).copied().collect();
        if !pods.is_empty() {
            let ends = round.ends(gang);
            let started = pods.iter().filter_map(|pod| round.room.started(*pod, round.now)).min().unwrap_or(round.now);
            found.push(((ends.is_none(), ends, started, &gang.key), unit(pods, ends)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let leaving = round.room.leaving();
    let until = leaving.iter().filter_map(|pod| snapshot.pods[*pod].until).max();
    let first = (!leaving.is_empty()).then(|| unit(leaving, until));
    first.into_iter().chain(found.into_iter().map(|(_, unit)| unit)).collect()
}
