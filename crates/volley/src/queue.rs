//! `volley queue`: launch queues, from files or an editor, with what they were before.

pub mod document;

use crate::check;
use crate::home::Home;
use crate::listing::{Column, Listing, print_one};
use crate::output::{self, Output};
use crate::remote::{Remote, Session};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use document::{Document, difference};
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volley_client::part;
use volley_plan::launch::resource::Kind;

const EXAMPLES: &str = "\
Examples:
  volley queue create gpu -f queue.yaml
  volley queue ls
  volley queue edit gpu                    in $EDITOR; shows what changed
  volley queue history gpu
  volley queue share gpu --private bob=submit vera=see";

const CREATE_EXAMPLES: &str = "\
Examples:
  volley queue create gpu -f queue.yaml
  volley queue create gpu --resource kubernetes -f config.yaml   the file is the config alone
  volley queue create gpu --resource kubernetes -f config.yaml --var gpus=integer,min=1,max=4,default=1
  volley queue create here --resource local-process
  volley queue show old | volley queue create new -f -

A file has:  resource: kubernetes
             config: {…}                                  may hold {{variables}}
             template_variables: {n: {schema: {type: integer, default: 1}}}
             prioritization: true";

const LS_EXAMPLES: &str = "Examples:\n  volley queue ls\n  volley queue ls -e vision -o wide";
const SHOW_EXAMPLES: &str = "Examples:\n  volley queue show gpu\n  volley queue show gpu -o json | jq .config";
const EDIT_EXAMPLES: &str = "Examples:\n  volley queue edit gpu\n  volley queue edit gpu -f queue.yaml\n  volley queue edit gpu -f - <queue.json";
const RM_EXAMPLES: &str = "Examples:\n  volley queue rm gpu\n  volley queue rm gpu --force     with all that waits in it; what has started goes on";
const HISTORY_EXAMPLES: &str = "Examples:\n  volley queue history gpu\n  volley queue history gpu -o yaml";
const SHARE_EXAMPLES: &str = "\
Examples:
  volley queue share gpu                          who may use it
  volley queue share gpu --private bob=submit     only its owner and bob
  volley queue share gpu --open                   everybody in the team, by role
  volley queue share gpu bob=none";

const COLUMNS: &[Column] = &[
    Column("NAME", "/name", false),
    Column("RESOURCE", "/resource", false),
    Column("ACCESS", "/access", false),
    Column("PRIORITIES", "/prioritization", false),
    Column("WAITING", "/waiting", false),
    Column("RUNNING", "/running", false),
    Column("OWNER", "/owner", true),
    Column("VARIABLES", "/variables", true),
    Column("ID", "/id", true),
];
const HISTORY: &[Column] = &[
    Column("VERSION", "/version", false),
    Column("AGE", "@/at", false),
    Column("USER", "/user", false),
    Column("RESOURCE", "/resource", false),
    Column("PRIORITIES", "/prioritization", false),
    Column("VARIABLES", "/template_variables", true),
];

/// Work with launch queues
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct QueueVerb {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a queue
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// List queues
    #[command(after_help = LS_EXAMPLES)]
    Ls(All),
    /// Show a queue, in the form that `create -f` takes
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Named),
    /// Change a queue
    #[command(after_help = EDIT_EXAMPLES)]
    Edit(Edit),
    /// Delete a queue
    #[command(after_help = RM_EXAMPLES)]
    Rm(Remove),
    /// Show what a queue was before
    #[command(after_help = HISTORY_EXAMPLES)]
    History(Named),
    /// Show or change who may use a queue
    #[command(after_help = SHARE_EXAMPLES)]
    Share(Share),
}

#[derive(Args)]
struct All {
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Named {
    name: String,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Create {
    name: String,
    /// A YAML or JSON file; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// What runs the work: kubernetes, local-container, local-process; the file is then the config alone
    #[arg(long, value_name = "KIND")]
    resource: Option<String>,
    /// A template variable, as NAME=TYPE[,min=N][,max=N][,default=VALUE][,choices=A|B]; may be repeated
    #[arg(long = "var", value_name = "NAME=TYPE…")]
    variables: Vec<String>,
    /// Take items by priority
    #[arg(long)]
    priorities: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args)]
struct Edit {
    name: String,
    /// Take this file instead of opening an editor; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args)]
struct Remove {
    name: String,
    /// Also if something waits or runs in it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args)]
struct Share {
    name: String,
    /// NAME=see, NAME=submit, NAME=manage or NAME=none
    #[arg(value_name = "NAME=WHAT")]
    people: Vec<String>,
    /// Only for its owner and those who are named
    #[arg(long, conflicts_with = "open")]
    private: bool,
    /// For everybody in the team, by role
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

impl QueueVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        match self.verb {
            Verb::Create(verb) => verb.run(home),
            Verb::Ls(All { remote, output }) => remote.with(home, async |session| ls(&session, output).await),
            Verb::Show(Named { name, remote, output }) => remote.with(home, async |session| {
                print_one(output, &name, &Document::read(&find(&session, &name).await?).value())
            }),
            Verb::Edit(verb) => verb.run(home),
            Verb::Rm(verb) => verb.run(home),
            Verb::History(Named { name, remote, output }) => remote.with(home, async |session| {
                let values = session.client.get(&path(&session, &name, "history")).await?;
                output.print(&Listing { columns: HISTORY, name: "/version", values: list(values) })
            }),
            Verb::Share(verb) => verb.run(home),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn ls(session: &Session, output: Output) -> Result<()> {
    let items = session.client.items(Some(&session.entity), None, false).await?;
    let mut values = Vec::new();
    for queue in session.client.queues(&session.entity).await? {
        let of_queue = || items.iter().filter(|item| item["queue"] == queue["name"]);
        let waiting = of_queue().filter(|item| item["state"] == "PENDING").count();
        let document = Document::read(&queue);
        values.push(json!({
            "name": queue["name"],
            "resource": document.spec.resource,
            "access": if queue["access"] == "USER" { "private" } else { "team" },
            "prioritization": document.spec.has_priorities,
            "waiting": waiting,
            "running": of_queue().count() - waiting,
            "owner": queue["createdBy"],
            "variables": document.spec.variables.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>()),
            "id": queue["id"],
        }));
    }
    output.print(&Listing { columns: COLUMNS, name: "/name", values })
}

impl Create {
    fn run(self, home: &Home) -> Result<()> {
        let mut document = match (&self.file, &self.resource) {
            (Some(file), resource) => {
                let text = read(file)?;
                let document = Document::parse(&text, resource.as_deref());
                let document = document.with_context(|| format!("`{}` is not a queue", file.display()))?;
                warn(file, &text, &document);
                document
            }
            (None, Some(resource)) => Document::of(resource, json!({})),
            (None, None) => bail!("a queue needs a resource\nhint: -f FILE, or --resource local-process"),
        };
        if let Err(refusal) = Kind::of(&document.spec.resource) {
            eprintln!("warning: {refusal}");
        }
        document.spec.has_priorities |= self.priorities;
        for written in &self.variables {
            document.declare(written)?;
        }
        self.remote.with(home, async |session| {
            if session.client.queue(&session.entity, &self.name).await?.is_some() {
                bail!("queue `{}` exists already in `{}`\nhint: `volley queue edit {0}`", self.name, session.entity);
            }
            session.client.upsert_queue(&session.entity, &self.name, &document.spec).await?;
            eprintln!("made queue `{}` in `{}`", self.name, session.entity);
            Ok(())
        })
    }
}

/// Says what is doubtful in a queue's file; it is used all the same.
fn warn(file: &Path, text: &str, document: &Document) {
    if document.spec.resource == "kubernetes" {
        check::warn(&file.display().to_string(), text);
    }
}

impl Edit {
    fn run(self, home: &Home) -> Result<()> {
        self.remote.with(home, async |session| {
            let old = Document::read(&find(&session, &self.name).await?).text()?;
            let new = match &self.file {
                Some(file) => read(file)?,
                None => in_editor(&old)?,
            };
            let document = Document::parse(&new, None).context("this is not a queue; nothing was changed")?;
            if let Some(file) = &self.file {
                warn(file, &new, &document);
            }
            let new = document.text()?;
            if new == old {
                eprintln!("nothing changed");
                return Ok(());
            }
            output::print(&difference(&old, &new))?;
            session.client.upsert_queue(&session.entity, &self.name, &document.spec).await?;
            eprintln!("changed queue `{}`; `volley queue history {0}` has what it was", self.name);
            Ok(())
        })
    }
}

impl Remove {
    fn run(self, home: &Home) -> Result<()> {
        self.remote.with(home, async |session| {
            let queue = find(&session, &self.name).await?;
            let items = session.client.items(Some(&session.entity), Some(&self.name), false).await?;
            if !items.is_empty() && !self.force {
                bail!("{} items wait or run in queue `{}`\nhint: --force removes what waits with it; what has started goes on", items.len(), self.name);
            }
            session.client.delete_queue(queue["id"].as_str().unwrap_or_default()).await?;
            eprintln!("deleted queue `{}`", self.name);
            Ok(())
        })
    }
}

impl Share {
    fn run(self, home: &Home) -> Result<()> {
        self.remote.with(home, async |session| {
            let path = path(&session, &self.name, "access");
            let mut access = session.client.get(&path).await?;
            if self.private || self.open || !self.people.is_empty() {
                let mut people: Map<String, Value> = access["people"].as_object().cloned().unwrap_or_default();
                for person in &self.people {
                    match person.split_once('=') {
                        Some((name, "none")) => drop(people.remove(name)),
                        Some((name, what)) => drop(people.insert(name.to_owned(), what.into())),
                        None => bail!("`{person}` does not say what\nhint: {person}=submit"),
                    }
                }
                let is_private = if self.open { false.into() } else { self.private.then_some(true).into() };
                let is_private: Value = is_private;
                access = session.client.put(&path, &json!({ "private": is_private, "people": people })).await?;
            }
            print_one(self.output, &self.name, &access)
        })
    }
}

async fn find(session: &Session, name: &str) -> Result<Value> {
    let queue = session.client.queue(&session.entity, name).await?;
    queue.ok_or_else(|| anyhow!("there is no queue `{name}` in `{}`\nhint: `volley queue ls`", session.entity))
}

fn path(session: &Session, name: &str, what: &str) -> String {
    format!("/api/v1/queues/{}/{}/{what}", part(&session.entity), part(name))
}

fn list(value: Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// A file, or stdin.
pub fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("failed to read stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("failed to read `{}`", file.display()))
}

/// What the user makes of a text.
fn in_editor(text: &str) -> Result<String> {
    let editor =
        ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let folder = std::env::temp_dir();
    let file = folder.join(format!("volley-queue-{}.yaml", uuid::Uuid::new_v4()));
    crate::home::write_private(&file, text)?;
    // By a shell, because people set it to `code --wait`.
    let status =
        std::process::Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file).status();
    let edited = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    let status = status.with_context(|| format!("failed to start `{editor}`\nhint: set EDITOR, or give -f FILE"))?;
    if !status.success() {
        bail!("`{editor}` ended with {status}; nothing was changed");
    }
    edited.context("failed to read what the editor wrote")
}
