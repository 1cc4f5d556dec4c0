//! Config maps, secrets, service accounts, namespaces and nodes.

use super::Rule;
use super::rows::{entries, flag, items, named, same};
use crate::kube::field::{FieldError, Problem};
use crate::kube::quantity::Quantity;
use crate::kube::{at, names, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub const RULES: &[Rule] = &[
    Rule {
        group: "",
        kind: "ConfigMap",
        is_namespaced: true,
        create: check_config_map,
        update: check_config_map_update,
    },
    Rule { group: "", kind: "Secret", is_namespaced: true, create: check_secret, update: check_secret_update },
    Rule { group: "", kind: "ServiceAccount", is_namespaced: true, create: |_| Vec::new(), update: |_, _| Vec::new() },
    Rule { group: "", kind: "Namespace", is_namespaced: false, create: check_namespace, update: |_, _| Vec::new() },
    Rule { group: "", kind: "Node", is_namespaced: false, create: check_node, update: check_node_update },
];

/// All values of a config map or a secret together.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const SEALED: &str = "field is immutable when `immutable` is set";

fn check_keys(object: &Value, field: &str) -> Vec<FieldError> {
    let keys = entries(object, field).map(|(key, _)| key);
    keys.flat_map(|key| named(key, &format!("{field}[{key}]"), names::config_map_key)).collect()
}

/// The bytes that base64 text stands for.
fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or("");
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// What may no longer change once `immutable` is true.
fn check_sealed(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    if !flag(old, "immutable") {
        return Vec::new();
    }
    let unsealed = (!flag(new, "immutable")).then_some("immutable");
    let changed = fields.iter().copied().filter(|field| !same(new.get(*field), old.get(*field)));
    unsealed.into_iter().chain(changed).map(|field| FieldError::forbidden(field, SEALED)).collect()
}

pub fn check_config_map(config: &Value) -> Vec<FieldError> {
    let mut errors = check_keys(config, "data");
    for (key, _) in entries(config, "data").filter(|(key, _)| config["binaryData"].get(*key).is_some()) {
        let detail = "duplicate of key present in binaryData";
        errors.push(FieldError::invalid(format!("data[{key}]"), key.as_str(), detail));
    }
    errors.extend(check_keys(config, "binaryData"));
    let plain: usize = entries(config, "data").map(|(_, value)| value.as_str().unwrap_or("").len()).sum();
    let binary: usize = entries(config, "binaryData").map(|(_, value)| decoded_length(value)).sum();
    if plain + binary > DATA_BYTES_MAX {
        errors.push(FieldError::too_long("[]", DATA_BYTES_MAX));
    }
    errors
}

pub fn check_config_map_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_sealed(new, old, &["data", "binaryData"]);
    errors.extend(check_config_map(new));
    errors
}

pub fn check_secret(secret: &Value) -> Vec<FieldError> {
    let mut errors = check_keys(secret, "data");
    let size: usize = entries(secret, "data").map(|(_, value)| decoded_length(value)).sum();
    if size > DATA_BYTES_MAX {
        errors.push(FieldError::too_long("data", DATA_BYTES_MAX));
    }
    errors.extend(check_secret_type(secret));
    errors
}

/// Each type of secret has keys that its readers rely on.
fn check_secret_type(secret: &Value) -> Vec<FieldError> {
    let data = secret.get("data").and_then(Value::as_object);
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let name = secret["metadata"]["annotations"][key].as_str().unwrap_or("");
            let path = format!("metadata.annotations[{key}]");
            if name.is_empty() { vec![FieldError::required(path, "")] } else { Vec::new() }
        }
        "kubernetes.io/dockercfg" => check_json_key(data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => check_json_key(data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            vec![missing("username"), missing("password")]
        }
        "kubernetes.io/ssh-auth" => {
            let key = "ssh-privatekey";
            let is_empty = data.and_then(|data| data.get(key)).and_then(Value::as_str).is_none_or(str::is_empty);
            if is_empty { vec![missing(key)] } else { Vec::new() }
        }
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(missing).collect(),
        _ => Vec::new(),
    }
}

/// The value must be a JSON object; what it holds is not shown in the answer.
fn check_json_key(data: Option<&Map<String, Value>>, key: &str) -> Vec<FieldError> {
    let path = format!("data[{key}]");
    let Some(value) = data.and_then(|data| data.get(key)) else { return vec![FieldError::required(path, "")] };
    let bytes = STANDARD.decode(value.as_str().unwrap_or("")).unwrap_or_default();
    match serde_json::from_slice::<Map<String, Value>>(&bytes) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let detail = if bytes.is_empty() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
            vec![FieldError::invalid(path, "<secret contents redacted>", &detail)]
        }
    }
}

pub fn check_secret_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = super::rows::fixed_field(new, old, "", "type").into_iter().collect();
    errors.extend(check_sealed(new, old, &["data"]));
    errors.extend(check_secret(new));
    errors
}

const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

pub fn check_namespace(namespace: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for finalizer in items(namespace, "spec.finalizers").iter().filter_map(Value::as_str) {
        errors.extend(named(finalizer, "spec.finalizers", names::qualified_name));
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", finalizer, detail));
        }
    }
    errors
}

pub fn check_node(node: &Value) -> Vec<FieldError> {
    let mut errors = check_taints(node);
    for field in ["status.capacity", "status.allocatable"] {
        for (name, amount) in entries(node, field) {
            let parsed = amount.as_str().and_then(|text| Quantity::parse(text).ok());
            if parsed.is_some_and(Quantity::is_negative) {
                let detail = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(format!("{field}.{name}"), amount.clone(), detail));
            }
        }
    }
    errors
}

/// Taints are reported under `metadata`, as the reference does.
fn check_taints(node: &Value) -> Vec<FieldError> {
    const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in items(node, "spec.taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.extend(named(key, &format!("{path}.key"), names::qualified_name));
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.value"), value, &wrong.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{path}.effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(format!("{path}.effect"), effect, EFFECTS));
        }
        if !seen.insert((effect, key)) {
            let added = taint.get("timeAdded").cloned().unwrap_or_default();
            let shown = format!(r#"{{"Key":"{key}","Value":"{value}","Effect":"{effect}","TimeAdded":{added}}}"#);
            let text = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            errors.push(FieldError::new(path, Problem::Duplicate, text));
        }
    }
    errors
}

pub fn check_node_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_node(new);
    let mut seen = BTreeSet::new();
    for (index, address) in items(new, "status.addresses").iter().enumerate() {
        let (kind, value) = (text(address, "type"), text(address, "address"));
        if !seen.insert((kind, value)) {
            let text = format!(r#"Duplicate value: {{"Type":"{kind}","Address":"{value}"}}"#);
            errors.push(FieldError::new(format!("status.addresses[{index}]"), Problem::Duplicate, text));
        }
    }
    for (field, name) in [("spec.podCIDRs", "podCIDR"), ("spec.providerID", "providerID")] {
        let before = at(old, field);
        if !super::rows::is_empty(before) && !same(before, at(new, field)) {
            let detail = format!("node updates may not change {name} except from \"\" to valid");
            errors.push(FieldError::forbidden(field, &detail));
        }
    }
    errors
}
