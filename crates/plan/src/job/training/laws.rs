//! The laws of `sim::laws` told of Kubeflow's jobs: which conditions may stand together, and that counters are the pods.

use super::pods::GATE;
use super::stage::{Stage, seen_by};
use super::{Gang, Settings, plan};
use crate::sim::laws::{Planner, Story, disturbances, ends, pod_turn, settles, stories, survives};
use crate::sim::{Cluster, Disturbance, Run, Turn};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::text;
use volley_api::kubeflow::kinds::{Kind, ROWS, Row};

/// A job of any kind and shape.
#[derive(Debug, Clone)]
struct Job {
    row: &'static Row,
    has_leader: bool,
    is_elastic: bool,
    policy: &'static str,
    restarts_as_whole: bool,
    is_strict: bool,
    has_gang: bool,
    run_policy: Value,
}

impl Job {
    fn stage(&self) -> Stage {
        let mut replicas = vec![("Worker", 2, self.policy)];
        let needs_leader = matches!(self.row.kind, Kind::XgBoost | Kind::Mpi);
        let leader = self.row.leaders.first().filter(|_| self.has_leader || needs_leader);
        replicas.extend(leader.map(|type_| (*type_, 1, self.policy)));
        let is_elastic = self.is_elastic && self.row.kind == Kind::PyTorch;
        let elastic = if is_elastic { json!({"minReplicas": 1, "maxReplicas": 3}) } else { Value::Null };
        let spec = json!({"runPolicy": self.run_policy, "elasticPolicy": elastic});
        let mut stage = Stage::of(self.row.name, &replicas, spec);
        if self.restarts_as_whole {
            stage.edit(json!({"metadata": {"annotations": {"volley.dev/restart-scope": "job"}}}));
        }
        stage
    }
}

impl Story for Job {
    fn begin(&self) -> Run<Planner> {
        let mut settings = if self.is_strict { Settings::strict() } else { Settings::default() };
        settings.gang = self.has_gang.then_some(Gang::Volcano);
        let row = self.row;
        let planner: Planner = Box::new(move |cluster| {
            let mut plan = seen_by(cluster, row, &BTreeMap::new(), |seen| plan(row, seen, &settings, cluster.now()));
            if settings.is_strict {
                // The reference says the same again at every look (PT-EVT-2).
                plan.events.clear();
            }
            plan
        });
        Run::new(self.stage().world.0, row.name, "x", planner)
    }

    fn check(&self, run: &Run<Planner>) {
        let job = run.watched().unwrap();
        check_conditions(job);
        check_counts(&run.cluster, self.row, job);
        check_gates(&run.cluster, job);
    }

    fn check_step(&self, before: Option<&Value>, after: &Value) {
        check_conditions(after);
        if let Some(before) = before.filter(|job| has_ended(job)) {
            assert_eq!(conditions(after), conditions(before), "an end is final");
        }
        let restarts = |job: &Value| job["metadata"]["annotations"]["volley.dev/restarts"].as_str().map(str::to_owned);
        let number = |job: &Value| restarts(job).map_or(0, |text| text.parse::<i32>().unwrap());
        let is_reset = restarts(after).is_none();
        assert!(is_reset || before.map_or(0, number) <= number(after), "restarts are forgotten: {after:#}");
    }

    fn outcome(&self, cluster: &Cluster) -> Value {
        let job = cluster.find(self.row.name, "x");
        let mut status = job.map(|job| job["status"].clone()).unwrap_or_default();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            // What it said first depends on what was seen first.
            condition["message"] = Value::Null;
        }
        let restarts = job.map(|job| job["metadata"]["annotations"]["volley.dev/restarts"].clone());
        let told = |((kind, name), object): (&(String, String), &Value)| {
            let going = if object["metadata"]["deletionTimestamp"].is_null() { "" } else { " (going)" };
            format!("{kind} {name} {}{going}", text(object, "status.phase"))
        };
        let objects: Vec<String> = cluster.objects.iter().map(told).collect();
        json!({"status": status, "restarts": restarts, "objects": objects})
    }

    fn rest(&self, job: &Value) -> Option<String> {
        let all = conditions(job);
        all.into_iter().find(|condition| matches!(condition.as_str(), "Succeeded" | "Failed" | "Suspended"))
    }
}

/// Each condition as `Type`, or `Type=False`.
fn conditions(job: &Value) -> Vec<String> {
    let all = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let word = |condition: &Value| {
        let (type_, status) = (text(condition, "type"), text(condition, "status"));
        if status == "True" { type_.to_owned() } else { format!("{type_}={status}") }
    };
    all.iter().map(word).collect()
}

fn has(job: &Value, word: &str) -> bool {
    conditions(job).iter().any(|condition| condition == word)
}

fn has_ended(job: &Value) -> bool {
    has(job, "Succeeded") || has(job, "Failed")
}

/// A list of conditions that a client may see.
fn check_conditions(job: &Value) {
    let conditions = conditions(job);
    let types: BTreeSet<_> = conditions.iter().map(|c| c.split('=').next().unwrap()).collect();
    assert_eq!(types.len(), conditions.len(), "each type once: {conditions:?}");
    assert!(has(job, "Created"), "{conditions:?}");
    assert!(!(has(job, "Running") && has(job, "Restarting")), "{conditions:?}");
    assert!(!(has(job, "Succeeded") && has(job, "Failed")), "{conditions:?}");
    assert!(!(has(job, "Suspended") && (has(job, "Running") || has_ended(job))), "{conditions:?}");
    assert_eq!(has_ended(job), !job["status"]["completionTime"].is_null(), "{conditions:?}");
    if has_ended(job) {
        let last = conditions.last().unwrap();
        assert!(last == "Succeeded" || last == "Failed", "nothing follows the end: {conditions:?}");
        assert!(!has(job, "Running") && !has(job, "Restarting"), "{conditions:?}");
    }
}

/// The counters are those of the pods that exist.
fn check_counts(cluster: &Cluster, row: &Row, job: &Value) {
    if has_ended(job) || has(job, "Suspended") {
        return;
    }
    for type_ in row.replica_types {
        let label = type_.to_lowercase();
        let mut expected = [0, 0, 0];
        for pod in cluster.of_kind("Pod") {
            if pod["metadata"]["labels"]["training.kubeflow.org/replica-type"] != label.as_str() {
                continue;
            }
            let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
            match (text(&pod, "status.phase"), is_going) {
                ("Running", false) => expected[0] += 1,
                ("Succeeded", _) => expected[1] += 1,
                ("Running", true) | ("Failed", _) => expected[2] += 1,
                _ => {}
            }
        }
        let counters = &job["status"]["replicaStatuses"][type_];
        let found = ["active", "succeeded", "failed"].map(|key| counters[key].as_i64().unwrap_or(0));
        assert_eq!(found, expected, "{type_}");
    }
}

/// Nobody waits for a master that has started, be it that it has ended since.
fn check_gates(cluster: &Cluster, job: &Value) {
    let pods = cluster.of_kind("Pod");
    let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let is_master = |pod: &&Value| pod["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master";
    let has_begun = |pod: &Value| matches!(text(pod, "status.phase"), "Running" | "Succeeded" | "Failed");
    let is_gated = |pod: &Value| {
        pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| gates.iter().any(|gate| gate["name"] == GATE))
    };
    if pods.iter().filter(stays).filter(is_master).any(has_begun) && !has(job, "Suspended") {
        assert!(!pods.iter().filter(stays).any(is_gated), "{pods:#?}");
    }
}

fn job() -> impl Strategy<Value = Job> {
    let row = prop_oneof![1 => Just(&ROWS[0]), 2 => (1..ROWS.len()).prop_map(|index| &ROWS[index])];
    let policy = prop_oneof![Just("Never"), Just("OnFailure"), Just("Always"), Just("ExitCode")];
    let clean = prop_oneof![Just("None"), Just("Running"), Just("All")];
    let limits =
        (proptest::option::of(0..3i32), proptest::option::of(20..200i64), proptest::option::weighted(0.2, 0..90i32));
    let has_gang = proptest::bool::weighted(0.3);
    (row, any::<[bool; 3]>(), has_gang, policy, clean, limits).prop_map(
        |(row, [has_leader, is_elastic, restarts_as_whole], has_gang, policy, clean, (backoff, deadline, ttl))| {
            let run_policy = json!({"cleanPodPolicy": clean, "backoffLimit": backoff,
                "activeDeadlineSeconds": deadline, "ttlSecondsAfterFinished": ttl});
            Job { row, has_leader, is_elastic, policy, restarts_as_whole, is_strict: false, has_gang, run_policy }
        },
    )
}

/// As the reference does it; only what needs no memory of our own can be asked of it.
fn strict_job() -> impl Strategy<Value = Job> {
    job().prop_map(|job| Job { is_strict: true, ..job })
}

/// What happens to a job: to its pods, and by its owner. `Edit` names the kind when the job is known.
fn turns(most: usize) -> impl Strategy<Value = Vec<Turn>> {
    let edit = |patch: Value| Turn::Edit { kind: String::new(), name: "x".to_owned(), patch };
    let turn = prop_oneof![
        12 => pod_turn(),
        2 => Just(Turn::Groups("Inqueue")),
        1 => any::<bool>().prop_map(move |is_so| edit(json!({"spec": {"runPolicy": {"suspend": is_so}}}))),
        1 => (1..4i32).prop_map(move |count| edit(json!({"spec": {"replicas": {"Worker": {"replicas": count}}}}))),
    ];
    proptest::collection::vec(turn, 0..most)
}

/// The turns as they are for a job of this kind.
fn about(row: &Row, turns: Vec<Turn>) -> Vec<Turn> {
    let about = |turn| match turn {
        Turn::Edit { name, mut patch, .. } => {
            if let Some(replicas) = patch["spec"].as_object_mut().and_then(|spec| spec.remove("replicas")) {
                patch["spec"][row.replica_specs] = replicas;
            }
            Turn::Edit { kind: row.name.to_owned(), name, patch }
        }
        other => other,
    };
    turns.into_iter().map(about).collect()
}

fn disturbed(most: usize) -> impl Strategy<Value = (Vec<Turn>, Vec<Vec<Disturbance>>)> {
    (turns(most), proptest::collection::vec(disturbances(), most))
}

proptest! {
    #![proptest_config(stories(32))]

    // PT-REC-2, PT-CND-8, PT-STA-1, PT-DEC-13
    #[test]
    fn any_sequence_of_events_settles_in_an_allowed_state(job in job(), turns in turns(24)) {
        settles(&job, &about(job.row, turns));
    }

    // PT-REC-2
    #[test]
    fn so_it_does_with_the_references_quirks(job in strict_job(), turns in turns(16)) {
        settles(&job, &about(job.row, turns));
    }

    // PT-REC-3, PT-BKF-5
    #[test]
    fn a_controller_that_dies_or_sees_late_comes_to_the_same_end(
        job in job(), (turns, disturbances) in disturbed(20),
    ) {
        let turns: Vec<_> = about(job.row, turns).into_iter().zip(disturbances).collect();
        survives(&job, &turns);
    }

    #[test]
    fn every_job_comes_to_rest_in_a_world_that_means_well(job in job(), turns in turns(16)) {
        ends(&job, &about(job.row, turns));
    }

    // PT-REC-1
    #[test]
    fn the_order_in_which_pods_are_seen_does_not_matter(job in job(), turns in turns(12)) {
        let mut stage = job.stage();
        stage.settle();
        for turn in about(job.row, turns) {
            stage.world.happen(&turn).unwrap();
            if !stage.exists() {
                return Ok(());
            }
            let forwards = stage.plan();
            let backwards = stage.seen_by(|seen| {
                let pods: Vec<_> = seen.pods.iter().rev().cloned().collect();
                let services: Vec<_> = seen.services.iter().rev().cloned().collect();
                let seen = super::Observed { pods: &pods, services: &services, ..*seen };
                plan(stage.row, &seen, &stage.settings, stage.world.now())
            });
            prop_assert_eq!(forwards, backwards);
            stage.settle();
        }
    }
}
