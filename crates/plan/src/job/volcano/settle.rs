//! How a Job goes on in its phase when nothing calls for another: restarts wait for their pods to go, ends too,
//! finished Jobs are kept as they are until their time is over (SM-20 to SM-23, TTL-1).

use super::begin::{doomed, take_away};
use super::phase::Phase;
use super::round::Round;
use super::{delete, resources, sync};
use crate::control::{Plan, Propagation};
use crate::job::ending::expire;
use std::collections::BTreeSet;
use volley_api::kube::{text, time};
use volley_api::volcano::types::{JobSpec, JobStatus};

pub fn settle(round: &mut Round, phase: Phase, plan: &mut Plan) {
    match phase {
        Phase::Pending | Phase::Running => sync::sync(round, phase, plan),
        Phase::Restarting => kill(round, phase, plan, after_restart),
        Phase::Aborting => kill(round, phase, plan, |_, status| has_stopped(status).then_some(Phase::Aborted)),
        Phase::Completing => kill(round, phase, plan, |_, status| has_stopped(status).then_some(Phase::Completed)),
        Phase::Terminating => kill(round, phase, plan, |_, status| has_stopped(status).then_some(Phase::Terminated)),
        Phase::Aborted | Phase::Completed | Phase::Terminated | Phase::Failed => rest(round, phase, plan),
    }
}

/// Commands that were carried out before a crash are not carried out again (CMD-10).
pub fn forget_served_commands(round: &mut Round, plan: &mut Plan) {
    let served = round.seen.commands.iter().filter(|command| {
        let is_going = !text(command, "metadata.deletionTimestamp").is_empty();
        !is_going && round.memory.commands.contains(text(command, "metadata.uid"))
    });
    plan.actions.extend(served.map(delete));
}

type Next = fn(&JobSpec, &JobStatus) -> Option<Phase>;

/// Takes away what the phase does not keep; once that is under way, `next` says where it leads.
fn kill(round: &mut Round, phase: Phase, plan: &mut Plan, next: Next) {
    let doomed = doomed(round, phase);
    for slot in &doomed {
        round.memory.forget(slot);
    }
    take_away(round, &doomed, plan);
    resources::sweep(round, phase, plan);
    round.count(&doomed, &BTreeSet::new());
    if doomed.is_empty()
        && let Some(to) = next(&round.spec, &round.status)
    {
        if to == Phase::Failed {
            let cause = round.status.state.message.clone();
            round.explain("MaxRetry", format!("maxRetry {} is used up; {cause}", round.spec.max_retry));
        }
        round.memory.victims.clear();
        round.enter(to);
    }
    round.write(plan);
}

/// SM-22: with `maxRetry: 3` a Job is restarted twice and fails the third time.
pub fn after_restart(spec: &JobSpec, status: &JobStatus) -> Option<Phase> {
    if status.retry_count >= spec.max_retry {
        return Some(Phase::Failed);
    }
    (spec.replicas() - status.terminating >= status.min_available).then_some(Phase::Pending)
}

/// SM-23.
pub fn has_stopped(status: &JobStatus) -> bool {
    status.pending + status.running + status.terminating + status.unknown == 0
}

/// Where a running Job stands after a sync (SM-20).
pub fn after_sync(spec: &JobSpec, status: &JobStatus) -> Phase {
    let replicas = spec.replicas();
    if replicas == 0 {
        return Phase::Running;
    }
    if spec.min_success.is_some_and(|enough| status.succeeded >= enough) {
        return Phase::Completed;
    }
    if status.succeeded + status.failed >= replicas {
        return verdict(spec, status);
    }
    if status.pending > replicas - spec.min_available { Phase::Pending } else { Phase::Running }
}

/// All pods have ended: was it enough?
fn verdict(spec: &JobSpec, status: &JobStatus) -> Phase {
    let required: i32 = spec.tasks.iter().map(|task| task.required()).sum();
    let succeeded = |task: &str| {
        let counts = status.task_status_count.get(task)?;
        Some(counts.phase.get("Succeeded").copied().unwrap_or(0))
    };
    let is_short = |task: &volley_api::volcano::types::Task| succeeded(&task.name).is_some_and(|n| n < task.required());
    let misses_a_task = spec.min_available >= required && spec.tasks.iter().any(is_short);
    if misses_a_task || spec.min_success.is_some() || status.succeeded < spec.min_available {
        Phase::Failed
    } else {
        Phase::Completed
    }
}

/// A Job that is over, or suspended: stray pods go, counts stay, and in time the Job goes too.
fn rest(round: &mut Round, phase: Phase, plan: &mut Plan) {
    let doomed = doomed(round, phase);
    take_away(round, &doomed, plan);
    resources::sweep(round, phase, plan);
    round.count(&doomed, &BTreeSet::new());
    if phase.is_final() {
        keep_ended_counts(round);
    }
    round.write(plan);
    let ended = round.old.state.last_transition_time.as_deref().and_then(time::parse);
    let ttl = round.spec.ttl_seconds_after_finished.filter(|_| phase.is_final());
    if let (Some(ttl), Some(ended)) = (ttl, ended) {
        expire(&round.head, i64::from(ttl), ended, Propagation::Foreground, round.now, plan);
    }
}

/// Pods that somebody deletes after the end still have ended as they did (SM-34).
fn keep_ended_counts(round: &mut Round) {
    let (old, new) = (&round.old, &mut round.status);
    new.succeeded = new.succeeded.max(old.succeeded);
    new.failed = new.failed.max(old.failed);
    for (task, counts) in &old.task_status_count {
        for phase in ["Succeeded", "Failed"] {
            let Some(before) = counts.phase.get(phase) else { continue };
            let now = new.task_status_count.entry(task.clone()).or_default().phase.entry(phase.to_owned()).or_insert(0);
            *now = (*now).max(*before);
        }
    }
}
