//! Why a job is not running, or how it fares: one sentence with numbers, and the same as fields.
//!
//! `volley why` gathers `Observed` from any cluster and prints the `Answer`. Reading order: this file, `waits` (what the
//! scheduler would say), `fares` (what became of pods and jobs), `world` (the cluster as it is and as it might be),
//! `estimates` (how long running jobs take),
//! `history` (what was so before).

pub mod estimates;
pub mod history;
pub mod world;
mod fares;
mod waits;

#[cfg(test)]
mod tests;

use crate::gang::snapshot::Snapshot;
use crate::gang::why::{SHOWN_MAX, WaitingOn};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::{at, text, time};

/// Everything that the answer is made from.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// As users call it: `vcjob`, `pytorchjob`, `job`, `pod`, `podgroup` …
    pub kind: &'a str,
    pub job: &'a Value,
    /// The job's own, ordered by name.
    pub pods: &'a [Value],
    pub group: Option<&'a Value>,
    /// About the job, its group or its pods.
    pub events: &'a [Value],
    pub snapshot: &'a Snapshot,
    /// The last lines of containers that failed, by pod.
    pub lines: &'a BTreeMap<String, Vec<String>>,
}

/// Where the job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It needs something that it has not got.
    Waiting,
    /// Its pods have nodes and come up.
    Starting,
    Running,
    Finished,
    Failed,
    Suspended,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobName {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub total: usize,
    pub pending: usize,
    pub running: usize,
    pub succeeded: usize,
    pub failed: usize,
}

/// The answer; its fields are what `-o json` prints, and stay as they are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub job: JobName,
    pub state: State,
    /// One word for programs.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
    /// What would help, the nearest first.
    pub unblock: Vec<String>,
    /// About when it goes on, if that is known.
    pub when: Option<Timestamp>,
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    pub pods: Counts,
    /// The scheduler's reason, with its numbers and the names of holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<WaitingOn>,
    /// Where it runs, or would.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The last lines of what failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

impl Answer {
    /// Whether nothing is in its way, so that a scheduler places it now.
    pub fn is_free(&self) -> bool {
        matches!(self.reason, "Fits" | "Admitted")
    }
}

/// What a step found.
#[derive(Debug, Clone, PartialEq)]
struct Finding {
    state: State,
    reason: &'static str,
    message: String,
    unblock: Vec<String>,
    when: Option<Timestamp>,
    since: Option<Timestamp>,
    waiting_on: Option<WaitingOn>,
    nodes: Vec<String>,
    lines: Vec<String>,
}

impl Finding {
    fn new(state: State, reason: &'static str, message: impl Into<String>) -> Finding {
        Finding {
            state,
            reason,
            message: message.into(),
            unblock: Vec::new(),
            when: None,
            since: None,
            waiting_on: None,
            nodes: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn unblock(mut self, what: impl Into<String>) -> Finding {
        self.unblock.push(what.into());
        self
    }

    fn since(mut self, since: Option<Timestamp>) -> Finding {
        self.since = since;
        self
    }
}

pub fn why(seen: &Observed, now: Timestamp) -> Answer {
    let steps: [fn(&Observed, Timestamp) -> Option<Finding>; 8] = [
        fares::ended,
        fares::suspended,
        fares::leaving,
        fares::refused,
        waits::dependency,
        waits::unplaced,
        fares::starting,
        fares::running,
    ];
    let found = steps.iter().find_map(|step| step(seen, now)).unwrap_or_else(|| fares::untouched(seen));
    Answer {
        job: JobName {
            kind: seen.kind.to_owned(),
            namespace: text(seen.job, "metadata.namespace").to_owned(),
            name: name(seen.job).to_owned(),
        },
        state: found.state,
        reason: found.reason,
        message: found.message,
        unblock: found.unblock,
        when: found.when,
        since: found.since,
        queue: seen.group.map(|group| queue_of(group).to_owned()),
        pods: counts(seen.pods),
        waiting_on: found.waiting_on,
        nodes: found.nodes,
        lines: found.lines,
    }
}

fn name(object: &Value) -> &str {
    text(object, "metadata.name")
}

/// ` -n NAME` for commands about the job, where it is in another namespace than they look in.
fn namespace_flag(job: &Value) -> String {
    match text(job, "metadata.namespace") {
        "" | "default" => String::new(),
        other => format!(" -n {other}"),
    }
}

fn queue_of(group: &Value) -> &str {
    Some(text(group, "spec.queue")).filter(|queue| !queue.is_empty()).unwrap_or("default")
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    at(object, path).and_then(Value::as_array).into_iter().flatten()
}

fn moment(object: &Value, path: &str) -> Option<Timestamp> {
    time::parse(text(object, path))
}

fn phase(pod: &Value) -> &str {
    text(pod, "status.phase")
}

/// A pod that no scheduler has placed.
fn is_waiting(pod: &Value) -> bool {
    text(pod, "spec.nodeName").is_empty() && matches!(phase(pod), "Pending" | "")
}

fn counts(pods: &[Value]) -> Counts {
    let count = |wanted: &str| pods.iter().filter(|pod| phase(pod) == wanted).count();
    Counts {
        total: pods.len(),
        pending: pods.iter().filter(|pod| matches!(phase(pod), "Pending" | "")).count(),
        running: count("Running"),
        succeeded: count("Succeeded"),
        failed: count("Failed"),
    }
}

/// `a, b, c and 2 more`
fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let all = names.len();
    let shown: Vec<&str> = names.take(SHOWN_MAX).collect();
    let more = all - shown.len();
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// `1 pod`, `2 pods`
fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M UTC").to_string()
}
