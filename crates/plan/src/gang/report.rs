//! What PodGroups and pods are told of a placement (spec/volcano.md 7.5, 11.1, 11.2), as writes and events.
//!
//! The shell applies the actions, hands each pod's note to `PodNote::patch` with the pod as it is, and records events.

use super::amounts::PODS;
use super::objects::{Gang, Group, Key, Phase, Pod, PodId, State};
use super::room::Room;
use super::snapshot::Snapshot;
use super::why::{WaitingOn, listed};
use super::{Member, Placement, Waiting};
use crate::control::{Action, Event, EventType, Target};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::{at, text, time};
use volley_api::volcano::SCHEDULING;

pub const COMPONENT: &str = "volcano";
const READY: &str = "tasks in gang are ready to be scheduled";
/// Only so many pods, those whose turn is next, hear new numbers while their reason stays the same: otherwise every pod
/// that ends would rewrite all that wait.
const RETOLD_MAX: usize = 32;

/// What a pod that waits is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodNote {
    pub pod: Member,
    /// `Unschedulable`, or `Schedulable` if it would fit and only its gang does not (UI-2).
    pub reason: &'static str,
    pub message: String,
    pub nominated: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub groups: Vec<Action>,
    pub pods: Vec<PodNote>,
    pub events: Vec<Event>,
}

pub fn report(snapshot: &Snapshot, placement: &Placement, now: Timestamp) -> Report {
    let mut report = Report::default();
    let bound: BTreeMap<&Key, usize> = placement.bind.iter().fold(BTreeMap::new(), |mut counts, bind| {
        *counts.entry(&bind.gang).or_default() += 1;
        counts
    });
    let admitted: BTreeSet<&Key> = placement.admit.iter().collect();
    for (_, gang) in snapshot.gangs.iter().filter(|(_, gang)| !gang.is_single) {
        let Some(group) = &gang.group else { continue };
        let news = News {
            waiting: placement.waiting.get(&gang.key),
            bound: bound.get(&gang.key).copied().unwrap_or(0),
            is_admitted: admitted.contains(&gang.key),
        };
        tell_group(snapshot, gang, group, &news, now, &mut report);
    }
    tell_pods(snapshot, placement, &mut report);
    report
}

/// What a placement means for one gang.
struct News<'a> {
    waiting: Option<&'a Waiting>,
    bound: usize,
    is_admitted: bool,
}

fn tell_group(snapshot: &Snapshot, gang: &Gang, group: &Group, news: &News, now: Timestamp, report: &mut Report) {
    let states: Vec<State> = gang.members.iter().map(|pod| snapshot.pods[*pod].state).collect();
    let count = |wanted: State| states.iter().filter(|state| **state == wanted).count();
    let phase = format!("{:?}", phase(group, &states, news));
    let counts = [("running", State::Running), ("succeeded", State::Succeeded), ("failed", State::Failed)];
    let known = |key: &str| group.status.get(key).and_then(Value::as_u64).unwrap_or(0);
    let is_same = |(key, state): (&str, State)| known(key) == count(state) as u64;
    let has_changed = text(&group.status, "phase") != phase || !counts.into_iter().all(is_same);
    if !has_changed && is_told_ready(group, &states, news) {
        return;
    }
    let condition = condition(group, &states, news);
    let mut status = json!({
        "phase": phase,
        "running": count(State::Running), "succeeded": count(State::Succeeded), "failed": count(State::Failed),
    });
    let conditions = list(&group.status);
    let known = condition.as_ref().and_then(|new| conditions.iter().find(|old| text(old, "type") == text(new, "type")));
    let is_new = |new: &Value| {
        let same = |key: &str| known.is_some_and(|old| text(old, key) == text(new, key));
        !["status", "reason", "message"].into_iter().all(same)
    };
    let is_told = condition.as_ref().is_some_and(is_new);
    let mut conditions = conditions.to_vec();
    if let Some(new) = condition.clone().filter(|_| is_told) {
        set_condition(&mut conditions, new, now);
        report.events.push(event(gang, group, &condition.unwrap_or_default(), news));
    }
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    if is_told || has_changed {
        report.groups.push(Action::PatchStatus { target: target(gang, group), patch: json!({ "status": status }) });
    }
}

/// The table of spec/volcano.md 7.5.
fn phase(group: &Group, states: &[State], news: &News) -> Phase {
    let count = |wanted: &[State]| states.iter().filter(|state| wanted.contains(state)).count();
    let is_stuck = news.waiting.is_some_and(|waiting| !waiting.has_minimum);
    let ended = count(&[State::Succeeded, State::Failed]);
    let there = count(&[State::Running, State::Bound, State::Leaving]) + ended + news.bound;
    // A group that needs no pod never has too few: its job may be scaled to nothing and up again.
    let stays_in = group.members_min == 0 && group.phase != Phase::Pending;
    if count(&[State::Running]) > 0 && is_stuck {
        Phase::Unknown
    } else if there >= group.members_min && there > 0 {
        if ended == there { Phase::Completed } else { Phase::Running }
    } else if group.phase == Phase::Inqueue || news.is_admitted || stays_in {
        Phase::Inqueue
    } else if matches!(group.phase, Phase::Running | Phase::Unknown) && count(&[State::Running]) > 0 {
        group.phase
    } else {
        Phase::Pending
    }
}

/// UI-10, UI-11, UI-11b: nothing is said of a group that has no pod at all.
fn condition(group: &Group, states: &[State], news: &News) -> Option<Value> {
    if states.is_empty() {
        return None;
    }
    let Some(waiting) = news.waiting.filter(|waiting| !waiting.has_minimum) else {
        return Some(json!({"type": "Scheduled", "status": "True", "reason": READY, "message": ""}));
    };
    let reason = match waiting.on {
        WaitingOn::Members { .. } => "NotEnoughTasks",
        WaitingOn::TaskMembers { .. } | WaitingOn::SubGroups { .. } => "NotEnoughPodsOfTask",
        _ => "NotEnoughResources",
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for state in states {
        let name = match state {
            State::Pending | State::Gated => "Pending",
            State::Bound => "Bound",
            State::Running => "Running",
            State::Leaving => "Releasing",
            State::Succeeded => "Succeeded",
            State::Failed => "Failed",
        };
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts.insert("minAvailable".to_owned(), group.members_min);
    let mut parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    parts.sort();
    let pending = states.iter().filter(|state| matches!(state, State::Pending | State::Gated)).count();
    let message = format!(
        "{pending}/{} tasks in gang unschedulable: pod group is not ready, {}. {}",
        states.len(),
        parts.join(", "),
        waiting.on
    );
    Some(json!({"type": "Unschedulable", "status": "True", "reason": reason, "message": message}))
}

/// Most gangs go on as they did and know it: nothing is worded for them.
fn is_told_ready(group: &Group, states: &[State], news: &News) -> bool {
    let is_ready = news.waiting.is_none_or(|waiting| waiting.has_minimum);
    let known = list(&group.status).iter().find(|condition| condition["type"] == "Scheduled");
    let is_told = known.is_some_and(|known| {
        known["status"] == "True" && known["reason"] == READY && text(known, "message").is_empty()
    });
    states.is_empty() || (is_ready && is_told)
}

fn list(status: &Value) -> &[Value] {
    status.get("conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Puts the condition in place of the one of its type; the other type is no longer true.
fn set_condition(conditions: &mut Vec<Value>, mut new: Value, now: Timestamp) {
    let stamp = time::seconds(now);
    for other in conditions.iter_mut().filter(|other| other["type"] != new["type"] && other["status"] == "True") {
        other["status"] = json!("False");
    }
    let known = conditions.iter().position(|old| old["type"] == new["type"]);
    let since = known.map(|at| &conditions[at]).filter(|old| old["status"] == new["status"]);
    let since = since.map_or_else(|| stamp.clone(), |old| text(old, "lastTransitionTime").to_owned());
    new["lastTransitionTime"] = json!(since);
    new["transitionID"] = json!(stamp);
    match known {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
}

fn target(gang: &Gang, group: &Group) -> Target {
    Target {
        api_version: SCHEDULING.to_owned(),
        kind: "PodGroup".to_owned(),
        namespace: Some(gang.key.namespace.to_string()),
        name: gang.key.name.to_string(),
        uid: group.uid.to_string(),
    }
}

/// UI-12, once for each change.
fn event(gang: &Gang, group: &Group, condition: &Value, news: &News) -> Event {
    let is_ready = text(condition, "type") == "Scheduled";
    let is_refused = news.waiting.is_some_and(|waiting| {
        use WaitingOn::{Admission, NamespaceQuota, QueueLimit};
        matches!(waiting.on, Admission { .. } | NamespaceQuota { .. } | QueueLimit { .. })
    });
    let (kind, reason, message) = match (is_ready, is_refused) {
        (true, _) => (EventType::Normal, "Scheduled", "pod group is ready".to_owned()),
        (false, true) => (EventType::Normal, "Unschedulable", text(condition, "message").to_owned()),
        (false, false) => (EventType::Warning, "Unschedulable", text(condition, "message").to_owned()),
    };
    let about = target(gang, group);
    Event { kind, reason: reason.to_owned(), message, about, component: COMPONENT, field_path: None }
}

fn tell_pods(snapshot: &Snapshot, placement: &Placement, report: &mut Report) {
    let bound: BTreeSet<&Key> = placement.bind.iter().map(|bind| &bind.pod.key).collect();
    let nominated: BTreeMap<&Key, &str> = placement.nominate.iter().map(|bind| (&bind.pod.key, &*bind.node)).collect();
    let mut room = Room::new(snapshot);
    let mut known: BTreeMap<u32, (String, Option<String>)> = BTreeMap::new();
    let mut told = 0;
    for (key, waiting) in &placement.waiting {
        let Some(gang) = snapshot.gangs.find(key).map(|gang| &snapshot.gangs[gang]) else { continue };
        let is_left =
            |pod: &&PodId| snapshot.pods[**pod].state == State::Pending && !bound.contains(&snapshot.pods[**pod].key);
        for pod in gang.members.iter().filter(is_left).map(|pod| &snapshot.pods[*pod]) {
            if let WaitingOn::Refused { .. } = waiting.on {
                report.pods.extend(refused(pod, &waiting.on));
                continue;
            }
            let (nodes, fitting) =
                known.entry(pod.shape).or_insert_with(|| nodes_for(snapshot, &mut room, pod.shape)).clone();
            let node = nominated.get(&pod.key).map(|node| (*node).to_owned());
            // Not what nodes have, but what is there or claimed keeps it away.
            let is_kept_away = matches!(
                waiting.on,
                WaitingOn::Neighbours { .. }
                    | WaitingOn::Claim { .. }
                    | WaitingOn::Volume { .. }
                    | WaitingOn::Devices { .. }
            );
            let is_alone = gang.is_single || is_kept_away && node.is_none();
            let is_for_gang = fitting.is_some() && node.is_none() && !is_alone;
            let reason = if is_for_gang { "Schedulable" } else { "Unschedulable" };
            let kube = match (&node, fitting) {
                (_, fitting) if gang.is_single => plain(&nodes, fitting.is_some(), &waiting.on),
                (None, _) if is_kept_away => waiting.on.to_string(),
                (Some(node), _) => format!(
                    "Pod {} can possibly be assigned to {node}, once resource is released and minAvailable is satisfied",
                    pod.key
                ),
                (None, Some(node)) => {
                    format!("Pod {} can possibly be assigned to {node}, once minAvailable is satisfied", pod.key)
                }
                (None, None) => nodes,
            };
            told += 1;
            let is_promised = node.is_some() || pod.nominated.is_some();
            if told <= RETOLD_MAX || is_promised || !pod.told.starts_with(&kube) {
                // The first sentence may have its dot already.
                let dot = if kube.ends_with('.') { "" } else { ":" };
                let message = if is_alone { kube } else { format!("{kube}{dot} {}", waiting.on) };
                let member = Member { key: pod.key.clone(), uid: pod.uid.clone() };
                let was_told = pod.nominated.as_deref();
                if *pod.told != *message || was_told != node.as_deref() {
                    report.pods.push(PodNote { pod: member, reason, message, nominated: node });
                }
            }
        }
    }
}

/// Nodes are not what it lacks.
fn refused(pod: &Pod, on: &WaitingOn) -> Option<PodNote> {
    let (member, message) = (Member { key: pod.key.clone(), uid: pod.uid.clone() }, on.to_string());
    let is_news = *pod.told != *message || pod.nominated.is_some();
    is_news.then_some(PodNote { pod: member, reason: "SchedulerError", message, nominated: None })
}

/// A pod that was given to no gang is told in the words of Kubernetes' own scheduler, and then why.
fn plain(nodes: &str, is_fitting: bool, on: &WaitingOn) -> String {
    let nodes = nodes.replacen(" are unavailable", " are available", 1);
    let all = nodes.split(':').next().unwrap_or_default();
    match on {
        WaitingOn::Neighbours { refusals, .. } => format!("{all}: {}.", listed(refusals)),
        WaitingOn::Claim { .. } | WaitingOn::Devices { .. } | WaitingOn::Volume { .. } => format!("{all}: {on}."),
        _ if is_fitting => on.to_string(),
        _ if nodes.starts_with("0/0 ") => "no nodes available to schedule pods".to_owned(),
        // It would say the same again.
        WaitingOn::Nodes { hint: None, .. } => nodes,
        WaitingOn::Nodes { hint: Some(hint), .. } => format!("{nodes} {hint}"),
        _ => format!("{nodes} {on}"),
    }
}

/// `0/2 nodes are unavailable: 2 Insufficient cpu.`, and a node that would do now.
fn nodes_for(snapshot: &Snapshot, room: &mut Room, shape: u32) -> (String, Option<String>) {
    let names = snapshot.names.by_name();
    room.with_candidates(shape, None, |room, candidates| {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut fitting = None;
        for position in 0..room.nodes.len() {
            if let Some(refusal) = candidates.refusal(position) {
                *reasons.entry(refusal.to_string()).or_default() += 1;
                continue;
            }
            let free = room.free(position);
            let asked = |number: usize| candidates.need.iter().find(|(known, _)| *known == number).map_or(0, |n| n.1);
            let short: Vec<usize> =
                names.iter().copied().filter(|number| asked(*number) > free[*number].max(0)).collect();
            if short.is_empty() {
                fitting.get_or_insert(position);
            }
            for number in short {
                let reason = match number {
                    PODS => "Too many pods".to_owned(),
                    number => format!("Insufficient {}", snapshot.names.name(number)),
                };
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        let text = format!("0/{} nodes are unavailable: {}.", room.nodes.len(), parts.join(", "));
        (text, fitting.map(|position| room.nodes[position].name.to_string()))
    })
}

impl PodNote {
    /// The status patch that tells the pod, and the event; nothing if it has been told so already.
    pub fn patch(&self, pod: &Value, now: Timestamp) -> Option<(Action, Event)> {
        let mut conditions = at(pod, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let known = conditions.iter().position(|condition| text(condition, "type") == "PodScheduled");
        let is_same = |old: &Value| text(old, "message") == self.message && text(old, "reason") == self.reason;
        let was_nominated = text(pod, "status.nominatedNodeName") == self.nominated.as_deref().unwrap_or("");
        if was_nominated && known.is_some_and(|at| is_same(&conditions[at])) {
            return None;
        }
        let since = known.filter(|at| text(&conditions[*at], "status") == "False");
        let since =
            since.map_or_else(|| time::seconds(now), |at| text(&conditions[at], "lastTransitionTime").to_owned());
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": self.reason,
            "message": self.message, "lastProbeTime": null, "lastTransitionTime": since});
        match known {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
        // Null takes back a promise that is no more: it would go before others on the strength of it.
        let status = json!({ "conditions": conditions, "nominatedNodeName": self.nominated });
        let version = &pod["metadata"]["resourceVersion"];
        let about = Target {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some(self.pod.key.namespace.to_string()),
            name: self.pod.key.name.to_string(),
            uid: self.pod.uid.to_string(),
        };
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        let action = Action::PatchStatus { target: about.clone(), patch };
        let event = Event {
            kind: EventType::Warning,
            reason: "FailedScheduling".to_owned(),
            message: self.message.clone(),
            about,
            component: COMPONENT,
            field_path: None,
        };
        Some((action, event))
    }
}
