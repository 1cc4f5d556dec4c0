//! JSON objects whose order is part of what was said.
//!
//! Elsewhere objects are sorted by key. A template variable's schema is shown to clients as it was submitted, so it is
//! kept as text, without the blanks between its parts.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The members of an object in their order, each value as it was written.
#[derive(Debug, Default)]
pub struct Members(pub Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The same JSON without blanks outside of strings.
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_in_string = false;
    let mut is_escaped = false;
    for c in text.chars() {
        if is_in_string {
            is_in_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            is_in_string = c == '"';
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // QUE-3
    #[test]
    fn order_is_kept_and_blanks_are_dropped() {
        let members: Members = serde_json::from_str(r#"{"b": {"type": "integer", "a": " x \" y "}, "a": 1}"#).unwrap();
        let texts: Vec<_> = members.0.iter().map(|(key, value)| (key.as_str(), compact(value.get()))).collect();
        assert_eq!(texts, [("b", r#"{"type":"integer","a":" x \" y "}"#.into()), ("a", "1".into())]);
        assert_eq!(compact(r#"["\\", " "]"#), r#"["\\"," "]"#);
    }
}
