//! The nouns of the store: buckets, entries, writes and events.
//!
//! Plain values; nothing here touches a lock or a disk.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// One counter for the whole store; the first write is 1.
pub type Revision = u64;

/// A named set of keys, such as `apps/deployments`. Cheap to clone; belongs to the store that made it.
#[derive(Clone)]
pub struct Bucket {
    pub(super) index: usize,
    pub(super) name: Arc<str>,
}

impl Bucket {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Bucket {
    fn eq(&self, other: &Bucket) -> bool {
        self.name == other.name
    }
}

impl Eq for Bucket {}

impl PartialOrd for Bucket {
    fn partial_cmp(&self, other: &Bucket) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bucket {
    fn cmp(&self, other: &Bucket) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl std::hash::Hash for Bucket {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Bucket({})", self.name)
    }
}

/// One live object. `M` is what the owner wants to keep parsed beside the bytes.
pub struct Entry<M> {
    pub key: Box<str>,
    pub revision: Revision,
    pub value: Bytes,
    pub meta: M,
}

impl<M> fmt::Debug for Entry<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Entry({} @{}, {} bytes)", self.key, self.revision, self.value.len())
    }
}

/// A value with a hole where the store writes the revision in decimal: `head`, revision, `tail`.
pub struct Draft<M> {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    pub meta: M,
}

impl<M> Draft<M> {
    /// Fills the hole.
    pub(super) fn into_entry(self, key: Box<str>, revision: Revision) -> Entry<M> {
        let digits = revision.to_string();
        let mut value = Vec::with_capacity(self.head.len() + digits.len() + self.tail.len());
        value.extend_from_slice(&self.head);
        value.extend_from_slice(digits.as_bytes());
        value.extend_from_slice(&self.tail);
        Entry { key, revision, value: value.into(), meta: self.meta }
    }
}

/// What must be true of the key for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such key.
    Absent,
    /// The key is there with exactly this revision.
    Revision(Revision),
    /// Anything, except that a delete needs something to delete.
    Any,
}

/// One change of one key.
pub struct Write<M> {
    pub bucket: Bucket,
    pub key: Box<str>,
    pub expect: Expect,
    pub change: Change<M>,
}

/// What a write does.
pub enum Change<M> {
    /// Stores the draft.
    Put(Draft<M>),
    /// Removes the key. The draft is the last state as the event shows it; it is not stored.
    Delete(Draft<M>),
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Created,
    Updated,
    Deleted,
}

/// One committed change.
pub struct Event<M> {
    pub revision: Revision,
    pub kind: EventKind,
    /// The new state; for a delete, the last state with the revision of the delete.
    pub entry: Arc<Entry<M>>,
    /// The state before, absent for a creation.
    pub previous: Option<Arc<Entry<M>>>,
    /// For the owner: the event as sent to clients, encoded once and shared by all watchers.
    pub line: OnceLock<Bytes>,
}

impl<M> fmt::Debug for Event<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Event({:?} {} @{})", self.kind, self.entry.key, self.revision)
    }
}

/// An event and where it happened.
pub type BucketEvent<M> = (Bucket, Arc<Event<M>>);

/// A part of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    pub prefix: &'a str,
    /// Only keys greater than this one.
    pub after: &'a str,
    pub count: usize,
    /// The newest state when absent.
    pub at: Option<Revision>,
}

/// Entries of one bucket as of one revision, sorted by key.
pub struct Listing<M> {
    pub revision: Revision,
    pub entries: Vec<Arc<Entry<M>>>,
}
