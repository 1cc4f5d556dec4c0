//! Custom resources: definitions, schemas, instances, columns, scale and status.

use crate::harness::{Space, eventually, for_each_kubectl, squeeze};
use crate::http::{get, patch, post, put, request};
use serde_json::{Value, json};

/// A definition with its own group, so that tests do not meet.
fn definition(space: &Space) -> (String, Value) {
    let group = format!("{}.example.com", space.name);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "items": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}},
            "replicas": {"type": "integer"},
            "either": {"x-kubernetes-int-or-string": true},
            "nothing": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "low": {"type": "integer"}, "high": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not exceed high"}]},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"},
            "conditions": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}}}}});
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale}, "additionalPrinterColumns": columns, "selectableFields": [{"jsonPath": ".spec.colour"}]})
    };
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("gads.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "gads", "kind": "Gad", "shortNames": [format!("g{}", space.name)], "categories": [space.name]},
            "versions": [version("v1", true), version("v1beta1", false)]}});
    (group, crd)
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Makes the definition and gives the path of its instances.
fn defined(space: &Space) -> (String, String) {
    let (group, crd) = definition(space);
    let answer = post(CRDS, &crd);
    assert_eq!(answer.code, 201, "{}", answer.body);
    let path = space.group(&format!("{group}/v1"), "gads");
    eventually("the new path", || (get(&path).code == 200).then_some(()));
    (group, path)
}

fn gad(group: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Gad", "metadata": {"name": name}, "spec": spec})
}

// K-CRD-1 K-DISC-4
#[test]
fn every_kubectl_lives_through_a_definition() {
    for_each_kubectl("life", |space| {
        let (group, crd) = definition(space);
        // The full name: other definitions of this process have the same plural.
        let (name, gads) = (format!("gads.{group}"), format!("gads.{group}"));
        let gads = gads.as_str();
        let printed = space.ok_with(&["apply", "-f", "-"], &crd.to_string());
        assert_eq!(printed, format!("customresourcedefinition.apiextensions.k8s.io/{name} created\n"));
        let waited = space.ok(&["wait", "--for=condition=Established", &format!("crd/{name}"), "--timeout=10s"]);
        assert_eq!(waited, format!("customresourcedefinition.apiextensions.k8s.io/{name} condition met\n"));
        let instance = gad(&group, "a", json!({"size": 2, "replicas": 1}));
        assert_eq!(space.apply(&instance.to_string()), format!("gad.{group}/a created\n"));
        assert_eq!(space.apply(&instance.to_string()), format!("gad.{group}/a unchanged\n"));
        let table = squeeze(&space.ok(&["get", gads]));
        assert_eq!(table[0], "NAME  SIZE  READY  AGE");
        assert!(table[1].starts_with("a  2  "), "{table:?}");
        let wide = squeeze(&space.ok(&["get", &format!("g{}", space.name), "-o", "wide"]));
        assert_eq!(wide[0], "NAME  SIZE  READY  COLOUR  AGE");
        assert!(wide[1].contains("  red  "), "{wide:?}");
        assert_eq!(space.ok(&["scale", gads, "a", "--replicas=3"]), format!("gad.{group}/a scaled\n"));
        assert_eq!(space.ok(&["get", gads, "a", "-o", "jsonpath={.spec.replicas}"]), "3");
        let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
        space.ok(&["patch", gads, "a", "--subresource=status", "--type=merge", "-p", status]);
        assert!(squeeze(&space.ok(&["get", gads]))[1].starts_with("a  2  True  "));
        assert_eq!(space.ok(&["label", gads, "a", "x=y"]), format!("gad.{group}/a labeled\n"));
        let changed = gad(&group, "a", json!({"size": 3, "replicas": 1}));
        assert_eq!(space.apply(&changed.to_string()), format!("gad.{group}/a configured\n"));
        let bad = gad(&group, "b", json!({"size": 0, "colour": "blue"}));
        let said = space.fails_with(&["create", "-f", "-"], &bad.to_string());
        let text = "The Gad \"b\" is invalid: \n* spec.colour: Unsupported value: \"blue\": supported values: \"red\", \"green\"\n* spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1\n";
        assert!(said.starts_with(text), "{said}");
        let explained = space.ok(&["explain", "gads.spec.size", "--api-version", &format!("{group}/v1")]);
        assert!(explained.contains("FIELD: size <integer>"), "{explained}");
        let described = space.ok(&["describe", gads, "a"]);
        assert!(described.contains("Name:         a\n") && described.contains("  Size:      3\n"), "{described}");
        assert!(space.ok(&["delete", "crd", &name]).contains(&format!("\"{name}\" deleted")));
        let gone = space.group(&format!("{group}/v1"), "gads");
        eventually("the end of the path", || (get(&gone).code == 404).then_some(()));
        let said = space.fails(&["get", gads]);
        assert!(said.contains("the server doesn't have a resource type \"gads\""), "{said}");
    });
}

// K-CRD-1
#[test]
fn a_definition_is_completed_and_accepted() {
    let space = Space::new("accepted");
    let (group, _) = defined(&space);
    let crd = get(&format!("{CRDS}/gads.{group}")).ok();
    let names = &crd["spec"]["names"];
    assert_eq!((&names["singular"], &names["listKind"]), (&json!("gad"), &json!("GadList")));
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    let condition = |kind: &str| {
        let list = crd["status"]["conditions"].as_array().unwrap();
        let found = list.iter().find(|c| c["type"] == kind).unwrap();
        format!(
            "{} {} {}",
            found["status"].as_str().unwrap(),
            found["reason"].as_str().unwrap(),
            found["message"].as_str().unwrap()
        )
    };
    assert_eq!(condition("NamesAccepted"), "True NoConflicts no conflicts found");
    assert_eq!(condition("Established"), "True InitialNamesAccepted the initial names have been accepted");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"]["kind"], "Gad");
    let mut misnamed = definition(&Space::new("misnamed")).1;
    misnamed["metadata"]["name"] = "wrong.example.com".into();
    let answer = post(CRDS, &misnamed);
    assert_eq!(answer.code, 422);
    assert!(
        answer.status().2.contains(
            "metadata.name: Invalid value: \"wrong.example.com\": must be spec.names.plural+\".\"+spec.group"
        ),
        "{}",
        answer.body
    );
}

// K-CRD-2
#[test]
fn a_path_without_a_definition_is_no_page() {
    let space = Space::new("nopage");
    let path = space.group(&format!("{}.example.com/v1", space.name), "gads");
    let before = get(&path);
    assert_eq!((before.code, before.body.as_str()), (404, "404 page not found\n"));
    assert!(before.header("content-type").starts_with("text/plain"));
    let (group, path) = defined(&space);
    crate::http::delete(&format!("{CRDS}/gads.{group}")).ok();
    let after = eventually("the end of the path", || Some(get(&path)).filter(|answer| answer.code == 404));
    assert_eq!(after.body, "404 page not found\n");
}

// K-CRD-3
#[test]
fn a_definition_takes_its_instances_with_it() {
    let space = Space::new("cleanup");
    let (group, path) = defined(&space);
    let mut held = gad(&group, "held", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&path, &held).ok();
    post(&path, &gad(&group, "free", json!({"size": 1}))).ok();
    let crd = format!("{CRDS}/gads.{group}");
    let deleted = crate::http::delete(&crd).ok();
    assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    eventually("the free instance goes", || (get(&format!("{path}/free")).code == 404).then_some(()));
    let terminating = get(&crd).ok();
    let conditions = terminating["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Terminating" && c["status"] == "True"), "{terminating}");
    patch("merge", &format!("{path}/held"), &json!({"metadata": {"finalizers": null}})).ok();
    eventually("the definition goes", || (get(&crd).code == 404).then_some(()));
}

// K-CRD-4
#[test]
fn versions_share_one_stored_form_and_names_are_fixed() {
    let space = Space::new("versions");
    let (group, path) = defined(&space);
    post(&path, &gad(&group, "a", json!({"size": 1}))).ok();
    let older = space.group(&format!("{group}/v1beta1"), "gads");
    let seen = get(&format!("{older}/a")).ok();
    assert_eq!(seen["apiVersion"], format!("{group}/v1beta1"));
    assert_eq!(get(&older).ok()["items"][0]["apiVersion"], format!("{group}/v1beta1"));
    assert_eq!(get(&format!("{path}/a")).ok()["apiVersion"], format!("{group}/v1"));
    let answer = patch("merge", &format!("{CRDS}/gads.{group}"), &json!({"spec": {"scope": "Cluster"}}));
    assert_eq!(answer.code, 422);
    assert!(
        answer.status().2.contains("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{}",
        answer.body
    );
}

// K-CRD-6 K-CRD-8
#[test]
fn schema_violations_have_the_known_texts() {
    let space = Space::new("schema");
    let (group, path) = defined(&space);
    let faults = |spec: Value| {
        let answer = post(&format!("{path}?dryRun=All"), &gad(&group, "x", spec));
        assert_eq!(answer.code, 422, "{}", answer.body);
        let causes = answer.json()["details"]["causes"].clone();
        causes
            .as_array()
            .unwrap()
            .iter()
            .filter(|c| !c["message"].as_str().unwrap().contains("some validation rules were not checked"))
            .map(|c| {
                format!(
                    "{} {}: {}",
                    c["reason"].as_str().unwrap(),
                    c["field"].as_str().unwrap(),
                    c["message"].as_str().unwrap()
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(faults(json!({})), ["FieldValueRequired spec.size: Required value"]);
    assert_eq!(
        faults(json!({"size": "string"})),
        [
            "FieldValueTypeInvalid spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""
        ]
    );
    assert_eq!(
        faults(json!({"size": 0})),
        ["FieldValueInvalid spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"]
    );
    assert_eq!(
        faults(json!({"size": 11})),
        ["FieldValueInvalid spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"]
    );
    assert_eq!(
        faults(json!({"size": 1, "colour": "blue"})),
        ["FieldValueNotSupported spec.colour: Unsupported value: \"blue\": supported values: \"red\", \"green\""]
    );
    assert_eq!(
        faults(json!({"size": 1, "name": "A"})),
        ["FieldValueInvalid spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'"]
    );
    assert_eq!(
        faults(json!({"size": 1, "name": "abcd"})),
        ["FieldValueTooLong spec.name: Too long: may not be more than 3 bytes"]
    );
    assert_eq!(
        faults(json!({"size": 1, "items": ["a", "b", "c"]})),
        ["FieldValueTooMany spec.items: Too many: 3: must have at most 2 items"]
    );
    assert_eq!(
        faults(json!({"size": 1, "ports": [{"k": "a"}, {"k": "a"}]})),
        ["FieldValueDuplicate spec.ports[1]: Duplicate value: {\"k\":\"a\"}"]
    );
    assert_eq!(
        faults(json!({"size": 1, "low": 2, "high": 1})),
        ["FieldValueInvalid spec: Invalid value: low must not exceed high"]
    );
    for spec in [
        json!({"size": 1, "either": "a"}),
        json!({"size": 1, "either": 5}),
        json!({"size": 1, "nothing": null}),
        json!({"size": 1, "labels": {"a": "b"}}),
    ] {
        assert_eq!(post(&format!("{path}?dryRun=All"), &gad(&group, "x", spec)).code, 201);
    }
}

// K-CRD-7
#[test]
fn unknown_fields_are_pruned_and_defaults_filled() {
    let space = Space::new("prune");
    let (group, path) = defined(&space);
    let mut sent = gad(&group, "a", json!({"size": 1, "unknown": 1, "free": {"any": {"thing": 1}}}));
    sent["status"] = json!({"phase": "Sent"});
    sent["top"] = json!(1);
    let answer = post(&path, &sent);
    let warnings: Vec<&str> = answer.headers("warning").collect();
    assert_eq!(warnings, [r#"299 - "unknown field \"spec.unknown\"""#, r#"299 - "unknown field \"top\"""#]);
    let made = answer.ok();
    assert_eq!(made["spec"], json!({"size": 1, "colour": "red", "free": {"any": {"thing": 1}}}));
    assert_eq!((made.get("status"), made.get("top")), (None, None), "status is dropped on create");
    let strict = post(&format!("{path}?fieldValidation=Strict"), &gad(&group, "b", json!({"size": 1, "unknown": 1})));
    assert_eq!((strict.code, strict.status().1.as_str()), (400, "BadRequest"));
    assert!(strict.status().2.ends_with("strict decoding error: unknown field \"spec.unknown\""), "{}", strict.body);
}

// K-CR-1
#[test]
fn instances_must_name_their_type() {
    let space = Space::new("types");
    let (group, path) = defined(&space);
    let mut kindless = gad(&group, "a", json!({"size": 1}));
    kindless.as_object_mut().unwrap().remove("kind");
    let answer = post(&path, &kindless);
    assert_eq!((answer.code, answer.status().1.as_str()), (400, "BadRequest"));
    assert!(
        answer
            .status()
            .2
            .starts_with("the object provided is unrecognized (must be of type Gad): Object 'Kind' is missing in "),
        "{}",
        answer.body
    );
    let mut other = gad(&group, "a", json!({"size": 1}));
    other["kind"] = "Foo".into();
    let answer = post(&path, &other);
    assert!(
        answer.code == 422 && answer.status().2.ends_with("kind: Invalid value: \"Foo\": must be Gad"),
        "{}",
        answer.body
    );
    let mut version = gad(&group, "a", json!({"size": 1}));
    version["apiVersion"] = format!("{group}/v9").into();
    let text = format!("the API version in the data ({group}/v9) does not match the expected API version ({group}/v1)");
    assert_eq!(post(&path, &version).status(), (400, "BadRequest".into(), text));
}

// K-CR-2
#[test]
fn generation_follows_the_spec_and_not_the_status() {
    let space = Space::new("generation");
    let (group, path) = defined(&space);
    assert_eq!(post(&path, &gad(&group, "a", json!({"size": 1}))).ok()["metadata"]["generation"], 1);
    let item = format!("{path}/a");
    let generation = |path: &str, body: Value| patch("merge", path, &body).ok()["metadata"]["generation"].clone();
    assert_eq!(generation(&item, json!({"metadata": {"labels": {"a": "b"}}})), 1);
    assert_eq!(generation(&item, json!({"spec": {"size": 2}})), 2);
    assert_eq!(generation(&format!("{item}/status"), json!({"status": {"phase": "Up"}})), 2);
    let ignored = patch("merge", &item, &json!({"status": {"phase": "Down"}})).ok();
    assert_eq!((&ignored["status"]["phase"], &ignored["metadata"]["generation"]), (&json!("Up"), &json!(2)));
    let status = patch(
        "merge",
        &format!("{item}/status"),
        &json!({"spec": {"size": 9}, "metadata": {"labels": {"l": "1"}}, "status": {"phase": "Far"}}),
    )
    .ok();
    assert_eq!((&status["spec"]["size"], status["metadata"]["labels"].get("l")), (&json!(2), None));
}

// K-CR-3
#[test]
fn an_update_needs_a_version() {
    let space = Space::new("put");
    let (group, path) = defined(&space);
    let made = post(&path, &gad(&group, "a", json!({"size": 1}))).ok();
    let text = format!(
        "Gad.{group} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    let item = format!("{path}/a");
    assert_eq!(put(&item, &gad(&group, "a", json!({"size": 2}))).status(), (422, "Invalid".into(), text));
    let mut next = made;
    next["spec"]["size"] = 2.into();
    assert_eq!(put(&item, &next).code, 200);
}

// K-CR-4
#[test]
fn instances_are_scaled_by_their_paths() {
    let space = Space::new("scale");
    let (group, path) = defined(&space);
    post(&path, &gad(&group, "a", json!({"size": 1}))).ok();
    let scale = format!("{path}/a/scale");
    let unset = get(&scale);
    let text = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    assert_eq!((unset.code, unset.json()["message"].as_str()), (500, Some(text)));
    patch("merge", &format!("{path}/a"), &json!({"spec": {"replicas": 2}})).ok();
    patch("merge", &format!("{path}/a/status"), &json!({"status": {"replicas": 1, "selector": "a=b"}})).ok();
    let found = get(&scale).ok();
    assert_eq!((&found["kind"], &found["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&found["spec"], &found["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 1, "selector": "a=b"}))
    );
    let generation = get(&format!("{path}/a")).ok()["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(patch("merge", &scale, &json!({"spec": {"replicas": 5}})).ok()["spec"]["replicas"], 5);
    let after = get(&format!("{path}/a")).ok();
    assert_eq!((&after["spec"]["replicas"], &after["metadata"]["generation"]), (&json!(5), &json!(generation + 1)));
}

// K-CR-5
#[test]
fn columns_are_cells_of_their_type() {
    let space = Space::new("columns");
    let (group, path) = defined(&space);
    post(&path, &gad(&group, "a", json!({"size": 4}))).ok();
    let table = request("GET", &path).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").send().ok();
    let columns: Vec<String> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {} {}", c["name"].as_str().unwrap(), c["type"].as_str().unwrap(), c["priority"]))
        .collect();
    assert_eq!(columns, ["Name string 0", "Size integer 0", "Ready string 0", "Colour string 1", "Age date 0"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..4], [json!("a"), json!(4), Value::Null, json!("red")]);
    assert!(cells[4].as_str().unwrap().ends_with('s'), "{cells:?}");
}

// K-CR-6
#[test]
fn selectable_fields_select() {
    let space = Space::new("fields");
    let (group, path) = defined(&space);
    post(&path, &gad(&group, "a", json!({"size": 1}))).ok();
    post(&path, &gad(&group, "b", json!({"size": 1, "colour": "green"}))).ok();
    let names = |selector: &str| {
        let list = get(&format!("{path}?fieldSelector={selector}")).ok();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("spec.colour%3Dgreen"), ["b"]);
    assert_eq!(names("metadata.name!%3Db"), ["a"]);
    assert_eq!(
        get(&format!("{path}?fieldSelector=spec.size%3D1")).status(),
        (400, "BadRequest".into(), "field label not supported: spec.size".into())
    );
    let list = get(&path).ok();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("GadList"), &json!("Gad")),
        "items carry their type"
    );
}

// K-CR-7 K-PATCH-3
#[test]
fn instances_take_all_patches_but_strategic_ones() {
    let space = Space::new("patches");
    let (group, path) = defined(&space);
    post(&path, &gad(&group, "a", json!({"size": 1}))).ok();
    let item = format!("{path}/a");
    let text = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let strategic = patch("strategic", &item, &json!({}));
    assert_eq!((strategic.code, strategic.status().1.as_str()), (415, "UnsupportedMediaType"));
    assert!(strategic.status().2.starts_with(text), "{}", strategic.body);
    patch("json", &item, &json!([{"op": "add", "path": "/spec/items", "value": ["x"]}])).ok();
    let apply = |manager: &str, spec: Value| {
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": "Gad", "metadata": {"name": "b"}, "spec": spec});
        patch("apply", &format!("{path}/b?fieldManager={manager}"), &body)
    };
    apply("one", json!({"size": 1, "ports": [{"k": "a", "v": "1"}]})).ok();
    let both = apply("two", json!({"size": 1, "ports": [{"k": "b", "v": "2"}]})).ok();
    assert_eq!(both["spec"]["ports"], json!([{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]));
    let conflict = apply("two", json!({"size": 1, "ports": [{"k": "a", "v": "2"}]}));
    assert_eq!(conflict.status().2, "Apply failed with 1 conflict: conflict with \"one\": .spec.ports[k=\"a\"].v");
}

// K-DISC-4
#[test]
fn a_definition_and_its_instance_in_one_file_need_two_applies() {
    let space = Space::new("onefile");
    let (group, crd) = definition(&space);
    let file = format!("{crd}\n---\n{}\n", gad(&group, "a", json!({"size": 1})));
    let first = space.run_with(&["apply", "-f", "-"], &file);
    assert_eq!(first.code, 1);
    assert!(
        first.stderr.contains(&format!(
            "no matches for kind \"Gad\" in version \"{group}/v1\"\nensure CRDs are installed first"
        )),
        "{}",
        first.stderr
    );
    assert_eq!(first.stdout, format!("customresourcedefinition.apiextensions.k8s.io/gads.{group} created\n"));
    let second = space.ok_with(&["apply", "-f", "-"], &file);
    assert_eq!(
        second,
        format!("customresourcedefinition.apiextensions.k8s.io/gads.{group} unchanged\ngad.{group}/a created\n")
    );
}
