//! Lifecycle policies: which events and actions there are, and what is refused in a list of them (ADM-12 to ADM-16).

use super::types::Policy;
use crate::kube::time::parse_duration;
use crate::kube::validate::place::Place;
use std::collections::BTreeSet;

pub const ANY: &str = "*";
/// The events that a policy may name.
pub const EVENTS: [&str; 8] =
    [ANY, "PodPending", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"];
/// The actions that a policy may name.
pub const ACTIONS: [&str; 8] = [
    "AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob",
    "ResumeJob",
];

/// Notes what is wrong with the policies of a Job or a task; `owner` is where the list stands.
pub fn check(policies: &[Policy], owner: &Place) {
    let mut events = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for (policy, place) in policies.iter().zip(owner.items("policies")) {
        check_one(policy, &place);
        let named: BTreeSet<&str> = policy.events().collect();
        for event in named {
            let detail = format!("duplicate event {event}  across different policy");
            place.invalid_if(!events.insert(event), "event", event, &detail);
        }
        if let Some(code) = policy.exit_code.filter(|code| !codes.insert(*code)) {
            place.invalid("exitCode", code, &format!("duplicate exitCode {code}"));
        }
    }
    let is_mixed = events.contains(ANY) && events.len() > 1;
    owner.invalid_if(is_mixed, "policies", ANY, "if there's * here, no other policy should be here");
}

fn check_one(policy: &Policy, place: &Place) {
    let names_event = policy.events().next().is_some();
    match (names_event, policy.exit_code) {
        (true, Some(code)) => place.invalid("exitCode", code, "must not specify event and exitCode simultaneously"),
        (false, None) => place.required("", "either event and exitCode should be specified"),
        (false, Some(0)) => place.invalid("exitCode", 0, "0 is not a valid error code"),
        (true, None) | (false, Some(_)) => {}
    }
    for event in policy.events().filter(|event| !EVENTS.contains(event)) {
        let detail = format!("invalid policy event; valid events are {}", EVENTS.join(", "));
        place.invalid("event", event, &detail);
    }
    if !ACTIONS.contains(&&*policy.action) {
        let detail = format!("invalid policy action; valid actions are {}", ACTIONS.join(", "));
        place.invalid("action", &*policy.action, &detail);
    }
    if let Some(text) = policy.timeout.as_deref().filter(|text| parse_duration(text).is_none()) {
        place.invalid("timeout", text, "must be a duration such as 10s or 1h30m");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::validate::place::problems;
    use serde_json::{Value, json};

    // ADM-12, ADM-13, ADM-14, ADM-15, ADM-16, ADM-17, API-10
    #[test]
    fn policies_are_checked_one_by_one_and_together() {
        let check = |list: Value, expected: &[&str]| {
            let policies: Vec<Policy> = serde_json::from_value(list.clone()).unwrap();
            let errors = problems(&json!({ "policies": list }), "", |owner| check(&policies, owner));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, start) in texts.iter().zip(expected) {
                assert!(text.starts_with(start), "{text} does not start with {start}");
            }
        };
        check(json!([]), &[]);
        check(json!([{"event": "PodFailed", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}]), &[]);
        check(json!([{"event": "PodPending", "action": "RestartPod"}]), &[]);
        check(
            json!([{"events": ["PodEvicted", "Unknown"], "event": "PodFailed", "action": "ResumeJob", "timeout": "1h30m"}]),
            &[],
        );
        check(
            json!([{"action": "AbortJob"}]),
            &["policies[0]: Required value: either event and exitCode should be specified"],
        );
        check(
            json!([{"event": "*", "exitCode": 1, "action": "AbortJob"}]),
            &["policies[0].exitCode: Invalid value: 1: must not specify event and exitCode simultaneously"],
        );
        check(
            json!([{"event": "OutOfSync", "action": "AbortJob"}]),
            &[r#"policies[0].event: Invalid value: "OutOfSync": invalid policy event"#],
        );
        check(json!([{"event": "PodRunning", "action": "AbortJob"}]), &["policies[0].event"]);
        check(
            json!([{"event": "*", "action": "SyncJob"}]),
            &[r#"policies[0].action: Invalid value: "SyncJob": invalid policy action"#],
        );
        check(json!([{"exitCode": 1, "action": ""}]), &["policies[0].action"]);
        check(
            json!([{"event": "PodFailed", "action": "AbortJob"}, {"events": ["PodFailed"], "action": "AbortJob"}]),
            &[r#"policies[1].event: Invalid value: "PodFailed": duplicate event PodFailed  across different policy"#],
        );
        check(
            json!([{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "AbortJob"}]),
            &[r#"policies: Invalid value: "*": if there's * here, no other policy should be here"#],
        );
        check(
            json!([{"exitCode": 0, "action": "AbortJob"}]),
            &["policies[0].exitCode: Invalid value: 0: 0 is not a valid error code"],
        );
        check(
            json!([{"exitCode": 7, "action": "AbortJob"}, {"exitCode": 7, "action": "RestartJob"}]),
            &["policies[1].exitCode: Invalid value: 7: duplicate exitCode 7"],
        );
        check(json!([{"event": "*", "action": "AbortJob", "timeout": "soon"}]), &["policies[0].timeout"]);
    }
}
