//! The decisions of the built-in controllers: what is seen goes in, what to do comes out as data.
//!
//! Each controller is one file with `plan(seen, now) -> Plan`. A shell observes objects, asks for a plan, applies its
//! actions in order, records its events and comes back after `requeue_after`. Planning again after that changes nothing.

mod claim;
mod percent;
pub(crate) mod pods;

pub mod job;
pub(crate) mod job_indexes;
mod job_pods;
mod job_policy;
mod job_scale;
mod job_track;

pub mod replicaset;

pub mod deployment;
mod deployment_sets;
mod deployment_status;

pub mod account;
pub mod cronjob;
pub mod garbage;
pub mod namespace;

pub mod endpoints;
pub mod node;
pub mod volumes;

pub mod runs;

pub mod disruption;
pub mod quota;
pub mod ttl;

#[cfg(test)]
mod deployment_tests;
#[cfg(test)]
mod job_tests;
#[cfg(test)]
pub(crate) mod world;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::{Metadata, Resource};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What a controller wants done, complete and in order; nothing is left to choose while applying it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Applied one after the other; the first failure ends the round and the shell observes again.
    pub actions: Vec<Action>,
    /// Recorded once all actions have landed.
    pub events: Vec<Event>,
    /// Seconds after which to plan again even if nothing is seen to change.
    pub requeue_after: Option<u64>,
}

impl Plan {
    /// Whether there is nothing to write and nothing to say (a later visit may still be asked for).
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.events.is_empty()
    }

    /// Asks for another visit in `seconds`, keeping an earlier one that was asked for already.
    pub(crate) fn requeue(&mut self, seconds: i64) {
        let seconds = u64::try_from(seconds).unwrap_or(0).max(1);
        self.requeue_after = Some(self.requeue_after.map_or(seconds, |earlier| earlier.min(seconds)));
    }

    fn delete(&mut self, target: Target) {
        self.actions.push(Action::Delete { target, propagation: Propagation::Background });
    }

    /// Creates what was not there before, else patches what differs.
    fn write<T>(&mut self, before: Option<&T>, after: &T)
    where
        T: Resource + Metadata<Ty = ObjectMeta> + Serialize,
    {
        let Some(before) = before else {
            return self.actions.push(Action::Create { object: to_value(after), event: None });
        };
        if let Some(patch) = difference(&to_value(before), &to_value(after)) {
            self.actions.push(Action::Patch { target: Target::of(before), patch });
        }
    }

    /// Writes the status of `object` if the new one differs from the old one.
    fn status<T, S>(&mut self, object: &T, old: Option<&S>, new: &S)
    where
        T: Resource + Metadata<Ty = ObjectMeta>,
        S: Serialize,
    {
        let old = old.map_or_else(|| json!({}), to_value);
        if let Some(patch) = difference(&old, &to_value(new)) {
            self.actions.push(Action::PatchStatus { target: Target::of(object), patch: json!({ "status": patch }) });
        }
    }
}

/// One write. Patches are JSON merge patches; those that replace a list carry the resourceVersion they were made from.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Creates an object; afterwards its event is recorded with `{name}` replaced by the name that the server gave.
    Create {
        object: Value,
        event: Option<Event>,
    },
    /// Deletes the object if it still has the target's uid.
    Delete {
        target: Target,
        propagation: Propagation,
    },
    Patch {
        target: Target,
        patch: Value,
    },
    PatchStatus {
        target: Target,
        patch: Value,
    },
    /// Patches a namespace through its subresource `finalize`.
    Finalize {
        target: Target,
        patch: Value,
    },
}

/// What becomes of the dependants of a deleted object (K-DEL-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The object that a write or an event is about; `namespace` is `None` for cluster-scoped kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    /// Empty when any object of that name will do.
    pub uid: String,
}

impl Target {
    /// The patch, refused if another object has taken this one's name.
    pub fn guard(&self, mut patch: Value) -> Value {
        if !self.uid.is_empty() && patch.is_object() {
            patch["metadata"]["uid"] = self.uid.as_str().into();
        }
        patch
    }

    pub fn of<T: Resource + Metadata<Ty = ObjectMeta>>(object: &T) -> Self {
        let metadata = object.metadata();
        Target {
            api_version: T::API_VERSION.to_owned(),
            kind: T::KIND.to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}

/// An event to record about an object (spec K 22); the shell fills in times, counts and the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventType,
    pub reason: String,
    pub message: String,
    pub about: Target,
    /// The component named as its source, for example `job-controller`.
    pub component: &'static str,
    /// `involvedObject.fieldPath`, for events about one container.
    pub field_path: Option<String>,
}

/// Who speaks about which object: makes the events of one controller for one object.
#[derive(Clone)]
pub(crate) struct Voice {
    pub(crate) about: Target,
    pub(crate) component: &'static str,
}

impl Voice {
    fn new<T: Resource + Metadata<Ty = ObjectMeta>>(object: &T, component: &'static str) -> Self {
        Voice { about: Target::of(object), component }
    }

    pub(crate) fn normal(&self, reason: &str, message: impl Into<String>) -> Event {
        self.event(EventType::Normal, reason, message.into())
    }

    pub(crate) fn warning(&self, reason: &str, message: impl Into<String>) -> Event {
        self.event(EventType::Warning, reason, message.into())
    }

    fn event(&self, kind: EventType, reason: &str, message: String) -> Event {
        Event {
            kind,
            reason: reason.to_owned(),
            message,
            about: self.about.clone(),
            component: self.component,
            field_path: None,
        }
    }
}

/// The owner reference by which `owner` controls what it creates.
fn controller_reference<T: Resource + Metadata<Ty = ObjectMeta>>(owner: &T) -> OwnerReference {
    let metadata = owner.metadata();
    OwnerReference {
        api_version: T::API_VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The uid of the owner that controls the object, if one does.
pub(crate) fn controller_uid(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.as_deref().unwrap_or_default().iter().any(|name| name == finalizer)
}

/// A patch that leaves the object with these finalizers, refused if the object has changed meanwhile.
fn without_finalizer<T: Resource + Metadata<Ty = ObjectMeta>>(object: &T, finalizer: &str) -> Action {
    let metadata = object.metadata();
    let kept: Vec<_> =
        metadata.finalizers.as_deref().unwrap_or_default().iter().filter(|name| *name != finalizer).collect();
    let patch = json!({ "metadata": { "finalizers": kept, "resourceVersion": metadata.resource_version } });
    Action::Patch { target: Target::of(object), patch }
}

/// The metadata's name, or `""`: every stored object has one.
pub(crate) fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn uid_of(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// A wire time: Kubernetes keeps whole seconds, so a time that is compared later must not carry more.
pub(crate) fn wire_time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("a timestamp's seconds make a timestamp"))
}

/// Whole seconds from `then` until `now`; negative when `then` lies ahead.
pub(crate) fn seconds_since(then: Timestamp, now: Timestamp) -> i64 {
    now.as_second() - then.as_second()
}

pub(crate) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("Kubernetes types serialise to JSON: their keys are strings")
}

/// The JSON merge patch that turns `old` into `new`, or `None` if they are equal.
pub(crate) fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let before = old.get(key).unwrap_or(&Value::Null);
        if let Some(inner) = difference(before, value) {
            patch.insert(key.clone(), inner);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_patch_names_the_uid_that_it_is_meant_for() {
        let mut target = crate::job::head::target_of(&json!({"metadata": {"name": "j", "uid": "u"}}));
        let patch = json!({"metadata": {"resourceVersion": "3"}});
        assert_eq!(target.guard(patch.clone()), json!({"metadata": {"resourceVersion": "3", "uid": "u"}}));
        target.uid.clear();
        assert_eq!(target.guard(patch.clone()), patch);
    }
}
