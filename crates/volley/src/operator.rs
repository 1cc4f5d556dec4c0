//! `volley operator`: the operator alone in the foreground, on any Kubernetes; and what such a cluster needs for it.
//!
//! `preflight` says what is missing before anything starts, `probes` answers a kubelet, `manifests` prints the objects to
//! apply.

mod manifests;
mod placing;
mod preflight;
mod probes;

use crate::cli::Global;
use crate::logging;
use crate::settings::OperatorArgs;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use manifests::Manifests;
use placing::PlacingArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use volley_api::kubeflow::kinds::ROWS;
use volley_operator::lead::Election;
use volley_operator::manifests::{NAME, NAMESPACE};
use volley_operator::{Options, Rate};
use volley_plan::job::training::Gate;
use volley_plan::lease::USUAL;

/// The reference's number.
const GATE_TRIES_DEFAULT: u32 = 100;

const EXAMPLES: &str = "\
Examples:
  kubectl apply -f deploy/                       install it on the cluster that kubectl speaks to
  volley operator                                run it here, for that cluster
  volley operator --kubeconfig prod.yaml --context blue
  volley operator --gang-scheduler-name volcano  training jobs are placed as a whole
  volley operator manifests --image registry.lan/volley:1 | kubectl apply -f -

In a pod it uses the pod's own account. Of several replicas one works and the others wait.
SIGTERM and Ctrl-C finish what is under way and let another replica take over at once; jobs run on.";

/// Run the operator for training jobs in the foreground, on any Kubernetes
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct OperatorVerb {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum What {
    Manifests(Manifests),
}

#[derive(Args)]
struct Run {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Look at this namespace only [default: all]
    #[arg(long, value_name = "NAME", env = "KUBEFLOW_NAMESPACE", hide_env = true)]
    namespace: Option<String>,
    /// Look after this kind of Kubeflow's only, such as pytorchjob; may be repeated [default: all]
    #[arg(long = "enable-scheme", value_name = "KIND", value_parser = scheme)]
    schemes: Vec<String>,
    #[command(flatten)]
    jobs: OperatorArgs,
    /// Work only while no other replica does
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    leader_elect: bool,
    /// The Lease that says who works
    #[arg(long, value_name = "NAME", default_value = NAME, alias = "leader-elect-resource-name")]
    leader_election_id: String,
    /// The namespace of that Lease [default: the pod's own, or volley-system]
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        hide_env = true,
        aliases = ["leader-elect-resource-namespace", "lock-object-namespace"]
    )]
    lease_namespace: Option<String>,
    /// Where /healthz, /readyz and /metrics answer, such as :8081 [default: nowhere]
    #[arg(long, value_name = "ADDR", alias = "metrics-bind-address")]
    health_probe_bind_address: Option<String>,
    /// Calls a second on the cluster's API
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_qps: Option<u32>,
    /// Calls at once after a rest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_burst: Option<u32>,
    /// Jobs looked at side by side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    controller_threads: Option<u16>,
    /// Let PyTorchJobs' workers wait for their master in an init container of this image
    #[arg(long, value_name = "IMAGE")]
    pytorch_init_container_image: Option<String>,
    /// How often that container looks for the master, every two seconds [default: 100]
    #[arg(long, value_name = "N", requires = "pytorch_init_container_image")]
    pytorch_init_container_max_tries: Option<u32>,
    /// The image that brings kubectl to MPIJobs' launchers
    #[arg(long, value_name = "IMAGE")]
    mpi_kubectl_delivery_image: Option<String>,
    #[command(flatten)]
    placing: PlacingArgs,
}

/// A kind of Kubeflow's, in whatever letters.
fn scheme(word: &str) -> Result<String, String> {
    let names = || ROWS.iter().map(|row| row.name);
    match names().find(|name| name.eq_ignore_ascii_case(word)) {
        Some(name) => Ok(name.to_lowercase()),
        None => Err(format!("the kinds are {}", names().collect::<Vec<_>>().join(", "))),
    }
}

impl OperatorVerb {
    pub fn run(self, global: &Global) -> Result<ExitCode> {
        match self.what {
            Some(What::Manifests(verb)) => verb.run(),
            None => {
                logging::start(global)?;
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                runtime.block_on(self.run.serve())?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Run {
    async fn serve(self) -> Result<()> {
        let config = self.config().await?;
        tracing::info!("the cluster is {}", config.cluster_url);
        let client = Client::try_from(config)?;
        let options = self.options();
        preflight::check(&client, &options).await?;
        let stop = CancellationToken::new();
        tokio::spawn(until_signal(stop.clone())?);
        for warning in self.placing.warnings() {
            tracing::warn!("{warning}");
        }
        for address in self.health_probe_bind_address.iter().cloned().chain(self.placing.addresses()) {
            tokio::spawn(probes::serve(probes::bind(&address).await?, options.health.clone()));
        }
        Ok(volley_operator::run(client, options, stop).await?)
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match (&self.kubeconfig, &self.context) {
            (Some(path), _) => {
                let file = Kubeconfig::read_from(path)
                    .with_context(|| format!("failed to read the kubeconfig `{}`", path.display()))?;
                Config::from_custom_kubeconfig(file, &options)
                    .await
                    .with_context(|| format!("the kubeconfig `{}` leads to no cluster", path.display()))?
            }
            (None, Some(_)) => {
                Config::from_kubeconfig(&options).await.context("the kubeconfig leads to no cluster")?
            }
            (None, None) => Config::infer().await.context(
                "no cluster is known here\nhint: name a kubeconfig with --kubeconfig or $KUBECONFIG; `volley kubeconfig` \
                 has that of the embedded cluster",
            )?,
        };
        Ok(config)
    }

    fn options(&self) -> Options {
        let mut options = self.jobs.options();
        options.rate = Rate {
            per_second: self.kube_api_qps.unwrap_or(options.rate.per_second),
            burst: self.kube_api_burst.unwrap_or(options.rate.burst),
        };
        options.visits = self.controller_threads.map_or(options.visits, usize::from);
        options.namespace = self.namespace.clone().filter(|name| !name.is_empty());
        options.schemes = self.schemes.iter().cloned().collect();
        options.realm = self.placing.realm();
        if let Some(image) = &self.pytorch_init_container_image {
            let tries = self.pytorch_init_container_max_tries.unwrap_or(GATE_TRIES_DEFAULT);
            options.training.gate = Gate::init_container(image, tries);
        }
        if let Some(image) = &self.mpi_kubectl_delivery_image {
            options.training.kubectl_image = image.clone();
        }
        options.election = self.leader_elect.then(|| Election {
            namespace: self.lease_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
            name: self.leader_election_id.clone(),
            identity: identity(),
            timing: USUAL,
        });
        options
    }
}

/// This process among all that ever wanted to lead: two on one machine differ, and so do two of one name, one after the
/// other.
fn identity() -> String {
    let host = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let host = host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.map_or_else(|| "volley".to_owned(), |name| name.trim().to_owned());
    format!("{host}_{}", uuid::Uuid::new_v4())
}

fn until_signal(stop: CancellationToken) -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    })
}
