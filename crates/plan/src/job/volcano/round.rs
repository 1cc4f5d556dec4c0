//! One look at a Job: what is seen, what is remembered, and the status that is being made.

use super::memory::{Memory, Timer, Victims, number};
use super::phase::Phase;
use super::{Observed, Settings};
use crate::control::{Plan, Voice, pods, to_value};
use crate::job::head::Head;
use crate::job::members::{Counts, Members, Slot, SlotKeys};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::time;
use volley_api::volcano::keys;
use volley_api::volcano::types::{Condition, JobSpec, JobStatus, TaskCount};

pub const COMPONENT: &str = "vc-controller-manager";
const SLOT: SlotKeys = SlotKeys { task: keys::TASK, index: keys::INDEX };
/// Reasons that say what a Job waits for; they go when it no longer does.
const WAITING: [&str; 6] =
    ["InvalidSpec", "PodGroupPending", "PVCError", "PluginError", "QueueNotFound", "FailedCreate"];
/// What a Job waits for and is not woken by: it looks again after so many seconds.
const UNHEARD: [&str; 3] = ["PVCError", "QueueNotFound", "FailedCreate"];
const WAIT_SECONDS: i64 = 5;

pub struct Round<'a> {
    pub seen: &'a Observed<'a>,
    pub settings: &'a Settings,
    pub now: Timestamp,
    pub head: Head,
    pub spec: JobSpec,
    pub old: JobStatus,
    pub status: JobStatus,
    pub memory: Memory,
    pub members: Members<'a>,
    pub voice: Voice,
    /// Slots whose pod was there and is gone without our doing.
    pub evicted: BTreeSet<Slot>,
    /// What was just noted must be on disk before anything is done about it.
    pub must_write_first: bool,
    is_waiting: bool,
}

impl<'a> Round<'a> {
    pub fn new(seen: &'a Observed, settings: &'a Settings, now: Timestamp, spec: JobSpec, old: JobStatus) -> Self {
        let head = Head::of(seen.job);
        let mut status = old.clone();
        status.min_available = spec.min_available;
        Round {
            seen,
            settings,
            now,
            memory: Memory::of(&old),
            members: Members::of(&head, seen.pods, SLOT),
            voice: head.voice(COMPONENT),
            head,
            spec,
            old,
            status,
            evicted: BTreeSet::new(),
            must_write_first: false,
            is_waiting: false,
        }
    }

    pub fn partition(&self, (task, index): &Slot) -> Option<i32> {
        self.spec.task(task)?.partition(*index)
    }

    /// Whether the pod was made before the last full kill, so that what becomes of it is old news (SM-10).
    pub fn is_outdated(&self, pod: &Pod) -> bool {
        number(pod, keys::VERSION).is_none_or(|version| version < self.status.version)
    }

    pub fn is_out_of_sync(pod: &Pod) -> bool {
        let marks = pod.metadata.annotations.as_ref();
        marks.and_then(|marks| marks.get(keys::OUT_OF_SYNC)).is_some_and(|mark| mark == "true")
    }

    /// A slot that the spec still has.
    pub fn is_wanted(&self, (task, index): &Slot) -> bool {
        self.spec.task(task).is_some_and(|task| *index < task.replicas)
    }

    /// Whether a restart under way takes the pod away.
    pub fn is_victim(&self, slot: &Slot, pod: &Pod) -> bool {
        let include = |victims: &Victims| victims.include(slot, pod, self.partition(slot), &self.status);
        self.memory.victims.iter().any(include)
    }

    /// Compares the pods with those that were known: finds the evicted, notes the new and the successful.
    pub fn observe(&mut self) {
        let tasks: Vec<(String, i32)> = self.spec.tasks.iter().map(|t| (t.name.clone(), t.replicas)).collect();
        for (task, replicas) in tasks {
            let mut known = self.memory.known(&task);
            let mut done = self.memory.done(&task);
            known.retain(|index| *index < replicas);
            done.retain(|index| *index < replicas);
            for index in known.clone() {
                let slot = (task.clone(), index);
                if !self.members.own.contains_key(&slot) {
                    known.remove(&index);
                    if !done.contains(&index) || self.settings.is_strict {
                        self.evicted.insert(slot);
                    }
                }
            }
            for (index, pod) in self.members.of_task(&task).filter(|(index, _)| *index < replicas) {
                let slot = (task.clone(), index);
                let is_ours_to_take = self.is_victim(&slot, pod) || Self::is_out_of_sync(pod);
                if !pods::is_being_deleted(pod) && !is_ours_to_take {
                    known.insert(index);
                }
                if pods::is_succeeded(pod) && !is_ours_to_take {
                    done.insert(index);
                } else if !pods::is_being_deleted(pod) {
                    done.remove(&index);
                }
            }
            self.memory.set_known(&task, &known);
            self.memory.set_done(&task, &done);
        }
        let members = &self.members;
        self.memory.timers.retain(|_, timer| !has_recovered(members, timer));
    }

    /// Counts pods as they are once `doomed` are being deleted and `made` exist (POD-7, SM-34).
    pub fn count(&mut self, doomed: &BTreeSet<Slot>, made: &BTreeSet<Slot>) {
        let mut total = Counts::default();
        let mut tasks: BTreeMap<String, TaskCount> = BTreeMap::new();
        for (slot, pod) in &self.members.own {
            if doomed.contains(slot) || pods::is_being_deleted(pod) {
                total.terminating += 1;
                continue;
            }
            total.add(pod);
            let phases = &mut tasks.entry(slot.0.clone()).or_default().phase;
            *phases.entry(pods::phase(pod).to_owned()).or_insert(0) += 1;
        }
        for slot in made {
            total.pending += 1;
            *tasks.entry(slot.0.clone()).or_default().phase.entry("Pending".to_owned()).or_insert(0) += 1;
        }
        for slot in self.lost_successes().into_iter().filter(|slot| !made.contains(slot)) {
            total.succeeded += 1;
            *tasks.entry(slot.0).or_default().phase.entry("Succeeded".to_owned()).or_insert(0) += 1;
        }
        let status = &mut self.status;
        (status.pending, status.running, status.succeeded) = (total.pending, total.running, total.succeeded);
        (status.failed, status.terminating, status.unknown) = (total.failed, total.terminating, total.unknown);
        status.task_status_count = tasks;
    }

    /// Slots that have succeeded and whose pod is no longer there.
    pub fn lost_successes(&self) -> BTreeSet<Slot> {
        let mut lost = BTreeSet::new();
        for task in self.spec.tasks.iter().filter(|_| !self.settings.is_strict) {
            let slots = self.memory.done(&task.name).into_iter().map(|index| (task.name.clone(), index));
            lost.extend(slots.filter(|slot| !self.members.own.contains_key(slot)));
        }
        lost
    }

    /// Puts the Job into a phase; the newest condition is the last (API-20).
    pub fn enter(&mut self, phase: Phase) {
        let time = Some(time::seconds(self.now));
        let status = &mut self.status;
        status.state.phase = phase.name().to_owned();
        status.state.last_transition_time.clone_from(&time);
        status.conditions.retain(|condition| condition.status != phase.name());
        status.conditions.push(Condition { status: phase.name().to_owned(), last_transition_time: time });
        if phase.is_final() || phase == Phase::Aborted {
            let seconds = self.head.created.map_or(0, |created| self.now.as_second() - created.as_second());
            status.running_duration = Some(time::duration_text(SignedDuration::from_secs(seconds)));
        }
        if phase.is_final() {
            // The counts are final too; nothing of the rest can matter again.
            self.memory.forget_pods();
        }
    }

    pub fn explain(&mut self, reason: &str, message: impl Into<String>) {
        reason.clone_into(&mut self.status.state.reason);
        self.status.state.message = message.into();
    }

    /// Says what the Job waits for, on its status and once as an event.
    pub fn wait(&mut self, plan: &mut Plan, reason: &str, message: impl Into<String>) {
        let message = message.into();
        self.is_waiting = true;
        if UNHEARD.contains(&reason) {
            plan.requeue(WAIT_SECONDS);
        }
        if (&*self.old.state.reason, &self.old.state.message) != (reason, &message) {
            plan.events.push(self.voice.warning(reason, message.clone()));
        }
        self.explain(reason, message);
    }

    /// Takes back what an earlier look said the Job was waiting for.
    pub fn stop_waiting(&mut self) {
        if !self.is_waiting && WAITING.contains(&&*self.status.state.reason) {
            self.explain("", "");
        }
    }

    /// Writes the status if it has changed.
    pub fn write(&mut self, plan: &mut Plan) {
        self.memory.keep(&mut self.status);
        if self.status == self.old {
            return;
        }
        let commands = self.seen.commands;
        let is_here = |uid: &String| commands.iter().any(|command| command["metadata"]["uid"] == **uid);
        self.memory.commands.retain(is_here);
        self.memory.keep(&mut self.status);
        if self.settings.is_strict {
            self.status.state.last_transition_time = Some(time::seconds(self.now));
        }
        let old: Value = to_value(&self.old);
        plan.actions.extend(self.head.write_status(&old, &to_value(&self.status)));
    }
}

/// A running pod ends the wait for its predecessor (SM-63).
fn has_recovered(members: &Members, timer: &Timer) -> bool {
    let is_of_pod = matches!(&*timer.event, "PodFailed" | "PodEvicted");
    let pod = members.own.get(&(timer.task.clone(), timer.index));
    is_of_pod && pod.is_some_and(|pod| pods::phase(pod) == "Running" && !pods::is_being_deleted(pod))
}
