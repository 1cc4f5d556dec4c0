//! The Deployment: two replicas of which one leads, without any right on the machine that runs them.

use super::{NAME, PROBE_PORT, Place, labels, metadata};
use serde_json::{Value, json};

/// Nobody's, as images without a shell have it.
const USER: u32 = 65_532;

pub(super) fn object(place: &Place) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(NAME, Some(&place.namespace)),
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
            "template": { "metadata": { "labels": labels() }, "spec": pod(place) },
        },
    })
}

fn pod(place: &Place) -> Value {
    let apart = json!({
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
        },
    });
    json!({
        "serviceAccountName": NAME,
        // Time to finish what is under way, and to resign.
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": { "type": "RuntimeDefault" },
        },
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [apart] } },
        "containers": [container(place)],
    })
}

fn container(place: &Place) -> Value {
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "probes" }, "periodSeconds": 10 });
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    json!({
        "name": "operator",
        "image": place.image,
        "command": ["volley", "operator", "--leader-elect", "--log-format=json", format!("--health-probe-bind-address=:{PROBE_PORT}")],
        "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
        "ports": [{ "name": "probes", "containerPort": PROBE_PORT }],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": { "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "memory": "1Gi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        },
    })
}
