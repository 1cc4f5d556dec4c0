//! A launch as Kubernetes objects: the queue's manifest with macros in place, judged, completed and named.
//!
//! `defaults` has what a plain Job is given, `identity` what every container is given, `code` the mounting of code,
//! `services` the objects beside the workload. Order of evaluation: section 4.1 of the specification.

use super::macros::Macros;
use super::order::{Order, Station};
use super::safety::{self, Judge, Target};
use super::secrets::{self, Secret, labels};
use super::services::{self, Auxiliary};
use super::{Note, Refusal, code, defaults, identity, label, names, walk};
use serde_json::{Map, Value, json};
use volley_api::kube::{names as legal, text};
use volley_api::kubeflow;

/// Keys of a config that speak to the agent and are no part of the manifest.
const AGENT_KEYS: [&str; 8] =
    ["configFile", "context", "namespace", "group", "version", "builder", "wait_for_ready", "wait_timeout"];

/// Everything that is applied for one attempt, in this order: secrets, services, workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifests {
    /// A kubeconfig and a context in it, where the queue names them.
    pub config_file: Option<String>,
    pub context: Option<String>,
    pub namespace: String,
    pub secrets: Vec<Secret>,
    pub services: Vec<Auxiliary>,
    pub workload: Value,
}

impl Manifests {
    pub fn name(&self) -> &str {
        text(&self.workload, "metadata.name")
    }
}

pub fn render(order: &Order, station: &Station, notes: &mut Vec<Note>) -> Result<Manifests, Vec<Refusal>> {
    let config = unwrapped(&order.config, Some(notes));
    let queue = order.queue_config.as_ref().map(|queue| unwrapped(queue, None));
    let macros = macros(order, station);
    let expanded = unwrapped(&macros.config(order, notes), None);
    // What is as the queue has it stays so, whether macros were replaced before or after the template's values.
    let is_queues = order.queue_config.as_ref() == Some(&order.config);
    let expanded_queue = match is_queues {
        true => Some(expanded.clone()),
        false => queue.as_ref().map(|queue| macros.expand(queue, &mut Vec::new())),
    };
    judge(&config, queue.as_ref(), station)?;
    judge(&expanded, expanded_queue.as_ref(), station)?;
    if station.is_secure {
        refuse(safety::check_secure(&expanded, !order.spec.overrides.entry_point.is_empty()))?;
    }

    let (mut workload, asked) = split(expanded);
    let is_plain = settle_kind(&mut workload, &asked, notes).map_err(|refusal| vec![refusal])?;
    let namespace = namespace(&workload, &asked, station);
    let judge = Judge { admin: station.policy, submitter: station.submitter_policy, queue: None };
    let queues = expanded_queue.and_then(|queue| target(queue, station));
    refuse(safety::check_target(&target_of(&workload, &asked, &namespace), queues.as_ref(), &judge))?;
    name(&mut workload, order).map_err(|refusal| vec![refusal])?;
    workload["metadata"]["namespace"] = json!(namespace);
    if is_plain {
        defaults::job(&mut workload, order);
    }
    code::mount(&mut workload, order, station).map_err(|refusal| vec![refusal])?;
    let referred = identity::give(&mut workload, order, station, notes);
    code::install_first(&mut workload, order);
    defaults::security(&mut workload);
    mark(&mut workload, order, station);
    safe_labels(&mut workload, notes);

    let services = services::render(order, station, &macros, &namespace)?;
    let secrets = secrets::secrets(order, station, &namespace, &referred);
    let Target { config_file, context, .. } = target_of(&workload, &asked, &namespace);
    Ok(Manifests { config_file, context, namespace, secrets, services, workload })
}

fn refuse(refusals: Vec<Refusal>) -> Result<(), Vec<Refusal>> {
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

fn judge(config: &Value, queue: Option<&Value>, station: &Station) -> Result<(), Vec<Refusal>> {
    refuse(safety::check(config, &Judge { admin: station.policy, submitter: station.submitter_policy, queue }))
}

/// A manifest inside one level of `kubernetes:` or `resource_args:` is meant without it (G-06).
pub fn unwrapped(config: &Value, mut notes: Option<&mut Vec<Note>>) -> Value {
    let mut config = config;
    for _ in 0..2 {
        let Some(members) = config.as_object() else { break };
        let only = members.iter().next().filter(|_| members.len() == 1);
        let Some((key, inner)) = only.filter(|(key, inner)| is_wrapper(key) && inner.is_object()) else { break };
        if let Some(notes) = notes.as_deref_mut() {
            let text = format!("the manifest is wrapped in a needless `{key}:`, which is left out");
            notes.push(Note { rule: "G-06", path: key.clone(), text });
        }
        config = inner;
    }
    config.clone()
}

fn is_wrapper(key: &str) -> bool {
    matches!(key, "kubernetes" | "resource_args")
}

/// The macros of section 4.3, and our own.
pub fn macros(order: &Order, station: &Station) -> Macros {
    let spec = &order.spec;
    let job = order.job.as_ref();
    let known = [
        ("project_name", Some(spec.project.clone())),
        ("entity_name", Some(spec.entity.clone())),
        ("run_id", Some(order.run_id.clone())),
        ("run_name", spec.name.clone()),
        ("image_uri", order.image.clone()),
        ("author", spec.author.clone()),
        ("queue_name", Some(order.queue.clone())),
        ("queue_entity", Some(order.queue_entity.clone())),
        ("item_id", Some(order.item.clone())),
        ("job_name", job.map(|job| job.name.clone())),
        ("job_version", job.map(|job| job.version.clone())),
        ("attempt", Some(order.attempt.to_string())),
        ("priority", Some(order.priority.to_string())),
    ];
    Macros {
        known: known.into(),
        environment: station.environment.clone(),
        allowed: station.environment_allowed.clone(),
        is_before_template: false,
    }
}

/// The manifest, and what the config says to the agent.
fn split(config: Value) -> (Value, Map<String, Value>) {
    let Value::Object(members) = config else { return (json!({}), Map::new()) };
    let (asked, manifest) =
        members.into_iter().partition(|(key, _): &(String, Value)| AGENT_KEYS.contains(&key.as_str()));
    (Value::Object(manifest), asked)
}

/// Fills in what kind the manifest is of; says whether it is a plain Job.
fn settle_kind(workload: &mut Value, asked: &Map<String, Value>, notes: &mut Vec<Note>) -> Result<bool, Refusal> {
    let kind = text(workload, "kind").to_owned();
    let word = |key: &str| asked.get(key).and_then(Value::as_str);
    if text(workload, "apiVersion").is_empty() {
        let version = match (word("group"), word("version"), kubeflow::kinds::row(&kind)) {
            (Some(group), Some(version), _) => format!("{group}/{version}"),
            (None, _, Some(_)) => {
                let text = format!("{kind} without `apiVersion` is taken for `kubeflow.org/v1`");
                notes.push(Note { rule: "K-36", path: "apiVersion".to_owned(), text });
                "kubeflow.org/v1".to_owned()
            }
            _ if matches!(kind.as_str(), "" | "Job" | "CronJob") => "batch/v1".to_owned(),
            _ if kind == "Pod" => "v1".to_owned(),
            _ => {
                let hint = format!("write the `apiVersion` of {kind} into the queue's config");
                return Err(Refusal::new(
                    "K-36",
                    "apiVersion",
                    format!("is missing, and {kind} is no kind of batch/v1"),
                    hint,
                ));
            }
        };
        workload["apiVersion"] = json!(version);
    }
    if text(workload, "apiVersion") == "batch/v1beta1" {
        workload["apiVersion"] = json!("batch/v1");
    }
    let is_plain = text(workload, "apiVersion") == "batch/v1";
    if is_plain && kind == "CronJob" {
        let hint = "use a Job, and launch it on a schedule";
        return Err(Refusal::new(
            "K-26",
            "kind",
            "a CronJob starts later and again, which no item of a queue can follow",
            hint,
        ));
    }
    if kind.is_empty() {
        if !is_plain {
            return Err(Refusal::new("K-36", "kind", "is missing", "write the object's kind into the queue's config"));
        }
        workload["kind"] = json!("Job");
    }
    Ok(is_plain)
}

/// Metadata, a name in the wrong place, the agent's own, or the default namespace (K-13).
fn namespace(workload: &Value, asked: &Map<String, Value>, station: &Station) -> String {
    let own = text(workload, "metadata.namespace");
    let misplaced = asked.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let candidates = [own, misplaced, station.namespace.as_deref().unwrap_or_default(), "default"];
    candidates.into_iter().find(|name| !name.is_empty()).unwrap_or("default").to_owned()
}

fn target_of(workload: &Value, asked: &Map<String, Value>, namespace: &str) -> Target {
    let given = |key: &str| asked.get(key).and_then(Value::as_str).map(str::to_owned);
    Target {
        version: text(workload, "apiVersion").to_owned(),
        kind: text(workload, "kind").to_owned(),
        namespace: namespace.to_owned(),
        config_file: given("configFile"),
        context: given("context"),
    }
}

/// What the queue's own config would make, if it makes anything.
fn target(config: Value, station: &Station) -> Option<Target> {
    let (mut workload, asked) = split(config);
    settle_kind(&mut workload, &asked, &mut Vec::new()).ok()?;
    let namespace = namespace(&workload, &asked, station);
    Some(target_of(&workload, &asked, &namespace))
}

/// One name per attempt: the config's own, or one made from the item (K-20, L-27).
fn name(workload: &mut Value, order: &Order) -> Result<(), Refusal> {
    if !workload["metadata"].is_object() {
        workload["metadata"] = json!({});
    }
    let (own, start) = (text(workload, "metadata.name").to_owned(), text(workload, "metadata.generateName").to_owned());
    let name = match (own.as_str(), start.as_str()) {
        ("", "") => names::made(&["launch", &order.spec.entity, &order.spec.project], &order.key, order.attempt),
        ("", start) => names::made(&[start], &order.key, order.attempt),
        (own, _) => names::with_attempt(own, order.attempt),
    };
    let problems = legal::dns_subdomain(&name);
    if let Some(problem) = problems.first() {
        let hint = "write `${run_id|dns}`, or any macro with `|dns`, to make it fit";
        return Err(Refusal::new("K-20", "metadata.name", format!("`{name}` is no name: {problem}"), hint));
    }
    if let Some(metadata) = workload["metadata"].as_object_mut() {
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), json!(name));
    }
    Ok(())
}

/// Labels by which the agent finds the workload and its pods again, and the finalizer that keeps it until it is settled.
fn mark(workload: &mut Value, order: &Order, station: &Station) {
    let mut wanted = labels(order, station);
    wanted.remove(label::CREATED_BY);
    wanted.insert(label::MONITOR.to_owned(), json!("true"));
    for template in walk::templates(workload) {
        let pod = if template.place.pointer.is_empty() { None } else { workload.pointer_mut(&template.place.pointer) };
        if let Some(pod) = pod {
            put_labels(pod, &wanted);
        }
    }
    put_labels(workload, &wanted);
    let metadata = &mut workload["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][label::ITEM] = json!(order.item);
    let mut finalizers: Vec<Value> = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(label::FINALIZER));
    metadata["finalizers"] = Value::Array(finalizers);
}

pub(super) fn put_labels(object: &mut Value, wanted: &Map<String, Value>) {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    for (key, value) in wanted {
        metadata["labels"][key] = value.clone();
    }
}

/// A label that a macro made unfit is made fit: a project's name may hold anything, a label may not.
fn safe_labels(workload: &mut Value, notes: &mut Vec<Note>) {
    let mut places: Vec<String> =
        walk::templates(workload).into_iter().map(|template| template.place.pointer).collect();
    places.push(String::new());
    for place in places {
        let labels = workload.pointer_mut(&format!("{place}/metadata/labels")).and_then(Value::as_object_mut);
        for (key, value) in labels.into_iter().flatten() {
            let Some(given) = value.as_str().map(str::to_owned) else { continue };
            if !legal::label_value(&given).is_empty() {
                let fit = names::label(&given);
                notes.push(Note {
                    rule: "G-17",
                    path: format!("metadata.labels[{key}]"),
                    text: format!("`{given}` is no label's value; it became `{fit}`"),
                });
                *value = json!(fit);
            }
        }
    }
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
