//! `volley cluster`: a Kubernetes-compatible single-node cluster in one process.
//!
//! `Cluster::start` opens the store, makes the keys, binds the port, starts the controllers and returns when clients are
//! answered. The API server is in `apiserver`, what keeps objects in `store`, what makes them live in `controllers`.

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
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_plan::access::User;

/// How a cluster is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// `$VOLLEY_HOME`: the store, the keys and the volumes are below it.
    pub home: PathBuf,
    /// Where clients are answered; loopback unless the user says otherwise.
    pub listen: SocketAddr,
    /// Further names or addresses for the server's certificate.
    pub names: Vec<String>,
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
}

/// A running cluster.
pub struct Cluster {
    server: Arc<ApiServer>,
    address: SocketAddr,
    kubeconfig: String,
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
        let server = ApiServer::open(store, &pki).await;
        let reached_at = reachable(address);
        server.set_address(&reached_at.to_string());
        server.bootstrap(address.port()).await?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(controllers::run(server.clone(), options.home.clone(), stop.clone()));
        tasks.spawn(door.serve(server.clone(), stop.clone()));
        let kubeconfig = apiserver::kubeconfig::text(&pki, reached_at);
        Ok(Cluster { server, address, kubeconfig, stop, tasks })
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

    /// Stops answering, then the controllers; what was acknowledged is on disk already.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
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
