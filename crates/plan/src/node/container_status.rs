//! One container as clients see it (K-POD-2): its state, the state before, and the flags `ready` and `started`.

use super::actions::PullPolicy;
use super::probes::{has_run_post_start, has_started};
use super::seen::{Attempt, ContainerSeen, Exit, ImageSeen, Running, Sandbox, Seen, State};
use super::{RUNTIME, Role, back_off, go_duration, init_containers, init_role, later, pod_label, restart, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    Pod, VolumeMountStatus,
};

/// What the status of every container of one pod is made from.
pub struct View<'a> {
    pub pod: &'a Pod,
    pub seen: &'a Seen,
    /// Nothing of the pod will start again.
    pub is_ending: bool,
    pub now: Timestamp,
}

/// Why a container waits, in the words of `state.waiting`.
struct Waiting {
    reason: String,
    message: Option<String>,
}

impl View<'_> {
    pub fn status(&self, role: Role, container: &Container, stored: Option<&ContainerStatus>) -> ContainerStatus {
        let seen = self.seen.container(&container.name);
        let shown = self.shown_attempt(container, seen);
        let mut status = ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            last_state: Some(ContainerState::default()),
            // Nothing asks whether an ephemeral container is ready.
            started: (role != Role::Ephemeral).then_some(false),
            volume_mounts: volume_mounts(container),
            ..ContainerStatus::default()
        };
        if let Some(attempt) = shown.attempt() {
            status.container_id = Some(container_id(attempt));
            status.image = attempt.image.clone();
            status.image_id = attempt.image_id.clone();
            status.restart_count = i32::try_from(attempt.number).unwrap_or(i32::MAX);
            status.resources = Some(container.resources.clone().unwrap_or_default());
            status.allocated_resources = container.resources.as_ref().and_then(|resources| resources.requests.clone());
            status.stop_signal = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
        }
        let before = match shown {
            Shown::Nothing | Shown::Running(_) => seen.last.as_ref(),
            Shown::Exited(exit) => seen.last.as_ref().filter(|last| last.attempt.number != exit.attempt.number),
        };
        status.last_state = Some(before.map(terminated).unwrap_or_default());
        let stored = stored.filter(|stored| stored.container_id == status.container_id);
        self.fill_state(role, container, &shown, stored, &mut status);
        if let Shown::Running(running) = shown
            && role != Role::Ephemeral
        {
            let is_started = has_started(container, running) || was(stored.and_then(|s| s.started), running);
            status.started = Some(is_started);
            status.ready = is_started && role != Role::Init && is_ready(container, running, stored);
        }
        status
    }

    /// The attempt that clients are shown: one that is only coming up hides behind its predecessor.
    fn shown_attempt<'a>(&self, container: &Container, seen: &'a ContainerSeen) -> Shown<'a> {
        let before = seen.last.as_ref().map_or(Shown::Nothing, Shown::Exited);
        match &seen.state {
            State::NotCreated | State::Creating(_) => before,
            State::Running(running) if has_run_post_start(container, running) => Shown::Running(running),
            // A stop has begun: its hook failed or the pod ends, and clients see the process that there is.
            State::Running(running) if running.stop.is_some() => Shown::Running(running),
            State::Running(_) => before,
            State::Exited(exit) => Shown::Exited(exit),
        }
    }

    fn fill_state(
        &self,
        role: Role,
        container: &Container,
        shown: &Shown,
        stored: Option<&ContainerStatus>,
        status: &mut ContainerStatus,
    ) {
        let state = match shown {
            Shown::Running(running) => {
                let started_at = Some(wire_time(running.started_at));
                ContainerState { running: Some(ContainerStateRunning { started_at }), ..ContainerState::default() }
            }
            Shown::Nothing => {
                let waiting = self.trouble(container).or_else(|| kept_waiting(stored));
                waiting_state(waiting.unwrap_or_else(|| self.default_waiting()))
            }
            Shown::Exited(exit) => {
                status.ready = role == Role::Init && exit.code == 0;
                let is_restarted = !self.is_ending && restart::is_restarted(self.pod, role, container, exit);
                let waiting = || self.trouble(container).or_else(|| self.crash_loop(container, exit));
                match is_restarted.then(|| waiting().or_else(|| kept_waiting(stored))).flatten() {
                    Some(waiting) => {
                        status.last_state = Some(terminated(exit));
                        waiting_state(waiting)
                    }
                    None => terminated(exit),
                }
            }
        };
        status.state = Some(state);
    }

    fn default_waiting(&self) -> Waiting {
        let reason = if init_containers(self.pod).is_empty() { "ContainerCreating" } else { "PodInitializing" };
        Waiting { reason: reason.to_owned(), message: None }
    }

    /// What keeps the next attempt from starting, if something does.
    fn trouble(&self, container: &Container) -> Option<Waiting> {
        let seen = self.seen.container(&container.name);
        if matches!(seen.state, State::Creating(_) | State::Running(_)) {
            return None;
        }
        let image = container.image.as_deref().unwrap_or_default();
        match &seen.image {
            ImageSeen::Failed(trouble) => {
                let is_fresh = self.now < later(trouble.at, back_off::ERROR_SHOWN_S);
                let is_final = trouble.reason == "InvalidImageName";
                if is_fresh || is_final {
                    return Some(Waiting { reason: trouble.reason.clone(), message: Some(trouble.message.clone()) });
                }
                let message = format!("Back-off pulling image {image:?}: {}: {}", trouble.reason, trouble.message);
                Some(Waiting { reason: "ImagePullBackOff".to_owned(), message: Some(message) })
            }
            ImageSeen::Absent if PullPolicy::of(container) == PullPolicy::Never && self.has_turn(container) => {
                let message = format!("Container image {image:?} is not present with pull policy of Never");
                Some(Waiting { reason: "ErrImageNeverPull".to_owned(), message: Some(message) })
            }
            ImageSeen::Absent | ImageSeen::Pulling { .. } | ImageSeen::Present { .. } => {
                let trouble = seen.start_trouble.as_ref()?;
                Some(Waiting { reason: trouble.reason.clone(), message: Some(trouble.message.clone()) })
            }
        }
    }

    fn has_turn(&self, container: &Container) -> bool {
        has_turn(self.pod, self.seen, container)
    }

    fn crash_loop(&self, container: &Container, exit: &Exit) -> Option<Waiting> {
        let is_fresh = self.now < later(exit.finished_at, back_off::ERROR_SHOWN_S);
        if is_fresh || back_off::restart_at(exit) <= self.now {
            return None;
        }
        let delay = go_duration(u64::from(exit.attempt.restart_delay_seconds) * 1000);
        let label = pod_label(self.pod);
        let message = format!("back-off {delay} restarting failed container={} pod={label}", container.name);
        Some(Waiting { reason: "CrashLoopBackOff".to_owned(), message: Some(message) })
    }
}

/// Whether all that must come before this container is behind it: only then does its image matter.
pub fn has_turn(pod: &Pod, seen: &Seen, container: &Container) -> bool {
    let is_passed = |init: &Container| {
        let seen = seen.container(&init.name);
        match init_role(init) {
            Role::Sidecar => seen.running().is_some_and(|running| has_started(init, running)),
            Role::Init | Role::Main | Role::Ephemeral => seen.exited().is_some_and(|exit| exit.code == 0),
        }
    };
    let mut before = init_containers(pod).iter().take_while(|init| init.name != container.name);
    seen.sandbox == Sandbox::Ready && before.all(is_passed)
}

enum Shown<'a> {
    Nothing,
    Running(&'a Running),
    Exited(&'a Exit),
}

impl Shown<'_> {
    fn attempt(&self) -> Option<&Attempt> {
        match self {
            Shown::Nothing => None,
            Shown::Running(running) => Some(&running.attempt),
            Shown::Exited(exit) => Some(&exit.attempt),
        }
    }
}

/// While the next attempt is coming up, clients keep seeing what held it up before; the reason goes when it runs.
fn kept_waiting(stored: Option<&ContainerStatus>) -> Option<Waiting> {
    let waiting = stored?.state.as_ref()?.waiting.as_ref()?;
    let reason =
        waiting.reason.clone().filter(|reason| !matches!(reason.as_str(), "ContainerCreating" | "PodInitializing"));
    Some(Waiting { reason: reason?, message: waiting.message.clone() })
}

/// A node that has restarted keeps what it had told until its own probes know better.
fn was(stored: Option<bool>, running: &Running) -> bool {
    stored == Some(true) && running.startup.verdict.is_none()
}

fn is_ready(container: &Container, running: &Running, stored: Option<&ContainerStatus>) -> bool {
    if container.readiness_probe.is_none() {
        return true;
    }
    running.readiness.verdict.unwrap_or_else(|| stored.is_some_and(|stored| stored.ready))
}

pub fn container_id(attempt: &Attempt) -> String {
    format!("{RUNTIME}://{}", attempt.id)
}

/// The word for how a container ended.
pub fn exit_reason(exit: &Exit) -> &str {
    match &exit.reason {
        Some(reason) => reason,
        None if exit.oom_killed => "OOMKilled",
        None if exit.code == 0 => "Completed",
        None => "Error",
    }
}

pub fn terminated(exit: &Exit) -> ContainerState {
    let terminated = ContainerStateTerminated {
        container_id: Some(container_id(&exit.attempt)),
        exit_code: exit.code,
        signal: exit.signal,
        reason: Some(exit_reason(exit).to_owned()),
        message: exit.message.clone(),
        started_at: exit.started_at.map(wire_time),
        finished_at: Some(wire_time(exit.finished_at)),
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn waiting_state(waiting: Waiting) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(waiting.reason), message: waiting.message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

/// A container of an ended pod of which nothing was ever found.
pub fn never_located() -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn volume_mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_deref()?.iter().map(|mount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|is_read_only| *is_read_only),
        recursive_read_only: (mount.read_only == Some(true)).then(|| "Disabled".to_owned()),
        ..VolumeMountStatus::default()
    });
    Some(mounts.collect())
}
