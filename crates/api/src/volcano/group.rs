//! PodGroups: what is refused in a new one (ADM-50).

use super::queue;
use super::validate::check_topology;
use crate::kube::field::FieldError;
use crate::kube::validate::path::Path;
use crate::kube::validate::read::list;
use serde_json::Value;

/// Everything wrong with a PodGroup that is being created, given all queues.
pub fn group_create(group: &Value, queues: &[Value]) -> Vec<FieldError> {
    let spec = &group["spec"];
    let path = Path::new("spec");
    let mut errors = Vec::new();
    check_topology(&mut errors, spec.get("networkTopology"), &path.field("networkTopology"));
    let policies = path.field("subGroupPolicy");
    for (index, policy) in list(spec, "subGroupPolicy").iter().enumerate() {
        let path = policies.index(index);
        check_topology(&mut errors, policy.get("networkTopology"), &path.field("networkTopology"));
    }
    if let Some(name) = spec["queue"].as_str().filter(|name| !name.is_empty()) {
        errors.extend(queue::is_open(name, queues).err());
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // ADM-50
    #[test]
    fn a_group_needs_an_open_queue_and_one_tier() {
        let queues = [json!({"metadata": {"name": "q"}, "status": {"state": "Open"}})];
        assert_eq!(group_create(&json!({"spec": {"queue": "q"}}), &queues), []);
        assert_eq!(group_create(&json!({"spec": {}}), &queues), []);
        assert_eq!(group_create(&json!({"spec": {"queue": "other"}}), &queues).len(), 1);
        let both = json!({"highestTierAllowed": 1, "highestTierName": "rack"});
        assert_eq!(group_create(&json!({"spec": {"networkTopology": both}}), &queues).len(), 1);
    }
}
