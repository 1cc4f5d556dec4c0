//! Config maps, secrets, service accounts, namespaces and nodes.

use super::Rule;
use super::compare::{is_empty, same};
use super::metadata::standard_finalizer;
use super::place::{NEGATIVE, Place, quantity};
use crate::kube::field::Problem;
use crate::kube::{at, names};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(super) const RULES: &[Rule] = &[
    Rule::of("", "ConfigMap", config_map).on_update(|new, old| sealed(new, old, &["data", "binaryData"])),
    Rule::of("", "Secret", secret).on_update(|new, old| sealed(new, old, &["data"])).fixed(&["type"]),
    Rule::of("", "ServiceAccount", |_| {}),
    Rule::of("", "Namespace", |_| {}).on_create(namespace).cluster_wide(),
    Rule::of("", "Node", node).on_update(node_update).cluster_wide(),
];

/// All values of a config map or a secret together.
const DATA_BYTES_MAX: usize = 1024 * 1024;

fn keys(object: &Place, field: &str) {
    object.entries(field).for_each(|(key, value)| value.complain("", key, names::config_map_key(key)));
}

/// The bytes that base64 text stands for.
fn decoded_length(value: &Place) -> usize {
    let text = value.text("");
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// What may no longer change once `immutable` is true.
fn sealed(new: &Place, old: &Value, fields: &[&str]) {
    const SEALED: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    new.forbidden_if(!new.flag("immutable"), "immutable", SEALED);
    for field in fields {
        new.forbidden_if(!same(new.get(field), &old[*field]), field, SEALED);
    }
}

fn config_map(config: &Place) {
    keys(config, "data");
    for (key, value) in config.entries("data") {
        let is_twice = config.get("binaryData").get(key).is_some();
        value.invalid_if(is_twice, "", key, "duplicate of key present in binaryData");
    }
    keys(config, "binaryData");
    let plain: usize = config.entries("data").map(|(_, value)| value.text("").len()).sum();
    let binary: usize = config.entries("binaryData").map(|(_, value)| decoded_length(&value)).sum();
    config.too_long_if(plain + binary > DATA_BYTES_MAX, "[]", DATA_BYTES_MAX);
}

fn secret(secret: &Place) {
    keys(secret, "data");
    let size: usize = secret.entries("data").map(|(_, value)| decoded_length(&value)).sum();
    secret.too_long_if(size > DATA_BYTES_MAX, "data", DATA_BYTES_MAX);
    secret_type(secret);
}

/// Each type of secret has keys that its readers rely on.
fn secret_type(secret: &Place) {
    let has = |key: &str| secret.get("data").get(key).is_some();
    let missing = |key: &str| secret.required(&format!("data[{key}]"), "");
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if secret.get("metadata.annotations").get(key).is_none_or(is_empty) {
                secret.required(&format!("metadata.annotations[{key}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => json_key(secret, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json_key(secret, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            ["username", "password"].into_iter().for_each(missing);
        }
        "kubernetes.io/ssh-auth" if secret.get("data").get("ssh-privatekey").is_none_or(is_empty) => {
            missing("ssh-privatekey");
        }
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).for_each(missing),
        _ => {}
    }
}

/// The value must be a JSON object; what it holds is not shown in the answer.
fn json_key(secret: &Place, key: &str) {
    let place = format!("data[{key}]");
    let Some(value) = secret.get("data").get(key) else { return secret.required(&place, "") };
    let bytes = STANDARD.decode(value.as_str().unwrap_or("")).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&bytes) {
        let detail = if bytes.is_empty() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        secret.invalid(&place, "<secret contents redacted>", &detail);
    }
}

fn namespace(namespace: &Place) {
    for finalizer in namespace.list("spec.finalizers") {
        // The reference leaves the index out of the path.
        let finalizer = namespace.stand_in("spec.finalizers", finalizer);
        finalizer.named("", names::qualified_name);
        standard_finalizer(&finalizer);
    }
}

fn node(node: &Place) {
    taints(node);
    for field in ["status.capacity", "status.allocatable"] {
        for (name, amount) in node.entries(field) {
            let is_negative = quantity(amount.value).is_some_and(|amount| amount.is_negative());
            node.invalid_if(is_negative, &format!("{field}.{name}"), amount.value.clone(), NEGATIVE);
        }
    }
}

/// Taints are reported under `metadata`, as the reference does.
fn taints(node: &Place) {
    let mut seen = BTreeSet::new();
    for taint in node.stand_in("metadata.taints", node.get("spec.taints")).items("") {
        let [key, value, effect] = ["key", "value", "effect"].map(|field| taint.text(field));
        taint.named("key", names::qualified_name);
        let wrong = names::label_value(value);
        taint.invalid_if(!wrong.is_empty(), "value", value, &wrong.join(";"));
        taint.needs_one_of("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        if !seen.insert((effect, key)) {
            let added = taint.get("timeAdded");
            let shown = format!(r#"{{"Key":"{key}","Value":"{value}","Effect":"{effect}","TimeAdded":{added}}}"#);
            let text = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            taint.worded("", Problem::Duplicate, text);
        }
    }
}

fn node_update(new: &Place, old: &Value) {
    let mut seen = BTreeSet::new();
    for address in new.items("status.addresses") {
        let (kind, value) = (address.text("type"), address.text("address"));
        if !seen.insert((kind, value)) {
            let text = format!(r#"Duplicate value: {{"Type":"{kind}","Address":"{value}"}}"#);
            address.worded("", Problem::Duplicate, text);
        }
    }
    for (field, name) in [("spec.podCIDRs", "podCIDR"), ("spec.providerID", "providerID")] {
        let is_changed = at(old, field).is_some_and(|before| !is_empty(before) && !same(before, new.get(field)));
        let detail = format!("node updates may not change {name} except from \"\" to valid");
        new.forbidden_if(is_changed, field, &detail);
    }
}
