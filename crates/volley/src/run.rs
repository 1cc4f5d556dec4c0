//! `volley run`: runs of a project, one of them, and an end to it.

use crate::home::Home;
use crate::item;
use crate::listing::{Column, Listing, follow, print_one};
use crate::output::Output;
use crate::remote::{Remote, Session, run_path};
use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley run ls                       of all your projects
  volley run ls -p mnist -w           as they change
  volley run show mnist/abc123
  volley run stop mnist/abc123";
const LS_EXAMPLES: &str = "Examples:\n  volley run ls\n  volley run ls -p mnist -e vision -o wide\n  volley run ls -w";
const SHOW_EXAMPLES: &str =
    "Examples:\n  volley run show mnist/abc123\n  volley run show vision/mnist/abc123 -o json | jq .summary";
const STOP_EXAMPLES: &str = "Examples:\n  volley run stop mnist/abc123";

const COLUMNS: &[Column] = &[
    Column("RUN", "/path", false),
    Column("NAME", "/displayName", false),
    Column("STATE", "/state", false),
    Column("USER", "/user/username", false),
    Column("AGE", "@/createdAt", false),
    Column("STEPS", "/historyLineCount", false),
    Column("GROUP", "/group", true),
    Column("JOB TYPE", "/jobType", true),
    Column("TAGS", "/tags", true),
    Column("HOST", "/host", true),
    Column("HEARD", "@/heartbeatAt", true),
];

/// Work with runs
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RunVerb {
    #[command(subcommand)]
    verb: Verb,
    /// The project [default: all, or the one in the run's path]
    #[arg(short, long, env = "WANDB_PROJECT", value_name = "NAME", global = true)]
    project: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

#[derive(Subcommand)]
enum Verb {
    /// List runs, newest first
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        /// As many of each project
        #[arg(long, value_name = "N", default_value = "50")]
        limit: usize,
        /// Go on, and print what changes
        #[arg(short, long)]
        watch: bool,
    },
    /// Show a run with its config, its summary and what became of it in its queue; or an item by its number
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        #[arg(value_name = "PROJECT/RUN")]
        run: String,
    },
    /// Ask a run to stop
    #[command(after_help = STOP_EXAMPLES)]
    Stop {
        #[arg(value_name = "PROJECT/RUN")]
        run: String,
    },
}

impl RunVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let RunVerb { verb, project, remote, output } = self;
        let project = project.as_deref();
        remote.with(home, async |session| match verb {
            Verb::Ls { limit, watch } => {
                let look = async || list(&session, project, limit).await;
                match watch {
                    true => follow(&session.client, output, look).await,
                    false => output.print(&look().await?),
                }
            }
            Verb::Show { run } if item::is_item(&run) => item::show(&session, &run, output).await,
            Verb::Show { run } => {
                let mut found = shown(find(&session, project, &run).await?);
                let timeline = item::timeline(&session, run_path(&session, project, &run)?).await?;
                if !timeline.is_empty() {
                    found["timeline"] = timeline.into();
                }
                print_one(output, &run, &found)
            }
            Verb::Stop { run } => {
                let found = find(&session, project, &run).await?;
                session.client.stop_run(found["id"].as_str().unwrap_or_default()).await?;
                eprintln!("asked `{run}` to stop");
                Ok(())
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(session: &Session, project: Option<&str>, limit: usize) -> Result<Listing> {
    let projects = match project {
        Some(project) => vec![project.to_owned()],
        None => session.client.projects(&session.entity).await?,
    };
    let mut values = Vec::new();
    for project in projects {
        for mut run in session.client.runs(&session.entity, &project, limit).await? {
            run["path"] = format!("{project}/{}", run["name"].as_str().unwrap_or_default()).into();
            values.push(shown(run));
        }
    }
    Ok(Listing { columns: COLUMNS, name: "/path", values })
}

async fn find(session: &Session, project: Option<&str>, written: &str) -> Result<Value> {
    let [entity, project, run] = run_path(session, project, written)?;
    let found = session.client.run(entity, project, run).await?;
    found.ok_or_else(|| {
        anyhow!("there is no run `{entity}/{project}/{run}`\nhint: `volley run ls -e {entity} -p {project}`")
    })
}

/// Config and summary are JSON inside texts, which nobody wants to read so.
fn shown(mut run: Value) -> Value {
    for (field, name) in [("config", "config"), ("summaryMetrics", "summary")] {
        let text = run.as_object_mut().and_then(|run| run.remove(field));
        let value = text.as_ref().and_then(|text| serde_json::from_str::<Value>(text.as_str()?).ok());
        run[name] = value.unwrap_or_default();
    }
    if let Some(config) = run["config"].as_object_mut() {
        config.retain(|key, _| key != "_wandb");
        for value in config.values_mut() {
            if let Some(inner) = value.get_mut("value") {
                *value = inner.take();
            }
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn config_and_summary_are_shown_as_what_they_are() {
        let run = json!({ "name": "r", "config": "{\"lr\":{\"value\":0.1},\"_wandb\":{\"value\":{}}}", "summaryMetrics": "{\"loss\":1}" });
        assert_eq!(shown(run), json!({ "name": "r", "config": { "lr": 0.1 }, "summary": { "loss": 1 } }));
    }
}
