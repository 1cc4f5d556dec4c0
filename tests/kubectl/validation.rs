//! What the server refuses, text by text: one table of broken objects, each with the lines that name its faults.

use crate::harness::{Space, eventually};
use crate::http::{get, post};
use serde_json::{Value, json};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The path of a kind's collection in a namespace, or in none for cluster kinds.
fn collection(space: &Space, kind: &str) -> String {
    match kind {
        "Pod" => space.core("pods"),
        "ConfigMap" => space.core("configmaps"),
        "Secret" => space.core("secrets"),
        "Service" => space.core("services"),
        "PersistentVolumeClaim" => space.core("persistentvolumeclaims"),
        "Job" => space.group("batch/v1", "jobs"),
        "CronJob" => space.group("batch/v1", "cronjobs"),
        "Deployment" => space.group("apps/v1", "deployments"),
        "RoleBinding" => space.group("rbac.authorization.k8s.io/v1", "rolebindings"),
        "PriorityClass" => "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
        "StorageClass" => "/apis/storage.k8s.io/v1/storageclasses".to_owned(),
        other => panic!("no path for {other}"),
    }
}

/// Pods need the account that every namespace gets.
fn with_account(space: &Space) {
    let path = space.core("serviceaccounts/default");
    eventually("the default account", || (get(&path).code == 200).then_some(()));
}

fn container(more: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"spec": {"containers": [container]}})
}

fn pod(more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "spec": spec })
}

fn job(more: Value) -> Value {
    let mut spec =
        json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "spec": spec })
}

/// The faults of an object, `field: text` each, sorted.
fn faults(space: &Space, kind: &str, body: &Value) -> Vec<String> {
    let mut body = body.clone();
    if body["metadata"]["name"].is_null() {
        body["metadata"]["name"] = "x".into();
    }
    let answer = post(&format!("{}?dryRun=All", collection(space, kind)), &body);
    if answer.code == 201 {
        return Vec::new();
    }
    assert_eq!(answer.code, 422, "{kind} {body}: {}", answer.body);
    let causes = answer.json()["details"]["causes"].clone();
    let mut found: Vec<String> = causes
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            format!(
                "{}: {}",
                cause["field"].as_str().unwrap_or_default(),
                cause["message"].as_str().unwrap_or_default()
            )
        })
        .collect();
    found.sort();
    found
}

#[track_caller]
fn check(space: &Space, kind: &str, body: Value, expected: &[&str]) {
    let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    expected.sort();
    assert_eq!(faults(space, kind, &body), expected, "{kind} {body}");
}

// K-ADM-7
#[test]
fn pods_are_checked() {
    let space = Space::new("pods");
    with_account(&space);
    let check = |body: Value, expected: &[&str]| check(&space, "Pod", body, expected);
    check(pod(json!({})), &[]);
    check(json!({"spec": {}}), &["spec.containers: Required value"]);
    check(
        json!({"spec": {"containers": [{}]}}),
        &["spec.containers[0].image: Required value", "spec.containers[0].name: Required value"],
    );
    let twice = json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}});
    check(twice, &["spec.containers[1].name: Duplicate value: \"c\""]);
    check(container(json!({"name": "C_1"})), &[&format!("spec.containers[0].name: Invalid value: \"C_1\": {LABEL}")]);
    check(
        pod(json!({"restartPolicy": "Foo"})),
        &["spec.restartPolicy: Unsupported value: \"Foo\": supported values: \"Always\", \"OnFailure\", \"Never\""],
    );
    check(
        container(json!({"imagePullPolicy": "Foo"})),
        &[
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Foo\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ],
    );
    check(
        pod(json!({"dnsPolicy": "Foo"})),
        &[
            "spec.dnsPolicy: Unsupported value: \"Foo\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
        ],
    );
    check(
        container(json!({"ports": [{"containerPort": 70000}]})),
        &["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    );
    check(container(json!({"ports": [{}]})), &["spec.containers[0].ports[0].containerPort: Required value"]);
    check(
        container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
        &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
    );
    check(
        pod(json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]})),
        &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    );
    check(
        pod(json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]})),
        &["spec.volumes[1].name: Duplicate value: \"v\""],
    );
    check(
        pod(json!({"activeDeadlineSeconds": 0})),
        &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    );
    let resources = |resources: Value| container(json!({ "resources": resources }));
    let at = "spec.containers[0].resources";
    check(
        resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        &[&format!("{at}.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1")],
    );
    check(
        resources(json!({"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "1"}})),
        &[&format!("{at}.requests: Invalid value: \"2\": must be equal to nvidia.com/gpu limit of 1")],
    );
    check(
        resources(json!({"requests": {"nvidia.com/gpu": "1"}})),
        &[&format!("{at}.limits: Required value: Limit must be set for non overcommitable resources")],
    );
    check(
        resources(json!({"limits": {"nvidia.com/gpu": "500m"}})),
        &[
            &format!("{at}.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer"),
            &format!("{at}.requests[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer"),
        ],
    );
    check(
        resources(json!({"limits": {"cpu": "-1"}})),
        &[
            &format!("{at}.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"),
            &format!("{at}.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"),
        ],
    );
    let standard =
        ["must be a standard resource type or fully qualified", "must be a standard resource for containers"];
    let expected: Vec<String> = ["limits", "requests"]
        .iter()
        .flat_map(|side| standard.map(|text| format!("{at}.{side}[foo]: Invalid value: \"foo\": {text}")))
        .collect();
    check(resources(json!({"limits": {"foo": "1"}})), &expected.iter().map(String::as_str).collect::<Vec<_>>());
    check(
        pod(json!({"tolerations": [{"key": "k", "operator": "Near"}]})),
        &["spec.tolerations[0].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\""],
    );
}

#[test]
fn wrong_quantities_are_undecodable() {
    let space = Space::new("quantity");
    let body = container(json!({"resources": {"limits": {"cpu": "lots"}}}));
    let answer = post(&space.core("pods"), &body);
    assert_eq!((answer.code, answer.status().1.as_str()), (400, "BadRequest"));
    let text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert!(answer.status().2.ends_with(text), "{}", answer.body);
    let answer = post(&space.core("secrets"), &json!({"metadata": {"name": "s"}, "data": {"k": "not base64!"}}));
    assert_eq!((answer.code, answer.status().1.as_str()), (400, "BadRequest"), "{}", answer.body);
}

// K-OBJ-4
#[test]
fn labels_are_checked() {
    let space = Space::new("labels");
    let labelled = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    check(
        &space,
        "ConfigMap",
        labelled("a b", "v"),
        &[&format!("metadata.labels: Invalid value: \"a b\": {LABEL_KEY}")],
    );
    check(
        &space,
        "ConfigMap",
        labelled("k", "a b"),
        &[&format!("metadata.labels: Invalid value: \"a b\": {LABEL_VALUE}")],
    );
    let long = "v".repeat(64);
    check(
        &space,
        "ConfigMap",
        labelled("k", &long),
        &[&format!("metadata.labels: Invalid value: \"{long}\": must be no more than 63 bytes")],
    );
}

#[test]
fn jobs_and_cron_jobs_are_checked() {
    let space = Space::new("jobs");
    check(&space, "Job", job(json!({})), &[]);
    let always = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    check(
        &space,
        "Job",
        always,
        &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
    );
    for field in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        let text = format!("spec.{field}: Invalid value: -1: must be greater than or equal to 0");
        check(&space, "Job", job(json!({field: -1})), &[&text]);
    }
    let selected = faults(&space, "Job", &job(json!({"selector": {"matchLabels": {"a": "b"}}})));
    assert!(
        selected
            .iter()
            .any(|f| f.starts_with("spec.selector: Invalid value: ") && f.ends_with(": `selector` not auto-generated")),
        "{selected:?}"
    );
    let cron = json!({"spec": {"schedule": "nope", "jobTemplate": job(json!({}))}});
    let found = faults(&space, "CronJob", &cron);
    assert!(found.len() == 1 && found[0].starts_with("spec.schedule: Invalid value: \"nope\": "), "{found:?}");
}

#[test]
fn deployments_are_checked() {
    let space = Space::new("deployments");
    let template = |label: &str| json!({"metadata": {"labels": {"a": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let body = json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": template("b")}});
    check(
        &space,
        "Deployment",
        body,
        &["spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"],
    );
    let found = faults(&space, "Deployment", &json!({"spec": {"template": template("b")}}));
    assert!(found.contains(&"spec.selector: Required value".to_owned()), "{found:?}");
    let body = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template("b")}});
    post(&space.group("apps/v1", "deployments"), &body).ok();
    let changed = json!({"spec": {"selector": {"matchLabels": {"a": "b", "n": "1"}}, "template": {"metadata": {"labels": {"n": "1"}}}}});
    let answer = crate::http::patch("merge", &space.group("apps/v1", "deployments/d"), &changed);
    assert_eq!(answer.code, 422);
    assert!(
        answer.status().2.contains("spec.selector: Invalid value: ")
            && answer.status().2.ends_with(": field is immutable"),
        "{}",
        answer.body
    );
}

// K-SVC-1
#[test]
fn services_are_checked() {
    let space = Space::new("services");
    check(&space, "Service", json!({"spec": {}}), &["spec.ports: Required value"]);
    let unnamed = json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}});
    check(&space, "Service", unnamed, &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"]);
    let made =
        post(&space.core("services"), &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).ok();
    let ip = made["spec"]["clusterIP"].as_str().unwrap();
    assert!(ip.starts_with("10.") && made["spec"]["clusterIPs"] == json!([ip]), "{made}");
    let change = json!({"spec": {"clusterIP": "10.96.5.5", "clusterIPs": ["10.96.5.5"]}});
    let answer = crate::http::patch("merge", &space.core("services/s"), &change);
    let text = "Service \"s\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.96.5.5\"]: may not change once set";
    assert_eq!(answer.status(), (422, "Invalid".into(), text.into()));
    let headless = post(
        &space.core("services"),
        &json!({"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    )
    .ok();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let first = get("/api/v1/namespaces/default/services/kubernetes").ok();
    assert_eq!(first["spec"]["clusterIP"], "10.96.0.1");
}

// K-VOL-3
#[test]
fn claims_are_checked() {
    let space = Space::new("claims");
    check(
        &space,
        "PersistentVolumeClaim",
        json!({"spec": {}}),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    let claim = json!({"metadata": {"name": "p"}, "spec": {"storageClassName": "none", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = post(&space.core("persistentvolumeclaims"), &claim).ok();
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let answer = crate::http::patch(
        "merge",
        &space.core("persistentvolumeclaims/p"),
        &json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
    );
    assert_eq!(answer.code, 422);
    let text = "PersistentVolumeClaim \"p\" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    assert!(answer.status().2.starts_with(text), "{}", answer.body);
}

#[test]
fn config_maps_secrets_and_bindings_are_checked() {
    let space = Space::new("others");
    check(
        &space,
        "ConfigMap",
        json!({"data": {"a b": "v"}}),
        &[&format!("data[a b]: Invalid value: \"a b\": {CONFIG_KEY}")],
    );
    let large = json!({"data": {"k": "x".repeat(1024 * 1024 + 1)}});
    check(&space, "ConfigMap", large, &["[]: Too long: may not be more than 1048576 bytes"]);
    check(
        &space,
        "Secret",
        json!({"type": "kubernetes.io/tls"}),
        &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    );
    check(
        &space,
        "RoleBinding",
        json!({"roleRef": {}}),
        &[
            "roleRef.kind: Unsupported value: \"\": supported values: \"Role\", \"ClusterRole\"",
            "roleRef.name: Required value",
        ],
    );
    check(
        &space,
        "PriorityClass",
        json!({"value": 1_000_000_001}),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
}

/// Owner references that name nothing are refused one by one.
#[test]
fn owner_references_name_all_their_parts() {
    let space = Space::new("owners");
    let body = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}]}});
    let found = faults(&space, "ConfigMap", &body);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found.contains(&"metadata.ownerReferences.uid: Invalid value: \"\": must not be empty".to_owned()),
        "{found:?}"
    );
    let immutable = json!({"immutable": true, "data": {"k": "v"}, "metadata": {"name": "fixed"}});
    post(&space.core("configmaps"), &immutable).ok();
    let answer = crate::http::patch("merge", &space.core("configmaps/fixed"), &json!({"data": {"k": "w"}}));
    assert_eq!(
        answer.status(),
        (
            422,
            "Invalid".into(),
            "ConfigMap \"fixed\" is invalid: data: Forbidden: field is immutable when `immutable` is set".into()
        )
    );
}
