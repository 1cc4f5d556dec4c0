//! From a submission to a queue until its program runs, by our agent and by W&B's on the same server and cluster; a thousand
//! submissions from start to end; and what an agent weighs while a thousand run.
//!
//! Both agents are processes beside `volley up`. W&B's comes from `.cache/wandb-launch` (`make setup`); without it, its rows are
//! left out.

use super::bell::Bell;
use super::jobs::timed;
use super::starts::percentile;
use super::up::Up;
use super::weight::idle_percent;
use crate::pods::{PODS, service_account};
use crate::process::resident_mb;
use crate::table::{Row, Table};
use crate::wire::{Access, Connection, Protocol};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MAKE: &str = "mutation($input: UpsertRunQueueInput!) { upsertRunQueue(input: $input) { success } }";
const PUSH: &str =
    "mutation($input: PushToRunQueueByNameInput!) { pushToRunQueueByName(input: $input) { runQueueItemId } }";
const STATES: &str = r#"query($queue: String!) { project(name: "model-registry", entityName: "volley") { runQueue(name: $queue)
    { runQueueItems(first: 2000) { edges { node { state } } } } } }"#;
const AGENTS: &str = r#"query($queue: String!) { project(name: "model-registry", entityName: "volley") { runQueue(name: $queue)
    { launchAgents { agentConfig } } } }"#;
const OURS: usize = 60;
/// Each takes W&B's agent many seconds.
const THEIRS: usize = 5;
const MANY: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(600);
const THEIR_PROGRAM: &str = ".cache/wandb-launch/bin/wandb";

pub async fn launches(program: &Path, folder: &Path, bell: &mut Bell, quick: bool, table: &mut Table) -> Result<()> {
    let up = Up::start_parts(program, &folder.join("launched"), &["--server-listen", "127.0.0.1:0"])?;
    service_account(&up.access).await?;
    let site = Site { server: server_of(&up)?, up, folder: folder.to_owned() };
    let mut add = |figure, scale: &str, value, unit, reference| {
        table.add(Row { figure, scale: scale.to_owned(), value, unit, reference });
    };
    add("`volley up` with everything", "empty home", site.up.ready_in.as_secs_f64() * 1000.0, "ms", ("budget", 300.0));
    let share = idle_percent(&[site.up.pid]).await?;
    add("idle with everything", "CPU", share, "% of a core", ("budget", 1.0));
    add("idle with everything", "resident", resident_mb(site.up.pid)?, "MB", ("budget", 60.0));

    site.hang(bell).await?;
    site.make_queue("ours", &ringing()).await?;
    let agent = site.our_agent(program, "ours").await?;
    let ours = site.waits("ours", bell, OURS).await?;
    site.make_queue("theirs", &ringing()).await?;
    let theirs = match site.their_agent("theirs").await? {
        Some(agent) => {
            let waits = site.waits("theirs", bell, THEIRS).await;
            waits.with_context(|| format!("W&B's agent said:\n{}", agent.said()))?
        }
        None => Vec::new(),
    };
    for (figure, share) in [("submit to running, p50", 0.5), ("submit to running, p99", 0.99)] {
        let reference = ("W&B's agent, same server and cluster", percentile(&theirs, share));
        add(figure, &format!("{OURS} Jobs, one after the other"), percentile(&ours, share), "ms", reference);
    }
    drop(agent);

    let count = if quick { MANY / 10 } else { MANY };
    site.make_queue("many", &json!({ "kind": "Job", "apiVersion": "batch/v1" })).await?;
    let _agent = site.our_agent(program, "many").await?;
    let begun = Instant::now();
    for _ in 0..count {
        site.push("many", "true").await?;
    }
    site.until("many", count, |state| state == "FINISHED" || state == "FAILED").await?;
    let value = begun.elapsed().as_secs_f64();
    // The pods of the launches would be counted.
    site.up.clear().await?;
    let pods = timed(&site.up, PODS, count, super::jobs::pod).await? / 1000.0;
    add("submissions that do nothing, start to end", &count.to_string(), value, "s", ("as many plain pods", pods));
    drop(site);
    running(program, folder, count, table).await
}

/// A thousand items that run on pretended nodes, so that the agent's own weight is seen.
async fn running(program: &Path, folder: &Path, count: usize, table: &mut Table) -> Result<()> {
    let words = ["--no-node", "--pretend-nodes", "20x8gpu", "--server-listen", "127.0.0.1:0"];
    let up = Up::start_parts(program, &folder.join("running"), &words)?;
    service_account(&up.access).await?;
    let site = Site { server: server_of(&up)?, up, folder: folder.to_owned() };
    let config = json!({ "kind": "Job", "apiVersion": "batch/v1",
        "spec": { "template": { "metadata": { "annotations": { "volley.dev/run-seconds": "86400" } } } } });
    site.make_queue("running", &config).await?;
    let agent = site.our_agent(program, "running").await?;
    let empty = resident_mb(agent.process.id())?;
    for _ in 0..count {
        site.push("running", "sleep 86400").await?;
    }
    site.until("running", count, |state| state == "RUNNING").await?;
    let cpu = idle_percent(&[agent.process.id()]).await?;
    let scale = format!("{count} items run");
    table.add(Row {
        figure: "agent, resident",
        scale: scale.clone(),
        value: resident_mb(agent.process.id())?,
        unit: "MB",
        reference: ("none run", empty),
    });
    table.add(Row { figure: "agent, CPU", scale, value: cpu, unit: "% of a core", reference: ("budget", 1.0) });
    Ok(())
}

/// A queue's config whose Jobs can reach the bell.
fn ringing() -> Value {
    let mount = json!({ "name": "bells", "mountPath": "/bells" });
    json!({ "kind": "Job", "apiVersion": "batch/v1", "spec": { "template": { "spec": {
        "containers": [{ "name": "main", "image": "${image_uri}", "volumeMounts": [mount] }], "restartPolicy": "Never",
        "volumes": [{ "name": "bells", "persistentVolumeClaim": { "claimName": "bells" } }] } } } })
}

/// An agent's process; dropping it kills it.
struct Agent {
    process: Child,
    log: PathBuf,
}

impl Agent {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Server {
    url: String,
    key: String,
    access: Access,
}

fn server_of(up: &Up) -> Result<Server> {
    let said = up.volley(&["status", "-o", "json"]).stdout(Stdio::piped()).output()?;
    let status: Value = serde_json::from_slice(&said.stdout)?;
    let mut parts = status["parts"].as_array().context("a status has parts")?.iter();
    let url = parts.find(|part| part["name"] == "server").and_then(|part| part["address"].as_str());
    let url = url.context("the server has an address")?.to_owned();
    let key = fs::read_to_string(up.home.join("server/api-key"))?.trim().to_owned();
    let address = url.strip_prefix("http://").context("it speaks plain HTTP")?.parse()?;
    Ok(Server { access: Access::with_key(address, &key), url, key })
}

struct Site {
    // Before `up`, whose drop ends it.
    server: Server,
    up: Up,
    folder: PathBuf,
}

impl Site {
    async fn connect(&self) -> Result<Connection> {
        self.server.access.connect(Protocol::Http1).await
    }

    /// Makes the claim by which launches have the bell's folder: W&B's agent lets no queue name a folder of the machine.
    async fn hang(&self, bell: &Bell) -> Result<()> {
        let amount = json!({ "storage": "1Gi" });
        let modes = json!(["ReadWriteMany"]);
        let volume = json!({ "metadata": { "name": "bells" }, "spec": { "capacity": amount, "accessModes": modes,
            "storageClassName": "", "hostPath": { "path": bell.folder } } });
        let claim = json!({ "metadata": { "name": "bells" }, "spec": { "accessModes": modes, "storageClassName": "",
            "volumeName": "bells", "resources": { "requests": amount } } });
        let mut connection = self.up.access.connect(Protocol::Http1).await?;
        for (path, object) in
            [("/api/v1/persistentvolumes", volume), ("/api/v1/namespaces/default/persistentvolumeclaims", claim)]
        {
            connection.call(Method::POST, path, Bytes::from(object.to_string())).await?;
        }
        Ok(())
    }

    async fn make_queue(&self, name: &str, config: &Value) -> Result<()> {
        let input = json!({ "entityName": "volley", "projectName": "model-registry", "queueName": name,
            "resourceType": "kubernetes", "resourceConfig": config.to_string() });
        let made = self.connect().await?.read(MAKE, json!({ "input": input })).await?;
        ensure!(made["upsertRunQueue"]["success"] == true, "queue {name} could not be made: {made}");
        Ok(())
    }

    async fn push(&self, queue: &str, script: &str) -> Result<()> {
        let spec = json!({ "entity": "volley", "project": "bench", "resource": "kubernetes", "docker": { "docker_image": "host" },
            "overrides": { "entry_point": ["sh", "-c", script] } });
        let input = json!({ "entityName": "volley", "projectName": "model-registry", "queueName": queue,
            "runSpec": spec.to_string() });
        let pushed = self.connect().await?.read(PUSH, json!({ "input": input })).await?;
        ensure!(pushed["pushToRunQueueByName"]["runQueueItemId"].is_string(), "not taken: {pushed}");
        Ok(())
    }

    /// Milliseconds from each submission until its program runs. The first is not counted: an agent has to wake up.
    async fn waits(&self, queue: &str, bell: &mut Bell, count: usize) -> Result<Vec<f64>> {
        let mut waits = Vec::new();
        for number in 0..=count {
            let begun = Instant::now();
            self.push(queue, &format!("echo {queue}-{number} > /bells/bell")).await?;
            let heard = bell.hear(1).await?;
            let at = heard.values().next().context("one has rung")?;
            waits.push(at.saturating_duration_since(begun).as_secs_f64() * 1000.0);
        }
        Ok(waits.split_off(1))
    }

    async fn until(&self, queue: &str, count: usize, is_so: impl Fn(&str) -> bool) -> Result<()> {
        let mut connection = self.connect().await?;
        let begun = Instant::now();
        loop {
            let told = connection.read(STATES, json!({ "queue": queue })).await?;
            let edges =
                told["project"]["runQueue"]["runQueueItems"]["edges"].as_array().context("a queue has items")?;
            let there =
                edges.iter().filter_map(|edge| edge["node"]["state"].as_str()).filter(|state| is_so(state)).count();
            if there >= count {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "only {there} of {count} items of {queue} came so far");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// A home for an agent, with what both agents read.
    fn home(&self, queue: &str, settings: &str) -> Result<PathBuf> {
        let home = self.folder.join(format!("agent-{queue}"));
        for (path, text) in [
            (".config/wandb/launch-config.yaml", settings.to_owned()),
            (".kube/config", fs::read_to_string(self.up.home.join("kubeconfig"))?),
        ] {
            let path = home.join(path);
            fs::create_dir_all(path.parent().context("it is in a folder")?)?;
            fs::write(path, text)?;
        }
        Ok(home)
    }

    /// Starts an agent and waits until it has its queue for itself: until then the agent of `volley up` serves it, which gives
    /// nobody the machine's files.
    async fn start(&self, mut command: Command, home: &Path, queue: &str) -> Result<Agent> {
        command.env("HOME", home).env("KUBECONFIG", home.join(".kube/config"));
        command.env("WANDB_BASE_URL", &self.server.url).env("WANDB_API_KEY", &self.server.key);
        let log = home.join("agent.log");
        let file = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let agent = Agent { process: command.spawn()?, log };
        let mut connection = self.connect().await?;
        let begun = Instant::now();
        loop {
            let told = connection.read(AGENTS, json!({ "queue": queue })).await?;
            let agents = told["project"]["runQueue"]["launchAgents"].as_array().context("a queue has agents")?;
            let serves = |agent: &Value| {
                let config: Value =
                    serde_json::from_str(agent["agentConfig"].as_str().unwrap_or_default()).unwrap_or_default();
                config["queues"] == json!([queue])
            };
            if agents.len() == 1 && serves(&agents[0]) {
                return Ok(agent);
            }
            ensure!(begun.elapsed() < PATIENCE, "no agent has queue {queue} for itself: {told}\n{}", agent.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn our_agent(&self, program: &Path, queue: &str) -> Result<Agent> {
        let home = self.home(queue, "policy: privileged\n")?;
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).args(["agent", "-q", queue, "-j", "-1"]);
        self.start(command, &home, queue).await
    }

    async fn their_agent(&self, queue: &str) -> Result<Option<Agent>> {
        if !Path::new(THEIR_PROGRAM).exists() {
            eprintln!("W&B's agent is not installed; it is left out (`make setup` brings it)");
            return Ok(None);
        }
        let home = self.home(queue, "builder:\n  type: noop\n")?;
        // It watches this namespace, whatever its queues' configs say.
        let namespace = json!({ "metadata": { "name": "wandb" } }).to_string();
        let mut connection = self.up.access.connect(Protocol::Http1).await?;
        connection.call(Method::POST, "/api/v1/namespaces", Bytes::from(namespace)).await?;
        let mut command = Command::new(fs::canonicalize(THEIR_PROGRAM)?);
        // It writes where it stands.
        command.args(["launch-agent", "-q", queue, "-e", "volley", "-j", "-1"]).current_dir(&home);
        self.start(command, &home, queue).await.map(Some)
    }
}
