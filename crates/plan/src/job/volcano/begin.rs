//! The start of a restart or of an end: the status is written first, then pods are taken away.
//!
//! Whatever is left undone by a crash is found again from the phase, the version and the victims in the memory.

use super::decide::Decision;
use super::memory::Victims;
use super::phase::{Deed, Kill, Phase, Step, step};
use super::resources;
use super::round::Round;
use crate::control::{Plan, pods};
use crate::job::ending::{Keep, delete_pod, must_go};
use crate::job::members::Slot;
use std::collections::BTreeSet;
use volley_api::kube::text;

pub fn begin(round: &mut Round, decision: Decision, phase: Phase, plan: &mut Plan) {
    let Step::Begin { to, kill, counts } = step(phase, decision.deed, round.settings.is_strict) else {
        return;
    };
    // SM-32: nothing comes after the last try, so its ended pods stay to be looked at.
    let is_last_try = round.status.retry_count >= round.spec.max_retry - 1;
    if counts {
        round.status.retry_count += 1;
    }
    match kill {
        Kill::All if !is_last_try => {
            round.status.version += 1;
            round.memory.victims = vec![Victims::All];
            for task in round.spec.tasks.iter().map(|task| task.name.clone()).collect::<Vec<_>>() {
                round.memory.set_done(&task, &BTreeSet::new());
            }
        }
        Kill::All | Kill::Soft => {
            round.status.version += 1;
            round.memory.victims = vec![Victims::Unended];
        }
        Kill::Target => {
            if let Some(Victims::Task(task)) = &decision.victims {
                round.memory.set_done(task, &BTreeSet::new());
            }
            round.memory.victims.extend(decision.victims.clone());
        }
    }
    cancel_timers(round, &decision, kill);
    round.enter(to);
    let doomed = doomed(round, to);
    for slot in &doomed {
        round.memory.forget(slot);
    }
    round.count(&doomed, &BTreeSet::new());
    round.explain(&decision.reason, decision.message);
    let message = format!("Start to execute action {}", decision.deed.name());
    plan.events.push(round.voice.normal("ExecuteAction", message));
    if let Some(command) = &decision.command {
        round.memory.commands.insert(text(command, "metadata.uid").to_owned());
    }
    round.write(plan);
    plan.actions.extend(decision.command.as_ref().map(super::delete));
    take_away(round, &doomed, plan);
    resources::sweep(round, to, plan);
}

/// SM-64: an action ends the wait for others of its level; after a full kill nothing is left to wait for.
fn cancel_timers(round: &mut Round, decision: &Decision, kill: Kill) {
    let Some(victims) = decision.victims.as_ref().filter(|_| kill == Kill::Target) else {
        round.memory.timers.clear();
        return;
    };
    let spec = &round.spec;
    round.memory.timers.retain(|_, timer| {
        let partition = || spec.task(&timer.task).and_then(|task| task.partition(timer.index));
        let is_same = match (victims, Deed::read(&timer.action)) {
            (Victims::Task(task), Deed::RestartTask) => *task == timer.task,
            (Victims::Partition(task, id), Deed::RestartPartition) => *task == timer.task && partition() == Some(*id),
            (Victims::Pod(task, index), Deed::RestartPod) => (task, *index) == (&timer.task, timer.index),
            _ => false,
        };
        !is_same
    });
}

/// The pods that the phase takes away and that are not on their way out already.
pub fn doomed(round: &Round, phase: Phase) -> BTreeSet<Slot> {
    let own = round.members.own.iter();
    let goes = |slot: &Slot, pod| match phase {
        Phase::Pending | Phase::Running => false,
        Phase::Restarting => round.is_victim(slot, pod) && must_go(pod, Keep::Nothing),
        Phase::Aborting
        | Phase::Aborted
        | Phase::Completing
        | Phase::Completed
        | Phase::Terminating
        | Phase::Terminated
        | Phase::Failed => must_go(pod, Keep::Ended),
    };
    own.filter(|(slot, pod)| goes(slot, pod) && !pods::is_being_deleted(pod)).map(|(slot, _)| slot.clone()).collect()
}

pub fn take_away(round: &Round, doomed: &BTreeSet<Slot>, plan: &mut Plan) {
    plan.actions.extend(doomed.iter().filter_map(|slot| round.members.own.get(slot)).map(|pod| delete_pod(pod)));
}
