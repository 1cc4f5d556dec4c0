//! PyTorchJobs, from their creation to each of their ends.

use crate::world::{PODS, SERVICES, TORCH, World, torch};
use serde_json::json;
use volley_api::kube::text;

// PT-SUC-1, PT-POD-1
#[tokio::test(flavor = "multi_thread")]
async fn a_job_gets_pods_and_services_and_succeeds_with_its_master() {
    let world = World::start().await;
    world.create(TORCH, torch("x", 2, "OnFailure", json!({}))).await;
    let names = ["x-master-0", "x-worker-0", "x-worker-1"];
    world.until_pods(&names).await;
    world.until_true("services", || names.iter().all(|name| world.get(SERVICES, name).is_some())).await;
    world.set_pod("x-master-0", "Running", 0).await;
    world.until_condition("x", "Running").await;
    let is_open = |name: &str| world.get(PODS, name).unwrap()["spec"]["schedulingGates"].is_null();
    world.until_true("the workers may start", || is_open("x-worker-0") && is_open("x-worker-1")).await;
    world.set_pods(&names[1..], "Running", 0).await;
    world.set_pod("x-master-0", "Succeeded", 0).await;
    world.until_condition("x", "Succeeded").await;
    let health = world.operator.as_ref().unwrap().health.clone();
    for counter in ["created", "successful"] {
        let labels = format!("{{job_namespace=\"{}\",framework=\"pytorch\"}}", world.namespace);
        let line = format!("training_operator_jobs_{counter}_total{labels} 1\n");
        world.until_true(&line, || health.metrics().contains(&line)).await;
    }
    world.stop().await;
}

// PT-RST-1
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_may_be_tried_again_is_replaced_and_one_that_may_not_fails_the_job() {
    let world = World::start().await;
    world.create(TORCH, torch("x", 1, "ExitCode", json!({}))).await;
    world.until_pods(&["x-master-0", "x-worker-0"]).await;
    world.set_pods(&["x-master-0", "x-worker-0"], "Running", 0).await;
    world.until_condition("x", "Running").await;
    let first = text(&world.get(PODS, "x-worker-0").unwrap(), "metadata.uid").to_owned();
    world.set_pod("x-worker-0", "Failed", 137).await;
    let is_new = || world.get(PODS, "x-worker-0").is_some_and(|pod| text(&pod, "metadata.uid") != first);
    world.until_true("a new worker", is_new).await;
    world.set_pod("x-worker-0", "Running", 0).await;
    world.set_pod("x-worker-0", "Failed", 1).await;
    world.until_condition("x", "Failed").await;
    world.stop().await;
}

// PT-CLN-1
#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_finished_job_go_as_its_policy_says() {
    let world = World::start().await;
    for (name, policy, left) in
        [("a", "All", vec![]), ("n", "None", vec!["n-master-0", "n-worker-0"]), ("r", "Running", vec!["r-master-0"])]
    {
        world.create(TORCH, torch(name, 1, "Never", json!({"cleanPodPolicy": policy}))).await;
        let (master, worker) = (format!("{name}-master-0"), format!("{name}-worker-0"));
        world.set_pod(&master, "Running", 0).await;
        world.set_pod(&worker, "Running", 0).await;
        world.until_condition(name, "Running").await;
        world.set_pod(&master, "Succeeded", 0).await;
        world.until_condition(name, "Succeeded").await;
        let names =
            || world.names(PODS).into_iter().filter(|pod| pod.starts_with(&format!("{name}-"))).collect::<Vec<_>>();
        world.until_true(policy, || names() == left).await;
    }
    world.stop().await;
}

// PT-SUS-1, PT-TTL-1
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_suspended_resumed_and_taken_away_when_its_time_is_over() {
    let world = World::start().await;
    world.create(TORCH, torch("x", 1, "Never", json!({"suspend": true, "ttlSecondsAfterFinished": 1}))).await;
    world.until_condition("x", "Suspended").await;
    assert!(world.names(PODS).is_empty());
    world.patch(TORCH, "x", json!({"spec": {"runPolicy": {"suspend": false}}})).await;
    world.until_pods(&["x-master-0", "x-worker-0"]).await;
    world.set_pods(&["x-master-0", "x-worker-0"], "Running", 0).await;
    world.until_condition("x", "Running").await;
    world.patch(TORCH, "x", json!({"spec": {"runPolicy": {"suspend": true}}})).await;
    world.until_pods(&[]).await;
    world.until_condition("x", "Suspended").await;
    world.patch(TORCH, "x", json!({"spec": {"runPolicy": {"suspend": false}}})).await;
    world.until_pods(&["x-master-0", "x-worker-0"]).await;
    world.set_pod("x-master-0", "Succeeded", 0).await;
    world.until_true("the job is gone", || world.names(TORCH).is_empty()).await;
    world.until_pods(&[]).await;
    world.stop().await;
}
