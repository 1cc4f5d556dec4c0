//! Who may be evicted for a gang, those first whose end loses least (ACT-6, ACT-9, ACT-10, TIER-7).

use super::amounts::{Amounts, add, get, take};
use super::ask::{Ask, priority, role_minima};
use super::objects::{Budget, Gang, GangId, Key, Pod, PodId, ShapeId, State};
use super::policy::{Policy, Verdict};
use super::queues::Ledger;
use super::relations;
use super::room::Room;
use super::snapshot::Snapshot;
use super::trial::Unit;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// By a gang of higher priority in the same queue.
    Preempt,
    /// By a queue that has less than it deserves.
    Reclaim,
}

/// What choosing victims goes by.
#[derive(Debug)]
pub struct Choice<'a, 'b> {
    pub room: &'b Room<'a>,
    pub ledger: &'b Ledger<'a>,
    /// Pods whose room is promised already.
    pub claimed: &'b BTreeSet<PodId>,
    /// What is placed in this round stays.
    pub spares_new: bool,
    /// Pods that need not go for a gang.
    pub needless: &'b BTreeSet<(PodId, GangId)>,
    pub now: i64,
}

/// Who may go: the rank, smaller first, the gang, its queue, and the unit if it is made already.
type Candidate = ([i64; 5], GangId, usize, Option<Box<Unit>>);

/// Units in the order in which they go: what a gang has above its minimum, then whole gangs; low priority first, then
/// what loses least work. No more than the first `count_max`; whether those are all.
pub fn units(choice: &Choice, ask: &Ask, cause: Cause, count_max: usize) -> (Vec<Unit>, bool) {
    for verdict in &choice.room.snapshot.policy.victims.verdicts {
        let (mut units, mut is_all) = units_by(choice, (ask, cause), verdict, count_max);
        if units.is_empty() && !is_all {
            (units, is_all) = units_by(choice, (ask, cause), verdict, usize::MAX);
        }
        if !units.is_empty() {
            return (units, is_all);
        }
    }
    (Vec::new(), true)
}

fn units_by(choice: &Choice, (ask, cause): (&Ask, Cause), verdict: &Verdict, count_max: usize) -> (Vec<Unit>, bool) {
    let snapshot = choice.room.snapshot;
    let wanted = ask.missing(snapshot).1;
    let is_particular = cause == Cause::Preempt && ask.shapes(snapshot).into_iter().any(|shape| cares(snapshot, shape));
    let is_in_reach = |queue: &str, class: &str| match cause {
        Cause::Preempt => {
            *queue == *ask.group.queue && (priority(snapshot, class) < ask.priority || !verdict.by_priority)
        }
        Cause::Reclaim => *queue != *ask.group.queue && snapshot.queues.get(queue).is_some_and(|q| q.is_reclaimable),
    };
    let own = if cause == Cause::Preempt { own_units(choice, ask) } else { Vec::new() };
    let placed = placed_now(choice);
    let holding = holding(snapshot, &placed);
    if own.is_empty() && !holding.iter().any(|(queue, class)| is_in_reach(queue, class)) {
        return (Vec::new(), true);
    }
    let reach = |(queue, class): (&str, &str)| {
        let number = choice.ledger.find(queue).filter(|_| is_in_reach(queue, class))?;
        let share = if cause == Cause::Reclaim { choice.ledger.share(number) } else { 0 };
        Some((number, priority(snapshot, class), share))
    };
    let reached: BTreeMap<(&str, &str), Option<(usize, i64, i64)>> =
        holding.into_iter().map(|pair| (pair, reach(pair))).collect();
    let nothing = (Vec::new(), Amounts::new());
    let mut line: Vec<Candidate> = Vec::new();
    for (id, gang) in snapshot.gangs.iter() {
        let (new, given) = placed.get(&id).unwrap_or(&nothing);
        let holds = !gang.allocated.is_empty() || !given.is_empty();
        let Some(group) = gang.group.as_ref().filter(|_| id != ask.id && holds) else { continue };
        let Some((queue, own, share)) = reached.get(&(&*group.queue, &*group.class)).copied().flatten() else {
            continue;
        };
        let has = |resource: usize| get(&gang.allocated, resource) + get(given, resource);
        let shares = |amount: (usize, &i64)| amount.0 > 0 && *amount.1 > 0 && has(amount.0) > 0;
        if was_ripe(choice, gang) || !(is_particular || wanted.iter().enumerate().any(shares)) {
            continue;
        }
        let spared = if choice.spares_new { new.as_slice() } else { &[] };
        // Who loses everything has a smaller share than anybody who gains.
        let by_share = verdict.by_share && cause == Cause::Preempt;
        let may_be_whole = verdict.whole_gangs && spared.is_empty() && !by_share;
        if spared.is_empty() && !has_surplus(gang) {
            // One unit at most, which is made if it comes to that.
            let (cost, newest) = loss(choice, &mut holders(choice, gang));
            line.extend(may_be_whole.then_some(([1, own, -share, cost, -newest], id, queue, None)));
            continue;
        }
        let mut own_units = units_of(choice, (id, gang, queue), spared);
        own_units.sort_by(|a, b| name(snapshot, a).cmp(&name(snapshot, b)));
        let mut left = gang.allocated.clone();
        add(&mut left, given);
        for unit in own_units.into_iter().filter(|unit| !unit.is_core || may_be_whole) {
            take(&mut left, &unit.held);
            if by_share && !outranks(choice, ask, &left, &wanted) {
                break;
            }
            let (cost, newest) = loss(choice, &mut unit.pods.iter().copied());
            line.push(([i64::from(unit.is_core), own, -share, cost, -newest], id, queue, Some(Box::new(unit))));
        }
    }
    // Others go before the gang's own.
    line.extend(own.into_iter().map(|unit| ([2, 0, 0, 0, 0], ask.id, ask.queue, Some(Box::new(unit)))));
    let (mut units, is_all) = first_units(choice, line, count_max);
    units.retain(|unit| !unit.pods.iter().any(|pod| choice.needless.contains(&(*pod, ask.id))));
    let units = within_budgets(choice.room, units);
    let units = if cause == Cause::Reclaim { within_shares(choice.ledger, units, &wanted) } else { units };
    (units, is_all)
}

/// Whether somebody may be in the way of such a pod who holds nothing that it asks for.
fn cares(snapshot: &Snapshot, shape: ShapeId) -> bool {
    let shape = &snapshot.shapes[shape];
    shape.is_best_effort || relations::is_choosy(snapshot, shape)
}

/// Who has waited too long before it ran is not sent away again, or it would be first for ever.
fn was_ripe(choice: &Choice, gang: &Gang) -> bool {
    let Room { snapshot, .. } = choice.room;
    let started = |pod: &PodId| choice.room.started(*pod, choice.now);
    let times = |pod: &PodId| started(pod).map(|started| (started, snapshot.pods[*pod].created));
    let first = gang.members.iter().filter_map(times).min();
    first.is_some_and(|(started, created)| started - created >= snapshot.policy.ripe_after)
}

/// Queues and classes of which gangs hold something, with what is placed in this round.
fn holding<'a>(snapshot: &'a Snapshot, placed: &BTreeMap<GangId, Placed>) -> BTreeSet<(&'a str, &'a str)> {
    let new = placed.keys().filter_map(|gang| snapshot.gangs[*gang].group.as_ref());
    let new = new.map(|group| (&*group.queue, &*group.class));
    snapshot.standing.holding.keys().map(|(queue, class)| (&**queue, &**class)).chain(new).collect()
}

/// Pods of a gang that are placed in this round, and what they ask for.
type Placed = (Vec<PodId>, Amounts);

fn placed_now(choice: &Choice) -> BTreeMap<GangId, Placed> {
    let snapshot = choice.room.snapshot;
    let mut placed: BTreeMap<GangId, Placed> = BTreeMap::new();
    for pod in choice.room.put_pods() {
        if let Some(gang) = snapshot.pods[pod].gang {
            let (pods, given) = placed.entry(gang).or_default();
            pods.push(pod);
            add(given, &snapshot.shapes[snapshot.pods[pod].shape].request);
        }
    }
    placed
}

/// The units that go first, and whether those are all.
///
/// Equals stay in the order of their gangs' names and of their own; of thousands only the first are put in order.
fn first_units(choice: &Choice, mut line: Vec<Candidate>, count_max: usize) -> (Vec<Unit>, bool) {
    let snapshot = choice.room.snapshot;
    let mut order: Vec<([i64; 5], usize)> = line.iter().enumerate().map(|(at, (rank, ..))| (*rank, at)).collect();
    let is_all = order.len() <= count_max;
    if !is_all {
        order.select_nth_unstable(count_max);
        order.truncate(count_max);
    }
    order.sort_unstable();
    let whole = |id, queue| units_of(choice, (id, &snapshot.gangs[id], queue), &[]).pop();
    let unit = |(_, at): ([i64; 5], usize)| {
        let (_, id, queue, unit) = &mut line[at];
        unit.take().map(|unit| *unit).or_else(|| whole(*id, *queue))
    };
    (order.into_iter().filter_map(unit).collect(), is_all)
}

/// Pods of the gang itself that make room for more important ones of it and are not needed beside those (ACT-6b).
fn own_units(choice: &Choice, ask: &Ask) -> Vec<Unit> {
    let pods = &choice.room.snapshot.pods;
    let new = ask.needed(choice.room.snapshot);
    let most = new.iter().map(|pod| pods[*pod].priority).max().unwrap_or(i64::MIN);
    let is_less = |pod: &PodId| pods[*pod].priority < most;
    if !holders(choice, ask.gang).any(|pod| is_less(&pod)) {
        return Vec::new();
    }
    let units = units_of(choice, (ask.id, ask.gang, ask.queue), &new);
    units.into_iter().filter(|unit| !unit.is_core && unit.pods.iter().all(is_less)).collect()
}

/// Pods of the gang that are on nodes and promised to nobody.
fn holders<'b>(choice: &'b Choice, gang: &'b Gang) -> impl Iterator<Item = PodId> {
    let stays = |pod: &PodId| choice.claimed.contains(pod) || (choice.spares_new && choice.room.is_put(*pod));
    let holds = move |pod: &PodId| matches!(choice.room.state(*pod), State::Bound | State::Running) && !stays(pod);
    gang.members.iter().copied().filter(holds)
}

/// Seconds of work that would be lost, and when the last of the pods was placed.
fn loss(choice: &Choice, pods: &mut dyn Iterator<Item = PodId>) -> (i64, i64) {
    pods.map(|pod| choice.room.started(pod, choice.now)).fold((0, 0), |(lost, newest), started| {
        (lost + choice.now - started.unwrap_or(choice.now), newest.max(started.unwrap_or(0)))
    })
}

/// Whether pods of the gang may be above its minimum; most gangs are no larger than they must be.
fn has_surplus(gang: &Gang) -> bool {
    gang.group.as_ref().is_some_and(|group| group.divisions.is_empty() && gang.members.len() > group.members_min)
}

/// Of equal units of one gang the pod with the highest number goes first.
fn name<'a>(snapshot: &'a Snapshot, unit: &Unit) -> Option<(Reverse<u32>, &'a Key)> {
    let pod = &snapshot.pods[*unit.pods.first()?];
    Some((Reverse(pod.index), &pod.key))
}

/// drf: the preemptor's share after its gain is not above what is left to the victim, or the victim would take it back.
fn outranks(choice: &Choice, ask: &Ask, left: &[i64], wanted: &[i64]) -> bool {
    let mut after = ask.gang.allocated.clone();
    add(&mut after, wanted);
    dominant(choice.ledger, &after) <= dominant(choice.ledger, left)
}

/// The largest part of the cluster that the amounts are, in millionths.
pub fn dominant(ledger: &Ledger, amounts: &[i64]) -> i64 {
    if amounts.iter().all(|amount| *amount == 0) {
        return 0;
    }
    let totals = ledger.total().iter().enumerate().skip(1).filter(|(_, total)| **total > 0);
    let part = |(number, total): (usize, &i64)| {
        i64::try_from(i128::from(get(amounts, number)) * 1_000_000 / i128::from(*total)).unwrap_or(i64::MAX)
    };
    totals.map(part).max().unwrap_or(0)
}

fn may_go(policy: &Policy, pod: &Pod, now: i64) -> bool {
    let victims = &policy.victims;
    let cooldown = if victims.keeps_cooldown { pod.cooldown } else { 0 };
    let spared = victims.runtime_min.max(cooldown);
    let is_young = spared > 0 && pod.started.is_none_or(|started| now - started < spared);
    pod.is_preemptable && !(victims.spares_system && pod.is_critical) && !is_young
}

/// The surplus of a gang pod by pod, the last first, and its minimum as one; `new` are its pods that are placed now and
/// stay.
fn units_of(choice: &Choice, (id, gang, queue): (GangId, &Gang, usize), new: &[PodId]) -> Vec<Unit> {
    let snapshot = choice.room.snapshot;
    let mut pods: Vec<PodId> = holders(choice, gang).collect();
    let order = |pod: &PodId| {
        let pod = &snapshot.pods[*pod];
        (pod.priority, Reverse(pod.index), Reverse(pod.created), Reverse(&pod.key))
    };
    pods.sort_by(|a, b| order(a).cmp(&order(b)));
    let can_go = |pod: &PodId| may_go(&snapshot.policy, &snapshot.pods[*pod], choice.now);
    let may_lose = has_surplus(gang) || !new.is_empty();
    let (surplus, core) = if may_lose { parts_of(snapshot, gang, (&pods, new), can_go) } else { (Vec::new(), pods) };
    let unit = |pods: Vec<PodId>, holding: &[PodId], is_core| {
        let mut held = Amounts::new();
        holding.iter().for_each(|pod| add(&mut held, &snapshot.shapes[snapshot.pods[*pod].shape].request));
        let (cost, _) = loss(choice, &mut pods.iter().copied());
        Unit { gang: Some(id), queue: Some(queue), pods, is_core, cost, held, until: None, is_leaving: false }
    };
    let is_whole_free = !core.is_empty() && core.iter().all(can_go);
    let mut units: Vec<Unit> = surplus.iter().map(|pod| unit(vec![*pod], &[*pod], false)).collect();
    if is_whole_free {
        // Nothing is left of a gang without its minimum, but what its surplus holds is counted there.
        units.push(unit([core.clone(), surplus].concat(), &core, true));
    }
    units
}

/// What the gang can lose and still have its minimum, and that; `new` are pods that are placed now and stay.
fn parts_of(
    snapshot: &Snapshot,
    gang: &Gang,
    (pods, new): (&[PodId], &[PodId]),
    can_go: impl Fn(&PodId) -> bool,
) -> (Vec<PodId>, Vec<PodId>) {
    let group = gang.group.as_ref().expect("only gangs with a group are asked");
    let minima: BTreeMap<&str, usize> = role_minima(group).map(|(role, least)| (&**role, *least)).collect();
    let mut roles: BTreeMap<&str, usize> = BTreeMap::new();
    let finished = |pod: &&PodId| snapshot.pods[**pod].state == State::Succeeded;
    let done: Vec<PodId> = gang.members.iter().filter(finished).chain(new).copied().collect();
    for pod in pods.iter().chain(&done) {
        *roles.entry(&snapshot.pods[*pod].role).or_default() += 1;
    }
    let mut total = pods.len() + done.len();
    let (mut surplus, mut core) = (Vec::new(), Vec::new());
    for pod in pods {
        let role = roles.entry(&snapshot.pods[*pod].role).or_default();
        let least = minima.get(&*snapshot.pods[*pod].role).copied().unwrap_or(0);
        let is_spare = group.divisions.is_empty() && total > group.members_min && *role > least;
        if is_spare && can_go(pod) {
            (total, *role) = (total - 1, *role - 1);
            surplus.push(*pod);
        } else {
            core.push(*pod);
        }
    }
    (surplus, core)
}

/// Leaves out what a disruption budget would not bear, counted in the order in which they go.
fn within_budgets(room: &Room, units: Vec<Unit>) -> Vec<Unit> {
    let snapshot = room.snapshot;
    if !snapshot.policy.victims.keeps_budgets || snapshot.budgets.is_empty() {
        return units;
    }
    let is_meant = |budget: &Budget, pod: PodId| {
        let pod = &snapshot.pods[pod];
        *budget.namespace == *pod.key.namespace && budget.selector.matches_with(|key| pod.labels.get(key))
    };
    let count = |budget: &Budget, pods: &mut dyn Iterator<Item = PodId>| {
        i64::try_from(pods.filter(|pod| is_meant(budget, *pod)).count()).unwrap_or(i64::MAX)
    };
    // What this placement has evicted for others is spent.
    let left = |budget: &Budget| budget.allowed - count(budget, &mut room.going.keys().copied());
    let mut left: Vec<i64> = snapshot.budgets.values().map(left).collect();
    let mut spent: BTreeSet<PodId> = BTreeSet::new();
    let mut spend = |unit: &Unit| {
        let mut after = left.clone();
        for (budget, left) in snapshot.budgets.values().zip(&mut after) {
            *left -= count(budget, &mut unit.pods.iter().copied().filter(|pod| !spent.contains(pod)));
        }
        let is_borne = after.iter().zip(&left).all(|(after, before)| *after >= 0 || after == before);
        if is_borne {
            left = after;
            spent.extend(&unit.pods);
        }
        is_borne
    };
    units.into_iter().filter(|unit| spend(unit)).collect()
}

/// Leaves out what a queue may keep: each gives back only what it has above its due (PROP-6, CAP-6).
fn within_shares(ledger: &Ledger, units: Vec<Unit>, wanted: &[i64]) -> Vec<Unit> {
    let mut lost: BTreeMap<usize, Amounts> = BTreeMap::new();
    let mut kept: BTreeMap<Option<GangId>, Amounts> = BTreeMap::new();
    let mut may_lose = |unit: &Unit| {
        let Some(queue) = unit.queue else { return false };
        let lost = lost.entry(queue).or_default();
        // What may not go alone is counted where it would go with its gang's minimum.
        let beside = kept.get(&unit.gang).filter(|_| unit.is_core);
        let whole = beside.map(|beside| {
            let mut whole = unit.clone();
            add(&mut whole.held, beside);
            whole
        });
        let unit = whole.as_ref().unwrap_or(unit);
        let may = ledger.may_lose(queue, unit, lost, wanted);
        if may {
            add(lost, &unit.held);
        } else if !unit.is_core {
            add(kept.entry(unit.gang).or_default(), &unit.held);
        }
        may
    };
    units.into_iter().filter(|unit| may_lose(unit)).collect()
}
