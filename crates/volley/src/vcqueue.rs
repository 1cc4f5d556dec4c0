//! `volley vcqueue`: Volcano's queues by the words of its own `vcctl queue`, with the same options, columns and messages.

use crate::home::Home;
use crate::output::{self, Output, Show};
use crate::target::{Cluster, Resource, TargetArgs, block_on};
use crate::vcjob::create_command;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use volley_api::volcano;

const QUEUES: Resource = Resource { api_version: volcano::SCHEDULING, plural: "queues" };
const GROUPS: Resource = Resource { api_version: volcano::SCHEDULING, plural: "podgroups" };
const QUEUE_NAME: &str = "queue.scheduling.volcano.sh";
/// Where vcctl puts the commands for queues, which have no namespace.
const COMMAND_NAMESPACE: &str = "default";

const EXAMPLES: &str = "\
Examples:
  volley vcqueue create research -w 4
  volley vcqueue list
  volley vcqueue operate research -a close    take no more jobs";

const CREATE_EXAMPLES: &str = "\
Examples:
  volley vcqueue create research
  volley vcqueue create -n research -w 4
  volley vcqueue create later -S Closed";

const LIST_EXAMPLES: &str = "\
Examples:
  volley vcqueue list
  volley vcqueue list -o wide
  volley vcqueue list -o name";

const GET_EXAMPLES: &str = "\
Examples:
  volley vcqueue get research
  volley vcqueue get -n research -o yaml";

const OPERATE_EXAMPLES: &str = "\
Examples:
  volley vcqueue operate research -a close
  volley vcqueue operate -n research -a open
  volley vcqueue operate research -a update -w 8";

const DELETE_EXAMPLES: &str = "\
Examples:
  volley vcqueue delete research
  volley vcqueue delete -n research";

/// The columns of vcctl with their widths.
const COLUMNS: [(&str, usize); 9] = [
    ("Name", 25),
    ("Weight", 8),
    ("State", 8),
    ("Parent", 8),
    ("Inqueue", 8),
    ("Pending", 8),
    ("Running", 8),
    ("Unknown", 8),
    ("Completed", 8),
];
/// Ours, of `-o wide`: what the queue may have, is due, and has.
const WIDE: [(&str, &str); 4] = [
    ("Reclaimable", "/spec/reclaimable"),
    ("Capability", "/spec/capability"),
    ("Deserved", "/spec/deserved"),
    ("Allocated", "/status/allocated"),
];
/// The phases of PodGroups that are counted.
const PHASES: [&str; 5] = ["Inqueue", "Pending", "Running", "Unknown", "Completed"];

/// Create, list, get, operate and delete Volcano queues
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct VcqueueVerb {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(Create),
    #[command(visible_alias = "ls")]
    List(List),
    Get(Get),
    Operate(Operate),
    Delete(Delete),
}

/// Which queue.
#[derive(Debug, Args)]
struct QueueArgs {
    /// The name of the queue
    #[arg(value_name = "QUEUE")]
    positional: Option<String>,
    /// The name of the queue, as vcctl takes it
    #[arg(short, long, value_name = "QUEUE", conflicts_with = "positional")]
    name: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
}

/// Create a queue
#[derive(Args)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    #[command(flatten)]
    queue: QueueArgs,
    /// Its share beside other queues
    #[arg(short, long, default_value_t = 1)]
    weight: i32,
    /// Whether it takes jobs: Open or Closed
    #[arg(short = 'S', long, default_value = "Open", value_parser = ["Open", "Closed"], ignore_case = true)]
    state: String,
}

/// List queues with their PodGroups
#[derive(Args)]
#[command(after_help = LIST_EXAMPLES)]
struct List {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: TargetArgs,
}

/// Show one queue
#[derive(Args)]
#[command(after_help = GET_EXAMPLES)]
struct Get {
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    output: Output,
}

/// Open or close a queue, or change its weight
#[derive(Args)]
#[command(after_help = OPERATE_EXAMPLES)]
struct Operate {
    #[command(flatten)]
    queue: QueueArgs,
    /// What to do: open, close or update
    #[arg(short, long, default_value = "", hide_default_value = true)]
    action: String,
    /// The new weight, for update
    #[arg(short, long, default_value_t = 0, hide_default_value = true)]
    weight: i32,
}

/// Delete a queue
#[derive(Args)]
#[command(after_help = DELETE_EXAMPLES)]
struct Delete {
    #[command(flatten)]
    queue: QueueArgs,
}

/// Queues and how many PodGroups of each phase they have.
#[derive(Debug)]
struct Queues {
    items: Vec<Value>,
    counts: BTreeMap<String, [usize; PHASES.len()]>,
    /// One queue is printed as itself, not as a list of one.
    is_single: bool,
}

impl VcqueueVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        block_on(async {
            match self.what {
                What::Create(verb) => verb.run(home).await?,
                What::List(verb) => verb.run(home).await?,
                What::Get(verb) => verb.run(home).await?,
                What::Operate(verb) => verb.run(home).await?,
                What::Delete(verb) => verb.run(home).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl QueueArgs {
    fn given(&self) -> Option<&str> {
        self.positional.as_deref().or(self.name.as_deref()).filter(|name| !name.is_empty())
    }

    fn name(&self, complaint: &str) -> Result<&str> {
        match self.given() {
            Some(name) => Ok(name),
            None => bail!("{complaint}\nhint: `volley vcqueue list` tells the names"),
        }
    }
}

impl Create {
    async fn run(&self, home: &Home) -> Result<()> {
        let cluster = self.queue.target.connect(home).await?;
        let name = self.queue.given().unwrap_or("test");
        let queue = json!({
            "apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name},
            "spec": {"weight": self.weight}, "status": {"state": self.state},
        });
        let queue = cluster.create(&QUEUES.all(None)?, &queue).await?;
        // A server drops the status of a new object, so the state has to be asked for.
        if self.state.eq_ignore_ascii_case("Closed") {
            command(&cluster, &queue, "CloseQueue").await?;
        }
        eprintln!("created queue `{name}`");
        Ok(())
    }
}

impl List {
    async fn run(&self, home: &Home) -> Result<()> {
        let cluster = self.target.connect(home).await?;
        let items = cluster.list(&QUEUES.all(None)?).await?;
        self.output.print(&Queues::count(&cluster, items, false).await?)
    }
}

impl Get {
    async fn run(&self, home: &Home) -> Result<()> {
        let name = self.queue.name("name is mandatory to get the particular queue details")?;
        let cluster = self.queue.target.connect(home).await?;
        let queue = cluster.get(&QUEUES.one(None, name)?).await?;
        self.output.print(&Queues::count(&cluster, vec![queue], true).await?)
    }
}

impl Operate {
    async fn run(&self, home: &Home) -> Result<()> {
        let name = self.queue.name("queue name must be specified")?;
        let action = match self.action.as_str() {
            "open" => "OpenQueue",
            "close" => "CloseQueue",
            "update" if self.weight <= 0 => {
                bail!("when update queue {name}, weight must be specified, the value must be greater than 0")
            }
            "update" => {
                let cluster = self.queue.target.connect(home).await?;
                cluster.merge(&QUEUES.one(None, name)?, &json!({"spec": {"weight": self.weight}})).await?;
                eprintln!("queue `{name}` has the weight {}", self.weight);
                return Ok(());
            }
            "" => bail!("action can not be null\nhint: -a takes open, close or update"),
            other => bail!("action {other} invalid, valid actions are open, close and update"),
        };
        let cluster = self.queue.target.connect(home).await?;
        let queue = cluster.get(&QUEUES.one(None, name)?).await?;
        command(&cluster, &queue, action).await?;
        eprintln!("asked for queue `{name}` to {}", self.action);
        Ok(())
    }
}

impl Delete {
    async fn run(&self, home: &Home) -> Result<()> {
        let name = self.queue.name("queue name must be specified")?;
        let cluster = self.queue.target.connect(home).await?;
        cluster.delete(&QUEUES.one(None, name)?, &json!({})).await?;
        eprintln!("deleted queue `{name}`");
        Ok(())
    }
}

async fn command(cluster: &Cluster, queue: &Value, action: &str) -> Result<()> {
    create_command(cluster, queue, (QUEUES.api_version, "Queue"), COMMAND_NAMESPACE, action).await
}

impl Queues {
    /// Counts the PodGroups of the queues (CLI-3).
    async fn count(cluster: &Cluster, items: Vec<Value>, is_single: bool) -> Result<Queues> {
        let mut counts: BTreeMap<String, [usize; PHASES.len()]> = BTreeMap::new();
        for group in cluster.list(&GROUPS.all(None)?).await? {
            let queue = group["spec"]["queue"].as_str().unwrap_or_default();
            if let Some(phase) = PHASES.iter().position(|phase| group["status"]["phase"] == *phase) {
                counts.entry(queue.to_owned()).or_default()[phase] += 1;
            }
        }
        Ok(Queues { items, counts, is_single })
    }

    fn row(&self, queue: &Value, wide: bool) -> Vec<String> {
        let name = name(queue);
        let (spec, text) = (&queue["spec"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let weight = spec["weight"].as_i64().unwrap_or(0).to_string();
        let mut row = vec![name.to_owned(), weight, text(&queue["status"]["state"]), text(&spec["parent"])];
        row.extend(self.counts.get(name).copied().unwrap_or_default().map(|count| count.to_string()));
        if wide {
            row.extend(WIDE.iter().map(|(_, path)| queue.pointer(path).map_or("<none>".to_owned(), amounts)));
        }
        row
    }
}

fn name(queue: &Value) -> &str {
    queue["metadata"]["name"].as_str().unwrap_or_default()
}

/// `cpu=4,memory=8Gi`, or the value itself.
fn amounts(value: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value.as_object() {
        Some(map) if map.is_empty() => "<none>".to_owned(),
        Some(map) => map.iter().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(","),
        None => text(value),
    }
}

impl Serialize for Queues {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.items.as_slice() {
            [queue] if self.is_single => queue.serialize(serializer),
            items => json!({"apiVersion": "v1", "kind": "List", "items": items}).serialize(serializer),
        }
    }
}

impl Show for Queues {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let more = WIDE.iter().filter(|_| wide).map(|(heading, _)| *heading);
        let headings = COLUMNS.iter().map(|(heading, _)| *heading).chain(more);
        let mut rows = vec![headings.map(str::to_owned).collect()];
        rows.extend(self.items.iter().map(|queue| self.row(queue, wide)));
        rows
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|queue| format!("{QUEUE_NAME}/{}", name(queue))).collect()
    }

    fn table(&self, wide: bool) -> String {
        if self.items.is_empty() {
            return "No resources found\n".to_owned();
        }
        let widths: Vec<usize> = COLUMNS.iter().map(|(_, width)| *width).chain(WIDE.map(|_| 0)).collect();
        output::padded(&self.rows(wide), &widths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, parent: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"weight": 1, "parent": parent, "capability": {"cpu": "4", "memory": "8Gi"}},
            "status": {"state": "Open"}})
    }

    // CLI-3
    #[test]
    fn the_table_has_the_columns_of_vcctl_at_their_places() {
        let counts = BTreeMap::from([("default".to_owned(), [1, 2, 3, 4, 5])]);
        let queues = Queues { items: vec![queue("default", "root"), queue("b", "")], counts, is_single: false };
        let expected = "\
Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed
default                  1       Open    root    1       2       3       4       5
b                        1       Open            0       0       0       0       0
";
        assert_eq!(queues.table(false), expected);
        assert_eq!(queues.names(), ["queue.scheduling.volcano.sh/default", "queue.scheduling.volcano.sh/b"]);
    }

    #[test]
    fn a_long_name_does_not_touch_its_neighbour() {
        let items = vec![queue("a-queue-whose-name-is-long", "a-parent")];
        let table = Queues { items, counts: BTreeMap::new(), is_single: true }.table(true);
        assert!(table.contains("\na-queue-whose-name-is-long 1       Open    a-parent 0  "), "{table}");
        assert!(table.contains("cpu=4,memory=8Gi"), "{table}");
    }
}
