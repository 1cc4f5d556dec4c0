//! What a document is, and the shape that it should have.

use super::tree::Node;
use super::{queue, words};
use crate::agent::config;
use serde_json::Value;
use std::sync::OnceLock;
use volley_api::kube::schema::{Shape, StructRef, builtin, json};
use volley_api::{kubeflow, volcano};

/// What a document is about.
#[derive(Debug, Clone)]
pub enum Form {
    /// A Kubernetes object; without a shape, of a kind that we do not know.
    Object { version: String, kind: String, shape: Option<Shape> },
    /// A queue's file, with the manifest in its config.
    Queue,
    /// A launch agent's settings.
    Agent(Shape),
    /// The values of W&B's Helm chart.
    Chart(Shape),
    /// A part of something, or nothing that we know.
    Other,
}

/// Keys that only an agent's settings have.
const AGENT_KEYS: [&str; 6] = ["queues", "max_jobs", "max_schedulers", "environment", "registry", "secure_mode"];
const CHART_KEYS: [&str; 4] = ["launchConfig", "additionalTargetNamespaces", "gitCreds", "azureStorageAccessKey"];

/// The manifest, and the outermost wrapper that it is in, if that is the only thing there.
pub fn unwrapped(root: &Node) -> (&Node, Option<&str>) {
    match root.entries() {
        [only] if matches!(only.key.as_str(), "kubernetes" | "resource_args") && only.value.is_map() => {
            (unwrapped(&only.value).0, Some(&only.key))
        }
        _ => (root, None),
    }
}

pub fn form(root: &Node) -> Form {
    let keys: Vec<&str> = root.entries().iter().map(|entry| entry.key.as_str()).collect();
    let text = |key: &str| root.get(key).and_then(Node::text).unwrap_or_default();
    of(&keys, text("apiVersion"), text("kind"))
}

/// By the keys at its top and what it says of itself.
pub fn of(keys: &[&str], version: &str, kind: &str) -> Form {
    let has_any = |known: &[&str]| keys.iter().any(|key| known.contains(key));
    if kind.is_empty() && version.is_empty() {
        if has_any(&CHART_KEYS) {
            return Form::Chart(config::chart_shape());
        }
        if queue::is_queue(keys) {
            return Form::Queue;
        }
        if has_any(&AGENT_KEYS) && !has_any(&["spec", "metadata"]) {
            return Form::Agent(config::shape());
        }
        if !has_any(&["spec"]) {
            return Form::Other;
        }
    }
    // A queue's config without a kind is a plain Job, and one without a version that of its kind.
    let (version, kind) = match (version, kind) {
        ("", "" | "Job") => ("batch/v1", "Job"),
        ("", kind) if kubeflow::kinds::row(kind).is_some() => ("kubeflow.org/v1", kind),
        ("", "Pod" | "PersistentVolume" | "PersistentVolumeClaim") => ("v1", kind),
        given => given,
    };
    // A kind that is nearly written is looked at as the one that was meant.
    let shape = shape(version, kind).or_else(|| shape(version, misnamed(version, kind)??));
    Form::Object { version: version.to_owned(), kind: kind.to_owned(), shape }
}

/// Whether a version that is known has no such kind, and the kind that was probably meant.
pub fn misnamed(version: &str, kind: &str) -> Option<Option<&'static str>> {
    let (group, number) = version.rsplit_once('/').unwrap_or(("", version));
    let training = kubeflow::kinds::ROWS.iter().filter(|_| version == "kubeflow.org/v1").map(|row| row.name);
    let of_volcano = volcano::kinds::KINDS.iter().filter(|row| row.group == group && row.version == number);
    let kinds: Vec<&'static str> =
        builtin::kinds(group, number).chain(training).chain(of_volcano.map(|row| row.kind)).collect();
    let is_template = kind.contains('{');
    let is_known = kind.is_empty() || kind.ends_with("List") || kinds.contains(&kind);
    if kinds.is_empty() || is_template || is_known {
        return None;
    }
    let near = words::nearest(kind, kinds.into_iter());
    // Groups with a dot have more kinds than are known here; only what is nearly one of them is a mistake.
    (near.is_some() || !group.contains('.')).then_some(near)
}

/// The shape of a kind that is built in, or one of ours.
pub fn shape(version: &str, kind: &str) -> Option<Shape> {
    let (group, number) = version.rsplit_once('/').unwrap_or(("", version));
    if let Some(known) = builtin::of(group, number, kind) {
        return Some(Shape::Struct(known));
    }
    custom(version, kind).map(Shape::Struct)
}

/// Volcano's and Kubeflow's kinds, each compiled once when it is first asked for: definitions are large.
fn custom(version: &str, kind: &str) -> Option<StructRef> {
    static TRAINING: [OnceLock<Option<StructRef>>; kubeflow::kinds::ROWS.len()] =
        [const { OnceLock::new() }; kubeflow::kinds::ROWS.len()];
    static VOLCANO: [OnceLock<Option<StructRef>>; volcano::kinds::KINDS.len()] =
        [const { OnceLock::new() }; volcano::kinds::KINDS.len()];
    let training = kubeflow::kinds::ROWS.iter().position(|row| row.name == kind);
    if let Some(at) = training.filter(|_| version == "kubeflow.org/v1") {
        let definition = || kubeflow::definition::definition(&kubeflow::kinds::ROWS[at], kubeflow::Rules::default());
        return TRAINING[at].get_or_init(|| compiled(&definition(), kind)).clone();
    }
    let is_asked = |row: &volcano::kinds::Kind| row.kind == kind && version == format!("{}/{}", row.group, row.version);
    let at = volcano::kinds::KINDS.iter().position(is_asked)?;
    VOLCANO[at].get_or_init(|| compiled(volcano::definition::definitions().get(at)?, kind)).clone()
}

fn compiled(definition: &Value, kind: &str) -> Option<StructRef> {
    let version = definition["spec"]["versions"].get(0)?;
    Some(json::root(&version["schema"]["openAPIV3Schema"], kind))
}

/// The shape of what stands under a key, if the key is known here.
pub fn member(shape: &Shape, key: &str) -> Option<Shape> {
    match shape {
        Shape::Struct(own) => {
            let own = own.get();
            own.field(key).map(|field| field.shape.clone()).or_else(|| own.open.then_some(Shape::Any))
        }
        Shape::Map { values, .. } => Some((**values).clone()),
        Shape::Any => Some(Shape::Any),
        Shape::Scalar(_) | Shape::List { .. } => None,
    }
}

pub fn keys(shape: &Shape) -> Vec<String> {
    match shape {
        Shape::Struct(own) => own.get().fields.iter().map(|field| field.name.to_string()).collect(),
        Shape::Map { .. } | Shape::Any | Shape::Scalar(_) | Shape::List { .. } => Vec::new(),
    }
}

/// The key of this object that differs from a word by its letters' case only.
pub fn other_case(shape: &Shape, key: &str) -> Option<String> {
    keys(shape).into_iter().find(|known| known != key && known.eq_ignore_ascii_case(key))
}

/// The pod template of Kubernetes, for kinds of which nothing else is known.
pub fn pod_template() -> Shape {
    builtin::named("io.k8s.api.core.v1.PodTemplateSpec").map_or(Shape::Any, Shape::Struct)
}

/// The shape of a container's field.
pub fn of_container(key: &str) -> Option<Shape> {
    let container = builtin::named("io.k8s.api.core.v1.Container")?;
    container.get().field(key).map(|field| field.shape.clone())
}
