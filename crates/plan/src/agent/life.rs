//! What an agent does next for one item: lease, resolve, build, render, submit, track, settle.
//!
//! A pure function of what is seen. Every deed may be done twice, and is guarded: the server by the lease, the cluster by
//! the name that belongs to the attempt. A workload carries our finalizer from its creation until its end has been told,
//! so an absent workload of a claimed item was never submitted.

use super::failure::with_last_lines;
use super::state::State;
use super::trouble::Trouble;
use jiff::{SignedDuration, Timestamp};

/// After this many preemptions an item fails.
pub const ATTEMPTS_MAX: u32 = 6;

/// An item as the server has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Pending,
    Leased,
    Claimed,
    /// It has its end, or was deleted.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    pub standing: Standing,
    /// This agent holds its lease.
    pub is_mine: bool,
    /// The agent that holds it has not been heard of for so long that another may take over.
    pub is_orphaned: bool,
    pub attempt: u32,
    pub is_stop_asked: bool,
}

/// The image that the item will run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    Ready,
    /// Has to be built; its tag is made from its contents, so building again finds it.
    Missing,
    Building,
    Failed(String),
}

/// The workload of one attempt, as the cluster has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub state: State,
    pub since: Timestamp,
    pub is_being_deleted: bool,
    /// It carries our finalizer.
    pub is_held: bool,
    /// Why we are taking it away, written on it before it is deleted.
    pub verdict: Option<String>,
    /// Secrets and services have it as their owner.
    pub owns_its_own: bool,
    /// The cluster took one of its pods.
    pub is_disrupted: bool,
    pub failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub item: Item,
    pub image: Image,
    /// What stands against the launch: a job that is gone, or rendering's refusals.
    pub refusal: Option<String>,
    /// The workload of the item's present attempt.
    pub workload: Option<Workload>,
    /// A workload of an earlier attempt is still there.
    pub has_older: bool,
    /// Pods of any attempt that still run or wait.
    pub pods: usize,
    /// Of these, pods that nobody takes away although their workload is being deleted: somebody deleted it without them,
    /// and it waits for us.
    pub strays: usize,
    /// Secrets or services of the item are there.
    pub has_helpers: bool,
    pub trouble: Option<Trouble>,
    /// The queue wants every launch to track a run, and none has appeared.
    pub lacks_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Take over an item whose agent is gone.
    Adopt,
    Acknowledge,
    Build,
    CancelBuild,
    /// Secrets, services, then the workload; what is there already stays.
    Submit,
    /// Make the workload the owner of its secrets and services.
    Own,
    /// Write on the workload why it is taken away.
    Mark(String),
    /// Delete the workload with its pods.
    Delete,
    DeleteOlder,
    Finish,
    Fail {
        stage: Stage,
        reason: String,
    },
    Stopped,
    /// The next attempt waits in the queue, at its old place.
    Requeue,
    /// Take our finalizer off: the end was told.
    Release,
    ReleaseOlder,
    /// Remove secrets and services that no workload owns.
    Sweep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Agent,
    Build,
    Run,
}

/// What to do now, in this order, and why nothing more is done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub deeds: Vec<Deed>,
    /// In words for people: what the item waits for.
    pub waits_for: Option<String>,
}

impl Plan {
    fn of(deeds: impl Into<Vec<Deed>>) -> Plan {
        Plan { deeds: deeds.into(), waits_for: None }
    }

    fn wait(reason: impl Into<String>) -> Plan {
        Plan { deeds: Vec::new(), waits_for: Some(reason.into()) }
    }
}

/// How long a workload may take to start; none means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    pub start: Option<SignedDuration>,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { start: Some(SignedDuration::from_mins(30)) }
    }
}

pub fn plan(seen: &Seen, timers: &Timers, now: Timestamp) -> Plan {
    let item = &seen.item;
    match item.standing {
        Standing::Ended => clean(seen),
        // An earlier attempt is cleared away by whoever sees it, also while the next one waits.
        Standing::Pending => clear_older(seen).unwrap_or_default(),
        Standing::Leased | Standing::Claimed if !item.is_mine => match item.is_orphaned {
            true => Plan::of([Deed::Adopt]),
            false => Plan::default(),
        },
        Standing::Leased | Standing::Claimed if item.is_stop_asked => stop(seen),
        Standing::Leased => Plan::of([Deed::Acknowledge]),
        Standing::Claimed => match &seen.workload {
            None => start(seen),
            Some(workload) => track(seen, workload, timers, now),
        },
    }
}

/// The item has ended: nothing of it stays held, nothing of it stays running.
fn clean(seen: &Seen) -> Plan {
    let mut deeds = Vec::new();
    if let Some(workload) = &seen.workload {
        if !workload.is_being_deleted && !workload.state.is_final() {
            deeds.push(Deed::Delete);
        }
        if workload.is_held {
            deeds.push(Deed::Release);
        }
    }
    deeds.extend(clear_older(seen).unwrap_or_default().deeds);
    if seen.has_helpers && seen.workload.as_ref().is_none_or(|workload| !workload.owns_its_own) {
        deeds.push(Deed::Sweep);
    }
    Plan::of(deeds)
}

fn clear_older(seen: &Seen) -> Option<Plan> {
    seen.has_older.then(|| Plan {
        deeds: vec![Deed::DeleteOlder, Deed::ReleaseOlder],
        waits_for: Some("the attempt before it is going away".to_owned()),
    })
}

/// Nothing runs any more before "stopped" is said.
fn stop(seen: &Seen) -> Plan {
    if seen.has_older {
        return clear_older(seen).unwrap_or_default();
    }
    match &seen.workload {
        Some(workload) if !workload.is_being_deleted || seen.strays > 0 => Plan::of([Deed::Delete]),
        _ if seen.pods > 0 => Plan::wait(stopping(seen.pods)),
        Some(_) => Plan::of([Deed::Stopped, Deed::Release, Deed::Sweep]),
        None if seen.image == Image::Building => Plan::of([Deed::CancelBuild, Deed::Stopped, Deed::Sweep]),
        None => Plan::of([Deed::Stopped, Deed::Sweep]),
    }
}

/// Claimed and never submitted: all that must be there before it is.
fn start(seen: &Seen) -> Plan {
    let fail = |stage, reason: &str| Plan::of([Deed::Fail { stage, reason: reason.to_owned() }, Deed::Sweep]);
    if let Some(refusal) = &seen.refusal {
        return fail(Stage::Agent, refusal);
    }
    if let Some(plan) = clear_older(seen) {
        return plan;
    }
    match &seen.image {
        Image::Failed(reason) => fail(Stage::Build, reason),
        Image::Missing => Plan { deeds: vec![Deed::Build], waits_for: Some("building image".to_owned()) },
        Image::Building => Plan::wait("building image"),
        // Pods of the attempt before may outlive their workload; they hold what this one asks for.
        Image::Ready if seen.pods > 0 => Plan::wait(format!("{} pods of the attempt before are stopping", seen.pods)),
        Image::Ready => Plan::of([Deed::Submit, Deed::Own]),
    }
}

fn track(seen: &Seen, workload: &Workload, timers: &Timers, now: Timestamp) -> Plan {
    if workload.is_being_deleted {
        return deleted(seen, workload);
    }
    match workload.state {
        State::Finished => settle(finished(seen)),
        State::Failed if workload.is_disrupted => preempted(seen),
        State::Failed => {
            let reason = workload.failure.clone().unwrap_or_else(|| "the workload failed".to_owned());
            settle(Deed::Fail { stage: Stage::Run, reason })
        }
        State::Stopped => {
            settle(Deed::Fail { stage: Stage::Run, reason: "the workload was stopped in the cluster".to_owned() })
        }
        State::Unknown | State::Waiting | State::Starting | State::Running | State::Stopping => {
            going_on(seen, workload, timers, now)
        }
    }
}

/// Success is the workload's own, unless the queue asks for more (L-21).
fn finished(seen: &Seen) -> Deed {
    let reason = "it ended well without tracking a run, which its queue asks for".to_owned();
    if seen.lacks_run { Deed::Fail { stage: Stage::Run, reason } } else { Deed::Finish }
}

/// The end is told first, then the workload is let go.
fn settle(end: Deed) -> Plan {
    Plan::of([end, Deed::Release, Deed::Sweep])
}

fn preempted(seen: &Seen) -> Plan {
    if seen.item.attempt < ATTEMPTS_MAX {
        return Plan::of([Deed::Requeue, Deed::DeleteOlder, Deed::ReleaseOlder]);
    }
    let reason = format!("the cluster preempted it {} times", seen.item.attempt);
    settle(Deed::Fail { stage: Stage::Run, reason })
}

fn stopping(pods: usize) -> String {
    match pods {
        1 => "1 pod is stopping".to_owned(),
        _ => format!("{pods} pods are stopping"),
    }
}

/// Gone by our own verdict, by the cluster's, or by somebody's hand.
fn deleted(seen: &Seen, workload: &Workload) -> Plan {
    if seen.strays > 0 {
        return Plan::of([Deed::Delete]);
    }
    if seen.pods > 0 {
        return Plan::wait(stopping(seen.pods));
    }
    match (&workload.verdict, workload.state) {
        (Some(reason), _) => settle(Deed::Fail { stage: Stage::Agent, reason: reason.clone() }),
        (None, State::Finished) => settle(finished(seen)),
        (None, _) if workload.is_disrupted => preempted(seen),
        (None, State::Failed) => {
            let reason = workload.failure.clone().unwrap_or_else(|| "the workload failed".to_owned());
            settle(Deed::Fail { stage: Stage::Run, reason })
        }
        (None, _) => settle(Deed::Fail { stage: Stage::Run, reason: "deleted externally".to_owned() }),
    }
}

fn going_on(seen: &Seen, workload: &Workload, timers: &Timers, now: Timestamp) -> Plan {
    let is_starting = matches!(workload.state, State::Unknown | State::Starting);
    let is_late = timers.start.is_some_and(|limit| is_starting && now.duration_since(workload.since) >= limit);
    let may_wait = seen.trouble.as_ref().is_some_and(|trouble| trouble.cause.grace().is_none());
    let verdict = match &seen.trouble {
        Some(trouble) if trouble.is_past_grace(now) => {
            let told = format!("{}: {}", trouble.cause.name(), trouble.message);
            Some(with_last_lines(told, &trouble.last_lines))
        }
        _ if is_late && !may_wait => Some(match &seen.trouble {
            Some(trouble) => format!("it did not start in time: {}", trouble.message),
            None => "it did not start in time".to_owned(),
        }),
        _ => None,
    };
    let mut plan = match (&workload.verdict, verdict) {
        // Marked before a crash, not deleted yet.
        (Some(_), _) => Plan::of([Deed::Delete]),
        (None, Some(reason)) => Plan::of([Deed::Mark(reason), Deed::Delete]),
        (None, None) => Plan::default(),
    };
    if !workload.owns_its_own && seen.has_helpers {
        plan.deeds.insert(0, Deed::Own);
    }
    plan.waits_for = seen.trouble.as_ref().map(|trouble| trouble.message.clone());
    plan
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
