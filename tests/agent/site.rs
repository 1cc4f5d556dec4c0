//! Server, agents, operator and cluster as processes of their own, which are killed and started again at fixed addresses.
//!
//! With `VOLLEY_TEST_KUBECONFIG` the cluster is the one that it leads to, in a new namespace; pods are then made from
//! `VOLLEY_TEST_IMAGE`. Tests whose workloads write to the ledger need nodes on this machine.

use crate::command::{Output, PATIENCE, finish};
use crate::installed::newest;
use crate::launch::selector;
use crate::traces::Traces;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use volley_client::Client;
use volley_client::items::{Item, Submission};
use volley_client::people::QueueSpec;

/// Small, and has a shell.
const IMAGE: &str = "python:3-alpine";
const POLL: Duration = Duration::from_millis(20);

/// One process, and how it is started again.
pub struct Part {
    pub name: String,
    args: Vec<String>,
    /// Of the agents: where settings and the kubeconfig are, and the key.
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Part {
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        for name in ["KUBECONFIG", "WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY", "RUST_LOG", "VOLLEY_HOME"] {
            command.env_remove(name);
        }
        command.args(&self.args).envs(self.environment.iter().cloned());
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// SIGKILL: no handler runs, nothing is flushed.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Asks it to end, and waits until it has.
    pub fn end(&mut self, signal: &str) {
        let Some(mut child) = self.child.take() else { return };
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{} does not end", self.name);
            std::thread::park_timeout(POLL);
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct Site {
    pub server: Part,
    pub cluster: Part,
    pub operator: Part,
    pub agents: Vec<Part>,
    pub client: Client,
    pub entity: String,
    pub key: String,
    /// Where workloads write what they do.
    pub ledger: PathBuf,
    /// What pods are made from.
    pub image: String,
    pub namespace: String,
    /// The cluster is not the site's own.
    named: Option<PathBuf>,
    /// The namespace, and the operator, are those of the site that it stands beside.
    is_guest: bool,
    /// While it lives, no other test uses the cluster that the environment names: an operator looks after a whole cluster.
    turn: Option<File>,
    pub folder: TempDir,
    traces: Traces,
    pub runtime: tokio::runtime::Runtime,
}

/// Below those that the kernel gives to others between now and its use, and not another test's.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = 10_000 + u16::try_from(std::process::id() % 1000).unwrap() * 20;
    let mut ports = std::iter::repeat_with(|| own + NEXT.fetch_add(1, Ordering::Relaxed) % 20);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Site {
    /// Everything but the agents, which `add_agent` starts.
    pub fn start() -> Site {
        let named = std::env::var_os("VOLLEY_TEST_KUBECONFIG").map(PathBuf::from);
        let turn = named.as_ref().map(|_| {
            let file = File::create(std::env::temp_dir().join("volley-test-cluster.lock")).unwrap();
            file.lock().unwrap();
            file
        });
        let namespace = format!("volley-test-{}", uuid::Uuid::new_v4().simple());
        let mut site = Site::new(named, namespace);
        site.turn = turn;
        if site.named.is_none() {
            site.cluster.start();
        }
        until("the cluster is ready", || site.kubeconfig().exists().then_some(()));
        site.prepare_cluster();
        site.operator.start();
        site
    }

    /// Another server, for agents on the cluster and in the namespace of this site.
    pub fn start_beside(&self) -> Site {
        let mut site = Site::new(Some(self.kubeconfig()), self.namespace.clone());
        site.is_guest = true;
        site.image.clone_from(&self.image);
        site
    }

    /// With its server.
    fn new(named: Option<PathBuf>, namespace: String) -> Site {
        // Another test of this process may have chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let ledger = folder.path().join("ledger");
        fs::create_dir(&ledger).unwrap();
        let part = |name: &str, args: Vec<String>| Part {
            name: name.to_owned(),
            args,
            environment: vec![("HOME", path("user"))],
            log: folder.path().join(format!("{name}.log")),
            child: None,
        };
        let (api, door) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
        let cluster = words(&["--home", &path("cluster"), "cluster", "--listen", &api]);
        let server = words(&["--home", &path("server"), "server", "--listen", &door]);
        let operator = ["operator", "--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000"];
        let kubeconfig = named.as_ref().map_or_else(|| path("cluster/kubeconfig"), |named| named.display().to_string());
        let operator = [words(&operator), words(&["--kubeconfig", &kubeconfig])].concat();
        let (cluster, mut server) = (part("cluster", cluster), part("server", server));
        let operator = part("operator", operator);
        let image = std::env::var("VOLLEY_TEST_IMAGE").unwrap_or_else(|_| IMAGE.to_owned());
        let image = if named.is_some() { image } else { "host".to_owned() };
        server.start();
        let traces = Traces::new(&folder.path().join("cluster"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let key = until("the server has a key", || {
            fs::read_to_string(folder.path().join("server/server/api-key")).ok().map(|key| key.trim().to_owned())
        });
        let client = Client::new(&format!("http://{door}"), &key).unwrap();
        let entity = until("the server answers", || runtime.block_on(client.viewer()).ok()).1;
        Site {
            server,
            cluster,
            operator,
            agents: Vec::new(),
            client,
            entity,
            key,
            ledger,
            image,
            namespace,
            named,
            is_guest: false,
            turn: None,
            folder,
            traces,
            runtime,
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.named.clone().unwrap_or_else(|| self.folder.path().join("cluster/kubeconfig"))
    }

    /// A namespace of its own, and on another's cluster the definitions that it lacks.
    fn prepare_cluster(&self) {
        if self.named.is_some() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
            command.args(["operator", "manifests", "--only", "crds"]);
            let definitions = finish(command, "").stdout;
            let made = self.run_kubectl(&["create", "-f", "-"], &definitions);
            assert!(
                made.code == 0 || made.stderr.lines().all(|line| line.contains("AlreadyExists")),
                "{}",
                made.stderr
            );
        }
        self.kubectl(&["create", "namespace", &self.namespace], "");
        let account = ["get", "serviceaccount", "default", "-n", &self.namespace];
        until("the namespace has its account", || (self.run_kubectl(&account, "").code == 0).then_some(()));
    }

    fn run_kubectl(&self, args: &[&str], stdin: &str) -> Output {
        let mut command = Command::new(&newest().path);
        command.args(args).env("KUBECONFIG", self.kubeconfig());
        finish(command, stdin)
    }

    /// An agent for these queues, whose admin lets queues mount folders of the machine.
    pub fn add_agent(&mut self, queues: &[&str], url: &str) {
        self.add_agent_with(queues, url, &self.key.clone());
    }

    pub fn add_agent_with(&mut self, queues: &[&str], url: &str, key: &str) {
        let name = format!("agent-{}", self.agents.len());
        let home = self.folder.path().join(&name);
        fs::create_dir_all(home.join(".config/wandb")).unwrap();
        let settings = format!("policy: privileged\nnamespace: {}\n", self.namespace);
        fs::write(home.join(".config/wandb/launch-config.yaml"), settings).unwrap();
        let mut args = words(&["--home", &home.display().to_string(), "agent", "-j", "16", "--url", url]);
        args.extend(queues.iter().flat_map(|queue| words(&["-q", queue])));
        let environment = vec![
            ("HOME", home.display().to_string()),
            ("VOLLEY_API_KEY", key.to_owned()),
            ("KUBECONFIG", self.kubeconfig().display().to_string()),
        ];
        let log = self.folder.path().join(format!("{name}.log"));
        let mut agent = Part { name, args, environment, log, child: None };
        agent.start();
        self.agents.push(agent);
    }

    /// Kills a part, by its place among all, and starts it again.
    pub fn strike(&mut self, number: usize) -> String {
        let part = match number {
            0 => &mut self.server,
            1 if self.named.is_none() => &mut self.cluster,
            1 | 2 => &mut self.operator,
            more => &mut self.agents[more - 3],
        };
        part.kill();
        part.start();
        part.name.clone()
    }

    /// Starts what ended by itself, as a service manager does: whoever starts while another is away may give up.
    pub fn revive(&mut self) {
        let parts = [&mut self.server, &mut self.cluster, &mut self.operator];
        for part in parts.into_iter().chain(&mut self.agents) {
            let has_ended = part.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some());
            if has_ended {
                part.start();
            }
        }
    }

    pub fn parts(&self) -> usize {
        3 + self.agents.len()
    }

    /// Asks the server until it answers.
    #[track_caller]
    pub fn ask<T, E, F: Future<Output = Result<T, E>>>(&self, what: &str, ask: impl Fn(Client) -> F) -> T {
        until(what, || self.runtime.block_on(ask(self.client.clone())).ok())
    }

    pub fn item(&self, id: &str) -> Item {
        self.ask("an item is told", |client| async move { client.item(id).await })
    }

    /// The lines of an item's run, whosever they are, in order of their words.
    pub fn lines(&self, item: &Item) -> Vec<String> {
        let Some(run) = item.run.clone() else { return Vec::new() };
        let read = |client: Client| {
            let run = run.clone();
            async move {
                let query = "query($entity: String!, $project: String!, $run: String!) { project(name: $project, \
                    entityName: $entity) { run(name: $run) { logLines(first: 10000) { edges { node { line } } } } } }";
                let variables = json!({ "entity": run.entity, "project": run.project, "run": run.name });
                client.graphql(query, variables).await
            }
        };
        let answer = self.ask("lines are told", read);
        let edges = answer["project"]["run"]["logLines"]["edges"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut lines: Vec<String> = edges.iter().map(|edge| text(&edge["node"]["line"])).collect();
        lines.sort();
        lines
    }

    pub fn make_queue(&self, name: &str, config: Value) {
        let spec = QueueSpec { resource: "kubernetes".to_owned(), config, variables: json!({}), has_priorities: true };
        self.runtime.block_on(self.client.upsert_queue(&self.entity, name, &spec)).unwrap();
    }

    /// Submits a shell script, whatever happens to the server meanwhile: the same key is the same submission.
    pub fn submit(&self, queue: &str, key: &str, script: &str) -> String {
        self.submit_with(queue, key, &json!({ "overrides": { "entry_point": ["sh", "-c", script] } }))
    }

    /// The same with other members of the spec.
    pub fn submit_with(&self, queue: &str, key: &str, more: &Value) -> String {
        let mut spec = json!({ "entity": self.entity, "project": "p", "docker": { "docker_image": self.image },
            "resource": "kubernetes" });
        for (name, value) in more.as_object().unwrap() {
            spec[name] = value.clone();
        }
        let spec = &spec;
        self.ask("a submission is taken", |client| async move {
            client.submit(&self.entity, queue, &Submission { key, spec, values: None, priority: Some(1) }).await
        })
    }

    pub fn stop(&self, id: &str) {
        self.ask("a stop is taken", |client| async move { client.stop_item(id).await });
    }

    #[track_caller]
    pub fn until_item(&self, id: &str, what: &str, is_so: impl Fn(&Item) -> bool) -> Item {
        until(&format!("{what}: {id}"), || Some(self.item(id)).filter(|item| is_so(item)))
    }

    #[track_caller]
    pub fn until_end(&self, id: &str) -> Item {
        self.until_item(id, "it ends", |item| item.end.is_some())
    }

    #[track_caller]
    pub fn kubectl(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run_kubectl(args, stdin);
        assert_eq!(output.code, 0, "kubectl {args:?}: {}", output.stderr);
        output.stdout
    }

    /// The pods of an item, wherever they are.
    pub fn pods(&self, item: &Item) -> Vec<Value> {
        let selector = selector(item);
        let list = self.kubectl(&["get", "pods", "-n", &self.namespace, "-l", &selector, "-o", "json"], "");
        serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().unwrap().clone()
    }

    /// What was made for launches beside their workloads goes with them.
    pub fn until_no_secret(&self) {
        let made = ["get", "secrets", "-n", &self.namespace, "-l", "wandb.ai/created-by=launch-agent", "-o", "name"];
        until("no Secret is left", || self.kubectl(&made, "").is_empty().then_some(()));
    }

    pub fn logs(&self) -> String {
        let parts = [&self.server, &self.cluster, &self.operator];
        let tail = |part: &&Part| {
            let text = part.log();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", part.name, lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        parts.into_iter().chain(&self.agents).map(|part| tail(&part)).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let is_failed = std::thread::panicking();
        if is_failed {
            eprintln!("{}", self.logs());
        }
        self.agents.iter_mut().for_each(Part::kill);
        if self.named.is_some() && !self.is_guest {
            self.run_kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], "");
        }
        self.operator.kill();
        self.server.kill();
        self.traces.note(&[]);
        // Ctrl-C ends the pods with it.
        self.cluster.end("-INT");
        let left = self.traces.left();
        assert!(is_failed || left.is_empty(), "left on the machine: {left:#?}");
    }
}

#[track_caller]
pub fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    until_within(PATIENCE, what, look)
}

#[track_caller]
pub fn until_within<T>(patience: Duration, what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: in vain");
        std::thread::park_timeout(POLL);
    }
}

/// A config whose workload's containers may write to the ledger.
pub fn with_ledger(mut config: Value, pod_specs: &[&str], ledger: &Path) -> Value {
    for pointer in pod_specs {
        let spec = config.pointer_mut(pointer).expect("a pod's spec");
        spec["volumes"] = json!([{ "name": "ledger", "hostPath": { "path": ledger } }]);
        spec["containers"][0]["volumeMounts"] = json!([{ "name": "ledger", "mountPath": "/ledger" }]);
    }
    config
}
