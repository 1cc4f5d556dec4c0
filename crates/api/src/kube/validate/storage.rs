//! Storage classes. The CSI kinds are stored for others and have only their metadata checked.

use super::Rule;
use super::compare::same;
use super::place::Place;
use crate::kube::names;
use serde_json::Value;

pub(super) const RULES: &[Rule] = &[Rule::of("storage.k8s.io", "StorageClass", |_| {})
    .cluster_wide()
    .on_create(class)
    .on_update(class_update)
    .fixed(&["volumeBindingMode"])];

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
