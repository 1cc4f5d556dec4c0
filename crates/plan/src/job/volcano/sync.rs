//! A sync: makes what is missing and takes away what is too much, in an order that can be seen (spec/volcano.md 3.2):
//! plugins' objects, claims, the pod group, pods, and last the status.

use super::decide::delay_message;
use super::memory::number;
use super::phase::{Deed, Phase};
use super::round::Round;
use super::settle::{after_sync, has_stopped};
use super::{group, pod, policy, resources, volumes};
use crate::control::{Action, Plan, pods};
use crate::job::ending::delete_pod;
use crate::job::members::Slot;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;
use volley_api::kube::text;
use volley_api::volcano::keys;
use volley_api::volcano::types::Task;

pub fn sync(round: &mut Round, phase: Phase, plan: &mut Plan) {
    if volumes::name_claims(round, plan) {
        // The spec is written in a round of its own; the next one goes by it.
        return;
    }
    let mut made = BTreeSet::new();
    let surplus = surplus(round);
    if round.seen.queue.is_none() {
        let message = format!("queue {} does not exist", round.spec.queue);
        round.wait(plan, "QueueNotFound", message);
    } else {
        resources::sweep(round, phase, plan);
        if resources::ensure(round, plan) && volumes::ensure(round, plan) && group::ensure(round, plan) {
            made = make_pods(round, plan);
        }
        plan.actions.extend(surplus.iter().filter_map(|slot| round.members.own.get(slot)).map(|pod| delete_pod(pod)));
        surplus.iter().for_each(|slot| round.memory.forget(slot));
    }
    let doomed = if round.seen.queue.is_some() { surplus } else { BTreeSet::new() };
    round.count(&doomed, &made);
    let stranded = stranded(round);
    let next = match phase {
        Phase::Pending if is_under_way(round) || !stranded.is_empty() => Phase::Running,
        Phase::Pending => Phase::Pending,
        _ => match after_sync(&round.spec, &round.status) {
            Phase::Pending | Phase::Running if !stranded.is_empty() => Phase::Failed,
            next => next,
        },
    };
    round.stop_waiting();
    if next != phase {
        advance(round, next, &stranded);
    }
    round.write(plan);
}

/// Tasks that will never have their pods: what they wait for has failed, nothing runs any more and nothing is planned.
///
/// Upstream leaves such a Job as it is, for ever.
fn stranded(round: &Round) -> Vec<String> {
    let is_over = has_stopped(&round.status) && round.status.failed > 0 && round.memory.timers.is_empty();
    if !is_over || round.settings.is_strict || round.seen.queue.is_none() {
        return Vec::new();
    }
    let lost = round.lost_successes();
    let is_short = |task: &&Task| {
        let has_pod = |index: &i32| {
            let slot = (task.name.clone(), *index);
            round.members.own.contains_key(&slot) || lost.contains(&slot)
        };
        !(0..task.replicas).all(|index| has_pod(&index))
    };
    let (waiting, others): (Vec<&Task>, Vec<&Task>) =
        round.spec.tasks.iter().filter(is_short).partition(|task| !is_startable(round, task));
    if others.is_empty() { waiting.into_iter().map(|task| task.name.clone()).collect() } else { Vec::new() }
}

fn is_under_way(round: &Round) -> bool {
    let status = &round.status;
    round.spec.min_available <= status.running + status.succeeded + status.failed
}

fn advance(round: &mut Round, next: Phase, stranded: &[String]) {
    let (succeeded, failed) = (round.status.succeeded, round.status.failed);
    let mut message = format!("{succeeded} pods succeeded, {failed} failed, of {}", round.spec.replicas());
    if !stranded.is_empty() {
        message = format!("{message}; what {} waits for has failed", stranded.join(", "));
    }
    match next {
        Phase::Completed | Phase::Failed => {
            round.status.version += 1;
            round.memory.timers.clear();
            let reason = if next == Phase::Failed { "PodsFailed" } else { "PodsSucceeded" };
            round.explain(reason, message);
        }
        Phase::Running => round.explain("", ""),
        Phase::Pending => {
            let pending = round.status.pending;
            round.explain("GangLost", format!("{pending} pods are pending, so fewer than minAvailable can run"));
        }
        Phase::Restarting
        | Phase::Aborting
        | Phase::Aborted
        | Phase::Completing
        | Phase::Terminating
        | Phase::Terminated => {}
    }
    round.enter(next);
}

/// Pods that nobody asks for any more: beyond the replicas, of no task, or marked as out of sync (POD-8).
///
/// So are live pods of an earlier version: a controller that saw the Job late has made them.
fn surplus(round: &Round) -> BTreeSet<Slot> {
    let own = round.members.own.iter().filter(|(_, pod)| !pods::is_being_deleted(pod));
    let is_late = |pod: &Pod| {
        !pods::is_terminal(pod) && number(pod, keys::VERSION).is_some_and(|version| version < round.status.version)
    };
    let surplus = own.filter(|(slot, pod)| !round.is_wanted(slot) || Round::is_out_of_sync(pod) || is_late(pod));
    surplus.map(|(slot, _)| slot.clone()).collect()
}

/// Creates the pods that are missing, unless the gang has not been admitted yet (CTL-15).
fn make_pods(round: &mut Round, plan: &mut Plan) -> BTreeSet<Slot> {
    let mut made = BTreeSet::new();
    let is_admitted = group::find(round).is_some_and(|group| !matches!(text(group, "status.phase"), "" | "Pending"));
    if !is_admitted {
        return made;
    }
    let lost = round.lost_successes();
    let mut created = Vec::new();
    let startable = round.spec.tasks.iter().filter(|task| is_startable(round, task));
    for task in &startable.cloned().collect::<Vec<Task>>() {
        for index in 0..task.replicas {
            let slot = (task.name.clone(), index);
            if round.members.own.contains_key(&slot) || lost.contains(&slot) {
                continue;
            }
            let name = pod::name(round, &slot);
            if let Some(other) = round.members.foreign.get(&*name) {
                stand_back(round, other, &name, plan);
                continue;
            }
            match pod::build(round, task, index) {
                Ok(object) => created.push(Action::Create { object, event: None }),
                Err(problem) => {
                    // Half a gang helps nobody: none of this round's pods are made (POD-6).
                    round.wait(plan, "PluginError", format!("Execute plugin when job add failed, err: {problem}"));
                    return BTreeSet::new();
                }
            }
            made.insert(slot);
        }
    }
    if !made.is_empty() {
        announce_delays(round, &made, plan);
    }
    plan.actions.extend(created);
    made
}

/// A pod of somebody else has the name: it is left alone, and the Job waits (POD-10).
fn stand_back(round: &mut Round, other: &Pod, name: &str, plan: &mut Plan) {
    if pods::is_being_deleted(other) {
        plan.requeue(1);
    } else {
        round.wait(plan, "FailedCreate", format!("pod {name} exists and is not controlled by this job"));
    }
}

/// What a new pod's being pending will lead to is said when it is made.
fn announce_delays(round: &Round, made: &BTreeSet<Slot>, plan: &mut Plan) {
    let mut messages = BTreeSet::new();
    for (task, _) in made {
        let policy = policy::find(&round.spec, round.spec.task(task), "PodPending", None);
        if let Some((policy, delay)) = policy.and_then(|policy| Some((policy, policy.delay()?))) {
            messages.insert(delay_message(Deed::read(&policy.action), delay));
        }
    }
    plan.events.extend(messages.into_iter().map(|message| round.voice.normal("ExecuteAction", message)));
}

/// Whether the tasks that this one waits for are ready (DEP-1 to DEP-3); one that has pods has been started.
pub fn is_startable(round: &Round, task: &Task) -> bool {
    let Some(depends) = task.depends_on.as_ref().filter(|depends| !depends.name.is_empty()) else {
        return true;
    };
    let is_ready = |name: &String| round.spec.task(name).is_some_and(|other| is_task_ready(round, other));
    let is_met =
        if depends.iteration == "any" { depends.name.iter().any(is_ready) } else { depends.name.iter().all(is_ready) };
    is_met || round.members.of_task(&task.name).next().is_some()
}

fn is_task_ready(round: &Round, task: &Task) -> bool {
    let is_up = |pod: &Pod| {
        let statuses = pods::container_statuses(pod);
        let all_ready = !statuses.is_empty() && statuses.iter().all(|status| status.ready);
        pods::phase(pod) == "Running" && (all_ready || (statuses.is_empty() && pods::is_ready(pod)))
    };
    let live = round.members.of_task(&task.name).filter(|(_, pod)| !pods::is_being_deleted(pod));
    let ready = live.filter(|(_, pod)| pods::is_succeeded(pod) || is_up(pod)).count();
    let lost = round.lost_successes().into_iter().filter(|slot| slot.0 == task.name).count();
    i32::try_from(ready + lost).is_ok_and(|ready| ready >= task.required())
}
