//! Label selectors as objects carry them: their shape, and whether they match a set of labels.

use super::metadata::label_selector;
use super::path::Path;
use super::rows::{entries, items};
use crate::kube::field::FieldError;
use crate::kube::text;
use serde_json::{Map, Value};

/// Checks a selector with `matchLabels` and `matchExpressions`; an absent one has no problems.
pub fn check_selector(selector: Option<&Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(selector) = selector.filter(|value| value.is_object()) {
        label_selector(&mut errors, selector, &Path::new(path));
    }
    errors
}

/// Whether a selector asks for anything.
pub fn selects_nothing_special(selector: &Value) -> bool {
    entries(selector, "matchLabels").next().is_none() && items(selector, "matchExpressions").is_empty()
}

/// Whether labels satisfy every part of a selector; an empty selector is satisfied by all.
pub fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let none = Map::new();
    let labels = labels.and_then(Value::as_object).unwrap_or(&none);
    let has_all = entries(selector, "matchLabels").all(|(key, value)| labels.get(key) == Some(value));
    has_all && items(selector, "matchExpressions").iter().all(|expression| satisfies(expression, labels))
}

fn satisfies(expression: &Value, labels: &Map<String, Value>) -> bool {
    let present = labels.get(text(expression, "key"));
    let is_listed = present.is_some_and(|value| items(expression, "values").contains(value));
    match text(expression, "operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => present.is_some(),
        "DoesNotExist" => present.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_match_by_labels_and_by_expressions() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let labels = json!({"a": "1", "b": "2"});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "c": "3"}}), false),
            (expression("In", &["1", "5"]), true),
            (expression("NotIn", &["1"]), false),
            (expression("Exists", &[]), true),
            (expression("DoesNotExist", &[]), false),
        ] {
            assert_eq!(matches(&selector, Some(&labels)), expected, "{selector}");
        }
    }

    #[test]
    fn broken_selectors_say_which_part_is_wrong() {
        let selector = json!({
            "matchLabels": {"app": "b!"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "", "operator": "Gt"},
            ],
        });
        let texts: Vec<String> =
            check_selector(Some(&selector), "spec.selector").iter().map(ToString::to_string).collect();
        let starts = [
            r#"spec.selector.matchLabels: Invalid value: "b!": a valid label must be"#,
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            r#"spec.selector.matchExpressions[2].operator: Invalid value: "Gt": not a valid selector operator"#,
            r#"spec.selector.matchExpressions[2].key: Invalid value: "": name part must be non-empty"#,
            r#"spec.selector.matchExpressions[2].key: Invalid value: "": name part must consist of"#,
        ];
        assert_eq!(texts.len(), starts.len(), "{texts:#?}");
        for (text, start) in texts.iter().zip(starts) {
            assert!(text.starts_with(start), "{text}");
        }
    }
}
