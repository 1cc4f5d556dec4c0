//! Selectors as text and as objects, what they match, and the texts for wrong ones.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn selects(selector: &str, labels: &Value) -> bool {
    LabelSelector::parse(selector).unwrap().matches(labels.as_object())
}

// K-LIST-8
#[test]
fn every_operator_selects_what_it_says() {
    let labels = json!({"app": "web", "tier": "front", "count": "5", "empty": ""});
    let hits = [
        "",
        "app",
        "!gone",
        "app=web",
        "app==web",
        "app!=db",
        "gone!=x",
        "app in (web,db)",
        "app notin (db)",
        "gone notin (a)",
        "count>4",
        "count<6",
        "empty=",
        "empty in ()",
        " app = web , tier in ( front , back ) ",
        "app=web,!gone,count>1",
    ];
    for selector in hits {
        assert!(selects(selector, &labels), "{selector}");
    }
    let misses = [
        "gone", "!app", "app=db", "app!=web", "app in (db)", "app notin (web,x)", "count>5", "count<5", "app>1",
        "gone<1", "gone=",
    ];
    for selector in misses {
        assert!(!selects(selector, &labels), "{selector}");
    }
    assert!(LabelSelector::parse("!x").unwrap().matches(None));
}

// K-LIST-8
#[test]
fn selectors_that_cannot_be_read_say_why() {
    let cases = [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=)", "unable to parse requirement: found ')', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a_=b",
            "unable to parse requirement: <nil>: Invalid value: \"a_\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "a=-b",
            "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ];
    for (selector, message) in cases {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), message, "{selector}");
    }
}

// K-LIST-8
#[test]
fn selector_objects_read_as_their_text() {
    let object = json!({
        "matchLabels": {"b": "1", "a": "2"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}, {"key": "d", "operator": "DoesNotExist"}],
    });
    let selector = LabelSelector::from_object(Some(&object)).unwrap();
    assert_eq!(selector.to_string(), "a=2,b=1,c in (x,y),!d");
    assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().is_everything());
    assert_eq!(LabelSelector::from_object(None).unwrap(), LabelSelector::nothing());
    let unknown = json!({"matchExpressions": [{"key": "c", "operator": "Near"}]});
    let error = LabelSelector::from_object(Some(&unknown)).unwrap_err();
    assert_eq!(error.to_string(), "\"Near\" is not a valid label selector operator");
    let empty = json!({"matchExpressions": [{"key": "c", "operator": "In"}]});
    let error = LabelSelector::from_object(Some(&empty)).unwrap_err();
    assert_eq!(error.to_string(), "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
    let labels = json!({"x": "1"});
    assert_eq!(LabelSelector::from_labels(labels.as_object()).to_string(), "x=1");
    assert!(LabelSelector::everything().matches(None) && !LabelSelector::nothing().matches(labels.as_object()));
}

// K-LIST-9 K-LIST-10
#[test]
fn field_selectors_compare_text_and_allow_empty_values() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "hostNetwork": true}, "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}});
    let selects = |text: &str| FieldSelector::parse(text).unwrap().matches_object("", "Pod", &pod);
    let hits = [
        "",
        "spec.nodeName=n1",
        "spec.host==n1",
        "spec.nodeName!=",
        "status.phase!=Failed,metadata.name=p",
        "spec.hostNetwork=true",
        "metadata.namespace=",
        "status.podIP=10.0.0.1",
    ];
    for text in hits {
        assert!(selects(text), "{text}");
    }
    for text in ["spec.nodeName=", "status.phase=Failed", "metadata.name=p,spec.nodeName=n2"] {
        assert!(!selects(text), "{text}");
    }
    let selector = FieldSelector::parse("metadata.name=a,metadata.namespace!=b").unwrap();
    assert_eq!(selector.requires("metadata.name"), Some("a"));
    assert_eq!(selector.requires("metadata.namespace"), None);
}

// K-LIST-9
#[test]
fn backslashes_protect_special_characters_in_field_values() {
    let selector = FieldSelector::parse(r"a=x\,y\=z\\").unwrap();
    assert_eq!(selector.requires("a"), Some(r"x,y=z\"));
    let cases = [
        ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ];
    for (text, message) in cases {
        assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), message);
    }
}

// K-LIST-9
#[test]
fn unknown_fields_are_refused_in_the_words_of_their_kind() {
    assert_eq!(unknown_field_message("", "Pod", "foo"), "field label not supported: foo");
    assert_eq!(unknown_field_message("example.com", "Widget", "spec.x"), "field label not supported: spec.x");
    assert_eq!(unknown_field_message("batch", "Job", "foo"), "field label \"foo\" not supported for Job");
    assert_eq!(
        unknown_field_message("apps", "Deployment", "foo"),
        "\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    assert!(fields("", "Pod").contains(&"spec.host"));
    assert_eq!(fields("apps", "Deployment"), ["metadata.name", "metadata.namespace"]);
}

// K-LIST-9
#[test]
fn event_fields_are_found_under_both_groups_spellings() {
    let core =
        json!({"involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "kubelet"}, "type": "Normal"});
    let newer =
        json!({"regarding": {"kind": "Pod", "name": "p"}, "reportingController": "scheduler", "type": "Normal"});
    for event in [&core, &newer] {
        assert_eq!(field_value("", "Event", "involvedObject.name", event), "p");
        assert_eq!(field_value("events.k8s.io", "Event", "regarding.kind", event), "Pod");
        assert_eq!(field_value("", "Event", "involvedObject.namespace", event), "");
    }
    assert_eq!(field_value("", "Event", "source", &core), "kubelet");
    assert_eq!(field_value("", "Event", "source", &newer), "scheduler");
    assert_eq!(field_value("batch", "Job", "status.successful", &json!({"status": {"succeeded": 3}})), "3");
    assert_eq!(field_value("batch", "Job", "status.successful", &json!({})), "0");
    assert_eq!(field_value("", "Node", "spec.unschedulable", &json!({})), "false");
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]", "in|notin", "[a-z]{1,3}\\.io/[a-zA-Z0-9]{1,4}"]
}

fn requirement() -> impl Strategy<Value = String> {
    prop_oneof![
        key(),
        key().prop_map(|key| format!("!{key}")),
        (key(), "[a-c]?").prop_map(|(key, value)| format!("{key}={value}")),
        (key(), "[a-c]?").prop_map(|(key, value)| format!("{key}!={value}")),
        (key(), "[0-9]").prop_map(|(key, value)| format!("{key}>{value}")),
        (key(), proptest::collection::vec("[a-c]?", 1..4))
            .prop_map(|(key, values)| format!("{key} in ({})", values.join(","))),
        (key(), proptest::collection::vec("[a-c]", 1..4))
            .prop_map(|(key, values)| format!("{key} notin ({})", values.join(","))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // K-LIST-8
    #[test]
    fn a_printed_selector_reads_back_as_itself(terms in proptest::collection::vec(requirement(), 0..4)) {
        let selector = LabelSelector::parse(&terms.join(",")).unwrap();
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    }

    // K-LIST-8
    #[test]
    fn in_is_the_union_of_equals_and_notin_its_negation(
        values in proptest::collection::vec("[a-d]?", 1..4),
        label in proptest::option::of("[a-d]?"),
    ) {
        let label = label.as_deref();
        let holds = |text: String| LabelSelector::parse(&text).unwrap().matches_with(|_| label);
        let any = values.iter().any(|value| holds(format!("k={value}")));
        let list = values.join(",");
        prop_assert_eq!(holds(format!("k in ({list})")), any);
        prop_assert_eq!(holds(format!("k notin ({list})")), !any);
        prop_assert_eq!(holds("k".to_owned()), !holds("!k".to_owned()));
    }

    // K-LIST-9
    #[test]
    fn a_printed_field_selector_reads_back_as_itself(value in "[a-z,=\\\\]{0,6}") {
        let escaped = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let selector = FieldSelector::parse(&format!("b={escaped},a!={escaped}")).unwrap();
        prop_assert_eq!(selector.requires("b"), Some(value.as_str()));
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
