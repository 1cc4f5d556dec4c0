//! What a document is, and the shape that it should have.

use super::tree::Node;
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

/// The wrapper that the manifest is in, if it is the only thing there.
pub fn unwrapped(root: &Node) -> (&Node, Option<&str>) {
    match root.entries() {
        [only] if matches!(only.key.as_str(), "kubernetes" | "resource_args") && only.value.is_map() => {
            (&only.value, Some(&only.key))
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
    Form::Object { version: version.to_owned(), kind: kind.to_owned(), shape: shape(version, kind) }
}

/// The shape of a kind that is built in, or one of ours.
pub fn shape(version: &str, kind: &str) -> Option<Shape> {
    let (group, number) = version.rsplit_once('/').unwrap_or(("", version));
    if let Some(known) = builtin::of(group, number, kind) {
        return Some(Shape::Struct(known));
    }
    custom()
        .iter()
        .find(|(known, of, _)| known == version && of == kind)
        .map(|(_, _, shape)| Shape::Struct(shape.clone()))
}

/// Volcano's and Kubeflow's kinds. Compiled once: definitions are large.
fn custom() -> &'static [(String, String, StructRef)] {
    static CUSTOM: OnceLock<Vec<(String, String, StructRef)>> = OnceLock::new();
    CUSTOM.get_or_init(|| {
        let training =
            kubeflow::kinds::ROWS.iter().map(|row| kubeflow::definition::definition(row, kubeflow::Rules::default()));
        let all = volcano::definition::definitions().into_iter().chain(training);
        all.filter_map(|definition| compiled(&definition)).collect()
    })
}

fn compiled(definition: &Value) -> Option<(String, String, StructRef)> {
    let spec = &definition["spec"];
    let version = spec["versions"].get(0)?;
    let name = format!("{}/{}", spec["group"].as_str()?, version["name"].as_str()?);
    let kind = spec["names"]["kind"].as_str()?.to_owned();
    let shape = json::root(&version["schema"]["openAPIV3Schema"], &kind);
    Some((name, kind, shape))
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
