//! Cases of strategic merge patches on a small pod-like type.

use super::*;
use serde_json::json;
use volley_api::kube::schema::json::root;
use volley_api::kube::status::ApiError;

fn podlike() -> StructRef {
    let port = json!({"type": "object", "properties": {
        "containerPort": {"type": "integer"}, "protocol": {"type": "string"}, "name": {"type": "string"}}});
    let container = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "image": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "ports": {"type": "array", "items": port, "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "containerPort"}}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "containers": {"type": "array", "items": container, "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name"},
        "volumes": {"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "emptyDir": {"type": "object"},
                "hostPath": {"type": "object", "properties": {"path": {"type": "string"}}}}},
            "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"},
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {
            "type": {"type": "string"}, "rollingUpdate": {"type": "object", "properties": {
                "maxSurge": {"x-kubernetes-int-or-string": true}}}}},
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
    }}}});
    root(&schema, "")
}

fn patched(current: Value, patch: Value) -> Value {
    strategic(&podlike(), &current, &patch).unwrap_or_else(|error| unreachable!("{patch}: {error}"))
}

fn failure(current: Value, patch: Value) -> ApiError {
    ApiError::from(strategic(&podlike(), &current, &patch).expect_err("must fail"))
}

fn spec(name: &str, value: Value) -> Value {
    json!({"spec": {name: value}})
}

fn names(object: &Value, list: &str) -> Vec<String> {
    let items = object["spec"][list].as_array().expect("a list");
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

// K-SMP-1
#[test]
fn maps_merge_and_null_deletes() {
    let current = spec("nodeSelector", json!({"a": "1", "b": "2"}));
    let patch = spec("nodeSelector", json!({"a": null, "c": "3", "d": null}));
    assert_eq!(patched(current, patch), spec("nodeSelector", json!({"b": "2", "c": "3"})));
}

// K-SMP-1
#[test]
fn new_values_carry_neither_nulls_nor_directives() {
    let patch = spec("strategy", json!({"type": "x", "rollingUpdate": {"maxSurge": null, "$retainKeys": ["a"]}}));
    assert_eq!(patched(json!({}), patch), spec("strategy", json!({"type": "x", "rollingUpdate": {}})));
}

// K-SMP-1 K-SMP-6
#[test]
fn keyed_lists_merge_by_one_key_and_others_are_replaced() {
    let current = json!({"spec": {
        "containers": [{"name": "a", "image": "1", "args": ["x"],
            "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]}],
        "tolerations": [{"key": "old"}]}});
    let patch = json!({"spec": {
        "containers": [{"name": "a", "args": ["y", "z"], "ports": [{"containerPort": 80, "protocol": "UDP"}]}],
        "tolerations": [{"key": "new"}]}});
    let expected = json!({"spec": {
        "containers": [{"name": "a", "image": "1", "args": ["y", "z"],
            "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]}],
        "tolerations": [{"key": "new"}]}});
    assert_eq!(patched(current, patch), expected);
}

// K-SMP-1 K-SMP-2
#[test]
fn lists_of_plain_values_unite_and_shrink_by_directive() {
    let current = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["b", "c"]}});
    assert_eq!(patched(current.clone(), patch)["metadata"]["finalizers"], json!(["a", "b", "c"]));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "zz"]}});
    assert_eq!(patched(current.clone(), patch)["metadata"]["finalizers"], json!(["b"]));
    let patch = json!({"metadata": {"$setElementOrder/finalizers": ["c", "b"],
        "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}});
    assert_eq!(patched(current, patch)["metadata"]["finalizers"], json!(["c", "b"]));
}

// K-SMP-2
#[test]
fn items_and_maps_can_be_deleted_and_replaced() {
    let current = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}],
        "strategy": {"type": "x", "rollingUpdate": {"maxSurge": 1}}}});
    let without_a = patched(current.clone(), spec("containers", json!([{"name": "a", "$patch": "delete"}])));
    assert_eq!(names(&without_a, "containers"), ["b"]);
    let replaced = patched(current.clone(), spec("containers", json!([{"$patch": "replace"}, {"name": "c"}])));
    assert_eq!(replaced["spec"]["containers"], json!([{"name": "c"}]));
    let replaced = patched(current.clone(), spec("strategy", json!({"$patch": "replace", "type": "y"})));
    assert_eq!(replaced["spec"]["strategy"], json!({"type": "y"}));
    let emptied = patched(current.clone(), spec("strategy", json!({"$patch": "delete"})));
    assert_eq!(emptied["spec"]["strategy"], json!({}));
    let merged = patched(current, spec("strategy", json!({"$patch": "merge", "type": "y"})));
    assert_eq!(merged["spec"]["strategy"], json!({"type": "y", "rollingUpdate": {"maxSurge": 1}}));
}

// K-SMP-3
#[test]
fn new_items_come_before_existing_ones_without_an_order() {
    let current = spec("containers", json!([{"name": "a"}, {"name": "b"}]));
    let patch = spec("containers", json!([{"name": "new"}, {"name": "b", "image": "2"}]));
    assert_eq!(names(&patched(current, patch), "containers"), ["new", "a", "b"]);
}

// K-SMP-3
#[test]
fn the_given_order_holds_and_server_only_items_keep_their_neighbours() {
    let current = spec("containers", json!([{"name": "a"}, {"name": "side"}, {"name": "b"}, {"name": "tail"}]));
    let cases = [
        (json!(["b", "a"]), json!([]), vec!["side", "b", "a", "tail"]),
        (json!(["a", "b"]), json!([{"name": "a", "image": "2"}]), vec!["a", "side", "b", "tail"]),
        (json!(["a", "new", "b"]), json!([{"name": "new"}]), vec!["a", "new", "side", "b", "tail"]),
        (json!(["b"]), json!([{"name": "a", "$patch": "delete"}]), vec!["side", "b", "tail"]),
        (
            json!(["b", "new"]),
            json!([{"name": "new"}, {"name": "a", "$patch": "delete"}]),
            vec!["side", "b", "tail", "new"],
        ),
    ];
    for (order, list, expected) in cases {
        let order: Vec<Value> = order.as_array().expect("a list").iter().map(|name| json!({"name": name})).collect();
        let patch = json!({"spec": {"$setElementOrder/containers": order, "containers": list}});
        assert_eq!(names(&patched(current.clone(), patch.clone()), "containers"), expected, "{patch}");
    }
}

// K-SMP-3
#[test]
fn an_order_alone_sorts_what_is_there() {
    let current = spec("containers", json!([{"name": "a"}, {"name": "b"}]));
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(names(&patched(current, patch.clone()), "containers"), ["b", "a"]);
    assert_eq!(patched(json!({"spec": {}}), patch), json!({"spec": {}}));
}

// K-SMP-2 K-SMP-3
#[test]
fn kubectl_apply_sends_nested_orders() {
    let current = spec("containers", json!([{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}]));
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{
        "name": "a", "$setElementOrder/ports": [{"containerPort": 443}, {"containerPort": 80}],
        "ports": [{"containerPort": 443, "name": "tls"}]}]}});
    let ports = json!([{"containerPort": 443, "name": "tls"}, {"containerPort": 80}]);
    assert_eq!(patched(current, patch)["spec"]["containers"], json!([{"name": "a", "image": "1", "ports": ports}]));
}

// K-SMP-4
#[test]
fn retain_keys_drops_what_is_not_listed() {
    let current = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}],
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {
        "volumes": [{"name": "v", "$retainKeys": ["hostPath", "name"], "hostPath": {"path": "/x"}}],
        "strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let expected = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
        "strategy": {"type": "Recreate"}}});
    assert_eq!(patched(current, patch), expected);
}

// K-SMP-5
#[test]
fn items_without_their_key_fail_with_a_bare_500() {
    let current = spec("containers", json!([{"name": "a"}]));
    let error = failure(current, spec("containers", json!([{"image": "zzz"}])));
    assert_eq!(error, ApiError::bare("map: map[image:zzz] does not contain declared merge key: name"));
}

// K-SMP-2
#[test]
fn malformed_directives_are_refused_with_the_reference_texts() {
    let current = spec("containers", json!([{"name": "a"}]));
    let cases = [
        (
            spec("containers", json!([{"name": "a", "$patch": "x"}])),
            500,
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        (json!({"spec": {"$retainKeys": "x"}}), 400, "invalid patch format of retainKeys"),
        (json!({"spec": {"$retainKeys": ["a"], "b": 1}}), 400, "invalid patch format of retainKeys"),
        (json!({"spec": {"$setElementOrder": []}}), 400, "invalid patch format of setElementOrder list"),
        (json!({"spec": {"$deleteFromPrimitiveList": []}}), 400, "invalid patch format of primitive list"),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}),
            500,
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
    ];
    for (patch, code, message) in cases {
        let error = failure(current.clone(), patch);
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

// K-SMP-1
#[test]
fn unknown_fields_are_untyped_maps_and_replaced_lists() {
    let current = json!({"other": {"a": {"b": 1}, "l": [{"name": "x"}]}});
    let patch = json!({"other": {"a": {"c": 2}, "l": [{"name": "y"}]}});
    assert_eq!(patched(current, patch), json!({"other": {"a": {"b": 1, "c": 2}, "l": [{"name": "y"}]}}));
}
