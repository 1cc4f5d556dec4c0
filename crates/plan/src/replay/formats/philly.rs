//! Microsoft's Philly traces: `cluster_job_log`, one JSON array of jobs with their attempts and the GPUs of each.

use super::{Problem, Problems, machines, moment, part};
use crate::replay::{Job, Part, Trace};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The cluster that the traces are from: machines with eight and with two GPUs.
const MACHINES: &str = "231x8gpu,name=eight,321x2gpu,name=two";

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    jobid: String,
    #[serde(default)]
    vc: String,
    submitted_time: Option<String>,
    #[serde(default)]
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Machine>,
}

#[derive(Deserialize)]
struct Machine {
    #[serde(default)]
    gpus: Vec<serde::de::IgnoredAny>,
}

pub fn read(text: &str) -> Result<Trace, Vec<Problem>> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| {
        vec![Problem { place: format!("line {}, column {}", error.line(), error.column()), problem: error.to_string() }]
    })?;
    let mut trace = Trace { format: "Philly cluster_job_log", nodes: machines(MACHINES), ..Trace::default() };
    let (mut problems, mut skipped) = (Problems::default(), 0);
    for (number, entry) in entries.iter().enumerate() {
        match job(number, entry) {
            Ok(Some(job)) => trace.jobs.push(job),
            Ok(None) => skipped += 1,
            Err(problem) => problems.add(problem),
        }
    }
    trace.leaves_out(skipped);
    problems.or(trace)
}

fn job(number: usize, entry: &Entry) -> Result<Option<Job>, Problem> {
    let at = |field: &str, text: Option<&str>| -> Result<Option<i64>, Problem> {
        match text {
            None | Some("" | "None") => Ok(None),
            Some(text) => moment(text).map(Some).ok_or_else(|| Problem {
                place: format!("job {} ({}), field {field}", number + 1, entry.jobid),
                problem: format!("`{text}` is no time such as 2017-10-07 01:39:24"),
            }),
        }
    };
    let Some(submit) = at("submitted_time", entry.submitted_time.as_deref())? else { return Ok(None) };
    let (mut seconds, mut parts, mut is_running) = (0, Vec::new(), false);
    for attempt in &entry.attempts {
        let start = at("attempts.start_time", attempt.start_time.as_deref())?;
        let end = at("attempts.end_time", attempt.end_time.as_deref())?;
        is_running = start.is_some() && end.is_none();
        seconds += start.zip(end).map_or(0, |(start, end)| (end - start).max(0));
        let seen = parts_of(&attempt.detail);
        parts = if seen.is_empty() { parts } else { seen };
    }
    if seconds == 0 || parts.is_empty() || is_running {
        return Ok(None);
    }
    let queue = if entry.vc.is_empty() { "default".to_owned() } else { entry.vc.to_ascii_lowercase() };
    let (name, started) = (entry.jobid.clone(), None);
    Ok(Some(Job { name, queue, submit, parts, seconds, estimate: None, priority: 0, started }))
}

/// A pod for each machine, those with as many GPUs together.
fn parts_of(machines: &[Machine]) -> Vec<Part> {
    let mut sizes: BTreeMap<i64, usize> = BTreeMap::new();
    for machine in machines.iter().filter(|machine| !machine.gpus.is_empty()) {
        *sizes.entry(machine.gpus.len() as i64).or_default() += 1;
    }
    sizes.into_iter().rev().map(|(gpus, pods)| part(pods, gpus, "", "")).collect()
}
