//! The Container Device Interface: a file in which the machine's owner, usually by `nvidia-ctk cdi generate`, says what
//! a container needs for each GPU. Its hooks are programs to be run around a container's start; what NVIDIA's do (links
//! by library name, the loader's cache) `gear` does by mounts instead.

use crate::runtime::spec::{Device, Mount, MountSource, Propagation};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Later ones win, as the interface lays down.
const FOLDERS: [&str; 2] = ["etc/cdi", "var/run/cdi"];
const KIND: &str = "nvidia.com/gpu";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Specification {
    kind: String,
    #[serde(default)]
    devices: Vec<NamedDevice>,
    /// What every container needs that has any of the devices.
    #[serde(default)]
    pub container_edits: Edits,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedDevice {
    /// A UUID, an index or `all`.
    name: String,
    #[serde(default)]
    container_edits: Edits,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Edits {
    env: Vec<String>,
    device_nodes: Vec<Node>,
    mounts: Vec<Binding>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    path: PathBuf,
    host_path: Option<PathBuf>,
    permissions: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    host_path: PathBuf,
    container_path: PathBuf,
}

/// The machine's specification of NVIDIA GPUs. One that names files which are gone was written for another driver.
pub(super) fn find(root: &Path) -> Option<Specification> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        names.sort();
        files.extend(names);
    }
    let mut found = None;
    for file in files {
        match read(&file) {
            Ok(Some(specification)) if specification.kind == KIND => match specification.below(root).complete() {
                Ok(specification) => found = Some(specification),
                Err(path) => {
                    let missing = path.display();
                    tracing::warn!(file = %file.display(), %missing, "the CDI specification is out of date; not used");
                }
            },
            Ok(_) => {}
            Err(error) => tracing::warn!(file = %file.display(), error, "the CDI specification cannot be read"),
        }
    }
    found
}

fn read(file: &Path) -> Result<Option<Specification>, String> {
    let text = || fs::read_to_string(file).map_err(|error| error.to_string());
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => serde_json::from_str(&text()?).map(Some).map_err(|error| error.to_string()),
        Some("yaml" | "yml") => serde_saphyr::from_str(&text()?).map(Some).map_err(|error| error.to_string()),
        _ => Ok(None),
    }
}

impl Specification {
    /// The same with the machine's files below `root`.
    fn below(mut self, root: &Path) -> Specification {
        let devices = self.devices.iter_mut().map(|device| &mut device.container_edits);
        for edits in devices.chain([&mut self.container_edits]) {
            for node in &mut edits.device_nodes {
                let path = node.host_path.as_ref().unwrap_or(&node.path);
                node.host_path = Some(root.join(super::driver::below_root(path)));
            }
            for binding in &mut edits.mounts {
                binding.host_path = root.join(super::driver::below_root(&binding.host_path));
            }
        }
        self
    }

    /// Itself if all its files are there, else one that is not.
    fn complete(self) -> Result<Specification, PathBuf> {
        let mut paths = self.container_edits.mounts.iter().map(|binding| &binding.host_path);
        match paths.find(|path| !path.exists()) {
            Some(missing) => Err(missing.clone()),
            None => Ok(self),
        }
    }

    /// The libraries among the files that all containers get.
    pub(super) fn libraries(&self) -> Vec<PathBuf> {
        let files = self.container_edits.mounts.iter().map(|binding| binding.host_path.clone());
        files.filter(|file| file.to_string_lossy().contains(".so")).collect()
    }

    /// What the device needs by any of its names, if its edits hold the node that it must have.
    pub(super) fn edits_of(&self, names: &[&str], node: &Path) -> Option<&Edits> {
        let mut devices = self.devices.iter().filter(|device| names.contains(&device.name.as_str()));
        let edits = devices.find(|device| device.container_edits.device_nodes.iter().any(|found| found.path == node));
        edits.map(|device| &device.container_edits)
    }
}

impl Edits {
    pub(super) fn devices(&self) -> Vec<Device> {
        let device = |node: &Node| Device {
            host_path: node.host_path.clone().unwrap_or_else(|| node.path.clone()),
            container_path: node.path.clone(),
            access: node.permissions.clone().unwrap_or_else(|| "rwm".to_owned()),
        };
        self.device_nodes.iter().map(device).collect()
    }

    pub(super) fn mounts(&self) -> Vec<Mount> {
        let mount = |binding: &Binding| Mount {
            target: binding.container_path.clone(),
            source: MountSource::Bind { path: binding.host_path.clone(), sub_path: None },
            read_only: true,
            propagation: Propagation::None,
        };
        self.mounts.iter().map(mount).collect()
    }

    /// All but the choice of devices: specifications set that to `void` to keep NVIDIA's own runtime out.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let pairs = self.env.iter().filter_map(|pair| pair.split_once('='));
        let others = pairs.filter(|(name, _)| *name != super::gear::NVIDIA_VISIBLE_DEVICES);
        others.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
