//! Stopping containers: hook, signal, kill, each in its time; sidecars after the main containers (K-POD-DEL-1).

use super::actions::{Action, PodActions};
use super::course::grace_seconds;
use super::seen::{HookSeen, Running, Seen, State, StopReason, StopSeen};
use super::{Role, all_containers, earliest, ephemeral_containers, later};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

/// Between signal and kill lies at least this much, however short the grace.
const GRACE_MIN_S: i64 = 2;

/// Stops every running container of the pod; returns whether none is left.
pub fn stop_pod(pod: &Pod, seen: &Seen, reason: StopReason, now: Timestamp, plan: &mut PodActions) -> bool {
    let grace_seconds = grace_seconds(pod, seen);
    let mut is_all_ended = true;
    // Main containers first; a sidecar's turn comes when all that started after it have ended.
    let mut is_turn_of_sidecars = true;
    let (sidecars, others): (Vec<_>, Vec<_>) = all_containers(pod).partition(|(role, _)| *role == Role::Sidecar);
    let ephemerals = ephemeral_containers(pod);
    let ephemerals = ephemerals.iter().map(|container| (Role::Ephemeral, container));
    for (role, container) in ephemerals.chain(others).chain(sidecars.into_iter().rev()) {
        match &seen.container(&container.name).state {
            State::NotCreated | State::Exited(_) => continue,
            // It cannot be stopped before it is there; it ends in the next round.
            State::Creating(_) => {}
            State::Running(running) => {
                let is_turn = role != Role::Sidecar || is_turn_of_sidecars;
                let stop = Stop { container, running, grace_seconds, reason };
                stop.advance(is_turn, now, plan);
            }
        }
        is_all_ended = false;
        is_turn_of_sidecars = false;
    }
    is_all_ended
}

/// One container's way from running to ended.
pub struct Stop<'a> {
    pub container: &'a Container,
    pub running: &'a Running,
    pub grace_seconds: i64,
    pub reason: StopReason,
}

impl Stop<'_> {
    /// The next step of the stop. Before `is_turn`, the signal waits until the grace is used up.
    pub fn advance(&self, is_turn: bool, now: Timestamp, plan: &mut PodActions) {
        let container = self.container.name.clone();
        let Some(stop) = self.under_way() else {
            let grace_seconds = self.grace_seconds;
            plan.actions.push(Action::Stop { container, grace_seconds, reason: self.reason });
            return;
        };
        if stop.killed_at.is_some() {
            return;
        }
        let deadline = later(stop.since, stop.grace_seconds);
        let Some(signalled_at) = stop.signalled_at else {
            let is_ready = is_turn && self.has_run_hook(stop, plan);
            if is_ready || deadline <= now {
                plan.actions.push(Action::Signal { container });
            } else {
                plan.look_at(deadline);
            }
            return;
        };
        let kill_at = deadline.max(later(signalled_at, GRACE_MIN_S));
        if kill_at <= now {
            plan.actions.push(Action::Kill { container });
        } else {
            plan.look_at(kill_at);
        }
    }

    /// The recorded stop, unless a later request leaves less time than it does.
    fn under_way(&self) -> Option<&StopSeen> {
        self.running.stop.as_ref().filter(|stop| stop.grace_seconds <= self.grace_seconds)
    }

    /// Whether nothing of `preStop` remains to be done. The hook's time counts as grace.
    fn has_run_hook(&self, stop: &StopSeen, plan: &mut PodActions) -> bool {
        let hook = self.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        if hook.is_none() || stop.grace_seconds <= 0 {
            return true;
        }
        match stop.pre_stop {
            HookSeen::NotRun => {
                plan.actions.push(Action::PreStop { container: self.container.name.clone() });
                false
            }
            HookSeen::Running => false,
            HookSeen::Done | HookSeen::Failed(_) => true,
        }
    }
}

/// The grace for stopping one container for its health: the probe's own, else the pod's.
pub fn health_grace_seconds(container: &Container, reason: StopReason, pod_grace_seconds: i64) -> i64 {
    let probe = match reason {
        StopReason::LivenessProbe => container.liveness_probe.as_ref(),
        StopReason::StartupProbe => container.startup_probe.as_ref(),
        StopReason::PodEnds
        | StopReason::DeadlineExceeded
        | StopReason::PostStartHook
        | StopReason::DefinitionChanged => None,
    };
    probe.and_then(|probe| probe.termination_grace_period_seconds).unwrap_or(pod_grace_seconds)
}

impl PodActions {
    /// Asks to plan again at `time`, or earlier if that was asked for already.
    pub(super) fn look_at(&mut self, time: Timestamp) {
        self.next_at = earliest([self.next_at, Some(time)]);
    }
}
