//! A job's inputs: what its schema lets a submitter set, checked before anything is queued.
//!
//! The schema is the part of JSON Schema that W&B's clients write into a job: types, limits, choices, nested objects,
//! and lists of choices. What else stands in it is for forms, and is passed over.

use serde_json::{Map, Value};
use std::fmt;

/// Deeper than any config; what is below is not judged.
const DEPTH_MAX: usize = 16;

/// Something that a submitter must change.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// With dots between its parts.
    pub input: String,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input `{}` {}", self.input, self.what)
    }
}

/// What of a job's inputs, given as its run's config, does not fit its schema.
pub fn check(schema: &Value, given: &Map<String, Value>) -> Vec<Problem> {
    let mut problems = Vec::new();
    check_object(schema, given, "", 0, &mut problems);
    problems
}

fn check_object(schema: &Value, given: &Map<String, Value>, at: &str, depth: usize, problems: &mut Vec<Problem>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| depth < DEPTH_MAX) else {
        return;
    };
    for (name, schema) in properties {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match given.get(name) {
            Some(value) => check_value(schema, value, &path, depth + 1, problems),
            None if schema.get("required") == Some(&Value::Bool(true)) && schema.get("default").is_none() => {
                problems.push(Problem { input: path, what: "is required".to_owned() });
            }
            None => (),
        }
    }
}

fn check_value(schema: &Value, value: &Value, at: &str, depth: usize, problems: &mut Vec<Problem>) {
    let mut tell = |what: String| problems.push(Problem { input: at.to_owned(), what });
    if let Some(kind) = schema.get("type").and_then(Value::as_str)
        && !is_of(kind, value)
    {
        return tell(format!("must be of type {kind}, not {value}"));
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.iter().any(|choice| is_same(choice, value))
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        return tell(format!("must be one of {}, not {value}", choices.join(", ")));
    }
    if let Some(number) = value.as_f64() {
        let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
        let rules: [(&str, &str, fn(f64, f64) -> bool); 4] = [
            ("minimum", "at least", |number, limit| number >= limit),
            ("maximum", "at most", |number, limit| number <= limit),
            ("exclusiveMinimum", "more than", |number, limit| number > limit),
            ("exclusiveMaximum", "less than", |number, limit| number < limit),
        ];
        for (key, words, is_kept) in rules {
            if let Some(limit) = limit(key).filter(|limit| !is_kept(number, *limit)) {
                tell(format!("must be {words} {limit}, not {value}"));
            }
        }
    }
    match value {
        Value::Object(object) => check_object(schema, object, at, depth, problems),
        Value::Array(list) => check_list(schema, list, at, depth, problems),
        _ => (),
    }
}

fn check_list(schema: &Value, list: &[Value], at: &str, depth: usize, problems: &mut Vec<Problem>) {
    let mut tell = |what: String| problems.push(Problem { input: at.to_owned(), what });
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    if let Some(least) = limit("minItems").filter(|least| (list.len() as u64) < *least) {
        tell(format!("must have at least {least} items"));
    }
    if let Some(most) = limit("maxItems").filter(|most| list.len() as u64 > *most) {
        tell(format!("must have at most {most} items"));
    }
    let has_twins = || list.iter().enumerate().any(|(at, one)| list[..at].contains(one));
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) && has_twins() {
        tell("must not have the same item twice".to_owned());
    }
    if let Some(items) = schema.get("items").filter(|_| depth < DEPTH_MAX) {
        for (index, item) in list.iter().enumerate() {
            check_value(items, item, &format!("{at}.{index}"), depth + 1, problems);
        }
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        // What is not known here is not judged here.
        _ => true,
    }
}

/// 1 and 1.0 are the same number to a person.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: Value, given: Value) -> Vec<String> {
        let problems = check(&json!({"type": "object", "properties": schema}), given.as_object().unwrap());
        problems.iter().map(ToString::to_string).collect()
    }

    // LA-I-5, LA-I-6
    #[test]
    fn inputs_fit_their_schema_or_all_that_is_wrong_is_told() {
        let schema = json!({
            "lr": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "epochs": {"type": "integer", "minimum": 1, "required": true},
            "net": {"type": "object", "properties": {"kind": {"type": "string", "enum": ["a", "b"]}}},
            "layers": {"type": "array", "items": {"type": "integer", "enum": [1, 2]}, "uniqueItems": true, "maxItems": 2},
            "seed": {"type": "string", "format": "secret", "default": "x", "required": true},
        });
        let good = json!({"lr": 0.5, "epochs": 3, "net": {"kind": "a"}, "layers": [1, 2], "more": [{}]});
        assert!(told(schema.clone(), good).is_empty());
        let bad = json!({"lr": 0, "net": {"kind": "c"}, "layers": [1, 1, 3]});
        assert_eq!(
            told(schema, bad),
            [
                "input `epochs` is required",
                "input `layers` must have at most 2 items",
                "input `layers` must not have the same item twice",
                "input `layers.2` must be one of 1, 2, not 3",
                "input `lr` must be more than 0, not 0",
                "input `net.kind` must be one of \"a\", \"b\", not \"c\"",
            ]
        );
        assert_eq!(
            told(json!({"n": {"type": "integer"}}), json!({"n": "1"})),
            ["input `n` must be of type integer, not \"1\""]
        );
    }
}
