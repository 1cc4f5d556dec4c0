//! A cluster without sockets and disk, and ways to wait for what its controllers do.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_cluster::apiserver::ApiServer;
use volley_cluster::apiserver::local::Local;
use volley_cluster::apiserver::pki::Pki;
use volley_cluster::controllers;
use volley_cluster::store::{Options, Store};
use volley_scheduler::policy::Source;

/// An upper bound only: what is waited for usually happens within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub const APPS: &str = "apps";
pub const BATCH: &str = "batch";

pub struct World {
    pub server: Arc<ApiServer>,
    pub home: PathBuf,
    _folder: tempfile::TempDir,
    _stop: DropGuard,
}

impl World {
    pub async fn start() -> World {
        World::start_with(Options::default()).await
    }

    pub async fn start_with(options: Options) -> World {
        World::start_after(options, async |_: &World| {}).await
    }

    /// Starts the controllers after something was done on the server that they then find.
    pub async fn start_after(options: Options, prepare: impl AsyncFnOnce(&World)) -> World {
        let (world, stop) = World::bare(options).await;
        prepare(&world).await;
        tokio::spawn(controllers::run(world.server.clone(), world.home.clone(), Source::default(), stop));
        world
    }

    /// A server that nobody works on; pods can be made.
    pub async fn without_controllers() -> World {
        World::bare(Options::default()).await.0
    }

    async fn bare(options: Options) -> (World, CancellationToken) {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::open(folder.path(), &["127.0.0.1".to_owned()]).unwrap();
        let server = ApiServer::open(Store::in_memory(options), &pki, volley_plan::admit::training::RULES).await;
        server.set_address("127.0.0.1:6443");
        server.bootstrap(6443).await.unwrap();
        let stop = CancellationToken::new();
        let home = folder.path().to_owned();
        let world = World { server, home, _folder: folder, _stop: stop.clone().drop_guard() };
        (world, stop)
    }

    pub fn local(&self) -> Local<'_> {
        self.server.local("test")
    }

    pub async fn create(&self, (group, plural): (&str, &str), object: Value) -> Value {
        let namespace = match text(&object, "metadata.namespace") {
            "" => "default",
            namespace => namespace,
        };
        self.local().create(group, plural, namespace, object.clone()).await.unwrap()
    }

    pub fn get(&self, (group, plural): (&str, &str), name: &str) -> Option<Value> {
        self.local().get(group, plural, "default", name)
    }

    pub fn list(&self, (group, plural): (&str, &str)) -> Vec<Value> {
        self.local().list(group, plural, "default")
    }

    pub fn pods(&self) -> Vec<Value> {
        self.list(("", "pods"))
    }

    pub async fn patch(&self, (group, plural): (&str, &str), name: &str, patch: Value) -> Value {
        self.local().patch(group, plural, "default", name, patch).await.unwrap()
    }

    pub async fn patch_status(&self, (group, plural): (&str, &str), name: &str, status: Value) -> Value {
        self.local().patch_status(group, plural, "default", name, json!({"status": status})).await.unwrap()
    }

    pub async fn delete(&self, (group, plural): (&str, &str), name: &str, policy: &str) -> Result<(), ApiError> {
        self.local().delete(group, plural, ("default", name), "", policy).await
    }

    /// Waits until `found` finds something, looking again after every commit.
    pub async fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let store = &self.server.store;
        let mut changes = store.watch_all(store.revision()).unwrap();
        let search = async {
            loop {
                if let Some(found) = found() {
                    return found;
                }
                if changes.next().await.is_err() {
                    changes = store.watch_all(store.revision()).unwrap();
                }
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("in vain: {what}"),
        }
    }

    pub async fn until_true(&self, what: &str, mut holds: impl FnMut() -> bool) {
        self.until(what, || holds().then_some(())).await;
    }

    pub async fn until_gone(&self, (group, plural): (&str, &str), name: &str) {
        self.until_true(&format!("{plural} {name} gone"), || self.get((group, plural), name).is_none()).await;
    }

    /// The events about an object, as `reason: message`.
    pub fn events_about(&self, name: &str) -> Vec<String> {
        let events = self.list(("", "events"));
        let about = events.iter().filter(|event| text(event, "involvedObject.name") == name);
        about.map(|event| format!("{}: {}", text(event, "reason"), text(event, "message"))).collect()
    }

    pub async fn until_event(&self, name: &str, said: &str) {
        let what = format!("event `{said}` about {name}");
        self.until_true(&what, || self.events_about(name).iter().any(|event| event == said)).await;
    }

    /// As `until_event`, for one that starts so.
    pub async fn until_told(&self, name: &str, start: &str) {
        let what = format!("event `{start}…` about {name}");
        self.until_true(&what, || self.events_about(name).iter().any(|event| event.starts_with(start))).await;
    }

    /// What a node agent would write once a pod runs.
    pub async fn run_pod(&self, pod: &Value, address: &str) {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready});
        self.patch_status(("", "pods"), text(pod, "metadata.name"), status).await;
    }
}

pub fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| text(object, "metadata.name")).collect()
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

pub fn template(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub fn deployment(name: &str, replicas: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": template(json!({"app": name}))}})
}

pub fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": template(json!({}))}});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

pub fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}
