//! The one writer: drains what waits, decides it against memory, appends one frame, syncs once, then shows it.
//!
//! Only this thread changes the log and the memory. Nobody is answered before the batch is durable, not even a
//! conflict, because a conflict may be with a write of the same batch.

use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use super::Options;
use super::batch::{Batch, Transaction};
use super::compact::{Compaction, Prepared};
use super::error::{CommitError, StoreError};
use super::format::FrameBuilder;
use super::log::{AppendError, Log};
use super::memory::{Memory, Staged};
use super::object::Bucket;

/// Transactions in one frame: enough that a sync is shared by every writer of a busy cluster, few enough that
/// the first of them does not wait noticeably for the last to be checked.
const BATCH_TRANSACTIONS_MAX: usize = 512;

/// A batch takes no more transactions once its frame is this long, which keeps a sync in the tens of milliseconds.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Frame memory that is kept between batches.
const FRAME_BYTES_KEPT: usize = 1 << 20;

/// Set once, by a failure after which nothing may be acknowledged any more.
pub(super) type Broken = Arc<OnceLock<Arc<io::Error>>>;

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
    broken: Broken,
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
        broken: Broken,
    ) -> Writer<M> {
        let frame = FrameBuilder::new();
        Writer { memory, log, options, requests, frame, broken, compaction: None, compact_again_at: 0 }
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
        if let Some(error) = self.broken.get() {
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
                let _ = self.broken.set(error.clone());
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
        if pays && self.compaction.is_none() && self.broken.get().is_none() {
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
        if let Some(error) = self.broken.get() {
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
                let _ = self.broken.set(error.clone());
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
