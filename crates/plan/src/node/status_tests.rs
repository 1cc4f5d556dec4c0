//! What clients see at each moment of a pod's life: the table of spec K 16.1, row by row.

use super::pretend::{Machine, at, make_pod};
use super::seen::{Eviction, ProbeKind, Rejection, Seen};
use super::status::{HostFacts, status, tell_devices};
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Each condition as `Type=Status Reason: message`, without what is not there.
fn conditions(machine: &Machine) -> Vec<String> {
    let conditions = machine.status()["conditions"].as_array().cloned().unwrap();
    let line = |condition: &Value| {
        let mut line = format!("{}={}", condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap());
        for (key, before) in [("reason", " "), ("message", ": ")] {
            line += &condition[key].as_str().map(|text| format!("{before}{text}")).unwrap_or_default();
        }
        line
    };
    conditions.iter().map(line).collect()
}

fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "c"}]})
}

fn running(spec: Value) -> Machine {
    let mut machine = Machine::new(spec);
    machine.settle();
    machine
}

fn state(machine: &Machine) -> Value {
    machine.status()["containerStatuses"][0]["state"].clone()
}

// K-POD-1 K-POD-3
#[test]
fn accepted_by_the_node() {
    let mut machine = Machine::new(one("Always"));
    machine.report();
    assert_eq!(machine.phase(), "Pending");
    let unready = "ContainersNotReady: containers with unready status: [c]";
    let expected = [
        "PodReadyToStartContainers=False".to_owned(),
        "Initialized=True".to_owned(),
        format!("Ready=False {unready}"),
        format!("ContainersReady=False {unready}"),
        "PodScheduled=True".to_owned(),
    ];
    assert_eq!(conditions(&machine), expected);
    let status = machine.status();
    assert_eq!(state(&machine), json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!((&status["hostIP"], &status["startTime"]), (&json!("10.0.0.1"), &json!("2023-11-14T22:13:20Z")));
    assert_eq!((&status["qosClass"], &status["observedGeneration"]), (&json!("BestEffort"), &json!(1)));
    assert_eq!(status["conditions"][0]["observedGeneration"], 1);
}

// K-POD-1 K-POD-2
#[test]
fn running_and_ready() {
    let machine = running(one("Always"));
    assert_eq!(machine.phase(), "Running");
    assert!(conditions(&machine).iter().all(|condition| condition.ends_with("=True")));
    let expected = json!({
        "name": "c", "image": "i:1", "imageID": "sha256:1", "containerID": "volley://c-0", "restartCount": 0,
        "ready": true, "started": true, "lastState": {}, "resources": {},
        "state": {"running": {"startedAt": "2023-11-14T22:13:20Z"}},
    });
    assert_eq!(machine.status()["containerStatuses"], json!([expected]));
    assert_eq!(
        (&machine.status()["podIP"], &machine.status()["podIPs"]),
        (&json!("10.1.0.2"), &json!([{"ip": "10.1.0.2"}]))
    );
}

#[test]
fn one_of_two_ended() {
    let mut machine = running(json!({"restartPolicy": "Never", "containers": [{"name": "c"}, {"name": "d"}]}));
    machine.exit("d", 0);
    assert_eq!(machine.phase(), "Running");
    assert!(
        conditions(&machine)
            .contains(&"Ready=False ContainersNotReady: containers with unready status: [d]".to_owned())
    );
    assert_eq!(machine.status()["containerStatuses"][1]["state"]["terminated"]["reason"], "Completed");
}

#[test]
fn finished_with_code_0() {
    let mut machine = running(one("Never"));
    machine.exit("c", 0);
    assert_eq!(machine.phase(), "Succeeded");
    let expected = [
        "PodReadyToStartContainers=False",
        "Initialized=True PodCompleted",
        "Ready=False PodCompleted",
        "ContainersReady=False PodCompleted",
        "PodScheduled=True",
    ];
    assert_eq!(conditions(&machine), expected);
    assert_eq!(state(&machine)["terminated"]["exitCode"], 0);
    assert_eq!(state(&machine)["terminated"]["containerID"], "volley://c-0");
}

#[test]
fn finished_with_another_code() {
    let mut machine = running(one("Never"));
    machine.exit("c", 3);
    assert_eq!(machine.phase(), "Failed");
    assert!(conditions(&machine).contains(&"Ready=False PodFailed".to_owned()));
    assert_eq!(state(&machine)["terminated"]["reason"], "Error");
}

#[test]
fn killed_for_its_memory() {
    let mut machine = running(one("Never"));
    machine.exit("c", 137);
    let super::seen::State::Exited(exit) = &mut machine.seen.containers.get_mut("c").unwrap().state else { panic!() };
    exit.oom_killed = true;
    machine.report();
    assert_eq!(state(&machine)["terminated"]["reason"], "OOMKilled");
}

#[test]
fn init_failed() {
    let spec = json!({"restartPolicy": "Never", "initContainers": [{"name": "i1"}, {"name": "i2"}],
        "containers": [{"name": "c"}]});
    let mut machine = running(spec);
    machine.exit("i1", 1);
    assert_eq!(machine.phase(), "Failed");
    let expected = "Initialized=False ContainersNotInitialized: containers with incomplete status: [i1 i2]";
    assert!(conditions(&machine).contains(&expected.to_owned()));
    assert_eq!(state(&machine), json!({"waiting": {"reason": "PodInitializing"}}));
}

#[test]
fn initialising() {
    let mut machine = running(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}));
    assert_eq!(machine.phase(), "Pending");
    let init = &machine.status()["initContainerStatuses"][0];
    assert_eq!((&init["ready"], &init["started"]), (&json!(false), &json!(true)));
    machine.exit("i", 0);
    assert_eq!(machine.phase(), "Running");
    let init = &machine.status()["initContainerStatuses"][0];
    assert_eq!((&init["ready"], &init["started"]), (&json!(true), &json!(false)));
}

// K-POD-2
#[test]
fn restarting() {
    let mut machine = running(one("Always"));
    machine.exit("c", 1);
    machine.exit("c", 1);
    assert_eq!(state(&machine)["terminated"]["reason"], "Error", "the end is shown first");
    machine.pass(2);
    let container = &machine.status()["containerStatuses"][0];
    let message = "back-off 10s restarting failed container=c pod=p_ns(u1)";
    assert_eq!(container["state"], json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}));
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(1), &json!(false)));
    assert_eq!(machine.phase(), "Running");
    machine.pass(8);
    assert_eq!(machine.status()["containerStatuses"][0]["restartCount"], 2);
}

#[test]
fn image_missing() {
    let mut machine = Machine::new(one("Always"));
    machine.unpullable.insert("c".to_owned());
    machine.settle();
    assert_eq!(state(&machine), json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}}));
    machine.pass(2);
    let message = "Back-off pulling image \"i:1\": ErrImagePull: not found";
    assert_eq!(state(&machine), json!({"waiting": {"reason": "ImagePullBackOff", "message": message}}));
    assert_eq!(machine.phase(), "Pending");
    let never = running(json!({"containers": [{"name": "c", "imagePullPolicy": "Never"}]}));
    assert_eq!(state(&never)["waiting"]["reason"], "ErrImageNeverPull");
}

#[test]
fn a_waiting_reason_stays_until_the_container_runs() {
    let mut machine = Machine::new(one("Always"));
    machine.unpullable.insert("c".to_owned());
    machine.pass(2);
    machine.seen.containers.get_mut("c").unwrap().image = super::seen::ImageSeen::Pulling { since: at(2) };
    machine.report();
    assert_eq!(state(&machine)["waiting"]["reason"], "ImagePullBackOff");
    let mut crashing = running(one("Always"));
    crashing.exit("c", 1);
    crashing.exit("c", 1);
    crashing.pass(5);
    crashing.second += 5;
    crashing.report();
    assert_eq!(state(&crashing)["waiting"]["reason"], "CrashLoopBackOff", "its time has come, but it does not run yet");
    crashing.settle();
    assert!(state(&crashing)["running"].is_object());
}

#[test]
fn past_the_deadline() {
    let mut machine = running(one("Always"));
    machine.stubborn.insert("c".to_owned());
    machine.pod.spec.as_mut().unwrap().active_deadline_seconds = Some(5);
    machine.pass(6);
    assert_eq!(machine.phase(), "Running", "the end is told when no process is left");
    machine.pass(40);
    let status = machine.status();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
    assert_eq!(status["message"], "Pod was active on the node longer than the specified deadline");
}

#[test]
fn evicted() {
    let mut machine = running(one("Always"));
    let message = "The node was low on resource: memory. ".to_owned();
    machine.seen.eviction = Some(Eviction { message: message.clone(), grace_seconds: 1 });
    machine.settle();
    let status = machine.status();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    let expected = format!("DisruptionTarget=True TerminationByKubelet: {message}");
    assert!(conditions(&machine).contains(&expected));
}

#[test]
fn rejected() {
    let mut machine = Machine::new(one("Always"));
    let message = "Node didn't have enough resource: cpu, requested: 4000, used: 0, capacity: 2000".to_owned();
    machine.seen.rejected = Some(Rejection { reason: "OutOfcpu".to_owned(), message: message.clone() });
    machine.report();
    let status = machine.status();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    assert_eq!(status["message"], format!("Pod was rejected: {message}"));
}

// K-POD-DEL-1
#[test]
fn deleted_while_running_and_before_it_ran() {
    let mut machine = running(one("Always"));
    machine.exit_codes.insert("c".to_owned(), 0);
    machine.delete(30);
    assert_eq!(machine.phase(), "Succeeded");
    let mut waiting = running(json!({"containers": [{"name": "c", "imagePullPolicy": "Never"}]}));
    waiting.delete(30);
    assert_eq!(waiting.phase(), "Failed");
    assert_eq!(state(&waiting)["terminated"]["reason"], "ContainerStatusUnknown");
}

// K-POD-3
#[test]
fn ready_follows_the_readiness_probe_and_transition_times_move_only_when_it_flips() {
    let probe = json!({"periodSeconds": 1, "failureThreshold": 1});
    let mut machine = running(json!({"containers": [{"name": "c", "readinessProbe": probe}]}));
    let since = |machine: &Machine| machine.status()["conditions"][2]["lastTransitionTime"].clone();
    let first = since(&machine);
    machine.pass(5);
    assert_eq!(since(&machine), first);
    machine.failing_probes.insert(("c".to_owned(), ProbeKind::Readiness));
    machine.pass(1);
    assert!(conditions(&machine)[2].starts_with("Ready=False"));
    assert_eq!(since(&machine), json!(at(6).to_string()));
    assert!(machine.is_running("c"), "readiness kills nothing");
}

#[test]
fn readiness_gates_hold_ready_back_and_conditions_of_others_survive() {
    let mut machine =
        Machine::new(json!({"containers": [{"name": "c"}], "readinessGates": [{"conditionType": "x/y"}]}));
    machine.settle();
    let missing = "corresponding condition of pod readiness gate \"x/y\" does not exist.";
    assert_eq!(conditions(&machine)[2], format!("Ready=False ReadinessGatesNotReady: {missing}"));
    let gate = serde_json::from_value(json!({"type": "x/y", "status": "True"})).unwrap();
    machine.pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(gate);
    machine.report();
    assert_eq!(conditions(&machine)[0], "x/y=True");
    assert_eq!(conditions(&machine)[3], "Ready=True");
}

#[test]
fn a_restarted_node_keeps_ready_until_its_probes_know_better() {
    let probe = json!({"periodSeconds": 10});
    let mut machine = running(json!({"containers": [{"name": "c", "readinessProbe": probe, "startupProbe": probe}]}));
    machine.pass(1);
    machine.running("c").readiness = Default::default();
    machine.running("c").startup = Default::default();
    machine.report();
    let container = &machine.status()["containerStatuses"][0];
    assert_eq!((&container["ready"], &container["started"]), (&json!(true), &json!(true)));
}

// K-POD-1
#[test]
fn the_status_is_written_once_with_the_nulls_that_clients_know() {
    let machine = running(one("Always"));
    let mut pod = make_pod(one("Always"));
    let made = machine.pod.status.clone().unwrap();
    let patch = super::status::patch(&pod, &made).unwrap();
    assert_eq!(patch["metadata"], json!({"uid": "u1"}));
    assert_eq!(patch["status"]["phase"], "Running");
    assert_eq!(patch["status"]["conditions"][0]["lastProbeTime"], Value::Null);
    assert!(patch["status"]["conditions"][0].as_object().unwrap().contains_key("lastProbeTime"));
    assert!(patch["status"].get("qosClass").is_none(), "what stays is not written");
    pod.status = Some(made.clone());
    assert_eq!(super::status::patch(&pod, &made), None);
    let mut never = running(json!({"containers": [{"name": "c", "imagePullPolicy": "Never"}]}));
    never.delete(30);
    let patch = super::status::patch(&make_pod(one("Always")), never.pod.status.as_ref().unwrap()).unwrap();
    assert_eq!(patch["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"], Value::Null);
}

#[test]
fn host_network_pods_have_the_hosts_addresses() {
    let pod = make_pod(json!({"hostNetwork": true, "containers": [{"name": "c"}]}));
    let host = HostFacts { addresses: vec!["192.0.2.7".to_owned()] };
    let made = status(&pod, &Seen::default(), &host, at(0));
    assert_eq!((made.pod_ip.as_deref(), made.host_ip.as_deref()), (Some("192.0.2.7"), Some("192.0.2.7")));
}

#[test]
fn a_container_says_which_devices_it_has_also_after_they_were_given_back() {
    let mut machine = running(one("Never"));
    let granted = BTreeMap::from([("c".to_owned(), vec!["GPU-1".to_owned()])]);
    let told = |machine: &Machine, granted: &BTreeMap<String, Vec<String>>| {
        let mut told = machine.pod.status.clone().unwrap();
        told.container_statuses.iter_mut().flatten().for_each(|each| each.allocated_resources_status = None);
        tell_devices(&mut told, &machine.pod, granted);
        told
    };
    let held = told(&machine, &granted);
    let devices = |status: &PodStatus| {
        let containers = status.container_statuses.clone().unwrap_or_default();
        serde_json::to_value(&containers[0].allocated_resources_status).unwrap()
    };
    let expected = json!([{ "name": "nvidia.com/gpu", "resources": [{ "health": "Healthy", "resourceID": "GPU-1" }] }]);
    assert_eq!(devices(&held), expected);
    machine.pod.status = Some(held);
    assert_eq!(devices(&told(&machine, &BTreeMap::new())), expected);
}
