//! The node's decisions: what a pod's containers do next, what clients see of them, and what they are given.
//!
//! The shell observes one pod as `Seen`, asks `actions::pod_actions` what to do, does it, and reports with
//! `status::status` and `events::events`. Nothing here starts a process, reads a clock or knows a runtime.

pub mod seen;

pub mod actions;
mod back_off;
pub mod course;
pub mod handlers;
pub mod probes;
mod restart;
mod stop;

mod conditions;
mod container_status;
pub mod events;
mod phase;
pub mod status;
pub mod termination;

pub mod admission;
pub mod devices;
pub mod resources;

pub mod downward;
pub mod environment;
mod expand;
pub mod files;
pub mod machine;
pub mod mounts;
pub mod names;
pub mod nfs;
pub mod payload;
pub mod pressure;
pub mod pretended_nodes;
pub mod pretended_pods;
mod service_links;
pub mod service_rules;
pub mod volumes;

#[cfg(test)]
mod actions_tests;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod pretend;
#[cfg(test)]
mod status_tests;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The scheme of the container ids that clients see.
pub const RUNTIME: &str = "volley";

/// What a container is to its pod; it decides when it starts and stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: runs beside the main containers and ends after them.
    Sidecar,
    Main,
    /// Added to a running pod by `kubectl debug`: starts at once, runs once, and the pod does not depend on it.
    Ephemeral,
}

/// A pod of the store always has a spec; one without is treated as a pod without containers.
pub(crate) fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

pub(crate) fn init_containers(pod: &Pod) -> &[Container] {
    spec(pod).and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
}

pub(crate) fn main_containers(pod: &Pod) -> &[Container] {
    spec(pod).map(|spec| spec.containers.as_slice()).unwrap_or_default()
}

/// Every container that the pod was made with: init containers and sidecars in their order, then the main ones.
pub(crate) fn all_containers(pod: &Pod) -> impl DoubleEndedIterator<Item = (Role, &Container)> {
    let init = init_containers(pod).iter().map(|container| (init_role(container), container));
    init.chain(main_containers(pod).iter().map(|container| (Role::Main, container)))
}

/// The ephemeral containers in the shape of the others.
pub(crate) fn ephemeral_containers(pod: &Pod) -> Vec<Container> {
    let ephemerals = spec(pod).and_then(|spec| spec.ephemeral_containers.as_deref()).unwrap_or_default();
    let shaped = |ephemeral: &EphemeralContainer| Container {
        args: ephemeral.args.clone(),
        command: ephemeral.command.clone(),
        env: ephemeral.env.clone(),
        env_from: ephemeral.env_from.clone(),
        image: ephemeral.image.clone(),
        image_pull_policy: ephemeral.image_pull_policy.clone(),
        name: ephemeral.name.clone(),
        security_context: ephemeral.security_context.clone(),
        stdin: ephemeral.stdin,
        stdin_once: ephemeral.stdin_once,
        termination_message_path: ephemeral.termination_message_path.clone(),
        termination_message_policy: ephemeral.termination_message_policy.clone(),
        tty: ephemeral.tty,
        volume_devices: ephemeral.volume_devices.clone(),
        volume_mounts: ephemeral.volume_mounts.clone(),
        working_dir: ephemeral.working_dir.clone(),
        // They have no ports, resources, probes or hooks, and are never restarted.
        ..Container::default()
    };
    ephemerals.iter().map(shaped).collect()
}

/// Every container of the pod, those added later included.
pub fn containers(pod: &Pod) -> Vec<Container> {
    all_containers(pod).map(|(_, container)| container.clone()).chain(ephemeral_containers(pod)).collect()
}

/// The names of the containers that run to their end before the others start.
pub fn init_names(pod: &Pod) -> impl Iterator<Item = &str> {
    all_containers(pod).filter(|(role, _)| *role == Role::Init).map(|(_, container)| container.name.as_str())
}

pub(crate) fn init_role(container: &Container) -> Role {
    let is_sidecar = container.restart_policy.as_deref() == Some("Always");
    if is_sidecar { Role::Sidecar } else { Role::Init }
}

pub(crate) fn is_host_network(pod: &Pod) -> bool {
    spec(pod).is_some_and(|spec| spec.host_network == Some(true))
}

/// Whether its object says that it has ended.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(stored_phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn stored_phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// A pod as the kubelet writes it into messages.
pub(crate) fn pod_label(pod: &Pod) -> String {
    format!("{}_{}({})", name(pod), namespace(pod), uid(pod))
}

pub(crate) fn later(then: Timestamp, seconds: i64) -> Timestamp {
    then.saturating_add(SignedDuration::from_secs(seconds)).expect("adding whole seconds has no calendar units")
}

/// A wire time: Kubernetes keeps whole seconds.
pub(crate) fn wire_time(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).expect("a timestamp's seconds make a timestamp"))
}

/// A duration as Go prints it: `10s`, `1m20s`, `5m0s`, `1.204s`, `310ms`.
pub(crate) fn go_duration(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    if seconds == 0 {
        return if rest == 0 { "0s".to_owned() } else { format!("{rest}ms") };
    }
    let fraction = format!("{rest:03}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{point}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{point}{fraction}s"),
        (_, _) => format!("{hours}h{minutes}m{seconds}{point}{fraction}s"),
    }
}

/// The first of the given times: when to look again.
pub(crate) fn earliest(times: impl IntoIterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::go_duration;

    #[test]
    fn durations_read_as_go_prints_them() {
        let cases =
            [(0, "0s"), (310, "310ms"), (1204, "1.204s"), (10_000, "10s"), (80_000, "1m20s"), (300_000, "5m0s")];
        for (milliseconds, text) in cases {
            assert_eq!(go_duration(milliseconds), text);
        }
        assert_eq!(go_duration(3_600_000), "1h0m0s");
    }
}
