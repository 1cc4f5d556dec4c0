//! `volley vcjob`: Volcano's jobs by the words of its own `vcctl job`, with the same options, columns and messages.
//!
//! Beyond those: names without `-N`, `-o`, several documents in a file, and waiting for the end of a deletion.

mod list;
mod run;
mod view;

use crate::home::Home;
use crate::target::{Cluster, NamespaceArgs, Resource, TargetArgs, block_on};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use list::List;
use run::Run;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use view::View;
use volley_api::kube::time::parse_duration;
use volley_api::volcano;

pub const JOBS: Resource = Resource { api_version: volcano::BATCH, plural: "jobs" };
pub const COMMANDS: Resource = Resource { api_version: volcano::BUS, plural: "commands" };
pub const PODS: Resource = Resource { api_version: "v1", plural: "pods" };
/// What one object is called by `-o name`.
pub const JOB_NAME: &str = "job.batch.volcano.sh";

/// How often a deletion is looked at: a person does not notice, and neither does the server.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  volley vcjob run -N train -i pytorch/pytorch -r 3 -m 3 -- python train.py
  volley vcjob run -f job.yaml
  volley vcjob list -A
  volley vcjob view train
  volley logs -f vcjob/train";

const SUSPEND_EXAMPLES: &str = "\
Examples:
  volley vcjob suspend train                  its pods are deleted; `resume` starts it again
  volley vcjob suspend -N train -n team";

const RESUME_EXAMPLES: &str = "\
Examples:
  volley vcjob resume train
  volley vcjob resume -N train -n team";

const DELETE_EXAMPLES: &str = "\
Examples:
  volley vcjob delete train
  volley vcjob delete -N train -n team --wait   return when its pods are gone too";

/// Run, list, view, suspend, resume and delete Volcano jobs
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct VcjobVerb {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Run(Run),
    #[command(visible_alias = "ls")]
    List(List),
    View(View),
    Suspend(Suspend),
    Resume(Resume),
    Delete(Delete),
}

/// Which job.
#[derive(Debug, Clone, Args)]
pub struct JobArgs {
    /// The name of the job
    #[arg(value_name = "JOB")]
    positional: Option<String>,
    /// The name of the job, as vcctl takes it
    #[arg(short = 'N', long = "name", value_name = "JOB", conflicts_with = "positional")]
    name: Option<String>,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Abort a job, to be resumed
#[derive(Args)]
#[command(after_help = SUSPEND_EXAMPLES)]
struct Suspend {
    #[command(flatten)]
    job: JobArgs,
}

/// Resume a suspended job
#[derive(Args)]
#[command(after_help = RESUME_EXAMPLES)]
struct Resume {
    #[command(flatten)]
    job: JobArgs,
}

/// Delete a job
#[derive(Args)]
#[command(after_help = DELETE_EXAMPLES)]
struct Delete {
    #[command(flatten)]
    job: JobArgs,
    /// Return when the job and all that belonged to it are gone
    #[arg(long)]
    wait: bool,
    /// How long to wait at most, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", requires = "wait", value_parser = duration)]
    timeout: Duration,
}

impl VcjobVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        block_on(async {
            match self.what {
                What::Run(verb) => verb.run(home).await?,
                What::List(verb) => verb.run(home).await?,
                What::View(verb) => verb.run(home).await?,
                What::Suspend(verb) => verb.job.command(home, "suspend", "AbortJob").await?,
                What::Resume(verb) => verb.job.command(home, "resume", "ResumeJob").await?,
                What::Delete(verb) => verb.run(home).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl JobArgs {
    /// The name, or what vcctl says when there is none.
    pub fn name(&self, complaint: &str) -> Result<&str> {
        match self.positional.as_deref().or(self.name.as_deref()).filter(|name| !name.is_empty()) {
            Some(name) => Ok(name),
            None => bail!("{complaint}\nhint: `volley vcjob list` tells the names"),
        }
    }

    /// Asks the job's controller to do something.
    async fn command(&self, home: &Home, word: &str, action: &str) -> Result<()> {
        let name = self.name(&format!("job name is mandatory to {word} a particular job"))?;
        let cluster = self.target.connect(home).await?;
        let namespace = cluster.namespace(&self.namespace);
        let job = cluster.get(&JOBS.one(Some(namespace), name)?).await?;
        create_command(&cluster, &job, (JOBS.api_version, "Job"), namespace, action).await?;
        eprintln!("asked for job `{name}` to {word}");
        Ok(())
    }
}

impl Delete {
    async fn run(&self, home: &Home) -> Result<()> {
        let name = self.job.name("job name is mandatory to delete a particular job")?;
        let cluster = self.job.target.connect(home).await?;
        let path = JOBS.one(Some(cluster.namespace(&self.job.namespace)), name)?;
        // In the foreground the job itself goes last.
        let options = if self.wait { json!({"propagationPolicy": "Foreground"}) } else { json!({}) };
        let before = if self.wait { cluster.get(&path).await? } else { Value::Null };
        cluster.delete(&path, &options).await?;
        if self.wait {
            wait_until_gone(&cluster, &path, &before["metadata"]["uid"], self.timeout).await?;
        }
        crate::output::print(&format!("delete job {name} successfully\n"))
    }
}

async fn wait_until_gone(cluster: &Cluster, path: &str, uid: &Value, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    loop {
        let is_gone = cluster.find(path).await?.is_none_or(|job| job["metadata"]["uid"] != *uid);
        if is_gone {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the job is being deleted, and still is not gone\nhint: `volley vcjob view` shows its pods");
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Creates a Command as vcctl does (CLI-2): owned by its target, named after it and the action.
pub async fn create_command(
    cluster: &Cluster,
    target: &Value,
    (api_version, kind): (&str, &str),
    namespace: &str,
    action: &str,
) -> Result<()> {
    let meta = &target["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    let reference = json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": meta["uid"],
        "controller": true, "blockOwnerDeletion": true,
    });
    let command = json!({
        "apiVersion": COMMANDS.api_version, "kind": "Command",
        "metadata": {
            "generateName": format!("{name}-{}-", action.to_lowercase()),
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "target": reference,
        "action": action,
    });
    cluster.create(&COMMANDS.all(Some(namespace))?, &command).await?;
    Ok(())
}

/// A duration as Go writes it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = parse_duration(text).and_then(|duration| Duration::try_from(duration).ok());
    parsed.ok_or_else(|| format!("`{text}` is no duration; write 90s, 5m or 1h30m"))
}
