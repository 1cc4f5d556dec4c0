//! Cases of ownership by update and by apply, on a small workload type and on a config map.

use super::*;
use crate::object::apply::apply;
use serde_json::json;
use volley_api::kube::schema::{Field, Proto, Scalar, Shape, Struct, json::root};
use volley_api::kube::status::ApiError;

fn config_map() -> StructRef {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    root(&json!({"type": "object", "properties": {"data": texts, "immutable": {"type": "boolean"}}}), "")
}

fn workload() -> StructRef {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let port = json!({"type": "object", "properties": {"containerPort": {"type": "integer"},
        "name": {"type": "string"}, "protocol": {"type": "string", "default": "TCP"}}});
    let container = json!({"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}},
        "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"]}}});
    root(
        &json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "paused": {"type": "boolean"},
            "strategy": {"type": "object", "properties": {"type": {"type": "string"}, "surge": {"type": "integer"}}},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "labels": texts,
            "containers": {"type": "array", "items": container, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"]}}},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}}}),
        "",
    )
}

fn manager(name: &str, second: i64) -> Manager<'_> {
    Manager {
        name,
        api_version: "v1",
        subresource: None,
        tracked: Tracked::ExceptStatus,
        now: Timestamp::from_second(1_700_000_000 + second).expect("in range"),
    }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec})
}

fn data(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data})
}

fn entry_of<'a>(object: &'a Value, name: &str) -> &'a Value {
    let list = object["metadata"]["managedFields"].as_array().expect("tracked");
    list.iter().find(|entry| entry["manager"] == name).unwrap_or_else(|| unreachable!("no entry of {name} in {object}"))
}

fn fields_of<'a>(object: &'a Value, name: &str) -> &'a Value {
    &entry_of(object, name)["fieldsV1"]
}

fn managers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["managedFields"].as_array();
    list.map_or(Vec::new(), |list| list.iter().map(|entry| entry["manager"].as_str().expect("a name")).collect())
}

fn create(shape: &StructRef, mut new: Value, who: &Manager<'_>) -> Value {
    updated(shape, None, &mut new, who);
    new
}

fn update(shape: &StructRef, old: &Value, mut new: Value, who: &Manager<'_>) -> Value {
    updated(shape, Some(old), &mut new, who);
    new
}

// K-SSA-2 K-SSA-3 K-SSA-5 K-SSA-6
#[test]
fn a_created_object_belongs_to_its_creator() {
    let mut new = data(json!({"a": "1"}));
    new["metadata"]["labels"] = json!({"x": "y"});
    new["metadata"]["uid"] = json!("u");
    new["metadata"]["finalizers"] = json!(["keep"]);
    new["metadata"]["ownerReferences"] = json!([{"uid": "o", "kind": "K", "name": "n", "apiVersion": "v1"}]);
    let new = create(&config_map(), new, &manager("me", 0));
    let expected = json!([{
        "manager": "me", "operation": "Update", "apiVersion": "v1", "time": "2023-11-14T22:13:20Z",
        "fieldsType": "FieldsV1", "fieldsV1": {
            "f:data": {".": {}, "f:a": {}},
            "f:metadata": {
                "f:finalizers": {".": {}, "v:\"keep\"": {}},
                "f:labels": {".": {}, "f:x": {}},
                "f:ownerReferences": {".": {}, "k:{\"uid\":\"o\"}": {}}}}}]);
    assert_eq!(new["metadata"]["managedFields"], expected);
}

// K-SSA-3 K-SSA-7
#[test]
fn an_updater_owns_every_leaf_and_every_container() {
    let spec = json!({"replicas": 1, "selector": {"a": "b"}, "containers": [
        {"name": "c", "args": ["x"], "ports": [{"containerPort": 80}]}]});
    let new = create(&workload(), object(spec), &manager("me", 0));
    let expected = json!({"f:spec": {".": {}, "f:replicas": {}, "f:selector": {}, "f:containers": {".": {},
        "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:args": {}, "f:ports": {".": {},
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}});
    assert_eq!(*fields_of(&new, "me"), expected);
}

// K-SSA-3
#[test]
fn containers_that_a_built_in_type_always_has_are_not_owned() {
    let proto = |pointer| Some(Proto { number: 1, pointer, via: [0, 0], union: None });
    let field = |name: &str, shape: Shape, pointer| Field {
        name: name.into(),
        shape,
        required: false,
        key_default: None,
        proto: proto(pointer),
    };
    let structure =
        |fields| Shape::Struct(StructRef::Custom(std::sync::Arc::new(Struct { fields, ..Struct::default() })));
    let number = || Shape::Scalar(Scalar::Int32);
    let strategy = structure(vec![field("rollingUpdate", structure(vec![field("surge", number(), true)]), true)]);
    let spec = structure(vec![field("replicas", number(), true), field("strategy", strategy, false)]);
    let Shape::Struct(top) = structure(vec![field("spec", spec, false)]) else { unreachable!("a struct") };
    let new =
        create(&top, json!({"spec": {"replicas": 1, "strategy": {"rollingUpdate": {"surge": 1}}}}), &manager("me", 0));
    let expected = json!({"f:spec": {"f:replicas": {}, "f:strategy": {"f:rollingUpdate": {".": {}, "f:surge": {}}}}});
    assert_eq!(*fields_of(&new, "me"), expected);
}

// K-SSA-5 K-SSA-12
#[test]
fn changed_fields_move_to_the_writer_and_removed_ones_leave_all() {
    let shape = config_map();
    let old = create(&shape, data(json!({"a": "1", "b": "1", "c": "1"})), &manager("one", 0));
    let mut new = old.clone();
    new["data"] = json!({"a": "2", "b": "1", "d": "1"});
    let new = update(&shape, &old, new, &manager("two", 5));
    assert_eq!(*fields_of(&new, "one"), json!({"f:data": {".": {}, "f:b": {}}}));
    assert_eq!(*fields_of(&new, "two"), json!({"f:data": {"f:a": {}, "f:d": {}}}));
    assert_eq!(entry_of(&new, "one")["time"], "2023-11-14T22:13:20Z");
    assert_eq!(entry_of(&new, "two")["time"], "2023-11-14T22:13:25Z");
    let again = update(&shape, &new, new.clone(), &manager("two", 9));
    assert_eq!(again, new, "nothing changed, so no time changes");
}

// K-SSA-5
#[test]
fn an_entry_that_lost_all_fields_is_dropped() {
    let shape = config_map();
    let mut first = data(json!({}));
    first["immutable"] = json!(true);
    let old = create(&shape, first, &manager("one", 0));
    let mut new = old.clone();
    new["immutable"] = json!(false);
    new.as_object_mut().expect("an object").remove("data");
    assert_eq!(managers(&update(&shape, &old, new, &manager("two", 1))), ["two"]);
}

// K-SSA-5
#[test]
fn reordering_and_duplicates_of_keyed_items_are_understood() {
    let shape = workload();
    let spec = |env: Value| object(json!({"containers": [{"name": "c", "env": env}]}));
    let old =
        create(&shape, spec(json!([{"name": "a", "value": "1"}, {"name": "b", "value": "1"}])), &manager("one", 0));
    let env = |object: &Value, who: &str| {
        fields_of(object, who)["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:env"].clone()
    };
    let mut moved = spec(json!([{"name": "b", "value": "1"}, {"name": "a", "value": "1"}]));
    moved["metadata"] = old["metadata"].clone();
    assert_eq!(managers(&update(&shape, &old, moved, &manager("two", 1))), ["one"]);
    let mut doubled =
        spec(json!([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}, {"name": "b", "value": "1"}]));
    doubled["metadata"] = old["metadata"].clone();
    let doubled = update(&shape, &old, doubled, &manager("two", 1));
    assert_eq!(env(&doubled, "two"), json!({"k:{\"name\":\"a\"}": {}}));
}

// K-SSA-6 K-WR-5
#[test]
fn status_and_the_rest_are_tracked_apart() {
    let shape = workload();
    let mut new = object(json!({"replicas": 1}));
    new["status"] = json!({"ready": 0});
    let old = create(&shape, new, &manager("user", 0));
    assert_eq!(fields_of(&old, "user").get("f:status"), None);
    let mut new = old.clone();
    new["status"] = json!({"ready": 1});
    new["spec"]["replicas"] = json!(7);
    new["metadata"]["annotations"] = json!({"a": "b"});
    new["metadata"]["labels"] = json!({"a": "b"});
    let status = Manager {
        subresource: Some("status"),
        tracked: Tracked::Status { metadata: &["annotations"] },
        ..manager("controller", 1)
    };
    let new = update(&shape, &old, new, &status);
    let expected = json!({"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}, "f:status": {"f:ready": {}}});
    assert_eq!(*fields_of(&new, "controller"), expected);
    assert_eq!(entry_of(&new, "controller")["subresource"], "status");
    assert_eq!(*fields_of(&new, "user"), *fields_of(&old, "user"));
}

// K-SSA-11
#[test]
fn sent_managed_fields_count_if_they_can_be_read() {
    let shape = config_map();
    let old = create(&shape, data(json!({"a": "1"})), &manager("one", 0));
    let with = |managed: Value| {
        let mut new = old.clone();
        new["metadata"]["managedFields"] = managed;
        update(&shape, &old, new, &manager("two", 1))
    };
    for reset in [json!([{}]), json!([])] {
        assert_eq!(managers(&with(reset)), Vec::<&str>::new());
    }
    for unreadable in [
        Value::Null,
        json!("x"),
        json!([{"manager": "x"}]),
        json!([{"manager": "x", "operation": "Update",
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"nonsense": {}}}]),
    ] {
        assert_eq!(managers(&with(unreadable)), ["one"]);
    }
    let mut renamed = old["metadata"]["managedFields"].clone();
    renamed[0]["manager"] = json!("other");
    assert_eq!(managers(&with(renamed)), ["other"]);
    let cleared = with(json!([{}]));
    let mut later = cleared.clone();
    later["data"]["b"] = json!("2");
    assert_eq!(managers(&update(&shape, &cleared, later, &manager("two", 2))), Vec::<&str>::new());
}

// K-SSA-12
#[test]
fn appliers_come_first_then_the_oldest() {
    let shape = config_map();
    let first = create(&shape, data(json!({"a": "1"})), &manager("z", 5));
    let applied = apply(&shape, Some(&first), &data(json!({"b": "1"})), &manager("m", 9), false).expect("no conflict");
    let mut new = applied.clone();
    new["data"]["c"] = json!("1");
    assert_eq!(managers(&update(&shape, &applied, new, &manager("a", 7))), ["m", "z", "a"]);
}

// K-SSA-12
#[test]
fn the_oldest_updaters_are_merged_when_there_are_too_many() {
    let shape = config_map();
    let mut now = create(&shape, data(json!({})), &manager("m00", 0));
    for number in 1..=14 {
        let mut next = now.clone();
        next["data"][format!("k{number:02}")] = json!("1");
        now = update(&shape, &now, next, &manager(&format!("m{number:02}"), number));
    }
    assert_eq!(managers(&now).len(), UPDATERS_MAX);
    assert_eq!(managers(&now)[..2], ["ancient-changes", "m06"]);
    assert!(fields_of(&now, "ancient-changes")["f:data"].get("f:k03").is_some());
}

// K-SSA-3 K-SSA-7
#[test]
fn an_applier_owns_what_it_applied_and_completed_keys() {
    let config = object(json!({"replicas": 1, "labels": {"a": "b"}, "strategy": {}, "selector": {"x": "y"},
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}));
    let new = apply(&workload(), None, &config, &manager("me", 0), false).expect("nobody else");
    let expected = json!({"f:spec": {"f:replicas": {}, "f:labels": {"f:a": {}}, "f:strategy": {}, "f:selector": {},
        "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}});
    assert_eq!(*fields_of(&new, "me"), expected);
    assert_eq!(entry_of(&new, "me")["operation"], "Apply");
    assert_eq!(new["spec"], config["spec"]);
}

// K-SSA-7 K-SSA-10
#[test]
fn defaults_after_an_apply_stay_unowned_and_survive_the_next_one() {
    let shape = workload();
    let config = object(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}));
    let mut stored = apply(&shape, None, &config, &manager("me", 0), false).expect("nobody else");
    stored["spec"]["replicas"] = json!(1);
    stored["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    let again = apply(&shape, Some(&stored), &config, &manager("me", 60), false).expect("no conflict");
    assert_eq!(again, stored);
}

// K-SSA-4 K-SSA-8
#[test]
fn taking_fields_of_others_is_a_conflict_unless_forced() {
    let shape = config_map();
    let live =
        apply(&shape, None, &data(json!({"a": "1", "b": "1", "c": "1"})), &manager("one", 0), false).expect("new");
    let config = data(json!({"a": "2", "b": "2", "c": "1"}));
    let error = apply(&shape, Some(&live), &config, &manager("two", 1), false).expect_err("two fields are taken");
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409, "reason": "Conflict",
        "message": "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b",
        "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.a"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.b"}]}});
    assert_eq!(ApiError::from(error).to_status(), expected);
    let forced = apply(&shape, Some(&live), &config, &manager("two", 1), true).expect("forced");
    assert_eq!(forced["data"], config["data"]);
    assert_eq!(*fields_of(&forced, "one"), json!({"f:data": {"f:c": {}}}));
    assert_eq!(*fields_of(&forced, "two"), json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}));
}

// K-SSA-8
#[test]
fn conflict_messages_name_updaters_and_subresources() {
    let shape = workload();
    let scaler = Manager { subresource: Some("scale"), ..manager("scaler", 0) };
    let live = create(&shape, object(json!({"replicas": 1})), &scaler);
    let error =
        apply(&shape, Some(&live), &object(json!({"replicas": 2})), &manager("me", 1), false).expect_err("taken");
    let expected =
        "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using v1: .spec.replicas";
    assert_eq!(error.to_string(), expected);
    let live =
        create(&shape, object(json!({"containers": [{"name": "c", "image": "1"}]})), &manager("kubectl-edit", 0));
    let config = object(json!({"containers": [{"name": "c", "image": "2"}]}));
    let error = apply(&shape, Some(&live), &config, &manager("me", 1), false).expect_err("taken");
    let expected =
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using v1: .spec.containers[name=\"c\"].image";
    assert_eq!(error.to_string(), expected);
}

// K-SSA-4
#[test]
fn fields_that_leave_the_configuration_leave_the_object_unless_shared() {
    let shape = workload();
    let apply = |live: Option<&Value>, spec: Value, who: &str| {
        apply(&shape, live, &object(spec), &manager(who, 0), false).expect("no conflict")
    };
    let live = apply(
        None,
        json!({"replicas": 1, "strategy": {"type": "x"}, "containers": [{"name": "a"}, {"name": "b"}]}),
        "one",
    );
    let mut defaulted = live.clone();
    defaulted["spec"]["strategy"]["surge"] = json!(1);
    let shared = apply(Some(&defaulted), json!({"replicas": 1, "containers": [{"name": "b"}]}), "two");
    let nothing = json!({"apiVersion": "v1", "kind": "Workload", "metadata": {"name": "w"}});
    let after =
        crate::object::apply::apply(&shape, Some(&shared), &nothing, &manager("one", 0), false).expect("no conflict");
    assert_eq!(after["spec"], json!({"replicas": 1, "containers": [{"name": "b"}]}));
    assert_eq!(managers(&after), ["two"]);
}

// K-SSA-4
#[test]
fn a_container_can_be_emptied_and_stay() {
    let shape = workload();
    let live = apply(&shape, None, &object(json!({"strategy": {"type": "x"}})), &manager("me", 0), false).expect("new");
    let after = apply(&shape, Some(&live), &object(json!({"strategy": {}})), &manager("me", 1), false).expect("own");
    assert_eq!(after["spec"], json!({"strategy": {}}));
}

// K-SSA-4
#[test]
fn applied_items_keep_their_order_among_the_live_ones() {
    let shape = workload();
    let cases = [
        (json!(["a", "b"]), json!(["b", "c"]), json!(["a", "b", "c"])),
        (json!(["a", "b", "c"]), json!(["c", "a"]), json!(["b", "c", "a"])),
        (json!(["a", "x", "b"]), json!(["a", "b", "new"]), json!(["a", "x", "b", "new"])),
        (json!(["a"]), json!(["new", "a"]), json!(["new", "a"])),
    ];
    let list = |names: &Value| {
        let names = names.as_array().expect("a list").iter();
        object(json!({"containers": names.map(|name| json!({"name": name})).collect::<Vec<_>>()}))
    };
    for (live, config, expected) in cases {
        let stored = create(&shape, list(&live), &manager("one", 0));
        let merged = apply(&shape, Some(&stored), &list(&config), &manager("two", 1), false).expect("same values");
        assert_eq!(merged["spec"], list(&expected)["spec"], "{live} with {config}");
    }
}

// K-SSA-2
#[test]
fn what_was_there_before_tracking_has_one_owner() {
    let shape = config_map();
    let live = data(json!({"a": "1", "b": "1"}));
    let after = apply(&shape, Some(&live), &data(json!({"b": "1"})), &manager("me", 0), false).expect("same value");
    assert_eq!(managers(&after), ["me", "before-first-apply"]);
    assert_eq!(*fields_of(&after, "before-first-apply"), json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
}

// K-SSA-9
#[test]
fn configurations_that_do_not_fit_the_schema_are_refused() {
    let fails = |config: &Value| {
        let error = apply(&workload(), None, config, &manager("me", 0), false).expect_err("does not fit");
        ApiError::from(error)
    };
    let mut config = object(json!({}));
    config["foo"] = json!(1);
    config["metadata"]["namespace"] = json!("n");
    let expected = "failed to create typed patch object (n/w; /v1, Kind=Workload): .foo: field not declared in schema";
    assert_eq!(fails(&config), ApiError::bare(expected));
    let cases = [
        (json!({"replicas": "3"}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"containers": [{"name": "a", "x": 1}]}),
            ".spec.containers[name=\"a\"].x: field not declared in schema",
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (json!({"containers": {}}), ".spec.containers: expected list, got &{{}}"),
        (
            json!({"paused": 1, "replicas": true}),
            "errors:\n  .spec.paused: expected boolean, got &{1}\n  .spec.replicas: expected numeric (int or float), got bool",
        ),
    ];
    for (spec, text) in cases {
        let message = fails(&object(spec)).message;
        assert_eq!(message, format!("failed to create typed patch object (/w; /v1, Kind=Workload): {text}"));
    }
    let mut config = object(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    assert_eq!(fails(&config), ApiError::bad_request("metadata.managedFields must be nil"));
}

// K-SSA-6
#[test]
fn apply_writes_only_the_endpoint_s_part() {
    let shape = workload();
    let mut live = create(&shape, object(json!({"replicas": 1})), &manager("user", 0));
    live["metadata"]["creationTimestamp"] = json!("2023-11-14T22:13:20Z");
    let mut config = object(json!({"replicas": 5}));
    config["metadata"]["creationTimestamp"] = Value::Null;
    config["status"] = json!({"ready": 1});
    let status =
        Manager { subresource: Some("status"), tracked: Tracked::Status { metadata: &[] }, ..manager("me", 1) };
    let after = apply(&shape, Some(&live), &config, &status, false).expect("spec is not looked at");
    assert_eq!((&after["spec"], &after["status"]), (&json!({"replicas": 1}), &json!({"ready": 1})));
    assert_eq!(*fields_of(&after, "me"), json!({"f:status": {"f:ready": {}}}));
    let after = apply(&shape, Some(&live), &config, &manager("me", 1), true).expect("forced");
    assert_eq!((&after["spec"], after.get("status")), (&json!({"replicas": 5}), None));
    assert_eq!(after["metadata"]["creationTimestamp"], "2023-11-14T22:13:20Z");
}

// K-SSA-10 K-WR-3
#[test]
fn a_write_that_defaulting_undid_leaves_no_trace() {
    let shape = config_map();
    let live = create(&shape, data(json!({"size": "1Gi"})), &manager("me", 0));
    let mut new = live.clone();
    new["data"]["size"] = json!("1024Mi");
    let mut new = update(&shape, &live, new, &manager("me", 9));
    assert_ne!(new["metadata"], live["metadata"]);
    keep_times(&live, &mut new);
    assert_ne!(new, live, "a real change keeps its time");
    new["data"]["size"] = json!("1Gi");
    keep_times(&live, &mut new);
    assert_eq!(new, live);
}

// K-SSA-4
#[test]
fn kubectl_changes_over_from_client_side_apply_without_conflict() {
    let shape = config_map();
    let annotated = |last: &Value, content: Value| {
        let mut object = data(content);
        let text = format!("{last}\n");
        object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": text});
        object
    };
    let first = data(json!({"a": "1", "b": "1"}));
    let live = create(&shape, annotated(&first, first["data"].clone()), &manager("kubectl-client-side-apply", 0));
    let config = data(json!({"a": "2", "b": "1"}));
    let after = apply(&shape, Some(&live), &config, &manager("kubectl", 1), false).expect("its own field");
    assert_eq!(after["data"], json!({"a": "2", "b": "1"}));
    let annotation = &after["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(*annotation, json!(format!("{config}\n")));
    let mut edited = live.clone();
    edited["data"]["a"] = json!("9");
    let edited = update(&shape, &live, edited, &manager("editor", 1));
    let error = apply(&shape, Some(&edited), &config, &manager("kubectl", 2), false).expect_err("edited since");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.a");
}

// K-SSA-7
#[test]
fn what_a_new_object_shows_but_nobody_set_is_owned_by_nobody() {
    let role = volley_api::kube::schema::builtin::of("rbac.authorization.k8s.io", "v1", "Role").expect("built in");
    let mut new = json!({"apiVersion": "v1", "kind": "Role", "metadata": {"name": "r"}, "rules": null});
    updated(&role, None, &mut new, &manager("a", 0));
    assert!(new["metadata"].get("managedFields").is_none(), "{new}");
    let set = volley_api::kube::schema::builtin::of("", "v1", "ConfigMap").expect("built in");
    let mut new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "immutable": false});
    updated(&set, None, &mut new, &manager("a", 0));
    assert_eq!(entry_of(&new, "a")["fieldsV1"], json!({"f:immutable": {}}));
}
