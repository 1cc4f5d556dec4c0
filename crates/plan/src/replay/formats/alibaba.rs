//! Alibaba's GPU traces: the pod list of 2023 (openb), the task table of 2020 (pai), and openb's list of nodes.

use super::table::{Table, cells};
use super::{Problem, Problems, machines, part};
use crate::replay::{GPU, Job, Trace};
use serde_json::{Value, json};

const PAI: [&str; 10] = [
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
];
/// What its fourth column says.
pub const STATUSES: [&str; 4] = ["Terminated", "Failed", "Running", "Waiting"];
/// Of the cluster that each trace is from, roughly; `--nodes` says better.
const OPENB_NODES: &str = "737x8gpu,cpu=96,memory=768Gi,name=eight,39x8gpu,cpu=128,memory=768Gi,name=large";
const PAI_NODES: &str = "519x8gpu,cpu=96,memory=512Gi,name=eight,798x2gpu,cpu=64,memory=512Gi,name=p100,\
    497x2gpu,cpu=96,memory=512Gi,name=t4,83x,cpu=96,memory=512Gi,name=cpu";
const OPENB_GPU: &str = "alibabacloud.com/gpu-count";
/// `pai_machine_spec.csv` has no heading.
const PAI_MACHINES: [&str; 5] = ["sn", "model", "cpu", "memory_gib", "gpu"];

/// One pod is one job; a part of a GPU counts as a whole one.
pub fn read_openb(text: &str) -> Result<Trace, Vec<Problem>> {
    let table = Table::read(text, None);
    table.require(&["name", "num_gpu", "creation_time", "deletion_time"])?;
    let mut trace = Trace { format: "Alibaba openb pod list", nodes: machines(OPENB_NODES), ..Trace::default() };
    let (mut problems, mut skipped, mut shared, mut choosy) = (Problems::default(), 0, 0, 0);
    let tells_beginnings = table.heading().iter().any(|name| name == "scheduled_time");
    for (line, row) in &table.rows {
        let number = |name: &str| table.number((*line, row), name);
        let read = || -> Result<Option<Job>, Problem> {
            let (Some(created), Some(deleted)) = (number("creation_time")?, number("deletion_time")?) else {
                return Ok(None);
            };
            if tells_beginnings && table.cell(row, "scheduled_time").is_empty() {
                return Ok(None);
            }
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
        choosy += usize::from(!table.cell(row, "gpu_spec").is_empty());
        match read() {
            Ok(Some(job)) => trace.jobs.push(job),
            Ok(None) => skipped += 1,
            Err(problem) => problems.add(problem),
        }
    }
    if skipped > 0 {
        trace.notes.push(format!("{skipped} pods without a beginning or an end are left out"));
    }
    trace.gives_whole(shared, "pods");
    if choosy > 0 {
        trace.notes.push(format!("{choosy} pods that ask for models of GPUs are given any"));
    }
    problems.or(trace)
}

impl Trace {
    fn gives_whole(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.notes.push(format!("{count} {what} that ask for a part of a GPU are given a whole one"));
        }
    }
}

/// One task is one job of `inst_num` pods; `plan_gpu` and `plan_cpu` are in hundredths.
pub fn read_pai(text: &str) -> Result<Trace, Vec<Problem>> {
    let has_heading = text.lines().next().is_some_and(|line| line.contains("plan_gpu"));
    let table = Table::read(text, (!has_heading).then_some(&PAI));
    table.require(&["job_name", "inst_num", "start_time", "end_time", "plan_gpu"])?;
    let mut trace = Trace { format: "Alibaba pai task table", nodes: machines(PAI_NODES), ..Trace::default() };
    let (mut problems, mut skipped, mut shared) = (Problems::default(), 0, 0);
    for (line, row) in &table.rows {
        let number = |name: &str| table.number((*line, row), name);
        shared += usize::from(number("plan_gpu").ok().flatten().is_some_and(|part| part % 100.0 > 0.0));
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
    trace.gives_whole(shared, "tasks");
    trace.notes.push("the table has no time of submission: tasks arrive when they began".to_owned());
    problems.or(trace)
}

/// Whether the text is a list of machines that `read_nodes` reads.
pub fn has_nodes(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().to_ascii_lowercase();
    first.contains("cpu_milli") || first.contains("number of gpus") || is_pai_machine(&first)
}

fn is_pai_machine(line: &str) -> bool {
    let cells = cells(line);
    cells.len() == PAI_MACHINES.len() && cells[2..].iter().all(|cell| cell.parse::<f64>().is_ok())
}

/// The nodes of `openb_node_list*.yaml` have GPUs by a name of their own.
pub fn name_gpus(node: &mut Value) {
    if let Some(amounts) = node.pointer_mut("/status/allocatable").and_then(Value::as_object_mut)
        && let Some(count) = amounts.get(OPENB_GPU).cloned()
    {
        amounts.entry(GPU).or_insert(count);
    }
}

/// `openb_node_list*.csv`, `pai_machine_spec.csv` and Philly's `cluster_machine_list`.
pub fn read_nodes(text: &str) -> Result<Vec<Value>, Vec<Problem>> {
    let is_pai = text.lines().next().is_some_and(is_pai_machine);
    let table = Table::read(text, is_pai.then_some(&PAI_MACHINES));
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
            if let Some(cpu) = number("cpu")? {
                amounts["cpu"] = json!(format!("{cpu:.0}"));
            }
            if let Some(memory) = number("memory_gib")? {
                amounts["memory"] = json!(format!("{memory:.0}Gi"));
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
