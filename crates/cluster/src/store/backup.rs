//! Copies of a store elsewhere: writing one while the store runs, checking one, and starting from one.
//!
//! A backup is a compacted log of one revision, so the store reads it as it reads its own.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::LOG_FILE;
use super::compact::{self, Source};
use super::disk::{self, Disk, MachineDisk};
use super::error::StoreError;
use super::object::Revision;
use super::recover;

/// What a log or a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub revision: Revision,
    pub objects: usize,
    /// Bytes up to the end of the last whole frame.
    pub bytes: u64,
    /// The file ends in a write that was cut off; opening the store repairs that.
    pub is_torn: bool,
}

pub(super) fn write<M>(file: &Path, source: &Source<M>, disk: &dyn Disk) -> Result<Verified, StoreError> {
    refuse_existing(file)?;
    if let Err(error) = compact::write_named(file, source, disk) {
        // The first error is the one to tell; what could not be removed is overwritten by the next backup.
        let _ = compact::discard_unfinished(file);
        return Err(error);
    }
    verify(file)
}

/// Reads a whole log or backup and checks every frame, without changing it.
pub fn verify(file: &Path) -> Result<Verified, StoreError> {
    let recovered = recover::recover(file)?;
    Ok(Verified {
        revision: recovered.revision,
        objects: recovered.objects.values().map(|objects| objects.len()).sum(),
        bytes: recovered.end,
        is_torn: recovered.is_torn,
    })
}

/// Makes the store in `dir` from a backup. Refuses a damaged backup and a directory that has a store.
pub fn restore(file: &Path, dir: &Path) -> Result<Verified, StoreError> {
    let verified = verify(file)?;
    if verified.is_torn {
        let problem = "the backup was cut off";
        return Err(StoreError::Damaged { path: file.to_owned(), offset: verified.bytes, problem });
    }
    let _lock = disk::lock_directory(dir)?;
    let path = dir.join(LOG_FILE);
    refuse_existing(&path)?;
    let new = compact::unfinished(&path);
    let mut target = compact::create(&new)?;
    let source = File::open(file).map_err(StoreError::io("open", file))?;
    io::copy(&mut source.take(verified.bytes), &mut target).map_err(StoreError::io("write", &new))?;
    MachineDisk.sync(&target).map_err(StoreError::io("sync", &new))?;
    compact::give_name(&path, &MachineDisk)?;
    Ok(verified)
}

fn refuse_existing(path: &Path) -> Result<(), StoreError> {
    if path.exists() { Err(StoreError::Exists { path: path.to_owned() }) } else { Ok(()) }
}
