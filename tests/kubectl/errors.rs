//! Error texts, on the wire and as kubectl prints them.

use crate::harness::{Space, for_some_kubectls};
use crate::http::{get, post, request};
use serde_json::json;

#[test]
fn every_kubectl_prints_the_known_errors() {
    for_some_kubectls("errors", |space| {
        space.ok(&["create", "configmap", "a"]);
        let file = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        space.file("a.yaml", file);
        let cases: &[(&[&str], &str)] = &[
            (&["get", "pods", "x"], "Error from server (NotFound): pods \"x\" not found\n"),
            (&["get", "deploy", "x"], "Error from server (NotFound): deployments.apps \"x\" not found\n"),
            (&["get", "ns", "x"], "Error from server (NotFound): namespaces \"x\" not found\n"),
            (&["get", "foos"], "error: the server doesn't have a resource type \"foos\"\n"),
            (&["create", "configmap", "a"], "error: failed to create configmap: configmaps \"a\" already exists\n"),
            (
                &["create", "-f", "a.yaml"],
                "Error from server (AlreadyExists): error when creating \"a.yaml\": configmaps \"a\" already exists\n",
            ),
            (
                &["--as=nobody", "get", "pods"],
                "Error from server (Forbidden): pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" in the namespace \"{ns}\"\n",
            ),
            (
                &["--as=nobody", "get", "deploy", "x"],
                "Error from server (Forbidden): deployments.apps \"x\" is forbidden: User \"nobody\" cannot get resource \"deployments\" in API group \"apps\" in the namespace \"{ns}\"\n",
            ),
            (
                &["--as=nobody", "get", "nodes"],
                "Error from server (Forbidden): nodes is forbidden: User \"nobody\" cannot list resource \"nodes\" in API group \"\" at the cluster scope\n",
            ),
            (
                &["--as=nobody", "get", "--raw", "/metrics"],
                "Error from server (Forbidden): forbidden: User \"nobody\" cannot get path \"/metrics\"\n",
            ),
            (
                &["get", "--raw", "/nope"],
                "Error from server (NotFound): the server could not find the requested resource\n",
            ),
        ];
        for (args, text) in cases {
            assert_eq!(space.fails(args), text.replace("{ns}", &space.name), "{args:?}");
        }
        let output = space.run(&["--token=nope", "--client-certificate=", "get", "pods"]);
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (1, "error: You must be logged in to the server (Unauthorized)\n")
        );
    });
}

#[test]
fn every_kubectl_prints_one_or_many_invalid_fields() {
    for_some_kubectls("invalid", |space| {
        let one = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80, protocol: X}]}\n";
        let text = "The Service \"s\" is invalid: spec.ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"\n";
        assert_eq!(space.fails_with(&["create", "-f", "-"], one), text);
        let many = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}, {port: 81}]}\n";
        let text = "The Service \"s\" is invalid: \n* spec.ports[0].name: Required value\n* spec.ports[1].name: Required value\n";
        assert_eq!(space.fails_with(&["create", "-f", "-"], many), text);
    });
}

#[test]
fn a_status_has_every_part() {
    let space = Space::new("status");
    let missing = get(&space.group("apps/v1", "deployments/x")).json();
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "deployments.apps \"x\" not found", "details": {"name": "x", "group": "apps", "kind": "deployments"}});
    assert_eq!(missing, expected);
    let invalid = post(&space.core("services"), &json!({"metadata": {"name": "s"}, "spec": {"ports": []}})).json();
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422,
        "message": "Service \"s\" is invalid: spec.ports: Required value",
        "details": {"name": "s", "kind": "Service", "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.ports"}]}});
    assert_eq!(invalid, expected);
}

#[test]
fn unknown_resources_and_paths_are_told_apart() {
    let space = Space::new("unknown");
    let text = "the server could not find the requested resource";
    for path in ["/api/v1/foos", "/apis/apps/v1/foos", "/api/v1/namespaces/default/foos/x"] {
        let answer = get(path);
        assert_eq!(answer.status(), (404, "NotFound".into(), text.into()), "{path}");
        assert_eq!(answer.json()["details"], json!({}), "{path}");
    }
    let answer = get(&space.core("configmaps/x/status"));
    assert_eq!(answer.status(), (404, "NotFound".into(), text.into()));
    let answer = get("/apis/nope.example.com/v1/foos");
    assert_eq!((answer.code, answer.body.as_str()), (404, "404 page not found\n"));
    let answer = request("POST", &space.core("configmaps")).json(&json!({"metadata": {"name": "a"}})).send();
    assert_eq!(answer.code, 201);
    let again = request("POST", &space.core("configmaps")).json(&json!({"metadata": {"name": "a"}})).send();
    assert_eq!(again.status(), (409, "AlreadyExists".into(), "configmaps \"a\" already exists".into()));
    assert_eq!(again.json()["details"], json!({"name": "a", "kind": "configmaps"}));
}
