//! One entry of `metadata.managedFields`, and how the list is read, sorted and written (K-SSA-2, K-SSA-12).

use super::changes::Changes;
use super::fields::Fields;
use super::managed::Manager;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub manager: String,
    pub is_apply: bool,
    pub api_version: String,
    pub subresource: String,
    pub time: String,
    pub fields: Fields,
}

impl Entry {
    pub fn new(manager: &Manager<'_>, is_apply: bool, fields: Fields) -> Entry {
        Entry {
            manager: manager.name.to_owned(),
            is_apply,
            api_version: manager.api_version.to_owned(),
            subresource: manager.subresource.unwrap_or("").to_owned(),
            time: time_text(manager.now),
            fields,
        }
    }

    /// Reads an entry that the server wrote itself.
    pub fn read(value: Value) -> Option<Entry> {
        let Value::Object(mut map) = value else { return None };
        let mut text = |key: &str| match map.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let is_apply = match text("operation").as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return None,
        };
        let entry = Entry {
            manager: text("manager"),
            is_apply,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: Fields::default(),
        };
        let is_known = text("fieldsType") == "FieldsV1" && !entry.api_version.is_empty();
        let fields = match map.remove("fieldsV1") {
            Some(Value::Object(fields)) => Fields::trusted(fields),
            _ => Fields::default(),
        };
        is_known.then_some(Entry { fields, ..entry })
    }

    /// Reads an entry that a client sent, which may be anything.
    pub fn parse(value: &Value) -> Option<Entry> {
        let fields = match value.get("fieldsV1") {
            None | Some(Value::Null) => Fields::default(),
            Some(fields) => Fields::parse(fields)?,
        };
        Some(Entry { fields, ..Entry::read(value.clone())? })
    }

    fn into_value(self) -> Value {
        let operation = if self.is_apply { "Apply" } else { "Update" };
        let mut value = json!({
            "manager": self.manager, "operation": operation, "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
        });
        value["fieldsV1"] = self.fields.into_value();
        for (key, text) in [("time", self.time), ("subresource", self.subresource)] {
            if !text.is_empty() {
                value[key] = Value::String(text);
            }
        }
        value
    }

    /// Whether this is the writer's entry. An applier has one for all versions, an updater one for each.
    pub fn is_of(&self, manager: &Manager<'_>, is_apply: bool) -> bool {
        self.is_apply == is_apply
            && self.manager == manager.name
            && self.subresource == manager.subresource.unwrap_or("")
            && (is_apply || self.api_version == manager.api_version)
    }

    /// Takes away what someone else has set or removed.
    pub fn lose(&mut self, changes: &Changes) {
        self.fields.subtract(&changes.set);
        self.fields.subtract(&changes.removed);
    }
}

/// The entries in a `managedFields` that the server wrote itself.
pub(super) fn read(stored: Option<&Value>) -> Vec<Entry> {
    let list = stored.and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    list.iter().cloned().filter_map(Entry::read).collect()
}

/// The entries of a stored object.
pub(super) fn entries(object: &Value) -> Vec<Entry> {
    read(object.get("metadata").and_then(|metadata| metadata.get("managedFields")))
}

/// Takes `managedFields` out of an object.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Writes the entries into an object: appliers first, then by time; entries without fields are dropped.
pub(super) fn store(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    let Some(object) = object.as_object_mut().filter(|_| !entries.is_empty()) else { return };
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let list = entries.into_iter().map(Entry::into_value).collect();
    if let Value::Object(metadata) = object.entry("metadata").or_insert_with(|| Value::Object(Map::new())) {
        metadata.insert("managedFields".to_owned(), Value::Array(list));
    }
}

/// How entries stand in the list.
pub(super) fn order(entry: &Entry) -> (bool, &str, &str, &str, &str) {
    (!entry.is_apply, &entry.time, &entry.manager, &entry.api_version, &entry.subresource)
}

/// Times have whole seconds.
pub(super) fn time_text(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).map_or_else(|_| now.to_string(), |whole| whole.to_string())
}
