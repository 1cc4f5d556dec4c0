//! JSON text to a value, noticing keys that stand twice.

use super::{Decoded, STRICT_MAX, Step};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};
use std::cell::RefCell;

/// Reads a JSON text. Of a key that stands twice the last value wins, and `strict` says `duplicate field "…"`.
///
/// Nesting is limited to 128 levels by the parser, so that no body can exhaust the stack.
pub fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let strict = RefCell::new(Vec::new());
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { step: &Step::Root, strict: &strict };
    let value = seed.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    match value {
        Ok(value) => Ok(Decoded { value, strict: strict.into_inner() }),
        Err(error) => Err(go_error(bytes, &error)),
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    step: &'a Step<'a>,
    strict: &'a RefCell<Vec<String>>,
}

impl Seed<'_> {
    fn duplicate(&self, step: &Step) {
        let mut strict = self.strict.borrow_mut();
        if strict.len() < STRICT_MAX {
            let mut path = String::new();
            step.path(&mut path);
            strict.push(format!("duplicate field \"{path}\""));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let step = Step::Index(self.step, list.len());
            match items.next_element_seed(Seed { step: &step, strict: self.strict })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let step = Step::Key(self.step, &key);
            let value = entries.next_value_seed(Seed { step: &step, strict: self.strict })?;
            match object.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert(value);
                }
                Entry::Occupied(mut occupied) => {
                    self.duplicate(&Step::Key(self.step, occupied.key()));
                    occupied.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

/// What the parser expected, in its words and in Go's.
const EXPECTED: [(&str, &str); 7] = [
    ("expected `:`", "after object key"),
    ("expected `,` or `}`", "after object key:value pair"),
    ("expected `,` or `]`", "after array element"),
    ("key must be a string", "looking for beginning of object key string"),
    ("trailing characters", "after top-level value"),
    ("control character", "in string literal"),
    ("", "looking for beginning of value"),
];

fn go_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let message = error.to_string();
    if message.starts_with("recursion limit") {
        return "exceeded max depth".to_owned();
    }
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = String::from_utf8_lossy(&line[error.column().saturating_sub(1).min(line.len())..]);
    let place = EXPECTED.iter().find(|(ours, _)| message.starts_with(ours)).map_or("", |(_, go)| go);
    match found.chars().next() {
        Some(character) => format!("invalid character {character:?} {place}"),
        None => format!("invalid character '\\n' {place}"),
    }
}
