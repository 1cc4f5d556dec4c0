//! Committing an artifact: its manifest is read, and it becomes a version.

use super::store::{self, Entry};
use super::{Artifact, manifest};
use crate::Shared;
use crate::fault::{Fault, Result};
use crate::ids;
use crate::{events, people::Caller};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;

/// Idempotent: an artifact that was committed stays the version that it is.
pub async fn commit(shared: &Shared, caller: &Caller, artifact: &Artifact) -> Result<()> {
    if artifact.is_committed() {
        return Ok(());
    }
    let entries = entries_of(shared, artifact).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    if !store::lock_pending(&mut write, artifact.id).await? {
        return Ok(());
    }
    for entry in &entries {
        store::add_entry(&mut write, artifact.id, entry).await?;
    }
    let size = entries.iter().map(|entry| entry.size).sum();
    let files = i64::try_from(entries.len()).unwrap_or(i64::MAX);
    let version = store::commit(&mut write, artifact, files, size, now).await?;
    let wanted: Vec<String> = serde_json::from_str(&artifact.wanted).unwrap_or_default();
    for alias in wanted.iter().map(String::as_str).chain(["latest"]) {
        store::set_alias(&mut write, artifact.collection_id, alias, artifact.id).await?;
    }
    let id = artifact.global_id();
    let body = serde_json::json!({ "version": version, "user": caller.user.username });
    let event = events::Event { entity: artifact.entity_id, kind: "artifact.committed", subject: &id, body };
    events::record(&mut write, event, now).await?;
    write.commit().await?;
    shared.news.announce();
    Ok(())
}

async fn entries_of(shared: &Shared, artifact: &Artifact) -> Result<Vec<Entry>> {
    let bytes = match full(shared, artifact).await? {
        Some(bytes) => bytes,
        None => assemble(shared, artifact).await?,
    };
    let mut entries = Vec::new();
    for (name, entry) in manifest::read(&bytes)?.contents {
        let birth_id = match (&entry.reference, manifest::hex_of(&entry.digest)) {
            (None, Some(md5)) => {
                let named = entry.birth_artifact_id.as_deref().and_then(|id| ids::decode("Artifact", id));
                let first = named.unwrap_or(artifact.id);
                store::home_of_blob(&shared.database, artifact.entity_id, &md5, first).await?
            }
            _ => None,
        };
        if entry.reference.is_none() && birth_id.is_none() {
            return Err(Fault::bad(format!(
                "the bytes of `{name}` were never uploaded; hint: upload them before committing"
            )));
        }
        entries.push(Entry { name, digest: entry.digest, size: entry.size, reference: entry.reference, birth_id });
    }
    Ok(entries)
}

async fn full(shared: &Shared, artifact: &Artifact) -> Result<Option<Bytes>> {
    match store::manifest_of(&shared.database, artifact.id).await? {
        Some((id, _)) => bytes_of(shared, id).await,
        None => Ok(None),
    }
}

/// Nothing if the manifest was announced and never uploaded.
async fn bytes_of(shared: &Shared, manifest: i64) -> Result<Option<Bytes>> {
    match shared.blobs.read(&store::manifest_key(manifest)).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(Fault::internal(error)),
    }
}

/// Makes the whole manifest of one that adds to an older artifact, or that several runs sent in parts.
async fn assemble(shared: &Shared, artifact: &Artifact) -> Result<Bytes> {
    let mut parts = Vec::new();
    let base = match artifact.base_id {
        Some(id) => store::by_id(&shared.database, id).await?.filter(|base| base.entity_id == artifact.entity_id),
        None => None,
    };
    if let Some(base) = base {
        parts.extend(full(shared, &base).await?);
    }
    let mut own = 0;
    for id in store::parts_of(&shared.database, artifact.id).await? {
        let bytes = bytes_of(shared, id).await?;
        own += usize::from(bytes.is_some());
        parts.extend(bytes);
    }
    if own == 0 {
        return Err(Fault::bad("the artifact has no manifest; hint: upload it before committing"));
    }
    let whole = Bytes::from(manifest::merge(&parts)?);
    let mut write = shared.database.write().await?;
    let id = store::ensure_manifest(&mut write, artifact.id, manifest::NAME, "FULL", "").await?;
    let stream = futures::stream::iter([Ok(whole.clone())]);
    let stored = shared.blobs.put(&store::manifest_key(id), stream).await.map_err(Fault::internal)?;
    store::set_manifest_digest(&mut write, id, &STANDARD.encode(stored.md5)).await?;
    // The client's digest was that of its own part.
    store::set_digest(&mut write, artifact.id, &manifest::digest(&manifest::read(&whole)?)).await?;
    write.commit().await?;
    Ok(whole)
}
