//! What goes on around the storm's jobs: nodes run their pods and end them, users suspend and resume them.
//!
//! `Seen` is what a watch has brought, and `moves` decides from it alone; `play` does what it says. Nothing here depends on
//! whether an operator is there.

use crate::storm_jobs::{ACTS, PODS};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::text;
use volley_api::kubeflow::API_VERSION;
use volley_api::volcano::{BATCH, BUS};

/// A kind's plural and an object's name.
pub type Key = (String, String);

/// What happens to a job once it runs with all its pods; `Resume`, once it is suspended without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// A pod fails, with an exit code.
    Fail(usize, i32),
    /// One pod succeeds, or all of them.
    Succeed(Option<usize>),
    /// The first pod's container has been restarted so often.
    Restarts(i32),
    /// Somebody deletes a pod.
    Delete(usize),
    Pause,
    Resume,
    /// The job has been at it since long ago.
    Age,
}

impl Act {
    fn read(words: &str) -> Act {
        let mut words = words.split_whitespace();
        let name = words.next().unwrap();
        let mut number = || words.next().map(|word| word.parse::<i32>().unwrap());
        let first = number();
        let index = first.map(|number| usize::try_from(number).unwrap());
        match name {
            "fail" => Act::Fail(index.unwrap(), number().unwrap()),
            "succeed" => Act::Succeed(index),
            "restarts" => Act::Restarts(first.unwrap()),
            "delete" => Act::Delete(index.unwrap()),
            "pause" => Act::Pause,
            "resume" => Act::Resume,
            "age" => Act::Age,
            other => panic!("nobody knows how to {other}"),
        }
    }
}

/// One call on the API.
#[derive(Debug)]
pub struct Move {
    pub method: http::Method,
    pub path: String,
    pub body: Value,
}

/// How far a job has come.
#[derive(Default)]
struct Progress {
    acts: usize,
    /// Pods that acts have ended: as long as they are there, nobody has reacted.
    ended: BTreeSet<String>,
}

#[derive(Default)]
pub struct Seen {
    pub jobs: BTreeMap<Key, Value>,
    pub pods: BTreeMap<String, Value>,
    /// Every pod that there has ever been, by name.
    pub made: BTreeMap<String, BTreeSet<String>>,
    progress: BTreeMap<Key, Progress>,
    started: BTreeSet<String>,
    /// How many changes have been seen.
    pub changes: u64,
}

/// Takes in what an object is now, or that it is gone; the job to look at.
pub fn learn(seen: &mut Seen, plural: &str, object: Value, is_gone: bool) -> Option<Key> {
    seen.changes += 1;
    let name = text(&object, "metadata.name").to_owned();
    if plural != "pods" {
        let key = (plural.to_owned(), name);
        match is_gone {
            true => seen.jobs.remove(&key),
            false => seen.jobs.insert(key.clone(), object),
        };
        return Some(key);
    }
    let uid = owner(&object).to_owned();
    seen.made.entry(name.clone()).or_default().insert(text(&object, "metadata.uid").to_owned());
    match is_gone {
        true => seen.pods.remove(&name),
        false => seen.pods.insert(name, object),
    };
    seen.jobs.iter().find(|(_, job)| text(job, "metadata.uid") == uid).map(|(key, _)| key.clone())
}

fn owner(object: &Value) -> &str {
    text(&object["metadata"]["ownerReferences"][0], "uid")
}

fn has(job: &Value, condition: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|entry| entry["type"] == condition && entry["status"] == "True"))
}

fn phase(job: &Value) -> &str {
    text(job, "status.state.phase")
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

impl Seen {
    /// A job's pods by name.
    fn pods_of(&self, job: &Value) -> Vec<&Value> {
        let uid = text(job, "metadata.uid");
        self.pods.values().filter(|pod| owner(pod) == uid).collect()
    }

    /// What there is to do about a job now; it is counted as done.
    pub fn moves(&mut self, key: &Key) -> Vec<Move> {
        let Some(job) = self.jobs.get(key).filter(|job| !is_going(job)) else { return Vec::new() };
        let pods = self.pods_of(job);
        let is_waiting = |pod: &&&Value| {
            let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            let is_new = !self.started.contains(text(pod, "metadata.uid"));
            is_new && !is_gated && !is_going(pod) && text(pod, "status.phase") == "Pending"
        };
        let waiting: Vec<&Value> = pods.iter().filter(is_waiting).copied().collect();
        let mut moves: Vec<Move> = waiting.iter().map(|pod| status(pod, "Running", 0, 0)).collect();
        let started: Vec<String> = waiting.iter().map(|pod| text(pod, "metadata.uid").to_owned()).collect();
        let done = self.progress.get(key).map_or(0, |progress| progress.acts);
        let act = text_of(job, ACTS).split(';').nth(done).map(Act::read);
        let ended = self.progress.get(key).map(|progress| &progress.ended);
        let mut struck = Vec::new();
        if let Some(act) = act.filter(|act| is_ready(*act, job, &pods, ended)) {
            struck = struck_by(act, &pods).iter().map(|pod| text(pod, "metadata.uid").to_owned()).collect();
            moves.extend(perform(act, key, job, &pods, done));
            self.progress.entry(key.clone()).or_default().acts += 1;
        }
        self.progress.entry(key.clone()).or_default().ended.extend(struck);
        self.started.extend(started);
        moves
    }

    /// Whether all that was to happen to a job has happened, and it has come to an end; one with a time to live goes.
    pub fn has_ended(&self, key: &Key) -> bool {
        let Some(job) = self.jobs.get(key) else { return true };
        let done = self.progress.get(key).map_or(0, |progress| progress.acts);
        let has_no_more = done == text_of(job, ACTS).split(';').count();
        let is_at_rest = match &*key.0 {
            "jobs" => ["Completed", "Failed", "Terminated", "Aborted"].contains(&phase(job)),
            _ => has(job, "Succeeded") || has(job, "Failed"),
        };
        has_no_more && is_at_rest && !key.1.contains("ttl")
    }

    /// Whether this many jobs have been seen, and all of them have ended.
    pub fn is_over(&self, jobs: usize) -> bool {
        self.progress.len() == jobs && self.jobs.keys().all(|key| self.has_ended(key))
    }
}

fn text_of<'a>(job: &'a Value, annotation: &str) -> &'a str {
    job["metadata"]["annotations"][annotation].as_str().unwrap_or_default()
}

fn is_ready(act: Act, job: &Value, pods: &[&Value], ended: Option<&BTreeSet<String>>) -> bool {
    if act == Act::Resume {
        return pods.is_empty() && (phase(job) == "Aborted" || has(job, "Suspended"));
    }
    let is_running = |pod: &&Value| {
        let is_ended = ended.is_some_and(|ended| ended.contains(text(pod, "metadata.uid")));
        text(pod, "status.phase") == "Running" && !is_going(pod) && !is_ended
    };
    pods.len() == PODS && pods.iter().all(is_running) && (phase(job) == "Running" || has(job, "Running"))
}

fn struck_by<'a>(act: Act, pods: &[&'a Value]) -> Vec<&'a Value> {
    match act {
        Act::Fail(index, _) | Act::Delete(index) => vec![pods[index]],
        Act::Pause => pods.to_vec(),
        Act::Succeed(_) | Act::Restarts(_) | Act::Resume | Act::Age => Vec::new(),
    }
}

fn perform(act: Act, (plural, name): &Key, job: &Value, pods: &[&Value], number: usize) -> Vec<Move> {
    let namespace = text(job, "metadata.namespace");
    let api_version = if plural == "jobs" { BATCH } else { API_VERSION };
    let path = format!("/apis/{api_version}/namespaces/{namespace}/{plural}/{name}");
    let patch = |path: String, body: Value| vec![Move { method: http::Method::PATCH, path, body }];
    match act {
        Act::Fail(index, code) => vec![status(pods[index], "Failed", code, 0)],
        Act::Succeed(Some(index)) => vec![status(pods[index], "Succeeded", 0, 0)],
        // The first pod leads, and its end may be the end of the others.
        Act::Succeed(None) => pods.iter().rev().map(|pod| status(pod, "Succeeded", 0, 0)).collect(),
        Act::Restarts(count) => vec![status(pods[0], "Running", 0, count)],
        Act::Delete(index) => {
            vec![Move { method: http::Method::DELETE, path: path_of(pods[index]), body: json!({}) }]
        }
        Act::Age => patch(format!("{path}/status"), json!({"status": {"startTime": "2026-01-01T00:00:00Z"}})),
        Act::Pause | Act::Resume if plural != "jobs" => {
            patch(path, json!({"spec": {"runPolicy": {"suspend": act == Act::Pause}}}))
        }
        Act::Pause | Act::Resume => {
            let action = if act == Act::Pause { "AbortJob" } else { "ResumeJob" };
            let target = json!({"apiVersion": BATCH, "kind": "Job", "name": name, "uid": job["metadata"]["uid"]});
            let metadata = json!({"name": format!("{name}-{number}")});
            let body =
                json!({"apiVersion": BUS, "kind": "Command", "metadata": metadata, "action": action, "target": target});
            vec![Move {
                method: http::Method::POST,
                path: format!("/apis/{BUS}/namespaces/{namespace}/commands"),
                body,
            }]
        }
    }
}

fn path_of(pod: &Value) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", text(pod, "metadata.namespace"), text(pod, "metadata.name"))
}

/// Writes a pod's status as a node would.
fn status(pod: &Value, phase: &str, exit_code: i32, restarts: i32) -> Move {
    let now = "2026-01-01T00:00:00Z";
    let state = match phase {
        "Running" => json!({"running": {"startedAt": now}}),
        _ => json!({"terminated": {"exitCode": exit_code, "startedAt": now, "finishedAt": now, "reason": "Ended"}}),
    };
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let statuses: Vec<Value> = containers
        .map(|container| json!({"name": container["name"], "image": "i", "imageID": "i", "ready": phase == "Running", "restartCount": restarts, "state": state}))
        .collect();
    let ready = if phase == "Running" { "True" } else { "False" };
    let conditions = json!([{"type": "Ready", "status": ready}]);
    let status = json!({"phase": phase, "startTime": now, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "conditions": conditions, "containerStatuses": statuses});
    // The uid keeps it from a pod of the same name that came later.
    let body = json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status});
    Move { method: http::Method::PATCH, path: format!("{}/status", path_of(pod)), body }
}
