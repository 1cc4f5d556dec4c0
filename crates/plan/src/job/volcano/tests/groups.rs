//! The PodGroup of a Job.

use super::world::{Cluster, task};
use super::{gang, with};
use serde_json::{Value, json};

fn group(cluster: &Cluster) -> &Value {
    cluster.world.raw("PodGroup", "j-u")
}

fn asking(name: &str, replicas: i32, cpu: &str) -> Value {
    let mut task = task(name, replicas);
    task["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    task
}

// PG-1, PG-2, PG-3
#[test]
fn a_group_is_the_image_of_its_job() {
    let mut cluster = Cluster::new(with(
        json!({"minAvailable": 2, "queue": "q", "priorityClassName": "high", "networkTopology": {"mode": "soft"}}),
    ));
    cluster.world.edit("Job", "j", json!({"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}}));
    cluster.settle();
    let group = group(&cluster);
    assert_eq!(group["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(group["metadata"]["annotations"]["a"], "2");
    assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], "u");
    let spec = &group["spec"];
    assert_eq!(
        (&spec["minMember"], &spec["queue"], &spec["priorityClassName"]),
        (&json!(2), &json!("q"), &json!("high"))
    );
    assert_eq!(
        (&spec["minTaskMember"], &spec["networkTopology"]),
        (&json!({"master": 1, "worker": 2}), &json!({"mode": "soft"}))
    );
}

// PG-1
#[test]
fn a_group_of_an_old_release_is_taken_over() {
    let mut cluster = Cluster::new(gang());
    let owner = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]);
    cluster.world.add(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "j", "ownerReferences": owner}}));
    cluster.start();
    assert_eq!(cluster.world.names("PodGroup"), ["j"]);
    assert_eq!(cluster.pod("j-master-0")["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "j");
    assert_eq!(cluster.world.raw("PodGroup", "j")["spec"]["minMember"], 3);
}

// PG-4
#[test]
fn the_gang_asks_for_what_a_quota_would_charge() {
    let mut spec = json!({"tasks": [task("a", 2)]});
    spec["tasks"][0]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}, "requests": {"cpu": "500m"}});
    let mut cluster = Cluster::new(spec);
    cluster.settle();
    assert_eq!(
        group(&cluster)["spec"]["minResources"],
        json!({
            "cpu": "1", "requests.cpu": "1", "limits.cpu": "2", "memory": "2Gi", "requests.memory": "2Gi", "limits.memory": "2Gi",
            "requests.nvidia.com/gpu": "2", "nvidia.com/gpu": "2", "pods": "2", "count/pods": "2",
        })
    );
}

// PG-4
#[test]
fn important_tasks_are_counted_first() {
    let check = |min: i32, minima: [i32; 2], expected: &str| {
        let mut tasks = json!([asking("a", 3, "1"), asking("b", 3, "10")]);
        tasks[0]["minAvailable"] = json!(minima[0]);
        tasks[1]["minAvailable"] = json!(minima[1]);
        tasks[1]["template"]["spec"]["priorityClassName"] = json!("high");
        let mut cluster = Cluster::new(json!({"tasks": tasks, "minAvailable": min}));
        cluster.priorities.insert("high".to_owned(), 100);
        cluster.settle();
        assert_eq!(group(&cluster)["spec"]["minResources"]["cpu"], expected, "{min} {minima:?}");
    };
    check(2, [3, 3], "20");
    check(4, [3, 3], "31");
    check(2, [1, 1], "11");
    check(3, [1, 1], "21");
    check(5, [1, 1], "32");
}

// PG-4
#[test]
fn the_jobs_own_class_ranks_no_task_before_another() {
    let mut tasks = json!([asking("a", 1, "1"), asking("b", 1, "10")]);
    tasks[1]["template"]["spec"]["priorityClassName"] = json!("low");
    let mut cluster = Cluster::new(json!({"tasks": tasks, "minAvailable": 1, "priorityClassName": "high"}));
    cluster.priorities.extend([("low".to_owned(), 1), ("high".to_owned(), 100)]);
    cluster.settle();
    assert_eq!(group(&cluster)["spec"]["minResources"]["cpu"], "10");
}

// PG-5
#[test]
fn a_partitioned_task_makes_sub_groups() {
    let mut spec = json!({"tasks": [task("w", 4)]});
    spec["tasks"][0]["partitionPolicy"] =
        json!({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": {"mode": "hard"}});
    let mut cluster = Cluster::new(spec);
    cluster.settle();
    let expected = json!([{
        "name": "w", "subGroupSize": 2, "minSubGroups": 1, "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
        "matchLabelKeys": ["volcano.sh/partition-id"], "networkTopology": {"mode": "hard"},
    }]);
    assert_eq!(group(&cluster)["spec"]["subGroupPolicy"], expected);
    assert_eq!(
        (&group(&cluster)["spec"]["minMember"], &group(&cluster)["spec"]["minTaskMember"]),
        (&json!(2), &json!({"w": 2}))
    );
}

// PG-6, API-4
#[test]
fn a_group_is_kept_in_step_and_its_status_is_left_alone() {
    let mut cluster = Cluster::running(json!({"tasks": [asking("a", 2, "1")]}));
    let mut tasks = cluster.job()["spec"]["tasks"].clone();
    tasks[0]["replicas"] = json!(4);
    tasks[0]["minAvailable"] = json!(4);
    cluster.world.edit("Job", "j", json!({"spec": {"tasks": tasks, "minAvailable": 4, "priorityClassName": "high"}}));
    cluster.settle();
    let group = group(&cluster);
    assert_eq!((&group["spec"]["minMember"], &group["spec"]["minResources"]["cpu"]), (&json!(4), &json!("4")));
    assert_eq!(
        (&group["spec"]["minTaskMember"], &group["spec"]["priorityClassName"]),
        (&json!({"a": 4}), &json!("high"))
    );
    assert_eq!(group["status"]["phase"], "Inqueue");
}

// CTL-16, UI-20
#[test]
fn why_a_gang_waits_is_said_once() {
    let mut cluster = Cluster::new(gang());
    cluster.settle();
    let condition = |kind: &str, second: i32, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": format!("2026-01-01T00:00:0{second}Z"), "message": message});
    let waits = condition("Unschedulable", 1, "3/3 tasks in gang unschedulable");
    cluster.world.edit("PodGroup", "j-u", json!({"status": {"phase": "Pending", "conditions": [waits]}}));
    cluster.settle();
    cluster.settle();
    assert_eq!(
        cluster.events("PodGroupPending"),
        ["PodGroup d:j-u unschedulable, reason: 3/3 tasks in gang unschedulable"]
    );
    assert_eq!(cluster.status()["state"]["reason"], "PodGroupPending");
    cluster.world.edit(
        "PodGroup",
        "j-u",
        json!({"status": {"phase": "Inqueue", "conditions": [waits, condition("Scheduled", 2, "")]}}),
    );
    cluster.settle();
    assert_eq!(cluster.status()["state"].get("reason"), None);
}
