//! Observing: one reader of the store's events keeps the indexes and the garbage graph, and fills the queue.
//!
//! Controllers call `look` before they plan. It takes in every event up to this moment, so that what a controller
//! wrote a moment ago is never missed; there is no cache that could lag behind.

use super::index::{Change, Index, Version};
use super::queue::{Controller, Key, Queue};
use super::route;
use crate::apiserver::ApiServer;
use crate::apiserver::object::{Meta, Stored};
use crate::store::{Event, EventKind, WatchAll};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use volley_plan::control::garbage::Graph;

/// Everything the controllers remember about the store.
pub struct View {
    watch: Option<WatchAll<Meta>>,
    pub index: Index,
    pub graph: Graph,
}

pub struct Observer {
    server: Arc<ApiServer>,
    view: Mutex<View>,
}

impl Observer {
    pub fn new(server: Arc<ApiServer>) -> Observer {
        Observer { server, view: Mutex::new(View { watch: None, index: Index::default(), graph: Graph::default() }) }
    }

    /// The indexes, up to date with everything that is committed.
    pub fn look(&self, queue: &Queue) -> MutexGuard<'_, View> {
        let mut view = self.view.lock();
        loop {
            let Some(watch) = view.watch.as_mut() else {
                self.start_over(&mut view, queue);
                continue;
            };
            match watch.try_next() {
                Ok(events) if events.is_empty() => return view,
                Ok(events) => {
                    for (bucket, event) in events {
                        take_in(&self.server, &mut view, queue, bucket.name(), &event);
                    }
                }
                Err(lagged) => {
                    tracing::warn!(%lagged, "the controllers fell behind and look at everything again");
                    view.watch = None;
                }
            }
        }
    }

    /// Waits until something is committed.
    pub async fn changed(&self, wake: &mut Option<WatchAll<Meta>>) {
        let store = &self.server.store;
        if wake.is_none() {
            *wake = store.watch_all(store.revision()).ok();
        }
        if let Some(watch) = wake
            && watch.next().await.is_err()
        {
            // Only the wake-up matters here; the events themselves are read by `look`.
            *wake = None;
        }
    }

    /// Builds the indexes from what is stored and queues every object once.
    fn start_over(&self, view: &mut View, queue: &Queue) {
        let store = &self.server.store;
        let revision = store.revision();
        view.index = Index::default();
        view.graph = Graph::default();
        let mut changes = Vec::new();
        for bucket in store.buckets() {
            // One revision for all buckets, so that the events after it fit what was listed.
            let Ok(listing) = store.list_at(&bucket, "", revision) else { return };
            changes.extend(listing.entries.iter().filter_map(|stored| change(bucket.name(), Some(stored), None)));
        }
        // All are known before the first is routed: an owner that is not yet seen would count as gone.
        for change in &changes {
            learn(view, change);
        }
        for change in &changes {
            route::route(&self.server, &view.index, change, queue);
        }
        queue.add(Key::new(Controller::Garbage, ""));
        view.watch = store.watch_all(revision).ok();
    }
}

fn take_in(server: &ApiServer, view: &mut View, queue: &Queue, bucket: &str, event: &Event<Meta>) {
    let new = Some(&event.entry).filter(|_| event.kind != EventKind::Deleted);
    // The last state of a deleted object stands for the state before where the store has none.
    let old = event.previous.as_ref().or(Some(&event.entry).filter(|_| event.kind == EventKind::Deleted));
    if let Some(change) = change(bucket, new, old) {
        learn(view, &change);
        route::route(server, &view.index, &change, queue);
    }
}

fn change(bucket: &str, new: Option<&Arc<Stored>>, old: Option<&Arc<Stored>>) -> Option<Change> {
    let key = &new.or(old)?.key;
    let version = |stored: Option<&Arc<Stored>>| stored.and_then(|stored| Version::of(bucket, stored));
    Some(Change { bucket: bucket.into(), key: (**key).into(), old: version(old), new: version(new) })
}

fn learn(view: &mut View, change: &Change) {
    view.index.apply(change);
    // Like the reference, events take no part in garbage collection; they end by themselves.
    if &*change.bucket == "events" {
        return;
    }
    match (&change.new, &change.old) {
        (Some(new), _) => view.graph.observe(&new.head.api_version, &new.head.kind, &new.head.metadata.to_metadata()),
        (None, Some(old)) => view.graph.forget(&old.head.metadata.uid),
        (None, None) => {}
    }
}
