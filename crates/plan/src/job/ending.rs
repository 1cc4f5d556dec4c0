//! What goes when a job has ended: its pods, as far as its policy says, and in time the job itself.

use super::head::Head;
use crate::control::{Action, Plan, Propagation, Target, pods, seconds_since};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

/// Which pods a clean-up leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Volcano's "none", Kubeflow's `All`: every pod goes.
    Nothing,
    /// Volcano's "soft", Kubeflow's `Running`: those that have ended stay, with their logs.
    Ended,
}

/// Whether a clean-up deletes the pod; one that is being deleted already needs no second call.
pub fn must_go(pod: &Pod, keep: Keep) -> bool {
    let is_kept = match keep {
        Keep::Nothing => false,
        Keep::Ended => pods::is_terminal(pod),
    };
    !is_kept && !pods::is_being_deleted(pod)
}

pub fn delete_pod(pod: &Pod) -> Action {
    Action::Delete { target: Target::of(pod), propagation: Propagation::Background }
}

/// Deletes a finished job once its time to live is over, else asks to be back then.
pub fn expire(head: &Head, ttl: i64, finished: Timestamp, propagation: Propagation, now: Timestamp, plan: &mut Plan) {
    let left = ttl - seconds_since(finished, now);
    if left > 0 {
        plan.requeue(left);
    } else {
        plan.actions.push(Action::Delete { target: head.target.clone(), propagation });
    }
}
