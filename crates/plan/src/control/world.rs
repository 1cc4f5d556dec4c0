//! Short words for tests on `sim::Cluster`: what a test asks for is there, and what it does is not refused.

use super::{Plan, Propagation};
use crate::sim::Cluster;
use jiff::Timestamp;
use k8s_openapi::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ops::{Deref, DerefMut};

pub fn at(second: i64) -> Timestamp {
    Cluster::at(second)
}

#[derive(Default, Clone)]
pub struct World(pub Cluster);

impl Deref for World {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.0
    }
}

impl World {
    pub fn add(&mut self, object: Value) -> String {
        self.insert(object).unwrap()
    }

    pub fn get<T: DeserializeOwned + Resource>(&self, name: &str) -> T {
        serde_json::from_value(self.raw(T::KIND, name).clone()).unwrap()
    }

    pub fn raw(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("{kind} {name} is not there"))
    }

    pub fn edit(&mut self, kind: &str, name: &str, patch: Value) {
        self.0.edit(kind, name, &patch).unwrap();
    }

    pub fn delete(&mut self, kind: &str, name: &str) {
        self.0.delete(kind, name, Propagation::Background).unwrap();
    }

    pub fn apply(&mut self, plan: &Plan) {
        for action in &plan.actions {
            self.act(action).unwrap();
        }
        self.tell(plan);
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
        self.start_pod(name).unwrap();
    }

    /// Ends a pod's first container with this exit code.
    pub fn end_pod(&mut self, name: &str, code: i32) {
        self.0.end_pod(name, code).unwrap();
    }
}
