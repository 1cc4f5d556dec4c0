//! Who must look when an object changes: the object's own controller, that of its owner, and those that wait for it.

use crate::cache::{Cache, Change, controller};
use crate::kinds::{self, Kind, own};
use crate::queue::Key;
use serde_json::Value;
use std::sync::Arc;
use volley_api::kube::{at, text};
use volley_api::volcano::{BATCH, SCHEDULING, keys};
use volley_scheduler::realm::Realm;

/// Owners of plain pods that may say how many of them start together.
const SIZED: [(&str, &str); 4] =
    [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job")];

/// The keys to visit.
pub fn keys(change: &Change, cache: &Cache, realm: &Realm) -> Vec<Key> {
    let mut keys = Vec::new();
    let kind = change.kind;
    let versions = [change.old.as_deref(), change.new.as_deref()];
    for object in versions.into_iter().flatten() {
        if kind.training.is_some() || [own::job(), own::cron(), own::queue()].contains(&kind) {
            keys.push(key(kind, object));
        }
        keys.extend(owner(object));
        if kind == own::pod() {
            keys.extend(of_pod(object, realm));
        } else if kind == own::command() {
            keys.extend(of_command(object));
        }
    }
    if kind == own::group() {
        keys.extend(of_group(change, realm));
    }
    if kind == own::queue() && is_queue_news(change) {
        keys.extend(of_queue(change, cache));
    }
    if kind == own::claim() && (change.old.is_none() || change.new.is_none()) {
        keys.extend(of_claim(change, cache));
    }
    keys.sort();
    keys.dedup();
    keys
}

fn key(kind: &'static Kind, object: &Value) -> Key {
    let (namespace, name) = (text(object, "metadata.namespace").to_owned(), text(object, "metadata.name").to_owned());
    Key { kind, namespace, name }
}

fn cluster_key(kind: &'static Kind, name: &str) -> Key {
    Key { kind, namespace: String::new(), name: name.to_owned() }
}

/// The job or CronJob that controls the object.
fn owner(object: &Value) -> Option<Key> {
    let owner = controller(object)?;
    let kind = kinds::find(text(owner, "apiVersion"), text(owner, "kind"))?;
    let is_driven = kind.training.is_some() || kind == own::job() || kind == own::cron();
    let namespace = text(object, "metadata.namespace").to_owned();
    is_driven.then(|| Key { kind, namespace, name: text(owner, "name").to_owned() })
}

/// Of a pod that is placed by group: that it needs one, and who says how large that is.
fn of_pod(pod: &Value, realm: &Realm) -> Vec<Key> {
    if !realm.names.iter().any(|name| name == text(pod, "spec.schedulerName")) {
        return Vec::new();
    }
    let namespace = text(pod, "metadata.namespace").to_owned();
    let mut keys = Vec::new();
    if pod["metadata"]["annotations"][keys::GROUP].is_null() {
        keys.push(key(own::pod(), pod));
    }
    let sized = controller(pod).and_then(|owner| {
        let (version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
        let kind = SIZED.contains(&(version, kind)).then(|| kinds::known(version, kind))?;
        Some(Key { kind, namespace, name: text(owner, "name").to_owned() })
    });
    keys.extend(sized);
    keys
}

fn of_command(command: &Value) -> Option<Key> {
    let target = &command["target"];
    let name = text(target, "name");
    match (text(target, "apiVersion"), text(target, "kind")) {
        (BATCH, "Job") => {
            let namespace = text(command, "metadata.namespace").to_owned();
            Some(Key { kind: own::job(), namespace, name: name.to_owned() })
        }
        (SCHEDULING, "Queue") => Some(cluster_key(own::queue(), name)),
        _ => None,
    }
}

/// The queues that a group has come to or left: how it fares there does not matter to them.
fn of_group(change: &Change, realm: &Realm) -> Vec<Key> {
    let queue = |object: &Option<Arc<Value>>| object.as_ref().map(|object| realm.queue_of(object).to_owned());
    let (old, new) = (queue(&change.old), queue(&change.new));
    if old == new {
        return Vec::new();
    }
    [old, new].into_iter().flatten().map(|name| cluster_key(own::queue(), &name)).collect()
}

/// Whether more has changed of a queue than its counters.
fn is_queue_news(change: &Change) -> bool {
    let facts = |object: &Value| (text(object, "status.state").to_owned(), text(object, "spec.parent").to_owned());
    change.old.as_deref().map(facts) != change.new.as_deref().map(facts)
}

/// The queues below this one, and the Jobs that wait for it.
fn of_queue(change: &Change, cache: &Cache) -> Vec<Key> {
    let Some(queue) = change.new.as_ref().or(change.old.as_ref()) else { return Vec::new() };
    let name = text(queue, "metadata.name");
    let below = cache.list(own::queue(), None).into_iter();
    let below = below.filter(|other| text(other, "spec.parent") == name).map(|other| key(own::queue(), &other));
    let is_in_it = |job: &Value| matches!(text(job, "spec.queue"), queue if queue == name || (queue.is_empty() && name == "default"));
    let jobs = cache.list(own::job(), None).into_iter().filter(|job| is_in_it(job)).map(|job| key(own::job(), &job));
    below.chain(jobs).collect()
}

/// The Jobs that name a claim.
fn of_claim(change: &Change, cache: &Cache) -> Vec<Key> {
    let Some(claim) = change.new.as_ref().or(change.old.as_ref()) else { return Vec::new() };
    let name = text(claim, "metadata.name");
    let names_it = |job: &Value| {
        let volumes = at(job, "spec.volumes").and_then(Value::as_array);
        volumes.is_some_and(|volumes| volumes.iter().any(|volume| text(volume, "volumeClaimName") == name))
    };
    let jobs = cache.list(own::job(), Some(text(claim, "metadata.namespace"))).into_iter();
    jobs.filter(|job| names_it(job)).map(|job| key(own::job(), &job)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn routed(kind: &'static Kind, object: Value, cache: &Cache) -> Vec<String> {
        let change = Change { kind, old: None, new: Some(Arc::new(object)) };
        let told = |key: Key| format!("{} {}/{}", key.kind.full_name(), key.namespace, key.name);
        keys(&change, cache, &Realm::default()).into_iter().map(told).collect()
    }

    #[test]
    fn a_change_brings_those_that_it_concerns() {
        let cache = Cache::default();
        let job = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {"volumes": [{"volumeClaimName": "c"}]}});
        cache.put(own::job(), job);
        let owned = |api_version: &str, kind: &str| json!([{"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u", "controller": true}]);
        let pod = |owners: Value, more: Value| json!({"metadata": {"namespace": "n", "name": "p", "ownerReferences": owners, "annotations": more}, "spec": {"schedulerName": "volcano"}});
        let cases = [
            (own::pod(), pod(owned(BATCH, "Job"), json!({keys::GROUP: "g"})), vec!["Job.batch.volcano.sh n/x"]),
            (
                own::pod(),
                pod(owned("kubeflow.org/v1", "PyTorchJob"), json!({keys::GROUP: "g"})),
                vec!["PyTorchJob.kubeflow.org n/x"],
            ),
            (own::pod(), pod(owned("apps/v1", "ReplicaSet"), json!({})), vec!["Pod n/p", "ReplicaSet.apps n/x"]),
            (own::pod(), pod(json!([]), json!({})), vec!["Pod n/p"]),
            (own::pod(), json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "default-scheduler"}}), vec![]),
            (own::claim(), json!({"metadata": {"namespace": "n", "name": "c"}}), vec!["Job.batch.volcano.sh n/j"]),
            (
                own::queue(),
                json!({"metadata": {"name": "default"}}),
                vec!["Job.batch.volcano.sh n/j", "Queue.scheduling.volcano.sh /default"],
            ),
            (
                own::command(),
                json!({"metadata": {"namespace": "n"}, "target": {"apiVersion": BATCH, "kind": "Job", "name": "j"}}),
                vec!["Job.batch.volcano.sh n/j"],
            ),
            (
                own::command(),
                json!({"metadata": {"namespace": "n"}, "target": {"apiVersion": SCHEDULING, "kind": "Queue", "name": "q"}}),
                vec!["Queue.scheduling.volcano.sh /q"],
            ),
        ];
        for (kind, object, expected) in cases {
            assert_eq!(routed(kind, object.clone(), &cache), expected, "{object}");
        }
    }

    #[test]
    fn a_queue_is_looked_at_when_groups_come_and_go_and_not_when_they_fare() {
        let group = |queue: &str, phase: &str| {
            let object = json!({"metadata": {"namespace": "n", "name": "g"}, "spec": {"queue": queue}, "status": {"phase": phase}});
            Some(Arc::new(object))
        };
        let routed = |old, new| {
            let change = Change { kind: own::group(), old, new };
            let keys = keys(&change, &Cache::default(), &Realm::default()).into_iter();
            keys.map(|key| key.name).collect::<Vec<String>>()
        };
        assert_eq!(routed(None, group("a", "")), ["a"]);
        assert_eq!(routed(group("a", "Running"), None), ["a"]);
        assert_eq!(routed(group("a", ""), group("b", "")), ["a", "b"]);
        assert_eq!(routed(None, group("", "")), ["default"]);
        assert!(routed(group("a", "Pending"), group("a", "Running")).is_empty());
    }
}
