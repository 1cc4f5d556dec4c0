//! Claims and volumes: where they let a pod go, and which volume a claim gets.

use super::world::{World, evicted, key};
use crate::gang::objects::ClaimKey;
use crate::gang::snapshot::Kind;
use crate::gang::volumes::{OpenClaim, SELECTED_NODE, Way, open_claims};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where the pods of a world go, and the volumes that claims get, or why gang `g` waits.
fn told(world: &World) -> String {
    let placement = world.place();
    if let Some(waiting) = placement.waiting.get(&key("g")) {
        return waiting.on.to_string();
    }
    let binds = placement.bind.iter().map(|bind| format!("{}>{}", bind.pod.key.name, bind.node));
    let volumes = placement.volumes.iter().map(|((_, claim), volume)| format!("{claim}={volume}"));
    binds.chain(volumes).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_volume_decides_where_its_pod_goes() {
    let with_claim = |claim: Option<Value>| {
        let mut world = World::new();
        world.node("a", 1, json!({}));
        world.node("b", 1, json!({}));
        let affinity = json!({"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}]});
        world.see(Kind::Volume, &json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": affinity}}}));
        world.see(
            Kind::StorageClass,
            &json!({"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}),
        );
        if let Some(claim) = claim {
            world.see(Kind::Claim, &claim);
        }
        world.group("g", 1, json!({}));
        let volume = json!({"name": "x", "persistentVolumeClaim": {"claimName": "c"}});
        world.pod("p", "g", 1, json!({"spec": {"volumes": [volume]}}));
        told(&world)
    };
    let claim = |spec: Value, phase: &str| {
        Some(json!({"metadata": {"name": "c", "namespace": "d"}, "spec": spec, "status": {"phase": phase}}))
    };
    assert_eq!(with_claim(claim(json!({"volumeName": "v"}), "Bound")), "p>b");
    assert_eq!(with_claim(claim(json!({"storageClassName": "late"}), "Pending")), "p>a");
    assert_eq!(with_claim(None), "persistentvolumeclaim \"c\" not found; create it");
    let lost = "persistentvolumeclaim \"c\" is bound to volume \"w\", which does not exist";
    assert_eq!(with_claim(claim(json!({"volumeName": "w"}), "Bound")), lost);
    let unbound = "persistentvolumeclaim \"c\" is not bound to a volume yet";
    assert_eq!(with_claim(claim(json!({"storageClassName": "now"}), "Pending")), unbound);
    let named = json!({"storageClassName": "late", "volumeName": "v"});
    assert_eq!(with_claim(claim(named, "Pending")), unbound, "it is bound without us");
}

#[test]
fn a_claim_that_waits_for_its_pod_is_told_of_the_node_once() {
    let mut world = World::new();
    world.group("g", 1, json!({}));
    let volumes = ["open", "has"].map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    world.pod("p", "g", 1, json!({"spec": {"volumes": volumes}}));
    let claim = |name: &str, node: &str, phase: &str| {
        json!({"metadata": {"name": name, "namespace": "d", "annotations": {SELECTED_NODE: node}},
            "spec": {"volumeName": "v"}, "status": {"phase": phase}})
    };
    world.see(Kind::Claim, &claim("has", "", "Bound"));
    let pod = world.snapshot.pods.find(&key("p")).unwrap();
    for (node, is_told) in [("", false), ("b", false), ("a", true)] {
        world.see(Kind::Claim, &claim("open", node, "Pending"));
        let way = if is_told { Way::Told } else { Way::Tell };
        let open = open_claims(&world.snapshot, pod, "a", &BTreeMap::new());
        assert_eq!(open, [OpenClaim { key: key("open"), way }], "{node}");
    }
}

/// Two nodes, a class whose volumes are made by hand, one that makes them, and gang `g`.
fn local(members: usize) -> World {
    let mut world = World::new();
    world.node("a", 4, json!({}));
    world.node("b", 4, json!({}));
    for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "example.com/made")] {
        let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"});
        world.see(Kind::StorageClass, &class);
    }
    world.group("g", members, json!({}));
    world
}

fn volume(world: &mut World, name: &str, node: &str, size: &str, more: Value) {
    let on = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}});
    let mut volume = json!({"metadata": {"name": name, "resourceVersion": "7"},
        "spec": {"storageClassName": "local", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": affinity},
        "status": {"phase": "Available"}});
    json_patch::merge(&mut volume, &more);
    world.see(Kind::Volume, &volume);
}

fn claim(world: &mut World, name: &str, size: &str, more: Value) {
    let mut claim = json!({"metadata": {"namespace": "d", "name": name, "uid": name},
        "spec": {"storageClassName": "local", "resources": {"requests": {"storage": size}},
            "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Pending"}});
    json_patch::merge(&mut claim, &more);
    world.see(Kind::Claim, &claim);
}

fn pod(world: &mut World, name: &str, claims: &[&str]) {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect();
    world.pod(name, "g", 1, json!({"spec": {"volumes": volumes}}));
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits_where_its_pod_goes() {
    let mut world = local(1);
    volume(&mut world, "tiny", "a", "1Gi", json!({}));
    volume(&mut world, "large", "a", "30Gi", json!({}));
    volume(&mut world, "right", "a", "10Gi", json!({}));
    volume(&mut world, "other", "b", "10Gi", json!({"spec": {"volumeMode": "Block"}}));
    claim(&mut world, "c", "8Gi", json!({}));
    pod(&mut world, "p", &["c"]);
    assert_eq!(told(&world), "p>a c=right");
    claim(&mut world, "c", "8Gi", json!({"spec": {"volumeMode": "Block"}}));
    assert_eq!(told(&world), "p>b c=other");
    let waits = "persistentvolumeclaim \"c\" asks for 40Gi of class local: 2 node(s) didn't find available persistent \
                 volumes to bind; 4 of the class are free, the largest with 30Gi";
    claim(&mut world, "c", "40Gi", json!({}));
    assert_eq!(told(&world), waits);
    claim(&mut world, "c", "8Gi", json!({"spec": {"accessModes": ["ReadWriteMany"]}}));
    assert!(told(&world).contains("didn't find available"), "{}", told(&world));
    claim(&mut world, "c", "8Gi", json!({"spec": {"selector": {"matchLabels": {"disk": "fast"}}}}));
    assert!(told(&world).contains("didn't find available"), "{}", told(&world));
    volume(&mut world, "other", "b", "10Gi", json!({"metadata": {"labels": {"disk": "fast"}}}));
    assert_eq!(told(&world), "p>b c=other");
}

#[test]
fn a_volume_that_is_set_aside_for_a_claim_is_for_no_other() {
    let mut world = local(1);
    let owner = |name: &str, uid: &str| json!({"spec": {"claimRef": {"namespace": "d", "name": name, "uid": uid}}});
    volume(&mut world, "v", "a", "10Gi", owner("else", ""));
    claim(&mut world, "c", "8Gi", json!({}));
    pod(&mut world, "p", &["c"]);
    assert!(told(&world).contains("0 of the class are free"), "{}", told(&world));
    volume(&mut world, "w", "a", "10Gi", json!({}));
    volume(&mut world, "v", "b", "20Gi", owner("c", ""));
    assert_eq!(told(&world), "p>b c=v", "not the smaller one");
    volume(&mut world, "v", "b", "20Gi", owner("c", "of an earlier one"));
    assert_eq!(told(&world), "p>a c=w");
    volume(&mut world, "v", "b", "5Gi", owner("c", "c"));
    assert!(told(&world).contains("didn't find available"), "the only one that it may have is too small");
}

#[test]
fn every_claim_of_a_pod_finds_a_volume_on_its_node() {
    let mut world = local(1);
    volume(&mut world, "a0", "a", "10Gi", json!({}));
    volume(&mut world, "b0", "b", "10Gi", json!({}));
    volume(&mut world, "b1", "b", "20Gi", json!({}));
    claim(&mut world, "large", "10Gi", json!({}));
    claim(&mut world, "small", "5Gi", json!({}));
    pod(&mut world, "p", &["large", "small"]);
    assert_eq!(told(&world), "p>b large=b1 small=b0", "the smaller claim chooses first");
}

#[test]
fn a_gang_has_volumes_for_all_its_claims_or_waits_whole() {
    let mut world = local(2);
    volume(&mut world, "a0", "a", "10Gi", json!({}));
    for name in ["c0", "c1"] {
        claim(&mut world, name, "10Gi", json!({}));
    }
    pod(&mut world, "p0", &["c0"]);
    pod(&mut world, "p1", &["c1"]);
    let waits = told(&world);
    assert!(waits.starts_with("persistentvolumeclaim \"c1\" asks for 10Gi of class local: 2 node(s)"), "{waits}");
    volume(&mut world, "b0", "b", "10Gi", json!({}));
    assert_eq!(told(&world), "p0>a p1>b c0=a0 c1=b0");
    // What is being given is not given again.
    let placement = world.place();
    world.apply(&placement);
    claim(&mut world, "c2", "10Gi", json!({}));
    pod(&mut world, "p2", &["c2"]);
    assert!(told(&world).contains("0 of the class are free"), "{}", told(&world));
}

#[test]
fn pods_that_share_a_claim_share_its_volume() {
    let mut world = local(2);
    volume(&mut world, "a0", "a", "10Gi", json!({}));
    volume(&mut world, "b0", "b", "10Gi", json!({}));
    claim(&mut world, "c", "10Gi", json!({}));
    pod(&mut world, "p0", &["c"]);
    pod(&mut world, "p1", &["c"]);
    assert_eq!(told(&world), "p0>a p1>a c=a0");
}

#[test]
fn a_volume_that_is_there_comes_before_one_that_would_be_made() {
    let mut world = local(1);
    let made = json!({"spec": {"storageClassName": "made"}});
    claim(&mut world, "c", "10Gi", made.clone());
    pod(&mut world, "p", &["c"]);
    assert_eq!(told(&world), "p>a");
    volume(&mut world, "v", "a", "10Gi", made);
    assert_eq!(told(&world), "p>a c=v");
    claim(&mut world, "c", "20Gi", json!({"spec": {"storageClassName": "made"}}));
    assert_eq!(told(&world), "p>a", "it is too small");
    let topology = json!([{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["b"]}]}]);
    let class = json!({"metadata": {"name": "made"}, "provisioner": "example.com/made",
        "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topology});
    world.see(Kind::StorageClass, &class);
    assert_eq!(told(&world), "p>b", "it is made there only");
}

#[test]
fn a_volume_is_given_by_name_or_the_claim_is_told_of_the_node() {
    let mut world = local(1);
    volume(&mut world, "v", "a", "10Gi", json!({}));
    claim(&mut world, "c", "10Gi", json!({}));
    pod(&mut world, "p", &["c"]);
    let number = world.snapshot.pods.find(&key("p")).unwrap();
    let given: BTreeMap<ClaimKey, _> = [(("d".to_owned(), "c".to_owned()), "v".into())].into();
    let way = |world: &World| open_claims(&world.snapshot, number, "a", &given).remove(0).way;
    let patch = json!({"metadata": {"resourceVersion": "7", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "d", "name": "c",
            "uid": "c"}}});
    assert_eq!(way(&world), Way::Give { volume: "v".into(), patch });
    let owner = json!({"spec": {"claimRef": {"namespace": "d", "name": "c", "uid": "c"}}});
    volume(&mut world, "v", "a", "10Gi", owner);
    assert_eq!(way(&world), Way::Told, "a bind that failed before has set it aside");
}

#[test]
fn a_claim_that_goes_or_is_not_the_pods_own_is_not_used() {
    let mut world = local(1);
    volume(&mut world, "v", "a", "10Gi", json!({}));
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    claim(&mut world, "c", "8Gi", leaving);
    pod(&mut world, "p", &["c"]);
    assert_eq!(told(&world), "persistentvolumeclaim \"c\" is being deleted");
    let made = json!([{"name": "own", "ephemeral": {"volumeClaimTemplate": {}}}]);
    world.pod("p", "g", 1, json!({"spec": {"volumes": made}}));
    claim(&mut world, "p-own", "8Gi", json!({}));
    assert_eq!(told(&world), "persistentvolumeclaim \"p-own\" was not created for pod p, which would have made it");
    let owners = json!([{"kind": "Pod", "name": "p", "uid": "p", "controller": true}]);
    claim(&mut world, "p-own", "8Gi", json!({"metadata": {"ownerReferences": owners}}));
    assert_eq!(told(&world), "p>a p-own=v");
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_at_a_time() {
    let mut world = local(1);
    world.see(Kind::Volume, &json!({"metadata": {"name": "v"}}));
    let bound = json!({"spec": {"volumeName": "v", "accessModes": ["ReadWriteOncePod"]}, "status": {"phase": "Bound"}});
    claim(&mut world, "c", "1Gi", bound);
    pod(&mut world, "p0", &["c"]);
    pod(&mut world, "p1", &["c"]);
    assert_eq!(world.step(), ["p0>a"]);
    let waits = "1 pod has no place beside the pods that run: 2 node(s) unavailable due to PersistentVolumeClaim with \
                 ReadWriteOncePod access mode already in-use by another pod";
    assert_eq!(told(&world), waits);
    world.remove("p0");
    assert_eq!(world.step(), ["p1>a"]);
    // One that is more important has it evicted.
    world.class("high", 10);
    world.group("h", 1, json!({"spec": {"priorityClassName": "high"}}));
    let volumes = json!([{"name": "x", "persistentVolumeClaim": {"claimName": "c"}}]);
    world.pod("q", "h", 1, json!({"spec": {"volumes": volumes, "priority": 10}}));
    assert_eq!(evicted(&world.place()), ["p1"]);
}

#[test]
fn a_node_takes_as_many_volumes_as_it_says() {
    let mut world = local(1);
    for node in ["a", "b"] {
        let drivers = json!([{"name": "csi.example.com", "nodeID": node, "allocatable": {"count": 2}}]);
        world.see(Kind::CsiNode, &json!({"metadata": {"name": node}, "spec": {"drivers": drivers}}));
    }
    for name in ["v0", "v1", "v2", "v3", "v4"] {
        let csi = json!({"driver": "csi.example.com", "volumeHandle": name});
        world.see(Kind::Volume, &json!({"metadata": {"name": name}, "spec": {"csi": csi}}));
        let bound = json!({"spec": {"volumeName": name}, "status": {"phase": "Bound"}});
        claim(&mut world, name, "1Gi", bound);
    }
    pod(&mut world, "p0", &["v0", "v1"]);
    pod(&mut world, "p1", &["v1", "v2"]);
    assert_eq!(world.step(), ["p0>a", "p1>b"]);
    pod(&mut world, "p2", &["v0"]);
    assert_eq!(world.step(), ["p2>a"], "what is there already counts once");
    pod(&mut world, "p3", &["v3"]);
    assert_eq!(told(&world), "1 pod has no place beside the pods that run: 2 node(s) exceed max volume count");
    // A claim without a volume counts as one of its class's driver.
    let class = json!({"metadata": {"name": "made"}, "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer"});
    world.see(Kind::StorageClass, &class);
    world.remove("p3");
    claim(&mut world, "open", "1Gi", json!({"spec": {"storageClassName": "made"}}));
    pod(&mut world, "p4", &["open"]);
    assert!(told(&world).contains("max volume count"), "{}", told(&world));
    world.snapshot.forget(Kind::CsiNode, "", "a");
    assert_eq!(world.step(), ["p4>a"]);
}

#[test]
fn a_volume_is_made_only_where_there_is_storage_for_it() {
    let mut world = local(1);
    let driver = |tells: bool| json!({"metadata": {"name": "example.com/made"}, "spec": {"storageCapacity": tells}});
    let capacity = |name: &str, node: &str, size: &str, most: Value| {
        json!({"metadata": {"name": name, "namespace": "d"}, "storageClassName": "made", "capacity": size,
            "maximumVolumeSize": most, "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}}})
    };
    claim(&mut world, "c", "10Gi", json!({"spec": {"storageClassName": "made"}}));
    pod(&mut world, "p", &["c"]);
    world.see(Kind::StorageCapacity, &capacity("on-a", "a", "5Gi", Value::Null));
    assert_eq!(told(&world), "p>a", "the driver does not tell, so it is not asked");
    world.see(Kind::CsiDriver, &driver(true));
    let none = |largest: &str| {
        format!(
            "persistentvolumeclaim \"c\" asks for 10Gi of class made: 2 node(s) did not have enough free storage; the \
             largest that can be made has {largest}"
        )
    };
    assert_eq!(told(&world), none("5Gi"));
    world.see(Kind::StorageCapacity, &capacity("on-b", "b", "50Gi", json!("8Gi")));
    assert_eq!(told(&world), none("8Gi"), "one volume is not to be larger than the driver says");
    world.see(Kind::StorageCapacity, &capacity("on-b", "b", "50Gi", Value::Null));
    assert_eq!(told(&world), "p>b");
    world.snapshot.forget(Kind::StorageCapacity, "d", "on-b");
    let begun = json!({"metadata": {"annotations": {SELECTED_NODE: "a"}}, "spec": {"storageClassName": "made"}});
    claim(&mut world, "c", "10Gi", begun);
    assert_eq!(told(&world), "p>a", "what is being made there has its storage");
    claim(&mut world, "c", "10Gi", json!({"spec": {"storageClassName": "made"}}));
    let all = json!({"metadata": {"name": "all", "namespace": "d"}, "storageClassName": "made", "capacity": "1Ti",
        "nodeTopology": {}});
    world.see(Kind::StorageCapacity, &all);
    assert_eq!(told(&world), "p>a", "an empty selector means every node");
}
