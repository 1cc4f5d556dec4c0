//! Whether an ended container starts again: the pod's policy, the container's own, and its rules (1.35).

use super::seen::{Exit, StopReason};
use super::{Role, spec};
use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Always,
    OnFailure,
    Never,
}

fn policy(text: Option<&str>) -> Policy {
    match text {
        Some("OnFailure") => Policy::OnFailure,
        Some("Never") => Policy::Never,
        _ => Policy::Always,
    }
}

fn policy_of(pod: &Pod, container: &Container) -> Policy {
    match container.restart_policy.as_deref() {
        Some(own) => policy(Some(own)),
        None => policy(spec(pod).and_then(|spec| spec.restart_policy.as_deref())),
    }
}

/// Whether a container that ended this way starts again. An init container that succeeded is done, an ephemeral one
/// always.
pub fn is_restarted(pod: &Pod, role: Role, container: &Container, exit: &Exit) -> bool {
    let is_done = role == Role::Ephemeral || role == Role::Init && exit.code == 0;
    if is_done {
        return false;
    }
    let policy = policy_of(pod, container);
    match exit.stopped_for {
        Some(StopReason::DefinitionChanged) => return true,
        // The node wanted it to start anew, whatever code it managed to exit with.
        Some(StopReason::LivenessProbe | StopReason::StartupProbe) => return policy != Policy::Never,
        Some(StopReason::PodEnds | StopReason::DeadlineExceeded | StopReason::PostStartHook) | None => {}
    }
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    if container.restart_policy.is_some() && rules.iter().any(|rule| asks_restart(rule, exit.code)) {
        return true;
    }
    match policy {
        Policy::Always => true,
        Policy::OnFailure => exit.code != 0,
        Policy::Never => false,
    }
}

/// Whether the pod gets a new sandbox after it lost one in which containers had run.
pub fn survives_sandbox_loss(pod: &Pod) -> bool {
    policy(spec(pod).and_then(|spec| spec.restart_policy.as_deref())) != Policy::Never
}

/// Whether the container will start again after the node stops it for its health.
pub fn is_restarted_after_probe(pod: &Pod, container: &Container) -> bool {
    policy_of(pod, container) != Policy::Never
}

fn asks_restart(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(exit_codes) = rule.exit_codes.as_ref().filter(|_| rule.action == "Restart") else { return false };
    let is_listed = exit_codes.values.as_deref().unwrap_or_default().contains(&code);
    match exit_codes.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::seen::Attempt;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn check(pod_policy: &str, container: Value, role: Role, ends: &[(i32, bool)]) {
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"restartPolicy": pod_policy, "containers": []}})).unwrap();
        let container: Container = serde_json::from_value(container).unwrap();
        for (code, expected) in ends {
            let exit = Exit {
                attempt: Attempt::default(),
                code: *code,
                signal: None,
                started_at: None,
                finished_at: Timestamp::UNIX_EPOCH,
                oom_killed: false,
                reason: None,
                message: None,
                stopped_for: None,
            };
            assert_eq!(is_restarted(&pod, role, &container, &exit), *expected, "{pod_policy} {container:?} {code}");
        }
    }

    #[test]
    fn the_pods_policy_decides() {
        let plain = json!({"name": "c"});
        check("Always", plain.clone(), Role::Main, &[(0, true), (1, true)]);
        check("OnFailure", plain.clone(), Role::Main, &[(0, false), (1, true)]);
        check("Never", plain.clone(), Role::Main, &[(0, false), (1, false)]);
        check("Always", plain, Role::Init, &[(0, false), (1, true)]);
    }

    #[test]
    fn a_containers_own_policy_and_rules_come_first() {
        check("Never", json!({"name": "s", "restartPolicy": "Always"}), Role::Sidecar, &[(0, true), (1, true)]);
        check("Always", json!({"name": "c", "restartPolicy": "Never"}), Role::Main, &[(0, false), (1, false)]);
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        let ruled = json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": rules});
        check("Never", ruled, Role::Main, &[(42, true), (1, false), (0, false)]);
    }
}
