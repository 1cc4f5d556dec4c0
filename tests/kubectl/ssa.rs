//! Server-side apply: ownership, conflicts, removal, and what managedFields say.

use crate::harness::{Space, for_some_kubectls};
use crate::http::{get, patch, post, put};
use serde_json::{Value, json};

fn config(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn apply(space: &Space, manager: &str, data: Value) -> crate::http::Answer {
    patch("apply", &space.core(&format!("configmaps/a?fieldManager={manager}")), &config(data))
}

fn entry<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().find(|entry| entry["manager"] == manager).unwrap_or(&Value::Null)
}

// K-SSA-4 K-SSA-8 K-SSA-13
#[test]
fn every_kubectl_applies_as_two_managers() {
    for_some_kubectls("managers", |space| {
        let yaml = |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {data}\n");
        let apply = |manager: &str, data: &str, more: &[&str]| {
            let flag = format!("--field-manager={manager}");
            space.run_with(&[&["apply", "--server-side", &flag, "-f", "-"], more].concat(), &yaml(data))
        };
        let said = apply("one", "{a: '1', b: '1', c: '1'}", &[]);
        assert_eq!((said.code, said.stdout.as_str()), (0, "configmap/a serverside-applied\n"), "{}", said.stderr);
        let conflict = apply("two", "{a: '2'}", &[]);
        assert_eq!(conflict.code, 1);
        let text = "error: Apply failed with 1 conflict: conflict with \"one\": .data.a\nPlease review the fields above--they currently have other managers. Here\nare the ways you can resolve this warning:\n";
        assert!(conflict.stderr.starts_with(text), "{}", conflict.stderr);
        let two = apply("two", "{a: '2', b: '2'}", &[]);
        let text = "error: Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b\n";
        assert!(two.stderr.starts_with(text), "{}", two.stderr);
        assert_eq!(apply("two", "{a: '2'}", &["--force-conflicts"]).code, 0);
        assert_eq!(apply("one", "{b: '1'}", &[]).code, 0);
        let object = space.json(&["get", "cm", "a"]);
        assert_eq!(
            object["data"],
            json!({"a": "2", "b": "1"}),
            "what one no longer applies is gone unless two owns it"
        );
        assert_eq!(object["metadata"].get("managedFields"), None);
        let shown = space.json(&["get", "cm", "a", "--show-managed-fields"]);
        assert_eq!(entry(&shown, "two")["fieldsV1"], json!({"f:data": {"f:a": {}}}));
        assert_eq!(entry(&shown, "one")["fieldsV1"], json!({"f:data": {"f:b": {}}}));
    });
}

// K-SSA-1
#[test]
fn applying_a_missing_object_creates_it() {
    let space = Space::new("create");
    let path = space.core("configmaps/a?fieldManager=m");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    let answer = patch("apply", &path, &nameless);
    assert_eq!((answer.code, &answer.json()["metadata"]["name"]), (201, &json!("a")));
    let mut with_uid = nameless;
    with_uid["metadata"] = json!({"uid": "11111111-2222-3333-4444-555555555555"});
    let answer = patch("apply", &space.core("configmaps/b?fieldManager=m"), &with_uid);
    assert_eq!((answer.code, answer.status().1.as_str()), (409, "Conflict"), "{}", answer.body);
}

// K-SSA-2 K-SSA-3
#[test]
fn ownership_is_written_down_in_managed_fields() {
    let space = Space::new("owned");
    let path = space.group("apps/v1", "deployments/d?fieldManager=m");
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"l": "1"}, "finalizers": ["x/y"]},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"nodeSelector": {"n": "1"}, "containers": [{"name": "c", "image": "i", "args": ["x"], "ports": [{"containerPort": 80}]}]}}}});
    let made = patch("apply", &path, &body).ok();
    let entry = entry(&made, "m");
    assert_eq!(
        (&entry["operation"], &entry["apiVersion"], &entry["fieldsType"]),
        (&json!("Apply"), &json!("apps/v1"), &json!("FieldsV1"))
    );
    assert!(entry["time"].as_str().unwrap().ends_with('Z') && entry.get("subresource").is_none());
    let containers = json!({"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {},
        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}});
    let fields = json!({"f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"x/y\"": {}}}, "f:spec": {"f:replicas": {}, "f:selector": {},
        "f:template": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:nodeSelector": {}, "f:containers": containers}}}});
    assert_eq!(entry["fieldsV1"], fields);
    patch("merge", &space.group("apps/v1", "deployments/d"), &json!({"metadata": {"finalizers": null}})).ok();
    let status = patch("apply", &space.group("apps/v1", "deployments/d/status?fieldManager=s"),
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"collisionCount": 1}})).ok();
    let entries = status["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|e| e["manager"] == "s").unwrap();
    assert_eq!(
        (&own["subresource"], &own["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:collisionCount": {}}}))
    );
}

// K-SSA-4
#[test]
fn equal_values_are_owned_together_and_dropped_fields_removed() {
    let space = Space::new("rules");
    apply(&space, "one", json!({"a": "1", "b": "1"})).ok();
    let both = apply(&space, "two", json!({"a": "1"})).ok();
    assert_eq!(entry(&both, "two")["fieldsV1"], json!({"f:data": {"f:a": {}}}));
    let dropped = apply(&space, "one", json!({"b": "1"})).ok();
    assert_eq!(dropped["data"], json!({"a": "1", "b": "1"}), "two still owns a");
    let gone = apply(&space, "two", json!({})).ok();
    assert_eq!(gone["data"], json!({"b": "1"}));
    assert_eq!(*entry(&gone, "two"), Value::Null, "an entry without fields is dropped");
    let refused = apply(&space, "two", json!({"b": "2"}));
    assert_eq!(refused.code, 409);
    let forced =
        patch("apply", &space.core("configmaps/a?fieldManager=two&force=true"), &config(json!({"b": "2"}))).ok();
    assert_eq!(forced["data"]["b"], "2");
    assert_eq!(*entry(&forced, "one"), Value::Null);
}

// K-SSA-5
#[test]
fn other_writes_take_ownership_of_what_they_change() {
    let space = Space::new("updates");
    apply(&space, "one", json!({"a": "1", "b": "1"})).ok();
    let path = space.core("configmaps/a?fieldManager=patcher");
    let patched = patch("merge", &path, &json!({"data": {"a": "2", "n": "3"}})).ok();
    let update = entry(&patched, "patcher");
    assert_eq!(
        (&update["operation"], &update["fieldsV1"]),
        (&json!("Update"), &json!({"f:data": {"f:a": {}, "f:n": {}}}))
    );
    assert_eq!(entry(&patched, "one")["fieldsV1"], json!({"f:data": {"f:b": {}}}));
    let removed = patch("merge", &path, &json!({"data": {"b": null}})).ok();
    assert_eq!(*entry(&removed, "one"), Value::Null, "removed fields leave all entries");
    let conflict = apply(&space, "one", json!({"a": "9"}));
    let text = "Apply failed with 1 conflict: conflict with \"patcher\" using v1: .data.a";
    assert_eq!(conflict.status(), (409, "Conflict".into(), text.into()));
    let cause = &conflict.json()["details"]["causes"][0];
    assert_eq!(
        *cause,
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"patcher\" using v1", "field": ".data.a"})
    );
}

// K-SSA-6
#[test]
fn identity_and_bookkeeping_are_nobodys() {
    let space = Space::new("untracked");
    let made = post(&space.core("configmaps?fieldManager=m"), &config(json!({"a": "1"}))).ok();
    assert_eq!(entry(&made, "m")["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
    let pvc = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "9"}}});
    let made = patch("apply", &space.core("resourcequotas/q?fieldManager=m"), &pvc).ok();
    assert_eq!(entry(&made, "m")["fieldsV1"], json!({"f:spec": {"f:hard": {"f:pods": {}}}}));
}

// K-SSA-7
#[test]
fn defaults_belong_to_writers_but_not_to_appliers() {
    let space = Space::new("defaults");
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let written = post(&space.group("apps/v1", "deployments?fieldManager=w&dryRun=All"), &body).ok();
    let spec = &entry(&written, "w")["fieldsV1"]["f:spec"];
    for field in ["f:replicas", "f:strategy", "f:progressDeadlineSeconds", "f:revisionHistoryLimit"] {
        assert!(spec.get(field).is_some(), "{field} in {spec}");
    }
    let applied = patch("apply", &space.group("apps/v1", "deployments/d?fieldManager=a&dryRun=All"), &body).ok();
    let spec = &entry(&applied, "a")["fieldsV1"]["f:spec"];
    assert_eq!(spec.as_object().unwrap().keys().collect::<Vec<_>>(), ["f:selector", "f:template"]);
    assert_eq!(applied["spec"]["replicas"], 1);
}

// K-SSA-9
#[test]
fn apply_errors_say_what_is_wrong() {
    let space = Space::new("errors");
    let path = |query: &str| space.core(&format!("configmaps/a{query}"));
    let text = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    assert_eq!(patch("apply", &path(""), &config(json!({}))).status(), (422, "Invalid".into(), text.into()));
    let mut wrong = config(json!({}));
    wrong["kind"] = "Secret".into();
    let answer = patch("apply", &path("?fieldManager=m"), &wrong);
    assert_eq!(answer.status(), (400, "BadRequest".into(), "invalid object type: /v1, Kind=Secret".into()));
    let mut unknown = config(json!({}));
    unknown["foo"] = 1.into();
    let answer = patch("apply", &path("?fieldManager=m"), &unknown);
    let text = format!(
        "failed to create typed patch object ({}/a; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        space.name
    );
    assert_eq!((answer.code, answer.json()["message"].as_str()), (500, Some(text.as_str())));
    let mut managed = config(json!({}));
    managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let answer = patch("apply", &path("?fieldManager=m"), &managed);
    assert_eq!(answer.status(), (400, "BadRequest".into(), "metadata.managedFields must be nil".into()));
    apply(&space, "m", json!({"k": "1"})).ok();
    let mut stale = config(json!({"k": "2"}));
    stale["metadata"]["resourceVersion"] = "1".into();
    let answer = patch("apply", &path("?fieldManager=m"), &stale);
    assert_eq!((answer.code, answer.status().1.as_str()), (409, "Conflict"));
}

// K-SSA-10
#[test]
fn applying_the_same_again_changes_nothing() {
    let space = Space::new("again");
    let first = apply(&space, "m", json!({"a": "1"})).ok();
    assert_eq!(apply(&space, "m", json!({"a": "1"})).ok(), first);
}

// K-SSA-2
#[test]
fn managed_fields_can_be_cleared() {
    let space = Space::new("cleared");
    let made = apply(&space, "m", json!({"a": "1"})).ok();
    patch("merge", &space.core("configmaps/a?fieldManager=p"), &json!({"data": {"a": "2"}})).ok();
    let stale = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}]);
    assert_eq!(patch("json", &space.core("configmaps/a"), &stale).code, 409);
    let cleared = patch(
        "json",
        &space.core("configmaps/a"),
        &json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]),
    )
    .ok();
    assert_eq!(cleared["metadata"].get("managedFields"), None);
    let mut object = get(&space.core("configmaps/a")).ok();
    object["data"]["b"] = "2".into();
    assert_eq!(put(&space.core("configmaps/a?fieldManager=p"), &object).code, 200);
}

#[test]
fn every_kubectl_moves_from_client_side_to_server_side_apply() {
    for_some_kubectls("migrate", |space| {
        let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v, gone: x}\n";
        space.apply(yaml);
        let said = space.run_with(&["apply", "--server-side", "-f", "-"], &yaml.replace(", gone: x", ""));
        assert_eq!((said.code, said.stdout.as_str()), (0, "configmap/a serverside-applied\n"), "{}", said.stderr);
        assert_eq!(space.json(&["get", "cm", "a"])["data"], json!({"k": "v"}));
    });
}

// K-CRD-5
#[test]
fn a_large_crd_is_applied_server_side() {
    let space = Space::new("large");
    let group = format!("{}.example.com", space.name);
    let long = "words about a field ".repeat(25);
    let properties: Vec<String> =
        (0..1000).map(|i| format!("                field{i}: {{type: string, description: '{long}'}}\n")).collect();
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: larges.{group}}}\nspec:\n  group: {group}\n  scope: Namespaced\n  names: {{plural: larges, kind: Large}}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            properties:\n{}",
        properties.concat()
    );
    assert!(crd.len() > 500 * 1024);
    let said = space.ok_with(&["apply", "--server-side", "-f", "-"], &crd);
    assert_eq!(said, format!("customresourcedefinition.apiextensions.k8s.io/larges.{group} serverside-applied\n"));
    let said = space.fails_with(&["apply", "-f", "-"], &crd);
    assert!(said.contains("metadata.annotations: Too long: may not be more than 262144 bytes"), "{said}");
    space.ok(&["delete", "crd", &format!("larges.{group}")]);
}
