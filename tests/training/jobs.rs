//! One job of each family, as a user meets them.

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

fn is_true(job: &Value, condition: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
}

#[test]
fn workers_of_a_pytorchjob_find_their_master_and_the_job_succeeds() {
    let world = World::start(&[]);
    let status = world.volley(&["status", "-o", "json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    let part = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "operator");
    assert_eq!(part.unwrap()["health"], "ok");
    let replica = |count: i32| json!({"replicas": count, "restartPolicy": "Never", "template": template("pytorch")});
    let replicas = json!({"Master": replica(1), "Worker": replica(2)});
    let job = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "meet"}, "spec": {"pytorchReplicaSpecs": replicas}});
    world.create(TORCH, &job);
    let path = format!("{TORCH}/meet");
    world.until("the job succeeds", || Some(world.get(&path)).filter(|job| is_true(job, "Succeeded")));
    assert_eq!(world.logs("meet-master-0"), "heard rank 1 rank 2 of 3\n");
}

#[test]
fn a_volcano_job_outlives_the_death_of_volley() {
    let mut world = World::start(&[]);
    let task = json!({"name": "t", "replicas": 2, "template": template("main"), "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]});
    let spec = json!({"minAvailable": 2, "schedulerName": "volcano", "queue": "default", "plugins": {"pytorch": ["--master=t", "--worker=t"], "svc": []}, "tasks": [task]});
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": spec});
    world.create(VOLCANO, &job);
    let path = format!("{VOLCANO}/v");
    world.until("the job has a phase", || Some(world.get(&path)).filter(|job| job["status"]["state"]["phase"].is_string()));
    world.kill();
    world.up(&[]);
    world.until("the job completes", || {
        Some(world.get(&path)).filter(|job| job["status"]["state"]["phase"] == "Completed")
    });
}
