//! The batch/v1 CronJob controller: which run is due, what to do with the runs still going, which old ones to drop.

use super::{Action, Plan, Propagation, Target, Voice, controller_reference, controller_uid, name_of, seconds_since};
use super::{to_value, uid_of, wire_time};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// More missed runs than this point to a wrong clock or a long outage, and are worth a warning; upstream's number.
const MISSED_MAX: usize = 100;
/// A run that may not start is reported only this soon after it was due: a plan has no memory, and would repeat
/// itself at every visit until the next run.
const NEWS_SECONDS: i64 = 2;

/// A CronJob, the Jobs of its namespace, and the zone that `spec.timeZone` names (UTC if it names none).
#[derive(Debug)]
pub struct Observed<'a> {
    pub cron_job: &'a CronJob,
    pub jobs: &'a [Job],
    pub zone: &'a TimeZone,
}

/// Reads a schedule of five fields or a nickname such as `@daily`.
pub fn parse_schedule(text: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).sloppy_ranges(true).build();
    parser.parse(text).map_err(|error| error.to_string())
}

struct Round<'a> {
    cron_job: &'a CronJob,
    spec: &'a CronJobSpec,
    owned: Vec<&'a Job>,
    status: CronJobStatus,
    zone: &'a TimeZone,
    voice: Voice,
    now: Timestamp,
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let spec = &seen.cron_job.spec;
    let uid = uid_of(&seen.cron_job.metadata);
    let owned: Vec<&Job> = seen.jobs.iter().filter(|job| controller_uid(&job.metadata) == Some(uid)).collect();
    let mut round = Round {
        cron_job: seen.cron_job,
        spec,
        owned,
        status: seen.cron_job.status.clone().unwrap_or_default(),
        zone: seen.zone,
        voice: Voice::new(seen.cron_job, "cronjob-controller"),
        now,
    };
    round.note_jobs(&mut plan);
    round.drop_old_jobs(&mut plan);
    if seen.cron_job.metadata.deletion_timestamp.is_none() && spec.suspend != Some(true) {
        round.start_due(&mut plan);
    }
    plan.status(seen.cron_job, seen.cron_job.status.as_ref(), &round.status);
    plan
}

/// The type of the condition that ended the Job.
fn outcome(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let end = conditions.iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True");
    end.map(|condition| condition.type_.as_str())
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

impl<'a> Round<'a> {
    /// Keeps `active` and `lastSuccessfulTime` true. Jobs made by hand from the template are not among the active.
    fn note_jobs(&mut self, plan: &mut Plan) {
        let listed = self.status.active.take().unwrap_or_default();
        let mut active = Vec::new();
        for reference in listed {
            let found = self.owned.iter().find(|job| job.metadata.uid == reference.uid);
            let name = reference.name.clone().unwrap_or_default();
            match found.map(|job| outcome(job)) {
                None => plan.events.push(self.voice.normal("MissingJob", format!("Active job went missing: {name}"))),
                Some(Some(end)) => {
                    let message = format!("Saw completed job: {name}, condition: {end}");
                    plan.events.push(self.voice.normal("SawCompletedJob", message));
                }
                Some(None) => active.push(reference),
            }
        }
        for job in self.owned.iter().filter(|job| outcome(job).is_none()) {
            let is_scheduled = job.metadata.annotations.as_ref().is_some_and(|map| map.contains_key(SCHEDULED_AT));
            if is_scheduled && !active.iter().any(|known| known.uid == job.metadata.uid) {
                active.push(reference(job));
            }
        }
        self.status.active = Some(active).filter(|active| !active.is_empty());
        let ends = self.owned.iter().filter(|job| outcome(job) == Some("Complete"));
        let last_end = ends.filter_map(|job| job.status.as_ref()?.completion_time.clone()).max();
        self.status.last_successful_time = self.status.last_successful_time.take().max(last_end);
    }

    fn drop_old_jobs(&mut self, plan: &mut Plan) {
        let limits = [
            ("Complete", self.spec.successful_jobs_history_limit.unwrap_or(3)),
            ("Failed", self.spec.failed_jobs_history_limit.unwrap_or(1)),
        ];
        for (end, limit) in limits {
            let mut ended: Vec<&Job> = self.owned.iter().copied().filter(|job| outcome(job) == Some(end)).collect();
            ended.retain(|job| job.metadata.deletion_timestamp.is_none());
            ended.sort_by_key(|job| {
                let started = job.status.as_ref().and_then(|status| status.start_time.clone());
                (started.or(job.metadata.creation_timestamp.clone()), job.metadata.name.clone())
            });
            let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
            for job in &ended[..surplus] {
                self.delete(Target::of(*job), plan);
            }
        }
    }

    fn delete(&self, target: Target, plan: &mut Plan) {
        plan.events.push(self.voice.normal("SuccessfulDelete", format!("Deleted job {}", target.name)));
        plan.actions.push(Action::Delete { target, propagation: Propagation::Background });
    }

    /// Starts the most recent run that is due and not yet started, and asks to be back at the next one.
    fn start_due(&mut self, plan: &mut Plan) {
        let schedule = match parse_schedule(&self.spec.schedule) {
            Ok(schedule) => schedule,
            Err(error) => {
                // Validation refuses such a schedule, so this is only ever said about an object from elsewhere.
                let message = format!("unparseable schedule: \"{}\" : {error}", self.spec.schedule);
                plan.events.push(self.voice.warning("UnparseableSchedule", message));
                return;
            }
        };
        let here = self.now.to_zoned(self.zone.clone());
        if let Ok(next) = schedule.find_next_occurrence(&here, false) {
            plan.requeue(seconds_since(self.now, next.timestamp()));
        }
        let Some(due) = self.due(&schedule) else {
            return;
        };
        let name = format!("{}-{}", name_of(&self.cron_job.metadata), due.as_second().div_euclid(60));
        let is_started = self.owned.iter().any(|job| name_of(&job.metadata) == name);
        if !is_started && !self.may_start(due, plan) {
            return;
        }
        if !is_started {
            self.warn_if_many_missed(&schedule, due, plan);
            let event = self.voice.normal("SuccessfulCreate", "Created job {name}");
            plan.actions.push(Action::Create { object: to_value(&self.new_job(name, due)), event: Some(event) });
        }
        self.status.last_schedule_time = Some(wire_time(due));
    }

    /// From when on runs count: the last one, or the creation, but not before the starting deadline.
    fn counted_from(&self) -> Timestamp {
        let created = self.cron_job.metadata.creation_timestamp.as_ref();
        let last = self.status.last_schedule_time.as_ref().or(created).map_or(self.now, |time| time.0);
        let deadline = self.spec.starting_deadline_seconds;
        let earliest = deadline.and_then(|seconds| Timestamp::from_second(self.now.as_second() - seconds).ok());
        earliest.map_or(last, |earliest| last.max(earliest))
    }

    fn due(&self, schedule: &Cron) -> Option<Timestamp> {
        let here = self.now.to_zoned(self.zone.clone());
        let last = schedule.find_previous_occurrence(&here, true).ok()?.timestamp();
        (last > self.counted_from()).then_some(last)
    }

    fn may_start(&mut self, due: Timestamp, plan: &mut Plan) -> bool {
        let active = self.status.active.clone().unwrap_or_default();
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                if seconds_since(due, self.now) < NEWS_SECONDS {
                    let message =
                        "Not starting job because prior execution is running and concurrency policy is Forbid";
                    plan.events.push(self.voice.normal("JobAlreadyActive", message));
                }
                false
            }
            Some("Replace") => {
                for job in self.owned.iter().filter(|job| active.iter().any(|a| a.uid == job.metadata.uid)) {
                    self.delete(Target::of(*job), plan);
                }
                self.status.active = None;
                true
            }
            Some(_) | None => true,
        }
    }

    fn warn_if_many_missed(&self, schedule: &Cron, due: Timestamp, plan: &mut Plan) {
        let from = self.counted_from().to_zoned(self.zone.clone());
        let runs = schedule.iter_after(from).take(MISSED_MAX + 2);
        let missed = runs.take_while(|run| run.timestamp() <= due).count();
        if missed > MISSED_MAX {
            let message =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            plan.events.push(self.voice.warning("TooManyMissedTimes", message));
        }
    }

    fn new_job(&self, name: String, due: Timestamp) -> Job {
        let template = self.spec.job_template.clone();
        let made_by_user = template.metadata.unwrap_or_default();
        let mut annotations = made_by_user.annotations.unwrap_or_default();
        let zoned = due.to_zoned(self.zone.clone());
        let is_utc = self.zone == &TimeZone::UTC;
        let format = if is_utc { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
        annotations.insert(SCHEDULED_AT.to_owned(), zoned.strftime(format).to_string());
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: self.cron_job.metadata.namespace.clone(),
            labels: made_by_user.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(self.cron_job)]),
            ..ObjectMeta::default()
        };
        Job { metadata, spec: template.spec, status: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::{World, at};
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// The pretend clock starts 40 s before a full minute, 22:13:20 UTC.
    const TO_NEXT_MINUTE: i64 = 40;

    fn world(spec: Value) -> World {
        let mut world = World::default();
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {"containers": []}}}});
        let mut spec_with_defaults = json!({"schedule": "* * * * *", "jobTemplate": template});
        json_patch::merge(&mut spec_with_defaults, &spec);
        world.add(json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "uid": "c"},
            "spec": spec_with_defaults}));
        world
    }

    fn planned(world: &World) -> Plan {
        planned_in(world, &TimeZone::UTC)
    }

    fn planned_in(world: &World, zone: &TimeZone) -> Plan {
        let observed = Observed { cron_job: &world.get("c"), jobs: &world.list::<Job>(), zone };
        plan(&observed, world.now())
    }

    fn end_job(world: &mut World, name: &str, kind: &str) {
        let time = world.now().to_string();
        let condition = json!([{"type": kind, "status": "True", "lastTransitionTime": time}]);
        world.edit("Job", name, json!({"status": {"conditions": condition, "completionTime": time}}));
    }

    fn status(world: &World) -> &Value {
        &world.raw("CronJob", "c")["status"]
    }

    #[test]
    fn a_run_starts_when_it_is_due_and_is_followed_to_its_end() {
        let mut world = world(json!({}));
        assert_eq!(world.settle(planned).requeue_after, Some(40));
        assert!(world.names("Job").is_empty());
        world.second = TO_NEXT_MINUTE;
        assert_eq!(world.settle(planned).requeue_after, Some(60));
        let minutes = at(TO_NEXT_MINUTE).as_second() / 60;
        assert_eq!(world.names("Job"), [format!("c-{minutes}")]);
        let job = world.raw("Job", &format!("c-{minutes}")).clone();
        assert_eq!(job["metadata"]["annotations"][SCHEDULED_AT], "2023-11-14T22:14:00Z");
        assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(status(&world)["lastScheduleTime"], "2023-11-14T22:14:00Z");
        assert_eq!(status(&world)["active"][0]["uid"], job["metadata"]["uid"]);
        world.second += 5;
        end_job(&mut world, &format!("c-{minutes}"), "Complete");
        world.settle(planned);
        assert_eq!(status(&world)["active"], Value::Null);
        assert_eq!(status(&world)["lastSuccessfulTime"], "2023-11-14T22:14:05Z");
        let saw = format!("SawCompletedJob Saw completed job: c-{minutes}, condition: Complete");
        assert_eq!(world.events, [format!("SuccessfulCreate Created job c-{minutes}"), saw]);
    }

    #[test]
    fn policies_decide_about_runs_that_overlap() {
        for (policy, jobs) in [("Allow", 2), ("Forbid", 1), ("Replace", 1)] {
            let mut world = world(json!({ "concurrencyPolicy": policy }));
            world.second = TO_NEXT_MINUTE;
            world.settle(planned);
            let first = world.names("Job");
            world.second += 60;
            if policy == "Forbid" {
                assert_eq!(planned(&world).events[0].reason, "JobAlreadyActive");
                world.second += NEWS_SECONDS;
            }
            world.settle(planned);
            assert_eq!(world.names("Job").len(), jobs, "{policy}");
            assert_eq!(world.names("Job") == first, policy == "Forbid");
        }
    }

    #[test]
    fn a_forbidden_run_starts_late_unless_its_deadline_has_passed() {
        for (deadline, jobs) in [(None, 2), (Some(20), 1)] {
            let mut world = world(json!({"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": deadline}));
            world.second = TO_NEXT_MINUTE;
            world.settle(planned);
            let first = world.names("Job").remove(0);
            world.second += 60 + 30;
            end_job(&mut world, &first, "Complete");
            world.settle(planned);
            assert_eq!(world.names("Job").len(), jobs, "{deadline:?}");
        }
    }

    #[test]
    fn after_an_outage_only_the_last_run_starts() {
        let mut world = world(json!({}));
        world.second = TO_NEXT_MINUTE + 200 * 60;
        world.settle(planned);
        assert_eq!(world.names("Job").len(), 1);
        assert!(world.events[1].starts_with("TooManyMissedTimes too many missed start times."), "{:?}", world.events);
    }

    #[test]
    fn suspended_cron_jobs_start_nothing() {
        let mut world = world(json!({"suspend": true}));
        world.second = 3600;
        assert_eq!(world.settle(planned), Plan::default());
    }

    #[test]
    fn only_so_many_ended_runs_are_kept() {
        let mut world = world(json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0}));
        for (run, end) in ["Complete", "Failed", "Complete", "Complete"].into_iter().enumerate() {
            world.second = TO_NEXT_MINUTE + 60 * i64::try_from(run).unwrap();
            world.settle(planned);
            let name = format!("c-{}", world.now().as_second() / 60);
            end_job(&mut world, &name, end);
        }
        world.settle(planned);
        let minute = world.now().as_second() / 60;
        assert_eq!(world.names("Job"), [format!("c-{}", minute - 1), format!("c-{minute}")]);
    }

    #[test]
    fn schedules_follow_their_time_zone() {
        // Half past midnight in a zone two hours ahead is half past ten in the evening, UTC.
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let mut world = world(json!({"schedule": "30 0 * * *"}));
        assert_eq!(planned_in(&world, &zone).requeue_after, Some(16 * 60 + 40));
        world.second = 16 * 60 + 40;
        world.apply(&planned_in(&world, &zone));
        let name = world.names("Job").remove(0);
        let annotations = &world.raw("Job", &name)["metadata"]["annotations"];
        assert_eq!(annotations[SCHEDULED_AT], "2023-11-15T00:30:00+02:00");
    }

    #[test]
    fn schedules_have_five_fields_or_a_nickname() {
        for good in ["*/5 * * * *", "0 9-17 * * MON-FRI", "@daily", "0 0 1 1 ?", "0/10 * * * *"] {
            assert!(parse_schedule(good).is_ok(), "{good}");
        }
        for bad in ["", "* * * *", "* * * * * *", "61 * * * *", "@often"] {
            assert!(parse_schedule(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn planning_again_is_empty_at_any_time(
            seconds in proptest::collection::vec(1..400i64, 1..8),
            policy in proptest::sample::select(vec!["Allow", "Forbid", "Replace"]),
            ends: bool,
        ) {
            let mut world = world(json!({ "concurrencyPolicy": policy }));
            for step in seconds {
                world.second += step;
                // Stay clear of the moment in which a forbidden run is news.
                if (world.second - TO_NEXT_MINUTE).rem_euclid(60) < NEWS_SECONDS {
                    world.second += NEWS_SECONDS;
                }
                world.settle(planned);
                if ends && let Some(job) = world.names("Job").pop() {
                    end_job(&mut world, &job, "Complete");
                    world.settle(planned);
                }
            }
            let names = world.names("Job");
            prop_assert!(policy == "Allow" || names.len() <= 4 || !ends);
        }
    }
}
