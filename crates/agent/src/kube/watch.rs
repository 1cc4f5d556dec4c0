//! Watching: one stream per kind, filtered by our label, fills the view for as long as the cluster is used.

use super::calls::Kind;
use super::view::{self, Place, Row};
use super::{Cluster, calls};
use futures::StreamExt;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;
use volley_plan::launch::label;

/// Follows a kind; `seen` becomes true once everything was listed, or is known not to be served.
pub async fn follow(cluster: Arc<Cluster>, kind: Kind, row: Row, seen: watch::Sender<bool>) {
    // Whoever may not look at a whole cluster may look at the agent's own namespace.
    let is_forbidden = watched(&cluster, &kind, row, None, &seen).await;
    if is_forbidden && let Some(namespace) = cluster.namespace.clone() {
        tracing::info!(kind = kind.resource.kind, namespace, "only this namespace may be watched");
        watched(&cluster, &kind, row, Some(&namespace), &seen).await;
    }
    seen.send_replace(true);
}

fn config(row: Row) -> watcher::Config {
    match row {
        Row::Workload | Row::Pod | Row::Helper => watcher::Config::default().labels(label::ITEM),
        Row::Group => watcher::Config::default(),
        Row::Event => watcher::Config::default().fields("type=Warning"),
    }
}

/// Follows until the kind may not be looked at, which it says, or is not served.
async fn watched(
    cluster: &Cluster,
    kind: &Kind,
    row: Row,
    namespace: Option<&str>,
    seen: &watch::Sender<bool>,
) -> bool {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &kind.resource),
        None => Api::all_with(cluster.client.clone(), &kind.resource),
    };
    let mut stream = pin!(watcher(api, config(row)).default_backoff());
    let mut before: BTreeSet<Place> = BTreeSet::new();
    let mut has_failed = false;
    while let Some(event) = stream.next().await {
        let keys = match event {
            Ok(Event::Init) => {
                if row == Row::Event {
                    cluster.view.forget_events();
                }
                before = cluster.view.places(row, &format!("{}/{}", kind.resource.api_version, kind.resource.kind));
                continue;
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let object = value(kind, row, object);
                before.remove(&view::place(row, &object));
                cluster.view.learn(row, object)
            }
            Ok(Event::Delete(object)) => {
                let object = value(kind, row, object);
                cluster.view.forget(&view::place(row, &object), Some(&object))
            }
            Ok(Event::InitDone) => {
                has_failed = false;
                seen.send_replace(true);
                std::mem::take(&mut before).iter().flat_map(|place| cluster.view.forget(place, None)).collect()
            }
            Err(watcher::Error::InitialListFailed(error)) if matches!(calls::code(&error), 403 | 404) => {
                return calls::code(&error) == 403;
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(kind = kind.resource.kind, %error, "failed to watch, will try again");
                }
                continue;
            }
        };
        keys.iter().for_each(|key| (cluster.wake)(key));
    }
    false
}

/// The object as JSON; those of a list do not say what they are. Contents of Secrets are not kept.
pub fn value(kind: &Kind, row: Row, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    let mut value = if row == Row::Helper || !object.data.is_object() { json!({}) } else { object.data };
    value["apiVersion"] = kind.resource.api_version.as_str().into();
    value["kind"] = kind.resource.kind.as_str().into();
    value["metadata"] = serde_json::to_value(object.metadata).expect("metadata is made of strings and numbers");
    value
}
