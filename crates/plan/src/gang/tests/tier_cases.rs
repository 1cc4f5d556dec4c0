//! How plugins are combined (spec/volcano.md 7.2), who is starving, and promises that are kept or taken back.

use super::world::{GPU, World, evicted, key};
use crate::gang::policy::{Policy, Verdict};
use crate::gang::report::report;
use jiff::Timestamp;
use serde_json::{Value, json};

fn policy(actions: &str, tiers: Value) -> (Policy, Vec<String>) {
    let (policy, warnings) = Policy::read(&json!({"actions": actions, "tiers": tiers})).unwrap();
    (policy, warnings.iter().map(ToString::to_string).collect())
}

/// `small` holds a full node of two; an equal that has nothing wants one place.
fn squeezed(tiers: Value) -> Vec<String> {
    let mut world = World::with(policy("allocate, preempt", tiers).0);
    world.node("a", 2, json!({}));
    world.gang("small", 1, 2, 1, json!({}));
    assert_eq!(world.step().len(), 2);
    world.gang("new", 1, 1, 1, json!({}));
    evicted(&world.place())
}

// TIER-2
#[test]
fn a_tier_agrees_on_its_victims_and_the_next_is_asked_if_there_are_none() {
    let plugins = |names: &[&str]| -> Value { names.iter().map(|name| json!({ "name": name })).collect() };
    let tier = |names: &[&str]| json!({"plugins": plugins(names)});
    assert!(
        squeezed(json!([tier(&["priority", "drf"])])).is_empty(),
        "priority finds nobody below, so both find nobody"
    );
    assert_eq!(squeezed(json!([tier(&["priority"]), tier(&["drf"])])), ["small-1"], "then the next tier is asked");
    assert_eq!(squeezed(json!([tier(&["drf"]), tier(&["priority"])])), ["small-1"]);
    let (read, _) = policy("preempt", json!([tier(&["priority", "gang"]), tier(&["nodeorder"]), tier(&["drf"])]));
    let first = Verdict { whole_gangs: false, by_priority: true, by_share: false };
    let second = Verdict { whole_gangs: true, by_priority: false, by_share: true };
    assert_eq!(read.victims.verdicts, [first, second], "a tier that says nothing of victims is passed over");
}

// TIER-3
#[test]
fn every_filter_must_agree() {
    let spec = json!({"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "kept", "operator": "Exists"}]});
    let mut world = World::new();
    let taint = json!([{"key": "kept", "effect": "NoSchedule"}]);
    world.node("slow", 1, json!({}));
    world.node("full", 0, json!({"metadata": {"labels": {"disk": "fast"}}}));
    world.node("shut", 1, json!({"metadata": {"labels": {"disk": "fast"}}, "spec": {"unschedulable": true}}));
    world.group("g", 1, json!({}));
    world.pod("g-0", "g", 1, json!({"spec": spec}));
    assert!(world.step().is_empty());
    world.node("good", 1, json!({"metadata": {"labels": {"disk": "fast"}}, "spec": {"taints": taint}}));
    assert_eq!(world.step(), ["g-0>good"]);
}

/// Whether a gang that asks for more than the cluster has is let in once its patience has ended.
fn is_let_in(tiers: Value, waited: i64) -> bool {
    let mut world = World::with(policy("enqueue, allocate", tiers).0);
    world.node("a", 1, json!({}));
    let more = json!({"spec": {"minResources": {GPU: "9"}}, "status": {"phase": "Pending"}});
    world.group("g", 1, more);
    world.now += waited;
    !world.place().admit.is_empty()
}

// TIER-4
#[test]
fn one_vote_against_keeps_a_gang_out_unless_an_earlier_tier_let_it_in() {
    let sla = json!({"name": "sla", "arguments": {"sla-waiting-time": "1m"}});
    let door = json!({"name": "overcommit"});
    assert!(is_let_in(json!([{"plugins": [{"name": "priority"}]}]), 0), "all abstain");
    assert!(!is_let_in(json!([{"plugins": [door]}]), 0));
    assert!(!is_let_in(json!([{"plugins": [sla]}, {"plugins": [door]}]), 59));
    assert!(is_let_in(json!([{"plugins": [sla]}, {"plugins": [door]}]), 60));
    assert!(!is_let_in(json!([{"plugins": [sla, door]}]), 60), "a vote against is heard first");
    assert!(!is_let_in(json!([{"plugins": [door]}, {"plugins": [sla]}]), 60));
}

// TIER-5
#[test]
fn a_gang_evicts_for_its_minimum_only_and_a_policy_that_wants_more_is_told() {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 2, json!({}));
    world.gang("low", 1, 1, 1, json!({}));
    world.step();
    world.gang("vip", 1, 2, 1, json!({"spec": {"priorityClassName": "high"}}));
    assert_eq!(world.step(), ["vip-0>a"]);
    assert!(world.place().evict.is_empty(), "it has its minimum");
    let plugins = |gang: Value| json!([{"plugins": [{"name": "priority"}, gang]}]);
    let (_, said) = policy("allocate, preempt", plugins(json!({"name": "gang", "enableJobStarving": false})));
    assert_eq!(said, ["tiers: priority: only a gang's minimum evicts others, not what it wants beyond it"]);
    assert!(policy("allocate, preempt", plugins(json!({"name": "gang"}))).1.is_empty());
}

/// `low` holds all of one node; `vip` is promised its room.
fn promised() -> World {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 2, json!({}));
    world.gang("low", 2, 2, 1, json!({}));
    world.step();
    world.gang("vip", 2, 2, 1, json!({"spec": {"priorityClassName": "high"}}));
    let placement = world.place();
    assert_eq!(evicted(&placement).len(), 2);
    world.apply(&placement);
    world
}

// GANG-5, ACT-7
#[test]
fn a_gang_that_is_promised_room_is_not_starving_and_evicts_nobody_more() {
    let mut world = promised();
    let again = world.place();
    assert!(again.evict.is_empty() && again.bind.is_empty());
    assert_eq!(world.why("vip"), "starts when 2 pods that are ending have gone, by about 13:47 UTC");
    world.let_go();
    assert_eq!(world.step(), ["vip-0>a", "vip-1>a"]);
}

#[test]
fn a_promise_that_cannot_be_kept_is_taken_back() {
    let mut world = promised();
    world.node("a", 2, json!({"spec": {"unschedulable": true}}));
    let placement = world.place();
    assert!(placement.nominate.is_empty());
    let told = report(&world.snapshot, &placement, Timestamp::from_second(world.now).unwrap());
    let note = told.pods.iter().find(|note| &*note.pod.key.name == "vip-0").unwrap();
    let (action, _) = note.patch(&world.pods["vip-0"], Timestamp::from_second(world.now).unwrap()).unwrap();
    let crate::control::Action::PatchStatus { patch, .. } = action else { panic!("a status is written") };
    assert_eq!(patch["status"].get("nominatedNodeName"), Some(&Value::Null));
}

#[test]
fn a_gang_that_is_evicted_does_not_start_on_the_strength_of_an_old_promise() {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 4, json!({}));
    world.group("old", 1, json!({"spec": {"minTaskMember": {"m": 1}}}));
    let task = |name: &str| json!({"metadata": {"annotations": {"volcano.sh/task-spec": name}}});
    world.pod("old-w-0", "old", 1, task("w"));
    world.change("old-w-0", json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}}));
    world.pod("old-m-0", "old", 0, task("m"));
    world.change("old-m-0", json!({"status": {"nominatedNodeName": "a"}}));
    world.gang("vip", 1, 1, 4, json!({"spec": {"priorityClassName": "high"}}));
    let placement = world.place();
    assert_eq!(evicted(&placement), ["old-w-0"]);
}

#[test]
fn nothing_is_kept_in_a_queue_for_a_gang_that_fits_no_node() {
    let mut world = World::new();
    world.queue("x", json!({"spec": {"capability": {GPU: "4"}}}));
    for node in ["a", "b"] {
        world.node(node, 2, json!({}));
    }
    let of_x = json!({"spec": {"queue": "x"}});
    world.gang("runs", 1, 1, 2, of_x.clone());
    assert_eq!(world.step().len(), 1);
    world.now += 1;
    world.gang("huge", 1, 1, 4, of_x.clone());
    world.now += 1;
    world.gang("small", 1, 1, 2, of_x);
    assert_eq!(world.step(), ["small-0>b"]);
    assert!(world.why("huge").starts_with("needs 4 nvidia.com/gpu, queue x uses 4"));
}

#[test]
fn who_has_waited_for_a_day_goes_before_the_more_important() {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 2, json!({}));
    world.gang("first", 1, 1, 1, json!({"spec": {"priorityClassName": "high"}}));
    world.step();
    world.gang("large", 1, 1, 2, json!({}));
    world.now += 10;
    world.gang("high", 1, 1, 1, json!({"spec": {"priorityClassName": "high"}}));
    assert_eq!(world.place().bind.len(), 1, "the more important one goes first");
    world.now += 86_400;
    assert!(world.place().bind.is_empty());
    assert_eq!(world.why("high"), "would fit, but what is free is kept for d/large, which comes first");
    assert!(world.place().waiting.contains_key(&key("large")));
}

// CFG-6
#[test]
fn of_many_nodes_the_best_is_found_wherever_it_is() {
    let mut world = World::new();
    for number in 0..300 {
        world.node(&format!("n{number:03}"), 8, json!({}));
    }
    world.group("g", 1, json!({}));
    let wish = json!([{"weight": 1, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n271"]}]}}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}});
    world.pod("g-0", "g", 1, json!({"spec": {"affinity": affinity}}));
    assert_eq!(world.step(), ["g-0>n271"]);
}

#[test]
fn drf_takes_from_the_larger_only_and_never_back_and_forth() {
    let tiers = json!([{"plugins": [{"name": "priority"}]}, {"plugins": [{"name": "drf"}]}]);
    let mut world = World::with(policy("allocate, preempt", tiers).0);
    world.node("a", 2, json!({}));
    world.gang("holds", 2, 2, 1, json!({}));
    assert_eq!(world.step().len(), 2);
    world.gang("equal", 2, 2, 1, json!({}));
    assert!(world.place().evict.is_empty(), "it would be taken back at once");
}

#[test]
fn drf_has_no_say_when_a_queue_takes_back_its_due() {
    let tiers = json!([{"plugins": [{"name": "drf"}]}, {"plugins": [{"name": "proportion"}]}]);
    let mut world = World::with(policy("allocate, reclaim", tiers).0);
    world.queue("other", json!({}));
    world.node("a", 4, json!({}));
    for name in ["one", "two", "three", "four"] {
        world.gang(name, 1, 1, 1, json!({}));
    }
    assert_eq!(world.step().len(), 4);
    world.gang("due", 2, 2, 1, json!({"spec": {"queue": "other"}}));
    assert_eq!(world.place().evict.len(), 2);
}

#[test]
fn a_job_that_ran_for_days_and_starts_anew_has_not_waited_for_days() {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 2, json!({}));
    world.group("old", 1, json!({}));
    world.now += 2 * 86_400;
    world.pod("old-0", "old", 2, json!({}));
    world.gang("high", 1, 1, 2, json!({"spec": {"priorityClassName": "high"}}));
    assert_eq!(world.place().bind[0].gang, key("high"), "the more important one goes first");
    world.end("high");
    assert_eq!(world.step(), ["old-0>a"]);
    world.gang("high", 1, 1, 2, json!({"spec": {"priorityClassName": "high"}}));
    assert_eq!(evicted(&world.place()), ["old-0"], "nor is it spared");
}
