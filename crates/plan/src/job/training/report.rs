//! Events about a job's pods: their exit codes, and what keeps them from running (spec PT 18).
//!
//! What was told of a pod is noted on the pod, so that it is told once, whoever asks and however often (PT-EVT-2).

use super::outcome;
use super::round::Round;
use crate::control::{Action, Event, Target, name_of, pods};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use serde_json::json;

const TOLD: &str = "volley.dev/told";
/// A pod whose containers fail in ever new ways does not fill its annotations.
const FACTS_MAX: usize = 32;

/// One fact about a pod: the word by which it is remembered, and the event.
struct Fact {
    word: String,
    event: Event,
}

pub fn pods(round: &mut Round) {
    let job = round.job;
    for replica in &job.replicas {
        for (_, pod) in round.pods_of(replica.type_) {
            let mut facts: Vec<Fact> = Vec::new();
            if let Some(code) = outcome::exit_code(round, replica, pod) {
                let name = name_of(&pod.metadata);
                let message = format!("Pod: {}.{name} exited with code {code}", job.namespace);
                facts.push(Fact { word: format!("exit:{code}"), event: round.voice.normal("ExitedWithCode", message) });
            }
            if pods::is_active(pod) {
                facts.extend(abnormal(round, pod));
            }
            tell(round, pod, facts);
        }
    }
}

fn tell(round: &mut Round, pod: &Pod, facts: Vec<Fact>) {
    let told = pod.metadata.annotations.as_ref().and_then(|map| map.get(TOLD)).cloned().unwrap_or_default();
    let mut words: Vec<&str> = told.split(',').filter(|word| !word.is_empty()).collect();
    let is_strict = round.settings.is_strict;
    let mut added = Vec::new();
    for fact in facts {
        let is_new = !words.contains(&fact.word.as_str()) && !added.contains(&fact.word) && words.len() < FACTS_MAX;
        if is_strict || is_new {
            round.plan.events.push(fact.event);
            added.push(fact.word);
        }
    }
    if added.is_empty() || is_strict {
        return;
    }
    words.extend(added.iter().map(String::as_str));
    let patch = json!({ "metadata": { "annotations": { TOLD: words.join(",") } } });
    round.plan.actions.push(Action::Patch { target: Target::of(pod), patch });
}

/// What is wrong with a pod that should run: its containers' states, else its init containers', else its newest
/// condition (PT-EVT-1).
fn abnormal<'a>(round: &Round, pod: &'a Pod) -> Vec<Fact> {
    let with_state = |all: &'a [ContainerStatus]| all.iter().filter(|status| status.state.is_some()).collect();
    let mut statuses: Vec<&ContainerStatus> = with_state(pods::container_statuses(pod));
    if statuses.is_empty() {
        statuses = with_state(pods::init_container_statuses(pod));
    }
    if statuses.is_empty() {
        return newest_condition(pod).and_then(|condition| condition_fact(round, pod, condition)).into_iter().collect();
    }
    statuses.into_iter().filter_map(|status| state_fact(round, pod, status)).collect()
}

fn state_fact(round: &Round, pod: &Pod, status: &ContainerStatus) -> Option<Fact> {
    let state = status.state.as_ref()?;
    let start = format!("Error pod {} container {}", name_of(&pod.metadata), status.name);
    if let Some(end) = state.terminated.as_ref().filter(|end| end.exit_code != 0) {
        let (code, message) = (end.exit_code, end.message.as_deref().unwrap_or_default());
        let reason = end.reason.as_deref().unwrap_or("Error");
        let text = format!("{start} exitCode: {code} terminated message: {message}");
        return Some(fact(round, format!("{}:{code}", status.name), reason, text));
    }
    let waiting = state.waiting.as_ref()?;
    let message = waiting.message.as_deref().filter(|message| !message.is_empty())?;
    let reason = waiting.reason.as_deref().unwrap_or("Waiting");
    Some(fact(round, format!("{}:{reason}", status.name), reason, format!("{start} waiting message: {message}")))
}

fn newest_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().max_by_key(|condition| condition.last_transition_time.clone())
}

fn condition_fact(round: &Round, pod: &Pod, condition: &PodCondition) -> Option<Fact> {
    let reason = condition.reason.as_deref().unwrap_or_default();
    // A worker that waits for its master is as it should be.
    if condition.status == "True" || reason.is_empty() || reason == "SchedulingGated" {
        return None;
    }
    let message = condition.message.as_deref().unwrap_or_default();
    let text = format!("Error pod {} condition message: {message}", name_of(&pod.metadata));
    Some(fact(round, format!("condition:{reason}"), reason, text))
}

fn fact(round: &Round, word: String, reason: &str, message: String) -> Fact {
    Fact { word: word.replace(',', " "), event: round.voice.warning(reason, message) }
}
