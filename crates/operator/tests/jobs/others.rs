//! What goes beside jobs: queues, CronJobs, groups of plain pods; and jobs that meet trouble.

use crate::world::{
    CLAIMS, COMMANDS, CRONS, GROUPS, JOBS, Operator, PODS, QUEUES, SECRETS, TORCH, World, settings, torch, vcjob,
};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use volley_api::kube::text;
use volley_api::volcano::{SCHEDULING, keys};

fn pod(name: &str, scheduler: &str) -> serde_json::Value {
    json!({"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}})
}

// PGC-1
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_pod_of_our_scheduler_gets_a_group_that_is_admitted() {
    let world = World::start().await;
    world.create(PODS, pod("p", "volcano")).await;
    world.create(PODS, pod("q", "other")).await;
    let group = |name: &str| world.get(PODS, name).unwrap()["metadata"]["annotations"][keys::GROUP].clone();
    world.until_true("the pod has a group", || group("p").is_string()).await;
    let name = group("p").as_str().unwrap().to_owned();
    let is_admitted = || world.get(GROUPS, &name).is_some_and(|group| text(&group, "status.phase") == "Inqueue");
    world.until_true("it is admitted", is_admitted).await;
    assert_eq!((world.names(GROUPS), group("q")), (vec![name], json!(null)));
    world.stop().await;
}

// QC-2, CMD-2
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_closed_and_opened_by_command() {
    let world = World::start().await;
    let state = || world.get(QUEUES, "default").map(|queue| text(&queue, "status.state").to_owned());
    world.until_true("the queue is open", || state().as_deref() == Some("Open")).await;
    for (action, wanted) in [("CloseQueue", "Closed"), ("OpenQueue", "Open")] {
        let target = json!({"apiVersion": SCHEDULING, "kind": "Queue", "name": "default"});
        world.create(COMMANDS, json!({"metadata": {"generateName": "c-"}, "action": action, "target": target})).await;
        world.until_true(wanted, || state().as_deref() == Some(wanted) && world.names(COMMANDS).is_empty()).await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cron_job_makes_up_for_what_it_missed() {
    let world = World::bare().await;
    let template = json!({"spec": vcjob("x", &[("a", 1)], json!({}))["spec"]});
    let spec = json!({"schedule": "* * * * *", "timeZone": "Asia/Seoul", "jobTemplate": template});
    world.create(CRONS, json!({"metadata": {"name": "c"}, "spec": spec})).await;
    let before = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(5);
    let status = json!({"lastScheduleTime": before.round(jiff::Unit::Second).unwrap().to_string()});
    world.patch_status(CRONS, "c", status).await;
    let operator = Operator::start(world.client("operator"), settings());
    world.until_true("it has made a job", || !world.names(JOBS).is_empty()).await;
    let job = world.list(JOBS).remove(0);
    assert_eq!(text(&job["metadata"]["ownerReferences"][0], "kind"), "CronJob");
    world.until_true("which has a pod", || !world.names(PODS).is_empty()).await;
    operator.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_somebody_else_has_is_left_alone_and_told() {
    let world = World::start().await;
    world.create(PODS, pod("x-master-0", "other")).await;
    world.create(TORCH, torch("x", 0, "Never", json!({}))).await;
    world.until_event("x", "FailedCreatePod").await;
    assert!(world.get(PODS, "x-master-0").unwrap()["metadata"]["ownerReferences"].is_null());
    world.delete(PODS, "x-master-0").await;
    let is_ours = || world.get(PODS, "x-master-0").is_some_and(|pod| pod["metadata"]["ownerReferences"].is_array());
    world.until_true("the pod is made once the name is free", is_ours).await;
    world.stop().await;
}

// VOL-2
#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_the_claim_that_it_names() {
    let world = World::start().await;
    let volumes = json!([{"mountPath": "/data", "volumeClaimName": "data"}]);
    world.create(JOBS, vcjob("j", &[("a", 1)], json!({ "volumes": volumes }))).await;
    world.until_event("j", "PVCError").await;
    assert!(world.names(PODS).is_empty());
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    world.create(CLAIMS, json!({"metadata": {"name": "data"}, "spec": spec})).await;
    world.until_pods(&["j-a-0"]).await;
    world.stop().await;
}

// SSH-1
#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_ssh_brings_a_key_that_all_pods_share() {
    let world = World::start().await;
    world.create(JOBS, vcjob("j", &[("a", 1)], json!({"plugins": {"ssh": [], "svc": []}}))).await;
    world.until_pods(&["j-a-0"]).await;
    let secret = world.get(SECRETS, "j-ssh").unwrap();
    let files: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["authorized_keys", "config", "id_rsa", "id_rsa.pub"]);
    world.command("j", "AbortJob").await;
    world.until_phase("j", "Aborted").await;
    world.until_true("the key goes with the version", || world.get(SECRETS, "j-ssh").is_none()).await;
    world.stop().await;
}

// PT-EVT-2
#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_large_job_are_made_side_by_side_and_told_once() {
    let world = World::bare().await;
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (client, seen) = (world.client("operator"), most.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, at_once, most) = (client.clone(), at_once.clone(), seen.clone());
        async move {
            let is_pod = request.method() == Method::POST && request.uri().path().ends_with("/pods");
            if is_pod {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            }
            let answer = client.send(request).await;
            at_once.fetch_sub(usize::from(is_pod), Ordering::SeqCst);
            answer
        }
    });
    let operator = Operator::start(Client::new(service, "default"), settings());
    world.create(TORCH, torch("x", 100, "Never", json!({}))).await;
    world.until_true("101 pods", || world.names(PODS).len() == 101).await;
    assert!(most.load(Ordering::SeqCst) >= 8, "{most:?} at once");
    world.until_event("x", "SuccessfulCreatePod: Created pod: x-worker-99").await;
    let counts: Vec<u64> = world.events_about("x").into_iter().map(|(_, count)| count).collect();
    assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    operator.stop().await;
    world.stop().await;
}
