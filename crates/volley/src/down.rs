//! `volley down`: stops the process that runs in this home, and returns when it has ended.

use crate::control::{self, Ask};
use crate::home::Home;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley down                        stop; everything kept is there again at the next `volley up`
  VOLLEY_HOME=/tmp/try volley down   stop the one that runs there";

/// Stop volley
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Down {}

impl Down {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let folder = home.folder().display();
        match control::ask(home, &Ask::Stop)? {
            Some(_) => eprintln!("volley has stopped in `{folder}`"),
            None => eprintln!("volley does not run in `{folder}`"),
        }
        Ok(ExitCode::SUCCESS)
    }
}
