//! Whether a node suits a pod at all, however much room it has: readiness, cordons, taints, node selectors and required
//! node affinity; and the ports of the machine that a pod asks for. The scheduler's `placement` asks.

use serde_json::{Value, json};
use volley_api::kube::{at, text};

/// Why the node takes no pod, or not this one, however much room it has.
pub fn unsuitable(node: &Value, pod: &Value) -> Option<&'static str> {
    let is_cordoned = at(node, "spec.unschedulable") == Some(&Value::Bool(true));
    if !is_ready(node) {
        Some("node(s) were not ready")
    } else if is_cordoned && !tolerates(pod, &cordon()) {
        Some("node(s) were unschedulable")
    } else if taints(node).any(|taint| !tolerates(pod, taint)) {
        Some("node(s) had untolerated taint(s)")
    } else if !is_wanted(node, pod) {
        Some("node(s) didn't match Pod's node affinity/selector")
    } else {
        None
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = at(node, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True")
}

fn cordon() -> Value {
    json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
}

/// The taints that keep new pods away; `PreferNoSchedule` is only a wish.
fn taints(node: &Value) -> impl Iterator<Item = &Value> {
    let taints = at(node, "spec.taints").and_then(Value::as_array).into_iter().flatten();
    taints.filter(|taint| matches!(text(taint, "effect"), "NoSchedule" | "NoExecute"))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let tolerations = at(pod, "spec.tolerations").and_then(Value::as_array).into_iter().flatten();
    tolerations.into_iter().any(|toleration| {
        let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
        let has_key = key == text(taint, "key") || (key.is_empty() && text(toleration, "operator") == "Exists");
        let has_effect = effect.is_empty() || effect == text(taint, "effect");
        let has_value = text(toleration, "operator") == "Exists" || text(toleration, "value") == text(taint, "value");
        has_key && has_effect && has_value
    })
}

fn is_wanted(node: &Value, pod: &Value) -> bool {
    let label = |key: &str| node["metadata"]["labels"][key].as_str();
    let selector = at(pod, "spec.nodeSelector").and_then(Value::as_object).into_iter().flatten();
    if !selector.into_iter().all(|(key, value)| label(key) == value.as_str()) {
        return false;
    }
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let Some(terms) = at(pod, path).and_then(Value::as_array) else {
        return true;
    };
    let list = |term: &Value, key: &str| term.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    terms.iter().any(|term| {
        let (labels, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
        let name = Some(text(node, "metadata.name"));
        let is_empty = labels.is_empty() && fields.is_empty();
        !is_empty
            && labels.iter().all(|wish| holds(wish, label(text(wish, "key"))))
            && fields.iter().all(|wish| holds(wish, name.filter(|_| text(wish, "key") == "metadata.name")))
    })
}

fn holds(wish: &Value, found: Option<&str>) -> bool {
    let values: Vec<&str> =
        wish.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(|text| number(text));
    let is_listed = found.is_some_and(|found| values.contains(&found));
    match text(wish, "operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => found.and_then(number).zip(bound).is_some_and(|(found, bound)| found > bound),
        "Lt" => found.and_then(number).zip(bound).is_some_and(|(found, bound)| found < bound),
        // Validation refuses other operators.
        _ => false,
    }
}

/// A port of the machine that a container asks for.
pub struct HostPort<'a> {
    protocol: &'a str,
    address: &'a str,
    pub port: u64,
}

impl HostPort<'_> {
    pub fn clashes_with(&self, other: &HostPort) -> bool {
        let is_any = |address: &str| matches!(address, "" | "0.0.0.0");
        let is_same_address = self.address == other.address || is_any(self.address) || is_any(other.address);
        self.port == other.port && self.protocol == other.protocol && is_same_address
    }
}

pub fn host_ports(pod: &Value) -> Vec<HostPort<'_>> {
    let list = |object, path| at(object, path).and_then(Value::as_array).into_iter().flatten();
    let sidecars = list(pod, "spec.initContainers").filter(|init| text(init, "restartPolicy") == "Always");
    let ports = list(pod, "spec.containers").chain(sidecars).flat_map(|container| list(container, "ports"));
    let host_port = |port| {
        let number = at(port, "hostPort").and_then(Value::as_u64).filter(|number| *number > 0)?;
        Some(HostPort { protocol: text(port, "protocol"), address: text(port, "hostIP"), port: number })
    };
    ports.filter_map(host_port).collect()
}
