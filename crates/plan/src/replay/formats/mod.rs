//! Traces as people have them: our own YAML, JSON or CSV, and public ones. Which one it is, its content tells.

pub mod alibaba;
pub mod own;
pub mod philly;
pub mod slurm;
pub mod swf;
pub mod table;

use super::{GPU, Part, Trace};
use crate::node::pretended_nodes::Groups;
use jiff::civil::DateTime;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::time::parse_duration;

/// So many problems are told at once.
const PROBLEMS_MAX: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Ours, as YAML or JSON.
    Own,
    OwnTable,
    Philly,
    /// Alibaba's cluster-trace-gpu-v2023: `openb_pod_list*.csv`.
    Openb,
    /// Alibaba's cluster-trace-gpu-v2020: `pai_task_table.csv`.
    Pai,
    /// Helios' and Acme's job lists.
    Slurm,
    Swf,
}

/// What is wrong with a trace, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Problem {
    /// `line 12, field gpus`
    pub place: String,
    pub problem: String,
}

impl Problem {
    pub fn at(line: usize, field: &str, problem: impl Into<String>) -> Problem {
        Problem { place: format!("line {line}, field {field}"), problem: problem.into() }
    }
}

pub fn detect(text: &str) -> Format {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let said = start.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = said.clone().next().unwrap_or_default();
    let is_json = first.starts_with('[') || first.starts_with('{');
    if is_json && start.contains("\"submitted_time\"") {
        return Format::Philly;
    }
    if is_json {
        return Format::Own;
    }
    let mut rest = said;
    let data = rest.find(|line| !line.starts_with(';')).unwrap_or_default();
    let is_numeric = |line: &str| {
        let words = line.split_whitespace();
        words.take(swf::FIELDS_MIN).filter(|word| word.parse::<f64>().is_ok()).count() == swf::FIELDS_MIN
    };
    if first.starts_with(';') || is_numeric(data) {
        return Format::Swf;
    }
    let cells = table::cells(first);
    let has = |name: &str| cells.iter().any(|cell| cell.trim() == name);
    if has("node_num") && has("gpu_num") {
        Format::Slurm
    } else if has("gpu_milli") || (has("num_gpu") && has("creation_time")) {
        Format::Openb
    } else if has("plan_gpu") || cells.len() == 10 && alibaba::STATUSES.contains(&&*cells[3]) {
        Format::Pai
    } else if cells.len() > 1 && !first.contains(": ") && !first.ends_with(':') {
        Format::OwnTable
    } else {
        Format::Own
    }
}

/// Reads every format but our own YAML and JSON, which the caller parses for `own::read`.
pub fn read(format: Format, text: &str) -> Result<Trace, Vec<Problem>> {
    match format {
        Format::Own => Err(vec![Problem::at(1, "-", "is YAML or JSON")]),
        Format::OwnTable => own::read_table(text),
        Format::Philly => philly::read(text),
        Format::Openb => alibaba::read_openb(text),
        Format::Pai => alibaba::read_pai(text),
        Format::Slurm => slurm::read(text),
        Format::Swf => swf::read(text),
    }
}

/// Keeps problems, but not too many.
#[derive(Debug, Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, problem: Problem) {
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(problem);
        }
    }

    fn or<T>(self, value: T) -> Result<T, Vec<Problem>> {
        if self.0.is_empty() { Ok(value) } else { Err(self.0) }
    }
}

/// Pods that ask for so many GPUs, processors and bytes each.
fn part(pods: usize, gpus: i64, cpu: &str, memory: &str) -> Part {
    let mut requests = BTreeMap::new();
    if gpus > 0 {
        requests.insert(GPU.to_owned(), gpus.to_string());
    }
    for (name, amount) in [("cpu", cpu), ("memory", memory)] {
        if !amount.is_empty() && amount != "0" {
            requests.insert(name.to_owned(), amount.to_owned());
        }
    }
    Part { pods, requests, spec: None, nodes: Vec::new() }
}

/// `90`, `90s`, `2h30m`: seconds.
fn seconds(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return (number.is_finite() && number.abs() < 1e15).then(|| number.round() as i64);
    }
    parse_duration(text).map(|duration| duration.as_secs())
}

/// A trace's own machines, as `--nodes` words them.
fn machines(words: &str) -> Vec<Value> {
    let groups = Groups::parse(words).and_then(|groups| Groups::joined([groups]));
    groups.map(|groups| groups.nodes(Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

/// `2017-10-07 01:39:24`, `… PST` or `…+08:00`: a second. Without an offset it counts as UTC's, as only differences matter.
fn moment(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches(" PST").trim_end_matches(" PDT").replacen(' ', "T", 1);
    let zoned = text.parse::<Timestamp>().ok().map(|time| time.as_second());
    let plain = || Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second());
    zoned.or_else(plain)
}

impl Trace {
    fn leaves_out(&mut self, jobs: usize) {
        if jobs > 0 {
            self.notes.push(format!("{jobs} jobs that never ran, or whose end is not known, are left out"));
        }
    }
}
