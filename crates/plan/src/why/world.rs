//! The cluster as it was listed, and as it might be: `--what-if` changes a copy before the question is asked again.

use crate::gang::policy::Policy;
use crate::gang::snapshot::{Kind, Snapshot};
use crate::pod_groups::gang_of;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::text;

const GPU: &str = "nvidia.com/gpu";

/// Objects by kind, as the API has them.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub objects: Vec<(Kind, Vec<Value>)>,
    /// Not all pods are placed by us, as on the embedded cluster: those of other schedulers hold room and are in no queue.
    pub has_others: bool,
}

impl World {
    pub fn of(&self, kind: Kind) -> &[Value] {
        let found = self.objects.iter().find(|(known, _)| *known == kind);
        found.map_or(&[], |(_, objects)| objects.as_slice())
    }

    pub fn of_mut(&mut self, kind: Kind) -> &mut Vec<Value> {
        let place = self.objects.iter().position(|(known, _)| *known == kind);
        let place = place.unwrap_or_else(|| {
            self.objects.push((kind, Vec::new()));
            self.objects.len() - 1
        });
        &mut self.objects[place].1
    }

    /// Calls groups that somebody's job owns by that job, which its user knows: `vcjob/default/train`.
    pub fn in_owners_words(&self, sentence: &str) -> String {
        const ENDS: [char; 6] = [' ', ',', ';', ':', '=', '.'];
        let owned = |name: &str| {
            let (namespace, name) = name.split_once('/')?;
            let is_it =
                |group: &&Value| text(group, "metadata.name") == name && text(group, "metadata.namespace") == namespace;
            let group = self.of(Kind::PodGroup).iter().find(is_it)?;
            let owner =
                group["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)?;
            let kind = match text(owner, "apiVersion").starts_with("batch.volcano.sh/") {
                true => "vcjob".to_owned(),
                false => text(owner, "kind").to_ascii_lowercase(),
            };
            Some(format!("{kind}/{namespace}/{}", text(owner, "name")))
        };
        let words = sentence.split_inclusive(&ENDS[..5]).map(|word| {
            let name = word.trim_end_matches(ENDS);
            owned(name).map_or_else(|| word.to_owned(), |owner| owner + &word[name.len()..])
        });
        words.collect()
    }

    /// Whoever schedules the pods that are asked about, the question is the same; pods of no group go alone.
    pub fn snapshot(&self, policy: Policy, asked: &[Value]) -> Snapshot {
        let own = ["volcano", "volley"];
        let pods = if self.has_others { asked } else { self.of(Kind::Pod) };
        let named = pods.iter().map(|pod| text(pod, "spec.schedulerName")).filter(|name| !own.contains(name));
        let usual = (!self.has_others).then_some("default-scheduler");
        let others: BTreeSet<&str> = named.chain(usual).collect();
        let mut snapshot = Snapshot::new(policy, &own, &others.into_iter().collect::<Vec<_>>());
        // A cluster that knows no queues has one without limits.
        if self.of(Kind::Queue).is_empty() {
            snapshot.see(Kind::Queue, &json!({"metadata": {"name": "default"}, "spec": {"weight": 1}}));
        }
        for (kind, objects) in &self.objects {
            objects.iter().for_each(|object| snapshot.see(*kind, object));
        }
        snapshot
    }
}

/// One change of `--what-if`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// So much more of a resource, on new nodes like the one that has most of it.
    More {
        resource: String,
        amount: i64,
    },
    /// New nodes like the largest.
    Nodes(usize),
    Queue {
        queue: String,
        field: String,
        resource: String,
        amount: String,
    },
    /// A job and its pods are gone.
    Without(String),
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::More { resource, amount } if resource == GPU => write!(out, "gpus=+{amount}"),
            Change::More { resource, amount } => write!(out, "{resource}=+{amount}"),
            Change::Nodes(count) => write!(out, "nodes=+{count}"),
            Change::Queue { queue, field, resource, amount } => {
                write!(out, "queue.{queue}.{field}.{resource}={amount}")
            }
            Change::Without(job) => write!(out, "without={job}"),
        }
    }
}

impl Change {
    pub fn parse(words: &str) -> Result<Change, String> {
        let wanted = "want gpus=+4, cpu=+16, nodes=+2, queue.NAME.capability.gpu=16 or without=JOB";
        let (key, value) = words.split_once('=').ok_or_else(|| format!("`{words}`: {wanted}"))?;
        let more = || {
            let quantity = value.strip_prefix('+').and_then(|amount| Quantity::parse(amount).ok());
            quantity
                .map(|amount| amount.value())
                .filter(|amount| *amount > 0)
                .ok_or_else(|| format!("`{words}`: want how much more there were, such as {key}=+4"))
        };
        if let Some(rest) = key.strip_prefix("queue.") {
            let place = ["capability", "deserved", "guarantee"].into_iter().find_map(|field| {
                let (queue, resource) = rest.split_once(&format!(".{field}."))?;
                Some((queue.to_owned(), field.to_owned(), full(resource)))
            });
            let (queue, field, resource) = place.ok_or_else(|| format!("`{words}`: {wanted}"))?;
            Quantity::parse(value).map_err(|_| format!("`{words}`: `{value}` is no amount"))?;
            return Ok(Change::Queue { queue, field, resource, amount: value.to_owned() });
        }
        match key {
            "without" if !value.is_empty() => Ok(Change::Without(value.to_owned())),
            "nodes" => Ok(Change::Nodes(usize::try_from(more()?).unwrap_or(usize::MAX).min(100_000))),
            "gpu" | "gpus" | "cpu" | "memory" => Ok(Change::More { resource: full(key), amount: more()? }),
            key if key.contains('/') => Ok(Change::More { resource: key.to_owned(), amount: more()? }),
            _ => Err(format!("`{words}`: {wanted}")),
        }
    }

    /// Makes the change; what it says it could not do is told.
    pub fn make(&self, world: &mut World, namespace: &str) -> Result<(), String> {
        match self {
            Change::More { resource, amount } => add_amount(world, resource, *amount),
            Change::Nodes(count) => {
                let like = largest(world, GPU).or_else(|| largest(world, "cpu"));
                let like = like.ok_or("there is no node to take for a pattern")?;
                add_nodes(world, &like, *count);
                Ok(())
            }
            Change::Queue { queue, field, resource, amount } => {
                let found = world.of_mut(Kind::Queue).iter_mut().find(|one| text(one, "metadata.name") == queue);
                let found = found.ok_or_else(|| format!("there is no queue {queue}"))?;
                match field.as_str() {
                    "guarantee" => found["spec"]["guarantee"]["resource"][resource.as_str()] = json!(amount),
                    field => found["spec"][field][resource.as_str()] = json!(amount),
                }
                Ok(())
            }
            Change::Without(job) => without(world, job, namespace),
        }
    }
}

fn full(resource: &str) -> String {
    if matches!(resource, "gpu" | "gpus") { GPU.to_owned() } else { resource.to_owned() }
}

fn amount(node: &Value, resource: &str) -> i64 {
    let found = node["status"]["allocatable"][resource].as_str();
    found.and_then(|found| Quantity::parse(found).ok()).map_or(0, |found| found.value())
}

fn largest(world: &World, resource: &str) -> Option<Value> {
    let best = world.of(Kind::Node).iter().max_by_key(|node| amount(node, resource))?;
    Some(best.clone()).filter(|node| amount(node, resource) > 0)
}

/// Nodes like the one with most of it, the last one with what is left over.
fn add_amount(world: &mut World, resource: &str, more: i64) -> Result<(), String> {
    let like = largest(world, resource).or_else(|| largest(world, "cpu"));
    let mut like = like.ok_or("there is no node to take for a pattern")?;
    let each = match amount(&like, resource) {
        0 => more,
        each => each,
    };
    let whole = usize::try_from(more / each).unwrap_or(0);
    add_nodes(world, &like, whole.min(100_000));
    if more % each > 0 {
        like["status"]["allocatable"][resource] = json!((more % each).to_string());
        add_nodes(world, &like, 1);
    }
    Ok(())
}

fn add_nodes(world: &mut World, like: &Value, count: usize) {
    let nodes = world.of_mut(Kind::Node);
    for _ in 0..count {
        let name = format!("what-if-{}", nodes.len());
        let mut node = like.clone();
        node["metadata"]["name"] = json!(name);
        node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
        node["spec"]["unschedulable"] = json!(false);
        nodes.push(node);
    }
}

/// Everything that is called so or belongs to what is: groups by name or owner, pods by group, owner or name.
fn without(world: &mut World, job: &str, namespace: &str) -> Result<(), String> {
    let (namespace, job) =
        job.rsplit_once('/').map_or((namespace, job), |(place, job)| (place.rsplit('/').next().unwrap_or(place), job));
    let is_there = |object: &Value| text(object, "metadata.namespace") == namespace;
    let is_owned = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| text(owner, "name") == job)
    };
    let is_meant = |object: &Value| is_there(object) && (text(object, "metadata.name") == job || is_owned(object));
    let groups: BTreeSet<String> = world
        .of(Kind::PodGroup)
        .iter()
        .filter(|group| is_meant(group))
        .map(|group| text(group, "metadata.name").to_owned())
        .collect();
    let before = world.of(Kind::Pod).len() + world.of(Kind::PodGroup).len();
    world.of_mut(Kind::PodGroup).retain(|group| !is_meant(group));
    world.of_mut(Kind::Pod).retain(|pod| {
        let gang = gang_of(pod).unwrap_or_default();
        !(is_meant(pod) || (is_there(pod) && (groups.contains(&gang) || gang == job)))
    });
    match before == world.of(Kind::Pod).len() + world.of(Kind::PodGroup).len() {
        true => Err(format!("nothing in namespace {namespace} is called {job}")),
        false => Ok(()),
    }
}
