//! Events, policies, exit codes and delays.

use super::world::{Cluster, task};
use super::{gang, policy, with};
use serde_json::{Value, json};

// SM-10, SM-11, API-10
#[test]
fn the_tasks_policies_come_first_and_in_each_list_the_first_match() {
    let check = |worker: Value, job: Value, code: i32, expected: &str| {
        let mut spec = with(json!({ "policies": job }));
        spec["tasks"][1]["policies"] = worker;
        let mut cluster = Cluster::running(spec);
        cluster.end("j-worker-1", code);
        cluster.step();
        assert_eq!(cluster.phase(), expected);
    };
    let any = |action: &str| json!([{"event": "*", "action": action}]);
    let on = |code: i32, action: &str| json!({"exitCode": code, "action": action});
    check(json!([]), json!([]), 1, "Running");
    check(json!([]), any("AbortJob"), 1, "Aborting");
    check(any("TerminateJob"), any("AbortJob"), 1, "Terminating");
    check(json!([{"event": "PodEvicted", "action": "TerminateJob"}]), any("AbortJob"), 1, "Aborting");
    check(json!([{"events": ["PodEvicted", "PodFailed"], "action": "CompleteJob"}]), any("AbortJob"), 1, "Completing");
    check(json!([on(3, "AbortJob"), on(4, "TerminateJob")]), json!([]), 4, "Terminating");
    check(json!([on(3, "AbortJob")]), json!([]), 5, "Running");
    check(json!([{"event": "PodFailed", "action": "ResumeJob"}]), json!([]), 5, "Running");
}

// SM-2
#[test]
fn the_code_of_the_container_that_failed_first_counts() {
    let phase = |mut cluster: Cluster| {
        cluster.start();
        let end = |name: &str, code: i32, second: i64| {
            let end = json!({"terminated": {"exitCode": code, "finishedAt": format!("2026-01-01T00:00:0{second}Z")}});
            json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": end})
        };
        let statuses = json!([end("sidecar", 0, 1), end("late", 9, 3), end("main", 7, 2)]);
        cluster.world.edit("Pod", "j-worker-1", json!({"status": {"phase": "Failed", "containerStatuses": statuses}}));
        cluster.step();
        cluster.phase().to_owned()
    };
    let spec = with(json!({"policies": [{"exitCode": 7, "action": "AbortJob"}]}));
    assert_eq!(phase(Cluster::new(spec.clone())), "Aborting");
    assert_eq!(phase(Cluster::strict(spec)), "Running");
}

// SM-1, SM-10
#[test]
fn pods_of_others_and_of_earlier_versions_are_not_news() {
    let mut cluster = Cluster::running(policy("PodFailed", "RestartJob"));
    cluster.world.edit("Pod", "j-worker-1", json!({"metadata": {"annotations": {"volcano.sh/job-version": null}}}));
    cluster.end("j-worker-1", 1);
    cluster.settle();
    assert_eq!(cluster.phase(), "Running");
    let mut cluster = Cluster::running(policy("PodFailed", "AbortJob"));
    cluster.end("j-worker-1", 1);
    cluster.go_on();
    cluster.command("ResumeJob");
    cluster.go_on();
    assert_eq!(cluster.phase(), "Running", "the pod that failed before the resume does not abort the job again");
}

// SM-50, SM-30, SM-33
#[test]
fn a_restart_of_a_part_spares_the_rest() {
    let check = |action: &str, size: Value, gone: &[&str]| {
        let mut spec = json!({"tasks": [task("master", 1), task("worker", 4)], "policies": [{"event": "PodFailed", "action": action}]});
        spec["tasks"][1]["partitionPolicy"] = size;
        spec["plugins"] = json!({"svc": []});
        let mut cluster = Cluster::running(spec);
        let uid = |cluster: &Cluster, name: &str| cluster.pod(name)["metadata"]["uid"].clone();
        let before: Vec<_> = cluster.pods().into_iter().map(|name| (uid(&cluster, &name), name)).collect();
        let group = cluster.world.raw("PodGroup", "j-u")["metadata"]["uid"].clone();
        cluster.end("j-worker-3", 1);
        cluster.go_on();
        assert_eq!(cluster.phases[2..], ["Restarting", "Pending", "Running"], "{action}");
        let changed: Vec<&str> =
            before.iter().filter(|(old, name)| uid(&cluster, name) != *old).map(|(_, name)| name.as_str()).collect();
        assert_eq!(changed, gone, "{action}");
        assert_eq!(cluster.world.raw("PodGroup", "j-u")["metadata"]["uid"], group, "{action}");
        assert_eq!((cluster.count("version"), cluster.count("retryCount")), (0, 1), "{action}");
        assert_eq!(cluster.world.names("Service"), ["j"]);
    };
    check("RestartPod", Value::Null, &["j-worker-3"]);
    check("RestartTask", Value::Null, &["j-worker-0", "j-worker-1", "j-worker-2", "j-worker-3"]);
    check("RestartPartition", json!({"totalPartitions": 2, "partitionSize": 2}), &["j-worker-2", "j-worker-3"]);
}

// SM-30, POD-9
#[test]
fn only_pods_that_others_remove_are_evicted() {
    let mut cluster = Cluster::running(policy("PodEvicted", "RestartJob"));
    cluster.evict("j-worker-0");
    cluster.go_on();
    assert_eq!(cluster.phases[2..], ["Restarting", "Pending", "Running"]);
    assert_eq!(cluster.count("retryCount"), 1, "our own deletions are no evictions");
    let mut cluster = Cluster::running(gang());
    cluster.evict("j-worker-0");
    cluster.settle();
    assert_eq!(cluster.pods().len(), 3, "without a policy the pod is made again");
}

// POD-9
#[test]
fn losing_a_pod_that_has_succeeded_loses_nothing() {
    let lost = |mut cluster: Cluster| {
        cluster.start();
        cluster.end("j-worker-0", 0);
        cluster.settle();
        cluster.evict("j-worker-0");
        cluster.settle();
        (cluster.pods().len(), cluster.count("succeeded"))
    };
    assert_eq!(lost(Cluster::new(with(json!({"minAvailable": 1})))), (2, 1));
    assert_eq!(lost(Cluster::new(policy("PodEvicted", "RestartJob"))), (2, 1));
    assert_eq!(lost(Cluster::strict(with(json!({"minAvailable": 1})))), (3, 0));
}

// SM-13
#[test]
fn an_unknown_group_is_heeded_after_a_restart_too() {
    let phases = |mut cluster: Cluster| {
        cluster.start();
        for _ in 0..2 {
            cluster.world.edit("PodGroup", "j-u", json!({"status": {"phase": "Unknown"}}));
            cluster.settle();
            cluster.go_on();
        }
        cluster.count("retryCount")
    };
    assert_eq!(phases(Cluster::new(policy("Unknown", "RestartJob"))), 2);
    assert_eq!(phases(Cluster::strict(policy("Unknown", "RestartJob"))), 1);
}

fn restarted(times: i32) -> Value {
    let state = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": times});
    json!({"status": {"containerStatuses": [state]}})
}

#[test]
fn a_task_fails_when_its_containers_have_been_restarted_too_often() {
    let check = |retries: i32, restarts: [i32; 2], expected: &str| {
        let mut spec = policy("TaskFailed", "TerminateJob");
        spec["tasks"][1]["maxRetry"] = json!(retries);
        let mut cluster = Cluster::running(spec);
        cluster.world.edit("Pod", "j-worker-0", restarted(restarts[0]));
        cluster.world.edit("Pod", "j-worker-1", restarted(restarts[1]));
        cluster.step();
        assert_eq!(cluster.phase(), expected, "{retries} {restarts:?}");
    };
    check(0, [1, 1], "Running");
    check(0, [1, 2], "Terminating");
    check(5, [2, 2], "Running");
    check(-1, [20, 20], "Running");
}

fn delayed(event: &str, action: &str, timeout: &str) -> Value {
    with(json!({"policies": [{"event": event, "action": action, "timeout": timeout}]}))
}

// SM-60, SM-61, SM-65
#[test]
fn a_delayed_action_is_announced_once_and_comes_in_time() {
    let mut cluster = Cluster::running(delayed("PodFailed", "AbortJob", "1m30s"));
    cluster.end("j-worker-1", 1);
    cluster.world.second += 20;
    cluster.settle();
    assert_eq!(cluster.phase(), "Running");
    assert_eq!(cluster.events("ExecuteAction"), ["Execute action AbortJob after 1m30s"]);
    assert_eq!(cluster.plan().requeue_after, Some(70), "it counts from the failure");
    cluster.world.second += 69;
    cluster.settle();
    assert_eq!(cluster.phase(), "Running");
    cluster.world.second += 1;
    cluster.step();
    assert_eq!(cluster.phase(), "Aborting");
}

// SM-63, SM-65
#[test]
fn a_running_replacement_cancels_what_its_predecessor_set_off() {
    let mut cluster = Cluster::running(delayed("PodEvicted", "RestartJob", "10m"));
    cluster.evict("j-worker-1");
    cluster.settle();
    assert_eq!((cluster.pods().len(), cluster.phase()), (3, "Pending"));
    cluster.world.second += 300;
    cluster.run_all();
    cluster.settle();
    cluster.world.second += 600;
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.count("retryCount")), ("Running", 0));
    cluster.evict("j-worker-1");
    cluster.settle();
    cluster.world.second += 600;
    cluster.step();
    assert_eq!(cluster.phase(), "Restarting", "a replacement that does not come up cancels nothing");
}

// SM-62, ADM-17
#[test]
fn a_pod_may_be_pending_for_so_long() {
    let mut cluster = Cluster::new(delayed("PodPending", "AbortJob", "60s"));
    cluster.settle();
    cluster.admit();
    cluster.settle();
    assert_eq!(cluster.events("ExecuteAction"), ["Execute action AbortJob after 1m0s"]);
    cluster.world.run_pod("j-master-0");
    cluster.world.run_pod("j-worker-0");
    assert_eq!(cluster.plan().requeue_after, Some(60));
    let mut other = Cluster::new(Value::Null);
    other.world = cluster.world.clone();
    cluster.world.second += 60;
    cluster.settle();
    assert_eq!(cluster.phase(), "Aborting");
    other.run_all();
    other.world.second += 60;
    other.settle();
    assert_eq!(other.phase(), "Running", "running pods are not pending");
    let mut cluster = Cluster::new(policy("PodPending", "AbortJob"));
    cluster.settle();
    cluster.admit();
    cluster.settle();
    cluster.world.second += 9999;
    cluster.settle();
    assert_eq!(cluster.phase(), "Pending", "without a time nothing is too long");
}

// SM-64
#[test]
fn an_action_ends_the_wait_for_others_of_its_level() {
    let mut spec = delayed("PodFailed", "RestartJob", "10m");
    spec["policies"].as_array_mut().unwrap().push(json!({"event": "PodEvicted", "action": "AbortJob"}));
    let mut cluster = Cluster::running(spec);
    cluster.end("j-worker-1", 1);
    cluster.settle();
    cluster.evict("j-worker-0");
    cluster.go_on();
    assert_eq!(cluster.phase(), "Aborted");
    cluster.world.second += 600;
    cluster.go_on();
    assert_eq!(cluster.phase(), "Aborted");
    assert!(!cluster.status().to_string().contains("timers"));
}
