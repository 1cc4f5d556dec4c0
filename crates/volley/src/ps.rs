//! `volley ps`: what waits and runs in the queues, and why what waits does.

use crate::home::Home;
use crate::listing::{Column, Listing, follow};
use crate::output::Output;
use crate::remote::Remote;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley ps                     what waits and runs, of you and your teams
  volley ps -w                  and what becomes of it, as it happens
  volley ps -a -q gpu           also what has ended
  volley ps -o json | jq '.[] | select(.waiting)'";

const COLUMNS: &[Column] = &[
    Column("ITEM", "/number", false),
    Column("ID", "/id", true),
    Column("QUEUE", "/queue", false),
    Column("ENTITY", "/entity", true),
    Column("USER", "/user", false),
    Column("RUN", "/run", false),
    Column("STATE", "/status", false),
    Column("PRIORITY", "/priority", true),
    Column("ATTEMPT", "/attempt", true),
    Column("GPUS", "/gpus", false),
    Column("AGE", "@/created", false),
    Column("WAITING FOR", "/waiting", false),
    Column("ERROR", "/error", true),
];

/// Show what waits and runs in the queues
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Ps {
    /// Also what has ended, newest first
    #[arg(short, long)]
    all: bool,
    /// Only this queue
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// Go on, and print what changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

impl Ps {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let entity = self.remote.entity.clone();
        self.remote.with(home, async |session| {
            // What ends while it is watched is to be seen ending.
            let all = self.all || self.watch;
            let look = async || {
                let mut values = session.client.items(entity.as_deref(), self.queue.as_deref(), all).await?;
                if self.watch {
                    values.reverse();
                }
                for item in &mut values {
                    item["status"] = status(item).into();
                }
                Ok(Listing { columns: COLUMNS, name: "/id", values })
            };
            match self.watch {
                true => follow(&session.client, self.output, look).await,
                false => self.output.print(&look().await?),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Its state, with what W&B's states have no word for.
fn status(item: &Value) -> String {
    match (item["end"].as_str(), item["stop_asked"] == true) {
        (Some("stopped"), _) => "STOPPED".to_owned(),
        (None, true) => "STOPPING".to_owned(),
        _ => item["state"].as_str().unwrap_or_default().to_owned(),
    }
}
