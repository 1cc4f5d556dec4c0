//! `volley`: the command line and the wiring.
//!
//! One file per verb, named like it. `host` is the process that runs the parts, `control` how verbs talk to it, `home`
//! where it keeps its files, `target` how verbs find a cluster, `failure` and `output` what the user sees.

mod cli;
mod up;
mod down;
mod purge;
mod simulate;
mod status;
mod cluster;
mod operator;
mod server;
mod login;
mod queue;
mod job;
mod launch;
mod item;
mod run;
mod ps;
mod people;
mod remote;
mod listing;
mod image;
mod gpus;
mod vcjob;
mod vcqueue;
mod logs;
mod agent;
mod check;
mod target;
mod kubeconfig;
mod completions;
mod version;
mod why;
mod settings;
mod host;
mod control;
mod home;
mod logging;
mod output;
mod failure;

use clap::Parser;
use std::process::ExitCode;
use volley_agent::process::keep;
use volley_agent::source;

fn main() -> ExitCode {
    // Before anything else: every pod starts one, as does every process, and it must be cheap and have a single thread.
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    match words.next().as_deref() {
        Some("shim") => std::process::exit(volley_cluster::runtime::shim_main(words)),
        Some(keep::VERB) => std::process::exit(keep::main(words)),
        _ => (),
    }
    // rustls panics at its first use when no provider was chosen. It fails only if one was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if std::env::args_os().nth(1).is_some_and(|verb| verb == source::VERB) {
        return fetch();
    }
    match cli::Cli::parse_from(cli::words(std::env::args_os())).run() {
        Ok(code) => code,
        Err(error) => failure::tell(error),
    }
}

/// Brings a launch's code into its pod; no verb of people's.
fn fetch() -> ExitCode {
    let words = std::env::args().skip(2).collect();
    let fetched = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(source::main(words)),
        Err(error) => Err(error.to_string()),
    };
    match fetched {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
