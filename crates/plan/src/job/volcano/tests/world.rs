//! A pretend cluster for tests: one Volcano Job, a scheduler that admits and runs its pods, and crashes on request.

use super::super::{Observed, Settings, SshKey, give_up, plan, wants_key};
use crate::control::world::World;
use crate::control::{Action, Plan};
use crate::sim;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::text;
use volley_api::volcano::{BATCH, BUS};

pub struct Cluster {
    pub world: World,
    pub settings: Settings,
    pub priorities: BTreeMap<String, i64>,
    pub has_queue: bool,
    /// Every phase that was written, in order, without repetition.
    pub phases: Vec<String>,
    commands: usize,
}

pub fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}})
}

/// The n-th Command for Job `j`.
pub fn command(action: &str, number: usize) -> Value {
    let target = json!({"apiVersion": BATCH, "kind": "Job", "name": "j", "uid": "u", "controller": true});
    let name = format!("j-{}-{number:05}", action.to_lowercase());
    let metadata = json!({"name": name, "uid": format!("command-{number}")});
    json!({"apiVersion": BUS, "kind": "Command", "metadata": metadata, "action": action, "target": target})
}

pub fn task(name: &str, replicas: i32) -> Value {
    json!({"name": name, "replicas": replicas, "template": template()})
}

/// Gathers what a shell would for Job `j`.
pub fn seen_by(
    cluster: &sim::Cluster,
    has_queue: bool,
    priorities: &BTreeMap<String, i64>,
    planner: impl Fn(&Observed) -> Plan,
) -> Plan {
    let Some(job) = cluster.find("Job", "j") else { return Plan::default() };
    let pods: Vec<Pod> = cluster.list();
    let kinds = ["Service", "ConfigMap", "Secret", "NetworkPolicy", "PodGroup", "PersistentVolumeClaim"];
    let objects: Vec<Value> = kinds.iter().flat_map(|kind| cluster.of_kind(kind)).collect();
    let commands = cluster.of_kind("Command");
    let queue = json!({"metadata": {"name": "default"}, "status": {"state": "Open"}});
    let key = SshKey { private: format!("private {}", cluster.second), public: "public".to_owned() };
    let key = wants_key(job, &objects).then_some(&key);
    planner(&Observed {
        job,
        pods: &pods,
        objects: &objects,
        commands: &commands,
        queue: has_queue.then_some(&queue),
        priorities,
        key,
    })
}

impl Cluster {
    /// A cluster with Job `j` of this spec, which nobody has looked at yet.
    pub fn new(spec: Value) -> Cluster {
        let mut world = World::default();
        world.add(json!({"apiVersion": BATCH, "kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": spec}));
        Cluster {
            world,
            settings: Settings::default(),
            priorities: BTreeMap::new(),
            has_queue: true,
            phases: Vec::new(),
            commands: 0,
        }
    }

    pub fn strict(spec: Value) -> Cluster {
        let mut cluster = Cluster::new(spec);
        cluster.settings.is_strict = true;
        cluster
    }

    /// As `new`, looked at, admitted, with all pods running.
    pub fn running(spec: Value) -> Cluster {
        let mut cluster = Cluster::new(spec);
        cluster.start();
        cluster
    }

    pub fn start(&mut self) {
        self.settle();
        self.admit();
        self.settle();
        self.run_all();
        self.settle();
    }

    pub fn job(&self) -> &Value {
        self.world.raw("Job", "j")
    }

    pub fn status(&self) -> &Value {
        &self.job()["status"]
    }

    pub fn phase(&self) -> &str {
        text(self.job(), "status.state.phase")
    }

    pub fn count(&self, name: &str) -> i64 {
        self.status()[name].as_i64().unwrap_or(0)
    }

    pub fn pod(&self, name: &str) -> &Value {
        self.world.raw("Pod", name)
    }

    pub fn pods(&self) -> Vec<String> {
        self.world.names("Pod")
    }

    pub fn plan(&self) -> Plan {
        self.plan_or_give_up(None)
    }

    pub fn plan_or_give_up(&self, error: Option<&str>) -> Plan {
        seen_by(&self.world, self.has_queue, &self.priorities, |seen| match error {
            Some(error) => give_up(seen, &self.settings, self.world.now(), error),
            None => plan(seen, &self.settings, self.world.now()),
        })
    }

    pub fn apply(&mut self, plan: &Plan) {
        for action in &plan.actions {
            self.act(action);
        }
        self.world.events.extend(plan.events.iter().map(|event| format!("{} {}", event.reason, event.message)));
    }

    /// Applies only the first actions, as a controller does that dies in the middle.
    pub fn apply_part(&mut self, plan: &Plan, actions: usize) {
        plan.actions.iter().take(actions).for_each(|action| self.act(action));
    }

    fn act(&mut self, action: &Action) {
        self.world.apply(&Plan { actions: vec![action.clone()], ..Plan::default() });
        let written = self.world.find("Job", "j").map(|job| text(job, "status.state.phase").to_owned());
        if let Some(phase) = written.filter(|phase| !phase.is_empty() && self.phases.last() != Some(phase)) {
            self.phases.push(phase);
        }
    }

    /// One round; false when there was nothing to do.
    pub fn step(&mut self) -> bool {
        let plan = self.plan();
        self.apply(&plan);
        !plan.is_empty()
    }

    /// Rounds until nothing is left to do, which must be soon.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            let is_here = self.world.find("Job", "j").is_some();
            if !is_here || !self.step() {
                return;
            }
        }
        panic!("still planning: {:#?}", self.plan());
    }

    /// The scheduler lets the gang in.
    pub fn admit(&mut self) {
        self.world.happen(&sim::Turn::Groups("Inqueue")).unwrap();
    }

    /// All pods that are not yet running and not going away run.
    pub fn run_all(&mut self) {
        for name in self.pods() {
            let pod = self.pod(&name);
            if pod["metadata"]["deletionTimestamp"].is_null() && matches!(text(pod, "status.phase"), "" | "Pending") {
                self.world.run_pod(&name);
            }
        }
    }

    pub fn end(&mut self, name: &str, code: i32) {
        self.world.end_pod(name, code);
    }

    /// Pods that are being deleted are gone.
    pub fn reap(&mut self) {
        self.world.happen(&sim::Turn::Reap).unwrap();
    }

    /// Somebody else removes a pod.
    pub fn evict(&mut self, name: &str) {
        self.world.objects.remove(&("Pod".to_owned(), name.to_owned())).expect("the pod is there");
    }

    pub fn command(&mut self, action: &str) {
        self.commands += 1;
        self.world.add(command(action, self.commands));
    }

    /// Settles, lets pods go, admits and runs, until the Job stands still.
    pub fn go_on(&mut self) {
        for _ in 0..6 {
            self.settle();
            self.reap();
            self.settle();
            self.admit();
            self.settle();
            self.run_all();
        }
        self.settle();
    }

    pub fn variable(&self, pod: &str, name: &str) -> Option<String> {
        let variables = self.pod(pod)["spec"]["containers"][0]["env"].as_array()?;
        let found: Vec<&Value> = variables.iter().filter(|variable| variable["name"] == name).collect();
        assert!(found.len() < 2, "{name} is set twice in {pod}");
        Some(text(found.first()?, "value").to_owned())
    }

    pub fn events(&self, reason: &str) -> Vec<&str> {
        let start = format!("{reason} ");
        self.world.events.iter().filter_map(|event| event.strip_prefix(&start)).collect()
    }
}
