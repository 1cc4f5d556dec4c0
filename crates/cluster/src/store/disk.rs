//! The seam to the machine: the few calls by which the store changes files.
//!
//! Tests replace it with a disk that is full, writes short, fails to sync, or photographs the directory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::StoreError;

const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Changes to files. Reading is not part of it: damage on reading is tested with damaged files.
pub trait Disk: Send + Sync {
    /// Writes some of `bytes` at `offset` and says how many.
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the file's content durable.
    fn sync(&self, file: &File) -> io::Result<()>;
    fn truncate(&self, file: &File, length: u64) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes renames in this directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The real thing.
pub struct MachineDisk;

impl Disk for MachineDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Writes all of `bytes`, however short the single writes are.
pub(super) fn write_all(disk: &dyn Disk, file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match disk.write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// True for the errors that go away when someone frees space.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::WriteZero
    )
}

/// Makes the directory and takes its lock, which ends with the returned file (or with the process, however it ends).
pub(super) fn lock_directory(dir: &Path) -> Result<File, StoreError> {
    create_directory(dir).map_err(StoreError::io("create directory", dir))?;
    let path = dir.join("store.lock");
    let file = File::create(&path).map_err(StoreError::io("create", &path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A process that was told to end may hold it a moment longer than it answers.
            Err(fs::TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_PAUSE),
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::Locked { path: dir.to_owned() }),
            Err(fs::TryLockError::Error(source)) => return Err(StoreError::io("lock", &path)(source)),
        }
    }
}

/// Makes the directory and its parents, and makes their names durable: a store must not vanish with its directory.
fn create_directory(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = directory_of(dir);
    create_directory(parent)?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    MachineDisk.sync_directory(parent)
}

/// The directory of a file that the store made, so it always has one.
pub(super) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}
