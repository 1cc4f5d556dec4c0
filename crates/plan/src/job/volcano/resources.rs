//! The objects that plugins want beside the pods: made when they are missing, kept in step, and taken away.
//!
//! Those that live as long as one version of the Job carry its number, so that a crash leaves none of the old behind.

use super::phase::Phase;
use super::plugins;
use super::round::Round;
use crate::control::{Action, Plan, difference};
use crate::job::head::target_of;
use crate::job::template::set_mark;
use serde_json::{Value, json};
use volley_api::kube::text;

/// The version of the Job that the object was made for.
pub const VERSION: &str = "volcano.sh/job-version";

/// How long an object lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Until the Job is deleted: the garbage collector sees to it.
    Job,
    /// Until the next full kill.
    Version,
}

/// An object that a plugin wants, and the field of it that is kept in step.
pub struct Wanted {
    pub object: Value,
    pub life: Life,
    pub kept: Option<&'static str>,
}

/// Makes what the plugins want; false while something of an earlier version is in the way.
pub fn ensure(round: &mut Round, plan: &mut Plan) -> bool {
    let wanted = match plugins::wanted(round) {
        Ok(wanted) => wanted,
        Err(problem) => {
            round.wait(plan, "PluginError", format!("Execute plugin when job add failed, err: {problem}"));
            return false;
        }
    };
    let mut is_clear = true;
    for Wanted { mut object, life, kept } in wanted {
        if life == Life::Version {
            set_mark(&mut object, "annotations", VERSION, round.status.version.to_string());
        }
        let name = text(&object, "metadata.name");
        let is_it = |other: &&Value| other["kind"] == object["kind"] && text(other, "metadata.name") == name;
        let Some(present) = round.seen.objects.iter().find(is_it) else {
            plan.actions.push(Action::Create { object, event: None });
            continue;
        };
        if is_stale(round, present) || !text(present, "metadata.deletionTimestamp").is_empty() {
            is_clear = false;
        } else if let Some(owner) = other_owner(round, present) {
            stand_back(round, present, &owner, plan);
            is_clear = false;
        } else if let Some(field) = kept.filter(|_| round.head.controls_object(present)) {
            keep(present, &object, field, plan);
        }
    }
    for (name, problem) in plugins::problems(round) {
        let is_new = !round.status.controlled_resources.contains_key(&format!("plugin-{name}"));
        if is_new {
            plan.events.push(round.voice.warning("PluginError", format!("plugin {name}: {problem}")));
        }
    }
    for name in plugins::active(&round.spec) {
        round.status.controlled_resources.insert(format!("plugin-{name}"), name.to_owned());
    }
    is_clear
}

/// The controller of an object that is not this Job; what nobody controls is the user's own and will do.
fn other_owner(round: &Round, object: &Value) -> Option<Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    (text(owner, "uid") != round.head.uid()).then(|| owner.clone())
}

/// An earlier Job of the same name goes with all it had, so its things are waited for; others' are not touched.
fn stand_back(round: &mut Round, object: &Value, owner: &Value, plan: &mut Plan) {
    let (kind, name) = (text(owner, "kind").to_owned(), text(owner, "name").to_owned());
    plan.requeue(1);
    if kind != "Job" || name != round.head.name() {
        let it = format!("{} {}", text(object, "kind"), text(object, "metadata.name"));
        round.wait(plan, "PluginError", format!("{it} exists and is controlled by {kind} {name}"));
    }
}

/// A field that the server stores otherwise (`stringData`) is compared by the fingerprint beside it.
fn keep(present: &Value, wanted: &Value, field: &str, plan: &mut Plan) {
    let fingerprint = |object: &Value| object["metadata"]["annotations"][plugins::FINGERPRINT].clone();
    let target = target_of(present);
    if field == "stringData" {
        if fingerprint(present) != fingerprint(wanted) {
            let annotations = json!({ plugins::FINGERPRINT: fingerprint(wanted) });
            let data = json!({ "config": wanted["stringData"]["config"] });
            let patch = json!({ "metadata": { "annotations": annotations }, "stringData": data });
            plan.actions.push(Action::Patch { target, patch });
        }
    } else if let Some(patch) = difference(&present[field], &wanted[field]) {
        plan.actions.push(Action::Patch { target, patch: json!({ field: patch }) });
    }
}

/// Made for an earlier version of the Job.
pub fn is_stale(round: &Round, object: &Value) -> bool {
    let version = object["metadata"]["annotations"][VERSION].as_str().and_then(|text| text.parse::<i32>().ok());
    version.is_some_and(|version| version < round.status.version)
}

/// Takes away what a full kill ends: of earlier versions always, of this one when the Job stops.
pub fn sweep(round: &Round, phase: Phase, plan: &mut Plan) {
    let stops = !phase.heeds_events();
    for object in round.seen.objects.iter().filter(|object| round.head.controls_object(object)) {
        let is_group = text(object, "kind") == "PodGroup";
        let is_versioned = is_group || object["metadata"]["annotations"].get(VERSION).is_some();
        let is_going = !text(object, "metadata.deletionTimestamp").is_empty();
        if is_versioned && !is_going && (stops || is_stale(round, object)) {
            plan.actions.push(super::delete(object));
        }
    }
}
