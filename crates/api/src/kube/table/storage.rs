//! Rows of claims, volumes and storage classes.

use super::cell::{self, UNSET, list, scalar, text_or};
use super::{Column, Printer};
use crate::kube::{at, text};
use jiff::Timestamp;
use serde_json::Value;

const CAPACITY: Column = Column::text("Capacity", "Size of the volume.");
const ACCESS_MODES: Column = Column::text("Access Modes", "How the volume can be mounted.");
const CLASS: Column = Column::text("StorageClass", "Class that the volume comes from.");
const ATTRIBUTES_CLASS: Column = Column::text("VolumeAttributesClass", "Class of changeable attributes.");
const MODE: Column = Column::text("VolumeMode", "File system or raw block device.").wide();

pub const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        kind: "PersistentVolumeClaim",
        columns: &[
            Column::NAME,
            Column::text("Status", "Whether a volume is bound."),
            Column::text("Volume", "Volume that is bound."),
            CAPACITY,
            ACCESS_MODES,
            CLASS,
            ATTRIBUTES_CLASS,
            Column::AGE,
            MODE,
        ],
        cells: claim_cells,
    },
    Printer {
        group: "",
        kind: "PersistentVolume",
        columns: &[
            Column::NAME,
            CAPACITY,
            ACCESS_MODES,
            Column::text("Reclaim Policy", "What happens to the data after the claim is gone."),
            Column::text("Status", "Whether a claim is bound."),
            Column::text("Claim", "Claim that is bound."),
            CLASS,
            ATTRIBUTES_CLASS,
            Column::text("Reason", "Why the volume is in this state."),
            Column::AGE,
            MODE,
        ],
        cells: volume_cells,
    },
    Printer {
        group: "storage.k8s.io",
        kind: "StorageClass",
        columns: &[
            Column::NAME,
            Column::text("Provisioner", "Who makes the volumes."),
            Column::text("ReclaimPolicy", "What happens to the data after the claim is gone."),
            Column::text("VolumeBindingMode", "When volumes are bound."),
            Column::text("AllowVolumeExpansion", "Whether volumes can grow."),
            Column::AGE,
        ],
        cells: class_cells,
    },
    Printer {
        group: "storage.k8s.io",
        kind: "CSINode",
        columns: &[Column::NAME, Column::integer("Drivers", "Number of drivers on the node."), Column::AGE],
        cells: csi_node_cells,
    },
    Printer {
        group: "storage.k8s.io",
        kind: "VolumeAttachment",
        columns: &[
            Column::NAME,
            Column { format: "name", ..Column::text("Attacher", "Driver that attaches the volume.") },
            Column::text("PV", "Volume that is attached."),
            Column::text("Node", "Node that it is attached to."),
            Column::boolean("Attached", "Whether it is attached now."),
            Column::AGE,
        ],
        cells: attachment_cells,
    },
    Printer {
        group: "storage.k8s.io",
        kind: "CSIDriver",
        columns: &[
            Column::NAME,
            Column::boolean("AttachRequired", "Whether volumes must be attached first."),
            Column::boolean("PodInfoOnMount", "Whether the driver is told about the pod."),
            Column::boolean("StorageCapacity", "Whether the driver reports free space."),
            Column::text("TokenRequests", "Audiences of the tokens that the driver gets."),
            Column::boolean("RequiresRepublish", "Whether mounts are refreshed now and then."),
            Column::text("Modes", "Kinds of volumes that the driver serves."),
            Column::AGE,
        ],
        cells: csi_driver_cells,
    },
    Printer {
        group: "storage.k8s.io",
        kind: "CSIStorageCapacity",
        columns: &[
            Column::NAME,
            Column::text("StorageClassName", "Class that the space is for."),
            Column::text("Capacity", "Space that is free."),
        ],
        cells: csi_capacity_cells,
    },
];

/// Short names of the modes that are given, always in this order.
fn access_modes(object: &Value, path: &str) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let given = list(object, path);
    let short = SHORT.iter().filter(|(mode, _)| given.iter().any(|g| g == mode)).map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",")
}

/// Quantities are never blank: a missing one reads as zero.
fn quantity(object: &Value, path: &str) -> String {
    at(object, path).map_or("0".to_owned(), |value| scalar(Some(value)))
}

/// The class, which very old manifests give as an annotation.
fn class(object: &Value) -> &str {
    let annotations = cell::map(object, "metadata.annotations");
    let annotation = annotations.and_then(|map| map.get("volume.beta.kubernetes.io/storage-class"));
    annotation.and_then(Value::as_str).unwrap_or(text(object, "spec.storageClassName"))
}

fn phase(object: &Value) -> &str {
    if cell::is_deleting(object) { "Terminating" } else { text(object, "status.phase") }
}

fn claim_cells(claim: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(claim, "spec.volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (quantity(claim, "status.capacity.storage"), access_modes(claim, "status.accessModes"))
    };
    vec![
        cell::name(claim),
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(claim).into(),
        text_or(claim, "spec.volumeAttributesClassName", UNSET).into(),
        cell::age(claim, now),
        text_or(claim, "spec.volumeMode", UNSET).into(),
    ]
}

fn volume_cells(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = at(volume, "spec.claimRef").filter(|claim| !claim.is_null());
    let claim = claim.map(|claim| format!("{}/{}", text(claim, "namespace"), text(claim, "name")));
    vec![
        cell::name(volume),
        quantity(volume, "spec.capacity.storage").into(),
        access_modes(volume, "spec.accessModes").into(),
        text(volume, "spec.persistentVolumeReclaimPolicy").into(),
        phase(volume).into(),
        claim.unwrap_or_default().into(),
        class(volume).into(),
        text_or(volume, "spec.volumeAttributesClassName", UNSET).into(),
        text(volume, "status.reason").into(),
        cell::age(volume, now),
        text_or(volume, "spec.volumeMode", UNSET).into(),
    ]
}

fn class_cells(class: &Value, now: Timestamp) -> Vec<Value> {
    const DEFAULT_MARKS: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let annotations = cell::map(class, "metadata.annotations");
    let is_marked = |mark: &&str| annotations.and_then(|map| map.get(*mark)).and_then(Value::as_str) == Some("true");
    let suffix = if DEFAULT_MARKS.iter().any(is_marked) { " (default)" } else { "" };
    vec![
        format!("{}{suffix}", text(class, "metadata.name")).into(),
        text(class, "provisioner").into(),
        text_or(class, "reclaimPolicy", "Delete").into(),
        text_or(class, "volumeBindingMode", "Immediate").into(),
        cell::flag(class, "allowVolumeExpansion").into(),
        cell::age(class, now),
    ]
}

fn csi_node_cells(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(node), list(node, "spec.drivers").len().into(), cell::age(node, now)]
}

fn attachment_cells(attachment: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cell::name(attachment),
        text(attachment, "spec.attacher").into(),
        text(attachment, "spec.source.persistentVolumeName").into(),
        text(attachment, "spec.nodeName").into(),
        cell::flag(attachment, "status.attached").into(),
        cell::age(attachment, now),
    ]
}

fn csi_driver_cells(driver: &Value, now: Timestamp) -> Vec<Value> {
    let joined = |items: Vec<&str>, other: &str| Value::from(cell::or(&items.join(","), other));
    let audiences = list(driver, "spec.tokenRequests").iter().map(|request| text(request, "audience")).collect();
    let modes = list(driver, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    vec![
        cell::name(driver),
        at(driver, "spec.attachRequired").and_then(Value::as_bool).unwrap_or(true).into(),
        cell::flag(driver, "spec.podInfoOnMount").into(),
        cell::flag(driver, "spec.storageCapacity").into(),
        joined(audiences, UNSET),
        cell::flag(driver, "spec.requiresRepublish").into(),
        joined(modes, cell::NONE),
        cell::age(driver, now),
    ]
}

fn csi_capacity_cells(capacity: &Value, _now: Timestamp) -> Vec<Value> {
    let free = at(capacity, "capacity").map_or(UNSET.to_owned(), |free| scalar(Some(free)));
    vec![cell::name(capacity), text(capacity, "storageClassName").into(), free.into()]
}
