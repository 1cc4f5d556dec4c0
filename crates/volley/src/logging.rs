//! The log: structured, on stderr, which is `$VOLLEY_HOME/volley.log` for the background process.

use crate::cli::Global;
use crate::failure::colour_wanted;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

/// Starts logging for a process that serves.
pub fn start(global: &Global) -> Result<()> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(global.verbose)?)
        .with_writer(io::stderr)
        .with_ansi(colour_wanted(io::stderr().is_terminal()));
    match global.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

fn filter(verbose: u8) -> Result<EnvFilter> {
    match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .with_context(|| format!("RUST_LOG is `{text}`\nhint: for example RUST_LOG=info,volley_cluster=debug")),
        _ => Ok(EnvFilter::new(directives(verbose))),
    }
}

/// Our own parts say more than the libraries below them.
fn directives(verbose: u8) -> &'static str {
    match verbose {
        0 => "warn,volley=info,volley_cluster=info,volley_server=info",
        1 => "info,volley=debug,volley_cluster=debug,volley_server=debug",
        _ => "trace",
    }
}
