//! A kube-rs controller as people write them: a reflector, owned objects, server-side apply, status and a finalizer.

use crate::support::{Running, config_map, namespace, soon};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::reflector::store::Writer;
use kube::runtime::wait::{Condition, await_condition};
use kube::runtime::{Controller, WatchStreamExt, reflector, watcher};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

const NAMESPACE: &str = "greetings";
const MANAGER: &str = "greeter";
const FINALIZER: &str = "greetings.example.com/farewell";

fn greeting_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Greeting"), "greetings")
}

async fn define(client: &Client) {
    let preserved = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}, "status": preserved}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "greetings.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "greetings", "kind": "Greeting"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]}});
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let force = PatchParams::apply(MANAGER).force();
    crds.patch("greetings.example.com", &force, &Patch::Apply(crd)).await.expect("the definition is applied");
    let established = kube::runtime::conditions::is_crd_established();
    soon("the definition", await_condition(crds, "greetings.example.com", established)).await.expect("established");
}

fn greeting(name: &str, to: &str) -> DynamicObject {
    let mut object = DynamicObject::new(name, &greeting_resource());
    object.data = json!({"spec": {"to": to}});
    object
}

/// What the reconciler works with.
struct Shop {
    client: Client,
    runs: AtomicUsize,
    farewells: AtomicUsize,
    changed: Notify,
}

#[derive(Debug)]
struct ReconcileError(String);

impl std::fmt::Display for ReconcileError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ReconcileError {}

fn failed(error: impl std::fmt::Display) -> ReconcileError {
    ReconcileError(error.to_string())
}

async fn reconcile(object: Arc<DynamicObject>, shop: Arc<Shop>) -> Result<Action, ReconcileError> {
    shop.runs.fetch_add(1, Ordering::SeqCst);
    let api: Api<DynamicObject> = Api::namespaced_with(shop.client.clone(), NAMESPACE, &greeting_resource());
    let outcome = finalizer(&api, FINALIZER, object, |event| async {
        match event {
            Finalizer::Apply(object) => greet(&shop.client, &api, &object).await,
            Finalizer::Cleanup(_) => {
                shop.farewells.fetch_add(1, Ordering::SeqCst);
                Ok(Action::await_change())
            }
        }
    })
    .await;
    shop.changed.notify_waiters();
    outcome.map_err(failed)
}

/// The ConfigMap and the status, both by server-side apply: doing it again changes nothing.
async fn greet(client: &Client, api: &Api<DynamicObject>, object: &DynamicObject) -> Result<Action, ReconcileError> {
    let name = object.name_any();
    let owner = object.controller_owner_ref(&greeting_resource()).ok_or_else(|| failed("no uid yet"))?;
    let text = format!("hello {}", object.data["spec"]["to"].as_str().unwrap_or_default());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]}, "data": {"text": text}});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let force = PatchParams::apply(MANAGER).force();
    maps.patch(&name, &force, &Patch::Apply(map)).await.map_err(failed)?;
    let resource = greeting_resource();
    let status = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name},
        "status": {"greeted": object.data["spec"]["to"]}});
    api.patch_status(&name, &force, &Patch::Apply(status)).await.map_err(failed)?;
    Ok(Action::await_change())
}

/// Runs the controller in the background until the returned handle is dropped.
fn run_controller(client: &Client) -> (Arc<Shop>, reflector::Store<DynamicObject>, tokio::task::JoinHandle<()>) {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &greeting_resource());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let shop = Arc::new(Shop {
        client: client.clone(),
        runs: AtomicUsize::new(0),
        farewells: AtomicUsize::new(0),
        changed: Notify::new(),
    });
    let controller = Controller::new_with(api, watcher::Config::default().streaming_lists(), greeting_resource());
    let store = controller.store();
    let policy = |_: Arc<DynamicObject>, error: &ReconcileError, _: Arc<Shop>| {
        // A conflict or a race is tried again, as in any controller; anything else shows up as a test that waits.
        eprintln!("reconcile: {error}");
        Action::requeue(std::time::Duration::from_millis(50))
    };
    let stream = controller.owns(maps, watcher::Config::default()).run(reconcile, policy, shop.clone());
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    (shop, store, task)
}

/// A condition on the data of an object that may be missing.
fn data(wanted: Option<&'static str>) -> impl Condition<ConfigMap> {
    move |map: Option<&ConfigMap>| {
        let text = map.and_then(|map| map.data.as_ref()).and_then(|data| data.get("text"));
        text.map(String::as_str) == wanted
    }
}

async fn a_controller_works(client: Client) {
    namespace(&client, NAMESPACE).await;
    define(&client).await;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &greeting_resource());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &greeting("before", "early")).await.expect("created before the controller");
    let (shop, store, task) = run_controller(&client);
    soon("the store", store.wait_until_ready()).await.expect("the writer lives");
    let expect = async |name: &str, text| {
        soon(name, await_condition(maps.clone(), name, data(text))).await.expect("the condition is watched");
    };
    expect("before", Some("hello early")).await;
    api.create(&PostParams::default(), &greeting("world", "world")).await.expect("created");
    expect("world", Some("hello world")).await;

    let change = Patch::Merge(json!({"spec": {"to": "moon"}}));
    api.patch("world", &PatchParams::default(), &change).await.expect("patched");
    expect("world", Some("hello moon")).await;

    // Owned objects are watched: what somebody spoils or removes is put back.
    let spoiled = Patch::Merge(json!({"data": {"text": "spoiled"}}));
    maps.patch("world", &PatchParams::default(), &spoiled).await.expect("spoiled");
    expect("world", Some("hello moon")).await;
    maps.delete("world", &DeleteParams::default()).await.expect("deleted");
    expect("world", Some("hello moon")).await;

    let greeted =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["status"]["greeted"] == "moon");
    soon("the status", await_condition(api.clone(), "world", greeted)).await.expect("watched");
    let world = api.get("world").await.expect("there");
    assert_eq!(world.finalizers(), [FINALIZER]);
    assert_eq!(world.metadata.generation, Some(2), "neither the status nor the finalizer is a new generation");
    let managers: Vec<_> = world.managed_fields().iter().map(|f| (f.manager.clone(), f.subresource.clone())).collect();
    assert!(managers.contains(&(Some(MANAGER.into()), Some("status".into()))), "{managers:?}");

    api.delete("world", &DeleteParams::default()).await.expect("marked for deletion");
    let gone = |object: Option<&DynamicObject>| object.is_none();
    soon("the farewell", await_condition(api.clone(), "world", gone)).await.expect("watched");
    assert_eq!(shop.farewells.load(Ordering::SeqCst), 1, "the finalizer ran once");

    // Left alone, the controller comes to rest: applying again changes nothing, so no event wakes it.
    let settled = quiet_runs(&shop).await;
    assert!(settled < 60, "{settled} runs for two greetings");
    task.abort();
}

/// The number of runs once none has happened for a while.
async fn quiet_runs(shop: &Shop) -> usize {
    loop {
        let quiet = tokio::time::timeout(std::time::Duration::from_millis(500), shop.changed.notified()).await;
        if quiet.is_err() {
            return shop.runs.load(Ordering::SeqCst);
        }
    }
}

// K-SSA-1 K-SSA-6 K-WATCH-4
#[tokio::test(flavor = "multi_thread")]
async fn a_kube_rs_controller_works_in_process() {
    let running = Running::start().await;
    a_controller_works(running.local()).await;
}

// K-SSA-1 K-SSA-6 K-WATCH-4 K-AUTH-1
#[tokio::test(flavor = "multi_thread")]
async fn a_kube_rs_controller_works_over_tls() {
    let running = Running::start().await;
    a_controller_works(running.remote().await).await;
}

// K-WATCH-4 K-WATCH-5
#[tokio::test(flavor = "multi_thread")]
async fn a_streaming_list_says_when_it_is_done() {
    let running = Running::start().await;
    let client = running.remote().await;
    namespace(&client, "streaming").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "streaming");
    for name in ["b", "a"] {
        maps.create(&PostParams::default(), &config_map(name, &[], "1")).await.expect("created");
    }
    let config = watcher::Config::default().streaming_lists().fields("metadata.name!=kube-root-ca.crt");
    let mut events = watcher(maps.clone(), config).boxed();
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let event = soon("an event", events.next()).await.expect("endless").expect("no error");
        let text = match event {
            watcher::Event::Init => "Init".to_owned(),
            watcher::Event::InitApply(map) => format!("InitApply {}", map.name_any()),
            watcher::Event::InitDone => {
                maps.create(&PostParams::default(), &config_map("c", &[], "1")).await.expect("created");
                "InitDone".to_owned()
            }
            watcher::Event::Apply(map) => format!("Apply {}", map.name_any()),
            watcher::Event::Delete(map) => format!("Delete {}", map.name_any()),
        };
        seen.push(text);
    }
    assert_eq!(seen, ["Init", "InitApply a", "InitApply b", "InitDone", "Apply c"]);
}

// K-WATCH-6
#[tokio::test(flavor = "multi_thread")]
async fn a_reflector_lists_again_after_history_was_lost() {
    let first = Running::start().await;
    let client = first.local();
    namespace(&client, "history").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "history");
    maps.create(&PostParams::default(), &config_map("old", &[], "1")).await.expect("created");
    let resume_from = maps.list(&Default::default()).await.expect("listed").metadata.resource_version.expect("set");
    maps.create(&PostParams::default(), &config_map("missed", &[], "1")).await.expect("created");
    drop(maps);
    first.cluster.stop().await;
    // The same home, a new process as far as clients can tell: the watch from before is answered with Expired.
    let options = volley_cluster::Options::new(first.home.path(), ([127, 0, 0, 1], 0).into());
    let again = volley_cluster::Cluster::start(options).await.expect("starts again");
    let maps: Api<ConfigMap> = Api::namespaced(again.client("test"), "history");
    let mut watch = maps.watch(&kube::api::WatchParams::default(), &resume_from).await.expect("a stream").boxed();
    let event = soon("the error", watch.next()).await.expect("one event").expect("it parses");
    let kube::api::WatchEvent::Error(status) = event else { panic!("not an error: {event:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));

    let writer: Writer<ConfigMap> = Writer::default();
    let store = writer.as_reader();
    let relisted = watcher(maps, watcher::Config::default().fields("metadata.name!=kube-root-ca.crt"));
    let drain = relisted.default_backoff().reflect(writer).for_each(|_| std::future::ready(()));
    let drain = tokio::spawn(drain);
    soon("the relist", store.wait_until_ready()).await.expect("the writer lives");
    drain.abort();
    let mut names: Vec<String> = store.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["missed", "old"]);
}

// K-WR-8 K-SSA-4
#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_sees_the_errors_it_knows() {
    let running = Running::start().await;
    let client = running.remote().await;
    namespace(&client, "errors").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "errors");
    assert!(maps.get_opt("missing").await.expect("a 404 is none").is_none());
    let applied = |value: &str| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"value": value}}),
        )
    };
    maps.patch("shared", &PatchParams::apply("one"), &applied("1")).await.expect("created by apply");
    let conflict = maps.patch("shared", &PatchParams::apply("two"), &applied("2")).await.expect_err("a conflict");
    let kube::Error::Api(status) = conflict else { panic!("not a Status: {conflict}") };
    assert!(status.is_conflict());
    let causes = status.details.as_ref().map(|details| details.causes.clone()).unwrap_or_default();
    assert_eq!(causes[0].field, ".data.value");
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.value");

    let unknown: Value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typo"}, "dota": {}});
    let typo = PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::default() };
    let refused =
        maps.patch("shared", &typo, &Patch::Merge(unknown)).await.expect_err("the name differs and a field is unknown");
    assert!(matches!(refused, kube::Error::Api(_)), "{refused}");
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client, "errors");
    let error = pods.create(&PostParams::default(), &Default::default()).await.expect_err("an empty pod");
    let kube::Error::Api(status) = error else { panic!("not a Status: {error}") };
    assert!(status.is_invalid() && status.message.contains("name or generateName is required"), "{}", status.message);
}
