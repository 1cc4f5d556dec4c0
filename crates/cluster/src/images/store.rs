//! The image store: what the node and `volley image` talk to. `pull`, `archive` and `collect` add its larger verbs.
//!
//! A store is cheap to clone. Everything that touches the disk runs off the async threads. Opening it sweeps what a
//! crash left; an interrupted unpack is done again by the next pull, an interrupted download goes on.

use super::digest::Digest;
use super::error::ImageError;
use super::flight::Flights;
use super::inflate::Limits;
use super::layout::{Layout, Marker, boot_id, off_thread, read_json};
use super::manifest::{self, Document, ImageConfig, Manifest, Platform};
use super::reference::Reference;
use super::registry::{Registry, RegistryConfig};
use super::table::{Record, Table};
use super::tree::{Privilege, remove_tree};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// Downloads at a time, for all pulls together; Docker's number.
const DOWNLOADS_MAX: usize = 3;
/// Layers unpacked at a time: each keeps two threads busy.
const UNPACKS_MAX: usize = 4;
/// A partial download that nobody came back for.
const PARTIAL_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a store works.
#[derive(Debug, Clone)]
pub struct Options {
    pub registries: RegistryConfig,
    pub platform: Platform,
    pub limits: Limits,
    pub privilege: Privilege,
    /// Keep compressed layers after unpacking: `save` needs them, and a re-unpack needs no network.
    pub keep_blobs: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            registries: RegistryConfig::default(),
            platform: Platform::of_this_machine(),
            limits: Limits::default(),
            privilege: Privilege::of_this_process(),
            keep_blobs: true,
        }
    }
}

/// An image that is unpacked and ready to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub reference: Reference,
    /// What the registry calls it (an index or a manifest): the digest of `imageID`.
    pub digest: Digest,
    /// The digest of the image's configuration.
    pub id: Digest,
    /// Newest first, as overlayfs wants its lower folders.
    pub layers: Vec<PathBuf>,
    pub config: ImageConfig,
    /// Compressed bytes of the layers.
    pub size: u64,
    pub pulled_s: u64,
    pub used_s: u64,
}

impl Image {
    /// The folder to stand in and the `lowerdir` option for it: short names, so that 127 layers fit into one page.
    /// An image without layers gives an empty option.
    pub fn lowerdir(&self) -> (PathBuf, String) {
        let base = self.layers.first().and_then(|layer| layer.parent()).unwrap_or(Path::new("")).to_owned();
        let names: Vec<_> =
            self.layers.iter().filter_map(|layer| layer.file_name()).map(|name| name.to_string_lossy()).collect();
        (base, names.join(":"))
    }

    /// `imageID` of container statuses.
    pub fn pinned(&self) -> String {
        self.reference.with_digest(&self.digest).to_string()
    }
}

#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub layout: Layout,
    pub table: Table,
    pub options: Options,
    pub registry: Arc<Registry>,
    pub flights: Flights,
    pub downloads: Semaphore,
    pub unpacks: Semaphore,
    /// Blobs and layers that work under way needs; collection leaves them alone.
    pub pins: Mutex<BTreeMap<Digest, u32>>,
    /// Held while a layer gets its place.
    pub placing: Mutex<()>,
    /// Held shared while the store is open.
    _users: File,
}

impl Store {
    /// Opens `<home>/images`.
    pub async fn open(root: &Path, options: Options) -> Result<Store, ImageError> {
        let root = root.to_owned();
        let (store, layers) = off_thread(move || {
            let store = Store::open_blocking(&root, options)?;
            let layers = store.inner.layer_ids()?;
            Ok((store, layers))
        })
        .await?;
        // A process killed before its flush leaves layers that only this boot may trust.
        store.inner.sync_later(layers);
        Ok(store)
    }

    fn open_blocking(root: &Path, options: Options) -> Result<Store, ImageError> {
        let layout = Layout::open(root)?;
        let path = layout.users_lock();
        let failed = |error| ImageError::file("lock", &path, error);
        let users = File::create(&path).map_err(failed)?;
        if flock(&users, FlockOperation::NonBlockingLockExclusive).is_ok() {
            sweep(&layout)?;
        }
        flock(&users, FlockOperation::LockShared).map_err(|error| failed(error.into()))?;
        let table = Table::open(layout.clone())?;
        let inner = Inner {
            table,
            registry: Registry::new(options.registries.clone()),
            options,
            flights: Flights::default(),
            downloads: Semaphore::new(DOWNLOADS_MAX),
            unpacks: Semaphore::new(UNPACKS_MAX),
            pins: Mutex::default(),
            placing: Mutex::default(),
            _users: users,
            layout,
        };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// The image of a reference, if all of it is here.
    pub async fn get(&self, reference: &Reference) -> Result<Option<Image>, ImageError> {
        let (inner, reference) = (self.inner.clone(), reference.clone());
        off_thread(move || inner.get(&reference)).await
    }

    /// All images, by name.
    pub async fn list(&self) -> Result<Vec<Image>, ImageError> {
        let inner = self.inner.clone();
        off_thread(move || {
            let mut found = Vec::new();
            for (name, record) in &inner.table.snapshot()?.names {
                found.extend(inner.image(&Reference::parse(name)?, record)?);
            }
            Ok(found)
        })
        .await
    }

    /// Notes that an image is being started, for the order in which collection removes images.
    pub async fn touch(&self, reference: &Reference) -> Result<(), ImageError> {
        let (inner, name) = (self.inner.clone(), reference.to_string());
        off_thread(move || {
            inner.table.update(|names| {
                if let Some(record) = names.names.get_mut(&name) {
                    record.used_s = now_s();
                }
            })
        })
        .await
    }

    /// Takes a name away, and what only it needed. `in_use` holds the ids of images that containers run.
    pub async fn remove(&self, reference: &Reference, in_use: &BTreeSet<Digest>) -> Result<(), ImageError> {
        let (inner, name, in_use) = (self.inner.clone(), reference.to_string(), in_use.clone());
        off_thread(move || {
            inner.table.update(|names| {
                let record = names.names.get(&name).ok_or_else(|| ImageError::NotFound(name.clone()))?;
                let is_last = names.names.values().filter(|other| other.config == record.config).count() == 1;
                if is_last && in_use.contains(&record.config) {
                    return Err(ImageError::InUse(name.clone(), "a container".to_owned()));
                }
                names.names.remove(&name);
                Ok(())
            })??;
            inner.sweep_unnamed(Duration::ZERO).map(drop)
        })
        .await
    }
}

impl Inner {
    pub fn get(&self, reference: &Reference) -> Result<Option<Image>, ImageError> {
        match self.table.snapshot()?.find(reference) {
            Some(record) => self.image(reference, record),
            None => Ok(None),
        }
    }

    /// Reads an image from disk; `None` if a part of it is gone, so that it is pulled again.
    pub fn image(&self, reference: &Reference, record: &Record) -> Result<Option<Image>, ImageError> {
        let Some(manifest) = self.manifest(&record.manifest)? else { return Ok(None) };
        let Some(bytes) = self.layout.read_blob(&record.config)? else { return Ok(None) };
        let config = manifest::read_config(&bytes, &manifest)?;
        let mut layers = Vec::new();
        for diff_id in config.rootfs.diff_ids.iter().rev() {
            if self.layout.layer_marker(diff_id)?.is_none() {
                return Ok(None);
            }
            layers.push(self.layout.layer(diff_id));
        }
        Ok(Some(Image {
            reference: reference.clone(),
            digest: record.target.clone(),
            id: record.config.clone(),
            layers,
            config: config.config.unwrap_or_default(),
            size: manifest.layers.iter().map(|layer| layer.size).sum(),
            pulled_s: record.pulled_s,
            used_s: record.used_s,
        }))
    }

    pub fn manifest(&self, digest: &Digest) -> Result<Option<Manifest>, ImageError> {
        let Some(bytes) = self.layout.read_blob(digest)? else { return Ok(None) };
        match manifest::read(&bytes, "")? {
            Document::Manifest(manifest) => Ok(Some(manifest)),
            Document::Index(_) => Err(ImageError::malformed(digest.as_str(), "an index where a manifest was stored")),
        }
    }

    /// The layers whose markers are here.
    fn layer_ids(&self) -> Result<Vec<Digest>, ImageError> {
        let mut found = Vec::new();
        for (_, path) in entries(&self.layout.layers())?.into_iter().filter(|(name, _)| name.ends_with(".json")) {
            found.extend(read_json::<Marker>(&path)?.map(|marker| marker.diff_id));
        }
        Ok(found)
    }

    /// Keeps blobs and layers from collection until the pin is dropped.
    pub fn pin(self: &Arc<Inner>, digests: impl IntoIterator<Item = Digest>) -> Pin {
        let digests: Vec<Digest> = digests.into_iter().collect();
        let mut pins = self.pins.lock();
        for digest in &digests {
            *pins.entry(digest.clone()).or_default() += 1;
        }
        drop(pins);
        Pin { inner: self.clone(), digests }
    }

    /// Removes blobs and layers that no name and no work under way needs, if they are older than `grace`.
    /// Gives the bytes that this freed.
    pub fn sweep_unnamed(&self, grace: Duration) -> Result<u64, ImageError> {
        // The lock is held until everything unneeded is out of sight: a pull that pins later finds it missing. The
        // names are read under it, since a pull names its image before it lets go of its pins.
        let pins = self.pins.lock();
        let mut needed: BTreeSet<Digest> = pins.keys().cloned().collect();
        for record in self.table.snapshot()?.names.values() {
            needed.extend(record.digests().cloned());
        }
        let needed_hex: BTreeSet<&str> = needed.iter().map(Digest::hex).collect();
        let is_old = |path: &Path| age(path).is_some_and(|age| age >= grace);
        let (mut freed, mut hidden) = (0, Vec::new());
        for (name, path) in entries(&self.layout.blobs())? {
            if !needed_hex.contains(name.as_str()) && is_old(&path) {
                freed += std::fs::metadata(&path).map(|found| found.len()).unwrap_or(0);
                remove_any(&path)?;
            }
        }
        for (name, path) in entries(&self.layout.layers())? {
            if !name.ends_with(".json") || !is_old(&path) {
                continue;
            }
            if let Some(marker) = read_json::<Marker>(&path)?
                && !needed.contains(&marker.diff_id)
            {
                freed += marker.bytes;
                hidden.push(hide_layer(&self.layout, &marker.diff_id)?);
            }
        }
        drop(pins);
        hidden.iter().try_for_each(|path| remove_any(path))?;
        Ok(freed)
    }
}

/// See `Inner::pin`.
pub(super) struct Pin {
    inner: Arc<Inner>,
    digests: Vec<Digest>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.inner.pins.lock();
        for digest in &self.digests {
            if let Some(count) = pins.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    pins.remove(digest);
                }
            }
        }
    }
}

/// Clears what a crash left; only when nobody else has the store open.
fn sweep(layout: &Layout) -> Result<(), ImageError> {
    for (_, path) in entries(&layout.staging())? {
        remove_any(&path)?;
    }
    for (_, path) in entries(&layout.partials())? {
        if age(&path).is_some_and(|age| age > PARTIAL_AGE_MAX) {
            remove_any(&path)?;
        }
    }
    let boot = boot_id();
    for (name, path) in entries(&layout.layers())? {
        let stem = name.strip_suffix(".json");
        let marker_path = layout.layers().join(format!("{}.json", stem.unwrap_or(&name)));
        let is_whole = read_json::<Marker>(&marker_path)?.is_some_and(|marker| {
            let is_safe = marker.is_synced || marker.boot == boot;
            is_safe && layout.layer(&marker.diff_id).is_dir()
        });
        if !is_whole {
            remove_any(&path)?;
        }
    }
    Ok(())
}

/// Takes a layer out of sight, into `staging`: what a crash leaves there the next sweep removes.
fn hide_layer(layout: &Layout, diff_id: &Digest) -> Result<PathBuf, ImageError> {
    let (layer, scratch) = (layout.layer(diff_id), layout.scratch());
    match std::fs::rename(&layer, &scratch) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(ImageError::file("rename", &layer, error));
        }
        Ok(()) | Err(_) => {}
    }
    remove_any(&layout.marker(diff_id))?;
    Ok(scratch)
}

pub(super) fn remove_any(path: &Path) -> Result<(), ImageError> {
    let is_folder = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let removed = if is_folder { remove_tree(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(|error| ImageError::file("remove", path, error)),
    }
}

/// A folder's names and paths, sorted.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, ImageError> {
    let failed = |error| ImageError::file("read", folder, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found.sort();
    Ok(found)
}

fn age(path: &Path) -> Option<Duration> {
    let changed = std::fs::symlink_metadata(path).ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(changed).unwrap_or_default())
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
