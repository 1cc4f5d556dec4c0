//! A Job's spec and status as types; pod templates and claims stay JSON, so that no field of theirs is lost.
//!
//! A spec is read with what is absent, null or empty alike. Statuses are written whole and compared as JSON.

use crate::kube::field::FieldError;
use crate::kube::time::parse_duration;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub scheduler_name: String,
    pub min_available: i32,
    pub tasks: Vec<Task>,
    pub volumes: Vec<Volume>,
    pub policies: Vec<Policy>,
    pub plugins: BTreeMap<String, Vec<String>>,
    pub queue: String,
    pub max_retry: i32,
    pub ttl_seconds_after_finished: Option<i32>,
    pub priority_class_name: String,
    pub min_success: Option<i32>,
    pub network_topology: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    pub name: String,
    pub replicas: i32,
    pub min_available: Option<i32>,
    pub template: Value,
    pub policies: Vec<Policy>,
    pub max_retry: i32,
    pub topology_policy: String,
    pub depends_on: Option<DependsOn>,
    pub partition_policy: Option<Partitions>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DependsOn {
    pub name: Vec<String>,
    pub iteration: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Partitions {
    pub total_partitions: i32,
    pub partition_size: i32,
    pub min_partitions: i32,
    pub network_topology: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub mount_path: String,
    pub volume_claim_name: String,
    pub volume_claim: Option<Value>,
}

/// A LifecyclePolicy: when one of the events happens, or a container ends with the code, do this.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    pub action: String,
    pub event: String,
    pub events: Vec<String>,
    pub exit_code: Option<i32>,
    pub timeout: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub state: State,
    pub min_available: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub running: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub terminating: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: i32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub task_status_count: BTreeMap<String, TaskCount>,
    #[serde(skip_serializing_if = "is_zero")]
    pub version: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_duration: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub controlled_resources: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// Pods of one task by pod phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCount {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phase: BTreeMap<String, i32>,
}

/// A phase that the job has been in, and since when (its `status` is a phase, not a truth value).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// The spec of a Job; an error when a field has the wrong type, which the schema refuses before.
pub fn job_spec(job: &Value) -> Result<JobSpec, FieldError> {
    let broken = |error: serde_json::Error| FieldError::invalid("spec", Value::Null, &error.to_string());
    let mut spec: JobSpec = read(&job["spec"]).map_err(broken)?;
    // A plugin without arguments may have none at all (`svc:`): it is active all the same.
    for (name, arguments) in job["spec"]["plugins"].as_object().into_iter().flatten() {
        if arguments.is_null() {
            spec.plugins.insert(name.clone(), Vec::new());
        }
    }
    Ok(spec)
}

/// The status of a Job; an error when a field has the wrong type, which the schema refuses before.
pub fn job_status(job: &Value) -> Result<JobStatus, FieldError> {
    read(&job["status"]).map_err(|error| FieldError::invalid("status", Value::Null, &error.to_string()))
}

fn read<T: Default + serde::de::DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    match without_nulls(value) {
        Value::Null => Ok(T::default()),
        value => serde_json::from_value(value),
    }
}

/// Kubernetes reads null as absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

impl JobSpec {
    pub fn replicas(&self) -> i32 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.replicas))
    }

    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }
}

impl Partitions {
    /// How many pods the fewest partitions have.
    pub fn required(&self) -> i32 {
        self.min_partitions.saturating_mul(self.partition_size)
    }
}

impl Task {
    /// How many of its pods the gang needs: what is said, else what its partitions need, else all.
    pub fn required(&self) -> i32 {
        let partitions = self.partition_policy.as_ref().map_or(0, Partitions::required);
        self.min_available.unwrap_or(if partitions > 0 { partitions } else { self.replicas })
    }

    /// Whether its partitions, if it has any, are all of its replicas.
    pub fn is_filled(&self) -> bool {
        self.partition_policy
            .as_ref()
            .is_none_or(|p| p.total_partitions.saturating_mul(p.partition_size) == self.replicas)
    }

    /// Which partition the replica is in, if the task is cut into such.
    pub fn partition(&self, index: i32) -> Option<i32> {
        let size = self.partition_policy.as_ref()?.partition_size;
        (size > 0).then(|| index / size)
    }
}

impl Policy {
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.events.iter().map(String::as_str).chain(Some(&*self.event)).filter(|event| !event.is_empty())
    }

    pub fn delay(&self) -> Option<SignedDuration> {
        self.timeout.as_deref().and_then(parse_duration).filter(|delay| !delay.is_zero())
    }
}
