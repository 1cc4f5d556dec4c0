//! Where a pod is heading: it runs on, or it ends, and why. Both the plan and the status follow from this.

use super::seen::{Sandbox, Seen};
use super::{Role, all_containers, is_terminal, later, main_containers, restart, spec};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

const GRACE_DEFAULT_S: i64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    Run,
    End(Ending),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The node did not admit it.
    Rejected,
    /// Its stored phase is terminal, and that is final.
    Over,
    Deleted,
    Evicted,
    DeadlineExceeded,
    /// Its main containers are done, or its initialisation failed for good.
    Finished,
}

pub fn course(pod: &Pod, seen: &Seen, now: Timestamp) -> Course {
    if seen.rejected.is_some() {
        Course::End(Ending::Rejected)
    } else if is_terminal(pod) {
        Course::End(Ending::Over)
    } else if pod.metadata.deletion_timestamp.is_some() {
        Course::End(Ending::Deleted)
    } else if seen.eviction.is_some() {
        Course::End(Ending::Evicted)
    } else if deadline(pod, seen).is_some_and(|deadline| deadline <= now) {
        Course::End(Ending::DeadlineExceeded)
    } else if is_finished(pod, seen) {
        Course::End(Ending::Finished)
    } else {
        Course::Run
    }
}

/// How long the pod's containers have between the request to stop and their death.
pub fn grace_seconds(pod: &Pod, seen: &Seen) -> i64 {
    let own = spec(pod).and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(GRACE_DEFAULT_S);
    let grace = if pod.metadata.deletion_timestamp.is_some() {
        pod.metadata.deletion_grace_period_seconds.unwrap_or(own)
    } else {
        own
    };
    seen.eviction.as_ref().map_or(grace, |eviction| eviction.grace_seconds.min(grace))
}

/// When `activeDeadlineSeconds` runs out, counted from the pod's start on the node.
pub fn deadline(pod: &Pod, seen: &Seen) -> Option<Timestamp> {
    let seconds = spec(pod)?.active_deadline_seconds?;
    let stored = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    Some(later(stored.or(seen.accepted_at)?, seconds))
}

fn is_finished(pod: &Pod, seen: &Seen) -> bool {
    let mut mains = main_containers(pod).iter();
    has_failed_to_initialise(pod, seen)
        || has_died_with_its_sandbox(pod, seen)
        || mains.all(|container| {
            let exit = seen.container(&container.name).exited();
            exit.is_some_and(|exit| !restart::is_restarted(pod, Role::Main, container, exit))
        })
}

/// An init container failed and its policy does not try again.
pub fn has_failed_to_initialise(pod: &Pod, seen: &Seen) -> bool {
    all_containers(pod).filter(|(role, _)| *role == Role::Init).any(|(role, container)| {
        let exit = seen.container(&container.name).exited();
        exit.is_some_and(|exit| exit.code != 0 && !restart::is_restarted(pod, role, container, exit))
    })
}

/// The sandbox went after containers had run in it, and the pod's policy forbids a second one.
pub fn has_died_with_its_sandbox(pod: &Pod, seen: &Seen) -> bool {
    let is_lost = match seen.sandbox {
        Sandbox::Ended => true,
        Sandbox::Absent | Sandbox::Failed(_) => seen.sandbox_number > 0,
        Sandbox::Making | Sandbox::Ready => false,
    };
    let has_run = seen.containers.values().any(|container| container.attempt().is_some());
    is_lost && has_run && !restart::survives_sandbox_loss(pod)
}
