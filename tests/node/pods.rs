//! A pod's life: from creation to its end, in the words that kubectl's users know.

use crate::command::eventually;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, condition, container, pod};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn reasons(world: &World, pod: &str) -> Vec<String> {
    world.events(pod).into_iter().map(|(reason, _)| reason).collect()
}

// K-POD-1 K-POD-2 K-POD-3
#[test]
fn a_host_pod_and_an_oci_pod_run_to_completion() {
    let world = World::start(&[]);
    load_busybox(&world);
    world.create(&pod("plain", "echo on the machine; echo problem >&2"));
    world.create(&pod("oci", "echo from $FROM; exec sleep 1000").main(json!({"image": BUSYBOX})));
    let ended = world.until_phase("plain", "Succeeded");
    assert_eq!(world.logs("plain"), "on the machine\nproblem\n");
    let state = &container(&ended)["state"]["terminated"];
    assert_eq!((&state["reason"], &state["exitCode"]), (&json!("Completed"), &json!(0)), "{state}");
    assert_eq!(condition(&ended, "Ready")["reason"], "PodCompleted");
    let running = world.until_ready("oci");
    world.until_logged("oci", "from image\n");
    let status = container(&running);
    assert!(status["state"]["running"]["startedAt"].is_string(), "{status}");
    assert_eq!(
        (&status["ready"], &status["started"], &status["restartCount"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert_eq!(
        (&status["name"], &status["image"], &status["lastState"]),
        (&json!("main"), &json!(BUSYBOX), &json!({}))
    );
    assert!(status["containerID"].as_str().unwrap().contains("://"), "{status}");
    assert!(status["imageID"].as_str().unwrap().contains("sha256:"), "{status}");
    let whole = &running["status"];
    assert_eq!(whole["podIPs"][0]["ip"], whole["podIP"]);
    assert!(whole["startTime"].is_string() && whole["hostIP"].is_string(), "{whole}");
    for name in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
        let found = condition(&running, name);
        assert_eq!(found["status"], "True", "{name}: {whole}");
        assert!(found["lastTransitionTime"].is_string() && found["lastProbeTime"].is_null(), "{found}");
        assert!(found.as_object().unwrap().contains_key("lastProbeTime"), "{found}");
    }
    let table = world.kubectl(&["get", "pods"]);
    let row = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().take(4).map(str::to_owned).collect()
    };
    assert_eq!(row("plain"), ["plain", "0/1", "Completed", "0"]);
    assert_eq!(row("oci"), ["oci", "1/1", "Running", "0"]);
}

#[test]
fn every_trouble_has_the_status_that_users_know() {
    let world = World::start(&[]);
    load_busybox(&world);
    let missing = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}]);
    let init =
        |script: &str| json!({"initContainers": [{"name": "first", "image": "host", "command": ["sh", "-c", script]}]});
    let always = json!({"restartPolicy": "Always"});
    for object in [
        pod("fails", "exit 3"),
        pod("config", "true").main(json!({"env": missing})),
        pod("start", "").main(json!({"image": BUSYBOX, "command": ["/no/such/program"]})),
        pod("never", "true").main(json!({"image": "volley.test/absent:1", "imagePullPolicy": "Never"})),
        pod("pull", "true").main(json!({"image": "127.0.0.1:1/absent:1"})),
        pod("name", "true").main(json!({"image": "registry.test/UPPER/case"})),
        pod("initialises", "true").spec(init("sleep 1000")),
        pod("init-fails", "true").spec(init("exit 5")),
        pod("crashes", "exit 1").spec(always),
    ] {
        world.create(&object);
    }
    for (name, word) in [
        ("fails", "Error"),
        ("config", "CreateContainerConfigError"),
        ("start", "StartError"),
        ("never", "ErrImageNeverPull"),
        ("pull", "ErrImagePull"),
        ("pull", "ImagePullBackOff"),
        ("name", "InvalidImageName"),
        ("initialises", "Init:0/1"),
        ("init-fails", "Init:Error"),
        ("crashes", "CrashLoopBackOff"),
    ] {
        world.until_word(name, word);
    }
    assert_eq!(container(&world.pod("fails"))["state"]["terminated"]["exitCode"], 3);
    let message = container(&world.pod("config"))["state"]["waiting"]["message"].clone();
    assert_eq!(message, r#"configmap "none" not found"#);
    let failed = world.until_phase("init-fails", "Failed");
    assert_eq!(condition(&failed, "Initialized")["message"], "containers with incomplete status: [first]");
    assert_eq!(container(&failed)["state"]["waiting"]["reason"], "PodInitializing");
    world.until_event("pull", "BackOff", r#"Back-off pulling image "127.0.0.1:1/absent:1""#);
    world.until_event("crashes", "BackOff", "Back-off restarting failed container main in pod crashes_default(");
}

#[test]
fn init_containers_run_in_order_and_sidecars_beside_the_rest() {
    let world = World::start(&[]);
    let mount = json!([{"name": "diary", "mountPath": "/diary"}]);
    let step = |name: &str, script: &str| json!({"name": name, "image": "host", "command": ["sh", "-c", script], "volumeMounts": mount});
    let mut sidecar = step(
        "side",
        "trap 'echo side-ended >> /diary/d; exit 0' TERM; echo side >> /diary/d; while :; do sleep 0.1; done",
    );
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] = json!({"exec": {"command": ["test", "-s", "/diary/d"]}, "periodSeconds": 1});
    let inits = json!([step("one", "sleep 0.2; echo one > /diary/d"), sidecar, step("two", "echo two >> /diary/d")]);
    let main = pod("steps", "echo main >> /diary/d; cat /diary/d").main(json!({"volumeMounts": mount}));
    world.create(&main.spec(json!({"initContainers": inits, "volumes": [{"name": "diary", "emptyDir": {}}]})));
    let ended = world.until_phase("steps", "Succeeded");
    assert_eq!(world.logs_of("steps", "container=main"), "one\nside\ntwo\nmain\n");
    let side = &ended["status"]["initContainerStatuses"][1];
    assert!(side["state"]["terminated"].is_object(), "{side}");
    assert_eq!(ended["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
}

// K-POD-DEL-1
#[test]
fn a_deleted_pod_gets_its_grace_and_then_the_end() {
    let world = World::start(&[]);
    let polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    world.create(&pod("polite", polite).spec(json!({"terminationGracePeriodSeconds": 60})));
    world.create(&pod("deaf", deaf).spec(json!({"terminationGracePeriodSeconds": 3})));
    world.until_logged("polite", "up");
    world.until_logged("deaf", "up");
    let columns = "custom-columns=T:.type,P:.object.status.phase,\
        C:.object.status.containerStatuses[0].state.terminated.exitCode";
    let watch = ["get", "pod", "deaf", "--watch", "--output-watch-events", "--no-headers", "-o", columns];
    let watched = world.start_kubectl(&watch);
    let first = watched.line();
    assert!(first.starts_with("ADDED"), "the watch is open: {first}");
    let began = Instant::now();
    world.kubectl(&["delete", "pod", "polite", "--timeout=30s"]);
    assert!(began.elapsed() < Duration::from_secs(30), "a polite pod goes when it is asked to");
    let began = Instant::now();
    world.kubectl(&["delete", "pod", "deaf", "--wait=false"]);
    eventually("Terminating", || (world.word("deaf") == "Terminating").then_some(()));
    world.until_gone("deaf");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(15), "grace was 3 s, it took {took:?}");
    world.until_event("deaf", "Killing", "Stopping container main");
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.starts_with("DELETED")) {
        lines.push(watched.line());
    }
    assert!(lines.iter().filter(|line| line.starts_with("MODIFIED")).count() >= 2, "{lines:?}");
    let last: Vec<&str> = lines.last().unwrap().split_whitespace().collect();
    assert_eq!((last[1], last[2]), ("Failed", "137"), "{lines:?}");
    let folders = world.home.join("node/pods");
    eventually("no folder is left", || (std::fs::read_dir(&folders).ok()?.count() == 0).then_some(()));
}

#[test]
fn force_deletion_ends_the_processes_too() {
    let world = World::start(&[]);
    world.create(&pod("forced", "trap '' TERM; echo up; while :; do sleep 0.05; done"));
    world.until_logged("forced", "up");
    world.note();
    assert!(world.traces().processes().iter().any(|process| process.command == "sh"));
    world.kubectl(&["delete", "pod", "forced", "--force", "--grace-period=0"]);
    assert_eq!(world.pod("forced"), Value::Null);
    eventually("the script is gone", || {
        (!world.traces().processes().iter().any(|process| process.command == "sh")).then_some(())
    });
}

#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let world = World::start(&[]);
    world.create(&pod("slow", "sleep 1000").spec(json!({"activeDeadlineSeconds": 2})));
    let ended = world.until_phase("slow", "Failed");
    assert_eq!(ended["status"]["reason"], "DeadlineExceeded");
    assert_eq!(ended["status"]["message"], "Pod was active on the node longer than the specified deadline");
    world.until_event("slow", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
}

#[test]
fn last_words_come_from_the_message_file_or_the_log() {
    let world = World::start(&[]);
    world.create(&pod("file", "echo in the log; echo in the file > /dev/termination-log; exit 1"));
    let log = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    world.create(&pod("log", "echo the log; exit 1").main(log.clone()));
    world.create(&pod("well", "echo the log").main(log));
    world.create(&pod("other", "echo there > /tmp/words").main(json!({"terminationMessagePath": "/tmp/words"})));
    for (name, phase, message) in [
        ("file", "Failed", json!("in the file\n")),
        ("log", "Failed", json!("the log\n")),
        ("well", "Succeeded", Value::Null),
        ("other", "Succeeded", json!("there\n")),
    ] {
        let ended = world.until_phase(name, phase);
        assert_eq!(container(&ended)["state"]["terminated"]["message"], message, "{name}");
    }
}

#[test]
fn events_tell_the_story_in_order() {
    let world = World::start(&[]);
    load_busybox(&world);
    world.create(
        &pod("told", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done").main(json!({"image": BUSYBOX})),
    );
    world.until_logged("told", "up");
    world.until_event("told", "Started", "");
    assert_eq!(reasons(&world, "told"), ["Scheduled", "Pulled", "Created", "Started"]);
    world.until_event("told", "Scheduled", "Successfully assigned default/told to ");
    let described = world.kubectl(&["describe", "pod", "told"]);
    for part in [
        "Status:           Running", "Container ID:", "Ready:          True", "QoS Class:", "default-scheduler",
        "kubelet",
    ] {
        assert!(described.contains(part), "{part:?} is not in:\n{described}");
    }
    world.delete("told", 5);
    world.until_event("told", "Killing", "Stopping container main");
    world.until_gone("told");
}

#[test]
fn a_pod_that_asks_for_too_much_waits_with_the_numbers() {
    let world = World::start(&["--fake-gpus", "2"]);
    world.create(&pod("large", "true").main(json!({"resources": {"limits": {"cpu": "10000"}}})));
    world.create(&pod("gpus", "true").main(json!({"resources": {"limits": {"nvidia.com/gpu": 3}}})));
    world.until_event("large", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu");
    world.until_event("gpus", "FailedScheduling", "Insufficient nvidia.com/gpu");
    assert_eq!(world.word("gpus"), "Pending");
}

#[test]
fn jobs_and_deployments_run() {
    let world = World::start(&[]);
    let template = |name: &str, script: &str, policy: &str| {
        let mut template = pod(name, script).spec(json!({"restartPolicy": policy}));
        template["metadata"] = json!({"labels": {"app": name}});
        json!({"metadata": template["metadata"], "spec": template["spec"]})
    };
    let spec = json!({"completions": 3, "parallelism": 2, "template": template("job", "echo done", "Never")});
    world.create(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec}));
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", "exec sleep 1000", "Always")});
    world.apply(
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}).to_string(),
    );
    world.kubectl(&["wait", "--for=condition=complete", "job/job", "--timeout=60s"]);
    world.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert_eq!(world.kubectl(&["logs", "job/job"]).lines().last(), Some("done"));
    world.kubectl(&["delete", "deployment/web", "job/job", "--timeout=60s"]);
    eventually("all pods are gone", || world.pods().is_empty().then_some(()));
}
