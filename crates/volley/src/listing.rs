//! What the server answered, as tables, and the same again as it changes.

use crate::output::{self, Format, Output, Show, age, aligned};
use anyhow::Result;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use volley_client::Client;

/// How often is looked without being told of anything: for what other people do not tell us of.
const LOOK: Duration = Duration::from_secs(10);
/// How long after an event is looked: several come at once.
const GATHER: Duration = Duration::from_millis(50);
/// Before a stream that broke off is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// A column: its heading, where in a value it is, and whether only a wide table has it. `@` before the place makes a
/// time an age.
pub struct Column(pub &'static str, pub &'static str, pub bool);

pub struct Listing {
    pub columns: &'static [Column],
    /// Where a value's name is.
    pub name: &'static str,
    pub values: Vec<Value>,
}

impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl Show for Listing {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let columns = || self.columns.iter().filter(|column| wide || !column.2);
        let now = Timestamp::now();
        let headings = columns().map(|column| column.0.to_owned()).collect();
        let row = |value: &Value| columns().map(|column| cell(value, column.1, now)).collect();
        std::iter::once(headings).chain(self.values.iter().map(row)).collect()
    }

    fn names(&self) -> Vec<String> {
        self.values.iter().map(|value| cell(value, self.name, Timestamp::UNIX_EPOCH)).collect()
    }
}

fn cell(value: &Value, place: &str, now: Timestamp) -> String {
    if let Some(place) = place.strip_prefix('@') {
        let time = value.pointer(place).and_then(|value| value.as_str()?.parse().ok());
        return time.map_or_else(|| "-".to_owned(), |time| age(time, now));
    }
    match value.pointer(place) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => text.lines().next().unwrap_or_default().to_owned(),
        Some(Value::Array(list)) => list.iter().map(word).collect::<Vec<_>>().join(","),
        Some(Value::Object(map)) => {
            map.iter().map(|(key, value)| format!("{key}={}", word(value))).collect::<Vec<_>>().join(",")
        }
        Some(other) => other.to_string(),
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One thing: YAML for people, since it has no columns.
pub fn print_one(output: Output, name: &str, value: &Value) -> Result<()> {
    match output.format {
        Some(Format::Name) => output::print(&format!("{name}\n")),
        Some(Format::Json) => output::print(&(serde_json::to_string_pretty(value)? + "\n")),
        None | Some(Format::Wide | Format::Yaml) => output::print(&output::yaml(value)?),
    }
}

/// Prints the listing, and then each row that is new or has changed, until interrupted.
pub async fn follow(client: &Client, output: Output, look: impl AsyncFn() -> Result<Listing>) -> Result<()> {
    let mut seen = BTreeMap::new();
    let mut widths = Vec::new();
    let mut last = None;
    loop {
        // Opened before the look, so that nothing happens unseen between the two.
        let mut events = match client.events(last).await {
            Ok(events) => events,
            Err(error) if error.is_passing() => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        loop {
            print_changes(&look().await?, output, &mut seen, &mut widths)?;
            match tokio::time::timeout(LOOK, events.next()).await {
                Ok(Ok(Some(event))) => last = Some(event.id),
                Ok(Ok(None) | Err(_)) => break,
                Err(_elapsed) => continue,
            }
            while let Ok(Ok(Some(event))) = tokio::time::timeout(GATHER, events.next()).await {
                last = Some(event.id);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn print_changes(
    listing: &Listing,
    output: Output,
    seen: &mut BTreeMap<String, Value>,
    widths: &mut Vec<usize>,
) -> Result<()> {
    let is_first = widths.is_empty();
    let changed: Vec<Value> = listing
        .names()
        .into_iter()
        .zip(&listing.values)
        .filter(|(name, value)| seen.insert(name.clone(), (*value).clone()).as_ref() != Some(*value))
        .map(|(_, value)| value.clone())
        .collect();
    if changed.is_empty() && !is_first {
        return Ok(());
    }
    let changed = Listing { values: changed, ..*listing };
    match output.format {
        Some(Format::Json) => {
            let lines: String = changed.values.iter().map(|value| format!("{value}\n")).collect();
            *widths = vec![0];
            output::print(&lines)
        }
        Some(Format::Yaml | Format::Name) => {
            *widths = vec![0];
            output.print(&changed)
        }
        None | Some(Format::Wide) => {
            let mut rows = changed.rows(output.format.is_some());
            let headings = rows[0].clone();
            for (at, _) in headings.iter().enumerate() {
                let widest = rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
                match widths.get_mut(at) {
                    Some(width) => *width = widest.max(*width),
                    None => widths.push(widest),
                }
            }
            // Rows that come later are set as wide as those before them.
            for row in &mut rows {
                for (cell, width) in row.iter_mut().zip(widths.iter()) {
                    *cell = format!("{cell:width$}");
                }
            }
            if !is_first {
                rows.remove(0);
            }
            output::print(&aligned(&rows))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: &[Column] =
        &[Column("NAME", "/name", false), Column("OF", "/of/who", true), Column("TAGS", "/tags", false)];

    #[test]
    fn a_value_is_a_row_and_what_is_missing_a_dash() {
        let values = vec![json!({ "name": "a", "of": { "who": "b" }, "tags": ["x", "y"] }), json!({ "name": "c" })];
        let listing = Listing { columns: COLUMNS, name: "/name", values };
        assert_eq!(aligned(&listing.rows(false)), "NAME   TAGS\na      x,y\nc      -\n");
        assert_eq!(listing.rows(true)[1], ["a", "b", "x,y"]);
        assert_eq!(listing.names(), ["a", "c"]);
        assert_eq!(serde_json::to_value(&listing).unwrap()[1], json!({ "name": "c" }));
    }

    #[test]
    fn a_row_is_told_again_only_when_it_changed() {
        let (mut seen, mut widths) = (BTreeMap::new(), Vec::new());
        let output = Output { format: Some(Format::Json) };
        let listing =
            |tag: &str| Listing { columns: COLUMNS, name: "/name", values: vec![json!({ "name": "a", "tags": tag })] };
        print_changes(&listing("x"), output, &mut seen, &mut widths).unwrap();
        assert_eq!(seen["a"]["tags"], "x");
        print_changes(&listing("y"), output, &mut seen, &mut widths).unwrap();
        assert_eq!(seen["a"]["tags"], "y");
    }
}
