//! Where the tests' cluster is: in this process, or wherever the kubeconfig in `VOLLEY_TEST_KUBECONFIG` leads.
//!
//! A named cluster is shared, and an operator looks after all of it: tests take turns there, by a lock on a file.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use std::fs::File;
use std::net::Ipv4Addr;
use std::time::Duration;
use volley_cluster::{Cluster, Options};
use volley_operator::manifests::{NAME, NAMESPACE, Part, Place as Manifests};

/// An upper bound only: what is waited for usually happens within milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(60);
const VARIABLE: &str = "VOLLEY_TEST_KUBECONFIG";
/// Namespaces of tests carry it, so that what a failed one left is found by the next.
const LABEL: &str = "volley.sh/test";

pub enum Place {
    Embedded {
        cluster: Cluster,
        _folder: tempfile::TempDir,
    },
    Named {
        client: Client,
        /// Has the rights of the operator's account, and no others.
        operator: Client,
        _turn: File,
    },
}

impl Place {
    pub async fn find() -> Place {
        match std::env::var_os(VARIABLE) {
            Some(path) => Place::named(Kubeconfig::read_from(path).expect(VARIABLE)).await,
            None => {
                let folder = tempfile::tempdir().unwrap();
                let listen = (Ipv4Addr::LOCALHOST, 0).into();
                let options = Options::new(folder.path(), listen);
                Place::Embedded { cluster: Cluster::start(options).await.unwrap(), _folder: folder }
            }
        }
    }

    async fn named(kubeconfig: Kubeconfig) -> Place {
        let turn = File::create(std::env::temp_dir().join("volley-test-cluster.lock")).unwrap();
        let turn = tokio::task::spawn_blocking(move || turn.lock().map(|()| turn)).await.unwrap().unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config.clone()).unwrap();
        install(&client).await;
        clear(&client).await;
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{NAMESPACE}:{NAME}"));
        Place::Named { client, operator: Client::try_from(config).unwrap(), _turn: turn }
    }

    pub fn client(&self, part: &str) -> Client {
        match self {
            Place::Embedded { cluster, .. } => cluster.client(part),
            Place::Named { operator, .. } if part == "operator" => operator.clone(),
            Place::Named { client, .. } => client.clone(),
        }
    }

    /// A namespace of the test's own, in which pods can be made.
    pub async fn namespace(&self) -> String {
        let namespace = json!({"metadata": {"generateName": "volley-test-", "labels": {LABEL: "true"}}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client("test"));
        let name = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client("test"), &name);
        let is_there = |account: Option<&ServiceAccount>| account.is_some();
        let wait = await_condition(accounts, "default", is_there);
        tokio::time::timeout(PATIENCE, wait).await.expect("a namespace gets its account").unwrap();
        name
    }

    pub async fn leave(self) {
        match self {
            Place::Embedded { cluster, .. } => cluster.stop().await,
            Place::Named { client, .. } => clear(&client).await,
        }
    }
}

/// Installs what the cluster lacks of the operator's definitions and rights; it stays.
async fn install(client: &Client) {
    let parts = [Part::Definitions, Part::Roles];
    for object in parts.iter().flat_map(|part| part.objects(&Manifests::default())) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{} {}: {error}", kind.kind, object.name_any()),
        }
        if kind.kind == "CustomResourceDefinition" {
            let name = object.name_any();
            let wait = await_condition(Api::all(client.clone()), &name, is_crd_established());
            tokio::time::timeout(PATIENCE, wait).await.expect("a definition is established").unwrap();
        }
    }
}

/// Deletes the namespaces of tests. They go in their own time.
async fn clear(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for namespace in namespaces.list(&ListParams::default().labels(LABEL)).await.unwrap() {
        // One that is on its way out already may be gone by now.
        let _ = namespaces.delete(&namespace.name_any(), &DeleteParams::default()).await;
    }
}
