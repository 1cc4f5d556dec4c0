//! Facts about pods that several controllers ask for: is it active, ready, available, and which one goes first.

use super::seconds_since;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use std::cmp::Reverse;

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub fn is_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

pub fn is_failed(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

pub fn is_terminal(pod: &Pod) -> bool {
    is_succeeded(pod) || is_failed(pod)
}

pub fn is_being_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Counts towards what a controller wants: not finished and not being deleted.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_being_deleted(pod)
}

/// Its processes run, and nobody has asked them to stop.
pub fn is_running(pod: &Pod) -> bool {
    phase(pod) == "Running" && !is_being_deleted(pod)
}

/// Asked to stop, but its processes may still run.
pub fn is_terminating(pod: &Pod) -> bool {
    is_being_deleted(pod) && !is_terminal(pod)
}

pub fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Seconds until the pod has been ready for `seconds_min`: 0 when it is available, `None` while it is not ready.
pub fn available_in(pod: &Pod, seconds_min: i32, now: Timestamp) -> Option<i64> {
    if !is_ready(pod) {
        return None;
    }
    if seconds_min == 0 {
        return Some(0);
    }
    let since = ready_since(pod)?;
    Some((i64::from(seconds_min) - seconds_since(since, now)).max(0))
}

pub fn container_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

pub fn init_container_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default()
}

pub fn restarts_max(pod: &Pod) -> i32 {
    container_statuses(pod).iter().map(|status| status.restart_count).max().unwrap_or(0)
}

pub fn created_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// The order in which surplus pods go: the least useful first, so that little work is lost.
///
/// Not placed, not started, not ready, cheap to delete (`controller.kubernetes.io/pod-deletion-cost`), sharing its
/// node with more of its kind, ready for a shorter time, restarted more often, younger.
pub fn removal_order(pod: &Pod, crowd: usize) -> impl Ord + use<> {
    let is_placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let started = match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let cost = pod.metadata.annotations.as_ref().and_then(|map| map.get("controller.kubernetes.io/pod-deletion-cost"));
    let cost: i32 = cost.and_then(|text| text.parse().ok()).unwrap_or(0);
    let name = pod.metadata.name.clone();
    let ready_since = Reverse(ready_since(pod));
    let age = Reverse(created_at(pod));
    (is_placed, started, is_ready(pod), cost, Reverse(crowd), ready_since, Reverse(restarts_max(pod)), age, name)
}

/// When the pod ended: its last container's end, else when it stopped being ready, else when it was deleted.
pub fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let ends: Option<Vec<Timestamp>> = container_statuses(pod)
        .iter()
        .map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0))
        .collect();
    let last_end = ends.and_then(|ends| ends.into_iter().max());
    let unready = condition(pod, "Ready").filter(|ready| ready.status == "False");
    let unready_since = unready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    let deleted_at = pod.metadata.deletion_timestamp.as_ref().and_then(|time| {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Timestamp::from_second(time.0.as_second() - grace).ok()
    });
    last_end.or(unready_since).or(deleted_at)
}
