//! CronJobs of Volcano Jobs: what is filled in and what is refused (ADM-54, spec/volcano.md 6.4).

use super::defaults::job_spec as complete_job;
use super::types::job_spec;
use super::validate::check_spec;
use crate::kube::defaults::{inner, section, set, set_zero};
use crate::kube::field::FieldError;
use crate::kube::text;
use crate::kube::validate::path::Path;
use crate::kube::validate::read::{not_negative, optional_one_of, string};
use crate::kube::validate::schedule::{check_schedule, check_time_zone};
use serde_json::Value;

/// The name of each Job is the CronJob's, a dash and ten digits.
const NAME_MAX: usize = 52;

/// Completes a new CronJob and the Job that it holds.
pub fn complete(cron: &mut Value, scheduler: &str) {
    let Some(spec) = section(cron, "spec") else { return };
    set_zero(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = inner(spec, "jobTemplate").and_then(|template| inner(template, "spec")) {
        complete_job(job, scheduler);
    }
}

/// Everything wrong with a CronJob, new or changed.
pub fn check(cron: &Value) -> Vec<FieldError> {
    let spec = &cron["spec"];
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let name = text(cron, "metadata.name");
    if name.len() > NAME_MAX {
        errors.push(FieldError::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
    let schedule = string(spec, "schedule");
    let mut refuse = |field: &str, value: &str, why: &str| {
        errors.push(FieldError::invalid(path.field(field), value, why));
    };
    if schedule.contains("TZ") {
        refuse("schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if schedule.is_empty() {
        errors.push(FieldError::required(path.field("schedule"), ""));
    } else if let Err(why) = check_schedule(schedule) {
        refuse("schedule", schedule, &why);
    }
    if let Some(zone) = spec["timeZone"].as_str() {
        let verdict = if zone.eq_ignore_ascii_case("local") {
            Err(format!("unknown time zone {zone}"))
        } else {
            check_time_zone(zone)
        };
        errors.extend(verdict.err().map(|why| FieldError::invalid(path.field("timeZone"), zone, &why)));
    }
    let numbers = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    not_negative(&mut errors, spec, &path, &numbers);
    optional_one_of(&mut errors, spec, &path, "concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    match job_spec(&spec["jobTemplate"]) {
        // The Job's name is not known yet: the longest that it may have is judged above.
        Ok(job) => errors.extend(check_spec(&job, "", &Path::new("spec.jobTemplate.spec"))),
        Err(error) => errors.push(error),
    }
    errors
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
