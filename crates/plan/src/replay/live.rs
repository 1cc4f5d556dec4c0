//! A trace of a cluster as it is: what runs goes on until its estimate, what waits arrives now.

use super::{Job, Part, Trace};
use crate::control::quota::usage;
use crate::gang::snapshot::Kind;
use crate::pod_groups::gang_of;
use crate::why::world::World;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use volley_api::kube::time::parse_duration;
use volley_api::kube::{at, text, time};

const ESTIMATES: [&str; 2] = ["volley.dev/running-estimate", "volcano.sh/runningEstimate"];
/// For jobs that say nothing of how long they take.
pub const SECONDS_DEFAULT: i64 = 3600;

/// Groups with their pods, and pods of no group each alone; those that have ended are left out.
pub fn trace(world: &World, now: Timestamp) -> Trace {
    let mut gangs: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
    let is_alive = |pod: &&Value| !matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    for pod in world.of(Kind::Pod).iter().filter(is_alive) {
        let name = gang_of(pod).unwrap_or_else(|| format!("pod/{}", text(pod, "metadata.name")));
        gangs.entry((text(pod, "metadata.namespace").to_owned(), name)).or_default().push(pod);
    }
    let groups: BTreeMap<(&str, &str), &Value> = world
        .of(Kind::PodGroup)
        .iter()
        .map(|group| ((text(group, "metadata.namespace"), text(group, "metadata.name")), group))
        .collect();
    let mut trace = Trace {
        format: "live cluster",
        nodes: world.of(Kind::Node).to_vec(),
        queues: world.of(Kind::Queue).to_vec(),
        ..Trace::default()
    };
    let classes: BTreeMap<&str, i64> = world
        .of(Kind::PriorityClass)
        .iter()
        .map(|class| (text(class, "metadata.name"), class["value"].as_i64().unwrap_or(0)))
        .collect();
    let mut unknown = 0;
    for ((namespace, name), pods) in &gangs {
        let group = groups.get(&(namespace.as_str(), name.as_str())).copied();
        let (job, is_guessed) = job(&format!("{namespace}/{name}"), group, pods, &classes, now);
        unknown += usize::from(is_guessed);
        trace.jobs.push(job);
    }
    let empty = groups
        .iter()
        .filter(|((namespace, name), _)| !gangs.contains_key(&((*namespace).to_owned(), (*name).to_owned())));
    let empty = empty.filter(|(_, group)| matches!(text(group, "status.phase"), "Pending" | "Inqueue" | "")).count();
    let said = |count: usize, one: &str, several: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    };
    if unknown > 0 {
        let who = said(unknown, "job does not say how long it runs", "jobs do not say how long they run");
        trace.notes.push(format!("{who}; an hour from now is taken for each"));
    }
    if empty > 0 {
        let who = said(empty, "PodGroup has no pods yet and is", "PodGroups have no pods yet and are");
        trace.notes.push(format!("{who} left out"));
    }
    trace
}

fn job(
    name: &str,
    group: Option<&Value>,
    pods: &[&Value],
    classes: &BTreeMap<&str, i64>,
    now: Timestamp,
) -> (Job, bool) {
    let said = |object: &Value| {
        let annotation = |key: &&str| object["metadata"]["annotations"][*key].as_str().and_then(parse_duration);
        ESTIMATES.iter().find_map(annotation).map(|estimate| estimate.as_secs())
    };
    let deadline = pods.iter().filter_map(|pod| at(pod, "spec.activeDeadlineSeconds").and_then(Value::as_i64)).max();
    let estimate = group.and_then(said).or_else(|| pods.iter().find_map(|pod| said(pod))).or(deadline);
    let started = pods.iter().filter_map(|pod| time::parse(text(pod, "status.startTime"))).min();
    let is_placed = pods.iter().all(|pod| !text(pod, "spec.nodeName").is_empty());
    let begun = started.map_or(now.as_second(), |started| started.as_second());
    let left_over = begun + SECONDS_DEFAULT <= now.as_second();
    // One that has outlived its estimate may end at any time; one without an estimate is given another hour.
    let guess = if is_placed && left_over { now.as_second() - begun + SECONDS_DEFAULT } else { SECONDS_DEFAULT };
    let class = group.map_or("", |group| text(group, "spec.priorityClassName"));
    let own = pods.first().and_then(|pod| at(pod, "spec.priority").and_then(Value::as_i64));
    let job = Job {
        name: name.to_owned(),
        queue: group
            .map(|group| text(group, "spec.queue"))
            .filter(|queue| !queue.is_empty())
            .unwrap_or("default")
            .to_owned(),
        submit: now.as_second(),
        parts: parts(pods),
        seconds: estimate.unwrap_or(guess).max(1),
        estimate,
        priority: classes.get(class).copied().or(own).unwrap_or(0),
        started: is_placed.then_some(begun),
    };
    (job, estimate.is_none())
}

fn parts(pods: &[&Value]) -> Vec<Part> {
    let mut alike: BTreeMap<String, Part> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for pod in pods {
        if !seen.insert(text(pod, "metadata.name")) {
            continue;
        }
        let mut spec = pod["spec"].clone();
        spec["nodeName"] = Value::Null;
        // Volumes are where they are; a simulation binds none.
        spec["volumes"] = Value::Null;
        let node = Some(text(pod, "spec.nodeName")).filter(|node| !node.is_empty()).map(str::to_owned);
        let amounts = usage("", "pods", pod).into_iter();
        let requests =
            amounts.filter_map(|(name, amount)| Some((name.strip_prefix("requests.")?.to_owned(), amount.to_string())));
        let part = alike.entry(spec.to_string()).or_insert_with(|| Part {
            pods: 0,
            requests: requests.collect(),
            spec: Some(Arc::new(spec)),
            nodes: Vec::new(),
        });
        part.pods += 1;
        part.nodes.extend(node);
    }
    alike.into_values().collect()
}
