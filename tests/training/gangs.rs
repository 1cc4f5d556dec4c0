//! Gangs of real pods on pretended GPUs: a job waits whole with its reason, starts by itself, and gives way to a more important one.

use crate::command::eventually;
use crate::world::World;
use serde_json::{Value, json};

const GPU: &str = "nvidia.com/gpu";

fn vcjob(name: &str, pods: u32, gpus: u32, script: &str) -> Value {
    let resources = json!({"limits": {GPU: gpus}, "requests": {"cpu": "1m"}});
    let container = json!({"name": "c", "image": "host", "command": ["sh", "-c", script], "resources": resources});
    let spec = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]});
    let task = json!({"name": "w", "replicas": pods, "template": {"spec": spec}});
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"minAvailable": pods, "schedulerName": "volcano", "tasks": [task]}})
}

fn phase(world: &World, name: &str) -> String {
    world.run(&["get", "vcjob", name, "-o", "jsonpath={.status.state.phase}"]).stdout
}

fn until_phase(world: &World, name: &str, wanted: &str) {
    eventually(&format!("{name} is {wanted}"), || (phase(world, name) == wanted).then_some(()));
}

/// What the groups say of why they wait.
fn reasons(world: &World) -> String {
    let path = "jsonpath={.items[*].status.conditions[?(@.status==\"True\")].message}";
    world.run(&["get", "podgroups", "-o", path]).stdout
}

// GANG-6, UI-10
#[test]
fn a_job_that_does_not_fit_waits_whole_and_starts_by_itself_when_room_appears() {
    let world = World::start_parts("cluster,operator", &["--fake-gpus", "4"]);
    world.apply(&vcjob("holder", 3, 1, "sleep 1000").to_string());
    until_phase(&world, "holder", "Running");
    world.apply(&vcjob("waits", 2, 2, "echo started").to_string());
    let told = eventually("the reason", || Some(reasons(&world)).filter(|told| told.contains("together")));
    assert!(told.contains("needs 4 nvidia.com/gpu together, 1 free"), "{told}");
    let pods =
        world.kubectl(&["get", "pods", "-l", "volcano.sh/job-name=waits", "-o", "jsonpath={.items[*].spec.nodeName}"]);
    assert_eq!(pods, "", "nothing of it is placed");
    world.kubectl(&["delete", "vcjob", "holder"]);
    until_phase(&world, "waits", "Completed");
    assert_eq!(world.kubectl(&["logs", "waits-w-1"]), "started\n");
}

// PT-GNG-1 PT-GNG-4
#[test]
fn of_two_pytorchjobs_that_do_not_fit_together_one_waits_whole() {
    let world = World::start_parts("cluster,operator", &["--fake-gpus", "4"]);
    let job = |name: &str, script: &str| {
        let container = json!({"name": "pytorch", "image": "host", "command": ["sh", "-c", script],
            "resources": {"limits": {GPU: 1}}});
        let template = json!({"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}});
        let replica = |count: u32| json!({"replicas": count, "restartPolicy": "Never", "template": template});
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name},
            "spec": {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)}}})
    };
    let nodes = |job: &str| {
        let label = format!("training.kubeflow.org/job-name={job}");
        world.run(&["get", "pods", "-l", &label, "-o", "jsonpath={.items[*].spec.nodeName}"]).stdout
    };
    world.apply(&job("first", "sleep 1000").to_string());
    eventually("all ranks of the first run", || (nodes("first").split(' ').count() == 3).then_some(()));
    world.apply(&job("second", "true").to_string());
    let told = eventually("the reason", || Some(reasons(&world)).filter(|told| told.contains("together")));
    assert!(told.contains("needs 3 nvidia.com/gpu together, 1 free"), "{told}");
    assert_eq!(nodes("second"), "", "its master does not hold what it cannot use");
    world.kubectl(&["delete", "pytorchjob", "first"]);
    world.kubectl(&["wait", "--for=condition=Succeeded", "pytorchjob/second", "--timeout=60s"]);
}

#[test]
fn a_gang_gets_the_local_volumes_that_were_made_for_its_claims() {
    let world = World::start_parts("cluster,operator", &[]);
    let node = world.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]);
    let folder = tempfile::tempdir().unwrap();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    world.apply(&class.to_string());
    let volume = |name: &str, size: &str| {
        let on = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let spec = json!({"storageClassName": "disks", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": folder.path()},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}}});
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    };
    world.apply(&volume("small", "1Gi").to_string());
    world.apply(&volume("large", "10Gi").to_string());
    let mut job = vcjob("g", 2, 0, "echo $HOSTNAME > /data/$HOSTNAME");
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = json!({});
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}]);
    job["spec"]["tasks"][0]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.apply(&job.to_string());
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}}}});
    world.apply(&claim.to_string());
    until_phase(&world, "g", "Completed");
    assert_eq!(world.kubectl(&["get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}"]), "large");
    let mut wrote: Vec<_> =
        folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    wrote.sort();
    assert_eq!(wrote, ["g-w-0", "g-w-1"]);
}

// ACT-6
#[test]
fn a_more_important_job_takes_the_place_of_another_which_starts_again_after_it() {
    let world = World::start_parts("cluster,operator", &["--fake-gpus", "2"]);
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000});
    world.apply(&class.to_string());
    let mut low = vcjob("low", 2, 1, "sleep 1000");
    low["spec"]["policies"] = json!([{"event": "PodEvicted", "action": "RestartJob"}]);
    world.apply(&low.to_string());
    until_phase(&world, "low", "Running");
    let mut high = vcjob("high", 2, 1, "echo important");
    high["spec"]["priorityClassName"] = json!("high");
    world.apply(&high.to_string());
    until_phase(&world, "high", "Completed");
    let retries =
        || world.run(&["get", "vcjob", "low", "-o", "jsonpath={.status.retryCount} {.status.running}"]).stdout;
    eventually("the other runs again", || (retries() == "1 2").then_some(()));
}

#[test]
fn a_gang_waits_for_a_cordoned_node_to_come_back() {
    let world = World::start_parts("cluster,operator", &["--fake-gpus", "2"]);
    let node = world.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]);
    world.kubectl(&["cordon", &node]);
    world.apply(&vcjob("g", 2, 1, "true").to_string());
    eventually("the reason", || reasons(&world).contains("unschedulable").then_some(()));
    world.kubectl(&["uncordon", &node]);
    until_phase(&world, "g", "Completed");
}
