//! Jobs, CronJobs, ReplicaSets and Deployments, the shell: gathers what `plan::control` decides about.

use super::apply::{SyncError, Synced};
use super::index::Child;
use super::queue::{Controller, Key};
use super::{Shell, split};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use std::collections::BTreeSet;
use std::sync::Arc;
use volley_api::kube::selector::LabelSelector;
use volley_plan::control::{Action, cronjob, deployment, job, replicaset};

const REPLICA_SETS: &str = "replicaset-controller";

fn selector(selector: &v1::LabelSelector) -> Option<LabelSelector> {
    let value = serde_json::to_value(selector).ok()?;
    LabelSelector::from_object(Some(&value)).ok()
}

fn uid(metadata: &v1::ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

impl Shell {
    pub async fn sync_job(&self, key: &str) -> Synced {
        // The object is read after the indexes: what it has written is then known to them.
        drop(self.look());
        let Some(seen) = self.get::<Job>(Child::Job.bucket(), key) else { return Ok(None) };
        let spec = seen.spec.as_ref();
        let manual = spec.filter(|spec| spec.manual_selector == Some(true)).and_then(|spec| spec.selector.as_ref());
        let own = (uid(&seen.metadata), split(key).0);
        let pods: Vec<Pod> = self.family(Child::Pod, own, manual.and_then(selector).as_ref());
        let plan = job::plan(&job::Observed { job: &seen, pods: &pods }, Timestamp::now());
        self.apply("job-controller", plan).await
    }

    /// Frees a pod that was held for a Job which is no longer there to count it.
    pub async fn sync_tracked_pod(&self, key: &str) -> Synced {
        let Some(pod) = self.get::<Pod>("pods", key) else { return Ok(None) };
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true) && owner.kind == "Job");
        let job = owner.and_then(|owner| {
            let job: Job = self.get(Child::Job.bucket(), &format!("{}/{}", split(key).0, owner.name))?;
            (uid(&job.metadata) == owner.uid).then_some(job)
        });
        if job.is_some() {
            return Ok(None);
        }
        self.apply("job-controller", job::plan_orphan(&pod)).await
    }

    pub async fn sync_cron_job(&self, key: &str) -> Synced {
        drop(self.look());
        let Some(seen) = self.get::<CronJob>("batch/cronjobs", key) else { return Ok(None) };
        let name = seen.spec.time_zone.as_deref().unwrap_or("UTC");
        // Validation has looked the zone up; one that the machine has lost since is read as UTC.
        let zone = TimeZone::get(name).unwrap_or(TimeZone::UTC);
        let jobs: Vec<Job> = self.family(Child::Job, (uid(&seen.metadata), split(key).0), None);
        let plan = cronjob::plan(&cronjob::Observed { cron_job: &seen, jobs: &jobs, zone: &zone }, Timestamp::now());
        self.apply("cronjob-controller", plan).await
    }

    pub async fn sync_replica_set(&self, key: &Arc<str>) -> Synced {
        drop(self.look());
        let Some(seen) = self.get::<ReplicaSet>(Child::ReplicaSet.bucket(), key) else {
            self.create_failures.lock().remove(key);
            return Ok(None);
        };
        let own_selector = seen.spec.as_ref().and_then(|spec| selector(&spec.selector));
        let pods: Vec<Pod> = self.family(Child::Pod, (uid(&seen.metadata), split(key).0), own_selector.as_ref());
        let failure = self.create_failures.lock().get(key).cloned();
        let observed = replicaset::Observed { replica_set: &seen, pods: &pods, create_failure: failure.as_deref() };
        let plan = replicaset::plan(&observed, Timestamp::now());
        let is_status = |action: &&Action| matches!(action, Action::PatchStatus { .. });
        let status: Vec<Action> = plan.actions.iter().filter(is_status).cloned().collect();
        let result = self.apply(REPLICA_SETS, plan).await;
        let refusal = match &result {
            Err(SyncError::Call { source, .. }) => Some(source.message.clone()),
            Err(_) => return result,
            Ok(_) => None,
        };
        // The status must tell of a failure although the failure ended the round before the status was written.
        if refusal.is_some() {
            self.apply_each(REPLICA_SETS, status).await?;
        }
        // Messages differ in generated names, so only whether there is one decides about another round.
        if refusal.is_some() != failure.is_some() {
            let mut failures = self.create_failures.lock();
            match refusal {
                Some(message) => drop(failures.insert(key.clone(), message)),
                None => drop(failures.remove(key)),
            }
            drop(failures);
            self.queue.add(Key::new(Controller::ReplicaSet, key.clone()));
        }
        result
    }

    pub async fn sync_deployment(&self, key: &str) -> Synced {
        drop(self.look());
        let Some(seen) = self.get::<Deployment>("apps/deployments", key) else { return Ok(None) };
        let own_selector = seen.spec.as_ref().and_then(|spec| selector(&spec.selector));
        let namespace = split(key).0;
        let mut sets: Vec<ReplicaSet> =
            self.family(Child::ReplicaSet, (uid(&seen.metadata), namespace), own_selector.as_ref());
        // A set of another owner may have the name that the next one would get.
        let known: BTreeSet<String> = sets.iter().map(|set| uid(&set.metadata).to_owned()).collect();
        let same_name: Vec<ReplicaSet> = self.list(Child::ReplicaSet.bucket(), &format!("{key}-"));
        sets.extend(same_name.into_iter().filter(|set| !known.contains(uid(&set.metadata))));
        let mut pods: Vec<Pod> = Vec::new();
        if recreates(&seen) {
            for set in &sets {
                pods.extend(self.family(Child::Pod, (uid(&set.metadata), namespace), None));
            }
        }
        let observed = deployment::Observed { deployment: &seen, replica_sets: &sets, pods: &pods };
        self.apply("deployment-controller", deployment::plan(&observed, Timestamp::now())).await
    }
}

/// Only the `Recreate` strategy looks at pods; a rolling one goes by the counts of its ReplicaSets.
fn recreates(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}
