//! Resource quotas, the shell: counts again what a namespace uses after something ended or went (K-ADM-5).
//!
//! Admission adds what is created in the same commit as the object. The recount is refused if a quota was charged
//! since it was read, so neither can undo the other.

use super::Shell;
use super::apply::Synced;
use crate::apiserver::catalogue::Resource;
use crate::apiserver::object;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use volley_plan::control::{Action, Plan, quota};

impl Shell {
    pub async fn sync_quota(&self, namespace: &str) -> Synced {
        let prefix = format!("{namespace}/");
        let quotas: Vec<ResourceQuota> = self.list("resourcequotas", &prefix);
        let names: BTreeSet<String> = quotas
            .iter()
            .filter_map(|quota| quota.spec.as_ref()?.hard.as_ref())
            .flat_map(|hard| hard.keys().cloned())
            .collect();
        let mut objects: Vec<(Arc<Resource>, Value)> = Vec::new();
        let mut buckets = BTreeSet::new();
        for resource in self.server.catalogue().all().filter(|resource| counts(resource, &names)) {
            if !buckets.insert(resource.bucket.name().to_owned()) {
                continue;
            }
            let listing = self.server.store.list(&resource.bucket, &prefix);
            objects.extend(listing.entries.iter().map(|stored| (resource.clone(), object::parse(stored))));
        }
        let mut plan = Plan::default();
        for quota in &quotas {
            let rows = objects.iter().map(|(resource, object)| (&*resource.group, &*resource.plural, object));
            let used = quota::used(quota, rows);
            plan.actions.extend(quota::plan(quota, &used).actions.into_iter().map(|action| pinned(action, quota)));
        }
        self.apply("resourcequota-controller", plan).await
    }
}

/// Whether any of the quota names can come from objects of this kind.
fn counts(resource: &Resource, names: &BTreeSet<String>) -> bool {
    if !resource.namespaced {
        return false;
    }
    let dot = if resource.group.is_empty() { "" } else { "." };
    if names.contains(&format!("count/{}{dot}{}", resource.plural, resource.group)) {
        return true;
    }
    let is_counted = |name: &String| match (&*resource.group, &*resource.plural) {
        ("", "pods") => !name.starts_with("count/"),
        ("", "services") => name.starts_with("services"),
        ("", "persistentvolumeclaims") => name.contains("persistentvolumeclaims") || name.contains("storage"),
        ("", plural) => name == plural,
        _ => false,
    };
    names.iter().any(is_counted)
}

fn pinned(action: Action, quota: &ResourceQuota) -> Action {
    match action {
        Action::PatchStatus { target, mut patch } => {
            patch["metadata"]["resourceVersion"] = quota.metadata.resource_version.clone().into();
            Action::PatchStatus { target, patch }
        }
        other => other,
    }
}
