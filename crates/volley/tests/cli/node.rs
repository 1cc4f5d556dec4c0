//! The verbs with a node: what they say of pods that run, and what becomes of pods at each kind of end.

use crate::{World, signal, stderr};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A busy machine starts a pod within seconds.
const DEADLINE: Duration = Duration::from_secs(60);

impl World {
    fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", self.home().join("kubeconfig")).env("HOME", self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl is installed");
        child.stdin.take().expect("it is a pipe").write_all(input.as_bytes()).expect("kubectl reads it all");
        child.wait_with_output().expect("kubectl ends")
    }

    fn apply(&self, name: &str, container: &Value) {
        let mut container = container.clone();
        container["name"] = json!("main");
        let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 1});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        let applied = self.kubectl(&["apply", "-f", "-"], &pod.to_string());
        assert!(applied.status.success(), "{}", stderr(&applied));
    }

    /// The pod's only container status, once it is so.
    fn container(&self, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let got = self.kubectl(&["get", "pod", name, "-o", "json"], "");
            let pod: Value = serde_json::from_slice(&got.stdout).unwrap_or_default();
            let status = &pod["status"]["containerStatuses"][0];
            if is_so(status) {
                return status.clone();
            }
            assert!(began.elapsed() < DEADLINE, "{pod:#}{}", stderr(&got));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn up_with_gpus(&self) -> Value {
        self.json(&["up", "--listen", "127.0.0.1:0", "--fake-gpus", "2", "-o", "json"])
    }

    /// Folders of pods of which something may run.
    fn sandboxes(&self) -> usize {
        let pods = fs::read_dir(self.home().join("node/pods")).into_iter().flatten().flatten();
        let inside = pods.flat_map(|pod| fs::read_dir(pod.path()).into_iter().flatten().flatten());
        inside.filter(|entry| entry.file_name().to_string_lossy().starts_with("sandbox-")).count()
    }
}

fn sleeper() -> Value {
    json!({"image": "host", "command": ["sleep", "1000"], "resources": {"limits": {"nvidia.com/gpu": "1"}}})
}

fn is_running(status: &Value) -> bool {
    status["state"]["running"].is_object()
}

#[test]
fn status_and_gpus_tell_what_runs_and_who_holds_what() {
    let world = World::new();
    let status = world.up_with_gpus();
    assert_eq!(status["node"]["gpus"], json!({"held": 0, "total": 2}));
    world.apply("sleeper", &sleeper());
    world.container("sleeper", is_running);
    let gpus = world.json(&["gpus", "-o", "json"]);
    let holders: Vec<&Value> = gpus.as_array().unwrap().iter().map(|gpu| &gpu["heldBy"]).collect();
    assert!(holders.contains(&&json!(["default/sleeper/main"])) && holders.contains(&&json!([])), "{gpus}");
    assert!(world.stdout(&["gpus"]).starts_with("GPU   NAME "));
    let node = world.json(&["status", "-o", "json"])["node"].clone();
    assert_eq!((&node["gpus"]["held"], &node["podsRunning"]), (&json!(1), &json!(1)));
    assert!(world.stdout(&["status"]).contains("1 of 2 GPUs held, 1 pods running"));
}

#[test]
fn a_pod_outlives_a_terminated_process_and_is_adopted() {
    let world = World::new();
    world.up_with_gpus();
    world.apply("sleeper", &sleeper());
    let before = world.container("sleeper", is_running);
    signal("TERM", &world.pid());
    let began = Instant::now();
    while world.home().join("volley.pid").exists() {
        assert!(began.elapsed() < DEADLINE, "the process did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.sandboxes(), 1);
    world.up_with_gpus();
    let after = world.container("sleeper", is_running);
    assert_eq!(after["containerID"], before["containerID"]);
    assert_eq!(after["restartCount"], 0);
}

#[test]
fn down_ends_pods_also_those_of_a_process_that_was_killed() {
    let world = World::new();
    world.up_with_gpus();
    world.apply("sleeper", &sleeper());
    world.container("sleeper", is_running);
    world.stdout(&["down", "--grace", "0"]);
    assert_eq!(world.sandboxes(), 0);

    world.up_with_gpus();
    world.container("sleeper", is_running);
    signal("KILL", &world.pid());
    let down = world.run(&["down", "--grace", "1"]);
    assert!(down.status.success(), "{}", stderr(&down));
    assert!(stderr(&down).ends_with("ending the pods that it left\n"), "{}", stderr(&down));
    assert_eq!(world.sandboxes(), 0);
    world.stdout(&["down", "--purge"]);
    assert!(!world.home().exists());
}

#[test]
fn an_image_that_a_pod_needs_is_not_removed() {
    let world = World::new();
    world.up_with_gpus();
    world.load("my/app:1", "hello");
    // The image has no program, so the pod never starts; it needs the image all the same.
    world.apply("app", &json!({"image": "my/app:1", "imagePullPolicy": "Never"}));
    let listed = world.json(&["image", "ls", "-o", "json"]);
    assert_eq!(listed[0]["usedBy"], json!(["default/app"]));
    let refused = world.run(&["image", "rm", "my/app:1"]);
    assert_eq!(refused.status.code(), Some(1));
    let expected = "error: `my/app:1` is in use by default/app\nhint: delete what runs from it first\n";
    assert_eq!(stderr(&refused), expected);
    assert!(world.kubectl(&["delete", "pod", "app", "--wait"], "").status.success());
    world.stdout(&["image", "rm", "my/app:1"]);
}

#[test]
fn a_map_holds_for_the_next_pod() {
    let world = World::new();
    world.up_with_gpus();
    world.stdout(&["image", "map", "nowhere.lan/*=host"]);
    world.apply("mapped", &json!({"image": "nowhere.lan/train:7", "command": ["sleep", "1000"]}));
    world.container("mapped", is_running);
}

#[test]
fn a_lesser_runtime_is_used_when_asked_for_and_what_it_lacks_is_told() {
    let world = World::new();
    let status = world.json(&["up", "--listen", "127.0.0.1:0", "--runtime", "process", "-o", "json"]);
    assert_eq!(status["node"]["runtime"], "process");
    assert!(status["node"]["lacks"].as_array().is_some_and(|lacks| !lacks.is_empty()), "{status}");
}
