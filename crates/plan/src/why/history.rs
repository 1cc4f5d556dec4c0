//! The reasons for which a gang waited, over time, kept in an annotation of its PodGroup.
//!
//! Whoever schedules keeps what a group has (`Kept`), calls `noted` after each round with what it found, and writes the
//! annotation that it yields. On clusters where nobody does, `told` finds what conditions and events still know.

use super::{list, moment};
use crate::gang::Waiting;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

/// A group's history as it is written, and its end, by which it is told without reading all of it whether there is news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    text: String,
    last: Record,
}

impl Kept {
    pub fn of(group: &Value) -> Option<Kept> {
        let last = read(group).pop()?;
        Some(Kept { text: group["metadata"]["annotations"][HISTORY].as_str()?.to_owned(), last })
    }
}

/// The text of the annotation with what is so now added to it; nothing if it says so already.
///
/// `waiting` is `None` for a gang that has its minimum, or nothing to wait for.
pub fn noted(kept: Option<&Kept>, waiting: Option<&Waiting>, now: Timestamp) -> Option<String> {
    let (reason, message) = match waiting.filter(|waiting| !waiting.has_minimum) {
        Some(waiting) => (reason(waiting), waiting.on.to_string().chars().take(MESSAGE_MAX).collect()),
        None => ("Placed".to_owned(), "all that it needs has a place".to_owned()),
    };
    let record = Record { at: now, reason, message };
    match kept.map(|kept| &kept.last) {
        // A gang that never waited has no history.
        None if record.reason == "Placed" => return None,
        Some(last) if last.message == record.message => return None,
        Some(last) if last.reason == record.reason && now.as_second() - last.at.as_second() < RENEW_S => return None,
        Some(_) | None => {}
    }
    let mut records: Vec<Record> = kept.and_then(|kept| serde_json::from_str(&kept.text).ok()).unwrap_or_default();
    records.push(record);
    let records = records.split_off(records.len().saturating_sub(RECORDS_MAX));
    serde_json::to_string(&records).ok()
}

fn reason(waiting: &Waiting) -> String {
    let on = serde_json::to_value(&waiting.on).unwrap_or_default();
    text(&on, "on").to_owned()
}

/// Events by which pods tell of their waiting.
const OF_PODS: [&str; 4] = ["FailedScheduling", "Scheduled", "Preempted", "Evict"];

/// What is known of a job's past: its group's own history, else the group's conditions and events, or those of its pods,
/// the oldest first.
pub fn told(group: Option<&Value>, events: &[Value]) -> Vec<Record> {
    let is_pods = group.is_none();
    let group = group.unwrap_or(&Value::Null);
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
    let is_told = |one: &&Value| match text(one, "involvedObject.kind") {
        "PodGroup" => true,
        "Pod" => is_pods && OF_PODS.contains(&text(one, "reason")),
        _ => false,
    };
    let mut records: Vec<Record> = list(group, "status.conditions").filter_map(condition).collect();
    records.extend(events.iter().filter(is_told).filter_map(event));
    records.sort_by(|a, b| (a.at, &a.message).cmp(&(b.at, &b.message)));
    records.dedup_by(|a, b| a.message == b.message);
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::why::WaitingOn;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn members(have: usize) -> Waiting {
        Waiting { on: WaitingOn::Members { have, need: 9 }, pods: 1, has_minimum: false }
    }

    #[test]
    fn a_reason_is_written_once_its_numbers_now_and_then_and_old_ones_go() {
        let mut group = json!({"metadata": {"name": "g"}});
        let mut note =
            |waiting: Option<&Waiting>, second: i64| match noted(Kept::of(&group).as_ref(), waiting, at(second)) {
                Some(text) => {
                    group["metadata"]["annotations"] = json!({HISTORY: text});
                    true
                }
                None => false,
            };
        assert!(!note(None, 0), "it never waited");
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
        let of_pod = json!({"involvedObject": {"kind": "Pod"}, "reason": "FailedScheduling", "message": "no room",
            "firstTimestamp": "1970-01-01T00:00:05Z"});
        let other = json!({"involvedObject": {"kind": "Pod"}, "reason": "Pulled", "message": "p", "firstTimestamp": "1970-01-01T00:00:05Z"});
        let events = [event, of_pod, other];
        let messages = |group: Option<&Value>| -> Vec<String> {
            told(group, &events).into_iter().map(|record| record.message).collect()
        };
        assert_eq!(messages(Some(&group)), ["earlier", "1/1 tasks"]);
        assert_eq!(messages(None), ["no room", "earlier"]);
    }
}
