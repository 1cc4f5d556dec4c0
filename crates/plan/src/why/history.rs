//! The reasons for which a gang waited, over time, kept in an annotation of its PodGroup.
//!
//! Whoever schedules calls `noted` after each round with what it found and merges the patch it yields. On clusters where
//! nobody does, `told` finds what conditions and events still know.

use super::{list, moment};
use crate::gang::Waiting;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use volley_api::kube::text;

pub const HISTORY: &str = "volley.dev/why-history";
/// The newest are kept; with their sentences that is a few kilobytes.
const RECORDS_MAX: usize = 24;
/// Numbers change with every pod that ends; so often are they written down while the reason stays.
const RENEW_S: i64 = 60;
/// A sentence is cut here.
const MESSAGE_MAX: usize = 300;

/// From `at` on, this was the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub at: Timestamp,
    /// The variant of `WaitingOn`, or `Placed`.
    pub reason: String,
    pub message: String,
}

pub fn read(group: &Value) -> Vec<Record> {
    let kept = group["metadata"]["annotations"][HISTORY].as_str().unwrap_or_default();
    serde_json::from_str(kept).unwrap_or_default()
}

/// The merge patch that adds what is so now to the group's history; nothing if it says so already.
///
/// `waiting` is `None` for a gang that has its minimum, or nothing to wait for.
pub fn noted(group: &Value, waiting: Option<&Waiting>, now: Timestamp) -> Option<Value> {
    let mut records = read(group);
    let (reason, message) = match waiting.filter(|waiting| !waiting.has_minimum) {
        Some(waiting) => (reason(waiting), waiting.on.to_string().chars().take(MESSAGE_MAX).collect()),
        None => ("Placed".to_owned(), "all that it needs has a place".to_owned()),
    };
    let record = Record { at: now, reason, message };
    match records.last() {
        // A gang that never waited has no history.
        None if record.reason == "Placed" => return None,
        Some(last) if last.message == record.message => return None,
        Some(last) if last.reason == record.reason && now.as_second() - last.at.as_second() < RENEW_S => return None,
        Some(_) | None => records.push(record),
    }
    let records = records.split_off(records.len().saturating_sub(RECORDS_MAX));
    let kept = serde_json::to_string(&records).ok()?;
    Some(json!({"metadata": {"annotations": {HISTORY: kept}}}))
}

fn reason(waiting: &Waiting) -> String {
    let on = serde_json::to_value(&waiting.on).unwrap_or_default();
    text(&on, "on").to_owned()
}

/// What is known of a group's past: its own history, else its conditions and events, the oldest first.
pub fn told(group: &Value, events: &[Value]) -> Vec<Record> {
    let kept = read(group);
    if !kept.is_empty() {
        return kept;
    }
    let condition = |one: &Value| {
        let message = Some(text(one, "message")).filter(|message| !message.is_empty()).unwrap_or(text(one, "reason"));
        Some(Record {
            at: moment(one, "lastTransitionTime")?,
            reason: text(one, "type").to_owned(),
            message: message.to_owned(),
        })
    };
    let event = |one: &Value| {
        let at = ["firstTimestamp", "eventTime", "metadata.creationTimestamp"]
            .into_iter()
            .find_map(|path| moment(one, path))?;
        Some(Record { at, reason: text(one, "reason").to_owned(), message: text(one, "message").to_owned() })
    };
    let of_group = |one: &&Value| text(one, "involvedObject.kind") == "PodGroup";
    let mut records: Vec<Record> = list(group, "status.conditions").filter_map(condition).collect();
    records.extend(events.iter().filter(of_group).filter_map(event));
    records.sort_by(|a, b| (a.at, &a.message).cmp(&(b.at, &b.message)));
    records.dedup_by(|a, b| a.message == b.message);
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::why::WaitingOn;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn members(have: usize) -> Waiting {
        Waiting { on: WaitingOn::Members { have, need: 9 }, pods: 1, has_minimum: false }
    }

    #[test]
    fn a_reason_is_written_once_its_numbers_now_and_then_and_old_ones_go() {
        let mut group = json!({"metadata": {"name": "g"}});
        assert_eq!(noted(&group, None, at(0)), None);
        let mut note = |waiting: Option<&Waiting>, second: i64| match noted(&group, waiting, at(second)) {
            Some(patch) => {
                json_patch::merge(&mut group, &patch);
                true
            }
            None => false,
        };
        assert!(note(Some(&members(1)), 1));
        assert!(!note(Some(&members(1)), 1000));
        assert!(!note(Some(&members(2)), 2));
        assert!(note(Some(&members(2)), 100));
        let closed = WaitingOn::ClosedQueue { queue: "q".to_owned(), state: "Closed".to_owned() };
        assert!(note(Some(&Waiting { on: closed, pods: 1, has_minimum: false }), 101));
        assert!(note(None, 102));
        assert!(!note(None, 5000));
        for second in 0..100 {
            assert!(note(Some(&members(second as usize % 7)), 10_000 + second * 60));
        }
        let records = read(&group);
        assert_eq!(records.len(), RECORDS_MAX);
        assert_eq!(records.last().unwrap().at, at(10_000 + 99 * 60));
    }

    #[test]
    fn without_a_history_conditions_and_events_tell() {
        let group = json!({"status": {"conditions": [{"type": "Unschedulable", "lastTransitionTime": "1970-01-01T00:01:00Z",
            "reason": "NotEnoughResources", "message": "1/1 tasks"}]}});
        let event = json!({"involvedObject": {"kind": "PodGroup"}, "reason": "Unschedulable", "message": "earlier",
            "firstTimestamp": "1970-01-01T00:00:10Z"});
        let told: Vec<String> = told(&group, &[event]).into_iter().map(|record| record.message).collect();
        assert_eq!(told, ["earlier", "1/1 tasks"]);
    }
}
