//! `volley vcjob list`: vcctl's table of jobs (CLI-1).

use super::{JOB_NAME, JOBS};
use crate::home::Home;
use crate::output::{self, Output, Show};
use crate::target::{NamespaceArgs, TargetArgs};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use volley_api::kube::time;
use volley_api::volcano::types::{job_spec, job_status};

const EXAMPLES: &str = "\
Examples:
  volley vcjob list
  volley vcjob list -A -q research
  volley vcjob list --selector train -o wide
  volley vcjob list -o json | jq -r '.items[] | select(.status.state.phase == \"Failed\") | .metadata.name'";

/// vcctl's columns with their least widths; a name is followed by three blanks.
const COLUMNS: [(&str, usize); 12] = [
    ("Name", 0),
    ("Creation", 15),
    ("Phase", 12),
    ("JobType", 12),
    ("Replicas", 12),
    ("Min", 6),
    ("Pending", 10),
    ("Running", 10),
    ("Succeeded", 12),
    ("Failed", 10),
    ("Unknown", 12),
    ("RetryCount", 10),
];
/// Ours, of `-o wide`.
const WIDE: [(&str, usize); 3] = [("Queue", 0), ("Scheduler", 0), ("Age", 0)];

/// List jobs
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct List {
    /// Only jobs in this queue
    #[arg(short, long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only jobs of this scheduler
    #[arg(short = 'S', long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Only jobs whose name has this in it
    #[arg(long, value_name = "TEXT")]
    selector: Option<String>,
    /// Jobs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    target: TargetArgs,
}

/// Jobs, as kubectl writes a list of things.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Jobs {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<Value>,
    #[serde(skip)]
    has_namespaces: bool,
    #[serde(skip)]
    now: Timestamp,
}

impl List {
    pub async fn run(&self, home: &Home) -> Result<()> {
        let cluster = self.target.connect(home).await?;
        let namespace = (!self.all_namespaces).then(|| cluster.namespace(&self.namespace));
        let mut items = cluster.list(&JOBS.all(namespace)?).await?;
        items.retain(|job| self.is_wanted(job));
        let has_namespaces = self.all_namespaces;
        let jobs = Jobs { api_version: "v1", kind: "List", items, has_namespaces, now: Timestamp::now() };
        self.output.print(&jobs)
    }

    fn is_wanted(&self, job: &Value) -> bool {
        let is = |wanted: &Option<String>, field: &Value| wanted.as_ref().is_none_or(|wanted| *field == **wanted);
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        is(&self.queue, &job["spec"]["queue"])
            && is(&self.scheduler, &job["spec"]["schedulerName"])
            && self.selector.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

impl Show for Jobs {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let mut rows = vec![self.columns(wide).map(|(heading, _)| heading.to_owned()).collect()];
        rows.extend(self.items.iter().map(|job| self.row(job, wide)));
        rows
    }

    fn names(&self) -> Vec<String> {
        let name = |job: &Value| format!("{JOB_NAME}/{}", job["metadata"]["name"].as_str().unwrap_or_default());
        self.items.iter().map(name).collect()
    }

    fn table(&self, wide: bool) -> String {
        if self.items.is_empty() {
            return "No resources found\n".to_owned();
        }
        let widths: Vec<usize> = self.columns(wide).map(|(_, width)| width).collect();
        output::padded(&self.rows(wide), &widths)
    }
}

impl Jobs {
    fn columns(&self, wide: bool) -> impl Iterator<Item = (&'static str, usize)> {
        let namespace = self.has_namespaces.then_some(("Namespace", 0));
        namespace.into_iter().chain(COLUMNS).chain(WIDE.into_iter().filter(move |_| wide))
    }

    fn row(&self, job: &Value, wide: bool) -> Vec<String> {
        let (meta, spec) = (&job["metadata"], job_spec(job).unwrap_or_default());
        let status = job_status(job).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let job_type = text(&meta["labels"]["volcano.sh/job-type"]);
        // Until its controller has seen a job, only its author has said how many it needs.
        let min = if status.min_available > 0 { status.min_available } else { spec.min_available };
        let mut row = Vec::new();
        if self.has_namespaces {
            row.push(text(&meta["namespace"]));
        }
        row.extend([
            text(&meta["name"]),
            text(&meta["creationTimestamp"]).chars().take(10).collect(),
            text(&job["status"]["state"]["phase"]),
            if job_type.is_empty() { "Batch".to_owned() } else { job_type },
        ]);
        let counts = [
            spec.replicas(),
            min,
            status.pending,
            status.running,
            status.succeeded,
            status.failed,
            status.unknown,
            status.retry_count,
        ];
        row.extend(counts.map(|count| count.to_string()));
        if wide {
            let created = meta["creationTimestamp"].as_str().and_then(time::parse);
            row.extend([
                text(&job["spec"]["queue"]),
                text(&job["spec"]["schedulerName"]),
                time::age(created, self.now),
            ]);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jobs(items: Vec<Value>, has_namespaces: bool) -> Jobs {
        let now = "2026-01-02T05:00:00Z".parse().unwrap();
        Jobs { api_version: "v1", kind: "List", items, has_namespaces, now }
    }

    fn job(name: &str, status: Value) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-02T03:00:00Z"},
            "spec": {"queue": "default", "schedulerName": "volcano", "minAvailable": 3,
                "tasks": [{"name": "ps", "replicas": 1}, {"name": "worker", "replicas": 3}]},
            "status": status
        })
    }

    // CLI-1
    #[test]
    fn the_table_has_the_columns_of_vcctl_at_their_places() {
        let running =
            json!({"state": {"phase": "Running"}, "minAvailable": 3, "running": 3, "pending": 1, "retryCount": 2});
        let mut typed = job("a-job-with-a-long-name", json!({}));
        typed["metadata"]["labels"] = json!({"volcano.sh/job-type": "MPI"});
        let expected = "\
Name                     Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   Failed    Unknown     RetryCount
train                    2026-01-02     Running     Batch       4           3     1         3         0           0         0           2
a-job-with-a-long-name   2026-01-02                 MPI         4           3     0         0         0           0         0           0
";
        assert_eq!(jobs(vec![job("train", running), typed], false).table(false), expected);
    }

    // CLI-1
    #[test]
    fn all_namespaces_come_with_theirs_and_wide_with_more() {
        let table = jobs(vec![job("train", json!({"state": {"phase": "Pending"}}))], true).table(true);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("Namespace   Name    Creation       Phase       JobType"), "{table}");
        assert!(lines[0].ends_with("Unknown     RetryCount Queue     Scheduler   Age"), "{table}");
        assert!(lines[1].starts_with("team        train   2026-01-02     Pending     Batch"), "{table}");
        assert!(lines[1].ends_with("0          default   volcano     120m"), "{table}");
    }

    // CLI-1
    #[test]
    fn nothing_is_told_in_words() {
        assert_eq!(jobs(Vec::new(), false).table(false), "No resources found\n");
    }
}
