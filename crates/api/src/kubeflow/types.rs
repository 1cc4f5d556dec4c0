//! The wire types that all kinds of training jobs share: replicas, run policy, elastic policy, status.
//!
//! They hold what was sent, defaults not filled in; `job::TrainingJob` is what comes of them. Kubernetes' own types in
//! them (templates, metrics, quantities) stay JSON: fields that we do not know are kept, and `cpu: 1` is as good as "1".

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The pods of one replica type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default)]
    pub template: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
}

/// How the job lives and ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_policy: Option<SchedulingPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// What the gang scheduler is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}

/// Elastic training: of PyTorchJob in full, of PaddleJob the bounds, restarts and metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElasticPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdzv_backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdzv_port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdzv_host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdzv_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdzv_conf: Option<Vec<RendezvousSetting>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standalone: Option<bool>,
    /// Deprecated in favour of `spec.nprocPerNode`; note the other spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_proc_per_node: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RendezvousSetting {
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_none")]
    pub conditions: Vec<JobCondition>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_none")]
    pub replica_statuses: BTreeMap<String, ReplicaStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
}

/// The counters of one replica type; zero is left out of JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// Go writes an empty list or map as `null`.
fn null_is_none<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
