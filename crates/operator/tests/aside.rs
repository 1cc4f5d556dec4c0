//! Upstream's controllers come and go on a real API server, and ours hear of it.

#![expect(clippy::unwrap_used, reason = "a test ends where it finds its world broken")]

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use volley_cluster::{Cluster, Options};
use volley_operator::aside::{Held, watch};

const PATIENCE: Duration = Duration::from_secs(60);

async fn cluster(home: &TempDir) -> Cluster {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = Options::new(home.path(), listen);
    let cluster = Cluster::start(options).await.unwrap();
    for name in ["volcano-system", "kubeflow"] {
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        Api::all(cluster.client("test")).create(&PostParams::default(), &namespace).await.unwrap();
    }
    cluster
}

async fn until(held: &mut watch::Receiver<Held>, what: impl Fn(&Held) -> bool) {
    timeout(PATIENCE, held.wait_for(|held| what(held))).await.expect("it is told in time").unwrap();
}

/// A Deployment with one pod. No node runs it, so `serve` says in its place that it is ready.
async fn deploy(client: &Client, namespace: &str, name: &str, image: &str) -> Api<Deployment> {
    let labels = json!({ "app": name });
    let container = json!({ "name": "main", "image": image });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": labels }, "template": template });
    let deployment = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    deployments
}

async fn serve(client: &Client, namespace: &str, app: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("app={app}"));
    let name = timeout(PATIENCE, async {
        loop {
            if let Some(pod) = pods.list(&params).await.unwrap().items.first() {
                return pod.name_any();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let name = name.await.expect("the Deployment's pod is made");
    let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "2001-01-01T00:00:00Z" });
    let patch = Patch::Strategic(json!({ "status": { "phase": "Running", "conditions": [ready] } }));
    pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

fn lease(name: &str, holder: &str, seconds: i32) -> Lease {
    let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "2001-01-01T00:00:00.000000Z" });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

#[tokio::test]
async fn an_empty_cluster_is_all_ours() {
    let home = TempDir::new().unwrap();
    let cluster = cluster(&home).await;
    let held = watch(cluster.client("operator"), CancellationToken::new()).await;
    assert_eq!(*held.borrow(), Held::new());
}

#[tokio::test]
async fn a_deployment_holds_its_kinds_while_its_pods_are_available() {
    let home = TempDir::new().unwrap();
    let cluster = cluster(&home).await;
    let client = cluster.client("test");
    let mut held = watch(cluster.client("operator"), CancellationToken::new()).await;
    let deployments = deploy(&client, "kubeflow", "training-operator", "kubeflow/training-operator:v1").await;
    deploy(&client, "kubeflow", "web", "nginx").await;
    serve(&client, "kubeflow", "web").await;
    serve(&client, "kubeflow", "training-operator").await;
    until(&mut held, |held| held.len() == 6).await;
    let sentence = held.borrow()["PyTorchJob.kubeflow.org"].clone();
    assert!(sentence.contains("Deployment kubeflow/training-operator"), "{sentence}");
    let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    deployments.patch("training-operator", &PatchParams::default(), &none).await.unwrap();
    until(&mut held, Held::is_empty).await;
}

#[tokio::test]
async fn what_runs_already_is_found() {
    let home = TempDir::new().unwrap();
    let cluster = cluster(&home).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client("test"), "volcano-system");
    leases.create(&PostParams::default(), &lease("vc-controller-manager", "pod_1", 3600)).await.unwrap();
    let mut held = watch(cluster.client("operator"), CancellationToken::new()).await;
    until(&mut held, |held| held.contains_key("Job.batch.volcano.sh")).await;
    assert!(held.borrow()["Job.batch.volcano.sh"].contains("`pod_1` renews the Lease"), "{:?}", held.borrow());
    // It resigns.
    let resigned = Patch::Merge(json!({ "spec": { "holderIdentity": "" } }));
    leases.patch("vc-controller-manager", &PatchParams::default(), &resigned).await.unwrap();
    until(&mut held, Held::is_empty).await;
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_given_up_in_its_time() {
    let home = TempDir::new().unwrap();
    let cluster = cluster(&home).await;
    let mut held = watch(cluster.client("operator"), CancellationToken::new()).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client("test"), "volcano-system");
    leases.create(&PostParams::default(), &lease("volcano", "pod_1", 2)).await.unwrap();
    // What is told is one state after another, so the short one may be over when we look; the log of changes is not.
    timeout(PATIENCE, held.changed()).await.unwrap().unwrap();
    until(&mut held, Held::is_empty).await;
}
