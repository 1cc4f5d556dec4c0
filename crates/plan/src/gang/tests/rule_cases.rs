//! Rules of spec/volcano.md that no other case shows: order, requests, domains, doors, and other projects' groups.

use super::world::{GPU, World, key};
use crate::gang::objects::Key;
use crate::gang::report::report;
use crate::gang::snapshot::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};

// SCH-3, TIER-1
#[test]
fn gangs_go_by_class_then_age_and_pods_by_priority_then_number() {
    let mut world = World::new();
    world.class("high", 10);
    world.see(Kind::PriorityClass, &json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true}));
    world.class("low", 1);
    world.node("a", 3, json!({}));
    world.gang("low", 1, 1, 1, json!({"spec": {"priorityClassName": "low"}}));
    world.gang("usual", 1, 1, 1, json!({}));
    world.gang("high", 1, 1, 1, json!({"spec": {"priorityClassName": "high"}}));
    world.group(
        "pods",
        1,
        json!({"spec": {"priorityClassName": "high"}, "metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}}),
    );
    world.pod("pods-2", "pods", 1, json!({}));
    world.pod("pods-1", "pods", 1, json!({}));
    world.pod("pods-3", "pods", 1, json!({"metadata": {"annotations": {"volcano.sh/task-priority": "9"}}}));
    assert_eq!(world.step(), ["high-0>a", "pods-3>a", "pods-1>a"]);
}

// L-6: an agent without a limit takes all that waits, so that the order of its queue is kept here.
#[test]
fn among_equals_the_launch_that_its_queue_calls_more_important_goes_first_and_evicts_nobody() {
    let mut world = World::new();
    world.node("a", 1, json!({}));
    let launched = |priority: &str| json!({"metadata": {"labels": {"volley.dev/priority": priority}}});
    for (name, labels) in [("low", launched("3")), ("plain", json!({})), ("critical", launched("0"))] {
        world.group(name, 1, json!({}));
        world.pod(&format!("{name}-0"), name, 1, labels);
        world.now += 1;
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        let placement = world.place();
        assert!(placement.evict.is_empty());
        order.extend(world.step());
        let name = order.last().unwrap().split("-0").next().unwrap().to_owned();
        world.end(&name);
    }
    assert_eq!(order, ["critical-0>a", "plain-0>a", "low-0>a"]);
}

// SCH-4, SCH-10
#[test]
fn what_is_ending_is_room_to_come_and_a_node_that_is_not_ready_is_none() {
    let mut world = World::new();
    world.node("a", 1, json!({}));
    world.node("b", 1, json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    world.gang("old", 1, 1, 1, json!({}));
    assert_eq!(world.step(), ["old-0>a"]);
    world.change("old-0", json!({"metadata": {"deletionTimestamp": "1970-01-12T13:50:00Z"}}));
    world.gang("new", 1, 1, 1, json!({}));
    assert_eq!(world.why("new"), "starts when 1 pod that is ending has gone, by about 13:50 UTC");
}

// SCH-30
#[test]
fn a_pod_asks_for_its_containers_or_its_greediest_first_step_and_its_overhead() {
    let asks = |gpus: i64| json!({"name": "c", "resources": {"requests": {GPU: gpus.to_string()}}});
    let mut sidecar = asks(1);
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({"containers": [asks(1), asks(1)], "initContainers": [sidecar, asks(4)], "overhead": {GPU: "1"}});
    let mut world = World::new();
    world.node("a", 5, json!({}));
    world.group("g", 1, json!({}));
    world.pod("g-0", "g", 0, json!({"spec": spec}));
    assert_eq!(world.why("g"), "one pod needs 6 nvidia.com/gpu, the largest node has 5; it can never run here");
    world.node("b", 6, json!({}));
    assert_eq!(world.step(), ["g-0>b"]);
}

// ACT-2, ACT-4, ACT-12
#[test]
fn a_task_that_fits_nowhere_is_not_tried_pod_by_pod_and_others_make_up_for_it() {
    let task = |name: &str| json!({"metadata": {"annotations": {"volcano.sh/task-spec": name}}});
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.group("g", 2, json!({}));
    world.pod("g-big-0", "g", 9, task("big"));
    world.pod("g-big-1", "g", 9, task("big"));
    world.pod("g-small-0", "g", 1, task("small"));
    world.pod("g-small-1", "g", 1, task("small"));
    assert_eq!(world.step(), ["g-small-0>a", "g-small-1>a"]);
    assert!(world.place().waiting[&key("g")].has_minimum);
}

fn rack(world: &mut World, name: &str, nodes: &[&str]) {
    let member = |node: &&str| json!({"type": "Node", "selector": {"exactMatch": {"name": node}}});
    let members: Vec<Value> = nodes.iter().map(member).collect();
    world.see(Kind::HyperNode, &json!({"metadata": {"name": name}, "spec": {"tier": 1, "members": members}}));
}

// NT-2, NT-8, ACT-13
#[test]
fn a_gang_waits_for_domains_and_skips_those_that_are_too_small() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.node("b", 4, json!({}));
    world.gang("g", 2, 2, 2, json!({"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}));
    assert_eq!(world.why("g"), "needs a network domain, but no HyperNode is known yet");
    rack(&mut world, "small", &["a"]);
    rack(&mut world, "large", &["b"]);
    assert_eq!(world.step(), ["g-0>b", "g-1>b"]);
}

// NT-6
#[test]
fn each_part_of_a_gang_keeps_to_its_own_domain() {
    let mut world = World::new();
    for node in ["a", "b"] {
        world.node(node, 2, json!({}));
    }
    rack(&mut world, "left", &["a"]);
    rack(&mut world, "right", &["b"]);
    let policy = json!({"name": "p", "subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": ["part"],
        "labelSelector": {"matchLabels": {"app": "g"}}, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}});
    world.group("g", 4, json!({"spec": {"subGroupPolicy": [policy]}}));
    for index in 0..4 {
        world.pod(&format!("g-{index}"), "g", 1, json!({"metadata": {"labels": {"part": (index % 2).to_string()}}}));
    }
    let mut bound = world.step();
    bound.sort();
    assert_eq!(bound, ["g-0>a", "g-1>b", "g-2>a", "g-3>b"]);
}

// PROP-3
#[test]
fn a_queue_that_has_its_share_takes_nothing_from_others() {
    let mut world = World::new();
    world.queue("x", json!({}));
    world.node("a", 4, json!({}));
    for name in ["x0", "x1", "d0", "d1"] {
        let queue = if name.starts_with('x') { "x" } else { "default" };
        world.gang(name, 1, 1, 1, json!({"spec": {"queue": queue}}));
    }
    assert_eq!(world.step().len(), 4);
    world.gang("x2", 1, 1, 1, json!({"spec": {"queue": "x"}}));
    assert!(world.place().evict.is_empty());
    assert_eq!(
        world.why("x2").split(';').next(),
        Some("needs 1 nvidia.com/gpu, queue x uses 2 and its fair share is now 2")
    );
}

// CAP-4, QC-5
#[test]
fn a_group_is_not_let_in_beyond_its_queues_parents_nor_into_a_closed_queue() {
    let bound = |gpus: &str, parent: &str| json!({"spec": {"parent": parent, "capability": {GPU: gpus}}});
    let mut world = World::new();
    world.queue("team", bound("2", "root"));
    world.queue("kid", bound("8", "team"));
    world.queue("shut", json!({"status": {"state": "Closed"}}));
    world.node("a", 8, json!({}));
    let wish =
        |queue: &str| json!({"spec": {"queue": queue, "minResources": {GPU: "3"}}, "status": {"phase": "Pending"}});
    world.group("g", 1, wish("kid"));
    world.group("h", 1, wish("shut"));
    let placement = world.place();
    assert!(placement.admit.is_empty());
    let told = placement.waiting[&key("g")].on.to_string();
    assert_eq!(told, "needs 3 nvidia.com/gpu, queue team uses 0 and its capability is 2");
    assert_eq!(world.why("h"), "queue shut is closed; it takes gangs once it is open");
}

#[test]
fn groups_of_other_projects_start_whole_too() {
    let bare = json!({"annotations": null});
    let mut world = World::new();
    world.node("a", 2, json!({}));
    // coscheduling with a PodGroup, and its older labels that need none.
    world.group("c", 2, json!({"status": {"phase": "Running"}}));
    let mut labelled = json!({"metadata": bare});
    labelled["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "c"});
    world.pod("c-0", "", 1, labelled.clone());
    assert_eq!(world.why("c"), "needs 2 pods together, 1 exist");
    world.pod("c-1", "", 1, labelled);
    assert_eq!(world.step(), ["c-0>a", "c-1>a"]);
    let mut light = json!({"metadata": bare});
    light["metadata"]["labels"] = json!({"pod-group.scheduling.sigs.k8s.io/name": "l",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2"});
    world.pod("l-0", "", 1, light);
    let waits = |world: &World, name: &str| {
        world
            .place()
            .waiting
            .get(&Key { namespace: "pods/d".into(), name: name.into() })
            .map(|waiting| waiting.on.to_string())
    };
    assert_eq!(waits(&world, "l").as_deref(), Some("needs 2 pods together, 1 exist"));
    // Kubernetes' own.
    let workload = json!({"metadata": {"name": "w", "namespace": "d"},
        "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}]}});
    let mut member = json!({"metadata": bare, "spec": {"workloadRef": {"name": "w", "podGroup": "workers"}}});
    member["spec"]["schedulerName"] = json!("default-scheduler");
    world.pod("w-0", "", 1, member);
    world.see(Kind::Workload, &workload);
    assert_eq!(waits(&world, "w.workers").as_deref(), Some("needs 3 pods together, 1 exist"));
}

#[test]
fn a_gang_that_its_own_queue_refuses_keeps_nobody_else_out() {
    let mut world = World::new();
    world.node("a", 10, json!({}));
    world.queue("small", json!({"spec": {"capability": {GPU: "8"}, "priority": 10}}));
    let wants = |queue: &str, gpus: &str| json!({"spec": {"queue": queue, "minResources": {GPU: gpus}}, "status": {"phase": "Pending"}});
    world.group("first", 1, wants("small", "6"));
    for name in ["second", "third"] {
        world.group(name, 1, wants("small", "6"));
    }
    world.group("other", 1, wants("default", "3"));
    let admitted: Vec<String> = world.place().admit.iter().map(|key| key.name.to_string()).collect();
    assert_eq!(admitted, ["first", "other"]);
}

#[test]
fn ranks_that_have_succeeded_keep_no_room_at_the_door() {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.gang("done", 4, 4, 1, json!({"spec": {"minResources": {GPU: "4"}}}));
    assert_eq!(world.step().len(), 4);
    world.group("done", 4, json!({"spec": {"minResources": {GPU: "4"}}, "status": {"phase": "Running"}}));
    for pod in ["done-0", "done-1", "done-2"] {
        world.change(pod, json!({"status": {"phase": "Succeeded"}}));
    }
    world.group("new", 1, json!({"spec": {"minResources": {GPU: "3"}}, "status": {"phase": "Pending"}}));
    assert_eq!(world.place().admit, [key("new")]);
}

#[test]
fn a_gang_whose_binds_are_refused_has_no_turn_and_hears_why() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.gang("first", 1, 1, 2, json!({}));
    world.now += 1;
    world.gang("second", 1, 1, 2, json!({}));
    world.snapshot.resting.insert(key("first"), "denied by a webhook".to_owned());
    assert_eq!(world.why("first"), "binding rejected: denied by a webhook");
    let placement = world.place();
    let told = report(&world.snapshot, &placement, Timestamp::from_second(world.now).unwrap());
    let note = told.pods.iter().find(|note| &*note.pod.key.name == "first-0").unwrap();
    assert_eq!((note.reason, note.message.as_str()), ("SchedulerError", "binding rejected: denied by a webhook"));
    assert!(told.events.iter().any(|event| event.about.name == "first" && event.reason == "Unschedulable"));
    assert_eq!(world.step(), ["second-0>a"]);
}

#[test]
fn a_pod_that_asks_for_devices_by_claims_waits_and_hears_why() {
    let claims = json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}});
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.group("g", 1, json!({}));
    world.pod("g-0", "g", 1, claims.clone());
    world.group("light", 1, json!({}));
    world.pod("light-0", "light", 0, claims);
    world.change("light-0", json!({"spec": {"containers": [{"name": "c"}]}}));
    for gang in ["g", "light"] {
        let why = "asks for devices by resource claim \"gpu\", which this scheduler does not allocate";
        assert_eq!(world.why(gang), why, "{gang}");
    }
    assert!(world.step().is_empty());
}
