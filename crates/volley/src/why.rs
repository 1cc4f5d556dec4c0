//! `volley why`: why a job waits, or how it fares, in one sentence with numbers; what would help; what was so before.
//!
//! `observe` lists what is needed from any cluster, `plan::why` decides, `show` prints.

pub mod observe;
mod show;

use crate::home::Home;
use crate::item;
use crate::output::Output;
use crate::remote::Remote;
use crate::target::{NamespaceArgs, TargetArgs, block_on};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use observe::Subject;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volley_plan::gang::policy::Policy;
use volley_plan::why::history;
use volley_plan::why::world::Change;

const EXAMPLES: &str = "\
Examples:
  volley why train                            why is it not running, and what would help
  volley why pytorchjob/train -o json         the same as fields
  volley why train --what-if gpus=+4          would it run with four more GPUs?
  volley why train --what-if nodes=+2 --what-if without=other
  volley why train --what-if queue.research.capability.gpu=16
  volley why train --history                  the reasons over time
  volley why 17                               an item of a queue, as `volley ps` numbers it, or a run: mnist/abc123

A job is a vcjob, pytorchjob or one of its siblings, a job, pod, podgroup, deployment, statefulset or replicaset. It works on
any Kubernetes: it only reads.";

/// Say why a job is not running, what would unblock it, and when
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Why {
    /// The job, as NAME or KIND/NAME; or an item of a queue by its number, or a run as PROJECT/RUN
    #[arg(value_name = "JOB")]
    job: String,
    /// Ask about a changed cluster: gpus=+4, cpu=+16, nodes=+2, queue.NAME.capability.gpu=16 or without=JOB; may be repeated
    #[arg(long = "what-if", value_name = "CHANGE", value_parser = Change::parse, conflicts_with = "history")]
    changes: Vec<Change>,
    /// Print the reasons over time, as the job's PodGroup has kept them
    #[arg(long)]
    history: bool,
    /// A Volcano scheduler configuration to go by [default: the cluster's, if it has one, else volley's own]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    target: TargetArgs,
}

impl Why {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let (remote, written, output) = (Remote::of_environment(), self.job.clone(), self.output);
        let of_item = || remote.with(home, async |session| item::why(&session, &written, output).await);
        if item::is_item(&written) {
            of_item()?.ok_or_else(|| anyhow!("there is no item `{written}`\nhint: `volley ps -a`"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let of_cluster = self.of_cluster(home);
        let Err(error) = of_cluster else { return of_cluster };
        // What no cluster knows may be the run of an item.
        match of_item() {
            Ok(Some(())) => Ok(ExitCode::SUCCESS),
            Ok(None) | Err(_) => Err(error),
        }
    }

    fn of_cluster(self, home: &Home) -> Result<ExitCode> {
        block_on(async {
            let cluster = self.target.connect(home).await?;
            let namespace = cluster.namespace(&self.namespace).to_owned();
            let subject = Subject::find(&cluster, &namespace, &self.job).await?;
            if self.history {
                let records = history::told(subject.group.as_ref(), &subject.events);
                self.output.print(&show::History::new(&subject, records))?;
                return Ok(ExitCode::SUCCESS);
            }
            let policy = match &self.policy {
                Some(file) => read_policy(file)?,
                None => observe::policy(&cluster).await,
            };
            let (world, notes) = observe::world(&cluster).await?;
            notes.iter().for_each(|note| eprintln!("note: {note}"));
            let now = Timestamp::now();
            let answer = subject.ask(&world, &policy, now);
            let mut shown = show::Shown::new(answer, now);
            if !self.changes.is_empty() {
                let mut changed = world.clone();
                for change in &self.changes {
                    change.make(&mut changed, &namespace).map_err(|problem| anyhow!("--what-if: {problem}"))?;
                }
                shown.what_if(&self.changes, subject.ask(&changed, &policy, now));
            }
            self.output.print(&shown)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// A scheduler configuration from a file; what has no meaning here is told.
pub fn read_policy(file: &Path) -> Result<Policy> {
    let text = std::fs::read_to_string(file).with_context(|| format!("failed to read `{}`", file.display()))?;
    let value = configuration(&text).with_context(|| format!("`{}` cannot be used", file.display()))?;
    let (policy, warnings) = Policy::read(&value).with_context(|| format!("`{}` cannot be used", file.display()))?;
    warnings.iter().for_each(|warning| eprintln!("note: `{}`: {warning}", file.display()));
    Ok(policy)
}

/// The configuration itself, or what the ConfigMap has in which Volcano's users keep it.
fn configuration(text: &str) -> Result<Value> {
    let is_known = |value: &Value| value["actions"].is_string() || value["tiers"].is_array();
    for document in serde_saphyr::from_multiple::<Value>(text).context("it is not YAML")? {
        let texts = document["data"].as_object().into_iter().flatten().filter_map(|(_, text)| text.as_str());
        let kept = texts.filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
        if let Some(found) = kept.chain([document.clone()]).find(is_known) {
            return Ok(found);
        }
    }
    bail!(
        "it has neither `actions` nor `tiers`\nhint: want a Volcano scheduler configuration, or the ConfigMap that has it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_configuration_or_the_configmap_around_it() {
        let own = "actions: \"allocate\"\n";
        let map = "kind: Namespace\nmetadata: {name: volcano-system}\n---\nkind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    actions: \"allocate\"\n";
        for text in [own, map] {
            assert_eq!(configuration(text).unwrap()["actions"], "allocate");
        }
        let told = configuration("action: allocate\n").unwrap_err().to_string();
        assert!(told.starts_with("it has neither `actions` nor `tiers`"), "{told}");
        assert!(configuration("actions: [").is_err());
    }
}
