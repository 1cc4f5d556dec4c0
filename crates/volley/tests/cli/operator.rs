//! The operator as a process of its own: what it wants of a cluster, and how it comes and goes.

use crate::{World, signal, stderr};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(60);

async fn client(kubeconfig: &Path) -> Client {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("`up` wrote it");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is a kubeconfig")).expect("it leads to a cluster")
}

/// Waits until the Lease's holder is one that is wanted.
async fn holder(leases: &Api<Lease>, is_wanted: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let lease = leases.get_opt("volley-operator").await.expect("the cluster answers");
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        if is_wanted(&holder) {
            return holder;
        }
        assert!(began.elapsed() < PATIENCE, "the holder is `{holder}`");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let output = World::new().run(&["operator", "--kubeconfig", "/nowhere/kubeconfig"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("error: failed to read the kubeconfig `/nowhere/kubeconfig`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn manifests_are_for_the_image_and_the_namespace_that_were_asked_for() {
    let arguments = ["operator", "manifests", "--only", "deployment", "--image", "lan/volley:7", "--namespace", "here"];
    let text = World::new().stdout(&arguments);
    assert!(text.starts_with("---\napiVersion: apps/v1\nkind: Deployment\n"), "{text}");
    assert!(text.contains("image: lan/volley:7\n") && text.contains("namespace: here\n"), "{text}");
}

// PT-CFG-1
#[tokio::test]
async fn it_leads_until_it_is_told_to_stop_and_then_resigns() {
    let world = World::new();
    world.stdout(&["up", "--listen", "127.0.0.1:0", "--no-node", "-o", "json"]);
    let kubeconfig = world.home().join("kubeconfig");
    let client = client(&kubeconfig).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for text in
        world.stdout(&["operator", "manifests", "--only", "crds"]).split("---\n").filter(|text| !text.is_empty())
    {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(text).unwrap();
        match definitions.create(&PostParams::default(), &definition).await {
            Ok(_) => {}
            Err(error) => assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "{error}"),
        }
    }
    let kubeconfig = kubeconfig.to_str().unwrap();
    let homeless = world.run(&["operator", "--kubeconfig", kubeconfig, "--lease-namespace", "nowhere"]);
    assert!(stderr(&homeless).contains("hint: `kubectl create namespace nowhere`"), "{}", stderr(&homeless));

    let unplaced = world.run(&["operator", "--kubeconfig", kubeconfig, "--gang-scheduler-name", "scheduler-plugins"]);
    assert!(stderr(&unplaced).contains("its PodGroup (scheduling.x-k8s.io/v1alpha1) is not defined"), "{unplaced:?}");

    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    let arguments = ["operator", "--kubeconfig", kubeconfig, "--lease-namespace", "kube-system"];
    let mut operator = tokio::process::Command::from(world.command(&arguments));
    let mut operator = operator.kill_on_drop(true).stderr(Stdio::null()).spawn().unwrap();
    holder(&leases, |holder| !holder.is_empty()).await;
    signal("TERM", &operator.id().expect("it runs").to_string());
    let ended = tokio::time::timeout(PATIENCE, operator.wait()).await.expect("it ends in time");
    assert!(ended.unwrap().success());
    assert_eq!(holder(&leases, |_| true).await, "");
}

#[tokio::test]
async fn beside_a_volley_that_has_its_own_it_stands_by_until_that_stops() {
    let world = World::new();
    world.stdout(&["up", "--listen", "127.0.0.1:0", "--no-node", "-o", "json"]);
    let kubeconfig = world.home().join("kubeconfig");
    let arguments = ["operator", "--kubeconfig", kubeconfig.to_str().unwrap(), "--health-probe-bind-address"];
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut operator = tokio::process::Command::from(world.command(&[&arguments[..], &[&port]].concat()));
    let operator = operator.kill_on_drop(true).stderr(Stdio::null()).spawn().unwrap();
    until_ready(&port, "stands by: another replica leads").await;
    let leases: Api<Lease> = Api::namespaced(client(&kubeconfig).await, "volley-system");
    let ours = holder(&leases, |holder| !holder.is_empty()).await;
    assert!(ours.starts_with("volley-up_"), "{ours}");
    // Killed, it leads again at once: the Lease would stand for a minute to come.
    signal("KILL", &world.pid());
    world.stdout(&["up", "--listen", "127.0.0.1:0", "--no-node", "-o", "json"]);
    let again = world.json(&["status", "-o", "json"]);
    let part = again["parts"].as_array().unwrap().iter().find(|part| part["name"] == "operator").unwrap();
    assert_eq!(part["health"], "ok", "{again}");
    drop(operator);
}

/// Waits until the operator's own word is this one.
async fn until_ready(address: &str, wanted: &str) {
    let began = Instant::now();
    loop {
        let mut answer = String::new();
        if let Ok(mut stream) = tokio::net::TcpStream::connect(address).await {
            let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let _ = stream.read_to_string(&mut answer).await;
        }
        if answer.trim_end().ends_with(wanted) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
