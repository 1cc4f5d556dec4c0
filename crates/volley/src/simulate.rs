//! `volley simulate`: replays a trace of jobs on a pretended cluster, by the scheduler's own decisions, and says how they fared.
//!
//! `plan::replay` reads traces and replays them; here files are read, a live cluster is listed, and figures are printed.

use crate::home::Home;
use crate::output::{Output, Show, aligned};
use crate::target::{TargetArgs, block_on};
use crate::why::{observe, read_policy};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_saphyr::Spanned;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volley_plan::gang::policy::built_in;
use volley_plan::node::pretended_nodes::Groups;
use volley_plan::replay::formats::{self, Format, Problem, alibaba, own};
use volley_plan::replay::plot::{self, Series};
use volley_plan::replay::report::{Report, Waits, report, span};
use volley_plan::replay::run::{Outcome, run};
use volley_plan::replay::{Trace, live};

/// How a compressed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The largest published traces have about a gigabyte.
const TEXT_MAX: u64 = 4 << 30;

const EXAMPLES: &str = "\
Examples:
  volley simulate jobs.yaml                         how long would they wait?
  volley simulate jobs.csv --nodes 64x8gpu          on other nodes than the trace says
  volley simulate cluster_job_log --nodes cluster_machine_list --svg philly.svg
  volley simulate jobs.yaml --compare scheduler.yaml   volley's policy beside a Volcano configuration
  volley simulate --from-cluster --policy new.yaml  what would a policy do to what runs and waits now?

A trace is volley's own (YAML, JSON or CSV: name, queue, submit, pods, gpus, cpu, memory, duration, estimate, priority),
Microsoft's Philly cluster_job_log, Alibaba's openb_pod_list or pai_task_table, a job list of Helios or Acme, or in the
Standard Workload Format, as they are or as .gz; its content tells which. The same trace gives the same figures.";

/// Replay a trace of jobs on a pretended cluster, and print how they fared
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Simulate {
    /// The trace
    #[arg(value_name = "TRACE", required_unless_present = "from_cluster", conflicts_with = "from_cluster")]
    trace: Option<PathBuf>,
    /// Nodes: words such as 64x8gpu,cpu=96, or a file with Node objects or a public trace's list of machines
    #[arg(long, value_name = "FILE|WORDS")]
    nodes: Option<String>,
    /// A Volcano scheduler configuration [default: volley's own policy]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Replay by this configuration too, and show both side by side
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Draw how full the cluster was and how many jobs waited
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Take what runs and what waits on a live cluster for the trace
    #[arg(long)]
    from_cluster: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: TargetArgs,
}

impl Simulate {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let mut trace = match &self.trace {
            Some(file) => read_trace(file)?,
            None => block_on(async {
                let cluster = self.target.connect(home).await?;
                let (world, notes) = observe::world(&cluster).await?;
                notes.iter().for_each(|note| eprintln!("note: {note}"));
                Ok(live::trace(&world, Timestamp::now()))
            })?,
        };
        if let Some(nodes) = &self.nodes {
            trace.nodes = read_nodes(nodes)?;
        }
        if trace.nodes.is_empty() {
            bail!(
                "the trace does not say which nodes there are\nhint: --nodes 64x8gpu, or `nodes: 64x8gpu` in the trace"
            );
        }
        trace.notes.iter().for_each(|note| eprintln!("note: {note}"));
        let mut runs = vec![replay(&trace, self.policy.as_deref())?];
        if let Some(other) = &self.compare {
            runs.push(replay(&trace, Some(other))?);
        }
        if let Some(out) = &self.svg {
            let text = drawn(&trace, &runs, self.trace.as_deref());
            fs::write(out, text).with_context(|| format!("failed to write `{}`", out.display()))?;
        }
        let reports = runs.into_iter().map(|(report, _)| report).collect();
        let (jobs, nodes) = (trace.jobs.len(), trace.nodes.len());
        self.output.print(&Simulation { format: trace.format, jobs, nodes, reports })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn replay(trace: &Trace, policy: Option<&Path>) -> Result<(Report, Outcome)> {
    let (name, policy) = match policy {
        Some(file) => {
            (file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()), read_policy(file)?)
        }
        None => ("default".to_owned(), built_in()),
    };
    let outcome = run(trace, &policy);
    Ok((report(trace, &outcome, &name), outcome))
}

fn drawn(trace: &Trace, runs: &[(Report, Outcome)], file: Option<&Path>) -> String {
    let spans = runs.iter().map(|(_, outcome)| span(trace, outcome));
    let whole = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
    let name = file.and_then(Path::file_name).map_or("the cluster now".into(), |name| name.to_string_lossy());
    let title = format!("{name}: {} on {}", counted(trace.jobs.len(), "job"), counted(trace.nodes.len(), "node"));
    let series: Vec<Series> = runs.iter().map(|(report, outcome)| Series { name: &report.policy, outcome }).collect();
    plot::svg(&title, &series, whole)
}

/// `1 node`, `2 nodes`
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Our own file, with the lines on which jobs begin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFile {
    jobs: Vec<Spanned<Value>>,
    nodes: Option<String>,
    queues: Option<Value>,
}

fn refused(file: &Path, problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    anyhow!(
        "`{}` cannot be replayed\n{}\nhint: docs/guides/simulate.md has the formats",
        file.display(),
        lines.join("\n")
    )
}

/// The file's text, also if it is compressed as published traces often are.
fn read_text(file: &Path) -> Result<String> {
    let failed = || format!("failed to read `{}`", file.display());
    let mut bytes = fs::read(file).with_context(failed)?;
    if bytes.starts_with(&GZIP) {
        let mut text = Vec::new();
        MultiGzDecoder::new(&bytes[..]).take(TEXT_MAX + 1).read_to_end(&mut text).with_context(failed)?;
        bytes = text;
    }
    if bytes.len() as u64 > TEXT_MAX {
        bail!("`{}` has more than {} GiB of text\nhint: cut it into parts", file.display(), TEXT_MAX >> 30);
    }
    let is_archive = bytes.starts_with(b"PK") || bytes.get(257..262) == Some(b"ustar");
    match String::from_utf8(bytes) {
        Ok(text) if !is_archive => Ok(text),
        _ => bail!("`{}` is no text\nhint: if it is an archive (.tar, .tar.gz, .zip), unpack it first", file.display()),
    }
}

fn read_trace(file: &Path) -> Result<Trace> {
    let text = read_text(file)?;
    let format = formats::detect(&text);
    if format != Format::Own {
        return formats::read(format, &text).map_err(|problems| refused(file, &problems));
    }
    let read: OwnFile = serde_saphyr::from_str(&text)
        .with_context(|| format!("`{}` is no trace\nhint: docs/guides/simulate.md has the formats", file.display()))?;
    let lines: Vec<usize> = read.jobs.iter().map(|job| usize::try_from(job.defined.line()).unwrap_or(0)).collect();
    let jobs: Vec<Value> = read.jobs.into_iter().map(|job| job.value).collect();
    let value = serde_json::json!({"jobs": jobs, "nodes": read.nodes, "queues": read.queues});
    own::read(&value, &lines).map_err(|problems| refused(file, &problems))
}

/// Words, or a file: Node objects, or a public trace's list of machines.
fn read_nodes(words: &str) -> Result<Vec<Value>> {
    let file = Path::new(words);
    if !file.exists() {
        let groups = Groups::parse(words).and_then(|groups| Groups::joined([groups]));
        let groups = groups.map_err(|problem| anyhow!("--nodes: {problem}\nhint: it is no file either"))?;
        return Ok(groups.nodes(Timestamp::UNIX_EPOCH));
    }
    let text = read_text(file)?;
    if alibaba::has_nodes(&text) {
        return alibaba::read_nodes(&text).map_err(|problems| refused(file, &problems));
    }
    let mut found = Vec::new();
    for document in serde_saphyr::from_multiple::<Value>(&text).with_context(|| format!("`{words}` is not YAML"))? {
        match document {
            Value::Array(nodes) => found.extend(nodes),
            Value::Object(mut one) if one.contains_key("items") => {
                found.extend(one.remove("items").and_then(|items| items.as_array().cloned()).unwrap_or_default());
            }
            other => found.push(other),
        }
    }
    found.retain(|node| node["kind"] == "Node" || node["status"]["allocatable"].is_object());
    found.iter_mut().for_each(alibaba::name_gpus);
    match found.is_empty() {
        true => bail!("`{words}` has no Node objects\nhint: `kubectl get nodes -o yaml` writes such a file"),
        false => Ok(found),
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Simulation {
    format: &'static str,
    jobs: usize,
    nodes: usize,
    /// One for each policy.
    reports: Vec<Report>,
}

/// `0s`, `42s`, `17m`, `3.5h`, `2.1d`
fn lasts(seconds: i64) -> String {
    let count = seconds as f64;
    match seconds {
        0..100 => format!("{seconds}s"),
        100..6_000 => format!("{:.0}m", count / 60.0),
        6_000..172_800 => format!("{:.1}h", count / 3_600.0),
        _ => format!("{:.1}d", count / 86_400.0),
    }
}

/// How long jobs waited, if any started.
fn waited(seconds: Option<i64>) -> String {
    or_nothing(seconds.map(lasts))
}

fn or_nothing(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "-".to_owned())
}

impl Simulation {
    fn figures(&self) -> Vec<Vec<String>> {
        let row = |name: &str, figure: &dyn Fn(&Report) -> String| {
            [vec![name.to_owned()], self.reports.iter().map(figure).collect()].concat()
        };
        let resource = self.reports.first().map_or("", |report| report.resource.as_str());
        vec![
            row("POLICY", &|report| report.policy.clone()),
            row("wait p50", &|report| waited(report.all.p50)),
            row("wait p95", &|report| waited(report.all.p95)),
            row("wait max", &|report| waited(report.all.max)),
            row("makespan", &|report| lasts(report.makespan_seconds)),
            row(&format!("{resource} in use"), &|report| format!("{:.1}%", report.utilisation * 100.0)),
            row("fairness (Jain)", &|report| or_nothing(report.fairness.map(|part| format!("{part:.3}")))),
            row("preemptions", &|report| report.preemptions.to_string()),
            row("hours lost to them", &|report| format!("{:.1}", report.lost_hours)),
            row("never start", &|report| report.never.to_string()),
        ]
    }

    fn queues(&self) -> Vec<Vec<String>> {
        let mut heading = vec!["QUEUE".to_owned(), "JOBS".to_owned()];
        for report in &self.reports {
            let of = if self.reports.len() > 1 { format!(" ({})", report.policy) } else { String::new() };
            heading.extend(["P50", "P95", "MAX"].map(|name| format!("{name}{of}")));
        }
        let mut rows = vec![heading];
        let first = self.reports.first().map(|report| report.queues.keys().cloned().collect::<Vec<_>>());
        for queue in first.unwrap_or_default() {
            let nothing = Waits::default();
            let of = |report: &Report| report.queues.get(&queue).cloned().unwrap_or_else(|| nothing.clone());
            let mut row = vec![queue.clone(), self.reports.first().map_or(0, |report| of(report).jobs).to_string()];
            for report in &self.reports {
                let waits = of(report);
                row.extend([waits.p50, waits.p95, waits.max].map(waited));
            }
            rows.push(row);
        }
        rows
    }
}

impl Show for Simulation {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        self.figures()
    }

    fn names(&self) -> Vec<String> {
        self.reports.iter().map(|report| report.policy.clone()).collect()
    }

    fn table(&self, _wide: bool) -> String {
        let first = self.reports.first();
        let (total, resource) = first.map_or((0, ""), |report| (report.total, report.resource.as_str()));
        let (jobs, nodes) = (counted(self.jobs, "job"), counted(self.nodes, "node"));
        let mut text = format!("{jobs} of a {} on {nodes} with {total} {resource}\n\n", self.format);
        text += &aligned(&self.figures());
        text.push('\n');
        text += &aligned(&self.queues());
        if let Some(why) = first.and_then(|report| report.never_because.as_ref()) {
            text += &format!("\nWhy the first of those that never start does not: {why}.\n");
        }
        if let Some(report) = first.filter(|report| report.tick_seconds > 1) {
            text += &format!("\nEvents within {} s were taken together.\n", report.tick_seconds);
        }
        text
    }
}
