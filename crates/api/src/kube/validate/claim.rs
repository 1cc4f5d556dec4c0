//! The spec of a volume claim, wherever it stands: in a claim, or in the template of an ephemeral volume.

use super::metadata::{annotations, label_selector, labels};
use super::place::{NOT_POSITIVE, Place, quantity};
use crate::kube::names;
use crate::kube::quantity::Quantity;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The template of a claim inside a pod: metadata may hold labels and annotations only.
pub(super) fn claim_template(template: &Place) {
    let meta = template.field("metadata");
    annotations(&meta.field("annotations"));
    labels(&meta.field("labels"));
    for (key, value) in meta.entries("") {
        let is_given = !matches!(key, "labels" | "annotations") && !value.value.is_null();
        meta.forbidden_if(is_given, key, "cannot be set");
    }
    claim_spec(&template.field("spec"));
}

/// Everything wrong with the spec of a claim.
pub(super) fn claim_spec(spec: &Place) {
    spec.needs_because("accessModes", "at least 1 access mode is required");
    access_modes(spec);
    label_selector(&spec.field("selector"));
    match quantity(spec.get("resources.requests.storage")) {
        None => spec.required("resources[storage]", ""),
        Some(size) => {
            spec.invalid_if(size <= Quantity::ZERO, "resources[storage]", size.to_string(), NOT_POSITIVE);
        }
    }
    for key in ["storageClassName", "volumeAttributesClassName"] {
        spec.named_unless_empty(key, names::dns_subdomain);
    }
    volume_mode(spec);
    for source in ["dataSource", "dataSourceRef"].iter().filter_map(|key| spec.given(key)) {
        source.needs(&["name", "kind"]);
        let (group, kind) = (source.text("apiGroup"), source.text("kind"));
        let is_other = group.is_empty() && kind != "PersistentVolumeClaim";
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        source.invalid_if(is_other, "", kind, detail);
        source.named_unless_empty("apiGroup", names::dns_subdomain);
        source.named_unless_empty("namespace", names::dns_label);
    }
}

pub(super) fn volume_mode(spec: &Place) {
    spec.one_of_if_given("volumeMode", &["Block", "Filesystem"]);
}

/// The modes of a claim or a volume, where there are any.
pub(super) fn access_modes(spec: &Place) {
    const KEY: &str = "accessModes";
    let (known, unknown): (Vec<&str>, Vec<&str>) = spec.texts(KEY).partition(|mode| ACCESS_MODES.contains(mode));
    unknown.iter().for_each(|mode| spec.not_supported(KEY, *mode, ACCESS_MODES));
    let is_exclusive = known.contains(&"ReadWriteOncePod");
    let is_torn = is_exclusive && known.iter().any(|mode| *mode != "ReadWriteOncePod");
    spec.forbidden_if(is_torn, KEY, "may not use ReadWriteOncePod with other access modes");
}
