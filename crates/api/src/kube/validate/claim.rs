//! The spec of a volume claim, wherever it stands: in a claim, or in the template of an ephemeral volume.

use super::metadata::{annotations, label_selector, labels};
use super::path::Path;
use super::read::{NOT_POSITIVE, complain, given, list, optional_one_of, quantity, required, string};
use crate::kube::field::FieldError;
use crate::kube::names;
use serde_json::Value;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The template of a claim inside a pod: metadata may hold labels and annotations only.
pub fn claim_template(errors: &mut Vec<FieldError>, template: &Value, path: &Path) {
    let meta = path.field("metadata");
    annotations(errors, &template["metadata"], &meta);
    labels(errors, &template["metadata"], "labels", &meta);
    for (key, value) in template["metadata"].as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "labels" | "annotations") && !value.is_null() {
            errors.push(FieldError::forbidden(meta.field(key), "cannot be set"));
        }
    }
    claim_spec(errors, &template["spec"], &path.field("spec"));
}

/// Everything wrong with the spec of a claim.
pub fn claim_spec(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    access_modes(errors, list(spec, "accessModes"), &path.field("accessModes"));
    if let Some(selector) = given(spec, "selector") {
        label_selector(errors, selector, &path.field("selector"));
    }
    let resources = path.field("resources");
    let storage = resources.key("storage");
    match spec["resources"]["requests"].get("storage").and_then(quantity) {
        None => errors.push(FieldError::required(storage, "")),
        Some(size) if size.is_zero() || size.is_negative() => {
            errors.push(FieldError::invalid(storage, size.to_string(), NOT_POSITIVE));
        }
        Some(_) => {}
    }
    for key in ["storageClassName", "volumeAttributesClassName"] {
        let class = string(spec, key);
        if !class.is_empty() {
            complain(errors, &path.field(key), class, names::dns_subdomain(class));
        }
    }
    optional_one_of(errors, spec, path, "volumeMode", &["Block", "Filesystem"]);
    for key in ["dataSource", "dataSourceRef"] {
        if let Some(source) = given(spec, key) {
            data_source(errors, source, &path.field(key));
        }
    }
}

fn access_modes(errors: &mut Vec<FieldError>, modes: &[Value], path: &Path) {
    if modes.is_empty() {
        errors.push(FieldError::required(path, "at least 1 access mode is required"));
    }
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(path, *mode, ACCESS_MODES));
    }
    let is_exclusive = |mode: &&str| *mode == "ReadWriteOncePod";
    if modes.iter().any(is_exclusive) && modes.iter().any(|mode| !is_exclusive(mode) && ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

fn data_source(errors: &mut Vec<FieldError>, source: &Value, path: &Path) {
    required(errors, source, path, &["name", "kind"]);
    let (group, kind) = (string(source, "apiGroup"), string(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(path, kind, detail));
    }
    if !group.is_empty() {
        complain(errors, &path.field("apiGroup"), group, names::dns_subdomain(group));
    }
    let namespace = string(source, "namespace");
    if !namespace.is_empty() {
        complain(errors, &path.field("namespace"), namespace, names::dns_label(namespace));
    }
}
