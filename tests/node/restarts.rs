//! What is started again, when, and what is remembered of the run before.

use crate::world::{Say, World, container, pod};
use serde_json::json;

/// Counts its runs in a file that outlives them.
const COUNTING: &str = "n=$(cat /count/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > /count/n; echo run $n;";

fn counting(name: &str, rest: &str, policy: &str) -> serde_json::Value {
    let volumes = json!([{"name": "count", "emptyDir": {}}]);
    let mounts = json!([{"name": "count", "mountPath": "/count"}]);
    let counting = pod(name, &format!("{COUNTING} {rest}"));
    counting.main(json!({"volumeMounts": mounts})).spec(json!({"restartPolicy": policy, "volumes": volumes}))
}

#[test]
fn policies_decide_what_starts_again() {
    let world = World::start(&[]);
    world.create(&counting("never", "exit 1", "Never"));
    world.create(&counting("failure", "[ $n = 2 ]", "OnFailure"));
    world.create(&counting("always", "[ $n -lt 2 ] || sleep 1000", "Always"));
    let never = world.until_phase("never", "Failed");
    assert_eq!(container(&never)["restartCount"], 0);
    let failure = world.until_phase("failure", "Succeeded");
    assert_eq!(container(&failure)["restartCount"], 1);
    assert_eq!(world.logs("failure"), "run 2\n");
    let always = world.until_pod("always", "the second run", |pod| {
        container(pod)["restartCount"] == 1 && container(pod)["state"]["running"].is_object()
    });
    assert_eq!(container(&always)["lastState"]["terminated"]["exitCode"], 0);
    assert_eq!(world.logs_of("always", "previous=true"), "run 1\n");
    world.until_logged("always", "run 2");
}

// K-POD-2
#[test]
fn crashes_come_back_after_growing_pauses() {
    let world = World::start(&[]);
    world.create(&counting("crash", "exit 7", "Always"));
    world.until_word("crash", "CrashLoopBackOff");
    let waiting = world.pod("crash");
    let status = container(&waiting);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 7, "{status}");
    let message = status["state"]["waiting"]["message"].as_str().unwrap();
    assert!(message.starts_with("back-off 10s restarting failed container=main pod=crash_default("), "{message}");
    world.until_pod("crash", "a third run after ten seconds", |pod| container(pod)["restartCount"] == 2);
}
