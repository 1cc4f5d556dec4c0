//! Starts and stops the pods of a Job: as many as its parallelism, its completions and its delays allow.

use super::job::{Ending, Round, TRACKING_FINALIZER, backoff_left, count, is_suspended};
use super::job_indexes::Indexes;
use super::{Action, Plan, Target, Voice, has_finalizer, job_pods, job_track, pods, wire_time, without_finalizer};
use k8s_openapi::api::core::v1::Pod;

/// Pods created or deleted in one round; upstream's number, so that one huge Job does not starve the others.
const PODS_PER_ROUND_MAX: usize = 500;

/// Starts and stops pods, sets the counts of running ones and, if all completions are there, the ending.
pub fn settle(round: &mut Round, plan: &mut Plan) {
    let voice = Voice::new(round.job, "job-controller");
    let mut active = count(round.active.iter());
    let mut ready = count(round.active.iter().filter(|pod| pods::is_ready(pod)));
    let mut terminating = round.terminating();
    if let Some(is_success) = round.ending.as_ref().map(|ending| ending.is_success) {
        let leaving = std::mem::take(&mut round.active);
        stop(&leaving, is_success, &voice, plan);
        (active, ready, terminating) = (0, 0, terminating + count(leaving.iter()));
    } else {
        if round.job.metadata.deletion_timestamp.is_none() {
            let leaving = surplus(round);
            stop(&leaving, true, &voice, plan);
            active -= count(leaving.iter());
            ready -= count(leaving.iter().filter(|pod| pods::is_ready(pod)));
            if leaving.is_empty() && !is_suspended(round.spec) {
                active += start_missing(round, active, &voice, plan);
            }
        }
        let succeeded = round.succeeded();
        let is_complete = round.spec.completions.map_or(succeeded > 0, |wanted| succeeded >= wanted) && active == 0;
        if is_complete {
            let message = "Reached expected number of succeeded pods".to_owned();
            let reason = "CompletionsReached".to_owned();
            round.ending = Some(Ending { is_success: true, reason, message, is_recorded: false });
        } else if round.job.metadata.deletion_timestamp.is_none() {
            note_suspension(round, &voice, plan);
        }
    }
    round.status.active = Some(active).filter(|n| *n > 0);
    round.status.ready = Some(ready);
    round.status.terminating = Some(terminating);
}

/// Deletes pods; those that are only no longer needed lose their finalizer first, because their end must not count.
fn stop(leaving: &[&Pod], is_surplus: bool, voice: &Voice, plan: &mut Plan) {
    for pod in leaving {
        if is_surplus && has_finalizer(&pod.metadata, TRACKING_FINALIZER) {
            plan.actions.push(without_finalizer(*pod, TRACKING_FINALIZER));
        }
        let target = Target::of(*pod);
        plan.events.push(voice.normal("SuccessfulDelete", format!("Deleted pod: {}", target.name)));
        plan.delete(target);
    }
}

fn wanted_active(round: &Round) -> i32 {
    if is_suspended(round.spec) {
        return 0;
    }
    let parallelism = round.spec.parallelism.unwrap_or(1);
    match round.spec.completions {
        // Without a number of completions the first success means: start nothing more, let the rest finish.
        None if round.succeeded() > 0 => count(round.active.iter()),
        None => parallelism,
        Some(completions) => (completions - round.succeeded()).min(parallelism).max(0),
    }
}

/// The active pods to stop: doubles and strays of an indexed Job, then the least useful ones over the wanted number.
fn surplus<'a>(round: &Round<'a>) -> Vec<&'a Pod> {
    let mut candidates = round.active.clone();
    candidates.sort_by_cached_key(|pod| pods::removal_order(pod, 0));
    let mut leaving = Vec::new();
    if round.is_indexed() {
        let mut kept = Indexes::new();
        let mut keep = Vec::new();
        // The most useful pod of an index stays, so look at them last-to-go first.
        for pod in candidates.into_iter().rev() {
            match round.valid_index(pod) {
                Some(index) if kept.insert(index) => keep.push(pod),
                Some(_) | None => leaving.push(pod),
            }
        }
        keep.reverse();
        candidates = keep;
    }
    let excess = count(round.active.iter()) - wanted_active(round);
    let more = usize::try_from(excess).unwrap_or(0).saturating_sub(leaving.len());
    leaving.extend(candidates.into_iter().take(more));
    leaving.truncate(PODS_PER_ROUND_MAX);
    leaving
}

/// Creates the pods that are missing and may start now; says how many.
fn start_missing(round: &Round, active: i32, voice: &Voice, plan: &mut Plan) -> i32 {
    let terminating = if round.replaces_only_failed() { round.terminating() } else { 0 };
    let missing = usize::try_from(wanted_active(round) - terminating - active).unwrap_or(0).min(PODS_PER_ROUND_MAX);
    if missing == 0 {
        return 0;
    }
    let has_limit_per_index = round.failed_indexes.is_some();
    let wait = if has_limit_per_index { 0 } else { round.backoff_left() };
    if wait > 0 {
        plan.requeue(wait);
        return 0;
    }
    let indexes: Vec<Option<i32>> = if round.is_indexed() {
        pending_indexes(round, missing, plan).into_iter().map(Some).collect()
    } else {
        vec![None; missing]
    };
    for index in &indexes {
        let replaced = index.and_then(|index| round.replaced_next.get(&index).copied());
        let object = job_pods::build(round, *index, replaced);
        let event = voice.normal("SuccessfulCreate", "Created pod: {name}");
        plan.actions.push(Action::Create { object, event: Some(event) });
    }
    count(indexes.iter())
}

/// The first indexes without a pod or an outcome; with a limit per index, each waits for its own delay.
fn pending_indexes(round: &Round, missing: usize, plan: &mut Plan) -> Vec<i32> {
    let mut taken: Indexes = round.active.iter().filter_map(|pod| round.valid_index(pod)).collect();
    taken.extend(&round.succeeded_indexes);
    taken.extend(round.failed_indexes.iter().flatten());
    if round.replaces_only_failed() {
        let terminating = round.pods.iter().filter(|pod| pods::is_terminating(pod));
        taken.extend(terminating.filter_map(|pod| round.valid_index(pod)));
    }
    let mut start = Vec::new();
    for index in (0..round.completions()).filter(|index| !taken.contains(index)).take(missing) {
        let wait = round.replaced_next.get(&index).map_or(0, |pod| {
            let ended = pods::ended_at(pod).unwrap_or(round.now);
            backoff_left(job_pods::attempts(pod) + 1, ended, round.now)
        });
        if wait > 0 { plan.requeue(wait) } else { start.push(index) }
    }
    start
}

/// Keeps the condition `Suspended` true to the spec; a resumed Job's clock starts anew.
fn note_suspension(round: &mut Round, voice: &Voice, plan: &mut Plan) {
    let now = round.now;
    if is_suspended(round.spec) {
        if job_track::set_condition(&mut round.status, ("Suspended", "True"), ("JobSuspended", "Job suspended"), now) {
            plan.events.push(voice.normal("Suspended", "Job suspended"));
        }
    } else if job_track::set_condition(&mut round.status, ("Suspended", "False"), ("JobResumed", "Job resumed"), now) {
        plan.events.push(voice.normal("Resumed", "Job resumed"));
        round.status.start_time = Some(wire_time(now));
    }
}
