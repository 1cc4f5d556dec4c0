//! What a compiled schema does to objects: cases with the texts of the reference, and the laws of pruning and
//! defaulting.

use super::schema::Schema;
use proptest::prelude::*;
use serde_json::{Value, json};

fn compile(schema: Value) -> Schema {
    Schema::compile(&schema).unwrap()
}

/// A schema whose `spec` has these properties.
fn spec(properties: Value) -> Schema {
    compile(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}))
}

fn texts(errors: Vec<volley_api::kube::field::FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The errors of `spec.x` with this schema and this value.
fn errors_of(schema: Value, value: Value) -> Vec<String> {
    texts(spec(json!({"x": schema})).check(&json!({"spec": {"x": value}}), None))
}

// K-CRD-6 K-CRD-8
#[test]
fn each_constraint_has_the_text_of_the_reference() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("a"),
            r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "string"}),
            json!(1),
            r#"spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "string"}),
            json!(1.5),
            r#"spec.x: Invalid value: "number": spec.x in body must be of type string: "number""#,
        ),
        (
            json!({"type": "object"}),
            json!([]),
            r#"spec.x: Invalid value: "array": spec.x in body must be of type object: "array""#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!({}),
            r#"spec.x: Invalid value: "object": spec.x in body must be of type array: "object""#,
        ),
        (
            json!({"type": "boolean"}),
            json!(null),
            r#"spec.x: Invalid value: "null": spec.x in body must be of type boolean: "null""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(true),
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean""#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!(1),
            r#"spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64""#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(6),
            "spec.x: Invalid value: 6: spec.x in body should be less than or equal to 5",
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true}),
            json!(1.5),
            "spec.x: Invalid value: 1.5: spec.x in body should be less than 1.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "spec.x: Invalid value: 4: spec.x in body should be a multiple of 3",
        ),
        (
            json!({"type": "string", "enum": ["red", "green"]}),
            json!("blue"),
            r#"spec.x: Unsupported value: "blue": supported values: "red", "green""#,
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            r#"spec.x: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A"),
            r#"spec.x: Invalid value: "A": spec.x in body should match '^[a-z]+$'"#,
        ),
        (json!({"type": "string", "maxLength": 3}), json!("abcd"), "spec.x: Too long: may not be more than 3 bytes"),
        (
            json!({"type": "string", "minLength": 3}),
            json!("ab"),
            r#"spec.x: Invalid value: "ab": spec.x in body should be at least 3 chars long"#,
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 2}),
            json!([1, 2, 3]),
            "spec.x: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 2}),
            json!([1]),
            "spec.x: Invalid value: 1: spec.x in body should have at least 2 items",
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!([1, "a"]),
            r#"spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}),
            json!([1, 1]),
            r#"spec.x: Invalid value: "": spec.x in body shouldn't contain duplicates"#,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"k": "a"}),
            r#"spec.x.k: Invalid value: "string": spec.x.k in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "object", "additionalProperties": false}),
            json!({"k": 1}),
            r#"spec.x: Invalid value: "k": spec.x.k in body is a forbidden property"#,
        ),
        (
            json!({"type": "object", "additionalProperties": true, "minProperties": 1}),
            json!({}),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "additionalProperties": true, "maxProperties": 1}),
            json!({"a": 1, "b": 2}),
            "spec.x: Too many: 2: must have at most 1 items",
        ),
        (json!({"type": "object", "required": ["a"]}), json!({}), "spec.x.a: Required value"),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("now"),
            r#"spec.x: Invalid value: "now": spec.x in body must be of type date-time: "now""#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "b", "a", "a"]),
            r#"spec.x[2]: Duplicate value: "a""#,
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            json!([{"k": "a"}, {"k": "a"}]),
            r#"spec.x[1]: Duplicate value: {"k":"a"}"#,
        ),
        (
            json!({"type": "object", "not": {"required": ["a"]}}),
            json!({"a": 1}),
            r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#,
        ),
    ];
    for (schema, value, text) in cases {
        assert_eq!(errors_of(schema.clone(), value.clone()), [text], "{schema} on {value}");
    }
}

// K-CRD-6
#[test]
fn values_that_fit_have_no_errors() {
    let cases = [
        (json!({"type": "integer"}), json!(3.0)),
        (json!({"type": "number"}), json!(3)),
        // The reference ignores the formats of numbers.
        (json!({"type": "integer", "format": "int32"}), json!(3_000_000_000_i64)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"}),
            json!("50%"),
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"}),
            json!(50),
        ),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!({"any": [1]})),
        (json!({"type": "string", "enum": ["a"]}), json!("a")),
        (json!({"type": "string", "maxLength": 3}), json!("äöü")),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.5)),
    ];
    for (schema, value) in cases {
        assert_eq!(errors_of(schema.clone(), value.clone()), Vec::<String>::new(), "{schema} on {value}");
    }
}

// K-CRD-6 K-CRD-8
#[test]
fn a_failed_choice_reports_the_branch_that_came_closest() {
    let one_of = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        errors_of(one_of.clone(), json!({})),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.x.a: Required value",
        ]
    );
    assert_eq!(
        errors_of(one_of, json!({"a": 1, "b": 2})),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    let any_of = json!({"type": "integer", "anyOf": [{"minimum": 10}, {"enum": [5]}]});
    assert_eq!(
        errors_of(any_of, json!(7)),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            "spec.x: Invalid value: 7: spec.x in body should be greater than or equal to 10",
        ]
    );
    let all_of = json!({"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 20}]});
    assert_eq!(
        errors_of(all_of, json!(7)),
        [
            "spec.x: Invalid value: 7: spec.x in body should be greater than or equal to 10",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
        ]
    );
}

// K-CRD-8
#[test]
fn a_missing_root_field_is_named_without_a_dot() {
    let schema = compile(json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}}));
    assert_eq!(texts(schema.validate(&json!({}))), ["spec: Required value"]);
}

// K-CRD-6
#[test]
fn embedded_resources_need_a_version_and_a_kind() {
    let embedded =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(
        errors_of(embedded.clone(), json!({"kind": "", "metadata": {}})),
        ["spec.x.apiVersion: Required value", r#"spec.x.kind: Invalid value: "": must not be empty"#,]
    );
    assert!(errors_of(embedded, json!({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}})).is_empty());
}

// K-CRD-7 K-WR-8
#[test]
fn unknown_fields_are_removed_and_reported() {
    let schema = spec(json!({
        "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "any": {"type": "object", "additionalProperties": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"closed": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }));
    let mut object = json!({
        "apiVersion": "a/v1", "kind": "A", "extra": 1,
        "metadata": {"name": "a", "labels": {"x": "y"}, "nope": 1, "ownerReferences": [{"uid": "u", "bad": 1}]},
        "spec": {
            "foo": 1,
            "items": [{"a": "x", "bar": 1}],
            "map": {"k": {"a": "x", "b": 1}},
            "any": {"k": {"gone": 1}, "s": "stays"},
            "open": {"free": {"x": 1}, "closed": {"a": "x", "b": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1}, "spec": {}, "status": 1},
        },
    });
    let unknown = schema.prune(&mut object);
    assert_eq!(
        unknown,
        [
            "metadata.nope",
            "metadata.ownerReferences[0].bad",
            "extra",
            "spec.any.k.gone",
            "spec.foo",
            "spec.items[0].bar",
            "spec.map.k.b",
            "spec.open.closed.b",
            "spec.pod.metadata.odd",
            "spec.pod.status",
        ]
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "a/v1", "kind": "A",
            "metadata": {"name": "a", "labels": {"x": "y"}, "ownerReferences": [{"uid": "u"}]},
            "spec": {
                "items": [{"a": "x"}],
                "map": {"k": {"a": "x"}},
                "any": {"k": {}, "s": "stays"},
                "open": {"free": {"x": 1}, "closed": {"a": "x"}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
            },
        })
    );
}

// K-CRD-7
#[test]
fn defaults_are_filled_where_the_parent_exists() {
    let schema = spec(json!({
        "size": {"type": "integer", "default": 3},
        "deep": {"type": "object", "default": {}, "properties": {"color": {"type": "string", "default": "red"}}},
        "other": {"type": "object", "properties": {"color": {"type": "string", "default": "red"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
        "gone": {"type": "string"},
        "kept": {"type": "string", "nullable": true},
    }));
    let mut object = json!({"spec": {"size": null, "list": [{}, {"n": 2}], "gone": null, "kept": null}});
    schema.default(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"size": 3, "deep": {"color": "red"}, "list": [{"n": 1}, {"n": 2}], "kept": null}})
    );
    let mut without_spec = json!({"metadata": {}});
    schema.default(&mut without_spec);
    assert_eq!(without_spec, json!({"metadata": {}}));
}

// K-CRD-8
#[test]
fn an_update_may_keep_what_was_wrong_before() {
    let schema = spec(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}));
    let old = json!({"spec": {"a": "bad", "b": 1}});
    assert!(schema.check(&json!({"spec": {"a": "bad", "b": 2}}), Some(&old)).is_empty());
    assert_eq!(schema.check(&json!({"spec": {"a": "worse", "b": 2}}), Some(&old)).len(), 1);
}

// K-CRD-8 K-WR-5
#[test]
fn a_status_write_is_checked_below_status() {
    let schema = compile(json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }}));
    let object = json!({"spec": {}, "status": {"n": "x"}});
    assert_eq!(
        texts(schema.check_status(&object, &json!({}))),
        [r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#]
    );
}

fn ruled(rules: Value) -> Schema {
    compile(json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-validations": rules,
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "a-b": {"type": "string"},
            "when": {"type": "string", "format": "date-time"},
            "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10", "message": "too big"}]},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "may not shrink"}],
            }},
        },
    }}}))
}

// K-CRD-6 K-CRD-8
#[test]
fn rules_refuse_objects_with_their_message() {
    let schema = ruled(json!([{"rule": "self.min <= self.max", "message": "min must not exceed max"}]));
    assert!(schema.check(&json!({"spec": {"min": 1, "max": 2}}), None).is_empty());
    assert_eq!(
        texts(schema.check(&json!({"spec": {"min": 3, "max": 2}}), None)),
        ["spec: Invalid value: min must not exceed max"]
    );
    assert_eq!(
        texts(schema.check(&json!({"spec": {"min": 1, "max": 2, "size": 12}}), None)),
        ["spec.size: Invalid value: 12: too big"]
    );
    assert_eq!(
        texts(schema.check(&json!({"spec": {"min": 1}}), None)),
        [r#"spec: Invalid value: "object": no such key: max evaluating rule: min must not exceed max"#]
    );
}

// K-CRD-6 K-CRD-8
#[test]
fn rules_have_reasons_paths_and_computed_messages() {
    let texts_of = |rule: Value, spec: Value| texts(ruled(json!([rule])).check(&json!({"spec": spec}), None));
    assert_eq!(
        texts_of(json!({"rule": "self.min > 0"}), json!({"min": 0})),
        ["spec: Invalid value: failed rule: self.min > 0"]
    );
    assert_eq!(
        texts_of(
            json!({"rule": "false", "message": "no", "reason": "FieldValueForbidden", "fieldPath": ".min"}),
            json!({})
        ),
        ["spec.min: Forbidden: no"]
    );
    assert_eq!(
        texts_of(
            json!({"rule": "has(self.max)", "message": "set it", "reason": "FieldValueRequired", "fieldPath": ".max"}),
            json!({})
        ),
        ["spec.max: Required value: set it"]
    );
    assert_eq!(
        texts_of(
            json!({"rule": "self.min > 5", "messageExpression": "'min is ' + string(self.min)"}),
            json!({"min": 2})
        ),
        ["spec: Invalid value: min is 2"]
    );
    assert!(texts_of(json!({"rule": "self.a__dash__b.startsWith('x')"}), json!({"a-b": "xy"})).is_empty());
    assert!(
        texts_of(
            json!({"rule": "self.when > timestamp('2020-01-01T00:00:00Z')"}),
            json!({"when": "2026-01-01T00:00:00Z"})
        )
        .is_empty()
    );
}

// K-CRD-6
#[test]
fn transition_rules_follow_values_through_updates() {
    let schema = ruled(json!([{"rule": "self.min == oldSelf.min", "message": "min is immutable"}]));
    let object = |min: i64, v: i64| json!({"spec": {"min": min, "list": [{"k": "new", "v": 0}, {"k": "a", "v": v}]}});
    let old = json!({"spec": {"min": 1, "list": [{"k": "a", "v": 5}]}});
    assert!(schema.check(&object(1, 5), None).is_empty());
    assert!(schema.check(&object(1, 5), Some(&old)).is_empty());
    assert_eq!(
        texts(schema.check(&object(2, 4), Some(&old))),
        ["spec: Invalid value: min is immutable", "spec.list[1]: Invalid value: may not shrink"]
    );
}

// K-CRD-6
#[test]
fn a_broken_rule_is_forgiven_while_its_list_does_not_change() {
    let schema = spec(json!({"n": {"type": "integer"}, "l": {"type": "array", "items": {
        "type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}],
    }}}));
    let old = json!({"spec": {"n": 1, "l": [12]}});
    assert_eq!(schema.check(&old, None).len(), 1);
    assert!(schema.check(&json!({"spec": {"n": 2, "l": [12]}}), Some(&old)).is_empty());
    assert_eq!(schema.check(&json!({"spec": {"n": 2, "l": [12, 13]}}), Some(&old)).len(), 2);
}

// K-CRD-6
#[test]
fn rules_may_ask_whether_there_was_an_old_value() {
    let rule = json!([{"rule": "!oldSelf.hasValue() || oldSelf.value().min <= self.min", "optionalOldSelf": true, "message": "only up"}]);
    let schema = ruled(rule);
    assert!(schema.check(&json!({"spec": {"min": 1}}), None).is_empty());
    let old = json!({"spec": {"min": 3}});
    assert_eq!(texts(schema.check(&json!({"spec": {"min": 1}}), Some(&old))), ["spec: Invalid value: only up"]);
}

// K-CRD-8
#[test]
fn rules_wait_until_the_shape_is_right() {
    let schema = ruled(json!([{"rule": "self.min <= self.max"}]));
    assert_eq!(
        texts(schema.check(&json!({"spec": {"min": "a"}}), None)),
        [
            r#"spec.min: Invalid value: "string": spec.min in body must be of type integer: "string""#,
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct \
             the existing errors to complete validation",
        ]
    );
}

// K-CRD-6
#[test]
fn rules_of_upstream_schemas_are_understood() {
    let check = |schema: Value, value: Value| errors_of(schema, value).len();
    let processes = json!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [
        {"rule": "self > 0 || self in ['auto', 'cpu', 'gpu']", "message": "must be auto, cpu, gpu, or int value"},
    ]});
    assert_eq!(check(processes.clone(), json!("auto")), 0);
    assert_eq!(check(processes.clone(), json!(4)), 0);
    assert_eq!(check(processes.clone(), json!(0)), 1);
    assert_eq!(check(processes, json!("tpu")), 1);

    let selector = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [
        {"rule": "has(self.a) || has(self.b)"},
        {"rule": "(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) <= 1"},
        {"rule": "!(has(self.n) && (has(self.t) && has(self.t.e)))"},
    ]});
    assert_eq!(check(selector.clone(), json!({"a": 1})), 0);
    assert_eq!(check(selector.clone(), json!({"a": 1, "n": 1, "t": {}})), 0);
    assert_eq!(check(selector.clone(), json!({"a": 1, "b": 1})), 1);
    assert_eq!(check(selector, json!({"a": 1, "n": 1, "t": {"e": 1}})), 1);
}

// K-CRD-6
#[test]
fn a_rule_that_would_cost_too_much_is_refused() {
    let schema = compile(json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(a, self.l.all(b, a + b >= 0))"}],
    }}}));
    let list = |count: u64| json!({"spec": {"l": (0..count).collect::<Vec<_>>()}});
    assert!(schema.check(&list(20), None).is_empty());
    assert_eq!(
        texts(schema.check(&list(20_000), None)),
        [
            r#"spec: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run"#
        ]
    );
}

// K-CRD-6
#[test]
fn a_rule_or_pattern_that_does_not_parse_is_refused_when_compiled() {
    let errors = |schema: Value| texts(Schema::compile(&schema).unwrap_err());
    let bad_rule = errors(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a >="}]}));
    assert!(bad_rule[0].starts_with("openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {\"rule\":\"self.a >=\"}: compilation failed: "), "{bad_rule:?}");
    let bad_pattern = errors(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}));
    assert!(bad_pattern[0].starts_with("openAPIV3Schema.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: "), "{bad_pattern:?}");
}

#[test]
fn a_schema_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Schema>();
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(a|b|c|metadata|kind)", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Structural schemas with small names, so that values often meet them; defaults fit their own schema.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "a"})),
        Just(json!({"type": "integer", "default": 1, "minimum": 0})),
        Just(json!({"type": "integer", "nullable": true})),
        Just(json!({"type": "string", "nullable": true, "default": "b"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("(a|b|c)", inner.clone(), 0..3)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
            prop::collection::btree_map("(a|b)", inner.clone(), 0..2).prop_map(
                |properties| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties})
            ),
            prop::collection::btree_map("(a|b)", inner.clone(), 1..2)
                .prop_map(|properties| json!({"type": "object", "default": {}, "properties": properties})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|sub| json!({"type": "object", "additionalProperties": sub})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // K-CRD-7
    #[test]
    fn pruning_and_defaulting_twice_is_doing_it_once(schema in any_schema(), value in any_value()) {
        let schema = spec(json!({"x": schema}));
        let mut once = json!({"spec": {"x": value}});
        schema.prune(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
        prop_assert_eq!(&twice, &once);
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(&twice, &once);
        prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
    }

    // K-CRD-7
    #[test]
    fn a_valid_object_stays_valid_when_pruned_and_defaulted(schema in any_schema(), value in any_value()) {
        let schema = spec(json!({"x": schema}));
        let mut object = json!({"spec": {"x": value}});
        if schema.validate(&object).is_empty() {
            schema.prune(&mut object);
            schema.default(&mut object);
            prop_assert_eq!(texts(schema.validate(&object)), Vec::<String>::new());
        }
    }

    // K-CRD-8
    #[test]
    fn an_unchanged_object_can_always_be_written_again(schema in any_schema(), value in any_value()) {
        let schema = spec(json!({"x": schema}));
        let object = json!({"spec": {"x": value}});
        prop_assert_eq!(texts(schema.validate_update(&object, &object)), Vec::<String>::new());
    }
}
