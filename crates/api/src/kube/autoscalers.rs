//! HorizontalPodAutoscalers in their two versions: v2 is stored, v1 is another spelling of its CPU target.
//!
//! Metrics other than CPU utilisation have no place in v1: they do not show there, and a write through v1 drops them.

use serde_json::{Value, json};

/// An `autoscaling/v1` object as v2 spells it.
pub fn v1_to_v2(autoscaler: &Value) -> Value {
    let mut v2 = autoscaler.clone();
    v2["apiVersion"] = "autoscaling/v2".into();
    if let Some(percent) = take(&mut v2, "spec", "targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        v2["spec"]["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    if let Some(percent) = take(&mut v2, "status", "currentCPUUtilizationPercentage") {
        let current = json!({"averageUtilization": percent, "averageValue": "0"});
        v2["status"]["currentMetrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
    }
    v2
}

/// A stored object as `autoscaling/v1` spells it.
pub fn v2_to_v1(autoscaler: &Value) -> Value {
    let mut v1 = autoscaler.clone();
    v1["apiVersion"] = "autoscaling/v1".into();
    let metrics = take(&mut v1, "spec", "metrics");
    if let Some(percent) = metrics.as_ref().and_then(|metrics| cpu(metrics, "target")) {
        v1["spec"]["targetCPUUtilizationPercentage"] = percent;
    }
    take(&mut v1, "spec", "behavior");
    let metrics = take(&mut v1, "status", "currentMetrics");
    if let Some(percent) = metrics.as_ref().and_then(|metrics| cpu(metrics, "current")) {
        v1["status"]["currentCPUUtilizationPercentage"] = percent;
    }
    take(&mut v1, "status", "conditions");
    v1
}

fn take(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

/// The CPU utilisation among metrics; `side` is `target` or `current`.
fn cpu(metrics: &Value, side: &str) -> Option<Value> {
    let is_cpu = |metric: &&Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let metric = metrics.as_array()?.iter().find(is_cpu)?;
    metric["resource"][side].get("averageUtilization").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_target_travels_between_the_versions() {
        let v1 = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}, "status": {"desiredReplicas": 0}});
        let v2 = v1_to_v2(&v1);
        let metric = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}});
        assert_eq!(v2["apiVersion"], "autoscaling/v2");
        assert_eq!(v2["spec"], json!({"maxReplicas": 3, "metrics": [metric]}));
        assert_eq!(v2_to_v1(&v2), v1);
    }

    #[test]
    fn an_object_without_a_target_has_none_in_either_version() {
        let v1 = json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3}});
        assert_eq!(v2_to_v1(&v1_to_v2(&v1)), v1);
    }
}
