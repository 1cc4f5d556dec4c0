//! Jobs from their first pod to their end, played on a pretend server.

use super::job::{Observed, plan, plan_orphan};
use super::world::World;
use super::{Action, Plan};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

fn job_world(spec: Value) -> World {
    let mut world = World::default();
    let template = json!({
        "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "j"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
    });
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "uid": "j"},
        "spec": {"parallelism": 1, "backoffLimit": 6, "template": template,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "j"}}},
    });
    json_patch::merge(&mut job["spec"], &spec);
    world.add(job);
    world
}

fn planned(world: &World) -> Plan {
    plan(&Observed { job: &world.get::<Job>("x"), pods: &world.list::<Pod>() }, world.now())
}

fn settle(world: &mut World) -> Plan {
    world.settle(planned)
}

fn status(world: &World) -> &Value {
    &world.raw("Job", "x")["status"]
}

/// Each condition as `Type=Status Reason: message`.
fn conditions(world: &World) -> Vec<String> {
    let conditions = status(world)["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value, key: &str| c[key].as_str().unwrap_or_default().to_owned();
    let line = |c| format!("{}={} {}: {}", text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message"));
    conditions.iter().map(line).collect()
}

fn unfinished(world: &World) -> Vec<String> {
    let pods = world.list::<Pod>().into_iter();
    pods.filter(super::pods::is_active).map(|pod| pod.metadata.name.unwrap()).collect()
}

// K-JOB-2 K-JOB-3 K-JOB-4
#[test]
fn a_job_with_one_completion_runs_and_completes() {
    let mut world = job_world(json!({"completions": 1}));
    settle(&mut world);
    let pod = unfinished(&world).remove(0);
    let made = world.raw("Pod", &pod);
    assert_eq!(made["metadata"]["generateName"], "x-");
    assert_eq!(made["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "j", "controller": true,
            "blockOwnerDeletion": true}])
    );
    let expected = json!({"startTime": "2023-11-14T22:13:20Z", "active": 1, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}});
    assert_eq!(status(&world), &expected);
    world.run_pod(&pod);
    settle(&mut world);
    assert_eq!(status(&world)["ready"], 1);
    world.second = 5;
    world.end_pod(&pod, 0);
    settle(&mut world);
    let words = "CompletionsReached: Reached expected number of succeeded pods";
    assert_eq!(conditions(&world), [format!("SuccessCriteriaMet=True {words}"), format!("Complete=True {words}")]);
    assert_eq!(status(&world)["succeeded"], 1);
    assert_eq!(status(&world)["active"], Value::Null);
    assert_eq!(status(&world)["completionTime"], "2023-11-14T22:13:25Z");
    assert_eq!(status(&world)["uncountedTerminatedPods"], json!({}));
    assert_eq!(world.raw("Pod", &pod)["metadata"]["finalizers"], json!([]));
    assert_eq!(world.events, [format!("SuccessfulCreate Created pod: {pod}"), "Completed Job completed".into()]);
}

// K-JOB-3
#[test]
fn a_pod_is_counted_once_wherever_the_round_breaks_off() {
    let mut world = job_world(json!({"completions": 2, "parallelism": 2}));
    settle(&mut world);
    for pod in unfinished(&world) {
        world.end_pod(&pod, 0);
    }
    let whole = planned(&world);
    for kept in 0..=whole.actions.len() {
        let mut broken = world.clone();
        let actions = whole.actions[..kept].to_vec();
        broken.apply(&Plan { actions, ..Plan::default() });
        settle(&mut broken);
        assert_eq!(status(&broken)["succeeded"], 2, "after {kept} actions");
        assert_eq!(conditions(&broken).len(), 2);
    }
}

// K-JOB-3
#[test]
fn a_failing_job_counts_its_stopped_pods_once_wherever_a_round_breaks_off() {
    let mut world = job_world(json!({"completions": 3, "parallelism": 3, "backoffLimit": 0}));
    settle(&mut world);
    let pods = unfinished(&world);
    world.run_pod(&pods[1]);
    world.end_pod(&pods[0], 1);
    for first in 0..=planned(&world).actions.len() {
        for second in 0..4 {
            let mut broken = world.clone();
            for kept in [first, second] {
                let whole = planned(&broken).actions;
                broken.apply(&Plan { actions: whole[..kept.min(whole.len())].to_vec(), ..Plan::default() });
            }
            settle(&mut broken);
            if broken.names("Pod").contains(&pods[1]) {
                broken.end_pod(&pods[1], 137);
            }
            settle(&mut broken);
            assert_eq!(status(&broken)["failed"], 3, "after {first} and {second} actions");
            assert_eq!(conditions(&broken).len(), 2);
        }
    }
}

// K-JOB-3 K-JOB-4
#[test]
fn failures_are_retried_with_growing_delays_until_the_limit() {
    let mut world = job_world(json!({"completions": 1, "backoffLimit": 2}));
    for (delay, failures) in [(10, 1), (20, 2)] {
        settle(&mut world);
        let pod = unfinished(&world).remove(0);
        world.end_pod(&pod, 1);
        let waiting = settle(&mut world);
        assert_eq!(waiting.requeue_after, Some(delay));
        assert_eq!(status(&world)["failed"], failures);
        assert!(unfinished(&world).is_empty());
        world.second += i64::try_from(delay).unwrap();
    }
    settle(&mut world);
    let pod = unfinished(&world).remove(0);
    world.end_pod(&pod, 1);
    settle(&mut world);
    let words = "BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert_eq!(conditions(&world), [format!("FailureTarget=True {words}"), format!("Failed=True {words}")]);
    assert_eq!(status(&world)["failed"], 3);
    assert_eq!(status(&world)["completionTime"], Value::Null);
    assert_eq!(world.events.last().unwrap(), "BackoffLimitExceeded Job has reached the specified backoff limit");
}

// K-JOB-2 K-JOB-3
#[test]
fn indexed_jobs_give_each_pod_its_index() {
    let mut world = job_world(json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"}));
    settle(&mut world);
    let pods = unfinished(&world);
    assert!(pods[0].starts_with("x-0-") && pods[1].starts_with("x-1-"), "{pods:?}");
    let pod = world.raw("Pod", &pods[1]);
    assert_eq!(pod["spec"]["hostname"], "x-1");
    assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], "1");
    assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], "1");
    let variable = json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
        {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]);
    assert_eq!(pod["spec"]["containers"][0]["env"], variable);
    assert_eq!(pod["spec"]["initContainers"][0]["env"], variable);
    world.end_pod(&pods[1], 0);
    settle(&mut world);
    assert_eq!(status(&world)["completedIndexes"], "1");
    assert!(unfinished(&world)[1].starts_with("x-2-"));
    for _ in 0..2 {
        for pod in unfinished(&world) {
            world.end_pod(&pod, 0);
        }
        settle(&mut world);
    }
    assert_eq!(status(&world)["completedIndexes"], "0-3");
    assert_eq!(status(&world)["succeeded"], 4);
}

// K-JOB-3
#[test]
fn each_index_has_its_own_limit() {
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "backoffLimitPerIndex": 1});
    let mut world = job_world(spec);
    settle(&mut world);
    let first = unfinished(&world).remove(0);
    world.end_pod(&first, 1);
    assert_eq!(settle(&mut world).requeue_after, Some(10));
    assert_eq!(status(&world)["failedIndexes"], "");
    world.second = 10;
    settle(&mut world);
    assert_eq!(status(&world)["failed"], 1);
    let second = unfinished(&world).remove(0);
    let count = "batch.kubernetes.io/job-index-failure-count";
    assert_eq!(world.raw("Pod", &second)["metadata"]["annotations"][count], "1");
    world.end_pod(&second, 1);
    settle(&mut world);
    assert_eq!(status(&world)["failedIndexes"], "0");
    let last = unfinished(&world).remove(0);
    world.end_pod(&last, 0);
    settle(&mut world);
    let words = "FailedIndexes: Job has failed indexes";
    assert_eq!(conditions(&world), [format!("FailureTarget=True {words}"), format!("Failed=True {words}")]);
    assert_eq!(status(&world)["completedIndexes"], "1");
}

// K-JOB-3
#[test]
fn too_many_failed_indexes_end_the_job() {
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 0});
    let mut world = job_world(spec);
    settle(&mut world);
    let first = unfinished(&world).remove(0);
    world.end_pod(&first, 1);
    settle(&mut world);
    let words = "MaxFailedIndexesExceeded: Job has exceeded the specified maximal number of failed indexes";
    assert_eq!(conditions(&world)[1], format!("Failed=True {words}"));
    assert_eq!(world.names("Pod"), [first]);
}

// K-JOB-3
#[test]
fn a_fail_job_rule_ends_the_job_once_its_pods_are_gone() {
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let mut world = job_world(json!({"completions": 2, "parallelism": 2, "podFailurePolicy": {"rules": [rule]}}));
    settle(&mut world);
    let pods = unfinished(&world);
    world.run_pod(&pods[1]);
    world.end_pod(&pods[0], 42);
    settle(&mut world);
    let message =
        format!("Container c for pod d/{} failed with exit code 42 matching FailJob rule at index 0", pods[0]);
    assert_eq!(conditions(&world), [format!("FailureTarget=True PodFailurePolicy: {message}")]);
    assert_eq!(status(&world)["terminating"], 1);
    world.end_pod(&pods[1], 137);
    settle(&mut world);
    assert_eq!(conditions(&world)[1], format!("Failed=True PodFailurePolicy: {message}"));
    assert_eq!(status(&world)["failed"], 2);
}

// K-JOB-3
#[test]
fn ignored_failures_do_not_count() {
    let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}});
    let spec = json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}});
    let mut world = job_world(spec);
    settle(&mut world);
    let pod = unfinished(&world).remove(0);
    world.end_pod(&pod, 7);
    world.second = 10;
    settle(&mut world);
    assert_eq!(status(&world)["failed"], Value::Null);
    assert_eq!(unfinished(&world).len(), 1);
}

// K-JOB-3
#[test]
fn a_success_policy_ends_the_job_early() {
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let mut world = job_world(spec);
    settle(&mut world);
    let leader = unfinished(&world).remove(0);
    world.end_pod(&leader, 0);
    settle(&mut world);
    let words = "SuccessPolicy: Matched rules at index 0";
    assert_eq!(conditions(&world), [format!("SuccessCriteriaMet=True {words}"), format!("Complete=True {words}")]);
    assert_eq!(status(&world)["failed"], Value::Null);
    assert_eq!(world.names("Pod"), [leader]);
}

// K-JOB-3 K-JOB-4
#[test]
fn the_deadline_stops_a_job() {
    let mut world = job_world(json!({"completions": 1, "activeDeadlineSeconds": 30}));
    assert_eq!(settle(&mut world).requeue_after, Some(30));
    world.second = 30;
    settle(&mut world);
    let words = "DeadlineExceeded: Job was active longer than specified deadline";
    assert_eq!(conditions(&world), [format!("FailureTarget=True {words}"), format!("Failed=True {words}")]);
    assert_eq!(status(&world)["failed"], 1);
    assert!(world.names("Pod").is_empty());
}

// K-JOB-3 K-JOB-4
#[test]
fn a_suspended_job_has_no_pods_and_starts_anew_when_resumed() {
    let mut world = job_world(json!({"completions": 1, "suspend": true}));
    settle(&mut world);
    assert_eq!(conditions(&world), ["Suspended=True JobSuspended: Job suspended"]);
    assert_eq!(status(&world)["startTime"], Value::Null);
    assert!(world.names("Pod").is_empty());
    world.second = 60;
    world.edit("Job", "x", json!({"spec": {"suspend": false}}));
    settle(&mut world);
    assert_eq!(conditions(&world), ["Suspended=False JobResumed: Job resumed"]);
    assert_eq!(status(&world)["startTime"], "2023-11-14T22:14:20Z");
    assert_eq!(unfinished(&world).len(), 1);
    world.edit("Job", "x", json!({"spec": {"suspend": true}}));
    settle(&mut world);
    assert!(world.names("Pod").is_empty());
    assert_eq!(status(&world)["failed"], Value::Null);
    let expected = ["Suspended Job suspended", "SuccessfulCreate", "Resumed", "SuccessfulDelete", "Suspended"];
    for (event, start) in world.events.iter().zip(expected) {
        assert!(event.starts_with(start), "{event}");
    }
}

// K-JOB-3
#[test]
fn replacement_policy_failed_waits_for_the_old_pod_to_end() {
    for (policy, pods) in [("TerminatingOrFailed", 2), ("Failed", 1)] {
        let mut world = job_world(json!({"completions": 1, "podReplacementPolicy": policy}));
        settle(&mut world);
        let pod = unfinished(&world).remove(0);
        world.run_pod(&pod);
        world.delete("Pod", &pod);
        world.second = 10;
        settle(&mut world);
        assert_eq!(world.names("Pod").len(), pods, "{policy}");
        assert_eq!(status(&world)["terminating"], 1);
    }
}

// K-JOB-3
#[test]
fn without_completions_the_first_success_lets_the_others_finish() {
    let mut world = job_world(json!({"parallelism": 2}));
    settle(&mut world);
    let pods = unfinished(&world);
    world.end_pod(&pods[0], 0);
    settle(&mut world);
    assert_eq!(unfinished(&world), pods[1..]);
    assert!(conditions(&world).is_empty());
    world.end_pod(&pods[1], 1);
    settle(&mut world);
    assert_eq!(conditions(&world).len(), 2);
    assert_eq!((&status(&world)["succeeded"], &status(&world)["failed"]), (&json!(1), &json!(1)));
}

// K-JOB-3
#[test]
fn restarts_in_place_count_towards_the_limit() {
    let spec = json!({"completions": 1, "backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let mut world = job_world(spec);
    settle(&mut world);
    let pod = unfinished(&world).remove(0);
    world.run_pod(&pod);
    for (restarts, is_over) in [(1, false), (2, true)] {
        let container = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": restarts});
        world.edit("Pod", &pod, json!({"status": {"containerStatuses": [container]}}));
        settle(&mut world);
        assert_eq!(!conditions(&world).is_empty(), is_over, "{restarts} restarts");
    }
    assert!(conditions(&world)[0].starts_with("FailureTarget=True BackoffLimitExceeded"));
}

// K-JOB-5
#[test]
fn a_finished_job_is_deleted_after_its_time_to_live() {
    let mut world = job_world(json!({"completions": 1, "ttlSecondsAfterFinished": 100}));
    settle(&mut world);
    let pod = unfinished(&world).remove(0);
    world.end_pod(&pod, 0);
    assert_eq!(settle(&mut world).requeue_after, Some(100));
    world.second = 100;
    assert!(matches!(&planned(&world).actions[..], [Action::Delete { target, .. }] if target.kind == "Job"));
}

#[test]
fn jobs_of_other_controllers_are_left_alone() {
    let world = job_world(json!({"completions": 1, "managedBy": "example.com/mine"}));
    assert!(planned(&world).is_empty());
}

// K-JOB-2
#[test]
fn pods_of_a_deleted_job_are_freed() {
    let mut world = job_world(json!({"completions": 2, "parallelism": 2}));
    settle(&mut world);
    world.edit("Job", "x", json!({"metadata": {"finalizers": ["foregroundDeletion"]}}));
    world.delete("Job", "x");
    settle(&mut world);
    let pods = world.list::<Pod>();
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod.metadata.finalizers == Some(vec![])));

    let mut world = job_world(json!({"completions": 1}));
    settle(&mut world);
    let pod = world.list::<Pod>().remove(0);
    world.apply(&plan_orphan(&pod));
    assert!(plan_orphan(&world.list::<Pod>()[0]).is_empty());
}

// K-JOB-5
#[test]
fn lower_parallelism_stops_the_least_useful_pods_without_counting_them() {
    let mut world = job_world(json!({"completions": 5, "parallelism": 3}));
    settle(&mut world);
    let pods = unfinished(&world);
    world.run_pod(&pods[0]);
    world.edit("Job", "x", json!({"spec": {"parallelism": 1}}));
    settle(&mut world);
    assert_eq!(world.names("Pod"), [pods[0].clone()]);
    assert_eq!(status(&world)["failed"], Value::Null);
    assert_eq!(status(&world)["active"], 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // K-JOB-3
    #[test]
    fn any_history_settles_and_counts_every_end_once(
        is_indexed: bool,
        parallelism in 1..4i32,
        completions in 1..5i32,
        codes in proptest::collection::vec(0..3i32, 1..12),
    ) {
        let mode = if is_indexed { "Indexed" } else { "NonIndexed" };
        let spec = json!({"completions": completions, "parallelism": parallelism, "completionMode": mode,
            "backoffLimit": 3});
        let mut world = job_world(spec);
        settle(&mut world);
        let (mut successes, mut failures) = (0, 0);
        for code in codes {
            let Some(pod) = unfinished(&world).pop() else { break };
            world.end_pod(&pod, code);
            if code == 0 { successes += 1 } else { failures += 1 }
            settle(&mut world);
            world.second += 400;
            settle(&mut world);
            prop_assert!(unfinished(&world).len() <= usize::try_from(parallelism).unwrap());
        }
        let counted = |key: &str| status(&world)[key].as_i64().unwrap_or(0);
        prop_assert_eq!(counted("succeeded"), successes);
        // Pods stopped by the end of the Job count as failures too.
        prop_assert!(counted("failed") >= failures);
        let has_ended = conditions(&world).len() == 2;
        prop_assert_eq!(has_ended, successes == i64::from(completions) || failures == 4);
    }
}
