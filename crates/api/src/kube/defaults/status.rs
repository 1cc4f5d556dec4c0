//! Fields of a status that are always there: Go prints times and states that nobody set, and typed clients insist on some
//! of them (spec K-POD-1, K-POD-2).

use super::{inner, items, set};
use serde_json::{Map, Value, json};

/// Group, kind, and the times that each of its conditions has.
const CONDITION_TIMES: &[(&str, &str, &[&str])] = &[
    ("", "Pod", &["lastProbeTime", "lastTransitionTime"]),
    ("", "Node", &["lastHeartbeatTime", "lastTransitionTime"]),
    ("", "PersistentVolumeClaim", &["lastProbeTime", "lastTransitionTime"]),
    ("", "ReplicationController", &["lastTransitionTime"]),
    ("apps", "DaemonSet", &["lastTransitionTime"]),
    ("apps", "Deployment", &["lastTransitionTime", "lastUpdateTime"]),
    ("apps", "ReplicaSet", &["lastTransitionTime"]),
    ("apps", "StatefulSet", &["lastTransitionTime"]),
    ("batch", "Job", &["lastProbeTime", "lastTransitionTime"]),
];

/// Adds what is missing; a status that is not there stays so.
pub fn complete(group: &str, kind: &str, object: &mut Value) {
    let Some(status) = inner(object, "status") else { return };
    if let Some((_, _, times)) = CONDITION_TIMES.iter().find(|row| row.0 == group && row.1 == kind) {
        for condition in items(status, "conditions") {
            times.iter().for_each(|time| set(condition, time, Value::Null));
        }
    }
    if (group, kind) != ("", "Pod") {
        return;
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in items(status, list) {
            set(container, "state", Map::new());
            set(container, "lastState", Map::new());
        }
    }
    // The one address and the list of addresses say the same.
    if let Some(address) = status.get("podIP").and_then(Value::as_str).map(str::to_owned).filter(|ip| !ip.is_empty()) {
        set(status, "podIPs", json!([{"ip": address}]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-POD-1 K-POD-2
    #[test]
    fn a_pod_status_has_the_fields_that_typed_clients_need() {
        let mut pod = json!({"status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "state": {"running": {}}}]}});
        complete("", "Pod", &mut pod);
        let condition = json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null});
        assert_eq!(pod["status"]["conditions"][0], condition);
        assert_eq!(
            pod["status"]["containerStatuses"][0],
            json!({"name": "c", "state": {"running": {}}, "lastState": {}})
        );
        assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
        let filled = pod.clone();
        complete("", "Pod", &mut pod);
        assert_eq!(pod, filled);
    }
}
