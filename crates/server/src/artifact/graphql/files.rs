//! An artifact's files and manifest in the schema.

use crate::artifact::manifest::hex_of;
use crate::artifact::store::{self, Entry};
use crate::artifact::{Artifact as Record, graphql::Artifact};
use crate::blobs::Access;
use crate::fault::Result;
use crate::file::graphql::{File, FileConnection, url};
use crate::graphql::Asked as _;
use crate::graphql::page::{cursor, cursor_key, cut, length};
use crate::graphql::scalars::Int64;
use crate::{Shared, ids};
use async_graphql::{Context, ID, SimpleObject};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// So many files are asked for by name in one statement.
const NAMES_MAX: usize = 500;

#[derive(SimpleObject)]
pub struct ArtifactManifest {
    id: ID,
    digest: Option<String>,
    file: File,
}

impl ArtifactManifest {
    pub fn new(ctx: &Context<'_>, id: i64, digest: String) -> ArtifactManifest {
        let shared = ctx.shared();
        let key = store::manifest_key(id);
        let now = Timestamp::now();
        let file = File {
            id: ids::encode("ArtifactManifestFile", id),
            name: "wandb_manifest.json".to_owned(),
            direct_url: Some(url(shared, Access::Read, &key, now)),
            upload_url: Some(url(shared, Access::Write, &key, now)),
            upload_headers: Some(Vec::new()),
            ..File::default()
        };
        ArtifactManifest { id: ids::encode("ArtifactManifest", id), digest: Some(digest), file }
    }

    /// Without the URL to upload to, which is a permission to write: for those who look.
    pub fn to_read(mut self) -> ArtifactManifest {
        self.file.upload_url = None;
        self
    }
}

/// All entries of the manifest, references too: a client downloads exactly what is listed.
pub async fn page(
    ctx: &Context<'_>,
    artifact: &Record,
    names: Option<Vec<String>>,
    first: Option<i32>,
    after: Option<String>,
) -> Result<FileConnection> {
    let shared = ctx.shared();
    let length = length(first);
    let after = after.as_deref().and_then(cursor_key).unwrap_or_default();
    let (entries, has_more, total) = match names.filter(|names| !names.is_empty()) {
        Some(names) => {
            // In the order of their names, as pages go on behind one.
            let names: Vec<String> = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            let mut entries = Vec::new();
            for some in names.chunks(NAMES_MAX) {
                entries.extend(store::entries_named(&shared.database, artifact.id, some).await?);
            }
            let total = entries.len();
            entries.retain(|entry| entry.name > after);
            let (entries, has_more) = cut(entries, length);
            (entries, has_more, i32::try_from(total).ok())
        }
        None => {
            let found = store::entries(&shared.database, artifact.id, &after, length + 1).await?;
            let (entries, has_more) = cut(found, length);
            (entries, has_more, i32::try_from(artifact.file_count).ok())
        }
    };
    let nodes = entries.into_iter().map(|entry| (cursor(&entry.name), Some(file(shared, artifact, entry)))).collect();
    Ok(FileConnection::page(nodes, has_more, total, Vec::new()))
}

fn file(shared: &Shared, artifact: &Record, entry: Entry) -> File {
    let key = entry.birth_id.zip(hex_of(&entry.digest)).map(|(birth, md5)| store::blob_key(birth, &md5));
    let direct_url = match &key {
        Some(key) => Some(url(shared, Access::Read, key, Timestamp::now())),
        None => entry.reference,
    };
    File {
        id: ID(STANDARD.encode(format!("ArtifactFile:{}:{}", artifact.id, entry.name))),
        display_name: Some(entry.name.clone()),
        name: entry.name,
        direct_url,
        size_bytes: Some(Int64(entry.size)),
        md5: Some(entry.digest.clone()),
        digest: Some(entry.digest),
        storage_path: key,
        mimetype: Some("application/octet-stream".to_owned()),
        artifact: Some(Artifact(artifact.clone())),
        ..File::default()
    }
}
