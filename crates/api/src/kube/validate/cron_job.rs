//! CronJobs: schedule, time zone, limits, and the job that they make.

use super::Rule;
use super::job::job_spec;
use super::place::Place;
use super::schedule::{check_schedule, check_time_zone};
use crate::kube::text;
use serde_json::Value;

pub(super) const RULES: &[Rule] =
    &[Rule::of("batch", "CronJob", cron_job).on_create(cron_job_create).on_update(schedule_and_zone)];

/// The name of each job is the CronJob's, a dash and ten digits.
const CRON_NAME_MAX: usize = 52;

fn cron_job(cron_job: &Place) {
    let spec = cron_job.field("spec");
    spec.needs(&["schedule"]);
    spec.not_negative(&["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
    spec.one_of_if_given("concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    let job = spec.field("jobTemplate.spec");
    job_spec(&job);
    job.wrong_if(job.has("selector"), "selector", "`selector` will be auto-generated");
    if job.flag("manualSelector") {
        job.not_supported("manualSelector", true, &["nil", "false"]);
    }
}

fn cron_job_create(cron_job: &Place) {
    let is_long = cron_job.text("metadata.name").len() > CRON_NAME_MAX;
    cron_job.wrong_if(is_long, "metadata.name", "must be no more than 52 characters");
    schedule_and_zone(cron_job, &Value::Null);
}

/// A zone inside the schedule is refused, except where it was stored before that rule.
fn schedule_and_zone(cron_job: &Place, old: &Value) {
    let spec = cron_job.field("spec");
    let schedule = spec.text("schedule");
    if let Err(why) = check_schedule(schedule)
        && !schedule.is_empty()
    {
        spec.wrong("schedule", &why);
    }
    let had_zone = text(old, "spec.schedule").contains("TZ");
    if schedule.contains("TZ") && !had_zone {
        spec.wrong("schedule", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if schedule.contains("TZ") && spec.has("timeZone") {
        spec.wrong("schedule", "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
    let is_new = old.is_null() || spec.get("timeZone") != &old["spec"]["timeZone"];
    if let Err(why) = check_time_zone(spec.text("timeZone"))
        && spec.has("timeZone")
        && is_new
    {
        spec.wrong("timeZone", &why);
    }
}
