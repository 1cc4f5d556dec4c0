//! Default rows and the interpreter that lays them onto an object.
//!
//! A row names a field and the value that it gets when the object leaves it out. Kinds whose defaults depend on
//! other fields add a function; `fill` runs the rows first, the function second.

use super::{core, network, policy, storage, workloads};
use serde_json::{Map, Value};

/// What an absent field becomes.
#[derive(Debug, Clone, Copy)]
pub enum Fill {
    Number(i64),
    Text(&'static str),
    Flag(bool),
    /// An empty object: Go writes its nested structs even when nothing is set in them.
    Map,
    /// A list or a time that Go writes as `null` when it is not set.
    Null,
}

/// A field path and its default. Steps are parted by dots; `a[]` visits every item of the list `a`, `a?` goes on
/// only where `a` is there. Other missing steps are made.
pub type Row = (&'static str, Fill);

/// The defaults of one kind.
#[derive(Debug, Clone, Copy)]
pub struct KindRow {
    pub group: &'static str,
    pub kind: &'static str,
    pub rows: &'static [Row],
    pub more: fn(&mut Value),
}

/// For kinds that need no function.
pub fn nothing_more(_: &mut Value) {}

/// Fills in the defaults of a built-in kind other than Pod; unknown kinds are left alone.
pub fn fill(group: &str, kind: &str, object: &mut Value) {
    let tables = [workloads::ROWS, network::ROWS, core::ROWS, storage::ROWS, policy::ROWS];
    let row = tables.into_iter().flatten().find(|row| row.kind == kind && row.group == group);
    if let Some(row) = row {
        for (path, value) in row.rows {
            fill_row(object, path, *value);
        }
        (row.more)(object);
    }
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
        Some(_) => false,
    }
}

impl Fill {
    fn to_json(self) -> Value {
        match self {
            Fill::Number(number) => number.into(),
            Fill::Text(text) => text.into(),
            Fill::Flag(flag) => flag.into(),
            Fill::Map => Value::Object(Map::new()),
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

/// The items of the list at a dotted path; none when there is no list.
pub fn items_mut<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    path.split('.')
        .try_fold(object, |value, key| value.get_mut(key))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}
