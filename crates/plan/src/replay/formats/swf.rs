//! The Standard Workload Format: eighteen numbers a job, and a heading of comments that tells the machine's size.

use super::{Problem, Problems, machines, part};
use crate::replay::{Job, Trace};
use std::collections::BTreeMap;

/// Fields by their numbers in the format's description, less one.
const SUBMIT: usize = 1;
const RUN: usize = 3;
const USED: usize = 4;
const REQUESTED: usize = 7;
const REQUESTED_TIME: usize = 8;
const QUEUE: usize = 14;
const STATUS: usize = 10;
pub const FIELDS_MIN: usize = 11;
/// Lines of a job that was stopped and went on: it has one of its own, too.
const PARTIAL: [i64; 3] = [2, 3, 4];
/// For machines whose heading does not say.
const PER_NODE_DEFAULT: i64 = 64;

/// Jobs of one processor each may fill a node.
const PODS_MIN: i64 = 110;

fn ceiling(all: i64, each: i64) -> i64 {
    (all + each - 1) / each
}

pub fn read(text: &str) -> Result<Trace, Vec<Problem>> {
    let heading = heading(text);
    let number = |name: &str| heading.get(name).and_then(|value| value.split_whitespace().next()?.parse::<i64>().ok());
    let (nodes, processors) = (number("maxnodes"), number("maxprocs"));
    let per_node = match (nodes, processors) {
        (Some(nodes), Some(processors)) if nodes > 0 && processors >= nodes => ceiling(processors, nodes),
        (Some(_), None) => 1,
        _ => PER_NODE_DEFAULT,
    };
    let start = number("unixstarttime").unwrap_or(0);
    let mut trace = Trace { format: "Standard Workload Format", ..Trace::default() };
    let (mut problems, mut skipped, mut largest) = (Problems::default(), 0, 0);
    for (number, line) in text.lines().enumerate().map(|(number, line)| (number + 1, line.trim())) {
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        match job(number, line, per_node, start) {
            Ok(Some((job, processors))) => {
                largest = largest.max(processors);
                trace.jobs.push(job);
            }
            Ok(None) => skipped += 1,
            Err(problem) => problems.add(problem),
        }
    }
    if skipped > 0 {
        trace
            .notes
            .push(format!("{skipped} lines without a run time or processors, or of a part of a job, are left out"));
    }
    let count = match (nodes, processors) {
        (Some(nodes), _) => nodes,
        (None, Some(processors)) => ceiling(processors, per_node).max(1),
        (None, None) => {
            trace.notes.push(format!(
                "the heading has no MaxNodes or MaxProcs; nodes of {per_node} processors for the largest job are taken"
            ));
            (largest / per_node).max(1) * 2
        }
    };
    let pods = per_node.max(PODS_MIN);
    trace.nodes = machines(&format!("{count}x,cpu={per_node},pods={pods},name=node"));
    problems.or(trace)
}

/// `; MaxProcs: 128` and the like, by small letters.
fn heading(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter_map(|line| line.strip_prefix(';'));
    let entry = |line: &str| {
        line.split_once(':').map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    lines.filter_map(entry).collect()
}

fn job(number: usize, line: &str, per_node: i64, start: i64) -> Result<Option<(Job, i64)>, Problem> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() < FIELDS_MIN {
        return Err(Problem::at(
            number,
            &words.len().to_string(),
            format!("a job has 18 fields, this one {}", words.len()),
        ));
    }
    let field = |at: usize| -> Result<i64, Problem> {
        let word = words.get(at).copied().unwrap_or("-1");
        let value: f64 =
            word.parse().map_err(|_| Problem::at(number, &(at + 1).to_string(), format!("`{word}` is no number")))?;
        Ok(value.round() as i64)
    };
    let (run, used, requested) = (field(RUN)?, field(USED)?, field(REQUESTED)?);
    let processors = if requested > 0 { requested } else { used };
    if run <= 0 || processors <= 0 || PARTIAL.contains(&field(STATUS)?) {
        return Ok(None);
    }
    let queue = field(QUEUE)?;
    let (whole, rest) = (processors / per_node, processors % per_node);
    let mut parts = Vec::new();
    for (pods, each) in [(whole, per_node), (i64::from(rest > 0), rest)] {
        if pods > 0 {
            parts.push(part(usize::try_from(pods).unwrap_or(usize::MAX), 0, &each.to_string(), ""));
        }
    }
    let estimate = Some(field(REQUESTED_TIME)?).filter(|seconds| *seconds > 0);
    let queue = if queue > 0 { format!("queue-{queue}") } else { "default".to_owned() };
    let job = Job {
        name: words[0].to_owned(),
        queue,
        submit: start + field(SUBMIT)?,
        parts,
        seconds: run,
        estimate,
        priority: 0,
        started: None,
    };
    Ok(Some((job, processors)))
}
