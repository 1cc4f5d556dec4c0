//! The verbs on jobs that really run: a whole `volley up`, its operator and its node.

use crate::command::Running;
use crate::{World, pod_spec};
use serde_json::{Value, json};

impl World {
    fn phase(&self, job: &str) -> String {
        let job = self.get(&["jobs.batch.volcano.sh", job]);
        job["status"]["state"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn until_job_phase(&self, job: &str, phase: &str) {
        crate::eventually(&format!("{job} is {phase}"), || (self.phase(job) == phase).then_some(()));
    }
}

/// A Volcano job of a master and two workers that know their ranks.
fn training(name: &str, script: &str) -> Value {
    let task =
        |name: &str, replicas: u32| json!({"name": name, "replicas": replicas, "template": {"spec": pod_spec(script)}});
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"minAvailable": 3, "plugins": {"pytorch": ["--master=master", "--worker=worker"]},
            "tasks": [task("master", 1), task("worker", 2)]},
    })
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_volcano_job_is_run_followed_to_its_end_and_viewed() {
    let world = World::start_all();
    let file = world.path("train.yaml");
    std::fs::write(&file, training("train", "echo rank $RANK of $WORLD_SIZE").to_string()).unwrap();
    assert_eq!(world.volley(&["vcjob", "run", "-f", &file]), "run job train successfully\n");
    let text = world.volley(&["logs", "-f", "train"]);
    let expected = ["master-0 | rank 0 of 3", "worker-0 | rank 1 of 3", "worker-1 | rank 2 of 3"];
    assert_eq!(sorted(&text), expected, "following ends with the job");
    world.until_job_phase("train", "Completed");
    assert_eq!(world.volley(&["logs", "train", "--rank", "2"]), "worker-1 | rank 2 of 3\n");
    let listed = world.volley(&["vcjob", "list"]);
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        (&row[..1], &row[2..]),
        (&["train"][..], &["Completed", "Batch", "3", "3", "0", "0", "3", "0", "0", "0"][..])
    );
    let view = world.volley(&["vcjob", "view", "train"]);
    for pod in ["train-master-0", "train-worker-0", "train-worker-1"] {
        assert!(view.contains(&format!("\n  {pod} ")), "{view}");
    }
    assert_eq!(world.volley(&["vcjob", "delete", "train", "--wait"]), "delete job train successfully\n");
    assert!(world.get(&["pods"])["items"].as_array().unwrap().is_empty(), "its pods went before it");
}

// CLI-2
#[test]
fn a_running_job_is_suspended_and_resumed_while_it_is_followed() {
    let world = World::start_all();
    let script = "echo rank $RANK is up; exec sleep 1000";
    world.apply(&training("train", script));
    world.until_job_phase("train", "Running");
    let following = Running::start(world.command(&["logs", "-f", "train", "--rank", "master"]));
    assert_eq!(following.line(), "master-0 | rank 0 is up");
    world.volley(&["vcjob", "suspend", "-N", "train"]);
    world.until_job_phase("train", "Aborted");
    assert_eq!(following.end(), 0, "a suspended job says no more");
    world.volley(&["vcjob", "resume", "train"]);
    world.until_job_phase("train", "Running");
    let following = Running::start(world.command(&["logs", "-f", "train", "--rank", "0"]));
    assert_eq!(following.line(), "master-0 | rank 0 is up");
    world.volley(&["vcjob", "delete", "train", "--wait"]);
    assert_eq!(following.end(), 0, "a deleted job says no more");
}

#[test]
fn a_pytorchjobs_ranks_are_told_side_by_side() {
    let world = World::start_all();
    let replicas = |count: u32| {
        let mut spec = pod_spec("echo rank $RANK of $WORLD_SIZE");
        spec["containers"][0]["name"] = json!("pytorch");
        json!({"replicas": count, "restartPolicy": "Never", "template": {"spec": spec}})
    };
    world.apply(&json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "torch"},
        "spec": {"pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(2)}},
    }));
    let text = world.volley(&["logs", "-f", "torch"]);
    // The job ends with its master, and its workers may not have started by then.
    let told = sorted(&text);
    assert!(told.contains(&"master-0 | rank 0 of 3"), "{text}");
    let expected = ["master-0 | rank 0 of 3", "worker-0 | rank 1 of 3", "worker-1 | rank 2 of 3"];
    assert!(told.iter().all(|line| expected.contains(line)), "{text}");
    assert_eq!(world.volley(&["logs", "pytorchjob/torch", "--rank", "master"]), "master-0 | rank 0 of 3\n");
}

// CLI-3
#[test]
fn a_queue_is_closed_and_opened_by_its_controller() {
    let world = World::start_all();
    let state = |wanted: &str| {
        crate::eventually(wanted, || {
            let table = world.volley(&["vcqueue", "get", "research"]);
            (table.lines().nth(1)?.split_whitespace().nth(2)? == wanted).then_some(())
        });
    };
    world.volley(&["vcqueue", "create", "research", "-S", "Closed"]);
    state("Closed");
    let (file, mut job) = (world.path("job.yaml"), training("x", "true"));
    job["spec"]["queue"] = json!("research");
    std::fs::write(&file, job.to_string()).unwrap();
    let told = world.refusal(&["vcjob", "run", "-f", &file]);
    assert!(told.contains("spec.queue"), "{told}");
    world.volley(&["vcqueue", "operate", "research", "-a", "open"]);
    state("Open");
}
