//! Tries to place a gang's minimum in a room: all of it, or the room is as before and the reason is returned.

use super::amounts::{Amounts, add, covers, get, take};
use super::ask::{Ask, SubGroup, Tally};
use super::fit::Refusal;
use super::objects::{PodId, Queue};
use super::queues::{Ledger, Shortage};
use super::relations;
use super::room::{Room, Step};
use super::search;
use super::topology::{Domain, Domains, nearness};
use std::collections::{BTreeMap, BTreeSet};

/// Why a gang was not placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    Queue(Shortage),
    /// This pod found no node; so many of its shape did.
    Node(PodId, usize),
    /// This pod found no node, though some have room: pods that are or would be there keep it away.
    Beside(PodId, BTreeMap<Refusal, usize>),
    /// No domain that is near enough has room; the number of domains that were tried.
    Domains(usize),
}

/// What an attempt goes by.
#[derive(Debug)]
pub struct Terms<'a, 'b> {
    pub ledger: &'b Ledger<'a>,
    pub domains: &'b Domains,
    /// What victims would give back to the gang's queue and to each above it.
    pub freed: &'b [Amounts],
    /// How many looks at a node a search for other ways may take when the straight one fails.
    pub looks_max: usize,
}

/// Where pods may go, and what they like to be near to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'b> {
    pub nodes: Option<&'b [u32]>,
    /// Domains that hold all that is placed.
    pub near: Option<&'b [&'b Domain]>,
}

/// Places the minimum; gives the domain that was chosen, if the gang must stay in one.
///
/// A gang that would like to be near is first tried as one that must be; only then it goes wherever there is room.
///
/// What a queue has no room for is told of the queue, whatever the nodes have: what is kept for the gang then depends on
/// that, and must not change when somebody takes a node.
pub fn attempt<'a>(room: &mut Room<'a>, ask: &Ask<'a>, terms: &Terms<'a, '_>) -> Result<Option<String>, Blocked> {
    put_minimum(room, ask, terms).map_err(|blocked| {
        let shortage = terms.ledger.shortage(ask.queue, &ask.missing(room.snapshot).1, terms.freed);
        shortage.map_or(blocked, Blocked::Queue)
    })
}

fn put_minimum<'a>(room: &mut Room<'a>, ask: &Ask<'a>, terms: &Terms<'a, '_>) -> Result<Option<String>, Blocked> {
    let topology = ask.group.topology.as_ref().filter(|_| room.snapshot.policy.knows_topology);
    let Some(topology) = topology else { return fill(room, ask, terms, None).map(|()| None) };
    let placed: &[usize] = if topology.is_hard { &ask.placed } else { &[] };
    let within = within_one(room, ask, terms, &terms.domains.allowed(topology, placed));
    match within {
        Err(Blocked::Domains(_)) if !topology.is_hard => fill(room, ask, terms, None).map(|()| None),
        other => other,
    }
}

/// The closest tier first; within a tier the fullest domain that has room (NT-1, NT-2, NT-4).
fn within_one<'a>(
    room: &mut Room<'a>,
    ask: &Ask<'a>,
    terms: &Terms<'a, '_>,
    domains: &[&Domain],
) -> Result<Option<String>, Blocked> {
    let (count, need) = ask.missing(room.snapshot);
    // Of pods of several sizes the smaller may be enough.
    let is_exact = count == ask.pods.len() || ask.shapes(room.snapshot).len() == 1;
    let mut order: Vec<(i64, i64, &Domain)> =
        domains.iter().map(|domain| (domain.tier, -fullness(room, domain, &need), *domain)).collect();
    order.sort_by(|a, b| (a.0, a.1, &a.2.name).cmp(&(b.0, b.1, &b.2.name)));
    for (_, _, domain) in &order {
        if is_exact && !covers(&free_in(room, domain), &need) {
            continue;
        }
        match fill(room, ask, terms, Some(&domain.nodes)) {
            Ok(()) => return Ok(Some(domain.name.clone())),
            Err(Blocked::Queue(shortage)) => return Err(Blocked::Queue(shortage)),
            Err(Blocked::Node(..) | Blocked::Beside(..) | Blocked::Domains(_)) => {}
        }
    }
    Err(Blocked::Domains(order.len()))
}

pub fn free_in(room: &Room, domain: &Domain) -> Amounts {
    let mut free = vec![0; room.width()];
    for position in &domain.nodes {
        free.iter_mut().zip(room.free(*position as usize)).for_each(|(sum, one)| *sum += (*one).max(0));
    }
    free
}

/// The mean part of the domain's resources that would be in use, in millionths.
fn fullness(room: &Room, domain: &Domain, need: &[i64]) -> i64 {
    let free = free_in(room, domain);
    let mut total = vec![0_i64; room.width()];
    for position in &domain.nodes {
        total.iter_mut().zip(room.total(*position as usize)).for_each(|(sum, one)| *sum += one);
    }
    let asked = (0..room.width()).filter(|resource| get(need, *resource) > 0 && total[*resource] > 0);
    let parts: Vec<i64> = asked
        .map(|resource| {
            let used = total[resource] - free[resource] + need[resource];
            (used as f64 / total[resource] as f64 * 1e6).round() as i64
        })
        .collect();
    parts.iter().sum::<i64>() / i64::try_from(parts.len()).unwrap_or(1).max(1)
}

/// The straight way: each pod onto its best node; if that fails and it may be worth it, all ways.
fn fill<'a>(room: &mut Room<'a>, ask: &Ask<'a>, terms: &Terms<'a, '_>, nodes: Option<&[u32]>) -> Result<(), Blocked> {
    let start = room.steps.len();
    let blocked = match straight(room, ask, terms, nodes) {
        Ok(()) => return Ok(()),
        Err(blocked) => blocked,
    };
    room.undo_to(start);
    let is_worth_it = terms.looks_max > 0 && ask.group.divisions.is_empty();
    if is_worth_it && search::search(room, ask, terms, nodes) {
        return Ok(());
    }
    room.undo_to(start);
    Err(blocked)
}

struct Filling<'a, 'b, 'c> {
    ask: &'b Ask<'a>,
    terms: &'b Terms<'a, 'c>,
    nodes: Option<&'b [u32]>,
    near: Option<Vec<&'b Domain>>,
    tally: Tally,
    asked: Amounts,
    /// Shapes that found no node: the next pod of that shape will not either.
    failed: BTreeSet<u32>,
    placed: BTreeMap<u32, usize>,
    blocked: Option<Blocked>,
}

fn straight<'a>(
    room: &mut Room<'a>,
    ask: &Ask<'a>,
    terms: &Terms<'a, '_>,
    nodes: Option<&[u32]>,
) -> Result<(), Blocked> {
    let is_soft = nodes.is_none() && ask.group.topology.is_some() && room.snapshot.policy.knows_topology;
    let mut filling = Filling {
        ask,
        terms,
        nodes,
        near: is_soft.then(|| terms.domains.common(&ask.placed)),
        tally: ask.tally.clone(),
        asked: Amounts::new(),
        failed: BTreeSet::new(),
        placed: BTreeMap::new(),
        blocked: None,
    };
    let start = room.steps.len();
    for division in 0..ask.group.divisions.len() {
        filling.complete_sub_groups(room, division);
    }
    let put: BTreeSet<PodId> = room.steps[start..].iter().filter_map(Step::put).collect();
    for pod in ask.needed_first(room.snapshot) {
        if filling.tally.lack(ask.group).is_none() {
            return Ok(());
        }
        if put.is_empty() || !put.contains(&pod) {
            filling.put(room, pod, nodes);
        }
    }
    if filling.tally.lack(ask.group).is_none() {
        return Ok(());
    }
    let nobody = || Blocked::Node(ask.pods.first().copied().unwrap_or_default(), 0);
    Err(filling.blocked.unwrap_or_else(nobody))
}

impl Filling<'_, '_, '_> {
    fn put(&mut self, room: &mut Room, pod: PodId, nodes: Option<&[u32]>) {
        let (snapshot, ask) = (room.snapshot, self.ask);
        let known = &snapshot.pods[pod];
        let request = &snapshot.shapes[known.shape].request;
        if self.failed.contains(&known.shape) {
            return;
        }
        add(&mut self.asked, request);
        let shortage = self.terms.ledger.shortage(ask.queue, &self.asked, self.terms.freed);
        let queue = node_groups(self.terms.ledger, room, ask.queue);
        let scope = Scope { nodes, near: self.near.as_deref() };
        let found = if shortage.is_none() { pick_for(room, ask, pod, queue, scope, self.terms.domains) } else { None };
        match found {
            Some(position) => {
                room.put(pod, position);
                *self.placed.entry(known.shape).or_default() += 1;
                self.tally.count(&known.role, ask.sub_group_of.get(&pod));
                if let Some(near) = &mut self.near {
                    near.retain(|domain| domain.holds(position));
                }
            }
            None => {
                take(&mut self.asked, request);
                self.failed.insert(known.shape);
                let placed = self.placed.get(&known.shape).copied().unwrap_or(0);
                let no_node = || no_node(room, pod, queue, placed);
                self.blocked.get_or_insert_with(|| shortage.map_or_else(no_node, Blocked::Queue));
            }
        }
    }

    /// Sub-groups are completed one by one, each whole and, if it must, in one domain, until there are enough.
    fn complete_sub_groups(&mut self, room: &mut Room, division: usize) {
        let ask = self.ask;
        let policy = &ask.group.divisions[division];
        let of_it = |pod: &&PodId| ask.sub_group_of.get(pod).is_some_and(|(at, _)| *at == division);
        let mut names: Vec<&SubGroup> = ask.pods.iter().filter(of_it).map(|pod| &ask.sub_group_of[pod]).collect();
        names.sort();
        names.dedup();
        let ready = |name: &SubGroup| self.tally.sub_groups.get(name).copied().unwrap_or(0);
        names.sort_by_key(|name| std::cmp::Reverse(ready(name)));
        for name in names {
            if self.tally.complete(ask.group, division) >= policy.groups_min {
                return;
            }
            let pods: Vec<PodId> =
                ask.pods.iter().copied().filter(|pod| ask.sub_group_of.get(pod) == Some(name)).collect();
            self.complete(room, name, &pods, policy.size);
        }
    }

    fn complete(&mut self, room: &mut Room, name: &SubGroup, pods: &[PodId], size: usize) {
        let topology = self.ask.group.divisions[name.0].topology.as_ref();
        let topology = topology.filter(|topology| topology.is_hard && room.snapshot.policy.knows_topology);
        let standing = standing_of(room, self.ask, name);
        let scopes: Vec<Option<Vec<u32>>> = match topology {
            None => vec![None],
            Some(topology) => {
                let allowed = self.terms.domains.allowed(topology, &standing);
                allowed.iter().map(|domain| Some(within(&domain.nodes, self.nodes))).collect()
            }
        };
        for nodes in scopes {
            let (start, before) = (room.steps.len(), (self.tally.clone(), self.asked.clone(), self.failed.clone()));
            let nodes = nodes.as_deref().or(self.nodes);
            for pod in pods {
                if self.tally.sub_groups.get(name).copied().unwrap_or(0) < size {
                    self.put(room, *pod, nodes);
                }
            }
            if self.tally.sub_groups.get(name).copied().unwrap_or(0) >= size {
                return;
            }
            room.undo_to(start);
            (self.tally, self.asked, self.failed) = before;
        }
        self.blocked.get_or_insert(Blocked::Node(pods.first().copied().unwrap_or_default(), 0));
    }
}

/// Where a sub-group's pods are, on nodes and put in this attempt.
fn standing_of(room: &Room, ask: &Ask, name: &SubGroup) -> Vec<usize> {
    let is_in = |pod: &PodId| ask.sub_group_of.get(pod) == Some(name);
    let placed = ask.gang.members.iter().filter(|pod| is_in(pod)).filter_map(|pod| {
        let pod = &room.snapshot.pods[*pod];
        pod.node.filter(|_| pod.state.holds()).and_then(|node| room.position(node))
    });
    let put = room.steps.iter().filter_map(|step| match step {
        Step::Put(pod, position) if is_in(pod) => Some(*position as usize),
        Step::Put(..) | Step::Remove(..) => None,
    });
    placed.chain(put).collect()
}

fn within(nodes: &[u32], outer: Option<&[u32]>) -> Vec<u32> {
    let is_in = |position: &u32| outer.is_none_or(|outer| outer.binary_search(position).is_ok());
    nodes.iter().copied().filter(is_in).collect()
}

/// The gang's queue, if it cares which nodes its pods are on.
pub fn node_groups<'a>(ledger: &Ledger<'a>, room: &Room, queue: usize) -> Option<(u32, &'a Queue)> {
    let account = &ledger.accounts[queue];
    let cares = room.snapshot.policy.has_node_groups && account.queue.groups.iter().any(|list| !list.is_empty());
    cares.then_some((queue as u32, account.queue))
}

/// The best node for one pod of a gang, its sub-group's domain minded.
pub fn pick_for(
    room: &mut Room,
    ask: &Ask,
    pod: PodId,
    queue: Option<(u32, &Queue)>,
    scope: Scope,
    domains: &Domains,
) -> Option<usize> {
    let sub_group = ask.sub_group_of.get(&pod);
    let topology = sub_group.and_then(|(at, _)| ask.group.divisions[*at].topology.as_ref());
    let Some((topology, name)) = topology.filter(|topology| topology.is_hard).zip(sub_group) else {
        return pick(room, pod, queue, scope);
    };
    let standing = standing_of(room, ask, name);
    let allowed = domains.allowed(topology, &standing);
    allowed.iter().find_map(|domain| {
        let nodes = within(&domain.nodes, scope.nodes);
        pick(room, pod, queue, Scope { nodes: Some(&nodes), near: scope.near })
    })
}

/// Puts what the gang asks for in its turn: its minimum, then one pod more. Whether there was room for it.
pub fn put_next<'a>(room: &mut Room<'a>, ask: &Ask<'a>, terms: &Terms<'a, '_>) -> bool {
    if ask.is_ready() { put_one_more(room, ask, terms) } else { attempt(room, ask, terms).is_ok() }
}

fn put_one_more(room: &mut Room, ask: &Ask, terms: &Terms) -> bool {
    let snapshot = room.snapshot;
    let mut failed = BTreeSet::new();
    ask.pods.iter().any(|pod| {
        let shape = snapshot.pods[*pod].shape;
        let request = &snapshot.shapes[shape].request;
        let is_other = failed.insert((shape, ask.sub_group_of.get(pod)));
        let may = is_other && terms.ledger.shortage_for_more(ask.queue, request, terms.freed).is_none();
        let groups = node_groups(terms.ledger, room, ask.queue);
        let found = if may { pick_for(room, ask, *pod, groups, Scope::default(), terms.domains) } else { None };
        found.inspect(|position| room.put(*pod, *position)).is_some()
    })
}

/// Why a pod found no node.
pub fn no_node(room: &mut Room, pod: PodId, queue: Option<(u32, &Queue)>, placed: usize) -> Blocked {
    beside(room, pod, queue).map_or(Blocked::Node(pod, placed), |found| Blocked::Beside(pod, found))
}

/// If only other pods keep this one away from the nodes that have room: how many nodes, and how.
fn beside(room: &mut Room, pod: PodId, queue: Option<(u32, &Queue)>) -> Option<BTreeMap<Refusal, usize>> {
    let snapshot = room.snapshot;
    let has_apart = !snapshot.keeping_apart.is_empty() || room.put_apart > 0;
    if !room.is_choosy(pod) && !has_apart {
        return None;
    }
    let away = relations::kept_apart(room, pod);
    room.with_candidates(snapshot.pods[pod].shape, queue, |room, candidates| {
        let mut refusals: BTreeMap<Refusal, usize> = BTreeMap::new();
        for position in (0..room.nodes.len()).filter(|position| candidates.fits(room, *position)) {
            let labels = &room.nodes[position].labels;
            let is_away = away.iter().any(|(key, value)| labels.get(key) == Some(value));
            let refusal = relations::refusal(room, pod, position).or(is_away.then_some(Refusal::KeptApart));
            *refusals.entry(refusal?).or_default() += 1;
        }
        Some(refusals).filter(|refusals| !refusals.is_empty())
    })
}

/// The best node for one pod, or none.
pub fn pick(room: &mut Room, pod: PodId, queue: Option<(u32, &Queue)>, scope: Scope) -> Option<usize> {
    let snapshot = room.snapshot;
    let known = &snapshot.pods[pod];
    let shape = &snapshot.shapes[known.shape];
    if shape.is_related() {
        room.ensure_view(known.shape);
    }
    let has_apart = !snapshot.keeping_apart.is_empty() || room.put_apart > 0;
    let away = if has_apart { relations::kept_apart(room, pod) } else { BTreeSet::new() };
    let is_plain = !room.is_choosy(pod)
        && scope.nodes.is_none()
        && scope.near.is_none()
        && room.nominated(pod).is_none()
        && away.is_empty();
    let nominated = room.nominated(pod).and_then(|name| snapshot.nodes.find(&**name));
    let nominated = nominated.and_then(|node| room.position(node));
    room.with_candidates(known.shape, queue, |room, candidates| {
        if is_plain {
            return candidates.best(room);
        }
        let is_free_of = |position: usize| {
            let labels = &room.nodes[position].labels;
            !away.iter().any(|(key, value)| labels.get(key) == Some(value))
        };
        let suits = |position: usize| is_free_of(position) && relations::refusal(room, pod, position).is_none();
        let is_in = |position: &usize| scope.nodes.is_none_or(|nodes| nodes.binary_search(&(*position as u32)).is_ok());
        // ACT-3
        let first = nominated.filter(is_in).filter(|position| candidates.fits(room, *position) && suits(*position));
        if first.is_some() {
            return first;
        }
        // Gangs that have a topology go by it alone.
        let has_topology = scope.near.is_some() || scope.nodes.is_some();
        let fill = |position: usize| if has_topology { room.fill.get(position).copied().unwrap_or(0) } else { 0 };
        let all = 0..room.nodes.len() as u32;
        let mut best: Option<(i64, usize)> = None;
        let mut look = |position: usize| {
            let Some(score) = candidates.score_of(room, position) else { return };
            let nearness = scope.near.map_or(0, |near| nearness(near, position));
            let liking = relations::score(room, known.shape, position);
            let score = score + liking + snapshot.policy.weights.topology * nearness - fill(position);
            if best.is_none_or(|(most, _)| score > most) && suits(position) {
                best = Some((score, position));
            }
        };
        match scope.nodes {
            Some(nodes) => nodes.iter().for_each(|position| look(*position as usize)),
            None => all.for_each(|position| look(position as usize)),
        }
        best.map(|(_, position)| position)
    })
}
