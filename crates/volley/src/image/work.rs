//! What `volley image` does to the store, in the running process or without one.
//!
//! Work that adds to the store holds its lock shared, removal holds it alone: two processes that have the store open do
//! not know of each other's downloads.

use super::SaveFormat;
use super::progress::Progress;
use crate::home::Home;
use crate::output;
use crate::settings::Settings;
use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volley_cluster::images::archive::ArchiveFormat;
use volley_cluster::images::auth::Keyring;
use volley_cluster::images::digest::Digest;
use volley_cluster::images::flight::{self, Stage};
use volley_cluster::images::pull::PullPolicy;
use volley_cluster::images::reference::{HOST, Reference};
use volley_cluster::images::store::{Image, Options, Store};
use volley_cluster::node;

/// One request, as it goes over the control socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageAsk {
    List,
    Pull { image: String, docker_config: Option<PathBuf> },
    Load { archive: PathBuf, name: Option<String> },
    Save { images: Vec<String>, format: SaveFormat, archive: PathBuf },
    Remove { image: String },
}

/// How far a layer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub layer: String,
    pub at: StepStage,
    pub bytes: u64,
    pub total: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepStage {
    Waiting,
    Downloading,
    Unpacking,
    Done,
}

/// An image as users see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub name: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: String,
    pub id: String,
    /// Compressed bytes of all layers.
    pub size: u64,
    pub pulled: Timestamp,
    pub last_used: Timestamp,
    /// `namespace/pod` of the pods that run it.
    pub used_by: Vec<String>,
}

/// Who runs which image, by the digest of its configuration.
pub type Users = BTreeMap<Digest, Vec<String>>;

pub type OnStep = Arc<dyn Fn(Step) + Send + Sync>;

/// Does it on the store's files, when no process runs.
pub fn at_rest(home: &Home, question: &ImageAsk, progress: Progress) -> Result<Vec<Listed>> {
    let is_new = !home.images().exists();
    if is_new && matches!(question, ImageAsk::List) {
        return Ok(Vec::new());
    }
    let removes = matches!(question, ImageAsk::Remove { .. });
    if removes && node::has_leavings(home.folder()) {
        bail!(
            "pods of an earlier volley may still run from it\nhint: `volley up` adopts them and then knows; `volley down` \
             ends them"
        );
    }
    // Nobody may start and look at the store while something is taken out of it.
    let _turn = if removes { Some(home.turn()?) } else { None };
    home.create()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = open(home).await?;
        let on_step: OnStep = Arc::new(move |step| progress.show(&step));
        perform(home, &store, &Users::new(), question.clone(), on_step).await
    })
}

/// The store as the home's settings want it.
pub async fn open(home: &Home) -> Result<Store> {
    let registries = Settings::default().with_file(home)?.node.registries();
    let options = Options { registries, ..Options::default() };
    Store::open(&home.images(), options).await.context("failed to open the images")
}

pub async fn perform(
    home: &Home,
    store: &Store,
    users: &Users,
    question: ImageAsk,
    on_step: OnStep,
) -> Result<Vec<Listed>> {
    let list = |images: Vec<Image>| images.iter().map(|image| Listed::of(image, users)).collect();
    match question {
        ImageAsk::List => Ok(list(store.list().await?)),
        ImageAsk::Pull { image, docker_config } => {
            let _lock = shared(home).await?;
            Ok(list(vec![pull(store, &image, docker_config, on_step).await?]))
        }
        ImageAsk::Load { archive, name } => {
            let _lock = shared(home).await?;
            let name = name.as_deref().map(reference).transpose()?;
            let loaded = store.load(&archive, name.as_ref()).await;
            let what = || format!("failed to load `{}`{}", archive.display(), load_hint(name.as_ref()));
            Ok(list(loaded.with_context(what)?))
        }
        ImageAsk::Save { images, format, archive } => {
            let _lock = shared(home).await?;
            let saved = save(store, &images, format, &archive).await;
            saved.with_context(|| format!("failed to save to `{}`", archive.display()))?;
            Ok(Vec::new())
        }
        ImageAsk::Remove { image } => remove(home, store, users, &image).await.map(|image| list(vec![image])),
    }
}

async fn pull(store: &Store, image: &str, docker_config: Option<PathBuf>, on_step: OnStep) -> Result<Image> {
    let reference = reference(image)?;
    let keyring = match docker_config {
        Some(path) => Keyring::from_file(&path)?,
        None => Keyring::default(),
    };
    let tell = Arc::new(move |progress: &flight::Progress| on_step(Step::of(progress)));
    store.pull(&reference, &keyring, PullPolicy::Always, tell).await.map_err(|error| {
        let hint = match error.is_denied() {
            true => format!("\nhint: `docker login {}` first, or check the name", reference.registry()),
            false => String::new(),
        };
        anyhow!("{error}{hint}")
    })
}

fn load_hint(name: Option<&Reference>) -> &'static str {
    match name {
        Some(_) => "",
        None => {
            "\nhint: it must be what `docker save` or another builder writes; --name names an image that has no name"
        }
    }
}

/// By way of a new file, so that one that is there survives a failure.
async fn save(store: &Store, images: &[String], format: SaveFormat, archive: &Path) -> Result<()> {
    let references = images.iter().map(|image| reference(image)).collect::<Result<Vec<_>>>()?;
    for reference in &references {
        if store.get(reference).await?.is_none() {
            return Err(not_here(reference));
        }
    }
    if fs::metadata(archive).is_ok_and(|found| !found.is_file()) {
        bail!("it is not a file\nhint: name a file to write");
    }
    let format = match format {
        SaveFormat::Docker => ArchiveFormat::Docker,
        SaveFormat::Oci => ArchiveFormat::Oci,
    };
    let mut name = archive.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = archive.with_file_name(name);
    store.save(&references, format, &new).await?;
    Ok(fs::rename(&new, archive)?)
}

async fn remove(home: &Home, store: &Store, users: &Users, image: &str) -> Result<Image> {
    let reference = reference(image)?;
    let lock = home.images_lock()?;
    if lock.try_lock().is_err() {
        bail!("another `volley image` works on the store\nhint: wait until it has ended");
    }
    let found = store.get(&reference).await?.ok_or_else(|| not_here(&reference))?;
    // The image keeps its layers as long as it has another name.
    let is_last = store.list().await?.iter().filter(|other| other.id == found.id).count() == 1;
    if let Some(pods) = users.get(&found.id).filter(|_| is_last) {
        bail!("`{}` is in use by {}\nhint: delete what runs from it first", reference.familiar(), pods.join(", "));
    }
    let in_use: BTreeSet<Digest> = users.keys().cloned().collect();
    store.remove(&reference, &in_use).await?;
    Ok(found)
}

/// Held while something is added; a removal elsewhere takes moments, so it is waited for.
async fn shared(home: &Home) -> Result<File> {
    let lock = home.images_lock()?;
    tokio::task::spawn_blocking(move || lock.lock_shared().map(|()| lock)).await?.context("failed to lock the images")
}

fn reference(text: &str) -> Result<Reference> {
    if text == HOST {
        bail!(
            "`{HOST}` is no image but this machine itself\nhint: pods whose image is `{HOST}` run from its own files"
        );
    }
    Ok(Reference::parse(text)?)
}

fn not_here(reference: &Reference) -> anyhow::Error {
    anyhow!("`{}` is not here\nhint: `volley image ls` lists what is", reference.familiar())
}

impl Step {
    fn of(progress: &flight::Progress) -> Step {
        let (at, bytes) = match progress.stage {
            Stage::Waiting => (StepStage::Waiting, 0),
            Stage::Downloading(bytes) => (StepStage::Downloading, bytes),
            Stage::Unpacking => (StepStage::Unpacking, progress.total),
            Stage::Done => (StepStage::Done, progress.total),
        };
        Step { layer: progress.layer.short().to_owned(), at, bytes, total: progress.total }
    }
}

impl Listed {
    fn of(image: &Image, users: &Users) -> Listed {
        let reference = &image.reference;
        let full = reference.familiar();
        let name = full.split('@').next().unwrap_or_default();
        let repository = match reference.tag() {
            Some(tag) => name.strip_suffix(&format!(":{tag}")).unwrap_or(name),
            None => name,
        };
        Listed {
            repository: repository.to_owned(),
            name: full.clone(),
            tag: reference.tag().map(str::to_owned),
            digest: image.digest.to_string(),
            id: image.id.to_string(),
            size: image.size,
            pulled: time(image.pulled_s),
            last_used: time(image.used_s),
            used_by: users.get(&image.id).cloned().unwrap_or_default(),
        }
    }

    pub fn row(&self, wide: bool) -> Vec<String> {
        let short = |digest: &str| digest.trim_start_matches("sha256:").chars().take(12).collect::<String>();
        let now = Timestamp::now();
        let users = if self.used_by.is_empty() { "-".to_owned() } else { self.used_by.join(",") };
        let mut row = vec![
            self.repository.clone(),
            self.tag.clone().unwrap_or_else(|| "<none>".to_owned()),
            if wide { self.digest.clone() } else { short(&self.digest) },
            output::bytes(self.size),
            output::age(self.pulled, now),
            users,
        ];
        if wide {
            row.extend([self.id.clone(), output::age(self.last_used, now)]);
        }
        row
    }
}

fn time(seconds: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX)).unwrap_or_default()
}
