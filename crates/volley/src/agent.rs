//! `volley agent`: serves queues in the foreground, ours or W&B's, on any cluster.

use crate::cli::Global;
use crate::home::Home;
use crate::host::agent::{PROGRAM, node_address};
use crate::logging;
use crate::remote::{Login, Remote};
use crate::target::TargetArgs;
use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use volley_agent::{OnStop, Options, Stop, settings};
use volley_client::Client;
use volley_plan::agent::config::{Config, Flags};
use volley_plan::agent::serving::Wanted;
use volley_plan::launch::order::Fetcher;

/// Fetches code in a cluster: has Python, git and W&B's client.
const FETCHER_IMAGE: &str = "wandb/launch-agent:latest";

const EXAMPLES: &str = "\
Examples:
  volley agent -q gpu                       serve a queue of your own on the cluster that kubectl speaks to
  volley agent -q gpu -q cpu -e team -j 8   two queues of a team, eight launches at a time
  volley agent -c launch-config.yaml        as W&B's agent is told
  volley agent -q gpu --url https://volley.example --kubeconfig prod.yaml

The key is read from VOLLEY_API_KEY or WANDB_API_KEY, else it is that of `volley login`, else that in ~/.netrc.
SIGTERM and Ctrl-C leave what runs to the next start, which takes it up again. With `--on-stop drain` the agent takes nothing
more and ends when its work has ended; with `--on-stop kill` it stops its work first. The second signal does not wait.";

/// Take launches from queues and run them, in the foreground
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentVerb {
    /// A queue to serve; may be repeated [default: those of the file]
    #[arg(short, long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// The user or team whose queues they are [default: the file's, else your own]
    #[arg(short, long, value_name = "NAME")]
    entity: Option<String>,
    /// Launches that run at the same time; -1 means any number [default: the file's, else 1]
    #[arg(short = 'j', long, value_name = "N", allow_hyphen_values = true)]
    max_jobs: Option<i64>,
    /// The settings [default: ~/.config/wandb/launch-config.yaml, if it is there]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server [default: $WANDB_BASE_URL, the file's, the one of `volley login`, or of `volley up`]
    #[arg(long, env = "VOLLEY_SERVER", value_name = "URL")]
    url: Option<String>,
    /// What becomes of running work when the agent is stopped
    #[arg(long, value_name = "HOW", default_value = "detach")]
    on_stop: How,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// The next agent takes it up
    Detach,
    /// It is waited for, and nothing more is taken
    Drain,
    /// It is stopped
    Kill,
}

impl AgentVerb {
    pub fn run(self, global: &Global, home: &Home) -> Result<ExitCode> {
        logging::start(global)?;
        leave_no_core();
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let flags = Flags {
            entity: self.entity.clone(),
            max_jobs: self.max_jobs,
            queues: self.queues.clone(),
            verbosity: None,
        };
        let (config, told) = settings::load(self.config.as_deref(), &environment, &flags)?;
        told.iter().for_each(|line| eprintln!("note: {line}"));
        let login = self.login(home, &config, &environment)?;
        home.create()?;
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(self.serve(home, config, login, environment))?;
        Ok(ExitCode::SUCCESS)
    }

    fn login(&self, home: &Home, config: &Config, environment: &BTreeMap<String, String>) -> Result<Login> {
        // What the environment says is in the settings already.
        let url = self.url.clone().or_else(|| config.base_url.clone());
        let known = Remote { server: url.clone(), entity: None }.login(home);
        match (known, url) {
            (Err(error), Some(url)) => {
                let key = netrc_key(environment, &url).ok_or(error)?;
                Ok(Login { url, key })
            }
            (known, _) => known,
        }
    }

    async fn serve(
        self,
        home: &Home,
        config: Config,
        login: Login,
        environment: BTreeMap<String, String>,
    ) -> Result<()> {
        let stop = Stop::default();
        let cluster = match self.target.client(home).await {
            Ok(cluster) => Some(cluster),
            // Work must not run on another cluster than the one that was meant.
            Err(error) if self.target.is_named() => return Err(error),
            Err(error) => {
                tracing::warn!("no cluster of its own: {error:#}");
                None
            }
        };
        let workload_url = match &cluster {
            Some(cluster) => url_for_pods(cluster, &login).await.unwrap_or_else(|| login.url.clone()),
            None => login.url.clone(),
        };
        let options = Options {
            wanted: Wanted::Named(config.queues.clone()),
            config,
            client: Client::new(&login.url, &login.key)?,
            key: login.key,
            workload_url,
            cluster,
            makes_namespaces: false,
            folder: home.agent(),
            fetcher: Fetcher { image: FETCHER_IMAGE.to_owned(), program: None },
            base_image: None,
            program: PathBuf::from(PROGRAM),
            docker: settings::docker(&environment),
            environment,
            health: Arc::default(),
            on_stop: match self.on_stop {
                How::Detach => OnStop::Detach,
                How::Drain => OnStop::Drain,
                How::Kill => OnStop::Kill,
            },
        };
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let words = stop.clone();
        let hearing = async {
            for word in [words.asked, words.at_once] {
                tokio::select! {
                    _ = interrupt.recv() => (),
                    _ = terminate.recv() => (),
                }
                word.cancel();
            }
            std::future::pending().await
        };
        tokio::select! {
            result = volley_agent::run(options, stop) => result.map_err(|error| anyhow!(error)),
            () = hearing => Ok(()),
        }
    }
}

/// Lets this process leave no core when it dies, and nobody else's debugger in: it holds keys. What it starts is not
/// affected.
pub fn leave_no_core() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a core of this process would hold its keys");
    }
}

/// Pods of a cluster on this machine cannot use a loopback address of its: there it is their own. `volley up` answers them
/// at the node's address, by the same port.
async fn url_for_pods(cluster: &kube::Client, login: &Login) -> Option<String> {
    let (host, port) = login.url.strip_prefix("http://")?.trim_end_matches('/').rsplit_once(':')?;
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let own = if is_loopback { node_address(cluster).await? } else { return None };
    let url = format!("http://{}", SocketAddr::new(own, port.parse().ok()?));
    Client::new(&url, &login.key).ok()?.is_volley().await.ok()?.then_some(url)
}

/// The key that W&B's clients would use for this server.
fn netrc_key(environment: &BTreeMap<String, String>, url: &str) -> Option<String> {
    let usual = || environment.get("HOME").map(|home| Path::new(home).join(".netrc"));
    let path = environment.get("NETRC").map(PathBuf::from).or_else(usual)?;
    let host = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', ':']).next()?;
    key_in(&fs::read_to_string(path).ok()?, host)
}

fn key_in(netrc: &str, host: &str) -> Option<String> {
    let mut words = netrc.split_whitespace();
    let mut is_host = false;
    while let Some(word) = words.next() {
        match word {
            "machine" => is_host = words.next() == Some(host),
            "default" => is_host = false,
            "password" if is_host => return words.next().map(str::to_owned),
            _ => (),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_host_is_found_in_netrc() {
        let text = "machine a login x password one\nmachine b\n  login user\n  password two\n";
        assert_eq!(key_in(text, "b").as_deref(), Some("two"));
        assert_eq!(key_in(text, "c"), None);
    }
}
