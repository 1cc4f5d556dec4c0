//! Persistent volumes and the claims on them (K-VOL-3).

use super::Rule;
use super::claim::{access_modes, claim_spec, volume_mode};
use super::compare::{is_empty, same, with_changes};
use super::place::{IMMUTABLE, NOT_POSITIVE, Place, quantity};
use crate::kube::quantity::Quantity;
use crate::kube::{at, names};
use serde_json::Value;

pub(super) const RULES: &[Rule] = &[
    Rule::of("", "PersistentVolume", volume).cluster_wide().on_update(volume_update),
    Rule::of("", "PersistentVolumeClaim", |claim| claim_spec(&claim.field("spec"))).on_update(claim_update),
];

/// The sources that a volume may have; exactly one is set.
const SOURCES: &[&str] = &[
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
];

fn volume(volume: &Place) {
    let spec = volume.field("spec");
    spec.needs(&["capacity", "accessModes"]);
    spec.one_of_if_given("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]);
    volume_mode(&spec);
    access_modes(&spec);
    if spec.entries("capacity").count() != 1 || !spec.has("capacity.storage") {
        spec.not_supported("capacity", spec.get("capacity").clone(), &["storage"]);
    }
    for (_, size) in spec.entries("capacity") {
        let is_positive = quantity(size.value).is_none_or(|size| size > Quantity::ZERO);
        size.wrong_if(!is_positive, "", NOT_POSITIVE);
    }
    spec.named_unless_empty("storageClassName", names::dns_subdomain);
    sources(&spec);
}

fn sources(spec: &Place) {
    let mut given = SOURCES.iter().filter(|key| spec.has(key));
    let Some(kind) = given.next() else { return spec.required("", "must specify a volume type") };
    given.for_each(|key| spec.forbidden(key, "may not specify more than 1 volume type"));
    let source = spec.field(kind);
    let path = source.text("path");
    match *kind {
        "hostPath" => {
            source.needs(&["path"]);
            source.no_backsteps("path");
            let is_root = !path.is_empty() && path.trim_matches('/').is_empty();
            let policy = "persistentVolumeReclaimPolicy";
            let is_wiped = is_root && spec.text(policy) == "Recycle";
            spec.forbidden_if(is_wiped, policy, "may not be 'recycle' for a hostPath mount of '/'");
        }
        "local" => {
            source.needs(&["path"]);
            source.no_backsteps("path");
            if !spec.has("nodeAffinity.required") {
                spec.required("nodeAffinity", "Local volume requires node affinity");
            }
        }
        "nfs" => {
            source.needs(&["server", "path"]);
            source.invalid_if(!path.starts_with('/'), "path", path, "must be an absolute path");
        }
        "csi" => source.needs(&["driver", "volumeHandle"]),
        _ => {}
    }
}

fn volume_update(new: &Place, old: &Value) {
    let (spec, old) = (new.field("spec"), &old["spec"]);
    let is_moved = SOURCES.iter().any(|key| !same(spec.get(key), &old[*key]));
    let detail = "spec.persistentvolumesource is immutable after creation";
    spec.forbidden_if(is_moved, "persistentvolumesource", detail);
    fixed_mode(new, old);
    let (affinity, before) = (spec.get("nodeAffinity"), &old["nodeAffinity"]);
    let is_changed = !before.is_null() && !same(affinity, before);
    let detail = "field is immutable, except for updating from beta label to GA";
    // The reference reports this one and the mode without `spec.` in front.
    new.invalid_if(is_changed, "nodeAffinity", affinity.clone(), detail);
}

fn fixed_mode(new: &Place, old_spec: &Value) {
    let mode = new.get("spec.volumeMode");
    new.invalid_if(!same(mode, &old_spec["volumeMode"]), "volumeMode", mode.clone(), IMMUTABLE);
}

fn claim_update(new: &Place, old: &Value) {
    const STORAGE: &str = "resources.requests.storage";
    let (spec, old_spec) = (new.field("spec"), &old["spec"]);
    // What may be set once, and what a bound claim may change, is not compared.
    let mut allowed: Vec<&str> = Vec::new();
    for (key, pointer) in [("volumeName", "/volumeName"), ("storageClassName", "/storageClassName")] {
        allowed.extend(is_empty(&old_spec[key]).then_some(pointer));
    }
    if new.text("status.phase") == "Bound" {
        allowed.extend(["/volumeAttributesClassName", "/resources/requests/storage"]);
    }
    let is_changed = !same(spec.value, &with_changes(old_spec, spec.value, &allowed));
    let detail =
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    spec.forbidden_if(is_changed, "", detail);
    let size = |object: &Value, path: &str| at(object, path).and_then(quantity).unwrap_or_default();
    let (now, before) = (size(spec.value, STORAGE), size(old_spec, STORAGE));
    let is_shrunk = now < before && now <= size(old, "status.capacity.storage");
    spec.forbidden_if(is_shrunk, STORAGE, "field can not be less than status.capacity");
    fixed_mode(new, old_spec);
}
