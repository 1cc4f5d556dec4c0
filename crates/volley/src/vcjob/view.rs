//! `volley vcjob view`: all about one job: what was asked for, how it is, its pods and its events.

use super::{JOB_NAME, JOBS, JobArgs, PODS};
use crate::home::Home;
use crate::output::{self, Output, Show};
use crate::target::{Cluster, Resource, escaped};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use volley_api::kube::time;
use volley_api::volcano::keys;

const EXAMPLES: &str = "\
Examples:
  volley vcjob view train
  volley vcjob view -N train -n team
  volley vcjob view train -o yaml";

const EVENTS: Resource = Resource { api_version: "v1", plural: "events" };

/// Show a job with its pods and events
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct View {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    output: Output,
}

/// A job and what belongs to it; other forms than the one for people are of the job alone.
#[derive(Serialize)]
#[serde(transparent)]
struct Seen {
    job: Value,
    #[serde(skip)]
    pods: Vec<Vec<String>>,
    #[serde(skip)]
    events: Vec<Value>,
    #[serde(skip)]
    now: Timestamp,
}

impl View {
    pub async fn run(&self, home: &Home) -> Result<()> {
        let name = self.job.name("job name (specified by --name or -N) is mandatory to view a particular job")?;
        let cluster = self.job.target.connect(home).await?;
        let namespace = cluster.namespace(&self.job.namespace);
        let job = cluster.get(&JOBS.one(Some(namespace), name)?).await?;
        let mut seen = Seen { job, pods: Vec::new(), events: Vec::new(), now: Timestamp::now() };
        if matches!(self.output.format, None | Some(output::Format::Wide)) {
            let wide = self.output.format.is_some();
            seen.pods = pods(&cluster, namespace, &seen.job, wide).await?;
            seen.events = events(&cluster, namespace, &seen.job).await?;
        }
        self.output.print(&seen)
    }
}

/// The job's pods as kubectl's table has them.
async fn pods(cluster: &Cluster, namespace: &str, job: &Value, wide: bool) -> Result<Vec<Vec<String>>> {
    let selector = format!("{}={}", keys::JOB, job["metadata"]["name"].as_str().unwrap_or_default());
    let path = format!("{}?labelSelector={}", PODS.all(Some(namespace))?, escaped(&selector));
    Ok(table_rows(&cluster.table(&path).await?, &job["metadata"]["uid"], wide))
}

/// The rows of a table that belong to this owner, with the headings above them; none when there is no row.
fn table_rows(table: &Value, owner: &Value, wide: bool) -> Vec<Vec<String>> {
    let columns: Vec<&Value> = table["columnDefinitions"].as_array().into_iter().flatten().collect();
    let is_shown =
        |position: usize| wide || columns.get(position).is_some_and(|it| it["priority"].as_i64().unwrap_or(0) == 0);
    let cells = |values: Vec<String>| -> Vec<String> {
        values.into_iter().enumerate().filter(|(position, _)| is_shown(*position)).map(|(_, cell)| cell).collect()
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_own = |row: &&Value| {
        let owners = row["object"]["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|reference| reference["uid"] == *owner)
    };
    let rows = table["rows"].as_array().into_iter().flatten().filter(is_own);
    let mut shown: Vec<Vec<String>> =
        rows.map(|row| cells(row["cells"].as_array().into_iter().flatten().map(text).collect())).collect();
    if !shown.is_empty() {
        shown.insert(0, cells(columns.iter().map(|column| text(&column["name"]).to_uppercase()).collect()));
    }
    shown
}

/// What happened to the job and to its PodGroup, oldest first.
async fn events(cluster: &Cluster, namespace: &str, job: &Value) -> Result<Vec<Value>> {
    let meta = &job["metadata"];
    let uid = meta["uid"].as_str().unwrap_or_default();
    let group = format!("{}-{uid}", meta["name"].as_str().unwrap_or_default());
    let mut events = cluster.list(&EVENTS.all(Some(namespace))?).await?;
    events.retain(|event| {
        let about = &event["involvedObject"];
        about["uid"] == *uid || (about["kind"] == "PodGroup" && about["name"] == *group)
    });
    events.sort_by_key(|event| last_time(event).map(|last| last.as_nanosecond()));
    Ok(events)
}

fn event_time(event: &Value, fields: &[&str]) -> Option<Timestamp> {
    fields.iter().find_map(|field| event[*field].as_str().and_then(time::parse))
}

fn last_time(event: &Value) -> Option<Timestamp> {
    event_time(event, &["lastTimestamp", "eventTime", "firstTimestamp"])
}

impl Show for Seen {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        Vec::new()
    }

    fn names(&self) -> Vec<String> {
        vec![format!("{JOB_NAME}/{}", self.job["metadata"]["name"].as_str().unwrap_or_default())]
    }

    fn table(&self, _wide: bool) -> String {
        let mut text = about(&self.job);
        text += "Pods:";
        match self.pods.is_empty() {
            true => text += "  <none>\n",
            false => text += &format!("\n{}", indented(&output::aligned(&self.pods))),
        }
        text += "Events:";
        match self.events.is_empty() {
            true => text += "  <none>\n",
            false => text += &format!("\n{}", indented(&output::aligned(&event_rows(&self.events, self.now)))),
        }
        text
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

fn event_rows(events: &[Value], now: Timestamp) -> Vec<Vec<String>> {
    let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
    let mut rows =
        vec![row(["Type", "Reason", "Age", "From", "Message"]), row(["----", "------", "---", "----", "-------"])];
    for event in events {
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let last = time::age(last_time(event), now);
        let first = time::age(event_time(event, &["firstTimestamp", "eventTime"]), now);
        let age = match event["count"].as_u64() {
            Some(count @ 2..) => format!("{last} (x{count} over {first})"),
            _ => last,
        };
        let source = text(&event["source"]["component"]);
        let from = if source.is_empty() { text(&event["reportingComponent"]) } else { source };
        rows.push(vec![text(&event["type"]), text(&event["reason"]), age, from, text(&event["message"])]);
    }
    rows
}

/// The job itself, field by field, as `kubectl describe` shows a kind that it does not know.
fn about(job: &Value) -> String {
    let meta = &job["metadata"];
    let map = |field: &str| {
        let mut map = meta[field].as_object().cloned().unwrap_or_default();
        // It is the whole job once more.
        map.remove("kubectl.kubernetes.io/last-applied-configuration");
        if map.is_empty() { "<none>".to_owned() } else { Value::Object(map).to_string() }
    };
    let scalar = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut text = String::new();
    for (name, value) in [
        ("Name", scalar(&meta["name"])),
        ("Namespace", scalar(&meta["namespace"])),
        ("Labels", map("labels")),
        ("Annotations", map("annotations")),
        ("API Version", scalar(&job["apiVersion"])),
        ("Kind", scalar(&job["kind"])),
    ] {
        text += &format!("{:<14}{value}\n", format!("{name}:"));
    }
    text += "Metadata:\n";
    for field in ["creationTimestamp", "deletionTimestamp", "generateName", "generation", "resourceVersion", "uid"] {
        if !meta[field].is_null() {
            entry(&mut text, 1, &label(field), &meta[field]);
        }
    }
    for part in ["spec", "status"] {
        entry(&mut text, 0, &label(part), &job[part]);
    }
    text
}

/// One field and all below it.
fn entry(text: &mut String, depth: usize, name: &str, value: &Value) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            *text += &format!("{indent}{name}:\n");
            map.iter().for_each(|(key, value)| entry(text, depth + 1, &label(key), value));
        }
        Value::Array(items) if items.is_empty() => *text += &format!("{indent}{name}:  []\n"),
        Value::Array(items) => {
            *text += &format!("{indent}{name}:\n");
            items.iter().for_each(|item| list_item(text, depth + 1, item));
        }
        Value::String(words) if words.contains('\n') => {
            *text += &format!("{indent}{name}:\n");
            words.lines().for_each(|line| *text += &format!("{indent}  {line}\n"));
        }
        Value::String(words) => *text += &format!("{indent}{name}:  {words}\n"),
        Value::Null => *text += &format!("{indent}{name}:  <none>\n"),
        other => *text += &format!("{indent}{name}:  {other}\n"),
    }
}

/// A dash before the first line of each item tells one from the next.
fn list_item(text: &mut String, depth: usize, item: &Value) {
    let mut inside = String::new();
    match item {
        Value::Object(map) => {
            // What a thing is called comes first.
            let (names, others): (Vec<_>, Vec<_>) = map.iter().partition(|(key, _)| *key == "name");
            names.into_iter().chain(others).for_each(|(key, value)| entry(&mut inside, 0, &label(key), value));
        }
        Value::Array(items) => items.iter().for_each(|item| list_item(&mut inside, 0, item)),
        Value::String(words) => inside += words,
        other => inside += &other.to_string(),
    }
    let indent = "  ".repeat(depth);
    for (number, line) in inside.lines().enumerate() {
        *text += &format!("{indent}{} {line}\n", if number == 0 { "-" } else { " " });
    }
}

/// `minAvailable` as `Min Available`; a key that is not a field's name stays as it is.
fn label(field: &str) -> String {
    if field == "uid" {
        return "UID".to_owned();
    }
    let is_field = field.chars().all(char::is_alphanumeric) && field.starts_with(|first: char| first.is_lowercase());
    if !is_field {
        return field.to_owned();
    }
    let mut label = String::new();
    for (position, letter) in field.chars().enumerate() {
        match (position, letter.is_uppercase()) {
            (0, _) => label.extend(letter.to_uppercase()),
            (_, true) => label.extend([' ', letter]),
            (_, false) => label.push(letter),
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_shown_with_all_that_was_asked_for_and_all_that_became_of_it() {
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "team", "uid": "u", "labels": {"a": "b"}, "generation": 1},
            "spec": {"minAvailable": 1, "plugins": {"env": [], "svc": ["--x"]}, "tasks": [
                {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [
                    {"image": "host", "command": ["sh", "-c", "echo 1\necho 2"],
                        "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}},
                {"name": "ps", "replicas": 1}]},
            "status": {"state": {"phase": "Running"}, "running": 3},
        });
        let pods = vec![vec!["NAME".into(), "STATUS".into()], vec!["train-worker-0".into(), "Running".into()]];
        let events = vec![json!({"type": "Warning", "reason": "PodGroupPending", "message": "not enough ",
            "count": 3, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:09:00Z",
            "source": {"component": "volley"}})];
        let seen = Seen { job, pods, events, now: "2026-01-01T00:10:00Z".parse().unwrap() };
        let expected = "\
Name:         train
Namespace:    team
Labels:       {\"a\":\"b\"}
Annotations:  <none>
API Version:  batch.volcano.sh/v1alpha1
Kind:         Job
Metadata:
  Generation:  1
  UID:  u
Spec:
  Min Available:  1
  Plugins:
    Env:  []
    Svc:
      - --x
  Tasks:
    - Name:  worker
      Replicas:  2
      Template:
        Spec:
          Containers:
            - Command:
                - sh
                - -c
                - echo 1
                  echo 2
              Image:  host
              Resources:
                Limits:
                  nvidia.com/gpu:  1
    - Name:  ps
      Replicas:  1
Status:
  Running:  3
  State:
    Phase:  Running
Pods:
  NAME             STATUS
  train-worker-0   Running
Events:
  Type      Reason            Age                 From     Message
  ----      ------            ---                 ----     -------
  Warning   PodGroupPending   60s (x3 over 10m)   volley   not enough
";
        assert_eq!(seen.table(false), expected);
    }

    #[test]
    fn only_rows_of_the_jobs_own_pods_are_shown() {
        let row = |name: &str, owner: &str| json!({"cells": [name, 3], "object": {"metadata": {"ownerReferences": [{"uid": owner}]}}});
        let table = json!({"columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Nominated", "priority": 1}],
            "rows": [row("mine", "u"), row("other", "v")]});
        assert_eq!(table_rows(&table, &json!("u"), false), [["NAME"], ["mine"]]);
        assert_eq!(table_rows(&table, &json!("u"), true), [["NAME", "NOMINATED"], ["mine", "3"]]);
        assert!(table_rows(&table, &json!("w"), true).is_empty());
    }
}
