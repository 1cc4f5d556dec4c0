//! Volcano Jobs, from their creation to each of their ends.

use crate::world::{COMMANDS, GROUPS, JOBS, PODS, QUEUES, World, vcjob};
use serde_json::json;
use volley_api::kube::text;

// CTL-1, SM-20, PG-1, QC-1
#[tokio::test(flavor = "multi_thread")]
async fn a_job_gets_its_pods_and_completes_with_them() {
    let world = World::start().await;
    let has_queues = || ["default", "root"].iter().all(|name| world.get(QUEUES, name).is_some());
    world.until_true("the first queues", has_queues).await;
    world.create(JOBS, vcjob("j", &[("a", 1), ("b", 2)], json!({"minAvailable": 3}))).await;
    let names = ["j-a-0", "j-b-0", "j-b-1"];
    world.until_pods(&names).await;
    let job = world.get(JOBS, "j").unwrap();
    assert_eq!(world.names(GROUPS), [format!("j-{}", text(&job, "metadata.uid"))]);
    world.set_pods(&names, "Running", 0).await;
    let job = world.until_phase("j", "Running").await;
    assert_eq!(job["status"]["minAvailable"], 3);
    world.until_true("all are counted", || world.get(JOBS, "j").unwrap()["status"]["running"] == 3).await;
    world.set_pods(&names, "Succeeded", 0).await;
    let job = world.until_phase("j", "Completed").await;
    assert_eq!(job["status"]["succeeded"], 3);
    world.until_true("its group is gone", || world.names(GROUPS).is_empty()).await;
    assert_eq!(world.names(PODS), names, "pods stay for their logs");
    world.stop().await;
}

// SM-22
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pod_restarts_the_job_as_its_policy_says_until_it_has_failed_too_often() {
    let world = World::start().await;
    let policies = json!([{"event": "PodFailed", "action": "RestartJob"}]);
    world.create(JOBS, vcjob("j", &[("a", 2)], json!({"policies": policies, "maxRetry": 2}))).await;
    let names = ["j-a-0", "j-a-1"];
    world.until_pods(&names).await;
    world.set_pods(&names, "Running", 0).await;
    world.until_phase("j", "Running").await;
    let first = text(&world.get(PODS, "j-a-1").unwrap(), "metadata.uid").to_owned();
    world.set_pod("j-a-0", "Failed", 1).await;
    let is_new = || world.get(PODS, "j-a-1").is_some_and(|pod| text(&pod, "metadata.uid") != first);
    world.until_true("new pods", is_new).await;
    assert_eq!(world.get(JOBS, "j").unwrap()["status"]["retryCount"], 1);
    world.until_pods(&names).await;
    world.set_pods(&names, "Running", 0).await;
    world.until_phase("j", "Running").await;
    world.set_pod("j-a-0", "Failed", 1).await;
    world.until_phase("j", "Failed").await;
    world.stop().await;
}

// SM-22, SM-23
#[tokio::test(flavor = "multi_thread")]
async fn other_policies_end_the_job() {
    let world = World::start().await;
    for (name, action, end) in
        [("a", "AbortJob", "Aborted"), ("t", "TerminateJob", "Terminated"), ("c", "CompleteJob", "Completed")]
    {
        let policies = json!([{"event": "PodFailed", "action": action}]);
        world.create(JOBS, vcjob(name, &[("x", 2)], json!({ "policies": policies }))).await;
        let names = [format!("{name}-x-0"), format!("{name}-x-1")];
        for pod in &names {
            world.set_pod(pod, "Running", 0).await;
        }
        world.until_phase(name, "Running").await;
        world.set_pod(&names[0], "Failed", 3).await;
        world.until_phase(name, end).await;
        world.until_true("what ran is gone", || world.get(PODS, &names[1]).is_none()).await;
    }
    world.stop().await;
}

// CMD-1, SM-23
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_suspended_and_resumed_by_command() {
    let world = World::start().await;
    world.create(JOBS, vcjob("j", &[("a", 2)], json!({}))).await;
    let names = ["j-a-0", "j-a-1"];
    world.until_pods(&names).await;
    world.set_pods(&names, "Running", 0).await;
    world.until_phase("j", "Running").await;
    world.command("j", "AbortJob").await;
    world.until_phase("j", "Aborted").await;
    world.until_pods(&[]).await;
    world.until_true("the command is served", || world.names(COMMANDS).is_empty()).await;
    world.command("j", "ResumeJob").await;
    world.until_pods(&names).await;
    world.set_pods(&names, "Running", 0).await;
    world.until_phase("j", "Running").await;
    world.until_true("the command is served", || world.names(COMMANDS).is_empty()).await;
    world.stop().await;
}

// DEP-1
#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_for_the_one_that_it_depends_on() {
    let world = World::start().await;
    let mut job = vcjob("j", &[("ps", 1), ("worker", 2)], json!({"minAvailable": 1}));
    job["spec"]["tasks"][0]["minAvailable"] = json!(1);
    job["spec"]["tasks"][1]["minAvailable"] = json!(0);
    job["spec"]["tasks"][1]["dependsOn"] = json!({"name": ["ps"]});
    world.create(JOBS, job).await;
    world.until_pods(&["j-ps-0"]).await;
    world.set_pod("j-ps-0", "Running", 0).await;
    world.until_pods(&["j-ps-0", "j-worker-0", "j-worker-1"]).await;
    world.stop().await;
}

// TTL-1
#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_goes_when_its_time_is_over() {
    let world = World::start().await;
    world.create(JOBS, vcjob("j", &[("a", 1)], json!({"ttlSecondsAfterFinished": 1}))).await;
    world.until_pods(&["j-a-0"]).await;
    world.set_pod("j-a-0", "Succeeded", 0).await;
    world.until_true("the job is gone", || world.names(JOBS).is_empty()).await;
    world.until_pods(&[]).await;
    world.stop().await;
}
