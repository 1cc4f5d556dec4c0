//! Queues: order, limits, shares, trees, and who is let in.

use super::world::{GPU, World, evicted, key};
use crate::gang::policy::Policy;
use serde_json::{Value, json};

fn gpus(amount: i64) -> Value {
    json!({ GPU: amount.to_string() })
}

fn of(queue: &str) -> Value {
    json!({"spec": {"queue": queue}})
}

// Q-1, SCH-2
#[test]
fn a_queue_that_is_not_open_or_not_there_takes_nothing() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.queue("shut", json!({"status": {"state": "Closed"}}));
    world.gang("g", 1, 1, 1, of("shut"));
    world.gang("h", 1, 1, 1, of("nowhere"));
    assert!(world.step().is_empty());
    assert_eq!(world.why("g"), "queue shut is closed; it takes gangs once it is open");
    assert_eq!(world.why("h"), "queue nowhere does not exist; create it or name another");
}

// Q-2
#[test]
fn the_more_important_queue_goes_first() {
    let mut world = World::new();
    world.node("a", 1, json!({}));
    world.queue("vip", json!({"spec": {"priority": 5}}));
    world.gang("g", 1, 1, 1, json!({}));
    world.now += 1;
    world.gang("h", 1, 1, 1, of("vip"));
    assert_eq!(world.step(), ["h-0>a"]);
}

// Q-3, Q-5, CAP-3
#[test]
fn capability_bounds_and_guarantees_are_kept_for_their_queue() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.queue("small", json!({"spec": {"capability": gpus(2)}}));
    world.queue("sure", json!({"spec": {"guarantee": {"resource": gpus(3)}}}));
    world.gang("g", 1, 3, 1, of("small"));
    assert_eq!(world.step().len(), 2);
    assert_eq!(
        world.why("g"),
        "needs 1 nvidia.com/gpu, queue small uses 2 and its capability is 2; d/g of queue small holds 2"
    );
    world.gang("h", 6, 6, 1, json!({}));
    assert!(world.step().is_empty());
    assert!(world.why("h").contains("queue default uses 0 and"), "{}", world.why("h"));
    world.gang("s", 3, 3, 1, of("sure"));
    assert_eq!(world.step().len(), 3);
}

// PROP-1, PROP-2
#[test]
fn queues_share_by_weight_while_both_want_more() {
    let mut world = World::new();
    world.node("a", 9, json!({}));
    world.queue("x", json!({"spec": {"weight": 2}}));
    for index in 0..9 {
        world.gang(&format!("d{index}"), 1, 1, 1, json!({}));
        world.gang(&format!("x{index}"), 1, 1, 1, of("x"));
    }
    let bound = world.step();
    let of_x = bound.iter().filter(|name| name.starts_with('x')).count();
    assert_eq!((bound.len(), of_x), (9, 6));
}

// The plugin drf with `enableHierarchy` (spec/volcano.md 9)
#[test]
fn queues_share_along_their_paths_by_the_weight_of_each_step() {
    let tiers = json!([{"plugins": [{"name": "drf", "enableHierarchy": true, "enablePreemptable": false}]}]);
    let (policy, warnings) = Policy::read(&json!({"actions": "allocate, reclaim", "tiers": tiers})).unwrap();
    assert_eq!(warnings, []);
    let mut world = World::with(policy);
    world.node("a", 12, json!({}));
    let queues = [("sci", "root/sci", "1/1"), ("dev", "root/eng/dev", "1/2/1"), ("prod", "root/eng/prod", "1/2/3")];
    for (name, path, weights) in queues {
        let marks = json!({"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights});
        world.queue(name, json!({"metadata": {"annotations": marks}}));
    }
    let ask = |world: &mut World, queue: &str| {
        (0..12).for_each(|index| world.gang(&format!("{queue}{index}"), 1, 1, 1, of(queue)));
    };
    ask(&mut world, "sci");
    ask(&mut world, "dev");
    let bound = world.step();
    let count = |names: &[String], queue: &str| names.iter().filter(|name| name.starts_with(queue)).count();
    // Nobody in `prod` wants anything, so `dev` has all that is for `eng`: twice as much as `sci`.
    assert_eq!((count(&bound, "sci"), count(&bound, "dev")), (4, 8));
    // Now `prod` is given three quarters of that by `dev` alone.
    ask(&mut world, "prod");
    let mut lost = Vec::new();
    for _ in 0..12 {
        lost.extend(evicted(&world.place()));
        world.step();
        world.let_go();
    }
    assert_eq!((count(&lost, "dev"), count(&lost, "sci")), (6, 0), "{lost:?}");
}

// PROP-4
#[test]
fn a_gang_larger_than_its_share_runs_when_its_queue_holds_nothing_else() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.queue("x", json!({}));
    world.gang("small", 1, 1, 1, json!({}));
    world.now += 1;
    world.gang("large", 6, 6, 1, of("x"));
    world.now += 1;
    world.gang("next", 6, 6, 1, json!({}));
    let bound = world.step();
    assert_eq!(bound.len(), 7, "{bound:?}");
    // And it is not sent away as soon as the other wants its part.
    assert!(world.place().evict.is_empty());
}

fn tree(world: &mut World) {
    world.queue("team", json!({"spec": {"deserved": gpus(4), "capability": gpus(6)}}));
    world.queue("one", json!({"spec": {"parent": "team", "deserved": gpus(2)}}));
    world.queue("two", json!({"spec": {"parent": "team", "deserved": gpus(2)}}));
    world.queue("rest", json!({"spec": {"deserved": gpus(4)}}));
}

// CAP-1, CAP-2, CAP-3, CAP-7
#[test]
fn a_tree_of_queues_bounds_children_by_their_parents() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    tree(&mut world);
    for index in 0..5 {
        world.gang(&format!("g{index}"), 1, 1, 1, of("one"));
        world.gang(&format!("h{index}"), 1, 1, 1, of("two"));
    }
    let bound = world.step();
    assert_eq!(bound.len(), 6, "{bound:?}");
    assert_eq!(bound.iter().filter(|name| name.starts_with('g')).count(), 3);
    assert!(world.why("g4").contains("queue team uses 6 and its capability is 6"), "{}", world.why("g4"));
    world.gang("wrong", 1, 1, 1, of("team"));
    assert_eq!(world.why("wrong"), "queue team has queues below it and takes no gangs itself; name one of those");
}

// CAP-5, CAP-6, ACT-9, TIER-7
#[test]
fn what_was_borrowed_beyond_the_deserved_is_taken_back() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    tree(&mut world);
    for index in 0..6 {
        world.gang(&format!("g{index}"), 1, 1, 1, of("one"));
        world.now += 10;
    }
    assert_eq!(world.step().len(), 6);
    world.gang("r", 4, 4, 1, of("rest"));
    let placement = world.place();
    assert_eq!(evicted(&placement).len(), 2, "{:?}", placement.waiting);
    world.apply(&placement);
    world.let_go();
    assert_eq!(world.step().len(), 4);
}

// CAP-3, CAP-5, CAP-6: what a sibling has beyond its due keeps nobody from his, also where their parent is at its bound.
#[test]
fn a_sibling_gives_back_what_fills_their_parent() {
    let deserved = |gpus_each: i64| json!({"parent": "org", "deserved": gpus(gpus_each)});
    let bounds: [(&str, Value, Value); 2] = [
        ("capability", json!({"deserved": gpus(24), "capability": gpus(24)}), json!({})),
        ("guarantee", json!({"deserved": gpus(24)}), json!({"guarantee": {"resource": gpus(8)}})),
    ];
    for (bound, org, other) in bounds {
        let tiers = json!([{"plugins": [{"name": "gang"}, {"name": "capacity", "enableHierarchy": true}]}]);
        let (policy, _) = Policy::read(&json!({"actions": "enqueue, allocate, reclaim", "tiers": tiers})).unwrap();
        let mut world = World::with(policy);
        ["a", "b", "c", "d"].iter().for_each(|node| world.node(node, 8, json!({})));
        world.queue("other", json!({ "spec": other }));
        world.queue("org", json!({ "spec": org }));
        world.queue("org-a", json!({ "spec": deserved(12) }));
        world.queue("org-b", json!({ "spec": deserved(12) }));
        world.gang("a", 1, 30, 1, of("org-a"));
        assert_eq!(world.step().len(), 24, "{bound}");
        world.now += 60;
        world.gang("b", 10, 10, 1, of("org-b"));
        let placement = world.place();
        let lost = evicted(&placement);
        assert!(lost.len() == 10 && lost.iter().all(|pod| pod.starts_with("a-")), "{bound}: {}", world.why("b"));
        world.apply(&placement);
        assert!(world.place().evict.is_empty(), "{bound}");
        world.let_go();
        let bound_pods = world.step();
        assert!(
            bound_pods.len() == 10 && bound_pods.iter().all(|pod| pod.starts_with("b-")),
            "{bound}: {bound_pods:?}"
        );
        // Another two are what `org-b` deserves, a third would be borrowed.
        world.gang("more", 2, 2, 1, of("org-b"));
        world.gang("much", 3, 3, 1, of("org-b"));
        assert_eq!(evicted(&world.place()).len(), 2, "{bound}");
    }
}

// CAP-6: what is above a gang's minimum goes with it, so that counts too.
#[test]
fn a_minimum_that_nobody_counts_is_no_way_to_take_what_is_deserved() {
    let mut world = World::new();
    world.node("a", 3, json!({}));
    world.queue("x", json!({"spec": {"deserved": gpus(3)}}));
    world.queue("y", json!({"spec": {"deserved": gpus(1)}}));
    world.group("g", 1, of("x"));
    world.pod("g-0", "g", 0, json!({"metadata": {"annotations": {"volcano.sh/task-spec": "m"}}}));
    world.pod("g-1", "g", 3, json!({}));
    world.group("g", 1, json!({"spec": {"queue": "x", "minTaskMember": {"m": 1}}}));
    assert_eq!(world.step().len(), 2);
    world.gang("h", 1, 1, 1, of("y"));
    assert_eq!(evicted(&world.place()), [] as [&str; 0]);
}

// Q-3
#[test]
fn a_queue_that_is_not_reclaimable_keeps_what_it_has() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.queue("x", json!({"spec": {"reclaimable": false}}));
    for name in ["x0", "x1"] {
        world.gang(name, 1, 1, 1, of("x"));
    }
    assert_eq!(world.step().len(), 2);
    world.gang("g", 1, 1, 1, json!({}));
    assert!(world.place().evict.is_empty());
}

// ACT-1, PGP-4, PROP-5
#[test]
fn a_group_is_let_in_when_its_queue_and_the_cluster_have_room_for_it() {
    let mut world = World::new();
    world.node("a", 10, json!({}));
    let pending = |need: i64| json!({"spec": {"minResources": gpus(need)}, "status": {"phase": "Pending"}});
    world.group("a1", 8, pending(8));
    world.now += 1;
    world.group("b", 8, pending(8));
    world.now += 1;
    world.group("c", 1, pending(3));
    world.now += 1;
    world.group("free", 1, json!({"status": {"phase": "Pending"}}));
    let placement = world.place();
    let names: Vec<&str> = placement.admit.iter().map(|key| &*key.name).collect();
    assert_eq!(names, ["a1", "free"]);
    let limit = "needs 8 nvidia.com/gpu together; 0 are in use and 8 are promised to gangs that came first, of 12 that are let in";
    assert_eq!(world.why("b"), limit);
    // `c` would fit beside `a1`, but then `b` might never.
    assert!(placement.waiting.contains_key(&key("c")));
    let open = Policy { enqueues: false, ..Policy::default() };
    world.snapshot.policy = open;
    assert_eq!(world.place().admit.len(), 4);
}

// CAP-3
#[test]
fn the_first_gang_of_a_queue_is_not_overtaken_within_its_limit() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.queue("q", json!({"spec": {"capability": gpus(4)}}));
    world.gang("runs", 1, 1, 2, of("q"));
    assert_eq!(world.step().len(), 1);
    world.now += 1;
    world.gang("big", 1, 1, 4, of("q"));
    world.now += 1;
    world.gang("small", 1, 1, 1, of("q"));
    assert!(world.step().is_empty());
    assert!(world.why("small").contains("d/big comes first"), "{}", world.why("small"));
    world.end("runs");
    assert_eq!(world.step(), ["big-0>a"]);
}

// CAP-7
#[test]
fn a_guarantee_within_a_parent_is_kept_from_its_siblings() {
    let mut world = World::new();
    world.node("a", 20, json!({}));
    world.queue("team", json!({"spec": {"capability": gpus(10)}}));
    world.queue("sure", json!({"spec": {"parent": "team", "guarantee": {"resource": gpus(6)}}}));
    world.queue("rest", json!({"spec": {"parent": "team"}}));
    world.gang("g", 1, 10, 1, json!({"spec": {"queue": "rest"}}));
    assert_eq!(world.step().len(), 4, "of ten six are another's");
}
