//! Pods from their first action to their last, played on a pretend runtime. Read in order, it is the manual.

use super::pretend::{Machine, at};
use super::seen::{Eviction, HookSeen, ProbeKind, Rejection, Trouble, Volumes};
use serde_json::{Value, json};

fn machine(spec: Value) -> Machine {
    let mut machine = Machine::new(spec);
    machine.settle();
    machine
}

fn one(policy: &str, container: Value) -> Value {
    let mut container = container;
    container["name"] = json!("c");
    json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 30, "containers": [container]})
}

/// What was done since the last call.
fn done(machine: &mut Machine) -> Vec<String> {
    std::mem::take(&mut machine.done)
}

#[test]
fn a_pod_that_runs_needs_nothing_even_after_the_node_restarts() {
    let mut machine = machine(one("Always", json!({})));
    done(&mut machine);
    assert_eq!(machine.plan(), Default::default());
}

#[test]
fn a_pod_starts_with_volumes_then_sandbox_then_image_then_container() {
    let mut machine = machine(one("Always", json!({})));
    assert_eq!(done(&mut machine), ["mount", "sandbox 1", "pull c", "start c 0"]);
}

#[test]
fn main_containers_start_in_their_order() {
    let mut machine = machine(json!({"containers": [{"name": "b"}, {"name": "a"}]}));
    assert_eq!(done(&mut machine)[2..], ["pull b", "pull a", "start b 0", "start a 0"]);
}

#[test]
fn init_containers_run_one_after_the_other_before_the_main_ones() {
    let mut machine =
        machine(json!({"initContainers": [{"name": "i1"}, {"name": "i2"}], "containers": [{"name": "c"}]}));
    assert_eq!(done(&mut machine)[2..], ["pull i1", "start i1 0"]);
    machine.exit("i1", 0);
    assert_eq!(done(&mut machine), ["pull i2", "start i2 0"]);
    machine.exit("i2", 0);
    assert_eq!(done(&mut machine), ["pull c", "start c 0"]);
}

#[test]
fn a_failed_init_container_is_tried_again_or_fails_the_pod() {
    let init = json!([{"name": "i"}]);
    let spec = |policy: &str| json!({"restartPolicy": policy, "initContainers": init, "containers": [{"name": "c"}]});
    let mut patient = machine(spec("OnFailure"));
    patient.exit("i", 1);
    assert_eq!(patient.done.last().unwrap(), "start i 1");
    let mut strict = machine(spec("Never"));
    strict.exit("i", 1);
    assert_eq!(strict.done[strict.done.len() - 2..], ["tear down", "unmount"]);
    assert_eq!(strict.phase(), "Failed");
}

#[test]
fn a_sidecar_lets_the_next_start_when_its_startup_probe_has_succeeded() {
    let sidecar = json!({"name": "s", "restartPolicy": "Always", "startupProbe": {"periodSeconds": 1}});
    let mut machine = Machine::new(json!({"initContainers": [sidecar, {"name": "i"}], "containers": [{"name": "c"}]}));
    machine.failing_probes.insert(("s".to_owned(), ProbeKind::Startup));
    machine.pass(1);
    assert!(machine.is_running("s") && !machine.is_running("i"));
    machine.failing_probes.clear();
    machine.pass(1);
    assert!(machine.is_running("i") && !machine.is_running("c"));
    machine.exit("i", 0);
    assert!(machine.is_running("s") && machine.is_running("c"));
}

#[test]
fn a_sidecar_that_ends_starts_again_even_in_a_pod_that_never_restarts() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c"}],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    let mut machine = machine(spec);
    machine.exit("s", 0);
    assert_eq!(machine.done.last().unwrap(), "start s 1");
}

#[test]
fn sidecars_stop_after_the_main_containers_in_reverse_order() {
    let sidecars = json!([{"name": "s1", "restartPolicy": "Always"}, {"name": "s2", "restartPolicy": "Always"}]);
    let mut machine =
        machine(json!({"restartPolicy": "Never", "initContainers": sidecars, "containers": [{"name": "c"}]}));
    done(&mut machine);
    machine.exit("c", 0);
    let expected = ["stop s2 30", "stop s1 30", "signal s2", "signal s1", "tear down", "unmount"];
    assert_eq!(done(&mut machine), expected);
    assert_eq!(machine.phase(), "Succeeded");
}

#[test]
fn a_sidecar_waits_for_its_turn_only_as_long_as_the_grace_lasts() {
    let spec = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]});
    let mut machine = machine(spec);
    machine.stubborn.extend(["c".to_owned(), "s".to_owned()]);
    done(&mut machine);
    machine.delete(5);
    assert_eq!(done(&mut machine), ["stop c 5", "stop s 5", "signal c"]);
    machine.pass(5);
    assert_eq!(done(&mut machine), ["kill c", "signal s"]);
    machine.pass(2);
    assert_eq!(done(&mut machine)[0], "kill s");
}

#[test]
fn restart_policies() {
    let cases = [("Always", 0, true), ("Always", 1, true), ("OnFailure", 0, false), ("OnFailure", 1, true)];
    for (policy, code, is_restarted) in cases.into_iter().chain([("Never", 0, false), ("Never", 1, false)]) {
        let mut machine = machine(one(policy, json!({})));
        machine.exit("c", code);
        assert_eq!(machine.is_running("c"), is_restarted, "{policy} {code}");
    }
}

// K-POD-2
#[test]
fn a_crashing_container_starts_again_at_once_then_after_10_20_and_40_seconds() {
    let mut machine = machine(one("Always", json!({})));
    let mut waited = Vec::new();
    for _ in 0..4 {
        machine.exit("c", 1);
        let since = machine.second;
        while !machine.is_running("c") {
            machine.pass(1);
        }
        waited.push(machine.second - since);
    }
    assert_eq!(waited, [0, 10, 20, 40]);
}

#[test]
fn an_image_that_cannot_be_pulled_is_tried_again_with_growing_delays() {
    let mut machine = Machine::new(one("Always", json!({})));
    machine.unpullable.insert("c".to_owned());
    machine.pass(31);
    assert_eq!(done(&mut machine)[2..], ["pull c", "pull c", "pull c"]);
    machine.unpullable.clear();
    machine.pass(40);
    assert!(machine.is_running("c"));
}

#[test]
fn pull_policies_never_pulls_nothing_and_always_pulls_before_each_start() {
    let mut never = machine(one("Always", json!({"imagePullPolicy": "Never"})));
    assert_eq!(done(&mut never), ["mount", "sandbox 1"]);
    let mut always = machine(one("Always", json!({"imagePullPolicy": "Always"})));
    always.exit("c", 1);
    assert_eq!(done(&mut always)[2..], ["pull c", "start c 0", "pull c", "start c 1"]);
    let mut once = machine(one("Always", json!({"imagePullPolicy": "IfNotPresent"})));
    once.exit("c", 1);
    assert_eq!(done(&mut once)[2..], ["pull c", "start c 0", "start c 1"]);
}

#[test]
fn probes_run_after_their_delay_and_then_every_period() {
    let probe = json!({"initialDelaySeconds": 3, "periodSeconds": 2});
    let mut machine = machine(one("Always", json!({"readinessProbe": probe})));
    assert_eq!(machine.plan().next_at, Some(at(3)));
    done(&mut machine);
    machine.pass(7);
    assert_eq!(done(&mut machine), ["Readiness c", "Readiness c", "Readiness c"]);
}

#[test]
fn readiness_and_liveness_wait_for_the_startup_probe() {
    let probe = json!({"periodSeconds": 1});
    let mut machine = Machine::new(one("Always", json!({"startupProbe": probe, "livenessProbe": probe})));
    machine.failing_probes.insert(("c".to_owned(), ProbeKind::Startup));
    machine.pass(1);
    assert!(!machine.done.contains(&"Liveness c".to_owned()));
    machine.failing_probes.clear();
    machine.pass(1);
    assert!(machine.done.contains(&"Liveness c".to_owned()));
}

#[test]
fn failing_liveness_stops_the_container_with_the_probes_own_grace_and_starts_it_again() {
    let probe = json!({"periodSeconds": 1, "failureThreshold": 2, "terminationGracePeriodSeconds": 4});
    let mut machine = machine(one("Always", json!({"livenessProbe": probe})));
    machine.failing_probes.insert(("c".to_owned(), ProbeKind::Liveness));
    machine.stubborn.insert("c".to_owned());
    done(&mut machine);
    machine.pass(2);
    assert_eq!(done(&mut machine), ["Liveness c", "Liveness c", "stop c 4", "signal c"]);
    machine.failing_probes.clear();
    machine.pass(4);
    assert_eq!(done(&mut machine), ["kill c", "start c 1", "Liveness c"]);
}

#[test]
fn a_failing_startup_probe_restarts_the_container() {
    let mut machine = Machine::new(one("OnFailure", json!({"startupProbe": {"failureThreshold": 1}})));
    machine.failing_probes.insert(("c".to_owned(), ProbeKind::Startup));
    machine.exit_codes.insert("c".to_owned(), 0);
    machine.settle();
    // It left with code 0, but it is the node that wanted it to start anew.
    assert_eq!(machine.container("c").attempt().unwrap().number, 1);
    assert!(machine.done.contains(&"start c 1".to_owned()));
}

#[test]
fn later_containers_wait_for_the_post_start_hook_of_earlier_ones() {
    let hook = json!({"postStart": {"exec": {"command": ["true"]}}});
    let mut machine = Machine::new(json!({"containers": [{"name": "a", "lifecycle": hook}, {"name": "b"}]}));
    machine.slow_hooks.insert("a".to_owned());
    machine.settle();
    assert!(machine.is_running("a") && !machine.is_running("b"));
    machine.running("a").post_start = HookSeen::Done;
    machine.settle();
    assert!(machine.is_running("b"));
}

#[test]
fn a_container_that_cannot_start_blocks_no_later_one() {
    let hook = json!({"postStart": {"exec": {"command": ["true"]}}});
    let mut machine = Machine::new(json!({"containers": [{"name": "a", "lifecycle": hook}, {"name": "b"}]}));
    machine.unpullable.insert("a".to_owned());
    machine.settle();
    assert!(!machine.is_running("a") && machine.is_running("b"));
}

#[test]
fn a_failed_post_start_hook_ends_the_container() {
    let hook = json!({"postStart": {"exec": {"command": ["false"]}}});
    let mut machine = Machine::new(one("Never", json!({"lifecycle": hook})));
    machine.slow_hooks.insert("c".to_owned());
    machine.settle();
    machine.running("c").post_start = HookSeen::Failed("exit 1".to_owned());
    machine.settle();
    assert!(machine.done.contains(&"stop c 30".to_owned()));
    assert_eq!(machine.phase(), "Failed");
}

// K-POD-DEL-1
#[test]
fn deletion_runs_the_hook_then_signals_then_removes_the_pod() {
    let hook = json!({"preStop": {"exec": {"command": ["true"]}}});
    let mut machine = machine(one("Always", json!({"lifecycle": hook})));
    done(&mut machine);
    machine.delete(30);
    let expected = ["stop c 30", "preStop c", "signal c", "tear down", "unmount", "remove"];
    assert_eq!(done(&mut machine), expected);
}

// K-POD-DEL-1
#[test]
fn the_hooks_time_counts_as_grace_and_the_kill_follows_two_seconds_after_a_late_signal() {
    let hook = json!({"preStop": {"exec": {"command": ["sleep", "inf"]}}});
    let mut machine = machine(one("Always", json!({"lifecycle": hook})));
    machine.slow_hooks.insert("c".to_owned());
    machine.stubborn.insert("c".to_owned());
    done(&mut machine);
    machine.delete(10);
    machine.pass(9);
    assert_eq!(done(&mut machine), ["stop c 10", "preStop c"]);
    machine.pass(1);
    assert_eq!(done(&mut machine), ["signal c"]);
    machine.pass(2);
    assert_eq!(done(&mut machine), ["kill c", "tear down", "unmount", "remove"]);
}

// K-POD-DEL-2
#[test]
fn a_second_delete_can_only_shorten_the_grace() {
    let mut machine = machine(one("Always", json!({})));
    machine.stubborn.insert("c".to_owned());
    done(&mut machine);
    machine.delete(30);
    machine.pass(10);
    machine.delete(5);
    machine.pass(4);
    assert!(machine.is_running("c"));
    machine.pass(1);
    assert_eq!(done(&mut machine)[..4], ["stop c 30", "signal c", "stop c 5", "kill c"]);
}

// K-POD-DEL-2
#[test]
fn a_forced_deletion_still_gives_two_seconds_and_does_not_remove_the_object_again() {
    let mut machine = machine(one("Always", json!({})));
    machine.stubborn.insert("c".to_owned());
    done(&mut machine);
    machine.delete(0);
    machine.pass(2);
    assert_eq!(done(&mut machine), ["stop c 0", "signal c", "kill c", "tear down", "unmount"]);
}

#[test]
fn a_pod_past_its_deadline_ends_and_nothing_starts_again() {
    let mut machine = Machine::new(one("Always", json!({})));
    machine.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(20);
    machine.pass(19);
    assert!(machine.is_running("c"));
    machine.pass(100);
    assert_eq!(machine.done[machine.done.len() - 4..], ["stop c 30", "signal c", "tear down", "unmount"]);
    assert_eq!(machine.phase(), "Failed");
}

#[test]
fn an_evicted_pod_ends_with_the_evictions_grace() {
    let mut machine = machine(one("Always", json!({})));
    done(&mut machine);
    machine.seen.eviction =
        Some(Eviction { message: "The node was low on resource: memory. ".into(), grace_seconds: 1 });
    machine.pass(60);
    assert_eq!(done(&mut machine), ["stop c 1", "signal c", "tear down", "unmount"]);
}

#[test]
fn a_rejected_pod_starts_nothing() {
    let mut machine = Machine::new(one("Always", json!({})));
    machine.seen.rejected = Some(Rejection { reason: "OutOfcpu".into(), message: "no".into() });
    machine.pass(60);
    assert_eq!(done(&mut machine), Vec::<String>::new());
}

#[test]
fn a_lost_sandbox_is_made_again_and_init_containers_run_again() {
    let mut machine = machine(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}));
    machine.exit("i", 0);
    done(&mut machine);
    machine.lose_sandbox();
    assert_eq!(done(&mut machine), ["tear down", "sandbox 2", "start i 1"]);
    machine.exit("i", 0);
    assert_eq!(done(&mut machine), ["start c 1"]);
}

#[test]
fn a_pod_that_never_restarts_fails_with_its_sandbox() {
    let mut machine = machine(one("Never", json!({})));
    done(&mut machine);
    machine.lose_sandbox();
    assert_eq!(done(&mut machine), ["tear down", "unmount"]);
    assert_eq!(machine.phase(), "Failed");
}

#[test]
fn a_changed_image_restarts_the_container() {
    let mut machine = machine(one("Never", json!({})));
    done(&mut machine);
    machine.pod.spec.as_mut().unwrap().containers[0].image = Some("i:2".to_owned());
    machine.settle();
    assert_eq!(done(&mut machine), ["stop c 30", "signal c", "start c 1"]);
}

#[test]
fn an_ephemeral_container_starts_in_a_running_pod_runs_once_and_ends_with_it() {
    let mut machine = machine(one("Always", json!({})));
    done(&mut machine);
    for name in ["e1", "e2"] {
        let ephemeral = serde_json::from_value(json!({"name": name, "image": "i:2"})).unwrap();
        machine.pod.spec.as_mut().unwrap().ephemeral_containers.get_or_insert_default().push(ephemeral);
    }
    machine.settle();
    assert_eq!(done(&mut machine), ["pull e1", "pull e2", "start e1 0", "start e2 0"]);
    assert_eq!(machine.status()["ephemeralContainerStatuses"][0]["ready"], false);
    assert!(machine.status()["ephemeralContainerStatuses"][0].get("started").is_none());
    machine.exit("e1", 1);
    assert_eq!(done(&mut machine), Vec::<String>::new());
    assert_eq!(machine.status()["ephemeralContainerStatuses"][0]["state"]["terminated"]["reason"], "Error");
    assert_eq!(machine.status()["conditions"][2]["status"], "True", "the pod does not depend on it");
    machine.delete(30);
    assert!(machine.is_removed && !machine.is_running("e2"));
}

#[test]
fn volumes_that_fail_are_tried_again() {
    let mut machine = Machine::new(one("Always", json!({})));
    let message = "MountVolume.SetUp failed for volume \"v\" : configmap \"x\" not found".to_owned();
    machine.seen.volumes = Volumes::Failed(Trouble { reason: String::new(), message, at: at(0), failures: 3 });
    machine.settle();
    assert_eq!(done(&mut machine), Vec::<String>::new());
    machine.pass(2);
    assert!(machine.is_running("c"));
}

#[test]
fn a_container_that_could_not_be_created_is_tried_again_after_ten_seconds() {
    let mut machine = Machine::new(one("Always", json!({})));
    let (reason, message) = ("CreateContainerConfigError".to_owned(), "secret \"s\" not found".to_owned());
    let seen = machine.seen.containers.entry("c".to_owned()).or_default();
    seen.start_trouble = Some(Trouble { reason, message, at: at(0), failures: 1 });
    machine.pass(9);
    assert!(!machine.is_running("c"));
    machine.pass(1);
    assert!(machine.is_running("c"));
}

// K-POD-DEL-1 spec 16.2
#[test]
fn events_tell_the_life_of_a_pod() {
    let mut machine = machine(one("OnFailure", json!({})));
    machine.exit("c", 1);
    machine.exit("c", 1);
    machine.delete(1);
    let expected = [
        "Pulling Pulling image \"i:1\"",
        "Pulled Successfully pulled image \"i:1\" in 1.204s (1.31s including waiting). Image size: 77 bytes.",
        "Created Container created",
        "Started Container started",
        "Pulled Container image \"i:1\" already present on machine and can be accessed by the pod",
        "Created Container created",
        "Started Container started",
        "BackOff Back-off restarting failed container c in pod p_ns(u1)",
    ];
    assert_eq!(machine.told, expected);
}

// spec 16.2
#[test]
fn events_tell_of_sick_containers_and_missing_images() {
    let mut sick = machine(one("Always", json!({"livenessProbe": {"failureThreshold": 1, "periodSeconds": 5}})));
    sick.told.clear();
    sick.failing_probes.insert(("c".to_owned(), ProbeKind::Liveness));
    sick.pass(5);
    assert_eq!(
        sick.told[..2],
        ["Unhealthy Liveness probe failed: no", "Killing Container c failed liveness probe, will be restarted"]
    );
    let mut absent = Machine::new(one("Always", json!({})));
    absent.unpullable.insert("c".to_owned());
    absent.settle();
    let expected = [
        "Failed Failed to pull image \"i:1\": not found",
        "Failed Error: ErrImagePull",
        "BackOff Back-off pulling image \"i:1\"",
        "Failed Error: ImagePullBackOff",
    ];
    assert_eq!(absent.told, expected);
    let never = machine(one("Always", json!({"imagePullPolicy": "Never"})));
    let expected = "ErrImageNeverPull Container image \"i:1\" is not present with pull policy of Never";
    assert_eq!(never.told, [expected, "Failed Error: ErrImageNeverPull"]);
}
