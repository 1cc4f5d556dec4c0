//! Storage classes and the CSI kinds.

use super::Rule;
use super::label_selector::check_selector;
use super::rows::{IMMUTABLE, Row, check, check_update as fixed, entries, items, named, one_of, same, set_at};
use crate::kube::field::FieldError;
use crate::kube::{at, names, text};
use serde_json::Value;

const STORAGE: &str = "storage.k8s.io";

pub const RULES: &[Rule] = &[
    Rule {
        group: STORAGE,
        kind: "StorageClass",
        is_namespaced: false,
        create: check_class,
        update: check_class_update,
    },
    Rule { group: STORAGE, kind: "CSIDriver", is_namespaced: false, create: check_driver, update: check_driver_update },
    Rule {
        group: STORAGE,
        kind: "CSINode",
        is_namespaced: false,
        create: check_csi_node,
        update: |new, _| check_csi_node(new),
    },
    Rule {
        group: STORAGE,
        kind: "CSIStorageCapacity",
        is_namespaced: true,
        create: check_capacity,
        update: check_capacity_update,
    },
    Rule {
        group: STORAGE,
        kind: "VolumeAttachment",
        is_namespaced: false,
        create: check_attachment,
        update: check_attachment_update,
    },
];

pub fn check_class(class: &Value) -> Vec<FieldError> {
    const ROWS: &[Row] = &[
        Row::Required("provisioner", ""),
        Row::OneOf("reclaimPolicy", &["Delete", "Retain"]),
        Row::OneOf("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ];
    let mut errors = check(class, "", ROWS);
    let provisioner = text(class, "provisioner").to_lowercase();
    if !provisioner.is_empty() {
        errors.extend(named(&provisioner, "provisioner", names::qualified_name));
    }
    if entries(class, "parameters").any(|(key, _)| key.is_empty()) {
        errors.push(FieldError::invalid("parameters", "", "field can not be empty."));
    }
    errors
}

pub fn check_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let changed =
        ["parameters", "provisioner", "reclaimPolicy"].into_iter().filter(|name| !same(new.get(*name), old.get(*name)));
    let mut errors: Vec<FieldError> =
        changed.map(|name| FieldError::forbidden(name, &format!("updates to {name} are forbidden."))).collect();
    errors.extend(fixed(new, old, "", &[Row::Fixed("volumeBindingMode")]));
    errors
}

const DRIVER_ROWS: &[Row] =
    &[Row::OneOf("fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]), Row::Fixed("volumeLifecycleModes")];

pub fn check_driver(driver: &Value) -> Vec<FieldError> {
    let spec = &driver["spec"];
    let mut errors = check(spec, "spec", DRIVER_ROWS);
    let modes = items(spec, "volumeLifecycleModes").iter();
    errors.extend(modes.filter_map(|mode| one_of(mode, "spec.volumeLifecycleModes", &["Ephemeral", "Persistent"])));
    errors
}

pub fn check_driver_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_driver(new);
    errors.extend(fixed(&new["spec"], &old["spec"], "spec", DRIVER_ROWS));
    if !same(at(new, "spec.attachRequired"), at(old, "spec.attachRequired")) {
        // The reference spells the field differently here.
        let value = at(new, "spec.attachRequired").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("spec.attachedRequired", value, IMMUTABLE));
    }
    errors
}

pub fn check_csi_node(node: &Value) -> Vec<FieldError> {
    let drivers = items(node, "spec.drivers").iter().enumerate();
    let rows = &[Row::Required("name", ""), Row::Required("nodeID", "")];
    drivers.flat_map(|(index, driver)| check(driver, &format!("spec.drivers[{index}]"), rows)).collect()
}

const CAPACITY_ROWS: &[Row] =
    &[Row::Named("storageClassName", names::dns_subdomain), Row::Fixed("storageClassName"), Row::Fixed("nodeTopology")];

pub fn check_capacity(capacity: &Value) -> Vec<FieldError> {
    let mut errors = check(capacity, "", CAPACITY_ROWS);
    errors.extend(check_selector(capacity.get("nodeTopology"), "nodeTopology"));
    errors
}

pub fn check_capacity_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_capacity(new);
    errors.extend(fixed(new, old, "", CAPACITY_ROWS));
    errors
}

pub fn check_attachment(attachment: &Value) -> Vec<FieldError> {
    let mut errors = check(attachment, "", &[Row::Required("spec.attacher", "")]);
    errors.extend(named(text(attachment, "spec.nodeName"), "spec.nodeName", names::dns_subdomain));
    let inline = set_at(attachment, "spec.source.inlineVolumeSpec").is_some();
    let referred = set_at(attachment, "spec.source.persistentVolumeName").is_some();
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline, referred) {
        (false, false) => errors.push(FieldError::required("spec.source", detail)),
        (true, true) => errors.push(FieldError::forbidden("spec.source", detail)),
        (true, false) | (false, true) => {}
    }
    errors
}

pub fn check_attachment_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_attachment(new);
    errors.extend(fixed(new, old, "", &[Row::Fixed("spec")]));
    errors
}
