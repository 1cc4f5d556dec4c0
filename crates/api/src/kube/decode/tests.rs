//! Bodies that decode, and what is said of those that do not.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn conform_as(group: &str, kind: &str, mut value: Value) -> Result<(Value, Vec<String>), String> {
    let shape = builtin::of(group, "v1", kind).expect(kind);
    let strict = conform(&shape, kind, "v1", &mut value)?;
    Ok((value, strict))
}

fn stored(kind: &str, value: Value) -> Value {
    conform_as("", kind, value).expect("it fits").0
}

fn refusal(kind: &str, value: Value) -> String {
    conform_as("", kind, value).expect_err("it does not fit")
}

#[test]
fn an_object_that_fits_is_left_alone() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": ""}},
        "spec": {"hostNetwork": true, "enableServiceLinks": false, "containers": [{"name": "c", "env": [{"name": "E", "value": "x"}],
        "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}},
        "livenessProbe": {"httpGet": {"port": "web"}}}]}});
    assert_eq!(conform_as("", "Pod", pod.clone()), Ok((pod, vec![])));
}

#[test]
fn zero_values_that_go_would_not_write_are_dropped() {
    let pod = json!({"metadata": {"name": "a", "labels": {}, "annotations": {}, "finalizers": [], "generateName": ""},
        "spec": {"hostNetwork": false, "priority": 0, "nodeSelector": {}, "containers": [{"name": "", "args": [],
        "env": [{"name": "E", "value": ""}], "resources": {"limits": {}}, "ports": [{"containerPort": 0, "hostPort": 0}]}],
        "volumes": [{"name": "v", "emptyDir": {}}]}});
    let kept = json!({"metadata": {"name": "a"}, "spec": {"priority": 0, "containers": [{"name": "",
        "env": [{"name": "E"}], "resources": {}, "ports": [{"containerPort": 0}]}],
        "volumes": [{"name": "v", "emptyDir": {}}]}});
    assert_eq!(stored("Pod", pod), kept);
}

// K-WR-8
#[test]
fn unknown_fields_are_dropped_and_named_by_path() {
    let pod = json!({"foo": 1, "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "imagee": "x"}, {"name": "d", "resources": {"limit": {}}}], "volumesource": {}}});
    let (value, strict) = conform_as("", "Pod", pod).expect("it fits");
    assert_eq!(
        strict,
        [
            "unknown field \"foo\"",
            "unknown field \"spec.containers[0].imagee\"",
            "unknown field \"spec.containers[1].resources.limit\"",
            "unknown field \"spec.volumesource\"",
        ]
    );
    let kept =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}, {"name": "d", "resources": {}}]}});
    assert_eq!(value, kept);
}

// K-WR-8
#[test]
fn duplicate_keys_are_named_and_the_last_one_wins() {
    let decoded = json(br#"{"spec":{"a":1,"a":2},"list":[{"b":1},{"b":1,"b":[],"b":3}]}"#).expect("JSON");
    assert_eq!(decoded.value, json!({"spec": {"a": 2}, "list": [{"b": 1}, {"b": 3}]}));
    let expected = ["duplicate field \"spec.a\"", "duplicate field \"list[1].b\"", "duplicate field \"list[1].b\""];
    assert_eq!(decoded.strict, expected);
}

#[test]
fn broken_json_is_refused_in_the_words_of_go() {
    for (text, expected) in [
        ("{", "unexpected end of JSON input"),
        ("", "unexpected end of JSON input"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\": 1 \"b\"}", "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("{} x", "invalid character 'x' after top-level value"),
    ] {
        assert_eq!(json(text.as_bytes()), Err(expected.to_owned()), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(json(deep.as_bytes()), Err("exceeded max depth".to_owned()));
}

#[test]
fn wrong_types_are_refused_in_the_words_of_go() {
    let go = |place: &str| format!("json: cannot unmarshal {place}");
    for (spec, expected) in [
        (json!("x"), "string into Go struct field Pod.spec of type v1.PodSpec"),
        (json!({"containers": "x"}), "string into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (json!({"containers": ["x"]}), "string into Go struct field PodSpec.spec.containers of type v1.Container"),
        (
            json!({"containers": [{"image": 1}]}),
            "number into Go struct field Container.spec.containers.image of type string",
        ),
        (
            json!({"containers": [{"env": [{"value": 1}]}]}),
            "number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (json!({"priority": 1.5}), "number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        (
            json!({"priority": 4294967296i64}),
            "number 4294967296 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (json!({"priority": "1"}), "string into Go struct field PodSpec.spec.priority of type int32"),
        (json!({"hostNetwork": "true"}), "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        (json!({"nodeSelector": {"a": true}}), "bool into Go struct field PodSpec.spec.nodeSelector of type string"),
        (json!({"nodeSelector": []}), "array into Go struct field PodSpec.spec.nodeSelector of type map[string]string"),
        (json!({"overhead": "x"}), "string into Go struct field PodSpec.spec.overhead of type v1.ResourceList"),
    ] {
        assert_eq!(refusal("Pod", json!({ "spec": spec })), go(expected));
    }
    assert_eq!(refusal("Pod", json!([])), go("array into Go value of type v1.Pod"));
    let port = refusal("Service", json!({"spec": {"ports": [{"targetPort": true}]}}));
    assert_eq!(port, go("bool into Go struct field ServicePort.spec.ports.targetPort of type int32"));
    assert_eq!(
        refusal("ConfigMap", json!({"data": {"a": 1}})),
        go("number into Go struct field ConfigMap.data of type string")
    );
}

// K-OBJ-6
#[test]
fn quantities_are_stored_canonically() {
    let limits = |limits: Value| json!({"spec": {"containers": [{"resources": {"limits": limits}}]}});
    let given = limits(json!({"cpu": "0.5", "memory": "1024Mi", "nvidia.com/gpu": 1, "x": null}));
    let kept = limits(json!({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1", "x": "0"}));
    assert_eq!(stored("Pod", given), kept);
    let text = refusal("Pod", limits(json!({"cpu": "x"})));
    assert_eq!(text, "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
}

// K-OBJ-6 K-OBJ-7
#[test]
fn times_are_stored_in_utc() {
    let time = |text: &str| stored("Pod", json!({"status": {"startTime": text}}))["status"]["startTime"].clone();
    assert_eq!(time("2025-01-02T03:04:05Z"), "2025-01-02T03:04:05Z");
    assert_eq!(time("2025-01-02T03:04:05.999Z"), "2025-01-02T03:04:05Z");
    assert_eq!(time("2025-01-02T03:04:05+00:00"), "2025-01-02T03:04:05Z");
    assert_eq!(time("2025-01-02T03:04:05+02:00"), "2025-01-02T01:04:05Z");
    assert_eq!(time("0001-01-01T00:00:00Z"), Value::Null);
    let lease = |text: &str| {
        let value = json!({"spec": {"renewTime": text}});
        conform_as("coordination.k8s.io", "Lease", value).expect("it fits").0["spec"]["renewTime"].clone()
    };
    assert_eq!(lease("2025-01-02T03:04:05.123456789Z"), "2025-01-02T03:04:05.123456Z");
    assert_eq!(lease("2025-01-02T03:04:05Z"), "2025-01-02T03:04:05.000000Z");
    assert_eq!(lease("2025-01-02T03:04:05.000001+01:00"), "2025-01-02T02:04:05.000001Z");
    let layout = "\"2006-01-02T15:04:05Z07:00\"";
    for (text, rest) in [
        ("", "cannot parse \"\" as \"2006\""),
        ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
        ("2025-01-02", "cannot parse \"\" as \"T\""),
        ("2025-01-02 03:04:05Z", "cannot parse \" 03:04:05Z\" as \"T\""),
        ("2025-01-02T03:04:05", "cannot parse \"\" as \"Z07:00\""),
    ] {
        let refused = refusal("Pod", json!({"status": {"startTime": text}}));
        assert_eq!(refused, format!("parsing time {text:?} as {layout}: {rest}"));
    }
}

#[test]
fn nulls_are_absent_fields_and_zero_items() {
    let pod = json!({"metadata": {"creationTimestamp": null, "labels": null, "annotations": {"a": null}},
        "spec": {"containers": [null, {"name": "c", "args": [null, "x"]}]}});
    let kept =
        json!({"metadata": {"annotations": {"a": ""}}, "spec": {"containers": [{}, {"name": "c", "args": ["", "x"]}]}});
    assert_eq!(stored("Pod", pod), kept);
}

#[test]
fn whole_floats_are_integers() {
    assert_eq!(stored("Pod", json!({"spec": {"priority": 1.0}})).to_string(), r#"{"spec":{"priority":1}}"#);
    let service = json!({"spec": {"ports": [{"port": 80.0, "targetPort": 8080.0}, {"targetPort": "web"}]}});
    let kept = json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"targetPort": "web"}]}});
    assert_eq!(stored("Service", service), kept);
}

#[test]
fn bytes_must_be_base64() {
    let data = |text: &str| json!({"data": {"a": text}});
    assert_eq!(stored("Secret", data("aGVs\nbG8=\r\n")), data("aGVsbG8="));
    assert_eq!(stored("Secret", data("")), data(""));
    for (text, at) in
        [("a*==", 1), ("abc", 0), ("aGVsbG8", 4), ("YQ=", 3), ("YQ==x", 4), ("YQ=x", 3), ("=", 0), ("YWI=YQ==", 4)]
    {
        assert_eq!(refusal("Secret", data(text)), format!("illegal base64 data at input byte {at}"), "{text}");
    }
}

#[test]
fn schema_unions_take_both_forms_and_prune_silently() {
    let schema =
        |props: Value| json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": props}}}}]}});
    let crd = |value: Value| conform_as("apiextensions.k8s.io", "CustomResourceDefinition", value);
    let given = schema(json!({"items": {"type": "string", "nope": 1}, "additionalProperties": false, "default": null}));
    let kept = schema(json!({"items": {"type": "string"}, "additionalProperties": false}));
    assert_eq!(crd(given), Ok((kept, vec![])));
    assert_eq!(crd(schema(json!({"additionalProperties": 1}))), Err("boolean or JSON schema expected".to_owned()));
    let (_, strict) = crd(schema(json!({"typ": "string"}))).expect("it fits");
    assert_eq!(strict, ["unknown field \"spec.versions[0].schema.openAPIV3Schema.properties.a.typ\""]);
}

#[test]
fn custom_structs_are_pruned_but_not_typed() {
    let field = |name: &str, shape| Field { name: name.into(), shape, required: false, key_default: None, proto: None };
    let text = Shape::Scalar(Scalar::String);
    let spec = Struct { fields: vec![field("size", text)], ..Struct::default() };
    let meta = builtin::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("in the table");
    let root = Struct {
        fields: vec![
            field("metadata", Shape::Struct(meta)),
            field("spec", Shape::Struct(StructRef::Custom(spec.into()))),
        ],
        ..Struct::default()
    };
    let mut value = json!({"metadata": {"name": "a", "nam": 1}, "spec": {"size": 3, "colour": "red"}, "status": null});
    let strict = conform(&StructRef::Custom(root.into()), "Gad", "v1", &mut value).expect("it is pruned");
    assert_eq!(
        strict.join(" "),
        "unknown field \"metadata.nam\" unknown field \"spec.colour\" unknown field \"status\""
    );
    assert_eq!(value, json!({"metadata": {"name": "a"}, "spec": {"size": 3}}));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2.0f64..2.0).prop_map(Value::from),
        "[a-z0-9:TZ=-]{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("spec"),
        Just("metadata"),
        Just("containers"),
        Just("name"),
        Just("env"),
        Just("labels"),
        Just("resources"),
        Just("limits"),
        Just("cpu"),
        Just("priority"),
        Just("ports"),
        Just("volumes"),
        Just("status"),
        Just("startTime"),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn conforming_again_changes_nothing(value in any_json()) {
        if let Ok((once, _)) = conform_as("", "Pod", value) {
            prop_assert_eq!(conform_as("", "Pod", once.clone()), Ok((once, vec![])));
        }
    }

    #[test]
    fn reading_text_agrees_with_the_parser(value in any_json()) {
        let text = value.to_string();
        let parsed: Value = serde_json::from_str(&text).expect("it was written as JSON");
        prop_assert_eq!(json(text.as_bytes()), Ok(Decoded { value: parsed, strict: vec![] }));
    }

    #[test]
    fn base64_is_judged_as_the_decoder_judges(text in "[a-dA-D0-9+/=]{0,12}") {
        use base64::Engine;
        use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
        let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
        let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
        let fits = conform_as("", "Secret", json!({"data": {"a": text}})).is_ok();
        prop_assert_eq!(fits, engine.decode(&text).is_ok(), "{}", text);
    }
}
