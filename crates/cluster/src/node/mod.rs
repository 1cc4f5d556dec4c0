//! The node: pods that are bound to this machine run here.
//!
//! Reading order: `pods` (which pods are here, one worker each) → `worker` (observe → `plan::node` → begin → report) →
//! `deeds` (what takes time) → `container` (a pod's words as a demand on the runtime) → what containers are given:
//! `keeper` (images), `grants` and `gpus`, `network`, `volumes`, `handlers` (probes and hooks). `record` and `leavings`
//! are what survives the process. `machine` is the Node object and its heart-beat (`facts` reads the machine), `pressure` what happens when the
//! machine runs short, `access` what clients do with a running pod, `usage` what it uses. `pretend` is nodes that are not there.

pub mod access;
mod container;
mod deeds;
pub mod facts;
pub mod gpus;
mod grants;
pub mod handlers;
mod keeper;
mod leavings;
pub mod machine;
pub mod network;
mod paths;
mod pods;
pub mod pressure;
pub mod pretend;
mod record;
pub mod usage;
pub mod volumes;
mod worker;

pub use leavings::{ClearError, clear, has_leavings};

use crate::apiserver::ApiServer;
use crate::apiserver::object;
use crate::controllers::report;
use crate::images::collect::CollectPolicy;
use crate::images::digest::Digest;
use crate::images::error::ImageError;
use crate::images::reference::ImageMap;
use crate::images::registry::RegistryConfig;
use crate::images::store::{Options as StoreOptions, Store};
use crate::runtime::Capabilities;
use crate::runtime::client::{Launcher, Pod as Shim, RuntimeError};
use crate::runtime::spec::Mode;
use gpus::{GpuUsage, Gpus};
use grants::Grants;
use k8s_openapi::api::core::v1::Pod;
use keeper::Keeper;
use machine::Machine;
use network::{Network, NetworkError};
use pods::{Feeder, Pods};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_api::kube::status::ApiError;
use volley_plan::control::Target;
use volley_plan::node::pressure::{ContainerUsage, PodUsage, storage_over_limit};
use volley_plan::node::seen::Eviction;
use volley_turns::events::Reporter;
use volumes::Volumes;

/// Unused images are looked for this often.
const COLLECT_EVERY: Duration = Duration::from_secs(300);
/// Volumes with a limit are measured this often, as the kubelet does.
const LIMITS_EVERY: Duration = Duration::from_secs(60);

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

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("failed to make the node's folder {folder}")]
    Folder { folder: PathBuf, source: std::io::Error },
    #[error("failed to find out what this machine lets pods be")]
    Probe(#[source] RuntimeError),
    #[error("the runtime `{asked}` cannot be had here, only `{best}`: {lacks}")]
    Mode { asked: &'static str, best: &'static str, lacks: String },
    #[error("failed to open the images")]
    Images(#[source] ImageError),
    #[error(transparent)]
    Gpus(#[from] gpus::GpuError),
    #[error("failed to set up the pods' network")]
    Network(#[source] NetworkError),
    #[error("failed to take over the pods of an earlier run")]
    Adopt(#[source] ClearError),
    #[error("failed to register the node")]
    Register(#[source] ApiError),
}

/// A pod that runs here, for those who read its files or speak to its shim.
#[derive(Debug, Clone)]
pub struct Handle {
    /// `node/pods/<uid>`.
    pub folder: PathBuf,
    /// The pod's main address; probes and port-forwards go there.
    pub address: Option<String>,
    /// `None` while nothing of the pod runs.
    pub shim: Option<Shim>,
    /// The runtime's id of each container's newest attempt, by container name, and whether it runs.
    pub containers: BTreeMap<String, (String, bool)>,
}

/// Where handles are found; the pods' index implements it.
pub trait Handles: Send + Sync + 'static {
    fn find(&self, pod_uid: &str) -> Option<Handle>;
    /// All pods here, by uid.
    fn all(&self) -> Vec<(String, Handle)>;
}

/// A GPU and who holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GpuHolding {
    #[serde(flatten)]
    pub usage: GpuUsage,
    /// As `namespace/pod/container`.
    #[serde(rename = "heldBy")]
    pub holders: Vec<String>,
}

/// What all workers share.
pub struct Parts {
    pub home: PathBuf,
    pub server: Arc<ApiServer>,
    pub launcher: Launcher,
    pub capabilities: Capabilities,
    pub machine: Arc<Machine>,
    keeper: Keeper,
    pub network: Arc<Network>,
    pub volumes: Volumes,
    pub gpus: Gpus,
    grants: Grants,
    pods: Pods,
    reporter: Reporter,
    /// The folder of all pods' groups.
    cgroup: PathBuf,
    /// Sandboxes that may be in the making at once.
    turns: Semaphore,
}

impl Parts {
    fn get<T: DeserializeOwned>(&self, bucket: &str, namespace: &str, name: &str) -> Option<T> {
        let store = &self.server.store;
        let stored = store.get(&store.bucket(bucket), &object::key(namespace, name))?;
        serde_json::from_slice(&stored.value).ok()
    }

    fn list<T: DeserializeOwned>(&self, bucket: &str, namespace: &str) -> Vec<T> {
        let store = &self.server.store;
        let listing = store.list(&store.bucket(bucket), &format!("{namespace}/"));
        listing.entries.iter().filter_map(|stored| serde_json::from_slice(&stored.value).ok()).collect()
    }

    fn has_cgroups(&self) -> bool {
        self.capabilities.mode == Mode::Root && self.capabilities.cgroups != "none"
    }
}

impl Handles for Parts {
    fn find(&self, pod_uid: &str) -> Option<Handle> {
        self.pods.find(pod_uid)
    }

    fn all(&self) -> Vec<(String, Handle)> {
        self.pods.all()
    }
}

/// Two for each processor: while one waits for the kernel another goes on. Were all pods of a large job begun at once,
/// each would be done only when the last one is.
fn turns() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * 2
}

/// The folder of a home's pods below every cgroup controller.
fn cgroup_of(home: &Path) -> PathBuf {
    let digest = Digest::of(home.as_os_str().as_encoded_bytes());
    PathBuf::from(format!("volley-{}", &digest.hex()[..12]))
}

pub struct Node {
    parts: Arc<Parts>,
}

impl Node {
    /// Starts the node: when this returns it is registered and takes pods.
    pub async fn start(
        server: Arc<ApiServer>,
        home: &Path,
        options: NodeOptions,
        stop: CancellationToken,
        tasks: &TaskTracker,
    ) -> Result<Arc<Node>, NodeError> {
        let pods = paths::pods(home);
        make_private(&pods).map_err(|source| NodeError::Folder { folder: pods.clone(), source })?;
        let capabilities = options.launcher.probe(&pods).await.map_err(NodeError::Probe)?;
        let capabilities = choose_mode(capabilities, options.mode)?;
        let gpus = Gpus::discover(&options.gpus, options.gpu_slices)?;
        let store_options = StoreOptions { registries: options.registries, ..StoreOptions::default() };
        let store = Store::open(&home.join("images"), store_options).await.map_err(NodeError::Images)?;
        let network = Network::open(home, capabilities.mode).await.map_err(NodeError::Network)?;
        let machine = Arc::new(Machine::observe(home, &capabilities, network.lacks(), gpus.labels(), gpus.inventory()));
        let left = leavings::adopt(home).await.map_err(NodeError::Adopt)?;
        let (reporter, waiting) = Reporter::new();
        let volumes = Volumes::new(server.clone(), capabilities.mode);
        let parts = Arc::new(Parts {
            home: home.to_owned(),
            launcher: options.launcher,
            capabilities,
            machine,
            keeper: Keeper::new(store, options.image_maps),
            network,
            volumes,
            gpus,
            grants: Grants::default(),
            pods: Pods::default(),
            reporter,
            cgroup: cgroup_of(home),
            turns: Semaphore::new(turns()),
            server: server.clone(),
        });
        for (uid, adopted) in &left {
            parts.grants.adopt(&adopted.record.pod, uid, &adopted.record.granted);
            let (pod, addresses) = (&adopted.record.pod, &adopted.record.seen.addresses);
            if adopted.shim.is_some() {
                parts.network.adopt(pod, addresses);
                if let Err(error) = parts.network.open_ports(pod, addresses).await {
                    tracing::warn!(pod = uid, error, "a pod's host ports could not be opened again");
                }
            }
        }
        parts.machine.register(&server).await.map_err(NodeError::Register)?;
        let workers = TaskTracker::new();
        let feeder = Feeder { parts: parts.clone(), left, stop: stop.clone(), workers };
        tasks.spawn(feeder.run());
        tasks.spawn(until(stop.clone(), report::write(server.clone(), waiting)));
        tasks.spawn(parts.network.clone().run(server.clone(), stop.clone()));
        tasks.spawn(until(stop.clone(), keep_hosts(parts.clone())));
        tasks.spawn(until(stop.clone(), collect_images(parts.clone())));
        tasks.spawn(until(stop.clone(), watch_limits(parts.clone())));
        let sampler = Arc::new(usage::Sampler::default());
        tasks.spawn(sampler.clone().run(parts.clone(), stop.clone()));
        let measured = parts.clone();
        tasks.spawn(until(stop.clone(), sampler.clone().watch_gpus(move || measured.gpus.usage())));
        server.set_node(Arc::new(access::Access::new(&parts.machine.name, parts.clone(), sampler.clone())));
        let node = Arc::new(Node { parts: parts.clone() });
        let images = parts.keeper.shown.clone();
        tasks.spawn(parts.machine.clone().run(server, move || images.read().clone(), stop.clone()));
        tasks.spawn(watch_pressure(parts, sampler, stop));
        Ok(node)
    }

    pub fn images(&self) -> &Store {
        &self.parts.keeper.store
    }

    pub fn image_maps(&self) -> Vec<ImageMap> {
        self.parts.keeper.maps()
    }

    /// Takes effect for containers that start from now on.
    pub fn set_image_maps(&self, maps: Vec<ImageMap>) {
        self.parts.keeper.set_maps(maps);
    }

    pub async fn images_in_use(&self) -> BTreeSet<Digest> {
        images_in_use(&self.parts).await
    }

    /// The runtime in use, and what pods cannot have here.
    pub fn runtime(&self) -> (&Capabilities, Vec<String>) {
        let lacks = [self.parts.capabilities.lacks.clone(), self.parts.network.lacks()].concat();
        (&self.parts.capabilities, lacks)
    }

    pub fn pods_running(&self) -> usize {
        self.parts.pods.all().iter().filter(|(_, handle)| handle.shim.is_some()).count()
    }

    pub fn gpus(&self) -> Vec<GpuHolding> {
        let holders = self.parts.grants.holders();
        let name = |(uid, container): &(String, String)| {
            let pod = self.parts.pods.entry(uid)?.pod();
            let (namespace, name) = (pod.metadata.namespace.clone()?, pod.metadata.name.clone()?);
            Some(format!("{namespace}/{name}/{container}"))
        };
        let holding = |usage: GpuUsage| {
            let holders = holders.get(&usage.uuid).into_iter().flatten().filter_map(name).collect();
            GpuHolding { usage, holders }
        };
        self.parts.gpus.usage().into_iter().map(holding).collect()
    }
}

/// The pod as events name it.
fn about(pod: &Pod) -> Target {
    Target {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
    }
}

async fn images_in_use(parts: &Parts) -> BTreeSet<Digest> {
    let pods: Vec<_> = parts.pods.entries().iter().filter(|entry| !entry.is_over()).map(|entry| entry.pod()).collect();
    let names = pods.iter().flat_map(|pod| volley_plan::node::containers(pod)).filter_map(|container| container.image);
    let names: Vec<String> = names.collect();
    parts.keeper.digests(names.iter().map(String::as_str)).await
}

/// Removes images that nobody uses when the disk fills up, and keeps the node's list of images current.
async fn collect_images(parts: Arc<Parts>) {
    loop {
        parts.keeper.show().await;
        tokio::time::sleep(COLLECT_EVERY).await;
        free_disk(&parts).await;
    }
}

async fn free_disk(parts: &Parts) {
    let keep = images_in_use(parts).await;
    if let Err(error) = parts.keeper.store.collect(&keep, &CollectPolicy::default()).await {
        tracing::warn!(%error, "unused images could not be removed");
    }
}

async fn watch_pressure(parts: Arc<Parts>, sampler: Arc<usage::Sampler>, stop: CancellationToken) {
    let (observed, evicted, freed) = (parts.clone(), parts.clone(), parts.clone());
    pressure::watch_pressure(
        parts.machine.clone(),
        move || pods_usage(&observed, &sampler),
        move |uid, eviction| evicted.pods.evict(uid, eviction),
        move || {
            let parts = freed.clone();
            async move { free_disk(&parts).await }
        },
        stop,
    )
    .await;
}

/// What the pods here use: memory as it was last measured, disk as it is found now.
fn pods_usage(parts: &Parts, sampler: &usage::Sampler) -> Vec<PodUsage> {
    let entries = parts.pods.entries();
    let alive = entries.iter().filter(|entry| entry.is_taken() && !entry.is_over());
    let measure = |entry: &Arc<pods::Entry>| {
        let (pod, measured) = (entry.pod(), sampler.pod(&entry.uid));
        let folder = paths::pods(&parts.home).join(&entry.uid);
        let mut containers = containers_usage(&pod, &folder, entry.handle().as_ref());
        for container in &mut containers {
            container.memory_bytes = measured.get(&container.name).map_or(0, |usage| signed(usage.memory_bytes));
        }
        let volume_bytes = signed(volumes::usage(&paths::volumes(&folder)));
        PodUsage { containers, volume_bytes, pod: (*pod).clone(), processes: 0 }
    };
    alive.map(measure).collect()
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The disk that each container uses: its logs and its writable layer. Walks them; may block.
fn containers_usage(pod: &Pod, folder: &Path, handle: Option<&Handle>) -> Vec<ContainerUsage> {
    let layers = handle.and_then(|handle| Some(handle.shim.as_ref()?.folder().join("scratch")));
    let usage = |name: String| {
        let id = handle.and_then(|handle| handle.containers.get(&name)).map(|(id, _)| id);
        let layer = layers.as_ref().zip(id).map_or(0, |(layers, id)| volumes::usage(&layers.join(id)));
        let disk_bytes = signed(layer.saturating_add(volumes::usage(&paths::logs(folder, &name))));
        ContainerUsage { name, memory_bytes: 0, disk_bytes }
    };
    volley_plan::node::containers(pod).into_iter().map(|container| usage(container.name)).collect()
}

/// Where there is no name server, pods find each other by their hosts files, which follow what is there.
async fn keep_hosts(parts: Arc<Parts>) {
    let mut changed = parts.network.names_changed();
    while parts.network.dns().cluster_servers.is_empty() && changed.changed().await.is_ok() {
        for entry in parts.pods.entries().into_iter().filter(|entry| entry.is_taken() && !entry.is_over()) {
            let Some(address) = entry.handle().and_then(|handle| handle.address) else { continue };
            let file = paths::etc(&paths::pods(&parts.home).join(&entry.uid)).join("hosts");
            // In place: containers have this very file mounted.
            if let Err(error) = std::fs::write(&file, deeds::hosts(&parts, &entry.pod(), &[address])) {
                tracing::debug!(%error, file = %file.display(), "a hosts file was not written");
            }
        }
    }
}

/// Evicts pods whose files have outgrown their own limits.
async fn watch_limits(parts: Arc<Parts>) {
    loop {
        tokio::time::sleep(LIMITS_EVERY).await;
        for entry in parts.pods.entries().into_iter().filter(|entry| entry.is_taken() && !entry.is_over()) {
            let (pod, folder) = (entry.pod(), paths::pods(&parts.home).join(&entry.uid));
            let handle = entry.handle();
            let over = tokio::task::spawn_blocking(move || {
                volumes::usage_over_limit(&pod, &paths::volumes(&folder))
                    .or_else(|| storage_over_limit(&containers_usage(&pod, &folder, handle.as_ref()), &pod))
            })
            .await;
            if let Ok(Some(message)) = over {
                parts.pods.evict(&entry.uid, Eviction { message, grace_seconds: 1 });
            }
        }
    }
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The words by which users name runtimes.
pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Root => "oci",
        Mode::Rootless => "rootless",
        Mode::Process => "process",
    }
}

/// The runtime that the user asked for, if the machine allows it.
fn choose_mode(best: Capabilities, asked: Option<Mode>) -> Result<Capabilities, NodeError> {
    let rank = |mode: Mode| [Mode::Process, Mode::Rootless, Mode::Root].iter().position(|other| *other == mode);
    match asked {
        Some(asked) if rank(asked) > rank(best.mode) => {
            Err(NodeError::Mode { asked: mode_word(asked), best: mode_word(best.mode), lacks: best.lacks.join("; ") })
        }
        Some(asked) if asked != best.mode => {
            let lacks = vec![format!(
                "the runtime `{}` was asked for, though `{}` can be had",
                mode_word(asked),
                mode_word(best.mode)
            )];
            Ok(Capabilities { mode: asked, cgroups: "none".to_owned(), lacks })
        }
        Some(_) | None => Ok(best),
    }
}
