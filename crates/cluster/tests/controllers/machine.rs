//! This machine as a node: registration, heart-beat, pressure, and what its absence means.

use crate::world::{World, condition, is_true, pod};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use volley_api::kube::text;
use volley_cluster::node::machine::Machine;
use volley_cluster::node::pressure::watch_pressure;
use volley_cluster::runtime::Capabilities;
use volley_cluster::runtime::spec::Mode;
use volley_cluster::store::Options;
use volley_plan::node::devices::{Device, DeviceId, GPU, Inventory};
use volley_plan::node::pressure::Pressures;

const NODES: (&str, &str) = ("", "nodes");
const PODS: (&str, &str) = ("", "pods");
const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const LEASE_NAMESPACE: &str = "kube-node-lease";

fn machine(world: &World, gpus: u32) -> Arc<Machine> {
    let device = |board| Device {
        id: DeviceId(format!("GPU-{board}")),
        resource: GPU.to_owned(),
        board,
        numa_node: None,
        is_healthy: true,
    };
    let inventory = Inventory { devices: (0..gpus).map(device).collect(), slices: 1 };
    let lacks = vec!["pods have no network of their own".to_owned()];
    let capabilities = Capabilities { mode: Mode::Rootless, cgroups: "none".to_owned(), lacks };
    let lacks = vec!["GPUs are pretended".to_owned()];
    let labels = BTreeMap::from([("nvidia.com/gpu.count".to_owned(), gpus.to_string())]);
    Arc::new(Machine::observe(&world.home, &capabilities, lacks, labels, inventory))
}

impl World {
    fn own_node(&self, machine: &Machine) -> Value {
        self.local().get("", "nodes", "", &machine.name).unwrap()
    }

    fn lease(&self, machine: &Machine) -> Option<Value> {
        self.local().get(LEASES.0, LEASES.1, LEASE_NAMESPACE, &machine.name)
    }
}

fn taints(node: &Value) -> Vec<&str> {
    node["spec"]["taints"].as_array().into_iter().flatten().map(|taint| text(taint, "key")).collect()
}

// K 21
#[tokio::test]
async fn the_placeholder_becomes_a_node_that_is_ready_and_says_how_it_runs_pods() {
    let world = World::start().await;
    world.until("the placeholder", || world.local().list("", "nodes", "").pop()).await;
    world.create(PODS, pod("p", json!({}))).await;
    let machine = machine(&world, 2);
    machine.register(&world.server).await.unwrap();
    let node = world.own_node(&machine);
    assert!(is_true(&node, "Ready"));
    assert_eq!(condition(&node, "Ready").unwrap()["reason"], "KubeletReady");
    assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "volley-rootless://0.1.0");
    assert_eq!(node["metadata"]["annotations"]["volley.dev/runtime"], "rootless");
    let lacks = "pods have no network of their own; GPUs are pretended";
    assert_eq!(node["metadata"]["annotations"]["volley.dev/runtime-lacks"], lacks);
    assert_eq!(node["status"]["allocatable"][GPU], "2");
    let lease = world.lease(&machine).unwrap();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    world.until_true("untainted", || taints(&world.own_node(&machine)).is_empty()).await;
    world.until("bound", || world.get(PODS, "p").filter(|pod| pod["spec"]["nodeName"] == *machine.name)).await;
}

#[tokio::test]
async fn a_restart_changes_what_is_new_and_keeps_what_users_have_set() {
    let world = World::start_after(Options::default(), async |world: &World| {
        machine(world, 4).register(&world.server).await.unwrap();
    })
    .await;
    let before = machine(&world, 4);
    let users = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"unschedulable": true}});
    world.local().patch("", "nodes", "", &before.name, users).await.unwrap();
    let cordoned = ["node.kubernetes.io/unschedulable"];
    world.until_true("cordoned", || taints(&world.own_node(&before)) == cordoned).await;
    let old = world.own_node(&before);
    let after = machine(&world, 3);
    after.register(&world.server).await.unwrap();
    let node = world.own_node(&after);
    assert_eq!(node["status"]["capacity"][GPU], "3");
    assert_eq!(node["metadata"]["labels"]["nvidia.com/gpu.count"], "3");
    assert_eq!(node["metadata"]["labels"]["team"], "a");
    assert_eq!(node["spec"], old["spec"]);
    let since = |node: &Value| condition(node, "Ready").unwrap()["lastTransitionTime"].clone();
    assert_eq!(since(&node), since(&old));
    after.register(&world.server).await.unwrap();
    let again = world.own_node(&after);
    assert_eq!(again["metadata"]["resourceVersion"], node["metadata"]["resourceVersion"], "nothing is written twice");
}

#[tokio::test]
async fn a_deleted_node_comes_back_and_pressure_shows_at_once() {
    let world = World::start().await;
    let machine = machine(&world, 0);
    let stop = CancellationToken::new();
    let images = || vec![(vec!["i:1".to_owned()], 7)];
    let running = tokio::spawn(machine.clone().run(world.server.clone(), images, stop.clone()));
    let listed = |node: &Value| node["status"]["images"] == json!([{"names": ["i:1"], "sizeBytes": 7}]);
    let first = world.until("images", || world.get(NODES, &machine.name).filter(listed)).await;
    world.delete(NODES, &machine.name, "Background").await.unwrap();
    machine.set_pressure(Pressures { memory: true, ..Pressures::default() });
    let is_back = |node: &Value| node["metadata"]["uid"] != first["metadata"]["uid"] && is_true(node, "MemoryPressure");
    let node = world.until("back", || world.get(NODES, &machine.name).filter(is_back)).await;
    let condition = condition(&node, "MemoryPressure").unwrap();
    assert_eq!(condition["message"], "kubelet has insufficient memory available");
    let memory = ["node.kubernetes.io/memory-pressure"];
    world.until_true("tainted", || taints(&world.own_node(&machine)) == memory).await;
    let owned = |lease: &Value| lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"];
    world.until("its lease", || world.lease(&machine).filter(owned)).await;
    let watch = watch_pressure(machine.clone(), Vec::new, |_: &str, _| {}, async || {}, stop.clone());
    let watching = tokio::spawn(watch);
    world.until_true("relief", || !is_true(&world.own_node(&machine), "MemoryPressure")).await;
    stop.cancel();
    running.await.unwrap();
    watching.await.unwrap();
    assert!(is_true(&world.own_node(&machine), "Ready"), "a stop is not an absence yet");
}

// Issue 3: a job that finds no GPU waits with the numbers, and starts when one is free.
#[tokio::test]
async fn the_fifth_of_four_gpu_pods_waits_with_the_numbers_until_one_ends() {
    let world = World::start_after(Options::default(), async |world: &World| {
        machine(world, 4).register(&world.server).await.unwrap();
    })
    .await;
    let name = machine(&world, 4).name.clone();
    let is_bound = |pod: &str| world.get(PODS, pod).is_some_and(|pod| pod["spec"]["nodeName"] == *name);
    for job in ["j1", "j2", "j3", "j4", "j5"] {
        let resources = json!({"limits": {GPU: "1"}, "requests": {GPU: "1"}});
        world
            .create(PODS, pod(job, json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})))
            .await;
        world.until_true(job, || job == "j5" || is_bound(job)).await;
    }
    let reason = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. needs 1 nvidia.com/gpu";
    world.until_told("j5", &format!("FailedScheduling: {reason}")).await;
    let told = world.get(PODS, "j5").unwrap();
    let told = text(condition(&told, "PodScheduled").unwrap(), "message").to_owned();
    assert!(told.starts_with(reason) && told.contains("0 free") && told.contains("default/j1"), "{told}");
    world.patch_status(PODS, "j2", json!({"phase": "Succeeded"})).await;
    world.until_true("j5 bound", || is_bound("j5")).await;
}

/// A cluster that finds the node of an earlier run, whose lease was renewed then.
async fn world_with_old_node(renewed: &str) -> (World, Arc<Machine>) {
    let world = World::start_after(Options::default(), async |world: &World| {
        let machine = machine(world, 1);
        machine.register(&world.server).await.unwrap();
        if !renewed.is_empty() {
            let patch = json!({"spec": {"renewTime": renewed}});
            world.local().patch(LEASES.0, LEASES.1, LEASE_NAMESPACE, &machine.name, patch).await.unwrap();
        }
    })
    .await;
    let machine = machine(&world, 1);
    world.until_true("untainted", || taints(&world.own_node(&machine)).is_empty()).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(46)).await;
    tokio::time::resume();
    (world, machine)
}

#[tokio::test]
async fn a_node_of_an_earlier_run_becomes_the_placeholder_when_nobody_speaks_for_it() {
    let (world, machine) = world_with_old_node("2020-01-01T00:00:00.000000Z").await;
    let is_missing = |node: &Value| condition(node, "Ready").is_some_and(|ready| ready["reason"] == "NodeAgentMissing");
    let node = world.until("silent", || Some(world.own_node(&machine)).filter(is_missing)).await;
    assert!(node["status"]["allocatable"].get(GPU).is_none());
    world.until_true("tainted", || taints(&world.own_node(&machine)) == ["node.kubernetes.io/not-ready"]).await;
    machine.register(&world.server).await.unwrap();
    assert!(is_true(&world.own_node(&machine), "Ready"));
}

#[tokio::test]
async fn a_node_whose_lease_is_fresh_stays_ready() {
    let (world, machine) = world_with_old_node("").await;
    // Another controller's work shows that the visit at the same moment is over.
    world.create(PODS, pod("p", json!({}))).await;
    world.until("bound", || world.get(PODS, "p").filter(|pod| pod["spec"]["nodeName"] == *machine.name)).await;
    assert!(is_true(&world.own_node(&machine), "Ready"));
}
