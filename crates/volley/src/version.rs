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
    /// The release of Kubernetes whose API is served.
    kubernetes: String,
    system: String,
}

impl Version {
    pub fn run(self) -> Result<ExitCode> {
        let system = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        let server = volley_cluster::apiserver::discovery::version();
        let kubernetes = server["gitVersion"].as_str().unwrap_or_default().to_owned();
        self.output.print(&Facts { version: env!("CARGO_PKG_VERSION"), kubernetes, system })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Show for Facts {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let line = format!("volley {}", self.version);
        let (kubernetes, system) = (&self.kubernetes, &self.system);
        vec![vec![if wide { format!("{line}, Kubernetes {kubernetes}, {system}") } else { line }]]
    }

    fn names(&self) -> Vec<String> {
        vec![format!("volley/{}", self.version)]
    }
}
