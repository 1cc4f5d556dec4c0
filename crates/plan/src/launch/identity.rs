//! What the containers of a workload are given: the run's variables, and in the main one the launch's command.
//!
//! Of several pods one leads and begins the run; the others are told to join it, so that a job of four nodes is one run.

use super::environment::{Given, Variable, secret_name, variables};
use super::order::{Order, Station};
use super::secrets::{self, INPUTS_FOLDER, INPUTS_VOLUME, env_entry};
use super::walk::{self, Template};
use super::{Note, label};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Gives every pod its share; returns the team's secrets that the workload refers to.
pub fn give(workload: &mut Value, order: &Order, station: &Station, notes: &mut Vec<Note>) -> Vec<String> {
    let all = variables(order, station);
    let templates = walk::templates(workload);
    let pods: u64 = templates.iter().map(|template| template.replicas).sum();
    if templates.is_empty() {
        let text = "no container was found in it, so the run's variables are not given to any".to_owned();
        notes.push(Note { rule: "K-31", path: "spec".to_owned(), text });
    }
    let mut referred: BTreeSet<String> = all.iter().filter_map(secret_of).collect();
    for template in &templates {
        let main = main_container(workload, &template.place.pointer, order.image.as_ref());
        let mut wanted = all.clone();
        if pods > 1 {
            wanted.extend(part(template));
        }
        let Some(spec) = workload.pointer_mut(&format!("{}/spec", template.place.pointer)) else { continue };
        for container in walk::containers_mut(spec, &["containers", "initContainers"]) {
            referred.extend(refer(container, order));
        }
        for container in walk::containers_mut(spec, &["containers"]) {
            put_variables(container, &wanted, order);
        }
        if let Some(container) = spec["containers"].get_mut(main) {
            put_command(container, order);
        }
        put_inputs(spec, order);
        if station.has_registry_credentials {
            let mut all = spec["imagePullSecrets"].as_array().cloned().unwrap_or_default();
            all.push(json!({ "name": secrets::registry_name(order) }));
            spec["imagePullSecrets"] = Value::Array(all);
        }
    }
    referred.into_iter().collect()
}

fn secret_of(variable: &Variable) -> Option<String> {
    match &variable.value {
        Given::Secret(name) => Some(name.clone()),
        Given::Text(_) | Given::ApiKey | Given::Field(_) => None,
    }
}

/// The container that runs the job: the one that the pod names, else the first without an image of its own, else the
/// first (K-23).
pub fn main_container(workload: &Value, template: &str, image: Option<&String>) -> usize {
    let Some(pod) = workload.pointer(template) else { return 0 };
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let named = [pod, workload]
        .into_iter()
        .find_map(|object| object.pointer("/metadata/annotations")?.get(label::MAIN_CONTAINER));
    let by_name = named.and_then(|name| containers.iter().position(|container| container.get("name") == Some(name)));
    let is_launched = |container: &Value| match container.get("image").and_then(Value::as_str) {
        None | Some("") => true,
        Some(own) => image.is_some_and(|image| image == own),
    };
    by_name.or_else(|| containers.iter().position(is_launched)).unwrap_or(0)
}

/// Which part of the job a pod is.
fn part(template: &Template) -> Vec<Variable> {
    let mut part = vec![
        Variable::text("VOLLEY_ROLE", &template.role),
        Variable { name: "VOLLEY_REPLICA".to_owned(), value: Given::Field("metadata.name"), is_identity: true },
        Variable::text("WANDB_MODE", "shared"),
        // Kubernetes puts the variable that stands before it in place.
        Variable::text("WANDB_X_LABEL", "$(VOLLEY_REPLICA)"),
    ];
    // A single pod that leads begins the run. Which of several leads is known only once they run.
    if !template.leads {
        part.push(Variable::text("WANDB_X_PRIMARY", "false"));
    } else if template.replicas == 1 {
        part.push(Variable::text("WANDB_X_PRIMARY", "true"));
    }
    part
}

/// Ours replace the container's own where they say whose run it is, and yield elsewhere (K-21).
fn put_variables(container: &mut Value, wanted: &[Variable], order: &Order) {
    let mut entries = container["env"].as_array().cloned().unwrap_or_default();
    for variable in wanted {
        let entry = env_entry(&variable.name, &variable.value, order);
        let own = entries.iter().position(|entry| entry["name"] == variable.name.as_str());
        match own {
            Some(at) if variable.is_identity => entries[at] = entry,
            Some(_) => (),
            None => entries.push(entry),
        }
    }
    container["env"] = Value::Array(entries);
}

/// `secret://NAME` as a variable's value becomes a reference to a Secret.
fn refer(container: &mut Value, order: &Order) -> Vec<String> {
    let mut names = Vec::new();
    for entry in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        let secret = entry.get("value").and_then(Value::as_str).and_then(secret_name).map(str::to_owned);
        if let (Some(secret), Some(name)) = (secret, entry["name"].as_str().map(str::to_owned)) {
            *entry = env_entry(&name, &Given::Secret(secret.clone()), order);
            names.push(secret);
        }
    }
    names
}

fn put_command(container: &mut Value, order: &Order) {
    let overrides = &order.spec.overrides;
    if !overrides.args.is_empty() {
        container["args"] = json!(overrides.args);
    }
    let of_job = order.job.as_ref().map_or(&[][..], |job| &job.entry_point);
    if !overrides.entry_point.is_empty() {
        container["command"] = json!(overrides.entry_point);
    } else if container.get("command").is_none() && !of_job.is_empty() {
        container["command"] = json!(of_job);
    }
}

/// Inputs that are too long for variables are mounted, and a variable points at each.
fn put_inputs(spec: &mut Value, order: &Order) {
    let inputs = secrets::long_inputs(order);
    if inputs.is_empty() {
        return;
    }
    push(spec, "volumes", json!({ "name": INPUTS_VOLUME, "secret": { "secretName": secrets::inputs_name(order) } }));
    for container in walk::containers_mut(spec, &["containers"]) {
        push(container, "volumeMounts", json!({ "name": INPUTS_VOLUME, "mountPath": INPUTS_FOLDER, "readOnly": true }));
        for (file, pointer, _) in &inputs {
            push(container, "env", json!({ "name": pointer, "value": format!("{INPUTS_FOLDER}/{file}") }));
        }
    }
}

/// Adds an item to a list, which is made if it is not there.
pub fn push(object: &mut Value, list: &str, item: Value) {
    match object.get_mut(list).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => object[list] = json!([item]),
    }
}
