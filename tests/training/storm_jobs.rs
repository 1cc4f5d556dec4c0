//! The jobs of the storm: every kind, each with what happens to it, as words in an annotation.
//!
//! The words are `storm_nodes::Act`s. Each is done when the job is ready for it, never after a time: what becomes of a job
//! is then the same however long its operator was away.

use serde_json::{Value, json};
use volley_api::kubeflow::API_VERSION;
use volley_api::kubeflow::kinds::{ROWS, Row};
use volley_api::volcano::BATCH;

pub const COUNT: usize = 200;
/// What happens to a job.
pub const ACTS: &str = "storm/acts";
/// All jobs have two pods.
pub const PODS: usize = 2;

/// A job and the plural of its kind.
pub struct Storming {
    pub plural: &'static str,
    pub object: Value,
}

pub fn all() -> Vec<Storming> {
    let (volcano, training) = (volcano_cases(), training_cases());
    let job = |number: usize| match number % 2 {
        0 => volcano_job(number, &volcano[number / 2 % volcano.len()]),
        _ => {
            let number = number / 2;
            training_job(number, &ROWS[number % ROWS.len()], &training[number / ROWS.len() % training.len()])
        }
    };
    (0..COUNT).map(job).collect()
}

type VolcanoCase = (&'static str, &'static str, Value);

/// Name, acts, and what the spec says beside two tasks of one pod each.
fn volcano_cases() -> Vec<VolcanoCase> {
    let policy = |event: &str, action: &str| json!({"policies": [{"event": event, "action": action}]});
    let mut exhausted = policy("PodFailed", "RestartJob");
    exhausted["maxRetry"] = json!(2);
    let delayed = json!({"policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": "1s"}]});
    vec![
        ("plain", "succeed", json!({})),
        ("plugins", "succeed", json!({"plugins": {"svc": [], "env": []}})),
        ("restart", "fail 0 1; succeed", policy("PodFailed", "RestartJob")),
        ("exhausted", "fail 0 1; fail 1 1", exhausted),
        ("abort", "fail 0 1", policy("PodFailed", "AbortJob")),
        ("terminate", "fail 1 1", policy("PodFailed", "TerminateJob")),
        ("complete", "succeed 0", policy("TaskCompleted", "CompleteJob")),
        ("suspend", "pause; resume; succeed", json!({})),
        ("depends", "succeed", json!({"minAvailable": 1})),
        ("ttl", "succeed", json!({"ttlSecondsAfterFinished": 1})),
        ("pod", "fail 1 1; succeed", policy("PodFailed", "RestartPod")),
        ("delayed", "fail 0 1; succeed", delayed),
        ("code", "fail 0 3", json!({"policies": [{"exitCode": 3, "action": "AbortJob"}]})),
        ("evicted", "delete 0; succeed", policy("PodEvicted", "RestartJob")),
    ]
}

fn volcano_job(number: usize, (name, acts, more): &VolcanoCase) -> Storming {
    let task = |name: &str| {
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        json!({"name": name, "replicas": 1, "template": template})
    };
    let mut spec = json!({"schedulerName": "volcano", "queue": "default", "tasks": [task("a"), task("b")]});
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more.clone()) {
        spec.extend(more);
    }
    if *name == "depends" {
        for (task, available) in [(0, 1), (1, 0)] {
            spec["tasks"][task]["minAvailable"] = json!(available);
        }
        spec["tasks"][1]["dependsOn"] = json!({"name": ["a"]});
    }
    let metadata = json!({"name": format!("{name}-{number}"), "annotations": {ACTS: acts}});
    Storming { plural: "jobs", object: json!({"apiVersion": BATCH, "kind": "Job", "metadata": metadata, "spec": spec}) }
}

struct TrainingCase {
    name: &'static str,
    acts: &'static str,
    restart: &'static str,
    run_policy: Value,
}

fn training_cases() -> Vec<TrainingCase> {
    let case = |name, acts, restart, run_policy| TrainingCase { name, acts, restart, run_policy };
    vec![
        case("plain", "succeed", "Never", json!({"cleanPodPolicy": "None"})),
        case("running", "succeed 0", "Never", json!({"cleanPodPolicy": "Running"})),
        case("all", "succeed", "Never", json!({"cleanPodPolicy": "All"})),
        case("fail", "fail 0 1", "Never", json!({"cleanPodPolicy": "None"})),
        case("code", "fail 1 137; succeed", "ExitCode", json!({"cleanPodPolicy": "None"})),
        case("backoff", "restarts 3", "OnFailure", json!({"backoffLimit": 3, "cleanPodPolicy": "All"})),
        case("suspend", "pause; resume; succeed", "Never", json!({"cleanPodPolicy": "None"})),
        case("deadline", "age", "Never", json!({"activeDeadlineSeconds": 3600, "cleanPodPolicy": "All"})),
        case("ttl", "succeed", "Never", json!({"ttlSecondsAfterFinished": 1})),
        case("whole", "fail 0 1; succeed", "Never", json!({"cleanPodPolicy": "None"})),
    ]
}

fn training_job(number: usize, row: &Row, case: &TrainingCase) -> Storming {
    // No scheduler has this name, so that nobody but the test places the pods.
    let container = json!({"name": row.container.unwrap_or("main"), "image": "i"});
    let template = json!({"spec": {"schedulerName": "nobody", "containers": [container]}});
    let replica = |count: usize| json!({"replicas": count, "restartPolicy": case.restart, "template": template});
    let replicas = match row.leaders.first() {
        Some(leader) => json!({*leader: replica(1), "Worker": replica(PODS - 1)}),
        None => json!({"Worker": replica(PODS)}),
    };
    let spec = json!({"runPolicy": case.run_policy, row.replica_specs: replicas});
    // Where nobody leads, it takes all of them.
    let acts = if row.leaders.is_empty() { case.acts.replace("succeed 0", "succeed") } else { case.acts.to_owned() };
    let mut annotations = json!({ ACTS: acts });
    if case.name == "whole" {
        annotations["volley.dev/restart-scope"] = json!("job");
    }
    let name = format!("{}-{}-{number}", row.framework, case.name);
    let metadata = json!({ "name": name, "annotations": annotations });
    let object = json!({"apiVersion": API_VERSION, "kind": row.name, "metadata": metadata, "spec": spec});
    Storming { plural: row.plural, object }
}
