//! Configuration, storage, limits, access, reviews.

use super::{check, check_change, compare, texts};
use crate::kube::validate::reviews;
use serde_json::{Value, json};

#[test]
fn broken_config_maps_and_secrets() {
    check(
        "",
        "ConfigMap",
        json!({"data": {"a b": "x"}}),
        &[
            r#"data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"#,
        ],
    );
    check(
        "",
        "ConfigMap",
        json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}),
        &[r#"data[a]: Invalid value: "a": duplicate of key present in binaryData"#],
    );
    check(
        "",
        "ConfigMap",
        json!({"data": {"a": "x".repeat(1_048_577)}}),
        &["[]: Too long: may not be more than 1048576 bytes"],
    );
    let sealed = json!({"data": {"a": "x"}, "immutable": true});
    check_change(
        "",
        "ConfigMap",
        sealed,
        json!({"data": {"a": "y"}}),
        &[
            "data: Forbidden: field is immutable when `immutable` is set",
            "immutable: Forbidden: field is immutable when `immutable` is set",
        ],
    );
    for (kind, expected) in [
        ("tls", &["data[tls.crt]: Required value", "data[tls.key]: Required value"][..]),
        ("basic-auth", &["data[password]: Required value", "data[username]: Required value"]),
        ("ssh-auth", &["data[ssh-privatekey]: Required value"]),
        ("dockercfg", &["data[.dockercfg]: Required value"]),
        ("dockerconfigjson", &["data[.dockerconfigjson]: Required value"]),
        ("service-account-token", &["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
    ] {
        check("", "Secret", json!({"type": format!("kubernetes.io/{kind}")}), expected);
    }
    check(
        "",
        "Secret",
        json!({"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "nope"}}),
        &[r#"data[.dockercfg]: Invalid value: "<secret contents redacted>": …"#],
    );
    check_change("", "Secret", json!({}), json!({"type": "a"}), &[r#"type: Invalid value: "a": field is immutable"#]);
}

#[test]
fn broken_namespaces_and_nodes() {
    check(
        "",
        "Namespace",
        json!({"spec": {"finalizers": ["mine"]}}),
        &[
            r#"spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified"#,
        ],
    );
    let taint = json!({"key": "a", "effect": "NoSchedule"});
    check(
        "",
        "Node",
        json!({"spec": {"taints": [taint, taint, {"key": "b", "effect": "Never"}]}}),
        &[
            r#"metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair"#,
            r#"metadata.taints[2].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
        ],
    );
    check_change(
        "",
        "Node",
        json!({"spec": {"providerID": "a"}}),
        json!({"spec": {"providerID": "b"}}),
        &[r#"spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#],
    );
}

// K-EVT-2
#[test]
fn broken_events() {
    check(
        "",
        "Event",
        json!({"involvedObject": {"namespace": "other"}}),
        &[r#"involvedObject.namespace: Invalid value: "other": does not match event.namespace"#],
    );
    check(
        "",
        "Event",
        json!({"metadata": {"namespace": "team"}}),
        &[r#"involvedObject.namespace: Invalid value: "": does not match event.namespace"#],
    );
    check(
        "events.k8s.io",
        "Event",
        json!({"type": "Odd", "regarding": {"namespace": "default"}}),
        &["eventTime: Required value", r#"type: Invalid value: "": has invalid value: Odd"#],
    );
    check(
        "events.k8s.io",
        "Event",
        json!({"type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "deprecatedCount": 1, "series": {"count": 1}}),
        &[
            "action: Required value",
            r#"count: Invalid value: "": needs to be unset"#,
            "reason: Required value",
            "reportingController: Required value",
            r#"reportingController: Invalid value: "": name part must be non-empty"#,
            r#"reportingController: Invalid value: "": name part must consist of…"#,
            "reportingInstance: Required value",
            r#"series.count: Invalid value: "": should be at least 2"#,
            "series.lastObservedTime: Required value",
        ],
    );
}

// K-VOL-3
#[test]
fn broken_volumes_and_claims() {
    check(
        "",
        "PersistentVolume",
        json!({"spec": {}}),
        &[
            "spec: Required value: must specify a volume type",
            "spec.accessModes: Required value",
            "spec.capacity: Required value",
            r#"spec.capacity: Unsupported value: null: supported values: "storage""#,
        ],
    );
    let volume = |source: Value| {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        spec.as_object_mut().expect("an object").extend(source.as_object().expect("an object").clone());
        json!({"spec": spec})
    };
    check(
        "",
        "PersistentVolume",
        volume(json!({"hostPath": {"path": "/a"}, "nfs": {}})),
        &["spec.nfs: Forbidden: may not specify more than 1 volume type"],
    );
    check(
        "",
        "PersistentVolume",
        volume(json!({"local": {"path": "/a"}})),
        &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    );
    check_change(
        "",
        "PersistentVolume",
        volume(json!({"hostPath": {"path": "/a"}})),
        volume(json!({"hostPath": {"path": "/b"}})),
        &["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
    );
    check(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {}}),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    let claim = |size: &str, class: &str, phase: &str| {
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
        })
    };
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    let kind = "PersistentVolumeClaim";
    check_change("", kind, claim("1Gi", "a", "Bound"), claim("2Gi", "a", "Bound"), &[]);
    check_change("", kind, claim("1Gi", "a", "Pending"), claim("2Gi", "a", "Pending"), &[immutable]);
    check_change("", kind, claim("1Gi", "a", "Bound"), claim("1Gi", "b", "Bound"), &[immutable]);
    check_change(
        "",
        kind,
        claim("2Gi", "a", "Bound"),
        claim("1Gi", "a", "Bound"),
        &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
    );
    let unnamed = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    check_change("", kind, unnamed, claim("1Gi", "a", "Pending"), &[]);
}

#[test]
fn broken_storage_kinds() {
    check(
        "storage.k8s.io",
        "StorageClass",
        json!({"reclaimPolicy": "Keep"}),
        &[
            "provisioner: Required value",
            r#"reclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Retain""#,
        ],
    );
    let class = |provisioner: &str, mode: &str| json!({"provisioner": provisioner, "volumeBindingMode": mode});
    check_change(
        "storage.k8s.io",
        "StorageClass",
        class("a", "Immediate"),
        class("b", "WaitForFirstConsumer"),
        &[
            "provisioner: Forbidden: updates to provisioner are forbidden.",
            r#"volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable"#,
        ],
    );
}

#[test]
fn broken_quotas_and_limits() {
    check(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"gpus": "1", "pods": "500m", "cpu": "-1"}}}),
        &[
            r#"spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
            r#"spec.hard[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified"#,
            r#"spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota"#,
            r#"spec.hard[pods]: Invalid value: "500m": must be an integer"#,
        ],
    );
    check(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"secrets": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}}),
        &[
            r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource"#,
            r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource"#,
            r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes"#,
        ],
    );
    check_change(
        "",
        "ResourceQuota",
        json!({"spec": {}}),
        json!({"spec": {"scopes": ["BestEffort"]}}),
        &[r#"spec.scopes: Invalid value: ["BestEffort"]: field is immutable"#],
    );
    let limit = |limit: Value| json!({"spec": {"limits": [limit]}});
    check(
        "",
        "LimitRange",
        limit(
            json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}),
        ),
        &[
            r#"spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1"#,
            r#"spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1"#,
            r#"spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1"#,
            r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#,
        ],
    );
    check(
        "",
        "LimitRange",
        limit(json!({"type": "Pod", "default": {"cpu": "1"}})),
        &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
    );
    check(
        "",
        "LimitRange",
        limit(json!({"type": "Rack"})),
        &[r#"spec.limits[0].type: Invalid value: "Rack": must be a standard limit type or fully qualified"#],
    );
    check(
        "",
        "LimitRange",
        limit(json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "4"}, "min": {"cpu": "1"}, "max": {"cpu": "2"}})),
        &[
            r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "4": ratio 4 is greater than max/min = 2.000000"#,
        ],
    );
}

#[test]
fn broken_workloads() {
    let (group, workload) = ("scheduling.k8s.io", |groups: Value| json!({"spec": {"podGroups": groups}}));
    let gang = |name: &str, count: i64| json!({"name": name, "policy": {"gang": {"minCount": count}}});
    check(group, "Workload", workload(json!([gang("a", 2), gang("b", 1)])), &[]);
    let told = r#"podGroups: Invalid value: [{"name":"a","policy":{"gang":{"minCount":2}}}]: field is immutable"#;
    check_change(group, "Workload", workload(json!([gang("a", 1)])), workload(json!([gang("a", 2)])), &[told]);
    check(group, "Workload", workload(json!([])), &["spec.podGroups: Required value: must have at least one item"]);
    check(
        group,
        "Workload",
        workload(
            json!([gang("a", 0), gang("a", 1), {"name": "c", "policy": {}}, {"name": "d", "policy": {"basic": {}, "gang": {"minCount": 1}}}]),
        ),
        &[
            "spec.podGroups[0].policy.gang.minCount: Invalid value: 0: must be greater than zero",
            "spec.podGroups[1].name: Duplicate value: \"a\"",
            "spec.podGroups[2].policy: Required value: exactly one of `basic`, `gang` is required",
            "spec.podGroups[3].policy: Invalid value: \"{`basic`, `gang`}\": exactly one of `basic`, `gang` is required, but multiple fields are set",
        ],
    );
}

// K-ADM-4
#[test]
fn broken_priority_classes() {
    let group = "scheduling.k8s.io";
    check(
        group,
        "PriorityClass",
        json!({"value": 1_000_000_001}),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
    check(
        group,
        "PriorityClass",
        json!({"metadata": {"name": "system-mine"}, "value": 1}),
        &[
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class",
        ],
    );
    check(group, "PriorityClass", json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}), &[]);
    check_change(
        group,
        "PriorityClass",
        json!({"value": 1}),
        json!({"value": 2}),
        &["value: Forbidden: may not be changed in an update."],
    );
}

#[test]
fn broken_access_rules() {
    let group = "rbac.authorization.k8s.io";
    check(
        group,
        "Role",
        json!({"rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/a"]}]}),
        &[
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
            "rules[0].verbs: Required value: verbs must contain at least one value",
            r#"rules[1].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs"#,
        ],
    );
    check(
        group,
        "ClusterRole",
        json!({"aggregationRule": {}}),
        &[
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
        ],
    );
    check(
        group,
        "RoleBinding",
        json!({"subjects": [{"kind": "Robot", "name": "r"}]}),
        &[
            r#"roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole""#,
            "roleRef.name: Required value",
            r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
        ],
    );
    let binding = |name: &str| json!({"roleRef": {"kind": "ClusterRole", "name": name}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]});
    check(group, "ClusterRoleBinding", binding("r"), &["subjects[0].namespace: Required value"]);
    check_change(
        group,
        "RoleBinding",
        binding("a"),
        binding("b"),
        &[
            r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"b"}: cannot change roleRef"#,
        ],
    );
}

#[test]
fn broken_policies() {
    check(
        "policy",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": 1, "maxUnavailable": "101%"}}),
        &[
            r#"spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"101%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set"#,
            r#"spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#,
        ],
    );
    check(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
        &[
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"spec": {"minReplicas": 2, "maxReplicas": 1, "metrics": [{"type": "Pods"}]}}),
        &[
            "spec.maxReplicas: Invalid value: 1: must be greater than or equal to `minReplicas`",
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Required value",
        ],
    );
    check("node.k8s.io", "RuntimeClass", json!({}), &[r#"handler: Invalid value: "": a lowercase RFC 1123 label…"#]);
    check_change(
        "node.k8s.io",
        "RuntimeClass",
        json!({"handler": "a"}),
        json!({"handler": "b"}),
        &[r#"handler: Invalid value: "b": field is immutable"#],
    );
}

// K-AUTH-5 K-AUTH-7
#[test]
fn broken_reviews() {
    let check = |kind: &str, review: Value, expected: &[&str]| {
        compare(texts(reviews::check_review(kind, &review)), expected, &review);
    };
    check(
        "TokenRequest",
        json!({"spec": {"expirationSeconds": 10}}),
        &["spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes"],
    );
    check("TokenRequest", json!({"spec": {"expirationSeconds": 3600}}), &[]);
    let asks = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    check("SelfSubjectAccessReview", asks.clone(), &[]);
    check(
        "SelfSubjectAccessReview",
        json!({"metadata": {"name": "x"}, "spec": {}}),
        &[
            r#"metadata: Invalid value: {"name":"x"}: must be empty"#,
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ],
    );
    check(
        "SubjectAccessReview",
        asks,
        &[r#"spec.user: Invalid value: "": at least one of user or group must be specified"#],
    );
    check(
        "LocalSubjectAccessReview",
        json!({"metadata": {"namespace": "a"}, "spec": {"user": "u", "resourceAttributes": {"namespace": "b"}}}),
        &[r#"spec.resourceAttributes.namespace: Invalid value: "b": must match metadata.namespace"#],
    );
    check(
        "Scale",
        json!({"spec": {"replicas": -1}}),
        &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
}
