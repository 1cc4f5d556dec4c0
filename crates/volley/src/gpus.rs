//! `volley gpus`: which GPUs pods may have, who holds them, and how busy they are.

use crate::control::{self, Answer, Ask};
use crate::home::Home;
use crate::output::{Output, Show};
use anyhow::{Result, bail};
use clap::Args;
use std::process::ExitCode;
use volley_cluster::node::GpuHolding;
use volley_cluster::node::gpus::{GpuChoice, Gpus as MachineGpus};

const EXAMPLES: &str = "\
Examples:
  volley gpus
  volley gpus -o wide                          with their ids
  volley gpus -o json | jq '[.[] | select(.heldBy == [])] | length'

When volley does not run, these are the machine's GPUs.";

/// Show the GPUs and who holds them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Gpus {
    #[command(flatten)]
    output: Output,
}

impl Gpus {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let gpus = match control::ask(home, &Ask::Gpus)? {
            Some(Answer::Gpus(gpus)) => gpus,
            Some(other) => bail!("the running process answered `{other:?}` to a question about GPUs"),
            None => on_this_machine()?,
        };
        if gpus.is_empty() {
            eprintln!("no GPU is here\nhint: `volley up --fake-gpus 4` pretends, to try things out");
        }
        self.output.print(&gpus)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What is there, though nobody can hold it.
fn on_this_machine() -> Result<Vec<GpuHolding>> {
    let gpus = MachineGpus::discover(&GpuChoice::All, 1)?;
    Ok(gpus.usage().into_iter().map(|usage| GpuHolding { usage, holders: Vec::new() }).collect())
}

impl Show for Vec<GpuHolding> {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let mut headings = vec!["GPU", "NAME", "MEMORY", "UTIL", "HELD BY"];
        if wide {
            headings.extend(["TEMP", "RESOURCE", "UUID"]);
        }
        let mut rows = vec![headings.into_iter().map(str::to_owned).collect()];
        rows.extend(self.iter().map(|gpu| row(gpu, wide)));
        rows
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|gpu| gpu.usage.index.to_string()).collect()
    }
}

fn row(gpu: &GpuHolding, wide: bool) -> Vec<String> {
    let GpuHolding { usage, holders } = gpu;
    let measured = |value: Option<u32>, unit: &str| value.map_or("-".to_owned(), |value| format!("{value}{unit}"));
    let name = if usage.is_healthy { usage.name.clone() } else { format!("{} (does not answer)", usage.name) };
    let mut row = vec![
        usage.index.to_string(),
        name,
        format!("{}/{} MiB", usage.memory_used_mib, usage.memory_total_mib),
        measured(usage.utilisation_percent, "%"),
        if holders.is_empty() { "-".to_owned() } else { holders.join(",") },
    ];
    if wide {
        row.extend([measured(usage.temperature_celsius, "C"), usage.resource.clone(), usage.uuid.clone()]);
    }
    row
}
