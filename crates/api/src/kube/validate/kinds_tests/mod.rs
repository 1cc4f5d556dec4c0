//! Broken objects of each kind and the texts that they are answered with (spec K appendix E).

mod laws;
mod network;
mod policies;
mod workloads;

use super::{create, update};
use crate::kube::defaults::{self, workloads::job_labels};
use crate::kube::field::FieldError;
use serde_json::{Value, json};

/// The errors of an object as the answer lists them: sorted by field.
fn texts(mut errors: Vec<FieldError>) -> Vec<String> {
    errors.sort_by(|one, other| one.path.cmp(&other.path));
    errors.iter().map(ToString::to_string).collect()
}

/// A complete object: named, defaulted, and labelled as the server does it.
fn made(group: &str, kind: &str, mut object: Value) -> Value {
    let mut metadata = json!({"name": "x", "namespace": "default", "uid": "u1"});
    let is_cluster_wide = matches!(
        kind,
        "Namespace"
            | "Node"
            | "PersistentVolume"
            | "StorageClass"
            | "PriorityClass"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "IngressClass"
            | "RuntimeClass"
            | "CSIDriver"
            | "ValidatingWebhookConfiguration"
            | "VolumeAttachment"
    );
    if is_cluster_wide {
        metadata.as_object_mut().expect("an object").remove("namespace");
    }
    if let Some(given) = object["metadata"].as_object() {
        metadata.as_object_mut().expect("an object").extend(given.clone());
    }
    object["metadata"] = metadata;
    defaults::fill(group, kind, &mut object);
    if kind == "Job" {
        job_labels(&mut object, "u1");
    }
    object
}

/// Checks a new object; an expectation may be the start of a text.
fn check(group: &str, kind: &str, object: Value, expected: &[&str]) {
    let object = made(group, kind, object);
    compare(texts(create(group, kind, &object)), expected, &object);
}

fn check_change(group: &str, kind: &str, old: Value, new: Value, expected: &[&str]) {
    let stored = |object: Value| {
        let mut object = made(group, kind, object);
        object["metadata"]["resourceVersion"] = "7".into();
        object
    };
    let (old, new) = (stored(old), stored(new));
    compare(texts(update(group, kind, &new, &old)), expected, &new);
}

fn compare(texts: Vec<String>, expected: &[&str], object: &Value) {
    let fits = texts.len() == expected.len()
        && texts.iter().zip(expected).all(|(text, start)| match start.strip_suffix('…') {
            Some(start) => text.starts_with(start),
            None => text == start,
        });
    assert!(fits, "{texts:#?}\nexpected {expected:#?}\nof {object}");
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn job(spec: Value) -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    let mut job = json!({"spec": {"template": template}});
    job["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    job
}

/// A spec with a selector and a template, and more.
fn workload(more: Value) -> Value {
    let mut object = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template()}});
    object["spec"].as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    object
}

#[test]
fn good_objects_of_every_kind_pass() {
    let rbac = "rbac.authorization.k8s.io";
    let requests = json!({"requests": {"storage": "1Gi"}});
    for (group, kind, object) in [
        ("batch", "Job", job(json!({}))),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "@daily", "jobTemplate": job(json!({})), "timeZone": "Asia/Seoul"}}),
        ),
        ("apps", "Deployment", workload(json!({}))),
        ("apps", "ReplicaSet", workload(json!({}))),
        ("apps", "DaemonSet", workload(json!({}))),
        ("apps", "StatefulSet", workload(json!({"serviceName": "s"}))),
        ("apps", "ControllerRevision", json!({"data": {"a": 1}})),
        ("", "ReplicationController", json!({"spec": {"template": template()}})),
        ("", "PodTemplate", json!({"template": template()})),
        ("", "Service", json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "a"}}})),
        ("", "Service", json!({"spec": {"clusterIP": "None"}})),
        ("", "Service", json!({"spec": {"type": "ExternalName", "externalName": "a.example."}})),
        ("", "Endpoints", json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]})),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 1}]}),
        ),
        ("", "ConfigMap", json!({"data": {"a": "b"}, "binaryData": {"c": "ZA=="}})),
        ("", "Secret", json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}})),
        ("", "ServiceAccount", json!({})),
        ("", "Namespace", json!({})),
        (
            "",
            "Node",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}}),
        ),
        ("", "Event", json!({"involvedObject": {"namespace": "default"}})),
        (
            "",
            "PersistentVolume",
            json!({"spec": {"hostPath": {"path": "/d"}, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}),
        ),
        ("", "PersistentVolumeClaim", json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": requests}})),
        ("storage.k8s.io", "StorageClass", json!({"provisioner": "kubernetes.io/no-provisioner"})),
        ("storage.k8s.io", "CSIDriver", json!({})),
        (
            "",
            "ResourceQuota",
            json!({"spec": {"hard": {"pods": "3", "requests.cpu": "1", "requests.nvidia.com/gpu": "2", "count/jobs.batch": "4"}}}),
        ),
        (
            "",
            "LimitRange",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]}}),
        ),
        ("coordination.k8s.io", "Lease", json!({"spec": {"leaseDurationSeconds": 15, "holderIdentity": "a"}})),
        ("scheduling.k8s.io", "PriorityClass", json!({"value": 1000000000})),
        (rbac, "Role", json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]})),
        (rbac, "ClusterRole", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]})),
        (
            rbac,
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
        ),
        (
            rbac,
            "ClusterRoleBinding",
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}}}),
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"rules": [{"host": "*.a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
        ),
        ("networking.k8s.io", "IngressClass", json!({"spec": {"controller": "a.example/c"}})),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 1, "endPort": 2}]}]}}),
        ),
        ("node.k8s.io", "RuntimeClass", json!({"handler": "runc"})),
        (
            "resource.k8s.io",
            "ResourceClaim",
            json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example"}}]}}}),
        ),
        (
            "storage.k8s.io",
            "VolumeAttachment",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        ),
    ] {
        check(group, kind, object, &[]);
    }
}
