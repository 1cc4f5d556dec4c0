//! `volley simulate`: how long a replay takes, from the start of the program to its figures.

use crate::table::{Row, Table};
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Jobs arrive every forty seconds on 64 nodes, which they fill to about nine tenths.
const NODES: &str = "64x8gpu";

pub fn replays(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    let scales: &[usize] = if quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] };
    for jobs in scales {
        let file = folder.join(format!("trace-{jobs}.csv"));
        std::fs::write(&file, trace(*jobs))?;
        let begun = Instant::now();
        let mut command = Command::new(program);
        command.args(["simulate", "--nodes", NODES, "-o", "json"]).arg(&file).arg("--home").arg(folder.join("none"));
        let status = command.stdout(Stdio::null()).status()?;
        ensure!(status.success(), "`volley simulate` failed");
        let taken = begun.elapsed().as_secs_f64();
        let scale = format!("{jobs} jobs on 64 nodes");
        let reference = ("jobs /s", *jobs as f64 / taken);
        table.add(Row { figure: "a trace replayed", scale, value: taken * 1000.0, unit: "ms", reference });
    }
    Ok(())
}

/// The same jobs in every run: sizes and times as training clusters have them, from a small generator of numbers.
fn trace(jobs: usize) -> String {
    let mut text = "queue,submit,pods,gpus,duration\n".to_owned();
    let mut state: u64 = 1;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut submit = 0;
    for _ in 0..jobs {
        submit += next(81);
        let gpus = [1, 1, 1, 1, 1, 1, 2, 2, 4, 8][next(10) as usize];
        let pods = if gpus == 8 { [1, 1, 1, 1, 2, 4][next(6) as usize] } else { 1 };
        let duration = 30 + (next(100) * next(100) * next(100)) / 40;
        let _ = writeln!(text, "q{},{submit},{pods},{gpus},{duration}", next(4));
    }
    text
}
