//! Gangs that are told of in other ways than by Volcano's PodGroup alone: by a Workload, by coscheduling's PodGroup, and
//! network domains by HyperNodes. What gangs waited for is remembered.

use crate::gangs::{GROUPS, NODES, PODS, member, node, pod};
use crate::world::{World, condition};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_api::kube::text;
use volley_plan::why::history;

const WORKLOADS: (&str, &str) = ("scheduling.k8s.io", "workloads");
const THEIRS: (&str, &str) = ("scheduling.x-k8s.io", "podgroups");
const QUEUES: (&str, &str) = ("scheduling.volcano.sh", "queues");
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

impl World {
    /// Waits until the pod is told so by its condition.
    async fn until_waits(&self, pod: &str, part: &str) {
        let told = || {
            let pod = self.get(PODS, pod)?;
            let told = condition(&pod, "PodScheduled").filter(|told| told["status"] == "False")?;
            text(told, "message").contains(part).then_some(())
        };
        self.until(&format!("{pod} is told `{part}`"), told).await;
    }

    fn reasons(&self, group: &str) -> Vec<String> {
        let group = self.get(GROUPS, group).unwrap_or_default();
        history::read(&group).into_iter().map(|record| record.reason).collect()
    }
}

#[tokio::test]
async fn a_gang_remembers_for_what_it_waited() {
    let world = World::with_nodes(&[("a", 2)]).await;
    world.create(QUEUES, json!({"metadata": {"name": "q"}, "spec": {"weight": 1}})).await;
    world.create(GROUPS, json!({"metadata": {"name": "g"}, "spec": {"minMember": 2, "queue": "q"}})).await;
    world.until_phase("g", "Inqueue").await;
    world.patch_status(QUEUES, "q", json!({"state": "Closed"})).await;
    for number in 0..2 {
        world.create(PODS, member("g", number, 2)).await;
    }
    let last = |reason: &str| world.reasons("g").last().is_some_and(|last| last == reason);
    world.until_true("a closed queue", || last("ClosedQueue")).await;
    world.patch_status(QUEUES, "q", json!({"state": "Open"})).await;
    world.until_true("a small cluster", || last("TooLarge")).await;
    world.create(NODES, node("b", 2)).await;
    world.until_phase("g", "Running").await;
    world.until_true("a place", || last("Placed")).await;
    let reasons = world.reasons("g");
    let once: BTreeSet<&String> = reasons.iter().collect();
    assert_eq!(once.len(), reasons.len(), "each is written once: {reasons:?}");
}

#[tokio::test]
async fn pods_of_a_workload_start_together_and_wait_for_it() {
    let world = World::with_nodes(&[("a", 2)]).await;
    let of = |number: u32| {
        let mut pod = pod(&format!("w-{number}"), "default-scheduler", 2);
        pod["spec"]["workloadRef"] = json!({"name": "w", "podGroup": "workers"});
        pod
    };
    world.create(PODS, of(0)).await;
    world.until_waits("w-0", "Workload default/w does not exist").await;
    let groups = json!([{"name": "workers", "policy": {"gang": {"minCount": 2}}}]);
    world.create(WORKLOADS, json!({"metadata": {"name": "w"}, "spec": {"podGroups": groups}})).await;
    world.create(PODS, of(1)).await;
    world.until_waits("w-1", "needs 4 nvidia.com/gpu together").await;
    assert!(world.node_of("w-0").is_none());
    world.create(NODES, node("b", 2)).await;
    world.until_placed(&["w-0", "w-1"]).await;
}

/// As coscheduling's own: its status has counts and a phase, but no conditions.
fn theirs() -> Value {
    let counts = json!({"type": "integer"});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}, "running": counts, "succeeded": counts, "failed": counts}});
    let spec = json!({"type": "object", "properties": {"minMember": counts, "scheduleTimeoutSeconds": counts}});
    json!({"metadata": {"name": "podgroups.scheduling.x-k8s.io"}, "spec": {
        "group": "scheduling.x-k8s.io", "scope": "Namespaced",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}}]}})
}

#[tokio::test]
async fn coschedulings_groups_are_gangs_as_soon_as_they_are_defined() {
    let world = World::with_nodes(&[("a", 2)]).await;
    let of = |number: u32, label: &str| {
        let mut pod = pod(&format!("c-{number}"), "volley", 2);
        pod["metadata"]["labels"] = json!({label: "c"});
        pod
    };
    world.create(PODS, of(0, "scheduling.x-k8s.io/pod-group")).await;
    world.until_waits("c-0", "PodGroup default/c does not exist").await;
    world.create(DEFINITIONS, theirs()).await;
    let is_served = |found: &Value| condition(found, "Established").is_some_and(|told| told["status"] == "True");
    let name = "podgroups.scheduling.x-k8s.io";
    world.until("it is defined", || world.local().get(DEFINITIONS.0, DEFINITIONS.1, "", name).filter(is_served)).await;
    world
        .create(THEIRS, json!({"metadata": {"name": "c"}, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 10}}))
        .await;
    world.create(PODS, of(1, "pod-group.scheduling.sigs.k8s.io")).await;
    world.until_waits("c-1", "needs 4 nvidia.com/gpu together").await;
    world.until_told("c", "Unschedulable: 2/2 tasks in gang unschedulable").await;
    assert!(world.node_of("c-0").is_none());
    world.create(NODES, node("b", 2)).await;
    world.until_placed(&["c-0", "c-1"]).await;
    world.until_told("c", "Scheduled: pod group is ready").await;
    let is_running = |group: &Value| group["status"]["phase"] == "Running";
    let group = world.until("it runs", || world.get(THEIRS, "c").filter(is_running)).await;
    assert!(history::read(&group).len() >= 2, "{group}");
}

fn rack(name: &str, tier: u32, kind: &str, members: &[&str]) -> Value {
    let member = |name: &&str| json!({"type": kind, "selector": {"exactMatch": {"name": name}}});
    let members: Vec<Value> = members.iter().map(member).collect();
    json!({"metadata": {"name": name}, "spec": {"tier": tier, "members": members}})
}

// NT-1, ADM-54
#[tokio::test]
async fn gangs_keep_within_their_tier_where_they_must_and_go_beyond_it_where_they_may() {
    let world = World::with_nodes(&[("a0", 2), ("a1", 2), ("b0", 2), ("b1", 2)]).await;
    let hyper = ("topology.volcano.sh", "hypernodes");
    for rack in [
        rack("rack-a", 1, "Node", &["a0", "a1"]),
        rack("rack-b", 1, "Node", &["b0", "b1"]),
        rack("row", 2, "HyperNode", &["rack-a", "rack-b"]),
    ] {
        world.create(hyper, rack).await;
    }
    let refused = world.local().create(hyper.0, hyper.1, "", rack("bad", 1, "Node", &[])).await;
    assert!(refused.is_err(), "it has no member");
    world.create(PODS, pod("taken", "default-scheduler", 2)).await;
    world.until_placed(&["taken"]).await;
    let taken = world.node_of("taken").unwrap();
    let topology = |mode: &str, tier: u32| json!({"mode": mode, "highestTierAllowed": tier});
    let gang =
        |mode: &str, tier: u32| json!({"minMember": 2, "queue": "default", "networkTopology": topology(mode, tier)});
    world.gang("hard", gang("hard", 1), 2, 2).await;
    world.until_placed(&["hard-0", "hard-1"]).await;
    let rack_of = |pod: &str| world.node_of(pod).unwrap()[..1].to_owned();
    assert_eq!(rack_of("hard-0"), rack_of("hard-1"));
    assert_ne!(rack_of("hard-0"), taken[..1], "only the other rack has room for both");
    let group = world.get(GROUPS, "hard").unwrap();
    let domain = &group["metadata"]["annotations"]["volcano.sh/job-allocated-hypernode"];
    assert_eq!(*domain, format!("rack-{}", rack_of("hard-0")));
    // One node is left in one rack; another row would have room for two.
    world.create(NODES, node("c0", 2)).await;
    world.gang("kept", gang("hard", 1), 2, 2).await;
    world.until_waits("kept-0", "tier").await;
    assert!(world.node_of("kept-0").is_none());
    world.gang("soft", gang("soft", 1), 2, 2).await;
    world.until_placed(&["soft-0", "soft-1"]).await;
    assert_ne!(rack_of("soft-0"), rack_of("soft-1"));
    assert!(world.node_of("kept-0").is_none());
}
