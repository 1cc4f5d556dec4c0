//! Our own trace: a list of jobs, and if wished the nodes and queues that they meet; as YAML, JSON or a table of jobs.
//!
//! docs/guides/simulate.md describes it for users.

use super::table::Table;
use super::{Problem, Problems, part, seconds};
use crate::node::pretended_nodes::Groups;
use crate::replay::{GPU, Job, Trace};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use volley_api::kube::quantity::Quantity;
use volley_api::kube::time;

const FIELDS: [&str; 10] =
    ["name", "queue", "submit", "pods", "gpus", "cpu", "memory", "duration", "estimate", "priority"];
const QUEUE_FIELDS: [&str; 7] = ["name", "weight", "capability", "deserved", "guarantee", "priority", "parent"];

/// Reads a parsed file; `lines` has the line of each job.
pub fn read(file: &Value, lines: &[usize]) -> Result<Trace, Vec<Problem>> {
    let mut trace = Trace { format: "volley trace", ..Trace::default() };
    let mut problems = Problems::default();
    let jobs = file.get("jobs").unwrap_or(file);
    let Some(jobs) = jobs.as_array() else {
        return Err(vec![Problem::at(
            1,
            "jobs",
            "want a list of jobs, such as - {name: a, gpus: 8, submit: 0, duration: 2h}",
        )]);
    };
    for (number, job) in jobs.iter().enumerate() {
        let line = lines.get(number).copied().unwrap_or(0);
        let Some(job) = job.as_object() else {
            problems.add(Problem::at(line, "jobs", "a job is a mapping"));
            continue;
        };
        let word = |field: &str| job.get(field).map(plain).unwrap_or_default();
        if let Some(unknown) = job.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            problems.add(unknown_field(line, unknown));
        }
        match read_job(number, line, word) {
            Ok(job) => trace.jobs.push(job),
            Err(problem) => problems.add(problem),
        }
    }
    if let Some(words) = file.get("nodes").and_then(Value::as_str) {
        match Groups::parse(words).and_then(|groups| Groups::joined([groups])) {
            Ok(groups) => trace.nodes = groups.nodes(Timestamp::UNIX_EPOCH),
            Err(problem) => problems.add(Problem::at(1, "nodes", problem)),
        }
    }
    for queue in file.get("queues").and_then(Value::as_array).into_iter().flatten() {
        match read_queue(queue) {
            Ok(queue) => trace.queues.push(queue),
            Err(problem) => problems.add(problem),
        }
    }
    problems.or(trace)
}

pub fn read_table(text: &str) -> Result<Trace, Vec<Problem>> {
    let table = Table::read(text, None);
    table.require(&["submit", "duration"])?;
    let mut trace = Trace { format: "volley trace (CSV)", ..Trace::default() };
    let mut problems = Problems::default();
    if let Some(unknown) = table.heading().iter().find(|name| !FIELDS.contains(&name.as_str())) {
        problems.add(unknown_field(1, unknown));
    }
    for (number, (line, row)) in table.rows.iter().enumerate() {
        match read_job(number, *line, |field| table.cell(row, field).to_owned()) {
            Ok(job) => trace.jobs.push(job),
            Err(problem) => problems.add(problem),
        }
    }
    problems.or(trace)
}

fn unknown_field(line: usize, field: &str) -> Problem {
    let named = FIELDS.into_iter().find(|known| known.strip_suffix('s') == Some(field));
    let near = named.or_else(|| crate::gang::hint::nearest(field, FIELDS.into_iter()));
    let meant = near.map_or_else(|| format!("a job has {}", FIELDS.join(", ")), |near| format!("did you mean {near}?"));
    Problem::at(line, field, format!("is not known; {meant}"))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn read_job(number: usize, line: usize, word: impl Fn(&str) -> String) -> Result<Job, Problem> {
    let time_of = |field: &str| -> Result<Option<i64>, Problem> {
        let text = word(field);
        if text.is_empty() {
            return Ok(None);
        }
        let found = seconds(&text).or_else(|| time::parse(&text).map(|time| time.as_second()));
        let wanted = if field == "submit" { "seconds, 10m or 2026-01-31T12:00:00Z" } else { "seconds, 90s or 2h30m" };
        found.map(Some).ok_or_else(|| Problem::at(line, field, format!("`{text}` is no time; want {wanted}")))
    };
    let count = |field: &str, usual: i64| -> Result<i64, Problem> {
        let text = word(field);
        match text.as_str() {
            "" => Ok(usual),
            text => text.parse().map_err(|_| Problem::at(line, field, format!("`{text}` is no whole number"))),
        }
    };
    let amount = |field: &str| -> Result<String, Problem> {
        let text = word(field);
        match text.is_empty() || Quantity::parse(&text).is_ok() {
            true => Ok(text),
            false => Err(Problem::at(line, field, format!("`{text}` is no amount, such as 16 or 64Gi"))),
        }
    };
    let missing = |field: &str| Problem::at(line, field, "is missing");
    let (pods, gpus) = (count("pods", 1)?, count("gpus", 0)?);
    if pods < 1 || gpus < 0 {
        return Err(Problem::at(line, if pods < 1 { "pods" } else { "gpus" }, "is too small"));
    }
    let length = time_of("duration")?.ok_or_else(|| missing("duration"))?;
    if length <= 0 {
        return Err(Problem::at(line, "duration", "must be more than nothing"));
    }
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    Ok(Job {
        name: or(word("name"), &format!("job-{number}")),
        queue: or(word("queue"), "default"),
        submit: time_of("submit")?.unwrap_or(0),
        parts: vec![part(usize::try_from(pods).unwrap_or(1), gpus, &amount("cpu")?, &amount("memory")?)],
        seconds: length,
        estimate: time_of("estimate")?,
        priority: count("priority", 0)?,
        started: None,
    })
}

/// A queue in few words: `{name: a, weight: 2, capability: {gpu: 8}}`.
fn read_queue(queue: &Value) -> Result<Value, Problem> {
    let place =
        |field: &str, problem: &str| Problem { place: format!("queues, field {field}"), problem: problem.to_owned() };
    let fields = queue.as_object().ok_or_else(|| place("-", "a queue is a mapping"))?;
    if let Some(unknown) = fields.keys().find(|key| !QUEUE_FIELDS.contains(&key.as_str())) {
        return Err(place(unknown, &format!("is not known; a queue has {}", QUEUE_FIELDS.join(", "))));
    }
    let name = fields.get("name").and_then(Value::as_str).ok_or_else(|| place("name", "is missing"))?;
    let mut spec = Map::new();
    for (key, value) in fields.iter().filter(|(key, _)| *key != "name") {
        let amounts = value.as_object().map(|amounts| {
            let full = |name: &str| if matches!(name, "gpu" | "gpus") { GPU.to_owned() } else { name.to_owned() };
            let entries: Map<String, Value> =
                amounts.iter().map(|(name, amount)| (full(name), json!(plain(amount)))).collect();
            Value::Object(entries)
        });
        match (key.as_str(), amounts) {
            ("guarantee", Some(amounts)) => drop(spec.insert(key.clone(), json!({ "resource": amounts }))),
            (_, Some(amounts)) => drop(spec.insert(key.clone(), amounts)),
            (_, None) => drop(spec.insert(key.clone(), value.clone())),
        }
    }
    Ok(json!({"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}}))
}
