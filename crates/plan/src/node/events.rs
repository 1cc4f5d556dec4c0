//! The events that tell a user what the node did (spec K 16.2): found by comparing two looks at the same pod.
//!
//! The shell records them as component `kubelet` with its host; a repeated one only counts up (K-EVT-3).

use super::actions::PullPolicy;
use super::container_status::has_turn;
use super::seen::{
    Attempt, ContainerSeen, Exit, HookSeen, ImageSeen, ProbeKind, Running, Sandbox, Seen, State, StopReason, StopSeen,
    Trouble, Volumes,
};
use super::{Role, all_containers, back_off, ephemeral_containers, go_duration, pod_label, restart};
use crate::control::EventType;
use k8s_openapi::api::core::v1::{Container, Pod};

const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventType,
    pub reason: String,
    pub message: String,
    /// `involvedObject.fieldPath`, for events about one container.
    pub field_path: Option<String>,
}

pub fn events(before: &Seen, after: &Seen, pod: &Pod) -> Vec<Event> {
    let mut told = Told { field_path: None, events: Vec::new() };
    tell_pod(before, after, &mut told);
    let ephemerals = ephemeral_containers(pod);
    let ephemerals = ephemerals.iter().map(|container| (Role::Ephemeral, container));
    for (role, container) in all_containers(pod).chain(ephemerals) {
        let list = match role {
            Role::Init | Role::Sidecar => "initContainers",
            Role::Main => "containers",
            Role::Ephemeral => "ephemeralContainers",
        };
        told.field_path = Some(format!("spec.{list}{{{}}}", container.name));
        let change = Change {
            pod,
            role,
            container,
            before: before.container(&container.name),
            after: after.container(&container.name),
        };
        let has_turn_now = has_turn(pod, after, container) && !has_turn(pod, before, container);
        change.tell_image(has_turn_now, &mut told);
        change.tell_start(&mut told);
        change.tell_run(&mut told);
        change.tell_end(&mut told);
    }
    told.events
}

struct Told {
    field_path: Option<String>,
    events: Vec<Event>,
}

impl Told {
    fn normal(&mut self, reason: &str, message: impl Into<String>) {
        self.add(EventType::Normal, reason, message.into());
    }

    fn warning(&mut self, reason: &str, message: impl Into<String>) {
        self.add(EventType::Warning, reason, message.into());
    }

    fn add(&mut self, kind: EventType, reason: &str, message: String) {
        let field_path = self.field_path.clone();
        self.events.push(Event { kind, reason: reason.to_owned(), message, field_path });
    }
}

fn tell_pod(before: &Seen, after: &Seen, told: &mut Told) {
    if let Some(rejection) = after.rejected.as_ref().filter(|_| before.rejected.is_none()) {
        told.warning(&rejection.reason, &rejection.message);
    }
    if let Some(eviction) = after.eviction.as_ref().filter(|_| before.eviction.is_none()) {
        told.warning("Evicted", &eviction.message);
    }
    let has_deadline_passed = |seen: &Seen| {
        let mut running = seen.containers.values().filter_map(ContainerSeen::running);
        running.any(|running| running.stop.as_ref().is_some_and(|stop| stop.reason == StopReason::DeadlineExceeded))
    };
    let was_told =
        before.containers.values().any(|container| stopped_for(container) == Some(StopReason::DeadlineExceeded));
    if has_deadline_passed(after) && !has_deadline_passed(before) && !was_told {
        told.normal("DeadlineExceeded", DEADLINE_MESSAGE);
    }
    if let (Volumes::Failed(trouble), volumes) = (&after.volumes, &before.volumes)
        && *volumes != after.volumes
    {
        told.warning("FailedMount", &trouble.message);
    }
    match (&before.sandbox, &after.sandbox) {
        (old, Sandbox::Failed(trouble)) if *old != after.sandbox => {
            told.warning("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {}", trouble.message));
        }
        (Sandbox::Ready, Sandbox::Ended) => {
            told.normal("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.");
        }
        _ => {}
    }
}

fn stopped_for(container: &ContainerSeen) -> Option<StopReason> {
    container.exited().and_then(|exit| exit.stopped_for)
}

/// One container in two looks at it.
struct Change<'a> {
    pod: &'a Pod,
    role: Role,
    container: &'a Container,
    before: &'a ContainerSeen,
    after: &'a ContainerSeen,
}

impl Change<'_> {
    fn tell_image(&self, has_turn_now: bool, told: &mut Told) {
        let image = self.container.image.as_deref().unwrap_or_default();
        let is_missing = self.after.image == ImageSeen::Absent && PullPolicy::of(self.container) == PullPolicy::Never;
        if is_missing && has_turn_now {
            let message = format!("Container image {image:?} is not present with pull policy of Never");
            told.warning("ErrImageNeverPull", message);
            told.warning("Failed", "Error: ErrImageNeverPull");
        }
        if self.before.image == self.after.image {
            return;
        }
        let was_pulling = matches!(self.before.image, ImageSeen::Pulling { .. });
        match &self.after.image {
            ImageSeen::Absent => {}
            ImageSeen::Pulling { .. } => told.normal("Pulling", format!("Pulling image {image:?}")),
            ImageSeen::Present { pull: None, .. } => {}
            ImageSeen::Present { pull: Some(pull), .. } => {
                if !was_pulling {
                    told.normal("Pulling", format!("Pulling image {image:?}"));
                }
                let (took, total) = (go_duration(pull.pull_ms), go_duration(pull.total_ms));
                let took = format!("in {took} ({total} including waiting)");
                let size = format!("Image size: {} bytes.", pull.size_bytes);
                told.normal("Pulled", format!("Successfully pulled image {image:?} {took}. {size}"));
            }
            ImageSeen::Failed(trouble) => tell_failed_pull(image, trouble, told),
        }
    }

    /// The container came to life, or failed to.
    fn tell_start(&self, told: &mut Told) {
        let is_new = |trouble: &&Trouble| self.before.start_trouble.as_ref() != Some(*trouble);
        if let Some(trouble) = self.after.start_trouble.as_ref().filter(is_new) {
            told.warning("Failed", format!("Error: {}", trouble.message));
        }
        let known = self.before.attempt().filter(|_| !matches!(self.before.state, State::Creating(_)));
        let known = known.map(|attempt| attempt.number);
        match &self.after.state {
            State::NotCreated | State::Creating(_) => {}
            State::Running(running) if known != Some(running.attempt.number) => {
                self.tell_created(&running.attempt, told);
                told.normal("Started", "Container started");
            }
            State::Exited(exit) if known != Some(exit.attempt.number) => {
                self.tell_created(&exit.attempt, told);
                match exit.started_at {
                    Some(_) => told.normal("Started", "Container started"),
                    None => told.warning("Failed", format!("Error: {}", exit.message.as_deref().unwrap_or_default())),
                }
            }
            State::Running(_) | State::Exited(_) => {}
        }
    }

    fn tell_created(&self, attempt: &Attempt, told: &mut Told) {
        let was_pulled = match &self.after.image {
            ImageSeen::Present { pull: Some(pull), .. } => pull.attempt_number == attempt.number,
            ImageSeen::Absent | ImageSeen::Pulling { .. } | ImageSeen::Present { .. } | ImageSeen::Failed(_) => false,
        };
        if !was_pulled {
            let image = &attempt.image;
            let message =
                format!("Container image {image:?} already present on machine and can be accessed by the pod");
            told.normal("Pulled", message);
        }
        told.normal("Created", "Container created");
    }

    /// Hooks and probes of a container that runs, and the beginning of its stop.
    fn tell_run(&self, told: &mut Told) {
        let Some(running) = self.after.running() else { return };
        let same = self.before.running().filter(|before| before.attempt.number == running.attempt.number);
        let had_failed = same.is_some_and(|before| before.post_start == running.post_start);
        if matches!(running.post_start, HookSeen::Failed(_)) && !had_failed {
            told.warning("FailedPostStartHook", "PostStartHook failed");
        }
        for (kind, word) in
            [(ProbeKind::Startup, "Startup"), (ProbeKind::Readiness, "Readiness"), (ProbeKind::Liveness, "Liveness")]
        {
            let (now, runs_before) = (running.probe(kind), same.map_or(0, |before| before.probe(kind).runs));
            if now.runs > runs_before && now.last_success == Some(false) {
                told.warning("Unhealthy", format!("{word} probe failed: {}", now.output));
            }
        }
        if let Some(stop) = &running.stop {
            self.tell_stop(stop, same.and_then(|before: &Running| before.stop.as_ref()), told);
        }
    }

    fn tell_stop(&self, stop: &StopSeen, before: Option<&StopSeen>, told: &mut Told) {
        if before.is_none_or(|before| before.since != stop.since) {
            told.normal("Killing", self.stop_message(stop.reason));
        }
        let had_failed = before.is_some_and(|before| before.pre_stop == stop.pre_stop);
        if matches!(stop.pre_stop, HookSeen::Failed(_)) && !had_failed {
            told.warning("FailedPreStopHook", "PreStopHook failed");
        }
    }

    fn stop_message(&self, reason: StopReason) -> String {
        let name = &self.container.name;
        let noun = if self.role == Role::Main { "Container" } else { "Init container" };
        let message = match reason {
            StopReason::PodEnds | StopReason::DeadlineExceeded => return format!("Stopping container {name}"),
            StopReason::PostStartHook => return "FailedPostStartHook".to_owned(),
            StopReason::LivenessProbe => format!("{noun} {name} failed liveness probe"),
            StopReason::StartupProbe => format!("{noun} {name} failed startup probe"),
            StopReason::DefinitionChanged => format!("{noun} {name} definition changed"),
        };
        let is_restarted =
            reason == StopReason::DefinitionChanged || restart::is_restarted_after_probe(self.pod, self.container);
        if self.role == Role::Main && is_restarted { format!("{message}, will be restarted") } else { message }
    }

    fn tell_end(&self, told: &mut Told) {
        let is_new = |exit: &&Exit| self.before.exited() != Some(*exit);
        let Some(exit) = self.after.exited().filter(is_new) else { return };
        let is_deleted = self.pod.metadata.deletion_timestamp.is_some();
        let is_restarted = !is_deleted && restart::is_restarted(self.pod, self.role, self.container, exit);
        if is_restarted && back_off::restart_at(exit) > exit.finished_at {
            let (name, label) = (&self.container.name, pod_label(self.pod));
            told.warning("BackOff", format!("Back-off restarting failed container {name} in pod {label}"));
        }
    }
}

fn tell_failed_pull(image: &str, trouble: &Trouble, told: &mut Told) {
    if trouble.reason == "InvalidImageName" {
        told.warning("InspectFailed", &trouble.message);
        return told.warning("Failed", "Error: InvalidImageName");
    }
    told.warning("Failed", format!("Failed to pull image {image:?}: {}", trouble.message));
    told.warning("Failed", format!("Error: {}", trouble.reason));
    told.normal("BackOff", format!("Back-off pulling image {image:?}"));
    told.warning("Failed", "Error: ImagePullBackOff");
}
