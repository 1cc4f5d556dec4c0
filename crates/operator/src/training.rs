//! Kubeflow's training jobs: gathers what the planner wants to see of one, and applies what it says.

use crate::apply::{SyncError, Synced};
use crate::kinds::{self, own};
use crate::queue::Key;
use crate::shell::Shell;
use crate::volcano::owned;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;
use volley_api::kube::text;
use volley_api::kubeflow::kinds::{Kind, Row};
use volley_plan::job::training::{self, Gang, Observed};

impl Shell {
    pub async fn sync_training(&self, row: &'static Row, key: &Key) -> Synced {
        let Some(job) = self.cache.get(key.kind, &key.namespace, &key.name) else { return Ok(None) };
        let (namespace, name) = (&*key.namespace, &*key.name);
        let settings = &self.options.training;
        let pods = self.near(own::pod(), &job);
        let pods: Vec<Pod> = pods.iter().filter_map(|pod| Pod::deserialize(&**pod).ok()).collect();
        let group = match settings.gang {
            Some(Gang::Plugins(_)) => kinds::known("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
            Some(Gang::Volcano) | None => own::group(),
        };
        let autoscaler = kinds::known("autoscaling/v2", "HorizontalPodAutoscaler");
        let (group, autoscaler) = (self.cache.get(group, namespace, name), self.cache.get(autoscaler, namespace, name));
        let seen = Observed {
            job: &job,
            pods: &pods,
            services: &owned(&self.near(kinds::known("v1", "Service"), &job)),
            pod_group: group.as_deref(),
            autoscaler: autoscaler.as_deref(),
            helpers: &self.helpers(row, &job).await?,
            priorities: &self.priorities(),
        };
        let plan = training::plan(row, &seen, settings, Timestamp::now());
        self.apply(plan, &|action, error| training::failure(row, &job, action, error)).await
    }

    /// What an MPIJob has beside pods: its hosts, and its launcher's right to start processes on them.
    async fn helpers(&self, row: &Row, job: &Value) -> Result<Vec<Value>, SyncError> {
        let mut helpers = Vec::new();
        if row.kind != Kind::Mpi {
            return Ok(helpers);
        }
        let (namespace, name) = (text(job, "metadata.namespace"), text(job, "metadata.name"));
        let rbac = "rbac.authorization.k8s.io/v1";
        let kinds = [
            ("v1", "ConfigMap", "config"),
            ("v1", "ServiceAccount", "launcher"),
            (rbac, "Role", "launcher"),
            (rbac, "RoleBinding", "launcher"),
        ];
        for (version, kind, suffix) in kinds {
            helpers.extend(self.ask(kinds::known(version, kind), namespace, &format!("{name}-{suffix}")).await?);
        }
        Ok(helpers)
    }
}
