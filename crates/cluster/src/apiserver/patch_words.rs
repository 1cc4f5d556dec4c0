//! How refused patches are worded: the reference shows and converts a strategic patch as a Go map, and its words are what
//! kubectl prints when an apply is refused (spec K 14.2).

use serde_json::Value;

/// A value as Go's `%v` prints it.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// What is wrong with a field's type, in the words that the reference has for strategic patches: it converts the
/// patched map into the kind's struct and never sees JSON.
pub fn conversion_text(text: &str) -> String {
    let words = text.strip_prefix("json: cannot unmarshal ").and_then(|rest| rest.split_once(" into Go "));
    let Some((found, (_, wanted))) = words.and_then(|(found, rest)| Some((found, rest.rsplit_once(" of type ")?)))
    else {
        return text.to_owned();
    };
    let found = match found.split(' ').next().unwrap_or_default() {
        "number" => "int64",
        "object" => "map",
        "array" => "slice",
        other => other,
    };
    match wanted {
        "string" | "bool" => format!("cannot convert {found} to {wanted}"),
        "int32" | "int64" | "float64" => format!("unrecognized type: {wanted}"),
        _ if wanted.starts_with("[]") => format!("cannot restore slice from {found}"),
        _ if wanted.starts_with("map[") => format!("cannot restore map from {found}"),
        _ => format!("cannot restore struct from: {found}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strategic_patches_are_shown_and_refused_in_the_words_of_go() {
        let patch = json!({"spec": {"replicas": "x", "b": [1, null]}, "a": true});
        assert_eq!(go_text(&patch), "map[a:true spec:map[b:[1 <nil>] replicas:x]]");
        let wrong = |found: &str, wanted: &str| {
            conversion_text(&format!("json: cannot unmarshal {found} into Go struct field S.f of type {wanted}"))
        };
        assert_eq!(wrong("string", "int32"), "unrecognized type: int32");
        assert_eq!(wrong("number", "string"), "cannot convert int64 to string");
        assert_eq!(wrong("object", "[]v1.Container"), "cannot restore slice from map");
        assert_eq!(wrong("number", "map[string]string"), "cannot restore map from int64");
        assert_eq!(conversion_text("quantities must match"), "quantities must match");
    }
}
