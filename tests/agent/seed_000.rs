//! The tutorial for jobs on several nodes: its Volcano queue, more workers, and what becomes of a gang that loses one.

use crate::command::eventually;
use crate::launch::Launch;
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_client::items::Item;

const QUEUE: &str = include_str!("../../crates/plan/src/check/seeds/000-volcano.yaml");

/// Every rank says who it is; the others then call the master, which ends when all have called.
const MEET: &str = r#"echo rank=$RANK size=$WORLD_SIZE master=$MASTER_ADDR:$MASTER_PORT
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
/// A worker with the file ends badly, the others run until they are stopped.
const WAIT: &str = "trap 'exit 0' TERM; echo rank=$RANK; until [ -e /tmp/die ]; do sleep 0.05; done; exit 7";

fn world() -> World {
    World::start_parts("cluster,operator,server,agent", &["--server-listen", "127.0.0.1:0"])
}

fn launch_script(launch: &Launch<'_>, script: &str, args: &[&str]) -> String {
    let spec = json!({ "overrides": { "entry_point": ["sh", "-c", script] } });
    launch.write("spec.json", &spec.to_string());
    launch.volley(&[&["-c", "spec.json"], args].concat())
}

/// The tutorial's queue with its workers as a variable, and a policy for those that fail.
fn workers_vary(policy: &str) -> String {
    let policies =
        format!("    - name: worker\n      policies:\n        - event: PodFailed\n          action: {policy}\n");
    let text = QUEUE
        .replace("    - name: worker\n      replicas: 1\n", &format!("{policies}      replicas: '{{{{workers}}}}'\n"));
    let text = text.replace("minAvailable: 1", "minAvailable: '{{= workers + 1}}'");
    let (before, worker) = text.split_at(text.find("- name: worker").unwrap());
    // A container that restarts in its pod is no pod that failed.
    let text = format!("{before}{}", worker.replacen("restartPolicy: OnFailure", "restartPolicy: Never", 1));
    assert!(text.contains("'{{workers}}'") && text.contains("'{{= workers + 1}}'") && text.contains("Never"), "{text}");
    text
}

fn make_queue(launch: &Launch<'_>, name: &str, text: &str) {
    launch.write("queue.yaml", text);
    let variable: &[&str] = if text.contains("{{") { &["--var", "workers=integer,min=1,max=8,default=1"] } else { &[] };
    let create = ["queue", "create", name, "--resource", "kubernetes", "-f", "queue.yaml"];
    launch.world.volley(&[&create[..], variable].concat());
}

/// What the ranks said of themselves, each with whose line it is.
fn said(launch: &Launch<'_>, item: &Item) -> Vec<String> {
    let mut lines = launch.lines(item);
    lines.sort();
    lines
}

fn uids(launch: &Launch<'_>, item: &Item) -> BTreeSet<String> {
    launch.pods(item).iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

fn until_all_run(launch: &Launch<'_>, item: &str, pods: usize) -> Item {
    launch.until(item, "all of its pods run", |item| {
        let running = launch.pods(item).iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        item.state == "RUNNING" && running == pods && launch.lines(item).len() >= pods
    })
}

/// Makes the first worker of an item fail.
fn fail_a_worker(launch: &Launch<'_>, item: &Item) {
    let pods = launch.pods(item);
    let is_worker = |pod: &&Value| pod["metadata"]["name"].as_str().unwrap().contains("-worker-0");
    let pod = pods.iter().find(is_worker).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    // The exit code says nothing: the pod's end may take the command with it.
    launch.world.run(&["-n", "wandb", "exec", &pod, "--", "touch", "/tmp/die"]);
}

// T-13, Q-8, K-33, K-39, K-75, K-78
#[test]
fn ranks_meet_and_are_one_run_however_many_workers_there_are() {
    let world = world();
    let launch = Launch::on(&world);
    // As it is printed, and with the tutorial's last step: other replicas in the resource config.
    make_queue(&launch, "printed", QUEUE);
    let more = r#"{"spec": {"minAvailable": 3, "tasks": [{"name": "worker", "replicas": 2}]}}"#;
    let item = launch_script(&launch, MEET, &["-q", "printed", "-R", more]);
    let item = launch.until_end(&item);
    assert_eq!((item.end.as_deref(), said(&launch, &item).len()), (Some("finished"), 3), "{item:#?}");
    assert_eq!(item.manifest["spec"]["tasks"][1]["replicas"], 2);

    make_queue(&launch, "volcano", &workers_vary("RestartJob"));
    let item = launch_script(&launch, MEET, &["-q", "volcano", "-v", "workers=3"]);
    let item = launch.until_end(&item);
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    assert_eq!(item.manifest["spec"]["minAvailable"], 4);
    let run = item.run.clone().unwrap();
    let master = format!("wandb-job-{}-master-0.wandb-job-{0}:23456", run.name);
    let line = |part: &str, rank: usize| format!("[{part}] rank={rank} size=4 master={master}");
    let wanted = [line("master-0", 0), line("worker-0", 1), line("worker-1", 2), line("worker-2", 3)];
    assert_eq!(said(&launch, &item), wanted);
    let logs = world.volley(&["logs", &item.number.to_string()]);
    assert_eq!(logs.lines().count(), 4, "{logs}");
    assert_eq!(launch.runs("p").len(), 2, "one run of each launch, whatever the ranks");
}

// L-31, L-37, K-75, K-76
#[test]
fn a_gang_that_loses_a_worker_does_what_its_queue_says_and_a_stop_leaves_nothing() {
    let world = world();
    let launch = Launch::on(&world);
    make_queue(&launch, "restart", &workers_vary("RestartJob"));
    make_queue(&launch, "end", &workers_vary("TerminateJob"));
    let restarted = launch_script(&launch, WAIT, &["-q", "restart", "-v", "workers=2"]);
    let before = until_all_run(&launch, &restarted, 3);
    let old = uids(&launch, &before);
    fail_a_worker(&launch, &before);
    let after = launch.until(&restarted, "all of its pods are new and run", |item| {
        let pods = launch.pods(item);
        let is_new = |pod: &Value| !old.contains(pod["metadata"]["uid"].as_str().unwrap());
        pods.len() == 3 && pods.iter().all(|pod| is_new(pod) && pod["status"]["phase"] == "Running")
    });
    assert_eq!((after.attempt, after.end.as_deref()), (1, None), "the gang restarts, not the item");
    world.volley(&["stop", &restarted]);
    let stopped = launch.until_end(&restarted);
    assert_eq!(stopped.end.as_deref(), Some("stopped"), "{stopped:#?}");
    assert!(launch.pods(&stopped).is_empty(), "{:#?}", launch.pods(&stopped));

    let ended = launch_script(&launch, WAIT, &["-q", "end", "-v", "workers=2"]);
    fail_a_worker(&launch, &until_all_run(&launch, &ended, 3));
    let ended = launch.until_end(&ended);
    assert_eq!((ended.end.as_deref(), ended.exit_code), (Some("failed"), Some(7)), "{ended:#?}");
    let message = ended.error.clone().unwrap().message;
    assert!(message.contains("worker-0") && message.contains("exit code 7"), "{message}");
    // Nothing is left of the one that was stopped.
    eventually("pods, groups and jobs are gone", || {
        let left = world.kubectl(&[
            "get",
            "pods,podgroups.scheduling.volcano.sh,jobs.batch.volcano.sh",
            "-n",
            "wandb",
            "-o",
            "name",
        ]);
        let run = &stopped.run.as_ref().unwrap().name;
        (!left.contains(run.as_str())).then_some(())
    });
}
