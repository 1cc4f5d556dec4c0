//! What came of a replay, in figures: waiting times by queue, utilisation, fairness, preemptions.

use super::Trace;
use super::run::Outcome;
use serde::Serialize;
use std::collections::BTreeMap;

/// Seconds from arrival to start; nothing where no job started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    pub jobs: usize,
    pub started: usize,
    pub p50: Option<i64>,
    pub p95: Option<i64>,
    pub max: Option<i64>,
    pub mean: Option<f64>,
}

/// The figures of one policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub policy: String,
    pub all: Waits,
    pub queues: BTreeMap<String, Waits>,
    /// From the first arrival to the last end.
    pub makespan_seconds: i64,
    pub resource: String,
    pub total: i64,
    /// Which part of it was in use, from the first arrival to the last end.
    pub utilisation: f64,
    /// Jain's index of the queues' mean speed, a job's speed being run / (wait + run): 1 if all queues fare alike. A queue
    /// of which no job starts has none; if no queue has any, there is nothing to compare.
    pub fairness: Option<f64>,
    pub preemptions: usize,
    /// Of the resource, in hours, spent on runs that were cut short.
    pub lost_hours: f64,
    /// Jobs that can never run here, and why the first of them cannot.
    pub never: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never_because: Option<String>,
    pub steps: usize,
    pub tick_seconds: i64,
}

pub fn report(trace: &Trace, outcome: &Outcome, policy: &str) -> Report {
    let mut waits: BTreeMap<&str, (usize, Vec<i64>)> = BTreeMap::new();
    let mut speeds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (job, fate) in trace.jobs.iter().zip(&outcome.fates) {
        let (jobs, times) = waits.entry(&job.queue).or_default();
        *jobs += 1;
        let speeds = speeds.entry(&job.queue).or_default();
        if let Some(start) = fate.start {
            let wait = (start - job.submit).max(0);
            // What ran when the replay began says nothing of the policy.
            if job.started.is_none() {
                times.push(wait);
            }
            let run = job.seconds.max(1) as f64;
            speeds.push(run / (wait as f64 + run));
        }
    }
    let never: Vec<&String> = outcome.fates.iter().filter_map(|fate| fate.never.as_ref()).collect();
    let all: Vec<i64> = waits.values().flat_map(|(_, times)| times.clone()).collect();
    let (first, last) = span(trace, outcome);
    let means: Vec<f64> = speeds.values().map(|speeds| mean(speeds)).collect();
    Report {
        policy: policy.to_owned(),
        all: waits_of(trace.jobs.len(), all),
        queues: waits.into_iter().map(|(queue, (jobs, times))| (queue.to_owned(), waits_of(jobs, times))).collect(),
        makespan_seconds: last - first,
        resource: outcome.resource.clone(),
        total: outcome.total,
        utilisation: utilisation(outcome, first, last),
        fairness: jain(&means),
        preemptions: outcome.preemptions,
        lost_hours: outcome.lost as f64 / 3600.0,
        never: never.len(),
        never_because: never.first().map(|why| (*why).clone()),
        steps: outcome.steps,
        tick_seconds: outcome.tick,
    }
}

/// The first arrival and the last end.
pub fn span(trace: &Trace, outcome: &Outcome) -> (i64, i64) {
    let first = trace.jobs.iter().map(|job| job.submit).min().unwrap_or(0);
    let last = outcome.fates.iter().filter_map(|fate| fate.end).max().unwrap_or(first);
    (first, last.max(first))
}

fn waits_of(jobs: usize, mut times: Vec<i64>) -> Waits {
    times.sort_unstable();
    // The smallest value that so many in a hundred do not exceed.
    let percentile = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1);
        times.get(rank - 1).copied()
    };
    let sum: i64 = times.iter().sum();
    let mean = (!times.is_empty()).then(|| sum as f64 / times.len() as f64);
    let max = times.last().copied();
    Waits { jobs, started: times.len(), p50: percentile(50), p95: percentile(95), max, mean }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

fn utilisation(outcome: &Outcome, first: i64, last: i64) -> f64 {
    if outcome.total == 0 || last <= first {
        return 0.0;
    }
    let ends = outcome.samples.iter().skip(1).map(|sample| sample.at).chain([last]);
    let used = outcome.samples.iter().zip(ends).map(|(sample, end)| {
        let (from, to) = (sample.at.clamp(first, last), end.clamp(first, last));
        i128::from(sample.used) * i128::from((to - from).max(0))
    });
    used.sum::<i128>() as f64 / (outcome.total as f64 * (last - first) as f64)
}
