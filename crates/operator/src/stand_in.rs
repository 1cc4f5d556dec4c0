//! Stands in for the gang scheduler: every PodGroup is admitted at once, and is Running when enough of its pods are
//! placed (spec/volcano.md 7.5). Goes as a whole when there is one.

use crate::apply::Synced;
use crate::cache::controller;
use crate::kinds::own;
use crate::queue::Key;
use crate::shell::Shell;
use crate::volcano::silent;
use serde_json::{Value, json};
use std::sync::Arc;
use volley_api::kube::{at, text};
use volley_api::volcano::keys;
use volley_plan::control::{Action, Plan};
use volley_plan::job::head::target_of;

impl Shell {
    pub async fn sync_group(&self, key: &Key) -> Synced {
        let Some(group) = self.cache.get(key.kind, &key.namespace, &key.name) else { return Ok(None) };
        if !self.options.admits_groups {
            return Ok(None);
        }
        let owner = controller(&group);
        let mut pods = owner.map(|owner| self.cache.owned(own::pod(), text(owner, "uid"))).unwrap_or_default();
        pods.extend(owner.and_then(|owner| self.cache.get(own::pod(), &key.namespace, text(owner, "name"))));
        pods.retain(|pod| pod["metadata"]["annotations"][keys::GROUP] == *key.name);
        self.apply(plan(&group, &pods), &silent).await
    }
}

fn plan(group: &Value, pods: &[Arc<Value>]) -> Plan {
    let mut plan = Plan::default();
    if !text(group, "metadata.deletionTimestamp").is_empty() {
        return plan;
    }
    let count = |phase: &str| pods.iter().filter(|pod| text(pod, "status.phase") == phase).count();
    let (running, succeeded, failed) = (count("Running"), count("Succeeded"), count("Failed"));
    let placed = pods.iter().filter(|pod| !text(pod, "spec.nodeName").is_empty()).count();
    let enough = at(group, "spec.minMember").and_then(Value::as_u64).unwrap_or(1).max(1);
    let old = text(group, "status.phase");
    let phase = match old {
        _ if placed as u64 >= enough && succeeded + failed == placed => "Completed",
        _ if placed as u64 >= enough => "Running",
        "" | "Pending" => "Inqueue",
        "Running" if placed == 0 => "Pending",
        other => other,
    };
    let old = at(group, "status").cloned().unwrap_or_default();
    let counts = [("running", running), ("succeeded", succeeded), ("failed", failed)];
    let is_same = counts.iter().all(|(field, count)| old[*field].as_u64().unwrap_or(0) == *count as u64);
    if old["phase"] != phase || !is_same {
        let mut status = json!({ "phase": phase });
        counts.iter().for_each(|(field, count)| status[*field] = json!(count));
        plan.actions.push(Action::Patch { target: target_of(group), patch: json!({ "status": status }) });
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(old: &str, pods: &[(&str, &str)]) -> String {
        let pod =
            |(phase, node): &(&str, &str)| Arc::new(json!({"status": {"phase": phase}, "spec": {"nodeName": node}}));
        let group = json!({"spec": {"minMember": 2}, "status": {"phase": old, "running": 9}});
        let plan = plan(&group, &pods.iter().map(pod).collect::<Vec<_>>());
        match &plan.actions[..] {
            [Action::Patch { patch, .. }] => text(patch, "status.phase").to_owned(),
            other => format!("{other:?}"),
        }
    }

    // PGP-2, PGP-4
    #[test]
    fn a_group_is_admitted_at_once_and_runs_when_enough_of_it_is_placed() {
        assert_eq!(phase("", &[]), "Inqueue");
        assert_eq!(phase("Pending", &[]), "Inqueue");
        assert_eq!(phase("Inqueue", &[("Pending", "n"), ("Pending", "")]), "Inqueue");
        assert_eq!(phase("Inqueue", &[("Pending", "n"), ("Pending", "n")]), "Running");
        assert_eq!(phase("Running", &[("Running", "n")]), "Running");
        assert_eq!(phase("Running", &[]), "Pending");
        assert_eq!(phase("Running", &[("Succeeded", "n"), ("Failed", "n")]), "Completed");
    }
}
