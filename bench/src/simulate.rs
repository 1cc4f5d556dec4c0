//! `volley simulate`: how long a replay takes, from the trace's text to its figures, without the program around it.
//!
//! Traces are made, as large as the public ones and in their formats: sizes and times as training clusters have them.

use crate::process::{cpu_seconds, resident_mb};
use crate::table::{Row, Table};
use anyhow::{Result, anyhow, ensure};
use jiff::Timestamp;
use serde_json::json;
use std::fmt::Write;
use volley_plan::gang::policy::Policy;
use volley_plan::node::pretended_nodes::Groups;
use volley_plan::replay::formats::{detect, read};
use volley_plan::replay::report::report;
use volley_plan::replay::run::run;

/// For our own table: jobs arrive every forty seconds, which fills these to about nine tenths.
const NODES: &str = "64x8gpu";

/// One job of a made trace.
struct Made {
    queue: u64,
    submit: u64,
    pods: u64,
    gpus: u64,
    seconds: u64,
}

type Writer = fn(&[Made]) -> String;

pub fn replays(quick: bool, table: &mut Table) -> Result<()> {
    let most = if quick { 10_000 } else { 100_000 };
    let ours: [(&str, Writer, usize, u64); 3] =
        [("own table", own, 1_000, 81), ("own table", own, 10_000, 81), ("own table", own, most, 81)];
    // As busy on the larger clusters that these formats stand for.
    let public: [(&str, Writer, usize, u64); 3] =
        [("Philly", philly, most, 16), ("Alibaba openb", openb, most, 7), ("SWF", swf, most, 81)];
    for (format, write, jobs, pause) in ours.into_iter().chain(public) {
        let text = write(&jobs_of(jobs, pause));
        let start = cpu_seconds();
        let mut trace = read(detect(&text), &text).map_err(|problems| anyhow!("{format}: {problems:?}"))?;
        if trace.nodes.is_empty() {
            let groups = Groups::parse(NODES).and_then(|groups| Groups::joined([groups]));
            trace.nodes = groups.map_err(|problem| anyhow!(problem))?.nodes(Timestamp::UNIX_EPOCH);
        }
        let reading = cpu_seconds() - start;
        let outcome = run(&trace, &Policy::default());
        let counted = report(&trace, &outcome, "default");
        let taken = cpu_seconds() - start;
        ensure!(trace.jobs.len() == jobs, "{format}: {} of {jobs} jobs were read", trace.jobs.len());
        let scale = format!("{format}, {jobs} jobs, {} nodes, {} steps", trace.nodes.len(), outcome.steps);
        std::hint::black_box(counted);
        let reference = ("reading it", reading * 1000.0);
        table.add(Row { figure: "a trace replayed", scale, value: taken * 1000.0, unit: "ms", reference });
    }
    let reference = ("the largest trace's text", own(&jobs_of(most, 81)).len() as f64 / 1e6);
    let value = resident_mb(std::process::id())?;
    table.add(Row { figure: "resident after replays", scale: format!("{most} jobs"), value, unit: "MB", reference });
    Ok(())
}

/// The same jobs in every run, from a small generator of numbers; one every `pause / 2` seconds.
fn jobs_of(count: usize, pause: u64) -> Vec<Made> {
    let mut state: u64 = 1;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut submit = 1_500_000_000;
    let job = |_| {
        submit += next(pause);
        let gpus = [1, 1, 1, 1, 1, 1, 2, 2, 4, 8][next(10) as usize];
        let pods = if gpus == 8 { [1, 1, 1, 1, 2, 4][next(6) as usize] } else { 1 };
        Made { queue: next(4), submit, pods, gpus, seconds: 30 + (next(100) * next(100) * next(100)) / 40 }
    };
    (0..count).map(job).collect()
}

fn own(jobs: &[Made]) -> String {
    let mut text = "queue,submit,pods,gpus,duration\n".to_owned();
    for Made { queue, submit, pods, gpus, seconds } in jobs {
        let _ = writeln!(text, "q{queue},{submit},{pods},{gpus},{seconds}");
    }
    text
}

fn philly(jobs: &[Made]) -> String {
    let stamp = |second: u64| {
        let at = Timestamp::from_second(second as i64).unwrap_or_default();
        at.strftime("%Y-%m-%d %H:%M:%S").to_string()
    };
    let entry = |(number, job): (usize, &Made)| {
        let gpus: Vec<String> = (0..job.gpus).map(|gpu| format!("gpu{gpu}")).collect();
        let machines: Vec<_> = (0..job.pods).map(|pod| json!({"ip": format!("m{pod}"), "gpus": gpus})).collect();
        json!({"jobid": format!("job{number}"), "vc": format!("q{}", job.queue), "user": "u", "status": "Pass",
            "submitted_time": stamp(job.submit), "attempts": [{"start_time": stamp(job.submit),
                "end_time": stamp(job.submit + job.seconds), "detail": machines}]})
    };
    serde_json::Value::Array(jobs.iter().enumerate().map(entry).collect()).to_string()
}

/// A pod is a job there.
fn openb(jobs: &[Made]) -> String {
    let mut text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,\
        scheduled_time\n"
        .to_owned();
    for (number, Made { submit, gpus, seconds, .. }) in jobs.iter().enumerate() {
        let end = submit + seconds;
        let _ = writeln!(text, "p{number},4000,8192,{gpus},1000,,LS,Running,{submit},{end},{submit}");
    }
    text
}

/// Eighteen numbers a job, on a machine of 64 nodes with eight processors each.
fn swf(jobs: &[Made]) -> String {
    let mut text = "; MaxNodes: 64\n; MaxProcs: 512\n".to_owned();
    for (number, Made { queue, submit, pods, gpus, seconds }) in jobs.iter().enumerate() {
        let wide = pods * gpus;
        let _ =
            writeln!(text, "{number} {submit} 0 {seconds} {wide} -1 -1 {wide} {seconds} -1 1 1 1 1 {queue} 1 -1 -1");
    }
    text
}
