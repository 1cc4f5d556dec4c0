//! The Volcano Job controller: what to create, take away and write for one Job (spec/volcano.md 3 to 5).
//!
//! `plan` looks at the Job and all that belongs to it. `decide` finds what has happened and what a policy or command
//! makes of it, `phase` is the table of transitions, `begin` starts one, `settle` goes on with a phase, `sync` makes what
//! is missing (`resources`, `volumes`, `group`, `pod`, `plugins`). What must survive a restart is in `memory`.
//! The status is written before pods are taken away, so a crash between any two writes is made good by planning again.

pub mod phase;

mod memory;
mod round;

mod decide;
mod policy;

mod begin;
mod settle;
mod sync;

pub(super) mod group;
mod plugins;
mod pod;
mod resources;
mod volumes;

pub mod failure;

#[cfg(test)]
mod tests;

use crate::control::{Action, Plan, Propagation};
use crate::job::head::target_of;
use decide::Decision;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use phase::{Deed, Phase};
use round::Round;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::field::FieldError;
use volley_api::kube::{items_mut, text};
use volley_api::volcano::types::JobSpec;
use volley_api::volcano::{defaults, types, validate};

/// A Job and what belongs to it, all of its namespace.
#[derive(Debug)]
pub struct Observed<'a> {
    pub job: &'a Value,
    /// At least those that the Job controls and those that have a name of its pods.
    pub pods: &'a [Pod],
    /// Services, ConfigMaps, Secrets, NetworkPolicies, PodGroups and claims: those that the Job controls or names.
    pub objects: &'a [Value],
    pub commands: &'a [Value],
    /// The Job's queue, if there is one of that name.
    pub queue: Option<&'a Value>,
    /// Values of the priority classes.
    pub priorities: &'a BTreeMap<String, i64>,
    /// A fresh pair, needed when `wants_key` says so.
    pub key: Option<&'a SshKey>,
}

/// An RSA pair: PKCS#1 PEM and a line of `authorized_keys`.
#[derive(Debug, Clone, PartialEq)]
pub struct SshKey {
    pub private: String,
    pub public: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `compat: strict`: upstream's quirks are kept.
    pub is_strict: bool,
    /// The scheduler of Jobs that name none.
    pub scheduler: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { is_strict: false, scheduler: "volcano".to_owned() }
    }
}

pub fn plan(seen: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    plan_for(seen, settings, now, None)
}

/// What to do when the plans of a Job have failed `TRIES_MAX` times for a reason that will not go away: end it (CTL-3).
///
/// The shell tells such reasons by `failure::is_permanent`; a server that is merely busy is no reason to give up.
pub fn give_up(seen: &Observed, settings: &Settings, now: Timestamp, error: &str) -> Plan {
    let message = format!("retry limit reached: {error}");
    let (reason, deed) = ("RetryLimitReached".to_owned(), Deed::TerminateJob);
    let decision = Decision { deed, victims: None, reason, message, command: None };
    plan_for(seen, settings, now, Some(decision))
}

fn plan_for(seen: &Observed, settings: &Settings, now: Timestamp, forced: Option<Decision>) -> Plan {
    let mut plan = Plan::default();
    if !text(seen.job, "metadata.deletionTimestamp").is_empty() {
        // The garbage collector takes away what the Job owns (CTL-4).
        return plan;
    }
    let mut job = seen.job.clone();
    defaults::job(&mut job, &settings.scheduler);
    let (spec, unreadable) = match types::job_spec(&job) {
        Ok(spec) => (spec, None),
        Err(error) => (JobSpec::default(), Some(error)),
    };
    // To go on from a status that cannot be read would be to begin anew.
    let Ok(status) = types::job_status(&job) else {
        return plan;
    };
    let mut round = Round::new(seen, settings, now, spec, status);
    let Some(phase) = Phase::read(&round.old.state.phase) else {
        round.enter(Phase::Pending);
        round.write(&mut plan);
        return plan;
    };
    // A Job that has pods was judged before it got them; on a cluster without our admission this is its only check.
    if phase == Phase::Pending && round.members.own.is_empty() && !is_sound(&mut round, &mut job, unreadable, &mut plan)
    {
        return plan;
    }
    settle::forget_served_commands(&mut round, &mut plan);
    if !phase.is_final() {
        round.observe();
    }
    let decision = forced.filter(|_| phase.heeds_events()).or_else(|| decide::decide(&mut round, phase, &mut plan));
    if round.must_write_first {
        round.write(&mut plan);
        return plan;
    }
    match decision {
        Some(decision) => begin::begin(&mut round, decision, phase, &mut plan),
        None => settle::settle(&mut round, phase, &mut plan),
    }
    plan
}

/// Whether the Job is one that could have been admitted; if not, its status says why.
fn is_sound(round: &mut Round, job: &mut Value, unreadable: Option<FieldError>, plan: &mut Plan) -> bool {
    // A claim that we have named ourselves has a name and a spec, which a user may not give both.
    for volume in items_mut(job, "spec.volumes").filter(|volume| !volume["volumeClaim"].is_null()) {
        volume["volumeClaimName"] = Value::Null;
    }
    let problems = unreadable.map_or_else(|| validate::job_create(job), |error| vec![error]);
    if problems.is_empty() {
        return true;
    }
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    round.wait(plan, "InvalidSpec", texts.join("; "));
    round.write(plan);
    false
}

/// Whether the Job needs an SSH key pair that `Observed::key` must hold.
pub fn wants_key(job: &Value, objects: &[Value]) -> bool {
    plugins::ssh::wants_key(job, objects)
}

/// A deletion that keeps what depends on the object until it is gone by itself.
fn delete(object: &Value) -> Action {
    Action::Delete { target: target_of(object), propagation: Propagation::Background }
}
