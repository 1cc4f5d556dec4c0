//! Which nodes suit a pod, what a gang hears if none does, and which of several is chosen.

use super::world::{GPU, World, at, key};
use crate::gang::policy::Policy;
use crate::gang::snapshot::Kind;
use serde_json::{Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// One pod `p` with this spec in a world with nodes `a` and `b`: where it goes, or why it waits.
fn outcome(a: Value, b: Value, spec: Value) -> String {
    let mut world = World::new();
    world.node("a", 1, a);
    world.node("b", 1, b);
    world.group("g", 1, json!({}));
    world.pod("p", "g", 1, json!({ "spec": spec }));
    told(&world)
}

fn told(world: &World) -> String {
    let placement = world.place();
    match placement.bind.as_slice() {
        [] => world.why("g"),
        binds => binds.iter().map(|bind| format!("{}>{}", bind.pod.key.name, bind.node)).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn a_pod_goes_only_where_the_node_lets_it() {
    let plain = || json!({});
    let tainted = || json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    let wished = || json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    let cordoned = || json!({"spec": {"unschedulable": true}});
    let unready = || json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(outcome(plain(), plain(), json!({})), "p>a");
    assert_eq!(outcome(tainted(), plain(), json!({})), "p>b");
    assert_eq!(outcome(wished(), plain(), json!({})), "p>b");
    assert_eq!(outcome(cordoned(), plain(), json!({})), "p>b");
    assert_eq!(outcome(tainted(), unready(), json!({"tolerations": [{"key": "k", "operator": "Exists"}]})), "p>a");
    assert_eq!(
        outcome(cordoned(), unready(), json!({})),
        "no node can take pod d/p: 0/2 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable"
    );
}

#[test]
fn selectors_and_affinity_choose_nodes_and_a_typo_gets_a_hint() {
    let labelled = |value: &str| json!({"metadata": {"labels": {"disk": value, "size": "4"}}});
    let choose = |spec| outcome(labelled("fast"), labelled("slow"), spec);
    assert_eq!(choose(json!({"nodeSelector": {"disk": "slow"}})), "p>b");
    let refused =
        "no node can take pod d/p: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector";
    assert_eq!(
        choose(json!({"nodeSelector": {"disk": "fsat"}})),
        format!("{refused}; no node has disk=fsat; did you mean disk=fast?")
    );
    assert_eq!(
        choose(json!({"nodeSelector": {"dsk": "fast"}})),
        format!("{refused}; no node has a label dsk; did you mean disk?")
    );
    let required = |operator: &str, values: Value, key: &str| {
        let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}})
    };
    assert_eq!(choose(required("NotIn", json!(["fast"]), "disk")), "p>b");
    assert_eq!(choose(required("Gt", json!(["3"]), "size")), "p>a");
    assert!(choose(required("Lt", json!(["3"]), "size")).starts_with(refused));
    let fields =
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]});
    assert_eq!(choose(json!({"affinity": {"nodeAffinity": {REQUIRED: fields}}})), "p>b");
    let wish = json!({"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["slow"]}]}});
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [wish]});
    assert_eq!(choose(json!({"affinity": {"nodeAffinity": preferred}})), "p>b");
}

/// A world of two nodes in two zones with a pod of `app` on the first.
fn neighbours(spec: Value) -> String {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.node(name, 8, json!({"metadata": {"labels": {"zone": format!("z{name}")}}}));
    }
    world.gang("other", 1, 1, 1, json!({}));
    assert_eq!(world.step(), ["other-0>a"]);
    world.group("g", 2, json!({}));
    for index in 0..2 {
        world.pod(&format!("p{index}"), "g", 1, json!({ "spec": spec }));
    }
    told(&world)
}

#[test]
fn pods_stay_near_apart_and_spread_as_they_ask() {
    let term = |app: &str| json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
    let affinity = |kind: &str, app: &str| json!({"affinity": {kind: {REQUIRED: [term(app)]}}});
    assert_eq!(neighbours(affinity("podAffinity", "other")), "p0>a p1>a");
    assert_eq!(neighbours(affinity("podAffinity", "g")), "p0>a p1>a");
    assert_eq!(neighbours(affinity("podAntiAffinity", "other")), "p0>b p1>b");
    assert_eq!(neighbours(affinity("podAntiAffinity", "g")), "p0>a p1>b");
    assert_eq!(
        neighbours(affinity("podAffinity", "nobody")),
        "2 pods have no place beside the pods that run: 2 node(s) didn't match pod affinity rules"
    );
    let spread = |skew: i64, action: &str| {
        let selector = json!({"matchLabels": {"app": "g"}});
        json!({"topologySpreadConstraints": [{"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": action,
            "labelSelector": selector}]})
    };
    assert_eq!(neighbours(spread(1, "DoNotSchedule")), "p0>a p1>b");
    assert_eq!(neighbours(spread(2, "DoNotSchedule")), "p0>a p1>a");
    assert_eq!(neighbours(spread(2, "ScheduleAnyway")), "p0>a p1>b");
    let lean = json!({"weight": 100, "podAffinityTerm": term("other")});
    let leaning = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [lean]}}});
    assert_eq!(neighbours(leaning), "p0>b p1>b");
}

// As Kubernetes' scheduler: who is to be near must be meant by all terms, and only such pods count.
#[test]
fn several_terms_of_affinity_mean_the_same_pod() {
    let land = |others: &[(&str, Value)], labels: Value| {
        let mut world = World::new();
        world.node("a", 8, json!({"metadata": {"labels": {"zone": "za"}}}));
        world.node("b", 8, json!({"metadata": {"labels": {"zone": "zb"}}}));
        for (name, labels) in others {
            let placed =
                json!({"metadata": {"labels": labels}, "spec": {"nodeName": "b"}, "status": {"phase": "Running"}});
            world.pod(name, "", 1, placed);
        }
        let term = |key: &str| json!({"labelSelector": {"matchLabels": {key: "1"}}, "topologyKey": "zone"});
        let affinity = json!({"podAffinity": {REQUIRED: [term("x"), term("y")]}});
        world.group("g", 1, json!({}));
        world.pod("p", "g", 1, json!({"metadata": {"labels": labels}, "spec": {"affinity": affinity}}));
        told(&world)
    };
    let (x, y, both) = (json!({"x": "1"}), json!({"y": "1"}), json!({"x": "1", "y": "1"}));
    assert_eq!(land(&[("o", both.clone())], json!({})), "p>b");
    let refused = "1 pod has no place beside the pods that run: 2 node(s) didn't match pod affinity rules";
    assert_eq!(land(&[("o", x.clone()), ("n", y)], json!({})), refused, "one has x, another y");
    assert_eq!(land(&[("o", x)], both), "p>b", "it is the first of its kind");
}

// As Kubernetes' scheduler: a node that lacks one of the labels to spread over counts for none of them.
#[test]
fn a_node_without_a_part_in_every_spread_counts_for_none() {
    let mut world = World::new();
    world.node("a", 8, json!({"metadata": {"labels": {"zone": "za", "rack": "r"}}}));
    world.node("b", 8, json!({"metadata": {"labels": {"zone": "zb"}}}));
    let spread = ["zone", "rack"].map(|key| {
        json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "g"}}})
    });
    world.group("g", 3, json!({}));
    for index in 0..3 {
        world.pod(&format!("p{index}"), "g", 1, json!({"spec": {"topologySpreadConstraints": spread}}));
    }
    assert_eq!(told(&world), "p0>a p1>a p2>a");
}

#[test]
fn a_volumes_labels_say_where_it_is() {
    let zone = "topology.kubernetes.io/zone";
    let with = |node: Value, volume: &str| {
        let mut world = World::new();
        world.node("a", 1, json!({"metadata": {"labels": {zone: "za"}}}));
        world.node("b", 1, node);
        world.see(Kind::Volume, &json!({"metadata": {"name": "v", "labels": {zone: volume}}, "spec": {}}));
        let claim = json!({"metadata": {"name": "c", "namespace": "d"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}});
        world.see(Kind::Claim, &claim);
        world.group("g", 1, json!({}));
        let volume = json!({"name": "x", "persistentVolumeClaim": {"claimName": "c"}});
        world.pod("p", "g", 1, json!({"spec": {"volumes": [volume]}}));
        told(&world)
    };
    let labelled = |value: &str| json!({"metadata": {"labels": {zone: value}}});
    assert_eq!(with(labelled("zb"), "zb"), "p>b");
    assert_eq!(with(labelled("zb"), "zb__za"), "p>a");
    assert_eq!(with(json!({}), "zb"), "p>b", "of a node that says nothing, nothing is asked");
    assert!(with(labelled("zc"), "zb").contains("2 node(s) had volume node affinity conflict"));
}

#[test]
fn a_pod_that_keeps_others_away_is_left_alone() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    let term = json!({"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": "kubernetes.io/hostname"});
    world.group("shy", 1, json!({}));
    world.pod("shy-0", "shy", 1, json!({"spec": {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}}));
    assert_eq!(world.step(), ["shy-0>a"]);
    world.gang("g", 1, 1, 1, json!({}));
    let expected =
        "1 pod has no place beside the pods that run: 1 node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(told(&world), expected);
}

#[test]
fn a_port_of_the_machine_is_given_once() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    world.node("b", 8, json!({}));
    world.group("g", 2, json!({}));
    for index in 0..2 {
        let ports = json!([{"containerPort": 80, "hostPort": 80}]);
        let requests = json!({GPU: "1"});
        let container = json!({"name": "c", "ports": ports, "resources": {"requests": requests}});
        world.pod(&format!("p{index}"), "g", 1, json!({"spec": {"containers": [container]}}));
    }
    assert_eq!(told(&world), "p0>a p1>b");
}

#[test]
fn a_taint_is_borne_above_or_below_a_number() {
    let taint = |value: &str| json!({"spec": {"taints": [{"key": "sla", "value": value, "effect": "NoSchedule"}]}});
    let bears = |operator: &str| json!({"tolerations": [{"key": "sla", "operator": operator, "value": "900"}]});
    assert_eq!(outcome(taint("500"), taint("950"), bears("Gt")), "p>b");
    assert_eq!(outcome(taint("500"), taint("950"), bears("Lt")), "p>a");
    assert!(outcome(taint("gold"), taint("900"), bears("Gt")).contains("untolerated taint"));
}

#[test]
fn a_node_that_is_not_ready_takes_only_who_bears_it() {
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let bears = json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]});
    assert!(outcome(ready("False"), ready("Unknown"), json!({})).contains("2 node(s) were not ready"));
    assert_eq!(outcome(ready("False"), ready("Unknown"), bears), "p>a");
    assert_eq!(outcome(json!({"status": {"conditions": []}}), ready("False"), json!({})), "p>a", "it says nothing");
}

#[test]
fn ports_of_a_step_before_the_start_are_not_held() {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.group("g", 1, json!({}));
    let with = |policy: Value| {
        let ports = json!([{"containerPort": 80, "hostPort": 80}]);
        json!({"spec": {"initContainers": [{"name": "i", "ports": ports, "restartPolicy": policy}]}})
    };
    world.pod("p0", "g", 1, with(json!("Always")));
    world.pod("p1", "g", 1, with(json!("Always")));
    world.pod("p2", "g", 1, with(json!(null)));
    assert_eq!(world.step(), ["p0>a", "p2>a"], "a sidecar holds its port");
}

/// A pod on node `a` and a more important one that stands alone, with these containers: who is evicted.
fn evicted_alone(old: &Value, new: &Value) -> Vec<String> {
    let mut world = World::new();
    world.node("a", 4, json!({"status": {"allocatable": {"pods": "1"}}}));
    for (name, class, value) in [("old", "low", 1), ("new", "high", 100)] {
        world.class(class, value);
        let containers = if name == "old" { old } else { new };
        world.pod(
            name,
            "",
            0,
            json!({"spec": {"schedulerName": "default-scheduler", "priorityClassName": class, "priority": value,
                "containers": [containers]}}),
        );
        let placement = world.place();
        if name == "new" {
            return super::world::evicted(&placement);
        }
        world.apply(&placement);
    }
    Vec::new()
}

#[test]
fn a_pod_that_asks_for_nothing_evicts_and_is_evicted_for_its_place() {
    let nothing = json!({"name": "c"});
    let cpu = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
    for (old, new) in [(&nothing, &nothing), (&cpu, &nothing)] {
        assert_eq!(evicted_alone(old, new), ["old"]);
    }
    let port = |container: &Value| {
        let mut container = container.clone();
        container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        container
    };
    for (old, new) in [(&nothing, &cpu), (&cpu, &nothing), (&nothing, &nothing)] {
        assert_eq!(evicted_alone(&port(old), &port(new)), ["old"]);
    }
}

#[test]
fn a_numa_cell_is_large_enough_or_the_node_is_refused() {
    let mut world = World::new();
    world.node("a", 8, json!({}));
    let cpus: serde_json::Map<String, Value> =
        (0..8).map(|cpu| (cpu.to_string(), json!({"numa": cpu / 4, "socket": 0, "core": cpu}))).collect();
    world.see(
        Kind::Numatopology,
        &json!({"metadata": {"name": "a"},
        "spec": {"numares": {"cpu": {"allocatable": "0-5"}}, "cpuDetail": cpus}}),
    );
    let pod = |world: &mut World, name: &str, cpu: &str| {
        let amounts = json!({"cpu": cpu, "memory": "1Gi"});
        let container = json!({"name": "c", "resources": {"requests": amounts, "limits": amounts}});
        let marks = json!({"volcano.sh/numa-topology-policy": "single-numa-node"});
        world.pod(name, "g", 0, json!({"metadata": {"annotations": marks}, "spec": {"containers": [container]}}));
    };
    world.group("g", 2, json!({}));
    pod(&mut world, "p0", "4");
    pod(&mut world, "p1", "2");
    assert_eq!(told(&world), "p0>a p1>a");
    pod(&mut world, "p1", "3");
    assert!(told(&world).starts_with("1 pod has no place beside the pods that run: 1 node(s) had no NUMA cell"));
}

// NT-1, NT-3, NT-4, NT-9
#[test]
fn a_hard_topology_keeps_a_gang_in_one_domain() {
    let mut world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.node(name, 2, json!({}));
    }
    let domain = |world: &mut World, name: &str, tier: i64, members: &[(&str, &str)]| {
        let member = |(kind, name): &(&str, &str)| json!({"type": kind, "selector": {"exactMatch": {"name": name}}});
        let members: Vec<Value> = members.iter().map(member).collect();
        world.see(Kind::HyperNode, &json!({"metadata": {"name": name}, "spec": {"tier": tier, "members": members}}));
    };
    let topology = |tier: i64| json!({"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}}});
    world.gang("g", 3, 4, 1, topology(1));
    assert_eq!(world.why("g"), "needs a network domain, but no HyperNode is known yet");
    domain(&mut world, "s0", 1, &[("Node", "a"), ("Node", "b")]);
    domain(&mut world, "s1", 1, &[("Node", "c"), ("Node", "d")]);
    domain(&mut world, "top", 2, &[("HyperNode", "s0"), ("HyperNode", "s1")]);
    world.gang("first", 1, 1, 1, json!({"spec": {"priorityClassName": ""}, "metadata": {"creationTimestamp": at(1)}}));
    let placement = world.place();
    assert_eq!(placement.domains[&key("g")], "s0");
    world.apply(&placement);
    let nodes: Vec<&str> = placement.bind.iter().map(|bind| &*bind.node).collect();
    assert!(nodes.iter().all(|node| ["a", "b"].contains(node)), "{nodes:?}");
    // The fourth pod would fit elsewhere, but stays with its gang.
    let waiting = &world.place().waiting;
    assert!(waiting.get(&key("g")).is_none_or(|waiting| waiting.has_minimum));
    world.gang("h", 5, 5, 1, topology(1));
    assert!(world.why("h").starts_with("needs 5 nvidia.com/gpu in one network domain up to tier 1; of 2 domains"));
}

// NT-5
#[test]
fn a_soft_topology_is_near_if_it_can_and_far_if_it_must() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.node(name, 2, json!({}));
    }
    for (name, nodes) in [("s0", "^a$"), ("s1", "^[bc]$")] {
        let member = json!({"type": "Node", "selector": {"regexMatch": {"pattern": nodes}}});
        world.see(Kind::HyperNode, &json!({"metadata": {"name": name}, "spec": {"tier": 1, "members": [member]}}));
    }
    let soft = json!({"spec": {"networkTopology": {"mode": "soft"}}});
    world.gang("g", 3, 3, 1, soft.clone());
    assert_eq!(world.step(), ["g-0>b", "g-1>b", "g-2>c"]);
    world.gang("h", 3, 3, 1, soft);
    assert_eq!(world.step().len(), 3);
}

// CFG-1
#[test]
fn the_weights_say_whether_nodes_are_packed_or_pods_spread() {
    let file = |plugin: Value| json!({"actions": "allocate", "tiers": [{"plugins": [plugin]}]});
    let nodes_of = |policy: Policy| {
        let mut world = World::with(policy);
        world.node("a", 8, json!({}));
        world.node("b", 8, json!({}));
        world.gang("g", 2, 2, 1, json!({}));
        world.step()
    };
    let packed = Policy::read(&file(json!({"name": "binpack"}))).unwrap().0;
    let spread = Policy::read(&file(json!({"name": "nodeorder"}))).unwrap().0;
    assert_eq!(nodes_of(packed), ["g-0>a", "g-1>a"]);
    assert_eq!(nodes_of(spread), ["g-0>a", "g-1>b"]);
}

/// Where a pod goes that spreads over zones and wants a fast disk, beside pods with its label.
fn spread(world: &mut World, others: &[(&str, &str)]) -> Vec<String> {
    for (zone, disk) in [("x", "fast"), ("x", "slow"), ("y", "fast")] {
        let labels = json!({"zone": zone, "disk": disk});
        world.node(&format!("{zone}-{disk}"), 8, json!({"metadata": {"labels": labels}}));
    }
    world.group("others", 1, json!({}));
    for (name, node) in others {
        let ends = name.starts_with("ends").then(|| at(world.now + 30));
        world.pod(
            name,
            "others",
            1,
            json!({"metadata": {"labels": {"of": "g"}, "deletionTimestamp": ends},
            "spec": {"nodeName": node}, "status": {"phase": "Running"}}),
        );
    }
    let constraint = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"of": "g"}}}]);
    world.group("g", 1, json!({}));
    world.pod(
        "g-0",
        "g",
        1,
        json!({"metadata": {"labels": {"of": "g"}},
        "spec": {"nodeSelector": {"disk": "fast"}, "topologySpreadConstraints": constraint}}),
    );
    world.step()
}

#[test]
fn spread_counts_neither_pods_on_nodes_that_are_not_for_it_nor_pods_that_end() {
    let own = |others: &[(&str, &str)]| spread(&mut World::new(), others);
    assert_eq!(own(&[("a", "y-fast"), ("b", "x-slow"), ("c", "x-slow")]), ["g-0>x-fast"], "none of the slow node's");
    assert_eq!(own(&[("a", "y-fast"), ("ends-0", "x-fast"), ("ends-1", "x-fast")]), ["g-0>x-fast"]);
}
