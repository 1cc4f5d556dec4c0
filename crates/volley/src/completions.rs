//! `volley completions SHELL`: the script that teaches a shell our verbs and options.

use crate::cli::Cli;
use crate::output;
use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  source <(volley completions bash)
  volley completions zsh > ~/.zfunc/_volley
  volley completions fish > ~/.config/fish/completions/volley.fish";

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<ExitCode> {
        // Into memory first: the generator panics when its writer fails, as a closed pipe does.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "volley", &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
