//! Probes and lifecycle hooks: what asks a container, and what is made of the answer.

use crate::command::eventually;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, condition, container, pod};
use serde_json::json;

fn flips(world: &World, name: &str) {
    world.until_pod(name, "running", |pod| container(pod)["state"]["running"].is_object());
    assert_eq!(container(&world.pod(name))["ready"], false);
    assert_eq!(world.exec(name, "touch /tmp/ready").code, 0);
    world.until_ready(name);
    assert_eq!(world.exec(name, "rm /tmp/ready").code, 0);
    let unready = world.until_pod(name, "not ready", |pod| condition(pod, "Ready")["status"] == "False");
    assert_eq!(condition(&unready, "Ready")["message"], "containers with unready status: [main]");
    assert_eq!(container(&unready)["restartCount"], 0);
}

#[test]
fn readiness_follows_the_probes() {
    let world = World::start(&[]);
    load_busybox(&world);
    let probe = |what: serde_json::Value| {
        let mut probe = json!({"periodSeconds": 1, "failureThreshold": 1});
        probe.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        json!({"image": BUSYBOX, "readinessProbe": probe})
    };
    let by_exec = probe(json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}}));
    world.create(&pod("by-exec", "exec sleep 1000").main(by_exec));
    let by_http = probe(json!({"httpGet": {"port": 8080, "path": "/ready"}}));
    world.create(&pod("by-http", "cd /tmp && exec httpd -f -p 8080").main(by_http));
    let listen = "while :; do if [ -e /tmp/ready ]; then timeout 1 nc -l -p 9000; else sleep 0.1; fi; done";
    world.create(&pod("by-tcp", listen).main(probe(json!({"tcpSocket": {"port": 9000}}))));
    for name in ["by-exec", "by-http"] {
        flips(&world, name);
    }
    world.until_event("by-http", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404");
    world.until_event("by-tcp", "Unhealthy", "Readiness probe failed: dial tcp ");
    assert_eq!(world.exec("by-tcp", "touch /tmp/ready").code, 0);
    world.until_ready("by-tcp");
}

#[test]
fn a_container_that_is_not_alive_is_started_again() {
    let world = World::start(&[]);
    let probe =
        json!({"exec": {"command": ["sh", "-c", "echo no life; exit 1"]}, "periodSeconds": 1, "failureThreshold": 2});
    let dead = pod("dead", "trap '' TERM; echo up; while :; do sleep 0.1; done");
    world.create(&dead.main(json!({"livenessProbe": probe})).spec(json!({"restartPolicy": "Always"})));
    let again = world.until_pod("dead", "a restart", |pod| container(pod)["restartCount"] == 1);
    assert_eq!(container(&again)["lastState"]["terminated"]["exitCode"], 137);
    world.until_event("dead", "Unhealthy", "Liveness probe failed: no life");
    world.until_event("dead", "Killing", "Container main failed liveness probe, will be restarted");
}

#[test]
fn a_startup_probe_holds_the_others_back() {
    let world = World::start(&[]);
    load_busybox(&world);
    let startup = json!({"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 60});
    let liveness = json!({"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 1});
    world.create(
        &pod("slow", "exec sleep 1000")
            .main(json!({"image": BUSYBOX, "startupProbe": startup, "livenessProbe": liveness})),
    );
    world.until_event("slow", "Unhealthy", "Startup probe failed");
    assert_eq!(container(&world.pod("slow"))["started"], false);
    assert_eq!(world.exec("slow", "touch /tmp/up").code, 0);
    let ready = world.until_ready("slow");
    assert_eq!((&container(&ready)["started"], &container(&ready)["restartCount"]), (&json!(true), &json!(0)));
}

#[test]
fn hooks_run_after_the_start_and_before_the_stop() {
    let world = World::start(&[]);
    let shared = world.folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let hook = |script: &str| json!({"exec": {"command": ["sh", "-c", script]}});
    let lifecycle = json!({"postStart": hook("echo started >> /shared/diary"), "preStop": hook("echo stopping >> /shared/diary; sleep 0.3; echo stopped >> /shared/diary")});
    let mounts = json!([{"name": "shared", "mountPath": "/shared"}]);
    let volumes = json!([{"name": "shared", "hostPath": {"path": shared}}]);
    let hooked = pod("hooked", "trap 'echo term >> /shared/diary; exit 0' TERM; while :; do sleep 0.05; done");
    let hooked = hooked.main(json!({"lifecycle": lifecycle, "volumeMounts": mounts}));
    world.create(&hooked.spec(json!({"volumes": volumes, "terminationGracePeriodSeconds": 30})));
    world.until_ready("hooked");
    let diary = || std::fs::read_to_string(shared.join("diary")).unwrap_or_default();
    eventually("the start hook has run", || (diary() == "started\n").then_some(()));
    world.delete("hooked", 30);
    world.until_gone("hooked");
    assert_eq!(diary(), "started\nstopping\nstopped\nterm\n");
    let failing = pod("failing", "sleep 1000").main(json!({"lifecycle": {"postStart": hook("exit 1")}}));
    world.create(&failing);
    world.until_event("failing", "FailedPostStartHook", "PostStartHook failed");
}
