//! What a gang that waits is told: one reason, whose numbers are unmet, and which holds its word when they are met.

use super::land::{FAMILY, Land, NodePlan, QUEUES};
use super::laws::{Law, Moment};
use super::world::GPU;
use crate::gang::queues::Bound;
use crate::gang::why::WaitingOn;
use proptest::prelude::*;
use volley_api::kube::quantity::Quantity;

/// A gang hears at most so many reasons one after the other until it runs. Each is all that one bound asks for, so that a bound
/// that is met is not told again: its members, the door, the queue's bound, those above it, guarantees, nodes, room, places.
const REASONS_MAX: usize = 8;
const CPUS: i64 = 64;

pub fn who_waits_hears_why(moment: &Moment) -> Law {
    let Moment { placement, after, .. } = moment;
    for (gang, plan) in &after.gangs {
        let pods: Vec<_> = after.pods.values().filter(|pod| pod.gang == *gang && !pod.is_leaving).collect();
        let waits = pods.iter().any(|pod| pod.node.is_none());
        let is_told = placement.waiting.keys().any(|key| *key.name == **gang);
        prop_assert!(!waits || is_told, "{} waits and hears nothing", gang);
        prop_assert!(!is_told || waits || pods.len() < plan.members_min(), "{} does not wait", gang);
    }
    Ok(())
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text).unwrap().milli_value()
}

/// What is waited for is not there.
pub fn numbers_are_unmet(moment: &Moment) -> Law {
    for waiting in moment.placement.waiting.values() {
        let is_open = match &waiting.on {
            WaitingOn::Members { have, need } | WaitingOn::TaskMembers { have, need, .. } => have < need,
            WaitingOn::QueueLimit { asked, used, limit, kept_for, .. } => {
                kept_for.is_some() || milli(asked) + milli(used) > milli(limit)
            }
            WaitingOn::Admission { asked, used, promised, limit, .. } => {
                milli(asked) + milli(used) + milli(promised) > milli(limit)
            }
            WaitingOn::NamespaceQuota { asked, left, .. } => milli(asked) > milli(left),
            WaitingOn::TooLarge { asked, total, .. } => milli(asked) > milli(total),
            WaitingOn::Room { asked, free, .. } => milli(asked) > milli(free),
            WaitingOn::Fragments { pods, places, .. } | WaitingOn::TooFewPlaces { pods, places, .. } => places < pods,
            WaitingOn::Nodes { nodes, refusals, .. } => {
                refusals.iter().map(|(_, count)| count).sum::<usize>() == *nodes
            }
            WaitingOn::Neighbours { pods, .. } => *pods > 0,
            WaitingOn::Leaving { pods, .. } => *pods > 0,
            WaitingOn::Behind { gang, .. } => moment.after.gangs.contains_key(gang.trim_start_matches("d/")),
            other => return Err(TestCaseError::fail(format!("{other:?} cannot be here"))),
        };
        prop_assert!(is_open, "{}", waiting.on);
    }
    Ok(())
}

/// When the others give up waiting and what it is told is met, number by number, the gang runs.
pub fn a_gang_that_is_given_what_it_asks_for_runs(moment: &Moment) -> Law {
    let Moment { placement, after, .. } = moment;
    let waiting: Vec<&str> =
        placement.waiting.iter().filter(|(_, waiting)| !waiting.has_minimum).map(|(key, _)| &*key.name).collect();
    let Some(gang) = waiting.get(after.pods.len() % waiting.len().max(1)) else { return Ok(()) };
    let mut land = after.clone();
    land.drop_waiting_but(gang);
    let mut heard: Vec<String> = Vec::new();
    for _ in 0..REASONS_MAX {
        let placement = land.place();
        if placement.bind.iter().any(|bind| &*bind.gang.name == *gang) {
            return Ok(());
        }
        land.apply(&placement);
        let waiting = placement.waiting.iter().find(|(key, _)| &*key.name == *gang).map(|(_, waiting)| &waiting.on);
        let Some(on) = waiting else { return Err(TestCaseError::fail(format!("{gang} hears nothing more"))) };
        heard.push(on.to_string());
        meet(&mut land, gang, on, heard.len());
    }
    prop_assert!(false, "{} does not run: {:?}", gang, heard);
    Ok(())
}

/// Changes the land by just what the reason asks for.
fn meet(land: &mut Land, gang: &str, on: &WaitingOn, step: usize) {
    let plan = land.gangs[gang].clone();
    let size = plan.gpus.max(plan.other.unwrap_or(0));
    let mut count = 0;
    let mut grow = |land: &mut Land, resource: &str, amount: i64| {
        count += 1;
        let whole = (amount + 999) / 1000;
        let node = if resource == GPU {
            NodePlan { gpus: whole, cpus: CPUS }
        } else {
            NodePlan { gpus: size * whole, cpus: whole }
        };
        land.add_node(&format!("extra{step}-{count}"), node, plan.zone.unwrap_or(0));
    };
    match on {
        WaitingOn::Members { .. } | WaitingOn::TaskMembers { .. } => land.complete(gang),
        WaitingOn::QueueLimit { kept_for: Some(first), .. } | WaitingOn::Behind { gang: first, .. } => {
            land.end(first.trim_start_matches("d/"));
        }
        WaitingOn::QueueLimit { queue, bound, resource, asked, used, limit, .. } => {
            let (all, short) = (milli(asked) + milli(used), milli(asked) + milli(used) - milli(limit));
            match bound {
                Bound::Capability if queue == FAMILY => land.widen_family(all / 1000),
                Bound::Capability => {
                    let at = QUEUES.iter().position(|name| name == queue).unwrap();
                    land.queues[at].capability = Some(all / 1000);
                    land.show_own_queue(at);
                }
                // More may be guaranteed than there is.
                Bound::Guarantees => {
                    let guaranteed: i64 = land.queues.iter().map(|queue| queue.guarantee).sum();
                    let total: i64 = land.nodes.values().map(|node| node.gpus).sum();
                    grow(land, resource, short + 1000 * (guaranteed - total).max(0));
                    if let Some(most) = land.family.filter(|_| *queue == QUEUES[1] || *queue == QUEUES[2]) {
                        land.widen_family(most.max(guaranteed) + (short + 999) / 1000);
                    }
                }
                // The others' weights are nine times its own at most.
                Bound::FairShare => grow(land, resource, 10 * short),
            }
        }
        WaitingOn::Admission { resource, asked, used, promised, limit } => {
            grow(land, resource, milli(asked) + milli(used) + milli(promised) - milli(limit));
        }
        WaitingOn::NamespaceQuota { asked, left, .. } => {
            let (hard, used) = land.quota.unwrap();
            land.quota = Some((hard + (milli(asked) - milli(left)) / 1000, used));
            land.show_quota();
        }
        WaitingOn::TooLarge { resource, asked, is_one_pod: true, .. } => grow(land, resource, milli(asked)),
        WaitingOn::TooLarge { resource, asked, total: have, .. }
        | WaitingOn::Room { resource, asked, free: have, .. } => {
            grow(land, resource, milli(asked) - milli(have));
        }
        WaitingOn::Fragments { resource, pods, places, each, .. }
        | WaitingOn::TooFewPlaces { resource, pods, places, each } => {
            (*places..*pods).for_each(|_| grow(land, resource, milli(each)));
        }
        WaitingOn::Nodes { .. } => grow(land, GPU, size * 1000),
        WaitingOn::Neighbours { pods, .. } => (0..*pods).for_each(|_| grow(land, GPU, size * 1000)),
        WaitingOn::Leaving { .. } => land.let_go(false),
        other => panic!("{other:?} cannot be here"),
    }
}
