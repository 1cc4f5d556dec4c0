//! What a Deployment's status says: counts, and the conditions `Available`, `Progressing` and `ReplicaFailure`.

use super::deployment::Round;
use super::deployment_sets::Set;
use super::{Plan, name_of, seconds_since, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

struct Said<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    message: String,
}

/// Sets the counts and `Available`.
pub fn count(round: &mut Round) {
    let sum = |fact: fn(&Set) -> i32| round.sets.all().map(fact).sum::<i32>();
    let some = |number: i32| Some(number).filter(|number| *number != 0);
    let available = sum(Set::available);
    let updated = round.sets.new.map_or(0, |new| round.sets.list[new].actual());
    let status = &mut round.status;
    status.observed_generation = round.deployment.metadata.generation;
    status.replicas = some(sum(Set::actual));
    status.updated_replicas = some(updated);
    status.ready_replicas = some(sum(Set::ready));
    status.available_replicas = some(available);
    status.unavailable_replicas = some((round.sets.replicas() - available).max(0));
    status.terminating_replicas = Some(sum(Set::terminating));
    let is_available = available >= round.limits.replicas - round.limits.unavailable_max;
    let (status_text, reason, message) = if is_available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(status, Said { kind: AVAILABLE, status: status_text, reason, message: message.to_owned() }, round.now);
}

pub fn is_complete(deployment: &Deployment, status: Option<&DeploymentStatus>) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    status.is_some_and(|status| {
        let counts = [status.updated_replicas, status.replicas, status.available_replicas];
        counts.iter().all(|number| number.unwrap_or(0) == wanted)
            && status.observed_generation >= deployment.metadata.generation
    })
}

fn deadline(deployment: &Deployment) -> Option<i64> {
    let seconds = deployment.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds)?;
    Some(i64::from(seconds)).filter(|_| seconds != i32::MAX)
}

fn progressing(status: &DeploymentStatus) -> Option<&DeploymentCondition> {
    status.conditions.as_deref().unwrap_or_default().iter().find(|condition| condition.type_ == PROGRESSING)
}

/// A pause must not count as a lack of progress, so it is noted when it begins and when it ends.
pub fn note_pause(round: &mut Round) {
    if deadline(round.deployment).is_none() {
        return;
    }
    let reason = progressing(&round.status).and_then(|condition| condition.reason.as_deref());
    let is_paused = round.deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    let (reason, message) = match (is_paused, reason) {
        (_, Some("ProgressDeadlineExceeded")) | (true, Some("DeploymentPaused")) => return,
        (true, _) => ("DeploymentPaused", "Deployment is paused"),
        (false, Some("DeploymentPaused")) => ("DeploymentResumed", "Deployment is resumed"),
        (false, _) => return,
    };
    let said = Said { kind: PROGRESSING, status: "Unknown", reason, message: message.to_owned() };
    set(&mut round.status, said, round.now);
}

pub fn note_created(round: &mut Round, name: &str) {
    if deadline(round.deployment).is_some() {
        let message = format!("Created new replica set \"{name}\"");
        let said = Said { kind: PROGRESSING, status: "True", reason: "NewReplicaSetCreated", message };
        set(&mut round.status, said, round.now);
    }
}

pub fn note_found(round: &mut Round, name: &str) {
    if deadline(round.deployment).is_some() && progressing(&round.status).is_none() {
        let message = format!("Found new replica set \"{name}\"");
        let said = Said { kind: PROGRESSING, status: "True", reason: "FoundNewReplicaSet", message };
        set(&mut round.status, said, round.now);
    }
}

/// Sets `Progressing` by what has changed since the last status, and `ReplicaFailure` by the sets' own.
pub fn note_progress(round: &mut Round, plan: &mut Plan) {
    match deadline(round.deployment) {
        Some(seconds) => judge_progress(round, seconds, plan),
        None => remove(&mut round.status, PROGRESSING),
    }
    let new = round.sets.new.map(|new| &round.sets.list[new]);
    let failure = new.into_iter().chain(round.sets.all()).find_map(Set::failure);
    match failure {
        Some((reason, message)) => {
            let said = Said { kind: REPLICA_FAILURE, status: "True", reason: &reason, message };
            set(&mut round.status, said, round.now);
        }
        None => remove(&mut round.status, REPLICA_FAILURE),
    }
}

fn judge_progress(round: &mut Round, seconds: i64, plan: &mut Plan) {
    let empty = DeploymentStatus::default();
    let before = round.deployment.status.as_ref().unwrap_or(&empty);
    let known_reason = progressing(before).and_then(|condition| condition.reason.clone());
    let is_rolled_out = round.status.replicas == round.status.updated_replicas;
    if is_rolled_out && known_reason.as_deref() == Some("NewReplicaSetAvailable") {
        return;
    }
    let subject = match round.sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", round.sets.list[new].name()),
        None => format!("Deployment \"{}\"", name_of(&round.deployment.metadata)),
    };
    let said =
        |status, reason, words: &str| Said { kind: PROGRESSING, status, reason, message: format!("{subject} {words}") };
    if is_complete(round.deployment, Some(&round.status)) {
        set(&mut round.status, said("True", "NewReplicaSetAvailable", "has successfully progressed."), round.now);
    } else if has_progressed(before, &round.status) {
        let since =
            progressing(&round.status).filter(|c| c.status == "True").and_then(|c| c.last_transition_time.clone());
        // The same reason again still renews the time from which the deadline counts.
        remove(&mut round.status, PROGRESSING);
        set(&mut round.status, said("True", "ReplicaSetUpdated", "is progressing."), round.now);
        let renewed = round.status.conditions.as_mut().and_then(|conditions| conditions.last_mut());
        if let (Some(renewed), Some(since)) = (renewed, since) {
            renewed.last_transition_time = Some(since);
        }
    } else if let Some(left) = deadline_left(&round.status, seconds, round.now) {
        if left < 0 {
            set(&mut round.status, said("False", "ProgressDeadlineExceeded", "has timed out progressing."), round.now);
        } else {
            plan.requeue(left + 1);
        }
    }
}

fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// Seconds until the rollout counts as stuck, `None` when that is not in question.
fn deadline_left(status: &DeploymentStatus, seconds: i64, now: Timestamp) -> Option<i64> {
    let condition = progressing(status)?;
    if matches!(condition.reason.as_deref(), Some("NewReplicaSetAvailable" | "ProgressDeadlineExceeded")) {
        return None;
    }
    let updated = condition.last_update_time.as_ref()?.0;
    Some(seconds - seconds_since(updated, now))
}

fn remove(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = status.conditions.as_mut() {
        conditions.retain(|condition| condition.type_ != kind);
    }
}

/// Replaces a condition unless status and reason are the same; the transition time moves only with the status.
fn set(status: &mut DeploymentStatus, said: Said, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter().find(|condition| condition.type_ == said.kind);
    let same_status = known.filter(|known| known.status == said.status);
    if same_status.is_some_and(|known| known.reason.as_deref() == Some(said.reason)) {
        return;
    }
    let since = same_status.and_then(|known| known.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != said.kind);
    conditions.push(DeploymentCondition {
        type_: said.kind.to_owned(),
        status: said.status.to_owned(),
        reason: Some(said.reason.to_owned()),
        message: Some(said.message),
        last_update_time: Some(wire_time(now)),
        last_transition_time: Some(since.unwrap_or_else(|| wire_time(now))),
    });
}
