//! Counts a Job's ended pods exactly once and writes its status (K-JOB-3).
//!
//! A pod's end is first written to `uncountedTerminatedPods`, then its finalizer goes, then the counters move. A
//! crash between any two of these steps is repaired by the next round, which finds the uid listed and does not add it.

use super::job::{Ending, Round, TRACKING_FINALIZER};
use super::job_policy::Verdict;
use super::{Plan, Voice, has_finalizer, job_indexes, pods, uid_of, wire_time, without_finalizer};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;

/// Uids listed in one status; upstream's number, which keeps a status below 20 kB of uids.
const UNCOUNTED_MAX: usize = 500;

/// Ends the round: lists ended pods, frees them, moves the counters and declares the Job finished if it is.
pub fn finish(mut round: Round, plan: &mut Plan) {
    let before = round.job.status.clone();
    let mut tracked = with_finalizer(&round.pods);
    move_counters(&mut round.status, &tracked);
    let (freed, is_partial) = list_ended(&mut round);
    write_indexes(&mut round);
    if let Some(ending) = round.ending.as_ref().filter(|ending| !ending.is_recorded) {
        let kind = if ending.is_success { "SuccessCriteriaMet" } else { "FailureTarget" };
        set_condition(&mut round.status, (kind, "True"), (&ending.reason, &ending.message), round.now);
    }
    plan.status(round.job, before.as_ref(), &round.status);

    let listed = round.status.clone();
    for pod in freed {
        tracked.remove(uid_of(&pod.metadata));
        plan.actions.push(without_finalizer(pod, TRACKING_FINALIZER));
    }
    move_counters(&mut round.status, &tracked);
    let is_settled = round.status.terminating == Some(0) && uncounted(&round.status) == 0 && !is_partial;
    if let Some(ending) = round.ending.take().filter(|_| is_settled) {
        declare(&mut round, &ending, plan);
    }
    plan.status(round.job, Some(&listed), &round.status);
}

fn with_finalizer(pods: &[&Pod]) -> BTreeSet<String> {
    let tracked = pods.iter().filter(|pod| has_finalizer(&pod.metadata, TRACKING_FINALIZER));
    tracked.map(|pod| uid_of(&pod.metadata).to_owned()).collect()
}

fn uncounted(status: &JobStatus) -> usize {
    let lists = status.uncounted_terminated_pods.as_ref();
    lists.map_or(0, |lists| lists.succeeded.iter().flatten().count() + lists.failed.iter().flatten().count())
}

/// Counts the listed pods that have lost their finalizer and takes them off the lists.
fn move_counters(status: &mut JobStatus, tracked: &BTreeSet<String>) {
    let lists = status.uncounted_terminated_pods.get_or_insert_default();
    for (list, counter) in [(&mut lists.succeeded, &mut status.succeeded), (&mut lists.failed, &mut status.failed)] {
        let uids = list.take().unwrap_or_default();
        let (kept, gone): (Vec<_>, Vec<_>) = uids.into_iter().partition(|uid| tracked.contains(uid));
        *list = Some(kept).filter(|kept| !kept.is_empty());
        let total = counter.unwrap_or(0) + i32::try_from(gone.len()).unwrap_or(i32::MAX);
        *counter = Some(total).filter(|total| *total > 0);
    }
}

/// Lists the pods that have ended since the last round. Returns those to free, and whether some had to wait.
fn list_ended<'a>(round: &mut Round<'a>) -> (Vec<&'a Pod>, bool) {
    let mut freed = Vec::new();
    for pod in round.pods.clone() {
        if !has_finalizer(&pod.metadata, TRACKING_FINALIZER) || !may_free(round, pod) {
            continue;
        }
        freed.push(pod);
        if !round.is_listed(pod) {
            list(round, pod);
        }
        if freed.len() >= UNCOUNTED_MAX {
            return (freed, true);
        }
    }
    (freed, false)
}

/// A pod is freed when it or the whole Job has ended, except a failed one whose count its replacement will need.
///
/// Pods that this very round deletes are freed by the next one, which sees them as deleted.
fn may_free(round: &Round, pod: &Pod) -> bool {
    if round.job.metadata.deletion_timestamp.is_some() || pods::is_succeeded(pod) {
        return true;
    }
    if round.ending.is_some() {
        return !pods::is_active(pod);
    }
    let awaits_replacement = || {
        let waiting = round.valid_index(pod).and_then(|index| round.replaced_next.get(&index));
        waiting.is_some_and(|waiting| waiting.metadata.uid == pod.metadata.uid)
    };
    round.has_failed(pod) && !awaits_replacement()
}

fn list(round: &mut Round, pod: &Pod) {
    let uid = uid_of(&pod.metadata).to_owned();
    let is_failing = round.ending.as_ref().is_some_and(|ending| !ending.is_success);
    let counts = !round.is_indexed() || round.valid_index(pod).is_some();
    let has_failed = round.has_failed(pod) || is_failing;
    let is_ignored = round.verdict(pod) == Verdict::Ignore;
    let lists: &mut UncountedTerminatedPods = round.status.uncounted_terminated_pods.get_or_insert_default();
    if pods::is_succeeded(pod) {
        // An indexed Job's successes are remembered by index, which needs no uid.
        if round.spec.completion_mode.as_deref() != Some("Indexed") {
            lists.succeeded.get_or_insert_default().push(uid);
        }
    } else if has_failed && counts && !is_ignored {
        lists.failed.get_or_insert_default().push(uid);
    }
}

fn write_indexes(round: &mut Round) {
    if !round.is_indexed() {
        return;
    }
    let succeeded = i32::try_from(round.succeeded_indexes.len()).unwrap_or(i32::MAX);
    round.status.succeeded = Some(succeeded).filter(|n| *n > 0);
    let text = job_indexes::text(&round.succeeded_indexes);
    round.status.completed_indexes = Some(text).filter(|text| !text.is_empty());
    round.status.failed_indexes = round.failed_indexes.as_ref().map(job_indexes::text);
}

fn declare(round: &mut Round, ending: &Ending, plan: &mut Plan) {
    let voice = Voice::new(round.job, "job-controller");
    let kind = if ending.is_success { "Complete" } else { "Failed" };
    set_condition(&mut round.status, (kind, "True"), (&ending.reason, &ending.message), round.now);
    if ending.is_success {
        round.status.completion_time = Some(wire_time(round.now));
        if round.spec.completions.is_some_and(|wanted| round.status.succeeded.unwrap_or(0) > wanted) {
            let message = "Too many succeeded pods running after completion count reached";
            plan.events.push(voice.warning("TooManySucceededPods", message));
        }
        plan.events.push(voice.normal("Completed", "Job completed"));
    } else {
        plan.events.push(voice.warning(&ending.reason, ending.message.clone()));
    }
}

/// Sets `(type, status)` with `(reason, message)`; says whether anything changed. A missing condition is as good as
/// a false one, so none is added to say `False`.
pub fn set_condition(
    status: &mut JobStatus,
    (kind, value): (&str, &str),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    let new = JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(wire_time(now)),
        last_transition_time: Some(wire_time(now)),
    };
    let changed = match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(old) if old.status == new.status && old.reason == new.reason && old.message == new.message => false,
        Some(old) => {
            *old = new;
            true
        }
        None if value == "False" => false,
        None => {
            conditions.push(new);
            true
        }
    };
    if conditions.is_empty() {
        status.conditions = None;
    }
    changed
}
