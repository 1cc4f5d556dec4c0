//! The ends of a job: success, failure, limits, clean-up, time to live.

use super::stage::Stage;
use crate::control::Action;
use crate::control::world::at;
use serde_json::{Value, json};
use volley_api::kubeflow::job::CleanPodPolicy;

fn ran(mut stage: Stage) -> Stage {
    stage.settle();
    stage.run_all();
    stage
}

// PT-SUC-1, PT-SUC-4, PT-SDK-4
#[test]
fn a_job_succeeds_with_its_master() {
    let mut stage = ran(Stage::torch(2, "Never", json!({})));
    stage.world.second = 60;
    stage.end("x-master-0", 0);
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Succeeded"]);
    let message = "PyTorchJob x is successfully completed.";
    assert_eq!(stage.said("Succeeded"), format!("PyTorchJobSucceeded: {message}"));
    assert_eq!(stage.status()["completionTime"], at(60).to_string());
    assert_eq!(stage.world.events.iter().filter(|event| event.ends_with(message)).count(), 1);
    assert!(stage.pods().contains(&"x-worker-0".to_owned()));
    stage.after(60);
    assert_eq!(stage.status()["completionTime"], at(60).to_string());
}

// PT-SUC-2, PT-SUC-3
#[test]
fn a_job_without_a_master_succeeds_with_all_workers_or_if_elastic_with_any() {
    let mut all = ran(Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({})));
    all.end("x-worker-0", 0);
    assert_eq!(all.conditions(), ["Created", "Running"]);
    all.end("x-worker-1", 0);
    assert_eq!(all.said("Succeeded"), "PyTorchJobSucceeded: PyTorchJob d/x successfully completed.");
    let mut any = ran(Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({"elasticPolicy": {}})));
    any.end("x-worker-1", 0);
    assert_eq!(any.conditions(), ["Created", "Running=False", "Succeeded"]);
}

// PT-SUC-5, PT-REC-1, PT-DEC-14
#[test]
fn of_two_ends_in_one_pass_the_first_type_decides_and_no_condition_follows() {
    let mut stage = ran(Stage::torch(1, "Never", json!({})));
    stage.end_as("x-worker-0", "Failed", Some(1));
    stage.end_as("x-master-0", "Succeeded", Some(0));
    stage.settle();
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Succeeded"]);
    let mut elastic = ran(Stage::of("PyTorchJob", &[("Worker", 2, "OnFailure")], json!({"elasticPolicy": {}})));
    elastic.end_as("x-worker-0", "Failed", Some(1));
    elastic.end_as("x-worker-1", "Succeeded", Some(0));
    elastic.settle();
    assert_eq!(elastic.conditions(), ["Created", "Running=False", "Succeeded"]);
}

// PT-SUC-6
#[test]
fn success_is_the_pods_phase() {
    let mut stage = ran(Stage::torch(1, "OnFailure", json!({})));
    stage.end_as("x-master-0", "Running", Some(0));
    stage.settle();
    assert_eq!(stage.conditions(), ["Created", "Running"], "a sidecar keeps the pod, and so the job, running");
}

// PT-CND-6
#[test]
fn a_fast_job_may_never_be_seen_running() {
    let mut stage = Stage::of("PyTorchJob", &[("Master", 1, "Never")], json!({}));
    stage.settle();
    stage.end("x-master-0", 0);
    assert_eq!(stage.conditions(), ["Created", "Succeeded"]);
}

// PT-RST-5, PT-RST-6, PT-DEC-11
#[test]
fn a_permanent_exit_code_fails_the_job_and_leaves_its_pod() {
    let mut stage = ran(Stage::torch(1, "ExitCode", json!({"runPolicy": {"ttlSecondsAfterFinished": 5}})));
    stage.end("x-worker-0", 1);
    let message = "job \"x\" is failing because \"Worker\" replica(s) failed.";
    assert_eq!(stage.said("Failed"), format!("PyTorchJobFailed: {message}"));
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Failed"]);
    assert_eq!(stage.status()["completionTime"], at(0).to_string());
    assert!(stage.has_event(&format!("PyTorchJobFailed {message}")));
    assert!(!stage.world.events.iter().any(|event| event.contains("Restarting")));
    assert_eq!(stage.pod("x-worker-0")["status"]["phase"], "Failed");
    stage.after(5);
    assert!(!stage.exists());
}

// PT-BKF-1, PT-BKF-2
#[test]
fn restarts_in_place_count_against_the_backoff_limit() {
    // Limit, restarts of a running worker, policy, whether the job fails.
    let cases = [
        (json!(null), 50, "OnFailure", false),
        (json!(3), 2, "OnFailure", false),
        (json!(3), 3, "OnFailure", true),
        (json!(1), 1, "OnFailure", true),
        (json!(0), 1, "OnFailure", true),
        (json!(0), 0, "OnFailure", false),
        (json!(3), 9, "Never", false),
        (json!(2), 2, "Always", true),
    ];
    for (limit, restarts, policy, fails) in cases {
        let mut stage = ran(Stage::torch(1, policy, json!({"runPolicy": {"backoffLimit": limit}})));
        stage.restarted("x-worker-0", restarts);
        stage.settle();
        assert_eq!(stage.conditions().contains(&"Failed".to_owned()), fails, "{limit} {restarts} {policy}");
    }
}

// PT-BKF-3
#[test]
fn with_no_backoff_the_first_failed_pod_fails_the_job() {
    for policy in ["OnFailure", "ExitCode", "Never", "Always"] {
        let mut stage = ran(Stage::torch(1, policy, json!({"runPolicy": {"backoffLimit": 0}})));
        stage.end("x-worker-0", 137);
        assert!(stage.said("Failed").ends_with("backoff limit"), "{policy}: {}", stage.said("Failed"));
        assert_eq!(stage.pod("x-worker-0")["status"]["phase"], "Failed", "its pod is left to be looked at");
    }
}

// PT-STA-4
#[test]
fn how_many_have_failed_is_written_before_their_pods_go() {
    let policy = json!({"backoffLimit": 0, "cleanPodPolicy": "All"});
    let mut stage = ran(Stage::torch(1, "Never", json!({ "runPolicy": policy })));
    stage.end_as("x-worker-0", "Failed", Some(1));
    // A controller that starts here finds the job failed and deletes what tells how.
    stage.step();
    assert_eq!((stage.counters("Worker"), stage.pods().len()), ([0, 0, 1], 2));
    stage.settle();
    assert_eq!(stage.counters("Worker"), [0, 0, 1]);
}

// PT-BKF-4
#[test]
fn the_backoff_limit_ends_the_job_and_cleans_up() {
    let policy = json!({"backoffLimit": 2, "cleanPodPolicy": "Running"});
    let mut stage = ran(Stage::torch(1, "OnFailure", json!({ "runPolicy": policy })));
    stage.world.second = 9;
    stage.restarted("x-worker-0", 2);
    stage.settle();
    let message = "Job x has failed because it has reached the specified backoff limit";
    assert_eq!(stage.said("Failed"), format!("PyTorchJobFailed: {message}"));
    assert!(stage.has_event(&format!("PyTorchJobFailed {message}")));
    assert_eq!(stage.status()["completionTime"], at(9).to_string());
    assert!(stage.pods().iter().all(|pod| !stage.pod(pod)["metadata"]["deletionTimestamp"].is_null()));
}

// PT-BKF-5, PT-DEC-10
#[test]
fn restarts_that_we_cause_are_remembered() {
    let mut stage = ran(Stage::torch(1, "ExitCode", json!({"runPolicy": {"backoffLimit": 3}})));
    for round in 1..=3 {
        stage.end("x-worker-0", 137);
        assert_eq!(stage.job()["metadata"]["annotations"]["volley.dev/restarts"], round.to_string());
        stage.run_all();
    }
    assert!(stage.said("Failed").ends_with("backoff limit"));
    let mut strict = ran(Stage::torch(1, "ExitCode", json!({"runPolicy": {"backoffLimit": 3}})).strict());
    for _ in 0..5 {
        strict.end("x-worker-0", 137);
        strict.run_all();
    }
    assert_eq!(strict.conditions().last().unwrap(), "Running", "the reference forgets");
    let mut resumed = ran(Stage::torch(1, "ExitCode", json!({"runPolicy": {"backoffLimit": 3}})));
    resumed.end("x-worker-0", 137);
    resumed.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
    resumed.settle();
    resumed.pods().iter().for_each(|pod| resumed.end(pod, 143));
    resumed.edit(json!({"spec": {"runPolicy": {"suspend": false}}}));
    resumed.settle();
    assert_eq!(resumed.job()["metadata"]["annotations"], json!({}), "a resumed job begins to count anew");
}

// PT-BKF-5
#[test]
fn a_restart_is_counted_once_wherever_the_controller_dies() {
    let mut stage = ran(Stage::torch(2, "OnFailure", json!({})));
    stage.end_as("x-worker-0", "Failed", Some(1));
    stage.step();
    // A controller that starts here sees the count and the pod that it is for.
    stage.end_as("x-worker-1", "Failed", Some(1));
    stage.settle();
    assert_eq!(stage.job()["metadata"]["annotations"]["volley.dev/restarts"], "2");
}

// PT-STA-3, PT-CLN-1
#[test]
fn a_succeeded_jobs_other_pods_are_cleaned_up_as_its_policy_says() {
    let cases: [(&str, &[&str], i64); 3] =
        [("None", &["x-master-0", "x-worker-0", "x-worker-1"], 2), ("Running", &["x-master-0"], 2), ("All", &[], 2)];
    for (policy, left, succeeded) in cases {
        let mut stage = ran(Stage::torch(2, "Never", json!({"runPolicy": {"cleanPodPolicy": policy}})));
        stage.end("x-master-0", 0);
        assert_eq!(stage.counters("Worker"), [0, succeeded, 0], "{policy}");
        assert_eq!(stage.counters("Master"), [0, 1, 0], "{policy}");
        assert_eq!(stage.world.names("Service"), left, "{policy}");
        let going: Vec<_> =
            stage.pods().into_iter().filter(|pod| !stage.pod(pod)["metadata"]["deletionTimestamp"].is_null()).collect();
        going.iter().for_each(|pod| stage.end(pod, 143));
        assert_eq!(stage.pods(), left, "{policy}");
        assert_eq!(stage.counters("Worker"), [0, succeeded, 0], "{policy}: planning again folds nothing twice");
    }
}

// PT-STA-4, PT-CLN-1
#[test]
fn a_failed_jobs_counters_follow_its_pods() {
    for policy in ["None", "Running", "All"] {
        let mut stage = ran(Stage::torch(2, "Never", json!({"runPolicy": {"cleanPodPolicy": policy}})));
        stage.end("x-worker-0", 1);
        assert_eq!(stage.conditions().last().unwrap(), "Failed");
        if policy == "None" {
            assert_eq!(stage.counters("Worker"), [1, 0, 1]);
        }
        let going: Vec<_> =
            stage.pods().into_iter().filter(|pod| stage.pod(pod)["status"]["phase"] == "Running").collect();
        going.iter().for_each(|pod| stage.end(pod, 0));
        assert_eq!(stage.counters("Worker")[0], 0, "{policy}: nothing runs, and nothing counts as running");
        assert_eq!(stage.counters("Worker")[2], 1, "{policy}");
    }
    let mut strict = ran(Stage::torch(1, "Never", json!({})).strict());
    strict.end("x-worker-0", 1);
    strict.end("x-master-0", 0);
    assert_eq!(strict.counters("Master"), [1, 0, 0], "the reference keeps what it had");
}

// PT-CLN-2, PT-DEC-12, PT-DEF-1
#[test]
fn pods_stay_for_their_logs_unless_the_operator_says_otherwise() {
    let mut stage = ran(Stage::torch(1, "Never", json!({})));
    stage.end("x-master-0", 0);
    assert_eq!(stage.pods().len(), 2);
    let mut tidy = Stage::torch(1, "Never", json!({}));
    tidy.settings.clean_pod_policy = CleanPodPolicy::All;
    let mut tidy = ran(tidy);
    tidy.end("x-master-0", 0);
    assert_eq!(tidy.pods(), ["x-worker-0"], "it is being deleted");
}

// PT-TTL-1, PT-SUS-3, PT-WB-4
#[test]
fn an_ended_job_goes_when_its_time_to_live_is_over() {
    let mut stage = ran(Stage::torch(1, "Never", json!({"runPolicy": {"ttlSecondsAfterFinished": 600}})));
    stage.end("x-master-0", 0);
    assert_eq!(stage.plan().requeue_after, Some(600));
    // A terminal job ignores this.
    stage.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
    assert_eq!(stage.after(599).requeue_after, Some(1));
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Succeeded"]);
    stage.after(1);
    assert!(!stage.exists());
    assert_eq!(stage.world.events.last().unwrap(), "SuccessfulDeletePod Deleted job: x");
    let mut at_once = ran(Stage::torch(1, "Never", json!({"runPolicy": {"ttlSecondsAfterFinished": 0}})));
    at_once.end("x-worker-0", 1);
    assert!(!at_once.exists());
    let mut suspended = Stage::torch(1, "Never", json!({"runPolicy": {"ttlSecondsAfterFinished": 1, "suspend": true}}));
    suspended.settle();
    assert_eq!(suspended.after(9).requeue_after, None);
    assert!(suspended.exists());
}

// PT-DDL-1, PT-DDL-2, PT-DEC-9
#[test]
fn a_job_fails_at_its_deadline() {
    let mut stage = ran(Stage::torch(1, "OnFailure", json!({"runPolicy": {"activeDeadlineSeconds": 30}})));
    assert_eq!(stage.plan().requeue_after, Some(30), "it wakes by itself");
    stage.after(29);
    assert_eq!(stage.conditions(), ["Created", "Running"]);
    assert_eq!(stage.plan().requeue_after, Some(1));
    stage.after(1);
    let message = "Job x has failed because it was active longer than specified deadline";
    assert_eq!(stage.said("Failed"), format!("PyTorchJobFailed: {message}"));
    assert_eq!(stage.status()["completionTime"], at(30).to_string());
    assert!(stage.has_event(&format!("PyTorchJobFailed {message}")));
}

// PT-POD-8
#[test]
fn a_pod_that_disappears_is_made_again_whatever_the_policy() {
    let mut stage = ran(Stage::torch(2, "Never", json!({})));
    stage.end("x-worker-0", 0);
    assert_eq!(stage.counters("Worker"), [1, 1, 0]);
    stage.world.delete("Pod", "x-worker-0");
    stage.world.objects.remove(&("Pod".into(), "x-worker-1".into()));
    stage.settle();
    assert_eq!(stage.pods(), ["x-master-0", "x-worker-0", "x-worker-1"]);
    assert_eq!(stage.conditions(), ["Created", "Running"]);
}

// PT-ADM-2, PT-ADM-7
#[test]
fn a_job_that_nobody_refused_is_failed_with_all_that_is_wrong() {
    let mut stage = Stage::torch(1, "Never", json!({"runPolicy": {"backoffLimit": -1}}));
    stage.edit(json!({"spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}}));
    stage.settle();
    assert_eq!(stage.conditions(), ["Created", "Failed"]);
    let message = "PyTorchJob failed validation because spec.runPolicy.backoffLimit: Invalid value: -1: must be greater \
        than or equal to 0; spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1";
    assert_eq!(stage.said("Failed"), format!("PyTorchJobFailedValidation: {message}"));
    assert_eq!(stage.world.objects.len(), 1);
    assert!(stage.has_event(&format!("PyTorchJobFailedValidation {message}")));
}

/// Worked example A, and what W&B Launch and its reader see of it.
// PT-WB-1, PT-WB-2, PT-WB-5
#[test]
fn example_a_one_failed_worker_fails_a_job_that_never_restarts() {
    let mut stage = Stage::torch(2, "Never", json!({"ttlSecondsAfterFinished": 600}));
    stage.edit(json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"metadata": {"labels": {"wandb.ai/monitor": "true"}}}}}}}));
    let mut stage = ran(stage);
    assert_eq!(stage.pod("x-worker-1")["metadata"]["labels"]["wandb.ai/monitor"], "true");
    stage.end("x-worker-1", 3);
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Failed"]);
    assert_eq!(stage.said("Failed"), "PyTorchJobFailed: PyTorchJob x is failed because 1 Worker replica(s) failed.");
    assert_eq!(stage.status()["state"], Value::Null);
    assert_eq!(stage.pod("x-worker-0")["status"]["phase"], "Running");
    assert_eq!(stage.plan().requeue_after, Some(600));
    stage.after(600);
    assert!(!stage.exists());
}

/// Worked example F.
// PT-RST-1, PT-RST-5
#[test]
fn example_f_an_exit_code_decides() {
    let mut stage = ran(Stage::torch(1, "ExitCode", json!({})));
    stage.end("x-worker-0", 137);
    assert_eq!(stage.conditions(), ["Created", "Running"]);
    assert!(stage.world.events.iter().any(|event| event.starts_with("PyTorchJobRestarting ")));
    stage.run_all();
    stage.end("x-worker-0", 1);
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Failed"]);
    assert_eq!(stage.status()["completionTime"], at(0).to_string());
}

/// Worked example H.
// PT-CLN-1, PT-STA-3
#[test]
fn example_h_running_workers_are_cleaned_up_after_their_master() {
    let mut stage = ran(Stage::torch(2, "Never", json!({"runPolicy": {"cleanPodPolicy": "Running"}})));
    stage.end("x-master-0", 0);
    let plan_is_done = stage.plan().is_empty();
    for pod in ["x-worker-0", "x-worker-1"] {
        stage.end(pod, 143);
    }
    assert!(plan_is_done);
    assert_eq!((stage.pods(), stage.world.names("Service")), (vec!["x-master-0".into()], vec!["x-master-0".into()]));
    let counters = &stage.status()["replicaStatuses"]["Worker"];
    assert_eq!((counters["succeeded"].as_i64(), counters.get("active")), (Some(2), None));
}

// PT-TTL-1
#[test]
fn an_expired_job_is_deleted_and_nothing_else_is_done() {
    let mut stage =
        ran(Stage::torch(1, "Never", json!({"runPolicy": {"ttlSecondsAfterFinished": 0, "cleanPodPolicy": "All"}})));
    stage.end_as("x-master-0", "Succeeded", Some(0));
    stage.step();
    let plan = stage.plan();
    assert!(matches!(&plan.actions[..], [Action::Delete { target, .. }] if target.kind == "PyTorchJob"), "{plan:?}");
}
