//! Watches: readers that hold a place in the rings and pull events at their own speed.
//!
//! There is no queue per watcher. A watcher that is slower than its ring is long learns that it lagged.
//! Both `next` functions may be cancelled: the place moves only when events are handed out.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::error::Lagged;
use super::memory::Memory;
use super::object::{Bucket, BucketEvent, Event, Revision};

/// Events handed out at once: enough to make the lock cheap, few enough to hold it only for microseconds.
const WATCH_BATCH_MAX: usize = 512;

/// A watch of one bucket.
pub struct Watch<M> {
    memory: Arc<RwLock<Memory<M>>>,
    bucket: Bucket,
    /// Everything up to here was handed out, or does not concern this watch.
    after: Revision,
    wake: watch::Receiver<Revision>,
}

impl<M> Watch<M> {
    pub(super) fn new(memory: Arc<RwLock<Memory<M>>>, bucket: Bucket, after: Revision) -> Watch<M> {
        let wake = memory.read().wake_of(&bucket);
        Watch { memory, bucket, after, wake }
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Waits for at least one event. It waits for ever once the store is closed.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event<M>>>, Lagged> {
        loop {
            self.wake.mark_unchanged();
            let events = self.try_next()?;
            if !events.is_empty() {
                return Ok(events);
            }
            wait(&mut self.wake).await;
        }
    }

    /// The events that are there now, possibly none.
    pub fn try_next(&mut self) -> Result<Vec<Arc<Event<M>>>, Lagged> {
        let memory = self.memory.read();
        let events = memory.events_after(&self.bucket, self.after, WATCH_BATCH_MAX)?;
        self.after =
            place_after(self.after, events.last().map(|event| event.revision), events.len(), memory.revision());
        Ok(events)
    }

    /// Everything up to this revision was delivered, also when the newest revisions are of other buckets.
    pub fn position(&self) -> Revision {
        let memory = self.memory.read();
        match memory.events_after(&self.bucket, self.after, 1) {
            Ok(events) if events.is_empty() => self.after.max(memory.revision()),
            Ok(_) | Err(_) => self.after,
        }
    }
}

/// A watch of every bucket, those that do not exist yet included.
pub struct WatchAll<M> {
    memory: Arc<RwLock<Memory<M>>>,
    after: Revision,
    wake: watch::Receiver<Revision>,
}

impl<M> WatchAll<M> {
    pub(super) fn new(memory: Arc<RwLock<Memory<M>>>, after: Revision) -> WatchAll<M> {
        let wake = memory.read().wake_of_all();
        WatchAll { memory, after, wake }
    }

    /// Waits for at least one event. It waits for ever once the store is closed.
    pub async fn next(&mut self) -> Result<Vec<BucketEvent<M>>, Lagged> {
        loop {
            self.wake.mark_unchanged();
            let events = self.try_next()?;
            if !events.is_empty() {
                return Ok(events);
            }
            wait(&mut self.wake).await;
        }
    }

    /// The events that are there now, possibly none.
    pub fn try_next(&mut self) -> Result<Vec<BucketEvent<M>>, Lagged> {
        let memory = self.memory.read();
        let events = memory.all_events_after(self.after, WATCH_BATCH_MAX)?;
        let last = events.last().map(|(_, event)| event.revision);
        self.after = place_after(self.after, last, events.len(), memory.revision());
        Ok(events)
    }

    /// Everything up to this revision was delivered.
    pub fn position(&self) -> Revision {
        self.after
    }
}

/// The place after a batch: behind its last event when the batch was cut, else behind everything there is.
fn place_after(after: Revision, last: Option<Revision>, count: usize, revision: Revision) -> Revision {
    match last {
        Some(last) if count == WATCH_BATCH_MAX => last,
        Some(_) | None => after.max(revision),
    }
}

async fn wait(wake: &mut watch::Receiver<Revision>) {
    if wake.changed().await.is_err() {
        // The sender lives in the memory that every watch holds, so this is only for the type's sake.
        std::future::pending::<()>().await;
    }
}
