//! CronJobs: schedule, time zone, limits, and the job that they make.

use super::Rule;
use super::job::check_spec;
use super::rows::{Row, check, flag, is_empty, join, set_at};
use super::schedule::{check_schedule, check_time_zone};
use crate::kube::field::FieldError;
use crate::kube::text;
use serde_json::Value;

pub const RULES: &[Rule] = &[Rule {
    group: "batch",
    kind: "CronJob",
    is_namespaced: true,
    create: check_cron_job,
    update: check_cron_job_update,
}];

const CRON_ROWS: &[Row] = &[
    Row::Required("schedule", ""),
    Row::NotNegative("startingDeadlineSeconds"),
    Row::NotNegative("successfulJobsHistoryLimit"),
    Row::NotNegative("failedJobsHistoryLimit"),
    Row::OneOf("concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
];

/// The name of each job is the CronJob's, a dash and ten digits.
const CRON_NAME_MAX: usize = 52;

pub fn check_cron_job(cron_job: &Value) -> Vec<FieldError> {
    let mut errors = check_cron_spec(cron_job, None);
    let name = text(cron_job, "metadata.name");
    if name.len() > CRON_NAME_MAX {
        errors.push(FieldError::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
    errors
}

pub fn check_cron_job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    check_cron_spec(new, Some(old))
}

fn check_cron_spec(cron_job: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &cron_job["spec"];
    let mut errors = check(spec, "spec", CRON_ROWS);
    errors.extend(check_schedule_field(spec, old));
    let zone = set_at(spec, "timeZone");
    let zone_is_new = old.is_none_or(|old| set_at(old, "spec.timeZone") != zone);
    if let Some(zone) = zone.filter(|_| zone_is_new).and_then(Value::as_str) {
        errors.extend(check_time_zone(zone).err().map(|why| FieldError::invalid("spec.timeZone", zone, &why)));
    }
    errors.extend(check_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"));
    let path = "spec.jobTemplate.spec";
    if let Some(selector) = set_at(spec, "jobTemplate.spec.selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(join(path, "selector"), selector.clone(), detail));
    }
    if flag(spec, "jobTemplate.spec.manualSelector") {
        errors.push(FieldError::not_supported(join(path, "manualSelector"), true, &["nil", "false"]));
    }
    errors
}

/// A zone inside the schedule is refused, except where it was stored before that rule.
fn check_schedule_field(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if is_empty(spec.get("schedule")) {
        return Vec::new();
    }
    let schedule = text(spec, "schedule");
    let invalid = |detail: &str| FieldError::invalid("spec.schedule", schedule, detail);
    let mut errors: Vec<FieldError> = check_schedule(schedule).err().map(|why| invalid(&why)).into_iter().collect();
    let had_zone = old.is_some_and(|old| text(old, "spec.schedule").contains("TZ"));
    if schedule.contains("TZ") && !had_zone {
        errors.push(invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if schedule.contains("TZ") && set_at(spec, "timeZone").is_some() {
        errors.push(invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
    }
    errors
}
