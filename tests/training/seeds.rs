//! The tutorials' jobs with real torch: the files of `examples/`, one volley, kubectl.
//!
//! A job ends with its master, and pods that run then may go with their logs. Where every rank's numbers are read, the test holds
//! the master until it has them.

use crate::examples::{Example, phase_of_pod, state_of, world};
use crate::world::World;
use serde_json::{Value, json};

/// Goes on after the script until the test says so.
const HOLD: &str = "until [ -e /tmp/volley-test-end ]; do sleep 0.05; done";

/// Appends something to what a container runs, in a shell.
fn and_then(container: &mut Value, script: &str) {
    let words: Vec<&str> = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    container["command"] = json!(["sh", "-c", format!("{} && {script}", words.join(" "))]);
}

fn master_and_workers(job: &mut Value) -> [&mut Value; 2] {
    let tasks = job["spec"]["tasks"].as_array_mut().unwrap();
    let [master, workers] = tasks.as_mut_slice() else { panic!("a master and workers") };
    [master, workers].map(|task| &mut task["template"]["spec"]["containers"][0])
}

fn release(world: &World, namespace: &str, pod: &str) {
    // The exit code says nothing: the job's end may take the command with it.
    world.run(&["exec", "-n", namespace, pod, "--", "touch", "/tmp/volley-test-end"]);
}

#[test]
fn a_ring_and_an_all_reduce_give_the_right_numbers_on_every_rank() {
    let world = world();
    let example = Example::new(&world, "volcano-sendrecv", "default");
    example.config_map("sendrecv", &["sendrecv.py"]);
    let mut job = example.object("job.yaml");
    let [master, _] = master_and_workers(&mut job);
    and_then(master, HOLD);
    example.apply(&job);
    let pods = ["pytorch-job-master-0", "pytorch-job-worker-0", "pytorch-job-worker-1"];
    for (rank, pod) in pods.iter().enumerate() {
        let log = example.until_logged(pod, "all-reduce");
        assert_eq!(log.trim(), format!("rank {rank} of 3 on {pod}: ring 6, all-reduce 6"));
    }
    for worker in &pods[1..] {
        example.until_pod(worker, "Succeeded");
    }
    // All workers have ended, and the job goes on: its policy looks at the master.
    assert_eq!(state_of(&example.get("vcjob/pytorch-job")), "Running");
    release(&world, "default", pods[0]);
    example.wait("jsonpath={.status.state.phase}=Completed", "vcjob/pytorch-job");
    // Who had succeeded is kept for its logs.
    for pod in pods {
        assert_eq!(phase_of_pod(&example.get(&format!("pod/{pod}"))), "Succeeded", "{pod}");
    }
    let printed = world.kubectl(&["get", "vcjob", "pytorch-job"]);
    let mut lines = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]);
    assert_eq!(lines.next().unwrap()[..3], ["pytorch-job", "Completed", "1"]);
}

#[test]
fn a_job_completes_with_its_master_and_takes_running_workers_away() {
    let world = world();
    let example = Example::new(&world, "wandb-volcano", "wandb");
    world.kubectl(&["create", "namespace", "wandb"]);
    example.config_map("multinode", &["multinode.py"]);
    let mut job = example.object("job.yaml");
    let [master, workers] = master_and_workers(&mut job);
    and_then(master, HOLD);
    and_then(workers, "exec sleep 1000");
    example.apply(&job);
    let name = "wandb-job-x7k2m9qa";
    let pods = ["master-0", "worker-0", "worker-1"].map(|pod| format!("{name}-{pod}"));
    let logs: Vec<String> = pods.iter().map(|pod| example.until_logged(pod, "weights")).collect();
    let trained: Vec<&str> = logs.iter().map(|log| log.lines().last().unwrap().split_once(": ").unwrap().1).collect();
    for (rank, log) in logs.iter().enumerate() {
        assert!(log.starts_with(&format!("rank {rank} of 3: all-reduce 6\n")), "{log}");
        assert_eq!(trained[rank], trained[0], "all ranks have seen the same loss and have the same weights");
    }
    let numbers: Vec<f64> = trained[0].split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[1] < numbers[0] / 2.0, "the loss falls: {}", trained[0]);
    release(&world, "wandb", &pods[0]);
    example.wait("jsonpath={.status.state.phase}=Completed", &format!("vcjob/{name}"));
    example.until_pods(&[&pods[0]]);
    assert_eq!(phase_of_pod(&example.get(&format!("pod/{}", pods[0]))), "Succeeded");
    let seen = example.get(&format!("vcjob/{name}"));
    assert_eq!(seen["metadata"]["labels"]["wandb_project"], "multinodetest");
    assert_eq!(seen["status"]["succeeded"], 1, "{}", seen["status"]);
}

#[test]
fn the_volcano_examples_run_as_their_readmes_say() {
    let world = world();
    let printed = Example::new(&world, "volcano-sendrecv", "default").readme();
    assert!(printed.contains("rank 0 of 3 on pytorch-job-master-0: ring 6, all-reduce 6\n"), "{printed}");
    let printed = Example::new(&world, "wandb-volcano", "wandb").readme();
    assert!(printed.contains("rank 0 of 3: all-reduce 6\n"), "{printed}");
}

// PT-ADM-12 PT-ADM-14 PT-CLN-1
#[test]
fn a_launch_queues_pytorchjob_keeps_its_name_and_its_time_to_live() {
    let world = world();
    let example = Example::new(&world, "wandb-pytorchjob", "default");
    let printed = example.readme();
    assert!(printed.contains("rank 0 of 3: all-reduce 6\n"), "{printed}");
    assert!(printed.contains("Warning: ") && printed.contains("ttlSecondsAfterFinished"), "{printed}");
    let job = example.get("pytorchjob/4k9x2m7q-pytorch-job");
    assert_eq!(state_of(&job), "Succeeded", "{}", job["status"]);
    assert!(job["status"]["completionTime"].is_string());
    assert_eq!(job["spec"]["runPolicy"]["ttlSecondsAfterFinished"], 600, "{}", job["spec"]);
    // Nothing is cleaned up unless a policy says so; the workers end in their own time.
    for worker in ["4k9x2m7q-pytorch-job-worker-0", "4k9x2m7q-pytorch-job-worker-1"] {
        example.until_pod(worker, "Succeeded");
    }
}
