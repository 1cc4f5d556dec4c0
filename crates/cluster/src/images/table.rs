//! The table of names: which reference means which manifest. One file, replaced whole; readers never wait.
//!
//! Several processes may use one store (the cluster and a `volley image` command), so changes are made under a file
//! lock on what is on disk, and readers look whether the file is still the one they know.

use super::digest::Digest;
use super::error::ImageError;
use super::layout::Layout;
use super::reference::Reference;
use parking_lot::RwLock;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What the registry answered for the name: an index or a manifest.
    pub target: Digest,
    /// The manifest for this machine's platform.
    pub manifest: Digest,
    pub config: Digest,
    pub layers: Vec<LayerRecord>,
    /// Seconds since 1970.
    pub pulled_s: u64,
    pub used_s: u64,
}

impl Record {
    /// Everything the image is made of: documents, blobs and unpacked layers.
    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        let layers = self.layers.iter().flat_map(|layer| [&layer.blob, &layer.diff_id]);
        [&self.target, &self.manifest, &self.config].into_iter().chain(layers)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerRecord {
    pub blob: Digest,
    pub size: u64,
    pub diff_id: Digest,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    pub names: BTreeMap<String, Record>,
}

impl Names {
    /// The record for a reference: its own, or any of the same repository and digest.
    pub fn find(&self, reference: &Reference) -> Option<&Record> {
        let exact = self.names.get(&reference.to_string());
        let digest = reference.digest();
        exact.or_else(|| {
            let digest = digest?;
            let prefixes = [format!("{}:", reference.name()), format!("{}@", reference.name())];
            self.names.iter().find_map(|(name, record)| {
                let same_name = prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
                (same_name && (record.target == *digest || record.manifest == *digest)).then_some(record)
            })
        })
    }

    /// Gives a name its record. An image that loses its last name this way keeps one by digest, since pods may run it.
    pub fn put(&mut self, reference: &Reference, record: Record) {
        let replaced = self.names.insert(reference.to_string(), record.clone());
        if let Some(old) = replaced.filter(|old| old.config != record.config) {
            let is_named = self.names.values().any(|other| other.config == old.config);
            if !is_named {
                self.names.insert(reference.with_digest(&old.target).to_string(), old);
            }
        }
    }
}

type Stamp = (u64, i64, i64);

pub struct Table {
    layout: Layout,
    known: RwLock<(Option<Stamp>, Arc<Names>)>,
}

impl Table {
    pub fn open(layout: Layout) -> Result<Table, ImageError> {
        let table = Table { layout, known: RwLock::default() };
        table.snapshot()?;
        Ok(table)
    }

    /// The table as it is on disk now; one `stat` when nothing changed.
    pub fn snapshot(&self) -> Result<Arc<Names>, ImageError> {
        let stamp = self.stamp();
        {
            let known = self.known.read();
            if known.0 == stamp {
                return Ok(known.1.clone());
            }
        }
        let names = Arc::new(self.read()?);
        *self.known.write() = (stamp, names.clone());
        Ok(names)
    }

    /// Changes the table under the lock; what is acknowledged is on disk.
    pub fn update<T>(&self, change: impl FnOnce(&mut Names) -> T) -> Result<T, ImageError> {
        let path = self.layout.names_lock();
        let failed = |error| ImageError::file("lock", &path, error);
        let lock = File::create(&path).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let before = self.read()?;
        let mut names = before.clone();
        let outcome = change(&mut names);
        if names != before {
            let bytes = serde_json::to_vec_pretty(&names).map_err(|error| ImageError::malformed("the names", error))?;
            self.layout.write_atomic(&self.layout.names(), &bytes)?;
        }
        Ok(outcome)
    }

    /// A broken table is an error, not an empty one: sweeping would then remove every image.
    fn read(&self) -> Result<Names, ImageError> {
        let path = self.layout.names();
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| ImageError::malformed(path.display().to_string(), error))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Names::default()),
            Err(error) => Err(ImageError::file("read", &path, error)),
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let found = std::fs::metadata(self.layout.names()).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec()))
    }
}
