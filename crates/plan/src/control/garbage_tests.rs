//! The garbage collector on small families of objects, and its laws on any.

use super::*;
use crate::control::world::at;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

/// A pretend server of bare metadata that tells a graph of every change.
#[derive(Default)]
struct Store {
    objects: BTreeMap<String, ObjectMeta>,
    graph: Graph,
}

impl Store {
    /// `owners` are uids; a trailing `!` sets `blockOwnerDeletion`.
    fn add(&mut self, uid: &str, owners: &[&str]) {
        let reference = |owner: &&str| OwnerReference {
            uid: owner.trim_end_matches('!').to_owned(),
            name: owner.trim_end_matches('!').to_owned(),
            block_owner_deletion: Some(owner.ends_with('!')),
            ..OwnerReference::default()
        };
        let metadata = ObjectMeta {
            uid: Some(uid.to_owned()),
            name: Some(uid.to_owned()),
            namespace: Some("d".to_owned()),
            owner_references: Some(owners.iter().map(reference).collect()),
            ..ObjectMeta::default()
        };
        self.put(metadata);
    }

    fn put(&mut self, metadata: ObjectMeta) {
        let uid = metadata.uid.clone().unwrap();
        let is_gone = metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().count() == 0;
        if is_gone {
            self.objects.remove(&uid);
            self.graph.forget(&uid);
        } else {
            self.graph.observe("v1", "Thing", &metadata);
            self.objects.insert(uid, metadata);
        }
    }

    fn delete(&mut self, uid: &str, propagation: Propagation) {
        let mut metadata = self.objects[uid].clone();
        metadata.deletion_timestamp = Some(Time(at(0)));
        let finalizer = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        let finalizers = metadata.finalizers.get_or_insert_default();
        if let Some(name) = finalizer.filter(|name| !finalizers.iter().any(|known| known == name)) {
            finalizers.push(name.to_owned());
        }
        self.put(metadata);
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::Delete { target, propagation } => self.delete(&target.uid, *propagation),
            Action::Patch { target, patch } => {
                let mut metadata = self.objects[&target.uid].clone();
                let changes = patch["metadata"].as_object().unwrap();
                if let Some(owners) = changes.get("ownerReferences") {
                    metadata.owner_references = serde_json::from_value(owners.clone()).unwrap();
                }
                if let Some(finalizers) = changes.get("finalizers") {
                    metadata.finalizers = serde_json::from_value(finalizers.clone()).unwrap();
                }
                self.put(metadata);
            }
            other => panic!("the collector only deletes and patches: {other:?}"),
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some(action) = self.graph.plan(1).actions.into_iter().next() else {
                return;
            };
            self.apply(&action);
        }
        panic!("the collector does not come to rest");
    }

    fn uids(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }

    fn owners(&self, uid: &str) -> Vec<&str> {
        self.objects[uid].owner_references.iter().flatten().map(|owner| owner.uid.as_str()).collect()
    }
}

// K-GC-1
#[test]
fn dependants_go_when_their_last_owner_is_gone() {
    let mut store = Store::default();
    for (uid, owners) in [("a", &[][..]), ("b", &["a"]), ("c", &["b"]), ("d", &["a", "e"]), ("e", &[])] {
        store.add(uid, owners);
    }
    store.settle();
    assert_eq!(store.uids(), ["a", "b", "c", "d", "e"]);
    store.delete("a", Propagation::Background);
    store.settle();
    assert_eq!(store.uids(), ["d", "e"]);
    assert_eq!(store.owners("d"), ["e"]);
}

// K-GC-1
#[test]
fn owners_that_never_existed_or_live_elsewhere_count_as_gone() {
    let mut store = Store::default();
    store.add("a", &["ghost"]);
    store.add("b", &["c"]);
    let elsewhere = ObjectMeta { uid: Some("c".into()), namespace: Some("other".into()), ..ObjectMeta::default() };
    store.put(elsewhere);
    let cluster_scoped = ObjectMeta { uid: Some("n".into()), ..ObjectMeta::default() };
    store.put(cluster_scoped);
    store.add("d", &["n"]);
    store.settle();
    assert_eq!(store.uids(), ["c", "d", "n"]);
}

// K-DEL-4
#[test]
fn foreground_deletion_waits_for_blocking_dependants_only() {
    let mut store = Store::default();
    for (uid, owners) in [("a", &[][..]), ("b", &["a!"]), ("c", &["a"])] {
        store.add(uid, owners);
    }
    for uid in ["b", "c"] {
        let mut held = store.objects[uid].clone();
        held.finalizers = Some(vec!["example.com/held".into()]);
        store.put(held);
    }
    store.delete("a", Propagation::Foreground);
    store.settle();
    assert_eq!(store.uids(), ["a", "b", "c"]);
    assert!(store.objects["b"].deletion_timestamp.is_some() && store.objects["c"].deletion_timestamp.is_some());
    let freed = ObjectMeta { finalizers: None, ..store.objects["b"].clone() };
    store.put(freed);
    store.settle();
    assert_eq!(store.uids(), ["c"]);
}

// K-DEL-4
#[test]
fn orphans_lose_the_reference_and_live() {
    let mut store = Store::default();
    for (uid, owners) in [("a", &[][..]), ("b", &["a!"]), ("c", &["b"])] {
        store.add(uid, owners);
    }
    store.delete("a", Propagation::Orphan);
    store.settle();
    assert_eq!(store.uids(), ["b", "c"]);
    assert!(store.owners("b").is_empty());
}

// K-DEL-4
#[test]
fn a_circle_of_owners_can_be_deleted_in_the_foreground() {
    let mut store = Store::default();
    store.add("a", &["b!"]);
    store.graph.forget("a");
    store.add("b", &["a!"]);
    store.add("a", &["b!"]);
    store.delete("a", Propagation::Foreground);
    store.settle();
    assert!(store.uids().is_empty());
}

// K-GC-3
#[test]
fn a_family_of_a_hundred_thousand_goes_in_linear_time() {
    let mut store = Store::default();
    store.add("root", &[]);
    for child in 0..100_000 {
        store.add(&format!("child-{child:06}"), &["root!"]);
    }
    store.delete("root", Propagation::Foreground);
    for action in store.graph.plan(usize::MAX).actions {
        store.apply(&action);
    }
    assert_eq!(store.graph.plan(usize::MAX).actions.len(), 1);
    store.settle();
    assert!(store.uids().is_empty());
}

fn lives_by(objects: &BTreeMap<String, ObjectMeta>, uid: &str) -> bool {
    let owners = objects[uid].owner_references.as_deref().unwrap_or_default();
    owners.is_empty() || owners.iter().any(|owner| objects.contains_key(&owner.uid))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    // K-GC-1
    #[test]
    fn no_orphan_stays_and_no_child_of_a_living_owner_goes(
        parents in proptest::collection::vec(proptest::collection::vec((0..12usize, any::<bool>()), 0..3), 12),
        removals in proptest::collection::vec((0..12usize, 0..2u8), 1..4),
        shuffle in any::<u64>(),
    ) {
        let name = |index: usize| format!("o{index:02}");
        let mut order: Vec<usize> = (0..parents.len()).collect();
        order.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(shuffle | 1));
        let mut store = Store::default();
        for index in order {
            // Owners come earlier in the numbering, so there are no circles; the order of arrival is any.
            let owners: Vec<String> = parents[index]
                .iter()
                .filter(|(owner, _)| *owner < index)
                .map(|(owner, blocks)| format!("{}{}", name(*owner), if *blocks { "!" } else { "" }))
                .collect();
            store.add(&name(index), &owners.iter().map(String::as_str).collect::<Vec<_>>());
        }
        prop_assert!(store.graph.plan(1).is_empty());
        for (index, policy) in removals {
            let uid = name(index);
            if !store.objects.contains_key(&uid) {
                continue;
            }
            let before = store.objects.clone();
            let policy = if policy == 0 { Propagation::Background } else { Propagation::Foreground };
            store.delete(&uid, policy);
            store.settle();
            prop_assert!(!store.objects.contains_key(&uid));
            for kept in store.uids() {
                prop_assert!(lives_by(&store.objects, kept), "{} is left without an owner", kept);
            }
            for gone in before.keys().filter(|gone| !store.objects.contains_key(*gone) && **gone != uid) {
                let owners = before[gone].owner_references.as_deref().unwrap_or_default();
                prop_assert!(!owners.is_empty());
                prop_assert!(owners.iter().all(|owner| !store.objects.contains_key(&owner.uid)));
            }
        }
    }
}
