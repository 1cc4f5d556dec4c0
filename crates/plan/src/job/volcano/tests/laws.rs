//! The laws of `sim::laws` told of Volcano Jobs: which phase may follow which, and that counts are the pods.

use super::super::{Settings, plan};
use super::world::{command, seen_by, task};
use crate::sim::laws::{Planner, Story, disturbances, ends, pod_turn, settles, stories, survives};
use crate::sim::{Cluster, Run, Turn};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::text;
use volley_api::volcano::BATCH;

#[derive(Debug, Clone)]
struct Job {
    spec: Value,
    is_strict: bool,
}

impl Story for Job {
    fn begin(&self) -> Run<Planner> {
        let mut cluster = Cluster::default();
        let metadata = json!({"name": "j", "uid": "u"});
        let job = json!({"apiVersion": BATCH, "kind": "Job", "metadata": metadata, "spec": self.spec});
        cluster.insert(job).unwrap();
        let settings = Settings { is_strict: self.is_strict, ..Settings::default() };
        let planner: Planner = Box::new(move |cluster| {
            seen_by(cluster, true, &BTreeMap::new(), |seen| plan(seen, &settings, cluster.now()))
        });
        Run::new(cluster, "Job", "j", planner)
    }

    fn check(&self, run: &Run<Planner>) {
        let job = run.watched().unwrap();
        // A Job that is being deleted is left alone (CTL-4).
        if text(job, "metadata.deletionTimestamp").is_empty() {
            check_counts(&run.cluster, job);
        }
    }

    fn check_step(&self, before: Option<&Value>, after: &Value) {
        check_step(before, after);
    }

    fn outcome(&self, cluster: &Cluster) -> Value {
        let mut outcome = outcome(cluster);
        if self.is_strict {
            // Upstream touches it with every write, and who dies writes more often.
            outcome["status"]["state"]["lastTransitionTime"] = Value::Null;
        }
        outcome
    }

    fn rest(&self, job: &Value) -> Option<String> {
        let phase = phase(job);
        // Upstream waits for ever for tasks whose turn never comes, because what they wait for has failed.
        let busy: i64 = ["pending", "running", "terminating"].iter().map(|name| count(job, name)).sum();
        let is_stranded = self.is_strict && busy == 0 && count(job, "failed") > 0;
        let is_at_rest = is_stranded || matches!(phase, "Completed" | "Failed" | "Terminated" | "Aborted");
        is_at_rest.then(|| phase.to_owned())
    }
}

fn phase(job: &Value) -> &str {
    text(job, "status.state.phase")
}

fn count(job: &Value, name: &str) -> i64 {
    job["status"][name].as_i64().unwrap_or(0)
}

/// Which phases may follow which, as written (the table of 4.5).
fn may_follow(from: &str, to: &str) -> bool {
    let stops = ["Restarting", "Aborting", "Completing", "Terminating"];
    match from {
        "" => to == "Pending",
        "Pending" => to == "Running" || stops.contains(&to),
        "Running" => matches!(to, "Pending" | "Completed" | "Failed") || stops.contains(&to),
        "Restarting" => matches!(to, "Pending" | "Failed" | "Aborting" | "Completing" | "Terminating"),
        "Aborting" => matches!(to, "Aborted" | "Restarting"),
        "Aborted" => to == "Restarting",
        "Completing" => to == "Completed",
        "Terminating" => to == "Terminated",
        _ => false,
    }
}

fn check_step(before: Option<&Value>, after: &Value) {
    let (from, to) = (before.map_or("", phase), phase(after));
    if to.is_empty() || !text(after, "metadata.deletionTimestamp").is_empty() {
        return;
    }
    for number in ["version", "retryCount"] {
        assert!(before.map_or(0, |job| count(job, number)) <= count(after, number), "{number} falls: {after:#}");
    }
    if from == to {
        return;
    }
    assert!(may_follow(from, to), "{to} follows {from}");
    let busy: i64 = ["pending", "running", "terminating"].iter().map(|name| count(after, name)).sum();
    match (from, to) {
        (_, "Aborted" | "Terminated") | ("Completing", "Completed") => assert_eq!(busy, 0, "{after:#}"),
        ("Restarting", "Pending") => {
            let tasks = after["spec"]["tasks"].as_array().unwrap();
            let replicas: i64 = tasks.iter().map(|task| task["replicas"].as_i64().unwrap()).sum();
            assert!(replicas - count(after, "terminating") >= count(after, "minAvailable"), "{after:#}");
        }
        _ => {}
    }
    let newest = after["status"]["conditions"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    assert_eq!(newest["status"], to, "the newest condition is the phase");
}

/// Counts are those of the pods; only successes are remembered beyond their pods, and ends beyond the end.
fn check_counts(cluster: &Cluster, job: &Value) {
    let mut pods = BTreeMap::new();
    for pod in cluster.of_kind("Pod") {
        let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
        let phase = match text(&pod, "status.phase") {
            _ if is_going => "terminating",
            "" | "Pending" => "pending",
            "Running" => "running",
            "Succeeded" => "succeeded",
            _ => "failed",
        };
        *pods.entry(phase).or_insert(0) += 1;
    }
    let counted = |name: &str| pods.get(name).copied().unwrap_or(0);
    for name in ["pending", "running", "terminating"] {
        assert_eq!(count(job, name), counted(name), "{name} {job:#}");
    }
    assert!(count(job, "succeeded") >= counted("succeeded"));
    assert!(count(job, "failed") >= counted("failed"));
    if !matches!(phase(job), "Completed" | "Failed" | "Terminated") {
        assert_eq!(count(job, "failed"), counted("failed"));
    }
    let tasks = job["status"]["taskStatusCount"].as_object().cloned().unwrap_or_default();
    for (name, phase) in
        [("pending", "Pending"), ("running", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")]
    {
        let sum: i64 = tasks.values().filter_map(|task| task["phase"][phase].as_i64()).sum();
        assert_eq!(sum, count(job, name), "{phase}");
    }
}

/// What is left in the end, without what differs between two runs of the same story.
fn outcome(cluster: &Cluster) -> Value {
    let mut status = cluster.find("Job", "j").map(|job| job["status"].clone()).unwrap_or_default();
    status["conditions"] = Value::Null;
    // Which commands were carried out is forgotten with the next write, whenever that is.
    let memory = status["controlledResources"]["volley.sh/memory"].as_str().unwrap_or("{}");
    let mut memory: Value = serde_json::from_str(memory).unwrap();
    memory["commands"] = Value::Null;
    status["controlledResources"]["volley.sh/memory"] = memory;
    let told = |((kind, name), object): (&(String, String), &Value)| {
        let going = if object["metadata"]["deletionTimestamp"].is_null() { "" } else { " (going)" };
        let version = &object["metadata"]["annotations"]["volcano.sh/job-version"];
        format!("{kind} {name} {version} {}{going}", text(object, "status.phase"))
    };
    let objects: Vec<String> = cluster.objects.iter().filter(|((kind, _), _)| kind != "Command").map(told).collect();
    json!({"status": status, "objects": objects})
}

fn job() -> impl Strategy<Value = Job> {
    let events = ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "PodPending"];
    let actions = ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "ResumeJob"];
    let policy = (proptest::sample::select(events.to_vec()), proptest::sample::select(actions.to_vec()), any::<bool>());
    let policies = proptest::collection::vec(policy, 0..4);
    let plugins = proptest::sample::select(vec![
        json!({}),
        json!({"svc": []}),
        json!({"ssh": [], "pytorch": ["--master=a", "--worker=b"]}),
    ]);
    let volumes =
        proptest::option::of(Just(json!([{"mountPath": "/m", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}])));
    let spec = (policies, 1..4i32, proptest::option::of(1..3i32), any::<bool>());
    let more = (plugins, volumes, proptest::option::weighted(0.2, 0..90i32));
    (spec, more, any::<bool>()).prop_map(|((policies, min, success, waits), (plugins, volumes, ttl), is_strict)| {
        let mut seen = BTreeSet::new();
        let kept = policies.into_iter().filter(|(event, ..)| seen.insert(*event));
        let policies: Vec<Value> = kept
            .map(|(event, action, is_late)| {
                let timeout = is_late.then_some("60s");
                json!({"event": event, "action": action, "timeout": timeout})
            })
            .collect();
        let mut spec = json!({"tasks": [task("a", 1), task("b", 2)], "minAvailable": min, "policies": policies,
            "plugins": plugins, "volumes": volumes, "ttlSecondsAfterFinished": ttl, "minSuccess": success});
        if waits {
            spec["tasks"][1]["dependsOn"] = json!({"name": ["a"]});
        }
        Job { spec, is_strict }
    })
}

/// What happens to a Job: to its pods and its group, by commands, and to its size.
fn turns(most: usize) -> impl Strategy<Value = Vec<Turn>> {
    let actions = ["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob", "RestartPod", "SyncJob"];
    let actions = proptest::sample::select(actions.to_vec());
    let scale = |count: i32| {
        let tasks = json!([task("a", 1), task("b", count)]);
        Turn::Edit { kind: "Job".into(), name: "j".into(), patch: json!({"spec": {"tasks": tasks}}) }
    };
    let turn = prop_oneof![
        14 => pod_turn(),
        4 => Just(Turn::Groups("Inqueue")),
        1 => Just(Turn::Groups("Unknown")),
        1 => actions.prop_map(|action| Turn::Make(command(action, 0))),
        1 => (2..4i32).prop_map(scale),
    ];
    proptest::collection::vec(turn, 0..most).prop_map(numbered)
}

/// Every command has a name of its own.
fn numbered(mut turns: Vec<Turn>) -> Vec<Turn> {
    for (number, turn) in turns.iter_mut().enumerate() {
        if let Turn::Make(object) = turn {
            *object = command(text(object, "action"), number);
        }
    }
    turns
}

/// Each turn with what befalls the controller after it.
fn disturbed(most: usize) -> impl Strategy<Value = Vec<(Turn, Vec<crate::sim::Disturbance>)>> {
    (turns(most), proptest::collection::vec(disturbances(), most))
        .prop_map(|(turns, all)| turns.into_iter().zip(all).collect())
}

proptest! {
    #![proptest_config(stories(32))]

    // SM-50, SM-20, SM-22, SM-23
    #[test]
    fn any_sequence_of_events_settles_and_phases_follow_the_table(job in job(), turns in turns(40)) {
        settles(&job, &turns);
    }

    // SM-65, CMD-10
    #[test]
    fn a_controller_that_dies_or_sees_late_comes_to_the_same_end(job in job(), turns in disturbed(30)) {
        survives(&job, &turns);
    }

    #[test]
    fn every_job_comes_to_rest_in_a_world_that_means_well(job in job(), turns in turns(20)) {
        ends(&job, &turns);
    }
}
