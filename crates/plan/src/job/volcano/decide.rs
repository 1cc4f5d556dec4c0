//! What has happened to a Job, and what is to be done about it: commands first, then delays that are over, then events.
//!
//! Events are read off what is there (SM 4.2), never off what was seen change: a controller that was away misses none.

use super::memory::{Timer, Victims};
use super::phase::{Deed, Phase, Step, step};
use super::policy;
use super::resources::is_stale;
use super::round::Round;
use crate::control::{Plan, name_of, pods};
use crate::job::members::{Slot, first_failure, restarts};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use volley_api::kube::{text, time};
use volley_api::volcano::BATCH;
use volley_api::volcano::types::Task;

const TASK_RETRIES: i32 = 3;

/// Something to be done that leads to another phase.
#[derive(Debug)]
pub struct Decision {
    pub deed: Deed,
    /// What a restart of a part takes away.
    pub victims: Option<Victims>,
    pub reason: String,
    pub message: String,
    /// The command that asked for it.
    pub command: Option<Value>,
}

/// Something that has happened.
struct Happening {
    event: &'static str,
    at: Timestamp,
    slot: Option<Slot>,
    pod: String,
    exit_code: Option<i32>,
}

impl Happening {
    fn of(event: &'static str, at: Timestamp, slot: &Slot, pod: &Pod) -> Happening {
        let pod = name_of(&pod.metadata).to_owned();
        Happening { event, at, slot: Some(slot.clone()), pod, exit_code: None }
    }

    fn message(&self) -> String {
        let code = self.exit_code.map_or(String::new(), |code| format!(" with exit code {code}"));
        match (&*self.pod, self.event) {
            ("", _) => "the pod group is unknown".to_owned(),
            (pod, "PodFailed") => format!("pod {pod} failed{code}"),
            (pod, "PodEvicted") => format!("pod {pod} was removed"),
            (pod, "PodPending") => format!("pod {pod} is pending"),
            (pod, event) => format!("{event} by pod {pod}"),
        }
    }
}

/// The next thing to do, if any leads to another phase. Delays that begin are noted in the round.
pub fn decide(round: &mut Round, phase: Phase, plan: &mut Plan) -> Option<Decision> {
    if let Some(decision) = commanded(round, phase, plan) {
        return Some(decision);
    }
    if !phase.heeds_events() {
        return None;
    }
    if let Some(decision) = due(round, phase, plan) {
        return Some(decision);
    }
    for happening in happenings(round) {
        let task = happening.slot.as_ref().and_then(|slot| round.spec.task(&slot.0));
        let Some(policy) = policy::find(&round.spec, task, happening.event, happening.exit_code).cloned() else {
            continue;
        };
        let deed = Deed::read(&policy.action);
        let why = format!("{}: {} by policy", happening.message(), deed.name());
        let decision = decided(round, phase, deed, happening.slot.as_ref(), (happening.event, why));
        match policy.delay() {
            _ if decision.is_none() => {}
            Some(delay) => postpone(round, &happening, (deed, delay), plan),
            None => return decision,
        }
    }
    pending_too_long(round, phase, plan)
}

/// A decision, if the deed leads anywhere from here and names what it needs to.
fn decided(
    round: &Round,
    phase: Phase,
    deed: Deed,
    slot: Option<&Slot>,
    (reason, message): (&str, String),
) -> Option<Decision> {
    if step(phase, deed, round.settings.is_strict) == Step::Go {
        return None;
    }
    let victims = slot.and_then(|slot| match deed {
        Deed::RestartTask => Some(Victims::Task(slot.0.clone())),
        Deed::RestartPod => Some(Victims::Pod(slot.0.clone(), slot.1)),
        Deed::RestartPartition => Some(Victims::Partition(slot.0.clone(), round.partition(slot)?)),
        Deed::Sync | Deed::RestartJob | Deed::AbortJob | Deed::CompleteJob | Deed::TerminateJob | Deed::ResumeJob => {
            None
        }
    });
    // CMD-11: upstream moves a Job to Restarting for nothing and takes a retry for it; once there, it is there.
    let is_heeded = round.settings.is_strict && phase != Phase::Restarting;
    if deed.needs_target() && victims.is_none() && !is_heeded {
        return None;
    }
    Some(Decision { deed, victims, reason: reason.to_owned(), message, command: None })
}

/// The oldest command for this Job that has not been carried out; one that means nothing here is only taken away.
fn commanded(round: &mut Round, phase: Phase, plan: &mut Plan) -> Option<Decision> {
    let is_mine = |command: &&Value| {
        let target = &command["target"];
        let is_job = text(target, "apiVersion") == BATCH && text(target, "kind") == "Job";
        let uid = text(target, "uid");
        is_job && text(target, "name") == round.head.name() && (uid.is_empty() || uid == round.head.uid())
    };
    let is_new = |command: &&Value| !round.memory.commands.contains(text(command, "metadata.uid"));
    let mine = round.seen.commands.iter().filter(is_mine).filter(is_new);
    let mut mine: Vec<&Value> = mine.filter(|command| text(command, "metadata.deletionTimestamp").is_empty()).collect();
    mine.sort_by_key(|command| (text(command, "metadata.creationTimestamp"), text(command, "metadata.name")));
    for command in mine {
        let deed = Deed::read(text(command, "action"));
        let said = [text(command, "reason"), text(command, "message")]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(": ");
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        let message = format!(
            "Start to execute command {}, and clean it up to make sure executed not more than once.",
            deed.name()
        );
        plan.events.push(round.voice.normal("CommandIssued", message));
        let why = ("CommandIssued", format!("{} by command{said}", deed.name()));
        match decided(round, phase, deed, None, why) {
            Some(decision) => return Some(Decision { command: Some(command.clone()), ..decision }),
            None => plan.actions.push(super::delete(command)),
        }
    }
    None
}

/// The first delayed action whose time has come; asks to be back for the next.
fn due(round: &mut Round, phase: Phase, plan: &mut Plan) -> Option<Decision> {
    let mut timers: Vec<(String, Timer)> = round.memory.timers.clone().into_iter().collect();
    timers.sort_by_key(|(_, timer)| timer.due);
    for (pod, timer) in timers {
        let left = timer.due - round.now.as_second();
        if left > 0 {
            plan.requeue(left);
            return None;
        }
        round.memory.timers.remove(&pod);
        let why = format!("{} of pod {pod} some time ago: {} by policy", timer.event, timer.action);
        let slot = (timer.task.clone(), timer.index);
        let decision = decided(round, phase, Deed::read(&timer.action), Some(&slot), (&timer.event, why));
        if decision.is_some() {
            return decision;
        }
    }
    None
}

/// Notes an action for later (SM-61); it counts from when the event happened, so a restart does not prolong it.
fn postpone(round: &mut Round, happening: &Happening, (deed, delay): (Deed, SignedDuration), plan: &mut Plan) {
    let is_noted = round.memory.timers.get(&happening.pod).is_some_and(|timer| timer.action == deed.name());
    let due = happening.at.as_second() + delay.as_secs().max(1);
    plan.requeue(due - round.now.as_second());
    if is_noted {
        return;
    }
    let (task, index) = happening.slot.clone().unwrap_or_default();
    let (action, event) = (deed.name().to_owned(), happening.event.to_owned());
    round.memory.timers.insert(happening.pod.clone(), Timer { action, event, task, index, due });
    round.must_write_first = true;
    plan.events.push(round.voice.normal("ExecuteAction", delay_message(deed, delay)));
}

pub fn delay_message(deed: Deed, delay: SignedDuration) -> String {
    format!("Execute action {} after {}", deed.name(), time::duration_text(delay))
}

/// A pod that has been pending for as long as its policy allows; nothing need be noted, the pod knows its age (SM-62).
fn pending_too_long(round: &mut Round, phase: Phase, plan: &mut Plan) -> Option<Decision> {
    let mut waits: Vec<(i64, Happening, Deed)> = Vec::new();
    for (slot, pod) in current(round).filter(|(_, pod)| pods::phase(pod) == "Pending") {
        let task = round.spec.task(&slot.0);
        let Some(policy) = policy::find(&round.spec, task, "PodPending", None) else { continue };
        let (Some(delay), Some(created)) = (policy.delay(), pods::created_at(pod)) else { continue };
        let happening = Happening::of("PodPending", created, slot, pod);
        waits.push((created.as_second() + delay.as_secs().max(1), happening, Deed::read(&policy.action)));
    }
    waits.sort_by_key(|(due, ..)| *due);
    for (due, happening, deed) in waits {
        let left = due - round.now.as_second();
        if left > 0 {
            plan.requeue(left);
            return None;
        }
        let why = format!("{}: {} by policy", happening.message(), deed.name());
        let decision = decided(round, phase, deed, happening.slot.as_ref(), (happening.event, why));
        if decision.is_some() {
            return decision;
        }
    }
    None
}

/// Pods whose fate concerns the Job as it is now.
fn current<'r>(round: &'r Round) -> impl Iterator<Item = (&'r Slot, &'r Pod)> {
    let pods = round.members.own.iter().map(|(slot, pod)| (slot, *pod));
    pods.filter(|(slot, pod)| {
        round.is_wanted(slot)
            && !round.is_outdated(pod)
            && !pods::is_being_deleted(pod)
            && !round.is_victim(slot, pod)
            && !Round::is_out_of_sync(pod)
    })
}

/// What has happened, in order of time.
fn happenings(round: &Round) -> Vec<Happening> {
    let mut found = Vec::new();
    for (slot, pod) in current(round).filter(|(_, pod)| pods::is_failed(pod)) {
        let mut failed = Happening::of("PodFailed", pods::ended_at(pod).unwrap_or(round.now), slot, pod);
        failed.exit_code = exit_code(pod, round.settings.is_strict);
        found.push(failed);
    }
    for slot in &round.evicted {
        let pod = format!("{}-{}-{}", round.head.name(), slot.0, slot.1);
        let slot = Some(slot.clone());
        found.push(Happening { event: "PodEvicted", at: round.now, slot, pod, exit_code: None });
    }
    for task in &round.spec.tasks {
        found.extend(task_failed(round, task));
        found.extend(task_completed(round, task));
    }
    let is_unknown = |group: &&Value| {
        let is_going = !text(group, "metadata.deletionTimestamp").is_empty() || is_stale(round, group);
        text(group, "status.phase") == "Unknown" && !is_going
    };
    let group = super::group::find(round).filter(is_unknown);
    // SM-13: upstream's event carries version 0 and is outdated after the first restart.
    if group.is_some() && !(round.settings.is_strict && round.status.version > 0) {
        found.push(Happening { event: "Unknown", at: round.now, slot: None, pod: String::new(), exit_code: None });
    }
    found.sort_by_key(|happening| happening.at);
    found
}

/// SM-2: upstream looks at the first container only, which may be a sidecar.
fn exit_code(pod: &Pod, is_strict: bool) -> Option<i32> {
    if is_strict {
        let first = pods::container_statuses(pod).first()?;
        return Some(first.state.as_ref()?.terminated.as_ref()?.exit_code);
    }
    first_failure(pod).map(|(_, end)| end.exit_code)
}

fn task_failed(round: &Round, task: &Task) -> Option<Happening> {
    let limit = if task.max_retry == 0 { TASK_RETRIES } else { task.max_retry };
    let live = || {
        let of_task = current(round).filter(|(slot, _)| slot.0 == task.name);
        of_task.filter(|(_, pod)| matches!(pods::phase(pod), "Running" | "Pending"))
    };
    let total: i32 = live().map(|(_, pod)| restarts(pod)).sum();
    let (slot, worst) = live().max_by_key(|(_, pod)| restarts(pod))?;
    (limit > 0 && total >= limit).then(|| Happening::of("TaskFailed", round.now, slot, worst))
}

fn task_completed(round: &Round, task: &Task) -> Option<Happening> {
    let ended: Vec<(&Slot, &Pod)> =
        current(round).filter(|(slot, pod)| slot.0 == task.name && pods::is_succeeded(pod)).collect();
    let older = round.members.of_task(&task.name).filter(|(_, pod)| round.is_outdated(pod) && pods::is_succeeded(pod));
    let lost = round.lost_successes().into_iter().filter(|slot| slot.0 == task.name);
    let succeeded = ended.len() + older.count() + lost.count();
    let (slot, last) = ended.into_iter().max_by_key(|(_, pod)| pods::ended_at(pod))?;
    let is_complete = i32::try_from(succeeded).is_ok_and(|succeeded| succeeded >= task.replicas);
    is_complete.then(|| Happening::of("TaskCompleted", pods::ended_at(last).unwrap_or(round.now), slot, last))
}
