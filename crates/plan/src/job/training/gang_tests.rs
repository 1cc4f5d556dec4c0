//! Gang scheduling and the autoscaler.

use super::Gang;
use super::stage::Stage;
use crate::control::world::at;
use serde_json::{Value, json};

fn gang(mut stage: Stage, name: &str) -> Stage {
    stage.settings.gang = Gang::parse(name);
    stage.settle();
    stage
}

fn with_requests(policy: Value) -> Stage {
    let containers = |cpu: Value, class: &str| {
        let asks = json!([
            {"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": 9}}},
            {"name": "side", "image": "i", "resources": {"limits": {"memory": "1Gi"}}},
        ]);
        json!({"template": {"spec": {"containers": asks, "priorityClassName": class}}})
    };
    let specs = json!({"Master": containers(json!(1), "low"), "Worker": containers(json!("500m"), "high")});
    Stage::torch(3, "Never", json!({"pytorchReplicaSpecs": specs, "runPolicy": {"schedulingPolicy": policy}}))
}

fn group(stage: &Stage) -> &Value {
    stage.world.raw("PodGroup", "x")
}

// PT-CFG-1
#[test]
fn a_gang_scheduler_is_told_by_its_name() {
    assert_eq!(Gang::parse(""), None);
    assert_eq!(Gang::parse("Volcano"), Some(Gang::Volcano));
    assert_eq!(Gang::parse("co"), Some(Gang::Plugins("co".into())));
}

// PT-SUS-5
#[test]
fn a_resumed_job_that_waits_for_its_gang_counts_nothing_of_its_earlier_life() {
    let mut stage = gang(Stage::torch(2, "Never", json!({})), "volcano");
    stage.world.edit("PodGroup", "x", json!({"status": {"phase": "Inqueue"}}));
    stage.settle();
    stage.run_all();
    stage.end("x-worker-1", 0);
    assert_eq!(stage.counters("Worker"), [1, 1, 0]);
    for suspend in [true, false] {
        stage.edit(json!({"spec": {"runPolicy": {"suspend": suspend}}}));
        stage.settle();
        stage.pods().iter().for_each(|pod| stage.end(pod, 143));
        stage.settle();
    }
    assert_eq!((stage.counters("Worker"), stage.pods().len()), ([0, 0, 0], 0));
}

// PT-GNG-1, PT-GNG-4, PT-STA-5
#[test]
fn pods_wait_for_their_group_at_volcano() {
    let mut stage = Stage::torch(1, "Never", json!({"runPolicy": {"schedulingPolicy": {"priorityClass": "p"}}}));
    stage.edit(json!({"metadata": {"annotations": {"a": "b"}}}));
    let mut stage = gang(stage, "volcano");
    assert_eq!(group(&stage)["apiVersion"], "scheduling.volcano.sh/v1beta1");
    assert_eq!(
        group(&stage)["spec"],
        json!({"minMember": 2, "minResources": {}, "queue": "default", "priorityClassName": "p"})
    );
    assert_eq!(group(&stage)["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(group(&stage)["metadata"]["ownerReferences"][0]["uid"], "u");
    for phase in ["", "Pending"] {
        stage.world.edit("PodGroup", "x", json!({"status": {"phase": phase}}));
        stage.after(5);
        assert!(stage.pods().is_empty());
    }
    assert_eq!(stage.conditions(), ["Created"]);
    assert_eq!(stage.status()["lastReconcileTime"], at(0).to_string());
    assert_eq!(stage.status()["startTime"], Value::Null);
    stage.world.edit("PodGroup", "x", json!({"status": {"phase": "Inqueue"}}));
    stage.after(5);
    assert_eq!(stage.status()["startTime"], at(15).to_string());
    let pod = stage.pod("x-worker-0");
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({"scheduling.k8s.io/group-name": "x", "volcano.sh/task-spec": "worker"})
    );
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
}

// PT-GNG-1
#[test]
fn the_other_flavour_never_holds_pods_back() {
    let policy = json!({"scheduleTimeoutSeconds": 30, "minAvailable": 1, "queue": "q"});
    let stage = gang(Stage::torch(1, "Never", json!({"runPolicy": {"schedulingPolicy": policy}})), "co");
    assert_eq!(group(&stage)["apiVersion"], "scheduling.x-k8s.io/v1alpha1");
    assert_eq!(group(&stage)["spec"], json!({"minMember": 1, "minResources": {}, "scheduleTimeoutSeconds": 30}));
    let pod = stage.pod("x-master-0");
    assert_eq!(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "x");
    assert_eq!(pod["spec"]["schedulerName"], "co");
}

// PT-GNG-2
#[test]
fn a_gang_asks_for_what_its_first_pods_ask_for() {
    let check = |policy: Value, priorities: &[(&str, i32)], expected: Value| {
        let mut stage = with_requests(policy);
        stage.priorities = priorities.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let stage = gang(stage, "volcano");
        assert_eq!(group(&stage)["spec"]["minResources"], expected);
    };
    check(json!({}), &[], json!({"cpu": "2500m", "memory": "4Gi"}));
    check(json!({"minAvailable": 2}), &[], json!({"cpu": "1500m", "memory": "2Gi"}));
    check(json!({"minAvailable": 2}), &[("high", 9)], json!({"cpu": "1", "memory": "2Gi"}));
    check(json!({"minResources": {"cpu": 7}}), &[], json!({"cpu": 7}));
}

// PT-GNG-3
#[test]
fn a_group_follows_its_job_but_keeps_its_queue() {
    let mut stage =
        gang(Stage::torch(2, "Never", json!({"runPolicy": {"schedulingPolicy": {"queue": "q"}}})), "volcano");
    assert!(stage.plan().is_empty(), "only differences are written");
    stage.edit(json!({"spec": {"runPolicy": {"schedulingPolicy": {"queue": null, "minAvailable": 1}}}}));
    stage.settle();
    assert_eq!((&group(&stage)["spec"]["minMember"], &group(&stage)["spec"]["queue"]), (&json!(1), &json!("q")));
}

// PT-GNG-5
#[test]
fn another_scheduler_is_left_alone_with_a_warning() {
    let spec = json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"schedulerName": "mine"}}}}});
    let mut stage = gang(Stage::torch(1, "Never", spec), "co");
    assert_eq!(stage.pod("x-worker-0")["spec"]["schedulerName"], "mine");
    assert_eq!(stage.pod("x-master-0")["spec"]["schedulerName"], "co");
    let warning = "SetPodTemplateSchedulerName Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten";
    assert!(stage.has_event(warning));
    let told = stage.world.events.len();
    stage.settle();
    assert_eq!(stage.world.events.len(), told);
}

// PT-GNG-6, PT-EVT-2
#[test]
fn the_group_goes_with_the_end_and_with_suspension() {
    let mut stage = gang(Stage::torch(1, "Never", json!({})), "co");
    stage.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
    stage.settle();
    assert!(stage.world.names("PodGroup").is_empty());
    stage.edit(json!({"spec": {"runPolicy": {"suspend": false}}}));
    stage.settle();
    assert_eq!(stage.world.names("PodGroup"), ["x"]);
    stage.run_all();
    stage.end("x-master-0", 0);
    assert!(stage.world.names("PodGroup").is_empty());
    for text in
        ["JobTerminated Job has been terminated. Deleting PodGroup", "SuccessfulDeletePodGroup Deleted PodGroup: x"]
    {
        assert_eq!(stage.world.events.iter().filter(|event| *event == text).count(), 2, "{text}");
    }
}

// PT-GNG-7
#[test]
fn an_elastic_gang_may_start_small() {
    let job =
        |workers: i32| Stage::torch(workers, "Never", json!({"elasticPolicy": {"minReplicas": 2, "maxReplicas": 8}}));
    assert_eq!(group(&gang(job(4), "volcano"))["spec"]["minMember"], 3);
    assert_eq!(group(&gang(job(4).strict(), "volcano"))["spec"]["minMember"], 5);
}

fn metrics(target: i32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": target});
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
}

fn elastic(policy: Value) -> Stage {
    let mut stage = Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({ "elasticPolicy": policy }));
    stage.settle();
    stage
}

// PT-ELA-1
#[test]
fn metrics_make_an_autoscaler_that_follows_the_policy() {
    assert!(elastic(json!({})).world.names("HorizontalPodAutoscaler").is_empty());
    let mut stage = elastic(json!({"minReplicas": 1, "maxReplicas": 3, "metrics": metrics(80)}));
    let expected = json!({"scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "x"},
        "minReplicas": 1, "maxReplicas": 3, "metrics": metrics(80)});
    assert_eq!(stage.world.raw("HorizontalPodAutoscaler", "x")["spec"], expected);
    stage.world.edit("HorizontalPodAutoscaler", "x", json!({"spec": {"behavior": {"scaleUp": {}}}}));
    assert!(stage.plan().is_empty(), "what others set is theirs");
    stage.edit(json!({"spec": {"elasticPolicy": {"maxReplicas": 5, "metrics": metrics(50)}}}));
    stage.settle();
    let spec = &stage.world.raw("HorizontalPodAutoscaler", "x")["spec"];
    assert_eq!((&spec["maxReplicas"], &spec["metrics"]), (&json!(5), &metrics(50)));
}

// PT-ELA-2, PT-ELA-3, PT-DEC-20
#[test]
fn an_autoscaler_goes_with_its_reason() {
    let has = |stage: &Stage| !stage.world.names("HorizontalPodAutoscaler").is_empty();
    let mut stage = elastic(json!({"metrics": metrics(80)}));
    stage.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
    stage.settle();
    assert!(!has(&stage));
    stage.edit(json!({"spec": {"runPolicy": {"suspend": false}}}));
    stage.settle();
    assert!(has(&stage));
    stage.run_all();
    stage.end("x-worker-0", 0);
    assert!(!has(&stage));
    let mut changed = elastic(json!({"metrics": metrics(80)}));
    changed.edit(json!({"spec": {"elasticPolicy": {"metrics": null}}}));
    changed.settle();
    assert!(!has(&changed));
    let mut strict = elastic(json!({"metrics": metrics(80)})).strict();
    strict.settle();
    strict.edit(json!({"spec": {"elasticPolicy": {"metrics": null}}}));
    strict.settle();
    assert!(has(&strict));
}

// PT-ELA-5
#[test]
fn a_lost_worker_0_comes_back_to_its_group() {
    let mut stage =
        Stage::of("PyTorchJob", &[("Worker", 2, "OnFailure")], json!({"elasticPolicy": {"maxRestarts": 3}}));
    stage.settle();
    stage.run_all();
    let peer = stage.pod("x-worker-1").clone();
    stage.end("x-worker-0", 137);
    assert_eq!(stage.pods(), ["x-worker-0", "x-worker-1"]);
    assert_eq!(*stage.pod("x-worker-1"), peer, "torchrun restarts its processes, not we its pod");
    assert_eq!(stage.conditions(), ["Created", "Running"]);
}
