//! PodGroups: what is refused in a new one (ADM-50).

use super::queue;
use super::validate::check_topology;
use crate::kube::field::FieldError;
use crate::kube::validate::place::problems;
use serde_json::Value;

/// Everything wrong with a PodGroup that is being created, given all queues.
pub fn group_create(group: &Value, queues: &[Value]) -> Vec<FieldError> {
    problems(&group["spec"], "spec", |spec| {
        check_topology(&spec.field("networkTopology"));
        spec.items("subGroupPolicy").for_each(|policy| check_topology(&policy.field("networkTopology")));
        if !spec.text("queue").is_empty() {
            queue::is_open(spec.text("queue"), queues).err().into_iter().for_each(|error| spec.note(error));
        }
    })
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
