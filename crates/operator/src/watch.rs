//! Watching: one stream per kind fills the cache. Kinds of others' making are watched while their definitions are there.

use crate::cache::place_of;
use crate::calls;
use crate::kinds::{KINDS, Kind, Source};
use crate::shell::Shell;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use tokio::task::{AbortHandle, JoinSet};
use volley_api::kube::text;

/// Watches everything until it is dropped.
pub async fn run(shell: Arc<Shell>) {
    let mut tasks = JoinSet::new();
    for kind in KINDS.iter().filter(|kind| kind.source == Source::Watched) {
        shell.readiness.expect(kind);
        tasks.spawn(follow(shell.clone(), kind));
    }
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(shell.calls.client().clone());
    let mut stream = pin!(watcher(definitions, watcher::Config::default()).default_backoff());
    let mut running: BTreeMap<&'static Kind, AbortHandle> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(definition) | Event::Apply(definition)) => {
                let Some(kind) = defined(&shell, definition.metadata.name.as_deref()) else { continue };
                listed.insert(kind);
                running.entry(kind).or_insert_with(|| {
                    shell.readiness.expect(kind);
                    tasks.spawn(follow(shell.clone(), kind))
                });
            }
            Ok(Event::Delete(definition)) => {
                if let Some(kind) = defined(&shell, definition.metadata.name.as_deref()) {
                    leave(&shell, kind, running.remove(kind));
                }
            }
            Ok(Event::InitDone) => {
                let undefined: Vec<_> = running.keys().copied().filter(|kind| !listed.contains(kind)).collect();
                undefined.into_iter().for_each(|kind| leave(&shell, kind, running.remove(kind)));
                shell.readiness.note_definitions();
            }
            Err(error) => tracing::warn!(%error, "failed to watch the definitions of kinds, will try again"),
        }
    }
}

/// The kind that a definition is of, if it is one that we look after.
fn defined(shell: &Shell, name: Option<&str>) -> Option<&'static Kind> {
    let schemes = &shell.options.schemes;
    let is_wanted = |kind: &Kind| {
        let is_training = kind.training.is_some();
        !is_training || schemes.is_empty() || schemes.contains(&kind.resource.kind.to_lowercase())
    };
    let mut custom = KINDS.iter().filter(|kind| kind.source == Source::Custom);
    custom.find(|kind| Some(&*kind.definition()) == name && is_wanted(kind))
}

/// The kind is no more, and neither are its objects.
fn leave(shell: &Shell, kind: &'static Kind, task: Option<AbortHandle>) {
    task.inspect(AbortHandle::abort);
    shell.served.lock().remove(kind);
    for (place, uid) in shell.cache.uids(kind) {
        shell.forget(kind, &place, &uid);
    }
    shell.readiness.note_listed(kind);
}

/// Follows one kind.
async fn follow(shell: Arc<Shell>, kind: &'static Kind) {
    let client = shell.calls.client().clone();
    let api: Api<DynamicObject> = match &shell.options.namespace {
        Some(namespace) if kind.is_namespaced => Api::namespaced_with(client, namespace, &kind.resource),
        _ => Api::all_with(client, &kind.resource),
    };
    let mut stream = pin!(watcher(api, watcher::Config::default()).default_backoff());
    // What was known before a new list began and is not in it has gone meanwhile.
    let mut before = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => before = shell.cache.uids(kind),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let object = value(kind, object);
                before.remove(&place_of(&object));
                shell.learn(kind, object);
            }
            Ok(Event::Delete(object)) => {
                let object = value(kind, object);
                shell.forget(kind, &place_of(&object), text(&object, "metadata.uid"));
            }
            Ok(Event::InitDone) => {
                std::mem::take(&mut before).iter().for_each(|(place, uid)| shell.forget(kind, place, uid));
                shell.served.lock().insert(kind);
                shell.readiness.note_listed(kind);
                shell.visit_kind(kind);
            }
            Err(error) => {
                tracing::debug!(kind = kind.full_name(), %error, "failed to watch, will try again");
                // A definition that is not served keeps nobody waiting.
                if is_unserved(&error) {
                    shell.readiness.note_listed(kind);
                }
            }
        }
    }
}

fn is_unserved(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(error) if calls::code(error) == 404)
}

/// The object as JSON; those of a list do not say what they are.
fn value(kind: &Kind, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    let mut value = object.data;
    if !value.is_object() {
        value = json!({});
    }
    value["apiVersion"] = kind.resource.api_version.as_str().into();
    value["kind"] = kind.resource.kind.as_str().into();
    value["metadata"] = serde_json::to_value(object.metadata).expect("metadata is made of strings and numbers");
    value
}
