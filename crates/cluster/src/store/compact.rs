//! A shorter log: what is alive is written to a new file beside the old, which then takes its place.
//!
//! A thread of its own writes the bulk and copies the frames that were committed meanwhile; the writer copies the
//! last few and renames. Until the rename the old file is the store, after it the new one is: both are whole.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use super::Options;
use super::disk::{self, Disk};
use super::error::StoreError;
use super::format::{FrameBuilder, HEADER_BYTES, Header, Record};
use super::log::Log;
use super::memory::Memory;
use super::object::{Bucket, Entry, Revision};
use super::writer::Message;

/// One frame of a snapshot: long enough to be read at the disk's speed, short enough to check in one piece.
const SNAPSHOT_FRAME_BYTES: usize = 1 << 20;

/// The new file is synced this often, so that the writer's own syncs never queue behind hundreds of megabytes.
const SNAPSHOT_SYNC_BYTES: u64 = 8 << 20;

/// What the writer may have to copy itself: about a millisecond of work.
const CATCH_UP_BYTES_MAX: u64 = 256 << 10;

/// Each round copies what the one before left time for, so the rest shrinks fast; beyond this the disk is overloaded
/// and the writer may as well do it.
const CATCH_UP_ROUNDS_MAX: usize = 8;

const COPY_BUFFER_BYTES: usize = 256 << 10;

/// The state at one revision, shared with the readers.
pub(super) struct Source<M> {
    pub revision: Revision,
    log_end: u64,
    buckets: Vec<(Bucket, Vec<Arc<Entry<M>>>)>,
}

impl<M> Source<M> {
    pub fn freeze(memory: &Memory<M>) -> Source<M> {
        Source { revision: memory.revision(), log_end: memory.log_end(), buckets: memory.all() }
    }
}

/// Where a file is written before it gets its name.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Removes what a crash left of a file that never got its name.
pub(super) fn discard_unfinished(path: &Path) -> Result<(), StoreError> {
    let path = unfinished(path);
    match fs::remove_file(&path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("remove", &path)(error)),
    }
}

/// A store without objects.
pub(super) fn create_empty(path: &Path, disk: &dyn Disk) -> Result<(), StoreError> {
    let empty: Source<()> = Source { revision: 0, log_end: 0, buckets: Vec::new() };
    write_named(path, &empty, disk)
}

/// Writes a whole file under its final name, or no file at all.
pub(super) fn write_named<M>(path: &Path, source: &Source<M>, disk: &dyn Disk) -> Result<(), StoreError> {
    let new = unfinished(path);
    let file = create(&new)?;
    write_snapshot(&file, source, disk, &AtomicBool::new(false)).map_err(StoreError::io("write", &new))?;
    give_name(path, disk)
}

/// Renames the unfinished file, durably.
pub(super) fn give_name(path: &Path, disk: &dyn Disk) -> Result<(), StoreError> {
    disk.rename(&unfinished(path), path).map_err(StoreError::io("rename into place", path))?;
    let directory = disk::directory_of(path);
    disk.sync_directory(directory).map_err(StoreError::io("sync directory", directory))
}

pub(super) fn create(path: &Path) -> Result<File, StoreError> {
    let mut options = File::options();
    // It holds secrets: nobody but its owner reads it.
    options.mode(0o600).write(true).create(true).truncate(true).open(path).map_err(StoreError::io("create", path))
}

/// Writes header and frames, synced; says where they end.
fn write_snapshot<M>(file: &File, source: &Source<M>, disk: &dyn Disk, cancelled: &AtomicBool) -> io::Result<u64> {
    let mut snapshot = Snapshot { file, disk, frame: FrameBuilder::new(), end: HEADER_BYTES as u64, synced: 0 };
    for (bucket, entries) in &source.buckets {
        for entry in entries {
            let value = Some(&entry.value[..]);
            snapshot.frame.push(&Record { revision: entry.revision, bucket: &bucket.name, key: &entry.key, value });
            if snapshot.frame.len() >= SNAPSHOT_FRAME_BYTES {
                snapshot.write_frame()?;
                if cancelled.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
        }
    }
    if !snapshot.frame.is_empty() {
        snapshot.write_frame()?;
    }
    let header = Header { base_revision: source.revision, snapshot_end: snapshot.end };
    disk::write_all(disk, file, &header.encode(), 0)?;
    disk.sync(file)?;
    Ok(snapshot.end)
}

struct Snapshot<'a> {
    file: &'a File,
    disk: &'a dyn Disk,
    frame: FrameBuilder,
    end: u64,
    synced: u64,
}

impl Snapshot<'_> {
    fn write_frame(&mut self) -> io::Result<()> {
        let bytes = self.frame.finish(0);
        disk::write_all(self.disk, self.file, bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.frame.clear(2 * SNAPSHOT_FRAME_BYTES);
        if self.end - self.synced >= SNAPSHOT_SYNC_BYTES {
            self.disk.sync(self.file)?;
            self.synced = self.end;
        }
        Ok(())
    }
}

/// A compaction under way.
pub(super) struct Compaction {
    pub waiting: Vec<oneshot::Sender<Result<(), StoreError>>>,
    cancelled: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Compaction {
    /// Starts the thread, which ends by sending the writer what it prepared.
    pub fn start<M: Send + Sync + 'static>(
        memory: Arc<RwLock<Memory<M>>>,
        path: &Path,
        disk: Arc<dyn Disk>,
        requests: mpsc::WeakSender<Message<M>>,
    ) -> io::Result<Compaction> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let stop = cancelled.clone();
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("store-compaction".into()).spawn(move || {
            let prepared = prepare(&memory, &path, disk.as_ref(), &stop);
            if let Some(requests) = requests.upgrade() {
                // A writer that is gone has no use for the new file; the next start discards it.
                let _ = requests.blocking_send(Message::Prepared(prepared));
            }
        })?;
        Ok(Compaction { waiting: Vec::new(), cancelled, thread })
    }

    pub fn finish(self, outcome: Result<(), StoreError>) {
        for reply in self.waiting {
            let _ = reply.send(outcome.clone());
        }
    }

    /// Ends the thread early, because the store closes.
    pub fn cancel(self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

/// A new log that lacks only the frames after `copied`.
pub(super) struct Prepared {
    file: File,
    /// Where the new file ends.
    end: u64,
    /// Up to where the old file was copied.
    copied: u64,
}

fn prepare<M>(
    memory: &RwLock<Memory<M>>,
    path: &Path,
    disk: &dyn Disk,
    cancelled: &AtomicBool,
) -> Result<Prepared, StoreError> {
    let new = unfinished(path);
    let failed = StoreError::io("write", &new);
    let file = create(&new)?;
    let old = File::open(path).map_err(StoreError::io("open", path))?;
    let source = Source::freeze(&memory.read());
    let written = write_snapshot(&file, &source, disk, cancelled).and_then(|end| {
        let mut prepared = Prepared { file, end, copied: source.log_end };
        for _ in 0..CATCH_UP_ROUNDS_MAX {
            let target = memory.read().log_end();
            let is_close = target - prepared.copied <= CATCH_UP_BYTES_MAX;
            prepared.copy_up_to(&old, target, disk)?;
            disk.sync(&prepared.file)?;
            if is_close {
                break;
            }
        }
        Ok(prepared)
    });
    written.map_err(|error| {
        // The failure may be a full disk: give the space back at once. What stays is discarded at the next start.
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

impl Prepared {
    /// Frames are copied as they are: whole, checked when they are read, and in order.
    fn copy_up_to(&mut self, old: &File, target: u64, disk: &dyn Disk) -> io::Result<()> {
        let mut buffer = vec![0; COPY_BUFFER_BYTES];
        while self.copied < target {
            let count = (target - self.copied).min(COPY_BUFFER_BYTES as u64) as usize;
            old.read_exact_at(&mut buffer[..count], self.copied)?;
            disk::write_all(disk, &self.file, &buffer[..count], self.end)?;
            self.copied += count as u64;
            self.end += count as u64;
        }
        Ok(())
    }

    /// Completes the new file and puts it in the place of `log`. On failure the old log goes on, except when the
    /// rename happened and may not last: then acknowledging anything more would risk losing it.
    pub fn replace(mut self, log: &mut Log, options: &Options) -> Result<(), StoreError> {
        let disk = options.disk.as_ref();
        let path = log.path.clone();
        let completed = File::open(&path)
            .and_then(|old| self.copy_up_to(&old, log.end, disk))
            .and_then(|()| disk.sync(&self.file))
            .and_then(|()| disk.rename(&unfinished(&path), &path));
        if let Err(error) = completed {
            let _ = fs::remove_file(unfinished(&path));
            return Err(StoreError::io("replace", &path)(error));
        }
        disk.sync_directory(disk::directory_of(&path)).map_err(|error| StoreError::ReadOnly(Arc::new(error)))?;
        let replaced = std::mem::replace(log, Log::continue_at(&path, self.file, self.end, options));
        // Closing the last handle frees the old file's blocks, which holds up the file system for tens of milliseconds.
        // Where no thread can be had, they are freed right here.
        let _ = std::thread::Builder::new().spawn(move || drop(replaced));
        Ok(())
    }
}
