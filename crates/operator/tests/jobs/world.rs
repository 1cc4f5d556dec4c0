//! A cluster with an operator that can be stopped and started, and what tests do with them.

use crate::place::{PATIENCE, Place};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, block_in_place};
use tokio_util::sync::CancellationToken;
use volley_api::kube::text;
use volley_api::volcano::{BATCH, BUS, SCHEDULING};
use volley_operator::health::{Health, Stage};

const PAUSE: Duration = Duration::from_millis(20);

/// Where the objects of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    api_version: &'static str,
    name: &'static str,
    plural: &'static str,
}

const fn kind(api_version: &'static str, name: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, name, plural }
}

pub const PODS: Kind = kind("v1", "Pod", "pods");
pub const SERVICES: Kind = kind("v1", "Service", "services");
pub const SECRETS: Kind = kind("v1", "Secret", "secrets");
pub const CLAIMS: Kind = kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const EVENTS: Kind = kind("v1", "Event", "events");
pub const JOBS: Kind = kind(BATCH, "Job", "jobs");
pub const CRONS: Kind = kind(BATCH, "CronJob", "cronjobs");
pub const COMMANDS: Kind = kind(BUS, "Command", "commands");
pub const GROUPS: Kind = kind(SCHEDULING, "PodGroup", "podgroups");
pub const QUEUES: Kind = kind(SCHEDULING, "Queue", "queues");
pub const TORCH: Kind = kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs");

/// A running operator.
pub struct Operator {
    stop: CancellationToken,
    task: JoinHandle<()>,
    pub health: Arc<Health>,
}

impl Operator {
    pub fn start(client: Client, options: volley_operator::Options) -> Operator {
        let (stop, health) = (CancellationToken::new(), options.health.clone());
        let running = volley_operator::run(client, options, stop.clone());
        let task = tokio::spawn(async move { running.await.unwrap() });
        Operator { stop, task, health }
    }

    /// Ends it in good order.
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        assert_eq!(self.health.stage(), Stage::Stopped);
    }

    /// Ends it as a crash does.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

pub struct World {
    pub operator: Option<Operator>,
    pub namespace: String,
    client: Client,
    place: Place,
}

impl World {
    /// A cluster without an operator.
    pub async fn bare() -> World {
        let place = Place::find().await;
        World { operator: None, namespace: place.namespace().await, client: place.client("test"), place }
    }

    pub async fn start() -> World {
        World::start_with(settings()).await
    }

    pub async fn start_with(options: volley_operator::Options) -> World {
        let mut world = World::bare().await;
        world.operator = Some(Operator::start(world.client("operator"), options));
        world
    }

    pub fn client(&self, part: &str) -> Client {
        self.place.client(part)
    }

    /// Where a kind's objects are; those of a namespace in the test's own.
    fn path(&self, kind: Kind) -> String {
        let root = if kind.api_version.contains('/') { "apis" } else { "api" };
        let scope = if kind == QUEUES { String::new() } else { format!("namespaces/{}/", self.namespace) };
        format!("/{root}/{}/{scope}{}", kind.api_version, kind.plural)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> kube::Result<Value> {
        let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("Content-Type", content).body(body).unwrap();
        self.client.request(request).await
    }

    /// A question whose answer is waited for where it is asked, so that conditions read as such.
    fn read(&self, path: &str) -> Option<Value> {
        let answer = block_in_place(|| tokio::runtime::Handle::current().block_on(self.ask(Method::GET, path, None)));
        match answer {
            Ok(answer) => Some(answer),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub async fn create(&self, kind: Kind, mut object: Value) -> Value {
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.name.into();
        self.ask(Method::POST, &self.path(kind), Some(&object)).await.unwrap()
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.read(&format!("{}/{name}", self.path(kind)))
    }

    pub fn list(&self, kind: Kind) -> Vec<Value> {
        let list = self.read(&self.path(kind)).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    pub fn names(&self, what: Kind) -> Vec<String> {
        self.list(what).iter().map(|object| text(object, "metadata.name").to_owned()).collect()
    }

    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) {
        self.ask(Method::PATCH, &format!("{}/{name}", self.path(kind)), Some(&patch)).await.unwrap();
    }

    pub async fn patch_status(&self, kind: Kind, name: &str, status: Value) {
        let path = format!("{}/{name}/status", self.path(kind));
        self.ask(Method::PATCH, &path, Some(&json!({ "status": status }))).await.unwrap();
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        self.ask(Method::DELETE, &format!("{}/{name}", self.path(kind)), None).await.unwrap();
    }

    /// Waits until `found` finds something, looking again and again.
    pub async fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let search = async {
            loop {
                if let Some(found) = found() {
                    return found;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("in vain: {what}\n{}", self.tell()),
        }
    }

    pub async fn until_true(&self, what: &str, mut holds: impl FnMut() -> bool) {
        self.until(what, || holds().then_some(())).await;
    }

    pub async fn until_pods(&self, names: &[&str]) {
        self.until_true(&format!("pods {names:?}"), || self.names(PODS) == names).await;
    }

    /// Everything that matters, for one who reads of a failure.
    fn tell(&self) -> String {
        let kinds = [JOBS, TORCH, GROUPS, PODS, QUEUES, COMMANDS];
        let mut told: Vec<String> = Vec::new();
        for kind in kinds {
            for object in self.list(kind) {
                told.push(format!("{} {}: {}", kind.plural, text(&object, "metadata.name"), object["status"]));
            }
        }
        let events = self.list(EVENTS);
        told.extend(events.iter().map(|event| format!("{}: {}", text(event, "reason"), text(event, "message"))));
        told.join("\n")
    }

    /// The events about an object, as `reason: message`, with how often each was told.
    pub fn events_about(&self, name: &str) -> Vec<(String, u64)> {
        let events = self.list(EVENTS);
        let about = events.iter().filter(|event| text(event, "involvedObject.name") == name);
        let told = about.map(|event| {
            let text = format!("{}: {}", text(event, "reason"), text(event, "message"));
            (text, event["count"].as_u64().unwrap_or(1))
        });
        told.collect()
    }

    pub async fn until_event(&self, name: &str, reason: &str) {
        let is_told = || self.events_about(name).iter().any(|(event, _)| event.starts_with(reason));
        self.until_true(&format!("event `{reason}` about {name}"), is_told).await;
    }

    /// Writes a pod's phase as a node would; of an end, with the exit code of its containers.
    pub async fn set_pod(&self, name: &str, phase: &str, exit_code: i32) {
        let pod = self.until(&format!("pod {name}"), || self.get(PODS, name)).await;
        let now = "2026-01-01T00:00:00Z";
        let state = match phase {
            "Running" => json!({"running": {"startedAt": now}}),
            _ => {
                json!({"terminated": {"exitCode": exit_code, "startedAt": now, "finishedAt": now, "reason": if exit_code == 0 { "Completed" } else { "Error" }}})
            }
        };
        let containers = pod["spec"]["containers"].as_array().unwrap().iter();
        let statuses: Vec<Value> = containers
            .map(|container| json!({"name": container["name"], "image": "i", "imageID": "i", "ready": phase == "Running", "restartCount": 0, "state": state}))
            .collect();
        let status = json!({"phase": phase, "startTime": now, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": statuses});
        self.patch_status(PODS, name, status).await;
    }

    pub async fn set_pods(&self, names: &[&str], phase: &str, exit_code: i32) {
        for name in names {
            self.set_pod(name, phase, exit_code).await;
        }
    }

    pub fn phase(&self, job: &str) -> String {
        self.get(JOBS, job).map(|job| text(&job, "status.state.phase").to_owned()).unwrap_or_default()
    }

    pub async fn until_phase(&self, job: &str, phase: &str) -> Value {
        self.until_true(&format!("{job} {phase}"), || self.phase(job) == phase).await;
        self.get(JOBS, job).unwrap()
    }

    /// Whether a training job's condition is True.
    pub fn has(&self, kind: Kind, job: &str, condition: &str) -> bool {
        let job = self.get(kind, job).unwrap_or_default();
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
    }

    pub async fn until_condition(&self, job: &str, condition: &str) {
        self.until_true(&format!("{job} {condition}"), || self.has(TORCH, job, condition)).await;
    }

    pub async fn command(&self, job: &str, action: &str) {
        let target = json!({"apiVersion": BATCH, "kind": "Job", "name": job});
        self.create(COMMANDS, json!({"metadata": {"generateName": "c-"}, "action": action, "target": target})).await;
    }

    pub async fn stop(mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        self.place.leave().await;
    }
}

/// As on the embedded cluster.
pub fn settings() -> volley_operator::Options {
    let mut options = volley_operator::Options::default();
    options.training.accepts_digit_names = true;
    options
}

/// A Volcano Job of tasks, each a name and a number of replicas.
pub fn vcjob(name: &str, tasks: &[(&str, i32)], more: Value) -> Value {
    let task = |(name, replicas): &(&str, i32)| {
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        json!({"name": name, "replicas": replicas, "template": template})
    };
    let mut spec =
        json!({"schedulerName": "volcano", "queue": "default", "tasks": tasks.iter().map(task).collect::<Vec<_>>()});
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A PyTorchJob of a master and some workers, which no scheduler places: it is the tests that move pods.
pub fn torch(name: &str, workers: i32, restart: &str, run_policy: Value) -> Value {
    let replica = |count: i32| {
        let template = json!({"spec": {"schedulerName": "nobody", "containers": [{"name": "pytorch", "image": "i"}]}});
        json!({"replicas": count, "restartPolicy": restart, "template": template})
    };
    let mut replicas = json!({ "Master": replica(1) });
    if workers > 0 {
        replicas["Worker"] = replica(workers);
    }
    json!({"metadata": {"name": name}, "spec": {"runPolicy": run_policy, "pytorchReplicaSpecs": replicas}})
}
