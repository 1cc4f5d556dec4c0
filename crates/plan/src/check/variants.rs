//! Two documents that should say the same, one as YAML and one as JSON (G-27).

use super::source::Lines;
use super::tree::{self, Node};
use super::{Finding, Severity};
use crate::launch::layers::joined;

/// Where the second says something else than the first; places are those of the first, as far as it has them.
pub fn differences(first: &str, second: &str) -> Vec<Finding> {
    let read = |text: &str| tree::parse(text).into_iter().flatten().collect::<Vec<Node>>();
    let (ours, theirs) = (read(first), read(second));
    let mut found = Vec::new();
    for (one, other) in ours.iter().zip(&theirs) {
        compare(one, other, "", &mut found);
    }
    let lines = Lines::new(first);
    let finding = |(at, path, message): (usize, String, String)| {
        let (line, column) = lines.place(at);
        Finding {
            code: "G-27",
            severity: Severity::Warning,
            line,
            column,
            path,
            message,
            suggestion: None,
            autofix: false,
            edits: Vec::new(),
        }
    };
    found.into_iter().map(finding).collect()
}

fn compare(one: &Node, other: &Node, path: &str, found: &mut Vec<(usize, String, String)>) {
    if one.is_map() && other.is_map() {
        for entry in one.entries() {
            let below = joined(path, &entry.key);
            match other.get(&entry.key) {
                Some(theirs) => compare(&entry.value, theirs, &below, found),
                None => found.push((entry.key_span.start, below.clone(), format!("`{below}` is only in this variant"))),
            }
        }
        for entry in other.entries().iter().filter(|entry| one.get(&entry.key).is_none()) {
            let below = joined(path, &entry.key);
            found.push((
                one.span.start,
                below.clone(),
                format!("`{below}: {}` is only in the other variant", entry.value.value()),
            ));
        }
        return;
    }
    let (items, others) = (one.items(), other.items());
    if !items.is_empty() && items.len() == others.len() {
        for (index, (item, theirs)) in items.iter().zip(others).enumerate() {
            compare(item, theirs, &format!("{path}[{index}]"), found);
        }
        return;
    }
    let (ours, theirs) = (one.value(), other.value());
    if ours != theirs {
        found.push((one.span.start, path.to_owned(), format!("this variant has `{ours}`, the other `{theirs}`")));
    }
}
