//! What CRDs may say, with the texts of the reference, and which names they get.

use super::definition::*;
use jiff::Timestamp;
use serde_json::{Value, json};

fn widgets(schema: Value) -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    fill(&mut crd);
    crd
}

fn plain() -> Value {
    widgets(
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
    )
}

fn texts(errors: Vec<volley_api::kube::field::FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn check_with(path: &str, value: Value) -> Vec<String> {
    let mut crd = plain();
    *crd.pointer_mut(path).unwrap() = value;
    texts(check(&crd))
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

// K-CRD-1
#[test]
fn singular_list_kind_and_conversion_are_filled_in() {
    let crd = plain();
    assert_eq!(crd["spec"]["names"]["singular"], "widget");
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(texts(check(&crd)), Vec::<String>::new());
    let mut again = crd.clone();
    fill(&mut again);
    assert_eq!(again, crd);
}

// K-CRD-1
#[test]
fn names_groups_and_versions_are_checked() {
    assert_eq!(
        check_with("/metadata/name", json!("gadgets.example.com")),
        [r#"metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group"#]
    );
    assert_eq!(
        check_with("/spec/scope", json!("Galaxy")),
        [r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#]
    );
    assert_eq!(check_with("/spec/scope", json!("")), ["spec.scope: Required value"]);
    assert_eq!(
        check_with("/spec/versions/0/storage", json!(false)),
        [
            r#"spec.versions: Invalid value: [{"AdditionalPrinterColumns":null,"Deprecated":false,"DeprecationWarning":null,"Name":"v1","Schema":null,"SelectableFields":null,"Served":true,"Storage":false,"Subresources":null}]: must have exactly one version marked as storage version"#,
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]
    );
    assert_eq!(
        check_with("/spec/versions/0/schema", json!({})),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"]
    );
    assert_eq!(
        check_with("/spec/names/listKind", json!("Widget")),
        [r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#]
    );
    assert!(check_with("/spec/names/kind", json!("Wid_get"))[0].starts_with(r#"spec.names.kind: Invalid value: "Wid_get": may have mixed case, but should otherwise match: a DNS-1035 label"#));
    let dotless = check_with("/spec/group", json!("example"));
    assert_eq!(dotless[1], r#"spec.group: Invalid value: "example": should be a domain with at least one dot"#);
}

// K-CRD-1
#[test]
fn schemas_must_be_structural() {
    let root = "spec.validation.openAPIV3Schema";
    let cases = [
        (
            json!({"type": "object", "properties": {"a": {}}}),
            vec![format!("{root}.properties[a].type: Required value: must not be empty for specified object fields")],
        ),
        (json!({}), vec![format!("{root}.type: Required value: must not be empty at the root")]),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            vec![format!("{root}.properties[a].items: Required value: must be specified")],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
            vec![format!(
                "{root}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "$ref": "#/x"}}}),
            vec![format!("{root}.properties[a].$ref: Forbidden: $ref is not supported")],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}),
            vec![format!("{root}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural")],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            vec![format!("{root}.additionalProperties: Forbidden: must not be used at the root")],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            vec![format!(
                "{root}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
            vec![format!(
                "{root}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            )],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
            vec![format!(
                "{root}.properties[a]: Required value: because it is defined in {root}.anyOf[0].properties[a]"
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            vec![format!(
                r#"{root}.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}}),
            vec![format!(r#"{root}.properties[a].default: Invalid value: {{"b":1}}: must not have unknown fields"#)],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}}),
            vec![format!(
                "{root}.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-list-type": "set"}}}),
            vec![format!(
                r#"{root}.properties[a].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "text"}}}),
            vec![format!(
                r#"{root}.properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#
            )],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}),
            vec![format!(
                r#"{root}.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within {root}.properties[a]"#
            )],
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(texts(check(&widgets(schema.clone()))), expected, "{schema}");
    }
}

// K-CRD-1
#[test]
fn good_schemas_of_all_shapes_pass() {
    let cases = [
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "properties": {
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "quantity": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+$", "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
        }}),
    ];
    for schema in cases {
        assert_eq!(texts(check(&widgets(schema))), Vec::<String>::new());
    }
}

// K-CRD-1 K-CR-5 K-CR-4 K-CR-6
#[test]
fn columns_scale_paths_and_selectable_fields_are_checked() {
    let mut crd = plain();
    crd["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "A", "type": "time", "jsonPath": "spec.a"}]);
    crd["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}});
    crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.b"}, {"jsonPath": ".spec"}]);
    assert_eq!(
        texts(check(&crd)),
        [
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#,
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "time": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path starting with ."#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to a valid field"#,
            r#"spec.selectableFields[1].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
        ]
    );
}

// K-CRD-4
#[test]
fn group_kind_and_scope_do_not_change() {
    let mut old = plain();
    old["status"] = status(&old, &TakenNames::default(), now());
    assert!(check_update(&old, &old).is_empty());
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Gadget");
    assert_eq!(
        texts(check_update(&new, &old)),
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.names.kind: Invalid value: "Gadget": field is immutable"#,
        ]
    );
    let mut renamed = old.clone();
    renamed["spec"]["versions"][0]["name"] = json!("v2");
    assert!(texts(check_update(&renamed, &old))[0].starts_with(r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version"#));
}

// K-CRD-1
#[test]
fn a_crd_with_free_names_is_established_at_once() {
    let crd = plain();
    let status = status(&crd, &TakenNames::default(), now());
    assert_eq!(
        status,
        json!({
            "acceptedNames": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "shortNames": ["wd"], "singular": "widget"},
            "conditions": [
                {"lastTransitionTime": "2026-01-02T03:04:05Z", "message": "no conflicts found", "reason": "NoConflicts", "status": "True", "type": "NamesAccepted"},
                {"lastTransitionTime": "2026-01-02T03:04:05Z", "message": "the initial names have been accepted", "reason": "InitialNamesAccepted", "status": "True", "type": "Established"},
            ],
            "storedVersions": ["v1"],
        })
    );
    let mut later = crd;
    later["status"] = status.clone();
    assert_eq!(
        super::definition::status(&later, &TakenNames::default(), "2027-01-01T00:00:00Z".parse().unwrap()),
        status
    );
}

// K-CRD-1
#[test]
fn a_taken_name_keeps_a_crd_from_being_served() {
    let mut taken = TakenNames::default();
    let other = |group: &str| {
        json!({"spec": {"group": group}, "status": {"acceptedNames": {
            "plural": "wards", "singular": "ward", "kind": "Ward", "listKind": "WardList", "shortNames": ["wd"],
        }}})
    };
    taken.add(&other("elsewhere.com"));
    assert_eq!(status(&plain(), &taken, now())["conditions"][0]["status"], "True");
    taken.add(&other("example.com"));
    let crd = plain();
    let refused = status(&crd, &taken, now());
    let part = |index: usize, field: &str| refused["conditions"][index][field].clone();
    assert_eq!((part(0, "status"), part(0, "reason")), (json!("False"), json!("ShortNamesConflict")));
    assert_eq!(part(0, "message"), r#""wd" is already in use"#);
    assert_eq!(
        (part(1, "status"), part(1, "reason"), part(1, "message")),
        (json!("False"), json!("NotAccepted"), json!("not all names are accepted"))
    );
    assert_eq!(refused["acceptedNames"].get("shortNames"), None);

    let mut own = TakenNames::default();
    let mut served = plain();
    served["status"] = status(&served, &own, now());
    own.add(&served);
    assert_eq!(status(&served, &own, now()), served["status"]);
}

// K-CRD-3
#[test]
fn a_deleted_crd_says_that_its_instances_go() {
    let mut crd = plain();
    crd["status"] = status(&crd, &TakenNames::default(), now());
    let status = terminating_status(&crd, now());
    assert_eq!(status["conditions"][2]["reason"], "InstanceDeletionInProgress");
    assert_eq!(status["acceptedNames"]["plural"], "widgets");
}

// K-CRD-6
#[test]
fn rules_that_cannot_be_evaluated_are_warned_about() {
    let crd = widgets(
        json!({"type": "object", "x-kubernetes-validations": [{"rule": "cel.bind(a, 1, a == 1) && [2].sortBy(x, x) == [2]"}]}),
    );
    assert_eq!(warnings(&crd, None).len(), 2, "{:?}", warnings(&crd, None));
    assert!(warnings(&crd, Some(&crd)).is_empty());
    assert!(warnings(&plain(), None).is_empty());
}

// K-CRD-6
#[test]
fn formats_that_are_not_checked_are_warned_about() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "colour"}, "b": {"type": "string", "format": "colour"},
        "c": {"type": "string", "format": "date-time"}, "d": {"type": "integer", "format": "int32"},
    }});
    assert_eq!(warnings(&widgets(schema), None), [r#"unrecognized format "colour""#]);
}

#[test]
fn community_groups_need_an_approval() {
    let mut crd = plain();
    crd["spec"]["group"] = json!("things.k8s.io");
    crd["metadata"]["name"] = json!("widgets.things.k8s.io");
    assert_eq!(
        texts(check(&crd)),
        [
            r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#
        ]
    );
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, for tests"});
    assert!(check(&crd).is_empty());
}
