//! The cluster's store: every live object in memory, every change durable in one append-only log.
//!
//! The API server and the controllers call it. It knows keys, bytes and revisions, and nothing of Kubernetes.
//! Reading order: object, error, format, disk, log, recover, memory, batch, writer, watch, compact, backup.
//! `docs/decisions/001-cluster-store.md` says why it is not a database.

mod backup;
mod batch;
mod compact;
mod disk;
mod error;
mod format;
mod log;
mod memory;
mod object;
mod recover;
mod watch;
mod writer;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod tests;

pub use backup::{Verified, restore, verify};
pub use disk::{Disk, MachineDisk};
pub use error::{CommitError, Expired, Lagged, StoreError};
pub use object::{
    Bucket, BucketEvent, Change, Draft, Entry, Event, EventKind, Expect, Listing, Revision, Stretch, Write,
};
pub use watch::{Watch, WatchAll};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use batch::Transaction;
use compact::Source;
use log::Log;
use memory::{Limits, Memory};
use writer::{Broken, Message, Writer};

/// Transactions that may wait for the writer: two full batches, so that one fills while the other is being synced.
const QUEUE_TRANSACTIONS_MAX: usize = 1024;

/// The log's name inside the store's directory.
const LOG_FILE: &str = "store.log";

/// What an operator may tune, and the seam to the machine.
#[derive(Clone)]
pub struct Options {
    /// Events kept for each bucket. 10,000 is minutes of a busy cluster: a client that reconnects within that
    /// time resumes without listing again.
    pub ring_events_max: usize,
    /// Bytes kept by all rings together; the oldest events go first.
    pub ring_bytes_max: usize,
    /// Dead bytes in the log below which compaction is not worth its I/O.
    pub compact_bytes_min: u64,
    /// The log grows by this many zero bytes at a time, so that most syncs need not write file metadata.
    pub preallocate_bytes: u64,
    /// How files are written; tests put a faulty disk here.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ring_events_max: 10_000,
            ring_bytes_max: 64 << 20,
            compact_bytes_min: 32 << 20,
            preallocate_bytes: 1 << 20,
            disk: Arc::new(MachineDisk),
        }
    }
}

/// How the owner's parsed part of an entry is made again at start-up: from bucket, key and value.
pub type RestoreMeta<M> = fn(bucket: &str, key: &str, value: &[u8]) -> M;

/// The store. Dropping it writes what was already queued, then ends its writer thread.
pub struct Store<M> {
    memory: Arc<RwLock<Memory<M>>>,
    /// Taken when the store closes, which ends the writer.
    requests: Option<mpsc::Sender<Message<M>>>,
    writer: Option<JoinHandle<()>>,
    disk: Arc<dyn Disk>,
    broken: Broken,
    /// Held while the store is open, so that a second process is refused.
    _lock: Option<File>,
}

impl<M: Send + Sync + 'static> Store<M> {
    /// Opens the store in `dir`, making it when it is not there.
    ///
    /// A torn last frame is cut off and reported; any other damage, a newer format and a second process are errors.
    pub fn open(dir: &Path, options: Options, restore_meta: RestoreMeta<M>) -> Result<Arc<Store<M>>, StoreError> {
        let lock = disk::lock_directory(dir)?;
        let path = dir.join(LOG_FILE);
        compact::discard_unfinished(&path)?;
        if !path.exists() {
            compact::create_empty(&path, options.disk.as_ref())?;
        }
        let recovered = recover::recover(&path)?;
        let log = Log::resume(&path, &recovered, &options)?;
        let memory = Memory::recovered(recovered, limits(&options), restore_meta);
        Ok(Self::start(memory, Some(log), options, Some(lock)))
    }

    /// A store without a disk: same behaviour, nothing survives.
    pub fn in_memory(options: Options) -> Arc<Store<M>> {
        let memory = Memory::empty(limits(&options));
        Self::start(memory, None, options, None)
    }

    fn start(memory: Memory<M>, log: Option<Log>, options: Options, lock: Option<File>) -> Arc<Store<M>> {
        let memory = Arc::new(RwLock::new(memory));
        let (requests, queue) = mpsc::channel(QUEUE_TRANSACTIONS_MAX);
        let disk = options.disk.clone();
        let broken = Broken::default();
        let writer = Writer::new(memory.clone(), log, options, requests.downgrade(), broken.clone());
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run(queue))
            .expect("a process that cannot start one thread cannot run a cluster");
        Arc::new(Store { memory, requests: Some(requests), writer: Some(thread), disk, broken, _lock: lock })
    }

    /// The bucket of this name, made when new.
    pub fn bucket(&self, name: &str) -> Bucket {
        let known = self.memory.read().bucket(name);
        known.unwrap_or_else(|| self.memory.write().create_bucket(name))
    }

    /// Every bucket that holds or held objects, by name.
    pub fn buckets(&self) -> Vec<Bucket> {
        self.memory.read().used_buckets()
    }

    /// Why the store takes no more writes, if it does not; only opening it again helps.
    pub fn failure(&self) -> Option<&std::io::Error> {
        self.broken.get().map(Arc::as_ref)
    }

    /// The last revision that is committed and visible.
    pub fn revision(&self) -> Revision {
        self.memory.read().revision()
    }

    pub fn get(&self, bucket: &Bucket, key: &str) -> Option<Arc<Entry<M>>> {
        self.memory.read().get(bucket, key).cloned()
    }

    /// All entries whose key starts with `prefix`, sorted by key, as of one revision.
    pub fn list(&self, bucket: &Bucket, prefix: &str) -> Listing<M> {
        self.memory.read().list(bucket, prefix)
    }

    /// The same as of an earlier revision, as far back as the bucket's ring reaches.
    ///
    /// A revision from the future gives the newest state, and the listing says which revision that is.
    pub fn list_at(&self, bucket: &Bucket, prefix: &str, revision: Revision) -> Result<Listing<M>, Expired> {
        self.memory.read().list_at(bucket, prefix, revision)
    }

    /// A part of a listing, at the cost of that part.
    pub fn stretch(&self, bucket: &Bucket, stretch: &Stretch<'_>) -> Result<Listing<M>, Expired> {
        self.memory.read().stretch(bucket, stretch)
    }

    /// How many entries have this prefix.
    pub fn count(&self, bucket: &Bucket, prefix: &str) -> usize {
        self.memory.read().count(bucket, prefix)
    }

    /// Every event of the bucket with a revision greater than `after`, in order, once.
    pub fn watch(&self, bucket: &Bucket, after: Revision) -> Result<Watch<M>, Expired> {
        self.memory.read().check_history(bucket, after)?;
        Ok(Watch::new(self.memory.clone(), bucket.clone(), after))
    }

    /// A listing, and a watch of everything after it.
    pub fn list_and_watch(&self, bucket: &Bucket, prefix: &str) -> (Listing<M>, Watch<M>) {
        let listing = self.list(bucket, prefix);
        let watch = Watch::new(self.memory.clone(), bucket.clone(), listing.revision);
        (listing, watch)
    }

    /// Every event of every bucket with a revision greater than `after`, in order, once.
    pub fn watch_all(&self, after: Revision) -> Result<WatchAll<M>, Expired> {
        self.memory.read().check_all_history(after)?;
        Ok(WatchAll::new(self.memory.clone(), after))
    }

    /// Makes all writes durable and visible, or none; each gets a revision of its own.
    ///
    /// Answers with the entries as stored (for a delete: as its event shows it). When the caller stops waiting,
    /// the writes may still happen.
    pub async fn commit(&self, writes: Vec<Write<M>>) -> Result<Vec<Arc<Entry<M>>>, CommitError<M>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(CommitError::Closed)?;
        requests.send(Message::Commit(Transaction { writes, reply })).await.map_err(|_| CommitError::Closed)?;
        answer.await.map_err(|_| CommitError::Closed)?
    }

    /// Rewrites the log with only what is alive, while commits go on. It also happens by itself when it pays.
    ///
    /// When a compaction is under way already, this waits for that one.
    pub async fn compact(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(StoreError::Closed)?;
        requests.send(Message::Compact(reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Writes the present state to a new file that [`restore`] reads. Blocks on the disk, not on the writer.
    pub fn backup(&self, file: &Path) -> Result<Verified, StoreError> {
        let source = Source::freeze(&self.memory.read());
        backup::write(file, &source, self.disk.as_ref())
    }

    /// Where a store in `dir` keeps its log, for messages and for [`verify`].
    pub fn log_path(dir: &Path) -> PathBuf {
        dir.join(LOG_FILE)
    }
}

impl<M> Drop for Store<M> {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was already printed by its thread; there is nobody left to tell.
            let _ = writer.join();
        }
    }
}

fn limits(options: &Options) -> Limits {
    Limits { ring_events_max: options.ring_events_max, ring_bytes_max: options.ring_bytes_max }
}
