//! Security contexts: as asked for, or an error; never silently less.

use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, container, pod};
use serde_json::{Value, json};

fn secured(name: &str, script: &str, context: Value) -> Value {
    pod(name, script).main(json!({"image": BUSYBOX, "securityContext": context}))
}

fn world() -> World {
    let world = World::start(&[]);
    load_busybox(&world);
    world
}

#[test]
fn users_and_groups_are_as_asked_for() {
    let world = world();
    let ids = "id -u; id -g; id -G";
    world.create(&secured("number", ids, json!({"runAsUser": 1234, "runAsGroup": 2345})));
    world.create(&secured("default", ids, json!({})));
    let mut grouped = secured("grouped", "id -u; id -G; touch /v/x; stat -c '%u %g' /v/x", json!({"runAsUser": 1000}));
    grouped["spec"]["securityContext"] = json!({"supplementalGroups": [4000], "fsGroup": 5000});
    grouped["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    grouped["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    world.create(&grouped);
    for (name, printed) in [("number", "1234\n2345\n2345\n"), ("default", "0\n0\n0\n")] {
        world.until_phase(name, "Succeeded");
        assert_eq!(world.logs(name), printed, "{name}");
    }
    world.until_phase("grouped", "Succeeded");
    let logs = world.logs("grouped");
    let lines: Vec<&str> = logs.lines().collect();
    let groups: Vec<&str> = lines[1].split(' ').collect();
    assert_eq!((lines[0], lines[2]), ("1000", "1000 5000"), "{logs}");
    assert!(groups.contains(&"4000") && groups.contains(&"5000") && groups.contains(&"1001"), "{logs}");
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let world = world();
    world.create(&secured("refused", "true", json!({"runAsNonRoot": true})));
    world.until_word("refused", "CreateContainerConfigError");
    let message = container(&world.pod("refused"))["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("container has runAsNonRoot and image will run as root (pod: \"refused_default("),
        "{message}"
    );
    world.create(&secured("allowed", "id -u", json!({"runAsNonRoot": true, "runAsUser": 1})));
    world.until_phase("allowed", "Succeeded");
}

#[test]
fn the_root_can_be_read_only_and_powers_can_be_dropped() {
    let world = world();
    let script = "touch /x 2>/dev/null || echo read-only; touch /tmp/x 2>/dev/null || echo read-only";
    world.create(&secured("read-only", script, json!({"readOnlyRootFilesystem": true})));
    let script = "grep -E 'CapEff|CapBnd' /proc/self/status; chown 5 /tmp 2>/dev/null || echo no chown";
    world.create(&secured("dropped", script, json!({"capabilities": {"drop": ["ALL"]}})));
    let one = json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}});
    world.create(&secured("one", "grep CapEff /proc/self/status", one));
    let script = "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status";
    let none = json!({"allowPrivilegeEscalation": false, "seccompProfile": {"type": "RuntimeDefault"}});
    world.create(&secured("no-new", script, none));
    for (name, printed) in [
        ("read-only", "read-only\nread-only\n"),
        ("dropped", "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nno chown\n"),
        ("one", "CapEff:\t0000000000000400\n"),
        ("no-new", "NoNewPrivs:\t1\nSeccomp:\t2\n"),
    ] {
        world.until_phase(name, "Succeeded");
        assert_eq!(world.logs(name), printed, "{name}");
    }
}

#[test]
fn what_the_machine_cannot_do_is_an_error() {
    let world = world();
    world.create(&secured(
        "profile",
        "true",
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "none.json"}}),
    ));
    let failed = world.until_pod("profile", "an error", |pod| {
        container(pod)["state"]["waiting"]["reason"] == "CreateContainerConfigError"
            || container(pod)["state"]["waiting"]["reason"] == "CreateContainerError"
            || container(pod)["state"]["waiting"]["reason"] == "RunContainerError"
    });
    let message = container(&failed)["state"]["waiting"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("none.json"), "{message}");
}

#[test]
fn a_pod_cannot_see_or_touch_the_machine() {
    let world = world();
    let script = "ps | grep -c . ; cat /proc/1/comm; hostname; echo x > /etc/volley-scribble; cat /etc/volley-scribble";
    world.create(&pod("apart", script));
    world.until_phase("apart", "Succeeded");
    let logs = world.logs("apart");
    let lines: Vec<&str> = logs.lines().collect();
    assert!(lines[0].parse::<u32>().unwrap() < 10, "{logs}");
    assert_eq!(lines[1..], ["sh", "apart", "x"], "{logs}");
    assert!(!std::path::Path::new("/etc/volley-scribble").exists());
}
