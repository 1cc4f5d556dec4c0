//! A run's history: which keys it has, and how rows are picked for a chart.

use super::lenient;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Keys beyond this are not listed; a run that makes up keys without end must not make every read slow.
const KEYS_MAX: usize = 10_000;

/// What is known of all lines so far, kept up to date line by line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Keys {
    keys: BTreeMap<String, Key>,
    last_step: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    counts: BTreeMap<String, u64>,
    previous: Value,
    is_rising: bool,
}

impl Keys {
    pub fn add(&mut self, row: &Map<String, Value>) {
        if let Some(step) = step(row) {
            self.last_step = Some(self.last_step.map_or(step, |last| last.max(step)));
        }
        for (name, value) in row {
            self.add_value(name.clone(), value);
        }
    }

    fn add_value(&mut self, name: String, value: &Value) {
        if let Value::Object(inner) = value
            && !inner.contains_key("_type")
            && !inner.is_empty()
        {
            for (key, value) in inner {
                self.add_value(format!("{name}.{key}"), value);
            }
            return;
        }
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&name) {
            return;
        }
        let fresh = || Key { counts: BTreeMap::new(), previous: Value::Null, is_rising: true };
        let key = self.keys.entry(name).or_insert_with(fresh);
        *key.counts.entry(kind(value).to_owned()).or_default() += 1;
        if let (Some(before), Some(now)) = (key.previous.as_f64(), value.as_f64()) {
            key.is_rising &= now > before;
        }
        // Large values would make this record as large as the history.
        key.previous = if value.is_number() || value.is_boolean() { value.clone() } else { Value::Null };
    }

    /// The form that clients read; nothing without history.
    pub fn told(&self) -> Option<Value> {
        if self.keys.is_empty() {
            return None;
        }
        let keys: Map<String, Value> = self.keys.iter().map(|(name, key)| (name.clone(), key.told())).collect();
        Some(json!({ "sets": [], "keys": keys, "lastStep": self.last_step.unwrap_or(0) }))
    }
}

impl Key {
    fn told(&self) -> Value {
        let counts: Vec<Value> =
            self.counts.iter().map(|(kind, count)| json!({ "type": kind, "count": count })).collect();
        json!({ "typeCounts": counts, "monotonic": self.is_rising, "previousValue": self.previous })
    }
}

fn kind(value: &Value) -> &str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        // What a bare NaN became.
        Value::String(text) if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(inner) => inner.get("_type").and_then(Value::as_str).unwrap_or("map"),
    }
}

pub fn row(line: &str) -> Option<Map<String, Value>> {
    match lenient::parse(line)? {
        Value::Object(row) => Some(row),
        _ => None,
    }
}

pub fn step(row: &Map<String, Value>) -> Option<i64> {
    let step = row.get("_step")?;
    step.as_i64().or_else(|| step.as_f64().map(|step| step as i64))
}

/// Which of `count` things to show when at most `samples` are wanted: evenly spread, the first and the last among them.
pub fn sample(count: usize, samples: usize) -> Vec<usize> {
    match (count, samples) {
        (0, _) | (_, 0) => Vec::new(),
        _ if count <= samples => (0..count).collect(),
        (_, 1) => vec![count - 1],
        _ => (0..samples).map(|at| at * (count - 1) / (samples - 1)).collect(),
    }
}

/// A request for some columns of the history.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[serde(default)]
    pub keys: Vec<String>,
    #[serde(default)]
    pub samples: Option<usize>,
    pub min_step: Option<i64>,
    /// The last step that is wanted.
    pub max_step: Option<i64>,
}

/// The rows that have all of a spec's keys, with those keys only.
pub fn select<'a>(spec: &Spec, lines: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let mut rows = Vec::new();
    for row in lines.filter_map(row) {
        let at = step(&row).unwrap_or(0);
        let is_within = spec.min_step.is_none_or(|min| at >= min) && spec.max_step.is_none_or(|max| at <= max);
        if !is_within {
            continue;
        }
        if spec.keys.is_empty() {
            rows.push(Value::Object(row));
            continue;
        }
        let picked: Option<Map<String, Value>> =
            spec.keys.iter().map(|key| Some((key.clone(), lookup(&row, key)?.clone()))).collect();
        rows.extend(picked.map(Value::Object));
    }
    let samples = spec.samples.unwrap_or(usize::MAX);
    if rows.len() <= samples {
        return rows;
    }
    sample(rows.len(), samples).into_iter().map(|at| rows[at].take()).collect()
}

/// The value under a key that may have dots in it, or be a path through nested objects.
pub fn lookup<'a>(row: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    if let Some(value) = row.get(key) {
        return Some(value);
    }
    key.match_indices('.').find_map(|(at, _)| match row.get(&key[..at]) {
        Some(Value::Object(inner)) => lookup(inner, &key[at + 1..]),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 4] = [
        r#"{"loss":3,"_step":0,"val":{"acc":0.1}}"#,
        r#"{"loss":NaN,"_step":1}"#,
        r#"{"loss":1,"_step":2,"val":{"acc":0.3}}"#,
        "nonsense",
    ];

    // PUB-6
    #[test]
    fn keys_are_gathered_with_their_types_and_nested_ones_joined() {
        let mut keys = Keys::default();
        assert_eq!(keys.told(), None);
        LINES.iter().filter_map(|line| row(line)).for_each(|row| keys.add(&row));
        let told = keys.told().unwrap();
        assert_eq!(told["lastStep"], 2);
        assert_eq!(told["keys"]["loss"]["typeCounts"], json!([{"type": "number", "count": 3}]));
        assert_eq!(told["keys"]["val.acc"]["monotonic"], true);
        let again: Keys = serde_json::from_str(&serde_json::to_string(&keys).unwrap()).unwrap();
        assert_eq!(again, keys);
    }

    // PUB-4
    #[test]
    fn a_row_counts_only_if_it_has_all_keys() {
        let spec = |text: &str| -> Spec { serde_json::from_str(text).unwrap() };
        let rows = select(&spec(r#"{"keys":["_step","val.acc"],"samples":10}"#), LINES.into_iter());
        assert_eq!(rows, [json!({"_step": 0, "val.acc": 0.1}), json!({"_step": 2, "val.acc": 0.3})]);
        let rows = select(&spec(r#"{"keys":["loss"],"minStep":1,"maxStep":1}"#), LINES.into_iter());
        assert_eq!(rows, [json!({"loss": "NaN"})]);
        assert_eq!(select(&spec(r#"{"keys":[],"samples":1}"#), LINES.into_iter()).len(), 1);
    }

    // PUB-3
    #[test]
    fn samples_are_even_and_keep_both_ends() {
        assert_eq!(sample(3, 5), [0, 1, 2]);
        assert_eq!(sample(9, 5), [0, 2, 4, 6, 8]);
        assert_eq!(sample(9, 1), [8]);
        assert_eq!(sample(0, 5), Vec::<usize>::new());
        assert_eq!(sample(5, 0), Vec::<usize>::new());
    }
}
