//! Gangs: minima, turns, evictions, phases and what is told of them; and the scheduler's configuration file.

use super::world::{GPU, World, at, evicted, key};
use crate::control::Action;
use crate::gang::objects::Key;
use crate::gang::policy::{Order, Policy, PolicyError, Sharing, Verdict};
use crate::gang::report::report;
use crate::gang::snapshot::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};

fn task(name: &str) -> Value {
    json!({"metadata": {"annotations": {"volcano.sh/task-spec": name}}})
}

// GANG-2, GANG-3, UI-11b
#[test]
fn a_gang_waits_until_enough_pods_of_each_task_exist() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.group("g", 3, json!({"spec": {"minTaskMember": {"ps": 1, "worker": 2}}}));
    world.pod("g-w-0", "g", 1, task("worker"));
    assert_eq!(world.why("g"), "needs 3 pods together, 1 exist");
    world.pod("g-w-1", "g", 1, task("worker"));
    world.pod("g-w-2", "g", 1, task("worker"));
    assert_eq!(world.why("g"), "needs 1 pod of task ps together, 0 exist");
    world.pod("g-ps-0", "g", 1, task("ps"));
    assert_eq!(world.step().len(), 4);
}

// GANG-4
#[test]
fn minima_of_tasks_beyond_the_gangs_own_are_ignored() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.group("g", 1, json!({"spec": {"minTaskMember": {"ps": 1, "worker": 2}}}));
    world.pod("g-w-0", "g", 1, task("worker"));
    assert_eq!(world.step(), ["g-w-0>a"]);
}

// GANG-3
#[test]
fn sub_groups_are_completed_one_by_one() {
    let mut world = World::new();
    world.node("a", 5, json!({}));
    let policy = json!({"name": "p", "subGroupSize": 2, "minSubGroups": 2, "labelSelector": {"matchLabels": {"app": "g"}},
        "matchLabelKeys": ["part"]});
    world.group("g", 4, json!({"spec": {"subGroupPolicy": [policy]}}));
    for index in 0..6 {
        world.pod(&format!("g-{index}"), "g", 1, json!({"metadata": {"labels": {"part": (index % 3).to_string()}}}));
    }
    let placement = world.place();
    let first: Vec<&str> = placement.bind.iter().take(4).map(|bind| &*bind.pod.key.name).collect();
    assert_eq!(first, ["g-0", "g-3", "g-1", "g-4"]);
}

// GANG-7, PRI-1
#[test]
fn what_is_above_the_minimum_waits_for_other_gangs_minima() {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.gang("g", 2, 4, 1, json!({}));
    world.now += 1;
    world.gang("h", 1, 2, 1, json!({}));
    assert_eq!(world.step(), ["g-0>a", "g-1>a", "h-0>a", "h-1>a"]);
    assert!(world.place().waiting[&key("g")].has_minimum);
}

// GANG-8
#[test]
fn a_gang_that_lost_a_pod_counts_those_that_are_left() {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.gang("g", 3, 3, 1, json!({}));
    assert_eq!(world.step().len(), 3);
    world.remove("g-1");
    world.pod("g-1", "g", 1, json!({}));
    assert_eq!(world.step(), ["g-1>a"]);
}

// SCH-31, ACT-5, GANG-1
#[test]
fn pods_that_ask_for_nothing_go_anywhere_and_gated_ones_nowhere() {
    let mut world = World::new();
    world.node("a", 1, json!({}));
    world.group("g", 2, json!({}));
    world.pod("g-0", "g", 1, json!({}));
    let nothing = json!({"spec": {"containers": [{"name": "c"}]}});
    world.pod("g-1", "g", 1, nothing);
    assert_eq!(world.step(), ["g-0>a", "g-1>a"]);
    world.group("h", 1, json!({}));
    world.pod("h-0", "h", 0, json!({"spec": {"schedulingGates": [{"name": "x"}]}}));
    assert_eq!(world.why("h"), "1 pod has scheduling gates that nobody has removed yet");
}

// SCH-1, SCH-2
#[test]
fn pods_of_others_only_take_room_and_plain_ones_go_alone() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    let theirs = json!({"spec": {"schedulerName": "other", "nodeName": "a"}, "status": {"phase": "Running"}});
    world.pod("theirs", "g", 1, theirs);
    let plain = json!({"metadata": {"annotations": null}, "spec": {"schedulerName": "default-scheduler"}});
    world.pod("p0", "", 1, plain.clone());
    world.pod("p1", "", 1, plain);
    assert_eq!(world.step(), ["p0>a"]);
    let single = Key { namespace: "pod/d".into(), name: "p1".into() };
    assert_eq!(
        world.place().waiting[&single].on.to_string(),
        "needs 1 nvidia.com/gpu together, 0 free; pod/d/p0 of queue default holds 1"
    );
}

// ACT-3
#[test]
fn a_nominated_node_is_tried_first() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.node("b", 8, json!({}));
    world.group("g", 1, json!({}));
    world.pod("g-0", "g", 1, json!({"status": {"nominatedNodeName": "b"}}));
    assert_eq!(world.step(), ["g-0>b"]);
}

/// `low` holds a full node of four; a gang of high priority wants one place.
fn squeezed(low: Value, change: impl FnOnce(&mut World)) -> Vec<String> {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 4, json!({}));
    world.gang("low", 2, 4, 1, low);
    assert_eq!(world.step().len(), 4);
    world.now += 60;
    change(&mut world);
    world.gang("vip", 1, 1, 1, json!({"spec": {"priorityClassName": "high"}}));
    evicted(&world.place())
}

// ACT-6, ACT-10, KEY-2, TIER-7
#[test]
fn the_surplus_goes_first_and_the_protected_stay() {
    assert_eq!(squeezed(json!({}), |_| {}), ["low-3"]);
    let keep = |world: &mut World, pods: &[&str], mark: Value| {
        pods.iter().for_each(|pod| world.change(pod, json!({"metadata": {"annotations": mark}})));
    };
    let firm = json!({"volcano.sh/preemptable": "no"});
    assert_eq!(squeezed(json!({}), |world| keep(world, &["low-3"], firm.clone())), ["low-2"]);
    let all = ["low-0", "low-1", "low-2", "low-3"];
    assert!(squeezed(json!({}), |world| keep(world, &all, firm.clone())).is_empty());
    let cool = json!({"volcano.sh/cooldown-time": "10m"});
    assert!(squeezed(json!({}), |world| keep(world, &all, cool.clone())).is_empty());
    let warm = json!({"volcano.sh/cooldown-time": "10s"});
    assert_eq!(squeezed(json!({}), |world| keep(world, &all, warm.clone())).len(), 1);
}

#[test]
fn budgets_a_minimum_runtime_and_equal_priority_protect() {
    let budget = |allowed: i64| {
        json!({"metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "low"}}}, "status": {"disruptionsAllowed": allowed}})
    };
    assert!(squeezed(json!({}), |world| world.see(Kind::DisruptionBudget, &budget(0))).is_empty());
    assert_eq!(squeezed(json!({}), |world| world.see(Kind::DisruptionBudget, &budget(1))).len(), 1);
    assert!(squeezed(json!({}), |world| world.snapshot.policy.victims.runtime_min = 61).is_empty());
    assert_eq!(squeezed(json!({}), |world| world.snapshot.policy.victims.runtime_min = 60).len(), 1);
    assert!(squeezed(json!({}), |world| world.class("high", 0)).is_empty());
}

// ACT-7
#[test]
fn a_pod_that_never_preempts_does_not() {
    let mut world = World::new();
    world.class("high", 10);
    world.node("a", 1, json!({}));
    world.gang("low", 1, 1, 1, json!({}));
    assert_eq!(world.step().len(), 1);
    world.group("vip", 1, json!({"spec": {"priorityClassName": "high"}}));
    world.pod("vip-0", "vip", 1, json!({"spec": {"preemptionPolicy": "Never"}}));
    assert!(world.place().evict.is_empty());
}

#[test]
fn who_is_known_to_end_in_time_may_pass_and_the_time_is_told() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    let lasts = |time: &str| json!({"metadata": {"annotations": {"volley.dev/running-estimate": time}}});
    world.gang("runs", 1, 1, 1, lasts("1h"));
    assert_eq!(world.step().len(), 1);
    world.now += 60;
    world.gang("big", 1, 1, 2, json!({}));
    world.now += 1;
    world.gang("long", 1, 1, 1, lasts("2h"));
    world.now += 1;
    world.gang("short", 1, 1, 1, lasts("10m"));
    assert_eq!(world.step(), ["short-0>a"]);
    assert_eq!(
        world.why("big"),
        "needs 2 nvidia.com/gpu together, 0 free; d/runs of queue default holds 1 until about 14:46 UTC, \
         d/short of queue default holds 1 until about 13:57 UTC; room by about 14:46 UTC"
    );
    world.end("short");
    assert_eq!(
        world.why("long"),
        "would fit, but what is free is kept for d/big, which comes first, by about 14:46 UTC"
    );
}

#[test]
fn numbers_say_whether_it_is_too_large_scattered_or_short() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.node(name, 4, json!({}));
    }
    let why = |pods: usize, gpus: i64| {
        let mut world = world.clone();
        world.gang("g", pods, pods, gpus, json!({}));
        world.why("g")
    };
    assert_eq!(why(1, 5), "one pod needs 5 nvidia.com/gpu, the largest node has 4; it can never run here");
    assert_eq!(why(4, 4), "needs 16 nvidia.com/gpu together, suitable nodes have 12 in all; it can never run here");
    assert_eq!(
        why(4, 3),
        "needs 4 places with 3 nvidia.com/gpu on one node, empty nodes have 3; it can never run here"
    );
    world.gang("r", 3, 3, 2, json!({"metadata": {"creationTimestamp": at(1)}}));
    let term = json!({"labelSelector": {"matchLabels": {"app": "r"}}, "topologyKey": "kubernetes.io/hostname"});
    for index in 0..3 {
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        world.change(&format!("r-{index}"), json!({"spec": {"affinity": affinity}}));
    }
    assert_eq!(world.step().len(), 3);
    world.gang("g", 2, 2, 3, json!({}));
    assert_eq!(
        world.why("g"),
        "needs 2 places with 3 nvidia.com/gpu on one node, 0 free; 6 nvidia.com/gpu are free in all; \
         d/r of queue default holds 6"
    );
}

fn status_of(world: &World, name: &str) -> Value {
    let told = report(&world.snapshot, &world.place(), Timestamp::from_second(world.now).unwrap());
    let of_it = |action: &Action| match action {
        Action::PatchStatus { target, patch } if target.name == name => Some(patch["status"].clone()),
        _ => None,
    };
    told.groups.iter().find_map(of_it).unwrap_or_default()
}

// UI-1, UI-2, UI-10, UI-11, UI-12, PGP-1, PGP-2
#[test]
fn groups_and_pods_are_told_once_what_they_wait_for() {
    let mut world = World::new();
    world.node("a", 1, json!({}));
    world.gang("g", 2, 2, 1, json!({}));
    let why = "needs 2 nvidia.com/gpu together, suitable nodes have 1 in all; it can never run here";
    let status = status_of(&world, "g");
    assert_eq!(status["phase"], "Inqueue");
    let condition = &status["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Unschedulable"), &json!("NotEnoughResources")));
    let message = format!("2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable. {why}");
    assert_eq!(condition["message"], message);
    let told = report(&world.snapshot, &world.place(), Timestamp::from_second(world.now).unwrap());
    assert_eq!((told.events.len(), told.events[0].message.as_str()), (1, &*message));
    assert_eq!(told.pods[0].reason, "Schedulable");
    let note = format!("Pod d/g-0 can possibly be assigned to a, once minAvailable is satisfied: {why}");
    assert_eq!(told.pods[0].message, note);
    let (action, event) = told.pods[0].patch(&world.pods["g-0"], Timestamp::from_second(world.now).unwrap()).unwrap();
    assert_eq!(event.reason, "FailedScheduling");
    let Action::PatchStatus { patch, .. } = action else { panic!("a status is written") };
    world.change("g-0", patch);
    world.group("g", 2, json!({ "status": status }));
    let again = report(&world.snapshot, &world.place(), Timestamp::from_second(world.now).unwrap());
    assert!(again.groups.is_empty() && again.events.is_empty());
    assert_eq!(again.pods.len(), 1);
    world.node("b", 1, json!({}));
    world.step();
    let status = status_of(&world, "g");
    assert_eq!((&status["phase"], &status["running"]), (&json!("Running"), &json!(2)));
    let types: Vec<(&Value, &Value)> =
        status["conditions"].as_array().unwrap().iter().map(|one| (&one["type"], &one["status"])).collect();
    assert_eq!(types, [(&json!("Unschedulable"), &json!("False")), (&json!("Scheduled"), &json!("True"))]);
}

// PGP-2, PGP-3
#[test]
fn phases_follow_the_pods() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.gang("g", 2, 2, 1, json!({}));
    world.step();
    world.group("g", 2, json!({"status": {"phase": "Running"}}));
    world.change("g-0", json!({"metadata": {"deletionTimestamp": at(world.now)}}));
    assert_eq!(status_of(&world, "g")["phase"], "Running");
    world.change("g-0", json!({"metadata": {"deletionTimestamp": null}, "status": {"phase": "Succeeded"}}));
    world.change("g-1", json!({"status": {"phase": "Failed"}}));
    assert_eq!(status_of(&world, "g")["phase"], "Completed");
    world.remove("g-0");
    world.remove("g-1");
    assert_eq!(status_of(&world, "g")["phase"], "Pending");
    world.gang("h", 3, 2, 1, json!({}));
    world.change("h-0", json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}}));
    assert_eq!(status_of(&world, "h")["phase"], "Unknown");
}

// PGP-2: Volcano compares with minMember alone, and none is enough where none is needed.
#[test]
fn a_group_that_needs_no_pod_is_let_in_once() {
    let mut world = World::new();
    for phase in ["Running", "Completed", "Inqueue"] {
        world.group("g", 0, json!({"status": {"phase": phase}}));
        let told = status_of(&world, "g");
        assert!(phase == "Inqueue" && told.is_null() || told["phase"] == "Inqueue", "{phase}: {told}");
    }
    world.group("g", 0, json!({"spec": {"queue": "nowhere"}, "status": {"phase": "Pending"}}));
    assert!(status_of(&world, "g").is_null(), "nobody lets it in");
    world.group("g", 0, json!({"status": {"phase": "Pending"}}));
    assert_eq!(status_of(&world, "g")["phase"], "Inqueue");
}

// CFG-1, CFG-2, CFG-4
#[test]
fn a_scheduler_configuration_is_read_and_what_has_no_effect_is_named() {
    let file = json!({
        "actions": "enqueue, allocate, preempt, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": false}, {"name": "conformance"}]},
            {"plugins": [{"name": "overcommit", "arguments": {"overcommit-factor": "1.5"}}, {"name": "drf", "enablePreemptable": false},
                {"name": "predicates", "arguments": {"predicate.NodePortsEnable": false}},
                {"name": "capacity", "enableHierarchy": true}, {"name": "nodeorder"},
                {"name": "binpack", "arguments": {"binpack.weight": 10, "binpack.resources": GPU, "binpack.resources.nvidia.com/gpu": 5}},
                {"name": "usage"}, {"name": "mine"}]},
        ],
        "configurations": [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": true}}],
    });
    let (policy, warnings) = Policy::read(&file).unwrap();
    assert!(policy.enqueues && policy.preempts && !policy.reclaims);
    let first = Verdict { whole_gangs: true, by_priority: true, by_share: false };
    assert_eq!(policy.victims.verdicts, [first]);
    assert_eq!(policy.order, [Order::Priority, Order::Gang, Order::Drf]);
    assert_eq!(policy.sharing, Sharing::Capacity { is_tree: true });
    assert_eq!((policy.overcommit, policy.weights.binpack), (Some(1500), 10));
    assert_eq!(policy.weights.binpack_resources[GPU], 5);
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "tiers[1].predicates.predicate.NodePortsEnable: this filter cannot be turned off",
            "tiers[1].usage: measured load is not known",
            "tiers[1].mine: no such plugin; it is left out",
            "configurations.preempt.enableTopologyAwarePreemption: this argument has no effect",
        ]
    );
    let unknown = Policy::read(&json!({"actions": "allocate, dance"}));
    assert_eq!(unknown, Err(PolicyError::UnknownAction("dance".to_owned())));
    let tiers = json!([{"plugins": [{"name": "proportion"}, {"name": "drf", "enableHierarchy": true}]}]);
    assert_eq!(Policy::read(&json!({"actions": "allocate", "tiers": tiers})), Err(PolicyError::Conflict));
}

// GANG-9: bound in part by a process that died, it is completed before an older one begins.
#[test]
fn a_gang_that_has_a_part_is_completed_before_others_begin() {
    let mut world = World::new();
    world.node("a", 2, json!({}));
    world.gang("old", 2, 2, 1, json!({}));
    world.now += 10;
    world.gang("torn", 2, 2, 1, json!({}));
    world.change("torn-0", json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}}));
    assert_eq!(world.step(), ["torn-1>a"]);
}

// As with kube-scheduler, one write is enough for a pod that asks for our scheduler and says no more.
#[test]
fn a_pod_of_our_own_scheduler_needs_no_group() {
    let mut world = World::new();
    world.snapshot.schedulers.push("volley".to_owned());
    world.node("a", 2, json!({}));
    world.queue("small", json!({"spec": {"capability": {GPU: "1"}}}));
    let alone = |scheduler: &str, queue: &str| {
        json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": null, "scheduling.volcano.sh/queue-name": queue}},
            "spec": {"schedulerName": scheduler}})
    };
    for (name, scheduler, queue) in
        [("p0", "volley", "small"), ("p1", "volley", "small"), ("p2", "volcano", "small"), ("p3", "volley", "nowhere")]
    {
        world.pod(name, "", 1, alone(scheduler, queue));
    }
    assert_eq!(world.step(), ["p0>a"], "p2 waits for its group");
    let why = |name: &str| {
        let key = Key { namespace: "pod/d".into(), name: name.into() };
        world.place().waiting.get(&key).map(|waiting| waiting.on.to_string()).unwrap_or_default()
    };
    assert!(
        why("p1").starts_with("needs 1 nvidia.com/gpu, queue small uses 1 and its capability is 1"),
        "{}",
        why("p1")
    );
    assert!(why("p3").contains("nowhere"), "{}", why("p3"));
}
