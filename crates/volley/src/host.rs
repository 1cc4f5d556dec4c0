//! The process that runs the parts: claim the home, start, say so, wait for the end, stop.
//!
//! `up` (in the background or the foreground) and `cluster` call `run`; verbs reach the process through `control`.

use crate::cli::Global;
use crate::control::{self, Saved};
use crate::home::{Claim, Home, write_private};
use crate::logs;
use crate::status::{self, PartStatus, Process, Status};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use volley_cluster::apiserver::serve::ServeError;
use volley_cluster::{Cluster, ClusterError, Options};

/// Where kubectl looks for an API server by custom.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);
/// Parts that have not stopped by then are cut off; whatever was acknowledged is on disk long before.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// A killed process is gone within milliseconds, on a very busy machine within a second.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);
const CLAIM_PAUSE: Duration = Duration::from_millis(5);
/// One thread answers while another works; the store's writer has its own.
const WORKER_THREADS: usize = 2;

/// How the parts listen.
#[derive(Debug, Clone, Args)]
pub struct Listen {
    /// Where the API answers; port 0 takes a free one [default: 127.0.0.1:6443, or a free port if that is taken]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// A further name or address that clients call the API by, for its certificate; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    pub names: Vec<String>,
}

/// What the one who starts the process is told when it is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    pub status: Status,
    /// Something that went otherwise than by default.
    pub note: Option<String>,
}

/// What ends the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// The terminal is closed: stop.
    Stops,
    /// A background process outlives the terminal that it was started from.
    IsIgnored,
}

/// Runs until a signal or `volley down`; `tell` is called once, when clients are answered.
pub fn run(
    global: &Global,
    home: &Home,
    listen: &Listen,
    hangup: Hangup,
    tell: impl FnOnce(&Ready) -> Result<()>,
) -> Result<()> {
    logs::start(global)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build()?;
    let result = runtime.block_on(host(home, listen, hangup, tell));
    if let Err(error) = &result {
        tracing::error!("{error:#}");
    }
    // Ends what connections still hold, the store above all; a thread that blocks for longer must not keep the process.
    runtime.shutdown_timeout(STOP_TIMEOUT);
    let (claim, asked) = result?;
    // In this order: the one who asked for the end takes the closed connection for it, and may start another at once.
    drop(claim);
    drop(asked);
    Ok(())
}

/// Serves until the end. What comes back is to be held until nothing runs any more: the claim, and the connection of the
/// one who asked for the end.
async fn host(
    home: &Home,
    listen: &Listen,
    hangup: Hangup,
    tell: impl FnOnce(&Ready) -> Result<()>,
) -> Result<(Claim, Option<std::os::unix::net::UnixStream>)> {
    let claim = claim(home).await?;
    let asked = serve(home, listen, hangup, tell).await?;
    Ok((claim, asked.map(UnixStream::into_std).transpose()?))
}

/// Claims the home, unless somebody answers there. One that does not answer is on its way out: it was killed, and the
/// kernel is about to give its lock up.
async fn claim(home: &Home) -> Result<Claim> {
    let began = Instant::now();
    loop {
        if let Some(claim) = home.claim()? {
            return Ok(claim);
        }
        if began.elapsed() > CLAIM_TIMEOUT || status::of(home)?.is_some() {
            bail!(
                "another volley runs in `{}`\nhint: `volley status` shows it, `volley down` stops it; or choose another \
                 folder with --home",
                home.folder().display()
            );
        }
        tokio::time::sleep(CLAIM_PAUSE).await;
    }
}

/// Serves until the end; the connection of the one who asked for it, if somebody did.
async fn serve(
    home: &Home,
    listen: &Listen,
    hangup: Hangup,
    tell: impl FnOnce(&Ready) -> Result<()>,
) -> Result<Option<UnixStream>> {
    let (announce, running) = watch::channel(None);
    let (stop_sender, stop_requests) = mpsc::channel(1);
    tokio::spawn(control::serve(control::bind(home)?, running, stop_sender));
    let mut ends = Ends::new(hangup, stop_requests)?;

    let (address, note) = listen.choose();
    let cluster = tokio::select! {
        started = start(home, address, listen.names.clone()) => started?,
        asked = ends.next() => return Ok(asked),
    };
    write_private(&home.kubeconfig(), cluster.kubeconfig())?;
    let running = Arc::new(Running::new(home, &cluster));
    announce.send_replace(Some(running.clone()));
    tracing::info!(address = %cluster.address(), home = %home.folder().display(), "ready");
    tell(&Ready { status: running.status().await, note })?;

    let asked = ends.next().await;
    tracing::info!("stopping");
    announce.send_replace(None);
    drop(running);
    if tokio::time::timeout(STOP_TIMEOUT, cluster.stop()).await.is_err() {
        tracing::warn!(?STOP_TIMEOUT, "not everything stopped in time");
    }
    Ok(asked)
}

async fn start(home: &Home, listen: SocketAddr, names: Vec<String>) -> Result<Cluster> {
    let options = Options { home: home.folder().to_owned(), listen, names };
    Cluster::start(options).await.map_err(|error| {
        let what = match listen_hint(&error, listen) {
            Some(hint) => format!("failed to start the cluster\nhint: {hint}"),
            None => "failed to start the cluster".to_owned(),
        };
        anyhow!(error).context(what)
    })
}

fn listen_hint(error: &ClusterError, listen: SocketAddr) -> Option<String> {
    let ClusterError::Serve(ServeError::Listen { source, .. }) = error else { return None };
    let (ip, port) = (listen.ip(), listen.port());
    match source.kind() {
        ErrorKind::AddrInUse => {
            Some(format!("port {port} is taken; choose another, or let the system choose one with --listen {ip}:0"))
        }
        ErrorKind::AddrNotAvailable => Some(format!("this machine has no address {ip}; try 127.0.0.1 or 0.0.0.0")),
        ErrorKind::PermissionDenied => Some(format!("port {port} needs special rights; choose one above 1023")),
        _ => None,
    }
}

impl Listen {
    /// The address to ask for. Only a default may give way: a user who names a port wants that one or an error.
    fn choose(&self) -> (SocketAddr, Option<String>) {
        if let Some(wanted) = self.listen {
            return (wanted, None);
        }
        match TcpListener::bind(LISTEN_DEFAULT) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let note = format!("port {} is taken, so a free one was chosen", LISTEN_DEFAULT.port());
                (SocketAddr::new(LISTEN_DEFAULT.ip(), 0), Some(note))
            }
            _ => (LISTEN_DEFAULT, None),
        }
    }
}

/// Everything that ends the process.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    terminal_closed: Signal,
    hangup: Hangup,
    stop_requests: mpsc::Receiver<UnixStream>,
}

impl Ends {
    fn new(hangup: Hangup, stop_requests: mpsc::Receiver<UnixStream>) -> Result<Ends> {
        let listen_for = |kind| signal(kind).context("failed to listen for signals");
        Ok(Ends {
            terminate: listen_for(SignalKind::terminate())?,
            interrupt: listen_for(SignalKind::interrupt())?,
            terminal_closed: listen_for(SignalKind::hangup())?,
            hangup,
            stop_requests,
        })
    }

    /// Waits for the end; the connection of the one who asked for it, if somebody did.
    async fn next(&mut self) -> Option<UnixStream> {
        tokio::select! {
            _ = self.terminate.recv() => None,
            _ = self.interrupt.recv() => None,
            _ = self.terminal_closed.recv(), if self.hangup == Hangup::Stops => None,
            asked = self.stop_requests.recv() => asked,
        }
    }
}

/// What the control socket needs of the running parts.
pub struct Running {
    home: Home,
    started: Timestamp,
    cluster: Arc<volley_cluster::apiserver::ApiServer>,
    client: kube::Client,
}

impl Running {
    fn new(home: &Home, cluster: &Cluster) -> Running {
        Running {
            home: home.clone(),
            started: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default(),
            cluster: cluster.server().clone(),
            client: cluster.client("status"),
        }
    }

    pub async fn status(&self) -> Status {
        let process = Process {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            kubeconfig: self.home.kubeconfig(),
        };
        let cluster = PartStatus {
            name: "cluster".to_owned(),
            health: self.cluster_health().await,
            address: format!("https://{}", self.cluster.address()),
        };
        Status { running: true, home: self.home.folder().to_owned(), process: Some(process), parts: vec![cluster] }
    }

    async fn cluster_health(&self) -> String {
        let request = http::Request::get("/readyz").body(Vec::new());
        let Ok(request) = request else { return "no request could be made".to_owned() };
        match self.client.request_text(request).await {
            Ok(text) => text,
            Err(error) => error.to_string(),
        }
    }

    pub async fn backup(&self, file: PathBuf) -> Result<Saved> {
        let (store, target) = (self.cluster.store.clone(), file.clone());
        // Reading and writing all of it takes a while: not on a thread that answers clients.
        let verified = tokio::task::spawn_blocking(move || store.backup(&target)).await??;
        Ok(Saved { file, revision: verified.revision, objects: verified.objects, bytes: verified.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_default_port_gives_way_and_a_named_one_does_not() {
        // Whether or not another program has the port already, it is taken after this line.
        let _taken = TcpListener::bind(LISTEN_DEFAULT);
        let (address, note) = Listen { listen: None, names: Vec::new() }.choose();
        assert_eq!(address.port(), 0);
        assert!(note.is_some_and(|note| note.contains("6443")));
        let named = Listen { listen: Some(LISTEN_DEFAULT), names: Vec::new() };
        assert_eq!(named.choose(), (LISTEN_DEFAULT, None));
    }
}
