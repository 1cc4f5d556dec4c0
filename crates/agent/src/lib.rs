//! `volley agent`: takes items from queues, runs them, follows them and tells the server how they end.
//!
//! `plan::agent` and `plan::launch` decide and render; this crate observes, does and reports. `desk` is the server, `runner`
//! where work runs (`kube`), `console` the logs, `picture` the cluster as people see it; `follow` hears of items, `take` takes them, `visit` is one look at one of
//! them, and `shell` hands out the looks. docs/notes/agent.md tells the story.

pub mod settings;
pub mod health;
pub mod runner;
pub mod item;
pub mod kube;
pub mod process;
pub mod container;
pub mod source;

mod attempt;
mod build;
mod claim;
mod console;
mod desk;
mod folder;
mod follow;
mod picture;
mod serving;
mod shell;
mod take;
mod visit;

use crate::kube::{KubeRunner, Terms, Wake};
use attempt::Bench;
use build::Builds;
use claim::Claims;
use console::Consoles;
use container::ContainerRunner;
use desk::Desk;
use folder::{Folder, Identity};
use health::{Health, Stage};
use item::Table;
use parking_lot::Mutex;
use process::ProcessRunner;
use runner::Failure;
use serde_json::{Value, json};
use shell::{Key, Limits, Shell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use volley_client::Client;
use volley_plan::agent::capacity::Limit;
use volley_plan::agent::config::{self, Config};
use volley_plan::agent::life::Timers;
use volley_plan::agent::serving::{Served, Wanted};
use volley_plan::launch::build::Builder;
use volley_plan::launch::job::Bases;
use volley_plan::launch::order::{Fetcher, Station};
use volley_turns::queue::Queue;

/// The base image of code whose job, queue and agent name none.
const BASE_IMAGE: &str = "python:3.12-slim";
/// Below the folder of all agents of a home: what of launches is on this machine.
const WORK: &str = "work";
/// Beside it: what images are built of, while they are.
const BUILDS: &str = "builds";
/// Between two tries to reach the server at the start.
const RETRY: Duration = Duration::from_secs(1);
/// The last word to the server does not keep the process.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// What an agent is told.
pub struct Options {
    pub config: Config,
    pub wanted: Wanted,
    pub client: Client,
    /// By which the server knows the agent. Workloads get it only of a server that makes no credentials of their own.
    pub key: String,
    /// What workloads call the server.
    pub workload_url: String,
    /// The cluster that work runs on, unless a queue names another.
    pub cluster: Option<::kube::Client>,
    /// Namespaces of workloads are made where they are missing.
    pub makes_namespaces: bool,
    /// Where it keeps what a restart needs.
    pub folder: PathBuf,
    /// What fetches code into pods, and the image that it runs in where nobody chose one.
    pub fetcher: Fetcher,
    pub base_image: Option<String>,
    /// Our own program, which keeps processes.
    pub program: PathBuf,
    /// Docker's own file, of which launches get what they need to pull their images; null for none.
    pub docker: Value,
    /// The agent's own variables, of which macros may read those that the settings allow.
    pub environment: BTreeMap<String, String>,
    pub health: Arc<Health>,
    pub on_stop: OnStop,
}

/// What becomes of running work when the agent stops (L-33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// It goes on, and the next agent takes it up.
    #[default]
    Detach,
    /// It is waited for; nothing more is taken.
    Drain,
    /// It is stopped, and that is waited for.
    Kill,
}

/// How somebody stops an agent: the second token ends it at once, whatever it waits for.
#[derive(Clone, Default)]
pub struct Stop {
    pub asked: CancellationToken,
    pub at_once: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("failed to use the folder `{}`", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("failed to speak with the server")]
    Server(#[source] volley_client::Error),
    #[error(
        "entity `{entity}` has no queue `{queue}`\nhint: it has {known}; `volley queue create {queue} -f FILE` makes one"
    )]
    NoQueue { entity: String, queue: String, known: String },
    #[error("failed to begin")]
    Begin(#[source] Failure),
}

impl AgentError {
    /// Trying again may help.
    fn is_passing(&self) -> bool {
        match self {
            AgentError::Server(error) | AgentError::Begin(Failure::Server(error)) => error.is_passing(),
            AgentError::Begin(_) | AgentError::Folder { .. } | AgentError::NoQueue { .. } => false,
        }
    }
}

/// Serves its queues until it is stopped, here or on the server. What runs goes on without it, unless it is to be waited for.
pub async fn run(options: Options, stop: Stop) -> Result<(), AgentError> {
    let (health, on_stop) = (options.health.clone(), options.on_stop);
    let begun = tokio::select! {
        () = stop.asked.cancelled() => return Ok(()),
        begun = begin(options) => begun?,
    };
    let shell = Arc::new(begun);
    tracing::info!(agent = shell.agent, entity = shell.entity, queues = ?shell.wanted.told(), "serves its queues");
    let leaving = async {
        stop.asked.cancelled().await;
        tokio::select! {
            () = shell.leave(on_stop) => (),
            () = stop.at_once.cancelled() => (),
        }
    };
    tokio::select! {
        () = leaving => (),
        () = shell.clone().follow() => tracing::info!("was stopped on the server"),
        () = shell.clone().work() => (),
        () = shell.clone().take_always() => (),
        () = shell.clone().tell_of_cluster() => (),
    }
    health.set(Stage::Stopped);
    let goodbye = shell.bench.client.report_agent(&shell.agent, "KILLED");
    if !matches!(tokio::time::timeout(GOODBYE_MAX, goodbye).await, Ok(Ok(()))) {
        tracing::debug!("the server was not told that the agent stops");
    }
    shell.consoles.close();
    shell.kube.close();
    shell.container.close();
    Ok(())
}

async fn begin(options: Options) -> Result<Shell, AgentError> {
    let failed = |source| AgentError::Folder { path: options.folder.clone(), source };
    let folder = Folder::claim(&options.folder).await.map_err(failed)?;
    let ((identity, queues), desk) = meet(&options, &folder).await?;
    let Options { config, wanted, client, key, workload_url, cluster, makes_namespaces, health, .. } = options;
    let keys: Arc<Queue<Key>> = Arc::default();
    let table: Arc<Table> = Arc::default();
    let woken = keys.clone();
    let wake: Wake = Arc::new(move |key| woken.add(Key(key.to_owned())));
    let (stopped, told) = (keys.clone(), table.clone());
    let on_stop: console::OnStop = Arc::new(move |key| {
        told.change(key, |entry| entry.item.is_stop_asked = true);
        stopped.add(Key(key.to_owned()));
    });
    let claims = Claims::new(&options.folder.join(WORK)).map_err(failed)?;
    let (program, grace) = (options.program, config.stop_grace);
    let process = ProcessRunner::new(claims.clone(), wake.clone(), client.clone(), program, grace);
    let builds = Builds::new(client.clone(), options.folder.join(BUILDS), wake.clone());
    let container = ContainerRunner::new(claims, wake.clone(), client.clone(), grace);
    let terms = Terms { wake, namespace: config.namespace.clone(), makes_namespaces };
    let consoles = Consoles::new(&folder.path.join("logs"), client.clone(), &desk, on_stop);
    let consoles = consoles.map_err(|source| AgentError::Folder { path: folder.path.clone(), source })?;
    let station = station(&config, &identity.agent, workload_url, options.environment);
    let bases = Bases { chosen: options.base_image, usual: Some(BASE_IMAGE.to_owned()), fetcher: options.fetcher };
    Ok(Shell {
        agent: identity.agent,
        entity: identity.entity,
        wanted,
        queues: Mutex::new(queues),
        told_queues: Mutex::default(),
        bench: Bench { client, station, key, bases, builder: builder(&config.builder), docker: options.docker },
        builds: Arc::new(builds),
        desk,
        table,
        keys,
        kube: Arc::new(KubeRunner::new(cluster, terms)),
        process: Arc::new(process),
        container: Arc::new(container),
        consoles,
        limits: Limits { jobs: config.max_jobs, schedulers: config.max_schedulers, amounts: config.capacity },
        timers: Timers { start: config.start_timeout },
        taking: Notify::new(),
        aside: Mutex::default(),
        is_leaving: AtomicBool::new(false),
        status: Mutex::default(),
        health,
        _folder: folder,
    })
}

/// Who builds, as far as this agent does (B-1).
fn builder(config: &config::Builder) -> Builder {
    match config.kind.as_deref() {
        Some("docker") => {
            Builder::Docker { destination: config.destination.clone(), platform: config.platform.clone() }
        }
        _ => Builder::Noop,
    }
}

/// Who the agent is on the server, and the queues that it serves there.
type Known = (Identity, Vec<Served>);

/// Finds out who it is on the server, and which sort of server that is. One that does not answer is waited for.
async fn meet(options: &Options, folder: &Folder) -> Result<(Known, Desk), AgentError> {
    let mut is_first = true;
    loop {
        let met = async {
            let known = identify(options, folder).await?;
            let desk = Desk::open(&options.client, &known.0.agent, &known.0.entity, &folder.path).await;
            Ok::<_, AgentError>((known, desk.map_err(AgentError::Begin)?))
        };
        match met.await {
            Err(error) if error.is_passing() => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                if std::mem::take(&mut is_first) {
                    tracing::warn!(url = options.client.url(), cause, "the server does not answer yet; will try again");
                }
                options.health.set(Stage::Troubled(cause));
                tokio::time::sleep(RETRY).await;
            }
            met => return met,
        }
    }
}

fn station(config: &Config, agent: &str, url: String, environment: BTreeMap<String, String>) -> Station {
    Station {
        agent: agent.to_owned(),
        base_url: url,
        namespace: config.namespace.clone(),
        policy: config.policy,
        submitter_policy: config.submitter_policy,
        is_secure: config.is_secure,
        environment,
        environment_allowed: config.macro_environment.clone(),
        has_registry_credentials: false,
        volume_prefixes: config.volume_prefixes.clone(),
        allows_processes: config.allows_processes,
    }
}

/// The agent that ran here last, if it served the same queues and the server still knows it; else a new one.
async fn identify(options: &Options, folder: &Folder) -> Result<Known, AgentError> {
    let client = &options.client;
    let (_, own) = client.viewer().await.map_err(AgentError::Server)?;
    let entity = options.config.entity.clone().unwrap_or(own);
    let queues = options.wanted.told();
    let served = first_queues(options, &entity).await?;
    // The agent of `volley up` has the server of its own home, which may be at another port after a restart.
    let is_at_home = matches!(options.wanted, Wanted::All(_));
    let known = folder.identity().filter(|last| {
        let is_server = is_at_home || last.url == client.url();
        is_server && last.entity == entity && last.queues == queues && !last.agent.is_empty()
    });
    if let Some(identity) = known
        && client.agent_is_told_to_stop(&identity.agent).await.is_ok_and(|is_stopped| !is_stopped)
    {
        return Ok((identity, served));
    }
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let snapshot = told(options, &entity);
    let ids = serving::ids(&served);
    let agent = client.register_agent(&entity, &ids, hostname.trim(), &snapshot).await.map_err(AgentError::Server)?;
    let identity = Identity { url: client.url().to_owned(), entity, queues, agent };
    let failed = |source| AgentError::Folder { path: folder.path.clone(), source };
    folder.keep(&identity).map_err(failed)?;
    Ok((identity, served))
}

/// The queues that it serves at first; all that are named must be there.
async fn first_queues(options: &Options, entity: &str) -> Result<Vec<Served>, AgentError> {
    let known = serving::known(&options.client, &options.wanted, entity).await.map_err(AgentError::Server)?;
    if let Wanted::Named(names) = &options.wanted {
        let is_missing = |name: &&String| !known.iter().any(|queue| queue.name == **name);
        if let Some(queue) = names.iter().find(is_missing).cloned() {
            let names: Vec<String> = known.into_iter().map(|queue| queue.name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(AgentError::NoQueue { entity: entity.to_owned(), queue, known });
        }
    }
    Ok(serving::served(&options.wanted, &known))
}

/// What people see of the agent's settings.
fn told(options: &Options, entity: &str) -> Value {
    let number = |limit: Limit| match limit {
        Limit::AtMost(most) => i64::from(most),
        Limit::Unlimited => -1,
    };
    let config = &options.config;
    json!({ "entity": entity, "queues": options.wanted.told(), "max_jobs": number(config.max_jobs),
        "max_schedulers": number(config.max_schedulers), "namespace": config.namespace })
}
