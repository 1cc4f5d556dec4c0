//! Gangs, turns, reservations, preemption and reclaim on one page.

use super::world::{World, evicted, key};
use serde_json::json;

// GANG-6
#[test]
fn nothing_waits_nothing_is_done() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    assert_eq!(world.place(), crate::gang::Placement::default());
}

// GANG-3, GANG-6
#[test]
fn a_gang_gets_all_or_nothing() {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.node("b", 4, json!({}));
    world.gang("g", 4, 4, 2, json!({}));
    assert_eq!(world.step(), ["g-0>a", "g-1>a", "g-2>b", "g-3>b"]);
    world.gang("h", 2, 2, 1, json!({}));
    assert!(world.step().is_empty());
    assert_eq!(world.why("h"), "needs 2 nvidia.com/gpu together, 0 free; d/g of queue default holds 8");
    world.end("g");
    assert_eq!(world.step(), ["h-0>a", "h-1>a"]);
}

#[test]
fn a_big_gang_is_not_starved_by_small_ones() {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.gang("s0", 1, 1, 1, json!({}));
    assert_eq!(world.step(), ["s0-0>a"]);
    world.now += 1;
    world.gang("big", 1, 1, 4, json!({}));
    world.now += 1;
    world.gang("s1", 1, 1, 1, json!({}));
    assert!(world.step().is_empty());
    assert_eq!(world.why("big"), "needs 4 nvidia.com/gpu together, 3 free; d/s0 of queue default holds 1");
    assert_eq!(world.why("s1"), "would fit, but what is free is kept for d/big, which comes first");
    world.end("s0");
    assert_eq!(world.step(), ["big-0>a"]);
}

// ACT-6
#[test]
fn a_gang_of_higher_priority_evicts_exactly_enough() {
    let mut world = World::new();
    world.class("high", 100);
    world.node("a", 4, json!({}));
    world.node("b", 4, json!({}));
    world.gang("old", 2, 2, 2, json!({}));
    assert_eq!(world.step().len(), 2);
    world.now += 100;
    world.gang("young", 2, 2, 2, json!({}));
    assert_eq!(world.step().len(), 2);
    world.now += 100;
    world.gang("vip", 1, 1, 3, json!({"spec": {"priorityClassName": "high"}}));
    let placement = world.place();
    assert!(placement.bind.is_empty());
    assert_eq!(evicted(&placement), ["young-1", "young-0"]);
    world.apply(&placement);
    assert!(world.place().evict.is_empty());
    assert_eq!(world.why("vip"), "starts when 2 pods that are ending have gone, by about 13:50 UTC");
    world.let_go();
    assert_eq!(world.step(), ["vip-0>b"]);
}

// PROP-1, PROP-6, ACT-9
#[test]
fn a_queue_lends_what_it_does_not_use_and_takes_it_back() {
    let mut world = World::new();
    world.queue("x", json!({}));
    world.queue("y", json!({}));
    world.node("a", 4, json!({}));
    for name in ["x0", "x1", "x2", "x3"] {
        world.gang(name, 1, 1, 1, json!({"spec": {"queue": "x"}}));
        world.now += 10;
    }
    assert_eq!(world.step().len(), 4);
    world.now += 100;
    world.gang("y0", 2, 2, 1, json!({"spec": {"queue": "y"}}));
    let placement = world.place();
    assert_eq!(placement.evict.len(), 2, "{:?}", placement.waiting);
    world.apply(&placement);
    world.let_go();
    assert_eq!(world.step().len(), 2);
    assert!(!world.place().waiting.contains_key(&key("y0")));
}
