//! `kubectl create` in all its forms, protobuf bodies, and the rules of metadata and plain writes.

use crate::harness::{Space, eventually, for_each_kubectl, for_some_kubectls, kubectls};
use crate::http::{get, patch, post, put, request};
use serde_json::{Value, json};

/// Commands that make one object each; `{}` in none of them, so every kubectl makes the same.
const GENERATORS: &[(&str, &[&str])] = &[
    ("configmap/made", &["create", "configmap", "made", "--from-literal=a=1", "--from-literal=b=two words"]),
    ("secret/made", &["create", "secret", "generic", "made", "--from-literal=user=admin", "--from-literal=empty="]),
    (
        "secret/pull",
        &[
            "create", "secret", "docker-registry", "pull", "--docker-server=r.example.com", "--docker-username=u",
            "--docker-password=p",
        ],
    ),
    ("serviceaccount/made", &["create", "serviceaccount", "made"]),
    ("resourcequota/made", &["create", "quota", "made", "--hard=cpu=1,memory=1Gi,pods=2"]),
    (
        "role.rbac.authorization.k8s.io/made",
        &["create", "role", "made", "--verb=get,list", "--resource=pods,deployments.apps"],
    ),
    (
        "rolebinding.rbac.authorization.k8s.io/made",
        &["create", "rolebinding", "made", "--role=made", "--serviceaccount=other:sa", "--user=jane"],
    ),
    ("service/plain", &["create", "service", "clusterip", "plain", "--tcp=80:8080"]),
    ("service/headless", &["create", "service", "clusterip", "headless", "--clusterip=None"]),
    ("service/port", &["create", "service", "nodeport", "port", "--tcp=80"]),
    ("service/balanced", &["create", "service", "loadbalancer", "balanced", "--tcp=443:8443"]),
    ("service/outside", &["create", "service", "externalname", "outside", "--external-name=example.com"]),
    ("deployment.apps/made", &["create", "deployment", "made", "--image=nginx:1.27", "--replicas=0", "--port=80"]),
    ("job.batch/made", &["create", "job", "made", "--image=busybox", "--", "true"]),
    ("cronjob.batch/made", &["create", "cronjob", "made", "--image=busybox", "--schedule=*/5 * * * *", "--", "date"]),
    ("ingress.networking.k8s.io/made", &["create", "ingress", "made", "--rule=example.com/a*=svc:80"]),
    ("poddisruptionbudget.policy/made", &["create", "pdb", "made", "--selector=a=b", "--min-available=50%"]),
];

/// The object without what differs from one creation to the next.
fn essence(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"] {
        metadata.remove(key);
    }
    // What controllers add comes in its own time.
    for key in ["annotations", "finalizers"] {
        metadata.remove(key);
    }
    object.as_object_mut().unwrap().remove("status");
    let text = object.to_string();
    let Some(uid) = text.split("controller-uid\":\"").nth(1).and_then(|rest| rest.split('"').next()) else {
        return without_addresses(object);
    };
    without_addresses(serde_json::from_str(&text.replace(uid, "UID")).unwrap())
}

/// Addresses and ports that were handed out.
fn without_addresses(mut object: Value) -> Value {
    if object["kind"] == "Service" && object["spec"]["clusterIP"].as_str().is_some_and(|ip| ip != "None") {
        object["spec"]["clusterIP"] = "IP".into();
        object["spec"]["clusterIPs"] = json!(["IP"]);
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if port.get("nodePort").is_some() {
                port["nodePort"] = 30000.into();
            }
        }
    }
    object
}

// K-PB-1
#[test]
fn what_new_kubectls_send_as_protobuf_equals_what_old_ones_send_as_json() {
    let all = |space: &Space| -> Vec<Value> {
        for (name, command) in GENERATORS {
            assert_eq!(space.ok(command), format!("{name} created\n"), "kubectl 1.{}", space.kubectl.minor);
        }
        let names: Vec<&str> = GENERATORS.iter().map(|(name, _)| *name).collect();
        let list = space.json(&[&["get"], names.as_slice()].concat());
        list["items"].as_array().unwrap().iter().cloned().map(essence).collect()
    };
    let spaces: Vec<Space> = kubectls().iter().map(|kubectl| Space::with(kubectl, "generators")).collect();
    let oldest = all(&spaces[0]);
    for space in &spaces[1..] {
        for (one, other) in oldest.iter().zip(all(space)) {
            assert_eq!(one, &other, "kubectl 1.{}", space.kubectl.minor);
        }
    }
}

// K-PB-1
#[test]
fn cluster_kinds_are_made_by_every_kubectl() {
    for_each_kubectl("cluster-kinds", |space| {
        let n = &space.name;
        assert_eq!(space.ok(&["create", "namespace", &format!("{n}-x")]), format!("namespace/{n}-x created\n"));
        assert_eq!(
            space.ok(&["create", "clusterrole", n, "--verb=get", "--resource=pods"]),
            format!("clusterrole.rbac.authorization.k8s.io/{n} created\n")
        );
        assert_eq!(
            space.ok(&["create", "clusterrolebinding", n, "--clusterrole=view", "--group=devs"]),
            format!("clusterrolebinding.rbac.authorization.k8s.io/{n} created\n")
        );
        assert_eq!(
            space.ok(&["create", "priorityclass", n, "--value=7", "--description=seven"]),
            format!("priorityclass.scheduling.k8s.io/{n} created\n")
        );
        let class = space.json(&["get", "pc", n]);
        assert_eq!((&class["value"], &class["preemptionPolicy"]), (&json!(7), &json!("PreemptLowerPriority")));
        let token = space.ok(&["create", "serviceaccount", "s"]) + &space.ok(&["create", "token", "s"]);
        assert_eq!(token.lines().last().unwrap().split('.').count(), 3, "{token}");
    });
}

// K-PB-1
#[test]
fn unknown_protobuf_fields_are_ignored_even_when_strict() {
    let space = Space::new("pb");
    // ConfigMap {1: metadata {1: "a"}, 2: data {"k": "v"}, 99: "unknown"} in its envelope.
    let object: &[u8] = b"\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v\x9a\x06\x07unknown";
    let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
    body.push(u8::try_from(object.len()).unwrap());
    body.extend(object);
    let path = space.core("configmaps?fieldValidation=Strict");
    let answer = request("POST", &path).body("application/vnd.kubernetes.protobuf", body).send();
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert_eq!(answer.json()["data"], json!({"k": "v"}));
}

#[test]
fn jobs_can_be_made_from_cron_jobs() {
    for_some_kubectls("from", |space| {
        space.ok(&["create", "cronjob", "c", "--image=busybox", "--schedule=@hourly", "--", "date"]);
        assert_eq!(space.ok(&["create", "job", "j", "--from=cronjob/c"]), "job.batch/j created\n");
        let job = space.json(&["get", "job", "j"]);
        assert_eq!(job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"], "manual");
        assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    });
}

// K-OBJ-1
#[test]
fn the_server_sets_what_clients_may_not() {
    let space = Space::new("metadata");
    let sent = json!({"metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "generation": 7}});
    let made = post(&space.core("configmaps"), &sent).ok();
    let metadata = &made["metadata"];
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    let time = metadata["creationTimestamp"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z') && !time.starts_with("2001"), "{time}");
    assert!(metadata["resourceVersion"].as_str().unwrap().parse::<u64>().is_ok());
    assert_eq!((metadata.get("selfLink"), metadata.get("deletionTimestamp")), (None, None));
    let refused = post(&space.core("configmaps"), &json!({"metadata": {"name": "b", "resourceVersion": "5"}}));
    let text = "resourceVersion should not be set on objects to be created";
    assert_eq!((refused.code, refused.json()["message"].as_str()), (500, Some(text)));
}

// K-OBJ-2
#[test]
fn generated_names_have_five_more_characters() {
    let space = Space::new("generate");
    let name = |prefix: &str| {
        let made = post(&space.core("configmaps"), &json!({"metadata": {"generateName": prefix}})).ok();
        assert_eq!(made["metadata"]["generateName"], prefix);
        made["metadata"]["name"].as_str().unwrap().to_owned()
    };
    let short = name("job-");
    let (prefix, rest) = short.split_at(4);
    assert_eq!((prefix, rest.len()), ("job-", 5));
    assert!(rest.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{rest}");
    assert_eq!(name(&"x".repeat(80)).len(), 63);
    assert_ne!(name("a"), name("a"));
    let none = post(&space.core("configmaps"), &json!({"metadata": {}}));
    let text = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    assert_eq!(none.status(), (422, "Invalid".into(), text.into()));
}

// K-OBJ-3
#[test]
fn generation_counts_changes_of_the_spec() {
    let space = Space::new("generation");
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let made = post(&space.group("apps/v1", "deployments"), &deployment).ok();
    assert_eq!(made["metadata"]["generation"], 1);
    let path = space.group("apps/v1", "deployments/d");
    let revision = || get(&path).ok()["metadata"]["annotations"]["deployment.kubernetes.io/revision"].is_string();
    eventually("the controller's annotation", || revision().then_some(()));
    let generation = |body: Value| patch("merge", &path, &body).ok()["metadata"]["generation"].clone();
    assert_eq!(generation(json!({"metadata": {"labels": {"x": "y"}}})), 1);
    assert_eq!(generation(json!({"spec": {"minReadySeconds": 3}})), 2);
    assert_eq!(generation(json!({"spec": {"minReadySeconds": 3}})), 2);
    assert_eq!(generation(json!({"metadata": {"annotations": {"x": "y"}}})), 3);
    for (kind, body) in [
        ("configmaps", json!({"metadata": {"name": "a"}})),
        ("secrets", json!({"metadata": {"name": "a"}})),
        ("serviceaccounts", json!({"metadata": {"name": "a"}})),
        ("services", json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})),
    ] {
        assert_eq!(post(&space.core(kind), &body).ok()["metadata"].get("generation"), None, "{kind}");
    }
}

// K-OBJ-4
#[test]
fn names_follow_the_rules_of_their_kind() {
    let space = Space::new("names");
    let refused = |path: &str, body: Value| {
        let answer = post(path, &body);
        assert_eq!(answer.code, 422, "{}", answer.body);
        answer.json()["details"]["causes"][0]["message"].as_str().unwrap().to_owned()
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    assert_eq!(refused(&space.core("configmaps"), named("A_b")), format!("Invalid value: \"A_b\": {subdomain}"));
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    assert_eq!(refused("/api/v1/namespaces", named("A_b")), format!("Invalid value: \"A_b\": {label}"));
    assert_eq!(refused("/api/v1/namespaces", named("a.b")), "Invalid value: \"a.b\": must not contain dots");
    let service = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let body = json!({"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(refused(&space.core("services"), body), format!("Invalid value: \"1a\": {service}"));
    let long = "a".repeat(254);
    assert_eq!(
        refused(&space.core("configmaps"), named(&long)),
        format!("Invalid value: \"{long}\": must be no more than 253 characters")
    );
    assert_eq!(
        refused(&space.group("rbac.authorization.k8s.io/v1", "roles"), named("a%b")),
        "Invalid value: \"a%b\": may not contain '%'"
    );
    assert_eq!(post(&space.group("rbac.authorization.k8s.io/v1", "roles"), &named("Any:Thing")).code, 201);
    let labelled = json!({"metadata": {"name": "a", "labels": {"k": "v".repeat(64)}}});
    let text = refused(&space.core("configmaps"), labelled);
    assert!(text.ends_with("must be no more than 63 bytes"), "{text}");
}

// K-OBJ-5
#[test]
fn the_namespace_of_the_body_must_be_that_of_the_url() {
    let space = Space::new("place");
    let answer = post(&space.core("configmaps"), &json!({"metadata": {"name": "a", "namespace": "other"}}));
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(answer.status(), (400, "BadRequest".into(), text.into()));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n";
    let text = format!(
        "error: the namespace from the provided object \"other\" does not match the namespace \"{0}\". You must pass '--namespace=other' to perform this operation.\n",
        space.name
    );
    assert_eq!(space.fails_with(&["create", "-f", "-"], yaml), text);
}

// K-OBJ-6
#[test]
fn quantities_and_times_are_stored_canonically() {
    let space = Space::new("canonical");
    let hard = json!({"cpu": "0.5", "memory": "1024Mi", "pods": 1, "requests.storage": "1e3"});
    let made = post(&space.core("resourcequotas"), &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).ok();
    assert_eq!(made["spec"]["hard"], json!({"cpu": "500m", "memory": "1Gi", "pods": "1", "requests.storage": "1e3"}));
    let lease = json!({"metadata": {"name": "l"}, "spec": {"acquireTime": "2026-01-02T03:04:05.5+01:00"}});
    let made = post(&space.group("coordination.k8s.io/v1", "leases"), &lease).ok();
    assert_eq!(made["spec"]["acquireTime"], "2026-01-02T02:04:05.500000Z");
}

// K-WR-1 K-LEASE-1
#[test]
fn updates_with_a_stale_version_are_conflicts() {
    let space = Space::new("stale");
    let made = post(&space.core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).ok();
    let path = space.core("configmaps/a");
    let mut newer = made.clone();
    newer["data"]["k"] = "2".into();
    assert_eq!(put(&path, &newer).code, 200);
    newer["data"]["k"] = "3".into();
    let text = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(put(&path, &newer).status(), (409, "Conflict".into(), text.into()));
    newer["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(put(&path, &newer).ok()["data"]["k"], "3", "without a version the update is unconditional");
    let leases = space.group("coordination.k8s.io/v1", "leases");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let path = format!("{leases}/l");
    let made = put(&path, &lease);
    assert_eq!(made.code, 201, "a missing lease is created by PUT");
    let text = "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(put(&path, &lease).status(), (422, "Invalid".into(), text.into()));
    let mut renewed = made.json();
    renewed["spec"]["holderIdentity"] = "b".into();
    assert_eq!(put(&format!("{path}?timeout=5s"), &renewed).code, 200);
    assert_eq!(put(&path, &renewed).code, 409);
}

// K-WR-1
#[test]
fn every_kubectl_reports_a_stale_replace_as_conflict() {
    for_some_kubectls("replace", |space| {
        space.ok(&["create", "configmap", "a", "--from-literal=k=1"]);
        let old = space.ok(&["get", "cm", "a", "-o", "yaml"]);
        space.ok(&["label", "cm", "a", "x=y"]);
        space.file("old.yaml", &old);
        let said = space.fails(&["replace", "-f", "old.yaml"]);
        let text = "Error from server (Conflict): error when replacing \"old.yaml\": Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again\n";
        assert_eq!(said, text);
        assert_eq!(
            space.ok(&["replace", "--force", "-f", "old.yaml"]),
            format!("configmap \"a\" deleted{}\nconfigmap/a replaced\n", from(space))
        );
    });
}

/// What kubectl adds to `deleted` from 1.34 on.
fn from(space: &Space) -> String {
    if space.kubectl.minor >= 34 { format!(" from {} namespace", space.name) } else { String::new() }
}

// K-WR-2
#[test]
fn a_put_of_a_missing_object_creates_only_some_kinds() {
    let space = Space::new("put");
    let missing = put(&space.core("configmaps/a"), &json!({"metadata": {"name": "a"}}));
    assert_eq!(missing.status(), (404, "NotFound".into(), "configmaps \"a\" not found".into()));
    let created: &[(&str, String, Value)] = &[
        ("Endpoints", space.core("endpoints/a"), json!({})),
        ("Service", space.core("services/a"), json!({"spec": {"ports": [{"port": 80}]}})),
        ("LimitRange", space.core("limitranges/a"), json!({"spec": {"limits": []}})),
        ("Role", space.group("rbac.authorization.k8s.io/v1", "roles/a"), json!({"rules": []})),
    ];
    for (kind, path, body) in created {
        let mut body = body.clone();
        body["metadata"] = json!({"name": "a"});
        let answer = put(path, &body);
        assert_eq!(answer.code, 201, "{kind}: {}", answer.body);
    }
}

// K-WR-3
#[test]
fn a_write_that_changes_nothing_keeps_the_version() {
    let space = Space::new("nothing");
    let made = post(&space.core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).ok();
    let path = space.core("configmaps/a");
    let version = |answer: crate::http::Answer| answer.ok()["metadata"]["resourceVersion"].clone();
    let before = made["metadata"]["resourceVersion"].clone();
    assert_eq!(version(put(&path, &made)), before);
    assert_eq!(version(patch("merge", &path, &json!({"data": {"k": "1"}}))), before);
    assert_eq!(version(patch("strategic", &path, &json!({"data": {"k": "1"}}))), before);
    assert_eq!(version(patch("json", &path, &json!([{"op": "replace", "path": "/data/k", "value": "1"}]))), before);
    for_some_kubectls("same", |space| {
        space.ok(&["create", "configmap", "a", "--from-literal=k=1"]);
        assert_eq!(space.ok(&["patch", "cm", "a", "-p", r#"{"data":{"k":"1"}}"#]), "configmap/a patched (no change)\n");
        assert_eq!(space.ok(&["label", "cm", "a", "x=y"]), "configmap/a labeled\n");
        assert_eq!(space.ok(&["label", "cm", "a", "x=y"]), "configmap/a not labeled\n");
    });
}

// K-WR-4
#[test]
fn uid_and_name_of_the_body_must_match() {
    let space = Space::new("match");
    post(&space.core("configmaps"), &json!({"metadata": {"name": "a"}})).ok();
    let path = space.core("configmaps/a");
    let other = put(&path, &json!({"metadata": {"name": "b"}}));
    assert_eq!(
        other.status(),
        (400, "BadRequest".into(), "the name of the object (b) does not match the name on the URL (a)".into())
    );
    let uid = "00000000-0000-0000-0000-000000000000";
    let other = put(&path, &json!({"metadata": {"name": "a", "uid": uid}}));
    assert_eq!((other.code, other.status().1.as_str()), (409, "Conflict"));
    let real = get(&path).ok()["metadata"]["uid"].as_str().unwrap().to_owned();
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"a\": Precondition failed: UID in precondition: {uid}, UID in object meta: {real}"
    );
    assert_eq!(other.status().2, text);
}

// K-WR-5
#[test]
fn status_and_spec_are_written_apart() {
    let space = Space::new("status");
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"replicas": 9}});
    let made = post(&space.group("apps/v1", "deployments"), &deployment).ok();
    assert_eq!(made["status"], json!({}), "a created object has no status of the client's");
    let path = space.group("apps/v1", "deployments/d");
    let main = patch("merge", &path, &json!({"status": {"collisionCount": 4}})).ok();
    assert_eq!(main["status"].get("collisionCount"), None);
    let body = json!({"spec": {"minReadySeconds": 5}, "status": {"collisionCount": 4}, "metadata": {"labels": {"l": "1"}, "annotations": {"n": "1"}}});
    let status = patch("merge", &format!("{path}/status"), &body).ok();
    assert_eq!(status["status"]["collisionCount"], 4);
    assert_eq!(status["spec"].get("minReadySeconds"), None);
    assert_eq!(status["metadata"].get("labels"), None, "apps kinds take no labels through status");
    assert_eq!(status["metadata"]["annotations"]["n"], "1");
}

// K-WR-6
#[test]
fn a_dry_run_answers_as_if_and_stores_nothing() {
    let space = Space::new("dry");
    let answer = post(&space.core("configmaps?dryRun=All"), &json!({"metadata": {"name": "a"}}));
    assert_eq!(answer.code, 201);
    assert_eq!(answer.json()["metadata"].get("resourceVersion"), None);
    assert_eq!(get(&space.core("configmaps/a")).code, 404);
    let bad = post(&space.core("configmaps?dryRun=Some"), &json!({"metadata": {"name": "a"}}));
    let text =
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    assert_eq!(bad.status(), (422, "Invalid".into(), text.into()));
    for_some_kubectls("dry", |space| {
        let printed = space.ok(&["create", "configmap", "a", "--dry-run=server", "-o", "name"]);
        assert_eq!(printed, "configmap/a\n");
        assert_eq!(
            space.ok(&["create", "configmap", "a", "--dry-run=server"]),
            "configmap/a created (server dry run)\n"
        );
        assert!(space.fails(&["get", "cm", "a"]).starts_with("Error from server (NotFound)"));
    });
}

// K-WR-7
#[test]
fn the_field_manager_is_named_or_the_user_agent() {
    let space = Space::new("manager");
    let manager = |query: &str, agent: &str| {
        let path = space.core(&format!("configmaps{query}"));
        let answer = request("POST", &path)
            .header("User-Agent", agent)
            .json(&json!({"metadata": {"generateName": "a"}, "data": {"k": "v"}}))
            .send();
        (answer.code, answer.json()["metadata"]["managedFields"][0]["manager"].clone())
    };
    assert_eq!(manager("?fieldManager=me", "agent/1.0"), (201, json!("me")));
    assert_eq!(manager("", "agent/1.0 (linux) x/y"), (201, json!("agent")));
    assert_eq!(manager(&format!("?fieldManager={}", "x".repeat(129)), "agent").0, 422);
    assert_eq!(manager("?fieldManager=a%07b", "agent").0, 422);
}

const STRICT_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: strict}\nspec:\n  foo: 1\n  containers: [{name: c, imagee: x, image: i}]\n";

// K-WR-8
#[test]
fn every_kubectl_names_unknown_fields_as_asked() {
    for_some_kubectls("strict", |space| {
        let said = space.fails_with(&["create", "--dry-run=server", "-f", "-"], STRICT_POD);
        let text = "Error from server (BadRequest): error when creating \"STDIN\": Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.containers[0].imagee\", unknown field \"spec.foo\"\n";
        assert_eq!(said, text);
        let output = space.run_with(&["create", "--dry-run=server", "--validate=warn", "-f", "-"], STRICT_POD);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let warnings: Vec<&str> = output.stderr.lines().collect();
        assert_eq!(
            warnings,
            ["Warning: unknown field \"spec.containers[0].imagee\"", "Warning: unknown field \"spec.foo\""]
        );
        let output = space.run_with(&["create", "--dry-run=server", "--validate=ignore", "-f", "-"], STRICT_POD);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    });
}

// K-WR-8
#[test]
fn strictness_reaches_duplicates_and_patches() {
    let space = Space::new("dup");
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
    let answer =
        request("POST", &space.core("configmaps?fieldValidation=Strict")).body("application/json", body).send();
    let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data.k\"";
    assert_eq!(answer.status(), (400, "BadRequest".into(), text.into()));
    let answer = request("POST", &space.core("configmaps")).body("application/json", body).send();
    assert_eq!((answer.code, answer.header("warning")), (201, r#"299 - "duplicate field \"data.k\"""#));
    assert_eq!(answer.json()["data"]["k"], "2");
    let answer = patch("merge", &space.core("configmaps/a?fieldValidation=Strict"), &json!({"spec": {"foo": 1}}));
    assert_eq!((answer.code, answer.status().1.as_str()), (422, "Invalid"));
    let said = answer.status().2;
    assert!(said.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{said}");
    assert!(said.ends_with("}\": strict decoding error: unknown field \"spec\""), "{said}");
    assert_eq!(answer.json()["details"]["causes"][0]["field"], "patch");
    let bad = post(&space.core("configmaps?fieldValidation=Maybe"), &json!({"metadata": {"name": "b"}}));
    let text = "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Maybe\": supported values: \"Ignore\", \"Strict\", \"Warn\"";
    assert_eq!((bad.code, bad.status().1.as_str()), (422, "Invalid"));
    assert!(bad.status().2.starts_with(&text[..text.len() - 28]), "{}", bad.body);
}

// K-WR-9
#[test]
fn creations_are_201_and_changes_200() {
    let space = Space::new("codes");
    let apply = |name: &str, body: &Value| {
        let path = space.core(&format!("configmaps/{name}?fieldManager=m"));
        request("PATCH", &path).body("application/apply-patch+yaml", body.to_string()).send().code
    };
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}});
    assert_eq!(apply("a", &body), 201);
    assert_eq!(apply("a", &body), 200);
    assert_eq!(put(&space.core("endpoints/e"), &json!({"metadata": {"name": "e"}})).code, 201);
    assert_eq!(put(&space.core("endpoints/e"), &json!({"metadata": {"name": "e"}})).code, 200);
    assert_eq!(post(&space.core("configmaps"), &json!({"metadata": {"name": "b"}})).code, 201);
}
