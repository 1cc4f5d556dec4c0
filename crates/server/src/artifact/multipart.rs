//! Large files arrive in parts: each is put to a URL of its own, and completing the upload joins them.

use super::{Artifact, store};
use crate::Shared;
use crate::blobs::Access;
use crate::fault::{Fault, Result};
use crate::file::graphql::{UploadMultipartUrls, UploadUrlPart, url};
use crate::graphql::scalars::Int64;
use crate::run::names;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

/// As many as S3 takes; a client cuts a file into parts of 100 MiB.
const PARTS_MAX: usize = 10_000;

fn folder(artifact: i64, upload: &str) -> String {
    format!("parts/{artifact}/{upload}")
}

/// The URLs for the parts with these numbers. The upload's id says which file it is for.
pub fn begin(shared: &Shared, artifact: &Artifact, md5: &str, parts: &[i64]) -> Result<UploadMultipartUrls> {
    if parts.len() > PARTS_MAX || parts.iter().any(|part| !(1..=10_000).contains(part)) {
        return Err(Fault::bad(format!("a file has parts 1 to {PARTS_MAX}, and no others")));
    }
    let upload_id = format!("{md5}-{}", names::new_id());
    let now = Timestamp::now();
    let part = |number: &i64| UploadUrlPart {
        part_number: Int64(*number),
        upload_url: url(shared, Access::Write, &format!("{}/{number}", folder(artifact.id, &upload_id)), now),
    };
    Ok(UploadMultipartUrls { upload_url_parts: parts.iter().map(part).collect(), upload_id })
}

/// Joins the parts in the order of their numbers; the whole must have the MD5 that was announced for it.
pub async fn complete(shared: &Shared, artifact: &Artifact, upload: &str, mut parts: Vec<i64>) -> Result<String> {
    let missing = || Fault::missing(format!("the upload `{upload}`"));
    let (md5, _) = upload.split_once('-').filter(|(md5, _)| md5.len() == 32).ok_or_else(missing)?;
    if store::has_blob(&shared.database, artifact.id, md5).await? {
        return Ok(md5.to_owned());
    }
    let is_plain = upload.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !is_plain || parts.is_empty() || parts.len() > PARTS_MAX {
        return Err(missing());
    }
    parts.sort_unstable();
    let folder = folder(artifact.id, upload);
    let key = store::blob_key(artifact.id, md5);
    let stored = shared.blobs.put(&key, joined(shared, &folder, parts)).await.map_err(|error| {
        tracing::warn!(%error, "an upload in parts could not be joined");
        Fault::bad("a part of the upload is missing; hint: upload every part before completing it")
    })?;
    if let Err(fault) = store::note_blob(&shared.database, &artifact.id.to_string(), md5, &stored).await {
        shared.blobs.delete(&key).await.map_err(Fault::internal)?;
        return Err(fault);
    }
    shared.blobs.delete_all(&folder).await.map_err(Fault::internal)?;
    Ok(md5.to_owned())
}

fn joined(
    shared: &Shared,
    folder: &str,
    parts: Vec<i64>,
) -> impl Stream<Item = std::result::Result<Bytes, axum::Error>> + Unpin {
    let shared = shared.clone();
    let folder = folder.to_owned();
    let open = move |number: i64| {
        let (shared, key) = (shared.clone(), format!("{folder}/{number}"));
        async move {
            let got = shared.blobs.get(&key, None).await.map_err(axum::Error::new)?;
            Ok::<_, axum::Error>(got.into_stream().map_err(axum::Error::new))
        }
    };
    futures::stream::iter(parts).then(open).try_flatten().boxed()
}
