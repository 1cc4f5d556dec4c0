//! One job of each family on `volley up` as it is by default, through the death of its process.

use crate::command::eventually;
use crate::world::World;
use serde_json::{Value, json};

const TORCH: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const VOLCANO: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs";

/// The first takes a word from every other and says it; the others tell their rank.
const MEET: &str = r#"
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    door = socket.create_server(("", address[1]))
    heard = []
    while len(heard) < size - 1:
        heard.append(door.accept()[0].makefile().readline().strip())
    print("heard", *sorted(heard), "of", size, flush=True)
else:
    while True:
        try:
            socket.create_connection(address).sendall(b"rank %d\n" % rank)
            break
        except OSError:
            time.sleep(0.05)
"#;

fn template(container: &str) -> Value {
    let container = json!({"name": container, "image": "host", "command": ["python3", "-c", MEET]});
    json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}})
}

#[track_caller]
fn create(world: &World, path: &str, job: &Value) {
    let answer = world.ask("POST", path, Some(job)).unwrap();
    assert_eq!(answer.code, 201, "{}", answer.text());
}

/// Waits until the job is as it should be.
fn until(world: &World, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
    let job = || world.ask("GET", path, None).map(|answer| answer.json()).unwrap_or_default();
    eventually(what, || is_so(&job()).then_some(()));
}

fn is_true(job: &Value, condition: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
}

#[test]
fn workers_of_a_pytorchjob_find_their_master_and_the_job_succeeds() {
    let world = World::start_parts("cluster,operator", &[]);
    let status: Value = serde_json::from_str(&world.volley(&["status", "-o", "json"])).unwrap();
    let part = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "operator");
    assert_eq!(part.unwrap()["health"], "ok");
    let replica = |count: i32| json!({"replicas": count, "restartPolicy": "Never", "template": template("pytorch")});
    let spec = json!({"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)}});
    let job =
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "meet"}, "spec": spec});
    create(&world, TORCH, &job);
    until(&world, &format!("{TORCH}/meet"), "the job succeeds", |job| is_true(job, "Succeeded"));
    assert_eq!(world.logs("meet-master-0"), "heard rank 1 rank 2 of 3\n");
}

#[test]
fn a_volcano_job_outlives_the_death_of_volley() {
    let mut world = World::start_parts("cluster,operator", &[]);
    let task = |name: &str| json!({"name": name, "replicas": 1, "template": template("main")});
    let mut master = task("master");
    master["policies"] = json!([{"event": "TaskCompleted", "action": "CompleteJob"}]);
    let spec = json!({"minAvailable": 2, "schedulerName": "volcano", "plugins": {"pytorch": []}, "tasks": [master, task("worker")]});
    let job =
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": spec});
    create(&world, VOLCANO, &job);
    let path = format!("{VOLCANO}/v");
    until(&world, &path, "the job is seen", |job| job["status"]["state"]["phase"].is_string());
    world.kill();
    world.up();
    until(&world, &path, "the job completes", |job| job["status"]["state"]["phase"] == "Completed");
    assert_eq!(world.logs("v-master-0"), "heard rank 1 of 2\n");
}
