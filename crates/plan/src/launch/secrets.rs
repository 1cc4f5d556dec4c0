//! Kubernetes Secrets of a launch, without their contents: what each key holds is named, and filled in while submitting.

use super::environment::{FILE_FROM, Given, json_text};
use super::label;
use super::names;
use super::order::{Order, Station};
use crate::queue::spec::PRIORITY_DEFAULT;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where inputs are that are too long for variables.
pub const INPUTS_FOLDER: &str = "/etc/volley/inputs";
pub const INPUTS_VOLUME: &str = "volley-inputs";

/// What one key of a Secret holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretValue {
    ApiKey,
    /// A team's secret, by name.
    Named(String),
    /// A docker config for the registry that images are pulled from.
    Registry,
    /// Not secret in itself, but it may be long.
    Text(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Secret {
    /// The object without `data`.
    pub manifest: Value,
    pub values: BTreeMap<String, SecretValue>,
}

impl Secret {
    pub fn name(&self) -> &str {
        self.manifest["metadata"]["name"].as_str().unwrap_or_default()
    }
}

pub fn api_key_name(order: &Order) -> String {
    format!("wandb-api-key-{}", names::dns(&order.run_id, 40))
}

pub fn team_name(order: &Order) -> String {
    format!("volley-secrets-{}", order.key)
}

pub fn registry_name(order: &Order) -> String {
    format!("regcred-{}", names::dns(&order.run_id, 40))
}

pub fn inputs_name(order: &Order) -> String {
    format!("volley-inputs-{}", order.key)
}

/// The texts that are handed over as files as well: name of the file, name of the variable that points there, text.
pub fn long_inputs(order: &Order) -> Vec<(&'static str, &'static str, String)> {
    let overrides = &order.spec.overrides;
    let all = [
        ("config.json", "VOLLEY_CONFIG_FILE", json_text(&overrides.run_config)),
        ("files.json", "VOLLEY_LAUNCH_FILE_OVERRIDES_FILE", json_text(&overrides.files)),
    ];
    all.into_iter().filter(|(_, _, text)| text.len() > FILE_FROM).collect()
}

/// All Secrets that a workload with these references needs.
pub fn secrets(order: &Order, station: &Station, namespace: &str, referred: &[String]) -> Vec<Secret> {
    let secret = |name: String, kind: &str, values: BTreeMap<String, SecretValue>| {
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels(order, station) });
        Secret { manifest: json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind }), values }
    };
    let key = BTreeMap::from([("password".to_owned(), SecretValue::ApiKey)]);
    let mut all = vec![secret(api_key_name(order), "kubernetes.io/basic-auth", key)];
    if !referred.is_empty() {
        let values = referred.iter().map(|name| (name.clone(), SecretValue::Named(name.clone()))).collect();
        all.push(secret(team_name(order), "Opaque", values));
    }
    if station.has_registry_credentials {
        let values = BTreeMap::from([(".dockerconfigjson".to_owned(), SecretValue::Registry)]);
        all.push(secret(registry_name(order), "kubernetes.io/dockerconfigjson", values));
    }
    let inputs = long_inputs(order);
    if !inputs.is_empty() {
        let values = inputs.into_iter().map(|(file, _, text)| (file.to_owned(), SecretValue::Text(text))).collect();
        all.push(secret(inputs_name(order), "Opaque", values));
    }
    all
}

/// Labels of everything that is made for an attempt.
pub fn labels(order: &Order, station: &Station) -> Map<String, Value> {
    let mut labels = Map::new();
    let mut put = |key: &str, value: String| drop(labels.insert(key.to_owned(), Value::from(value)));
    put(label::CREATED_BY, "launch-agent".to_owned());
    put(label::RUN, names::label(&order.run_id));
    put(label::ITEM, order.key.clone());
    put(label::ATTEMPT, order.attempt.to_string());
    if order.priority != PRIORITY_DEFAULT {
        put(label::PRIORITY, order.priority.to_string());
    }
    if !station.agent.is_empty() {
        put(label::AGENT, names::label(&station.agent));
    }
    labels
}

/// A variable as an entry of a container's `env`.
pub fn env_entry(name: &str, value: &Given, order: &Order) -> Value {
    let from_secret = |secret: String, key: &str| json!({ "name": name, "valueFrom": { "secretKeyRef": { "name": secret, "key": key } } });
    match value {
        Given::Text(text) => json!({ "name": name, "value": text }),
        Given::ApiKey => from_secret(api_key_name(order), "password"),
        Given::Secret(secret) => from_secret(team_name(order), secret),
        Given::Field(path) => json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }),
    }
}

/// A Secret or a service is the workload's own: it goes when the workload goes.
pub fn owned(manifest: &Value, workload: &Value) -> Value {
    let mut owned = manifest.clone();
    let metadata = &workload["metadata"];
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": workload["apiVersion"], "kind": workload["kind"], "name": metadata["name"],
        "uid": metadata["uid"], "controller": false, "blockOwnerDeletion": false,
    }]);
    owned
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{order, station};
    use super::*;

    // K-24, K-25, L-36
    #[test]
    fn secrets_are_labelled_and_hold_names_not_values() {
        let mut station = station();
        station.has_registry_credentials = true;
        let all = secrets(&order(json!({})), &station, "wandb", &["hf".to_owned()]);
        let names: Vec<_> = all.iter().map(Secret::name).collect();
        assert_eq!(names[0], "wandb-api-key-ab12cd34");
        assert_eq!(names[2], "regcred-ab12cd34");
        assert_eq!(all[0].manifest["type"], "kubernetes.io/basic-auth");
        assert_eq!(all[0].manifest["metadata"]["labels"]["wandb.ai/created-by"], "launch-agent");
        assert_eq!(all[0].manifest["metadata"]["labels"]["wandb.ai/run-id"], "ab12cd34");
        assert_eq!(all[0].values, BTreeMap::from([("password".to_owned(), SecretValue::ApiKey)]));
        assert_eq!(all[1].values["hf"], SecretValue::Named("hf".into()));
        assert_eq!(all[2].values[".dockerconfigjson"], SecretValue::Registry);
    }

    // L-36, K-63
    #[test]
    fn what_is_made_for_a_workload_goes_with_it() {
        let workload = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}});
        let owned = owned(&json!({"kind": "Secret", "metadata": {"name": "s"}}), &workload);
        assert_eq!(owned["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(owned["metadata"]["name"], "s");
    }

    //
    #[test]
    fn long_inputs_are_files_too() {
        let mut order = order(json!({}));
        assert!(long_inputs(&order).is_empty());
        order.spec.overrides.run_config.insert("x".into(), json!("y".repeat(9_000)));
        let all = secrets(&order, &station(), "d", &[]);
        assert!(matches!(&all[1].values["config.json"], SecretValue::Text(text) if text.len() > 9_000));
    }
}
