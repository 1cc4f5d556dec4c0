//! A guess at what was meant by a node selector that no node matches.

use super::fit::{is_tolerated, is_wanted};
use super::objects::Node;
use super::shape::Shape;
use super::snapshot::Snapshot;
use super::terms::{Taint, Wish};
use serde_json::json;
use std::collections::BTreeSet;

/// More than so many letters apart is another word.
const LETTERS_MAX: usize = 3;

/// `no node has disk=fsat; did you mean disk=fast?`
pub fn selector(snapshot: &Snapshot, shape: &Shape) -> Option<String> {
    let terms = shape.required.iter().flatten().flat_map(|term| &term.labels);
    let nodes = || snapshot.nodes.iter().map(|(_, node)| node).filter(|node| node.is_here);
    let holds_somewhere = |wish: &&Wish| nodes().any(|node| wish.holds(node.labels.get(&wish.key)));
    let wish = shape.selector.iter().chain(terms).find(|wish| !holds_somewhere(wish))?;
    let value = wish.values.first().map_or("", String::as_str);
    let keys: BTreeSet<&str> = nodes().flat_map(|node| node.labels.iter().map(|(key, _)| key)).collect();
    if !keys.contains(&*wish.key) {
        let near = nearest(&wish.key, keys.into_iter())?;
        return Some(format!("no node has a label {}; did you mean {near}?", wish.key));
    }
    let values: BTreeSet<&str> = nodes().filter_map(|node| node.labels.get(&wish.key)).collect();
    let said = format!("no node has {}={value}", wish.key);
    match nearest(value, values.iter().copied()) {
        Some(near) => Some(format!("{said}; did you mean {}={near}?", wish.key)),
        None => values.first().map(|first| format!("{said}; there is {}={first}", wish.key)),
    }
}

/// `node a and 3 more have taint dedicated=ml:NoSchedule; tolerate it: {"key":"dedicated",…}`
pub fn toleration(snapshot: &Snapshot, shape: &Shape) -> Option<String> {
    let is_kept_off = |node: &&Node| {
        node.is_here && node.is_ready && !node.is_cordoned && is_wanted(node, shape) && !is_tolerated(node, shape)
    };
    let mut found = snapshot.nodes.iter().map(|(_, node)| node).filter(is_kept_off);
    let first = found.next()?;
    let is_unborne =
        |taint: &&Taint| !taint.is_wish() && !shape.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    let taint = first.taints.iter().find(is_unborne)?;
    let more = found.filter(|node| node.taints.contains(taint)).count();
    let nodes =
        if more > 0 { format!("node {} and {more} more have", first.name) } else { format!("node {} has", first.name) };
    let Taint { key, value, effect } = taint;
    let (shown, fields) = match value.is_empty() {
        true => (format!("{key}:{effect}"), json!({"key": key, "operator": "Exists", "effect": effect})),
        false => (format!("{key}={value}:{effect}"), json!({"key": key, "value": value, "effect": effect})),
    };
    Some(format!("{nodes} taint {shown}; to go there, add to tolerations: {fields}"))
}

/// The word that was probably meant.
pub fn nearest<'a>(word: &str, others: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = others.map(|other| (distance(word, other), other)).min()?;
    (near.0 <= LETTERS_MAX.min(word.len() / 2)).then_some(near.1)
}

/// Letters to put in, take out or change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for column in 0..b.len() {
            let change = before + usize::from(letter != b[column]);
            before = row[column + 1];
            row[column + 1] = change.min(before + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}
