//! Admission of training kinds: kind by kind, what is filled in before the schema is checked and what is refused after it.
//!
//! The reference does both by webhooks (spec/volcano.md 2, spec/pytorchjob.md 3). The rules themselves are in
//! `volley_api::volcano` and `volley_api::kubeflow`, where the controllers of foreign clusters find them too.

use serde_json::Value;
use volley_api::kube::field::FieldError;
use volley_api::kube::text;
use volley_api::kubeflow::kinds::{Row, row};
use volley_api::kubeflow::{self, Rules};
use volley_api::volcano::{cron, defaults, group, queue, update, validate};

/// The usual rules of the embedded cluster: its Services may have names that start with a digit, so its jobs may too
/// (PT-DEC-7).
pub const RULES: Rules = Rules { is_strict: false, accepts_digit_names: true };
/// The scheduler of Jobs that name none.
const SCHEDULER: &str = "volcano";

/// The kinds with rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Job,
    CronJob,
    PodGroup,
    Queue,
    Training(&'static Row),
}

/// What stands behind a kind, if it has rules.
pub fn hook(group: &str, kind: &str) -> Option<Hook> {
    match (group, kind) {
        ("batch.volcano.sh", "Job") => Some(Hook::Job),
        ("batch.volcano.sh", "CronJob") => Some(Hook::CronJob),
        ("scheduling.volcano.sh", "PodGroup") => Some(Hook::PodGroup),
        ("scheduling.volcano.sh", "Queue") => Some(Hook::Queue),
        (kubeflow::GROUP, kind) => row(kind).map(Hook::Training),
        _ => None,
    }
}

impl Hook {
    /// Completes an object that is created, or changed from `old`; returns what its sender should know.
    ///
    /// The schema has not seen the object yet, so any field may have any type.
    pub fn fill(self, object: &mut Value, old: Option<&Value>, rules: Rules) -> Vec<String> {
        match (self, old) {
            (Hook::Job, None) => defaults::job(object, SCHEDULER),
            (Hook::Job, Some(_)) => defaults::job_again(object, SCHEDULER),
            (Hook::CronJob, _) => cron::complete(object, SCHEDULER),
            (Hook::Queue, None) => queue::complete(object),
            (Hook::Training(row), old) => return kubeflow::fill::fill(row, object, old, rules),
            (Hook::Queue, Some(_)) | (Hook::PodGroup, _) => {}
        }
        Vec::new()
    }

    /// What is accepted but should be written otherwise; for objects that `check` has passed.
    pub fn warnings(self, object: &Value, rules: Rules) -> Vec<String> {
        match self {
            Hook::Training(row) => kubeflow::validate::warnings(row, object, rules),
            Hook::Job | Hook::CronJob | Hook::PodGroup | Hook::Queue => Vec::new(),
        }
    }

    /// Everything wrong with an object that the schema has passed; `queues` reads all queues, where they matter.
    pub fn check(
        self,
        object: &Value,
        old: Option<&Value>,
        rules: Rules,
        queues: impl FnOnce() -> Vec<Value>,
    ) -> Vec<FieldError> {
        if old.is_some_and(|old| self.is_same(object, old)) {
            return Vec::new();
        }
        match (self, old) {
            (Hook::Job, None) => {
                let mut errors = validate::job_create(object);
                errors.extend(queue::takes_jobs(text(object, "spec.queue"), &queues()).err());
                errors
            }
            (Hook::Job, Some(old)) => update::job_update(object, old),
            (Hook::CronJob, _) => cron::check(object),
            (Hook::PodGroup, None) => group::group_create(object, &queues()),
            (Hook::PodGroup, Some(_)) => Vec::new(),
            (Hook::Queue, old) => queue::check(object, old, &queues()),
            (Hook::Training(row), old) => kubeflow::validate::validate(row, object, old, rules),
        }
    }

    /// Whether an update leaves alone all that there are rules for: labels, finalizers and a status always pass (ADM-32).
    fn is_same(self, new: &Value, old: &Value) -> bool {
        let has_same_marks = self != Hook::Queue || new["metadata"]["annotations"] == old["metadata"]["annotations"];
        new["spec"] == old["spec"] && has_same_marks
    }
}

#[cfg(test)]
#[path = "training_tests.rs"]
mod tests;
