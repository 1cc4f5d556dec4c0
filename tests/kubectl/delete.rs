//! Deletion: answers, finalizers, preconditions, collections, cascades and namespaces.

use crate::harness::{Space, eventually, for_some_kubectls};
use crate::http::{delete, get, patch, post, request};
use serde_json::{Value, json};

fn make(space: &Space, name: &str, more: Value) -> Value {
    let mut body = json!({"metadata": {"name": name}});
    body["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(&space.core("configmaps"), &body).ok()
}

fn gone(path: &str) {
    eventually(path, || (get(path).code == 404).then_some(()));
}

/// What kubectl adds to `deleted` from 1.34 on.
fn from(space: &Space) -> String {
    if space.kubectl.minor >= 34 { format!(" from {} namespace", space.name) } else { String::new() }
}

// K-POD-DEL-3
#[test]
fn every_kubectl_deletes_in_every_way() {
    for_some_kubectls("ways", |space| {
        for name in ["a", "b", "c", "d", "e"] {
            make(space, name, json!({"labels": {"set": if name < "c" { "one" } else { "two" }}}));
        }
        let from = from(space);
        assert_eq!(space.ok(&["delete", "cm", "a"]), format!("configmap \"a\" deleted{from}\n"));
        assert_eq!(space.ok(&["delete", "cm", "-l", "set=one"]), format!("configmap \"b\" deleted{from}\n"));
        assert_eq!(space.ok(&["delete", "cm/c", "--wait=false"]), format!("configmap \"c\" deleted{from}\n"));
        assert_eq!(space.ok(&["delete", "cm", "d", "--grace-period=0", "-o", "name"]), "configmap/d\n");
        let field = space.ok(&["delete", "cm", "--field-selector", "metadata.name=e"]);
        assert_eq!(field, format!("configmap \"e\" deleted{from}\n"));
        space.ok(&["create", "secret", "generic", "s"]);
        assert_eq!(space.ok(&["delete", "secret", "--all"]), format!("secret \"s\" deleted{from}\n"));
        assert_eq!(space.fails(&["delete", "cm", "a"]), "Error from server (NotFound): configmaps \"a\" not found\n");
        assert_eq!(space.ok(&["delete", "cm", "a", "--ignore-not-found"]), "");
        let none = space.run(&["delete", "cm", "-l", "set=none"]);
        assert_eq!((none.code, none.stdout.as_str()), (0, "No resources found\n"));
        make(space, "dry", json!({}));
        let dry = space.ok(&["delete", "cm", "dry", "--dry-run=server"]);
        assert!(dry.starts_with("configmap \"dry\" deleted") && dry.ends_with("(server dry run)\n"), "{dry}");
        assert_eq!(get(&space.core("configmaps/dry")).code, 200);
    });
}

// K-DEL-1
#[test]
fn the_answer_is_a_status_or_the_object() {
    let space = Space::new("answers");
    let made = make(&space, "a", json!({}));
    let status = delete(&space.core("configmaps/a")).ok();
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}});
    assert_eq!(status, expected);
    let job = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    post(&space.group("coordination.k8s.io/v1", "leases"), &job).ok();
    let status = delete(&space.group("coordination.k8s.io/v1", "leases/l")).ok();
    assert_eq!(
        (&status["details"]["group"], &status["details"]["kind"]),
        (&json!("coordination.k8s.io"), &json!("leases"))
    );
    let returned: &[(&str, Value)] = &[
        ("services", json!({"spec": {"ports": [{"port": 80}]}})),
        ("serviceaccounts", json!({})),
        ("resourcequotas", json!({"spec": {"hard": {}}})),
        ("podtemplates", json!({"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})),
    ];
    for (plural, body) in returned {
        let mut body = body.clone();
        body["metadata"] = json!({"name": "x"});
        let made = post(&space.core(plural), &body).ok();
        let answer = delete(&space.core(&format!("{plural}/x"))).ok();
        assert_eq!(answer["kind"], made["kind"], "{plural}");
    }
    let missing = delete(&space.core("configmaps/a"));
    assert_eq!(missing.status(), (404, "NotFound".into(), "configmaps \"a\" not found".into()));
    assert_eq!(missing.json()["details"], json!({"name": "a", "kind": "configmaps"}));
}

// K-DEL-2
#[test]
fn finalizers_hold_an_object_until_they_are_gone() {
    let space = Space::new("finalizers");
    make(&space, "a", json!({"finalizers": ["example.com/hold"]}));
    let path = space.core("configmaps/a");
    let watched = space.core("configmaps?watch=1&fieldSelector=metadata.name%3Da");
    let mut stream = request("GET", &watched).stream();
    assert_eq!(stream.event().0, "ADDED");
    let pending = delete(&path).ok();
    assert_eq!(pending["kind"], "ConfigMap");
    assert!(pending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(stream.event().0, "MODIFIED");
    let removed = patch("merge", &path, &json!({"metadata": {"finalizers": null}}));
    assert_eq!((removed.code, removed.json()["kind"].as_str()), (200, Some("ConfigMap")));
    assert_eq!(stream.event().0, "DELETED");
    assert_eq!(get(&path).code, 404);
}

// K-DEL-3
#[test]
fn a_dying_object_takes_no_new_finalizers() {
    let space = Space::new("dying");
    make(&space, "a", json!({"finalizers": ["example.com/hold"]}));
    let path = space.core("configmaps/a");
    let first = delete(&path).ok();
    assert_eq!(delete(&path).ok(), first, "deleting again changes nothing");
    let more = patch("merge", &path, &json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}));
    let text = "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/more\"}";
    assert_eq!(more.status(), (422, "Invalid".into(), text.into()));
    assert_eq!(patch("merge", &path, &json!({"data": {"k": "v"}})).code, 200);
    patch("merge", &path, &json!({"metadata": {"finalizers": null}})).ok();
    gone(&path);
}

// K-DEL-5
#[test]
fn preconditions_and_policies_are_checked() {
    let space = Space::new("preconditions");
    let made = make(&space, "a", json!({}));
    let path = space.core("configmaps/a");
    let with = |body: Value| request("DELETE", &path).json(&body).send();
    let uid = "00000000-0000-0000-0000-000000000000";
    let answer = with(json!({"preconditions": {"uid": uid}}));
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"a\": Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        made["metadata"]["uid"].as_str().unwrap()
    );
    assert_eq!(answer.status(), (409, "Conflict".into(), text));
    let answer = with(json!({"preconditions": {"resourceVersion": "1"}}));
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"a\": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: {}",
        made["metadata"]["resourceVersion"].as_str().unwrap()
    );
    assert_eq!(answer.status(), (409, "Conflict".into(), text));
    let answer = with(json!({"propagationPolicy": "Sideways"}));
    assert_eq!((answer.code, answer.status().1.as_str()), (422, "Invalid"));
    let text = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported values: ";
    assert!(answer.status().2.starts_with(text), "{}", answer.body);
    let both = with(json!({"propagationPolicy": "Background", "orphanDependents": true}));
    assert_eq!((both.code, both.status().1.as_str()), (422, "Invalid"));
    assert_eq!(with(json!({"preconditions": {"uid": made["metadata"]["uid"]}})).code, 200);
}

// K-DEL-6
#[test]
fn a_collection_is_deleted_by_selector() {
    let space = Space::new("collection");
    for name in ["a", "b", "c"] {
        make(&space, name, json!({"labels": {"keep": if name == "c" { "yes" } else { "no" }}}));
    }
    let deleted = delete(&space.core("configmaps?labelSelector=keep%3Dno&fieldSelector=metadata.name!%3Db")).ok();
    assert_eq!(deleted["kind"], "ConfigMapList");
    let names: Vec<&Value> = deleted["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["name"]).collect();
    assert_eq!(names, ["a"]);
    let none = delete(&space.core("configmaps?labelSelector=keep%3Dnever")).ok();
    assert_eq!((&none["kind"], &none["items"]), (&json!("ConfigMapList"), &json!([])));
    assert_eq!(get(&space.core("configmaps/c")).code, 200);
}

// K-GC-2
#[test]
fn owner_references_are_validated() {
    let space = Space::new("owners");
    let refused = |owners: Value| {
        let answer = post(&space.core("configmaps"), &json!({"metadata": {"name": "a", "ownerReferences": owners}}));
        assert_eq!(answer.code, 422, "{}", answer.body);
        answer.status().2
    };
    let text = refused(json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": ""}]));
    assert_eq!(
        text,
        "ConfigMap \"a\" is invalid: metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"
    );
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true});
    let text = refused(json!([owner("a"), owner("b")]));
    assert!(text.ends_with("Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/a and ConfigMap/b"), "{text}");
}

// K-NS-1
#[test]
fn namespaces_are_made_with_finalizer_phase_and_label() {
    let space = Space::new("phase");
    let object = get(&format!("/api/v1/namespaces/{}", space.name)).ok();
    assert_eq!(object["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(object["status"]["phase"], "Active");
    assert_eq!(object["metadata"]["labels"]["kubernetes.io/metadata.name"], space.name.as_str());
}

// K-NS-2
#[test]
fn the_first_namespaces_may_not_be_deleted() {
    let space = Space::new("protected");
    for name in ["default", "kube-system", "kube-public"] {
        let text = format!(
            "Error from server (Forbidden): namespaces \"{name}\" is forbidden: this namespace may not be deleted\n"
        );
        let said = space.fails(&["delete", "ns", name]);
        assert!(said.ends_with(&text), "{said}");
    }
}

// K-NS-3
#[test]
fn nothing_is_made_in_a_missing_namespace() {
    let answer = post("/api/v1/namespaces/no-such-space/configmaps", &json!({"metadata": {"name": "a"}}));
    assert_eq!(answer.status(), (404, "NotFound".into(), "namespaces \"no-such-space\" not found".into()));
}
