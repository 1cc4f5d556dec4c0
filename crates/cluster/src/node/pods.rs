//! Which pods are on this node: one worker each, fed by what happens in the store.

use super::container::Referred;
use super::deeds::Note;
use super::record::Record;
use super::worker::{Adopted, NOTES_MAX, Worker};
use super::{Handle, Handles, Parts, paths};
use crate::apiserver::object::Stored;
use crate::store::EventKind;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_plan::node::is_terminal;
use volley_plan::node::seen::Eviction;

/// One pod that is here, or was and still has its logs here.
pub struct Entry {
    pub uid: String,
    outbox: mpsc::Sender<Note>,
    shown: Mutex<(Option<Handle>, Arc<Pod>)>,
    is_taken: AtomicBool,
    is_ending: AtomicBool,
    is_over: AtomicBool,
}

impl Entry {
    pub fn publish(&self, handle: Handle, pod: &Pod) {
        let mut shown = self.shown.lock();
        shown.0 = Some(handle);
        if *shown.1 != *pod {
            shown.1 = Arc::new(pod.clone());
        }
    }

    pub fn pod(&self) -> Arc<Pod> {
        self.shown.lock().1.clone()
    }

    pub fn handle(&self) -> Option<Handle> {
        self.shown.lock().0.clone()
    }

    /// Whether the node has admitted the pod.
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// Whether the pod is on its way out: what it holds will be free soon.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Whether the pod has ended for good and holds nothing.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Notes that the pod has ended; false if that was known.
    pub fn set_over(&self) -> bool {
        !self.is_over.swap(true, Ordering::AcqRel)
    }
}

#[derive(Default)]
pub struct Pods {
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
}

impl Pods {
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().values().cloned().collect()
    }

    pub fn entry(&self, uid: &str) -> Option<Arc<Entry>> {
        self.entries.lock().get(uid).cloned()
    }

    /// Notes that the node has admitted the pod.
    pub fn take(&self, uid: &str) {
        if let Some(entry) = self.entries.lock().get(uid) {
            entry.is_taken.store(true, Ordering::Release);
        }
    }

    pub fn evict(&self, uid: &str, eviction: Eviction) {
        if let Some(entry) = self.entry(uid) {
            // A full mailbox belongs to a pod that is busy; the next look at the pressure comes soon.
            let _told_later = entry.outbox.try_send(Note::Evict(eviction));
        }
    }
}

impl Handles for Pods {
    fn find(&self, pod_uid: &str) -> Option<Handle> {
        self.entry(pod_uid)?.handle()
    }

    fn all(&self) -> Vec<(String, Handle)> {
        self.entries().iter().filter_map(|entry| Some((entry.uid.clone(), entry.handle()?))).collect()
    }
}

/// The fields that tell whether a pod is ours, without parsing the rest.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: HeadMeta,
    #[serde(default)]
    spec: HeadSpec,
}

#[derive(Deserialize, Default)]
struct HeadMeta {
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize, Default)]
struct HeadSpec {
    #[serde(default, rename = "nodeName")]
    node: String,
}

/// How a pod stands before its worker has looked at it. Pods that are admitted meanwhile go by this, and whoever bound
/// them counted on all that the objects say: after a restart most of what is here has ended long ago.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    is_taken: bool,
    is_ending: bool,
    is_over: bool,
}

impl Standing {
    fn of(pod: &Pod, record: Option<&Record>) -> Standing {
        let is_told = is_terminal(pod);
        let holds = |record: &Record| record.seen.is_anything_alive() || !record.granted.is_empty();
        Standing {
            is_taken: record.is_some_and(|record| record.seen.accepted_at.is_some()),
            is_ending: pod.metadata.deletion_timestamp.is_some() || is_told,
            is_over: is_told && !record.is_some_and(holds),
        }
    }
}

/// The feeder of all workers.
pub struct Feeder {
    pub parts: Arc<Parts>,
    pub left: BTreeMap<String, Adopted>,
    pub stop: CancellationToken,
    pub workers: TaskTracker,
}

impl Feeder {
    /// Brings what happens to the workers until the node stops.
    pub async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.feed() => {}
        }
        self.workers.close();
        self.workers.wait().await;
    }

    async fn feed(&mut self) {
        let store = self.parts.server.store.clone();
        let [config_maps, secrets] = ["configmaps", "secrets"].map(|name| store.bucket(name));
        loop {
            let (listing, mut pods) = store.list_and_watch(&store.bucket("pods"), "");
            let revision = store.revision();
            let (Ok(mut config_maps), Ok(mut secrets)) =
                (store.watch(&config_maps, revision), store.watch(&secrets, revision))
            else {
                continue;
            };
            self.take_listing(&listing.entries).await;
            loop {
                tokio::select! {
                    events = pods.next() => {
                        let Ok(events) = events else { break };
                        for event in events {
                            match event.kind {
                                EventKind::Deleted => self.lose(&event.entry).await,
                                EventKind::Created | EventKind::Updated => drop(self.take(&event.entry).await),
                            }
                        }
                    }
                    events = config_maps.next() => {
                        let Ok(events) = events else { break };
                        events.iter().for_each(|event| self.refresh(&event.entry.key, |referred| &referred.config_maps));
                    }
                    events = secrets.next() => {
                        let Ok(events) = events else { break };
                        events.iter().for_each(|event| self.refresh(&event.entry.key, |referred| &referred.secrets));
                    }
                }
            }
            tracing::warn!("the node fell behind and looks at all pods again");
        }
    }

    async fn take_listing(&mut self, stored: &[Arc<Stored>]) {
        let mut listed = BTreeSet::new();
        let here: BTreeSet<String> = stored.iter().filter_map(|entry| self.uid_here(entry)).collect();
        // First those whose objects are gone: a pod that was bound meanwhile waits for what they still hold.
        let (left, lost) = std::mem::take(&mut self.left).into_iter().partition(|(uid, _)| here.contains(uid));
        self.left = left;
        for (uid, adopted) in lost {
            let entry = self.spawn(uid, adopted.record.pod.clone(), Some(adopted));
            entry.is_ending.store(true, Ordering::Release);
            let _ends_by_itself = entry.outbox.send(Note::Gone).await;
        }
        for entry in stored {
            listed.extend(self.take(entry).await);
        }
        let known: Vec<Arc<Entry>> = self.parts.pods.entries();
        for entry in known.iter().filter(|entry| !listed.contains(&entry.uid)) {
            let _gone_already = entry.outbox.send(Note::Gone).await;
        }
    }

    /// The uid of a stored pod, if it is bound to this node.
    fn uid_here(&self, stored: &Stored) -> Option<String> {
        let head: Head = serde_json::from_slice(&stored.value).ok()?;
        (head.spec.node == self.parts.machine.name).then_some(head.metadata.uid)
    }

    /// Hands a stored pod to its worker, if it is bound to this node; its uid then.
    async fn take(&mut self, stored: &Stored) -> Option<String> {
        let uid = self.uid_here(stored)?;
        let pod: Pod = serde_json::from_slice(&stored.value).ok()?;
        if let Some(entry) = self.parts.pods.entry(&uid) {
            entry.is_ending.fetch_or(pod.metadata.deletion_timestamp.is_some(), Ordering::AcqRel);
            let is_at_rest = entry.outbox.send(Note::Object(Box::new(pod.clone()))).await.is_err();
            if !is_at_rest || pod.metadata.deletion_timestamp.is_none() {
                return Some(uid);
            }
        }
        let adopted = self.left.remove(&uid).or_else(|| self.recall(&uid));
        self.spawn(uid.clone(), pod, adopted);
        Some(uid)
    }

    async fn lose(&mut self, stored: &Stored) {
        let Ok(head) = serde_json::from_slice::<Head>(&stored.value) else { return };
        let Some(entry) = self.parts.pods.entry(&head.metadata.uid) else { return };
        // At once: a pod that takes its place may be the next one here.
        entry.is_ending.store(true, Ordering::Release);
        if entry.outbox.send(Note::Gone).await.is_ok() {
            return;
        }
        // Its worker is at rest.
        let uid = head.metadata.uid;
        let adopted = self.recall(&uid);
        let entry = self.spawn(uid, (*entry.pod()).clone(), adopted);
        let _ends_by_itself = entry.outbox.send(Note::Gone).await;
    }

    /// What a worker left when it went to rest.
    fn recall(&self, uid: &str) -> Option<Adopted> {
        let record = Record::read(&paths::pods(&self.parts.home).join(uid))?;
        Some(Adopted { record, shim: None })
    }

    fn spawn(&self, uid: String, pod: Pod, adopted: Option<Adopted>) -> Arc<Entry> {
        let (outbox, inbox) = mpsc::channel(NOTES_MAX);
        let standing = Standing::of(&pod, adopted.as_ref().map(|adopted| &adopted.record));
        // Whoever reads the files of a pod at rest goes on doing so.
        let handle = self.parts.pods.find(&uid);
        let entry = Arc::new(Entry {
            uid: uid.clone(),
            outbox: outbox.clone(),
            shown: Mutex::new((handle, Arc::new(pod.clone()))),
            is_taken: AtomicBool::new(standing.is_taken),
            is_ending: AtomicBool::new(standing.is_ending),
            is_over: AtomicBool::new(standing.is_over),
        });
        self.parts.pods.entries.lock().insert(uid.clone(), entry.clone());
        let worker = Worker::new(self.parts.clone(), entry.clone(), pod, adopted, (outbox, inbox));
        let (stop, parts) = (self.stop.clone(), self.parts.clone());
        self.workers.spawn(async move {
            if worker.run(stop).await.is_gone() {
                parts.pods.entries.lock().remove(&uid);
            }
        });
        entry
    }

    /// Something changed that volumes of some pods are made of.
    fn refresh(&self, key: &str, names: impl Fn(&Referred) -> &BTreeSet<String>) {
        let Some((namespace, name)) = key.split_once('/') else { return };
        for entry in self.parts.pods.entries() {
            let pod = entry.pod();
            let is_there = pod.metadata.namespace.as_deref() == Some(namespace) && !entry.is_over();
            if is_there && names(&Referred::of(&pod)).contains(name) {
                // One that waits already does the same.
                let _one_is_enough = entry.outbox.try_send(Note::Refresh);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use volley_plan::node::seen::{Attempt, ContainerSeen, Seen, State};

    // A pod that was bound before a restart is not refused for what others held that have ended since.
    #[test]
    fn a_pod_that_is_told_to_have_ended_holds_nothing_from_the_first_moment() {
        let check = |pod: Value, running: bool, [is_taken, is_ending, is_over]: [bool; 3]| {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let state = if running { State::Creating(Attempt::default()) } else { State::NotCreated };
            let mut seen = Seen { accepted_at: Some(jiff::Timestamp::UNIX_EPOCH), ..Seen::default() };
            seen.containers.insert("c".to_owned(), ContainerSeen { state, ..ContainerSeen::default() });
            let record = Record { pod: pod.clone(), seen, granted: BTreeMap::new() };
            assert_eq!(Standing::of(&pod, Some(&record)), Standing { is_taken, is_ending, is_over }, "{pod:?}");
        };
        check(json!({ "status": { "phase": "Running" } }), true, [true, false, false]);
        check(json!({ "status": { "phase": "Succeeded" } }), false, [true, true, true]);
        check(json!({ "status": { "phase": "Failed" } }), true, [true, true, false]);
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        check(deleted, true, [true, true, false]);
        let bound = Standing { is_taken: false, is_ending: false, is_over: false };
        assert_eq!(Standing::of(&Pod::default(), None), bound);
    }
}
