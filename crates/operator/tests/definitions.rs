//! What a cluster defines and what it is held to: the operator waits for kinds that are not there, and strict rules are
//! upstream's.

#![expect(clippy::unwrap_used, reason = "a test ends where it finds its world broken")]

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use volley_api::kubeflow::Rules;
use volley_api::volcano::keys;
use volley_cluster::{Cluster, Options};
use volley_plan::admit::training::RULES;
use volley_plan::job::training::Settings;

const PATIENCE: Duration = Duration::from_secs(60);
const DEFINITIONS: &str = "customresourcedefinitions";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const GROUPS: &str = "podgroups.scheduling.volcano.sh";

async fn start(training: Rules) -> (Cluster, TempDir) {
    let home = TempDir::new().unwrap();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = Options { training, ..Options::new(home.path(), listen) };
    (Cluster::start(options).await.unwrap(), home)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn torch(name: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i"}]}});
    let master = json!({"replicas": 1, "restartPolicy": "Never", "template": template});
    json!({"metadata": {"name": name}, "spec": {"pytorchReplicaSpecs": {"Master": master}}})
}

/// A client that counts the PodGroups that it is asked to create.
fn counting(client: Client) -> (Client, Arc<AtomicUsize>) {
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = tries.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_group = request.method() == Method::POST && request.uri().path().ends_with("/podgroups");
        seen.fetch_add(usize::from(is_group), Ordering::SeqCst);
        let client = client.clone();
        async move { client.send(request).await }
    });
    (Client::new(service, "default"), tries)
}

// PGC-1
#[tokio::test]
async fn a_plain_pod_waits_for_the_definition_of_groups() {
    let (cluster, _home) = start(RULES).await;
    let local = cluster.server().local("test");
    let mut definition = local.get(EXTENSIONS, DEFINITIONS, "", GROUPS).unwrap();
    local.delete(EXTENSIONS, DEFINITIONS, ("", GROUPS), "", "Background").await.unwrap();
    until("the definition is gone", || local.get(EXTENSIONS, DEFINITIONS, "", GROUPS).is_none()).await;

    let (client, tries) = counting(cluster.client("operator"));
    let stop = CancellationToken::new();
    let operator = tokio::spawn(volley_operator::run(client, volley_operator::Options::default(), stop.clone()));
    let spec = json!({"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]});
    local.create("", "pods", "default", json!({"metadata": {"name": "p"}, "spec": spec})).await.unwrap();
    // By the time a job that came later has its pod, this one's turn was long over.
    local.create("kubeflow.org", "pytorchjobs", "default", torch("x")).await.unwrap();
    until("the job has its pod", || local.get("", "pods", "default", "x-master-0").is_some()).await;
    assert_eq!(tries.load(Ordering::SeqCst), 0, "nobody asks for what is not served");

    for key in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        definition["metadata"].as_object_mut().unwrap().remove(key);
    }
    definition.as_object_mut().unwrap().remove("status");
    local.create(EXTENSIONS, DEFINITIONS, "", definition).await.unwrap();
    let pod = || local.get("", "pods", "default", "p").unwrap();
    until("the pod has a group", || pod()["metadata"]["annotations"][keys::GROUP].is_string()).await;
    stop.cancel();
    operator.await.unwrap().unwrap();
    cluster.stop().await;
}

// PT-DEC-7
#[tokio::test]
async fn a_strict_cluster_admits_what_upstream_does() {
    for (rules, is_taken) in [(RULES, true), (Settings::strict().rules(), false)] {
        let (cluster, _home) = start(rules).await;
        let answer = cluster.server().local("test").create("kubeflow.org", "pytorchjobs", "default", torch("7x")).await;
        assert_eq!(answer.is_ok(), is_taken, "{rules:?}: {answer:?}");
        cluster.stop().await;
    }
}

// PT-CFG-1
#[tokio::test]
async fn only_the_namespace_and_the_kinds_that_were_named_are_looked_after() {
    let (cluster, _home) = start(RULES).await;
    let local = cluster.server().local("test");
    local.create("", "namespaces", "", json!({"metadata": {"name": "mine"}})).await.unwrap();
    let options = volley_operator::Options {
        namespace: Some("mine".to_owned()),
        schemes: ["pytorchjob".to_owned()].into(),
        ..volley_operator::Options::default()
    };
    let stop = CancellationToken::new();
    let operator = tokio::spawn(volley_operator::run(cluster.client("operator"), options, stop.clone()));
    local.create("kubeflow.org", "pytorchjobs", "default", torch("x")).await.unwrap();
    let mut other = torch("y");
    other["spec"] = json!({"xgbReplicaSpecs": other["spec"]["pytorchReplicaSpecs"]});
    other["spec"]["xgbReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["name"] = json!("xgboost");
    local.create("kubeflow.org", "xgboostjobs", "mine", other).await.unwrap();
    // It came last; when it has its pod, the others' turn would have been over.
    local.create("kubeflow.org", "pytorchjobs", "mine", torch("z")).await.unwrap();
    until("the job has its pod", || local.get("", "pods", "mine", "z-master-0").is_some()).await;
    assert!(local.get("", "pods", "default", "x-master-0").is_none());
    assert!(local.get("", "pods", "mine", "y-master-0").is_none());
    stop.cancel();
    operator.await.unwrap().unwrap();
    cluster.stop().await;
}
