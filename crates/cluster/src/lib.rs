//! `volley cluster`: a Kubernetes-compatible single-node cluster in one process.
//!
//! `Cluster::start` opens the store, makes the keys, binds the port, starts the controllers and returns when clients are
//! answered. The API server is in `apiserver`, what keeps objects in `store`, what makes them live in `controllers`,
//! what runs pods in `node`.

pub mod apiserver;
pub mod controllers;
pub mod images;
pub mod node;
pub mod runtime;
pub mod store;
pub mod streams;

use apiserver::object::Meta;
use apiserver::pki::{Pki, PkiError};
use apiserver::serve::{Door, InProcess, ServeError};
use apiserver::{ApiServer, bootstrap::BootstrapError};
use node::{ClearError, Node, NodeError, NodeOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_api::kube::status::ApiError;
use volley_api::kubeflow::Rules;
use volley_plan::access::User;
use volley_plan::admit::training::RULES;
use volley_plan::node::pretended_nodes::Groups;
use volley_scheduler::policy::Source;

/// How long a stop waits for clients in this process that somebody keeps.
const LET_GO_MAX: Duration = Duration::from_secs(2);

/// How a cluster is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// `$VOLLEY_HOME`: the store, the keys and the volumes are below it.
    pub home: PathBuf,
    /// Where clients are answered; loopback unless the user says otherwise.
    pub listen: SocketAddr,
    /// Further names or addresses for the server's certificate.
    pub names: Vec<String>,
    /// How pods run here; without it they stay Pending.
    pub node: Option<NodeOptions>,
    /// Nodes that are not there, beside it.
    pub pretended: Groups,
    /// What training jobs are held to.
    pub training: Rules,
    /// How pods are placed.
    pub policy: Source,
}

impl Options {
    /// A cluster without a node, under the usual rules.
    pub fn new(home: impl Into<PathBuf>, listen: SocketAddr) -> Options {
        Options {
            home: home.into(),
            listen,
            names: Vec::new(),
            node: None,
            pretended: Groups::default(),
            training: RULES,
            policy: Source::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("failed to open the store")]
    Store(#[from] StoreError),
    #[error("failed to prepare the keys")]
    Keys(#[from] PkiError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error("failed to start the node")]
    Node(#[from] NodeError),
    #[error("failed to make the pretended nodes: {}", .0.message)]
    Pretend(ApiError),
    #[error("failed to clear the node away")]
    Clear(#[from] ClearError),
}

/// A running cluster.
pub struct Cluster {
    server: Arc<ApiServer>,
    address: SocketAddr,
    kubeconfig: String,
    home: PathBuf,
    node: Option<Arc<Node>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Cluster {
    /// Starts a cluster; clients are answered when this returns.
    pub async fn start(options: Options) -> Result<Cluster, ClusterError> {
        let store_folder = options.home.join("cluster");
        std::fs::create_dir_all(&store_folder)
            .map_err(|source| PkiError::File { path: store_folder.clone(), source })?;
        let names = [options.names.clone(), vec![options.listen.ip().to_string()]].concat();
        let pki = Pki::open(&options.home, &names)?;
        let store = Store::open(&store_folder, store::Options::default(), |_, _, _| Meta::default())?;
        let door = Door::bind(options.listen, &pki).await?;
        let address = door.address().map_err(|source| ServeError::Listen { address: options.listen, source })?;
        let server = ApiServer::open(store, &pki, options.training).await;
        let reached_at = reachable(address);
        server.set_address(&reached_at.to_string());
        server.bootstrap(address.port()).await?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(door.serve(server.clone(), stop.clone()));
        let kubeconfig = apiserver::kubeconfig::text(&pki, reached_at);
        let mut cluster = Cluster { server, address, kubeconfig, home: options.home, node: None, stop, tasks };
        if let Some(node) = options.node {
            let started =
                Node::start(cluster.server.clone(), &cluster.home, node, cluster.stop.clone(), &cluster.tasks);
            match started.await {
                Ok(node) => cluster.node = Some(node),
                Err(error) => {
                    cluster.stop().await;
                    return Err(error.into());
                }
            }
        }
        let pretended = node::pretend::start(&cluster.server, options.pretended, &cluster.stop, &cluster.tasks).await;
        if let Err(error) = pretended {
            cluster.stop().await;
            return Err(ClusterError::Pretend(error));
        }
        // After the nodes, so that the first round of scheduling finds them ready.
        let controllers =
            controllers::run(cluster.server.clone(), cluster.home.clone(), options.policy, cluster.stop.clone());
        cluster.tasks.spawn(controllers);
        Ok(cluster)
    }

    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    pub fn server(&self) -> &Arc<ApiServer> {
        &self.server
    }

    /// The bound address; the port is the real one when port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The admin's kubeconfig. It holds a key: write it where only its owner can read it.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// A client for parts of this process, without a socket.
    pub fn client(&self, part: &str) -> kube::Client {
        let user = User::authenticated(format!("system:volley:{part}"), ["system:masters".to_owned()]);
        InProcess::new(self.server.clone(), user).client()
    }

    /// Stops, and ends all pods, with this long between TERM and KILL. The machine is then as it was.
    pub async fn down(self, grace: Duration) -> Result<(), ClearError> {
        let home = self.home.clone();
        self.stop().await;
        node::clear(&home, grace).await
    }

    /// Stops answering, then the controllers; what was acknowledged is on disk already. Pods run on, and the next start
    /// takes them over.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        // Clients in this process that were dropped let go of the server, and so of the home, a moment later.
        let server = Arc::downgrade(&self.server);
        drop(self);
        let start = Instant::now();
        while server.strong_count() > 0 && start.elapsed() < LET_GO_MAX {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The address by which this machine's clients reach a server that listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => ([127, 0, 0, 1], v6.port()).into(),
        other => other,
    }
}
