//! Deployments, Jobs, CronJobs and services.

use crate::world::{APPS, BATCH, World, condition, deployment, is_true, job, names, pod};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_api::kube::text;
use volley_cluster::store::Options;

const DEPLOYMENTS: (&str, &str) = (APPS, "deployments");
const SETS: (&str, &str) = (APPS, "replicasets");
const JOBS: (&str, &str) = (BATCH, "jobs");
const PODS: (&str, &str) = ("", "pods");

async fn running(world: &World, name: &str, replicas: usize) -> Vec<Value> {
    world.create(DEPLOYMENTS, deployment(name, i64::try_from(replicas).unwrap())).await;
    let pods = world.until("pods", || Some(world.pods()).filter(|pods| pods.len() == replicas)).await;
    for (at, pod) in pods.iter().enumerate() {
        world.run_pod(pod, &format!("10.0.0.{}", at + 1)).await;
    }
    pods
}

// K-DEP-1
#[tokio::test]
async fn a_deployment_makes_a_set_and_pods_and_becomes_available() {
    let world = World::start().await;
    running(&world, "web", 3).await;
    let is_there = |object: &Value| object["status"]["availableReplicas"] == 3 && is_true(object, "Available");
    let seen = world.until("available", || world.get(DEPLOYMENTS, "web").filter(is_there)).await;
    assert_eq!(condition(&seen, "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
    assert_eq!(seen["status"]["observedGeneration"], 1);
    assert_eq!(seen["metadata"]["generation"], 1, "the revision is noted without a change of the spec");
    assert_eq!(seen["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(world.list(SETS).len(), 1);
    world
        .until_event(
            "web",
            &format!("ScalingReplicaSet: Scaled up replica set {} from 0 to 3", names(&world.list(SETS))[0]),
        )
        .await;
}

// K-DEP-1
#[tokio::test]
async fn a_rollout_replaces_all_pods() {
    let world = World::start().await;
    let old: BTreeSet<String> =
        running(&world, "web", 2).await.iter().map(|pod| text(pod, "metadata.uid").to_owned()).collect();
    let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "i:2"}]);
    let change = volley_cluster::apiserver::write::Change::JsonPatch(patch);
    world.local().modify(APPS, "deployments", ("default", "web"), "", change).await.unwrap();
    let is_done = |object: &Value| {
        let status = &object["status"];
        status["updatedReplicas"] == 2
            && status["replicas"] == 2
            && status["availableReplicas"] == 2
            && status["observedGeneration"] == object["metadata"]["generation"]
    };
    loop {
        let waits = |pod: &Value| text(pod, "status.phase") == "Pending";
        let next = world
            .until("the rollout goes on", || {
                let done = world.get(DEPLOYMENTS, "web").filter(is_done).map(|_| None);
                done.or_else(|| world.pods().into_iter().find(waits).map(Some))
            })
            .await;
        let Some(pod) = next else { break };
        world.run_pod(&pod, "10.0.0.9").await;
    }
    let left = world.pods();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
    assert!(left.iter().all(|pod| !old.contains(text(pod, "metadata.uid"))));
    assert_eq!(world.list(SETS).len(), 2, "the old set stays for a rollback");
}

// K-DEP-1
#[tokio::test]
async fn a_deployment_scales_down() {
    let world = World::start().await;
    running(&world, "web", 3).await;
    world.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 1}})).await;
    world.until_true("one pod", || world.pods().len() == 1).await;
}

// K-JOB-2 K-JOB-3 K-JOB-4
#[tokio::test]
async fn a_job_completes_when_its_pods_succeed() {
    let world = World::start().await;
    world.create(JOBS, job("j", json!({"completions": 2, "parallelism": 2}))).await;
    let pods = world.until("pods", || Some(world.pods()).filter(|pods| pods.len() == 2)).await;
    for pod in &pods {
        assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        world.patch_status(PODS, text(pod, "metadata.name"), json!({"phase": "Succeeded"})).await;
    }
    let seen = world.until("complete", || world.get(JOBS, "j").filter(|job| is_true(job, "Complete"))).await;
    assert_eq!(seen["status"]["succeeded"], 2);
    assert!(is_true(&seen, "SuccessCriteriaMet"));
    world.until_event("j", "Completed: Job completed").await;
    let is_free = |pod: &Value| pod["metadata"].get("finalizers").is_none();
    world.until_true("free pods", || world.pods().iter().all(is_free)).await;
}

// K-JOB-2
#[tokio::test]
async fn a_large_job_gets_each_pod_once() {
    let world = World::start().await;
    let spec = json!({"completions": 300, "parallelism": 300, "completionMode": "Indexed"});
    world.create(JOBS, job("big", spec)).await;
    let is_counted = |job: &Value| job["status"]["active"] == 300;
    world.until("300 active", || world.get(JOBS, "big").filter(is_counted)).await;
    let pods = world.pods();
    let indexes: BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str())
        .collect();
    assert_eq!((pods.len(), indexes.len()), (300, 300));
}

#[tokio::test]
async fn controllers_that_fall_behind_look_at_everything_again() {
    // So short a history is overrun by every round, and each time all indexes are built anew.
    let options = Options { ring_events_max: 8, ..Options::default() };
    let world = World::start_with(options).await;
    world.create(DEPLOYMENTS, deployment("web", 40)).await;
    world.create(JOBS, job("j", json!({"completions": 40, "parallelism": 40}))).await;
    let is_counted = |set: &Value| set["status"]["replicas"] == 40;
    world.until_true("all replicas", || world.list(SETS).iter().any(is_counted)).await;
    world.until("all active", || world.get(JOBS, "j").filter(|job| job["status"]["active"] == 40)).await;
    assert_eq!(world.pods().len(), 80);
    world.delete(DEPLOYMENTS, "web", "Foreground").await.unwrap();
    world.delete(JOBS, "j", "Background").await.unwrap();
    world.until_true("all gone", || world.pods().is_empty() && world.list(SETS).is_empty()).await;
    world.until_gone(DEPLOYMENTS, "web").await;
}

// K-JOB-3
#[tokio::test]
async fn a_job_that_failed_too_often_says_so() {
    let world = World::start().await;
    world.create(JOBS, job("j", json!({"backoffLimit": 0}))).await;
    let pod = world.until("a pod", || world.pods().pop()).await;
    world.patch_status(PODS, text(&pod, "metadata.name"), json!({"phase": "Failed"})).await;
    let seen = world.until("failed", || world.get(JOBS, "j").filter(|job| is_true(job, "Failed"))).await;
    assert_eq!(condition(&seen, "Failed").unwrap()["reason"], "BackoffLimitExceeded");
}

// K-JOB-5
#[tokio::test]
async fn a_finished_job_without_time_to_live_goes_with_its_pods() {
    let world = World::start().await;
    world.create(JOBS, job("j", json!({"ttlSecondsAfterFinished": 0}))).await;
    let pod = world.until("a pod", || world.pods().pop()).await;
    world.patch_status(PODS, text(&pod, "metadata.name"), json!({"phase": "Succeeded"})).await;
    world.until_true("all gone", || world.list(JOBS).is_empty() && world.pods().is_empty()).await;
}

#[tokio::test]
async fn a_cron_job_starts_the_run_that_is_due() {
    let world = World::start().await;
    let template = json!({"spec": job("x", json!({}))["spec"]});
    let spec = json!({"schedule": "* * * * *", "jobTemplate": template, "suspend": true});
    world.create((BATCH, "cronjobs"), json!({"metadata": {"name": "c"}, "spec": spec})).await;
    world.patch_status((BATCH, "cronjobs"), "c", json!({"lastScheduleTime": "2026-01-01T00:00:00Z"})).await;
    world.patch((BATCH, "cronjobs"), "c", json!({"spec": {"suspend": false}})).await;
    let run = world.until("a run", || world.list(JOBS).pop()).await;
    assert_eq!(run["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    world.until_true("its pod", || world.pods().len() == 1).await;
    let is_active = |cron: &Value| cron["status"]["active"].as_array().is_some_and(|active| active.len() == 1);
    world.until("active", || world.get((BATCH, "cronjobs"), "c").filter(is_active)).await;
}

// K-SVC-2
#[tokio::test]
async fn a_service_leads_to_its_ready_pods() {
    let world = World::start().await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    world.create(("", "services"), service).await;
    running(&world, "web", 2).await;
    let slices = || world.list(("discovery.k8s.io", "endpointslices"));
    let ours = |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    let is_full = |slice: &Value| {
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.len() == 2 && endpoints.iter().all(|endpoint| endpoint["conditions"]["ready"] == true)
    };
    let slice = world.until("endpoints", || slices().into_iter().find(|slice| ours(slice) && is_full(slice))).await;
    assert_eq!(slice["ports"][0]["port"], 80);
    let has_both = |object: &Value| object["subsets"][0]["addresses"].as_array().is_some_and(|list| list.len() == 2);
    world.until("the older object", || world.get(("", "endpoints"), "web").filter(has_both)).await;
    world.delete(("", "services"), "web", "Background").await.unwrap();
    world.until_gone(("", "endpoints"), "web").await;
    world.until_true("no slices", || !slices().iter().any(ours)).await;
}

#[tokio::test]
async fn a_budget_counts_the_healthy_pods() {
    let world = World::start().await;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    world.create(("policy", "poddisruptionbudgets"), json!({"metadata": {"name": "b"}, "spec": spec})).await;
    running(&world, "web", 2).await;
    let allows_one =
        |budget: &Value| budget["status"]["disruptionsAllowed"] == 1 && budget["status"]["currentHealthy"] == 2;
    world.until("one may go", || world.get(("policy", "poddisruptionbudgets"), "b").filter(allows_one)).await;
}

// K-ADM-5 K-DEP-1
#[tokio::test]
async fn a_set_that_may_not_make_pods_says_so_and_recovers() {
    let world = World::start().await;
    world.create(("", "resourcequotas"), json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})).await;
    world.create(DEPLOYMENTS, deployment("web", 1)).await;
    let fails = |set: &&Value| is_true(set, "ReplicaFailure");
    let set = world.until("a reason", || world.list(SETS).iter().find(fails).cloned()).await;
    assert_eq!(condition(&set, "ReplicaFailure").unwrap()["reason"], "FailedCreate");
    assert!(text(condition(&set, "ReplicaFailure").unwrap(), "message").contains("exceeded quota: q"));
    world.patch(("", "resourcequotas"), "q", json!({"spec": {"hard": {"pods": "5"}}})).await;
    world.until_true("a pod", || world.pods().len() == 1).await;
    world.until_true("no reason any more", || !world.list(SETS).iter().any(|set| fails(&set))).await;
}

// K-ADM-5
#[tokio::test]
async fn a_quota_is_counted_again_when_pods_end_or_go() {
    let world = World::start().await;
    world.create(("", "resourcequotas"), json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}})).await;
    for name in ["a", "b", "c"] {
        world.create(PODS, pod(name, json!({}))).await;
    }
    let uses = |amount: &'static str| {
        let world = &world;
        async move {
            let is_used = |quota: &Value| quota["status"]["used"]["pods"] == amount;
            world.until(amount, || world.get(("", "resourcequotas"), "q").filter(is_used)).await
        }
    };
    uses("3").await;
    world.patch_status(PODS, "a", json!({"phase": "Succeeded"})).await;
    uses("2").await;
    world.delete(PODS, "b", "Background").await.unwrap();
    uses("1").await;
}
