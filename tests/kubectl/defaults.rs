//! What the server adds to minimal objects of every kind.

use crate::harness::{Space, eventually};
use crate::http::{get, post};
use serde_json::{Value, json};

/// Whether `object` has everything that `part` has; lists must be equally long.
fn missing(object: &Value, part: &Value, path: &str) -> Vec<String> {
    match (object, part) {
        (Value::Object(object), Value::Object(part)) => part
            .iter()
            .flat_map(|(key, value)| missing(object.get(key).unwrap_or(&Value::Null), value, &format!("{path}.{key}")))
            .collect(),
        (Value::Array(object), Value::Array(part)) if object.len() == part.len() => {
            object.iter().zip(part).enumerate().flat_map(|(i, (o, p))| missing(o, p, &format!("{path}[{i}]"))).collect()
        }
        (object, part) if object == part => Vec::new(),
        (object, part) => vec![format!("{path}: {object} instead of {part}")],
    }
}

#[track_caller]
fn check(path: &str, mut body: Value, added: Value) -> Value {
    if body["metadata"].is_null() {
        body["metadata"] = json!({"name": "x"});
    }
    let object = post(&format!("{path}?dryRun=All"), &body).ok();
    assert_eq!(missing(&object, &added, ""), Vec::<String>::new(), "{object:#}");
    object
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// What every pod template gets.
fn pod_defaults() -> Value {
    json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
        "schedulerName": "default-scheduler", "containers": [container_defaults()]})
}

fn container_defaults() -> Value {
    json!({"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"})
}

// K-ADM-2 K-ADM-3
#[test]
fn pods_get_their_defaults() {
    let space = Space::new("pods");
    let account = space.core("serviceaccounts/default");
    eventually("the default account", || (get(&account).code == 200).then_some(()));
    let mut spec = pod_defaults();
    spec["enableServiceLinks"] = true.into();
    spec["serviceAccountName"] = "default".into();
    spec["serviceAccount"] = "default".into();
    spec["priority"] = 0.into();
    spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    let toleration = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    spec["tolerations"] = json!([toleration("not-ready"), toleration("unreachable")]);
    let added =
        json!({"metadata": {"generation": 1}, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}});
    let pod = check(&space.core("pods"), json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}), added);
    let volume = &pod["spec"]["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5, "{name}");
    let sources = json!({"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]});
    assert_eq!(volume["projected"], sources);
    let mount = json!({"name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"], json!([mount]));
}

#[test]
fn containers_and_volumes_get_their_defaults() {
    let space = Space::new("containers");
    let account = space.core("serviceaccounts/default");
    eventually("the default account", || (get(&account).code == 200).then_some(()));
    let policy = |image: &str| {
        let body = json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": image}]}});
        post(&space.core("pods?dryRun=All"), &body).ok()["spec"]["containers"][0]["imagePullPolicy"].clone()
    };
    assert_eq!(
        [
            policy("i"),
            policy("i:latest"),
            policy("i:1"),
            policy("i@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
        ],
        ["Always", "Always", "IfNotPresent", "IfNotPresent"]
    );
    let body = json!({"spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i:1",
        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
        "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d", "configMap": {"name": "m"}}]}});
    let added = json!({"spec": {"containers": [{"ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
        "livenessProbe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3, "httpGet": {"path": "/", "scheme": "HTTP"}},
        "env": [{"valueFrom": {"fieldRef": {"apiVersion": "v1"}}}]}],
        "volumes": [{"emptyDir": {}}, {"secret": {"defaultMode": 420}}, {"hostPath": {"type": ""}}, {"configMap": {"defaultMode": 420}}]},
        "status": {"qosClass": "Guaranteed"}});
    check(&space.core("pods"), body, added);
}

// K-JOB-1
#[test]
fn jobs_get_their_defaults() {
    let space = Space::new("jobs");
    let body = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let added = json!({"metadata": {"generation": 1}, "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
        "suspend": false, "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed"}, "status": {}});
    let job = check(&space.group("batch/v1", "jobs"), body.clone(), added);
    let uid = &job["metadata"]["uid"];
    let labels = json!({"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid, "batch.kubernetes.io/job-name": "x", "job-name": "x"});
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let mut parallel = body.clone();
    parallel["spec"]["parallelism"] = 2.into();
    let job = check(&space.group("batch/v1", "jobs"), parallel, json!({"spec": {"parallelism": 2}}));
    assert_eq!(job["spec"].get("completions"), None);
    let mut indexed = body.clone();
    indexed["spec"].as_object_mut().unwrap().extend(
        json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1})
            .as_object()
            .unwrap()
            .clone(),
    );
    check(&space.group("batch/v1", "jobs"), indexed, json!({"spec": {"backoffLimit": 2_147_483_647}}));
    let cron = json!({"spec": {"schedule": "@hourly", "jobTemplate": {"spec": body["spec"]}}});
    check(
        &space.group("batch/v1", "cronjobs"),
        cron,
        json!({"metadata": {"generation": 1}, "spec": {"concurrencyPolicy": "Allow", "suspend": false,
        "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}}),
    );
}

#[test]
fn workloads_get_their_defaults() {
    let space = Space::new("workloads");
    let body = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()}});
    let percent = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    check(
        &space.group("apps/v1", "deployments"),
        body.clone(),
        json!({"metadata": {"generation": 1}, "spec": {"replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": percent}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "template": {"spec": pod_defaults()}}, "status": {}}),
    );
    check(
        &space.group("apps/v1", "replicasets"),
        body.clone(),
        json!({"spec": {"replicas": 1}, "status": {"replicas": 0}}),
    );
    let mut stateful = body.clone();
    stateful["spec"]["serviceName"] = "s".into();
    stateful["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    check(
        &space.group("apps/v1", "statefulsets"),
        stateful,
        json!({"spec": {"replicas": 1, "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}]}}),
    );
    check(
        &space.group("apps/v1", "daemonsets"),
        body,
        json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "1"}},
        "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}, "revisionHistoryLimit": 10}}),
    );
}

// K-SVC-1
#[test]
fn services_get_their_defaults() {
    let space = Space::new("services");
    let plain = json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}, "status": {"loadBalancer": {}}});
    check(&space.core("services"), json!({"spec": {"ports": [{"port": 80}]}}), plain);
    let node = check(
        &space.core("services"),
        json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
        json!({"spec": {"externalTrafficPolicy": "Cluster"}}),
    );
    assert!((30000..32768).contains(&node["spec"]["ports"][0]["nodePort"].as_i64().unwrap()), "{node}");
    check(
        &space.core("services"),
        json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
        json!({"spec": {"allocateLoadBalancerNodePorts": true}}),
    );
    let outside = check(
        &space.core("services"),
        json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
        json!({}),
    );
    assert_eq!(
        outside["spec"],
        json!({"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"})
    );
}

// K-VOL-2
#[test]
fn storage_kinds_get_their_defaults() {
    let space = Space::new("storage");
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    check(
        &space.core("persistentvolumeclaims"),
        claim,
        json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"volumeMode": "Filesystem", "storageClassName": "standard"}, "status": {"phase": "Pending"}}),
    );
    let volume = json!({"metadata": {"name": "defaulted"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    check(
        "/api/v1/persistentvolumes",
        volume,
        json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Pending"}}),
    );
    check(
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({"provisioner": "x.example.com/y"}),
        json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    );
    let standard = get("/apis/storage.k8s.io/v1/storageclasses/standard").ok();
    assert_eq!(standard["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"], "true");
}

#[test]
fn small_kinds_get_their_defaults() {
    let space = Space::new("small");
    check(&space.core("secrets"), json!({"stringData": {"k": "v"}}), json!({"type": "Opaque", "data": {"k": "dg=="}}));
    check(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        json!({"value": 5}),
        json!({"preemptionPolicy": "PreemptLowerPriority"}),
    );
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    let made = check(
        &space.group("rbac.authorization.k8s.io/v1", "rolebindings"),
        binding,
        json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io"}}),
    );
    assert_eq!(made["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(made["subjects"][1].get("apiGroup"), None);
    let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
    check(&space.core("limitranges"), range, json!({"spec": {"limits": [{"defaultRequest": {"cpu": "1"}}]}}));
    let node = check("/api/v1/nodes", json!({"metadata": {"name": "made-by-another"}}), json!({}));
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(node["spec"]["taints"], json!([taint]));
}
