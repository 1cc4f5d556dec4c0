//! What of a plan may be done side by side.

use super::{Action, Target};
use std::collections::BTreeSet;
use std::mem::discriminant;
use volley_api::kube::text;

/// Splits actions into runs of one sort on different objects of one kind.
pub fn runs(actions: Vec<Action>) -> Vec<Vec<Action>> {
    let mut runs: Vec<Vec<Action>> = Vec::new();
    let mut targets: BTreeSet<Target> = BTreeSet::new();
    for action in actions {
        let target = target(&action).cloned();
        let is_known = target.as_ref().is_some_and(|target| targets.contains(target));
        let is_alike = |other: &Action| discriminant(other) == discriminant(&action) && kind(other) == kind(&action);
        match runs.last_mut() {
            Some(run) if !is_known && run.first().is_some_and(is_alike) => run.push(action),
            _ => {
                targets.clear();
                runs.push(vec![action]);
            }
        }
        targets.extend(target);
    }
    runs
}

/// Objects to be created are different ones, or their plan would be wrong.
fn target(action: &Action) -> Option<&Target> {
    match action {
        Action::Create { .. } => None,
        Action::Delete { target, .. }
        | Action::Patch { target, .. }
        | Action::PatchStatus { target, .. }
        | Action::Finalize { target, .. } => Some(target),
    }
}

fn kind(action: &Action) -> &str {
    match action {
        Action::Create { object, .. } => text(object, "kind"),
        other => target(other).map_or("", |target| &target.kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_neighbours_of_one_sort_and_kind_on_different_objects_run_together() {
        let target = |name: &str| Target {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some("n".into()),
            name: name.into(),
            uid: String::new(),
        };
        let create = |kind: &str| Action::Create { object: json!({ "kind": kind }), event: None };
        let patch = |name: &str| Action::Patch { target: target(name), patch: json!({}) };
        let status = |name: &str| Action::PatchStatus { target: target(name), patch: json!({}) };
        let actions = vec![
            create("Service"),
            create("Pod"),
            create("Pod"),
            patch("a"),
            patch("b"),
            patch("a"),
            status("a"),
            status("b"),
        ];
        let sizes: Vec<usize> = runs(actions).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 2, 2, 1, 2]);
    }
}
