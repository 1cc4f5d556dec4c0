//! CronJobs of Volcano Jobs: what is filled in and what is refused (ADM-54, spec/volcano.md 6.4).

use super::defaults::job_spec as complete_job;
use super::types::job_spec;
use super::validate::check_spec;
use crate::kube::defaults::rows::Fill::{Flag, Number, Text};
use crate::kube::defaults::rows::{Row, fill_rows};
use crate::kube::field::FieldError;
use crate::kube::validate::place::{Place, problems};
use crate::kube::validate::schedule::{check_schedule, check_time_zone};
use serde_json::Value;

/// The name of each Job is the CronJob's, a dash and ten digits.
const NAME_MAX: usize = 52;
const ROWS: &[Row] = &[
    ("spec.concurrencyPolicy", Text("Allow")),
    ("spec.suspend", Flag(false)),
    ("spec.successfulJobsHistoryLimit", Number(3)),
    ("spec.failedJobsHistoryLimit", Number(1)),
];

/// Completes a new CronJob and the Job that it holds.
pub fn complete(cron: &mut Value, scheduler: &str) {
    fill_rows(cron, ROWS);
    if let Some(job) = cron.pointer_mut("/spec/jobTemplate/spec") {
        complete_job(job, scheduler);
    }
}

/// Everything wrong with a CronJob, new or changed.
pub fn check(cron: &Value) -> Vec<FieldError> {
    problems(cron, "", |cron| {
        let is_long = cron.text("metadata.name").len() > NAME_MAX;
        cron.wrong_if(is_long, "metadata.name", "must be no more than 52 characters");
        let spec = cron.field("spec");
        check_times(&spec);
        spec.not_negative(&["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
        spec.one_of_if_given("concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
        match job_spec(spec.get("jobTemplate")) {
            // The Job's name is not known yet: the longest that it may have is judged above.
            Ok(job) => check_spec(&job, "", &spec.field("jobTemplate.spec")),
            Err(error) => spec.note(error),
        }
    })
}

fn check_times(spec: &Place) {
    let schedule = spec.text("schedule");
    if schedule.contains("TZ") {
        let detail = "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field";
        spec.wrong("schedule", detail);
    } else if schedule.is_empty() {
        spec.required("schedule", "schedule is required, but got empty");
    } else if let Err(why) = check_schedule(schedule) {
        spec.wrong("schedule", &format!("schedule is not a valid cron expression: {why}"));
    }
    let Some(zone) = spec.get("timeZone").as_str() else { return };
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones";
        spec.wrong("timeZone", detail);
    } else if let Err(why) = check_time_zone(zone) {
        spec.wrong("timeZone", &why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // ADM-54
    #[test]
    fn a_schedule_is_needed_and_holds_no_zone() {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        let job = json!({"spec": {"tasks": [{"name": "t", "replicas": 1, "template": template}]}});
        let check = |name: &str, mut spec: Value, expected: &[&str]| {
            spec["jobTemplate"] = job.clone();
            let mut cron = json!({"metadata": {"name": name}, "spec": spec});
            complete(&mut cron, "volcano");
            assert_eq!(cron["spec"]["jobTemplate"]["spec"]["queue"], "default");
            let errors = check(&cron);
            let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
            assert_eq!(paths, expected, "{errors:?}");
        };
        check("c", json!({"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin"}), &[]);
        check("c", json!({}), &["spec.schedule"]);
        check("c", json!({"schedule": "often"}), &["spec.schedule"]);
        check("c", json!({"schedule": "TZ=UTC 0 0 * * *"}), &["spec.schedule"]);
        check("c", json!({"schedule": "@daily", "timeZone": "Local"}), &["spec.timeZone"]);
        check("c", json!({"schedule": "@daily", "concurrencyPolicy": "Maybe"}), &["spec.concurrencyPolicy"]);
        check(&"c".repeat(53), json!({"schedule": "@daily"}), &["metadata.name"]);
    }
}
