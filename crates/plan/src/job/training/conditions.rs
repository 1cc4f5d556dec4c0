//! The list of a job's conditions: what is added where, and what it does to the others (PT-CND).
//!
//! The order is visible to users: the last type is the STATE that kubectl prints.

use crate::control::wire_time;
use jiff::Timestamp;
use volley_api::kubeflow::types::{JobCondition, JobStatus};

pub fn is_true(status: &JobStatus, type_: &str) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The condition by which the job has ended.
pub fn terminal(status: &JobStatus) -> Option<&JobCondition> {
    let is_end = |c: &&JobCondition| matches!(c.type_.as_str(), "Succeeded" | "Failed") && c.status == "True";
    status.conditions.iter().find(is_end)
}

/// What a condition is to say.
pub struct Said {
    pub type_: &'static str,
    pub is_true: bool,
    pub reason: String,
    pub message: String,
}

/// Sets a condition and returns whether that changed the list; a job that has ended stays as it ended.
pub fn set(status: &mut JobStatus, said: Said, now: Timestamp) -> bool {
    if terminal(status).is_some() {
        return false;
    }
    let value = if said.is_true { "True" } else { "False" };
    let old = status.conditions.iter().find(|condition| condition.type_ == said.type_);
    let is_same = |old: &JobCondition| old.status == value && old.reason.as_deref() == Some(&*said.reason);
    if old.is_some_and(is_same) {
        return false;
    }
    let now = wire_time(now).0;
    let kept = old.filter(|old| old.status == value).and_then(|old| old.last_transition_time);
    let removed = match said.type_ {
        "Running" => "Restarting",
        "Restarting" => "Running",
        same => same,
    };
    status.conditions.retain(|condition| condition.type_ != said.type_ && condition.type_ != removed);
    if matches!(said.type_, "Succeeded" | "Failed") {
        // Clients read every condition that is True, so none of these may outlive the end.
        let going = status.conditions.iter_mut().filter(|c| matches!(c.type_.as_str(), "Running" | "Restarting"));
        going.for_each(|condition| condition.status = "False".to_owned());
    }
    status.conditions.push(JobCondition {
        type_: said.type_.to_owned(),
        status: value.to_owned(),
        reason: Some(said.reason),
        message: Some(said.message),
        last_update_time: Some(now),
        last_transition_time: kept.or(Some(now)),
    });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::world::at;

    fn put(status: &mut JobStatus, type_: &'static str, is_true: bool, reason: &str, second: i64) -> bool {
        set(status, Said { type_, is_true, reason: reason.into(), message: format!("at {second}") }, at(second))
    }

    fn list(status: &JobStatus) -> Vec<String> {
        status.conditions.iter().map(|c| format!("{}={}", c.type_, c.status)).collect()
    }

    // PT-CND-2, PT-CND-3
    #[test]
    fn a_condition_said_again_changes_nothing_and_a_new_one_goes_to_the_end() {
        let mut status = JobStatus::default();
        assert!(put(&mut status, "Created", true, "a", 0) && put(&mut status, "Suspended", true, "a", 1));
        assert!(!put(&mut status, "Created", true, "a", 2), "its message is not refreshed");
        assert_eq!(status.conditions[0].message.as_deref(), Some("at 0"));
        assert!(put(&mut status, "Created", true, "b", 3));
        assert_eq!(list(&status), ["Suspended=True", "Created=True"]);
        let created = &status.conditions[1];
        assert_eq!(created.last_transition_time, Some(at(0)), "its status is as it was");
        assert_eq!(created.last_update_time, Some(at(3)));
        assert!(put(&mut status, "Suspended", false, "a", 4));
        assert_eq!(status.conditions[1].last_transition_time, Some(at(4)));
    }

    // PT-CND-4
    #[test]
    fn running_and_restarting_exclude_each_other() {
        let mut status = JobStatus::default();
        put(&mut status, "Created", true, "a", 0);
        put(&mut status, "Running", true, "a", 1);
        put(&mut status, "Restarting", true, "a", 2);
        assert_eq!(list(&status), ["Created=True", "Restarting=True"]);
        put(&mut status, "Running", true, "a", 3);
        assert_eq!(list(&status), ["Created=True", "Running=True"]);
    }

    // PT-CND-1, PT-CND-5, PT-CND-8, PT-SUC-5, PT-DEC-13
    #[test]
    fn an_ended_job_is_frozen() {
        for end in ["Succeeded", "Failed"] {
            let mut status = JobStatus::default();
            put(&mut status, "Running", true, "a", 1);
            put(&mut status, "Created", true, "a", 2);
            let running = status.conditions[0].clone();
            put(&mut status, end, true, "a", 3);
            assert_eq!(list(&status), ["Running=False", "Created=True", &format!("{end}=True")]);
            assert_eq!(status.conditions[0], JobCondition { status: "False".into(), ..running });
            let frozen = status.clone();
            for type_ in ["Running", "Restarting", "Succeeded", "Failed", "Suspended"] {
                assert!(!put(&mut status, type_, true, "b", 4));
            }
            assert_eq!(status, frozen);
        }
    }
}
