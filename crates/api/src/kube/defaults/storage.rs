//! Defaults of volumes, claims and the storage.k8s.io kinds.

use super::pod::claim_spec;
use super::rows::Fill::{Flag, Null, Object, Text};
use super::rows::{Kind, make_map};
use crate::kube::at;
use serde_json::{Value, json};

pub(super) const KINDS: &[Kind] = &[
    Kind::of("", "PersistentVolume").rows(&[
        ("spec.persistentVolumeReclaimPolicy", Text("Retain")),
        ("spec.volumeMode", Text("Filesystem")),
        ("spec.hostPath?.type", Text("")),
        ("status.phase", Text("Pending")),
    ]),
    Kind::of("", "PersistentVolumeClaim").then(fill_claim).rows(&[
        ("spec", Object),
        ("status.phase", Text("Pending")),
        ("status.conditions[].lastProbeTime", Null),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("storage.k8s.io", "StorageClass").rows(&[
        ("provisioner", Text("")),
        ("reclaimPolicy", Text("Delete")),
        ("volumeBindingMode", Text("Immediate")),
    ]),
    Kind::of("storage.k8s.io", "CSIDriver").then(fill_driver).rows(&[
        ("spec.attachRequired", Flag(true)),
        ("spec.podInfoOnMount", Flag(false)),
        ("spec.storageCapacity", Flag(false)),
        ("spec.fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
        ("spec.requiresRepublish", Flag(false)),
        ("spec.seLinuxMount", Flag(false)),
    ]),
    Kind::of("storage.k8s.io", "CSINode").rows(&[("spec.drivers", Null)]),
    Kind::of("storage.k8s.io", "CSIStorageCapacity").rows(&[("storageClassName", Text(""))]),
    Kind::of("storage.k8s.io", "VolumeAttachment").rows(&[("spec.source", Object), ("status.attached", Flag(false))]),
];

fn fill_claim(claim: &mut Value) {
    if let Some(spec) = claim.get_mut("spec") {
        claim_spec_with_source(spec);
    }
}

/// Fills a claim's spec as it stands in a claim or in a claim template.
pub(super) fn claim_spec_with_source(spec: &mut Value) {
    claim_spec(spec);
    copy_data_source(spec);
}

/// `dataSource` and `dataSourceRef` mirror each other; a reference into another namespace has no short form.
fn copy_data_source(spec: &mut Value) {
    let set = |key: &str| spec.get(key).filter(|value| value.is_object()).cloned();
    let (short, long) = (set("dataSource"), set("dataSourceRef"));
    match (short, long) {
        (Some(short), None) => spec["dataSourceRef"] = short,
        (None, Some(long)) if at(&long, "namespace").is_none_or(|ns| ns.is_null() || ns == "") => {
            spec["dataSource"] = long;
        }
        _ => {}
    }
}

fn fill_driver(driver: &mut Value) {
    if let Some(spec) = make_map(driver, "spec") {
        let unset = spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if unset {
            spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
        }
    }
}
