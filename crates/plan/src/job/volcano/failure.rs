//! What a Job's owner is told when a write of a plan fails (UI-20), and when to stop trying (CTL-3).

use super::round::COMPONENT;
use crate::control::{Action, Event, Voice};
use crate::job::head::Head;
use serde_json::Value;
use volley_api::kube::text;

/// After so many failures in a row, for a reason that does not go away, a Job is given up; upstream's number.
pub const TRIES_MAX: u32 = 15;

/// Whether trying again cannot help: the server has understood the object and refuses it.
pub fn is_permanent(action: &Action, code: u16) -> bool {
    matches!(action, Action::Create { .. }) && matches!(code, 400 | 403 | 405 | 413 | 422)
}

/// The event about an action that failed, in the words of `error`; none when the world only moved on meanwhile.
pub fn event(job: &Value, action: &Action, error: &str) -> Option<Event> {
    let voice: Voice = Head::of(job).voice(COMPONENT);
    let (reason, message) = match action {
        Action::Create { object, .. } => match text(object, "kind") {
            "Pod" => ("FailedCreate", format!("Error creating pods: {error}")),
            "PersistentVolumeClaim" => ("PVCError", format!("Failed to create PVC, err: {error}")),
            "PodGroup" => ("PodGroupError", format!("Failed to create PodGroup, err: {error}")),
            _ => ("PluginError", format!("Execute plugin when job add failed, err: {error}")),
        },
        Action::Delete { target, .. } if target.kind == "Pod" => {
            ("FailedDelete", format!("Error deleting pods: {error}"))
        }
        Action::Patch { target, .. } if target.kind == "PodGroup" => {
            ("PodGroupError", format!("Failed to update PodGroup, err: {error}"))
        }
        Action::PatchStatus { .. } => ("JobStatusError", format!("Failed to update job status, err: {error}")),
        Action::Delete { .. } | Action::Patch { .. } | Action::Finalize { .. } => return None,
    };
    Some(voice.warning(reason, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Target;
    use serde_json::json;

    // UI-20, CTL-11, CTL-12, CTL-13, POD-7, POD-8
    #[test]
    fn each_failure_has_its_reason() {
        let job = json!({"metadata": {"name": "j"}});
        let target = |kind: &str| Target {
            api_version: String::new(),
            kind: kind.to_owned(),
            namespace: None,
            name: "n".to_owned(),
            uid: String::new(),
        };
        let create = |kind: &str| Action::Create { object: json!({ "kind": kind }), event: None };
        let propagation = crate::control::Propagation::Background;
        let cases = [
            (create("Pod"), "FailedCreate"),
            (create("PersistentVolumeClaim"), "PVCError"),
            (create("PodGroup"), "PodGroupError"),
            (create("Service"), "PluginError"),
            (Action::Delete { target: target("Pod"), propagation }, "FailedDelete"),
            (Action::Patch { target: target("PodGroup"), patch: json!({}) }, "PodGroupError"),
            (Action::PatchStatus { target: target("Job"), patch: json!({}) }, "JobStatusError"),
        ];
        for (action, reason) in cases {
            assert_eq!(event(&job, &action, "why").map(|event| event.reason).as_deref(), Some(reason));
        }
        assert_eq!(event(&job, &Action::Delete { target: target("Command"), propagation }, "why"), None);
    }

    // CTL-3
    #[test]
    fn a_busy_server_is_no_reason_to_give_up() {
        let create = Action::Create { object: json!({"kind": "Pod"}), event: None };
        assert!(is_permanent(&create, 422));
        assert!([409, 429, 500, 503, 504].iter().all(|code| !is_permanent(&create, *code)));
    }
}
