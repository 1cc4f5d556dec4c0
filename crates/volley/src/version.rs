//! `volley version`: what this program is, and which Kubernetes it speaks.

use crate::output::{Output, Show};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley version
  volley version -o json | jq -r .version";

/// Print the version
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Version {
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    version: &'static str,
    system: String,
}

impl Version {
    pub fn run(self) -> Result<ExitCode> {
        let system = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        self.output.print(&Facts { version: env!("CARGO_PKG_VERSION"), system })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Show for Facts {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let line = format!("volley {}", self.version);
        vec![vec![if wide { format!("{line} {}", self.system) } else { line }]]
    }

    fn names(&self) -> Vec<String> {
        vec![format!("volley/{}", self.version)]
    }
}
