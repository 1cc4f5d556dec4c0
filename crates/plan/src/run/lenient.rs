//! JSON as runs write it: with bare `NaN`, `Infinity` and `-Infinity`.
//!
//! Texts are kept as they came. Where a value is needed, those three become strings, so that one odd number does not cost
//! a whole line.

use serde_json::Value;
use std::borrow::Cow;

const ODD: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// The value of a text; nothing if it is no JSON even so.
pub fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&strict(text)).ok())
}

/// The same text with odd numbers quoted.
pub fn strict(text: &str) -> Cow<'_, str> {
    if !ODD.iter().any(|odd| text.contains(odd)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut is_in_string = false;
    while let Some(next) = rest.chars().next() {
        let odd = ODD.iter().find(|odd| !is_in_string && rest.starts_with(**odd));
        if let Some(odd) = odd {
            out.push('"');
            out.push_str(odd);
            out.push('"');
            rest = &rest[odd.len()..];
            continue;
        }
        let mut length = next.len_utf8();
        match next {
            '"' => is_in_string = !is_in_string,
            // Whatever follows a backslash is no quote that ends the string.
            '\\' if is_in_string => length += rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => (),
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // GQL-8
    #[test]
    fn odd_numbers_become_strings_and_strings_stay() {
        let value = parse(r#"{"a":NaN,"b":-Infinity,"c":[Infinity,1],"d":"NaN \" NaN"}"#);
        assert_eq!(value, Some(json!({"a": "NaN", "b": "-Infinity", "c": ["Infinity", 1], "d": "NaN \" NaN"})));
        assert_eq!(parse("{\"x\":1}"), Some(json!({"x": 1})));
        assert_eq!(parse("nonsense"), None);
        assert_eq!(parse("\"\\"), None);
    }
}
