//! Nodes, the scheduler, and pods that no node will end.

use crate::world::{World, condition, is_true, pod};
use serde_json::{Value, json};
use volley_api::kube::text;

const NODES: (&str, &str) = ("", "nodes");
const PODS: (&str, &str) = ("", "pods");

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

async fn placeholder(world: &World) -> Value {
    world.until("the placeholder", || world.list_nodes().pop()).await
}

impl World {
    fn list_nodes(&self) -> Vec<Value> {
        self.local().list("", "nodes", "")
    }
}

// K 21
#[tokio::test]
async fn this_machine_is_a_node_that_is_not_ready() {
    let world = World::start().await;
    let node = placeholder(&world).await;
    assert_eq!(condition(&node, "Ready").unwrap()["reason"], "NodeAgentMissing");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
        assert!(node["status"]["capacity"][resource].is_string(), "{resource}");
    }
}

#[tokio::test]
async fn a_node_is_tainted_as_long_as_it_is_not_ready() {
    let world = World::start().await;
    let mut new = node("n");
    new["status"]["conditions"] = json!([]);
    let created = world.create(NODES, new).await;
    assert_eq!(created["spec"]["taints"], json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    world.patch_status(NODES, "n", json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    let is_free = |node: &Value| node["spec"].get("taints").is_none();
    world.until("free", || world.get(NODES, "n").filter(is_free)).await;
}

// K 16.2
#[tokio::test]
async fn a_pod_waits_with_a_reason_until_a_node_is_ready() {
    let world = World::start().await;
    placeholder(&world).await;
    world.create(PODS, pod("p", json!({}))).await;
    let reason = "0/1 nodes are available: 1 node(s) were not ready.";
    world.until_event("p", &format!("FailedScheduling: {reason}")).await;
    let waiting = world.get(PODS, "p").unwrap();
    let told = condition(&waiting, "PodScheduled").unwrap();
    assert_eq!(told["message"], reason);
    assert!(told.get("lastProbeTime").is_some_and(Value::is_null));
    world.create(NODES, node("n")).await;
    let bound = world.until("bound", || world.get(PODS, "p").filter(|pod| pod["spec"]["nodeName"] == "n")).await;
    assert!(is_true(&bound, "PodScheduled"));
    world.until_event("p", "Scheduled: Successfully assigned default/p to n").await;
    let events = world.list(("", "events"));
    let event = events.iter().find(|event| text(event, "reason") == "Scheduled").unwrap();
    assert_eq!((text(event, "action"), text(event, "reportingComponent")), ("Binding", "default-scheduler"));
    assert!(event["eventTime"].is_string() && event["firstTimestamp"].is_null());
}

#[tokio::test]
async fn a_pod_that_does_not_fit_gets_the_room_of_one_that_ends() {
    let world = World::start().await;
    placeholder(&world).await;
    world.create(NODES, node("n")).await;
    let greedy = |name: &str| {
        let mut pod = pod(name, json!({}));
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        pod
    };
    world.create(PODS, greedy("a")).await;
    world.until("a bound", || world.get(PODS, "a").filter(|pod| pod["spec"]["nodeName"] == "n")).await;
    world.create(PODS, greedy("b")).await;
    let reason = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were not ready. needs 1 cpu";
    world.until_told("b", &format!("FailedScheduling: {reason}")).await;
    world.patch_status(PODS, "a", json!({"phase": "Succeeded"})).await;
    world.until("b bound", || world.get(PODS, "b").filter(|pod| pod["spec"]["nodeName"] == "n")).await;
}

#[tokio::test]
async fn a_gated_pod_is_left_alone_until_its_gate_opens() {
    let world = World::start().await;
    world.create(NODES, node("n")).await;
    world.create(PODS, pod("gated", json!({"schedulingGates": [{"name": "example.com/wait"}]}))).await;
    world.create(PODS, pod("free", json!({}))).await;
    world.until("free bound", || world.get(PODS, "free").filter(|pod| pod["spec"]["nodeName"] == "n")).await;
    assert!(world.get(PODS, "gated").unwrap()["spec"].get("nodeName").is_none());
    world.patch(PODS, "gated", json!({"spec": {"schedulingGates": null}})).await;
    world.until("gated bound", || world.get(PODS, "gated").filter(|pod| pod["spec"]["nodeName"] == "n")).await;
}

// K-POD-DEL-1
#[tokio::test]
async fn a_pod_on_the_placeholder_does_not_hang_in_deletion() {
    let world = World::start().await;
    let node = placeholder(&world).await;
    world.create(PODS, pod("p", json!({"nodeName": node["metadata"]["name"]}))).await;
    world.delete(PODS, "p", "Background").await.unwrap();
    world.until_gone(PODS, "p").await;
}

// K-POD-DEL-1
#[tokio::test]
async fn a_pod_on_another_node_is_left_to_its_agent() {
    let world = World::start().await;
    placeholder(&world).await;
    world.create(NODES, node("n")).await;
    world.create(PODS, pod("p", json!({"nodeName": "n"}))).await;
    world.create(PODS, pod("q", json!({}))).await;
    world.delete(PODS, "p", "Background").await.unwrap();
    world.until("q bound", || world.get(PODS, "q").filter(|pod| pod["spec"]["nodeName"] == "n")).await;
    assert!(world.get(PODS, "p").unwrap()["metadata"]["deletionTimestamp"].is_string());
}

// K-POD-DEL-2
#[tokio::test]
async fn a_second_delete_can_only_shorten_the_grace() {
    let world = World::start().await;
    world.create(NODES, node("n")).await;
    world.create(PODS, pod("p", json!({"nodeName": "n"}))).await;
    let grace = || world.get(PODS, "p").map(|pod| pod["metadata"]["deletionGracePeriodSeconds"].clone());
    world.local().delete_gracefully(("default", "p"), 20).await.unwrap();
    assert_eq!(grace(), Some(json!(20)));
    world.local().delete_gracefully(("default", "p"), 40).await.unwrap();
    assert_eq!(grace(), Some(json!(20)));
    world.local().delete_gracefully(("default", "p"), 5).await.unwrap();
    assert_eq!(grace(), Some(json!(5)));
    world.local().delete_gracefully(("default", "p"), 0).await.unwrap();
    assert_eq!(grace(), None);
}

// K-SUB-2
#[tokio::test]
async fn a_pod_is_bound_once() {
    let world = World::start().await;
    let spec = json!({"schedulingGates": [{"name": "example.com/wait"}]});
    let created = world.create(PODS, pod("p", spec)).await;
    let uid = text(&created, "metadata.uid");
    let stranger = world.local().bind(("default", "p"), "another", "n").await.unwrap_err();
    assert_eq!(stranger.code, 409);
    world.local().bind(("default", "p"), uid, "n").await.unwrap();
    let again = world.local().bind(("default", "p"), uid, "m").await.unwrap_err();
    let message = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
    assert_eq!((again.code, &*again.message), (409, message));
}
