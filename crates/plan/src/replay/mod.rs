//! `volley simulate`: a trace of jobs is replayed on a pretended cluster, by the scheduler's own `gang::place`.
//!
//! `formats` reads traces, `run` is the loop over arrivals and ends, `report` counts what came of it, `plot` draws it.
//! Nothing waits: time jumps from event to event.

pub mod formats;
pub mod live;
pub mod plot;
pub mod report;
pub mod run;

#[cfg(test)]
mod tests;

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const GPU: &str = "nvidia.com/gpu";

/// Pods of a job that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub pods: usize,
    /// What each asks for, as Kubernetes writes it.
    pub requests: BTreeMap<String, String>,
    /// A real pod's spec, whose selectors and tolerations count too.
    pub spec: Option<Arc<Value>>,
    /// Where pods run at the start, for those that do.
    pub nodes: Vec<String>,
}

/// One job of a trace: all of its pods start together, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub name: String,
    pub queue: String,
    /// Seconds since 1970, or since the trace's own beginning.
    pub submit: i64,
    pub parts: Vec<Part>,
    pub seconds: i64,
    /// What its user says it will take, which the scheduler is told.
    pub estimate: Option<i64>,
    pub priority: i64,
    /// It runs since then when the replay begins.
    pub started: Option<i64>,
}

/// What is replayed, and where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// What it was read as, for people.
    pub format: &'static str,
    pub jobs: Vec<Job>,
    /// Queue objects; those that jobs name beside are made with weight 1.
    pub queues: Vec<Value>,
    /// Node objects, if the trace says.
    pub nodes: Vec<Value>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

impl Job {
    pub fn pods(&self) -> usize {
        self.parts.iter().map(|part| part.pods).sum()
    }
}
