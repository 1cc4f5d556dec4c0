//! The variables of a PyTorchJob's pods, with the worked examples of the spec.

use super::stage::Stage;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn settled(mut stage: Stage) -> Stage {
    stage.settle();
    stage
}

fn check(stage: &Stage, pod: &str, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    assert_eq!(stage.environment(pod), expected, "{pod}");
}

/// Worked example A.
// PT-ENV-1, PT-ENV-4, PT-RDZV-3, PT-RDZV-5, PT-DEC-1
#[test]
fn example_a_every_rank_has_its_address_book() {
    let stage = settled(Stage::torch(2, "Never", json!({})));
    for (pod, rank) in [("x-master-0", "0"), ("x-worker-0", "1"), ("x-worker-1", "2")] {
        let expected = [
            ("PYTHONUNBUFFERED", "1"),
            ("MASTER_ADDR", "x-master-0"),
            ("PET_MASTER_ADDR", "x-master-0"),
            ("MASTER_PORT", "23456"),
            ("PET_MASTER_PORT", "23456"),
            ("WORLD_SIZE", "3"),
            ("RANK", rank),
            ("PET_NODE_RANK", rank),
            ("PET_NPROC_PER_NODE", "auto"),
            ("PET_NNODES", "3"),
            ("PET_RDZV_BACKEND", "static"),
            ("PET_RDZV_ENDPOINT", "x-master-0:23456"),
            ("PET_RDZV_ID", "u"),
        ];
        check(&stage, pod, &expected);
    }
    let strict = settled(Stage::torch(2, "Never", json!({})).strict());
    assert_eq!(strict.environment("x-worker-1").keys().filter(|name| name.contains("RDZV")).count(), 0);
}

/// The command line of seed 004, which the shell of the container fills in.
// PT-RDZV-3, PT-RDZV-5
#[test]
fn every_variable_of_the_tutorials_command_line_has_a_value() {
    let line = "mkdir -p /tmp/logs && torchrun --nnodes ${PET_NNODES} --nproc_per_node ${PET_NPROC_PER_NODE} \
        --rdzv_id ${PET_RDZV_ID} --rdzv_backend ${PET_RDZV_BACKEND} --rdzv_endpoint ${PET_RDZV_ENDPOINT} train.py";
    let container = json!({"name": "pytorch", "image": "i", "command": ["/bin/sh", "-c"], "args": [line]});
    let replica = json!({"template": {"spec": {"containers": [container]}}});
    let specs = json!({"Master": replica, "Worker": replica});
    for elastic in [Value::Null, json!({}), json!({"minReplicas": 1})] {
        let spec = json!({"pytorchReplicaSpecs": specs, "elasticPolicy": elastic});
        let stage = settled(Stage::torch(2, "OnFailure", spec));
        for pod in stage.pods() {
            assert_eq!(stage.pod(&pod)["spec"]["containers"][0]["args"], json!([line]), "it is not rewritten");
            let variables = stage.environment(&pod);
            let names = line.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
            names.for_each(|name| assert!(!variables[name].is_empty(), "{pod} {name} {elastic}"));
        }
    }
}

/// Worked example B.
// PT-ENV-2, PT-ENV-3, PT-ENV-5
#[test]
fn example_b_processes_per_node_multiply_the_world() {
    for (spec, size, processes) in [
        (json!({"nprocPerNode": "4"}), "12", "4"),
        (json!({"nprocPerNode": "gpu"}), "3", "gpu"),
        (json!({"elasticPolicy": {"nProcPerNode": 2}}), "3", "2"),
    ] {
        let stage = settled(Stage::torch(2, "Never", spec.clone()));
        let variables = stage.environment("x-worker-1");
        assert_eq!(
            (&*variables["WORLD_SIZE"], &*variables["PET_NPROC_PER_NODE"], &*variables["RANK"]),
            (size, processes, "2"),
            "{spec}"
        );
    }
}

fn elastic(count: i32, policy: Value) -> Stage {
    let ports = json!([{"name": "pytorchjob-port", "containerPort": 8080}]);
    let template = json!({"spec": {"containers": [{"name": "pytorch", "image": "i", "ports": ports}]}});
    let spec = json!({"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": {"template": template}}});
    settled(Stage::of("PyTorchJob", &[("Worker", count, "Never")], spec))
}

/// Worked example C.
// PT-RDZV-1, PT-RDZV-2, PT-DEC-2
#[test]
fn example_c_an_elastic_job_meets_at_worker_0() {
    let stage = elastic(2, json!({"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3, "rdzvBackend": "c10d"}));
    for pod in ["x-worker-0", "x-worker-1"] {
        let expected = [
            ("PYTHONUNBUFFERED", "1"),
            ("PET_RDZV_ENDPOINT", "x-worker-0:8080"),
            ("PET_RDZV_BACKEND", "c10d"),
            ("PET_RDZV_ID", "u"),
            ("PET_NNODES", "1:3"),
            ("PET_MAX_RESTARTS", "3"),
            ("PET_NPROC_PER_NODE", "auto"),
        ];
        check(&stage, pod, &expected);
        assert_eq!(stage.pod(pod)["spec"]["schedulingGates"], Value::Null);
    }
}

/// Worked example D.
// PT-DEF-5, PT-ENV-7
#[test]
fn example_d_bounds_stand_in_for_each_other() {
    for (policy, nodes) in [
        (json!({}), "4:4"),
        (json!({"minReplicas": 2}), "2:2"),
        (json!({"maxReplicas": 6}), "6:6"),
        (json!({"rdzvConf": []}), "4:4"),
    ] {
        let variables = elastic(4, policy.clone()).environment("x-worker-0");
        assert_eq!(variables["PET_NNODES"], nodes, "{policy}");
        assert_eq!((&*variables["PET_RDZV_ENDPOINT"], &*variables["PET_RDZV_BACKEND"]), ("x-worker-0:8080", "c10d"));
        assert!(!variables.contains_key("PET_RDZV_CONF"));
    }
}

// PT-ENV-6, PT-RDZV-1
#[test]
fn an_elastic_policy_is_spelt_out() {
    let policy = json!({"rdzvBackend": "etcd", "rdzvHost": "e", "rdzvPort": 1, "rdzvId": "i", "standalone": true,
        "rdzvConf": [{"key": "b", "value": "1"}, {"key": "a", "value": "2"}]});
    let variables = elastic(1, policy.clone()).environment("x-worker-0");
    let expected = [
        ("PET_RDZV_ENDPOINT", "e:1"),
        ("PET_RDZV_BACKEND", "etcd"),
        ("PET_RDZV_ID", "i"),
        ("PET_RDZV_CONF", "b=1,a=2"),
        ("PET_STANDALONE", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(variables[name], value, "{name}");
    }
    let strict =
        settled(Stage::of("PyTorchJob", &[("Worker", 1, "Never")], json!({ "elasticPolicy": policy })).strict());
    assert_eq!(strict.environment("x-worker-0")["PET_STANDALONE"], "");
    let anonymous = settled(Stage::of("PyTorchJob", &[("Worker", 1, "Never")], json!({"elasticPolicy": {}})).strict());
    assert!(!anonymous.environment("x-worker-0").contains_key("PET_RDZV_ID"));
}

/// Worked example E.
// PT-ENV-1
#[test]
fn example_e_a_master_alone_is_a_world() {
    let stage = settled(Stage::of("PyTorchJob", &[("Master", 1, "Never")], json!({})));
    let variables = stage.environment("x-master-0");
    assert_eq!((&*variables["WORLD_SIZE"], &*variables["RANK"], &*variables["PET_NNODES"]), ("1", "0", "1"));
    assert_eq!((stage.pods().len(), stage.world.names("Service").len()), (1, 1));
}

// PT-ENV-8, PT-DEC-5
#[test]
fn an_elastic_jobs_master_is_counted_where_the_user_counted_nothing() {
    for (policy, expected, strict) in
        [(json!({}), "3:3", "2:2"), (json!({"minReplicas": 1, "maxReplicas": 4}), "1:4", "1:4")]
    {
        let job = || Stage::torch(2, "Never", json!({ "elasticPolicy": policy }));
        assert_eq!(settled(job()).environment("x-worker-0")["PET_NNODES"], expected);
        assert_eq!(settled(job().strict()).environment("x-worker-0")["PET_NNODES"], strict);
        let master = settled(job()).environment("x-master-0");
        assert_eq!((&*master["MASTER_ADDR"], &*master["PET_RDZV_ENDPOINT"]), ("x-master-0", "x-worker-0:23456"));
    }
}

// PT-ENV-9, PT-RDZV-4, PT-DEC-4
#[test]
fn without_a_master_worker_0_is_one() {
    let job = || Stage::of("PyTorchJob", &[("Worker", 2, "Never")], json!({"nprocPerNode": "2"}));
    let variables = settled(job()).environment("x-worker-1");
    for (name, value) in [
        ("MASTER_ADDR", "x-worker-0"),
        ("MASTER_PORT", "23456"),
        ("WORLD_SIZE", "4"),
        ("RANK", "1"),
        ("PET_NODE_RANK", "1"),
        ("PET_NNODES", "2"),
        ("PET_RDZV_BACKEND", "static"),
        ("PET_RDZV_ENDPOINT", "x-worker-0:23456"),
        ("PET_RDZV_ID", "u"),
    ] {
        assert_eq!(variables[name], value, "{name}");
    }
    let strict = settled(job().strict());
    check(&strict, "x-worker-1", &[("PYTHONUNBUFFERED", "1"), ("PET_NPROC_PER_NODE", "2"), ("PET_NNODES", "2")]);
}

// PT-ENV-0, PT-DEC-3
#[test]
fn a_name_is_written_once_and_what_we_only_offer_yields_to_the_user() {
    let env = json!([{"name": "RANK", "value": "9"}, {"name": "PET_RDZV_BACKEND", "value": "c10d"}, {"name": "MINE", "value": "1"}]);
    let containers = json!([{"name": "pytorch", "image": "i", "env": env}, {"name": "side", "image": "i"}]);
    let template = json!({"spec": {"containers": containers, "initContainers": [{"name": "init", "image": "i"}]}});
    let job = || Stage::torch(1, "Never", json!({"pytorchReplicaSpecs": {"Worker": {"template": template}}}));
    let stage = settled(job());
    let variables = stage.environment("x-worker-0");
    assert_eq!((&*variables["RANK"], &*variables["PET_RDZV_BACKEND"], &*variables["MINE"]), ("1", "c10d", "1"));
    let spec = &stage.pod("x-worker-0")["spec"];
    let count = |container: &Value| container["env"].as_array().unwrap().len();
    assert_eq!((count(&spec["containers"][0]), count(&spec["containers"][1])), (14, 13));
    assert_eq!(spec["initContainers"][0]["env"], Value::Null);
    let strict = settled(job().strict());
    let names: Vec<_> = strict.pod("x-worker-0")["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].clone())
        .collect();
    assert_eq!(names.iter().filter(|name| *name == "RANK").count(), 2, "the reference appends blindly");
}

// PT-SDK-3
#[test]
fn a_job_as_the_sdk_sends_it_has_what_torchrun_without_flags_needs() {
    let annotations = json!({"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}});
    let mut stage = Stage::torch(1, "OnFailure", json!({"runPolicy": {}, "nprocPerNode": "2"}));
    stage.edit(json!({"spec": {"pytorchReplicaSpecs": {"Master": {"template": annotations, "restartPolicy": null}}}}));
    let stage = settled(stage);
    let variables = stage.environment("x-worker-0");
    for name in ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"] {
        assert!(variables.contains_key(name), "{name}");
    }
    assert_eq!(stage.pod("x-master-0")["metadata"]["annotations"]["sidecar.istio.io/inject"], "false");
    assert_eq!(stage.pod("x-master-0")["spec"]["restartPolicy"], "OnFailure");
}

// PT-ENV-10
#[test]
fn the_users_own_torchrun_settings_are_left_alone() {
    let reserved = ["PET_MONITOR_INTERVAL", "PET_START_METHOD"];
    let own = json!([{"name": reserved[0], "value": "7"}]);
    for elastic in [Value::Null, json!({"maxRestarts": 3, "standalone": true, "rdzvId": "r"})] {
        let stage = settled(Stage::torch(1, "Never", json!({ "elasticPolicy": elastic })));
        assert!(reserved.iter().all(|name| !stage.environment("x-worker-0").contains_key(*name)), "{elastic}");
        let container = json!({"name": "pytorch", "image": "i", "env": own});
        let worker = json!({"template": {"spec": {"containers": [container]}}});
        let spec = json!({"elasticPolicy": elastic, "pytorchReplicaSpecs": {"Worker": worker}});
        let stage = settled(Stage::torch(1, "Never", spec));
        assert_eq!(stage.environment("x-worker-0").get(reserved[0]).map(String::as_str), Some("7"), "{elastic}");
    }
}
