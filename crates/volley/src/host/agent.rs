//! The agent as a part of this process: on the cluster and the server beside it, for all queues of the first user that no
//! other agent serves. One called `default` is made.
//!
//! Pods have a network of their own, in which the server's loopback address is theirs; so the server also answers on the
//! address that pods know this machine by.

use crate::home::Home;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use volley_agent::health::{Health, Stage};
use volley_agent::{OnStop, Options, Stop};
use volley_client::Client;
use volley_client::people::QueueSpec;
use volley_cluster::Cluster;
use volley_plan::agent::capacity::Limit;
use volley_plan::agent::config::Config;
use volley_plan::agent::serving::Wanted;
use volley_plan::launch::order::Fetcher;
use volley_server::Server;

const QUEUE: &str = "default";
/// What queues may ask for.
const RESOURCES: [&str; 3] = ["kubernetes", "local-container", "local-process"];
/// This very program, though its file be replaced meanwhile.
pub const PROGRAM: &str = "/proc/self/exe";
/// One who waits for the start is not kept for longer than this by the agent.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// The node registers within milliseconds.
const NODE_PAUSE: Duration = Duration::from_millis(20);
const NODE_TRIES: usize = 250;
const RETRY: Duration = Duration::from_secs(2);

pub struct Agent {
    stop: CancellationToken,
    task: JoinHandle<()>,
    health: Arc<Health>,
}

impl Agent {
    /// Starts it; when this returns it serves its queue, or says what keeps it from that.
    pub async fn start(home: &Home, cluster: &Cluster, server: &Server, has_node: bool) -> Agent {
        let (stop, health) = (CancellationToken::new(), Arc::<Health>::default());
        let part = Part {
            home: home.clone(),
            cluster: cluster.client("agent"),
            server: server.address(),
            url: server.url().to_owned(),
            has_node,
            health: health.clone(),
            stop: stop.clone(),
        };
        let task = tokio::spawn(part.run());
        if tokio::time::timeout(START_TIMEOUT, health.until_settled()).await.is_err() {
            tracing::warn!("the agent does not serve its queue after {START_TIMEOUT:?}, and goes on with starting");
        }
        Agent { stop, task, health }
    }

    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    pub async fn stop(self) {
        self.stop.cancel();
        // A panic has been logged where it happened.
        let _ = self.task.await;
    }
}

struct Part {
    home: Home,
    cluster: kube::Client,
    server: SocketAddr,
    url: String,
    has_node: bool,
    health: Arc<Health>,
    stop: CancellationToken,
}

impl Part {
    /// Runs until the end; what fails is tried again, as the server's users may mend it.
    async fn run(self) {
        loop {
            if let Err(error) = self.serve().await {
                tracing::error!("the agent: {error:#}");
                self.health.set(Stage::Troubled(format!("{error:#}")));
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(RETRY) => (),
            }
        }
    }

    async fn serve(&self) -> Result<()> {
        let path = self.home.server().join("api-key");
        let key = tokio::fs::read_to_string(&path).await;
        let key = key.with_context(|| format!("the key of the first user is not in `{}`", path.display()))?;
        let client = Client::new(&self.url, &key)?;
        let (_, entity) = client.viewer().await?;
        ensure_queue(&client, &entity).await?;
        let door = self.door().await;
        let workload_url = door.as_ref().map_or_else(|| self.url.clone(), |door| format!("http://{}", door.address));
        let config = Config {
            entity: Some(entity),
            max_jobs: Limit::Unlimited,
            max_schedulers: Limit::Unlimited,
            // Its launches are the owner's, and its pods may use this machine's own file system already.
            allows_processes: true,
            ..Config::default()
        };
        let options = Options {
            config,
            wanted: Wanted::All(RESOURCES.map(str::to_owned).into()),
            client,
            key: key.trim().to_owned(),
            workload_url,
            cluster: Some(self.cluster.clone()),
            makes_namespaces: true,
            folder: self.home.agent(),
            fetcher: Fetcher { image: "host".to_owned(), program: own_program() },
            base_image: Some("host".to_owned()),
            program: PathBuf::from(PROGRAM),
            // The node reads it itself.
            docker: Value::Null,
            environment: BTreeMap::new(),
            health: self.health.clone(),
            on_stop: OnStop::Detach,
        };
        volley_agent::run(options, Stop { asked: self.stop.clone(), ..Stop::default() }).await?;
        drop(door);
        Ok(())
    }

    /// Where pods reach the server; none where they share this machine's network.
    async fn door(&self) -> Option<Door> {
        let address = if self.has_node { self.node_address().await? } else { return None };
        match Door::open(address, self.server).await {
            Ok(door) => Some(door),
            Err(error) => {
                tracing::warn!(%address, %error, "pods cannot reach the server");
                None
            }
        }
    }

    /// The node's address, once it has registered; none where pods share this machine's network.
    async fn node_address(&self) -> Option<IpAddr> {
        for _ in 0..NODE_TRIES {
            if let Some(address) = node_address(&self.cluster).await {
                return Some(address).filter(|address| !address.is_loopback());
            }
            tokio::time::sleep(NODE_PAUSE).await;
        }
        None
    }
}

/// Where this program is on the machine's own file system, on which pods of the image `host` run.
fn own_program() -> Option<String> {
    std::env::current_exe().ok()?.into_os_string().into_string().ok()
}

/// The address that pods know this machine by, as the first node tells it.
pub async fn node_address(cluster: &kube::Client) -> Option<IpAddr> {
    let request = http::Request::get("/api/v1/nodes").body(Vec::new()).ok()?;
    let nodes: Value = cluster.request(request).await.ok()?;
    let addresses = nodes["items"][0]["status"]["addresses"].as_array()?;
    addresses.iter().find(|each| each["type"] == "InternalIP")?["address"].as_str()?.parse().ok()
}

/// Makes the queue, unless it is there.
async fn ensure_queue(client: &Client, entity: &str) -> Result<()> {
    if client.queue(entity, QUEUE).await?.is_some() {
        return Ok(());
    }
    // Without an image of its own, a launch runs on this machine's own file system.
    let container = json!({ "image": "${image_uri:-host}" });
    let spec = json!({ "template": { "spec": { "containers": [container] } } });
    let config =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "namespace": "default" }, "spec": spec });
    let spec = QueueSpec { resource: "kubernetes".to_owned(), config, variables: json!({}), has_priorities: true };
    client.upsert_queue(entity, QUEUE, &spec).await.context("failed to make the queue `default`")
}

/// Hands connections of pods on to the server.
struct Door {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Door {
    async fn open(address: IpAddr, server: SocketAddr) -> std::io::Result<Door> {
        let listener = match TcpListener::bind((address, server.port())).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((address, 0)).await?,
        };
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                while connections.try_join_next().is_some() {}
                let Ok((mut pod, _)) = listener.accept().await else { continue };
                connections.spawn(async move {
                    let Ok(mut own) = TcpStream::connect(server).await else { return };
                    // Either side may hang up.
                    let _ = tokio::io::copy_bidirectional(&mut pod, &mut own).await;
                });
            }
        });
        Ok(Door { address, task })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}
