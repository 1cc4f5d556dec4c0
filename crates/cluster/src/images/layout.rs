//! Where things lie below `<home>/images`, and the few ways in which files there are written.
//!
//! `blobs/sha256/<hex>` as served, `partial/<hex>` on its way, `layers/<short>` unpacked with `layers/<short>.json`
//! beside it, `staging/` for work that a crash may leave, `names.json` for what is called what.

use super::digest::Digest;
use super::error::ImageError;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The machine's current boot: what an earlier boot did not sync may be half written.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

/// Written beside a layer before the layer gets its name: both together mean that it is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    pub diff_id: Digest,
    pub entries: u64,
    pub bytes: u64,
    pub boot: String,
    /// Whether the layer has reached the disk itself.
    pub is_synced: bool,
}

/// A file system's size, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub free: u64,
}

impl Layout {
    /// Makes the folders where they are missing.
    pub fn open(root: &Path) -> Result<Layout, ImageError> {
        let layout = Layout { root: root.to_owned() };
        for folder in [layout.blobs(), layout.partials(), layout.layers(), layout.staging()] {
            std::fs::create_dir_all(&folder).map_err(|error| ImageError::file("create", &folder, error))?;
        }
        Ok(layout)
    }

    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    pub fn partials(&self) -> PathBuf {
        self.root.join("partial")
    }

    pub fn partial(&self, digest: &Digest) -> PathBuf {
        self.partials().join(digest.hex())
    }

    pub fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    pub fn layer(&self, diff_id: &Digest) -> PathBuf {
        self.layers().join(diff_id.short())
    }

    pub fn marker(&self, diff_id: &Digest) -> PathBuf {
        self.layers().join(format!("{}.json", diff_id.short()))
    }

    pub fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    pub fn names(&self) -> PathBuf {
        self.root.join("names.json")
    }

    /// Held shared by every open store; who gets it alone may sweep.
    pub fn users_lock(&self) -> PathBuf {
        self.root.join("users.lock")
    }

    /// Held while `names.json` is changed.
    pub fn names_lock(&self) -> PathBuf {
        self.root.join("names.lock")
    }

    /// A name in `staging` that nobody else has.
    pub fn scratch(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.staging().join(format!("{}-{count}-{:08x}", std::process::id(), rand::random::<u32>()))
    }

    /// The marker of a whole layer; `None` when the layer is missing or unfinished.
    pub fn layer_marker(&self, diff_id: &Digest) -> Result<Option<Marker>, ImageError> {
        if !self.layer(diff_id).is_dir() {
            return Ok(None);
        }
        match read_json::<Marker>(&self.marker(diff_id))? {
            Some(marker) if marker.diff_id != *diff_id => Err(ImageError::malformed(
                format!("layer {diff_id}"),
                format!("its short name is taken by {}", marker.diff_id),
            )),
            marker => Ok(marker),
        }
    }

    pub fn write_marker(&self, marker: &Marker) -> Result<(), ImageError> {
        let bytes = serde_json::to_vec(marker).map_err(|error| ImageError::malformed("a layer's marker", error))?;
        self.write_atomic(&self.marker(&marker.diff_id), &bytes)
    }

    /// Reads a small blob and checks it, since an earlier crash may have cut it.
    pub fn read_blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ImageError> {
        let path = self.blob(digest);
        match std::fs::read(&path) {
            Ok(bytes) if Digest::of(&bytes) == *digest => Ok(Some(bytes)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ImageError::file("read", &path, error)),
        }
    }

    pub fn write_blob(&self, digest: &Digest, bytes: &[u8]) -> Result<(), ImageError> {
        if self.read_blob(digest)?.is_some() { Ok(()) } else { self.write_atomic(&self.blob(digest), bytes) }
    }

    /// Writes a file so that readers, and the next boot, see the old or the new one whole.
    pub fn write_atomic(&self, path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
        let scratch = self.scratch();
        let write = || {
            let mut file = std::fs::File::create_new(&scratch)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            std::fs::rename(&scratch, path)
        };
        write().map_err(|error| {
            drop(std::fs::remove_file(&scratch));
            ImageError::file("write", path, error)
        })
    }
}

pub fn boot_id() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// Reads a file of ours; one that is missing or broken is as good as absent.
pub fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, ImageError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ImageError::file("read", path, error)),
    }
}

/// The file system that holds a path.
pub fn space(path: &Path) -> Result<Space, ImageError> {
    let found = path.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok());
    let missing = || ImageError::file("measure", path, io::ErrorKind::NotFound.into());
    let found = found.ok_or_else(missing)?;
    Ok(Space { total: found.f_blocks * found.f_frsize, free: found.f_bavail * found.f_frsize })
}

/// Runs blocking work on a thread made for it.
pub async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ImageError::Interrupted)?
}
