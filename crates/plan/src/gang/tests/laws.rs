//! What holds in every land, whatever was decided before: each law on its own, in ten thousand lands.
//!
//! `PROPTEST_CASES=200000` looks at as many, other ones each time. The numbers that a gang hears are in `promises`, the
//! law that nobody starves is in `starvation`.

use super::land::{Land, QUEUES, Story, family_scene, scene, story};
use super::promises::{a_gang_that_is_given_what_it_asks_for_runs, numbers_are_unmet, who_waits_hears_why};
use crate::gang::snapshot::Snapshot;
use crate::gang::victims::Cause;
use crate::gang::{Placement, place};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The same worlds every time: a law that fails once in a million must not fail somebody else's change.
pub fn config(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let is_more = asked.cases > cases;
    let (cases, rng_seed) = if is_more { (asked.cases, asked.rng_seed) } else { (cases, RngSeed::Fixed(5)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4096, ..asked }
}

pub type Law = Result<(), TestCaseError>;

/// A land, what is decided there, and the land when that is done.
pub struct Moment<'a> {
    pub story: &'a Story,
    pub before: Land,
    pub placement: Placement,
    pub after: Land,
}

const LANDS: u32 = 10_000;
/// Longer lives, in which all laws are looked at in turn.
const STORIES: u32 = 600;
/// Without arrivals a land comes to rest within so many rounds.
const ROUNDS_MAX: usize = 24;

fn no_gang_is_bound_in_part(moment: &Moment) -> Law {
    let Moment { before, placement, after, .. } = moment;
    for bind in &placement.bind {
        prop_assert!(after.is_complete(&bind.gang.name), "{} is bound in part", bind.gang.name);
        prop_assert!(before.pods[&*bind.pod.key.name].node.is_none());
    }
    let names: BTreeSet<&str> = placement.bind.iter().map(|bind| &*bind.pod.key.name).collect();
    prop_assert_eq!(names.len(), placement.bind.len());
    // What is evicted is what a gang has above its minimum, or all of it.
    for evict in &placement.evict {
        let is_left =
            after.pods.values().any(|pod| pod.gang == *evict.gang.name && pod.node.is_some() && !pod.is_leaving);
        let was_whole = before.is_complete(&evict.gang.name);
        let is_whole = after.is_complete(&evict.gang.name);
        prop_assert!(!is_left || !was_whole || is_whole, "{} is evicted in part", evict.gang);
    }
    Ok(())
}

fn nodes_hold_what_they_have(moment: &Moment) -> Law {
    let after = &moment.after;
    for (name, plan) in &after.nodes {
        let on_it = || after.pods.values().filter(|pod| pod.node.as_ref() == Some(name));
        prop_assert!(on_it().map(|pod| pod.gpus).sum::<i64>() <= plan.gpus, "{} holds too much", name);
        prop_assert!(on_it().count() <= usize::try_from(plan.cpus).unwrap(), "{} holds too many", name);
    }
    Ok(())
}

/// Zone, cordon, and pods that do not bear each other.
fn pods_go_where_they_may(moment: &Moment) -> Law {
    let Moment { placement, after, .. } = moment;
    for bind in &placement.bind {
        let plan = &after.gangs[&*bind.gang.name];
        prop_assert!(!after.is_cordoned(&bind.node));
        let zone = usize::from(bind.node.trim_start_matches('n').parse::<usize>().unwrap() % 2 == 1);
        prop_assert!(plan.zone.is_none_or(|own| own == zone), "{} is in the wrong zone", bind.pod.key);
        let is_beside =
            |pod: &&super::land::Pod| pod.gang == *bind.gang.name && pod.node.as_deref() == Some(&bind.node);
        prop_assert!(!plan.is_apart || after.pods.values().filter(is_beside).count() == 1);
    }
    Ok(())
}

/// What the queue may hold beside what others are guaranteed.
fn left_by_guarantees(story: &Story, at: usize) -> i64 {
    let total: i64 = story.nodes.iter().map(|node| node.gpus).sum();
    let own = story.queues[at].guarantee;
    let is_kin = |other: &usize| story.family.is_none() || at == 0 || *other > 0;
    let kin = (0..QUEUES.len()).filter(is_kin).map(|other| story.queues[other].guarantee).sum::<i64>();
    let whole = story.family.filter(|_| at > 0).map_or(total, |most| {
        let first = story.queues[0].guarantee;
        let left = if first == 0 { total } else { (total - first - kin).max(0) + kin };
        most.min(left)
    });
    let most = if story.family.is_some() && at > 0 { whole } else { i64::MAX };
    if kin == own { most } else { (whole - kin).max(0) + own }
}

/// Capability, what others are guaranteed, what parents may hold, and what the namespace may ask for.
fn queues_and_quotas_keep_their_bounds(moment: &Moment) -> Law {
    let Moment { story, before, placement, after } = moment;
    let gains = |at: usize| {
        let is_gain = |name: &str| after.pods[name].gpus > 0 && after.gangs[&after.pods[name].gang].queue == at;
        placement.bind.iter().any(|bind| is_gain(&bind.pod.key.name))
    };
    for (at, queue) in story.queues.iter().enumerate().filter(|(at, _)| gains(*at)) {
        let used = after.used_by_queue(at);
        prop_assert!(queue.capability.is_none_or(|most| used <= most), "{} is above its capability", QUEUES[at]);
        prop_assert!(used <= left_by_guarantees(story, at), "{} takes what others are guaranteed", QUEUES[at]);
    }
    if let Some(most) = story.family.filter(|_| gains(1) || gains(2)) {
        prop_assert!(after.used_by_queue(1) + after.used_by_queue(2) <= most, "the family is above its capability");
    }
    if let Some((hard, used)) = before.quota {
        let asked: Vec<i64> = placement.admit.iter().map(|gang| after.gangs[&*gang.name].least()).collect();
        let is_within = used + asked.iter().sum::<i64>() <= hard;
        prop_assert!(is_within || asked.iter().all(|gpus| *gpus == 0), "more is let in than the quota bears");
    }
    Ok(())
}

fn nobody_is_evicted_for_an_equal_or_a_worse(moment: &Moment) -> Law {
    let Moment { story, before, placement, after } = moment;
    for evict in &placement.evict {
        let (victim, gainer) = (&before.gangs[&*evict.gang.name], &before.gangs[&*evict.for_gang.name]);
        prop_assert!(victim.is_preemptable);
        prop_assert!(!before.pods[&*evict.pod.key.name].is_leaving);
        match evict.cause {
            Cause::Preempt => prop_assert!(victim.class < gainer.class && victim.queue == gainer.queue),
            Cause::Reclaim => {
                let queue = &story.queues[victim.queue];
                prop_assert!(victim.queue != gainer.queue && queue.is_reclaimable);
                let most = queue.capability.unwrap_or(i64::MAX).min(left_by_guarantees(story, victim.queue));
                let deserved = queue.deserved.min(most);
                let is_due = story.declares
                    && before.pods[&*evict.pod.key.name].gpus > 0
                    && after.used_by_queue(victim.queue) <= deserved;
                prop_assert!(!is_due || queue.deserved == 0, "{} has no more than it deserves", QUEUES[victim.queue]);
            }
        }
    }
    Ok(())
}

/// Without any one of those who are evicted for it, a gang would not fit: also not once all others have what they get.
fn nobody_is_evicted_who_could_stay(moment: &Moment) -> Law {
    let Moment { before, placement, .. } = moment;
    let mut victims: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for evict in &placement.evict {
        victims.entry(&evict.for_gang.name).or_default().insert(&evict.gang.name);
    }
    for (gainer, victims) in &victims {
        for spared in victims {
            let mut land = before.clone();
            land.apply(&Placement { evict: Vec::new(), nominate: Vec::new(), ..placement.clone() });
            land.let_go(true);
            let is_spared =
                |evict: &&crate::gang::Evict| &*evict.gang.name == *spared && *evict.for_gang.name == **gainer;
            for evict in placement.evict.iter().filter(|evict| !is_spared(evict)) {
                land.renew(&evict.pod.key.name);
            }
            for bind in placement.nominate.iter().filter(|bind| &*bind.gang.name != *gainer) {
                land.put(&bind.pod.key.name, &bind.node);
            }
            land.snapshot.policy.preempts = false;
            land.snapshot.policy.reclaims = false;
            let runs = land.place().bind.iter().any(|bind| &*bind.gang.name == *gainer);
            prop_assert!(!runs, "{} need not have gone for {}", spared, gainer);
        }
    }
    Ok(())
}

/// Those for whom others were evicted run as soon as those have gone.
fn nobody_is_evicted_in_vain(moment: &Moment) -> Law {
    let Moment { story, before, placement, after } = moment;
    if placement.evict.is_empty() {
        return Ok(());
    }
    let mut land = after.clone();
    // Of what left before, new pods would be arrivals: they may be more important.
    let left: Vec<&String> = before.pods.iter().filter(|(_, pod)| pod.is_leaving).map(|(name, _)| name).collect();
    left.into_iter().for_each(|name| land.remove_pod(name));
    land.let_go(story.makes_again);
    let next = land.place();
    for evict in &placement.evict {
        let runs = next.bind.iter().any(|bind| bind.gang == evict.for_gang);
        let on = next.waiting.get(&evict.for_gang).map(|waiting| waiting.on.to_string());
        prop_assert!(runs, "{} went in vain for {}: {:?}", evict.pod.key, evict.for_gang, on);
    }
    Ok(())
}

fn planning_again_is_empty(moment: &Moment) -> Law {
    let again = moment.after.place();
    let is_empty = again.bind.is_empty() && again.admit.is_empty() && again.evict.is_empty();
    prop_assert!(is_empty, "again:\n{}", told(&again));
    prop_assert_eq!(&again.nominate, &moment.placement.nominate);
    Ok(())
}

fn the_same_objects_give_the_same_bytes(moment: &Moment) -> Law {
    let said = format!("{:?}", moment.placement);
    // What is tried on the snapshot is undone.
    let mut lent = moment.before.snapshot.clone();
    let now = Timestamp::from_second(moment.before.now).unwrap();
    prop_assert_eq!(&format!("{:?}", place(&mut lent, now)), &said);
    let parts = |snapshot: &Snapshot| format!("{:?} {:?}", snapshot.standing.waiting, snapshot.standing.endings);
    prop_assert_eq!(parts(&lent), parts(&moment.before.snapshot));
    prop_assert_eq!(&format!("{:?}", place(&mut lent, now)), &said);
    let mut backwards = moment.before.seen_backwards(moment.story);
    prop_assert_eq!(&format!("{:?}", place(&mut backwards, now)), &said);
    Ok(())
}

/// One line for each thing that is decided.
pub fn told(placement: &Placement) -> String {
    let mut lines: Vec<String> = placement.admit.iter().map(|gang| format!("  let in {}", gang.name)).collect();
    lines.extend(placement.bind.iter().map(|bind| format!("  {} > {}", bind.pod.key.name, bind.node)));
    lines.extend(
        placement
            .evict
            .iter()
            .map(|evict| format!("  {} < evicted for {} ({:?})", evict.pod.key.name, evict.for_gang.name, evict.cause)),
    );
    lines.extend(placement.nominate.iter().map(|bind| format!("  {} to {}", bind.pod.key.name, bind.node)));
    lines.extend(placement.waiting.iter().map(|(gang, waiting)| format!("  {} waits: {}", gang.name, waiting.on)));
    lines.join("\n")
}

type Keeps = fn(&Moment) -> Law;

/// What holds of each placement for itself.
const EACH: [Keeps; 10] = [
    no_gang_is_bound_in_part,
    nodes_hold_what_they_have,
    pods_go_where_they_may,
    queues_and_quotas_keep_their_bounds,
    nobody_is_evicted_for_an_equal_or_a_worse,
    nobody_is_evicted_who_could_stay,
    nobody_is_evicted_in_vain,
    the_same_objects_give_the_same_bytes,
    who_waits_hears_why,
    numbers_are_unmet,
];

fn step<'a>(story: &'a Story, before: Land, laws: &[Keeps], tale: &mut String) -> Result<Moment<'a>, TestCaseError> {
    let placement = before.place();
    let _ = writeln!(tale, "{}", told(&placement));
    let mut after = before.clone();
    after.apply(&placement);
    let moment = Moment { story, before, placement, after };
    laws.iter().try_for_each(|law| law(&moment))?;
    Ok(moment)
}

/// After each thing that happens; a long story goes on until nothing changes any more.
fn live(story: &Story, laws: &[Keeps], tale: &mut String) -> Law {
    let mut land = Land::new(story);
    for (at, turn) in story.turns.iter().enumerate() {
        land.happen(turn);
        let _ = writeln!(tale, "{turn:?}");
        land = step(story, land, laws, tale)?.after;
        // Some victims take their time.
        if at % 2 == 1 {
            land.let_go(story.makes_again);
        }
    }
    let is_short = story.turns.len() <= 1;
    for round in (0..).take_while(|_| !is_short) {
        land.let_go(story.makes_again);
        land.now += 10;
        let _ = writeln!(tale, "Round");
        let Moment { placement, after, .. } = step(story, land, laws, tale)?;
        land = after;
        if placement.bind.is_empty() && placement.evict.is_empty() && placement.admit.is_empty() {
            break;
        }
        prop_assert!(round < ROUNDS_MAX, "no rest");
    }
    Ok(())
}

fn holds(stories: impl Strategy<Value = Story>, cases: u32, laws: &[Keeps]) {
    let holds = |story: Story| {
        let mut tale = String::new();
        live(&story, laws, &mut tale).map_err(|law| TestCaseError::fail(format!("{law}\n{tale}")))
    };
    if let Err(TestError::Fail(law, story)) = TestRunner::new(config(cases)).run(&stories, holds) {
        panic!("{law}\n{story:?}");
    }
}

// GANG-3, GANG-4, GANG-6, GANG-8
#[test]
fn law_no_gang_is_bound_in_part() {
    holds(scene(), LANDS, &[no_gang_is_bound_in_part]);
}

// SCH-10
#[test]
fn law_nothing_is_given_twice() {
    holds(scene(), LANDS, &[nodes_hold_what_they_have, pods_go_where_they_may]);
}

// CAP-3, CAP-7
#[test]
fn law_queues_and_quotas_keep_their_bounds() {
    holds(scene(), LANDS, &[queues_and_quotas_keep_their_bounds]);
}

// ACT-6, ACT-9
#[test]
fn law_nobody_is_evicted_for_an_equal_or_a_worse() {
    holds(scene(), LANDS, &[nobody_is_evicted_for_an_equal_or_a_worse]);
}

#[test]
fn law_nobody_is_evicted_who_could_stay() {
    holds(scene(), LANDS, &[nobody_is_evicted_who_could_stay]);
}

#[test]
fn law_nobody_is_evicted_in_vain() {
    holds(scene(), LANDS, &[nobody_is_evicted_in_vain]);
}

// GANG-9
#[test]
fn law_planning_again_is_empty() {
    holds(scene(), LANDS, &[planning_again_is_empty]);
}

// TIER-6
#[test]
fn law_the_same_objects_give_the_same_bytes() {
    holds(scene(), LANDS, &[the_same_objects_give_the_same_bytes]);
}

#[test]
fn law_who_waits_hears_one_reason_whose_numbers_are_unmet() {
    holds(scene(), LANDS, &[who_waits_hears_why, numbers_are_unmet]);
}

#[test]
fn law_a_gang_that_is_given_what_it_asks_for_runs() {
    holds(scene(), LANDS, &[a_gang_that_is_given_what_it_asks_for_runs]);
}

#[test]
fn every_placement_of_every_story_keeps_the_laws() {
    holds(story(), STORIES, &[&EACH[..], &[planning_again_is_empty]].concat());
}

// CAP-3, CAP-5, CAP-6, CAP-7
#[test]
fn law_siblings_within_a_full_parent_keep_the_laws() {
    holds(family_scene(), LANDS, &EACH);
}

// GANG-9
#[test]
fn law_planning_again_is_empty_within_a_full_parent() {
    holds(family_scene(), LANDS, &[planning_again_is_empty]);
}
