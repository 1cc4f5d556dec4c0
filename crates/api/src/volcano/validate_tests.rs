//! Cases of what is refused in a new Job, one rule or a few each.

use super::*;
use crate::volcano::defaults;
use crate::volcano::queue::takes_jobs;

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "busybox"}]}})
}

fn task(name: &str, replicas: i32) -> Value {
    json!({"name": name, "replicas": replicas, "template": template()})
}

/// A spec with one fine task, and these fields.
fn with(fields: Value) -> Value {
    let mut spec = json!({"tasks": [task("a", 2)]});
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

#[track_caller]
fn check_named(name: &str, spec: Value, expected: &[&str]) {
    let mut job = json!({"metadata": {"name": name}, "spec": spec});
    defaults::job(&mut job, "volcano");
    let texts: Vec<String> = job_create(&job).iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    for (text, part) in texts.iter().zip(expected) {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}

#[track_caller]
fn check(spec: Value, expected: &[&str]) {
    check_named("j", spec, expected);
}

#[test]
fn a_plain_job_is_fine() {
    check(with(json!({})), &[]);
    check(with(json!({"plugins": {"svc": null, "pytorch": ["--port=1"]}})), &[]);
}

// ADM-10
#[test]
fn a_job_has_tasks() {
    check(json!({}), &["spec.tasks: Required value: No task specified in job spec"]);
}

// ADM-11
#[test]
fn numbers_are_not_negative_and_no_gang_is_larger_than_its_job() {
    check(
        with(json!({"minAvailable": -1})),
        &["spec.minAvailable: Invalid value: -1: job 'minAvailable' must be >= 0."],
    );
    check(with(json!({"maxRetry": -1})), &["'maxRetry' cannot be less than zero."]);
    check(with(json!({"ttlSecondsAfterFinished": -1})), &["'ttlSecondsAfterFinished' cannot be less than zero."]);
    check(with(json!({"minSuccess": 0})), &["spec.minSuccess"]);
    check(with(json!({"minAvailable": 3})), &["job 'minAvailable' should not be greater than total replicas in tasks"]);
    let negative = json!({"tasks": [task("a", -1), task("b", 2)], "minAvailable": 1});
    check(
        negative,
        &["spec.tasks[0].replicas: Invalid value: -1: 'replicas' < 0 in task: a", "'minAvailable' < 0 in task: a"],
    );
    let mut greedy = task("a", 1);
    greedy["minAvailable"] = json!(2);
    check(
        json!({"tasks": [greedy], "minAvailable": 1}),
        &["spec.tasks[0].minAvailable: Invalid value: 2: 'minAvailable' is greater than 'replicas' in task: a"],
    );
}

// ADM-11
#[test]
fn names_must_make_names_of_pods() {
    let twice = json!({"tasks": [task("a", 1), task("a", 1)]});
    check(twice, &["spec.tasks[1].name: Invalid value: \"a\": duplicated task name a"]);
    check(json!({"tasks": [task("A_b", 1)]}), &["spec.tasks[0].name"]);
    check_named("J_", with(json!({})), &["create job with name J_ validate failed"]);
    // The largest index counts, not the task's position.
    let long = "j".repeat(60);
    check_named(&long, json!({"tasks": [task("a", 1)]}), &[&format!("{long}-a-0 validate failed")]);
    check_named(&"j".repeat(59), json!({"tasks": [task("a", 10)]}), &[]);
    check_named(&"j".repeat(59), json!({"tasks": [task("a", 11)]}), &["-a-10 validate failed"]);
    // With `svc` the name becomes a Service's.
    check_named("j.k", with(json!({})), &[]);
    check_named("j.k", with(json!({"plugins": {"svc": []}})), &["metadata.name"]);
}

// ADM-18, ADM-19
#[test]
fn plugins_are_known_and_mpi_has_its_master() {
    check(with(json!({"plugins": {"novel": []}})), &["unable to find job plugin: novel"]);
    check(with(json!({"plugins": {"mpi": ["--master=boss"]}})), &["The specified mpi master task was not found"]);
    check(json!({"tasks": [task("boss", 1)], "plugins": {"mpi": ["--master=boss"]}}), &[]);
    let tasks = json!([task("boss", 1), task("worker", 1)]);
    check(json!({"tasks": tasks, "plugins": {"mpi": ["--master=boss"]}}), &[]);
}

// ADM-20, ADM-21, ADM-22, ADM-23
#[test]
fn volumes_are_mounted_once_and_have_one_source() {
    let volumes = |list: Value, expected: &[&str]| check(with(json!({"volumes": list})), expected);
    volumes(json!([{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaim": {}}]), &[]);
    volumes(json!([{"volumeClaimName": "x"}]), &["spec.volumes[0].mountPath: Required value: mountPath is required"]);
    volumes(
        json!([{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}]),
        &["spec.volumes[1].mountPath: Invalid value: \"/a\": duplicated mountPath: /a"],
    );
    volumes(json!([{"mountPath": "/a:b", "volumeClaimName": "x"}]), &["must not contain ':'"]);
    volumes(json!([{"mountPath": "/a"}]), &["either VolumeClaim or VolumeClaimName must be specified"]);
    volumes(json!([{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {}}]), &["conflict: If you want"]);
    volumes(json!([{"mountPath": "/a", "volumeClaimName": "X!"}]), &["invalid VolumeClaimName X! :"]);
}

// ADM-24
#[test]
fn templates_are_checked_as_pods_are() {
    let broken = |container: Value| {
        let mut bad = task("a", 1);
        bad["template"]["spec"]["containers"][0] = container;
        json!({"tasks": [bad]})
    };
    check(
        broken(json!({"name": "c", "image": "i", "imagePullPolicy": "Often"})),
        &["spec.tasks[0].template.spec.containers[0].imagePullPolicy: Unsupported value"],
    );
    check(
        broken(json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}})),
        &["spec.tasks[0].template.spec.containers[0].resources.requests"],
    );
    check(broken(json!({"name": "c"})), &["containers[0].image: Required value"]);
    check(
        broken(
            json!({"name": "c", "image": "i", "securityContext": {"privileged": true, "allowPrivilegeEscalation": false}}),
        ),
        &["cannot set `allowPrivilegeEscalation` to false and `privileged` to true"],
    );
    check(
        json!({"tasks": [{"name": "a", "replicas": 1, "template": {"spec": {"containers": 3}}}]}),
        &["spec.tasks[0].template"],
    );
}

// ADM-25
#[test]
fn a_queue_is_open_and_a_leaf() {
    let queue = |name: &str, state: &str, parent: &str| json!({"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}});
    let queues = [
        queue("root", "Open", ""),
        queue("default", "Open", ""),
        queue("old", "Closed", ""),
        queue("team", "Open", ""),
        queue("sub", "Open", "team"),
    ];
    let said = |name: &str| takes_jobs(name, &queues).err().map_or(String::new(), |error| error.to_string());
    assert_eq!(said("default"), "");
    assert_eq!(said("sub"), "");
    assert!(said("none").contains("unable to find job queue: queues.scheduling.volcano.sh \"none\" not found"));
    assert!(said("old").contains("can only submit job to queue with state `Open`, queue `old` status is `Closed`"));
    assert!(said("root").contains("root queue"));
    assert!(said("team").contains("leaf queue"));
}

// ADM-26
#[test]
fn dependencies_name_tasks_and_do_not_run_in_circles() {
    let depends = |pairs: &[(&str, &[&str])]| {
        let tasks: Vec<Value> = pairs
            .iter()
            .map(|(name, others)| {
                let mut task = task(name, 1);
                task["dependsOn"] = json!({"name": others});
                task
            })
            .collect();
        json!({ "tasks": tasks })
    };
    check(depends(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]), &[]);
    check(
        depends(&[("a", &["x"])]),
        &["spec.tasks[0].dependsOn.name: Invalid value: \"x\": there is no such task: job has"],
    );
    check(depends(&[("a", &["b"]), ("b", &["a"])]), &["doesn't form a directed acyclic graph(DAG)"]);
    check(depends(&[("a", &["a"])]), &["directed acyclic graph(DAG)"]);
}

// ADM-27
#[test]
fn pinned_tasks_ask_for_whole_cpus() {
    let pinned = |policy: &str, cpu: Value| {
        let mut task = task("a", 1);
        task["topologyPolicy"] = json!(policy);
        task["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": cpu}});
        json!({"tasks": [task]})
    };
    check(pinned("single-numa-node", json!("2")), &[]);
    check(pinned("none", json!("500m")), &[]);
    check(pinned("restricted", json!("1500m")), &["the cpu request isn't an integer"]);
    check(pinned("often", json!(1)), &["spec.tasks[0].topologyPolicy: Unsupported value: \"often\""]);
}

// ADM-28
#[test]
fn partitions_fill_the_task() {
    let parted = |replicas: i32, min: Value, policy: Value| {
        let mut task = task("a", replicas);
        task["partitionPolicy"] = policy;
        task["minAvailable"] = min;
        json!({"tasks": [task], "minAvailable": 1})
    };
    check(parted(4, Value::Null, json!({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1})), &[]);
    check(parted(4, json!(2), json!({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1})), &[]);
    check(
        parted(5, json!(2), json!({"totalPartitions": 2, "partitionSize": 2})),
        &["'Replicas' are not equal to TotalPartitions*PartitionSize in task: a"],
    );
    check(
        parted(4, json!(3), json!({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1})),
        &["'MinAvailable' is not equal to MinPartitions*PartitionSize in task: a"],
    );
    check(
        parted(0, json!(0), json!({"totalPartitions": 0, "partitionSize": 0}))["tasks"]
            .clone()
            .as_array()
            .map(|tasks| json!({"tasks": [tasks[0], task("b", 1)]}))
            .unwrap(),
        &["totalPartitions", "partitionSize"],
    );
}

// ADM-29
#[test]
fn a_tier_is_named_one_way() {
    check(with(json!({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}})), &[]);
    check(
        with(json!({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}})),
        &["spec.networkTopology.highestTierName"],
    );
    check(
        with(json!({"networkTopology": {"mode": "loose", "highestTierAllowed": -1}})),
        &["highestTierAllowed", "networkTopology.mode"],
    );
}
