//! Slurm's job lists as Helios (`cluster_log.csv`) and Acme (`trace_seren.csv`, `trace_kalos.csv`) publish them.
//!
//! `gpu_num` and `cpu_num` are a job's, on `node_num` nodes; their column `queue` is how long it waited, not where.

use super::table::Table;
use super::{Problem, Problems, machines, moment, part};
use crate::replay::{Job, Trace};

/// The largest cluster that each trace has; `--nodes` says better.
const HELIOS_NODES: &str = "264x8gpu,cpu=64,memory=256Gi,name=helios";
const ACME_NODES: &str = "302x8gpu,cpu=128,memory=2Ti,name=acme";

pub fn read(text: &str) -> Result<Trace, Vec<Problem>> {
    let table = Table::read(text, None);
    table.require(&["job_id", "node_num", "gpu_num", "submit_time", "start_time", "end_time"])?;
    let is_helios = table.heading().iter().any(|name| name == "vc");
    let (format, nodes, queue) =
        if is_helios { ("Helios job list", HELIOS_NODES, "vc") } else { ("Acme job list", ACME_NODES, "type") };
    let mut trace = Trace { format, nodes: machines(nodes), ..Trace::default() };
    let (mut problems, mut skipped) = (Problems::default(), 0);
    for (line, row) in &table.rows {
        match job(&table, (*line, row), queue) {
            Ok(Some(job)) => trace.jobs.push(job),
            Ok(None) => skipped += 1,
            Err(problem) => problems.add(problem),
        }
    }
    trace.leaves_out(skipped);
    trace.notes.push("unless --nodes says otherwise, machines are those of the largest of its clusters".to_owned());
    problems.or(trace)
}

fn job(table: &Table, (line, row): (usize, &[String]), queue: &str) -> Result<Option<Job>, Problem> {
    let number = |name: &str| Ok::<_, Problem>(table.number((line, row), name)?.unwrap_or(0.0).max(0.0));
    let at = |name: &str| match table.cell(row, name) {
        "" => Ok(None),
        text => moment(text)
            .map(Some)
            .ok_or_else(|| Problem::at(line, name, format!("`{text}` is no time such as 2023-03-01 00:18:54+08:00"))),
    };
    let (Some(submit), Some(start), Some(end)) = (at("submit_time")?, at("start_time")?, at("end_time")?) else {
        return Ok(None);
    };
    let pods = number("node_num")?.max(1.0);
    let gpus = (number("gpu_num")? / pods).ceil() as i64;
    let (cpu, memory) = ((number("cpu_num")? / pods).ceil(), number("mem_per_pod_gb")?);
    let each = part(
        pods as usize,
        gpus,
        &cpu.to_string(),
        &if memory > 0.0 { format!("{memory:.0}G") } else { String::new() },
    );
    let (name, queue) = (table.cell(row, "job_id").to_owned(), table.cell(row, queue).to_ascii_lowercase());
    let queue = if queue.is_empty() { "default".to_owned() } else { queue };
    let (parts, seconds) = (vec![each], end - start);
    let job = Job { name, queue, submit, parts, seconds, estimate: None, priority: 0, started: None };
    Ok(Some(job).filter(|job| job.seconds > 0))
}
