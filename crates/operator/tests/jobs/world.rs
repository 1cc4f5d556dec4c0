//! A cluster in this process with an operator that can be stopped and started, and what tests do with them.

use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use volley_api::kube::text;
use volley_api::volcano;
use volley_cluster::apiserver::local::Local;
use volley_cluster::{Cluster, Options};
use volley_operator::health::{Health, Stage};

/// An upper bound only: what is waited for usually happens within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub const PODS: (&str, &str) = ("", "pods");
pub const JOBS: (&str, &str) = ("batch.volcano.sh", "jobs");
pub const COMMANDS: (&str, &str) = ("bus.volcano.sh", "commands");
pub const GROUPS: (&str, &str) = ("scheduling.volcano.sh", "podgroups");
pub const QUEUES: (&str, &str) = ("scheduling.volcano.sh", "queues");
pub const TORCH: (&str, &str) = ("kubeflow.org", "pytorchjobs");

/// A running operator.
pub struct Operator {
    stop: CancellationToken,
    task: JoinHandle<()>,
    pub health: Arc<Health>,
}

impl Operator {
    pub fn start(client: kube::Client, options: volley_operator::Options) -> Operator {
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
    pub cluster: Cluster,
    pub operator: Option<Operator>,
    _folder: tempfile::TempDir,
}

impl World {
    /// A cluster without an operator.
    pub async fn bare() -> World {
        let folder = tempfile::tempdir().unwrap();
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let options = Options { home: folder.path().to_owned(), listen, names: Vec::new(), node: None };
        let cluster = Cluster::start(options).await.unwrap();
        World { cluster, operator: None, _folder: folder }
    }

    pub async fn start() -> World {
        World::start_with(settings()).await
    }

    pub async fn start_with(options: volley_operator::Options) -> World {
        let mut world = World::bare().await;
        world.operator = Some(Operator::start(world.cluster.client("operator"), options));
        world
    }

    pub fn local(&self) -> Local<'_> {
        self.cluster.server().local("test")
    }

    pub async fn create(&self, (group, plural): (&str, &str), object: Value) -> Value {
        self.local().create(group, plural, "default", object).await.unwrap()
    }

    pub fn get(&self, (group, plural): (&str, &str), name: &str) -> Option<Value> {
        self.local().get(group, plural, "default", name)
    }

    pub fn list(&self, (group, plural): (&str, &str)) -> Vec<Value> {
        let namespace = if (group, plural) == QUEUES { "" } else { "default" };
        self.local().list(group, plural, namespace)
    }

    pub fn names(&self, what: (&str, &str)) -> Vec<String> {
        self.list(what).iter().map(|object| text(object, "metadata.name").to_owned()).collect()
    }

    pub async fn patch(&self, (group, plural): (&str, &str), name: &str, patch: Value) {
        self.local().patch(group, plural, "default", name, patch).await.unwrap();
    }

    pub async fn delete(&self, (group, plural): (&str, &str), name: &str) {
        self.local().delete(group, plural, ("default", name), "", "Background").await.unwrap();
    }

    /// Waits until `found` finds something, looking again after every commit.
    pub async fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let store = &self.cluster.server().store;
        let mut changes = store.watch_all(store.revision()).unwrap();
        let search = async {
            loop {
                if let Some(found) = found() {
                    return found;
                }
                // What the operator knows follows what is stored, so a while after the last commit is a time to look, too.
                if let Ok(Err(_)) = tokio::time::timeout(PAUSE, changes.next()).await {
                    changes = store.watch_all(store.revision()).unwrap();
                }
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
                told.push(format!("{} {}: {}", kind.1, text(&object, "metadata.name"), object["status"]));
            }
        }
        let events = self.list(("", "events"));
        told.extend(events.iter().map(|event| format!("{}: {}", text(event, "reason"), text(event, "message"))));
        told.join("\n")
    }

    /// The events about an object, as `reason: message`, with how often each was told.
    pub fn events_about(&self, name: &str) -> Vec<(String, u64)> {
        let events = self.list(("", "events"));
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
        self.local().patch_status("", "pods", "default", name, json!({ "status": status })).await.unwrap();
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
    pub fn has(&self, (group, plural): (&str, &str), job: &str, condition: &str) -> bool {
        let job = self.get((group, plural), job).unwrap_or_default();
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
    }

    pub async fn until_condition(&self, job: &str, condition: &str) {
        self.until_true(&format!("{job} {condition}"), || self.has(TORCH, job, condition)).await;
    }

    pub async fn command(&self, job: &str, action: &str) {
        let target = json!({"apiVersion": volcano::BATCH, "kind": "Job", "name": job});
        self.create(COMMANDS, json!({"metadata": {"generateName": "c-"}, "action": action, "target": target})).await;
    }

    pub async fn stop(mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        self.cluster.stop().await;
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

/// A PyTorchJob of a master and some workers.
pub fn torch(name: &str, workers: i32, restart: &str, run_policy: Value) -> Value {
    let replica = |count: i32| {
        let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i"}]}});
        json!({"replicas": count, "restartPolicy": restart, "template": template})
    };
    let mut replicas = json!({ "Master": replica(1) });
    if workers > 0 {
        replicas["Worker"] = replica(workers);
    }
    json!({"metadata": {"name": name}, "spec": {"runPolicy": run_policy, "pytorchReplicaSpecs": replicas}})
}
