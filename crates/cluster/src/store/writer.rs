//! The one writer: drains what waits, decides it against memory, appends one frame, syncs once, then shows it.
//!
//! Only this thread changes the log and the memory. Nobody is answered before the batch is durable, not even a
//! conflict, because a conflict may be with a write of the same batch.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use super::Options;
use super::compact::{Compaction, Prepared};
use super::error::{CommitError, StoreError};
use super::format::{FrameBuilder, Record, record_bytes};
use super::log::{AppendError, Log};
use super::memory::{Memory, Staged};
use super::object::{Bucket, Change, Draft, Entry, Event, EventKind, Expect, Revision, Write};

/// Transactions in one frame: enough that a sync is shared by every writer of a busy cluster, few enough that
/// the first of them does not wait noticeably for the last to be checked.
const BATCH_TRANSACTIONS_MAX: usize = 512;

/// A batch takes no more transactions once its frame is this long, which keeps a sync in the tens of milliseconds.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// A single transaction may be this long; far above any request that the API server accepts.
const TRANSACTION_BYTES_MAX: u64 = 64 << 20;

/// Frame memory that is kept between batches.
const FRAME_BYTES_KEPT: usize = 1 << 20;

type Answer<M> = Result<Vec<Arc<Entry<M>>>, CommitError<M>>;

pub(super) struct Transaction<M> {
    pub writes: Vec<Write<M>>,
    pub reply: oneshot::Sender<Answer<M>>,
}

pub(super) enum Message<M> {
    Commit(Transaction<M>),
    Compact(oneshot::Sender<Result<(), StoreError>>),
    /// The compaction thread has written all but the newest frames.
    Prepared(Result<Prepared, StoreError>),
}

pub(super) struct Writer<M> {
    memory: Arc<RwLock<Memory<M>>>,
    /// Absent in a store without a disk.
    log: Option<Log>,
    options: Options,
    /// Weak, so that the queue closes when the store is dropped.
    requests: mpsc::WeakSender<Message<M>>,
    frame: FrameBuilder,
    /// Set by a failure after which nothing may be acknowledged any more.
    broken: Option<Arc<io::Error>>,
    compaction: Option<Compaction>,
    /// After a failed compaction the next waits until the log is this long.
    compact_again_at: u64,
}

impl<M: Send + Sync + 'static> Writer<M> {
    pub fn new(
        memory: Arc<RwLock<Memory<M>>>,
        log: Option<Log>,
        options: Options,
        requests: mpsc::WeakSender<Message<M>>,
    ) -> Writer<M> {
        let frame = FrameBuilder::new();
        Writer { memory, log, options, requests, frame, broken: None, compaction: None, compact_again_at: 0 }
    }

    pub fn run(mut self, mut queue: mpsc::Receiver<Message<M>>) {
        while let Some(message) = queue.blocking_recv() {
            let mut next = Some(message);
            while let Some(message) = next.take() {
                match message {
                    Message::Commit(first) => next = self.commit_batch(first, &mut queue),
                    Message::Compact(reply) => self.start_compaction(Some(reply)),
                    Message::Prepared(prepared) => self.finish_compaction(prepared),
                }
            }
            self.compact_when_it_pays();
        }
        if let Some(compaction) = self.compaction.take() {
            compaction.cancel();
        }
    }

    /// Commits `first` and what waits behind it; hands back a message of another sort that ended the batch.
    fn commit_batch(&mut self, first: Transaction<M>, queue: &mut mpsc::Receiver<Message<M>>) -> Option<Message<M>> {
        let mut batch = Batch::new(self.memory.read().revision());
        let mut next = Some(first);
        let mut interruption = None;
        while let Some(transaction) = next.take() {
            batch.add(transaction, &self.memory.read(), &mut self.frame);
            if batch.answers.len() == BATCH_TRANSACTIONS_MAX || self.frame.len() > BATCH_BYTES_MAX {
                break;
            }
            match queue.try_recv() {
                Ok(Message::Commit(transaction)) => next = Some(transaction),
                Ok(other) => interruption = Some(other),
                Err(_) => {}
            }
        }
        self.finish_batch(batch);
        self.frame.clear(FRAME_BYTES_KEPT);
        interruption
    }

    fn finish_batch(&mut self, batch: Batch<M>) {
        if let Err(failure) = self.make_durable(&batch) {
            for (reply, _) in batch.answers {
                // A caller that stopped waiting does not need its answer; the same holds below.
                let _ = reply.send(Err(failure.to_commit_error()));
            }
            return;
        }
        let touched = self.show(batch.staged);
        for (reply, answer) in batch.answers {
            let _ = reply.send(answer);
        }
        // Waking a thousand watchers takes longer than the commit, so writers are answered first.
        self.memory.read().wake(&touched);
    }

    fn make_durable(&mut self, batch: &Batch<M>) -> Result<(), Failure> {
        if let Some(error) = &self.broken {
            return Err(Failure::Broken(error.clone()));
        }
        let Some(log) = self.log.as_mut().filter(|_| !self.frame.is_empty()) else { return Ok(()) };
        log.append(self.frame.finish(batch.base + 1)).map_err(|error| match error {
            AppendError::Full(error) => {
                tracing::warn!(file = %log.path.display(), %error, "no space for a write; it was rolled back");
                Failure::Full(Arc::new(error))
            }
            AppendError::Broken(error) => {
                tracing::error!(
                    file = %log.path.display(), %error,
                    "a write failed and what is on the disk is unknown; the store is read-only until it is opened again"
                );
                let error = Arc::new(error);
                self.broken = Some(error.clone());
                Failure::Broken(error)
            }
        })
    }

    /// Makes the batch visible and names its buckets.
    fn show(&self, staged: Vec<Staged<M>>) -> Vec<Bucket> {
        let mut touched: Vec<Bucket> = staged.iter().map(|staged| staged.bucket.clone()).collect();
        touched.sort_unstable_by_key(|bucket| bucket.index);
        touched.dedup_by_key(|bucket| bucket.index);
        let log_end = self.log.as_ref().map_or(0, |log| log.end);
        let evicted = self.memory.write().apply(staged, log_end);
        // The lock is free again here: giving back memory must not hold up readers.
        drop(evicted);
        touched
    }

    /// Starts when more of the log is dead than alive, and enough of it to be worth the I/O.
    fn compact_when_it_pays(&mut self) {
        let Some(log) = &self.log else { return };
        let live = self.memory.read().live_bytes();
        let dead = log.end.saturating_sub(live);
        let pays = dead > live && dead > self.options.compact_bytes_min && log.end >= self.compact_again_at;
        if pays && self.compaction.is_none() && self.broken.is_none() {
            self.start_compaction(None);
        }
    }

    /// Starts a compaction, or joins the one under way. Who asked is answered when it ends.
    fn start_compaction(&mut self, reply: Option<oneshot::Sender<Result<(), StoreError>>>) {
        match self.running_compaction() {
            Ok(compaction) => compaction.waiting.extend(reply),
            Err(error) => {
                if let Some(reply) = reply {
                    let _ = reply.send(Err(error));
                }
            }
        }
    }

    fn running_compaction(&mut self) -> Result<&mut Compaction, StoreError> {
        let log = self.log.as_ref().ok_or(StoreError::NoDisk)?;
        if let Some(error) = &self.broken {
            return Err(StoreError::ReadOnly(error.clone()));
        }
        if self.compaction.is_none() {
            let (memory, disk) = (self.memory.clone(), self.options.disk.clone());
            let started = Compaction::start(memory, &log.path, disk, self.requests.clone());
            self.compaction = Some(started.map_err(StoreError::io("start compacting", &log.path))?);
        }
        Ok(self.compaction.as_mut().expect("started above when none was running"))
    }

    /// Writes the last frames into the new file and puts it in the place of the old.
    fn finish_compaction(&mut self, prepared: Result<Prepared, StoreError>) {
        let (Some(compaction), Some(log)) = (self.compaction.take(), &mut self.log) else { return };
        let outcome = prepared.and_then(|prepared| prepared.replace(log, &self.options));
        match &outcome {
            Ok(()) => self.memory.write().set_log_end(log.end),
            Err(StoreError::ReadOnly(error)) => {
                tracing::error!(file = %log.path.display(), %error, "the log's new name may not last; the store is read-only");
                self.broken = Some(error.clone());
            }
            Err(error) => {
                tracing::warn!(file = %log.path.display(), %error, "compaction failed; the log stays as it was");
                self.compact_again_at = log.end + self.options.compact_bytes_min;
            }
        }
        compaction.finish(outcome);
    }
}

/// Why a whole batch failed.
enum Failure {
    Full(Arc<io::Error>),
    Broken(Arc<io::Error>),
}

impl Failure {
    fn to_commit_error<M>(&self) -> CommitError<M> {
        match self {
            Failure::Full(error) => CommitError::Full(error.clone()),
            Failure::Broken(error) => CommitError::Io(error.clone()),
        }
    }
}

/// Transactions decided together, and what they will do.
struct Batch<M> {
    /// The revision before the batch.
    base: Revision,
    staged: Vec<Staged<M>>,
    /// The newest staged event of each key, which later writes of the batch must expect.
    newest: HashMap<(usize, Box<str>), usize>,
    answers: Vec<(oneshot::Sender<Answer<M>>, Answer<M>)>,
}

impl<M> Batch<M> {
    fn new(base: Revision) -> Batch<M> {
        Batch { base, staged: Vec::new(), newest: HashMap::new(), answers: Vec::new() }
    }

    /// Stages the whole transaction or nothing of it.
    fn add(&mut self, transaction: Transaction<M>, memory: &Memory<M>, frame: &mut FrameBuilder) {
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

    fn unstage(&mut self, start: usize, replaced: Vec<((usize, Box<str>), Option<usize>)>) {
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
