//! The few fields that routing and indexes read of every stored object, without parsing the rest.

use crate::apiserver::object::Stored;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Kind and identity of any object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Head {
    pub api_version: String,
    pub kind: String,
    pub metadata: Identity,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deletion_timestamp: Option<Time>,
}

impl Identity {
    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// The part that the garbage collector's graph reads.
    pub fn to_metadata(&self) -> ObjectMeta {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        ObjectMeta {
            name: some(&self.name),
            namespace: some(&self.namespace),
            uid: some(&self.uid),
            resource_version: some(&self.resource_version),
            owner_references: Some(self.owner_references.clone()),
            finalizers: Some(self.finalizers.clone()),
            deletion_timestamp: self.deletion_timestamp.clone(),
            ..ObjectMeta::default()
        }
    }
}

/// What matters about a pod besides its identity.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodFacts {
    spec: PodSpecFacts,
    status: PodStatusFacts,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpecFacts {
    node_name: String,
    volumes: Vec<VolumeFacts>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeFacts {
    persistent_volume_claim: Option<serde::de::IgnoredAny>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodStatusFacts {
    phase: String,
}

impl PodFacts {
    pub fn node(&self) -> &str {
        &self.spec.node_name
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn uses_claims(&self) -> bool {
        self.spec.volumes.iter().any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
    }
}

/// Parses a stored object; one that does not parse is reported and left alone.
pub fn parsed<T: DeserializeOwned>(stored: &Stored) -> Option<T> {
    match serde_json::from_slice(&stored.value) {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::warn!(key = %stored.key, %error, "a stored object does not parse as its kind and is left alone");
            None
        }
    }
}
