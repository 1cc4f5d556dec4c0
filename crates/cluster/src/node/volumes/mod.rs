//! The pods' volumes: made below a pod's `volumes/`, kept up to date, shown to containers, and taken away.
//!
//! The pod's worker calls `Volumes`; `plan::node::volumes` says what each volume is made of. What lies elsewhere on the
//! machine is a link in the folder, so that nothing but what is the pod's own can ever be removed with it.

mod container;
mod host;
mod nfs;
mod tokens;
mod tree;
mod writer;

#[cfg(test)]
mod tests;

pub use container::{mounts, usage_over_limit};

use crate::apiserver::ApiServer;
use crate::runtime::spec::Mode;
use crate::runtime::sys;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Volume};
use serde::de::DeserializeOwned;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokens::TokenSource;
use volley_plan::node::environment::Sources;
use volley_plan::node::mounts::{is_written, mounts_below};
use volley_plan::node::payload::{Payload, payload};
use volley_plan::node::volumes::{self, Backing, Lookup, Ownership, ownership, set_up_failed};

pub struct Volumes {
    server: Arc<ApiServer>,
    mode: Mode,
}

/// Why a pod's volumes are not there; an event says so, and the node tries again.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct VolumeError {
    pub reason: String,
    pub message: String,
}

impl VolumeError {
    fn mount(message: String) -> Self {
        VolumeError { reason: "FailedMount".to_owned(), message }
    }

    fn unmount(message: String) -> Self {
        VolumeError { reason: "FailedUnMount".to_owned(), message }
    }
}

/// One volume to be made.
struct Step {
    name: String,
    is_claim: bool,
    wanted: Result<Wanted, String>,
}

struct Wanted {
    /// The name that events use.
    label: String,
    backing: Backing,
    /// What stands in it, if the node writes it.
    payload: Option<Payload>,
}

/// The bytes that a folder takes on disk; none if it cannot be read.
pub fn usage(folder: &Path) -> u64 {
    tree::usage(folder).unwrap_or(0)
}

/// Unmounts and removes all volumes below `folder`, also what a killed process has left.
pub async fn unmount(folder: &Path) -> Result<(), VolumeError> {
    let folder = folder.to_owned();
    blocking(move || clear(&folder)).await.map_err(VolumeError::unmount)
}

impl Volumes {
    pub fn new(server: Arc<ApiServer>, mode: Mode) -> Volumes {
        Volumes { server, mode }
    }

    /// Makes every volume of the pod below `folder`; what is there already is left or brought up to date.
    ///
    /// Returns when a token has to be renewed.
    pub async fn mount(&self, pod: &Pod, folder: &Path, sources: &Sources) -> Result<Option<Timestamp>, VolumeError> {
        let steps = self.steps(pod, sources, |_| true);
        let maker = self.maker(pod, folder);
        let made = blocking(move || {
            fs::create_dir_all(&maker.folder).map_err(|error| cannot("make", &maker.folder, &error))?;
            maker.make_all(&steps)
        });
        made.await.map_err(VolumeError::mount)
    }

    /// Brings what the node writes up to date; returns when a token has to be renewed.
    pub async fn refresh(&self, pod: &Pod, folder: &Path, sources: &Sources) -> Result<Option<Timestamp>, VolumeError> {
        let steps = self.steps(pod, sources, is_written);
        let maker = self.maker(pod, folder);
        let refreshed = blocking(move || if maker.folder.is_dir() { maker.make_all(&steps) } else { Ok(None) });
        refreshed.await.map_err(VolumeError::mount)
    }

    fn maker(&self, pod: &Pod, folder: &Path) -> Maker {
        Maker {
            folder: folder.to_owned(),
            mode: self.mode,
            // Without privileges there is but one user, to whom all belongs already.
            ownership: if self.mode == Mode::Root { ownership(pod) } else { Ownership::default() },
            tokens: TokenSource::new(self.server.clone(), pod),
        }
    }

    fn steps(&self, pod: &Pod, sources: &Sources, is_wanted: fn(&Volume) -> bool) -> Vec<Step> {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let wanted = volumes.iter().filter(|volume| is_wanted(volume));
        let steps = wanted.filter_map(|volume| {
            let wanted = self.wanted(pod, volume, sources).transpose()?;
            let is_claim = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
            Some(Step { name: volume.name.clone(), is_claim, wanted })
        });
        steps.collect()
    }

    fn wanted(&self, pod: &Pod, volume: &Volume, sources: &Sources) -> Result<Option<Wanted>, String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let lookup = Lookup {
            claim: &|name| self.get("persistentvolumeclaims", namespace, name),
            volume: &|name| self.get("persistentvolumes", "", name),
        };
        let (label, backing) = volumes::backing(pod, volume, &lookup)?;
        let is_memory = matches!(backing, Backing::Memory { .. });
        if is_memory && self.mode == Mode::Rootless && volumes::is_private(pod, &volume.name) {
            // The container gets a file system in memory of its own: see `mounts`.
            return Ok(None);
        }
        let lacking = match &backing {
            Backing::Memory { .. } => Some("medium Memory, used by several containers or with a subPath,"),
            Backing::Nfs(_) => Some("kind nfs"),
            Backing::Disk | Backing::Written { .. } | Backing::Host { .. } | Backing::Local { .. } => None,
        };
        if let Some(what) = lacking.filter(|_| self.mode != Mode::Root) {
            let why = "needs a mount that only root may make; run volley as root, or use a volume on disk";
            return Err(set_up_failed(&label, format!("a volume of {what} {why}")));
        }
        let payload = payload(pod, volume, sources).map_err(|why| set_up_failed(&label, why))?;
        Ok(Some(Wanted { label, backing, payload }))
    }

    fn get<T: DeserializeOwned>(&self, plural: &str, namespace: &str, name: &str) -> Option<T> {
        let found = self.server.local("node").get("", plural, namespace, name)?;
        serde_json::from_value(found).ok()
    }
}

/// What making one pod's volumes takes, on a thread that may block.
struct Maker {
    folder: PathBuf,
    mode: Mode,
    ownership: Ownership,
    tokens: TokenSource,
}

impl Maker {
    /// Makes all that can be made, then says what could not; returns when a token has to be renewed.
    fn make_all(&self, steps: &[Step]) -> Result<Option<Timestamp>, String> {
        let (mut earliest, mut refusal) = (None, None);
        for step in steps {
            match self.make(step) {
                Ok(renewal) => earliest = earliest.into_iter().chain(renewal).min(),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        refusal.map_or(Ok(earliest), Err)
    }

    fn make(&self, step: &Step) -> Result<Option<Timestamp>, String> {
        let place = self.folder.join(&step.name);
        let Wanted { label, backing, payload } = match &step.wanted {
            Ok(wanted) => wanted,
            // A claim that is deleted stays with the pods that have it already.
            Err(_) if step.is_claim && is_elsewhere(&place) => return Ok(None),
            Err(why) => return Err(why.clone()),
        };
        let made = match (backing, payload) {
            (Backing::Written { is_secret }, Some(payload)) => self.write(&place, payload, *is_secret),
            (backing, _) => self.place(&place, backing).map(|()| None),
        };
        made.map_err(|why| set_up_failed(label, why))
    }

    fn write(&self, place: &Path, payload: &Payload, is_secret: bool) -> Result<Option<Timestamp>, String> {
        self.fresh_folder(place, 0o755)?;
        if is_secret && self.mode == Mode::Root && !is_mount_point(place) {
            memory_file_system(place, "mode=755")?;
        }
        let (files, renewal) = self.tokens.fill(payload, place, &self.ownership)?;
        writer::write(place, &files, self.ownership.group).map_err(|error| cannot("write", place, &error))?;
        Ok(renewal)
    }

    fn place(&self, place: &Path, backing: &Backing) -> Result<(), String> {
        match backing {
            Backing::Written { .. } => Ok(()),
            Backing::Disk => {
                let is_fresh = self.fresh_folder(place, 0o777)?;
                self.share(place, is_fresh)
            }
            Backing::Memory { bytes } => {
                self.fresh_folder(place, 0o777)?;
                let is_fresh = !is_mount_point(place);
                if is_fresh {
                    let size = bytes.map_or(String::new(), |bytes| format!(",size={bytes}"));
                    memory_file_system(place, &format!("mode=1777{size}"))?;
                }
                self.share(place, is_fresh)
            }
            Backing::Host { path, kind } => {
                host::check(Path::new(path), kind)?;
                host::link(place, Path::new(path)).map(drop)
            }
            Backing::Local { path } => {
                host::check_local(Path::new(path))?;
                let is_fresh = host::link(place, Path::new(path))?;
                self.share(Path::new(path), is_fresh)
            }
            Backing::Nfs(share) => {
                self.fresh_folder(place, 0o750)?;
                if is_mount_point(place) { Ok(()) } else { nfs::mount(share, place) }
            }
        }
    }

    /// Makes a folder with this very mode; says whether it was missing.
    fn fresh_folder(&self, place: &Path, mode: u32) -> Result<bool, String> {
        let made = match fs::create_dir(place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            made => made.and_then(|()| fs::set_permissions(place, Permissions::from_mode(mode))),
        };
        made.map(|()| true).map_err(|error| cannot("make", place, &error))
    }

    /// Gives a volume that is new to the pod to the pod's group.
    fn share(&self, place: &Path, is_fresh: bool) -> Result<(), String> {
        let Some(group) = self.ownership.group.filter(|_| is_fresh) else { return Ok(()) };
        let shared = tree::share(place, group, self.ownership.only_on_mismatch);
        shared.map_err(|error| cannot("give to the pod's fsGroup", place, &error))
    }
}

fn memory_file_system(place: &Path, options: &str) -> Result<(), String> {
    let mounted = sys::mount("tmpfs", place, "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, options);
    mounted.map_err(|error| cannot("mount a tmpfs on", place, &error))
}

/// Whether another file system begins here. A bind mount of the same one would go unseen; the node makes none.
fn is_mount_point(place: &Path) -> bool {
    let device = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.dev());
    device(place) != place.parent().and_then(device)
}

/// Whether a volume that is not the pod's own is in place: a link to it, or its file system.
fn is_elsewhere(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok_and(|found| found.is_symlink() || (found.is_dir() && is_mount_point(place)))
}

fn cannot(what: &str, place: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", place.display())
}

fn clear(folder: &Path) -> Result<(), String> {
    // The kernel lists mounts by their true paths.
    let folder = match fs::canonicalize(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| cannot("find", folder, &error))?,
    };
    let table = Path::new("/proc/self/mountinfo");
    let mounts = fs::read(table).map_err(|error| cannot("read", table, &error))?;
    for place in mounts_below(&String::from_utf8_lossy(&mounts), &folder) {
        sys::unmount_detached(&place).map_err(|error| cannot("unmount", &place, &error))?;
    }
    tree::remove(&folder).map_err(|error| cannot("remove", &folder, &error))
}

/// Runs what may block beside the worker's thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => Err(format!("the node's work on the volumes ended: {stopped}")),
    }
}
