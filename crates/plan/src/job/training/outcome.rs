//! How a job ends: which pods' ends end it, and with what words (spec PT 11 to 13, 22).

use super::conditions::{self, Said};
use super::restart;
use super::round::Round;
use crate::control::{Event, Plan, pods, to_value, wire_time};
use crate::job::head::Head;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use volley_api::kube::field::FieldError;
use volley_api::kubeflow::job::{Replica, RestartPolicy};
use volley_api::kubeflow::kinds::{Kind, Row};
use volley_api::kubeflow::types::JobStatus;

/// What a failed pod means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is deleted, and its slot filled again.
    Replace,
    /// The job fails, by a permanent exit code.
    Permanent,
    /// The job fails.
    Fatal,
    Ignore,
}

/// What is to be done about the pods of a job that goes on.
#[derive(Debug, Default)]
pub struct Course<'a> {
    /// Failed pods to be replaced, with their replica types.
    pub failing: Vec<(&'static str, &'a Pod)>,
}

pub enum Outcome<'a> {
    Ended,
    GoesOn(Course<'a>),
}

/// The exit code of the container that trains, if it has ended.
pub fn exit_code(round: &Round, replica: &Replica, pod: &Pod) -> Option<i32> {
    let index = replica.main_container(round.job.row)?;
    let name = replica.containers()[index].get("name").and_then(Value::as_str)?;
    let status = pods::container_statuses(pod).iter().find(|status| status.name == name)?;
    Some(status.state.as_ref()?.terminated.as_ref()?.exit_code)
}

/// A pod that counts as failed: a running one that is being deleted will not come back either (PT-RST-3).
pub fn is_failing(pod: &Pod) -> bool {
    pods::is_failed(pod) || (pods::phase(pod) == "Running" && pods::is_being_deleted(pod))
}

fn verdict(round: &Round, replica: &Replica, pod: &Pod) -> Verdict {
    const RETRYABLE_MIN: i32 = 128;
    let kind = round.job.row.kind;
    if kind == Kind::TensorFlow && round.job.has_dynamic_workers && replica.type_ == "Worker" {
        return Verdict::Ignore;
    }
    let replaces_failed = match kind {
        Kind::PyTorch | Kind::TensorFlow | Kind::Paddle | Kind::Jax => true,
        Kind::XgBoost | Kind::Mpi => false,
    };
    let own = match replica.restart_policy {
        RestartPolicy::ExitCode => {
            // How a pod ends that was told to go says nothing of its work.
            let code = exit_code(round, replica, pod).filter(|_| !pods::is_being_deleted(pod));
            if code.is_none_or(|code| code >= RETRYABLE_MIN) { Verdict::Replace } else { Verdict::Permanent }
        }
        RestartPolicy::Never => Verdict::Fatal,
        RestartPolicy::OnFailure | RestartPolicy::Always if replaces_failed => Verdict::Replace,
        RestartPolicy::OnFailure | RestartPolicy::Always => Verdict::Fatal,
    };
    if own == Verdict::Fatal && restart::is_whole_job(round) { Verdict::Replace } else { own }
}

/// Ends the job if its pods say so, replica type by replica type, success before failure (PT-REC-1).
pub fn judge<'a>(round: &mut Round<'a>) -> Outcome<'a> {
    let mut course = Course::default();
    let job = round.job;
    let listed = restart::listed(round);
    for replica in &job.replicas {
        if has_succeeded(round, replica) {
            succeed(round);
            return Outcome::Ended;
        }
        let failing: Vec<_> =
            round.slots(replica).into_iter().map(|(_, pod)| pod).filter(|pod| is_failing(pod)).collect();
        let of = |wanted: Verdict| {
            let unlisted = failing.iter().filter(|pod| !restart::is_listed(&listed, pod));
            unlisted.filter(|pod| verdict(round, replica, pod) == wanted).copied().collect::<Vec<_>>()
        };
        if !of(Verdict::Permanent).is_empty() {
            let message = format!("job \"{}\" is failing because \"{}\" replica(s) failed.", job.name, replica.type_);
            let event = round.voice.warning(&job.row.reason("Failed"), message.clone());
            end(round, "Failed", message, Some(event));
            return Outcome::Ended;
        }
        let fatal = of(Verdict::Fatal);
        if !fatal.is_empty() {
            fail_by_pods(round, replica, &fatal);
            return Outcome::Ended;
        }
        let replaced = failing.iter().filter(|pod| restart::is_listed(&listed, pod)).copied();
        let replaced: Vec<_> = replaced.chain(of(Verdict::Replace)).collect();
        course.failing.extend(replaced.into_iter().map(|pod| (replica.type_, pod)));
    }
    Outcome::GoesOn(course)
}

fn has_succeeded(round: &Round, replica: &Replica) -> bool {
    let job = round.job;
    let succeeded = round.counters(replica.type_).succeeded;
    if job.leader().is_some() {
        return job.row.leaders.contains(&replica.type_) && succeeded >= replica.count;
    }
    if replica.type_ != "Worker" {
        return false;
    }
    match job.row.kind {
        Kind::PyTorch if job.elastic.is_some() => succeeded > 0,
        Kind::TensorFlow if !job.waits_for_all_workers => {
            let first = round.slots(replica).into_iter().find(|(index, _)| *index == 0).map(|(_, pod)| pod);
            let is_done = |pod: &Pod| pods::is_succeeded(pod) && exit_code(round, replica, pod).unwrap_or(0) == 0;
            first.is_some_and(is_done) || succeeded >= replica.count
        }
        Kind::PyTorch | Kind::TensorFlow | Kind::Mpi | Kind::XgBoost | Kind::Paddle | Kind::Jax => {
            succeeded >= replica.count
        }
    }
}

/// Whether messages about the whole job name its namespace.
fn is_named_in_full(round: &Round) -> bool {
    matches!(round.job.row.kind, Kind::TensorFlow | Kind::Mpi) || round.job.leader().is_none()
}

fn succeed(round: &mut Round) {
    let is_full = is_named_in_full(round);
    let verb = if is_full { "successfully completed" } else { "is successfully completed" };
    let message = format!("{} {verb}.", round.title(is_full));
    let event = round.voice.normal(&round.job.row.reason("Succeeded"), message.clone());
    end(round, "Succeeded", message, Some(event));
}

fn fail_by_pods(round: &mut Round, replica: &Replica, fatal: &[&Pod]) {
    if round.job.row.kind == Kind::Mpi && fail_mpi(round, replica, fatal) {
        return;
    }
    let (count, type_) = (fatal.len(), replica.type_);
    let message = match round.job.row.kind {
        Kind::TensorFlow => format!("{} has failed because {count} {type_} replica(s) failed.", round.title(true)),
        Kind::PyTorch | Kind::Mpi | Kind::XgBoost | Kind::Paddle | Kind::Jax => {
            format!("{} is failed because {count} {type_} replica(s) failed.", round.title(false))
        }
    };
    fail(round, message);
}

/// MPI has words of its own for a failed launcher and for evicted workers.
fn fail_mpi(round: &mut Round, replica: &Replica, fatal: &[&Pod]) -> bool {
    let reason_of = |pod: &Pod| pod.status.as_ref().and_then(|status| status.reason.clone()).unwrap_or_default();
    let evicted = fatal.iter().filter(|pod| reason_of(pod) == "Evicted").count();
    let is_launcher = replica.type_ == "Launcher";
    let (message, word) = match (is_launcher, evicted) {
        (true, 0) => (format!("{} has failed", round.title(true)), "Failed"),
        (true, _) => (format!("{} has failed", round.title(true)), "Evicted"),
        (false, 0) => return false,
        (false, _) => (format!("{evicted}/{} workers are evicted", replica.count), "Evicted"),
    };
    let reason = round.job.row.reason(word);
    let said = Said { type_: "Failed", is_true: true, reason: reason.clone(), message: message.clone() };
    let event = round.voice.warning(&reason, message);
    if conditions::set(&mut round.status, said, round.now) {
        round.status.completion_time.get_or_insert(wire_time(round.now).0);
        round.plan.events.push(event);
    }
    true
}

/// Ends the job with a failure that is told as the reference tells most: as a normal event.
pub fn fail(round: &mut Round, message: String) {
    let event = round.voice.normal(&round.job.row.reason("Failed"), message.clone());
    end(round, "Failed", message, Some(event));
}

fn end(round: &mut Round, type_: &'static str, message: String, event: Option<Event>) {
    if round.said(type_, type_, message) {
        round.status.completion_time.get_or_insert(wire_time(round.now).0);
        round.plan.events.extend(event);
    }
}

/// The conditions of a job that goes on: it restarts, or runs, or waits as it did. Says whether a restart has begun.
pub fn report(round: &mut Round, course: &Course) -> bool {
    let is_active = is_running(round);
    if let Some((type_, _)) = course.failing.first() {
        let count = course.failing.iter().filter(|(other, _)| other == type_).count();
        let name = &round.job.name;
        // With its leader running, the reference words it from the counters, except a TFJob's.
        let message = if is_active && round.job.row.kind != Kind::TensorFlow {
            format!("{} is restarting because {count} {type_} replica(s) failed.", round.title(false))
        } else {
            format!("job {name} is restarting because {type_} replica(s) failed.")
        };
        let event = round.voice.warning(&round.job.row.reason("Restarting"), message.clone());
        let has_begun = round.said("Restarting", "Restarting", message);
        if has_begun {
            round.plan.events.push(event);
        }
        return has_begun;
    }
    if is_active {
        let message = format!("{} is running.", round.title(is_named_in_full(round)));
        round.said("Running", "Running", message);
    }
    false
}

fn is_running(round: &Round) -> bool {
    let job = round.job;
    match (job.row.kind, job.leader()) {
        (Kind::Mpi, Some(launcher)) => {
            // Workers that are too many say nothing of those that are wanted.
            let active =
                |replica: &Replica| round.slots(replica).into_iter().filter(|(_, pod)| pods::is_running(pod)).count();
            let mut others = job.replicas.iter().filter(|replica| replica.type_ != launcher.type_);
            round.counters(launcher.type_).active > 0
                && others.all(|replica| i32::try_from(active(replica)).is_ok_and(|active| active >= replica.count))
        }
        (_, Some(leader)) => round.counters(leader.type_).active > 0,
        (_, None) => round.counters("Worker").active > 0,
    }
}

/// Fails a job that nobody could have admitted, telling all that is wrong with it.
pub fn refuse(row: &'static Row, head: &Head, object: &Value, errors: &[FieldError], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let old: JobStatus =
        object.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()).unwrap_or_default();
    let mut status = old.clone();
    let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let message = format!("{} failed validation because {}", row.name, list.join("; "));
    let reason = row.reason("FailedValidation");
    let created = format!("{} {} is created.", row.name, head.name());
    let said = |type_, reason: String, message: String| Said { type_, is_true: true, reason, message };
    conditions::set(&mut status, said("Created", row.reason("Created"), created), now);
    if conditions::set(&mut status, said("Failed", reason.clone(), message.clone()), now) {
        status.completion_time.get_or_insert(wire_time(now).0);
        plan.events.push(head.voice(row.component).warning(&reason, message));
    }
    plan.actions.extend(head.write_status(&to_value(&old), &to_value(&status)));
    plan
}
