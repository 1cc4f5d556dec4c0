//! Gathers what the answer needs: the job with its pods, group and events, and the cluster around it.

use crate::logs::resolve;
use crate::target::{Cluster, Resource, escaped};
use crate::vcjob::PODS;
use anyhow::{Result, bail};
use futures::AsyncReadExt;
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::{at, text};
use volley_api::volcano;
use volley_plan::gang::hint::nearest;
use volley_plan::gang::policy::{Policy, built_in};
use volley_plan::gang::snapshot::Kind;
use volley_plan::logs::kinds;
use volley_plan::pod_groups::{Origin, SERVED, named_by, pod_in_volcanos_words};
use volley_plan::why::estimates;
use volley_plan::why::world::World;
use volley_plan::why::{Answer, Observed, why};

const EVENTS: Resource = Resource { api_version: "v1", plural: "events" };
/// How much of a failed container's log is shown, and of how many pods it is asked for.
const LINES: usize = 5;
const LOGS_MAX: usize = 3;
/// What a snapshot is made of; kinds that a cluster does not serve are left out.
const KINDS: [(Kind, &str, &str); 20] = [
    (Kind::Node, "v1", "nodes"),
    (Kind::Namespace, "v1", "namespaces"),
    (Kind::Queue, volcano::SCHEDULING, "queues"),
    (Kind::PriorityClass, "scheduling.k8s.io/v1", "priorityclasses"),
    (Kind::PodGroup, SERVED[0].0, "podgroups"),
    (Kind::PodGroup, SERVED[1].0, "podgroups"),
    (Kind::PodGroup, SERVED[2].0, "podgroups"),
    (Kind::PodGroup, SERVED[3].0, "podgroups"),
    (Kind::Workload, "scheduling.k8s.io/v1alpha1", "workloads"),
    (Kind::Pod, "v1", "pods"),
    (Kind::DisruptionBudget, "policy/v1", "poddisruptionbudgets"),
    (Kind::Claim, "v1", "persistentvolumeclaims"),
    (Kind::Volume, "v1", "persistentvolumes"),
    (Kind::StorageClass, "storage.k8s.io/v1", "storageclasses"),
    (Kind::CsiNode, "storage.k8s.io/v1", "csinodes"),
    (Kind::CsiDriver, "storage.k8s.io/v1", "csidrivers"),
    (Kind::StorageCapacity, "storage.k8s.io/v1", "csistoragecapacities"),
    (Kind::ResourceQuota, "v1", "resourcequotas"),
    (Kind::HyperNode, "topology.volcano.sh/v1alpha1", "hypernodes"),
    (Kind::Numatopology, "nodeinfo.volcano.sh/v1alpha1", "numatopologies"),
];

/// The job that is asked about.
pub struct Subject {
    kind: String,
    pub object: Value,
    pods: Vec<Value>,
    pub group: Option<Value>,
    pub events: Vec<Value>,
    lines: BTreeMap<String, Vec<String>>,
}

impl Subject {
    pub async fn find(cluster: &Cluster, namespace: &str, words: &str) -> Result<Subject> {
        if let Some(name) = group_name(words) {
            return Subject::of_group(cluster, namespace, name).await;
        }
        let (kind, object) = resolve::resolve(cluster, namespace, words).await?;
        let all = PODS.all(Some(namespace))?;
        let mut pods = match kind.selector(&object) {
            None => vec![object.clone()],
            Some(selector) => cluster.list(&format!("{all}?labelSelector={}", escaped(&selector))).await?,
        };
        pods.retain(|pod| kind.owns(&object, pod));
        let group = group_of(&groups(cluster, namespace).await?, &object, &pods).cloned();
        Subject { kind: kind.name.to_owned(), object, pods, group, events: Vec::new(), lines: BTreeMap::new() }
            .completed(cluster, namespace)
            .await
    }

    /// A group that a known job owns is asked about as that job.
    async fn of_group(cluster: &Cluster, namespace: &str, name: &str) -> Result<Subject> {
        let mut groups = groups(cluster, namespace).await?;
        let Some(place) = groups.iter().position(|group| text(group, "metadata.name") == name) else {
            let near = nearest(name, groups.iter().map(|group| text(group, "metadata.name")));
            let hint =
                near.map_or("-n names another namespace".to_owned(), |near| format!("did you mean podgroup/{near}?"));
            bail!("there is no podgroup `{name}` in namespace `{namespace}`\nhint: {hint}");
        };
        let group = groups.swap_remove(place);
        let owners = at(&group, "metadata.ownerReferences").and_then(Value::as_array);
        for owner in owners.into_iter().flatten() {
            let plural = format!("{}s", text(owner, "kind").to_ascii_lowercase());
            let named = match text(owner, "apiVersion").split_once('/') {
                Some((group, _)) => format!("{plural}.{group}/{}", text(owner, "name")),
                None => format!("{plural}/{}", text(owner, "name")),
            };
            if let Ok(subject) = Box::pin(Subject::find(cluster, namespace, &named)).await {
                return Ok(subject);
            }
        }
        let mut pods = cluster.list(&PODS.all(Some(namespace))?).await?;
        pods.retain(|pod| named_by(pod) == Some(name));
        let lines = BTreeMap::new();
        Subject {
            kind: "podgroup".to_owned(),
            object: group.clone(),
            pods,
            group: Some(group),
            events: Vec::new(),
            lines,
        }
        .completed(cluster, namespace)
        .await
    }

    async fn completed(mut self, cluster: &Cluster, namespace: &str) -> Result<Subject> {
        self.pods.sort_by(|a, b| text(a, "metadata.name").cmp(text(b, "metadata.name")));
        let own = self.pods.iter().chain([&self.object]).chain(&self.group);
        let uids: BTreeSet<&str> = own.map(|object| text(object, "metadata.uid")).collect();
        let events = cluster.list(&EVENTS.all(Some(namespace))?).await.unwrap_or_default();
        let is_own = |event: &Value| uids.contains(text(event, "involvedObject.uid"));
        let events = events.into_iter().filter(is_own).collect();
        self.events = events;
        self.lines = last_lines(cluster, namespace, &self.pods).await?;
        Ok(self)
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn ask(&self, world: &World, policy: &Policy, now: Timestamp) -> Answer {
        let snapshot = world.snapshot(policy.clone(), &self.pods);
        let seen = Observed {
            kind: &self.kind,
            job: &self.object,
            pods: &self.pods,
            group: self.group.as_ref(),
            events: &self.events,
            snapshot: &snapshot,
            lines: &self.lines,
        };
        let mut answer = why(&seen, now);
        answer.message = world.in_owners_words(&answer.message);
        answer.unblock = answer.unblock.iter().map(|what| world.in_owners_words(what)).collect();
        answer
    }
}

fn group_name(words: &str) -> Option<&str> {
    let (kind, name) = words.split_once('/')?;
    let kind = kind.to_ascii_lowercase();
    let is_group = matches!(kind.as_str(), "podgroup" | "podgroups" | "pg" | "podgroups.scheduling.volcano.sh");
    is_group.then_some(name)
}

/// The namespace's groups of all kinds that are served, Volcano's first, in Volcano's words.
async fn groups(cluster: &Cluster, namespace: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for (api_version, origin) in SERVED {
        let list = cluster.find(&Resource { api_version, plural: "podgroups" }.all(Some(namespace))?).await;
        let list = match (list, origin) {
            (Ok(list), _) => list.unwrap_or_default(),
            (Err(error), Origin::Volcano) => return Err(error),
            // Who may not see the groups of others, or has none, is told of the rest.
            (Err(_), Origin::Coscheduling | Origin::Kubernetes) => Value::Null,
        };
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.map(|group| origin.in_volcanos_words(group).into_owned()));
    }
    Ok(found)
}

/// The group that the pods name, or that the job owns.
fn group_of<'a>(groups: &'a [Value], job: &Value, pods: &[Value]) -> Option<&'a Value> {
    let all = || groups.iter();
    let named = pods.iter().find_map(named_by);
    let is_owned = |group: &&Value| {
        let owners = group["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| owner["uid"] == job["metadata"]["uid"])
    };
    all()
        .find(|group| named.is_some_and(|named| text(group, "metadata.name") == named))
        .or_else(|| all().find(is_owned))
}

/// What containers that failed said last, of the first few pods.
async fn last_lines(cluster: &Cluster, namespace: &str, pods: &[Value]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found = BTreeMap::new();
    for pod in pods {
        let Some((container, is_previous)) = failed_container(pod) else { continue };
        if found.len() == LOGS_MAX {
            break;
        }
        let name = text(pod, "metadata.name");
        let query = format!("container={}&tailLines={LINES}&previous={is_previous}", escaped(container));
        let path = format!("{}/log?{query}", PODS.one(Some(namespace), name)?);
        // A log that is gone is no reason to have no answer.
        let Ok(mut log) = cluster.stream(&path).await else { continue };
        let mut bytes = Vec::new();
        if log.read_to_end(&mut bytes).await.is_ok() {
            let text = String::from_utf8_lossy(&bytes);
            found.insert(name.to_owned(), text.lines().map(str::to_owned).collect());
        }
    }
    Ok(found)
}

/// A container that ended badly, and whether another run has begun or is awaited.
fn failed_container(pod: &Value) -> Option<(&str, bool)> {
    let list = |path: &str| at(pod, path).and_then(Value::as_array).into_iter().flatten();
    let all = || list("status.containerStatuses").chain(list("status.initContainerStatuses"));
    let has_failed = |ended: &Value| ended["exitCode"].as_i64().is_some_and(|code| code != 0);
    let dead = all().find(|status| has_failed(&status["state"]["terminated"]));
    let looping =
        all().find(|status| status["state"]["waiting"].is_object() && has_failed(&status["lastState"]["terminated"]));
    dead.map(|status| (text(status, "name"), false)).or_else(|| looping.map(|status| (text(status, "name"), true)))
}

/// Lists the cluster; what may not be listed is noted and left out.
pub async fn world(cluster: &Cluster) -> Result<(World, Vec<String>)> {
    let paths = KINDS.map(|(_, api_version, plural)| Resource { api_version, plural }.all(None));
    let paths = paths.into_iter().collect::<Result<Vec<String>>>()?;
    let lists = join_all(paths.iter().map(|path| cluster.find(path))).await;
    let jobs = list_jobs(cluster).await?;
    let version = cluster.find("/version").await?.unwrap_or_default();
    // The embedded cluster places all pods.
    let has_others = !text(&version, "gitVersion").contains("+volley");
    let (mut world, mut notes) = (World { has_others, ..World::default() }, Vec::new());
    for ((kind, api_version, plural), list) in KINDS.into_iter().zip(lists) {
        match list {
            Ok(Some(mut list)) => {
                let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
                world.of_mut(kind).extend(items.into_iter().map(|item| in_volcanos_words(kind, api_version, item)));
            }
            Ok(None) => {}
            Err(error) if error.to_string().contains("forbidden") => {
                notes.push(format!("{plural} may not be listed here, so the answer leaves them out"));
            }
            Err(error) => return Err(error),
        }
    }
    estimates::fill_in(&mut world, &jobs);
    Ok((world, notes))
}

fn in_volcanos_words(kind: Kind, api_version: &str, object: Value) -> Value {
    let origin = SERVED.iter().find(|(served, _)| *served == api_version).map(|(_, origin)| *origin);
    match (kind, origin) {
        (Kind::Pod, _) => pod_in_volcanos_words(&object).into_owned(),
        (Kind::PodGroup, Some(origin)) => origin.in_volcanos_words(&object).into_owned(),
        _ => object,
    }
}

/// Jobs of all kinds, for how long they take; those that may not be listed say nothing.
async fn list_jobs(cluster: &Cluster) -> Result<Vec<Value>> {
    let kinds = kinds::all().into_iter().filter(|kind| kind.plural.ends_with("jobs"));
    let paths = kinds.map(|kind| resolve::resource(&kind).all(None)).collect::<Result<Vec<String>>>()?;
    let lists = join_all(paths.iter().map(|path| cluster.list(path))).await;
    Ok(lists.into_iter().flat_map(Result::unwrap_or_default).collect())
}

/// The configuration of the scheduler that runs there, where it can be read; else ours.
pub async fn policy(cluster: &Cluster) -> Policy {
    let path = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap";
    let found = cluster.find(path).await.ok().flatten().unwrap_or_default();
    let file = found["data"]["volcano-scheduler.conf"].as_str().unwrap_or_default();
    let read = serde_saphyr::from_str::<Value>(file).ok().filter(Value::is_object);
    read.and_then(|file| Policy::read(&file).ok()).map(|(policy, _)| policy).unwrap_or_else(built_in)
}
