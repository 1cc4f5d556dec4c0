//! The conditions that the node owns (K-POD-1); those of others are left alone.

use super::seen::{Sandbox, Seen};
use super::{Role, all_containers, main_containers, spec, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

const OWNED: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

pub struct Facts<'a> {
    pub pod: &'a Pod,
    pub seen: &'a Seen,
    pub phase: &'a str,
    /// Of all containers, init containers included.
    pub statuses: &'a [ContainerStatus],
    pub now: Timestamp,
}

/// A condition's verdict; the times come from what is stored.
#[derive(Clone, Default)]
struct Verdict {
    is_true: bool,
    reason: Option<String>,
    message: Option<String>,
}

impl Verdict {
    fn yes() -> Self {
        Verdict { is_true: true, ..Verdict::default() }
    }

    fn no(reason: &str, message: Option<String>) -> Self {
        Verdict { is_true: false, reason: Some(reason.to_owned()), message }
    }
}

impl Facts<'_> {
    /// All conditions of the pod: first those of others as they are, then the node's own.
    pub fn conditions(&self) -> Vec<PodCondition> {
        let stored = self.pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let foreign = stored.iter().filter(|condition| !OWNED.contains(&condition.type_.as_str()));
        let mut conditions: Vec<PodCondition> = foreign.cloned().collect();
        let is_evicted =
            self.seen.eviction.as_ref().filter(|_| self.phase == "Failed" && !self.seen.is_anything_alive());
        if let Some(eviction) = is_evicted {
            conditions.retain(|condition| condition.type_ != "DisruptionTarget");
            let reason = Some("TerminationByKubelet".to_owned());
            let verdict = Verdict { is_true: true, reason, message: Some(eviction.message.clone()) };
            conditions.push(self.condition("DisruptionTarget", verdict, stored));
        }
        let containers_ready = self.containers_ready();
        let ready = self.ready(&containers_ready, stored);
        let is_sandbox_ready = self.seen.sandbox == Sandbox::Ready;
        let sandbox = if is_sandbox_ready { Verdict::yes() } else { Verdict::default() };
        let verdicts = [sandbox, self.initialised(), ready, containers_ready, Verdict::yes()];
        for (kind, verdict) in OWNED.into_iter().zip(verdicts) {
            conditions.push(self.condition(kind, verdict, stored));
        }
        conditions
    }

    fn condition(&self, kind: &str, verdict: Verdict, stored: &[PodCondition]) -> PodCondition {
        let status = if verdict.is_true { "True" } else { "False" };
        let same = stored.iter().find(|condition| condition.type_ == kind && condition.status == status);
        let since = same.and_then(|condition| condition.last_transition_time.clone());
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason,
            message: verdict.message,
            last_probe_time: None,
            last_transition_time: Some(since.unwrap_or_else(|| wire_time(self.now))),
            observed_generation: self.pod.metadata.generation,
        }
    }

    fn status(&self, name: &str) -> Option<&ContainerStatus> {
        self.statuses.iter().find(|status| status.name == name)
    }

    fn containers_ready(&self) -> Verdict {
        match self.phase {
            "Succeeded" => return Verdict::no("PodCompleted", None),
            "Failed" => return Verdict::no("PodFailed", None),
            _ => {}
        }
        let watched = all_containers(self.pod).filter(|(role, _)| *role != Role::Init);
        let unready = watched.filter(|(_, container)| self.status(&container.name).is_none_or(|status| !status.ready));
        let unready: Vec<&str> = unready.map(|(_, container)| container.name.as_str()).collect();
        if unready.is_empty() {
            return Verdict::yes();
        }
        Verdict::no("ContainersNotReady", Some(format!("containers with unready status: [{}]", unready.join(" "))))
    }

    fn ready(&self, containers_ready: &Verdict, stored: &[PodCondition]) -> Verdict {
        if !containers_ready.is_true {
            return containers_ready.clone();
        }
        let gates = spec(self.pod).and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
        let mut shut = Vec::new();
        for gate in gates {
            let kind = &gate.condition_type;
            match stored.iter().find(|condition| condition.type_ == *kind) {
                None => shut.push(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
                Some(condition) if condition.status != "True" => {
                    let status = &condition.status;
                    shut.push(format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}"));
                }
                Some(_) => {}
            }
        }
        if shut.is_empty() { Verdict::yes() } else { Verdict::no("ReadinessGatesNotReady", Some(shut.join(", "))) }
    }

    fn initialised(&self) -> Verdict {
        if self.phase == "Succeeded" {
            return Verdict { is_true: true, reason: Some("PodCompleted".to_owned()), message: None };
        }
        let has_main_started = main_containers(self.pod).iter().any(|main| {
            let state = self.status(&main.name).and_then(|status| status.state.as_ref());
            state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        });
        let is_incomplete = |role: Role, status: Option<&ContainerStatus>| match role {
            Role::Init => status.is_none_or(|status| !status.ready),
            Role::Sidecar => status.is_none_or(|status| status.started != Some(true)),
            Role::Main | Role::Ephemeral => false,
        };
        let containers = all_containers(self.pod);
        let incomplete = containers.filter(|(role, container)| is_incomplete(*role, self.status(&container.name)));
        let incomplete: Vec<&str> = incomplete.map(|(_, container)| container.name.as_str()).collect();
        if incomplete.is_empty() || has_main_started {
            return Verdict::yes();
        }
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        Verdict::no("ContainersNotInitialized", Some(message))
    }
}
