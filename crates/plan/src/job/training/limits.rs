//! The limits of a running job: restarts and time (spec PT 11.4, 15.3).

use super::restart;
use super::round::Round;
use crate::control::{pods, seconds_since};
use crate::job::members;
use k8s_openapi::api::core::v1::Pod;
use volley_api::kubeflow::job::RestartPolicy;

/// The message of the limit that the job has passed; otherwise asks to be back when its time is up.
pub fn exceeded(round: &mut Round) -> Option<String> {
    let name = &round.job.name;
    if exceeds_backoff(round) {
        return Some(format!("Job {name} has failed because it has reached the specified backoff limit"));
    }
    let limit = round.job.run_policy.active_deadline_seconds?;
    let started = round.status.start_time?;
    let left = limit - seconds_since(started, round.now);
    if left <= 0 {
        return Some(format!("Job {name} has failed because it was active longer than specified deadline"));
    }
    round.plan.requeue(left);
    None
}

fn exceeds_backoff(round: &Round) -> bool {
    let Some(limit) = round.job.run_policy.backoff_limit else {
        return false;
    };
    let counted = round.job.replicas.iter().filter(|replica| replica.restart_policy != RestartPolicy::Never);
    let running = counted.flat_map(|replica| round.pods_of(replica.type_));
    let running = running.map(|(_, pod)| pod).filter(|pod| pods::phase(pod) == "Running");
    let restarts = running.map(members::restarts).fold(restart::count(round), i32::saturating_add);
    if limit == 0 { restarts > 0 || has_new_failure(round) } else { restarts >= limit }
}

/// More pods have failed than the status knows of, and not all replicas are active (PT-BKF-3).
fn has_new_failure(round: &Round) -> bool {
    let pods: Vec<&Pod> = round.members.own.values().copied().collect();
    let failed = pods.iter().filter(|pod| pods::is_failed(pod)).count();
    let active = pods.iter().filter(|pod| pods::is_active(pod)).count();
    let recorded: i32 = round.job.status.replica_statuses.values().map(|counters| counters.failed).sum();
    let total = usize::try_from(round.job.total()).unwrap_or(0);
    failed > usize::try_from(recorded).unwrap_or(0) && active != total
}
