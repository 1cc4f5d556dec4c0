//! An operator that dies after every single write: whoever comes next goes on where it was.

use crate::world::{GROUPS, JOBS, Operator, PODS, TORCH, World, settings, torch, vcjob};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use volley_api::kube::text;

/// A client whose first write lands and is never answered; `died` is told of it.
fn mortal(client: Client, died: Arc<Notify>) -> Client {
    let writes = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, died, writes) = (client.clone(), died.clone(), writes.clone());
        async move {
            // Events are news, not state.
            let is_write = request.method() != Method::GET && !request.uri().path().contains("/events");
            if !is_write {
                return client.send(request).await;
            }
            if writes.fetch_add(1, Ordering::SeqCst) == 0 {
                client.send(request).await?;
                died.notify_one();
            }
            std::future::pending().await
        }
    });
    Client::new(service, "default")
}

/// Has operators die one after the other until `is_over`, and counts them; `move_pods` is what nodes would do.
async fn outlive(world: &World, is_over: impl Fn() -> bool, move_pods: impl AsyncFn(&[Value])) -> usize {
    let mut lives = 0;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    while !is_over() {
        let died = Arc::new(Notify::new());
        let operator = Operator::start(mortal(world.client("operator"), died.clone()), settings());
        lives += 1;
        assert!(lives < 200, "there is no end to it");
        let deaths = async {
            tokio::select! {
                () = died.notified() => {}
                () = async {
                    loop {
                        let pods = world.list(PODS);
                        seen.extend(pods.iter().map(|pod| text(pod, "metadata.uid").to_owned()));
                        move_pods(&pods).await;
                        if is_over() {
                            return;
                        }
                        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                    }
                } => {}
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), deaths).await.expect("the operator does something");
        operator.kill().await;
    }
    assert_eq!(seen.len(), 3, "no pod was made twice");
    lives
}

async fn move_all(world: &World, pods: &[Value], from: &str, to: &str) {
    for pod in pods.iter().filter(|pod| text(pod, "status.phase") == from && pod["spec"]["schedulingGates"].is_null()) {
        world.set_pod(text(pod, "metadata.name"), to, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volcano_job_survives_a_crash_between_any_two_writes() {
    let world = World::bare().await;
    world.create(JOBS, vcjob("j", &[("a", 1), ("b", 2)], json!({"plugins": {"svc": [], "env": []}}))).await;
    let is_over = || world.phase("j") == "Completed" && world.names(GROUPS).is_empty();
    let lives = outlive(&world, is_over, async |pods: &[Value]| {
        move_all(&world, pods, "Pending", "Running").await;
        if world.phase("j") == "Running" {
            move_all(&world, pods, "Running", "Succeeded").await;
        }
    })
    .await;
    let job = world.get(JOBS, "j").unwrap();
    assert_eq!((&job["status"]["succeeded"], job["status"]["retryCount"].as_i64().unwrap_or(0)), (&json!(3), 0));
    assert!(lives > 8, "{lives} lives are too few for what was written");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pytorchjob_survives_a_crash_between_any_two_writes() {
    let world = World::bare().await;
    world.create(TORCH, torch("x", 2, "OnFailure", json!({}))).await;
    let lives = outlive(
        &world,
        || world.has(TORCH, "x", "Succeeded"),
        async |pods: &[Value]| {
            move_all(&world, pods, "Pending", "Running").await;
            if pods.len() == 3 && world.has(TORCH, "x", "Running") {
                move_all(&world, pods, "Running", "Succeeded").await;
            }
        },
    )
    .await;
    assert!(lives > 8, "{lives} lives are too few for what was written");
    world.stop().await;
}
