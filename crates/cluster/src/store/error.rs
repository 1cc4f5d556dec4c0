//! What can go wrong, in words an operator can act on.
//!
//! `StoreError` is about the store as a whole, `CommitError` about one transaction, the rest about history.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::object::{Entry, Revision};

/// Opening, compacting, backing up or restoring failed.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error("failed to {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: Arc<io::Error> },
    #[error("`{}` is in use by another process\nhint: stop it, or choose another directory", path.display())]
    Locked { path: PathBuf },
    #[error("`{}` is not a store: it does not start with the store's magic bytes", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "`{}` has format version {found}, and this program reads up to version {supported}\nhint: use the newer program that wrote it",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, supported: u32 },
    #[error("`{}` is damaged at byte {offset}: {problem}\nhint: restore a backup", path.display())]
    Damaged { path: PathBuf, offset: u64, problem: &'static str },
    #[error("`{}` already exists\nhint: move it away first; it will not be overwritten", path.display())]
    Exists { path: PathBuf },
    #[error("the store has no disk")]
    NoDisk,
    #[error("the store is read-only after a failed write")]
    ReadOnly(#[source] Arc<io::Error>),
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// For `map_err`: names the file and what was being done to it.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source: Arc::new(source) }
    }
}

/// A transaction was not acknowledged; nothing of it is visible.
#[derive(Error)]
pub enum CommitError<M> {
    /// Write number `index` expected another state; `current` is what is there.
    #[error("write {index} expected another state of its key")]
    Conflict { index: usize, current: Option<Arc<Entry<M>>> },
    /// The disk is full. The store works again as soon as there is space.
    #[error("the disk is full")]
    Full(#[source] Arc<io::Error>),
    #[error("the store is closed")]
    Closed,
    /// The disk failed, so the store takes no more writes until it is opened again; whether this transaction reached
    /// the disk shows only then. Or the transaction was too large, which concerns nobody else.
    #[error("the store cannot write")]
    Io(#[source] Arc<io::Error>),
}

impl<M> fmt::Debug for CommitError<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Conflict { index, current } => {
                write!(out, "Conflict {{ index: {index}, current: {current:?} }}")
            }
            CommitError::Full(source) => write!(out, "Full({source})"),
            CommitError::Closed => write!(out, "Closed"),
            CommitError::Io(source) => write!(out, "Io({source})"),
        }
    }
}

/// The wanted revision is older than the history that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("revision {requested} is too old: history is kept from revision {oldest} on")]
pub struct Expired {
    pub requested: Revision,
    pub oldest: Revision,
}

/// The watcher was too slow: events after its position are no longer kept. It must list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the watch stopped at revision {position}, and history is kept only from revision {oldest} on")]
pub struct Lagged {
    pub position: Revision,
    pub oldest: Revision,
}
