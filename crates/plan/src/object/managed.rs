//! `metadata.managedFields`: who owns which field, kept true by every write (K-SSA-2, 5, 6, 7, 11, 12).
//!
//! Order of calls for a write:
//! 1. create, update, patch: decode and default the new object, then [`updated`]; defaults count as the writer's.
//! 2. server-side apply: [`apply`](super::apply::apply) on the undefaulted configuration, then default the result; `updated`
//!    is not called, so defaults stay unowned.
//! 3. both: admit, validate, and last [`keep_times`], so that a write that changed nothing stays without trace.

use super::changes::changes;
use super::entry::{Entry, order, read, store, take, time_text};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::schema::StructRef;

/// Entries of updaters on one object; above it the oldest are merged, so that ever new names cannot fill the object.
pub const UPDATERS_MAX: usize = 10;

/// Owns what merged entries owned.
const MERGED_UPDATERS: &str = "ancient-changes";

/// Never owned: type, identity, and what the server itself keeps.
const UNTRACKED_METADATA: [&str; 10] = [
    "creationTimestamp", "deletionTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion",
    "selfLink", "uid", "clusterName",
];

/// Who writes, through what, and when.
#[derive(Debug, Clone, Copy)]
pub struct Manager<'a> {
    pub name: &'a str,
    pub api_version: &'a str,
    pub subresource: Option<&'a str>,
    pub tracked: Tracked,
    pub now: Timestamp,
}

/// The parts of an object that an endpoint writes; the others it neither changes nor owns (K-SSA-6, K-WR-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracked {
    /// A kind without status subresource.
    Whole,
    /// The main resource of a kind with status subresource.
    ExceptStatus,
    /// `/status`, with the metadata fields that this kind takes there.
    Status { metadata: &'static [&'static str] },
}

impl Tracked {
    /// Whether the field at the top of the object is owned through this endpoint.
    pub(super) fn has_part(self, key: &str) -> bool {
        match self {
            _ if key == "apiVersion" || key == "kind" => false,
            Tracked::Whole => true,
            Tracked::ExceptStatus => key != "status",
            Tracked::Status { .. } => key == "status",
        }
    }

    pub(super) fn has_metadata(self, key: &str) -> bool {
        match self {
            Tracked::Whole | Tracked::ExceptStatus => !UNTRACKED_METADATA.contains(&key),
            Tracked::Status { metadata } => metadata.contains(&key),
        }
    }
}

/// Brings `managedFields` of a created, replaced or patched object up to date.
///
/// What the client sent there counts if it can be read; an empty list, or one empty entry, forgets all owners.
pub fn updated(shape: &StructRef, old: Option<&Value>, new: &mut Value, manager: &Manager<'_>) {
    let sent = take(new);
    let entries = starting_entries(old, sent, manager.subresource.is_some());
    // An object that nobody owns, such as one whose owners were just forgotten, stays so until it is applied.
    if old.is_some() && entries.is_empty() {
        return;
    }
    let entries = attributed(shape, (old, new), entries, manager);
    store(new, entries);
}

/// The entries after a write by other means than apply.
pub(super) fn attributed(
    shape: &StructRef,
    (old, new): (Option<&Value>, &Value),
    mut entries: Vec<Entry>,
    manager: &Manager<'_>,
) -> Vec<Entry> {
    let changes = changes(shape, old, new, manager.tracked);
    if !changes.is_empty() {
        entries.iter_mut().for_each(|entry| entry.lose(&changes));
    }
    if !changes.set.is_empty() {
        match entries.iter_mut().find(|entry| entry.is_of(manager, false)) {
            Some(own) => {
                own.fields.unite(&changes.set);
                own.time = time_text(manager.now);
            }
            None => entries.push(Entry::new(manager, false, changes.set)),
        }
    }
    merge_oldest(&mut entries);
    entries
}

/// The entries to start from: the client's if they say something, else the stored ones. A subresource never sets them.
fn starting_entries(old: Option<&Value>, sent: Option<Value>, is_subresource: bool) -> Vec<Entry> {
    let stored = old.and_then(|old| old.get("metadata")?.get("managedFields"));
    match sent {
        Some(Value::Array(list)) if !is_subresource => {
            let is_echo = stored.and_then(Value::as_array) == Some(&list);
            let is_reset = list.is_empty() || matches!(list.as_slice(), [Value::Object(one)] if one.is_empty());
            if is_echo {
                return list.into_iter().filter_map(Entry::read).collect();
            }
            if is_reset {
                return Vec::new();
            }
            list.iter().map(Entry::parse).collect::<Option<Vec<_>>>().unwrap_or_else(|| read(stored))
        }
        _ => read(stored),
    }
}

/// Merges the oldest updaters of a version into one entry until there are few enough.
fn merge_oldest(entries: &mut [Entry]) {
    let mut updaters: Vec<usize> = (0..entries.len()).filter(|&index| !entries[index].is_apply).collect();
    updaters.retain(|&index| !entries[index].fields.is_empty());
    let mut excess = updaters.len().saturating_sub(UPDATERS_MAX);
    updaters.sort_by(|&a, &b| order(&entries[a]).cmp(&order(&entries[b])));
    let mut oldest: BTreeMap<String, usize> = BTreeMap::new();
    for index in updaters {
        if excess == 0 {
            return;
        }
        let target = *oldest.entry(entries[index].api_version.clone()).or_insert(index);
        if target != index {
            let fields = std::mem::take(&mut entries[index].fields);
            let time = entries[index].time.clone();
            let merged = &mut entries[target];
            merged.fields.unite(&fields);
            merged.manager = MERGED_UPDATERS.to_owned();
            merged.subresource.clear();
            merged.time = time;
            excess -= 1;
        }
    }
}

/// Puts the stored `managedFields` back if the write changed nothing but their times (K-WR-3, K-SSA-10).
///
/// Defaulting and canonical spelling may undo what looked like a change before them.
pub fn keep_times(old: &Value, new: &mut Value) {
    let is_same = match (old, &*new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len()
                && old.iter().all(|(key, value)| new.get(key).is_some_and(|new| is_even(key, value, new)))
        }
        _ => false,
    };
    let stored = old.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    if let (true, Some(stored), Some(metadata)) = (is_same, stored, new.get_mut("metadata")) {
        metadata["managedFields"] = stored.clone();
    }
}

/// Whether two fields at the top of an object are equal but for the times of owners.
fn is_even(key: &str, old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    if key != "metadata" {
        return old == new;
    }
    old.len() == new.len()
        && old.iter().all(|(key, old)| match (key.as_str(), new.get(key)) {
            (_, None) => false,
            ("managedFields", Some(new)) => is_even_but_times(old, new),
            (_, Some(new)) => old == new,
        })
}

fn is_even_but_times(old: &Value, new: &Value) -> bool {
    let timeless = |list: &Value| {
        let mut entries = read(Some(list));
        entries.iter_mut().for_each(|entry| entry.time.clear());
        entries.sort_by(|a, b| order(a).cmp(&order(b)));
        entries
    };
    timeless(old) == timeless(new)
}

#[cfg(test)]
#[path = "managed_tests.rs"]
mod tests;
