//! The log file, open for appending one frame at a time.
//!
//! It belongs to the writer thread. A frame that could not be written whole is rolled back, so what is on disk up
//! to `end` is always whole frames.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Options;
use super::disk::{self, Disk};
use super::error::StoreError;
use super::recover::Recovered;

/// Zeros are written from one constant buffer of this size.
const ZEROS_BYTES: usize = 64 << 10;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

/// Why a frame was not appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// No space. The frame was rolled back and the log is as it was.
    Full(io::Error),
    /// Nobody knows what is on the disk now, so nothing more may be acknowledged.
    Broken(io::Error),
}

/// The log, open for appending.
pub(super) struct Log {
    pub path: PathBuf,
    pub end: u64,
    file: File,
    disk: Arc<dyn Disk>,
    /// Bytes that the file has; those beyond `end` are zeros.
    allocated: u64,
    preallocate_bytes: u64,
}

impl Log {
    /// Opens a recovered file for appending, cutting off a torn tail.
    pub fn resume(path: &Path, recovered: &Recovered, options: &Options) -> Result<Log, StoreError> {
        let file = OpenOptions::new().write(true).open(path).map_err(StoreError::io("open", path))?;
        let mut log = Log::continue_at(path, file, recovered.end, options);
        log.allocated = recovered.file_bytes;
        if recovered.is_torn {
            let lost = recovered.file_bytes - recovered.end;
            tracing::warn!(
                file = %path.display(), offset = recovered.end, bytes = lost,
                "the last write was cut off before it was acknowledged; the log continues after the last whole one"
            );
            log.roll_back().map_err(StoreError::io("truncate", path))?;
            log.disk.sync(&log.file).map_err(StoreError::io("sync", path))?;
        }
        Ok(log)
    }

    /// A log whose content, up to `end`, was written by the caller.
    pub fn continue_at(path: &Path, file: File, end: u64, options: &Options) -> Log {
        let preallocate_bytes = options.preallocate_bytes;
        Log { path: path.to_owned(), end, file, disk: options.disk.clone(), allocated: end, preallocate_bytes }
    }

    /// Appends one frame and makes it durable.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        if let Err(error) = self.preallocate(frame.len() as u64).and_then(|()| self.write(frame)) {
            // A tail that cannot be cut off would be read as damage once frames follow it.
            self.roll_back().map_err(AppendError::Broken)?;
            return Err(if disk::is_full(&error) { AppendError::Full(error) } else { AppendError::Broken(error) });
        }
        // After a failed sync the kernel may have dropped the pages, so trying again would prove nothing.
        self.disk.sync(&self.file).map_err(AppendError::Broken)?;
        self.end += frame.len() as u64;
        // Without preallocation the frame itself made the file longer.
        self.allocated = self.allocated.max(self.end);
        Ok(())
    }

    fn write(&self, frame: &[u8]) -> io::Result<()> {
        disk::write_all(self.disk.as_ref(), &self.file, frame, self.end)
    }

    /// Writes zeros ahead of the end. On a nearly full disk it gives up and lets the frame try the space that is left.
    fn preallocate(&mut self, needed: u64) -> io::Result<()> {
        if self.end + needed <= self.allocated || self.preallocate_bytes == 0 {
            return Ok(());
        }
        let target = (self.end + needed).next_multiple_of(self.preallocate_bytes);
        while self.allocated < target {
            let count = (target - self.allocated).min(ZEROS_BYTES as u64);
            let written = disk::write_all(self.disk.as_ref(), &self.file, &ZEROS[..count as usize], self.allocated);
            match written {
                Ok(()) => self.allocated += count,
                Err(error) if disk::is_full(&error) => return self.roll_back(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.disk.truncate(&self.file, self.end)?;
        self.allocated = self.end;
        Ok(())
    }
}
