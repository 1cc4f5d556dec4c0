//! The pods, services and gates of a PyTorchJob.

use super::stage::Stage;
use super::{Gang, Gate, Settings};
use crate::control::Action;
use serde_json::{Value, json};

fn settled(mut stage: Stage) -> Stage {
    stage.settle();
    stage
}

fn with_template(template: Value) -> Stage {
    Stage::torch(1, "Never", json!({"pytorchReplicaSpecs": {"Worker": {"template": template}}}))
}

// PT-POD-1, PT-POD-2
#[test]
fn a_pod_is_named_and_labelled_by_its_place() {
    let labels = json!({"team": "a", "training.kubeflow.org/replica-index": "9"});
    let stage = settled(with_template(json!({"metadata": {"labels": labels}})));
    assert_eq!(stage.pods(), ["x-master-0", "x-worker-0"]);
    let expected = json!({
        "team": "a",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "x",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
    });
    assert_eq!(stage.pod("x-worker-0")["metadata"]["labels"], expected);
    let role =
        |stage: &Stage, pod: &str| stage.pod(pod)["metadata"]["labels"]["training.kubeflow.org/job-role"].clone();
    assert_eq!(role(&stage, "x-master-0"), "master");
    let alone = settled(Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({})));
    assert_eq!((role(&alone, "x-worker-0"), role(&alone, "x-worker-1")), (json!("master"), Value::Null));
}

// PT-POD-3, PT-POD-4, PT-RES-4
#[test]
fn a_pod_has_the_templates_annotations_and_one_owner() {
    let metadata = json!({"annotations": {"a": "b"}, "finalizers": ["f"], "name": "n"});
    let mut stage = with_template(json!({ "metadata": metadata }));
    stage.edit(json!({"metadata": {"labels": {"of": "job"}, "annotations": {"of": "job"}}}));
    let stage = settled(stage);
    let metadata = &stage.pod("x-worker-0")["metadata"];
    assert_eq!((&metadata["annotations"], &metadata["finalizers"]), (&json!({"a": "b"}), &json!(["f"])));
    assert_eq!(metadata["labels"]["of"], Value::Null);
    let owner = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "x", "uid": "u",
        "controller": true, "blockOwnerDeletion": true});
    assert_eq!(metadata["ownerReferences"], json!([owner]));
    assert_eq!(stage.world.raw("Service", "x-worker-0")["metadata"]["ownerReferences"], json!([owner]));
}

// PT-POD-5
#[test]
fn the_replicas_restart_policy_is_the_pods() {
    let warning = "SetPodTemplateRestartPolicy Restart policy in pod template will be overwritten by restart policy in replica spec";
    for (given, expected) in
        [("Always", "Always"), ("OnFailure", "OnFailure"), ("Never", "Never"), ("ExitCode", "Never")]
    {
        let stage = settled(Stage::torch(1, given, json!({})));
        assert_eq!(stage.pod("x-worker-0")["spec"]["restartPolicy"], expected);
        assert!(!stage.has_event(warning));
    }
    let spec = json!({"pytorchReplicaSpecs": {"Worker": {"restartPolicy": null, "template": {"spec": {"restartPolicy": "Never"}}}}});
    let stage = settled(Stage::torch(1, "Never", spec));
    assert_eq!(stage.pod("x-worker-0")["spec"]["restartPolicy"], "OnFailure");
    assert_eq!(stage.world.events.iter().filter(|event| *event == warning).count(), 1);
}

// PT-POD-6, PT-SVC-3
#[test]
fn everything_else_in_a_template_reaches_the_pod() {
    let spec = json!({"volumes": [{"name": "v"}], "tolerations": [{"operator": "Exists"}], "schedulerName": "mine",
        "initContainers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}], "novelty": {"kept": true}});
    let mut stage = with_template(json!({ "spec": spec }));
    stage.settings.gate = Gate::init_container("alpine:3.10", 100);
    let stage = settled(stage);
    let pod = &stage.pod("x-worker-0")["spec"];
    for key in ["volumes", "tolerations", "schedulerName", "novelty"] {
        assert_eq!(pod[key], spec[key], "{key}");
    }
    let names: Vec<_> = pod["initContainers"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["a", "b", "init-pytorch"], "the user's come first");
    assert_eq!((&pod["hostname"], &pod["subdomain"]), (&Value::Null, &Value::Null));
}

// PT-POD-9
#[test]
fn an_edited_template_is_for_later_pods() {
    let mut stage = settled(Stage::torch(1, "Never", json!({})));
    let before = stage.pod("x-worker-0").clone();
    stage.edit(json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}}}));
    stage.settle();
    assert_eq!(*stage.pod("x-worker-0"), before);
    assert_eq!(stage.pod("x-worker-1")["spec"]["nodeSelector"]["a"], "b");
}

// PT-SVC-1, PT-SVC-2, PT-SVC-4
#[test]
fn every_pod_has_a_headless_service_of_its_name() {
    let stage = settled(Stage::torch(2, "Never", json!({})));
    assert_eq!(stage.world.names("Service"), ["x-master-0", "x-worker-0", "x-worker-1"]);
    let service = stage.world.raw("Service", "x-worker-1");
    let labels = json!({
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "x",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
    });
    assert_eq!((&service["metadata"]["labels"], &service["spec"]["selector"]), (&labels, &labels));
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], Value::Null);
    assert_eq!(service["spec"]["ports"], json!([{"name": "pytorchjob-port", "port": 23456, "protocol": "TCP"}]));
}

// PT-SVC-2a, PT-DEC-19
#[test]
fn unnamed_ports_get_names() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}, {"containerPort": 80, "name": "again"}]);
    let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i", "ports": ports}]}});
    let stage = settled(with_template(template.clone()));
    let expected = json!([
        {"name": "port-80", "port": 80, "protocol": "TCP"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "pytorchjob-port", "port": 23456, "protocol": "TCP"},
    ]);
    assert_eq!(stage.world.raw("Service", "x-worker-0")["spec"]["ports"], expected);
    let strict = settled(with_template(template).strict());
    assert_eq!(strict.world.raw("Service", "x-worker-0")["spec"]["ports"][0], json!({"name": "", "port": 80}));
}

// PT-SVC-5
#[test]
fn a_deleted_service_is_made_again_while_the_job_lives() {
    let mut stage = settled(Stage::torch(1, "Never", json!({})));
    stage.world.delete("Service", "x-worker-0");
    stage.settle();
    assert_eq!(stage.world.names("Service").len(), 2);
    stage.run_all();
    stage.end("x-master-0", 0);
    stage.world.delete("Service", "x-worker-0");
    stage.settle();
    assert_eq!(stage.world.names("Service"), ["x-master-0"]);
}

// PT-GATE-1, PT-GATE-2
#[test]
fn the_references_gate_is_an_init_container_of_workers() {
    let mut stage = Stage::torch(1, "Never", json!({}));
    stage.settings.gate = Gate::init_container("busybox:1", 7);
    let stage = settled(stage);
    let gate = &stage.pod("x-worker-0")["spec"]["initContainers"][0];
    assert_eq!(
        (&gate["name"], &gate["image"], &gate["imagePullPolicy"]),
        (&json!("init-pytorch"), &json!("busybox:1"), &json!("IfNotPresent"))
    );
    assert_eq!(
        gate["resources"],
        json!({"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}})
    );
    let script = gate["command"][2].as_str().unwrap();
    assert!(
        script.contains("nslookup x-master-0;") && script.contains("seq 7") && script.contains("sleep 2"),
        "{script}"
    );
    assert_eq!(stage.pod("x-master-0")["spec"]["initContainers"], Value::Null);
    let mut alone = Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({}));
    alone.settings.gate = Gate::init_container("busybox:1", 7);
    assert_eq!(settled(alone).pod("x-worker-1")["spec"]["initContainers"], Value::Null);
    let strict = settled(Stage::torch(1, "Never", json!({})).strict());
    assert_eq!(strict.pod("x-worker-0")["spec"]["initContainers"][0]["image"], "alpine:3.10");
}

// PT-GATE-3, PT-DEC-15
#[test]
fn our_gate_holds_workers_without_an_image_until_the_master_runs() {
    let mut stage = Stage::torch(
        1,
        "Never",
        json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"schedulingGates": [{"name": "theirs"}]}}}}}),
    );
    stage.settle();
    let gates = |stage: &Stage, pod: &str| stage.pod(pod)["spec"]["schedulingGates"].clone();
    assert_eq!(gates(&stage, "x-worker-0"), json!([{"name": "theirs"}, {"name": "volley.dev/master-running"}]));
    assert_eq!(gates(&stage, "x-master-0"), Value::Null);
    assert_eq!(stage.pod("x-worker-0")["spec"]["initContainers"], Value::Null);
    stage.after(100_000);
    assert_eq!(gates(&stage, "x-worker-0").as_array().unwrap().len(), 2, "it has no time limit of its own");
    stage.world.run_pod("x-master-0");
    let plan = stage.plan();
    let version = stage.pod("x-worker-0")["metadata"]["resourceVersion"].clone();
    assert!(plan.actions.iter().any(
        |action| matches!(action, Action::Patch { patch, .. } if patch["metadata"]["resourceVersion"] == version)
    ));
    stage.settle();
    assert_eq!(gates(&stage, "x-worker-0"), json!([{"name": "theirs"}]));
    // A gang is placed as a whole, so none of it may be held.
    let mut gang = Stage::torch(1, "Never", json!({}));
    gang.settings = Settings { gang: Some(Gang::Plugins("co".into())), ..Settings::default() };
    assert_eq!(gates(&settled(gang), "x-worker-0"), Value::Null);
}

// PT-GATE-3, PT-DEC-15
#[test]
fn a_master_that_ends_unseen_holds_nobody() {
    let gates = |stage: &Stage| stage.pod("x-worker-0")["spec"]["schedulingGates"].clone();
    for (policy, code) in [("Never", 0), ("Never", 1), ("ExitCode", 1), ("ExitCode", 137)] {
        let mut stage = settled(Stage::torch(1, policy, json!({"runPolicy": {"cleanPodPolicy": "None"}})));
        assert_eq!(gates(&stage).as_array().unwrap().len(), 1);
        stage.world.run_pod("x-master-0");
        stage.end("x-master-0", code);
        assert_eq!(gates(&stage), json!([]), "{policy} {code}");
    }
}

// PT-ADM-14, PT-DEC-7
#[test]
fn a_name_that_starts_with_a_digit_runs_where_services_may_have_it() {
    let mut stage = Stage::torch(1, "Never", json!({}));
    let key = ("PyTorchJob".to_owned(), "x".to_owned());
    let mut job = stage.world.objects.remove(&key).unwrap();
    job["metadata"]["name"] = json!("7x");
    stage.world.add(job);
    let named = |settings: &Settings, stage: &Stage| {
        stage.seen_by(|seen| super::plan(stage.row, seen, settings, stage.world.now()))
    };
    assert_eq!(named(&Settings::default(), &stage).events[0].reason, "PyTorchJobFailedValidation");
    let lenient = Settings { accepts_digit_names: true, ..Settings::default() };
    assert!(named(&lenient, &stage).events.is_empty());
}
