//! `volley job`: what can be launched, kept as versions on the server.

use crate::home::Home;
use crate::listing::{Column, Listing, print_one};
use crate::output::Output;
use crate::remote::Remote;
use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;
use volley_client::jobs::JobPath;

const EXAMPLES: &str = "\
Examples:
  volley job create train --image registry/train:1 -p mnist
  volley job ls -p mnist
  volley job show train:latest -p mnist";
const CREATE_EXAMPLES: &str = "\
Examples:
  volley job create train --image registry/train:1 -p mnist
  volley job create train --git https://example.org/train.git --commit 0a1b2c -p mnist -- python train.py

Code of a folder is packed by W&B's own `wandb job create code`, which works as well.";
const LS_EXAMPLES: &str = "Examples:\n  volley job ls -p mnist\n  volley job ls -e vision -o name";
const SHOW_EXAMPLES: &str = "Examples:\n  volley job show train -p mnist\n  volley job show train:v3 -p mnist -o json";

const COLUMNS: &[Column] = &[
    Column("JOB", "/name", false),
    Column("PROJECT", "/project", false),
    Column("ALIASES", "/aliases", false),
    Column("AGE", "@/created", false),
    Column("DESCRIPTION", "/description", true),
];

/// Work with jobs
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct JobVerb {
    #[command(subcommand)]
    verb: Verb,
    /// The project [default: all for ls]
    #[arg(short, long, env = "WANDB_PROJECT", value_name = "NAME", global = true)]
    project: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

#[derive(Subcommand)]
enum Verb {
    /// List jobs
    #[command(after_help = LS_EXAMPLES)]
    Ls,
    /// Show what a job runs
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        #[arg(value_name = "JOB[:ALIAS]")]
        job: String,
    },
    /// Make a job, or a new version of it
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
}

#[derive(Args)]
struct Create {
    name: String,
    /// An image that has everything
    #[arg(long, value_name = "IMAGE", required_unless_present = "git", conflicts_with = "git")]
    image: Option<String>,
    /// A git repository
    #[arg(long, value_name = "URL", requires = "commit")]
    git: Option<String>,
    /// The commit of the repository
    #[arg(long, value_name = "COMMIT", requires = "git")]
    commit: Option<String>,
    /// A further name for this version; may be repeated
    #[arg(short, long = "alias", value_name = "ALIAS")]
    aliases: Vec<String>,
    /// What to run in the repository
    #[arg(last = true, value_name = "COMMAND")]
    entrypoint: Vec<String>,
}

impl Create {
    /// The job's file, as W&B's clients read it.
    fn file(&self) -> Result<Value> {
        let types = json!({ "wb_type": "typedDict", "params": { "type_map": {} } });
        let (kind, source) = match (&self.image, &self.git) {
            (Some(_), _) if !self.entrypoint.is_empty() => {
                bail!("an image has a command of its own\nhint: override it when it is launched")
            }
            (Some(image), _) => ("image", json!({ "image": image })),
            (None, Some(_)) if self.entrypoint.is_empty() => {
                bail!("nothing says what to run in the repository\nhint: -- python train.py")
            }
            (None, Some(git)) => {
                let git = json!({ "remote": git, "commit": self.commit });
                ("repo", json!({ "git": git, "entrypoint": self.entrypoint, "notebook": false }))
            }
            (None, None) => bail!("a job needs --image or --git"),
        };
        Ok(json!({ "_version": "v0", "source_type": kind, "source": source, "input_types": types,
            "output_types": types, "runtime": "" }))
    }
}

impl JobVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let JobVerb { verb, project, remote, output } = self;
        let named = || project.clone().ok_or_else(|| anyhow!("a job is in a project\nhint: --project NAME"));
        remote.with(home, async |session| match verb {
            Verb::Ls => {
                let projects = match &project {
                    Some(project) => vec![project.clone()],
                    None => session.client.projects(&session.entity).await?,
                };
                let mut values = Vec::new();
                for project in projects {
                    values.extend(session.client.jobs(&session.entity, &project).await?);
                }
                output.print(&Listing { columns: COLUMNS, name: "/name", values })
            }
            Verb::Show { job } => {
                let project = named()?;
                let path = JobPath { entity: &session.entity, project: &project, name: &job };
                let found = session.client.job(path).await?;
                let missing = || anyhow!("there is no job `{}/{project}/{job}`\nhint: `volley job ls`", session.entity);
                let (version, file) = found.ok_or_else(missing)?;
                print_one(output, &format!("{job}:v{version}"), &file)
            }
            Verb::Create(create) => {
                let (project, file) = (named()?, create.file()?);
                let path = JobPath { entity: &session.entity, project: &project, name: &create.name };
                let version = session.client.create_job(path, &file, &create.aliases).await?;
                eprintln!("`{}/{project}/{}:v{version}`", session.entity, create.name);
                Ok(())
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
