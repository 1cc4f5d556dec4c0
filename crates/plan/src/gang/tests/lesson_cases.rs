//! What is decided for one gang is seen in the light of what is decided for the others.

use super::world::{GPU, World, evicted};
use serde_json::{Value, json};

fn of(queue: &str, class: &str) -> Value {
    json!({"spec": {"queue": queue, "priorityClassName": class}})
}

fn with_gpus(amount: i64) -> Value {
    json!({ GPU: amount.to_string() })
}

fn world() -> World {
    let mut world = World::new();
    for (value, class) in ["low", "middle", "high"].iter().enumerate() {
        world.class(class, i64::try_from(value).unwrap());
    }
    world
}

fn runs(world: &mut World, pod: &str, node: &str) {
    world.change(pod, json!({"spec": {"nodeName": node}, "status": {"phase": "Running"}}));
}

fn may_go(world: &mut World, pod: &str) {
    world.change(pod, json!({"metadata": {"annotations": {"volcano.sh/preemptable": "true"}}}));
}

// GANG-9: `low` is whole once `m` is placed, so that another queue may take back `w0`. What is left then is for the more
// important `mid`, if `w1` does not take the other node first.
#[test]
fn what_would_be_evicted_at_once_is_not_placed() {
    let mut world = world();
    world.queue("default", json!({"spec": {"reclaimable": true, "deserved": with_gpus(1)}}));
    world.queue("y", json!({"spec": {"deserved": with_gpus(1)}}));
    world.node("a", 3, json!({"metadata": {"labels": {"zone": "1"}}}));
    world.node("b", 5, json!({}));
    let tasks = json!({"minTaskMember": {"w": 0, "m": 1}});
    world.group("low", 1, json!({"spec": tasks}));
    let task = |name: &str| json!({"metadata": {"annotations": {"volcano.sh/task-spec": name}}});
    for (pod, role, gpus) in [("m", "m", 0), ("w0", "w", 3), ("w1", "w", 3)] {
        world.pod(pod, "low", gpus, task(role));
        may_go(&mut world, pod);
    }
    runs(&mut world, "w0", "a");
    world.now += 10;
    world.group("mid", 2, of("default", "middle"));
    world.pod("mid-0", "mid", 4, json!({}));
    world.pod("mid-1", "mid", 2, json!({}));
    world.now += 10;
    world.gang("due", 1, 1, 1, of("y", "low"));
    world.change("due-0", json!({"spec": {"nodeSelector": {"zone": "1"}}}));
    let first = world.place();
    assert_eq!(evicted(&first), ["w0"]);
    assert_eq!(world.step(), ["m>a"], "w1 waits for its turn");
    assert!(world.why("mid").starts_with("starts when 1 pod that is ending has gone"), "{}", world.why("mid"));
    let again = world.place();
    assert_eq!((again.bind.len(), evicted(&again).len()), (0, 0));
    world.let_go();
    assert_eq!(world.step().len(), 3, "both start");
}

// ACT-6: for each of two gangs one victim would do, and one of the victims does for both.
#[test]
fn one_victim_is_enough_for_two_gangs_that_fit_beside_each_other() {
    let mut world = world();
    world.node("a", 3, json!({}));
    world.node("b", 4, json!({}));
    world.gang("low", 0, 3, 3, of("default", "low"));
    for (pod, node) in [("low-0", "b"), ("low-1", "a")] {
        runs(&mut world, pod, node);
        may_go(&mut world, pod);
    }
    world.remove("low-2");
    world.now += 10;
    world.gang("g", 1, 1, 2, of("default", "middle"));
    world.gang("h", 1, 1, 2, of("default", "middle"));
    assert_eq!(evicted(&world.place()), ["low-0"]);
    world.step();
    world.let_go();
    assert_eq!(world.step(), ["g-0>b", "h-0>b"]);
}

// ACT-9: `high` would evict a pod of `low` for its second pod, but its first one goes to a queue that has less than its due.
#[test]
fn nobody_is_evicted_for_a_gang_that_another_queue_evicts() {
    let mut world = world();
    world.queue("default", json!({"spec": {"reclaimable": false, "deserved": with_gpus(1)}}));
    world.queue("x", json!({"spec": {"reclaimable": true, "deserved": with_gpus(1), "capability": with_gpus(1)}}));
    world.node("a", 5, json!({"status": {"allocatable": {"cpu": "3"}}}));
    world.group("high", 2, of("x", "high"));
    world.pod("high-0", "high", 0, json!({}));
    world.pod("high-1", "high", 1, json!({}));
    world.gang("low", 0, 3, 0, of("x", "low"));
    for pod in ["high-0", "low-1", "low-2"] {
        runs(&mut world, pod, "a");
        may_go(&mut world, pod);
    }
    world.now += 10;
    world.group("due", 2, of("default", "low"));
    world.pod("due-0", "due", 0, json!({}));
    world.pod("due-1", "due", 1, json!({}));
    let first = world.place();
    let gainers: Vec<&str> = first.evict.iter().map(|evict| &*evict.for_gang.name).collect();
    world.apply(&first);
    world.let_go();
    let next = world.place();
    for gainer in gainers {
        assert!(next.bind.iter().any(|bind| &*bind.gang.name == gainer), "{gainer} does not run");
    }
}

// CAP-3: a gang that its queue has no room for hears that, whatever the nodes have: what is kept for it depends on it.
#[test]
fn a_full_queue_is_told_before_full_nodes() {
    let mut world = world();
    world.queue("x", json!({"spec": {"capability": with_gpus(5)}}));
    world.node("a", 8, json!({"status": {"allocatable": {"cpu": "2"}}}));
    world.gang("runs", 1, 1, 2, of("x", "low"));
    world.gang("cpu", 1, 1, 0, json!({}));
    assert_eq!(world.step().len(), 2);
    world.now += 10;
    world.gang("waits", 1, 1, 4, of("x", "low"));
    assert!(world.why("waits").starts_with("needs 4 nvidia.com/gpu, queue x uses 2"), "{}", world.why("waits"));
}

// CAP-6, ACT-1: who is due comes in at the door as soon as somebody has gone, and has what was left before one who borrows.
#[test]
fn nobody_is_evicted_for_room_that_one_at_the_door_would_have() {
    let mut world = world();
    world.queue("default", json!({"spec": {"reclaimable": true}}));
    world.queue("y", json!({"spec": {"deserved": with_gpus(3)}}));
    world.node("a", 4, json!({}));
    world.gang("high", 3, 3, 1, of("default", "high"));
    world.gang("low", 1, 1, 2, of("default", "low"));
    may_go(&mut world, "low-0");
    ["high-0", "low-0"].iter().for_each(|pod| runs(&mut world, pod, "a"));
    assert_eq!(evicted(&world.place()), ["low-0"], "while nobody else comes");
    world.now += 10;
    let waits = json!({"spec": {"queue": "y", "minResources": with_gpus(2)}, "status": {"phase": "Pending"}});
    world.gang("due", 1, 1, 2, waits);
    assert!(world.why("due").contains("of 4800m that are let in"), "{}", world.why("due"));
    assert_eq!(evicted(&world.place()), [""; 0]);
}

// CAP-6: what the first that waits would keep of a node is not won by evicting somebody there.
#[test]
fn nobody_is_evicted_for_room_that_is_kept_for_the_first() {
    let mut world = world();
    world.queue("default", json!({"spec": {"reclaimable": false}}));
    world.queue("x", json!({"spec": {"deserved": with_gpus(3)}}));
    world.queue("y", json!({"spec": {"reclaimable": true, "deserved": with_gpus(1)}}));
    world.node("a", 1, json!({}));
    world.node("b", 5, json!({"status": {"allocatable": {"cpu": "3"}}}));
    world.gang("low", 0, 1, 0, of("y", "low"));
    may_go(&mut world, "low-0");
    world.gang("stays", 2, 2, 0, of("default", "low"));
    ["low-0", "stays-0", "stays-1"].iter().for_each(|pod| runs(&mut world, pod, "b"));
    world.gang("mid", 2, 2, 1, of("y", "middle"));
    runs(&mut world, "mid-0", "a");
    assert_eq!(evicted(&world.place()), ["low-0"], "while nobody else waits");
    world.now += 10;
    world.gang("first", 3, 3, 1, of("x", "low"));
    assert_eq!(evicted(&world.place()), [""; 0]);
}

// ACT-1, ACT-6: an older equal that is still at the door comes in when the victims have gone, and goes first, because a
// third one behind both would not borrow.
#[test]
fn nobody_is_evicted_for_one_who_would_find_an_older_equal_before_it() {
    let mut world = world();
    world.queue("default", json!({"spec": {"reclaimable": true, "deserved": with_gpus(1)}}));
    world.node("a", 8, json!({}));
    world.gang("low", 0, 2, 4, of("default", "low"));
    for pod in ["low-0", "low-1"] {
        runs(&mut world, pod, "a");
        may_go(&mut world, pod);
    }
    world.now += 10;
    let waits =
        json!({"spec": {"priorityClassName": "middle", "minResources": with_gpus(4)}, "status": {"phase": "Pending"}});
    world.gang("door", 1, 1, 4, waits);
    world.now += 10;
    world.gang("late", 1, 1, 8, of("default", "middle"));
    world.now += 10;
    world.gang("small", 1, 1, 1, of("default", "low"));
    assert!(world.why("door").contains("of 9600m that are let in"), "{}", world.why("door"));
    assert_eq!(evicted(&world.place()), [""; 0]);
    world.end("door");
    assert_eq!(evicted(&world.place()), ["low-1", "low-0"], "while nobody else comes");
}

// GANG-9: what is placed late changes what would come of evictions that were given up as vain.
#[test]
fn evictions_that_help_beside_what_was_placed_late_are_decided_at_once() {
    let mut world = world();
    world.queue("family", json!({"spec": {"capability": with_gpus(4)}}));
    world.queue("default", json!({"spec": {"reclaimable": false}}));
    world.queue("x", json!({"spec": {"reclaimable": false, "parent": "family"}}));
    world.node("a", 5, json!({}));
    world.node("b", 2, json!({"status": {"allocatable": {"cpu": "3"}}}));
    world.gang("pair", 2, 2, 2, of("x", "middle"));
    world.now += 10;
    world.gang("idle", 1, 3, 0, of("x", "low"));
    for pod in ["idle-0", "idle-1", "idle-2"] {
        may_go(&mut world, pod);
    }
    runs(&mut world, "idle-0", "b");
    runs(&mut world, "idle-1", "b");
    world.now += 10;
    world.gang("large", 0, 1, 4, of("default", "low"));
    may_go(&mut world, "large-0");
    runs(&mut world, "large-0", "a");
    world.now += 10;
    world.group("three", 3, of("default", "middle"));
    world.pod("three-0", "three", 0, json!({}));
    world.pod("three-1", "three", 1, json!({}));
    world.pod("three-2", "three", 1, json!({}));
    world.step();
    let again = world.place();
    assert_eq!((again.bind.len(), evicted(&again)), (0, vec![]));
}
