//! Images for containers: what `image:` means on this machine, whether it is here, and getting it if it is not.

use super::Parts;
use crate::images::auth::Keyring;
use crate::images::digest::Digest;
use crate::images::error::ImageError;
use crate::images::flight::Stage;
use crate::images::pull::PullPolicy;
use crate::images::reference::{ImageMap, Reference, Source, resolve};
use crate::images::store::{Image, Store};
use k8s_openapi::api::core::v1::{Pod, Secret};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use volley_plan::control::{Event, EventType};
use volley_plan::node::environment::ImageConfig;

/// The image id that clients see of a container on the machine's own file system.
const HOST: &str = "host";
/// Progress is worth an event at most this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

pub struct Keeper {
    pub store: Store,
    maps: RwLock<Vec<ImageMap>>,
    /// The images that are here, by their names and sizes, as the Node object lists them.
    pub shown: Arc<RwLock<Vec<(Vec<String>, u64)>>>,
}

/// What a container's root is made of.
#[derive(Debug, Clone)]
pub enum Found {
    Host,
    Image(Box<Image>),
}

/// What a pull brought.
#[derive(Debug, Clone)]
pub struct Obtained {
    pub image_id: String,
    pub size_bytes: u64,
    pub took_ms: u64,
}

impl Found {
    pub fn id(&self) -> String {
        match self {
            Found::Host => HOST.to_owned(),
            Found::Image(image) => image.pinned(),
        }
    }

    /// What the image says about its process, in the planner's words.
    pub fn config(&self) -> ImageConfig {
        match self {
            // The box's own environment is the point of running on it.
            Found::Host => ImageConfig { environment: host_environment(), ..ImageConfig::default() },
            Found::Image(image) => ImageConfig {
                entrypoint: image.config.entrypoint.clone(),
                command: image.config.cmd.clone(),
                environment: image.config.env.clone(),
                working_folder: image.config.workdir.clone(),
            },
        }
    }
}

/// What a job on the machine's own file system finds set: where programs and the home are, and nothing else of ours.
fn host_environment() -> Vec<String> {
    let kept = ["PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME"];
    kept.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?))).collect()
}

impl Keeper {
    pub fn new(store: Store, maps: Vec<ImageMap>) -> Keeper {
        Keeper { store, maps: RwLock::new(maps), shown: Arc::default() }
    }

    pub fn maps(&self) -> Vec<ImageMap> {
        self.maps.read().clone()
    }

    pub fn set_maps(&self, maps: Vec<ImageMap>) {
        *self.maps.write() = maps;
    }

    pub fn is_host(&self, written: &str) -> bool {
        matches!(resolve(written, &self.maps.read()), Ok(Source::Host))
    }

    /// The image if it is here.
    pub async fn find(&self, written: &str) -> Result<Option<Found>, ImageError> {
        let source = resolve(written, &self.maps.read())?;
        match source {
            Source::Host => Ok(Some(Found::Host)),
            Source::Image(reference) => {
                Ok(self.store.get(&reference).await?.map(|image| Found::Image(Box::new(image))))
            }
        }
    }

    /// Asks the registry for the image, with the pod's secrets and the machine's own credentials.
    pub async fn pull(&self, parts: &Arc<Parts>, pod: &Pod, written: &str) -> Result<Obtained, ImageError> {
        let began = Instant::now();
        let Source::Image(reference) = resolve(written, &self.maps.read())? else {
            return Ok(Obtained { image_id: HOST.to_owned(), size_bytes: 0, took_ms: 0 });
        };
        let keyring = keyring(parts, pod)?;
        let image = self.store.pull(&reference, &keyring, PullPolicy::Always, progress(parts, pod, &reference)).await?;
        self.show().await;
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Obtained { image_id: image.pinned(), size_bytes: image.size, took_ms })
    }

    /// Brings the list of images for the Node object up to date.
    pub async fn show(&self) {
        let Ok(images) = self.store.list().await else { return };
        let row = |image: &Image| (vec![image.pinned(), image.reference.to_string()], image.size);
        *self.shown.write() = images.iter().map(row).collect();
    }

    /// Notes that a container of this image has started, so that collection spares it.
    pub async fn touch(&self, found: &Found) {
        if let Found::Image(image) = found
            && let Err(error) = self.store.touch(&image.reference).await
        {
            tracing::debug!(%error, image = %image.reference, "the image's last use was not noted");
        }
    }

    /// The ids of the images that these references mean.
    pub async fn digests<'a>(&self, written: impl Iterator<Item = &'a str>) -> BTreeSet<Digest> {
        let mut digests = BTreeSet::new();
        for name in written.collect::<BTreeSet<_>>() {
            if let Ok(Some(Found::Image(image))) = self.find(name).await {
                digests.insert(image.id);
            }
        }
        digests
    }
}

/// Tells users of a pull that takes long how far it is.
fn progress(parts: &Arc<Parts>, pod: &Pod, reference: &Reference) -> crate::images::flight::OnProgress {
    let (parts, about, name) = (parts.clone(), super::about(pod), reference.to_string());
    // What has come of each layer, of how much; and when that was told last.
    let state = parking_lot::Mutex::new((BTreeMap::new(), Instant::now()));
    Arc::new(move |progress| {
        let mut state = state.lock();
        let came = match progress.stage {
            Stage::Waiting => 0,
            Stage::Downloading(bytes) => bytes,
            Stage::Unpacking | Stage::Done => progress.total,
        };
        state.0.insert(progress.layer.clone(), (came, progress.total));
        if state.1.elapsed() >= PROGRESS_EVERY {
            state.1 = Instant::now();
            let came: u64 = state.0.values().map(|(came, _)| came >> 20).sum();
            let total: u64 = state.0.values().map(|(_, total)| total >> 20).sum();
            let message = format!("Pulling image {name:?}: {came} of {total} MiB are here");
            let (kind, reason) = (EventType::Normal, "Pulling".to_owned());
            let about = about.clone();
            parts.reporter.report(Event { kind, reason, message, about, component: "kubelet", field_path: None });
        }
    })
}

/// The pod's `imagePullSecrets`, then `~/.docker/config.json`. A secret that is not there is passed over, as the kubelet does.
fn keyring(parts: &Parts, pod: &Pod) -> Result<Keyring, ImageError> {
    let names = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
    let mut keyring = Keyring::default();
    for name in names.map(|reference| reference.name.as_str()) {
        let Some(secret) = parts.get::<Secret>("secrets", pod.metadata.namespace.as_deref().unwrap_or_default(), name)
        else {
            continue;
        };
        let data: BTreeMap<String, Vec<u8>> =
            secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        keyring = keyring.and(Keyring::from_secret(&data, name)?);
    }
    match own_config().filter(|path| path.exists()) {
        Some(path) => Ok(keyring.and(Keyring::from_file(&path)?)),
        None => Ok(keyring),
    }
}

fn own_config() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".docker")))?;
    Some(folder.join("config.json"))
}
