//! `volley cluster`: the embedded cluster alone in the foreground, and what concerns only the cluster.

mod api;
mod backup;

use crate::cli::Global;
use crate::home::Home;
use crate::host::{self, Hangup, Start};
use crate::settings::Settings;
use anyhow::Result;
use api::Api;
use backup::{Backup, Restore};
use clap::{Args, Subcommand};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley cluster                          serve until interrupted, for service managers and containers
  volley cluster --listen 0.0.0.0:6443
  volley cluster --fake-gpus 4            a node that pretends to have GPUs
  volley cluster --pretend-nodes 5000x8gpu,label.zone=a
                                          nodes that are not there; pods run for their volley.dev/run-seconds
  volley cluster api                      which kinds run, are only stored, are not served
  volley cluster backup before.volley
  volley cluster restore before.volley

SIGTERM leaves pods running, and the next start adopts them. Ctrl-C ends them, as `volley down` does.
Options that are not given are looked up in config.yaml in the home, where they are keys: `fake-gpus: 4`.";

/// Run the embedded cluster in the foreground, or look after its store
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct ClusterVerb {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum What {
    Api(Api),
    Backup(Backup),
    Restore(Restore),
}

impl ClusterVerb {
    pub fn run(self, global: &Global, home: &Home) -> Result<ExitCode> {
        match self.what {
            Some(What::Api(verb)) => verb.run(),
            Some(What::Backup(verb)) => verb.run(home),
            Some(What::Restore(verb)) => verb.run(home),
            None => {
                let start = Start {
                    settings: &self.settings,
                    has_operator: false,
                    has_server: false,
                    has_agent: false,
                    hangup: Hangup::Stops,
                };
                host::run(global, home, start, |ready| {
                    ready.notes.iter().for_each(|note| eprintln!("note: {note}"));
                    Ok(())
                })?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
