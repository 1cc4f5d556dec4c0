//! Services and disruption budgets, the shell: whatever follows pods by their labels.

use super::apply::Synced;
use super::index::Child;
use super::{Shell, split};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::at;
use volley_api::kube::selector::LabelSelector;
use volley_plan::control::{disruption, endpoints};

const ENDPOINTS: &str = "endpoints-controller";

impl Shell {
    /// EndpointSlices and the Endpoints object of one service (K-SVC-2).
    pub async fn sync_endpoints(&self, key: &str) -> Synced {
        drop(self.look());
        let current: Option<Endpoints> = self.get("endpoints", key);
        let Some(seen) = self.get::<Service>("services", key) else {
            let plan = current.filter(is_managed).map(|current| endpoints::plan_without_service(&current));
            return self.apply(ENDPOINTS, plan.unwrap_or_default()).await;
        };
        let Some(labels) = seen.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return Ok(None) };
        let labels = serde_json::to_value(labels).unwrap_or_default();
        let selector = LabelSelector::from_labels(labels.as_object());
        let (namespace, name) = split(key);
        let pods: Vec<Pod> = self.list_selected(Child::Pod, &format!("{namespace}/"), &selector);
        // Slices are named after their service, so those of others need not be looked at.
        let slices: Vec<EndpointSlice> = self.list("discovery.k8s.io/endpointslices", &format!("{namespace}/{name}-"));
        let observed =
            endpoints::Observed { service: &seen, pods: &pods, slices: &slices, endpoints: current.as_ref() };
        self.apply(ENDPOINTS, endpoints::plan(&observed)).await
    }

    /// How many of a budget's pods may be evicted now.
    pub async fn sync_budget(&self, key: &str) -> Synced {
        drop(self.look());
        let Some(seen) = self.get::<PodDisruptionBudget>("policy/poddisruptionbudgets", key) else { return Ok(None) };
        let object: Value = self.get("policy/poddisruptionbudgets", key).unwrap_or_default();
        let selector =
            LabelSelector::from_object(at(&object, "spec.selector")).unwrap_or_else(|_| LabelSelector::nothing());
        let prefix = format!("{}/", split(key).0);
        let pods: Vec<Pod> = self.list_selected(Child::Pod, &prefix, &selector);
        let sets: Vec<ReplicaSet> = self.list(Child::ReplicaSet.bucket(), &prefix);
        let scale = |set: ReplicaSet| Some((set.metadata.uid?, set.spec?.replicas.unwrap_or(1)));
        let scales: BTreeMap<String, i32> = sets.into_iter().filter_map(scale).collect();
        let observed = disruption::Observed { budget: &seen, pods: &pods, scales: &scales };
        self.apply("disruption-controller", disruption::plan(&observed, Timestamp::now())).await
    }
}

/// Endpoints that somebody wrote by hand outlive any service of their name.
fn is_managed(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key("endpoints.kubernetes.io/managed-by"))
}
