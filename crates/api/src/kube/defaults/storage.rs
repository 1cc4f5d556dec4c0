//! Defaults of volumes, claims and the storage.k8s.io kinds.

use super::rows::{Fill, KindRow, fill_row, make_map, nothing_more};
use crate::kube::at;
use serde_json::{Value, json};

pub const ROWS: &[KindRow] = &[
    KindRow {
        group: "",
        kind: "PersistentVolume",
        rows: &[
            ("spec.persistentVolumeReclaimPolicy", Fill::Text("Retain")),
            ("spec.volumeMode", Fill::Text("Filesystem")),
            ("spec.hostPath?.type", Fill::Text("")),
            ("status.phase", Fill::Text("Pending")),
        ],
        more: nothing_more,
    },
    KindRow {
        group: "",
        kind: "PersistentVolumeClaim",
        rows: &[("spec", Fill::Map), ("status.phase", Fill::Text("Pending"))],
        more: fill_claim,
    },
    KindRow {
        group: "storage.k8s.io",
        kind: "StorageClass",
        rows: &[
            ("provisioner", Fill::Text("")),
            ("reclaimPolicy", Fill::Text("Delete")),
            ("volumeBindingMode", Fill::Text("Immediate")),
        ],
        more: nothing_more,
    },
    KindRow {
        group: "storage.k8s.io",
        kind: "CSIDriver",
        rows: &[
            ("spec.attachRequired", Fill::Flag(true)),
            ("spec.podInfoOnMount", Fill::Flag(false)),
            ("spec.storageCapacity", Fill::Flag(false)),
            ("spec.fsGroupPolicy", Fill::Text("ReadWriteOnceWithFSType")),
            ("spec.requiresRepublish", Fill::Flag(false)),
            ("spec.seLinuxMount", Fill::Flag(false)),
        ],
        more: fill_driver,
    },
    KindRow { group: "storage.k8s.io", kind: "CSINode", rows: &[("spec.drivers", Fill::Null)], more: nothing_more },
    KindRow {
        group: "storage.k8s.io",
        kind: "CSIStorageCapacity",
        rows: &[("storageClassName", Fill::Text(""))],
        more: nothing_more,
    },
    KindRow {
        group: "storage.k8s.io",
        kind: "VolumeAttachment",
        rows: &[("spec.source", Fill::Map), ("status.attached", Fill::Flag(false))],
        more: nothing_more,
    },
];

fn fill_claim(claim: &mut Value) {
    if let Some(spec) = claim.get_mut("spec") {
        fill_claim_spec(spec);
    }
}

/// Fills a claim's spec; claim templates and ephemeral volumes carry the same one.
pub fn fill_claim_spec(spec: &mut Value) {
    fill_row(spec, "volumeMode", Fill::Text("Filesystem"));
    fill_row(spec, "resources", Fill::Map);
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
