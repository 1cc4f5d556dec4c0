//! Alibaba's GPU traces: the pod list of 2023 (openb), the task table of 2020 (pai), and openb's list of nodes.

use super::table::Table;
use super::{Problem, Problems, machines, part};
use crate::replay::{GPU, Job, Trace};
use serde_json::{Value, json};

const PAI: [&str; 10] = [
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
];
/// Of the cluster that each trace is from, roughly; `--nodes` says better.
const OPENB_NODES: &str = "776x8gpu,cpu=96,memory=768Gi,name=eight";
const PAI_NODES: &str = "800x8gpu,cpu=96,memory=512Gi,name=eight,1000x2gpu,cpu=96,memory=512Gi,name=two";

/// One pod is one job; a part of a GPU counts as a whole one.
pub fn read_openb(text: &str) -> Result<Trace, Vec<Problem>> {
    let table = Table::read(text, None);
    table.require(&["name", "num_gpu", "creation_time", "deletion_time"])?;
    let mut trace = Trace { format: "Alibaba openb pod list", nodes: machines(OPENB_NODES), ..Trace::default() };
    let (mut problems, mut skipped, mut shared) = (Problems::default(), 0, 0);
    for (line, row) in &table.rows {
        let number = |name: &str| table.number((*line, row), name);
        let read = || -> Result<Option<Job>, Problem> {
            let (Some(created), Some(deleted)) = (number("creation_time")?, number("deletion_time")?) else {
                return Ok(None);
            };
            let begun = number("scheduled_time")?.filter(|begun| *begun > 0.0).unwrap_or(created);
            let (cpu, memory) = (number("cpu_milli")?.unwrap_or(0.0), number("memory_mib")?.unwrap_or(0.0));
            let gpus = number("num_gpu")?.unwrap_or(0.0) as i64;
            let seconds = (deleted - begun) as i64;
            let qos = Some(table.cell(row, "qos")).filter(|qos| !qos.is_empty()).unwrap_or("default");
            let each = part(1, gpus, &format!("{cpu:.0}m"), &format!("{memory:.0}Mi"));
            let (name, submit, queue) = (table.cell(row, "name").to_owned(), created as i64, qos.to_ascii_lowercase());
            let job =
                Job { name, queue, submit, parts: vec![each], seconds, estimate: None, priority: 0, started: None };
            Ok(Some(job).filter(|job| job.seconds > 0))
        };
        shared += usize::from(number("gpu_milli").ok().flatten().is_some_and(|milli| milli > 0.0 && milli < 1000.0));
        match read() {
            Ok(Some(job)) => trace.jobs.push(job),
            Ok(None) => skipped += 1,
            Err(problem) => problems.add(problem),
        }
    }
    if skipped > 0 {
        trace.notes.push(format!("{skipped} pods without a beginning or an end are left out"));
    }
    if shared > 0 {
        trace.notes.push(format!("{shared} pods that ask for a part of a GPU are given a whole one"));
    }
    problems.or(trace)
}

/// One task is one job of `inst_num` pods; `plan_gpu` and `plan_cpu` are in hundredths.
pub fn read_pai(text: &str) -> Result<Trace, Vec<Problem>> {
    let has_heading = text.lines().next().is_some_and(|line| line.contains("plan_gpu"));
    let table = Table::read(text, (!has_heading).then_some(&PAI));
    table.require(&["job_name", "inst_num", "start_time", "end_time", "plan_gpu"])?;
    let mut trace = Trace { format: "Alibaba pai task table", nodes: machines(PAI_NODES), ..Trace::default() };
    let (mut problems, mut skipped) = (Problems::default(), 0);
    for (line, row) in &table.rows {
        let number = |name: &str| table.number((*line, row), name);
        let read = || -> Result<Option<Job>, Problem> {
            let (Some(start), Some(end)) = (number("start_time")?, number("end_time")?) else { return Ok(None) };
            let pods = number("inst_num")?.unwrap_or(1.0).max(1.0) as usize;
            let gpus = (number("plan_gpu")?.unwrap_or(0.0) / 100.0).ceil() as i64;
            let cpu = (number("plan_cpu")?.unwrap_or(0.0) * 10.0).round();
            let memory = number("plan_mem")?.unwrap_or(0.0).round();
            let name = format!("{}/{}", table.cell(row, "job_name"), table.cell(row, "task_name"));
            let kind = Some(table.cell(row, "gpu_type")).filter(|kind| !kind.is_empty()).unwrap_or("cpu");
            let each = part(pods, gpus, &format!("{cpu:.0}m"), &format!("{memory:.0}Gi"));
            let (submit, seconds) = (start as i64, (end - start) as i64);
            let queue = kind.to_ascii_lowercase();
            let job =
                Job { name, queue, submit, parts: vec![each], seconds, estimate: None, priority: 0, started: None };
            Ok(Some(job).filter(|job| job.seconds > 0))
        };
        match read() {
            Ok(Some(job)) => trace.jobs.push(job),
            Ok(None) => skipped += 1,
            Err(problem) => problems.add(problem),
        }
    }
    if skipped > 0 {
        trace.notes.push(format!("{skipped} tasks without a beginning or an end are left out"));
    }
    trace.notes.push("the table has no time of submission: tasks arrive when they began".to_owned());
    problems.or(trace)
}

/// `openb_node_list*.csv`, and Philly's `cluster_machine_list`.
pub fn read_nodes(text: &str) -> Result<Vec<Value>, Vec<Problem>> {
    let table = Table::read(text, None);
    let is_philly = table.heading().iter().any(|name| name == "number of gpus");
    let (name, gpus) = if is_philly { ("machineid", "number of gpus") } else { ("sn", "gpu") };
    table.require(&[name, gpus])?;
    let (mut nodes, mut problems) = (Vec::new(), Problems::default());
    for (line, row) in &table.rows {
        let number = |column: &str| table.number((*line, row), column);
        let read = || -> Result<Value, Problem> {
            let mut amounts = json!({"pods": "110", "cpu": "96", "memory": "1Ti"});
            if let Some(cpu) = number("cpu_milli")? {
                amounts["cpu"] = json!(format!("{cpu:.0}m"));
            }
            if let Some(memory) = number("memory_mib")? {
                amounts["memory"] = json!(format!("{memory:.0}Mi"));
            }
            if let Some(count) = number(gpus)?.filter(|count| *count > 0.0) {
                amounts[GPU] = json!(format!("{count:.0}"));
            }
            Ok(
                json!({"metadata": {"name": table.cell(row, name), "labels": {"gpu-model": table.cell(row, "model")}}, "spec": {},
                "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}}),
            )
        };
        match read() {
            Ok(node) => nodes.push(node),
            Err(problem) => problems.add(problem),
        }
    }
    problems.or(nodes)
}
