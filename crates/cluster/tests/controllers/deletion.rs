//! Garbage collection, namespaces, custom kinds and old events.

use crate::world::{APPS, BATCH, World, condition, deployment, is_true, job, names};
use serde_json::{Value, json};
use volley_api::kube::{text, time};
use volley_cluster::apiserver::object::Meta;
use volley_cluster::store::{Change, Draft, Expect, Write};

const DEPLOYMENTS: (&str, &str) = (APPS, "deployments");
const SETS: (&str, &str) = (APPS, "replicasets");
const PODS: (&str, &str) = ("", "pods");
const MAPS: (&str, &str) = ("", "configmaps");

async fn web(world: &World) {
    world.create(DEPLOYMENTS, deployment("web", 2)).await;
    world.until_true("pods", || world.pods().len() == 2).await;
}

// K-DEL-4 K-GC-1 K-GC-3
#[tokio::test]
async fn in_the_background_everything_below_goes() {
    let world = World::start().await;
    web(&world).await;
    world.delete(DEPLOYMENTS, "web", "Background").await.unwrap();
    assert!(world.get(DEPLOYMENTS, "web").is_none(), "the owner goes at once");
    let started = std::time::Instant::now();
    world.until_true("all gone", || world.list(SETS).is_empty() && world.pods().is_empty()).await;
    assert!(started.elapsed().as_millis() < 1000);
}

// K-DEL-4
#[tokio::test]
async fn in_the_foreground_the_owner_goes_last() {
    let world = World::start().await;
    web(&world).await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    let name = names(&world.pods())[0].to_owned();
    world.patch(PODS, &name, held).await;
    world.delete(DEPLOYMENTS, "web", "Foreground").await.unwrap();
    world.until_true("the other pod gone", || names(&world.pods()) == [&*name]).await;
    let waiting = world.get(DEPLOYMENTS, "web").unwrap();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world.patch(PODS, &name, json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(DEPLOYMENTS, "web").await;
    assert!(world.list(SETS).is_empty() && world.pods().is_empty());
}

// K-DEL-4
#[tokio::test]
async fn orphans_live_on_without_their_owner() {
    let world = World::start().await;
    web(&world).await;
    world.delete(DEPLOYMENTS, "web", "Orphan").await.unwrap();
    world.until_gone(DEPLOYMENTS, "web").await;
    let sets = world.list(SETS);
    assert_eq!(sets.len(), 1);
    assert!(sets[0]["metadata"].get("ownerReferences").is_none_or(|owners| owners == &json!([])));
    assert_eq!(world.pods().len(), 2);
    world.create(DEPLOYMENTS, deployment("web", 2)).await;
    let is_adopted = |set: &Value| set["metadata"]["ownerReferences"][0]["name"] == "web";
    world.until_true("adopted again", || world.list(SETS).iter().all(is_adopted)).await;
    assert_eq!(world.list(SETS).len(), 1);
}

fn owned(name: &str, owners: &[(&str, &str)]) -> Value {
    let reference =
        |(name, uid): &(&str, &str)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

// K-GC-1
#[tokio::test]
async fn a_dependant_lives_as_long_as_one_owner_does() {
    let world = World::start().await;
    let a = world.create(MAPS, json!({"metadata": {"name": "a"}})).await;
    let b = world.create(MAPS, json!({"metadata": {"name": "b"}})).await;
    let owners = [("a", text(&a, "metadata.uid")), ("b", text(&b, "metadata.uid"))];
    world.create(MAPS, owned("child", &owners)).await;
    world.delete(MAPS, "a", "Background").await.unwrap();
    let has_one = |map: &Value| map["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1);
    let child = world.until("one owner", || world.get(MAPS, "child").filter(has_one)).await;
    assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "b");
    world.delete(MAPS, "b", "Background").await.unwrap();
    world.until_gone(MAPS, "child").await;
}

// K-GC-1
#[tokio::test]
async fn an_owner_that_never_was_counts_as_gone() {
    let world = World::start().await;
    world.create(MAPS, owned("child", &[("ghost", "00000000-0000-0000-0000-000000000000")])).await;
    world.until_gone(MAPS, "child").await;
}

// K-JOB-2 K-GC-1
#[tokio::test]
async fn pods_held_for_a_job_go_with_it() {
    let world = World::start().await;
    world.create((BATCH, "jobs"), job("j", json!({}))).await;
    world.until_true("a pod", || world.pods().len() == 1).await;
    world.delete((BATCH, "jobs"), "j", "Background").await.unwrap();
    world.until_true("no pods", || world.pods().is_empty()).await;
}

// K-DEL-4 K-JOB-2
#[tokio::test]
async fn pods_that_outlive_their_job_are_no_longer_held() {
    let world = World::start().await;
    world.create((BATCH, "jobs"), job("j", json!({}))).await;
    world.until_true("a pod", || world.pods().len() == 1).await;
    world.delete((BATCH, "jobs"), "j", "Orphan").await.unwrap();
    let is_free = |pod: &Value| pod["metadata"].get("finalizers").is_none_or(|list| list == &json!([]));
    world.until_true("free", || world.get((BATCH, "jobs"), "j").is_none() && world.pods().iter().all(is_free)).await;
    assert_eq!(world.pods().len(), 1);
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

const THINGS: (&str, &str) = ("example.com", "things");
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

// K-NS-1
#[tokio::test]
async fn a_namespace_empties_and_vanishes() {
    let world = World::start().await;
    world.create(DEFINITIONS, definition()).await;
    world.create(("", "namespaces"), json!({"metadata": {"name": "n"}})).await;
    for (kind, mut object) in [
        (DEPLOYMENTS, deployment("web", 3)),
        (MAPS, json!({"metadata": {"name": "m"}})),
        (THINGS, json!({"metadata": {"name": "t"}})),
        (("", "services"), json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}})),
    ] {
        object["metadata"]["namespace"] = "n".into();
        world.create(kind, object).await;
    }
    world.until_true("pods", || world.local().list("", "pods", "n").len() == 3).await;
    world.delete(("", "namespaces"), "n", "Background").await.unwrap();
    world.until_true("gone", || world.local().get("", "namespaces", "", "n").is_none()).await;
    for (group, plural) in
        [DEPLOYMENTS, SETS, PODS, MAPS, THINGS, ("", "services"), ("", "events"), ("", "serviceaccounts")]
    {
        assert_eq!(names(&world.local().list(group, plural, "n")), [""; 0], "{plural}");
    }
}

// K-NS-1
#[tokio::test]
async fn nothing_new_enters_a_namespace_that_is_being_deleted() {
    let world = World::start().await;
    world.create(("", "namespaces"), json!({"metadata": {"name": "n"}})).await;
    let held = json!({"metadata": {"name": "m", "namespace": "n", "finalizers": ["example.com/held"]}});
    world.create(MAPS, held).await;
    world.delete(("", "namespaces"), "n", "Background").await.unwrap();
    let refused = world.local().create("", "configmaps", "n", json!({"metadata": {"name": "x"}})).await.unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (
            403,
            "configmaps \"x\" is forbidden: unable to create new content in namespace n because it is being terminated"
        )
    );
    assert_eq!(refused.details["causes"][0]["reason"], "NamespaceTerminating");
}

// K-NS-2
#[tokio::test]
async fn some_namespaces_cannot_be_deleted() {
    let world = World::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let refused = world.delete(("", "namespaces"), name, "Background").await.unwrap_err();
        let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!((refused.code, refused.message), (403, message));
    }
}

// K-NS-3
#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let world = World::start().await;
    let refused = world.local().create("", "configmaps", "n", json!({"metadata": {"name": "x"}})).await.unwrap_err();
    assert_eq!((refused.code, &*refused.message), (404, "namespaces \"n\" not found"));
}

// K-DEL-2 K-DEL-3
#[tokio::test]
async fn a_held_object_goes_with_its_last_finalizer() {
    let world = World::start().await;
    world.create(MAPS, json!({"metadata": {"name": "m", "finalizers": ["example.com/a", "example.com/b"]}})).await;
    world.delete(MAPS, "m", "Background").await.unwrap();
    let pending = world.get(MAPS, "m").unwrap();
    assert!(pending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 0);
    world.delete(MAPS, "m", "Background").await.unwrap();
    assert_eq!(world.get(MAPS, "m").unwrap(), pending, "a second DELETE changes nothing");
    world.patch(MAPS, "m", json!({"metadata": {"finalizers": ["example.com/b"]}})).await;
    assert!(world.get(MAPS, "m").is_some());
    let last = world.patch(MAPS, "m", json!({"metadata": {"finalizers": []}})).await;
    assert_eq!(text(&last, "metadata.name"), "m");
    assert!(world.get(MAPS, "m").is_none());
}

// K-NS-4
#[tokio::test]
async fn a_namespace_that_cannot_go_says_what_holds_it() {
    let world = World::start().await;
    world.create(("", "namespaces"), json!({"metadata": {"name": "n"}})).await;
    let held = json!({"metadata": {"name": "m", "namespace": "n", "finalizers": ["example.com/held"]}});
    world.create(MAPS, held).await;
    world.delete(("", "namespaces"), "n", "Background").await.unwrap();
    let says = |namespace: &Value| {
        let remaining = condition(namespace, "NamespaceContentRemaining")?;
        let is_last =
            text(remaining, "message") == "Some resources are remaining: configmaps. has 1 resource instances";
        is_last.then(|| namespace.clone())
    };
    let seen = world.until("reasons", || world.local().get("", "namespaces", "", "n").as_ref().and_then(says)).await;
    assert!(is_true(&seen, "NamespaceFinalizersRemaining"));
    let free = json!({"metadata": {"finalizers": null}});
    world.local().patch("", "configmaps", "n", "m", free).await.unwrap();
    world.until_true("gone", || world.local().get("", "namespaces", "", "n").is_none()).await;
}

// K-CRD-3
#[tokio::test]
async fn a_definition_goes_after_its_instances() {
    let world = World::start().await;
    world.create(DEFINITIONS, definition()).await;
    for name in ["a", "b", "c"] {
        world.create(THINGS, json!({"metadata": {"name": name}})).await;
    }
    world.patch(THINGS, "a", json!({"metadata": {"finalizers": ["example.com/held"]}})).await;
    world.delete(DEFINITIONS, "things.example.com", "Background").await.unwrap();
    world.until_true("one is left", || names(&world.list(THINGS)) == ["a"]).await;
    let crd = world.local().get(DEFINITIONS.0, DEFINITIONS.1, "", "things.example.com").unwrap();
    assert!(is_true(&crd, "Terminating"));
    let refused = world.local().create("example.com", "things", "default", json!({"metadata": {"name": "d"}})).await;
    assert_eq!(refused.unwrap_err().code, 403);
    world.patch(THINGS, "a", json!({"metadata": {"finalizers": null}})).await;
    let gone = || world.local().get(DEFINITIONS.0, DEFINITIONS.1, "", "things.example.com").is_none();
    world.until_true("gone", gone).await;
}

/// An event of that age, as an earlier run of the server left it in the store.
fn stored_event(world: &World, name: &str, minutes: i64) -> Write<Meta> {
    let now = jiff::Timestamp::now().as_second();
    let at = time::seconds(jiff::Timestamp::from_second(now - minutes * 60).unwrap());
    let tail = format!(r#"","name":"{name}","namespace":"default","uid":"{name}","creationTimestamp":"{at}"}},"#)
        + &format!(r#""involvedObject":{{"kind":"Pod","namespace":"default","name":"p"}},"lastTimestamp":"{at}"}}"#);
    let head = r#"{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":""#;
    let draft = Draft { head: head.into(), tail: tail.into(), meta: Meta::default() };
    let key = format!("default/{name}").into();
    Write { bucket: world.server.store.bucket("events"), key, expect: Expect::Absent, change: Change::Put(draft) }
}

// K-EVT-2
#[tokio::test]
async fn events_live_for_an_hour() {
    let world = World::start().await;
    let writes = vec![stored_event(&world, "young", 59), stored_event(&world, "old", 61)];
    world.server.store.commit(writes).await.unwrap();
    world.until_gone(("", "events"), "old").await;
    assert!(world.get(("", "events"), "young").is_some());
}
