//! Claims and volumes.

use crate::world::{World, pod};
use serde_json::{Value, json};
use volley_api::kube::text;

const CLAIMS: (&str, &str) = ("", "persistentvolumeclaims");
const VOLUMES: (&str, &str) = ("", "persistentvolumes");

fn claim(name: &str, more: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn is_bound(object: &Value) -> bool {
    text(object, "status.phase") == "Bound"
}

// K-VOL-1 K-VOL-2
#[tokio::test]
async fn a_claim_gets_a_directory_that_goes_with_it() {
    let world = World::start().await;
    world.create(CLAIMS, claim("data", json!({}))).await;
    let bound = world.until("bound", || world.get(CLAIMS, "data").filter(is_bound)).await;
    let volume =
        world.until("the volume too", || world.get(VOLUMES, text(&bound, "spec.volumeName")).filter(is_bound)).await;
    let path = world.home.join("volumes").join(text(&volume, "metadata.name"));
    assert_eq!(text(&volume, "spec.hostPath.path"), path.to_string_lossy());
    assert!(path.is_dir());
    world.delete(CLAIMS, "data", "Background").await.unwrap();
    world.until_gone(CLAIMS, "data").await;
    world.until_gone(VOLUMES, text(&volume, "metadata.name")).await;
    // The directory is removed in the round that follows; a further claim is settled in the same or a later one.
    world.create(CLAIMS, claim("next", json!({}))).await;
    world.until("bound", || world.get(CLAIMS, "next").filter(is_bound)).await;
    assert!(!path.exists());
}

// K-VOL-1
#[tokio::test]
async fn a_claim_in_use_waits_for_its_pod() {
    let world = World::start().await;
    world.create(CLAIMS, claim("data", json!({}))).await;
    world.until("bound", || world.get(CLAIMS, "data").filter(is_bound)).await;
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.create(("", "pods"), pod("p", json!({"volumes": volumes}))).await;
    world.delete(CLAIMS, "data", "Background").await.unwrap();
    // Another claim comes and goes meanwhile, so that the controller has certainly looked.
    world.create(CLAIMS, claim("other", json!({}))).await;
    world.until("bound", || world.get(CLAIMS, "other").filter(is_bound)).await;
    world.delete(CLAIMS, "other", "Background").await.unwrap();
    world.until_gone(CLAIMS, "other").await;
    assert!(world.get(CLAIMS, "data").is_some());
    world.patch_status(("", "pods"), "p", json!({"phase": "Succeeded"})).await;
    world.until_gone(CLAIMS, "data").await;
}

// K-VOL-1
#[tokio::test]
async fn a_claim_without_class_takes_a_fitting_volume_and_releases_it() {
    let world = World::start().await;
    let reason = "FailedBinding: no persistent volumes available for this claim and no storage class is set";
    world.create(CLAIMS, claim("data", json!({"storageClassName": ""}))).await;
    world.until_event("data", reason).await;
    let spec = json!({"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
        "persistentVolumeReclaimPolicy": "Retain"});
    world.create(VOLUMES, json!({"metadata": {"name": "v"}, "spec": spec})).await;
    world.until("bound", || world.get(CLAIMS, "data").filter(is_bound)).await;
    world.delete(CLAIMS, "data", "Background").await.unwrap();
    let is_released = |volume: &Value| text(volume, "status.phase") == "Released";
    world.until("released", || world.get(VOLUMES, "v").filter(is_released)).await;
}
