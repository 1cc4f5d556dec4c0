//! The three kinds of patch, from kubectl and on the wire.

use crate::harness::{Space, for_some_kubectls};
use crate::http::{get, patch, post, request};
use serde_json::{Value, json};

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "x", "image": "i:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "z", "image": "i:1"}], "volumes": [{"name": "v", "emptyDir": {}}]}}}})
}

fn made(space: &Space) -> String {
    assert_eq!(post(&space.group("apps/v1", "deployments"), &deployment()).code, 201);
    space.group("apps/v1", "deployments/d")
}

fn pod_spec(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

fn template(patch: Value) -> Value {
    json!({"spec": {"template": {"spec": patch}}})
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

// K-PATCH-2 K-SMP-2
#[test]
fn every_kubectl_patches_in_three_ways() {
    for_some_kubectls("three", |space| {
        made(space);
        let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"z","$patch":"delete"}]}}}}"#;
        assert_eq!(space.ok(&["patch", "deploy", "d", "-p", strategic]), "deployment.apps/d patched\n");
        let merge = r#"{"metadata":{"labels":{"l":"1","gone":null}}}"#;
        assert_eq!(space.ok(&["patch", "deploy", "d", "--type=merge", "-p", merge]), "deployment.apps/d patched\n");
        let json = r#"[{"op":"test","path":"/metadata/labels/l","value":"1"},{"op":"add","path":"/metadata/labels/m","value":"2"},{"op":"remove","path":"/metadata/labels/l"}]"#;
        assert_eq!(space.ok(&["patch", "deploy", "d", "--type=json", "-p", json]), "deployment.apps/d patched\n");
        let object = space.json(&["get", "deploy", "d"]);
        assert_eq!(object["metadata"]["labels"], json!({"m": "2"}));
        assert_eq!(names(&pod_spec(&object)["containers"]), ["x"]);
        let failing = r#"[{"op":"test","path":"/metadata/labels/m","value":"other"}]"#;
        let said = space.fails(&["patch", "deploy", "d", "--type=json", "-p", failing]);
        assert_eq!(said, "The request is invalid: the server rejected our request due to an error in our request\n");
        assert_eq!(space.ok(&["patch", "deploy", "d", "-p", "{}"]), "deployment.apps/d patched (no change)\n");
        let missing = space.fails(&["patch", "deploy", "nope", "-p", "{}"]);
        assert_eq!(missing, "Error from server (NotFound): deployments.apps \"nope\" not found\n");
    });
}

// K-PATCH-2
#[test]
fn json_patches_know_all_six_operations() {
    let space = Space::new("six");
    let body = json!({"metadata": {"name": "a", "finalizers": ["x/1"]}, "data": {"a": "1", "b": "2"}});
    post(&space.core("configmaps"), &body).ok();
    let path = space.core("configmaps/a");
    let operations = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x/2"},
        {"op": "replace", "path": "/data/a", "value": "9"},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
        {"op": "move", "from": "/data/b", "path": "/data/d"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    let object = patch("json", &path, &operations).ok();
    assert_eq!(object["data"], json!({"a": "9", "c": "9", "d": "2"}));
    assert_eq!(object["metadata"]["finalizers"], json!(["x/2"]));
    let text = "the server rejected our request due to an error in our request";
    for operation in [
        json!([{"op": "test", "path": "/data/a", "value": "0"}]),
        json!([{"op": "remove", "path": "/data/nope"}]),
        json!([{"op": "replace", "path": "/data/nope", "value": "1"}]),
        json!([{"op": "add", "path": "/nope/deep/path", "value": 1}]),
    ] {
        assert_eq!(patch("json", &path, &operation).status(), (422, "Invalid".into(), text.into()), "{operation}");
    }
    let wrong = patch("json", &path, &json!({"data": {}}));
    assert_eq!((wrong.code, wrong.status().1.as_str()), (400, "BadRequest"));
    patch("merge", &path, &json!({"metadata": {"finalizers": null}})).ok();
}

// K-PATCH-2
#[test]
fn merge_patches_delete_with_null_and_replace_lists() {
    let space = Space::new("merge");
    let path = made(&space);
    let patched =
        patch("merge", &path, &template(json!({"containers": [{"name": "n", "image": "i"}], "volumes": null}))).ok();
    assert_eq!(names(&pod_spec(&patched)["containers"]), ["n"]);
    assert_eq!(pod_spec(&patched).get("volumes"), None);
}

// K-PATCH-1
#[test]
fn a_patch_that_names_a_version_fails_when_it_is_stale() {
    let space = Space::new("pinned");
    let path = made(&space);
    let old = get(&path).ok()["metadata"]["resourceVersion"].clone();
    patch("merge", &path, &json!({"metadata": {"labels": {"x": "1"}}})).ok();
    for form in ["merge", "strategic"] {
        let answer = patch(form, &path, &json!({"metadata": {"resourceVersion": old, "labels": {"x": "2"}}}));
        assert_eq!((answer.code, answer.status().1.as_str()), (409, "Conflict"), "{form}");
    }
    let invalid = patch("merge", &path, &json!({"spec": {"replicas": -1}}));
    let text = "Deployment.apps \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(invalid.status(), (422, "Invalid".into(), text.into()), "the result is validated");
}

// K-PATCH-4 K-PATCH-5
#[test]
fn force_and_missing_objects_are_refused() {
    let space = Space::new("refused");
    made(&space);
    let answer = patch("merge", &space.group("apps/v1", "deployments/d?force=true"), &json!({}));
    let text = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
    assert_eq!(answer.status(), (422, "Invalid".into(), text.into()));
    for form in ["merge", "strategic"] {
        let answer = patch(form, &space.group("apps/v1", "deployments/nope"), &json!({}));
        assert_eq!(answer.status(), (404, "NotFound".into(), "deployments.apps \"nope\" not found".into()));
    }
    assert_eq!(patch("json", &space.group("apps/v1", "deployments/nope"), &json!([])).code, 404);
}

// K-PATCH-6
#[test]
fn status_and_scale_take_patches() {
    let space = Space::new("subresources");
    let path = made(&space);
    let body = json!({"spec": {"minReadySeconds": 9}, "status": {"conditions": [{"type": "Odd", "status": "True"}]}});
    let status = patch("strategic", &format!("{path}/status"), &body).ok();
    assert!(status["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == "Odd"), "{status}");
    assert_eq!(status["spec"].get("minReadySeconds"), None);
    let scale = patch("merge", &format!("{path}/scale"), &json!({"spec": {"replicas": 2}})).ok();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    assert_eq!(get(&path).ok()["spec"]["replicas"], 2);
    patch("merge", &format!("{path}/scale"), &json!({"spec": {"replicas": 0}})).ok();
}

// K-SMP-1
#[test]
fn strategic_patches_merge_keyed_lists_and_unite_values() {
    let space = Space::new("keyed");
    let path = made(&space);
    let env = json!({"containers": [{"name": "x", "image": "i:2", "env": [{"name": "A", "value": "9"}, {"name": "C", "value": "3"}]}]});
    let patched = patch("strategic", &path, &template(env)).ok();
    let containers = &pod_spec(&patched)["containers"];
    assert_eq!(names(containers), ["x", "z"]);
    assert_eq!(containers[0]["image"], "i:2");
    let pairs: Vec<String> = containers[0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| format!("{}={}", e["name"].as_str().unwrap(), e["value"].as_str().unwrap()))
        .collect();
    assert_eq!(pairs, ["A=9", "C=3", "B=2"], "what is new comes before what only the server has");
    let nulls = patch("strategic", &path, &template(json!({"containers": [{"name": "x", "env": null}]}))).ok();
    assert_eq!(pod_spec(&nulls)["containers"][0].get("env"), None);
    let finalizers = |list: Value| {
        let patched = patch("strategic", &path, &json!({"metadata": {"finalizers": list}})).ok();
        patched["metadata"]["finalizers"].clone()
    };
    finalizers(json!(["x/a"]));
    let both = finalizers(json!(["x/b"]));
    assert_eq!(both.as_array().unwrap().len(), 2, "{both}");
    patch("merge", &path, &json!({"metadata": {"finalizers": null}})).ok();
}

// K-SMP-2
#[test]
fn strategic_directives_delete_replace_and_order() {
    let space = Space::new("directives");
    let path = made(&space);
    let deleted = patch(
        "strategic",
        &path,
        &template(json!({"containers": [{"name": "x", "env": [{"name": "A", "$patch": "delete"}]}]})),
    )
    .ok();
    assert_eq!(names(&pod_spec(&deleted)["containers"][0]["env"]), ["B"]);
    let replaced = patch(
        "strategic",
        &path,
        &template(json!({"containers": [{"name": "only", "image": "i"}, {"$patch": "replace"}]})),
    )
    .ok();
    assert_eq!(names(&pod_spec(&replaced)["containers"]), ["only"]);
    patch("merge", &path, &json!({"metadata": {"finalizers": ["x/a", "x/b"]}})).ok();
    let primitive =
        patch("strategic", &path, &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}})).ok();
    assert_eq!(primitive["metadata"]["finalizers"], json!(["x/b"]));
    patch("merge", &path, &json!({"metadata": {"finalizers": null, "labels": {"p": "1", "q": "2"}}})).ok();
    let map = patch("strategic", &path, &json!({"metadata": {"labels": {"$patch": "replace", "r": "3"}}})).ok();
    assert_eq!(map["metadata"]["labels"], json!({"r": "3"}));
}

// K-SMP-3
#[test]
fn set_element_order_places_items() {
    let space = Space::new("order");
    let path = made(&space);
    let ordered = json!({"$setElementOrder/containers": [{"name": "z"}, {"name": "n"}, {"name": "x"}], "containers": [{"name": "n", "image": "i"}]});
    let patched = patch("strategic", &path, &template(ordered)).ok();
    assert_eq!(names(&pod_spec(&patched)["containers"]), ["z", "n", "x"]);
    let unordered = patch("strategic", &path, &template(json!({"containers": [{"name": "first", "image": "i"}]}))).ok();
    assert_eq!(names(&pod_spec(&unordered)["containers"]), ["first", "z", "n", "x"]);
}

// K-SMP-4
#[test]
fn retain_keys_drops_the_other_volume_source() {
    let space = Space::new("retain");
    let path = made(&space);
    let volume = json!({"volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}}]});
    let patched = patch("strategic", &path, &template(volume)).ok();
    assert_eq!(pod_spec(&patched)["volumes"], json!([{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]));
    let strategy =
        patch("strategic", &path, &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})).ok();
    assert_eq!(strategy["spec"]["strategy"], json!({"type": "Recreate"}));
}

// K-SMP-5
#[test]
fn an_item_without_its_merge_key_is_an_error() {
    let space = Space::new("keyless");
    let path = made(&space);
    let answer = patch("strategic", &path, &template(json!({"containers": [{"image": "zzz"}]})));
    assert_eq!(answer.code, 500, "{}", answer.body);
    assert_eq!(answer.json()["message"], "map: map[image:zzz] does not contain declared merge key: name");
}

// K-SMP-6
#[test]
fn service_ports_meet_by_port_number_alone() {
    let space = Space::new("ports");
    let body =
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
    post(&space.core("services"), &body).ok();
    let patched =
        patch("strategic", &space.core("services/s"), &json!({"spec": {"ports": [{"port": 81, "targetPort": 8081}]}}))
            .ok();
    let ports = patched["spec"]["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 2);
    assert_eq!((&ports[1]["name"], &ports[1]["targetPort"]), (&json!("b"), &json!(8081)));
}

// K-SMP-2
#[test]
fn set_commands_patch_what_they_name() {
    for_some_kubectls("set", |space| {
        made(space);
        assert_eq!(space.ok(&["set", "image", "deploy/d", "x=i:5"]), "deployment.apps/d image updated\n");
        assert_eq!(space.ok(&["set", "env", "deploy/d", "-c", "x", "A-", "N=1"]), "deployment.apps/d env updated\n");
        assert_eq!(
            space.ok(&["set", "resources", "deploy/d", "-c", "x", "--limits=cpu=1"]),
            "deployment.apps/d resource requirements updated\n"
        );
        assert_eq!(
            space.ok(&["set", "serviceaccount", "deploy/d", "robot"]),
            "deployment.apps/d serviceaccount updated\n"
        );
        let object = space.json(&["get", "deploy", "d"]);
        let x = &pod_spec(&object)["containers"][0];
        assert_eq!(x["image"], "i:5");
        assert_eq!(names(&x["env"]), ["B", "N"]);
        assert_eq!(x["resources"], json!({"limits": {"cpu": "1"}}));
        assert_eq!(pod_spec(&object)["serviceAccountName"], "robot");
    });
}

// K-PATCH-3
#[test]
fn strategic_patches_are_for_built_in_kinds() {
    let space = Space::new("custom");
    let path = space.group("apps/v1", "deployments");
    post(&path, &deployment()).ok();
    // Custom kinds are in the file about them; here: built-in kinds take all four.
    for (media, body) in [
        ("application/json-patch+json", "[]"),
        ("application/merge-patch+json", "{}"),
        ("application/strategic-merge-patch+json", "{}"),
        ("application/strategic-merge-patch+json; charset=utf-8", "{}"),
    ] {
        let answer = request("PATCH", &format!("{path}/d")).body(media, body).send();
        assert_eq!(answer.code, 200, "{media}: {}", answer.body);
    }
}
