//! The API server of the pretend cluster: objects of one namespace, the guards of their writes, and what goes with whom.

use crate::control::garbage::Graph;
use crate::control::{Action, Plan, Propagation, Target};
use crate::job::head::target_of;
use jiff::Timestamp;
use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::{at, text};

/// Kind and name: a story is told in one namespace.
pub type Key = (String, String);

/// The second at which every story begins.
const START: i64 = 1_700_000_000;
/// Kinds whose status is written with the rest of the object (API-4).
const WITHOUT_STATUS: [&str; 2] = ["PodGroup", "Command"];
/// A chain of owners is this long at most; a longer one would be a circle.
const GENERATIONS_MAX: usize = 8;

/// More than any story's cluster holds.
const WRITES_MAX: usize = 1000;

/// Why a write was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} `{1}` exists already")]
    AlreadyExists(String, String),
    #[error("there is no {0} `{1}`")]
    NotFound(String, String),
    #[error("{0} `{1}` has changed since it was seen")]
    Conflict(String, String),
    #[error("a {0} has neither name nor generateName")]
    Nameless(String),
}

/// All that is stored, and what time it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cluster {
    pub objects: BTreeMap<Key, Value>,
    /// `reason message` of every event that was told.
    pub events: Vec<String>,
    /// Seconds since the story began.
    pub second: i64,
    revision: u64,
}

impl Cluster {
    pub fn now(&self) -> Timestamp {
        Cluster::at(self.second)
    }

    /// The time so many seconds after the beginning.
    pub fn at(second: i64) -> Timestamp {
        Timestamp::from_second(START + second).unwrap_or(Timestamp::MAX)
    }

    /// All objects of a kind, as they are stored.
    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.objects.iter().filter(|((other, _), _)| other == kind).map(|(_, object)| object.clone()).collect()
    }

    /// All objects of a kind; one that is not of its type is left out.
    pub fn list<T: DeserializeOwned + Resource>(&self) -> Vec<T> {
        self.of_kind(T::KIND).into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect()
    }

    pub fn names(&self, kind: &str) -> Vec<String> {
        self.objects.keys().filter(|(other, _)| other == kind).map(|(_, name)| name.clone()).collect()
    }

    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.to_owned(), name.to_owned()))
    }

    /// Stores an object as it is, with all that a server adds.
    pub fn insert(&mut self, mut object: Value) -> Result<String, Refusal> {
        let kind = text(&object, "kind").to_owned();
        let (name, start) = (text(&object, "metadata.name"), text(&object, "metadata.generateName"));
        let name = match (name, start) {
            ("", "") => return Err(Refusal::Nameless(kind)),
            ("", start) => format!("{start}{:05}", self.revision + 1),
            (name, _) => name.to_owned(),
        };
        let key = (kind, name.clone());
        if self.objects.contains_key(&key) {
            return Err(Refusal::AlreadyExists(key.0, key.1));
        }
        self.revision += 1;
        let given = json!({
            "name": name, "resourceVersion": self.revision.to_string(), "namespace": "d", "generation": 1,
            "uid": format!("uid-{}", self.revision), "creationTimestamp": self.now().to_string(),
        });
        let mut metadata = given.clone();
        json_patch::merge(&mut metadata, &object["metadata"]);
        for field in ["name", "resourceVersion"] {
            metadata[field] = given[field].clone();
        }
        object["metadata"] = metadata;
        self.objects.insert(key, object);
        Ok(name)
    }

    /// Does what a controller asks for.
    pub fn act(&mut self, action: &Action) -> Result<(), Refusal> {
        match action {
            Action::Create { object, event } => {
                let is_apart = has_status(text(object, "kind"));
                let name = self.insert(if is_apart { without_status(object.clone()) } else { object.clone() })?;
                let told = event.iter().map(|event| said(&event.reason, &event.message.replace("{name}", &name)));
                self.events.extend(told);
                Ok(())
            }
            Action::Delete { target, propagation } => {
                self.guard(target)?;
                self.delete(&target.kind, &target.name, *propagation)
            }
            Action::Patch { target, patch } | Action::Finalize { target, patch } => {
                self.guard(target)?;
                self.guarded_merge(target, patch, Part::Main)
            }
            Action::PatchStatus { target, patch } => {
                self.guard(target)?;
                self.guarded_merge(target, patch, Part::Status)
            }
        }
    }

    /// Tells the events of a plan whose actions have landed.
    pub fn tell(&mut self, plan: &Plan) {
        self.events.extend(plan.events.iter().map(|event| said(&event.reason, &event.message)));
    }

    fn guard(&self, target: &Target) -> Result<(), Refusal> {
        let (kind, name) = (target.kind.clone(), target.name.clone());
        match self.find(&target.kind, &target.name) {
            None => Err(Refusal::NotFound(kind, name)),
            Some(object) if !target.uid.is_empty() && target.uid != text(object, "metadata.uid") => {
                Err(Refusal::Conflict(kind, name))
            }
            Some(_) => Ok(()),
        }
    }

    fn guarded_merge(&mut self, target: &Target, patch: &Value, part: Part) -> Result<(), Refusal> {
        let (kind, name) = (&target.kind, &target.name);
        let current = self.find(kind, name).map_or("", |object| text(object, "metadata.resourceVersion"));
        let expected = text(patch, "metadata.resourceVersion");
        if !expected.is_empty() && expected != current {
            return Err(Refusal::Conflict(kind.clone(), name.clone()));
        }
        let patch = match part {
            Part::Main if has_status(kind) => without_status(patch.clone()),
            Part::Main => patch.clone(),
            Part::Status => status_part(patch, &target.api_version),
        };
        self.edit(kind, name, &patch)
    }

    /// Changes any part of an object, as its writer may, whoever that is.
    pub fn edit(&mut self, kind: &str, name: &str, patch: &Value) -> Result<(), Refusal> {
        let key = (kind.to_owned(), name.to_owned());
        let Some(object) = self.objects.get_mut(&key) else {
            return Err(Refusal::NotFound(key.0, key.1));
        };
        let (spec, version) = (object["spec"].clone(), object["metadata"]["resourceVersion"].clone());
        let before = object.clone();
        json_patch::merge(object, patch);
        object["metadata"]["resourceVersion"] = version;
        if *object == before {
            return Ok(());
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        if object["spec"] != spec {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        self.drop_if_done(&key);
        Ok(())
    }

    pub fn delete(&mut self, kind: &str, name: &str, propagation: Propagation) -> Result<(), Refusal> {
        let key = (kind.to_owned(), name.to_owned());
        let now = self.now().to_string();
        let Some(object) = self.objects.get_mut(&key) else {
            return Err(Refusal::NotFound(key.0, key.1));
        };
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(now);
            let finalizer = match propagation {
                Propagation::Background => None,
                Propagation::Foreground => Some("foregroundDeletion"),
                Propagation::Orphan => Some("orphan"),
            };
            if let Some(finalizer) = finalizer {
                let mut all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                all.push(json!(finalizer));
                object["metadata"]["finalizers"] = Value::Array(all);
            }
            self.revision += 1;
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        }
        self.drop_if_done(&key);
        Ok(())
    }

    /// A deleted object goes with its last finalizer; a pod on a node also waits for its end.
    fn drop_if_done(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key) else { return };
        let is_deleted = !text(object, "metadata.deletionTimestamp").is_empty();
        let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let has_ended = matches!(text(object, "status.phase"), "Succeeded" | "Failed");
        let runs = key.0 == "Pod" && !text(object, "spec.nodeName").is_empty() && !has_ended;
        if is_deleted && !is_held && !runs {
            self.objects.remove(key);
        }
    }

    /// Takes away what has lost its owners, and what its owners wait for, until nothing is left to take.
    pub fn collect_garbage(&mut self) {
        for _ in 0..GENERATIONS_MAX {
            let mut graph = Graph::default();
            for object in self.objects.values() {
                let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
                let target = target_of(object);
                graph.observe(&target.api_version, &target.kind, &metadata);
            }
            let actions = graph.plan(WRITES_MAX).actions;
            if actions.is_empty() {
                return;
            }
            // Some pods take a while to go, and what waits for them is told so again: that is no failure.
            let done = actions.iter().filter(|action| self.act(action).is_ok()).count();
            if done == 0 {
                return;
            }
        }
    }
}

/// What a patch may change.
#[derive(Clone, Copy)]
enum Part {
    Main,
    Status,
}

fn has_status(kind: &str) -> bool {
    !WITHOUT_STATUS.contains(&kind)
}

/// What a write of the status changes: nothing else of a custom kind, but annotations of the built-in ones too.
fn status_part(patch: &Value, api_version: &str) -> Value {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
    let mut part = json!({});
    if let Some(status) = patch.get("status") {
        part["status"] = status.clone();
    }
    if let Some(annotations) = at(patch, "metadata.annotations").filter(|_| !is_custom) {
        part["metadata"]["annotations"] = annotations.clone();
    }
    part
}

fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn said(reason: &str, message: &str) -> String {
    format!("{reason} {message}")
}
