//! A job on a pretend server, for tests: pods start, end and fail as told, and plans are applied until nothing is left.

use super::{Observed, Settings, plan};
use crate::control::Plan;
use crate::control::world::{World, at};
use crate::sim::Cluster;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kubeflow::kinds::{Row, row};

pub struct Stage {
    pub world: World,
    pub row: &'static Row,
    pub settings: Settings,
    pub priorities: BTreeMap<String, i32>,
}

/// A replica of the kind's container.
pub fn replica(kind: &str, count: i32, policy: &str) -> Value {
    let name = row(kind).unwrap().container.unwrap_or("mpi");
    let template = json!({"spec": {"containers": [{"name": name, "image": "i"}]}});
    json!({"replicas": count, "restartPolicy": policy, "template": template})
}

impl Stage {
    /// A job `x` with these replicas, `(type, count, restart policy)`, and more of its spec.
    pub fn of(kind: &str, replicas: &[(&str, i32, &str)], spec: Value) -> Stage {
        let row = row(kind).unwrap();
        let entries: serde_json::Map<String, Value> = replicas
            .iter()
            .map(|(type_, count, policy)| ((*type_).to_owned(), replica(kind, *count, policy)))
            .collect();
        let mut job = json!({"apiVersion": "kubeflow.org/v1", "kind": kind,
            "metadata": {"name": "x", "namespace": "d", "uid": "u"}, "spec": {row.replica_specs: entries}});
        json_patch::merge(&mut job["spec"], &spec);
        let mut world = World::default();
        world.add(job);
        Stage { world, row, settings: Settings::default(), priorities: BTreeMap::new() }
    }

    /// A PyTorchJob with one master and so many workers.
    pub fn torch(workers: i32, policy: &str, spec: Value) -> Stage {
        Stage::of("PyTorchJob", &[("Master", 1, policy), ("Worker", workers, policy)], spec)
    }

    pub fn strict(mut self) -> Stage {
        self.settings = Settings::strict();
        self
    }

    pub fn seen_by<T>(&self, planner: impl Fn(&Observed) -> T) -> T {
        seen_by(&self.world, self.row, &self.priorities, planner)
    }

    pub fn plan(&self) -> Plan {
        self.seen_by(|seen| plan(self.row, seen, &self.settings, self.world.now()))
    }

    /// Plans and applies until nothing is left to do.
    pub fn settle(&mut self) -> Plan {
        let (row, settings, priorities) = (self.row, self.settings.clone(), self.priorities.clone());
        self.world.settle(|world| seen_by(world, row, &priorities, |seen| plan(row, seen, &settings, world.now())))
    }

    /// One pass only.
    pub fn step(&mut self) -> Plan {
        let plan = self.plan();
        self.world.apply(&plan);
        plan
    }

    pub fn job(&self) -> &Value {
        self.world.raw(self.row.name, "x")
    }

    pub fn edit(&mut self, patch: Value) {
        self.world.edit(self.row.name, "x", patch);
    }

    pub fn status(&self) -> &Value {
        &self.job()["status"]
    }

    /// Each condition as `Type`, or `Type=False`.
    pub fn conditions(&self) -> Vec<String> {
        let list = self.status()["conditions"].as_array().cloned().unwrap_or_default();
        let text = |c: &Value, key: &str| c[key].as_str().unwrap().to_owned();
        let word = |c| if text(c, "status") == "True" { text(c, "type") } else { format!("{}=False", text(c, "type")) };
        list.iter().map(word).collect()
    }

    /// Reason and message of a condition.
    pub fn said(&self, type_: &str) -> String {
        let list = self.status()["conditions"].as_array().unwrap();
        let condition = list.iter().find(|c| c["type"] == type_).unwrap_or_else(|| panic!("no condition {type_}"));
        format!("{}: {}", condition["reason"].as_str().unwrap(), condition["message"].as_str().unwrap())
    }

    pub fn counters(&self, type_: &str) -> [i64; 3] {
        let counters = &self.status()["replicaStatuses"][type_];
        ["active", "succeeded", "failed"].map(|key| counters[key].as_i64().unwrap_or(0))
    }

    pub fn pods(&self) -> Vec<String> {
        self.world.names("Pod")
    }

    pub fn pod(&self, name: &str) -> &Value {
        self.world.raw("Pod", name)
    }

    pub fn run(&mut self, names: &[&str]) -> &mut Self {
        names.iter().for_each(|name| self.world.run_pod(name));
        self.settle();
        self
    }

    /// All pods that exist start.
    pub fn run_all(&mut self) -> &mut Self {
        loop {
            let waiting: Vec<_> =
                self.pods().into_iter().filter(|name| self.pod(name)["status"]["phase"].is_null()).collect();
            if waiting.is_empty() {
                return self;
            }
            waiting.iter().for_each(|name| self.world.run_pod(name));
            self.settle();
        }
    }

    /// A pod's first container ends with this code and its pod with it.
    pub fn end(&mut self, name: &str, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        self.end_as(name, phase, Some(code));
        self.settle();
    }

    /// A pod ends in a phase, perhaps without word of its container.
    pub fn end_as(&mut self, name: &str, phase: &str, code: Option<i32>) {
        let state = code.map(|code| json!({"terminated": {"exitCode": code}})).unwrap_or(json!({}));
        let container = container_status(self.pod(name)["spec"]["containers"][0]["name"].as_str().unwrap(), 0, state);
        self.world.edit("Pod", name, json!({"status": {"phase": phase, "containerStatuses": [container]}}));
    }

    /// A pod's container was restarted in place so often.
    pub fn restarted(&mut self, name: &str, times: i32) {
        let container = container_status("pytorch", times, json!({"running": {}}));
        self.world.edit("Pod", name, json!({"status": {"containerStatuses": [container]}}));
    }

    pub fn after(&mut self, seconds: i64) -> Plan {
        self.world.second += seconds;
        self.settle()
    }

    pub fn exists(&self) -> bool {
        self.world.objects.contains_key(&(self.row.name.to_owned(), "x".to_owned()))
    }

    pub fn has_event(&self, text: &str) -> bool {
        self.world.events.iter().any(|event| event == text)
    }

    pub fn environment(&self, pod: &str) -> BTreeMap<String, String> {
        let list = self.pod(pod)["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or("<reference>").to_owned();
        list.iter().map(|entry| (text(&entry["name"]), text(&entry["value"]))).collect()
    }
}

pub fn seen_by<T>(
    world: &Cluster,
    row: &Row,
    priorities: &BTreeMap<String, i32>,
    planner: impl Fn(&Observed) -> T,
) -> T {
    let pods: Vec<Pod> = world.list();
    let services = world.of_kind("Service");
    let groups = world.of_kind("PodGroup");
    let autoscalers = world.of_kind("HorizontalPodAutoscaler");
    let kinds = ["ConfigMap", "ServiceAccount", "Role", "RoleBinding"];
    let helpers: Vec<Value> = kinds.iter().flat_map(|kind| world.of_kind(kind)).collect();
    let job = world.of_kind(row.name).pop().unwrap_or_else(|| {
        // A job that is gone is planned as one that is going.
        json!({"metadata": {"deletionTimestamp": at(0).to_string()}})
    });
    planner(&Observed {
        job: &job,
        pods: &pods,
        services: &services,
        pod_group: groups.first(),
        autoscaler: autoscalers.first(),
        helpers: &helpers,
        priorities,
    })
}

pub fn container_status(name: &str, restarts: i32, state: Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": restarts, "state": state})
}
