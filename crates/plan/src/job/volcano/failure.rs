//! What a Job's owner is told when a write of a plan fails (UI-20).

use super::round::COMPONENT;
use crate::control::{Action, Event, Voice};
use crate::job::head::Head;
use serde_json::Value;
use volley_api::kube::text;

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
