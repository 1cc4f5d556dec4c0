//! Volcano's kinds: gathers what the planners of Jobs, CronJobs and Queues want to see, and applies what they say.

use crate::apply::{SyncError, Synced};
use crate::calls::Address;
use crate::kinds::{self, Kind, own};
use crate::queue::Key;
use crate::shell::Shell;
use crate::ssh_key;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use volley_api::kube::{at, text};
use volley_plan::control::{Action, Event, Plan};
use volley_plan::job::volcano::failure::{self, TRIES_MAX};
use volley_plan::job::{cron, queue, volcano};

/// No words for a write that failed beside those in the log.
pub fn silent(_: &Action, _: &str) -> Option<Event> {
    None
}

/// Objects of their own, for planners that want to see a slice.
pub fn owned(objects: &[Arc<Value>]) -> Vec<Value> {
    objects.iter().map(|object| (**object).clone()).collect()
}

/// What is read of an object that a planner wants to see as a struct; one that does not parse is nobody's.
fn pods(objects: &[Arc<Value>]) -> Vec<Pod> {
    objects.iter().filter_map(|object| Pod::deserialize(&**object).ok()).collect()
}

impl Shell {
    pub async fn sync_job(&self, key: &Key) -> Synced {
        let Some(job) = self.cache.get(key.kind, &key.namespace, &key.name) else {
            self.refusals.lock().remove(key);
            return Ok(None);
        };
        let refusal = self.refusals.lock().get(key).cloned();
        let plan = self.plan_job(&job, refusal).await?;
        let result = self.apply(plan, &|action, error| failure::event(&job, action, error)).await;
        match &result {
            Ok(_) => {
                self.refusals.lock().remove(key);
            }
            Err(SyncError::Call { is_permanent: true, source, .. }) => {
                let mut refusals = self.refusals.lock();
                let refusal = refusals.entry(key.clone()).or_default();
                *refusal = (refusal.0.saturating_add(1), crate::calls::words(source));
            }
            Err(_) => {}
        }
        result
    }

    async fn plan_job(&self, job: &Value, refusal: Option<(u32, String)>) -> Result<Plan, SyncError> {
        let namespace = text(job, "metadata.namespace");
        let mut objects = self.belongings(job);
        for (kind, suffix) in [("ConfigMap", "svc"), ("Secret", "ssh")] {
            let has_plugins = at(job, "spec.plugins").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
            if has_plugins {
                let name = format!("{}-{suffix}", text(job, "metadata.name"));
                objects.extend(self.ask(kinds::known("v1", kind), namespace, &name).await?);
            }
        }
        let commands = owned(&self.cache.list(own::command(), Some(namespace)));
        let queue = Some(text(job, "spec.queue")).filter(|queue| !queue.is_empty()).unwrap_or("default");
        let queue = self.cache.get(own::queue(), "", queue);
        let key = match volcano::wants_key(job, &objects) {
            true => Some(ssh_key::generate().await),
            false => None,
        };
        let priorities: BTreeMap<String, i64> = self.priorities();
        let seen = volcano::Observed {
            job,
            pods: &pods(&self.near(own::pod(), job)),
            objects: &objects,
            commands: &commands,
            queue: queue.as_deref(),
            priorities: &priorities,
            key: key.as_ref(),
        };
        let (settings, now) = (&self.options.volcano, Timestamp::now());
        Ok(match refusal {
            Some((tries, error)) if tries >= TRIES_MAX => volcano::give_up(&seen, settings, now, &error),
            _ => volcano::plan(&seen, settings, now),
        })
    }

    /// What a job controls of a kind, and what has a name like those that it gives.
    pub fn near(&self, kind: &'static Kind, job: &Value) -> Vec<Arc<Value>> {
        let (namespace, name) = (text(job, "metadata.namespace"), text(job, "metadata.name"));
        let mut found = self.cache.owned(kind, text(job, "metadata.uid"));
        found.extend(self.cache.get(kind, namespace, name));
        found.extend(self.cache.starting_with(kind, namespace, &format!("{name}-")));
        found.sort_by_key(|object| text(object, "metadata.name").to_owned());
        found.dedup_by(|one, other| Arc::ptr_eq(one, other));
        found
    }

    /// Everything but pods that a Job controls or names.
    fn belongings(&self, job: &Value) -> Vec<Value> {
        let watched = [("v1", "Service"), ("v1", "PersistentVolumeClaim"), ("networking.k8s.io/v1", "NetworkPolicy")];
        let mut objects: Vec<Arc<Value>> = self.near(own::group(), job);
        for (version, kind) in watched {
            objects.extend(self.near(kinds::known(version, kind), job));
        }
        let volumes = at(job, "spec.volumes").and_then(Value::as_array).into_iter().flatten();
        let claims = volumes.map(|volume| text(volume, "volumeClaimName"));
        let namespace = text(job, "metadata.namespace");
        objects.extend(claims.filter_map(|name| self.cache.get(own::claim(), namespace, name)));
        owned(&objects)
    }

    /// An object that is not watched.
    pub async fn ask(&self, kind: &'static Kind, namespace: &str, name: &str) -> Result<Option<Value>, SyncError> {
        let what = format!("{} `{namespace}/{name}`", kind.resource.kind);
        self.calls.get(Address { kind, namespace, name }).await.map_err(|error| SyncError::read(&what, error))
    }

    /// The values of the priority classes.
    pub fn priorities<T: TryFrom<i64>>(&self) -> BTreeMap<String, T> {
        let classes = self.cache.list(kinds::known("scheduling.k8s.io/v1", "PriorityClass"), None);
        let value = |class: &Value| T::try_from(class["value"].as_i64()?).ok();
        classes.iter().filter_map(|class| Some((text(class, "metadata.name").to_owned(), value(class)?))).collect()
    }

    pub async fn sync_cron(&self, key: &Key) -> Synced {
        let Some(cron) = self.cache.get(key.kind, &key.namespace, &key.name) else { return Ok(None) };
        let jobs = owned(&self.cache.list(own::job(), Some(&key.namespace)));
        let zone = Some(text(&cron, "spec.timeZone")).filter(|zone| !zone.is_empty()).unwrap_or("UTC");
        let Ok(zone) = TimeZone::get(zone) else {
            // Its schema cannot look it up; nothing is due in a zone that does not exist.
            tracing::warn!(name = key.name, zone, "a CronJob names a time zone that this machine does not know");
            return Ok(None);
        };
        let plan = cron::plan(&cron::Observed { cron: &cron, jobs: &jobs, zone: &zone }, Timestamp::now());
        self.apply(plan, &silent).await
    }

    pub async fn sync_queue(&self, key: &Key) -> Synced {
        if key.name.is_empty() {
            return self.make_first_queues().await;
        }
        let Some(queue) = self.cache.get(key.kind, "", &key.name) else { return Ok(None) };
        let queues = owned(&self.cache.list(own::queue(), None));
        let commands = owned(&self.cache.list(own::command(), None));
        let has_groups = self.cache.has(own::group(), |group| self.options.realm.queue_of(group) == key.name);
        let plan = queue::plan(&queue::Observed { queue: &queue, queues: &queues, has_groups, commands: &commands });
        self.apply(plan, &silent).await
    }

    async fn make_first_queues(&self) -> Synced {
        let missing = queue::first_queues()
            .into_iter()
            .filter(|queue| self.cache.get(own::queue(), "", text(queue, "metadata.name")).is_none());
        let actions = missing.map(|object| Action::Create { object, event: None }).collect();
        self.apply(Plan { actions, ..Plan::default() }, &silent).await
    }
}
