//! A pretend cluster: objects as JSON, kept in a snapshot, changed by placements.

use crate::gang::objects::Key;
use crate::gang::policy::Policy;
use crate::gang::snapshot::{Kind, Snapshot};
use crate::gang::{Placement, place};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::{text, time};

pub const GPU: &str = "nvidia.com/gpu";

#[derive(Clone)]
pub struct World {
    pub snapshot: Snapshot,
    pub pods: BTreeMap<String, Value>,
    pub groups: BTreeMap<String, Value>,
    pub now: i64,
}

pub fn merged(mut object: Value, more: &Value) -> Value {
    json_patch::merge(&mut object, more);
    object
}

pub fn at(second: i64) -> String {
    time::seconds(Timestamp::from_second(second).unwrap())
}

pub fn key(name: &str) -> Key {
    Key { namespace: "d".into(), name: name.into() }
}

impl World {
    pub fn new() -> World {
        World::with(Policy::default())
    }

    pub fn with(policy: Policy) -> World {
        let snapshot = Snapshot::new(policy, &["volcano"], &["default-scheduler"]);
        let mut world = World { snapshot, pods: BTreeMap::new(), groups: BTreeMap::new(), now: 1_000_000 };
        world.queue("default", json!({}));
        world
    }

    pub fn see(&mut self, kind: Kind, object: &Value) {
        self.snapshot.see(kind, object);
    }

    pub fn queue(&mut self, name: &str, more: Value) {
        let queue = json!({"metadata": {"name": name, "creationTimestamp": at(1)},
            "spec": {"weight": 1}, "status": {"state": "Open"}});
        self.see(Kind::Queue, &merged(queue, &more));
    }

    /// A node with so many GPUs, 64 CPUs and room for 100 pods.
    pub fn node(&mut self, name: &str, gpus: i64, more: Value) {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
            "status": {"allocatable": {GPU: gpus.to_string(), "cpu": "64", "memory": "256Gi", "pods": "100"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        self.see(Kind::Node, &merged(node, &more));
    }

    pub fn class(&mut self, name: &str, value: i64) {
        self.see(Kind::PriorityClass, &json!({"metadata": {"name": name}, "value": value}));
    }

    pub fn group(&mut self, name: &str, min: usize, more: Value) {
        let group = json!({"metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": at(self.now)},
            "spec": {"minMember": min, "queue": "default"}, "status": {"phase": "Inqueue"}});
        let group = merged(group, &more);
        self.see(Kind::PodGroup, &group);
        self.groups.insert(name.to_owned(), group);
    }

    pub fn pod(&mut self, name: &str, group: &str, gpus: i64, more: Value) {
        let requests = json!({GPU: gpus.to_string(), "cpu": "1"});
        let pod = json!({
            "metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": at(self.now),
                "annotations": {"scheduling.k8s.io/group-name": group}, "labels": {"app": group}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": "Pending"}});
        self.keep(merged(pod, &more));
    }

    fn keep(&mut self, pod: Value) {
        self.see(Kind::Pod, &pod);
        self.pods.insert(text(&pod, "metadata.name").to_owned(), pod);
    }

    /// A gang of `pods` equal pods of which `min` must start together.
    pub fn gang(&mut self, name: &str, min: usize, pods: usize, gpus: i64, group: Value) {
        self.group(name, min, group);
        for index in 0..pods {
            self.pod(&format!("{name}-{index}"), name, gpus, json!({}));
        }
    }

    pub fn change(&mut self, pod: &str, more: Value) {
        let pod = merged(self.pods[pod].clone(), &more);
        self.keep(pod);
    }

    pub fn remove(&mut self, pod: &str) {
        self.pods.remove(pod);
        self.snapshot.forget(Kind::Pod, "d", pod);
    }

    /// Ends a gang: its pods and its group go.
    pub fn end(&mut self, gang: &str) {
        let names: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod["metadata"]["labels"]["app"] == gang)
            .map(|(name, _)| name.clone())
            .collect();
        names.iter().for_each(|name| self.remove(name));
        self.groups.remove(gang);
        self.snapshot.forget(Kind::PodGroup, "d", gang);
    }

    pub fn place(&self) -> Placement {
        place(&mut self.snapshot.clone(), Timestamp::from_second(self.now).unwrap())
    }

    /// Does what the placement says: bound pods run, evicted ones are on their way out.
    pub fn apply(&mut self, placement: &Placement) {
        for key in &placement.admit {
            let group = merged(self.groups[&*key.name].clone(), &json!({"status": {"phase": "Inqueue"}}));
            self.see(Kind::PodGroup, &group);
            self.groups.insert(key.name.to_string(), group);
        }
        self.snapshot.promised.extend(placement.volumes.clone());
        for bind in &placement.bind {
            let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(self.now)});
            self.change(
                &bind.pod.key.name,
                json!({"spec": {"nodeName": *bind.node},
                "status": {"phase": "Running", "conditions": [condition]}}),
            );
        }
        for bind in &placement.nominate {
            self.change(&bind.pod.key.name, json!({"status": {"nominatedNodeName": *bind.node}}));
        }
        for evict in &placement.evict {
            self.change(&evict.pod.key.name, json!({"metadata": {"deletionTimestamp": at(self.now + 30)}}));
        }
    }

    /// Places and does it; gives `pod>node` for each pod that was bound.
    pub fn step(&mut self) -> Vec<String> {
        let placement = self.place();
        self.apply(&placement);
        placement.bind.iter().map(|bind| format!("{}>{}", bind.pod.key.name, bind.node)).collect()
    }

    /// Pods that were evicted have gone.
    pub fn let_go(&mut self) {
        let gone: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, pod)| !text(pod, "metadata.deletionTimestamp").is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        gone.iter().for_each(|name| self.remove(name));
    }

    /// The sentence that a gang hears, or `""`.
    pub fn why(&self, gang: &str) -> String {
        self.place().waiting.get(&key(gang)).map(|waiting| waiting.on.to_string()).unwrap_or_default()
    }
}

/// The pods that a placement evicts.
pub fn evicted(placement: &Placement) -> Vec<String> {
    placement.evict.iter().map(|evict| evict.pod.key.name.to_string()).collect()
}
