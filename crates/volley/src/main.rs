//! `volley`: the command line and the wiring.
//!
//! One file per verb, named like it. `host` is the process that runs the parts, `control` how verbs talk to it, `home`
//! where it keeps its files, `failure` and `output` what the user sees.

mod cli;
mod up;
mod down;
mod status;
mod cluster;
mod kubeconfig;
mod completions;
mod version;
mod host;
mod control;
mod home;
mod logs;
mod output;
mod failure;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: rustls panics at its first use when no provider was chosen. It fails only if one was chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => failure::tell(error),
    }
}
