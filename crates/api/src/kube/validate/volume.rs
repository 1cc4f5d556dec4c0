//! Persistent volumes and the claims on them (K-VOL-3).

use super::Rule;
use super::claim::claim_spec;
use super::path::Path;
use super::read::quantity;
use super::rows::{Row, check, entries, fixed_field, is_empty, items, join, named, one_of, put, same, set_at};
use crate::kube::field::FieldError;
use crate::kube::quantity::Quantity;
use crate::kube::{at, names, text};
use serde_json::Value;

pub const RULES: &[Rule] = &[
    Rule {
        group: "",
        kind: "PersistentVolume",
        is_namespaced: false,
        create: check_volume,
        update: check_volume_update,
    },
    Rule {
        group: "",
        kind: "PersistentVolumeClaim",
        is_namespaced: true,
        create: check_claim,
        update: check_claim_update,
    },
];

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// The sources that a volume may have; exactly one is set.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Fields that a source of a kind we know must have.
const SOURCE_ROWS: &[(&str, &[Row])] = &[
    ("hostPath", &[Row::Required("path", "")]),
    ("nfs", &[Row::Required("server", ""), Row::Required("path", "")]),
    ("local", &[Row::Required("path", "")]),
    ("csi", &[Row::Required("driver", ""), Row::Required("volumeHandle", "")]),
];

/// `Invalid value: "0": must be greater than zero`, as sizes are judged.
fn check_positive(value: &Value, path: &str) -> Option<FieldError> {
    let is_positive = quantity(value).is_none_or(|size| size > Quantity::ZERO);
    (!is_positive).then(|| FieldError::invalid(path, value.clone(), "must be greater than zero"))
}

fn check_access_modes(spec: &Value) -> Vec<FieldError> {
    let (place, modes) = ("spec.accessModes", items(spec, "accessModes"));
    if modes.is_empty() {
        return vec![FieldError::required(place, "")];
    }
    let mut errors: Vec<FieldError> = modes.iter().filter_map(|mode| one_of(mode, place, ACCESS_MODES)).collect();
    let is_single = |mode: &&Value| **mode == "ReadWriteOncePod";
    let is_shared =
        |mode: &Value| *mode != "ReadWriteOncePod" && mode.as_str().is_some_and(|m| ACCESS_MODES.contains(&m));
    if modes.iter().any(|mode| is_single(&mode)) && modes.iter().any(is_shared) {
        errors.push(FieldError::forbidden(place, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

pub fn check_volume(volume: &Value) -> Vec<FieldError> {
    const ROWS: &[Row] = &[
        Row::Required("capacity", ""),
        Row::OneOf("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
        Row::OneOf("volumeMode", VOLUME_MODES),
    ];
    let spec = &volume["spec"];
    let mut errors = check(spec, "spec", ROWS);
    errors.extend(check_access_modes(spec));
    let sizes = entries(spec, "capacity").count();
    if sizes != 1 || set_at(spec, "capacity.storage").is_none() {
        let present = spec.get("capacity").cloned().unwrap_or_default();
        errors.push(FieldError::not_supported("spec.capacity", present, &["storage"]));
    }
    for (name, size) in entries(spec, "capacity") {
        errors.extend(check_positive(size, &format!("spec.capacity[{name}]")));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(named(class, "spec.storageClassName", names::dns_subdomain));
    }
    errors.extend(check_sources(spec));
    errors
}

fn check_sources(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut present = SOURCES.iter().filter(|name| set_at(spec, name).is_some());
    let Some(first) = present.next() else { return vec![FieldError::required("spec", "must specify a volume type")] };
    for name in present {
        errors.push(FieldError::forbidden(join("spec", name), "may not specify more than 1 volume type"));
    }
    for (_, rows) in SOURCE_ROWS.iter().filter(|(name, _)| name == first) {
        errors.extend(check(&spec[first], &join("spec", first), rows));
    }
    if *first == "local" && set_at(spec, "nodeAffinity.required").is_none() {
        let detail = "Local volume requires node affinity";
        errors.push(FieldError::required("spec.nodeAffinity", detail));
    }
    let path = text(&spec[first], "path");
    let place = format!("spec.{first}.path");
    if matches!(*first, "hostPath" | "local") && path.split('/').any(|step| step == "..") {
        errors.push(FieldError::invalid(place, path, "must not contain '..'"));
    } else if *first == "nfs" && !path.starts_with('/') {
        errors.push(FieldError::invalid(place, path, "must be an absolute path"));
    }
    let is_root = *first == "hostPath" && !path.is_empty() && path.trim_matches('/').is_empty();
    if is_root && text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    errors
}

pub fn check_volume_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_volume(new);
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    if SOURCES.iter().any(|name| !same(new_spec.get(*name), old_spec.get(*name))) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    // The reference reports these two without `spec.` in front.
    errors.extend(fixed_field(new_spec, old_spec, "", "volumeMode"));
    let affinity = |spec: &Value| spec.get("nodeAffinity").cloned().unwrap_or_default();
    if !affinity(old_spec).is_null() && !same(Some(&affinity(new_spec)), Some(&affinity(old_spec))) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", affinity(new_spec), detail));
    }
    errors
}

pub fn check_claim(claim: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    claim_spec(&mut errors, &claim["spec"], &Path::new("spec"));
    errors
}

pub fn check_claim_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_claim(new);
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    // What may be set once, and what a bound claim may change, is not compared.
    let mut allowed = old_spec.clone();
    let mut allow = |pointer: &str| put(&mut allowed, pointer, new_spec.pointer(pointer).cloned().unwrap_or_default());
    for name in ["volumeName", "storageClassName"] {
        if is_empty(old_spec.get(name)) {
            allow(&format!("/{name}"));
        }
    }
    if text(new, "status.phase") == "Bound" {
        allow("/volumeAttributesClassName");
        allow("/resources/requests/storage");
    }
    if !same(Some(new_spec), Some(&allowed)) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
    let size = |claim: &Value, path: &str| at(claim, path).and_then(quantity).unwrap_or_default();
    let (now, before) = (size(new, "spec.resources.requests.storage"), size(old, "spec.resources.requests.storage"));
    if now < before && now <= size(old, "status.capacity.storage") {
        let path = "spec.resources.requests.storage";
        errors.push(FieldError::forbidden(path, "field can not be less than status.capacity"));
    }
    errors.extend(fixed_field(new_spec, old_spec, "", "volumeMode"));
    errors
}
