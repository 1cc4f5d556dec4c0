//! Cases and laws of template variables.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const VARIABLES: &str = r#"{
    "gpus": {"schema": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2}, "description": "how many"},
    "rate": {"schema": {"type": "number", "default": 0.5}},
    "kind": {"schema": {"type": "string", "enum": ["a100", "h100"]}}
}"#;

fn given(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn codes(problems: &[Problem]) -> Vec<(&str, Code)> {
    problems.iter().map(|problem| (problem.variable.as_str(), problem.code)).collect()
}

// QUE-3, LA-T-3
#[test]
fn variables_are_read_in_order_with_their_schema_as_text() {
    let variables = declare(VARIABLES).unwrap();
    let names: Vec<_> = variables.iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(names, ["gpus", "rate", "kind"]);
    assert_eq!(variables[0].text, r#"{"type":"integer","minimum":1,"maximum":8,"default":2}"#);
    assert_eq!(variables[0].description.as_deref(), Some("how many"));
    for empty in ["{}", "null"] {
        assert_eq!(declare(empty).unwrap(), []);
    }
}

#[test]
fn every_type_that_is_told_is_one() {
    for name in TYPES {
        assert!(declare(&json!({ "x": { "schema": { "type": name } } }).to_string()).is_ok(), "{name}");
    }
}

#[test]
fn samples_are_values_that_the_queue_would_take() {
    let text = r#"{"gpus": {"schema": {"type": "integer", "minimum": 1.5}}, "rate": {"schema": {"type": "number"}},
        "kind": {"schema": {"type": "string", "enum": ["a100", "h100"]}}, "word": {"schema": {"type": "string"}},
        "fast": {"schema": {"type": "boolean"}}, "set": {"schema": {"type": "integer", "default": 7}},
        "memory": {"schema": {"type": "quantity", "minimum": 1024}}, "limit": {"schema": {"type": "duration"}}}"#;
    let variables = declare(text).unwrap();
    let shown = samples(&variables, &given(json!({ "rate": 0.25 })));
    let wanted = json!({"gpus": 2, "rate": 0.25, "kind": "a100", "word": "word", "fast": false, "set": 7,
        "memory": "1024", "limit": "1s"});
    assert_eq!(Value::from(shown.clone()), wanted);
    assert!(values(&variables, &shown).is_ok());
}

// LA-T-11
#[test]
fn a_declaration_that_could_never_work_is_refused() {
    for wrong in [
        r#"[]"#,
        r#"{"x": {}}"#,
        r#"{"x": {"schema": {"type": "date"}}}"#,
        r#"{"1x": {"schema": {"type": "string"}}}"#,
        r#"{"x": {"schema": {"type": "integer", "minimum": 3, "maximum": 2}}}"#,
        r#"{"x": {"schema": {"type": "integer", "maximum": 2, "default": 3}}}"#,
        r#"{"x": {"schema": {"type": "string", "enum": ["a"], "default": "b"}}}"#,
    ] {
        let problems = declare(wrong).unwrap_err();
        assert!(problems.iter().all(|problem| problem.code == Code::Declaration), "{wrong}: {problems:?}");
    }
}

// PUSH-4, LA-T-4, LA-T-14
#[test]
fn each_violation_has_its_own_code_and_all_are_told() {
    let variables = declare(VARIABLES).unwrap();
    let judge = |value| values(&variables, &given(value));
    let ok = judge(json!({"kind": "h100"})).unwrap();
    assert_eq!(
        ok,
        BTreeMap::from([("gpus".into(), json!(2)), ("rate".into(), json!(0.5)), ("kind".into(), json!("h100"))])
    );
    let cases = [
        (json!({"kind": "h100", "gpus": "2"}), vec![("gpus", Code::Type)]),
        (json!({"kind": "h100", "gpus": 1.5}), vec![("gpus", Code::Type)]),
        (json!({"kind": "h100", "gpus": 0}), vec![("gpus", Code::Minimum)]),
        (json!({"kind": "h100", "gpus": 9}), vec![("gpus", Code::Maximum)]),
        (json!({"kind": "v100"}), vec![("kind", Code::Choice)]),
        (json!({}), vec![("kind", Code::Missing)]),
        (json!({"kind": "h100", "nodes": 1}), vec![("nodes", Code::Unknown)]),
        (
            json!({"gpus": 9, "nodes": 1}),
            vec![("nodes", Code::Unknown), ("gpus", Code::Maximum), ("kind", Code::Missing)],
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(codes(&judge(input).unwrap_err()), expected);
    }
    let told = judge(json!({"kind": "h100", "gpus": 9})).unwrap_err();
    assert_eq!(told[0].sentence, "template variable `gpus` must be at most 8, but got 9");
}

// LA-T-13
#[test]
fn quantities_and_durations_are_texts_that_can_be_read() {
    let variables = declare(
        r#"{"memory": {"schema": {"type": "quantity", "minimum": 1048576, "maximum": 8589934592, "default": "4Gi"}},
            "limit": {"schema": {"type": "duration", "maximum": 3600, "enum": ["90s", "30m", "2h"], "default": "30m"}}}"#,
    )
    .unwrap();
    let judge = |value| values(&variables, &given(value));
    let ok = judge(json!({"memory": "500Mi", "limit": "90s"})).unwrap();
    assert_eq!(ok, BTreeMap::from([("memory".into(), json!("500Mi")), ("limit".into(), json!("90s"))]));
    assert_eq!(judge(json!({"memory": 2097152})).unwrap()["memory"], json!(2097152));
    for (input, expected) in [
        (json!({"memory": "4 GB"}), ("memory", Code::Type)),
        (json!({"memory": true}), ("memory", Code::Type)),
        (json!({"memory": "1k"}), ("memory", Code::Minimum)),
        (json!({"memory": "9Gi"}), ("memory", Code::Maximum)),
        (json!({"limit": "90"}), ("limit", Code::Type)),
        (json!({"limit": 90}), ("limit", Code::Type)),
        (json!({"limit": "2h"}), ("limit", Code::Maximum)),
        (json!({"limit": "45m"}), ("limit", Code::Choice)),
    ] {
        assert_eq!(codes(&judge(input).unwrap_err()), [expected]);
    }
    let told = judge(json!({"memory": "lots"})).unwrap_err();
    assert_eq!(
        told[0].sentence,
        "template variable `memory` must be of type quantity, such as 500m or 4Gi, but got \"lots\""
    );
    assert!(declare(r#"{"x": {"schema": {"type": "quantity", "default": "much"}}}"#).is_err());
    assert_eq!(worded(&variables, "memory", "2097152"), json!("2097152"));
}

// LA-T-13
#[test]
fn a_sum_ties_one_field_to_another() {
    let variables =
        declare(r#"{"workers": {"schema": {"type": "integer"}}, "word": {"schema": {"type": "string"}}}"#).unwrap();
    let config =
        json!({"minAvailable": "{{= workers + 1}}", "name": "gang-of-{{=workers+1}}", "replicas": "{{workers}}"});
    assert_eq!(check(&config, &variables), []);
    let values = BTreeMap::from([("workers".into(), json!(3))]);
    assert_eq!(render(&config, &values), json!({"minAvailable": 4, "name": "gang-of-4", "replicas": 3}));
    let sentences = |text: &str| -> Vec<String> {
        check(&json!({ "n": text }), &variables).into_iter().map(|problem| problem.sentence).collect()
    };
    assert_eq!(
        sentences("{{= gone + 1}}"),
        ["the config uses `{{gone}}`, but no template variable `gone` is declared"]
    );
    assert_eq!(sentences("{{= workers +}}"), ["`{{= workers +}}` cannot be reckoned: it ends too early"]);
    assert_eq!(
        sentences("{{= word + 1}}"),
        ["`{{= word + 1}}` counts with `word`, which is of type string, not integer"]
    );
    assert_eq!(codes(&check(&json!({"{{=workers}}": 1}), &variables)), [("workers", Code::Declaration)]);
}

// LA-T-7, LA-T-8, LA-T-9, LA-T-12
#[test]
fn a_whole_token_takes_the_value_and_a_part_is_written_out() {
    let values = BTreeMap::from([("n".into(), json!(5)), ("s".into(), json!("{{n}} ${x}"))]);
    let config =
        json!({"a": "{{n}}", "b": ["{{ n }}"], "c": "n={{n}}, s={{s}}", "d": "{{other}}", "e": 1, "f": "{{{{n}}"});
    let expected = json!({"a": 5, "b": [5], "c": "n=5, s={{n}} ${x}", "d": "{{other}}", "e": 1, "f": "{{n}}"});
    assert_eq!(render(&config, &values), expected);
}

// LA-T-9
#[test]
fn a_number_becomes_a_text_where_its_kind_wants_one() {
    let values = BTreeMap::from([("n".into(), json!(5)), ("on".into(), json!(true)), ("big".into(), json!(1e21))]);
    let pod = |n: Value, next: Value, on: Value| {
        json!({"nodeSelector": {"n": n}, "containers": [{"name": n, "image": n, "args": ["-n", n], "command": [on],
            "env": [{"name": "N", "value": n}, {"name": "M", "value": next}], "workingDir": n}]})
    };
    let token = |text: &str| json!(text);
    let (raw, made) =
        (pod(token("{{n}}"), token("{{= n + 1}}"), token("{{ on }}")), pod(json!("5"), json!("6"), json!("true")));
    let labels = |value: Value| json!({"labels": {"a": value}, "annotations": {"b": value}, "name": value});
    // A plain Job, with and without its kind, and wrapped as a server keeps it; kinds with a definition; unknown kinds.
    let volcano = |pod: &Value| json!([{"template": {"spec": pod}}]);
    for (field, head) in [
        ("template", json!({})),
        ("template", json!({"apiVersion": "batch/v1", "kind": "Job"})),
        ("template", json!({"apiVersion": "example.org/v1", "kind": "Trainer"})),
        ("tasks", json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"})),
        ("pytorchReplicaSpecs", json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"})),
    ] {
        let manifest = |meta: Value, pod: &Value| {
            let mut made = head.clone();
            made["metadata"] = labels(meta);
            made["spec"][field] = match field {
                "tasks" => volcano(pod),
                "pytorchReplicaSpecs" => json!({"Worker": {"replicas": 2, "template": {"spec": pod}}}),
                _ => json!({"metadata": {}, "spec": pod}),
            };
            json!({ "kubernetes": made })
        };
        assert_eq!(render(&manifest(json!("{{n}}"), &raw), &values), manifest(json!("5"), &made), "{head}");
    }
    // What wants a number keeps it, and what the queue has written itself is left as it is.
    let numbers = json!({"kind": "Job", "spec": {"parallelism": "{{n}}", "template": {"spec": {"containers": [
        {"resources": {"limits": {"nvidia.com/gpu": "{{n}}"}}, "ports": [{"containerPort": "{{n}}"}], "args": [7]}]}}}});
    let rendered = json!({"kind": "Job", "spec": {"parallelism": 5, "template": {"spec": {"containers": [
        {"resources": {"limits": {"nvidia.com/gpu": 5}}, "ports": [{"containerPort": 5}], "args": [7]}]}}}});
    assert_eq!(render(&numbers, &values), rendered);
    let text = json!({"containers": [{"args": ["{{big}}", "x{{big}}", "{{big}} {{on}}"]}]});
    let digits = "1000000000000000000000";
    let expected = json!({"containers": [{"args": [digits, format!("x{digits}"), format!("{digits} true")]}]});
    assert_eq!(render(&text, &values), expected);
}

// PUSH-4
#[test]
fn a_whole_number_given_as_a_float_becomes_an_integer() {
    let variables = declare(r#"{"n": {"schema": {"type": "integer"}}}"#).unwrap();
    let values = values(&variables, &given(json!({"n": 2.0}))).unwrap();
    assert_eq!(values["n"].to_string(), "2");
}

// LA-T-10
#[test]
fn undeclared_tokens_and_tokens_in_keys_are_found() {
    let variables = declare(VARIABLES).unwrap();
    let config = json!({"a": "{{gpus}}", "b": ["{{nope}}"], "{{kind}}": 1, "c": "{{ .Values.x }}", "d": "${run_id}"});
    assert_eq!(codes(&check(&config, &variables)), [("nope", Code::Unknown), ("kind", Code::Declaration)]);
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::from),
        (-1e6f64..1e6).prop_map(Value::from),
        "[a-z{}$ ]{0,8}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ]
}

proptest! {
    // LA-T-4: whatever is accepted renders, and no token of the queue is left.
    #[test]
    fn what_is_accepted_renders(kind in any_value(), gpus in any_value(), rate in any_value()) {
        let variables = declare(VARIABLES).unwrap();
        let config = json!({"a": "{{gpus}}", "b": {"c": ["{{rate}}", "{{kind}}"]}});
        prop_assert!(check(&config, &variables).is_empty());
        let given = given(json!({"kind": kind, "gpus": gpus, "rate": rate}));
        if let Ok(values) = values(&variables, &given) {
            let rendered = render(&config, &values);
            let gpus = rendered["a"].as_i64();
            prop_assert!(gpus.is_some_and(|gpus| (1..=8).contains(&gpus)));
            prop_assert!(rendered["b"]["c"][0].is_number());
            prop_assert!(["a100", "h100"].contains(&rendered["b"]["c"][1].as_str().unwrap()));
            prop_assert_eq!(render(&rendered, &values), rendered);
        }
    }

    #[test]
    fn a_text_without_tokens_is_left_alone(text in "[a-z}$ .]{0,20}") {
        prop_assert_eq!(render(&json!(text.clone()), &BTreeMap::new()), json!(text));
    }

    #[test]
    fn cutting_a_text_never_fails(text in "[{} a-z_-]{0,40}") {
        parts(&text);
    }
}

// LA-T-4: a value is never taken for a template itself.
#[test]
fn a_value_that_looks_like_a_token_is_written_as_it_is() {
    let values = BTreeMap::from([("a".to_owned(), json!("{{b}}")), ("b".to_owned(), json!("secret"))]);
    assert_eq!(render(&json!({"x": "{{a}}", "y": "-{{a}}-"}), &values), json!({"x": "{{b}}", "y": "-{{b}}-"}));
}

fn any_variable() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["string", "integer", "number", "boolean"]);
    (
        kind,
        prop::option::of(-5i32..5),
        prop::option::of(-5i32..5),
        prop::option::of(any_value()),
        prop::option::of(prop::collection::vec(any_value(), 1..3)),
    )
        .prop_map(|(kind, minimum, maximum, default, choices)| {
            let mut schema = json!({ "type": kind });
            let mut set = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    schema[name] = value
                }
            };
            set("minimum", minimum.map(Value::from));
            set("maximum", maximum.map(Value::from));
            set("default", default);
            set("enum", choices.map(Value::from));
            json!({ "schema": schema })
        })
}

fn any_config() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("{{a}}".to_owned()),
        Just("x-{{ b }}-{{a}}".to_owned()),
        Just("{{{{a}}".to_owned()),
        Just("${run_id} {{ .Values.x }}".to_owned()),
        "[a-z{} ]{0,10}",
    ];
    let leaf = prop_oneof![text.prop_map(Value::from), any_value()];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[k-m]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Whether a value is of a variable's kind and within its limits, told once more and plainly.
fn is_allowed(schema: &Value, value: &Value) -> bool {
    let is_kind = match schema["type"].as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => value.is_boolean(),
    };
    let number = value.as_f64();
    let above = schema["minimum"].as_f64().is_none_or(|limit| number.is_none_or(|number| number >= limit));
    let below = schema["maximum"].as_f64().is_none_or(|limit| number.is_none_or(|number| number <= limit));
    let is_same = |one: &Value| one == value || one.as_f64().is_some_and(|one| number == Some(one));
    let chosen = schema["enum"].as_array().is_none_or(|choices| choices.iter().any(is_same));
    is_kind && above && below && chosen
}

/// Whether a rendered config still has a token of the queue's.
fn has_token(value: &Value, variables: &[Variable]) -> bool {
    check(value, &[]).iter().any(|problem| variables.iter().any(|variable| variable.name == problem.variable))
}

proptest! {
    // T-4, T-11: for any declaration that is accepted, whatever values are accepted are allowed by it and render.
    #[test]
    fn any_accepted_declaration_is_sound(
        a in any_variable(), b in any_variable(), config in any_config(), given in prop::collection::btree_map("[abc]", any_value(), 0..3),
    ) {
        let declared = json!({ "a": a, "b": b });
        let Ok(variables) = declare(&declared.to_string()) else { return Ok(()) };
        if !check(&config, &variables).is_empty() { return Ok(()) }
        let given: Map<String, Value> = given.into_iter().collect();
        let Ok(values) = values(&variables, &given) else { return Ok(()) };
        for (name, value) in &values {
            prop_assert!(is_allowed(&declared[name]["schema"], value), "{} {}", declared[name], value);
        }
        let rendered = render(&config, &values);
        let has_escapes = config.to_string().contains("{{{{");
        let brings_tokens = values.values().any(|value| value.as_str().is_some_and(|text| text.contains('{')));
        if !has_escapes && !brings_tokens {
            prop_assert!(!has_token(&rendered, &variables), "{} became {}", config, rendered);
        }
    }
}

#[test]
fn what_is_written_for_a_variable_is_read_by_its_type() {
    let variables = declare(
        r#"{"n": {"schema": {"type": "integer"}}, "s": {"schema": {"type": "string"}}, "b": {"schema": {"type": "boolean"}}}"#,
    )
    .unwrap();
    for (name, text, expected) in [
        ("n", "5", json!(5)),
        ("n", "two", json!("two")),
        ("s", "5", json!("5")),
        ("b", "true", json!(true)),
        ("x", "1", json!("1")),
    ] {
        assert_eq!(worded(&variables, name, text), expected, "{name}={text}");
    }
}
