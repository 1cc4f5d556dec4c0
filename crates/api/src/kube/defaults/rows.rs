//! Default rows and the interpreter that lays them onto an object.
//!
//! A row names a field and the value that it gets when the object leaves it out.

use serde_json::{Map, Value};

/// What an absent field becomes.
#[derive(Debug, Clone, Copy)]
pub enum Fill {
    Number(i64),
    /// A number whose zero means that it was left out.
    NotZero(i64),
    Text(&'static str),
    Flag(bool),
    /// An empty object: Go writes its nested structs even when nothing is set in them.
    Object,
    /// A list or a time that Go writes as `null` when it is not set.
    Null,
}

/// A field path and its default. Steps are parted by dots; `a[]` visits every item of the list `a`, `a?` goes on
/// only where `a` is there. Other missing steps are made.
pub type Row = (&'static str, Fill);

/// The defaults of one kind: rows first, then a function where defaults depend on other fields.
pub(super) struct Kind {
    pub group: &'static str,
    pub kind: &'static str,
    rows: &'static [Row],
    more: fn(&mut Value),
}

impl Kind {
    pub(super) const fn of(group: &'static str, kind: &'static str) -> Kind {
        Kind { group, kind, rows: &[], more: |_| {} }
    }

    pub(super) const fn rows(self, rows: &'static [Row]) -> Kind {
        Kind { rows, ..self }
    }

    pub(super) const fn then(self, more: fn(&mut Value)) -> Kind {
        Kind { more, ..self }
    }

    pub(super) fn fill(&self, object: &mut Value) {
        fill_rows(object, self.rows);
        (self.more)(object);
    }
}

pub fn fill_rows(object: &mut Value, rows: &[Row]) {
    rows.iter().for_each(|(path, value)| fill_row(object, path, *value));
}

/// Lays one row onto an object.
pub fn fill_row(object: &mut Value, path: &str, value: Fill) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let Value::Object(map) = object else { return };
    let Some(rest) = rest else {
        if needs_default(map.get(step), value) {
            map.insert(step.to_owned(), value.to_json());
        }
        return;
    };
    if let Some(list) = step.strip_suffix("[]") {
        let items = map.get_mut(list).and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(|item| fill_row(item, rest, value));
    } else if let Some(name) = step.strip_suffix('?') {
        if let Some(inner) = map.get_mut(name) {
            fill_row(inner, rest, value);
        }
    } else {
        let inner = map.entry(step).or_insert(Value::Null);
        if inner.is_null() {
            *inner = Value::Object(Map::new());
        }
        fill_row(inner, rest, value);
    }
}

/// An empty string counts as absent, as Go cannot tell the two apart.
fn needs_default(present: Option<&Value>, value: Fill) -> bool {
    match present {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && matches!(value, Fill::Text(_)),
        Some(Value::Number(number)) => number.as_i64() == Some(0) && matches!(value, Fill::NotZero(_)),
        Some(_) => false,
    }
}

impl Fill {
    fn to_json(self) -> Value {
        match self {
            Fill::Number(number) | Fill::NotZero(number) => number.into(),
            Fill::Text(text) => text.into(),
            Fill::Flag(flag) => flag.into(),
            Fill::Object => Value::Object(Map::new()),
            Fill::Null => Value::Null,
        }
    }
}

/// The object at a dotted path, if it is there.
pub fn map_at<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    path.split('.').try_fold(object, |value, key| value.get_mut(key))?.as_object_mut()
}

/// The object at a dotted path, made where it is missing; `None` when something else stands in the way.
pub fn make_map<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut value = object;
    for key in path.split('.') {
        value = value.as_object_mut()?.entry(key).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
    }
    value.as_object_mut()
}
