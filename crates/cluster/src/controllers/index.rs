//! What the controllers look up instead of searching: children of an owner, pods of a node, selectors of a namespace.
//!
//! Kept by `observe` from the same events that fill the queue, so it is never older than the last look at the store.

use super::facts::{Head, PodFacts, parsed};
use super::queue::{Controller, Key};
use crate::apiserver::object::Stored;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use volley_api::kube::selector::LabelSelector;
use volley_api::kube::{at, text, time};
use volley_plan::bootstrap::PROVISIONER;

/// Seconds that an event is kept after its last change (K-EVT-2).
const EVENT_SECONDS: i64 = 3600;

/// Kinds that controllers own or adopt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Child {
    Pod,
    ReplicaSet,
    Job,
}

impl Child {
    pub const ALL: [Child; 3] = [Child::Pod, Child::ReplicaSet, Child::Job];

    pub fn bucket(self) -> &'static str {
        match self {
            Child::Pod => "pods",
            Child::ReplicaSet => "apps/replicasets",
            Child::Job => "batch/jobs",
        }
    }

    fn of(bucket: &str) -> Option<Child> {
        Child::ALL.into_iter().find(|child| child.bucket() == bucket)
    }
}

/// An object before and after a change.
pub struct Change {
    pub bucket: Arc<str>,
    pub key: Arc<str>,
    pub old: Option<Version>,
    pub new: Option<Version>,
}

/// One state of an object.
pub struct Version {
    pub head: Head,
    /// Given for pods.
    pub pod: PodFacts,
    pub stored: Arc<Stored>,
}

impl Version {
    pub fn of(bucket: &str, stored: &Arc<Stored>) -> Option<Version> {
        let head: Head = parsed(stored)?;
        let pod = if bucket == "pods" { parsed(stored)? } else { PodFacts::default() };
        Some(Version { head, pod, stored: stored.clone() })
    }
}

impl Change {
    /// The state after, or before if it is gone.
    pub fn last(&self) -> Option<&Version> {
        self.new.as_ref().or(self.old.as_ref())
    }

    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.old.iter().chain(&self.new)
    }

    pub fn namespace(&self) -> &str {
        self.last().map_or("", |version| &version.head.metadata.namespace)
    }
}

/// How many objects a namespace holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Population {
    pub all: usize,
    pub pods: usize,
}

#[derive(Default)]
pub struct Index {
    children: HashMap<String, BTreeSet<(Child, Arc<str>)>>,
    /// Objects without a controller, by kind and namespace: those that may be adopted.
    strays: HashMap<(Child, String), BTreeSet<Arc<str>>>,
    populations: HashMap<String, Population>,
    /// By namespace, whoever selects pods or ReplicaSets by label.
    selectors: HashMap<String, BTreeMap<Key, LabelSelector>>,
    pods_of_node: HashMap<String, BTreeSet<Arc<str>>>,
    /// Pods that use claims.
    pub claim_users: BTreeSet<Arc<str>>,
    pub terminating_namespaces: BTreeSet<String>,
    /// By the bucket of their instances: definitions that are being deleted.
    pub terminating_definitions: BTreeMap<String, Arc<str>>,
    quotas: HashMap<String, usize>,
    token_secrets: HashMap<String, BTreeSet<Arc<str>>>,
    /// Names of deleted volumes whose directories are ours to remove.
    pub removed_volumes: Vec<String>,
    event_ends: HashMap<Arc<str>, i64>,
    events_by_end: BTreeSet<(i64, Arc<str>)>,
}

impl Index {
    pub fn apply(&mut self, change: &Change) {
        if let Some(old) = &change.old {
            self.take_out(change, old);
        }
        if let Some(new) = &change.new {
            self.put_in(change, new);
        }
    }

    pub fn children(&self, uid: &str, child: Child) -> Vec<Arc<str>> {
        let all = self.children.get(uid).into_iter().flatten();
        all.filter(|(kind, _)| *kind == child).map(|(_, key)| key.clone()).collect()
    }

    /// How many children of all kinds an owner has.
    pub fn children_count(&self, uid: &str) -> usize {
        self.children.get(uid).map_or(0, BTreeSet::len)
    }

    pub fn strays(&self, child: Child, namespace: &str) -> Vec<Arc<str>> {
        self.strays.get(&(child, namespace.to_owned())).into_iter().flatten().cloned().collect()
    }

    pub fn population(&self, namespace: &str) -> Population {
        self.populations.get(namespace).copied().unwrap_or_default()
    }

    pub fn pods_of_node(&self, node: &str) -> Vec<Arc<str>> {
        self.pods_of_node.get(node).into_iter().flatten().cloned().collect()
    }

    pub fn has_quota(&self, namespace: &str) -> bool {
        self.quotas.contains_key(namespace)
    }

    pub fn token_secrets(&self, namespace: &str) -> Vec<Arc<str>> {
        self.token_secrets.get(namespace).into_iter().flatten().cloned().collect()
    }

    /// The selectors of these controllers that match the labels.
    pub fn selecting<'a>(
        &'a self,
        namespace: &str,
        labels: &'a BTreeMap<String, String>,
        controllers: &'a [Controller],
    ) -> impl Iterator<Item = Key> + 'a {
        let all = self.selectors.get(namespace).into_iter().flatten();
        all.filter(move |(key, selector)| {
            controllers.contains(&key.controller)
                && selector.matches_with(|label| labels.get(label).map(String::as_str))
        })
        .map(|(key, _)| key.clone())
    }

    pub fn all_of(&self, namespace: &str, controller: Controller) -> Vec<Key> {
        let all = self.selectors.get(namespace).into_iter().flatten();
        all.map(|(key, _)| key.clone()).filter(|key| key.controller == controller).collect()
    }

    /// Events whose hour is over at `second`, at most `most`.
    pub fn ended_events(&self, second: i64, most: usize) -> Vec<Arc<str>> {
        let ended = self.events_by_end.iter().take_while(|(end, _)| *end <= second);
        ended.take(most).map(|(_, key)| key.clone()).collect()
    }

    pub fn next_event_end(&self) -> Option<i64> {
        self.events_by_end.first().map(|(end, _)| *end)
    }

    fn take_out(&mut self, change: &Change, old: &Version) {
        let (key, meta) = (&change.key, &old.head.metadata);
        let namespace = &meta.namespace;
        if !namespace.is_empty() && change.new.is_none() {
            let count = self.populations.entry(namespace.clone()).or_default();
            count.all = count.all.saturating_sub(1);
            count.pods = count.pods.saturating_sub(usize::from(&*change.bucket == "pods"));
            if count.all == 0 {
                self.populations.remove(namespace);
            }
        }
        if let Some(child) = Child::of(&change.bucket) {
            match meta.controller() {
                Some(owner) => remove_from(&mut self.children, &owner.uid, &(child, key.clone())),
                None => remove_from(&mut self.strays, &(child, namespace.clone()), key),
            }
        }
        match &*change.bucket {
            "pods" => {
                remove_from(&mut self.pods_of_node, old.pod.node(), key);
                self.claim_users.remove(key);
            }
            "persistentvolumes" if change.new.is_none() && is_disposable(&old.stored) => {
                self.removed_volumes.push(meta.name.clone());
            }
            "namespaces" => drop(self.terminating_namespaces.remove(&meta.name)),
            "secrets" => remove_from(&mut self.token_secrets, namespace.as_str(), key),
            "resourcequotas" if change.new.is_none() => {
                let left = self.quotas.get(namespace).map_or(0, |count| count.saturating_sub(1));
                match left {
                    0 => drop(self.quotas.remove(namespace)),
                    left => drop(self.quotas.insert(namespace.clone(), left)),
                }
            }
            "events" => {
                if let Some(end) = self.event_ends.remove(key) {
                    self.events_by_end.remove(&(end, key.clone()));
                }
            }
            "apiextensions.k8s.io/customresourcedefinitions" => {
                self.terminating_definitions.retain(|_, definition| definition != key);
            }
            _ => {}
        }
        if let Some(selector) = selecting_controller(&change.bucket)
            && let Some(selectors) = self.selectors.get_mut(namespace)
        {
            selectors.remove(&Key::new(selector, key.clone()));
            if selectors.is_empty() {
                self.selectors.remove(namespace);
            }
        }
    }

    fn put_in(&mut self, change: &Change, new: &Version) {
        let (key, meta) = (&change.key, &new.head.metadata);
        let namespace = &meta.namespace;
        if !namespace.is_empty() && change.old.is_none() {
            let count = self.populations.entry(namespace.clone()).or_default();
            count.all += 1;
            count.pods += usize::from(&*change.bucket == "pods");
        }
        if let Some(child) = Child::of(&change.bucket) {
            match meta.controller() {
                Some(owner) => drop(self.children.entry(owner.uid.clone()).or_default().insert((child, key.clone()))),
                None => drop(self.strays.entry((child, namespace.clone())).or_default().insert(key.clone())),
            }
        }
        match &*change.bucket {
            "pods" => self.put_pod(change, new),
            "namespaces" if meta.is_deleting() => drop(self.terminating_namespaces.insert(meta.name.clone())),
            "resourcequotas" if change.old.is_none() => *self.quotas.entry(namespace.clone()).or_default() += 1,
            "secrets" if is_token_secret(&new.stored) => {
                self.token_secrets.entry(namespace.clone()).or_default().insert(key.clone());
            }
            "events" => {
                let end = event_end(&new.stored);
                self.event_ends.insert(key.clone(), end);
                self.events_by_end.insert((end, key.clone()));
            }
            "apiextensions.k8s.io/customresourcedefinitions" if meta.is_deleting() => {
                let (plural, group) = meta.name.split_once('.').unwrap_or((&meta.name, ""));
                self.terminating_definitions.insert(format!("{group}/{plural}"), key.clone());
            }
            _ => {}
        }
        if let Some(controller) = selecting_controller(&change.bucket)
            && let Some(selector) = selector_of(controller, &new.stored)
        {
            self.selectors.entry(namespace.clone()).or_default().insert(Key::new(controller, key.clone()), selector);
        }
    }

    fn put_pod(&mut self, change: &Change, new: &Version) {
        let key = &change.key;
        if !new.pod.node().is_empty() {
            self.pods_of_node.entry(new.pod.node().to_owned()).or_default().insert(key.clone());
        }
        if new.pod.uses_claims() {
            self.claim_users.insert(key.clone());
        }
    }
}

fn remove_from<K, Q, V>(map: &mut HashMap<K, BTreeSet<V>>, key: &Q, value: &V)
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
    V: Ord,
{
    if let Some(set) = map.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

/// Which controller cares about the labels of other objects because of an object in this bucket.
fn selecting_controller(bucket: &str) -> Option<Controller> {
    match bucket {
        "services" => Some(Controller::Endpoints),
        "apps/replicasets" => Some(Controller::ReplicaSet),
        "apps/deployments" => Some(Controller::Deployment),
        "batch/jobs" => Some(Controller::Job),
        "policy/poddisruptionbudgets" => Some(Controller::Budget),
        _ => None,
    }
}

fn selector_of(controller: Controller, stored: &Stored) -> Option<LabelSelector> {
    let object: Value = parsed(stored)?;
    let selector = at(&object, "spec.selector");
    match controller {
        Controller::Endpoints => {
            let labels = selector.and_then(Value::as_object).filter(|labels| !labels.is_empty())?;
            Some(LabelSelector::from_labels(Some(labels)))
        }
        // A selector that the server made holds the Job's own uid: no stray pod can match it.
        Controller::Job if at(&object, "spec.manualSelector") != Some(&Value::Bool(true)) => None,
        _ => LabelSelector::from_object(selector).ok(),
    }
}

pub fn is_token_secret(stored: &Stored) -> bool {
    #[derive(serde::Deserialize)]
    struct Secret {
        #[serde(rename = "type", default)]
        kind: String,
    }
    parsed::<Secret>(stored).is_some_and(|secret| secret.kind == "kubernetes.io/service-account-token")
}

/// A volume that we provisioned and whose content goes with it.
fn is_disposable(stored: &Stored) -> bool {
    let volume: Value = parsed(stored).unwrap_or_default();
    let provisioner = &volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"];
    provisioner == PROVISIONER && text(&volume, "spec.persistentVolumeReclaimPolicy") == "Delete"
}

fn event_end(stored: &Stored) -> i64 {
    let event: Value = parsed(stored).unwrap_or_default();
    let paths = ["lastTimestamp", "eventTime", "series.lastObservedTime", "metadata.creationTimestamp"];
    let last = paths.iter().filter_map(|path| time::parse(text(&event, path))).max();
    last.map_or(0, |last| last.as_second()) + EVENT_SECONDS
}
