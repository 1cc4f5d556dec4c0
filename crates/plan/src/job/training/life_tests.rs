//! The life of a job that does not end: creation, running, restarts, suspension, scaling, events.

use super::stage::{Stage, container_status};
use super::{Gate, Settings};
use crate::control::world::at;
use crate::control::{Action, EventType};
use serde_json::{Value, json};

// PT-CND-7, PT-STA-5
#[test]
fn a_job_is_created_on_paper_before_its_pods_are() {
    let mut stage = Stage::torch(1, "Never", json!({}));
    let first = stage.step();
    assert!(matches!(&first.actions[..], [Action::PatchStatus { .. }]), "{first:?}");
    assert_eq!(stage.conditions(), ["Created"]);
    assert_eq!(stage.said("Created"), "PyTorchJobCreated: PyTorchJob x is created.");
    assert_eq!(stage.status()["startTime"], at(0).to_string());
    stage.settle();
    assert_eq!(stage.pods(), ["x-master-0", "x-worker-0"]);
    assert_eq!(stage.status()["replicaStatuses"]["Worker"]["active"], Value::Null, "a pending pod counts nowhere");
}

// PT-REC-2, PT-REC-4
#[test]
fn planning_again_is_empty_and_a_status_is_written_on_what_was_seen() {
    let mut stage = Stage::torch(2, "Never", json!({}));
    stage.settle();
    stage.run_all();
    assert!(stage.plan().is_empty());
    stage.end_as("x-worker-0", "Succeeded", Some(0));
    let plan = stage.plan();
    let Some(Action::PatchStatus { patch, .. }) = plan.actions.last() else { panic!("{plan:?}") };
    assert_eq!(patch["metadata"]["resourceVersion"], stage.job()["metadata"]["resourceVersion"]);
}

// PT-CND-6, PT-STA-1, PT-STA-2
#[test]
fn a_job_runs_when_its_master_does() {
    let mut stage = Stage::torch(2, "Never", json!({}));
    stage.settings.gate = Gate::None;
    stage.settle();
    stage.run(&["x-worker-0"]);
    assert_eq!(stage.conditions(), ["Created"]);
    stage.run(&["x-master-0"]);
    assert_eq!(stage.conditions(), ["Created", "Running"]);
    assert_eq!(stage.said("Running"), "PyTorchJobRunning: PyTorchJob x is running.");
    assert_eq!((stage.counters("Master"), stage.counters("Worker")), ([1, 0, 0], [1, 0, 0]));
    let selector = "training.kubeflow.org/job-name=x,training.kubeflow.org/operator-name=pytorchjob-controller,training.kubeflow.org/replica-type=worker";
    assert_eq!(stage.status()["replicaStatuses"]["Worker"]["selector"], selector);
    let mut alone = Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({}));
    alone.settle();
    alone.run(&["x-worker-1"]);
    assert_eq!(alone.said("Running"), "PyTorchJobRunning: PyTorchJob d/x is running.");
}

// PT-RST-1, PT-RST-2, PT-RST-4
#[test]
fn each_restart_policy_has_its_own_answer_to_an_end() {
    // Policy, phase, exit code, whether the pod is replaced, whether the job fails.
    let cases: [(&str, &str, Option<i32>, bool, bool); 14] = [
        ("Never", "Failed", Some(1), false, true),
        ("Never", "Failed", Some(137), false, true),
        ("Never", "Failed", None, false, true),
        ("OnFailure", "Failed", Some(1), true, false),
        ("OnFailure", "Failed", None, true, false),
        ("Always", "Failed", Some(1), true, false),
        ("ExitCode", "Failed", Some(1), false, true),
        ("ExitCode", "Failed", Some(127), false, true),
        ("ExitCode", "Failed", Some(128), true, false),
        ("ExitCode", "Failed", Some(130), true, false),
        ("ExitCode", "Failed", Some(137), true, false),
        ("ExitCode", "Failed", Some(143), true, false),
        ("ExitCode", "Failed", None, true, false),
        ("ExitCode", "Failed", Some(0), false, true),
    ];
    for (policy, phase, code, is_replaced, fails) in cases {
        let mut stage = Stage::torch(2, policy, json!({}));
        stage.settle();
        stage.run_all();
        let uid = stage.pod("x-worker-1")["metadata"]["uid"].clone();
        let peer = stage.pod("x-worker-0")["metadata"]["uid"].clone();
        stage.end_as("x-worker-1", phase, code);
        stage.settle();
        assert_eq!(stage.pod("x-worker-1")["metadata"]["uid"] != uid, is_replaced, "{policy} {code:?}");
        assert_eq!(stage.conditions().contains(&"Failed".to_owned()), fails, "{policy} {code:?}");
        assert_eq!(stage.pod("x-worker-0")["metadata"]["uid"], peer, "healthy peers are left alone");
    }
    let mut in_place = Stage::torch(1, "OnFailure", json!({}));
    in_place.settle();
    in_place.run_all();
    in_place.restarted("x-worker-0", 7);
    in_place.settle();
    assert_eq!(in_place.conditions(), ["Created", "Running"]);
}

// PT-RST-2
#[test]
fn a_job_restarts_and_runs_again() {
    let mut stage = Stage::torch(1, "ExitCode", json!({}));
    stage.settle();
    stage.run_all();
    stage.end_as("x-worker-0", "Failed", Some(137));
    stage.step();
    assert_eq!(stage.job()["metadata"]["annotations"]["volley.dev/restarts"], "1", "it is written down first");
    stage.step();
    assert_eq!(stage.conditions(), ["Created", "Restarting"]);
    let message = "PyTorchJob x is restarting because 1 Worker replica(s) failed.";
    assert_eq!(stage.said("Restarting"), format!("PyTorchJobRestarting: {message}"));
    assert!(stage.has_event(&format!("PyTorchJobRestarting {message}")));
    assert_eq!(stage.counters("Worker"), [0, 0, 1]);
    stage.settle();
    assert_eq!(stage.conditions(), ["Created", "Running"]);
    let mut master = Stage::torch(1, "ExitCode", json!({}));
    master.settle();
    master.run_all();
    master.end("x-master-0", 143);
    let message = "job x is restarting because Master replica(s) failed.";
    assert_eq!(master.said("Restarting"), format!("PyTorchJobRestarting: {message}"));
    assert_eq!(master.conditions(), ["Created", "Restarting"], "until the new master runs");
}

// PT-RST-3
#[test]
fn a_running_pod_that_is_deleted_counts_as_failed() {
    let mut strict_author = Stage::torch(1, "Never", json!({}));
    strict_author.settle();
    strict_author.run_all();
    strict_author.world.delete("Pod", "x-worker-0");
    strict_author.settle();
    assert_eq!(strict_author.conditions(), ["Created", "Running=False", "Failed"]);
    let mut stage = Stage::torch(1, "OnFailure", json!({}));
    stage.settle();
    stage.run_all();
    stage.world.delete("Pod", "x-worker-0");
    stage.settle();
    assert_eq!(stage.conditions(), ["Created", "Restarting"]);
    assert_eq!(stage.counters("Worker"), [0, 0, 1]);
    stage.end("x-worker-0", 143);
    assert_eq!(stage.conditions(), ["Created", "Running"]);
    assert_eq!(stage.pods().len(), 2);
}

// PT-RST-3, PT-BKF-5
#[test]
fn how_a_deleted_pod_ends_does_not_matter() {
    for code in [0, 1, 143] {
        let mut stage = Stage::torch(1, "ExitCode", json!({"runPolicy": {"backoffLimit": 1}}));
        stage.settle();
        stage.run_all();
        stage.world.edit("Pod", "x-worker-0", json!({"metadata": {"finalizers": ["held"]}}));
        stage.world.delete("Pod", "x-worker-0");
        stage.settle();
        stage.end_as("x-worker-0", "Failed", Some(code));
        stage.settle();
        assert_eq!(stage.conditions(), ["Created", "Restarting"], "{code}");
        assert_eq!(stage.job()["metadata"]["annotations"], Value::Null, "{code}: we did not cause it");
        stage.world.edit("Pod", "x-worker-0", json!({"metadata": {"finalizers": null}}));
        stage.settle();
        assert_eq!(stage.conditions(), ["Created", "Running"], "{code}");
    }
}

// PT-DEC-18
#[test]
fn a_job_that_asks_for_it_restarts_as_a_whole() {
    let scope = json!({"metadata": {"annotations": {"volley.dev/restart-scope": "job"}}});
    let mut stage = Stage::torch(2, "Never", json!({"runPolicy": {"backoffLimit": 2}}));
    stage.edit(scope.clone());
    stage.settle();
    stage.run_all();
    let uids =
        |stage: &Stage| stage.pods().iter().map(|pod| stage.pod(pod)["metadata"]["uid"].clone()).collect::<Vec<_>>();
    let before = uids(&stage);
    stage.end("x-worker-1", 1);
    assert_eq!(stage.conditions(), ["Created", "Restarting"]);
    assert_eq!(
        stage.job()["metadata"]["annotations"]["volley.dev/restarts"],
        "1",
        "one restart, whatever it takes down"
    );
    assert_eq!(stage.pods(), ["x-master-0", "x-worker-0"], "no new pod meets an old one");
    stage.end("x-master-0", 143);
    assert_eq!(stage.pods(), ["x-worker-0"]);
    stage.end("x-worker-0", 143);
    assert!(uids(&stage).iter().all(|uid| !before.contains(uid)) && stage.pods().len() == 3);
    stage.run_all();
    assert_eq!(stage.conditions(), ["Created", "Running"]);
    stage.end("x-master-0", 9);
    assert_eq!(stage.conditions().last().unwrap(), "Failed", "the second restart reaches the limit");
    // A master that fails before anybody saw it run: its workers, which wait for it, go too.
    let mut short = Stage::torch(1, "Never", json!({"runPolicy": {"backoffLimit": 2}}));
    short.edit(scope.clone());
    short.settle();
    short.world.run_pod("x-master-0");
    short.end("x-master-0", 1);
    assert_eq!((short.conditions(), short.pods().len()), (vec!["Created".to_owned(), "Restarting".to_owned()], 2));
    let mut strict = Stage::torch(1, "Never", json!({})).strict();
    strict.edit(scope);
    strict.settle();
    strict.run_all();
    strict.end("x-worker-0", 1);
    assert_eq!(strict.conditions().last().unwrap(), "Failed");
}

// PT-SUS-1, PT-CND-6
#[test]
fn a_new_suspended_job_has_nothing() {
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]);
    let mut stage =
        Stage::torch(2, "Never", json!({"runPolicy": {"suspend": true}, "elasticPolicy": {"metrics": metrics}}));
    stage.settle();
    assert_eq!(stage.world.objects.len(), 1);
    assert_eq!(stage.conditions(), ["Created", "Suspended"]);
    assert_eq!(stage.said("Suspended"), "PyTorchJobSuspended: PyTorchJob x is suspended.");
    assert_eq!(stage.status()["startTime"], Value::Null);
}

// PT-SUS-2, PT-SUS-4, PT-SUS-5, PT-DDL-3, PT-STA-5, PT-CND-6
#[test]
fn a_suspended_job_lets_go_and_starts_afresh() {
    let mut stage =
        Stage::torch(2, "Never", json!({"runPolicy": {"cleanPodPolicy": "None", "activeDeadlineSeconds": 100}}));
    stage.settle();
    stage.run_all();
    let uid = stage.pod("x-master-0")["metadata"]["uid"].clone();
    stage.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
    stage.after(50);
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Suspended"]);
    assert_eq!(stage.said("Running"), "PyTorchJobSuspended: PyTorchJob x is suspended.");
    assert_eq!((stage.counters("Master"), stage.counters("Worker")), ([0, 0, 0], [0, 0, 0]));
    assert!(stage.world.names("Service").is_empty(), "services go with their pods");
    assert_eq!(stage.status()["startTime"], at(0).to_string());
    assert_eq!(stage.world.events.iter().filter(|event| event.starts_with("PyTorchJobSuspended")).count(), 1);
    // It is taken up again while its old pods still wind down: that is no failure of the new ones.
    let template = json!({"template": {"spec": {"nodeSelector": {"zone": "a"}}}});
    stage.edit(json!({"spec": {"runPolicy": {"suspend": false}, "pytorchReplicaSpecs": {"Master": template}}}));
    stage.after(100);
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Suspended"]);
    for pod in stage.pods() {
        stage.end(&pod, 143);
    }
    assert_eq!(stage.conditions(), ["Created", "Running=False", "Suspended=False"]);
    assert_eq!(stage.said("Suspended"), "PyTorchJobResumed: PyTorchJob x is resumed.");
    assert_eq!(stage.status()["startTime"], at(150).to_string());
    stage.run_all();
    assert_eq!(stage.conditions(), ["Created", "Suspended=False", "Running"]);
    assert_ne!(stage.pod("x-master-0")["metadata"]["uid"], uid);
    assert_eq!(stage.pod("x-master-0")["spec"]["nodeSelector"]["zone"], "a", "with the template of today");
    assert_eq!(stage.plan().requeue_after, Some(100), "the deadline counts from the resumption");
}

// PT-SUS-4
#[test]
fn a_suspended_job_drops_services_that_its_pods_left_behind() {
    let mut stage = Stage::torch(1, "Never", json!({}));
    stage.settle();
    stage.pods().iter().for_each(|pod| stage.world.delete("Pod", pod));
    stage.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
    stage.settle();
    assert!(stage.world.names("Service").is_empty());
}

// PT-MGB-1
#[test]
fn a_job_of_another_manager_is_not_touched() {
    for suspend in [true, false] {
        let policy = json!({"managedBy": "kueue.x-k8s.io/multikueue", "suspend": suspend});
        let stage = Stage::torch(1, "Never", json!({"runPolicy": policy}));
        assert_eq!(stage.plan(), Default::default());
    }
    let mut ours = Stage::torch(1, "Never", json!({"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}));
    ours.settle();
    assert_eq!(ours.pods().len(), 2);
    ours.edit(json!({"metadata": {"deletionTimestamp": at(0).to_string(), "finalizers": ["f"]}}));
    ours.world.delete("Pod", "x-worker-0");
    assert_eq!(ours.plan(), Default::default(), "nor is one that is going");
}

// PT-ELA-4, PT-POD-7, PT-SVC-5, PT-RES-3
#[test]
fn scaling_adds_and_removes_the_highest_indexes() {
    let mut stage = Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({"elasticPolicy": {}}));
    stage.settle();
    stage.run_all();
    let first = stage.pod("x-worker-0").clone();
    let scale = |count: i32| json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": count}}}});
    stage.edit(scale(4));
    stage.settle();
    stage.run_all();
    assert_eq!(stage.pods(), ["x-worker-0", "x-worker-1", "x-worker-2", "x-worker-3"]);
    assert_eq!(stage.world.names("Service").len(), 4);
    stage.edit(scale(1));
    stage.settle();
    assert_eq!(stage.world.names("Service"), ["x-worker-0"]);
    assert_eq!(
        stage.conditions(),
        ["Created", "Running"],
        "scaling down is no failure, even of workers that never restart"
    );
    for pod in ["x-worker-1", "x-worker-2", "x-worker-3"] {
        stage.end(pod, 143);
    }
    assert_eq!(stage.pods(), ["x-worker-0"]);
    assert_eq!(*stage.pod("x-worker-0"), first, "survivors keep what they have");
}

// PT-EVT-1, PT-EVT-2, PT-EVT-3, PT-DEC-16
#[test]
fn what_is_wrong_with_a_pod_is_told_once() {
    let status =
        |state: Value| json!({"phase": "Pending", "containerStatuses": [container_status("pytorch", 0, state)]});
    let condition = |second: i64, kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": at(second).to_string()});
    let cases = [
        (
            status(json!({"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}})),
            Some("ImagePullBackOff Error pod x-master-0 container pytorch waiting message: back-off"),
        ),
        (status(json!({"waiting": {"reason": "ContainerCreating"}})), None),
        (
            status(json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "boom"}})),
            Some("Error Error pod x-master-0 container pytorch exitCode: 2 terminated message: boom"),
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [container_status("i", 0, json!({"terminated": {"exitCode": 1, "reason": "Error"}}))]}),
            Some("Error Error pod x-master-0 container i exitCode: 1 terminated message: "),
        ),
        (
            json!({"phase": "Pending", "conditions": [condition(1, "PodScheduled", "False", "Unschedulable"), condition(0, "Ready", "False", "Old")]}),
            Some("Unschedulable Error pod x-master-0 condition message: m"),
        ),
        (json!({"phase": "Pending", "conditions": [condition(0, "PodScheduled", "False", "SchedulingGated")]}), None),
    ];
    for (status, expected) in cases {
        let mut stage = Stage::of("PyTorchJob", &[("Master", 1, "OnFailure")], json!({}));
        stage.settle();
        assert!(!stage.world.events.iter().any(|event| event.contains("Created") && event.contains("Job")));
        stage.world.edit("Pod", "x-master-0", json!({ "status": status }));
        let before = stage.world.events.len();
        stage.settle();
        let told: Vec<_> = stage.world.events[before..].iter().filter(|e| !e.starts_with("ExitedWithCode")).collect();
        assert_eq!(told, expected.iter().collect::<Vec<_>>(), "{status}");
        assert!(stage.plan().is_empty());
        let mut strict = Stage { settings: Settings::strict(), ..stage };
        strict.settings.gate = Gate::None;
        assert_eq!(strict.plan().events.iter().any(|event| event.kind == EventType::Warning), expected.is_some());
    }
}

// PT-EVT-1
#[test]
fn every_exit_code_is_told() {
    let mut stage = Stage::torch(2, "OnFailure", json!({}));
    stage.settle();
    stage.run_all();
    stage.end("x-worker-0", 0);
    stage.end("x-worker-1", 3);
    assert!(stage.has_event("ExitedWithCode Pod: d.x-worker-0 exited with code 0"));
    assert!(stage.has_event("ExitedWithCode Pod: d.x-worker-1 exited with code 3"));
    for text in [
        "SuccessfulCreatePod Created pod: x-worker-0",
        "SuccessfulCreateService Created service: x-worker-0",
        "SuccessfulDeletePod Deleted pod: x-worker-1",
    ] {
        assert!(stage.has_event(text), "{text} in {:?}", stage.world.events);
    }
}

// PT-REC-3
#[test]
fn a_write_that_failed_is_told_in_the_references_words() {
    let stage = Stage::torch(1, "Never", json!({}));
    let create = |kind: &str| Action::Create { object: json!({ "kind": kind }), event: None };
    let failure = |action: &Action| super::failure(stage.row, stage.job(), action, "no").map(|e| (e.reason, e.message));
    assert_eq!(failure(&create("Pod")), Some(("FailedCreatePod".into(), "Error creating: no".into())));
    assert_eq!(failure(&create("Service")), Some(("FailedCreateService".into(), "Error creating: no".into())));
    assert_eq!(failure(&create("ConfigMap")), None);
    let mut running = Stage::torch(1, "Never", json!({"runPolicy": {"cleanPodPolicy": "All"}}));
    running.settle();
    running.run_all();
    running.end_as("x-master-0", "Succeeded", Some(0));
    running.step();
    let plan = running.plan();
    let told: Vec<_> = plan.actions.iter().filter_map(failure).map(|(reason, _)| reason).collect();
    assert!(
        told.contains(&"FailedDeletePod".to_owned()) && told.contains(&"FailedDeleteService".to_owned()),
        "{plan:?}"
    );
}
