//! One job of each family with real pods, through the death of its operator.

use crate::site::Site;
use serde_json::{Value, json};

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

fn template(site: &Site, container: &str) -> Value {
    let container = json!({"name": container, "image": site.image(), "command": ["python3", "-c", MEET]});
    json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}})
}

fn is_true(job: &Value, condition: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|entry| entry["type"] == condition && entry["status"] == "True")
}

#[test]
fn workers_of_a_pytorchjob_find_their_master_and_the_job_succeeds() {
    let site = Site::find();
    if let Site::Own(world) = &site {
        let status: Value = serde_json::from_str(&world.volley(&["status", "-o", "json"])).unwrap();
        let part = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "operator");
        assert_eq!(part.unwrap()["health"], "ok");
    }
    let template = template(&site, "pytorch");
    let replica = |count: i32| json!({"replicas": count, "restartPolicy": "Never", "template": template});
    let spec = json!({"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)}});
    site.create(
        &json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "meet"}, "spec": spec}),
    );
    site.until("pytorchjob/meet", "the job succeeds", |job| is_true(job, "Succeeded"));
    assert_eq!(site.kubectl(&["logs", "meet-master-0"], ""), "heard rank 1 rank 2 of 3\n");
}

#[test]
fn a_volcano_job_outlives_the_death_of_volley() {
    let mut site = Site::find();
    let template = template(&site, "main");
    let task = |name: &str| json!({"name": name, "replicas": 1, "template": template});
    let mut master = task("master");
    master["policies"] = json!([{"event": "TaskCompleted", "action": "CompleteJob"}]);
    let mut spec = json!({"minAvailable": 2, "plugins": {"pytorch": []}, "tasks": [master, task("worker")]});
    spec["schedulerName"] = json!("volcano");
    site.create(
        &json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": spec}),
    );
    site.until("vcjob/v", "the job is seen", |job| job["status"]["state"]["phase"].is_string());
    site.die_and_return();
    site.until("vcjob/v", "the job completes", |job| job["status"]["state"]["phase"] == "Completed");
    assert_eq!(site.kubectl(&["logs", "v-master-0"], ""), "heard rank 1 of 2\n");
}
