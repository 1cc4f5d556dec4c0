//! `volley launch`: puts work into a queue and follows it to its end.
//!
//! The flags are W&B's, where it has them. `spec` makes a run spec of them and of a file, `follow` shows what becomes of it.

pub mod follow;
mod spec;

use crate::home::Home;
use crate::listing::print_one;
use crate::output::{self, Output};
use crate::remote::{Remote, Session};
use anyhow::{Result, bail};
use clap::Args;
use follow::Followed;
use serde_json::Value;
use spec::Launching;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;
use volley_client::items::Submission;

const EXAMPLES: &str = "\
Examples:
  volley launch -d registry/train:1 -q gpu -p mnist        follows it: its place in the queue, then all ranks' logs
  volley launch -j train:latest -q gpu -p mnist --set-var gpus=4 --priority high
  volley launch -d registry/train:1 -q gpu -- --epochs 3   what is behind -- are the program's arguments
  volley launch -j train -c overrides.yaml --dry-run       print what would be submitted
  volley launch -d registry/train:1 -q volcano -R workers.yaml   what is different from the queue's config
  volley launch -u https://example.org/train.git -E 'python train.py' -p mnist -q gpu --detach

As in W&B, -v KEY=VALUE is --set-var and -q without a name is the queue `default`. A bare -d detaches. Ctrl-C detaches as
well, and says how to come back. The exit code of a launch that is followed is that of its job.";

/// How often a submission is sent to a server that does not answer, and how long is waited in between.
const SUBMITS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Put work into a queue, and follow it
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Launch {
    /// The image that runs; alone, -d is --detach
    #[arg(short = 'd', long, value_name = "IMAGE", num_args = 0..=1, default_missing_value = "")]
    docker_image: Option<String>,
    /// The job that runs, as NAME[:ALIAS] or ENTITY/PROJECT/NAME[:ALIAS]
    #[arg(short, long, value_name = "JOB")]
    job: Option<String>,
    /// A git repository, by https or ssh, of which a job is made; needs --entry-point
    #[arg(short, long, value_name = "URL", requires = "entry_point")]
    uri: Option<String>,
    /// The branch, tag or commit of --uri
    #[arg(short, long, value_name = "REF", requires = "uri")]
    git_version: Option<String>,
    /// What the job of --uri is called [default: after the repository]
    #[arg(short = 'J', long, value_name = "NAME", requires = "uri")]
    job_name: Option<String>,
    /// The image in which code runs that is not built into one
    #[arg(short = 'B', long, value_name = "IMAGE", requires = "uri")]
    base_image: Option<String>,
    /// The queue
    #[arg(short, long, value_name = "NAME", num_args = 0..=1, default_value = "default", default_missing_value = "default")]
    queue: String,
    /// The project of the run [default: the job's, else uncategorized]
    #[arg(short, long, env = "WANDB_PROJECT", value_name = "NAME")]
    project: Option<String>,
    /// The name of the run, as people see it
    #[arg(short, long, env = "WANDB_NAME", value_name = "NAME")]
    name: Option<String>,
    /// The command, in place of the image's or the job's; split like a shell would
    #[arg(short = 'E', long, value_name = "COMMAND")]
    entry_point: Option<String>,
    /// A Dockerfile in the job's source to build with
    #[arg(short = 'D', long, value_name = "PATH")]
    dockerfile: Option<String>,
    /// A run spec to start from: JSON, or a JSON or YAML file; `-` is stdin
    #[arg(short, long, value_name = "FILE")]
    config: Option<String>,
    /// The value of a template variable of the queue; may be repeated
    #[arg(long = "set-var", value_name = "KEY=VALUE")]
    variables: Vec<String>,
    /// critical, high, medium or low
    #[arg(short = 'P', long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// What runs the work, if the queue does not say
    #[arg(short, long, value_name = "KIND")]
    resource: Option<String>,
    /// What is different from the queue's config: JSON, or a file. Objects and lists of named things are merged, null takes away
    #[arg(short = 'R', long, value_name = "FILE")]
    resource_args: Option<String>,
    /// Take --resource-args in place of the queue's config, as W&B does
    #[arg(long, requires = "resource_args")]
    replace: bool,
    /// Print what would be submitted, and submit nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not follow it
    #[arg(long, alias = "async", conflicts_with = "follow")]
    detach: bool,
    /// Follow it, also when this is no terminal
    #[arg(short, long)]
    follow: bool,
    /// Only one submission is made with a key, however often it is sent
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
    /// The program's arguments
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Launch {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let remote = self.remote.clone();
        remote.with(home, async |session| self.launch(&session).await)
    }

    async fn launch(&self, session: &Session) -> Result<ExitCode> {
        let launching = Launching::read(self, session).await?;
        let key = self.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let work = Submission {
            spec: &launching.spec,
            values: Some(&launching.values),
            priority: launching.priority,
            key: &key,
        };
        let (entity, queue) = (&launching.queue_entity, &self.queue);
        if self.dry_run {
            return self.show(&session.client.preview(entity, queue, &work).await?);
        }
        launching.notes.iter().for_each(|note| eprintln!("note: {note}"));
        let id = submit(session, entity, queue, &work).await?;
        let item = session.client.item(&id).await?;
        eprintln!("queued in `{queue}` as item {}", item.number);
        if !self.is_followed() {
            let told = session.client.get(&format!("/api/v1/items/{}", volley_client::part(&id))).await?;
            match self.output.format {
                Some(_) => print_one(self.output, &item.number.to_string(), &told)?,
                None => output::print(&format!("{}\n", item.number))?,
            }
            eprintln!("hint: `volley logs -f {0}` follows it, `volley why {0}` says why it waits", item.number);
            return Ok(ExitCode::SUCCESS);
        }
        Followed::new(session.client.clone(), item.number).until_its_end().await
    }

    fn is_followed(&self) -> bool {
        let is_detached = self.detach || self.docker_image.as_deref() == Some("");
        self.follow || (!is_detached && self.output.format.is_none() && stdout().is_terminal())
    }

    fn show(&self, told: &Value) -> Result<ExitCode> {
        let texts = |field: &str| told[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        let problems: Vec<&str> = texts("problems").collect();
        if !problems.is_empty() {
            bail!("{}", spec::told(&problems));
        }
        texts("notes").for_each(|note| eprintln!("note: {note}"));
        let objects = told["objects"].as_array().cloned().unwrap_or_default();
        match self.output.format {
            Some(output::Format::Json) => output::print(&(serde_json::to_string_pretty(&objects)? + "\n"))?,
            Some(output::Format::Yaml | output::Format::Wide | output::Format::Name) | None => {
                let texts: Result<Vec<String>> = objects.iter().map(output::yaml).collect();
                output::print(&texts?.join("---\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A submission has a key, so one that may or may not have arrived is sent again.
async fn submit(session: &Session, entity: &str, queue: &str, work: &Submission<'_>) -> Result<String> {
    let mut tries = 1;
    loop {
        match session.client.submit(entity, queue, work).await {
            Err(error) if error.is_passing() && tries < SUBMITS_MAX => tokio::time::sleep(PAUSE).await,
            other => return Ok(other?),
        }
        tries += 1;
    }
}
