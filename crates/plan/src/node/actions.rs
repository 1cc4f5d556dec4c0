//! What to do next with one pod on this node, as data (the kubelet's `computePodActions`, with its order of steps).
//!
//! The shell applies the actions, records what came of them in `Seen`, and plans again on every change and at
//! `next_at`. A pod whose containers already run (a restarted node) needs nothing and gets nothing.

use super::course::{Course, Ending, course, deadline, grace_seconds};
use super::probes::{has_run_post_start, has_started, plan_probes};
use super::seen::{
    Attempt, ContainerSeen, HookSeen, ImageSeen, ProbeKind, Running, Sandbox, Seen, State, StopReason, Volumes,
};
use super::stop::{Stop, health_grace_seconds, stop_pod};
use super::{
    Role, back_off, ephemeral_containers, init_containers, init_role, is_terminal, later, main_containers, restart,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodActions {
    /// In this order; those of different containers may be done side by side.
    pub actions: Vec<Action>,
    /// When to plan again though nothing is seen to change.
    pub next_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    MountVolumes,
    MakeSandbox {
        number: u32,
    },
    /// For `attempt_number` of the container; the record of the pull carries that number.
    PullImage {
        container: String,
        image: String,
        attempt_number: u32,
    },
    /// Creates and starts the container; the record of the attempt carries these numbers.
    Start {
        container: String,
        attempt_number: u32,
        sandbox_number: u32,
        restart_delay_seconds: u32,
    },
    PostStart {
        container: String,
    },
    Probe {
        container: String,
        kind: ProbeKind,
    },
    /// Opens the stop of a container: only recorded. The steps that follow are planned from that record.
    Stop {
        container: String,
        grace_seconds: i64,
        reason: StopReason,
    },
    PreStop {
        container: String,
    },
    /// Sends the container's stop signal (`lifecycle.stopSignal`, else the image's, else TERM).
    Signal {
        container: String,
    },
    Kill {
        container: String,
    },
    TearDownSandbox,
    UnmountVolumes,
    /// Nothing of the pod is left here and its last status is stored: its object may go.
    RemovePod,
}

impl Action {
    /// Whether it leads to the start of this container.
    fn brings_up(&self, name: &str) -> bool {
        let (Action::Start { container, .. } | Action::PullImage { container, .. }) = self else { return false };
        container == name
    }

    /// Whether it may end this container.
    fn ends(&self, name: &str) -> bool {
        matches!(self, Action::Signal { container } | Action::Kill { container } if container == name)
    }
}

pub fn pod_actions(pod: &Pod, seen: &Seen, now: Timestamp) -> PodActions {
    let mut plan = PodActions::default();
    match course(pod, seen, now) {
        Course::Run => run_pod(pod, seen, now, &mut plan),
        Course::End(ending) => end_pod(pod, seen, ending, now, &mut plan),
    }
    plan
}

fn end_pod(pod: &Pod, seen: &Seen, ending: Ending, now: Timestamp, plan: &mut PodActions) {
    let reason = match ending {
        Ending::DeadlineExceeded => StopReason::DeadlineExceeded,
        Ending::Rejected | Ending::Over | Ending::Deleted | Ending::Evicted | Ending::Finished => StopReason::PodEnds,
    };
    if !stop_pod(pod, seen, reason, now, plan) {
        // One that gets its signal now may be gone before a probe reaches it.
        let planned = std::mem::take(&mut plan.actions);
        let is_untouched = |name: &str| !planned.iter().any(|action| action.ends(name));
        for (container, running) in running_containers(pod, seen).filter(|(spec, _)| is_untouched(&spec.name)) {
            plan_probes(container, running, true, now, plan);
        }
        plan.actions.splice(0..0, planned);
        return;
    }
    match seen.sandbox {
        Sandbox::Ready | Sandbox::Ended => return plan.actions.push(Action::TearDownSandbox),
        // It is torn down once it is there.
        Sandbox::Making => return,
        Sandbox::Absent | Sandbox::Failed(_) => {}
    }
    match seen.volumes {
        Volumes::Ready | Volumes::Failed(_) => return plan.actions.push(Action::UnmountVolumes),
        Volumes::Mounting => return,
        Volumes::Absent => {}
    }
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    // A grace of 0 says that the object was let go already; a finalizer may still hold it.
    let is_released = pod.metadata.deletion_grace_period_seconds == Some(0);
    if is_deleted && !is_released && is_terminal(pod) {
        plan.actions.push(Action::RemovePod);
    }
}

fn running_containers<'a>(pod: &'a Pod, seen: &'a Seen) -> impl Iterator<Item = (&'a Container, &'a Running)> {
    super::all_containers(pod)
        .filter(|(role, _)| *role != Role::Init)
        .filter_map(|(_, container)| Some((container, seen.container(&container.name).running()?)))
}

fn run_pod(pod: &Pod, seen: &Seen, now: Timestamp, plan: &mut PodActions) {
    if let Some(deadline) = deadline(pod, seen) {
        plan.look_at(deadline);
    }
    match &seen.volumes {
        Volumes::Ready => {}
        Volumes::Absent => return plan.actions.push(Action::MountVolumes),
        Volumes::Mounting => return,
        Volumes::Failed(trouble) => return plan.at(back_off::mount_at(trouble), now, Action::MountVolumes),
    }
    let make = Action::MakeSandbox { number: seen.sandbox_number.saturating_add(1) };
    match &seen.sandbox {
        Sandbox::Ready => {}
        Sandbox::Absent => return plan.actions.push(make),
        Sandbox::Making => return,
        Sandbox::Ended => return plan.actions.push(Action::TearDownSandbox),
        Sandbox::Failed(trouble) => return plan.at(back_off::start_at(trouble), now, make),
    }
    let mut round = Round { pod, seen, now, plan };
    for container in &ephemeral_containers(pod) {
        round.keep_running(Role::Ephemeral, container);
    }
    if round.initialise() {
        round.run_mains();
    }
}

impl PodActions {
    /// Does `action` if its time has come, else asks to look again then.
    fn at(&mut self, time: Timestamp, now: Timestamp, action: Action) {
        if time <= now {
            self.actions.push(action);
        } else {
            self.look_at(time);
        }
    }
}

/// One look at a pod that runs in a ready sandbox.
struct Round<'a> {
    pod: &'a Pod,
    seen: &'a Seen,
    now: Timestamp,
    plan: &'a mut PodActions,
}

impl Round<'_> {
    /// Brings the init containers forward; returns whether the main containers may run.
    fn initialise(&mut self) -> bool {
        let (pod, seen) = (self.pod, self.seen);
        let containers = init_containers(pod);
        let is_initialised = main_containers(pod).iter().any(|main| self.is_in_sandbox(seen.container(&main.name)));
        let furthest = containers.iter().rposition(|init| self.is_in_sandbox(seen.container(&init.name)));
        for (index, container) in containers.iter().enumerate() {
            let is_behind = is_initialised || furthest.is_some_and(|furthest| index < furthest);
            if init_role(container) == Role::Sidecar && is_behind {
                self.keep_running(Role::Sidecar, container);
            } else if !is_behind && !self.is_initialised(container) {
                return false;
            }
        }
        true
    }

    /// Works on the init container whose turn it is; returns whether it lets the next one start.
    fn is_initialised(&mut self, container: &Container) -> bool {
        let role = init_role(container);
        let seen = self.seen.container(&container.name);
        let is_done = match &seen.state {
            State::Exited(exit) if self.is_in_sandbox(seen) => role == Role::Init && exit.code == 0,
            State::Running(running) => role == Role::Sidecar && has_started(container, running),
            State::NotCreated | State::Creating(_) | State::Exited(_) => false,
        };
        if role == Role::Sidecar || !is_done {
            self.keep_running(role, container);
        }
        is_done
    }

    fn run_mains(&mut self) {
        for container in main_containers(self.pod) {
            self.keep_running(Role::Main, container);
            // A container starts when the hooks of those before it have run. One that cannot start blocks nobody.
            let is_coming_up = has_post_start(container) && self.is_coming_up(container);
            if is_coming_up {
                self.watch_rest(container);
                return;
            }
        }
    }

    /// Whether the container is on its way from its image to the end of its hook.
    fn is_coming_up(&self, container: &Container) -> bool {
        let seen = self.seen.container(&container.name);
        let is_pulling = matches!(seen.image, ImageSeen::Pulling { .. });
        let is_planned = self.plan.actions.iter().any(|action| action.brings_up(&container.name));
        match &seen.state {
            State::NotCreated | State::Exited(_) => is_pulling || is_planned,
            State::Creating(_) => true,
            State::Running(running) => running.stop.is_none() && !has_run_post_start(container, running),
        }
    }

    /// Later containers are not started yet, but those that run already are looked after.
    fn watch_rest(&mut self, after: &Container) {
        let mains = main_containers(self.pod).iter().skip_while(|main| main.name != after.name).skip(1);
        for container in mains {
            if self.seen.container(&container.name).running().is_some() {
                self.keep_running(Role::Main, container);
            }
        }
    }

    fn keep_running(&mut self, role: Role, container: &Container) {
        let seen = self.seen.container(&container.name);
        let is_init = matches!(role, Role::Init | Role::Sidecar);
        match &seen.state {
            State::NotCreated => self.start(container, seen),
            State::Creating(_) => {}
            State::Running(running) => self.look_after(role, container, running),
            // An init container of an earlier sandbox runs again, however it ended there.
            State::Exited(_) if is_init && !self.is_in_sandbox(seen) => self.start(container, seen),
            State::Exited(exit) if restart::is_restarted(self.pod, role, container, exit) => {
                let at = back_off::restart_at(exit);
                if at <= self.now {
                    self.start(container, seen);
                } else {
                    self.plan.look_at(at);
                    self.look_when_shown(exit.finished_at);
                }
            }
            State::Exited(_) => {}
        }
    }

    /// What clients are shown changes shortly after a failure; the status has to be written then.
    fn look_when_shown(&mut self, failed_at: Timestamp) {
        let shown_until = later(failed_at, back_off::ERROR_SHOWN_S);
        if shown_until > self.now {
            self.plan.look_at(shown_until);
        }
    }

    fn look_after(&mut self, role: Role, container: &Container, running: &Running) {
        let reason = running.stop.as_ref().map(|stop| stop.reason).or_else(|| unhealthy(container, running));
        if let Some(reason) = reason {
            let grace = health_grace_seconds(container, reason, grace_seconds(self.pod, self.seen));
            let stop = Stop { container, running, grace_seconds: grace, reason };
            return stop.advance(true, self.now, self.plan);
        }
        if has_post_start(container) && running.post_start == HookSeen::NotRun {
            self.plan.actions.push(Action::PostStart { container: container.name.clone() });
        }
        if role != Role::Init {
            plan_probes(container, running, false, self.now, self.plan);
        }
    }

    /// Pulls the image if that is needed, else starts the next attempt.
    fn start(&mut self, container: &Container, seen: &ContainerSeen) {
        let attempt_number = seen.attempt().map_or(0, |attempt| attempt.number.saturating_add(1));
        let name = container.name.clone();
        let image = container.image.clone().unwrap_or_default();
        let pull = Action::PullImage { container: name.clone(), image, attempt_number };
        match (PullPolicy::of(container), &seen.image) {
            (_, ImageSeen::Pulling { .. }) | (PullPolicy::Never, ImageSeen::Absent | ImageSeen::Failed(_)) => return,
            (_, ImageSeen::Failed(trouble)) => {
                self.look_when_shown(trouble.at);
                return self.plan.at(back_off::pull_at(trouble), self.now, pull);
            }
            (_, ImageSeen::Absent) => return self.plan.actions.push(pull),
            (PullPolicy::Always, ImageSeen::Present { pull: done, .. })
                if done.as_ref().is_none_or(|done| done.attempt_number != attempt_number) =>
            {
                return self.plan.actions.push(pull);
            }
            (_, ImageSeen::Present { .. }) => {}
        }
        let restart_delay_seconds = back_off::next_restart_delay(seen.exited());
        let sandbox_number = self.seen.sandbox_number;
        let start = Action::Start { container: name, attempt_number, sandbox_number, restart_delay_seconds };
        let retry_at = seen.start_trouble.as_ref().map_or(self.now, back_off::start_at);
        self.plan.at(retry_at, self.now, start);
    }

    fn is_in_sandbox(&self, seen: &ContainerSeen) -> bool {
        let is_current = |attempt: &Attempt| attempt.sandbox_number == self.seen.sandbox_number;
        seen.attempt().is_some_and(is_current)
    }
}

fn has_post_start(container: &Container) -> bool {
    container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some())
}

/// Why a running container has to be stopped, if it has to be.
fn unhealthy(container: &Container, running: &Running) -> Option<StopReason> {
    let is_changed = container.image.as_ref().is_some_and(|image| *image != running.attempt.image);
    if is_changed {
        Some(StopReason::DefinitionChanged)
    } else if matches!(running.post_start, HookSeen::Failed(_)) {
        Some(StopReason::PostStartHook)
    } else if container.liveness_probe.is_some() && running.liveness.verdict == Some(false) {
        Some(StopReason::LivenessProbe)
    } else if container.startup_probe.is_some() && running.startup.verdict == Some(false) {
        Some(StopReason::StartupProbe)
    } else {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    pub(super) fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => PullPolicy::Always,
            Some("Never") => PullPolicy::Never,
            _ => PullPolicy::IfNotPresent,
        }
    }
}
