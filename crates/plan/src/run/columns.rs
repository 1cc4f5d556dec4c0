//! Values of many runs by field, so that a search reads the fields that it names and not whole runs.
//!
//! The runs of a project are cut into packs. A pack keeps the values that its runs have in a field as one text, in the order
//! of the runs. What is too long or too odd to be kept is marked as unclear, and a filter that depends on it is undecided:
//! the run itself is asked then. So an answer from a pack is either that of the run or none.

use super::filter::{Filter, Verdict};
use super::history::lookup;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The column that says which runs a pack has.
pub const RUNS: &str = "";
/// Longer texts, and lists with more items or with other things than plain values, are unclear.
const TEXT_MAX: usize = 500;
const ITEMS_MAX: usize = 32;
/// Longer names have no column.
const NAME_MAX: usize = 500;
/// Columns of a pack; if its runs have more fields, those that fewest have are left out.
const COLUMNS_MAX: usize = 1000;
/// Fields of one run that are looked at.
const FIELDS_MAX: usize = 2000;
/// What is not in config or summary and yet searched or sorted by.
const PLAIN: [&str; 8] = ["state", "name", "displayName", "group", "jobType", "sweep", "tags", "createdAt"];

/// The column that has the values of a field; nothing if none has.
pub fn column(field: &str) -> Option<String> {
    let summary = || field.strip_prefix("summary_metrics.").or_else(|| field.strip_prefix("summary."));
    let name = if let Some(key) = field.strip_prefix("config.") {
        format!("config.{}", config_key(key)?)
    } else if let Some(key) = summary() {
        format!("summary.{key}")
    } else {
        let name = match field {
            "display_name" => "displayName",
            "groupName" => "group",
            "job_type" => "jobType",
            "sweepName" => "sweep",
            "created_at" => "createdAt",
            other => other,
        };
        PLAIN.contains(&name).then(|| name.to_owned())?
    };
    is_kept(&name).then_some(name)
}

/// `lr.value` is `lr` and `optimizer.value.lr` is `optimizer.lr`; what else has a part called `value` could be two things.
fn config_key(key: &str) -> Option<String> {
    let bare = key.strip_suffix(".value").unwrap_or(key);
    let bare = match bare.split_once('.') {
        Some((top, rest)) => format!("{top}.{}", rest.strip_prefix("value.").unwrap_or(rest)),
        None => bare.to_owned(),
    };
    (!has_value_part(&bare)).then_some(bare)
}

fn has_value_part(key: &str) -> bool {
    key.split('.').any(|part| part == "value")
}

/// W&B's clients put much below `_wandb` that nobody searches by.
fn is_kept(name: &str) -> bool {
    let is_clients = ["config._wandb", "summary._wandb"].iter().any(|start| name.starts_with(start));
    name.len() <= NAME_MAX && !name.contains('\0') && !is_clients
}

/// What a search by `config.KEY` sees: `lr`, `lr.value`, `optimizer.lr` or `optimizer.value.lr`. The config wraps each top value
/// in `{"value": …}`.
pub fn config_value<'a>(config: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let bare = key.strip_suffix(".value").unwrap_or(key);
    if let Some(wrapped) = config.get(bare) {
        return wrapped.get("value");
    }
    let (top, rest) = bare.split_once('.')?;
    let rest = rest.strip_prefix("value.").unwrap_or(rest);
    lookup(config.get(top)?.get("value")?.as_object()?, rest)
}

/// Whether a field's values are only in texts that the database would have to read.
pub fn is_value(field: &str) -> bool {
    column(field).is_some_and(|name| name == "tags" || name.starts_with("config.") || name.starts_with("summary."))
}

/// A run as it is packed.
pub struct Packed<'a> {
    pub id: i64,
    pub config: &'a Map<String, Value>,
    pub summary: &'a Map<String, Value>,
    /// What a search sees under a field's name.
    pub get: &'a dyn Fn(&str) -> Option<Value>,
}

/// Which runs a pack has.
#[derive(Serialize, Deserialize)]
struct Runs {
    ids: Vec<i64>,
    /// Whether a field without a column is one that no run has.
    is_whole: bool,
}

/// The columns of a pack as texts, by name.
pub fn pack(runs: &[Packed<'_>]) -> BTreeMap<String, String> {
    let names: Vec<Names> = runs.iter().map(Names::of).collect();
    let mut counts: BTreeMap<&str, usize> = PLAIN.iter().map(|name| (*name, usize::MAX)).collect();
    for name in names.iter().flat_map(|names| &names.all) {
        let count = counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }
    let is_whole = counts.len() <= COLUMNS_MAX && names.iter().all(|names| names.are_all);
    let mut often: Vec<(&str, usize)> = counts.into_iter().collect();
    // Equals stay in the order of their names.
    often.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut columns = BTreeMap::new();
    for (name, _) in often.into_iter().take(COLUMNS_MAX) {
        let cell = |(run, names): (&Packed, &Names)| match names.tell(name) {
            true => cell((run.get)(name)),
            false => unclear(),
        };
        columns.insert(name.to_owned(), Value::from_iter(runs.iter().zip(&names).map(cell)).to_string());
    }
    let runs = Runs { ids: runs.iter().map(|run| run.id).collect(), is_whole };
    columns.insert(RUNS.to_owned(), json!(runs).to_string());
    columns
}

/// The names of a run's values.
struct Names {
    all: BTreeSet<String>,
    /// Those that stand for something else as well.
    unclear: BTreeSet<String>,
    /// Whether there were not too many.
    are_all: bool,
}

impl Names {
    fn of(run: &Packed) -> Names {
        let mut names = Names { all: BTreeSet::new(), unclear: BTreeSet::new(), are_all: true };
        for (key, value) in run.summary {
            names.walk(format!("summary.{key}"), value);
        }
        for (key, wrapped) in run.config {
            if let Some(value) = wrapped.get("value") {
                names.walk(format!("config.{key}"), value);
            }
        }
        names
    }

    /// Whether the run has one value of this name, or none.
    fn tell(&self, name: &str) -> bool {
        PLAIN.contains(&name) || (self.are_all && !self.unclear.contains(name))
    }

    fn walk(&mut self, path: String, value: &Value) {
        if !is_kept(&path) {
            return;
        }
        if self.all.len() == FIELDS_MAX {
            self.are_all = false;
            return;
        }
        if let Value::Object(inner) = value {
            for (key, value) in inner {
                self.walk(format!("{path}.{key}"), value);
            }
        }
        if path.starts_with("config.") && has_value_part(&path) {
            let parts: Vec<&str> = path.split('.').filter(|part| *part != "value").collect();
            self.unclear.insert(parts.join("."));
            self.all.insert(parts.join("."));
        } else {
            self.all.insert(path);
        }
    }
}

/// A value as it is kept: that of an object is empty, and one with something in it says that the value is not known.
fn cell(value: Option<Value>) -> Value {
    let is_plain = |value: &Value| match value {
        Value::String(text) => text.len() <= TEXT_MAX,
        value => !value.is_array() && !value.is_object(),
    };
    match value {
        None => Value::Null,
        Some(Value::Object(_)) => json!({}),
        Some(Value::Array(items)) if items.len() <= ITEMS_MAX && items.iter().all(is_plain) => Value::Array(items),
        Some(value) if is_plain(&value) => value,
        Some(_) => unclear(),
    }
}

fn unclear() -> Value {
    json!({ "is_unclear": true })
}

/// What a search may ask of a pack: the columns of the fields that it names, each asked for by its place in this list.
pub struct Asked<'a> {
    /// The column of each field, where it has one.
    places: BTreeMap<&'a str, Option<usize>>,
    names: Vec<String>,
}

impl<'a> Asked<'a> {
    pub fn of(fields: impl IntoIterator<Item = &'a str>) -> Asked<'a> {
        let mut asked = Asked { places: BTreeMap::new(), names: Vec::new() };
        for field in fields {
            let place = column(field).map(|name| match asked.names.iter().position(|known| *known == name) {
                Some(place) => place,
                None => {
                    asked.names.push(name);
                    asked.names.len() - 1
                }
            });
            asked.places.insert(field, place);
        }
        asked
    }

    pub fn columns(&self) -> &[String] {
        &self.names
    }
}

/// A run that may pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub id: i64,
    /// Whether it passes without being asked.
    pub is_sure: bool,
    /// The value that it is sorted by, if that was asked for and is known.
    pub value: Option<Value>,
}

/// Those of a pack's runs that may pass. A text that is no column's leaves everything undecided.
pub fn candidates(
    asked: &Asked,
    filter: &Filter,
    order: Option<&str>,
    columns: &BTreeMap<String, String>,
) -> Option<Vec<Candidate>> {
    let runs: Runs = serde_json::from_str(columns.get(RUNS)?).ok()?;
    let read = |name: &String| -> Option<Vec<Value>> {
        let Some(text) = columns.get(name) else {
            return runs.is_whole.then(|| vec![Value::Null; runs.ids.len()]);
        };
        serde_json::from_str(text).ok()
    };
    let columns: Vec<Option<Vec<Value>>> = asked.names.iter().map(read).collect();
    let mut found = Vec::new();
    for (slot, id) in runs.ids.into_iter().enumerate() {
        let cell = |field: &str| columns.get((*asked.places.get(field)?)?)?.as_ref()?.get(slot);
        let verdict = filter.verdict(&cell);
        if verdict != Verdict::No {
            let value = order.and_then(cell).filter(|value| !value.is_object()).cloned();
            found.push(Candidate { id, is_sure: verdict == Verdict::Yes, value });
        }
    }
    Some(found)
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
