//! Pulling: resolve the name, fetch the documents, bring the layers, and only then give the image its name.
//!
//! Each layer is one flight (download, then unpack) that all pulls share; three download and some unpack at a time.

use super::auth::{Credential, Keyring};
use super::digest::{Digest, Hasher};
use super::download::{Job, download};
use super::error::ImageError;
use super::flight::{OnProgress, Progress, Stage};
use super::layout::{Marker, boot_id, off_thread, read_json};
use super::manifest::{self, ConfigFile, Descriptor, Document, Manifest};
use super::reference::Reference;
use super::registry::{DOCUMENT_SIZE_MAX, Fetched, Session};
use super::store::{Image, Inner, Pin, Store, now_s, remove_any};
use super::table::{LayerRecord, Record};
use super::unpack::unpack;
use futures::FutureExt;
use futures::future::try_join_all;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// `imagePullPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    /// Ask the registry what the name means now; layers that are here stay.
    Always,
    IfNotPresent,
    Never,
}

/// What a name means now, read and checked.
pub(super) struct Resolved {
    pub target: Digest,
    pub manifest_digest: Digest,
    pub manifest: Manifest,
    pub config: ConfigFile,
    _pin: Pin,
}

impl Store {
    /// Gives the image of a reference, from here or from its registry. Dropping the future keeps what was downloaded.
    pub async fn pull(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        policy: PullPolicy,
        on_progress: OnProgress,
    ) -> Result<Image, ImageError> {
        let local = match policy {
            PullPolicy::Always => None,
            PullPolicy::IfNotPresent | PullPolicy::Never => self.get(reference).await?,
        };
        match (local, policy) {
            (Some(image), _) => Ok(image),
            (None, PullPolicy::Never) => Err(ImageError::NeverPull(reference.to_string())),
            (None, PullPolicy::Always | PullPolicy::IfNotPresent) => self
                .fetch(reference, keyring, &on_progress)
                .await
                .map_err(|cause| ImageError::Pull { image: reference.to_string(), cause: Box::new(cause) }),
        }
    }

    async fn fetch(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        on_progress: &OnProgress,
    ) -> Result<Image, ImageError> {
        let inner = &self.inner;
        let wrap = |cause| ImageError::Resolve { image: reference.to_string(), cause: Box::new(cause) };
        let (session, resolved) = inner.resolve(reference, keyring).await.map_err(wrap)?;
        let layers = resolved.manifest.layers.iter().zip(&resolved.config.rootfs.diff_ids);
        let flights = layers.map(|(blob, diff_id)| inner.clone().layer(&session, blob, diff_id, on_progress));
        try_join_all(flights).await?;
        self.name(reference, &resolved).await
    }

    /// Gives a whole image its name, and sees to it that its layers reach the disk.
    pub(super) async fn name(&self, reference: &Reference, resolved: &Resolved) -> Result<Image, ImageError> {
        let (inner, reference, record) = (self.inner.clone(), reference.clone(), resolved.record());
        let image = off_thread(move || {
            inner.table.update(|names| names.put(&reference, record.clone()))?;
            inner.image(&reference, &record)?.ok_or_else(|| ImageError::NotFound(reference.to_string()))
        })
        .await?;
        self.inner.sync_later(resolved.config.rootfs.diff_ids.clone());
        Ok(image)
    }
}

impl Resolved {
    fn record(&self) -> Record {
        let layers = self.manifest.layers.iter().zip(&self.config.rootfs.diff_ids);
        Record {
            target: self.target.clone(),
            manifest: self.manifest_digest.clone(),
            config: self.manifest.config.digest.clone(),
            layers: layers
                .map(|(blob, diff_id)| LayerRecord {
                    blob: blob.digest.clone(),
                    size: blob.size,
                    diff_id: diff_id.clone(),
                })
                .collect(),
            pulled_s: now_s(),
            used_s: now_s(),
        }
    }
}

impl Inner {
    /// Tries the credentials in turn, as the kubelet does; without any, anonymously.
    async fn resolve(
        self: &Arc<Inner>,
        reference: &Reference,
        keyring: &Keyring,
    ) -> Result<(Session, Resolved), ImageError> {
        let found: Vec<Option<Credential>> = keyring.lookup(reference)?.into_iter().map(Some).collect();
        let candidates = if found.is_empty() { vec![None] } else { found };
        let mut denied = ImageError::Interrupted;
        for credential in candidates {
            let session = self.registry.session(reference, credential);
            match self.resolve_as(&session, reference).await {
                Ok(resolved) => return Ok((session, resolved)),
                Err(error) if error.is_denied() => denied = error,
                Err(error) => return Err(error),
            }
        }
        Err(denied)
    }

    async fn resolve_as(self: &Arc<Inner>, session: &Session, reference: &Reference) -> Result<Resolved, ImageError> {
        let top = session.manifest(reference.selector()).await?;
        let (fetched, manifest) = match manifest::read(&top.bytes, &top.content_type)? {
            Document::Manifest(manifest) => (top.clone(), manifest),
            Document::Index(index) => {
                let picked = manifest::pick(&index, &self.options.platform)?;
                let fetched = session.manifest(picked.digest.as_str()).await?;
                match manifest::read(&fetched.bytes, &fetched.content_type)? {
                    Document::Manifest(manifest) => (fetched, manifest),
                    Document::Index(_) => return Err(ImageError::malformed("the index", "it leads to another index")),
                }
            }
        };
        if manifest.config.size > DOCUMENT_SIZE_MAX {
            return Err(ImageError::TooLarge { what: "image configuration".to_owned(), limit: DOCUMENT_SIZE_MAX });
        }
        let bytes = self.config_bytes(session, &manifest.config.digest).await?;
        let config = manifest::read_config(&bytes, &manifest)?;
        let config_digest = manifest.config.digest.clone();
        let (target, manifest_digest) = (top.digest.clone(), fetched.digest.clone());
        let resolved = self.resolved(target, manifest_digest, manifest, config);
        let config_document = Fetched { bytes, digest: config_digest, content_type: String::new() };
        self.keep(vec![top, fetched, config_document]).await?;
        Ok(resolved)
    }

    /// Pins what the image needs; from here on collection leaves it alone.
    pub(super) fn resolved(
        self: &Arc<Inner>,
        target: Digest,
        manifest_digest: Digest,
        manifest: Manifest,
        config: ConfigFile,
    ) -> Resolved {
        let documents = [&target, &manifest_digest, &manifest.config.digest];
        let layers = manifest.layers.iter().map(|layer| &layer.digest).chain(&config.rootfs.diff_ids);
        let pin = self.pin(documents.into_iter().chain(layers).cloned());
        Resolved { target, manifest_digest, manifest, config, _pin: pin }
    }

    async fn config_bytes(&self, session: &Session, digest: &Digest) -> Result<Vec<u8>, ImageError> {
        let (layout, wanted) = (self.layout.clone(), digest.clone());
        match off_thread(move || layout.read_blob(&wanted)).await? {
            Some(bytes) => Ok(bytes),
            None => session.small_blob(digest).await,
        }
    }

    async fn keep(&self, documents: Vec<Fetched>) -> Result<(), ImageError> {
        let layout = self.layout.clone();
        off_thread(move || {
            documents.iter().try_for_each(|document| layout.write_blob(&document.digest, &document.bytes))
        })
        .await
    }

    /// Brings one layer here, together with whoever else wants it.
    async fn layer(
        self: Arc<Inner>,
        session: &Session,
        blob: &Descriptor,
        diff_id: &Digest,
        on_progress: &OnProgress,
    ) -> Result<(), ImageError> {
        let tell = |stage| on_progress(&Progress { layer: blob.digest.clone(), stage, total: blob.size });
        if self.has_layer(diff_id).await? {
            tell(Stage::Done);
            return Ok(());
        }
        let flight = self.flights.join(diff_id, |stage| {
            let (inner, session, blob, diff_id) = (self.clone(), session.clone(), blob.clone(), diff_id.clone());
            async move { inner.bring(&session, blob, diff_id, &stage).await }.boxed()
        });
        flight.wait(tell).await?;
        tell(Stage::Done);
        Ok(())
    }

    async fn has_layer(&self, diff_id: &Digest) -> Result<bool, ImageError> {
        let (layout, diff_id) = (self.layout.clone(), diff_id.clone());
        off_thread(move || Ok(layout.layer_marker(&diff_id)?.is_some())).await
    }

    async fn bring(
        self: &Arc<Inner>,
        session: &Session,
        blob: Descriptor,
        diff_id: Digest,
        stage: &watch::Sender<Stage>,
    ) -> Result<(), ImageError> {
        // Somebody may have finished between the caller's look and the start of this flight.
        if self.has_layer(&diff_id).await? {
            return Ok(());
        }
        let job = Job { partial: self.layout.partial(&blob.digest), target: self.layout.blob(&blob.digest), blob };
        let mut is_second = false;
        loop {
            let permit = self.downloads.acquire().await.map_err(|_| ImageError::Interrupted)?;
            download(session, &job, stage).await?;
            drop(permit);
            match self.unpack_blob(&job.blob.digest, &diff_id, stage).await {
                // A blob from before a power cut may be broken; then it is fetched once more.
                Err(ImageError::Corrupt { .. } | ImageError::Refused { .. })
                    if !is_second && self.drop_broken(&job).await? =>
                {
                    is_second = true
                }
                done => return done,
            }
        }
    }

    pub(super) async fn unpack_blob(
        self: &Arc<Inner>,
        blob: &Digest,
        diff_id: &Digest,
        stage: &watch::Sender<Stage>,
    ) -> Result<(), ImageError> {
        let _permit = self.unpacks.acquire().await.map_err(|_| ImageError::Interrupted)?;
        if self.has_layer(diff_id).await? {
            return Ok(());
        }
        stage.send_replace(Stage::Unpacking);
        let (inner, blob, diff_id) = (self.clone(), blob.clone(), diff_id.clone());
        off_thread(move || inner.unpack_blocking(&blob, &diff_id)).await
    }

    /// Unpacks aside, then renames: the rename is what makes a layer exist.
    fn unpack_blocking(&self, blob: &Digest, diff_id: &Digest) -> Result<(), ImageError> {
        let (layout, scratch) = (&self.layout, self.layout.scratch());
        let path = layout.blob(blob);
        // A layer that does not name its root gets the usual one, whatever the process's umask.
        let made = std::fs::create_dir(&scratch)
            .and_then(|()| std::fs::set_permissions(&scratch, Permissions::from_mode(0o755)));
        made.map_err(|error| ImageError::file("create", &scratch, error))?;
        let unpacked = unpack(&path, &scratch, diff_id, self.options.limits, self.options.privilege);
        let placed = unpacked.and_then(|found| {
            let marker = Marker {
                diff_id: diff_id.clone(),
                entries: found.entries,
                bytes: found.bytes,
                boot: boot_id(),
                is_synced: false,
            };
            self.place(&scratch, &marker)
        });
        if placed.is_err() {
            // The reason for the failure is worth more than that of the clearing up; the next open sweeps again.
            drop(remove_any(&scratch));
        }
        if placed.is_ok() && !self.options.keep_blobs {
            remove_any(&path)?;
        }
        placed
    }

    /// A cancelled pull's unpacking runs on beside its successor's, and other processes have theirs: the first one in
    /// its place wins.
    fn place(&self, scratch: &Path, marker: &Marker) -> Result<(), ImageError> {
        let layer = self.layout.layer(&marker.diff_id);
        let _turn = self.placing.lock();
        if self.layout.layer_marker(&marker.diff_id)?.is_some() {
            return remove_any(scratch);
        }
        remove_any(&layer)?;
        self.layout.write_marker(marker)?;
        match std::fs::rename(scratch, &layer) {
            Err(_) if self.layout.layer_marker(&marker.diff_id)?.is_some() => remove_any(scratch),
            done => done.map_err(|error| ImageError::file("rename", &layer, error)),
        }
    }

    /// Removes a stored blob whose bytes are not what its name says; whether it did.
    async fn drop_broken(&self, job: &Job) -> Result<bool, ImageError> {
        let job = job.clone();
        off_thread(move || {
            let is_broken = hash_file(&job.target)? != job.blob.digest;
            if is_broken {
                remove_any(&job.target)?;
            }
            Ok(is_broken)
        })
        .await
    }

    /// Flushes in the background: a pod's start does not wait for the disk.
    pub(super) fn sync_later(self: &Arc<Inner>, diff_ids: Vec<Digest>) {
        let inner = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = inner.sync(&diff_ids) {
                tracing::warn!(%error, "layers may have to be unpacked again after a power cut");
            }
        });
    }

    /// Flushes layers to the disk and notes it; until then a layer counts only within this boot.
    fn sync(&self, diff_ids: &[Digest]) -> Result<(), ImageError> {
        let mut fresh = Vec::new();
        for diff_id in diff_ids {
            fresh.extend(read_json::<Marker>(&self.layout.marker(diff_id))?.filter(|marker| !marker.is_synced));
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let folder = self.layout.layers();
        let failed = |error: std::io::Error| ImageError::file("sync", &folder, error);
        let file = std::fs::File::open(&folder).map_err(failed)?;
        rustix::fs::syncfs(&file).map_err(|error| failed(error.into()))?;
        for marker in fresh {
            // A layer that was removed meanwhile must not get a marker again.
            if self.layout.layer_marker(&marker.diff_id)?.is_some() {
                self.layout.write_marker(&Marker { is_synced: true, ..marker })?;
            }
        }
        Ok(())
    }
}

fn hash_file(path: &Path) -> Result<Digest, ImageError> {
    let failed = |error| ImageError::file("read", path, error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 1 << 18]);
    loop {
        match std::io::Read::read(&mut file, &mut buffer).map_err(failed)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
