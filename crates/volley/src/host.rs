//! The process that runs the parts: claim the home, start, say so, wait for the end, stop.
//!
//! `up` (in the background or the foreground) and `cluster` call `run`; verbs reach the process through `control`, which
//! asks `running`. A signal to terminate leaves pods running for the next start, as it does with a kubelet; an interrupt and
//! `volley down` end them.

pub mod agent;
pub mod operator;
pub mod running;
pub mod server;

use crate::agent::leave_no_core;
use crate::cli::Global;
use crate::control;
use crate::down::GRACE_DEFAULT_S;
use crate::home::{Claim, Home, write_private};
use crate::image::map;
use crate::logging;
use crate::settings::Settings;
use crate::status::{self, Status};
use agent::Agent;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use futures::FutureExt;
use operator::Operator;
use running::Running;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use volley_api::kubeflow::Rules;
use volley_cluster::apiserver::serve::ServeError;
use volley_cluster::{Cluster, ClusterError, Options, node};
use volley_server::Server;

/// What is loaded lazily after the start has been by then.
const REST_AFTER: Duration = Duration::from_secs(1);
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
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
    /// What went otherwise than by default.
    pub notes: Vec<String>,
    /// Opened in a browser, signs the first user in, once; only a new server has one.
    pub link: Option<String>,
}

/// What ends the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// The terminal is closed: stop.
    Stops,
    /// A background process outlives the terminal that it was started from.
    IsIgnored,
}

/// How the process is started.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub settings: &'a Settings,
    /// Whether the operator runs beside the cluster.
    pub has_operator: bool,
    /// Whether the control plane runs beside the cluster.
    pub has_server: bool,
    /// Whether an agent serves its owner's queues of that server.
    pub has_agent: bool,
    pub hangup: Hangup,
}

/// Claims the home for as long as `work` takes, if no process runs in it.
pub fn alone<T>(home: &Home, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _claim = claim(home).await?;
        work.await
    })
}

/// Runs until a signal or `volley down`; `tell` is called once, when clients are answered.
pub fn run(global: &Global, home: &Home, start: Start<'_>, tell: impl FnOnce(&Ready) -> Result<()>) -> Result<()> {
    logging::start(global)?;
    if start.has_server {
        leave_no_core();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build()?;
    let result = runtime.block_on(host(home, start, tell));
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
    start: Start<'_>,
    tell: impl FnOnce(&Ready) -> Result<()>,
) -> Result<(Claim, Option<std::os::unix::net::UnixStream>)> {
    let claim = claim(home).await?;
    let asked = serve(home, start, tell).await?;
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
async fn serve(home: &Home, start: Start<'_>, tell: impl FnOnce(&Ready) -> Result<()>) -> Result<Option<UnixStream>> {
    let settings = start.settings.clone().with_file(home)?;
    let (announce, running) = watch::channel(None);
    let (stop_sender, stop_requests) = mpsc::channel(1);
    tokio::spawn(control::serve(control::bind(home)?, running, stop_sender));
    let mut ends = Ends::new(start.hangup, stop_requests)?;

    let options = operator::options(&settings.operator, home.folder());
    let (address, note) = settings.listen.choose();
    // Both wait for the disk, so they do it at the same time.
    let parts = async {
        let cluster = start_cluster(home, address, &settings, options.training.rules());
        match start.has_server {
            true => {
                let (cluster, server) = tokio::join!(cluster, server::start(home, &settings.server));
                anyhow::Ok((cluster?, Some(server?)))
            }
            false => Ok((cluster.await?, None)),
        }
    };
    let (cluster, server) = tokio::select! {
        started = parts => started?,
        end = ends.next() => {
            if let End::Down { grace, .. } = &end {
                node::clear(home.folder(), *grace).await.context("failed to end what an earlier process left")?;
            }
            return Ok(end.asked());
        }
    };
    write_private(&home.kubeconfig(), cluster.kubeconfig())?;
    let operator = match start.has_operator {
        true => Some(Operator::start(&cluster, options).await),
        false => None,
    };
    let (server, server_note) = server.unzip();
    let agent = match &server {
        Some(server) if start.has_agent => Some(Agent::start(home, &cluster, server, !settings.node.no_node).await),
        _ => None,
    };
    let parts = (operator.as_ref(), server.as_ref(), agent.as_ref());
    let running = Arc::new(Running::new(home, &settings, &cluster, parts));
    announce.send_replace(Some(running.clone()));
    tracing::info!(address = %cluster.address(), home = %home.folder().display(), "ready");
    let notes = note.into_iter().chain(server_note.flatten()).collect();
    let link = server.as_ref().and_then(Server::first_link);
    tell(&Ready { status: running.status().await, notes, link })?;
    tokio::spawn(rest());

    let end = ends.next().await;
    announce.send_replace(None);
    drop(running);
    let stopped = stop((cluster, operator, server, agent), &end, &mut ends).await;
    let mut asked = end.asked();
    if let (Err(error), Some(asked)) = (&stopped, &mut asked) {
        control::tell_failure(asked, error).await?;
    }
    stopped.map(|()| asked)
}

/// Once the start is over, its code need not stay resident.
async fn rest() {
    tokio::time::sleep(REST_AFTER).await;
    if let Err(error) = volley_cluster::runtime::give_back_code() {
        tracing::debug!(%error, "the start's code stays resident");
    }
}

/// What runs.
type Parts = (Cluster, Option<Operator>, Option<Server>, Option<Agent>);

/// Stops everything, unless it takes too long or a signal says to leave it.
async fn stop(parts: Parts, end: &End, ends: &mut Ends) -> Result<()> {
    let (cluster, operator, server, agent) = parts;
    // Before the cluster, so that it does not see pods end and make new ones.
    let operator = async {
        if let Some(agent) = agent {
            agent.stop().await;
        }
        if let Some(operator) = operator {
            operator.stop().await;
        }
        if let Some(server) = server {
            server.stop().await;
        }
    };
    let (limit, stopped) = match end {
        End::Leave => {
            tracing::info!("stopping; pods go on and are adopted by the next start");
            (STOP_TIMEOUT, operator.then(|()| cluster.stop()).map(Ok).boxed())
        }
        End::Down { grace, .. } => {
            tracing::info!(?grace, "stopping, pods too");
            (STOP_TIMEOUT.saturating_add(*grace), operator.then(|()| cluster.down(*grace)).boxed())
        }
    };
    let hint = "hint: `volley down` again ends what is left";
    tokio::select! {
        done = stopped => done.with_context(|| format!("failed to end the pods\n{hint}")),
        () = tokio::time::sleep(limit) => Err(anyhow!("not everything stopped within {limit:?}\n{hint}")),
        () = ends.signalled() => Err(anyhow!("a further signal came before everything had stopped\n{hint}")),
    }
}

async fn start_cluster(home: &Home, listen: SocketAddr, settings: &Settings, training: Rules) -> Result<Cluster> {
    let node = settings.node.options(map::kept(home)?)?;
    let names = settings.listen.names.clone();
    let pretended = settings.node.pretended()?;
    let policy = settings.operator.policy();
    let options = Options { names, node, pretended, training, policy, ..Options::new(home.folder(), listen) };
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

/// Somebody asked for the end over the socket.
pub struct StopRequest {
    pub grace: Duration,
    /// Told of the end by the closing of this.
    pub asked: UnixStream,
}

/// How the process is to end.
enum End {
    /// Pods go on; the next start adopts them.
    Leave,
    /// Pods end, after their grace.
    Down { grace: Duration, asked: Option<UnixStream> },
}

impl End {
    /// The connection of the one who asked for it, if somebody did.
    fn asked(self) -> Option<UnixStream> {
        match self {
            End::Leave => None,
            End::Down { asked, .. } => asked,
        }
    }
}

/// Everything that ends the process.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    terminal_closed: Signal,
    hangup: Hangup,
    stop_requests: mpsc::Receiver<StopRequest>,
}

impl Ends {
    fn new(hangup: Hangup, stop_requests: mpsc::Receiver<StopRequest>) -> Result<Ends> {
        let listen_for = |kind| signal(kind).context("failed to listen for signals");
        Ok(Ends {
            terminate: listen_for(SignalKind::terminate())?,
            interrupt: listen_for(SignalKind::interrupt())?,
            terminal_closed: listen_for(SignalKind::hangup())?,
            hangup,
            stop_requests,
        })
    }

    /// Waits for a signal alone: who asks over the socket for an end that is under way waits for it like the first.
    async fn signalled(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    async fn next(&mut self) -> End {
        let by_hand = End::Down { grace: Duration::from_secs(GRACE_DEFAULT_S), asked: None };
        tokio::select! {
            _ = self.terminate.recv() => End::Leave,
            _ = self.interrupt.recv() => by_hand,
            _ = self.terminal_closed.recv(), if self.hangup == Hangup::Stops => by_hand,
            Some(StopRequest { grace, asked }) = self.stop_requests.recv() => End::Down { grace, asked: Some(asked) },
        }
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
