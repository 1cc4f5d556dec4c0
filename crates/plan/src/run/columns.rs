//! Values of many runs by field, so that a search reads the fields that it names and not whole runs.
//!
//! The runs of a project are cut into packs. A pack keeps the values that its runs have in a field as one text, in the order
//! of the runs. What is too long or too odd to be kept is marked as unclear, and a filter that depends on it is undecided:
//! the run itself is asked then. So an answer from a pack is either that of the run or none.

use super::filter::{Filter, Verdict};
use super::history::lookup;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The column that says which runs a pack has.
pub const RUNS: &str = "";
/// Longer texts, and longer lists or those with other things than plain values, are unclear.
const TEXT_MAX: usize = 500;
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

/// `lr.value` is `lr`; what has a part called `value` elsewhere could be two things.
fn config_key(key: &str) -> Option<String> {
    let bare = without_wrapper(key.strip_suffix(".value").unwrap_or(key)).into_owned();
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
    let short = without_wrapper(bare);
    if let Some(wrapped) = config.get(bare).or_else(|| config.get(&*short)) {
        return wrapped.get("value");
    }
    let (top, rest) = short.split_once('.')?;
    lookup(config.get(top)?.get("value")?.as_object()?, rest)
}

/// `optimizer.value.lr` is `optimizer.lr`.
fn without_wrapper(key: &str) -> Cow<'_, str> {
    match key.split_once('.') {
        Some((top, rest)) => match rest.strip_prefix("value.") {
            Some(rest) => Cow::Owned(format!("{top}.{rest}")),
            None => Cow::Borrowed(key),
        },
        None => Cow::Borrowed(key),
    }
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

/// The runs that a pack has, by its column of them.
pub fn runs(text: &str) -> Option<Vec<i64>> {
    serde_json::from_str::<Runs>(text).ok().map(|runs| runs.ids)
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
    let mut columns = BTreeMap::new();
    for name in most_frequent(counts) {
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

/// As many names as there may be columns, half of them from either side where both have enough.
fn most_frequent(counts: BTreeMap<&str, usize>) -> Vec<&str> {
    let (mut config, mut others): (Vec<_>, Vec<_>) =
        counts.into_iter().partition(|(name, _)| name.starts_with("config."));
    let half = COLUMNS_MAX / 2;
    let room = |others: usize| half.max(COLUMNS_MAX.saturating_sub(others));
    let (for_config, for_others) = (room(others.len()), room(config.len()));
    // Equals stay in the order of their names.
    config.sort_by_key(|(_, count)| Reverse(*count));
    others.sort_by_key(|(_, count)| Reverse(*count));
    config.into_iter().take(for_config).chain(others.into_iter().take(for_others)).map(|(name, _)| name).collect()
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
            // One that is not wrapped has no value, but may stand in another's light.
            names.walk(format!("config.{key}"), wrapped.get("value").unwrap_or(&Value::Null));
        }
        names
    }

    /// Whether the run has one value of this name, or none.
    fn tell(&self, name: &str) -> bool {
        PLAIN.contains(&name) || (self.are_all && !self.unclear.contains(name))
    }

    fn walk(&mut self, path: String, value: &Value) {
        let is_unclear = path.starts_with("config.") && has_value_part(&path);
        let name = match is_unclear {
            true => path.split('.').filter(|part| *part != "value").collect::<Vec<_>>().join("."),
            false => path.clone(),
        };
        if !is_kept(&name) {
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
        if is_unclear {
            self.unclear.insert(name.clone());
        }
        self.all.insert(name);
    }
}

/// A value as it is kept: that of an object is empty, and one with something in it says that the value is not known.
fn cell(value: Option<Value>) -> Value {
    /// Numbers and truths in a list count as so many bytes.
    const ITEM: usize = 16;
    let length = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => usize::MAX,
        _ => ITEM,
    };
    match value {
        None => Value::Null,
        Some(Value::Object(_)) => json!({}),
        Some(Value::Array(items)) => {
            let all = items.iter().map(length).fold(0, usize::saturating_add);
            if all <= TEXT_MAX { Value::Array(items) } else { unclear() }
        }
        Some(value) => {
            if length(&value) <= TEXT_MAX {
                value
            } else {
                unclear()
            }
        }
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
