//! Values as CEL sees them: typed by the schema, with field names that are not identifiers escaped.

use super::rules::functions;
use super::schema::{Additional, Node, Type};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Program, Value as CelValue};
use serde_json::{Number, Value};
use std::sync::{Arc, LazyLock};

/// The CEL value of a JSON value; `node` is its schema where there is one.
pub(super) fn to_cel(node: Option<&Node>, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => number_to_cel(node, number),
        Value::String(text) => text_to_cel(node, text),
        Value::Array(items) => {
            let sub = node.and_then(|node| node.items.as_deref());
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(sub, item)).collect()))
        }
        Value::Object(members) => {
            let is_map = node.is_some_and(|node| matches!(node.additional, Additional::Of(_) | Additional::Any));
            let entries = members.iter().map(|(name, member)| {
                let key = if is_map { name.clone() } else { escape(name) };
                (Key::String(Arc::new(key)), to_cel(node.and_then(|node| node.member(name)), member))
            });
            CelValue::Map(Map { map: Arc::new(entries.collect()) })
        }
    }
}

fn number_to_cel(node: Option<&Node>, number: &Number) -> CelValue {
    let float = number.as_f64().unwrap_or(f64::NAN);
    if node.is_some_and(|node| node.is(Type::Number)) {
        return CelValue::Float(float);
    }
    if let Some(whole) = number.as_i64() {
        return CelValue::Int(whole);
    }
    let is_integer = node.is_some_and(|node| node.is(Type::Integer)) && float.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "a whole float of an integer field fits, or validation failed")]
    let value = if is_integer { CelValue::Int(float as i64) } else { CelValue::Float(float) };
    value
}

/// Times and durations become CEL's own; the CEL library parses them, so that both sides of a comparison agree.
fn text_to_cel(node: Option<&Node>, text: &str) -> CelValue {
    static TIMESTAMP: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("timestamp(text)").ok());
    static DURATION: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("duration(text)").ok());
    let plain = CelValue::String(Arc::new(text.to_owned()));
    let program = match node.and_then(|node| node.format).map(|format| format.name) {
        Some("date-time") => &*TIMESTAMP,
        Some("duration") => &*DURATION,
        _ => return plain,
    };
    let mut scope = functions().new_inner_scope();
    scope.add_variable_from_value("text", plain.clone());
    program.as_ref().and_then(|program| program.execute(&scope).ok()).unwrap_or(plain)
}

const RESERVED: [&str; 21] = [
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
    "namespace", "null", "package", "return", "true", "var", "void", "while",
];

/// The name of a field in a rule: `a-b` is `a__dash__b`, `namespace` is `__namespace__`.
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::escape;

    // K-CRD-6
    #[test]
    fn field_names_are_escaped_as_rules_write_them() {
        let cases = [
            ("replicas", "replicas"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
            ("namespace", "__namespace__"),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name), escaped);
        }
    }
}
