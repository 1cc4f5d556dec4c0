//! CronJobs of Volcano Jobs (spec/volcano.md 6.4): the CronJob controller of batch/v1 decides, on translated objects.

use crate::control::cronjob;
use crate::control::{Action, Event, Plan, Target};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};
use volley_api::kube::{items_mut, text};
use volley_api::volcano::{BATCH, keys};

const ITS_VERSION: &str = "batch/v1";
const ITS_SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A CronJob, the Volcano Jobs of its namespace, and the zone that `spec.timeZone` names (UTC if it names none).
#[derive(Debug)]
pub struct Observed<'a> {
    pub cron: &'a Value,
    pub jobs: &'a [Value],
    pub zone: &'a TimeZone,
}

/// A CronJob that cannot be read was refused by its schema, and nothing is planned for it.
pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let Some(cron_job) = translated_cron(seen.cron) else {
        return Plan::default();
    };
    let jobs: Vec<Job> = seen.jobs.iter().filter_map(translated_job).collect();
    let plan = cronjob::plan(&cronjob::Observed { cron_job: &cron_job, jobs: &jobs, zone: seen.zone }, now);
    Plan {
        actions: plan.actions.into_iter().map(|action| our_action(action, seen.cron)).collect(),
        events: plan.events.into_iter().map(our_event).collect(),
        requeue_after: plan.requeue_after,
    }
}

fn translated_cron(cron: &Value) -> Option<CronJob> {
    let mut cron = cron.clone();
    let metadata = cron["spec"]["jobTemplate"]["metadata"].clone();
    cron["spec"]["jobTemplate"] = json!({ "metadata": metadata, "spec": { "template": {} } });
    cron["apiVersion"] = json!(ITS_VERSION);
    serde_json::from_value(cron).ok()
}

/// The Job's phase as conditions; one that was suspended is not over.
fn translated_job(job: &Value) -> Option<Job> {
    let ended = &job["status"]["state"]["lastTransitionTime"];
    let end = match text(job, "status.state.phase") {
        "Completed" => Some("Complete"),
        "Failed" | "Terminated" => Some("Failed"),
        _ => None,
    };
    let mut metadata = job["metadata"].clone();
    if let Some(time) = metadata["annotations"].get(keys::SCHEDULED).cloned() {
        metadata["annotations"][ITS_SCHEDULED] = time;
    }
    let mut status = json!({ "startTime": metadata["creationTimestamp"] });
    if let Some(end) = end {
        status["conditions"] = json!([{ "type": end, "status": "True", "lastTransitionTime": ended }]);
        status["completionTime"] = if end == "Complete" { ended.clone() } else { Value::Null };
    }
    serde_json::from_value(json!({ "apiVersion": ITS_VERSION, "kind": "Job", "metadata": metadata, "status": status }))
        .ok()
}

fn our_target(target: Target) -> Target {
    Target { api_version: BATCH.to_owned(), ..target }
}

fn our_event(event: Event) -> Event {
    Event { about: our_target(event.about), ..event }
}

fn our_action(action: Action, cron: &Value) -> Action {
    match action {
        Action::Create { object, event } => {
            let mut metadata = object["metadata"].clone();
            metadata["ownerReferences"][0]["apiVersion"] = json!(BATCH);
            if let Some(marks) = metadata["annotations"].as_object_mut()
                && let Some(time) = marks.remove(ITS_SCHEDULED)
            {
                marks.insert(keys::SCHEDULED.to_owned(), time);
            }
            let spec = cron["spec"]["jobTemplate"]["spec"].clone();
            let object = json!({ "apiVersion": BATCH, "kind": "Job", "metadata": metadata, "spec": spec });
            Action::Create { object, event: event.map(our_event) }
        }
        Action::Delete { target, propagation } => Action::Delete { target: our_target(target), propagation },
        Action::PatchStatus { target, mut patch } => {
            for reference in items_mut(&mut patch, "status.active") {
                reference["apiVersion"] = json!(BATCH);
            }
            Action::PatchStatus { target: our_target(target), patch }
        }
        Action::Patch { target, patch } => Action::Patch { target: our_target(target), patch },
        Action::Finalize { target, patch } => Action::Finalize { target: our_target(target), patch },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::world::{World, at};

    fn planned(world: &World) -> Plan {
        let jobs = world.of_kind("Job");
        plan(&Observed { cron: world.raw("CronJob", "c"), jobs: &jobs, zone: &TimeZone::UTC }, world.now())
    }

    #[test]
    fn a_volcano_job_is_made_when_it_is_due_and_followed_to_its_end() {
        let mut world = World::default();
        let spec = json!({"tasks": [{"name": "t", "novel": 1}]});
        world.add(json!({"apiVersion": BATCH, "kind": "CronJob", "metadata": {"name": "c", "uid": "c"},
            "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}}));
        assert_eq!(world.settle(planned).requeue_after, Some(40));
        world.second = 40;
        world.settle(planned);
        let name = format!("c-{}", at(40).as_second() / 60);
        assert_eq!(world.names("Job"), [&*name]);
        let job = world.raw("Job", &name).clone();
        assert_eq!((&job["apiVersion"], &job["spec"]), (&json!(BATCH), &spec));
        assert_eq!(job["metadata"]["annotations"], json!({keys::SCHEDULED: "2023-11-14T22:14:00Z"}));
        assert_eq!(
            (&job["metadata"]["labels"], &job["metadata"]["ownerReferences"][0]["apiVersion"]),
            (&json!({"a": "b"}), &json!(BATCH))
        );
        assert_eq!(world.raw("CronJob", "c")["status"]["active"][0]["apiVersion"], BATCH);
        world.second += 65;
        world.settle(planned);
        assert_eq!(world.names("Job").len(), 1, "the first is still running");
        let time = world.now().to_string();
        world.edit("Job", &name, json!({"status": {"state": {"phase": "Completed", "lastTransitionTime": time}}}));
        world.second += 60;
        world.settle(planned);
        assert_eq!(world.names("Job").len(), 2);
        assert_eq!(world.raw("CronJob", "c")["status"]["lastSuccessfulTime"], "2023-11-14T22:15:05Z");
    }
}
