//! The volumes of one container as demands on the runtime, and what its pod's volumes take.

use super::tree;
use crate::runtime::spec::{Mount, MountSource, Propagation};
use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Pod, Volume};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use volley_api::kube::quantity::Quantity;
use volley_plan::node::environment::ConfigError;
use volley_plan::node::mounts::{Place, places};
use volley_plan::node::volumes::memory_bytes;

/// As the kernel makes the root of a tmpfs by default: everybody may write, and remove what is their own.
const MEMORY_MODE: u32 = 0o1777;

/// What a container's `volumeMounts` ask of the runtime, the pod's volumes lying in `folder`.
pub fn mounts(
    pod: &Pod,
    container: &Container,
    folder: &Path,
    environment: &[(String, String)],
) -> Result<Vec<Mount>, ConfigError> {
    let places = places(pod, container, environment)?;
    places.into_iter().map(|place| mount(pod, container, folder, place)).collect()
}

fn mount(pod: &Pod, container: &Container, folder: &Path, place: Place) -> Result<Mount, ConfigError> {
    let name = &place.volume.name;
    let at = folder.join(name);
    let source = match (location(&at), memory(place.volume)) {
        (Ok(path), _) => bind(path, &place, container)?,
        // Without privileges the node mounts nothing; the container's own is as good where nobody shares it.
        (Err(error), Some(source)) if error.kind() == io::ErrorKind::NotFound => {
            MountSource::Tmpfs { bytes: memory_bytes(pod, source), mode: MEMORY_MODE }
        }
        (Err(error), _) => {
            let text = format!("cannot find volume {name:?} to mount into container {:?}: {error}", container.name);
            return Err(ConfigError(text));
        }
    };
    let propagation = match place.propagation {
        "HostToContainer" => Propagation::HostToContainer,
        "Bidirectional" => Propagation::Bidirectional,
        _ => Propagation::None,
    };
    Ok(Mount { target: place.target, source, read_only: place.is_read_only, propagation })
}

/// Where the volume lies: here, or where the link says.
fn location(at: &Path) -> io::Result<PathBuf> {
    if fs::symlink_metadata(at)?.is_symlink() { fs::read_link(at) } else { Ok(at.to_owned()) }
}

fn memory(volume: &Volume) -> Option<&EmptyDirVolumeSource> {
    volume.empty_dir.as_ref().filter(|source| source.medium.as_deref() == Some("Memory"))
}

fn bind(path: PathBuf, place: &Place, container: &Container) -> Result<MountSource, ConfigError> {
    if let Some(sub_path) = &place.sub_path {
        make_sub_path(&path, Path::new(sub_path)).map_err(|error| {
            let (volume, name) = (&place.volume.name, &container.name);
            let text = format!("failed to create subPath directory for volumeMount {volume:?} of container {name:?}");
            ConfigError(format!("{text}: {error}"))
        })?;
    }
    Ok(MountSource::Bind { path, sub_path: place.sub_path.as_ref().map(PathBuf::from) })
}

/// Makes the folders that are missing, with the volume's own mode; no link can lead them out of the volume.
fn make_sub_path(volume: &Path, sub_path: &Path) -> io::Result<()> {
    let root = rustix::fs::open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if open_inside(&root, sub_path).is_ok() {
        return Ok(());
    }
    let mode = Mode::from_raw_mode(fs::metadata(volume)?.mode() & 0o7777);
    let mut reached = PathBuf::new();
    let mut parent = root.try_clone()?;
    for part in sub_path.components() {
        let Component::Normal(name) = part else { continue };
        reached.push(name);
        parent = match open_inside(&root, &reached) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&parent, name, mode)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
                // The process's mask has taken something from the mode.
                rustix::fs::fchmod(&made, mode)?;
                made
            }
            found => found?,
        };
    }
    Ok(())
}

fn open_inside(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Why the pod has to go: a volume on disk that holds more than its `sizeLimit`. Walks the volumes; may block.
pub fn usage_over_limit(pod: &Pod, folder: &Path) -> Option<String> {
    let volumes = pod.spec.as_ref()?.volumes.as_deref().unwrap_or_default();
    volumes.iter().find_map(|volume| {
        let limit = volume.empty_dir.as_ref().filter(|_| memory(volume).is_none())?.size_limit.as_ref()?;
        let bytes = Quantity::parse(&limit.0).ok().and_then(|limit| u64::try_from(limit.value()).ok())?;
        let is_over = bytes > 0 && tree::usage(&folder.join(&volume.name)).is_ok_and(|used| used > bytes);
        // The blank at the end is the kubelet's.
        is_over.then(|| format!("Usage of EmptyDir volume {:?} exceeds the limit {:?}. ", volume.name, limit.0))
    })
}
