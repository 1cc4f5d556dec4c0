//! The same program as an ordinary user: containers in a user namespace, on the machine's own network.

use crate::command::eventually;
use crate::http;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{NOBODY, Say, World, condition, container, pod};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;

fn world(flags: &[&str]) -> World {
    let world = World::start_as(false, "cluster", flags);
    load_busybox(&world);
    world
}

fn oci(name: &str, script: &str) -> Value {
    pod(name, script).main(json!({"image": BUSYBOX}))
}

#[test]
fn pods_of_both_kinds_run_without_root() {
    let world = world(&[]);
    world.create(&pod("plain", "echo on the machine; id -u"));
    world.create(&oci("oci", "echo from $FROM; exec sleep 1000"));
    world.until_phase("plain", "Succeeded");
    assert_eq!(world.logs("plain"), "on the machine\n0\n");
    world.until_ready("oci");
    world.until_logged("oci", "from image\n");
    assert_eq!(world.exec("oci", "echo $((6 * 7)); exit 3").code, 3);
    let own: Vec<u32> = world
        .traces()
        .processes()
        .iter()
        .filter_map(|process| Some(std::fs::metadata(format!("/proc/{}", process.pid)).ok()?.uid()))
        .collect();
    assert!(!own.is_empty() && own.iter().all(|uid| *uid == NOBODY), "{own:?}");
    let node = world.kubectl(&["describe", "nodes"]);
    assert!(node.contains("rootless"), "{node}");
    world.create(&oci("fails", "exit 4"));
    let failed = world.until_phase("fails", "Failed");
    assert_eq!(container(&failed)["state"]["terminated"]["exitCode"], 4);
}

#[test]
fn probes_restarts_volumes_and_grace_work_without_root() {
    let world = world(&[]);
    let probe = json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 1});
    world.create(&oci("probed", "exec sleep 1000").main(json!({"readinessProbe": probe})));
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let counts = oci("counts", "echo x >> /v/n; [ $(wc -l < /v/n) = 2 ]").main(json!({"volumeMounts": mounts}));
    world.create(&counts.spec(json!({"restartPolicy": "OnFailure", "volumes": [{"name": "v", "emptyDir": {}}]})));
    world.create(&oci("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done"));
    let counted = world.until_phase("counts", "Succeeded");
    assert_eq!(container(&counted)["restartCount"], 1);
    world.until_phase("probed", "Running");
    assert_eq!(world.exec("probed", "touch /tmp/ready").code, 0);
    world.until_ready("probed");
    world.until_logged("deaf", "up");
    world.delete("deaf", 1);
    world.until_gone("deaf");
    assert_eq!(condition(&world.pod("probed"), "Ready")["status"], "True");
}

// K-SVC-3
#[test]
fn each_pod_has_an_address_and_a_name_without_root() {
    let world = world(&[]);
    world.create(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "team"},
        "spec": {"clusterIP": "None", "selector": {"team": "a"}, "publishNotReadyAddresses": true}}));
    let script = "mkdir -p /tmp/www; hostname > /tmp/www/name; exec httpd -f -p $ADDRESS:23456 -h /tmp/www";
    let env = json!([{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    for name in ["one", "two"] {
        let served = oci(name, script).main(json!({"env": env})).meta(json!({"labels": {"team": "a"}}));
        world.create(&served.spec(json!({"hostname": name, "subdomain": "team"})));
    }
    for name in ["one", "two"] {
        let address = world.until_ready(name)["status"]["podIP"].as_str().unwrap().to_owned();
        let fetch = || http::get(&format!("{address}:23456"), "/name").ok().map(|answer| answer.text());
        assert_eq!(eventually("it answers", fetch).trim(), name);
    }
    let ask = || world.exec("one", "timeout 5 wget -qO- http://two.team:23456/name").stdout;
    assert_eq!(eventually("the name is found", || Some(ask()).filter(|answer| !answer.is_empty())), "two\n");
}

#[test]
fn gpus_are_counted_and_pods_adopted_without_root() {
    let mut world = world(&["--fake-gpus", "2"]);
    let resources = json!({"limits": {"nvidia.com/gpu": 2}});
    world.create(&oci("holds", "echo up; exec sleep 1000").main(json!({"resources": resources})));
    world.until_logged("holds", "up");
    world.create(&oci("waits", "true").main(json!({"resources": resources})));
    world.until_event("waits", "FailedScheduling", "Insufficient nvidia.com/gpu");
    let before = container(&world.until_ready("holds"))["containerID"].clone();
    world.kill();
    world.up();
    let after = world.until_ready("holds");
    assert_eq!((&container(&after)["containerID"], &container(&after)["restartCount"]), (&before, &json!(0)));
    world.delete("holds", 1);
    world.until_phase("waits", "Succeeded");
}

#[test]
fn what_cannot_be_had_without_root_is_refused_with_its_reason() {
    let world = world(&[]);
    let told = |name: &str| {
        let pod = world.until_pod(name, "refused", |pod| {
            pod["status"]["phase"] == "Failed" || !container(pod)["state"]["waiting"]["message"].is_null()
        });
        format!("{}{:?}", pod["status"], world.events(name))
    };
    world.create(&oci("grouped", "true").spec(json!({"securityContext": {"supplementalGroups": [7]}})));
    assert!(told("grouped").contains("the groups [7] cannot be joined"), "{}", told("grouped"));
}
