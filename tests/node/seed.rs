//! The tutorial for a machine with several GPUs, as it is written: job templates that count GPUs, and a shared cache.
//!
//! Its machine had 16 cores and 60 GB; where this one is smaller, the templates' processors and memory shrink with it.

use crate::command::eventually;
use crate::world::{Say, World, pod};
use serde_json::{Value, json};

const JOB_SPEC: &str = include_str!("seed-002/job-spec.yaml");
const CACHED_JOB_SPEC: &str = include_str!("seed-002/cached-job-spec.yaml");
const VOLUME: &str = include_str!("seed-002/nfs-persistent-volume.yaml");
const IMAGE: &str = "wandb/job_hello_world:main";

fn world() -> World {
    World::start(&["--fake-gpus", "4", "--image-map", "*=host"])
}

/// What the launch agent does with a queue's template: fill in the variables, name the job and its container.
fn job(name: &str, template: &str, gpus: u32, script: &str) -> Value {
    let text = template.replace("${image_uri}", IMAGE).replace("{{gpus}}", &gpus.to_string());
    let text = text.replace("cpu: 4", "cpu: 100m").replace("memory: 12Gi", "memory: 64Mi");
    let mut job: Value = serde_saphyr::from_str(&text).unwrap();
    job["apiVersion"] = json!("batch/v1");
    job["kind"] = json!("Job");
    job["metadata"] = json!({"name": name});
    let container = &mut job["spec"]["template"]["spec"]["containers"][0];
    container["name"] = json!("launch");
    container["command"] = json!(["sh", "-c", script]);
    job
}

fn pod_of(world: &World, job: &str) -> String {
    eventually("the job has a pod", || {
        let pods = world.pods();
        let found = pods.iter().find(|pod| pod["metadata"]["labels"]["job-name"] == job);
        found.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
    })
}

fn visible(world: &World, job: &str) -> Vec<String> {
    let pod = pod_of(world, job);
    let logs = world.until_logged(&pod, "gpus=");
    let list = logs.lines().find_map(|line| line.strip_prefix("gpus=")).unwrap();
    list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_job_gets_as_many_gpus_as_its_template_says() {
    let world = world();
    let nodes = world.kubectl(&["get", "nodes", "-o", r"jsonpath={.items[0].status.allocatable.nvidia\.com/gpu}"]);
    assert_eq!(nodes, "4");
    for gpus in [1, 2, 4] {
        let name = format!("gpus-{gpus}");
        world.create(&job(&name, JOB_SPEC, gpus, "echo gpus=$CUDA_VISIBLE_DEVICES"));
        world.kubectl(&["wait", "--for=condition=complete", &format!("job/{name}"), "--timeout=60s"]);
        assert_eq!(visible(&world, &name).len(), usize::try_from(gpus).unwrap());
    }
}

#[test]
fn a_fifth_job_waits_with_its_reason_and_starts_when_one_ends() {
    let world = world();
    let script = "echo gpus=$CUDA_VISIBLE_DEVICES; until [ -e /tmp/volley-test-end ]; do sleep 0.05; done";
    for number in 0..4 {
        world.create(&job(&format!("job-{number}"), JOB_SPEC, 1, script));
    }
    let mut held: Vec<String> = (0..4).flat_map(|number| visible(&world, &format!("job-{number}"))).collect();
    held.sort();
    held.dedup();
    assert_eq!(held.len(), 4, "no GPU is given twice: {held:?}");
    world.create(&job("job-4", JOB_SPEC, 1, "echo gpus=$CUDA_VISIBLE_DEVICES"));
    let fifth = pod_of(&world, "job-4");
    let message = world.until_event(&fifth, "FailedScheduling", "Insufficient nvidia.com/gpu");
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient nvidia.com/gpu"), "{message}");
    assert_eq!(world.word(&fifth), "Pending");
    let listed = world.volley(&["gpus"]);
    for number in 0..4 {
        assert!(listed.contains(&pod_of(&world, &format!("job-{number}"))), "{listed}");
    }
    // The exit code says nothing: the job's end may take the command with it.
    world.exec(&pod_of(&world, "job-2"), "touch /tmp/volley-test-end");
    world.kubectl(&["wait", "--for=condition=complete", "job/job-4", "--timeout=60s"]);
    assert_eq!(visible(&world, "job-4").len(), 1);
}

#[test]
fn grants_survive_a_death_of_volley() {
    let mut world = world();
    let script = "echo gpus=$CUDA_VISIBLE_DEVICES; sleep 1000";
    world.create(&job("before", JOB_SPEC, 3, script));
    let before = visible(&world, "before");
    world.kill();
    world.up();
    world.create(&job("after", JOB_SPEC, 1, script));
    let after = visible(&world, "after");
    assert!(after.iter().all(|gpu| !before.contains(gpu)), "{before:?} {after:?}");
    world.create(&job("more", JOB_SPEC, 1, script));
    world.until_event(&pod_of(&world, "more"), "FailedScheduling", "Insufficient nvidia.com/gpu");
}

/// The kernel mounts NFS where it can; where it cannot, the pod says so.
#[test]
fn gpus_of_a_pod_deleted_by_force_pass_on_when_it_has_ended() {
    let world = world();
    let greedy =
        |name: &str, script: &str| pod(name, script).main(json!({"resources": {"limits": {"nvidia.com/gpu": "4"}}}));
    // As the first process of its container a shell ignores TERM, so it lives on for a while.
    world.create(&greedy("first", "echo began; sleep 1000"));
    world.until_ready("first");
    world.delete("first", 0);
    world.create(&greedy("second", "echo $NVIDIA_VISIBLE_DEVICES"));
    world.until_phase("second", "Succeeded");
    assert_eq!(world.logs("second").trim().split(',').count(), 4);
}

#[test]
fn the_tutorials_volume_is_mounted_or_the_event_says_why_not() {
    let world = world();
    world.apply(&VOLUME.replace("<your-nfs-server-ip>", "127.0.0.1"));
    assert_eq!(
        eventually("the claim is bound", || {
            let phase = world.kubectl(&["get", "pvc", "nfs-pvc", "-o", "jsonpath={.status.phase}"]);
            (phase == "Bound").then_some(phase)
        }),
        "Bound"
    );
    world.create(&job("cached", CACHED_JOB_SPEC, 1, "ls /root/.cache"));
    let pod = pod_of(&world, "cached");
    let message = world.until_event(&pod, "FailedMount", r#"MountVolume.SetUp failed for volume "nfs-pv""#);
    assert!(message.contains("nfs") && message.contains("127.0.0.1:/srv/nfs/kubedata"), "{message}");
    assert_eq!(world.word(&pod), "ContainerCreating");
}

#[test]
fn the_same_claim_on_a_host_path_shares_a_cache_between_two_jobs() {
    let world = world();
    let cache = world.folder.path().join("kubedata");
    std::fs::create_dir(&cache).unwrap();
    let start = VOLUME.find("  nfs:\n").unwrap();
    let end = VOLUME.find("---\n").unwrap();
    let on_host_path = format!("{}  hostPath: {{path: {}}}\n{}", &VOLUME[..start], cache.display(), &VOLUME[end..]);
    world.apply(&on_host_path);
    let download = "[ -e /root/.cache/model ] && echo cached || { echo downloads; echo weights > /root/.cache/model; }";
    for (name, printed) in [("first", "downloads\n"), ("second", "cached\n")] {
        world.create(&job(name, CACHED_JOB_SPEC, 1, download));
        world.kubectl(&["wait", "--for=condition=complete", &format!("job/{name}"), "--timeout=60s"]);
        assert_eq!(world.logs(&pod_of(&world, name)), printed);
    }
    assert_eq!(std::fs::read_to_string(cache.join("model")).unwrap(), "weights\n");
}
