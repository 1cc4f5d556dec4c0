//! A pretend server for tests: it holds objects, applies plans and remembers the events.

use super::{Action, Plan};
use jiff::Timestamp;
use k8s_openapi::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

#[derive(Default, Clone)]
pub struct World {
    /// By kind and name: the tests use one namespace.
    pub objects: BTreeMap<(String, String), Value>,
    pub events: Vec<String>,
    pub second: i64,
    made: u64,
}

impl World {
    pub fn now(&self) -> Timestamp {
        at(self.second)
    }

    pub fn add(&mut self, mut object: Value) -> String {
        self.made += 1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        let name = match metadata.get("name") {
            Some(name) => name.as_str().unwrap().to_owned(),
            None => format!("{}{:05}", metadata["generateName"].as_str().unwrap(), self.made),
        };
        metadata.insert("name".into(), json!(name));
        metadata.entry("namespace").or_insert(json!("d"));
        metadata.entry("uid").or_insert(json!(format!("uid-{}", self.made)));
        metadata.entry("generation").or_insert(json!(1));
        metadata.insert("resourceVersion".into(), json!(self.made.to_string()));
        metadata.entry("creationTimestamp").or_insert(json!(at(self.second).to_string()));
        let key = (object["kind"].as_str().unwrap().to_owned(), name.clone());
        assert!(self.objects.insert(key, object).is_none(), "{name} already exists");
        name
    }

    pub fn list<T: DeserializeOwned + Resource>(&self) -> Vec<T> {
        let of_kind = self.objects.iter().filter(|((kind, _), _)| kind == T::KIND);
        of_kind.map(|(_, object)| serde_json::from_value(object.clone()).unwrap()).collect()
    }

    /// All objects of a kind, as they are stored.
    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.objects.iter().filter(|((k, _), _)| k == kind).map(|(_, object)| object.clone()).collect()
    }

    pub fn get<T: DeserializeOwned + Resource>(&self, name: &str) -> T {
        serde_json::from_value(self.raw(T::KIND, name).clone()).unwrap()
    }

    pub fn raw(&self, kind: &str, name: &str) -> &Value {
        &self.objects[&(kind.to_owned(), name.to_owned())]
    }

    pub fn names(&self, kind: &str) -> Vec<String> {
        self.objects.keys().filter(|(k, _)| k == kind).map(|(_, name)| name.clone()).collect()
    }

    pub fn edit(&mut self, kind: &str, name: &str, mut patch: Value) {
        let expected =
            patch.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.remove("resourceVersion"));
        let key = (kind.to_owned(), name.to_owned());
        let object = self.objects.get_mut(&key).unwrap_or_else(|| panic!("{kind} {name} is not there"));
        if let Some(expected) = expected {
            assert_eq!(expected, object["metadata"]["resourceVersion"], "{kind} {name} has changed meanwhile");
        }
        let spec_before = object["spec"].clone();
        json_patch::merge(object, &patch);
        self.made += 1;
        object["metadata"]["resourceVersion"] = json!(self.made.to_string());
        if object["spec"] != spec_before {
            let generation = object["metadata"]["generation"].as_i64().unwrap();
            object["metadata"]["generation"] = json!(generation + 1);
        }
        self.drop_if_done(&key);
    }

    pub fn delete(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        let time = at(self.second).to_string();
        let object = self.objects.get_mut(&key).unwrap_or_else(|| panic!("{kind} {name} is not there"));
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(time);
            self.made += 1;
            object["metadata"]["resourceVersion"] = json!(self.made.to_string());
        }
        self.drop_if_done(&key);
    }

    /// A deleted object goes with its last finalizer; a pod on a node also waits for its end.
    fn drop_if_done(&mut self, key: &(String, String)) {
        let object = &self.objects[key];
        let is_deleted = !object["metadata"]["deletionTimestamp"].is_null();
        let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        let has_ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let runs = key.0 == "Pod" && !object["spec"]["nodeName"].is_null() && !has_ended;
        if is_deleted && !is_held && !runs {
            self.objects.remove(key);
        }
    }

    pub fn apply(&mut self, plan: &Plan) {
        for action in &plan.actions {
            match action {
                Action::Create { object, event } => {
                    let name = self.add(object.clone());
                    if let Some(event) = event {
                        self.events.push(format!("{} {}", event.reason, event.message.replace("{name}", &name)));
                    }
                }
                Action::Delete { target, .. } => self.delete(&target.kind, &target.name),
                Action::Patch { target, patch }
                | Action::PatchStatus { target, patch }
                | Action::Finalize { target, patch } => {
                    self.edit(&target.kind, &target.name, patch.clone());
                }
            }
        }
        self.events.extend(plan.events.iter().map(|event| format!("{} {}", event.reason, event.message)));
    }

    /// Plans and applies until the plan is empty, which must be soon. Returns the last, empty plan.
    pub fn settle(&mut self, mut planner: impl FnMut(&World) -> Plan) -> Plan {
        const ROUNDS_MAX: usize = 12;
        for _ in 0..ROUNDS_MAX {
            let plan = planner(self);
            if plan.is_empty() {
                return plan;
            }
            self.apply(&plan);
        }
        panic!("still planning after {ROUNDS_MAX} rounds: {:#?}", planner(self));
    }

    /// Puts a pod on the node, running and ready.
    pub fn run_pod(&mut self, name: &str) {
        let since = at(self.second).to_string();
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        let patch = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": ready}});
        self.edit("Pod", name, patch);
    }

    /// Ends a pod's only container with this exit code.
    pub fn end_pod(&mut self, name: &str, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let end = json!({"terminated": {"exitCode": code, "finishedAt": at(self.second).to_string()}});
        let container =
            json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": end});
        let ready = json!([{"type": "Ready", "status": "False"}]);
        let status = json!({"phase": phase, "conditions": ready, "containerStatuses": [container]});
        self.edit("Pod", name, json!({ "status": status }));
    }
}
