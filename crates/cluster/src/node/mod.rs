//! The node: pods that are bound to this machine run here.
//!
//! Reading order: `pods` (which pods are here, one worker each) → `worker` (observe → `plan::node` → do → report) →
//! `container` (a pod's words as a demand on the runtime) → the things that containers are given: `keeper` (images),
//! `network`, `volumes`, `gpus`, `handlers` (probes and hooks). `machine` is the Node object and its heart-beat
//! (`facts` reads the machine, `pressure` watches what runs short),
//! `access` what clients do with a running pod, `usage` what it uses.

pub mod access;
pub mod facts;
pub mod gpus;
pub mod handlers;
pub mod machine;
pub mod network;
pub mod pressure;
pub mod usage;
pub mod volumes;

use crate::images::reference::ImageMap;
use crate::images::registry::RegistryConfig;
use crate::runtime::client::{Launcher, Pod};
use crate::runtime::spec::Mode;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How the node is started.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// How to run a pod's shim: usually this program's own hidden verb.
    pub launcher: Launcher,
    /// The runtime that the user insists on; `None` takes the best one that the machine allows.
    pub mode: Option<Mode>,
    pub gpus: gpus::GpuChoice,
    /// How many containers may share one GPU.
    pub gpu_slices: u32,
    pub image_maps: Vec<ImageMap>,
    pub registries: RegistryConfig,
}

/// A pod that runs here, for those who read its files or speak to its shim.
#[derive(Debug, Clone)]
pub struct Handle {
    /// `node/pods/<uid>`.
    pub folder: PathBuf,
    /// The pod's main address; probes and port-forwards go there.
    pub address: Option<String>,
    /// `None` while nothing of the pod runs.
    pub shim: Option<Pod>,
    /// The runtime's id of each container's newest attempt, by container name, and whether it runs.
    pub containers: BTreeMap<String, (String, bool)>,
}

/// Where handles are found; the pods' index implements it.
pub trait Handles: Send + Sync + 'static {
    fn find(&self, pod_uid: &str) -> Option<Handle>;
    /// All pods here, by uid.
    fn all(&self) -> Vec<(String, Handle)>;
}
