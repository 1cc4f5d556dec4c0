//! What one gang leaves to the next: the rest of its victims' room, what it borrowed, its own less important pods; and that
//! the sentences say so.

use super::world::{GPU, World, at, evicted};
use crate::gang::policy::Policy;
use crate::gang::report::report;
use crate::gang::snapshot::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};

fn in_class(class: &str) -> Value {
    json!({"spec": {"priorityClassName": class}})
}

// ACT-6
#[test]
fn what_a_victim_leaves_beyond_its_need_is_for_the_next() {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 4, json!({}));
    world.node("b", 1, json!({}));
    world.gang("large", 1, 1, 4, json!({}));
    world.gang("small", 1, 1, 1, json!({}));
    assert_eq!(world.step(), ["large-0>a", "small-0>b"]);
    world.gang("three", 1, 1, 3, in_class("high"));
    world.gang("one", 1, 1, 1, in_class("high"));
    let placement = world.place();
    assert_eq!(evicted(&placement), ["large-0"], "its four are enough for both");
    assert_eq!(world.why("one"), "starts when 1 pod that is ending has gone; evicted for it: d/large");
    assert_eq!(world.why("three"), "starts when 1 pod that is ending has gone");
    world.apply(&placement);
    let again = world.place();
    assert!(again.evict.is_empty() && again.nominate == placement.nominate);
    world.let_go();
    let mut bound = world.step();
    bound.sort();
    assert_eq!(bound, ["one-0>a", "three-0>a"]);
}

// ACT-6
#[test]
fn a_gang_evicts_its_own_less_important_pods_for_those_that_its_minimum_needs() {
    let pod = |task: &str, priority: i64| json!({"metadata": {"annotations": {"volcano.sh/task-spec": task}}, "spec": {"priority": priority}});
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.group("g", 2, json!({"spec": {"minTaskMember": {"w": 1}}}));
    ["w-0", "w-1"].iter().for_each(|name| world.pod(name, "g", 1, pod("w", 0)));
    assert_eq!(world.step().len(), 2);
    world.group("g", 2, json!({"spec": {"minTaskMember": {"w": 1, "m": 1}}}));
    world.pod("m-0", "g", 1, pod("m", 0));
    assert!(world.place().evict.is_empty(), "not for an equal");
    world.change("m-0", pod("m", 5));
    let placement = world.place();
    assert_eq!(evicted(&placement), ["w-1"]);
    world.apply(&placement);
    assert!(world.place().evict.is_empty());
    world.let_go();
    assert_eq!(world.step(), ["m-0>a"]);
}

/// Three processors, and one GPU that each of two queues deserves.
fn two_queues() -> World {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 1, json!({"status": {"allocatable": {"cpu": "3"}}}));
    ["default", "y"].iter().for_each(|queue| world.queue(queue, json!({"spec": {"deserved": {GPU: "1"}}})));
    world
}

// CAP-5, CAP-6
#[test]
fn nobody_borrows_what_a_gang_behind_a_borrower_would_take_back_at_once() {
    let mut world = two_queues();
    world.gang("idlers", 0, 3, 0, json!({}));
    world.now += 1;
    world.gang("never", 1, 1, 2, json!({"spec": {"queue": "y", "priorityClassName": "high"}}));
    world.gang("due", 1, 1, 1, json!({"spec": {"queue": "y"}}));
    let bound = world.step();
    assert_eq!(bound, ["due-0>a", "idlers-0>a", "idlers-1>a"]);
    assert!(world.place().evict.is_empty());
}

// ACT-3, CAP-6
#[test]
fn a_promise_that_nobody_keeps_up_does_not_let_a_borrower_go_first() {
    let mut world = two_queues();
    world.gang("idlers", 0, 3, 0, json!({}));
    world.change("idlers-2", json!({"status": {"nominatedNodeName": "a"}}));
    world.gang("due", 1, 1, 1, json!({"spec": {"queue": "y"}}));
    assert_eq!(world.step().first().map(String::as_str), Some("due-0>a"));
    assert!(world.place().evict.is_empty());
}

#[test]
fn a_gang_is_not_named_as_a_holder_of_what_it_waits_for() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.gang("g", 2, 2, 1, json!({}));
    assert_eq!(world.step().len(), 2);
    world.remove("g-1");
    world.gang("other", 1, 1, 1, json!({}));
    assert_eq!(world.step(), ["other-0>a"]);
    world.pod("g-1", "g", 1, json!({}));
    assert_eq!(world.why("g"), "needs 1 nvidia.com/gpu together, 0 free; d/other of queue default holds 1");
}

// UI-1
#[test]
fn a_sentence_that_ends_in_a_dot_is_not_followed_by_a_colon() {
    let mut world = World::new();
    world.node("a", 1, json!({}));
    world.gang("g", 1, 1, 2, json!({}));
    let now = Timestamp::from_second(world.now).unwrap();
    let told = report(&world.snapshot, &world.place(), now);
    assert_eq!(
        told.pods[0].message,
        "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu. one pod needs 2 nvidia.com/gpu, the largest node has \
         1; it can never run here"
    );
}

//
#[test]
fn a_gang_that_its_queue_cannot_take_hears_what_all_of_it_needs() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.queue("default", json!({"spec": {"capability": {GPU: "2"}}}));
    world.gang("g", 4, 4, 1, json!({}));
    assert_eq!(world.why("g"), "needs 4 nvidia.com/gpu, queue default uses 0 and its capability is 2");
}

// NT-7
#[test]
fn pods_without_a_topology_fill_domains_that_are_in_use() {
    let place = |switch: &str| {
        let arguments = json!({"hypernode.binpack.normal-pod.enable": switch});
        let plugins = json!([{"name": "network-topology-aware", "arguments": arguments}, {"name": "binpack"}]);
        let file = json!({"actions": "allocate", "tiers": [{ "plugins": plugins }]});
        let mut world = World::with(Policy::read(&file).unwrap().0);
        for (domain, nodes) in [("s0", ["a", "b"]), ("s1", ["c", "d"])] {
            nodes.iter().for_each(|node| world.node(node, 8, json!({})));
            let member = |node: &&str| json!({"type": "Node", "selector": {"exactMatch": {"name": node}}});
            let members: Vec<Value> = nodes.iter().map(member).collect();
            let spec = json!({"tier": 1, "members": members});
            world.see(Kind::HyperNode, &json!({"metadata": {"name": domain}, "spec": spec}));
        }
        world.pod("there", "there", 1, json!({"spec": {"nodeName": "c"}, "status": {"phase": "Running"}}));
        world.now += 1;
        world.gang("plain", 1, 1, 8, json!({"metadata": {"creationTimestamp": at(world.now)}}));
        world.step()
    };
    assert_eq!(place("true"), ["plain-0>d"], "the other domain stays whole");
    assert_eq!(place("false"), ["plain-0>a"]);
}
