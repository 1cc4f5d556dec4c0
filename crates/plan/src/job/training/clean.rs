//! What goes when a job has ended or is suspended: pods, services, PodGroup, autoscaler, in time the job (PT 14, 15).

use super::round::Round;
use super::{autoscaler, conditions, group, pods};
use crate::control::{Action, Propagation, pods as pod_facts, seconds_since};
use crate::job::ending;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use std::collections::BTreeSet;
use volley_api::kube::text;
use volley_api::kubeflow::job::CleanPodPolicy;

impl Round<'_> {
    pub fn delete_pod(&mut self, pod: &Pod) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.plan.actions.push(ending::delete_pod(pod));
        self.plan.events.push(self.voice.normal("SuccessfulDeletePod", format!("Deleted pod: {name}")));
    }

    pub fn delete_service(&mut self, service: &Value) {
        if self.delete(service) {
            let message = format!("Deleted service: {}", text(service, "metadata.name"));
            self.plan.events.push(self.voice.normal("SuccessfulDeleteService", message));
        }
    }
}

/// The pass of a job that has ended.
pub fn finish(round: &mut Round) {
    if is_expired(round) {
        return;
    }
    remove(round, clean_pod_policy(round));
    group::remove(round);
    if !round.settings.is_strict {
        autoscaler::remove(round);
    }
    settle_counters(round);
}

fn clean_pod_policy(round: &Round) -> CleanPodPolicy {
    let word = round.job.run_policy.clean_pod_policy.as_deref();
    word.and_then(CleanPodPolicy::parse).unwrap_or(round.settings.clean_pod_policy)
}

/// Deletes the job when its time to live is over, else asks to be back then (PT-TTL-1).
fn is_expired(round: &mut Round) -> bool {
    let Some(ttl) = round.job.run_policy.ttl_seconds_after_finished else {
        return false;
    };
    let end = conditions::terminal(&round.status).and_then(|condition| condition.last_transition_time);
    let finished = round.status.completion_time.or(end).unwrap_or(Timestamp::UNIX_EPOCH);
    let left = i64::from(ttl) - seconds_since(finished, round.now);
    if left > 0 {
        round.plan.requeue(left);
        return false;
    }
    let target = round.head.target.clone();
    round.plan.actions.push(Action::Delete { target, propagation: Propagation::Background });
    let message = format!("Deleted job: {}", round.job.name);
    round.plan.events.push(round.voice.normal("SuccessfulDeletePod", message));
    true
}

/// Deletes the pods that the policy does not keep, and every service whose pod is not kept.
fn remove(round: &mut Round, policy: CleanPodPolicy) {
    let keeps = |pod: &&Pod| match policy {
        CleanPodPolicy::None => true,
        CleanPodPolicy::Running => pod_facts::is_terminal(pod),
        CleanPodPolicy::All => false,
    };
    if policy == CleanPodPolicy::None {
        return pods::open_gates(round);
    }
    let own: Vec<&Pod> = round.members.own.values().copied().collect();
    let kept: BTreeSet<&str> =
        own.iter().copied().filter(keeps).filter_map(|pod| pod.metadata.name.as_deref()).collect();
    for pod in own.iter().copied().filter(|pod| !keeps(pod) && !pod_facts::is_being_deleted(pod)) {
        round.delete_pod(pod);
    }
    let services: Vec<_> = round.services.iter().filter(|(name, _)| !kept.contains(*name)).map(|(_, s)| *s).collect();
    services.into_iter().for_each(|service| round.delete_service(service));
}

/// A succeeded job's remaining pods count as succeeded (PT-STA-3); a failed one's are counted as they are (PT-STA-4).
fn settle_counters(round: &mut Round) {
    if conditions::is_true(&round.status, "Succeeded") {
        for counters in round.status.replica_statuses.values_mut() {
            counters.succeeded += std::mem::take(&mut counters.active);
        }
        return;
    }
    if round.settings.is_strict {
        return;
    }
    let before = round.status.replica_statuses.clone();
    round.count();
    for replica in &round.job.replicas {
        let failed = round.pods_of(replica.type_).iter().filter(|(_, pod)| pod_facts::is_failed(pod)).count();
        let old = before.get(replica.type_).cloned().unwrap_or_default();
        if let Some(counters) = round.status.replica_statuses.get_mut(replica.type_) {
            // What is cleaned up has still ended as it did.
            counters.failed = old.failed.max(i32::try_from(failed).unwrap_or(i32::MAX));
            counters.succeeded = old.succeeded.max(counters.succeeded);
        }
    }
}

/// The pass of a suspended job: nothing of it may be left running (PT-SUS-1, PT-SUS-2).
pub fn suspend(round: &mut Round) {
    remove(round, CleanPodPolicy::All);
    group::remove(round);
    autoscaler::remove(round);
    for counters in round.status.replica_statuses.values_mut() {
        counters.active = 0;
    }
    let message = format!("{} is suspended.", round.title(false));
    if conditions::is_true(&round.status, "Running") {
        round.denied("Running", "Suspended", message.clone());
    }
    let event = round.voice.normal(&round.job.row.reason("Suspended"), message.clone());
    if round.said("Suspended", "Suspended", message) {
        round.plan.events.push(event);
    }
}
