//! NAVER's tutorial: torchrun with the variables of its printed line, data and checkpoints on a volume, and the elastic variant.

use crate::examples::{Example, state_of, world};
use serde_json::Value;
use std::fs;

/// The losses of an epoch's lines, in order.
fn losses(log: &str) -> Vec<f64> {
    log.lines().filter_map(|line| line.rsplit_once(" loss ")?.1.parse().ok()).collect()
}

/// What a worker has printed in each group of three that it was in.
fn groups_of_three(log: &str) -> Vec<Vec<&str>> {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for line in log.lines().filter(|line| line.starts_with("rank ")) {
        if line.contains(" of 3 on ") {
            groups.push(Vec::new());
        }
        if let Some(group) = groups.last_mut() {
            group.push(line);
        }
    }
    groups
}

/// Does something to three that train; each of them is then in a new group of three, which goes on where the old one was.
fn trains_again(example: &Example, workers: &[&str], harm: impl FnOnce()) {
    let uid = |worker: &str| example.get(&format!("pod/{worker}"))["metadata"]["uid"].clone();
    let before: Vec<(Value, usize)> = workers
        .iter()
        .map(|worker| {
            let trains = |log: &str| groups_of_three(log).last().is_some_and(|group| group.len() > 2);
            let log = example.until_log(worker, "it trains in a group of three", trains);
            (uid(worker), groups_of_three(&log).len())
        })
        .collect();
    harm();
    for (worker, (old, groups)) in workers.iter().zip(before) {
        let groups = |log: &str| {
            if uid(worker) == old { groups_of_three(log).len() > groups } else { !groups_of_three(log).is_empty() }
        };
        let log = example.until_log(worker, "the group forms anew", groups);
        let beginning = groups_of_three(&log).pop().unwrap()[0];
        assert!(!beginning.ends_with("from epoch 0"), "it goes on from the checkpoint: {log}");
    }
}

fn rows(printed: &str) -> Vec<Vec<&str>> {
    printed.lines().map(|line| line.split_whitespace().collect()).collect()
}

// PT-RES-1 PT-POD-1 PT-RDZV-3 PT-RDZV-5 PT-SUC-1
#[test]
fn the_tutorials_job_trains_and_its_checkpoint_and_logs_come_out() {
    let world = world();
    let example = Example::new(&world, "pytorchjob-mnist", "default");
    example.readme();
    for worker in ["mnist-worker-0", "mnist-worker-1"] {
        example.until_pod(worker, "Succeeded");
    }
    let jobs = world.kubectl(&["get", "pytorchjob"]);
    let jobs = rows(&jobs);
    assert_eq!(jobs[0], ["NAME", "STATE", "AGE"]);
    assert_eq!(jobs[1][..2], ["mnist", "Succeeded"]);
    let pods = world.kubectl(&["get", "pods"]);
    let pods = rows(&pods);
    assert_eq!(pods[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    for (row, name) in pods[1..].iter().zip(["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]) {
        assert_eq!(row[..4], [name, "0/1", "Completed", "0"]);
    }
    let log = world.kubectl(&["logs", "mnist-master-0"]);
    assert!(log.starts_with("rank 0 of 3 on mnist-master-0: 400 images, from epoch 0\n"), "{log}");
    let seen = losses(&log);
    assert_eq!(seen.len(), 10, "{log}");
    assert!(seen[9] < seen[0] / 5.0, "the loss falls: {seen:?}");
    // What `kubectl cp` has fetched is what the ranks wrote.
    let checkpoint = fs::read(example.scratch().join("mnist.pt")).unwrap();
    assert!(checkpoint.starts_with(b"PK"), "torch's files are zip archives");
    for rank in 0..3 {
        let copied = fs::read_to_string(example.scratch().join(format!("logs/rank-{rank}.log"))).unwrap();
        assert_eq!(losses(&copied), seen, "all ranks tell the same loss");
    }
}

// PT-RDZV-1 PT-RDZV-2 PT-SUC-3
#[test]
fn an_elastic_group_forms_anew_when_a_worker_is_killed() {
    let world = world();
    let example = Example::new(&world, "pytorchjob-mnist", "default");
    example.config_map("mnist", &["mnist_distributed.py", "make_data.py"]);
    example.apply_file("volume.yaml");
    example.wait("condition=Ready", "pod/volume");
    example.apply_file("elastic.yaml");
    let workers = ["elastic-worker-0", "elastic-worker-1", "elastic-worker-2"];
    let training = "^[^ ]*python[^ ]* -u .*mnist_distributed.py";
    trains_again(&example, &workers, || {
        world.kubectl(&["exec", "elastic-worker-1", "--", "pkill", "-KILL", "-f", training]);
    });
    // The whole pod: the operator makes it again, under its old name, and it joins the others.
    trains_again(&example, &workers, || {
        world.kubectl(&["delete", "pod", "elastic-worker-2", "--grace-period=0", "--force"]);
    });
    assert_eq!(state_of(&example.get("pytorchjob/elastic")), "Running");
    world.kubectl(&["exec", "volume", "--", "touch", "/mnt/data/elastic/checkpoints/stop"]);
    example.wait("condition=Succeeded", "pytorchjob/elastic");
    for worker in workers {
        example.until_pod(worker, "Succeeded");
        let log = example.until_logged(worker, " has finished");
        // One that knows nothing has a loss of 2.3.
        let last = losses(&log).pop().unwrap();
        assert!(last < 0.5, "what was learnt is not lost: {log}");
    }
}
