//! Restarts: which pods are replaced, and the count of it that outlives pods and controllers (PT-RST, PT-BKF-5).
//!
//! A restart is written down before it is done: the job's annotations hold the number of restarts and the uids of the
//! pods that are being replaced by the last of them. So a controller that dies in between neither forgets a restart
//! nor counts it twice.

use super::outcome::Course;
use super::round::Round;
use crate::control::{Action, pods, uid_of, wire_time};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use std::collections::BTreeSet;

pub const RESTARTS: &str = "volley.dev/restarts";
const RESTARTING: &str = "volley.dev/restarting";
/// Set to `job`, one failed pod restarts all of them (PT-DEC-18).
pub const SCOPE: &str = "volley.dev/restart-scope";

pub fn is_whole_job(round: &Round) -> bool {
    !round.settings.is_strict && round.head.annotations.get(SCOPE).is_some_and(|scope| scope == "job")
}

/// How often pods of this job were replaced since it was made or resumed.
pub fn count(round: &Round) -> i32 {
    if round.settings.is_strict {
        return 0;
    }
    round.head.annotations.get(RESTARTS).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The uids of pods whose replacement has been counted.
pub fn listed(round: &Round) -> BTreeSet<String> {
    let uids = round.head.annotations.get(RESTARTING).filter(|_| !round.settings.is_strict);
    uids.into_iter().flat_map(|uids| uids.split(',')).map(str::to_owned).collect()
}

pub fn is_listed(listed: &BTreeSet<String>, pod: &Pod) -> bool {
    listed.contains(uid_of(&pod.metadata))
}

/// Writes down a restart that is about to be done; nothing else happens in that pass.
pub fn is_recorded_first(round: &mut Round, course: &Course) -> bool {
    if round.settings.is_strict {
        return false;
    }
    let known = listed(round);
    let is_whole = is_whole_job(round);
    // A pod that somebody else deletes needs no replacing by us, but takes the whole job with it.
    let is_ours = |pod: &Pod| pods::is_failed(pod) && !pods::is_being_deleted(pod);
    let is_new = |pod: &Pod| !is_listed(&known, pod) && (is_whole || is_ours(pod));
    let new: Vec<_> = course.failing.iter().map(|(_, pod)| *pod).filter(|pod| is_new(pod)).collect();
    if new.is_empty() {
        return false;
    }
    let present: Vec<_> = round.members.own.values().copied().collect();
    let replaced = present.into_iter().filter(|pod| {
        let is_one_of_new = new.iter().any(|new| new.metadata.uid == pod.metadata.uid);
        is_whole || is_one_of_new || is_listed(&known, pod)
    });
    let uids: Vec<&str> = replaced.map(|pod| uid_of(&pod.metadata)).collect();
    let more = if is_whole { 1 } else { i32::try_from(new.len()).unwrap_or(i32::MAX) };
    let total = count(round).saturating_add(more);
    note(round, json!({ RESTARTS: total.to_string(), RESTARTING: uids.join(",") }));
    true
}

/// Patches annotations of the job, refused when it has changed since it was seen.
fn note(round: &mut Round, annotations: serde_json::Value) {
    let metadata = json!({ "annotations": annotations, "resourceVersion": round.head.resource_version });
    let patch = json!({ "metadata": metadata });
    round.plan.actions.push(Action::Patch { target: round.head.target.clone(), patch });
    round.holds_status = true;
}

/// Deletes the pods that are to be replaced.
pub fn replace(round: &mut Round, course: &Course) {
    let known = listed(round);
    let listed_pods = round.members.own.values().copied().filter(|pod| is_listed(&known, pod));
    let failed = course.failing.iter().map(|(_, pod)| *pod).filter(|pod| pods::is_failed(pod));
    let going: Vec<&Pod> = if round.settings.is_strict { failed.collect() } else { listed_pods.collect() };
    for pod in going.into_iter().filter(|pod| !pods::is_being_deleted(pod)) {
        round.delete_pod(pod);
    }
}

/// While a whole job restarts, none of its new pods may meet an old one.
pub fn holds_creation(round: &Round) -> bool {
    let known = listed(round);
    is_whole_job(round) && round.members.own.values().any(|pod| is_listed(&known, pod))
}

/// Takes a suspended job up again, once the pods of its earlier life are gone (PT-SUS-5).
pub fn resume(round: &mut Round) {
    let leftovers: Vec<_> = round.members.own.values().copied().collect();
    if !leftovers.is_empty() {
        let going = leftovers.into_iter().filter(|pod| !pods::is_being_deleted(pod));
        return going.for_each(|pod| round.delete_pod(pod));
    }
    if [RESTARTS, RESTARTING].iter().any(|key| round.head.annotations.contains_key(*key)) {
        return note(round, json!({ RESTARTS: null, RESTARTING: null }));
    }
    let message = format!("{} is resumed.", round.title(false));
    let event = round.voice.normal(&round.job.row.reason("Resumed"), message.clone());
    if round.denied("Suspended", "Resumed", message) {
        round.plan.events.push(event);
    }
    round.status.start_time = Some(wire_time(round.now).0);
    // It may have to wait for its gang now; what is counted is of this life.
    for counters in round.status.replica_statuses.values_mut().filter(|_| !round.settings.is_strict) {
        (counters.active, counters.succeeded, counters.failed) = (0, 0, 0);
    }
}
