//! Storage classes and the CSI kinds.

use super::Rule;
use super::compare::same;
use super::metadata::label_selector;
use super::place::{IMMUTABLE, Place};
use crate::kube::names;
use serde_json::Value;

const STORAGE: &str = "storage.k8s.io";

pub(super) const RULES: &[Rule] = &[
    Rule::of(STORAGE, "StorageClass", |_| {})
        .cluster_wide()
        .on_create(class)
        .on_update(class_update)
        .fixed(&["volumeBindingMode"]),
    Rule::of(STORAGE, "CSIDriver", driver)
        .cluster_wide()
        .on_update(driver_update)
        .fixed(&["spec.volumeLifecycleModes"]),
    Rule::of(STORAGE, "CSINode", |node| {
        node.items("spec.drivers").for_each(|driver| driver.needs(&["name", "nodeID"]))
    })
    .cluster_wide(),
    Rule::of(STORAGE, "CSIStorageCapacity", |capacity| {
        capacity.named_if_given("storageClassName", names::dns_subdomain);
        label_selector(&capacity.field("nodeTopology"));
    })
    .fixed(&["storageClassName", "nodeTopology"]),
    Rule::of(STORAGE, "VolumeAttachment", attachment).cluster_wide().fixed(&["spec"]),
];

fn class(class: &Place) {
    class.needs(&["provisioner"]);
    class.one_of_if_given("reclaimPolicy", &["Delete", "Retain"]);
    class.one_of_if_given("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]);
    let provisioner = class.text("provisioner").to_lowercase();
    if !provisioner.is_empty() {
        class.complain("provisioner", provisioner.as_str(), names::qualified_name(&provisioner));
    }
    let has_nameless = class.entries("parameters").any(|(key, _)| key.is_empty());
    class.invalid_if(has_nameless, "parameters", "", "field can not be empty.");
}

fn class_update(new: &Place, old: &Value) {
    for key in ["parameters", "provisioner", "reclaimPolicy"] {
        new.forbidden_if(!same(new.get(key), &old[key]), key, &format!("updates to {key} are forbidden."));
    }
}

fn driver(driver: &Place) {
    driver.one_of_if_given("spec.fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]);
    for mode in driver.list("spec.volumeLifecycleModes") {
        // The reference leaves the index out of the path.
        driver.stand_in("spec.volumeLifecycleModes", mode).one_of("", &["Ephemeral", "Persistent"]);
    }
}

fn driver_update(new: &Place, old: &Value) {
    let attach = new.get("spec.attachRequired");
    let is_changed = !same(attach, &old["spec"]["attachRequired"]);
    // The reference spells the field differently here.
    new.invalid_if(is_changed, "spec.attachedRequired", attach.clone(), IMMUTABLE);
}

fn attachment(attachment: &Place) {
    attachment.needs(&["spec.attacher"]);
    attachment.named("spec.nodeName", names::dns_subdomain);
    let source = attachment.field("spec.source");
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.has("inlineVolumeSpec"), source.has("persistentVolumeName")) {
        (false, false) => source.required("", detail),
        (true, true) => source.forbidden("", detail),
        (true, false) | (false, true) => {}
    }
}
