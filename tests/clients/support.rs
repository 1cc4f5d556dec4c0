//! A cluster for one test, and the small values that the tests put into it.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use volley_cluster::{Cluster, Options};

/// Nothing here takes long; a test that waits longer than this has found a fault.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running cluster whose home goes away with it.
pub struct Running {
    pub cluster: Cluster,
    pub home: TempDir,
}

impl Running {
    pub async fn start() -> Running {
        let home = tempfile::tempdir().expect("a folder for the home");
        let cluster = start_in(&home).await;
        Running { cluster, home }
    }

    /// A cluster that was stopped and started again, so that it remembers no events of before.
    pub async fn restarted() -> Running {
        let first = Running::start().await;
        first.cluster.stop().await;
        let cluster = start_in(&first.home).await;
        Running { cluster, home: first.home }
    }

    /// A client without a socket.
    pub fn local(&self) -> Client {
        self.cluster.client("test")
    }

    /// A client over TLS, as a program outside would make it from the kubeconfig.
    pub async fn remote(&self) -> Client {
        let kubeconfig = Kubeconfig::from_yaml(self.cluster.kubeconfig()).expect("the kubeconfig parses");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("the kubeconfig is complete");
        Client::try_from(config).expect("a client")
    }

    /// The kubeconfig as a file, for other programs.
    pub fn kubeconfig_file(&self) -> PathBuf {
        let path = self.home.path().join("kubeconfig-of-the-test");
        std::fs::write(&path, self.cluster.kubeconfig()).expect("the kubeconfig is written");
        path
    }
}

async fn start_in(home: &TempDir) -> Cluster {
    let listen = ([127, 0, 0, 1], 0).into();
    let options = Options::new(home.path(), listen);
    Cluster::start(options).await.expect("the cluster starts")
}

/// Waits for something that another task brings about.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long for {what}"),
    }
}

pub async fn namespace(client: &Client, name: &str) {
    let namespace =
        Namespace { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.expect("the namespace is new");
}

pub fn config_map(name: &str, labels: &[(&str, &str)], value: &str) -> ConfigMap {
    let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".into(), value.into())])),
        ..ConfigMap::default()
    }
}
