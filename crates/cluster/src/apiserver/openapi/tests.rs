//! The OpenAPI documents as kubectl and code generators read them.

use super::*;
use std::collections::BTreeSet;

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn resource<'a>(group: &'a str, kind: &'a str, plural: &'a str, subresources: &'a [&'a str]) -> Resource<'a> {
    Resource { group, version: "v1", kind, plural, namespaced: true, subresources, verbs: ALL, schema: None }
}

fn core() -> Vec<Resource<'static>> {
    vec![
        resource("", "Pod", "pods", &["status", "log", "exec", "binding", "eviction"]),
        resource("", "ServiceAccount", "serviceaccounts", &["token"]),
        Resource { namespaced: false, ..resource("", "Node", "nodes", &["status"]) },
        Resource { verbs: &["create"], ..resource("", "Binding", "bindings", &[]) },
    ]
}

/// Every `$ref` in the document must lead somewhere.
fn check_references(document: &Value, value: &Value) {
    match value {
        Value::Object(object) => {
            if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
            }
            object.values().for_each(|value| check_references(document, value));
        }
        Value::Array(list) => list.iter().for_each(|value| check_references(document, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// K-OAPI-3
#[test]
fn every_resource_has_a_patch_that_takes_field_validation() {
    let document = v3("", "v1", &core());
    let pod = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!({"group": "", "kind": "Pod", "version": "v1"}));
    assert_eq!(pod["x-kubernetes-action"], "patch");
    let names: BTreeSet<&str> =
        pod["parameters"].as_array().expect("a list").iter().filter_map(|p| p["name"].as_str()).collect();
    assert!(["dryRun", "fieldManager", "fieldValidation", "force"].iter().all(|name| names.contains(name)));
    let paths: Vec<&str> = document["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "/api/v1/namespaces/{namespace}/bindings",
            "/api/v1/namespaces/{namespace}/pods",
            "/api/v1/namespaces/{namespace}/pods/{name}",
            "/api/v1/namespaces/{namespace}/pods/{name}/binding",
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "/api/v1/namespaces/{namespace}/pods/{name}/log",
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "/api/v1/namespaces/{namespace}/serviceaccounts",
            "/api/v1/namespaces/{namespace}/serviceaccounts/{name}",
            "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            "/api/v1/nodes",
            "/api/v1/nodes/{name}",
            "/api/v1/nodes/{name}/status",
            "/api/v1/pods",
            "/api/v1/serviceaccounts",
        ]
    );
    let operation_ids = ["get", "put"].map(|method| {
        document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/status"][method]["operationId"].clone()
    });
    assert_eq!(operation_ids, ["readCoreV1NamespacedPodStatus", "replaceCoreV1NamespacedPodStatus"]);
}

// K-OAPI-4
#[test]
fn schemas_carry_types_sentences_and_list_marks() {
    let document = v3("", "v1", &core());
    check_references(&document, &document);
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "kind": "Pod", "version": "v1"}]));
    assert_eq!(pod["properties"]["spec"]["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.core.v1.PodSpec");
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["type"], "array");
    assert!(containers["description"].as_str().is_some_and(|text| text.len() > 10));
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"], json!(["containers"]));
    assert_eq!(schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["default"], "TCP");
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.PodList"]["properties"]["items"]["type"], "array");
    assert!(schemas["io.k8s.api.apps.v1.Deployment"].is_null(), "only what is reachable");
}

#[test]
fn every_builtin_kind_of_the_table_has_a_schema() {
    for name in ["Pod", "Namespace", "Secret", "ConfigMap", "Service", "Event", "Endpoints", "LimitRange"] {
        let document = v3("", "v1", &[resource("", name, "things", &[])]);
        assert_eq!(document["components"]["schemas"][format!("io.k8s.api.core.v1.{name}")]["type"], "object", "{name}");
    }
    let crd = v3(
        "apiextensions.k8s.io",
        "v1",
        &[resource("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", &["status"])],
    );
    check_references(&crd, &crd);
}

// K-OAPI-4
#[test]
fn custom_kinds_are_named_by_their_reversed_group() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let gad = Resource { schema: Some(&schema), ..resource("t.example.com", "Gad", "gads", &["status", "scale"]) };
    let document = v3("t.example.com", "v1", &[gad, core()[0]]);
    check_references(&document, &document);
    let schemas = &document["components"]["schemas"];
    let gad_schema = &schemas["com.example.t.v1.Gad"];
    assert_eq!(gad_schema["properties"]["spec"], schema["properties"]["spec"]);
    assert_eq!(
        gad_schema["properties"]["metadata"]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert_eq!(gad_schema["properties"]["kind"]["type"], "string");
    let kinds = json!([{"group": "t.example.com", "kind": "Gad", "version": "v1"}]);
    assert_eq!(gad_schema["x-kubernetes-group-version-kind"], kinds);
    assert!(schemas["com.example.t.v1.GadList"].is_object());
    assert!(schemas["io.k8s.api.core.v1.Pod"].is_null(), "resources of other group versions are left out");
    assert!(document["paths"]["/apis/t.example.com/v1/namespaces/{namespace}/gads/{name}/scale"]["put"].is_object());
}

// K-OAPI-6
#[test]
fn version_2_has_the_same_schemas_as_definitions() {
    let schema = json!({"type": "object", "description": "A gad."});
    let gad = Resource { schema: Some(&schema), ..resource("t.example.com", "Gad", "gads", &[]) };
    let document = v2(&[core(), vec![gad]].concat());
    check_references(&document, &document);
    assert_eq!(document["swagger"], "2.0");
    assert_eq!(
        document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["$ref"],
        "#/definitions/io.k8s.api.core.v1.PodSpec"
    );
    assert_eq!(document["definitions"]["com.example.t.v1.Gad"]["description"], "A gad.");
    assert!(!document.to_string().contains("oneOf"));
}
