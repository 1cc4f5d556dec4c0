//! What becomes of launches: Jobs, Volcano's Jobs and PyTorchJobs, that end well, fail, or are stopped.

use crate::command::eventually;
use crate::launch::Launch;
use crate::world::World;
use serde_json::{Value, json};

const ALL: &str = "cluster,operator,server,agent";

/// Every rank says who it is; the others then call the master, which ends when all have called.
const MEET: &str = r#"echo rank $RANK of $WORLD_SIZE
exec python3 -c '
import os, socket, time
port, others = int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"]) - 1
if os.environ["RANK"] == "0":
    server = socket.create_server(("", port))
    for _ in range(others):
        server.accept()
else:
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], port), 5)
            break
        except OSError:
            time.sleep(0.05)
'"#;

fn world() -> World {
    World::start_parts(ALL, &["--server-listen", "127.0.0.1:0"])
}

/// A config like seed 000's: a master and workers of Volcano's, with the plugin that tells them who they are.
fn volcano(workers: u64) -> Value {
    let task = |name: &str, replicas: u64, policies: Value| {
        json!({ "name": name, "replicas": replicas, "policies": policies, "template": { "spec": {
            "containers": [{ "name": name, "image": "${image_uri}", "imagePullPolicy": "IfNotPresent" }],
            "restartPolicy": "OnFailure" } } })
    };
    let done = json!([{ "event": "TaskCompleted", "action": "CompleteJob" }]);
    json!({ "kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": { "name": "wandb-job-${run_id}", "namespace": "wandb", "labels": { "wandb_entity": "${entity_name}" } },
        "spec": { "minAvailable": workers + 1, "schedulerName": "volcano",
            "plugins": { "pytorch": ["--master=master", "--worker=worker", "--port=23456"] },
            "tasks": [task("master", 1, done), task("worker", workers, json!([]))] } })
}

fn pytorch() -> Value {
    let replica = |replicas: u64| {
        json!({ "replicas": replicas, "restartPolicy": "Never", "template": { "spec": {
            "containers": [{ "name": "pytorch", "image": "${image_uri}" }] } } })
    };
    json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "run-${run_id}" },
        "spec": { "pytorchReplicaSpecs": { "Master": replica(1), "Worker": replica(1) } } })
}

// L-21
#[test]
fn a_launch_that_says_nothing_runs_and_ends_all_the_same() {
    let world = world();
    let launch = Launch::on(&world);
    let id = launch.push("default", "sleep 3");
    let item = launch.until(&id, "runs", |item| item.state == "RUNNING");
    assert_eq!(launch.run_state(&item), "running");
    let item = launch.until_end(&id);
    assert_eq!((item.end.as_deref(), launch.run_state(&item).as_str()), (Some("finished"), "finished"));
}

// A-25, L-21, L-36, K-39
#[test]
fn a_job_runs_to_its_end_and_its_lines_are_in_its_run() {
    let world = world();
    let launch = Launch::on(&world);
    let id = launch.push("default", "echo one; echo two >&2; echo run $WANDB_RUN_ID; test -n \"$WANDB_API_KEY\"");
    let item = launch.until_end(&id);
    assert_eq!(
        (item.end.as_deref(), item.state.as_str(), item.exit_code),
        (Some("finished"), "FINISHED", Some(0)),
        "{item:#?}"
    );
    assert_eq!(launch.run_state(&item), "finished");
    let run = item.run.clone().unwrap();
    let mut lines = launch.lines(&item);
    lines.sort();
    assert_eq!(lines, ["one".to_owned(), format!("run {}", run.name), "two".to_owned()]);
    // What was made for it is let go: no finalizer holds the Job, and its Secret is gone.
    eventually("the job is let go", || {
        let jobs: Value = serde_json::from_str(&world.kubectl(&["get", "jobs", "-A", "-o", "json"])).unwrap();
        let jobs = jobs["items"].as_array().unwrap().clone();
        jobs.iter().all(|job| job["metadata"]["finalizers"].is_null()).then_some(())
    });
    eventually("its secret is gone", || {
        world
            .kubectl(&["get", "secrets", "-A", "-l", "wandb.ai/created-by=launch-agent", "-o", "name"])
            .is_empty()
            .then_some(())
    });
}

// K-76, K-78
#[test]
fn a_failure_is_told_with_its_exit_code_and_last_lines() {
    let world = world();
    let launch = Launch::on(&world);
    let id = launch.push("default", "echo about to fail; exit 3");
    let refused = json!({ "entity": launch.entity, "project": "p", "docker": { "docker_image": "host" }, "resource": "kubernetes",
        "resource_args": { "kubernetes": { "spec": { "template": { "spec": { "hostNetwork": true } } } } } });
    let refused = launch.push_spec("default", &refused);
    let item = launch.until_end(&id);
    assert_eq!((item.end.as_deref(), item.exit_code), (Some("failed"), Some(3)), "{item:#?}");
    assert_eq!(launch.run_state(&item), "failed");
    let message = item.error.clone().unwrap().message;
    assert!(message.contains("exit code 3") && message.contains("about to fail"), "{message}");
    assert_eq!(launch.lines(&item), ["about to fail"]);
    let item = launch.until_end(&refused);
    let message = item.error.clone().unwrap().message;
    assert!(message.contains("hostNetwork"), "{message}");
    assert!(launch.pods(&item).is_empty());
}

// L-31, L-37
#[test]
fn a_stop_ends_the_pods_before_it_is_told() {
    let world = world();
    let launch = Launch::on(&world);
    let id = launch.push("default", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
    let item = launch.until(&id, "it runs", |item| item.state == "RUNNING");
    launch.until(&id, "its line is there", |item| launch.lines(item) == ["up"]);
    launch.stop(&id);
    let item = launch.until(&item.id, "it is stopped", |item| item.end.is_some());
    let pods = launch.pods(&item);
    assert!(
        pods.iter().all(|pod| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))),
        "{pods:#?}"
    );
    assert_eq!(item.end.as_deref(), Some("stopped"));
}

// K-33, K-71, K-75, K-78
#[test]
fn all_ranks_of_a_volcano_job_are_one_run() {
    let world = world();
    let launch = Launch::on(&world);
    launch.make_queue("default", &volcano(2));
    let id = launch.push("default", MEET);
    let item = launch.until_end(&id);
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    let mut lines = launch.lines(&item);
    lines.sort();
    assert_eq!(lines, ["[master-0] rank 0 of 3", "[worker-0] rank 1 of 3", "[worker-1] rank 2 of 3"]);
    assert_eq!(item.run.as_ref().map(|run| launch.run_state(&item) + &run.project), Some("finishedp".to_owned()));
}

// K-75, K-78
#[test]
fn a_pytorchjob_runs_with_the_logs_of_all_its_pods() {
    let world = world();
    let launch = Launch::on(&world);
    launch.make_queue("default", &pytorch());
    let id = launch.push("default", MEET);
    let item = launch.until_end(&id);
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    let mut lines = launch.lines(&item);
    lines.sort();
    assert_eq!(lines, ["[master-0] rank 0 of 2", "[worker-0] rank 1 of 2"]);
}
