//! Who a job is, read off its JSON: the same few facts for every kind, whatever its spec looks like.

use crate::control::{Action, Target, Voice, controller_uid, difference};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::{at, text, time};

/// A job's identity and metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    pub target: Target,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub resource_version: String,
    pub created: Option<Timestamp>,
    pub is_being_deleted: bool,
}

impl Head {
    pub fn of(object: &Value) -> Head {
        Head {
            target: target_of(object),
            labels: strings(at(object, "metadata.labels")),
            annotations: strings(at(object, "metadata.annotations")),
            resource_version: text(object, "metadata.resourceVersion").to_owned(),
            created: time::parse(text(object, "metadata.creationTimestamp")),
            is_being_deleted: !text(object, "metadata.deletionTimestamp").is_empty(),
        }
    }

    pub fn name(&self) -> &str {
        &self.target.name
    }

    pub fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        &self.target.uid
    }

    /// The owner reference by which the job controls what it creates.
    pub fn owner_reference(&self) -> Value {
        json!({
            "apiVersion": self.target.api_version, "kind": self.target.kind, "name": self.name(), "uid": self.uid(),
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// Metadata of something that the job makes: named, placed and owned.
    pub fn owned(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.namespace(), "ownerReferences": [self.owner_reference()] })
    }

    pub fn controls(&self, metadata: &ObjectMeta) -> bool {
        controller_uid(metadata) == Some(self.uid())
    }

    pub fn controls_object(&self, object: &Value) -> bool {
        let owners = at(object, "metadata.ownerReferences").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        owners.iter().any(|owner| owner["controller"] == true && text(owner, "uid") == self.uid())
    }

    pub(crate) fn voice(&self, component: &'static str) -> Voice {
        Voice { about: self.target.clone(), component }
    }

    /// Writes the status if it differs; refused when the job has changed since it was seen.
    pub fn write_status(&self, old: &Value, new: &Value) -> Option<Action> {
        let patch = difference(old, new)?;
        let guard = json!({ "resourceVersion": self.resource_version });
        Some(Action::PatchStatus { target: self.target.clone(), patch: json!({ "metadata": guard, "status": patch }) })
    }
}

pub fn target_of(object: &Value) -> Target {
    Target {
        api_version: text(object, "apiVersion").to_owned(),
        kind: text(object, "kind").to_owned(),
        namespace: Some(text(object, "metadata.namespace").to_owned()).filter(|namespace| !namespace.is_empty()),
        name: text(object, "metadata.name").to_owned(),
        uid: text(object, "metadata.uid").to_owned(),
    }
}

/// A map of strings; what is not a string is left out.
pub fn strings(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
