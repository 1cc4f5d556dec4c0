//! Rows of claims, volumes and storage classes.

use super::Cell::{self, Flag, Length, Made, Text, TextOr};
use super::cell::{self, NONE, UNSET, list, scalar};
use super::{Column, Printer};
use crate::kube::{at, text};
use serde_json::Value;

const fn capacity(cell: Cell) -> Column {
    Column::text("Capacity", "Size of the volume.", cell)
}

const fn access_modes(cell: Cell) -> Column {
    Column::text("Access Modes", "How the volume can be mounted.", cell)
}

const CLASS: Column = Column::text("StorageClass", "Class that the volume comes from.", Made(class));
const ATTRIBUTES_CLASS: Column = Column::text(
    "VolumeAttributesClass",
    "Class of changeable attributes.",
    TextOr("spec.volumeAttributesClassName", UNSET),
);
const MODE: Column =
    Column::text("VolumeMode", "File system or raw block device.", TextOr("spec.volumeMode", UNSET)).wide();

const STORAGE: &str = "storage.k8s.io";
const RECLAIM: &str = "What happens to the data after the claim is gone.";

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of("", "PersistentVolumeClaim").columns(&[
        Column::NAME,
        Column::text("Status", "Whether a volume is bound.", Made(phase)),
        Column::text("Volume", "Volume that is bound.", Text("spec.volumeName")),
        capacity(Made(|claim| if_bound(claim, quantity(claim, "status.capacity.storage")))),
        access_modes(Made(|claim| if_bound(claim, short_modes(claim, "status.accessModes")))),
        CLASS,
        ATTRIBUTES_CLASS,
        Column::AGE,
        MODE,
    ]),
    Printer::of("", "PersistentVolume").columns(&[
        Column::NAME,
        capacity(Made(|volume| quantity(volume, "spec.capacity.storage").into())),
        access_modes(Made(|volume| short_modes(volume, "spec.accessModes").into())),
        Column::text("Reclaim Policy", RECLAIM, Text("spec.persistentVolumeReclaimPolicy")),
        Column::text("Status", "Whether a claim is bound.", Made(phase)),
        Column::text("Claim", "Claim that is bound.", Made(claim_of)),
        CLASS,
        ATTRIBUTES_CLASS,
        Column::text("Reason", "Why the volume is in this state.", Text("status.reason")),
        Column::AGE,
        MODE,
    ]),
    Printer::of(STORAGE, "StorageClass").columns(&[
        Column { cell: Made(class_name), ..Column::NAME },
        Column::text("Provisioner", "Who makes the volumes.", Text("provisioner")),
        Column::text("ReclaimPolicy", RECLAIM, TextOr("reclaimPolicy", "Delete")),
        Column::text("VolumeBindingMode", "When volumes are bound.", TextOr("volumeBindingMode", "Immediate")),
        Column::text("AllowVolumeExpansion", "Whether volumes can grow.", Flag("allowVolumeExpansion")),
        Column::AGE,
    ]),
    Printer::of(STORAGE, "CSINode").columns(&[
        Column::NAME,
        Column::integer("Drivers", "Number of drivers on the node.", Length("spec.drivers")),
        Column::AGE,
    ]),
    Printer::of(STORAGE, "VolumeAttachment").columns(&[
        Column::NAME,
        Column::text("Attacher", "Driver that attaches the volume.", Text("spec.attacher")).naming(),
        Column::text("PV", "Volume that is attached.", Text("spec.source.persistentVolumeName")),
        Column::text("Node", "Node that it is attached to.", Text("spec.nodeName")),
        Column::boolean("Attached", "Whether it is attached now.", Flag("status.attached")),
        Column::AGE,
    ]),
    Printer::of(STORAGE, "CSIDriver").columns(&[
        Column::NAME,
        Column::boolean("AttachRequired", "Whether volumes must be attached first.", Made(attach_required)),
        Column::boolean("PodInfoOnMount", "Whether the driver is told about the pod.", Flag("spec.podInfoOnMount")),
        Column::boolean("StorageCapacity", "Whether the driver reports free space.", Flag("spec.storageCapacity")),
        Column::text("TokenRequests", "Audiences of the tokens that the driver gets.", Made(token_requests)),
        Column::boolean(
            "RequiresRepublish",
            "Whether mounts are refreshed now and then.",
            Flag("spec.requiresRepublish"),
        ),
        Column::text("Modes", "Kinds of volumes that the driver serves.", Made(lifecycle_modes)),
        Column::AGE,
    ]),
    Printer::of(STORAGE, "CSIStorageCapacity").columns(&[
        Column::NAME,
        Column::text("StorageClassName", "Class that the space is for.", Text("storageClassName")),
        Column::text("Capacity", "Space that is free.", Made(free_space)),
    ]),
];

/// Short names of the modes that are given, always in this order.
fn short_modes(object: &Value, path: &str) -> String {
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

/// What is known of a claim's volume, once it has one.
fn if_bound(claim: &Value, known: String) -> Value {
    if text(claim, "spec.volumeName").is_empty() { "".into() } else { known.into() }
}

/// The class, which very old manifests give as an annotation.
fn class(object: &Value) -> Value {
    let annotations = cell::map(object, "metadata.annotations");
    let annotation = annotations.and_then(|map| map.get("volume.beta.kubernetes.io/storage-class"));
    annotation.and_then(Value::as_str).unwrap_or(text(object, "spec.storageClassName")).into()
}

fn phase(object: &Value) -> Value {
    if cell::is_deleting(object) { "Terminating".into() } else { text(object, "status.phase").into() }
}

fn claim_of(volume: &Value) -> Value {
    match at(volume, "spec.claimRef").filter(|claim| !claim.is_null()) {
        Some(claim) => format!("{}/{}", text(claim, "namespace"), text(claim, "name")).into(),
        None => "".into(),
    }
}

fn class_name(class: &Value) -> Value {
    const DEFAULT_MARKS: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let annotations = cell::map(class, "metadata.annotations");
    let is_marked = |mark: &&str| annotations.and_then(|map| map.get(*mark)).and_then(Value::as_str) == Some("true");
    let suffix = if DEFAULT_MARKS.iter().any(is_marked) { " (default)" } else { "" };
    format!("{}{suffix}", text(class, "metadata.name")).into()
}

fn attach_required(driver: &Value) -> Value {
    at(driver, "spec.attachRequired").and_then(Value::as_bool).unwrap_or(true).into()
}

fn token_requests(driver: &Value) -> Value {
    cell::joined(list(driver, "spec.tokenRequests").iter().map(|request| text(request, "audience")), UNSET)
}

fn lifecycle_modes(driver: &Value) -> Value {
    cell::joined(list(driver, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str), NONE)
}

fn free_space(capacity: &Value) -> Value {
    at(capacity, "capacity").map_or(UNSET.to_owned(), |free| scalar(Some(free))).into()
}
