//! What a container needs for the GPUs that it was granted: device nodes, the driver's files, variables.
//!
//! A container sees the devices whose nodes it has and no others, so CUDA and NVML number them from 0 whatever their
//! number on the machine is. `docs/notes/gpu.md` says why the variables and mounts are these.

use super::Gpus;
use super::card::{Card, Part};
use crate::runtime::spec::{Device, Mount, MountSource, Propagation};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use volley_plan::node::devices::DeviceId;

pub(super) const NVIDIA_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Nodes that every program needs that uses any GPU, as far as the machine has them.
const COMMON_NODES: [&str; 4] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];

#[cfg(target_arch = "x86_64")]
pub(super) const MULTIARCH_FOLDER: &str = "usr/lib/x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
pub(super) const MULTIARCH_FOLDER: &str = "usr/lib/aarch64-linux-gnu";

/// A folder with nothing but the driver's libraries; CUDA's own images have it in their `LD_LIBRARY_PATH`.
const OWN_FOLDER: &str = "/usr/local/nvidia/lib64";

/// Folders that the loaders of Debian-like and of other images search without a cache, and the driver's own.
const LIBRARY_FOLDERS: [&str; 3] = [MULTIARCH_FOLDER, "usr/lib64", OWN_FOLDER];

const BOARDS: &str = "/proc/driver/nvidia/gpus";

/// What a container with these devices needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gear {
    pub devices: Vec<Device>,
    pub mounts: Vec<Mount>,
    /// These win over the image's variables; the pod's own win over these.
    pub environment: Vec<(String, String)>,
    /// For containers where neither image nor pod sets them.
    pub environment_defaults: Vec<(String, String)>,
}

impl Gear {
    pub(super) fn new(gpus: &Gpus, granted: &[DeviceId], image_is_host: bool) -> Gear {
        if gpus.cards.is_empty() && granted.is_empty() {
            return Gear::default();
        }
        let mut ids: Vec<&str> = Vec::new();
        for DeviceId(id) in granted {
            // A shared device may be granted to the same container twice.
            if !ids.contains(&id.as_str()) {
                ids.push(id);
            }
        }
        let cards: Vec<&Card> = gpus.cards.iter().filter(|card| ids.contains(&card.uuid.as_str())).collect();
        let mut gear = Gear { environment: environment(&ids, &cards), ..Gear::default() };
        let places: BTreeSet<&str> = cards.iter().filter_map(|card| Some(card.place()?.bus.as_str())).collect();
        if gpus.cards.iter().any(|card| !card.is_fake()) {
            gear.mounts = boards(&gpus.root, &places);
        }
        if places.is_empty() {
            return gear;
        }
        gear.add_nodes(gpus, &cards);
        gear.add_files(gpus, image_is_host);
        gear
    }

    /// The same for a container that is a plain process of the machine and sees all its devices: it is told which to use.
    pub fn for_plain_process(self) -> Gear {
        let mut environment = self.environment;
        let visible = environment.iter().find(|(name, _)| name == NVIDIA_VISIBLE_DEVICES);
        // CUDA takes an empty list for none.
        let visible = visible.map(|(_, ids)| if ids == "void" { String::new() } else { ids.clone() });
        if let Some(visible) = visible {
            environment.retain(|(name, _)| name != CUDA_VISIBLE_DEVICES);
            environment.push((CUDA_VISIBLE_DEVICES.to_owned(), visible));
        }
        Gear { devices: Vec::new(), mounts: Vec::new(), environment, ..self }
    }

    fn add_nodes(&mut self, gpus: &Gpus, cards: &[&Card]) {
        let specification = gpus.files.specification.as_ref();
        let mut devices: Vec<Device> = COMMON_NODES.iter().map(|name| node(&gpus.root, name)).collect();
        devices.extend(specification.map(|found| found.container_edits.devices()).unwrap_or_default());
        for card in cards {
            let Some(place) = card.place() else { continue };
            let own = node(&gpus.root, &format!("nvidia{}", place.minor));
            let index = card.index.to_string();
            // Parts are not known by the index of their GPU.
            let names: &[&str] = if card.part().is_some() { &[&card.uuid] } else { &[&card.uuid, &index] };
            let edits = specification.and_then(|found| found.edits_of(names, &own.container_path));
            match edits {
                Some(edits) => {
                    devices.extend(edits.devices());
                    self.mounts.extend(edits.mounts());
                }
                None => {
                    devices.push(own);
                    let capabilities = card.part().map(|part| capability_nodes(&gpus.root, place.minor, part));
                    devices.extend(capabilities.unwrap_or_default());
                }
            }
        }
        for device in devices {
            let is_new = !self.devices.iter().any(|known| known.container_path == device.container_path);
            if is_new && device.host_path.exists() {
                self.devices.push(device);
            }
        }
    }

    /// The host image has the machine's own files already.
    fn add_files(&mut self, gpus: &Gpus, image_is_host: bool) {
        let files = &gpus.files;
        let library_path = |folder: String| ("LD_LIBRARY_PATH".to_owned(), folder);
        if image_is_host {
            let hidden = files.hidden_folder.as_ref().map(|folder| library_path(folder.display().to_string()));
            self.environment_defaults.extend(hidden);
            return;
        }
        if let Some(specification) = &files.specification {
            self.mounts.extend(specification.container_edits.mounts());
            self.environment.extend(specification.container_edits.environment());
        }
        for folder in LIBRARY_FOLDERS {
            let folder = Path::new("/").join(folder);
            self.mounts.extend(files.libraries.iter().map(|(name, path)| bind(folder.join(name), path.clone())));
        }
        for program in &files.programs {
            let Some(name) = program.file_name() else { continue };
            self.mounts.push(bind(Path::new("/usr/bin").join(name), program.clone()));
        }
        if !files.libraries.is_empty() {
            self.environment_defaults.push(library_path(OWN_FOLDER.to_owned()));
        }
        let mut targets = BTreeSet::new();
        self.mounts.retain(|mount| targets.insert(mount.target.clone()));
    }
}

/// Fake GPUs have no nodes to count, so programs are told in both variables which they hold.
fn environment(ids: &[&str], cards: &[&Card]) -> Vec<(String, String)> {
    if ids.is_empty() {
        return vec![(NVIDIA_VISIBLE_DEVICES.to_owned(), "void".to_owned())];
    }
    let mut environment = vec![(NVIDIA_VISIBLE_DEVICES.to_owned(), ids.join(","))];
    if cards.iter().any(|card| card.is_fake()) {
        environment.push((CUDA_VISIBLE_DEVICES.to_owned(), ids.join(",")));
    }
    environment
}

/// Shows the container its own boards only, where the kernel lists all. Some programs count GPUs there.
fn boards(root: &Path, own: &BTreeSet<&str>) -> Vec<Mount> {
    let folder = root.join(super::driver::below_root(Path::new(BOARDS)));
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let listed: BTreeSet<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let has_others = listed.iter().any(|board| !own.contains(board.as_str()));
    if !has_others {
        return Vec::new();
    }
    let source = MountSource::Tmpfs { bytes: Some(64 << 10), mode: 0o555 };
    let cover = Mount { target: BOARDS.into(), source, read_only: false, propagation: Propagation::None };
    let shown = listed.iter().filter(|board| own.contains(board.as_str()));
    let shown = shown.map(|board| bind(Path::new(BOARDS).join(board), folder.join(board)));
    [cover].into_iter().chain(shown).collect()
}

/// The nodes that open a part of a GPU: one of its GPU instance, one of its compute instance.
fn capability_nodes(root: &Path, minor: u32, part: &Part) -> Vec<Device> {
    let table = fs::read_to_string(root.join("proc/driver/nvidia-caps/mig-minors")).unwrap_or_default();
    let (gpu, compute) = (part.gpu_instance, part.compute_instance);
    let wanted = [format!("gpu{minor}/gi{gpu}/access"), format!("gpu{minor}/gi{gpu}/ci{compute}/access")];
    let lines = table.lines().filter_map(|line| line.split_once(' '));
    let numbers = lines.filter(|(name, _)| wanted.iter().any(|wanted| wanted == name)).map(|(_, number)| number.trim());
    numbers.map(|number| node(root, &format!("nvidia-caps/nvidia-cap{number}"))).collect()
}

/// Reading and writing is all that programs do; making nodes is not theirs.
fn node(root: &Path, name: &str) -> Device {
    let container_path = Path::new("/dev").join(name);
    Device { host_path: root.join("dev").join(name), container_path, access: "rw".to_owned() }
}

fn bind(target: PathBuf, path: PathBuf) -> Mount {
    let source = MountSource::Bind { path, sub_path: None };
    Mount { target, source, read_only: true, propagation: Propagation::None }
}
