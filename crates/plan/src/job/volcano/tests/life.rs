//! Phases: the order they are written in, what counts as an end, and what stays when it comes.

use super::super::phase::{Deed, Kill, Phase, Step, step};
use super::super::settle::{after_restart, after_sync, has_stopped};
use super::world::{Cluster, task};
use super::{gang, policy, with};
use crate::control::Action;
use serde_json::{Value, json};
use volley_api::volcano::types::{JobStatus, job_spec};

// CTL-10, CTL-11, CTL-12, CTL-13, CTL-15, POD-1, POD-7, SM-50
#[test]
fn a_job_gets_its_status_its_objects_its_group_and_then_its_pods() {
    let claim = json!([{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]);
    let mut cluster = Cluster::new(with(json!({"plugins": {"svc": []}, "volumes": claim})));
    cluster.step();
    assert_eq!(cluster.phase(), "Pending");
    assert_eq!(cluster.count("minAvailable"), 3);
    assert_eq!(cluster.status()["conditions"].as_array().unwrap().len(), 1);
    cluster.step();
    let plan = cluster.plan();
    cluster.apply(&plan);
    let kind = |action: &Action| match action {
        Action::Create { object, .. } => object["kind"].as_str().unwrap().to_owned(),
        Action::PatchStatus { .. } => "status".to_owned(),
        other => format!("{other:?}"),
    };
    let made: Vec<String> = plan.actions.iter().map(kind).collect();
    assert_eq!(made, ["Service", "ConfigMap", "NetworkPolicy", "PersistentVolumeClaim", "PodGroup", "status"]);
    cluster.settle();
    assert_eq!(cluster.pods(), Vec::<String>::new(), "the group is not admitted yet");
    cluster.admit();
    cluster.step();
    assert_eq!(cluster.pods(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert_eq!((cluster.count("pending"), cluster.phase()), (3, "Pending"));
    cluster.run_all();
    cluster.settle();
    assert_eq!((cluster.count("running"), cluster.phase()), (3, "Running"));
    cluster.pods().iter().for_each(|name| cluster.end(name, 0));
    cluster.settle();
    assert_eq!(cluster.phases, ["Pending", "Running", "Completed"]);
    assert_eq!(cluster.count("succeeded"), 3);
}

// CTL-4
#[test]
fn a_job_that_is_being_deleted_is_left_to_the_garbage_collector() {
    let mut cluster = Cluster::running(gang());
    cluster.end("j-worker-0", 1);
    cluster.world.edit(
        "Job",
        "j",
        json!({"metadata": {"finalizers": ["f"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    assert!(cluster.plan().is_empty());
}

// CTL-14
#[test]
fn a_job_waits_for_its_queue() {
    let mut cluster = Cluster::new(gang());
    cluster.has_queue = false;
    cluster.settle();
    assert_eq!(cluster.events("QueueNotFound"), ["queue default does not exist"]);
    assert_eq!(cluster.status()["state"]["reason"], "QueueNotFound");
    assert_eq!(cluster.world.names("PodGroup"), Vec::<String>::new());
    cluster.has_queue = true;
    cluster.settle();
    assert_eq!(cluster.world.names("PodGroup").len(), 1);
    assert_eq!(cluster.status()["state"].get("reason"), None);
}

// ADM-1
#[test]
fn a_job_that_no_admission_has_seen_is_completed_in_memory_and_judged_on_its_status() {
    let mut cluster = Cluster::new(json!({"tasks": [task("a", 1)], "minAvailable": 5}));
    cluster.settle();
    assert_eq!((cluster.phase(), &cluster.status()["state"]["reason"]), ("Pending", &json!("InvalidSpec")));
    assert!(cluster.events("InvalidSpec")[0].contains("should not be greater than total replicas"));
    assert_eq!(cluster.events("InvalidSpec").len(), 1);
    cluster.world.edit("Job", "j", json!({"spec": {"minAvailable": 1}}));
    cluster.start();
    assert_eq!(cluster.phase(), "Running");
}

// CTL-3
#[test]
fn a_job_whose_pods_are_refused_for_good_is_ended() {
    let mut cluster = Cluster::new(gang());
    cluster.settle();
    cluster.admit();
    let plan = cluster.plan_or_give_up(Some("pods is forbidden"));
    cluster.apply(&plan);
    assert_eq!(cluster.events("ExecuteAction"), ["Start to execute action TerminateJob"]);
    cluster.go_on();
    assert_eq!(cluster.phases, ["Pending", "Terminating", "Terminated"]);
    assert_eq!(cluster.status()["state"]["message"], "retry limit reached: pods is forbidden");
}

/// What the table says, as text.
fn cell(phase: Phase, deed: Deed, is_strict: bool) -> String {
    match step(phase, deed, is_strict) {
        Step::Go => "go".to_owned(),
        Step::Begin { to, kill, counts } => {
            let kill = match kill {
                Kill::All => "all",
                Kill::Soft => "soft",
                Kill::Target => "target",
            };
            format!("{kill} {}{}", to.name(), if counts { " +1" } else { "" })
        }
    }
}

// SM-24, SM-25, SM-26, SM-36, UI-21
#[test]
fn the_table_of_transitions() {
    let deeds = [
        Deed::RestartJob,
        Deed::RestartTask,
        Deed::RestartPod,
        Deed::RestartPartition,
        Deed::AbortJob,
        Deed::CompleteJob,
        Deed::TerminateJob,
        Deed::ResumeJob,
        Deed::Sync,
    ];
    let check = |phases: &[&str], is_strict: bool, expected: [&str; 9]| {
        for name in phases {
            let phase = Phase::read(name).unwrap();
            assert_eq!(phase.name(), *name);
            assert_eq!(deeds.map(|deed| cell(phase, deed, is_strict)), expected, "{name}");
        }
    };
    let part = "target Restarting +1";
    let live =
        ["all Restarting +1", part, part, part, "soft Aborting", "soft Completing", "soft Terminating", "go", "go"];
    check(&["Pending", "Running"], false, live);
    check(&["Pending", "Running"], true, live);
    let (all, part) = ("all Restarting", "target Restarting");
    check(
        &["Restarting"],
        false,
        [all, part, part, part, "soft Aborting", "soft Completing", "soft Terminating", all, "go"],
    );
    check(&["Restarting"], true, [all, part, part, part, all, all, all, all, "go"]);
    let resume = |text| ["go", "go", "go", "go", "go", "go", "go", text, "go"];
    check(&["Aborting", "Aborted"], false, resume("soft Restarting"));
    check(&["Aborting", "Aborted"], true, resume("soft Restarting +1"));
    check(&["Completing", "Completed", "Terminating", "Terminated", "Failed"], false, resume("go"));
    assert_eq!(Phase::read("Novel"), None);
}

fn status(pending: i32, running: i32, succeeded: i32, failed: i32) -> JobStatus {
    JobStatus { pending, running, succeeded, failed, ..JobStatus::default() }
}

// SM-20, SM-21
#[test]
fn where_a_running_job_stands() {
    let check = |fields: Value, status: JobStatus, expected: Phase| {
        let mut job = json!({ "spec": with(fields.clone()) });
        volley_api::volcano::defaults::job(&mut job, "volcano");
        assert_eq!(after_sync(&job_spec(&job).unwrap(), &status), expected, "{fields} {status:?}");
    };
    check(json!({}), status(0, 3, 0, 0), Phase::Running);
    check(json!({}), status(0, 2, 0, 1), Phase::Running);
    check(json!({"tasks": []}), status(0, 0, 0, 0), Phase::Running);
    check(json!({}), status(0, 0, 3, 0), Phase::Completed);
    check(json!({}), status(0, 0, 2, 1), Phase::Failed);
    check(json!({"minAvailable": 2}), status(0, 0, 2, 1), Phase::Completed);
    check(json!({"minAvailable": 2}), status(0, 0, 1, 2), Phase::Failed);
    check(json!({"minSuccess": 2}), status(0, 1, 2, 0), Phase::Completed);
    check(json!({"minSuccess": 2, "minAvailable": 1}), status(0, 0, 1, 2), Phase::Failed);
    check(json!({}), status(1, 2, 0, 0), Phase::Pending);
    check(json!({"minAvailable": 2}), status(1, 2, 0, 0), Phase::Running);
}

// SM-20
#[test]
fn every_task_must_reach_its_own_minimum() {
    let mut counted = status(0, 0, 2, 1);
    counted.task_status_count =
        serde_json::from_value(json!({"master": {"phase": {"Failed": 1}}, "worker": {"phase": {"Succeeded": 2}}}))
            .unwrap();
    let mut spec = gang();
    spec["tasks"][1]["minAvailable"] = json!(1);
    spec["minAvailable"] = json!(2);
    let job = json!({ "spec": spec });
    assert_eq!(after_sync(&job_spec(&job).unwrap(), &counted), Phase::Failed);
}

// SM-22, SM-23
#[test]
fn restarts_and_ends_wait_for_pods_to_go() {
    let mut job = json!({"spec": with(json!({"maxRetry": 3}))});
    volley_api::volcano::defaults::job(&mut job, "volcano");
    let spec = job_spec(&job).unwrap();
    let after = |retry_count, terminating| {
        after_restart(&spec, &JobStatus { retry_count, terminating, min_available: 3, ..JobStatus::default() })
    };
    assert_eq!(after(1, 0), Some(Phase::Pending));
    assert_eq!(after(2, 1), None);
    assert_eq!(after(3, 1), Some(Phase::Failed));
    assert!(has_stopped(&status(0, 0, 2, 1)));
    assert!(!has_stopped(&status(0, 1, 2, 0)));
    assert!(!has_stopped(&JobStatus { terminating: 1, ..JobStatus::default() }));
}

// SM-22, SM-31, SM-32, SM-50, PG-7
#[test]
fn a_job_is_restarted_until_its_retries_are_used_up() {
    let mut cluster = Cluster::running(policy("PodFailed", "RestartJob"));
    let group = cluster.world.raw("PodGroup", "j-u").clone();
    for round in 1..=2 {
        cluster.end("j-worker-1", 3);
        cluster.step();
        assert_eq!((cluster.phase(), cluster.count("terminating")), ("Restarting", 3));
        assert_eq!((cluster.count("version"), cluster.count("retryCount")), (round, round));
        cluster.go_on();
        assert_eq!((cluster.phase(), cluster.count("running")), ("Running", 3));
        assert_eq!(cluster.pod("j-master-0")["metadata"]["annotations"]["volcano.sh/job-version"], round.to_string());
    }
    assert_ne!(cluster.world.raw("PodGroup", "j-u")["metadata"]["uid"], group["metadata"]["uid"]);
    cluster.end("j-worker-1", 3);
    cluster.go_on();
    assert_eq!(cluster.phase(), "Failed");
    assert_eq!(cluster.pods(), ["j-worker-1"], "what failed last stays to be looked at");
    assert_eq!((cluster.count("failed"), cluster.count("retryCount")), (1, 3));
    let again = ["Restarting", "Pending", "Running"];
    let expected: Vec<&str> =
        ["Pending", "Running"].into_iter().chain(again).chain(again).chain(["Restarting", "Failed"]).collect();
    assert_eq!(cluster.phases, expected);
    assert!(
        cluster.status()["state"]["message"]
            .as_str()
            .unwrap()
            .contains("maxRetry 3 is used up; pod j-worker-1 failed with exit code 3")
    );
}

// SM-50, SM-51, SM-12, SM-31, SM-33, SM-35
#[test]
fn policies_lead_to_their_ends_through_every_phase() {
    let check = |event: &str, action: &str, code: i32, phases: &[&str]| {
        let mut cluster = Cluster::running(policy(event, action));
        cluster.end("j-master-0", code);
        cluster.step();
        assert_eq!((cluster.phase(), cluster.count("terminating")), (phases[0], 2), "{action}");
        assert_eq!(cluster.events("ExecuteAction"), [format!("Start to execute action {action}")]);
        cluster.go_on();
        assert_eq!(cluster.phases[2..], *phases, "{action}");
        assert_eq!(cluster.pods(), ["j-master-0"], "ended pods stay");
        assert_eq!(cluster.world.names("PodGroup"), Vec::<String>::new());
        let counts = ["pending", "running", "terminating"].map(|name| cluster.count(name));
        assert_eq!((counts, cluster.count("version"), cluster.count("retryCount")), ([0, 0, 0], 1, 0));
    };
    check("PodFailed", "AbortJob", 1, &["Aborting", "Aborted"]);
    check("PodFailed", "TerminateJob", 1, &["Terminating", "Terminated"]);
    check("TaskCompleted", "CompleteJob", 0, &["Completing", "Completed"]);
}

// SM-20, SM-34, POD-9
#[test]
fn enough_successes_complete_a_job_and_its_counts_stay() {
    let mut cluster = Cluster::running(json!({"tasks": [task("a", 5)], "minSuccess": 2}));
    cluster.end("j-a-0", 0);
    cluster.end("j-a-3", 0);
    cluster.go_on();
    assert_eq!(cluster.phases, ["Pending", "Running", "Completed"]);
    assert_eq!((cluster.pods(), cluster.count("succeeded")), (vec!["j-a-0".to_owned(), "j-a-3".to_owned()], 2));
    let before = cluster.status().clone();
    cluster.evict("j-a-0");
    cluster.evict("j-a-3");
    cluster.settle();
    assert_eq!(*cluster.status(), before);
    assert_eq!(cluster.pods(), Vec::<String>::new());
}

// SM-40
#[test]
fn the_time_of_transition_moves_with_the_phase_only() {
    let moved = |mut cluster: Cluster| {
        cluster.start();
        let time = |cluster: &Cluster| cluster.status()["state"]["lastTransitionTime"].clone();
        let before = time(&cluster);
        cluster.world.second += 10;
        cluster.end("j-worker-1", 1);
        cluster.settle();
        assert_eq!(cluster.count("failed"), 1);
        time(&cluster) != before
    };
    assert!(!moved(Cluster::new(gang())));
    assert!(moved(Cluster::strict(gang())));
}

// API-20
#[test]
fn each_phase_has_one_condition_and_the_newest_is_last() {
    let mut cluster = Cluster::running(policy("PodFailed", "RestartJob"));
    cluster.end("j-worker-1", 3);
    cluster.go_on();
    let conditions: Vec<&str> =
        cluster.status()["conditions"].as_array().unwrap().iter().map(|c| c["status"].as_str().unwrap()).collect();
    assert_eq!(conditions, ["Restarting", "Pending", "Running"]);
}

// TTL-1, TTL-2
#[test]
fn a_finished_job_goes_when_its_time_is_over() {
    let mut cluster = Cluster::running(with(json!({"ttlSecondsAfterFinished": 60})));
    cluster.pods().iter().for_each(|name| cluster.end(name, 0));
    cluster.settle();
    assert_eq!(cluster.plan().requeue_after, Some(60));
    cluster.world.second += 60;
    cluster.step();
    assert_eq!(cluster.job()["metadata"]["finalizers"], json!(["foregroundDeletion"]), "its pods go first");
    cluster.world.collect_garbage();
    assert!(cluster.world.objects.is_empty(), "all that the job owned is gone with it");
    let mut cluster = Cluster::running(with(json!({"ttlSecondsAfterFinished": 0})));
    cluster.command("AbortJob");
    cluster.go_on();
    assert_eq!(cluster.phase(), "Aborted", "a suspended job is not over");
}

// SM-20
#[test]
fn a_job_that_loses_its_gang_is_pending_again() {
    let mut cluster = Cluster::running(gang());
    cluster.evict("j-worker-0");
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.count("pending")), ("Pending", 1));
    cluster.run_all();
    cluster.settle();
    assert_eq!(cluster.phase(), "Running");
}

// SM-20, POD-8, ADM-30
#[test]
fn a_job_is_scaled_in_place() {
    let mut cluster = Cluster::running(json!({"tasks": [task("a", 3)], "minAvailable": 1}));
    let mut tasks = cluster.job()["spec"]["tasks"].clone();
    tasks[0]["replicas"] = json!(1);
    cluster.world.edit("Job", "j", json!({"spec": {"tasks": tasks}}));
    cluster.settle();
    cluster.reap();
    cluster.settle();
    assert_eq!((cluster.pods(), cluster.phase()), (vec!["j-a-0".to_owned()], "Running"));
    assert_eq!(cluster.events("ExecuteAction"), Vec::<&str>::new());
    tasks[0]["replicas"] = json!(2);
    cluster.world.edit("Job", "j", json!({"spec": {"tasks": tasks}}));
    cluster.settle();
    assert_eq!(cluster.pods(), ["j-a-0", "j-a-1"]);
    tasks[0]["replicas"] = json!(0);
    cluster.world.edit("Job", "j", json!({"spec": {"tasks": tasks, "minAvailable": 0}}));
    cluster.go_on();
    assert_eq!((cluster.pods(), cluster.phase()), (vec![], "Running"), "scaled to zero");
}
