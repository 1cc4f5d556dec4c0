//! `volley logs`: the logs of all ranks of a job in order of time, each line with its rank before it.
//!
//! An item of a queue has its lines from the server (`console`). Else `resolve` finds the object that is meant, `look` its pods, `reader` takes one log apart into lines, `tell` merges and
//! follows, `print` writes. Which logs and in which order is decided in `plan::logs`.

pub mod console;
mod look;
mod print;
mod reader;
pub mod resolve;
mod tell;

use crate::home::Home;
use crate::item;
use crate::remote::Remote;
use crate::target::{NamespaceArgs, TargetArgs, block_on};
use crate::vcjob::duration;
use anyhow::{Result, anyhow};
use clap::Args;
use look::Looker;
use print::Printer;
use reader::Excerpt;
use std::process::ExitCode;
use std::time::Duration;
use volley_api::kube::time;
use volley_plan::logs::sources::Wanted;

const EXAMPLES: &str = "\
Examples:
  volley logs train                           every rank of the job, in order of time
  volley logs -f pytorchjob/train             go on until the job ends
  volley logs train --rank 0                  or master, worker, worker-1
  volley logs train --tail 20 --since 10m
  volley logs train --previous                what was said before the last restart
  volley logs -f 17                           an item of a queue, as `volley ps` numbers it, or a run: mnist/abc123

A job is a vcjob, pytorchjob or one of its siblings, a job, pod, deployment, statefulset, daemonset or replicaset.";

/// Print the logs of all ranks of a job
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Logs {
    /// The job, as NAME or KIND/NAME; or an item of a queue by its number, or a run as PROJECT/RUN
    #[arg(value_name = "JOB")]
    job: String,
    /// Go on with what is written, also by pods that come later, until the job ends
    #[arg(short, long)]
    follow: bool,
    /// Only this rank: its number, its name (worker-1), a role (worker) or a pod
    #[arg(long, value_name = "RANK", value_delimiter = ',')]
    rank: Vec<String>,
    /// Only this container of each pod
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Only the last lines of each rank
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only what is younger than this, such as 90s or 2h
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Only what was written after this time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = rfc3339)]
    since_time: Option<String>,
    /// Print the time of each line
    #[arg(long)]
    timestamps: bool,
    /// The run before the last restart
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Print lines without their ranks
    #[arg(long)]
    no_prefix: bool,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    target: TargetArgs,
}

impl Logs {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let remote = Remote::of_environment();
        if item::is_item(&self.job) {
            let found = remote.with(home, async |session| item::logs(&session, &self.job, self.of_item()).await)?;
            return found.ok_or_else(|| anyhow!("there is no item `{}`\nhint: `volley ps -a`", self.job));
        }
        let written = self.job.clone();
        let of_item = self.of_item();
        let of_cluster = self.of_cluster(home);
        let Err(error) = of_cluster else { return of_cluster };
        // What no cluster knows may be the run of an item.
        match remote.with(home, async |session| item::logs(&session, &written, of_item).await) {
            Ok(Some(code)) => Ok(code),
            Ok(None) | Err(_) => Err(error),
        }
    }

    fn of_item(&self) -> item::Wanted {
        item::Wanted { ranks: self.rank.clone(), tail: self.tail, has_times: self.timestamps, follow: self.follow }
    }

    fn of_cluster(self, home: &Home) -> Result<ExitCode> {
        block_on(async {
            let cluster = self.target.connect(home).await?;
            let namespace = cluster.namespace(&self.namespace).to_owned();
            let (kind, object) = resolve::resolve(&cluster, &namespace, &self.job).await?;
            let wanted = Wanted { ranks: self.rank, container: self.container, previous: self.previous };
            let excerpt = Excerpt {
                tail_lines: self.tail,
                since_seconds: self.since.map(|since| since.as_secs().max(1)),
                since_time: self.since_time,
            };
            let printer = Printer::new(!self.no_prefix, self.timestamps);
            let looker = Looker { cluster, namespace, kind, object, wanted };
            match self.follow {
                true => tell::follow(looker, excerpt, printer).await?,
                false => tell::once(looker, excerpt, printer).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn rfc3339(text: &str) -> Result<String, String> {
    match time::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("`{text}` is no time; write 2026-01-31T12:00:00Z")),
    }
}
