//! Gangs on nodes that are objects only: they wait whole, start by themselves, borrow, give back, make room.

use crate::world::{World, condition, is_true};
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_api::volcano::keys;

pub const NODES: (&str, &str) = ("", "nodes");
pub const PODS: (&str, &str) = ("", "pods");
pub const GROUPS: (&str, &str) = ("scheduling.volcano.sh", "podgroups");
const QUEUES: (&str, &str) = ("scheduling.volcano.sh", "queues");
const GPU: &str = "nvidia.com/gpu";

pub fn node(name: &str, gpus: u32) -> Value {
    let allocatable = json!({"cpu": "64", "memory": "64Gi", "pods": "110", GPU: gpus.to_string()});
    json!({"metadata": {"name": name, "labels": {"zone": name}}, "status": {"allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

pub fn pod(name: &str, scheduler: &str, gpus: u32) -> Value {
    let amounts = json!({GPU: gpus.to_string()});
    let container = json!({"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}});
    json!({"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]}})
}

impl World {
    /// A world with these nodes.
    pub async fn with_nodes(nodes: &[(&str, u32)]) -> World {
        let world = World::start().await;
        for (name, gpus) in nodes {
            world.create(NODES, node(name, *gpus)).await;
        }
        world
    }

    async fn queue(&self, name: &str, spec: Value) {
        let mut queue = json!({"metadata": {"name": name}, "spec": {"weight": 1}});
        spec.as_object().unwrap().iter().for_each(|(key, value)| queue["spec"][key] = value.clone());
        self.create(QUEUES, queue).await;
    }

    /// A group, and so many pods of it with so many GPUs each.
    pub async fn gang(&self, name: &str, spec: Value, pods: u32, gpus: u32) {
        self.create(GROUPS, json!({"metadata": {"name": name}, "spec": spec})).await;
        for number in 0..pods {
            self.create(PODS, member(name, number, gpus)).await;
        }
    }

    pub fn node_of(&self, pod: &str) -> Option<String> {
        let pod = self.get(PODS, pod)?;
        Some(text(&pod, "spec.nodeName").to_owned()).filter(|node| !node.is_empty())
    }

    pub fn phase(&self, group: &str) -> String {
        self.get(GROUPS, group).map(|group| text(&group, "status.phase").to_owned()).unwrap_or_default()
    }

    pub async fn until_placed(&self, pods: &[&str]) {
        self.until_true(&format!("{pods:?} placed"), || pods.iter().all(|pod| self.node_of(pod).is_some())).await;
    }

    pub async fn until_phase(&self, group: &str, phase: &str) {
        self.until_true(&format!("{group} is {phase}"), || self.phase(group) == phase).await;
    }

    pub fn is_going(&self, pod: &str) -> bool {
        self.get(PODS, pod).is_some_and(|pod| !text(&pod, "metadata.deletionTimestamp").is_empty())
    }

    /// Ends a pod that was evicted, as its node would.
    async fn end(&self, pod: &str) {
        self.until_true(&format!("{pod} is evicted"), || self.is_going(pod)).await;
        self.local().delete_gracefully(("default", pod), 0).await.unwrap();
    }
}

pub fn member(gang: &str, number: u32, gpus: u32) -> Value {
    let mut pod = pod(&format!("{gang}-{number}"), "volcano", gpus);
    pod["metadata"]["annotations"] = json!({keys::GROUP: gang});
    pod
}

// GANG-6, UI-10, UI-11, UI-12, PGP-2, PGP-4
#[tokio::test]
async fn a_gang_waits_whole_with_its_reason_and_starts_when_room_appears() {
    let world = World::with_nodes(&[("a", 4)]).await;
    world.gang("g", json!({"minMember": 2, "queue": "default"}), 2, 4).await;
    world.until_phase("g", "Inqueue").await;
    let told = |group: &Value| condition(group, "Unschedulable").is_some_and(|told| told["status"] == "True");
    let group = world.until("the reason", || world.get(GROUPS, "g").filter(told)).await;
    let message = text(condition(&group, "Unschedulable").unwrap(), "message").to_owned();
    assert!(message.contains("needs 8 nvidia.com/gpu together"), "{message}");
    world.until_told("g-0", "FailedScheduling").await;
    assert!(world.node_of("g-0").is_none() && world.node_of("g-1").is_none(), "nothing of it is placed");
    world.create(NODES, node("b", 4)).await;
    world.until_placed(&["g-0", "g-1"]).await;
    world.until_phase("g", "Running").await;
    let group = world.get(GROUPS, "g").unwrap();
    assert!(is_true(&group, "Scheduled") && !is_true(&group, "Unschedulable"), "{group}");
    world.until_told("g", "Scheduled: pod group is ready").await;
    world.until_told("g-0", "Scheduled: Successfully assigned default/g-0 to ").await;
}

// Q-4, ACT-9, PROP-6
#[tokio::test]
async fn a_queue_borrows_what_is_idle_and_gives_it_back() {
    let world = World::with_nodes(&[("a", 4)]).await;
    world.queue("left", json!({})).await;
    world.queue("right", json!({})).await;
    world.gang("l", json!({"minMember": 1, "queue": "left"}), 4, 1).await;
    world.until_placed(&["l-0", "l-1", "l-2", "l-3"]).await;
    let allocated = || world.get(QUEUES, "left").unwrap()["status"]["allocated"][GPU] == "4";
    world.until_true("the queue says what it holds", allocated).await;
    world.gang("r", json!({"minMember": 2, "queue": "right"}), 2, 1).await;
    let going = || ["l-0", "l-1", "l-2", "l-3"].into_iter().filter(|pod| world.is_going(pod)).collect::<Vec<_>>();
    world.until_true("two pods are reclaimed", || going().len() == 2).await;
    let evicted = going();
    let victim = world.get(PODS, evicted[0]).unwrap();
    assert_eq!(text(condition(&victim, "DisruptionTarget").unwrap(), "reason"), "PreemptionByScheduler");
    world.until_told(evicted[0], "Evict: reclaim").await;
    for pod in &evicted {
        world.end(pod).await;
    }
    world.until_placed(&["r-0", "r-1"]).await;
    assert_eq!(going().len(), 0, "no more than was needed");
}

// ACT-6, UI-3, UI-4
#[tokio::test]
async fn a_gang_of_higher_priority_has_a_lower_one_evicted_and_takes_its_place() {
    let world = World::with_nodes(&[("a", 4)]).await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    world.create(("scheduling.k8s.io", "priorityclasses"), class).await;
    world.gang("low", json!({"minMember": 2, "queue": "default"}), 2, 2).await;
    world.until_phase("low", "Running").await;
    world.gang("high", json!({"minMember": 2, "queue": "default", "priorityClassName": "high"}), 2, 2).await;
    world.until_true("both are evicted", || world.is_going("low-0") && world.is_going("low-1")).await;
    world.until_told("low-0", "Evict: preempt").await;
    let nominated = |pod: &Value| pod["status"]["nominatedNodeName"] == "a";
    world.until("room is kept for it", || world.get(PODS, "high-0").filter(nominated)).await;
    world.end("low-0").await;
    world.end("low-1").await;
    world.until_placed(&["high-0", "high-1"]).await;
}

#[tokio::test]
async fn nodes_that_are_lost_or_cordoned_take_no_gang_until_they_are_back() {
    let world = World::with_nodes(&[("a", 4), ("b", 4)]).await;
    world.patch(NODES, "a", json!({"spec": {"unschedulable": true}})).await;
    world.patch_status(NODES, "b", json!({"conditions": [{"type": "Ready", "status": "Unknown"}]})).await;
    let is_lost = |node: &Value| node["spec"]["taints"].to_string().contains("node.kubernetes.io/unreachable");
    world.until("b is seen as lost", || world.get(NODES, "b").filter(is_lost)).await;
    world.gang("g", json!({"minMember": 2, "queue": "default"}), 2, 4).await;
    world.until_told("g-0", "FailedScheduling").await;
    world.patch(NODES, "a", json!({"spec": {"unschedulable": null}})).await;
    world.patch_status(NODES, "b", json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    world.until_placed(&["g-0", "g-1"]).await;
}

// SCH-1, SCH-2
#[tokio::test]
async fn pods_of_several_schedulers_share_the_nodes() {
    let world = World::with_nodes(&[("a", 4)]).await;
    world.create(PODS, pod("theirs", "another", 1)).await;
    world.create(PODS, pod("groupless", "volcano", 1)).await;
    world.create(PODS, pod("plain", "default-scheduler", 1)).await;
    world.until_placed(&["plain"]).await;
    world.create(GROUPS, json!({"metadata": {"name": "v"}, "spec": {"minMember": 1, "queue": "default"}})).await;
    let mut ours = member("v", 0, 3);
    ours["spec"]["schedulerName"] = json!("volley");
    world.create(PODS, ours).await;
    world.until_placed(&["v-0"]).await;
    world.create(PODS, pod("late", "default-scheduler", 1)).await;
    world
        .until_told(
            "late",
            "FailedScheduling: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were not ready.",
        )
        .await;
    assert!(world.node_of("theirs").is_none(), "another's pod is left to it");
    assert!(world.node_of("groupless").is_none(), "a pod without a group waits for one");
}

#[tokio::test]
async fn plain_pods_go_where_selectors_taints_and_ports_let_them() {
    let world = World::with_nodes(&[("a", 4), ("b", 4)]).await;
    let taint = json!([{"key": "only", "value": "x", "effect": "NoSchedule"}]);
    world.patch(NODES, "b", json!({"spec": {"taints": taint}})).await;
    let is_tainted = |node: &Value| node["spec"]["taints"] == taint;
    world.until("b is tainted", || world.get(NODES, "b").filter(is_tainted)).await;
    let with = |name: &str, spec: Value| {
        let mut pod = pod(name, "default-scheduler", 1);
        spec.as_object().unwrap().iter().for_each(|(key, value)| pod["spec"][key] = value.clone());
        pod
    };
    world.create(PODS, with("chosen", json!({"nodeSelector": {"zone": "b"}}))).await;
    world.until_told("chosen", "FailedScheduling").await;
    let bears = json!([{"key": "only", "operator": "Exists"}]);
    world.create(PODS, with("bears", json!({"nodeSelector": {"zone": "b"}, "tolerations": bears}))).await;
    world.until_true("it bears the taint", || world.node_of("bears").as_deref() == Some("b")).await;
    let port = |name: &str| {
        let mut pod = pod(name, "default-scheduler", 1);
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        pod
    };
    world.create(PODS, port("first")).await;
    world.until_true("it has the port", || world.node_of("first").as_deref() == Some("a")).await;
    world.create(PODS, port("second")).await;
    world.until_told("second", "FailedScheduling").await;
    assert!(world.node_of("second").is_none());
    world.local().delete_gracefully(("default", "first"), 0).await.unwrap();
    world.until_placed(&["second"]).await;
}

// GANG-6
#[tokio::test]
async fn a_gang_that_was_bound_in_part_is_completed_or_given_back() {
    for (gpus, is_completed) in [(4, true), (2, false)] {
        let world = World::start_after(volley_cluster::store::Options::default(), async |world: &World| {
            world.create(NODES, node("a", gpus)).await;
            world.gang("g", json!({"minMember": 2, "queue": "default"}), 2, 2).await;
            world.patch(GROUPS, "g", json!({"status": {"phase": "Inqueue"}})).await;
            let first = world.get(PODS, "g-0").unwrap();
            world.local().bind(("default", "g-0"), text(&first, "metadata.uid"), "a").await.unwrap();
        })
        .await;
        if is_completed {
            world.until_placed(&["g-0", "g-1"]).await;
            world.until_phase("g", "Running").await;
        } else {
            world.end("g-0").await;
            world.until_told("g-0", "Evict: gang default/g could be placed only in part").await;
            assert!(world.node_of("g-1").is_none());
        }
    }
}

// CFG-2, CFG-3, CFG-3b
#[tokio::test]
async fn the_policy_is_read_from_volcanos_configmap_and_a_bad_one_changes_nothing() {
    let world = World::with_nodes(&[("a", 2)]).await;
    let namespace = json!({"metadata": {"name": "volcano-system"}});
    world.local().create("", "namespaces", "", namespace).await.unwrap();
    let map = |text: &str| json!({"metadata": {"name": "volcano-scheduler-configmap"}, "data": {"volcano-scheduler.conf": text}});
    let calm = "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: priority\n  - name: tdm\n";
    world.local().create("", "configmaps", "volcano-system", map(calm)).await.unwrap();
    let write = async |text: &str| {
        let patch = json!({"data": {"volcano-scheduler.conf": text}});
        world.local().patch("", "configmaps", "volcano-system", "volcano-scheduler-configmap", patch).await.unwrap();
    };
    let is_told = |word: &str| {
        let events = world.local().list("", "events", "volcano-system");
        events.iter().any(|event| text(event, "message").contains(word))
    };
    world.until_true("what has no meaning is told", || is_told("tdm")).await;
    write("actions: \"enqueue, dance\"\n").await;
    world.until_true("the bad one is told", || is_told("dance")).await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    world.create(("scheduling.k8s.io", "priorityclasses"), class).await;
    world.gang("low", json!({"minMember": 1, "queue": "default"}), 1, 2).await;
    world.until_phase("low", "Running").await;
    world.gang("high", json!({"minMember": 1, "queue": "default", "priorityClassName": "high"}), 1, 2).await;
    world.until_told("high-0", "FailedScheduling").await;
    assert!(!world.is_going("low-0"), "this policy evicts nobody");
    write(&calm.replace("allocate", "allocate, preempt")).await;
    world.until_true("the new policy evicts", || world.is_going("low-0")).await;
}
