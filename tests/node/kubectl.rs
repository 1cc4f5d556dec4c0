//! kubectl against running pods: logs, exec, attach, cp, port-forward, top, drain; the core ones with every version.

use crate::command::{Running, eventually, finish};
use crate::http;
use crate::installed::{Kubectl, kubectls, newest};
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, container, pod};
use serde_json::json;

/// A world with one pod that serves its `/www` and ticks into its log.
fn world() -> World {
    let world = World::start(&[]);
    load_busybox(&world);
    let script =
        "mkdir /www; echo served > /www/index.html; httpd -p 8080 -h /www; echo up; echo problem >&2; exec sleep 1000";
    world.create(&pod("web", script).main(json!({"image": BUSYBOX})).meta(json!({"labels": {"app": "web"}})));
    world.until_logged("web", "problem");
    world
}

#[track_caller]
fn ok(world: &World, kubectl: &Kubectl, args: &[&str], stdin: &str) -> String {
    let output = finish(world.kubectl_with(kubectl, args), stdin);
    assert_eq!(output.code, 0, "kubectl 1.{} {args:?}: {}{}", kubectl.minor, output.stdout, output.stderr);
    output.stdout
}

// K-EXEC-1 K-EXEC-2 K-WS-1 K-WS-3 K-SPDY-1 K-SPDY-3
#[test]
fn every_kubectl_runs_commands_in_a_pod() {
    let world = world();
    let large = "0123456789abcdef\n".repeat(60_000);
    for kubectl in kubectls() {
        assert_eq!(ok(&world, kubectl, &["exec", "web", "--", "echo", "hello"], ""), "hello\n");
        assert_eq!(ok(&world, kubectl, &["exec", "-i", "web", "--", "cat"], &large), large, "1.{}", kubectl.minor);
        let both = finish(
            world.kubectl_with(kubectl, &["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]),
            "",
        );
        assert_eq!((both.code, both.stdout.as_str()), (3, "out\n"), "{}", both.stderr);
        assert!(both.stderr.starts_with("err\n") && both.stderr.contains("exit code 3"), "{}", both.stderr);
        let absent = finish(world.kubectl_with(kubectl, &["exec", "web", "-c", "none", "--", "true"]), "");
        assert!(
            absent.code != 0 && absent.stderr.contains("container none is not valid for pod web"),
            "{}",
            absent.stderr
        );
        let unknown = finish(world.kubectl_with(kubectl, &["exec", "web", "--", "no-such-program"]), "");
        assert!(unknown.code != 0 && unknown.stderr.contains("no-such-program"), "{}", unknown.stderr);
    }
    assert!(world.kubectl_fails(&["exec", "absent", "--", "true"]).contains(r#"pods "absent" not found"#));
}

#[test]
fn every_kubectl_copies_files_both_ways() {
    let world = world();
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| u8::try_from(number * 7 % 251).unwrap()).collect();
    std::fs::write(world.folder.path().join("sent"), &content).unwrap();
    for kubectl in kubectls() {
        ok(&world, kubectl, &["cp", "sent", "web:/tmp/there"], "");
        ok(&world, kubectl, &["cp", "web:/tmp/there", "back"], "");
        assert!(std::fs::read(world.folder.path().join("back")).unwrap() == content, "kubectl 1.{}", kubectl.minor);
        std::fs::remove_file(world.folder.path().join("back")).unwrap();
    }
}

fn forward(world: &World, kubectl: &Kubectl) -> (Running, String) {
    let forward = Running::start(world.kubectl_with(kubectl, &["port-forward", "web", ":8080"]));
    let line = forward.line();
    let address = line.split(' ').nth(2).unwrap_or_default().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    (forward, address)
}

// K-SPDY-4 K-SPDY-5 K-PF-1
#[test]
fn every_kubectl_forwards_a_hundred_connections_at_once() {
    let world = world();
    for kubectl in kubectls() {
        let (_forward, address) = forward(&world, kubectl);
        let count = if kubectl == newest() || kubectl == &kubectls()[0] { 100 } else { 5 };
        let fetches: Vec<_> = (0..count)
            .map(|_| {
                let address = address.clone();
                std::thread::spawn(move || http::get(&address, "/index.html").map(|answer| answer.text()))
            })
            .collect();
        for fetch in fetches {
            assert_eq!(fetch.join().unwrap().unwrap(), "served\n", "kubectl 1.{}", kubectl.minor);
        }
    }
}

// K-LOG-1 K-LOG-3
#[test]
fn every_kubectl_follows_a_log_to_its_end() {
    let world = world();
    for kubectl in kubectls() {
        let name = format!("talks-{}", kubectl.minor);
        let script = "echo first; until [ -e /tmp/go ]; do sleep 0.05; done; echo last";
        world.create(&pod(&name, script).main(json!({"image": BUSYBOX})));
        world.until_logged(&name, "first");
        let follows = Running::start(world.kubectl_with(kubectl, &["logs", "-f", &name]));
        assert_eq!(follows.line(), "first");
        // The exit code says nothing: the end of the pod may take the command with it.
        world.exec(&name, "touch /tmp/go");
        assert_eq!(follows.line(), "last");
        assert_eq!(follows.end(), 0);
        world.until_phase(&name, "Succeeded");
        assert_eq!(ok(&world, kubectl, &["logs", &name], ""), "first\nlast\n");
    }
}

// K-LOG-1 K-LOG-2 K-LOG-4 K-CT-2
#[test]
fn logs_have_all_their_flags() {
    let world = world();
    let second = json!({"name": "side", "image": BUSYBOX, "command": ["sh", "-c", "echo beside; sleep 1000"]});
    let mut object =
        pod("talks", "for n in 1 2 3 4 5; do echo line $n; done; exec sleep 1000").main(json!({"image": BUSYBOX}));
    object["spec"]["containers"].as_array_mut().unwrap().push(second);
    world.create(&object.meta(json!({"labels": {"app": "talks"}})));
    world.until_ready("talks");
    eventually("all is printed", || world.logs_of("talks", "container=main").contains("line 5").then_some(()));
    eventually("all is printed", || world.logs_of("talks", "container=side").contains("beside").then_some(()));
    let logs = |args: &[&str]| world.kubectl(&[&["logs", "talks"], args].concat());
    assert_eq!(logs(&["-c", "main", "--tail=2"]), "line 4\nline 5\n");
    assert_eq!(logs(&["-c", "main", "--tail=0"]), "");
    assert_eq!(logs(&["-c", "main", "--limit-bytes=10"]), "line 1\nlin");
    assert_eq!(logs(&["-c", "main", "--since=1h"]).lines().count(), 5);
    assert_eq!(logs(&["-c", "main", "--since-time=2999-01-01T00:00:00Z"]), "");
    let stamped = logs(&["-c", "main", "--timestamps", "--tail=1"]);
    let (time, rest) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && rest == "line 5\n", "{stamped}");
    // kubectl takes the containers in no order.
    let prefixed = logs(&["--all-containers", "--prefix", "--tail=1"]);
    let prefixed: std::collections::BTreeSet<&str> = prefixed.lines().collect();
    assert_eq!(prefixed, ["[pod/talks/main] line 5", "[pod/talks/side] beside"].into());
    assert_eq!(world.kubectl(&["logs", "-l", "app=talks", "-c", "main", "--tail=1"]), "line 5\n");
    let defaulted = world.run(&["logs", "talks", "--tail=1"]);
    assert_eq!((defaulted.stdout.as_str(), defaulted.code), ("line 5\n", 0));
    assert!(defaulted.stderr.contains(r#"Defaulted container "main" out of: main, side"#), "{}", defaulted.stderr);
    let previous = world.kubectl_fails(&["logs", "talks", "-c", "main", "--previous"]);
    assert!(previous.contains(r#"previous terminated container "main" in pod "talks" not found"#), "{previous}");
    let unnamed = world.logs("talks");
    assert!(
        unnamed.contains("a container name must be specified for pod talks, choose one of: [main side]"),
        "{unnamed}"
    );
    let answer = world.ask("GET", "/api/v1/namespaces/default/pods/talks/log?container=main", None).unwrap();
    assert_eq!((answer.code, answer.header("content-type")), (200, "text/plain"));
}

#[test]
fn attach_joins_what_runs() {
    let world = world();
    let reads = json!({"image": BUSYBOX, "stdin": true, "stdinOnce": true});
    world.create(&pod("reads", "echo ready; while read line; do echo got $line; done; echo end").main(reads));
    world.until_logged("reads", "ready");
    let attached = finish(world.kubectl_with(newest(), &["attach", "-i", "reads"]), "one\ntwo\n");
    assert!(attached.stdout.contains("got one\ngot two\n"), "{}{}", attached.stdout, attached.stderr);
    world.until_phase("reads", "Succeeded");
    assert!(world.logs("reads").ends_with("got one\ngot two\nend\n"), "{}", world.logs("reads"));
}

#[test]
fn every_kubectl_runs_a_pod_and_shows_its_output() {
    let world = world();
    for kubectl in kubectls() {
        let name = format!("once-{}", kubectl.minor);
        let args = [
            "run", &name, "--image", BUSYBOX, "--restart=Never", "--rm", "-i", "-q", "--", "sh", "-c",
            "read x; echo got $x",
        ];
        let printed = ok(&world, kubectl, &args, "words\n");
        assert!(printed.contains("got words"), "kubectl 1.{}: {printed}", kubectl.minor);
        world.until_gone(&name);
    }
}

#[test]
fn a_running_pod_can_be_debugged() {
    let world = world();
    let args = [
        "debug", "web", "--image", BUSYBOX, "--target=main", "-c", "look", "--", "sh", "-c", "hostname; ps; sleep 1000",
    ];
    world.kubectl(&args);
    let seen = world.until_pod("web", "the debugger runs", |pod| {
        pod["status"]["ephemeralContainerStatuses"][0]["state"]["running"].is_object()
    });
    assert_eq!(container(&seen)["restartCount"], 0);
    eventually("it printed", || world.logs_of("web", "container=look").contains("httpd").then_some(()));
    assert!(world.logs_of("web", "container=look").starts_with("web\n"));
}

#[test]
fn top_shows_what_is_used() {
    let world = world();
    let top = |what: &str| {
        let output = world.run(&["top", what, "--no-headers"]);
        (output.code == 0 && !output.stdout.trim().is_empty()).then_some(output.stdout)
    };
    let pods = eventually("metrics of pods", || top("pod"));
    let cells: Vec<&str> = pods.split_whitespace().collect();
    assert!(cells[0] == "web" && cells[1].ends_with('m') && cells[2].ends_with("Mi"), "{pods}");
    let nodes = eventually("metrics of nodes", || top("node"));
    assert!(nodes.split_whitespace().nth(2).unwrap().ends_with('%'), "{nodes}");
}

#[test]
fn a_node_can_be_cordoned_drained_and_taken_back() {
    let world = world();
    let node = world.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]);
    assert!(world.kubectl(&["get", "nodes", "--no-headers"]).contains(" Ready "));
    world.kubectl(&["cordon", &node]);
    assert!(world.kubectl(&["get", "nodes"]).contains("Ready,SchedulingDisabled"));
    world.create(&pod("waits", "true"));
    world.until_event("waits", "FailedScheduling", "unschedulable");
    world.kubectl(&["drain", &node, "--force", "--timeout=60s"]);
    assert!(world.pod("web").is_null());
    world.kubectl(&["uncordon", &node]);
    world.kubectl(&["wait", "pod/waits", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"]);
    let described = world.kubectl(&["describe", "node", &node]);
    for part in ["Capacity:", "Allocatable:", "Container Runtime Version:", "MemoryPressure", "Allocated resources:"] {
        assert!(described.contains(part), "{part} is not in:\n{described}");
    }
}
