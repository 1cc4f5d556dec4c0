//! `volley status`: whether volley runs here, where it answers, and how its parts are.

use crate::control::{self, Answer, Ask};
use crate::home::Home;
use crate::output::{Output, Show};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley status
  volley status -o json | jq .pid
  volley status -o name          the running parts, one a line
  volley status -o json | jq .node.runtime

The exit code is 0 when volley runs and 1 when it does not.";

/// Show whether volley runs, and its parts
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusVerb {
    #[command(flatten)]
    output: Output,
}

/// The running process as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub running: bool,
    pub home: PathBuf,
    #[serde(flatten)]
    pub process: Option<Process>,
    pub parts: Vec<PartStatus>,
    /// `None` when nothing runs, or no node does.
    pub node: Option<NodeStatus>,
}

/// The node, which runs pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// `ok`, or why it takes no pods.
    pub health: String,
    /// `oci`, `rootless` or `process`.
    pub runtime: String,
    pub cgroups: String,
    /// What pods cannot have here, as sentences.
    pub lacks: Vec<String>,
    pub gpus: Count,
    pub pods_running: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    pub held: usize,
    pub total: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub pid: u32,
    pub version: String,
    pub started: Timestamp,
    pub kubeconfig: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartStatus {
    pub name: String,
    /// `ok`, or what is wrong.
    pub health: String,
    pub address: String,
    /// What it leaves to others' controllers, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<String>,
}

impl StatusVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        match of(home)? {
            Some(status) => {
                self.output.print(&status)?;
                Ok(ExitCode::SUCCESS)
            }
            None => {
                eprintln!("volley does not run in `{}`\nhint: `volley up` starts it", home.folder().display());
                let home = home.folder().to_owned();
                let nothing = Status { running: false, home, process: None, parts: Vec::new(), node: None };
                if self.output.format.is_some() {
                    self.output.print(&nothing)?;
                }
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// The status of the process that runs in this home, if one does.
pub fn of(home: &Home) -> Result<Option<Status>> {
    match control::ask(home, &Ask::Status)? {
        Some(Answer::Status(status)) => Ok(Some(status)),
        Some(other) => Err(anyhow::anyhow!("the running process answered `{other:?}` to a question for its status")),
        None => Ok(None),
    }
}

impl Show for Status {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let mut headings = vec!["PART", "HEALTH", "ADDRESS"];
        if wide {
            headings.extend(["PID", "STARTED", "KUBECONFIG"]);
        }
        let mut rows = vec![headings.into_iter().map(str::to_owned).collect()];
        for part in &self.parts {
            let mut row = vec![part.name.clone(), part.health.clone(), part.address.clone()];
            if let Some(process) = self.process.as_ref().filter(|_| wide) {
                let kubeconfig = process.kubeconfig.display().to_string();
                row.extend([process.pid.to_string(), process.started.to_string(), kubeconfig]);
            }
            rows.push(row);
            rows.extend(part.aside.iter().map(|held| vec![String::new(), "aside".to_owned(), held.clone()]));
        }
        rows.extend(self.node.iter().flat_map(NodeStatus::rows));
        rows
    }

    fn names(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.name.clone()).collect()
    }
}

impl NodeStatus {
    /// What it is, and below that what it cannot do.
    fn rows(&self) -> Vec<Vec<String>> {
        let NodeStatus { runtime, gpus: Count { held, total }, pods_running, .. } = self;
        let facts = format!("runtime {runtime}, {held} of {total} GPUs held, {pods_running} pods running");
        let mut rows = vec![vec!["node".to_owned(), self.health.clone(), facts]];
        rows.extend(self.lacks.iter().map(|lack| vec![String::new(), "lacks".to_owned(), lack.clone()]));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::aligned;

    #[test]
    fn a_part_is_one_line_and_one_for_each_thing_that_it_does_not_do() {
        let node = NodeStatus {
            health: "ok".to_owned(),
            runtime: "process".to_owned(),
            cgroups: "none".to_owned(),
            lacks: vec!["limits are not enforced".to_owned()],
            gpus: Count { held: 1, total: 4 },
            pods_running: 2,
        };
        let part = |name: &str, address: &str, aside: &[&str]| PartStatus {
            name: name.to_owned(),
            health: "ok".to_owned(),
            address: address.to_owned(),
            aside: aside.iter().map(ToString::to_string).collect(),
        };
        let parts = vec![
            part("cluster", "https://[::1]:1", &[]),
            part("operator", "in this process", &["Jobs are looked after by Volcano"]),
        ];
        let status = Status { running: true, home: "/h".into(), process: None, parts, node: Some(node) };
        let expected = "\
PART       HEALTH   ADDRESS
cluster    ok       https://[::1]:1
operator   ok       in this process
           aside    Jobs are looked after by Volcano
node       ok       runtime process, 1 of 4 GPUs held, 2 pods running
           lacks    limits are not enforced
";
        assert_eq!(aligned(&status.rows(false)), expected);
    }
}
