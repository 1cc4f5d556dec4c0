//! Who may be evicted for a gang, those first whose end loses least (ACT-6, ACT-9, ACT-10, TIER-7).

use super::amounts::{Amounts, add, get};
use super::ask::{Ask, priority, role_minima};
use super::objects::{Budget, Gang, GangId, Key, Pod, PodId, State};
use super::policy::{Policy, Verdict};
use super::queues::Ledger;
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
    pub now: i64,
}

/// Units in the order in which they go: what a gang has above its minimum, then whole gangs; low priority first, then
/// what loses least work.
pub fn units(choice: &Choice, ask: &Ask, cause: Cause) -> Vec<Unit> {
    let verdicts = &choice.room.snapshot.policy.victims.verdicts;
    let found = verdicts.iter().map(|verdict| units_by(choice, ask, cause, verdict));
    found.into_iter().find(|units| !units.is_empty()).unwrap_or_default()
}

fn units_by(choice: &Choice, ask: &Ask, cause: Cause, verdict: &Verdict) -> Vec<Unit> {
    let snapshot = choice.room.snapshot;
    let wanted = ask.missing(snapshot).1;
    let is_in_reach = |queue: &str, class: &str| match cause {
        Cause::Preempt => {
            *queue == *ask.group.queue && (priority(snapshot, class) < ask.priority || !verdict.by_priority)
        }
        Cause::Reclaim => *queue != *ask.group.queue && snapshot.queues.get(queue).is_some_and(|q| q.is_reclaimable),
    };
    if !snapshot.standing.holding.keys().any(|(queue, class)| is_in_reach(queue, class)) {
        return Vec::new();
    }
    // What is placed in this round is not evicted in it; what its gang then has above its minimum may be.
    let placed: BTreeSet<Option<GangId>> = choice.room.put_pods().map(|pod| snapshot.pods[pod].gang).collect();
    let mut units: Vec<Unit> = Vec::new();
    let mut ranks: Vec<[i64; 5]> = Vec::new();
    for (id, gang) in snapshot.gangs.iter() {
        let Some(group) = gang.group.as_ref().filter(|_| id != ask.id && !gang.allocated.is_empty()) else { continue };
        let Some(queue) = choice.ledger.find(&group.queue).filter(|_| is_in_reach(&group.queue, &group.class)) else {
            continue;
        };
        // Who has waited too long before it ran is not sent away again, or it would be first for ever.
        let is_ripe = |started: i64| started - group.created >= snapshot.policy.ripe_after;
        let first = gang.members.iter().filter_map(|pod| snapshot.pods[*pod].started).min();
        if first.is_some_and(is_ripe) {
            continue;
        }
        let shares = |amount: (usize, &i64)| amount.0 > 0 && *amount.1 > 0 && get(&gang.allocated, amount.0) > 0;
        let is_useful = wanted.iter().enumerate().any(shares);
        if !is_useful || (verdict.by_share && !outranks(choice, ask, gang, &wanted)) {
            continue;
        }
        let share = if cause == Cause::Reclaim { choice.ledger.share(queue) } else { 0 };
        let is_new = placed.contains(&Some(id));
        let may_be_whole = verdict.whole_gangs && !is_new;
        let new: Vec<PodId> =
            choice.room.put_pods().filter(|pod| is_new && snapshot.pods[*pod].gang == Some(id)).collect();
        let units_of = units_of(choice, (id, gang, queue), &new);
        for unit in units_of.into_iter().filter(|unit| !unit.is_core || may_be_whole) {
            let newest = unit.pods.iter().filter_map(|pod| snapshot.pods[*pod].started).max().unwrap_or(0);
            let own = priority(snapshot, &group.class);
            ranks.push([i64::from(unit.is_core), own, -share, unit.cost, -newest]);
            units.push(unit);
        }
    }
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by(|a, b| {
        ranks[*a].cmp(&ranks[*b]).then_with(|| name(snapshot, &units[*a]).cmp(&name(snapshot, &units[*b])))
    });
    let mut units: Vec<Option<Unit>> = units.into_iter().map(Some).collect();
    let units = order.into_iter().filter_map(|at| units[at].take()).collect();
    let units = within_budgets(choice.room, units);
    if cause == Cause::Reclaim { within_shares(choice.ledger, units, &wanted) } else { units }
}

/// Of equal units of one gang the pod with the highest number goes first.
fn name<'a>(snapshot: &'a Snapshot, unit: &Unit) -> Option<(&'a Key, Reverse<u32>, &'a Key)> {
    let pod = &snapshot.pods[*unit.pods.first()?];
    Some((&snapshot.gangs[pod.gang?].key, Reverse(pod.index), &pod.key))
}

/// drf: the preemptor's share after its gain is not above the victim's.
fn outranks(choice: &Choice, ask: &Ask, gang: &Gang, wanted: &[i64]) -> bool {
    let mut after = ask.gang.allocated.clone();
    add(&mut after, wanted);
    dominant(choice.ledger, &after) <= dominant(choice.ledger, &gang.allocated)
}

/// The largest part of the cluster that the amounts are, in millionths.
pub fn dominant(ledger: &Ledger, amounts: &[i64]) -> i64 {
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

/// The surplus of a gang pod by pod, the last first, and its minimum as one; `new` are its pods that are placed now.
fn units_of(choice: &Choice, (id, gang, queue): (GangId, &Gang, usize), new: &[PodId]) -> Vec<Unit> {
    let snapshot = choice.room.snapshot;
    let group = gang.group.as_ref().expect("only gangs with a group are asked");
    let holds = |pod: &&PodId| {
        matches!(choice.room.state(**pod), State::Bound | State::Running) && !choice.claimed.contains(pod)
    };
    let mut pods: Vec<PodId> = gang.members.iter().filter(holds).copied().collect();
    let order = |pod: &PodId| {
        let pod = &snapshot.pods[*pod];
        (pod.priority, Reverse(pod.index), Reverse(pod.created), Reverse(pod.key.clone()))
    };
    pods.sort_by_key(order);
    let can_go = |pod: &PodId| may_go(&snapshot.policy, &snapshot.pods[*pod], choice.now);
    let minima: BTreeMap<&str, usize> = role_minima(group).map(|(role, least)| (&**role, *least)).collect();
    let mut roles: BTreeMap<&str, usize> = BTreeMap::new();
    let finished = |pod: &&PodId| snapshot.pods[**pod].state == State::Succeeded;
    let done: Vec<PodId> = gang.members.iter().filter(finished).chain(new).copied().collect();
    for pod in pods.iter().chain(&done) {
        *roles.entry(&snapshot.pods[*pod].role).or_default() += 1;
    }
    let mut total = pods.len() + done.len();
    let (mut surplus, mut core) = (Vec::new(), Vec::new());
    for pod in &pods {
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
    let unit = |pods: Vec<PodId>, holding: &[PodId], is_core| {
        let mut held = Amounts::new();
        holding.iter().for_each(|pod| add(&mut held, &snapshot.shapes[snapshot.pods[*pod].shape].request));
        let lost = |pod: &PodId| choice.now - snapshot.pods[*pod].started.unwrap_or(choice.now);
        let cost = pods.iter().map(lost).sum();
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
    let may_lose = |unit: &Unit| {
        let Some(queue) = unit.queue else { return false };
        let lost = lost.entry(queue).or_default();
        let may = ledger.may_lose(queue, unit, lost, wanted);
        if may {
            add(lost, &unit.held);
        }
        may
    };
    let mut may_lose = may_lose;
    units.into_iter().filter(|unit| may_lose(unit)).collect()
}
