//! What holds in every land, at every turn of its story.
//!
//! One story checks all laws, so that ten thousand are cheap. `PROPTEST_CASES=200000` tells as many, other ones each time.

use super::land::{Land, QUEUES, Story, story};
use crate::gang::victims::Cause;
use crate::gang::why::WaitingOn;
use crate::gang::{Evict, Placement, Waiting, place};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use std::collections::BTreeSet;
use std::fmt::Write;
use volley_api::kube::quantity::Quantity;

/// The same worlds every time: a law that fails once in a million must not fail somebody else's change.
pub fn config(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let is_more = asked.cases > cases;
    let (cases, rng_seed) = if is_more { (asked.cases, asked.rng_seed) } else { (cases, RngSeed::Fixed(5)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4096, ..asked }
}

type Law = Result<(), TestCaseError>;

/// Each has some ten turns and rounds, and each of those is a world: more than ten thousand in all.
const STORIES: u32 = 1_500;
/// Without arrivals a land comes to rest within so many rounds.
const ROUNDS_MAX: usize = 24;

fn nodes_hold_what_they_have(land: &Land) -> Law {
    for (name, gpus) in &land.nodes {
        let on_it = land.pods.values().filter(|pod| pod.node.as_ref() == Some(name));
        prop_assert!(on_it.map(|pod| pod.gpus).sum::<i64>() <= *gpus, "{} holds too much", name);
    }
    Ok(())
}

fn gangs_are_whole(before: &Land, after: &Land, placement: &Placement) -> Law {
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
        prop_assert!(
            !is_left || !was_whole || after.is_complete(&evict.gang.name),
            "{} is evicted in part",
            evict.gang
        );
    }
    Ok(())
}

fn who_waits_hears_why(after: &Land, placement: &Placement) -> Law {
    for (gang, plan) in &after.gangs {
        let pods: Vec<_> = after.pods.values().filter(|pod| pod.gang == *gang && !pod.is_leaving).collect();
        let waits = pods.iter().any(|pod| pod.node.is_none());
        let is_told = placement.waiting.keys().any(|key| *key.name == **gang);
        prop_assert!(!waits || is_told, "{} waits and hears nothing", gang);
        prop_assert!(!is_told || waits || pods.len() < plan.members_min(), "{} does not wait", gang);
    }
    Ok(())
}

fn queues_keep_their_bounds(story: &Story, after: &Land, placement: &Placement) -> Law {
    let total: i64 = story.nodes.iter().sum();
    let guaranteed: i64 = story.queues.iter().map(|queue| queue.guarantee).sum();
    for (at, queue) in story.queues.iter().enumerate() {
        let gains = |name: &str| after.pods[name].gpus > 0 && after.gangs[&after.pods[name].gang].queue == at;
        if !placement.bind.iter().any(|bind| gains(&bind.pod.key.name)) {
            continue;
        }
        let used = after.used_by_queue(at);
        prop_assert!(queue.capability.is_none_or(|most| used <= most), "{} is above its capability", QUEUES[at]);
        let rest = (total - guaranteed).max(0) + queue.guarantee;
        prop_assert!(guaranteed == queue.guarantee || used <= rest, "{} takes what others are guaranteed", QUEUES[at]);
    }
    Ok(())
}

/// Nobody is evicted for an equal or a better, and without any of the victims the gang would not fit.
fn evictions_are_needed(before: &Land, placement: &Placement) -> Law {
    for evict in &placement.evict {
        let (victim, gainer) = (&before.gangs[&*evict.gang.name], &before.gangs[&*evict.for_gang.name]);
        prop_assert!(victim.is_preemptable);
        match evict.cause {
            Cause::Preempt => prop_assert!(victim.class < gainer.class && victim.queue == gainer.queue),
            Cause::Reclaim => prop_assert!(victim.queue != gainer.queue),
        }
    }
    let for_whom: BTreeSet<&str> = placement.evict.iter().map(|evict| &*evict.for_gang.name).collect();
    let Some(gang) = for_whom.first().filter(|_| for_whom.len() == 1) else { return Ok(()) };
    let victims: BTreeSet<&str> = placement.evict.iter().map(|evict| &*evict.gang.name).collect();
    for spared in victims {
        let mut land = before.clone();
        land.apply(&Placement { evict: Vec::new(), ..placement.clone() });
        for evict in placement.evict.iter().filter(|evict| &*evict.gang.name != spared) {
            land.renew(&evict.pod.key.name);
        }
        land.snapshot.policy.preempts = false;
        land.snapshot.policy.reclaims = false;
        let runs = land.place().bind.iter().any(|bind| &*bind.gang.name == *gang);
        prop_assert!(!runs, "{} need not have gone for {}", spared, gang);
    }
    Ok(())
}

/// Those for whom others were evicted run as soon as those have gone.
fn evictions_serve(story: &Story, after: &Land, placement: &Placement) -> Law {
    if placement.evict.is_empty() {
        return Ok(());
    }
    let mut land = after.clone();
    land.let_go(story.makes_again);
    let next = land.place();
    for evict in &placement.evict {
        let runs = next.bind.iter().any(|bind| bind.gang == evict.for_gang);
        let on = next.waiting.get(&evict.for_gang).map(|waiting| waiting.on.to_string());
        prop_assert!(runs, "{} went in vain for {}: {:?}", evict.pod.key, evict.for_gang, on);
    }
    Ok(())
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text).unwrap().milli_value()
}

/// What is waited for is not there.
fn numbers_are_unmet(land: &Land, waiting: &Waiting) -> Law {
    let is_open = match &waiting.on {
        WaitingOn::Members { have, need } | WaitingOn::TaskMembers { have, need, .. } => have < need,
        WaitingOn::QueueLimit { asked, used, limit, kept_for, .. } => {
            kept_for.is_some() || milli(asked) + milli(used) > milli(limit)
        }
        WaitingOn::Admission { asked, used, promised, limit, .. } => {
            milli(asked) + milli(used) + milli(promised) > milli(limit)
        }
        WaitingOn::TooLarge { asked, total, .. } => milli(asked) > milli(total),
        WaitingOn::Room { asked, free, .. } => milli(asked) > milli(free),
        WaitingOn::Fragments { pods, places, .. } | WaitingOn::TooFewPlaces { pods, places, .. } => places < pods,
        WaitingOn::Nodes { nodes, refusals, .. } => refusals.iter().map(|(_, count)| count).sum::<usize>() == *nodes,
        WaitingOn::Neighbours { pods, .. } => *pods > 0,
        WaitingOn::Leaving { pods, .. } => *pods > 0,
        WaitingOn::Behind { gang, .. } => land.gangs.contains_key(gang.trim_start_matches("d/")),
        other => return Err(TestCaseError::fail(format!("{other:?} cannot be here"))),
    };
    prop_assert!(is_open, "{}", waiting.on);
    Ok(())
}

/// Alone with what runs and given the room that it asks for, a gang runs; or its queue can never hold it.
fn what_is_asked_for_suffices(land: &Land, gang: &str) -> Law {
    let mut land = land.clone();
    let plan = land.gangs[gang].clone();
    let others: Vec<String> = land.gangs.keys().filter(|other| **other != gang).cloned().collect();
    let is_idle = |land: &Land, other: &str| land.pods_of(other).iter().all(|pod| land.pods[pod].node.is_none());
    for other in &others {
        let shares_queue = land.gangs[other].queue == plan.queue;
        if shares_queue || is_idle(&land, other) {
            land.end(other);
        }
    }
    land.drop_waiting_but(gang);
    for extra in 0..plan.pods + 1 {
        let gpus = plan.gpus.max(plan.other.unwrap_or(0));
        land.add_node(&format!("extra{extra}"), gpus, plan.zone.unwrap_or(0));
    }
    let placement = land.place();
    let runs = placement.bind.iter().any(|bind| &*bind.gang.name == gang);
    let on = placement.waiting.iter().find(|(key, _)| &*key.name == gang).map(|(_, waiting)| waiting.on.clone());
    let can_never = match &on {
        Some(WaitingOn::QueueLimit { asked, limit, .. }) => milli(asked) > milli(limit),
        // Its own pods leave first.
        Some(WaitingOn::Members { .. } | WaitingOn::TaskMembers { .. } | WaitingOn::Leaving { .. }) => true,
        _ => false,
    };
    prop_assert!(runs || can_never, "{} still waits: {:?}", gang, on);
    Ok(())
}

fn keeps_all_laws(story: &Story, before: &Land, turn: usize) -> Result<(Land, Placement), TestCaseError> {
    let placement = before.place();
    let mut after = before.clone();
    after.apply(&placement);
    nodes_hold_what_they_have(&after)?;
    gangs_are_whole(before, &after, &placement)?;
    who_waits_hears_why(&after, &placement)?;
    queues_keep_their_bounds(story, &after, &placement)?;
    evictions_are_needed(before, &placement)?;
    evictions_serve(story, &after, &placement)?;
    for waiting in placement.waiting.values() {
        numbers_are_unmet(&after, waiting)?;
    }
    let without_minimum: Vec<&str> =
        placement.waiting.iter().filter(|(_, waiting)| !waiting.has_minimum).map(|(key, _)| &*key.name).collect();
    if let Some(gang) = without_minimum.get(turn % without_minimum.len().max(1)) {
        what_is_asked_for_suffices(&after, gang)?;
    }
    let again = after.place();
    // Others may profit from what leaves now: they, too, evict what they still lack.
    let is_new = |evict: &Evict| placement.evict.iter().all(|before| before.for_gang != evict.for_gang);
    let is_chain = !placement.evict.is_empty() && again.evict.iter().all(is_new);
    let is_empty = again.bind.is_empty() && again.admit.is_empty() && (again.evict.is_empty() || is_chain);
    prop_assert!(is_empty, "again:\n{}", told(&again));
    Ok((after, placement))
}

/// One line for each thing that is decided.
fn told(placement: &Placement) -> String {
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

fn holds(story: &Story) -> Law {
    let mut tale = String::new();
    lives_by_the_laws(story, &mut tale).map_err(|law| TestCaseError::fail(format!("{law}\n{tale}")))
}

fn lives_by_the_laws(story: &Story, tale: &mut String) -> Law {
    let mut land = Land::new(story);
    for (at, turn) in story.turns.iter().enumerate() {
        land.happen(turn);
        let _ = writeln!(tale, "{turn:?}\n{}", told(&land.place()));
        let (after, placement) = keeps_all_laws(story, &land, at)?;
        if at + 1 == story.turns.len() {
            let backwards = land.seen_backwards(story);
            prop_assert_eq!(&place(&backwards, Timestamp::from_second(land.now).unwrap()), &placement);
        }
        land = after;
        // Some victims take their time.
        if at % 2 == 1 {
            land.let_go(story.makes_again);
        }
    }
    for round in 0.. {
        land.let_go(story.makes_again);
        land.now += 10;
        let _ = writeln!(tale, "Round\n{}", told(&land.place()));
        let (after, placement) = keeps_all_laws(story, &land, round)?;
        land = after;
        if placement.bind.is_empty() && placement.evict.is_empty() && placement.admit.is_empty() {
            break;
        }
        prop_assert!(round < ROUNDS_MAX, "no rest");
    }
    Ok(())
}

// GANG-3, GANG-4, GANG-6, GANG-8, GANG-9, Q-3, Q-5, TIER-6
#[test]
fn every_placement_of_every_story_keeps_the_laws() {
    if let Err(TestError::Fail(law, story)) = TestRunner::new(config(STORIES)).run(&story(), |story| holds(&story)) {
        panic!("{law}\n{story:?}");
    }
}
