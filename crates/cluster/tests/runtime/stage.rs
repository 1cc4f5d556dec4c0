//! An API server on a port with one real pod behind it: the smallest node there can be, for real clients to talk to.

use crate::support::*;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Arc, LazyLock};
use tokio::process::Command;
use tokio_util::sync::{CancellationToken, DropGuard};
use volley_cluster::apiserver::ApiServer;
use volley_cluster::apiserver::pki::Pki;
use volley_cluster::apiserver::serve::Door;
use volley_cluster::apiserver::{kubeconfig, local::Local};
use volley_cluster::node::access::Access;
use volley_cluster::node::usage::Sampler;
use volley_cluster::node::{Handle, Handles};
use volley_cluster::runtime::client::Pod;
use volley_cluster::runtime::spec::{Container, LogFile, Network, Root, Sandbox};
use volley_cluster::store::{Options, Store};

pub const NODE: &str = "here";

/// The pods' index of the smallest node.
#[derive(Default)]
pub struct Index(Mutex<BTreeMap<String, Handle>>);

impl Handles for Index {
    fn find(&self, pod_uid: &str) -> Option<Handle> {
        self.0.lock().get(pod_uid).cloned()
    }

    fn all(&self) -> Vec<(String, Handle)> {
        self.0.lock().clone().into_iter().collect()
    }
}

pub struct Stage {
    pub place: Place,
    pub server: Arc<ApiServer>,
    pub sampler: Arc<Sampler>,
    pub index: Arc<Index>,
    pub pod: Pod,
    pub uid: String,
    pub kubeconfig: PathBuf,
    _stop: DropGuard,
}

impl Stage {
    /// A server, a node object, and a pod named `p` with a running shim and the containers of `spec`, none of which runs yet.
    pub async fn start(containers: Value) -> Stage {
        must_be_root();
        let place = Place::new();
        let home = place.folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let pki = Pki::open(&home, &["127.0.0.1".to_owned()]).unwrap();
        let server =
            ApiServer::open(Store::in_memory(Options::default()), &pki, volley_plan::admit::training::RULES).await;
        let door = Door::bind(([127, 0, 0, 1], 0).into(), &pki).await.unwrap();
        let address = door.address().unwrap();
        server.set_address(&address.to_string());
        server.bootstrap(address.port()).await.unwrap();
        let (index, sampler) = (Arc::new(Index::default()), Arc::new(Sampler::default()));
        server.set_node(Arc::new(Access::new(NODE, index.clone(), sampler.clone())));
        let stop = CancellationToken::new();
        tokio::spawn(door.serve(server.clone(), stop.clone()));
        let kubeconfig = home.join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig::text(&pki, address)).unwrap();
        let local = server.local("test");
        local.create("", "nodes", "", json!({"metadata": {"name": NODE}})).await.unwrap();
        let spec = json!({"nodeName": NODE, "containers": containers, "automountServiceAccountToken": false});
        let object = json!({"metadata": {"name": "p", "labels": {"app": "p"}}, "spec": spec});
        let object = local.create("", "pods", "default", object).await.unwrap();
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let pod = place.pod_with(Sandbox { network: Network::Loopback, ..place.sandbox() }).await;
        let handle = Handle {
            folder: place.folder.path().into(),
            address: None,
            shim: Some(pod.clone()),
            containers: BTreeMap::new(),
        };
        index.0.lock().insert(uid.clone(), handle);
        Stage { place, server, sampler, index, pod, uid, kubeconfig, _stop: stop.drop_guard() }
    }

    /// The same with one container, `c`, that runs a script.
    pub async fn running(script: &str) -> Stage {
        Stage::running_with(json!({}), script, |_| {}).await
    }

    pub async fn running_with(more: Value, script: &str, change: impl FnOnce(&mut Container)) -> Stage {
        let mut container = json!({"name": "c", "image": "i"});
        for (key, value) in more.as_object().unwrap() {
            container[key] = value.clone();
        }
        let stage = Stage::start(json!([container])).await;
        stage.run("c", 0, script, change).await;
        stage
    }

    pub fn local(&self) -> Local<'_> {
        self.server.local("test")
    }

    /// Starts an attempt at a container and reports it as a node does.
    pub async fn run(&self, name: &str, attempt: u32, script: &str, change: impl FnOnce(&mut Container)) {
        let id = format!("{name}-{attempt}");
        let folder = self.place.folder.path().join("logs").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let root =
            Root::Layers { lower: vec![busybox().into()], scratch: self.place.pod_folder().join("scratch").join(&id) };
        let log = LogFile { path: folder.join(format!("{attempt}.log")), bytes_max: 10 << 20, files_max: 2 };
        let process = volley_cluster::runtime::spec::Process::new(["/bin/sh", "-c", script]);
        let mut container =
            Container { log: Some(log), name: name.into(), attempt, ..Container::new(&id, root, process) };
        change(&mut container);
        self.pod.start_container(container).await.unwrap();
        self.index.0.lock().get_mut(&self.uid).unwrap().containers.insert(name.into(), (id, true));
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        self.report(name, attempt, running, json!({})).await;
    }

    /// Waits for an attempt's end and reports it, with its successor waiting or not.
    pub async fn end(&self, name: &str, attempt: u32, waiting: Option<&str>) -> i32 {
        let id = format!("{name}-{attempt}");
        let code = self.pod.wait(&id).await.unwrap().code;
        self.index.0.lock().get_mut(&self.uid).unwrap().containers.insert(name.into(), (id.clone(), false));
        let ended = json!({"terminated": {"exitCode": code, "containerID": format!("volley://{id}")}});
        match waiting {
            Some(reason) => self.report(name, attempt, json!({"waiting": {"reason": reason}}), ended).await,
            None => self.report(name, attempt, ended, json!({})).await,
        }
        code
    }

    pub async fn report(&self, name: &str, attempt: u32, state: Value, last: Value) {
        let status = json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": attempt,
            "containerID": format!("volley://{name}-{attempt}"), "state": state, "lastState": last});
        let status = json!({"status": {"phase": "Running", "containerStatuses": [status]}});
        self.local().patch_status("", "pods", "default", "p", status).await.unwrap();
    }

    /// What is known of a pod whose shim has gone.
    pub fn index_without_shim(&self) {
        self.index.0.lock().get_mut(&self.uid).unwrap().shim = None;
    }

    pub fn kubectl(&self, program: &PathBuf, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        command.env("HOME", self.place.folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// What the newest kubectl printed and how it ended.
    pub async fn ask(&self, args: &[&str]) -> Said {
        Said::of(&self.kubectl(newest(), args).output().await.unwrap())
    }

    pub async fn leave(self) {
        self.pod.remove().await.unwrap();
    }
}

/// What a program printed and its exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// Every kubectl of this machine, oldest first: those on the PATH, and other versions beside them.
pub fn kubectls() -> &'static [PathBuf] {
    static FOUND: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&folders).map(|folder| folder.join("kubectl"));
        let first = on_path.into_iter().find_map(|path| path.canonicalize().ok());
        let first = first.expect("no kubectl was found on the PATH; `make setup` installs it");
        let beside = std::fs::read_dir(first.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<PathBuf> =
            beside.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("kubectl.1.")).collect();
        found.sort();
        if found.is_empty() { vec![first] } else { found }
    });
    &FOUND
}

pub fn newest() -> &'static PathBuf {
    kubectls().last().unwrap()
}
