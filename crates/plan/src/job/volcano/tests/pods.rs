//! Pods, volumes and dependencies between tasks.

use super::world::{Cluster, task};
use super::{gang, with};
use serde_json::{Value, json};

// POD-1, POD-2, POD-3, POD-4, KEY-1
#[test]
fn a_pod_carries_its_place_in_the_job() {
    let mut spec = with(json!({"priorityClassName": "high", "queue": "q", "schedulerName": "s"}));
    spec["tasks"][1]["template"]["metadata"] = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    spec["tasks"][1]["template"]["spec"]["novel"] = json!({"kept": true});
    spec["tasks"][1]["topologyPolicy"] = json!("none");
    let mut cluster = Cluster::new(spec);
    let marks = json!({
        "labels": {"volcano.sh/preemptable": "true", "mine": "x"},
        "annotations": {"volcano.sh/cooldown-time": "5m", "volcano.sh/jdb-max-unavailable": "1", "volcano.sh/jdb-min-available": "2"},
    });
    cluster.world.edit("Job", "j", json!({"metadata": marks}));
    cluster.start();
    let pod = cluster.pod("j-worker-1");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "a": "b", "volcano.sh/job-name": "j", "volcano.sh/job-namespace": "d", "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": "1", "volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true",
        })
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({
            "c": "d", "volcano.sh/job-name": "j", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1",
            "volcano.sh/queue-name": "q", "volcano.sh/job-version": "0", "volcano.sh/job-retry-count": "0",
            "volcano.sh/template-uid": "j-worker", "scheduling.k8s.io/group-name": "j-u",
            "volcano.sh/numa-topology-policy": "none", "volcano.sh/cooldown-time": "5m", "volcano.sh/jdb-min-available": "2",
        })
    );
    let owner = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(pod["metadata"]["ownerReferences"], owner);
    assert_eq!((&pod["spec"]["schedulerName"], &pod["spec"]["priorityClassName"]), (&json!("s"), &json!("high")));
    assert_eq!(pod["spec"]["novel"], json!({"kept": true}), "fields that we do not know are kept");
}

// POD-2
#[test]
fn a_partitioned_task_numbers_its_parts() {
    let mut spec = json!({"tasks": [task("w", 4)]});
    spec["tasks"][0]["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 2});
    let cluster = Cluster::running(spec);
    let part =
        |index: i32| cluster.pod(&format!("j-w-{index}"))["metadata"]["labels"]["volcano.sh/partition-id"].clone();
    assert_eq!([0, 1, 2, 3].map(part), ["0", "0", "1", "1"]);
}

// POD-4
#[test]
fn what_the_template_says_stands() {
    let mut spec = gang();
    spec["tasks"][0]["template"]["spec"]["schedulerName"] = json!("own");
    spec["tasks"][0]["template"]["spec"]["priorityClassName"] = json!("low");
    spec["priorityClassName"] = json!("high");
    let cluster = Cluster::running(spec);
    assert_eq!(cluster.pod("j-master-0")["spec"]["schedulerName"], "own");
    assert_eq!(cluster.pod("j-master-0")["spec"]["priorityClassName"], "low");
    assert_eq!(cluster.pod("j-worker-0")["spec"]["schedulerName"], "volcano");
}

// POD-5, VOL-1, VOL-3
#[test]
fn a_claim_is_made_once_named_in_the_spec_and_mounted_everywhere() {
    let volumes = json!([
        {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        {"mountPath": "/a", "volumeClaimName": "mine"}, {"mountPath": "/b", "volumeClaimName": "mine"},
    ]);
    let mut spec = with(json!({"volumes": volumes}));
    spec["tasks"][0]["template"]["spec"]["initContainers"] = json!([{"name": "i", "image": "i"}]);
    let mut cluster = Cluster::new(spec.clone());
    cluster.world.add(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}}));
    cluster.start();
    let name = cluster.job()["spec"]["volumes"][0]["volumeClaimName"].as_str().unwrap().to_owned();
    let suffix = name.strip_prefix("j-pvc-").unwrap();
    assert!(suffix.len() == 12 && suffix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    assert_eq!(cluster.world.names("PersistentVolumeClaim"), [&*name, "mine"]);
    assert_eq!(cluster.world.raw("PersistentVolumeClaim", &name)["metadata"]["ownerReferences"][0]["uid"], "u");
    let resources = &cluster.status()["controlledResources"];
    assert_eq!(
        (&resources[format!("volume-pvc-{name}")], &resources["volume-pvc-mine"]),
        (&json!(name), &json!("mine"))
    );
    let mounts = |pod: &Value, list: &str| -> Vec<String> {
        let mounts = pod["spec"][list][0]["volumeMounts"].as_array().cloned().unwrap_or_default();
        mounts.iter().map(|mount| mount["mountPath"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(mounts(cluster.pod("j-master-0"), "containers"), ["/data", "/a"]);
    assert_eq!(mounts(cluster.pod("j-master-0"), "initContainers"), ["/data", "/a"]);
    let mut strict = Cluster::strict(spec);
    strict.world.add(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}}));
    strict.start();
    assert_eq!(mounts(strict.pod("j-master-0"), "initContainers"), Vec::<String>::new());
}

// VOL-2
#[test]
fn a_claim_of_the_users_is_waited_for() {
    let mut cluster = Cluster::new(with(json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "mine"}]})));
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.world.names("PodGroup").len()), ("Pending", 0));
    assert_eq!(cluster.events("PVCError"), ["Failed to create PVC, err: persistentvolumeclaim \"mine\" not found"]);
    cluster.world.add(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}}));
    cluster.start();
    assert_eq!(cluster.phase(), "Running");
}

// POD-8
#[test]
fn pods_that_are_marked_out_of_sync_go() {
    let mut cluster = Cluster::running(with(json!({"policies": [{"event": "PodEvicted", "action": "AbortJob"}]})));
    cluster.world.edit(
        "Pod",
        "j-worker-0",
        json!({"metadata": {"annotations": {"volcano.sh/controller-out-of-sync": "true"}}}),
    );
    cluster.go_on();
    assert_eq!((cluster.phase(), cluster.pods().len()), ("Running", 3));
    assert_eq!(cluster.pod("j-worker-0")["metadata"]["annotations"].get("volcano.sh/controller-out-of-sync"), None);
}

// POD-10
#[test]
fn somebody_elses_pod_is_left_alone() {
    let mut cluster = Cluster::new(gang());
    cluster.settle();
    cluster.world.add(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j-worker-0"}, "spec": {"containers": []}}),
    );
    cluster.admit();
    cluster.settle();
    assert_eq!(cluster.events("FailedCreate"), ["pod j-worker-0 exists and is not controlled by this job"]);
    assert_eq!(cluster.count("pending"), 2);
    cluster.evict("j-worker-0");
    cluster.settle();
    assert_eq!(cluster.count("pending"), 3);
}

fn depends(iteration: &str) -> Value {
    let mut spec = json!({"tasks": [task("a", 2), task("b", 1), task("c", 1)]});
    spec["tasks"][2]["dependsOn"] = json!({"name": ["a", "b"], "iteration": iteration});
    spec
}

// DEP-1, DEP-2, DEP-3, DEP-4
#[test]
fn a_task_starts_when_those_it_waits_for_are_ready() {
    let check = |iteration: &str, min: Value, ready: &[&str], expected: bool| {
        let mut spec = depends(iteration);
        spec["tasks"][0]["minAvailable"] = min;
        let mut cluster = Cluster::new(spec);
        cluster.settle();
        cluster.admit();
        cluster.settle();
        assert_eq!(cluster.pods(), ["j-a-0", "j-a-1", "j-b-0"]);
        assert_eq!(cluster.count("pending"), 3);
        ready.iter().for_each(|name| cluster.world.run_pod(name));
        cluster.settle();
        assert_eq!(cluster.pods().contains(&"j-c-0".to_owned()), expected, "{iteration} {ready:?}");
    };
    check("", Value::Null, &["j-a-0", "j-b-0"], false);
    check("", json!(1), &["j-a-0", "j-b-0"], true);
    check("all", Value::Null, &["j-a-0", "j-a-1", "j-b-0"], true);
    check("any", Value::Null, &["j-b-0"], true);
    check("any", Value::Null, &["j-a-0"], false);
}

// DEP-2
#[test]
fn a_running_pod_whose_containers_are_not_ready_is_not_enough() {
    let mut cluster = Cluster::new(depends("any"));
    cluster.settle();
    cluster.admit();
    cluster.settle();
    let container = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0});
    cluster.world.run_pod("j-b-0");
    cluster.world.edit("Pod", "j-b-0", json!({"status": {"containerStatuses": [container]}}));
    cluster.settle();
    assert_eq!(cluster.pods().len(), 3);
    cluster.end("j-b-0", 0);
    cluster.settle();
    assert_eq!(cluster.pods().len(), 4);
}

// DEP-4
#[test]
fn a_job_fails_when_a_task_waits_for_one_that_has_failed() {
    let run = |mut cluster: Cluster| {
        cluster.settle();
        cluster.admit();
        cluster.settle();
        for (pod, code) in [("j-a-0", 0), ("j-a-1", 0), ("j-b-0", 1)] {
            cluster.world.run_pod(pod);
            cluster.end(pod, code);
        }
        cluster.settle();
        (cluster.phase().to_owned(), cluster.status()["state"]["message"].as_str().unwrap_or("").to_owned())
    };
    let (phase, message) = run(Cluster::new(depends("all")));
    assert_eq!((&*phase, &*message), ("Failed", "2 pods succeeded, 1 failed, of 4; what c waits for has failed"));
    assert_eq!(run(Cluster::strict(depends("all"))).0, "Pending", "upstream waits for ever");
    let mut retried = depends("all");
    retried["policies"] = json!([{"event": "PodFailed", "action": "RestartJob", "timeout": "60s"}]);
    assert_eq!(run(Cluster::new(retried)).0, "Pending", "it is tried again in a minute");
}

// DEP-5
#[test]
fn a_gang_does_not_wait_for_tasks_that_wait_for_it() {
    let mut cluster = Cluster::new(depends("all"));
    cluster.settle();
    let group = |cluster: &Cluster| cluster.world.raw("PodGroup", "j-u")["spec"].clone();
    assert_eq!(
        (&group(&cluster)["minMember"], &group(&cluster)["minTaskMember"]),
        (&json!(3), &json!({"a": 2, "b": 1}))
    );
    assert_eq!(group(&cluster)["minResources"]["pods"], "3");
    cluster.admit();
    cluster.settle();
    cluster.run_all();
    cluster.settle();
    assert_eq!(
        (&group(&cluster)["minMember"], &group(&cluster)["minTaskMember"]),
        (&json!(4), &json!({"a": 2, "b": 1, "c": 1}))
    );
    cluster.run_all();
    cluster.settle();
    assert_eq!(cluster.phase(), "Running");
    let mut strict = Cluster::strict(depends("all"));
    strict.settle();
    assert_eq!(group(&strict)["minMember"], 4);
}
