//! Claims and volumes finding each other on a pretend server.

use super::*;
use crate::control::world::World;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Remembers what was said about each claim, as the shell does.
#[derive(Default)]
struct Stage {
    world: World,
    reported: BTreeMap<String, String>,
}

impl Stage {
    fn with_class(name: &str, binding: &str) -> Stage {
        let mut stage = Stage::default();
        stage.world.add(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "volley", "reclaimPolicy": "Delete", "volumeBindingMode": binding}));
        stage
    }

    fn claim(&mut self, name: &str, class: &str, size: &str) {
        self.world.add(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "finalizers": [CLAIM_FINALIZER]},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}}}}));
    }

    fn volume(&mut self, name: &str, size: &str, spec: Value) {
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/x"}}});
        json_patch::merge(&mut volume["spec"], &spec);
        self.world.add(volume);
    }

    fn planned(&self) -> Plan {
        let observed = Observed {
            claims: &self.world.list(),
            volumes: &self.world.list(),
            classes: &self.world.list(),
            pods: &self.world.list(),
            provisioner: "volley",
            directory: "/volumes/",
            reported: &self.reported,
        };
        plan(&observed, self.world.now())
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            let plan = self.planned();
            if plan.is_empty() {
                return;
            }
            for event in &plan.events {
                self.reported.insert(event.about.uid.clone(), event.reason.clone());
            }
            self.world.apply(&plan);
        }
        panic!("volumes do not settle: {:#?}", self.planned());
    }

    fn phase(&self, kind: &str, name: &str) -> &str {
        self.world.raw(kind, name)["status"]["phase"].as_str().unwrap()
    }

    fn volume_of(&self, claim: &str) -> &str {
        self.world.raw("PersistentVolumeClaim", claim)["spec"]["volumeName"].as_str().unwrap_or("")
    }
}

// K-VOL-1
#[test]
fn a_claim_takes_the_smallest_volume_that_fits() {
    let mut stage = Stage::default();
    for (name, size, spec) in [
        ("large", "10Gi", json!({})),
        ("small", "1Gi", json!({})),
        ("right", "5Gi", json!({})),
        ("other-class", "4Gi", json!({"storageClassName": "fast"})),
        ("other-mode", "4Gi", json!({"accessModes": ["ReadOnlyMany"]})),
    ] {
        stage.volume(name, size, spec);
    }
    stage.claim("c", "", "3Gi");
    stage.settle();
    assert_eq!(stage.volume_of("c"), "right");
    assert_eq!(stage.phase("PersistentVolumeClaim", "c"), "Bound");
    assert_eq!(stage.phase("PersistentVolume", "right"), "Bound");
    assert_eq!(stage.phase("PersistentVolume", "large"), "Available");
    let claim = stage.world.raw("PersistentVolumeClaim", "c");
    assert_eq!(claim["metadata"]["annotations"], json!({BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}));
    assert_eq!(claim["status"]["capacity"], json!({"storage": "5Gi"}));
    let volume = stage.world.raw("PersistentVolume", "right");
    assert_eq!(volume["spec"]["claimRef"]["uid"], "uid-of-c");
    assert_eq!(volume["metadata"]["annotations"], json!({BOUND_BY_CONTROLLER: "yes"}));
}

// K-VOL-1
#[test]
fn volumes_reserved_for_a_claim_and_claims_that_name_a_volume_find_each_other() {
    let mut stage = Stage::default();
    stage.volume("reserved", "9Gi", json!({"claimRef": {"namespace": "d", "name": "a"}}));
    stage.volume("named", "9Gi", json!({}));
    stage.volume("tempting", "1Gi", json!({}));
    stage.claim("a", "", "1Gi");
    stage.claim("b", "", "1Gi");
    stage.world.edit("PersistentVolumeClaim", "b", json!({"spec": {"volumeName": "named"}}));
    stage.settle();
    assert_eq!((stage.volume_of("a"), stage.volume_of("b")), ("reserved", "named"));
    assert_eq!(stage.phase("PersistentVolume", "tempting"), "Available");
    stage.claim("c", "", "1Gi");
    stage.world.edit("PersistentVolumeClaim", "c", json!({"spec": {"volumeName": "named"}}));
    stage.settle();
    assert_eq!(stage.phase("PersistentVolumeClaim", "c"), "Pending");
    assert_eq!(stage.world.events, ["FailedBinding volume \"named\" already bound to a different claim."]);
}

// K-VOL-1 K-VOL-2
#[test]
fn a_class_of_ours_makes_a_volume_and_removes_it_after_the_claim() {
    let mut stage = Stage::with_class("local", "Immediate");
    stage.claim("c", "local", "2Gi");
    stage.settle();
    let volume = stage.world.raw("PersistentVolume", "pvc-uid-of-c").clone();
    assert_eq!(volume["spec"]["hostPath"], json!({"path": "/volumes/pvc-uid-of-c", "type": "DirectoryOrCreate"}));
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(volume["spec"]["capacity"]["storage"], "2Gi");
    assert_eq!(stage.phase("PersistentVolumeClaim", "c"), "Bound");
    stage.world.delete("PersistentVolumeClaim", "c");
    stage.settle();
    assert!(stage.world.names("PersistentVolumeClaim").is_empty());
    assert!(stage.world.names("PersistentVolume").is_empty());
}

// K-VOL-1
#[test]
fn a_retained_volume_is_released_and_not_given_away_again() {
    let mut stage = Stage::default();
    stage.volume("v", "1Gi", json!({}));
    stage.claim("c", "", "1Gi");
    stage.settle();
    stage.world.delete("PersistentVolumeClaim", "c");
    stage.settle();
    assert_eq!(stage.phase("PersistentVolume", "v"), "Released");
    stage.claim("d", "", "1Gi");
    stage.settle();
    assert_eq!(stage.phase("PersistentVolumeClaim", "d"), "Pending");
    let expected = "FailedBinding no persistent volumes available for this claim and no storage class is set";
    assert_eq!(stage.world.events, [expected]);
}

// K-VOL-1
#[test]
fn a_class_may_wait_for_the_first_pod() {
    let mut stage = Stage::with_class("lazy", "WaitForFirstConsumer");
    stage.claim("c", "lazy", "1Gi");
    stage.settle();
    let expected = "WaitForFirstConsumer waiting for first consumer to be created before binding";
    assert_eq!(stage.world.events, [expected]);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    stage.world.add(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [], "volumes": volumes}}));
    stage.settle();
    assert_eq!(stage.volume_of("c"), "", "the scheduler has not said where the pod goes");
    stage.world.edit("Pod", "p", json!({"spec": {"nodeName": "n"}}));
    stage.settle();
    assert_eq!(stage.volume_of("c"), "pvc-uid-of-c");
    stage.claim("d", "lazy", "1Gi");
    stage.world.edit("PersistentVolumeClaim", "d", json!({"metadata": {"annotations": {SELECTED_NODE: "n"}}}));
    stage.settle();
    assert_eq!(stage.volume_of("d"), "pvc-uid-of-d");
}

// K-VOL-1
#[test]
fn a_claim_that_waits_for_its_pod_gets_the_volume_that_the_scheduler_chose() {
    let mut stage = Stage::with_class("lazy", "WaitForFirstConsumer");
    stage.volume("small", "1Gi", json!({"storageClassName": "lazy"}));
    stage.claim("c", "lazy", "1Gi");
    stage.settle();
    assert_eq!(stage.volume_of("c"), "");
    let owner = json!({"namespace": "d", "name": "c", "uid": "uid-of-c"});
    stage.volume("chosen", "5Gi", json!({"storageClassName": "lazy", "claimRef": owner}));
    stage.settle();
    assert_eq!(stage.volume_of("c"), "chosen");
    assert_eq!(stage.phase("PersistentVolume", "chosen"), "Bound");
    assert_eq!(stage.phase("PersistentVolume", "small"), "Available");
}

// K-VOL-1
#[test]
fn a_claim_in_use_outlives_its_deletion() {
    let mut stage = Stage::with_class("local", "Immediate");
    stage.claim("c", "local", "1Gi");
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    stage.world.add(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [], "volumes": volumes}}));
    stage.settle();
    stage.world.delete("PersistentVolumeClaim", "c");
    stage.settle();
    assert_eq!(stage.world.names("PersistentVolumeClaim"), ["c"]);
    stage.world.end_pod("p", 0);
    stage.settle();
    assert!(stage.world.names("PersistentVolumeClaim").is_empty());
}

#[test]
fn a_claim_whose_volume_vanished_is_lost() {
    let mut stage = Stage::default();
    stage.volume("v", "1Gi", json!({}));
    stage.claim("c", "", "1Gi");
    stage.settle();
    stage.world.objects.remove(&("PersistentVolume".to_owned(), "v".to_owned()));
    stage.settle();
    assert_eq!(stage.phase("PersistentVolumeClaim", "c"), "Lost");
}

#[test]
fn unknown_classes_and_foreign_provisioners_are_named() {
    let mut stage = Stage::default();
    stage.claim("c", "none", "1Gi");
    stage.settle();
    assert_eq!(stage.world.events, ["ProvisioningFailed storageclass.storage.k8s.io \"none\" not found"]);
    stage.world.add(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "none"},
        "provisioner": "example.com/disk"}));
    stage.settle();
    assert!(stage.world.events[1].contains("by the external provisioner 'example.com/disk' or manually"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // K-VOL-1
    #[test]
    fn no_volume_is_ever_given_to_two_claims(
        volumes in proptest::collection::vec(1..6i32, 0..6),
        steps in proptest::collection::vec((0..5usize, 1..6i32, any::<bool>()), 1..10),
    ) {
        let mut stage = Stage::default();
        for (number, size) in volumes.iter().enumerate() {
            stage.volume(&format!("v{number}"), &format!("{size}Gi"), json!({}));
        }
        for (number, size, _) in steps {
            let name = format!("c{number}");
            if stage.world.names("PersistentVolumeClaim").contains(&name) {
                stage.world.delete("PersistentVolumeClaim", &name);
            } else {
                stage.claim(&name, "", &format!("{size}Gi"));
            }
            stage.settle();
            let claims = stage.world.list::<PersistentVolumeClaim>();
            let mut given: Vec<_> = claims.iter().filter_map(|claim| claim.spec.as_ref()?.volume_name.clone()).collect();
            let count = given.len();
            given.sort();
            given.dedup();
            prop_assert_eq!(given.len(), count);
            for claim in claims.iter().filter(|claim| claim.spec.as_ref().unwrap().volume_name.is_some()) {
                let volume = stage.world.get::<PersistentVolume>(claim.spec.as_ref().unwrap().volume_name.as_ref().unwrap());
                prop_assert_eq!(&volume.spec.unwrap().claim_ref.unwrap().uid, &claim.metadata.uid);
            }
        }
    }
}
