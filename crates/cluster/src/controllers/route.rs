//! Which controllers must look at what because an object changed.
//!
//! Called by `observe` for every change, after the indexes have taken it in. One line per dependency; what it costs is
//! the number of keys that come out.

use super::index::{Change, Child, Index, Version};
use super::queue::{Controller, Key, Queue};
use crate::apiserver::ApiServer;
use crate::apiserver::object;
use std::time::Duration;

/// The finalizer by which a Job keeps its pods until they are counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// A namespace that empties slowly is looked at this often, not at every object that goes.
const NAMESPACE_PACE: Duration = Duration::from_millis(100);

/// Families up to this size are looked at after every change.
const FAMILY_SMALL_MAX: usize = 100;
/// About what reading one object costs, so that following a family takes at most about half a core.
const PACE_PER_OBJECT: Duration = Duration::from_micros(50);
/// Upstream's period for gathering the pod changes of one Job.
const PACE_MAX: Duration = Duration::from_secs(1);

pub fn route(server: &ApiServer, index: &Index, change: &Change, queue: &Queue) {
    let add = |controller: Controller, name: &str| queue.add(Key::new(controller, name));
    let namespace = change.namespace();
    let key = &*change.key;
    let is_gone = change.new.is_none();
    match &*change.bucket {
        "pods" => route_pod(server, index, change, queue),
        "batch/jobs" => {
            add(Controller::Job, key);
            owners(index, change, ("CronJob", Controller::CronJob), queue);
            for version in change.old.iter().filter(|_| is_gone) {
                for pod in index.children(&version.head.metadata.uid, Child::Pod) {
                    queue.add(Key::new(Controller::TrackedPod, pod));
                }
            }
        }
        "batch/cronjobs" => add(Controller::CronJob, key),
        "apps/replicasets" => {
            add(Controller::ReplicaSet, key);
            owners(index, change, ("Deployment", Controller::Deployment), queue);
            adopters(index, change, &[Controller::Deployment], queue);
            index.all_of(namespace, Controller::Budget).into_iter().for_each(|budget| queue.add(budget));
        }
        "apps/deployments" => add(Controller::Deployment, key),
        "services" | "endpoints" => add(Controller::Endpoints, key),
        "discovery.k8s.io/endpointslices" => {
            for service in change.versions().filter_map(|v| v.head.metadata.labels.get("kubernetes.io/service-name")) {
                add(Controller::Endpoints, &object::key(namespace, service));
            }
        }
        "persistentvolumes" | "persistentvolumeclaims" | "storage.k8s.io/storageclasses" => {
            add(Controller::Volumes, "")
        }
        "resourcequotas" => add(Controller::Quota, namespace),
        "policy/poddisruptionbudgets" => add(Controller::Budget, key),
        "namespaces" => {
            add(Controller::Namespace, key);
            add(Controller::Account, key);
        }
        "serviceaccounts" => {
            if change.last().is_some_and(|version| version.head.metadata.name == "default") {
                add(Controller::Account, namespace);
            }
            let secrets = index.token_secrets(namespace);
            secrets.into_iter().for_each(|secret| queue.add(Key::new(Controller::TokenSecret, secret)));
        }
        "configmaps" if key.ends_with("/kube-root-ca.crt") => add(Controller::Account, namespace),
        "secrets" if index.token_secrets(namespace).iter().any(|secret| **secret == *key) => {
            add(Controller::TokenSecret, key);
        }
        "apiextensions.k8s.io/customresourcedefinitions" => add(Controller::Definition, key),
        "rbac.authorization.k8s.io/clusterroles" => add(Controller::ClusterRoles, ""),
        "nodes" => {
            add(Controller::NodeTaints, key);
            route_node(index, change, queue);
        }
        "events" => {
            if let Some(end) = index.next_event_end() {
                let left = u64::try_from(end - jiff::Timestamp::now().as_second()).unwrap_or(0);
                queue.add_after(Key::new(Controller::EventExpiry, ""), Duration::from_secs(left));
            }
        }
        _ => {}
    }
    route_any(index, change, queue);
}

/// What any object means to the controllers of all kinds.
fn route_any(index: &Index, change: &Change, queue: &Queue) {
    let namespace = change.namespace();
    let is_gone = change.new.is_none();
    if index.terminating_namespaces.contains(namespace) {
        let population = index.population(namespace);
        let is_turning_point = is_gone && (population.all == 0 || population.pods == 0);
        let key = Key::new(Controller::Namespace, namespace);
        if is_turning_point { queue.add(key) } else { queue.add_after(key, NAMESPACE_PACE) }
    }
    if is_gone && index.has_quota(namespace) {
        queue.add(Key::new(Controller::Quota, namespace));
    }
    if let Some(definition) = index.terminating_definitions.get(&*change.bucket) {
        queue.add(Key::new(Controller::Definition, definition.clone()));
    }
    let is_of_families = change.versions().any(|version| {
        let metadata = &version.head.metadata;
        !metadata.owner_references.is_empty() || metadata.is_deleting()
    });
    if is_gone || is_of_families {
        queue.add(Key::new(Controller::Garbage, ""));
    }
}

fn route_pod(server: &ApiServer, index: &Index, change: &Change, queue: &Queue) {
    let (namespace, key) = (change.namespace(), &change.key);
    owners(index, change, ("Job", Controller::Job), queue);
    owners(index, change, ("ReplicaSet", Controller::ReplicaSet), queue);
    adopters(index, change, &[Controller::ReplicaSet, Controller::Job], queue);
    for version in change.versions() {
        let labels = &version.head.metadata.labels;
        let watching = [Controller::Endpoints, Controller::Budget];
        let size = index.population(namespace).pods;
        index.selecting(namespace, labels, &watching).for_each(|key| add_paced(queue, key, size));
    }
    let had_ended = change.old.as_ref().is_some_and(|old| old.pod.has_ended());
    let has_ended = change.new.as_ref().is_none_or(|new| new.pod.has_ended());
    let just_ended = has_ended && !had_ended;
    if just_ended && index.has_quota(namespace) {
        queue.add(Key::new(Controller::Quota, namespace));
    }
    if change.versions().any(|version| version.pod.uses_claims()) && (change.old.is_none() || just_ended) {
        queue.add(Key::new(Controller::Volumes, ""));
    }
    let Some(new) = &change.new else {
        recreating_deployment(server, change, queue);
        return;
    };
    if new.head.metadata.has_finalizer(TRACKING_FINALIZER) && !is_job_there(server, new) {
        queue.add(Key::new(Controller::TrackedPod, key.clone()));
    }
    let nodes = server.store.bucket("nodes");
    let node = new.pod.node();
    if !node.is_empty() && (new.head.metadata.is_deleting() || server.store.get(&nodes, node).is_none()) {
        queue.add(Key::new(Controller::PodEnd, key.clone()));
    }
}

fn is_job_there(server: &ApiServer, pod: &Version) -> bool {
    let metadata = &pod.head.metadata;
    let jobs = server.store.bucket("batch/jobs");
    metadata
        .controller()
        .filter(|owner| owner.kind == "Job")
        .and_then(|owner| server.store.get(&jobs, &object::key(&metadata.namespace, &owner.name)))
        .is_some()
}

/// A Deployment that recreates waits for the last old pod to be gone.
fn recreating_deployment(server: &ApiServer, change: &Change, queue: &Queue) {
    let Some(pod) = change.last() else { return };
    let Some(owner) = pod.head.metadata.controller().filter(|owner| owner.kind == "ReplicaSet") else { return };
    let sets = server.store.bucket(Child::ReplicaSet.bucket());
    let set = server.store.get(&sets, &object::key(change.namespace(), &owner.name));
    let Some(set) = set.and_then(|stored| Version::of(sets.name(), &stored)) else { return };
    if let Some(deployment) = set.head.metadata.controller().filter(|owner| owner.kind == "Deployment") {
        queue.add(Key::new(Controller::Deployment, object::key(change.namespace(), &deployment.name)));
    }
}

fn route_node(index: &Index, change: &Change, queue: &Queue) {
    if change.new.is_none() || change.old.is_none() {
        let pods = index.pods_of_node(&change.key);
        pods.into_iter().for_each(|pod| queue.add(Key::new(Controller::PodEnd, pod)));
    }
}

/// The owners that control the object, before and after, if they are of this kind.
fn owners(index: &Index, change: &Change, (kind, controller): (&str, Controller), queue: &Queue) {
    for version in change.versions() {
        let metadata = &version.head.metadata;
        if let Some(owner) = metadata.controller().filter(|owner| owner.kind == kind) {
            let key = Key::new(controller, object::key(&metadata.namespace, &owner.name));
            add_paced(queue, key, index.children_count(&owner.uid));
        }
    }
}

/// Asks for a round that looks at `size` objects. The more there are, the more changes one round takes in together, so
/// that the cost of following a large family stays in proportion to its changes.
fn add_paced(queue: &Queue, key: Key, size: usize) {
    if size <= FAMILY_SMALL_MAX {
        return queue.add(key);
    }
    let delay = PACE_PER_OBJECT * u32::try_from(size).unwrap_or(u32::MAX);
    queue.add_after(key, delay.min(PACE_MAX));
}

/// Those who may adopt an object that nobody controls.
fn adopters(index: &Index, change: &Change, controllers: &[Controller], queue: &Queue) {
    let Some(new) = change.new.as_ref().filter(|new| new.head.metadata.controller().is_none()) else { return };
    index.selecting(change.namespace(), &new.head.metadata.labels, controllers).for_each(|key| queue.add(key));
}
