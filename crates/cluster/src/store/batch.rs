//! Deciding a batch: which transactions meet their expectations, and what each write becomes.
//!
//! Pure: memory in, staged events and answers out. The writer makes them durable and visible afterwards.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

use super::error::CommitError;
use super::format::{FrameBuilder, Record, record_bytes};
use super::memory::{Memory, Staged};
use super::object::{Bucket, Change, Draft, Entry, Event, EventKind, Expect, Revision, Write};

/// A single transaction may be this long; far above any request that the API server accepts.
const TRANSACTION_BYTES_MAX: u64 = 64 << 20;

/// A key and the index of its bucket.
type Place = (usize, Box<str>);

type Answer<M> = Result<Vec<Arc<Entry<M>>>, CommitError<M>>;

pub(super) struct Transaction<M> {
    pub writes: Vec<Write<M>>,
    pub reply: oneshot::Sender<Answer<M>>,
}

/// Transactions decided together, and what they will do.
pub(super) struct Batch<M> {
    /// The revision before the batch.
    pub base: Revision,
    pub staged: Vec<Staged<M>>,
    /// The newest staged event of each key, which later writes of the batch must expect.
    newest: HashMap<Place, usize>,
    pub answers: Vec<(oneshot::Sender<Answer<M>>, Answer<M>)>,
}

impl<M> Batch<M> {
    pub fn new(base: Revision) -> Batch<M> {
        Batch { base, staged: Vec::new(), newest: HashMap::new(), answers: Vec::new() }
    }

    /// Stages the whole transaction or nothing of it.
    pub fn add(&mut self, transaction: Transaction<M>, memory: &Memory<M>, frame: &mut FrameBuilder) {
        let Transaction { writes, reply } = transaction;
        if let Some(refusal) = refuse_size(&writes) {
            self.answers.push((reply, Err(CommitError::Io(Arc::new(refusal)))));
            return;
        }
        let start = self.staged.len();
        let mut replaced = Vec::with_capacity(writes.len());
        for (index, write) in writes.into_iter().enumerate() {
            let current = self.current(memory, &write.bucket, &write.key);
            if !is_expected(&write, current.as_ref()) {
                self.unstage(start, replaced);
                self.answers.push((reply, Err(CommitError::Conflict { index, current })));
                return;
            }
            let place = (write.bucket.index, write.key.clone());
            let before = self.newest.insert(place.clone(), self.staged.len());
            replaced.push((place, before));
            let revision = self.base + self.staged.len() as Revision + 1;
            self.staged.push(stage(write, current, revision));
        }
        let added = &self.staged[start..];
        added.iter().for_each(|staged| frame.push(&record_of(staged)));
        self.answers.push((reply, Ok(added.iter().map(|staged| staged.event.entry.clone()).collect())));
    }

    fn current(&self, memory: &Memory<M>, bucket: &Bucket, key: &str) -> Option<Arc<Entry<M>>> {
        match self.newest.get(&(bucket.index, Box::from(key))) {
            Some(index) => live_entry(&self.staged[*index].event),
            None => memory.get(bucket, key).cloned(),
        }
    }

    fn unstage(&mut self, start: usize, replaced: Vec<(Place, Option<usize>)>) {
        self.staged.truncate(start);
        for (place, before) in replaced.into_iter().rev() {
            match before {
                Some(index) => self.newest.insert(place, index),
                None => self.newest.remove(&place),
            };
        }
    }
}

fn live_entry<M>(event: &Event<M>) -> Option<Arc<Entry<M>>> {
    match event.kind {
        EventKind::Created | EventKind::Updated => Some(event.entry.clone()),
        EventKind::Deleted => None,
    }
}

fn is_expected<M>(write: &Write<M>, current: Option<&Arc<Entry<M>>>) -> bool {
    let meets_expectation = match write.expect {
        Expect::Absent => current.is_none(),
        Expect::Revision(revision) => current.is_some_and(|entry| entry.revision == revision),
        Expect::Any => true,
    };
    let has_subject = match write.change {
        Change::Put(_) => true,
        Change::Delete(_) => current.is_some(),
    };
    meets_expectation && has_subject
}

fn stage<M>(write: Write<M>, previous: Option<Arc<Entry<M>>>, revision: Revision) -> Staged<M> {
    let (draft, kind): (Draft<M>, EventKind) = match (write.change, &previous) {
        (Change::Put(draft), None) => (draft, EventKind::Created),
        (Change::Put(draft), Some(_)) => (draft, EventKind::Updated),
        (Change::Delete(draft), _) => (draft, EventKind::Deleted),
    };
    let entry = Arc::new(draft.into_entry(write.key, revision));
    let event = Arc::new(Event { revision, kind, entry, previous, line: OnceLock::new() });
    Staged { bucket: write.bucket, event }
}

fn record_of<M>(staged: &Staged<M>) -> Record<'_> {
    let entry = &staged.event.entry;
    let value = match staged.event.kind {
        EventKind::Created | EventKind::Updated => Some(&entry.value[..]),
        EventKind::Deleted => None,
    };
    Record { revision: entry.revision, bucket: &staged.bucket.name, key: &entry.key, value }
}

/// Lengths that the format cannot hold, or that would hold up everybody else.
fn refuse_size<M>(writes: &[Write<M>]) -> Option<io::Error> {
    let mut bytes = 0;
    for write in writes {
        let (Change::Put(draft) | Change::Delete(draft)) = &write.change;
        bytes += record_bytes(&write.bucket.name, &write.key, &[]) + (draft.head.len() + draft.tail.len()) as u64;
        if write.bucket.name.len() > usize::from(u16::MAX) {
            return Some(io::Error::new(io::ErrorKind::InvalidInput, "a bucket's name is longer than 65535 bytes"));
        }
    }
    let message = || format!("a transaction of {bytes} bytes is over the limit of {TRANSACTION_BYTES_MAX}");
    (bytes > TRANSACTION_BYTES_MAX).then(|| io::Error::new(io::ErrorKind::FileTooLarge, message()))
}
