//! Bytes: run files, artifact contents and manifests, on disk or in an S3-compatible store.
//!
//! Clients put and get them by URLs that carry their own permission: a signature over the method, the path and the time
//! until which it holds. The signing key is in the database, so every replica knows it.

mod place;
mod signature;

pub use place::Aws;
pub use signature::Access;

use crate::args;
use crate::database::{self, Database};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use md5::{Digest as _, Md5};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt as _};
use ring::hmac;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to make the folder `{at}` for files")]
    Folder { at: String, source: std::io::Error },
    #[error("`{at}` is no place for files; hint: a folder, or s3://bucket/prefix")]
    Place { at: String, source: object_store::Error },
    #[error(
        "there is no bucket `{bucket}`; hint: make it, or name another by --blobs; AWS_REGION and AWS_ENDPOINT say where it is"
    )]
    NoBucket { bucket: String, source: object_store::Error },
    #[error(
        "the bucket `{bucket}` refuses us; hint: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be of somebody who may list, \
         read, write and delete there"
    )]
    Credentials { bucket: String, source: object_store::Error },
    #[error("failed to ask for the bucket `{bucket}`; hint: AWS_REGION and AWS_ENDPOINT say where it is")]
    Unreachable { bucket: String, source: object_store::Error },
    #[error(
        "nobody said within {seconds} s what is in the bucket `{bucket}`; hint: AWS_ENDPOINT says where it is, and without \
         AWS_ACCESS_KEY_ID the machine itself is asked for keys"
    )]
    Silent { bucket: String, seconds: u64 },
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error("failed to store or read `{key}`")]
    Store { key: String, source: object_store::Error },
    #[error("failed to store `{key}`")]
    Write { key: String, source: std::io::Error },
    #[error("the upload of `{key}` broke off")]
    Upload { key: String, source: axum::Error },
}

impl Error {
    /// Whether what was asked for is simply not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Store { source: object_store::Error::NotFound { .. }, .. })
    }
}

pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    key: hmac::Key,
}

/// What was stored.
pub struct Stored {
    pub size: i64,
    pub md5: [u8; 16],
}

impl Blobs {
    pub async fn open(place: &str, aws: &Aws, database: &Database) -> Result<Blobs, Error> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, signature::secret(database).await?.as_bytes());
        Ok(Blobs { store: place::open(place, aws).await?, key })
    }

    /// Stores a stream under a key; what was there before stays until the new bytes are complete.
    pub async fn put(
        &self,
        key: &str,
        bytes: impl Stream<Item = Result<Bytes, axum::Error>> + Unpin,
    ) -> Result<Stored, Error> {
        let mut writer = BufWriter::new(self.store.clone(), Path::from(key));
        let stored = match fill(&mut writer, key, bytes).await {
            Ok(stored) => stored,
            Err(error) => {
                // Parts that were sent would be kept, and paid for, without anybody knowing of them.
                let _ = writer.abort().await;
                return Err(error);
            }
        };
        writer.shutdown().await.map_err(|source| Error::Write { key: key.to_owned(), source })?;
        Ok(stored)
    }

    pub async fn get(&self, key: &str, range: Option<GetRange>) -> Result<GetResult, Error> {
        let options = GetOptions { range, ..GetOptions::default() };
        let got = self.store.get_opts(&Path::from(key), options).await;
        got.map_err(|source| Error::Store { key: key.to_owned(), source })
    }

    /// The whole of something small.
    pub async fn read(&self, key: &str) -> Result<Bytes, Error> {
        let got = self.get(key, None).await?;
        got.bytes().await.map_err(|source| Error::Store { key: key.to_owned(), source })
    }

    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        let deleted = self.store.delete(&Path::from(key)).await;
        match deleted {
            Err(object_store::Error::NotFound { .. }) | Ok(()) => Ok(()),
            Err(source) => Err(Error::Store { key: key.to_owned(), source }),
        }
    }

    /// Deletes everything under a prefix; that there is nothing is fine.
    pub async fn delete_all(&self, prefix: &str) -> Result<(), Error> {
        let failed = |source| Error::Store { key: prefix.to_owned(), source };
        let found = self.store.list(Some(&Path::from(prefix)));
        let locations = found.map_ok(|found| found.location).boxed();
        self.store.delete_stream(locations).try_collect::<Vec<_>>().await.map_err(failed)?;
        Ok(())
    }
}

async fn fill(
    writer: &mut BufWriter,
    key: &str,
    mut bytes: impl Stream<Item = Result<Bytes, axum::Error>> + Unpin,
) -> Result<Stored, Error> {
    let mut md5 = Md5::new();
    let mut size = 0i64;
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk.map_err(|source| Error::Upload { key: key.to_owned(), source })?;
        md5.update(&chunk);
        size += i64::try_from(chunk.len()).expect("a chunk fits in memory");
        writer.write_all(&chunk).await.map_err(|source| Error::Write { key: key.to_owned(), source })?;
    }
    Ok(Stored { size, md5: md5.finalize().into() })
}

/// Copies everything from one place to another; gives how many there were. What is damaged on the way is an error.
pub async fn copy(from: &str, to: &str, aws: &Aws) -> Result<u64, Error> {
    let (source, target) = (place::open(from, aws).await?, place::open(to, aws).await?);
    let mut count = 0;
    let mut found = source.list(None);
    while let Some(found) = found.next().await {
        let found = found.map_err(|source| Error::Store { key: String::new(), source })?;
        let key = found.location.to_string();
        let failed = |source| Error::Store { key: key.clone(), source };
        let mut bytes = source.get(&found.location).await.map_err(failed)?.into_stream();
        let mut writer = BufWriter::new(target.clone(), found.location.clone());
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk.map_err(failed)?;
            writer.write_all(&chunk).await.map_err(|source| Error::Write { key: key.clone(), source })?;
        }
        writer.shutdown().await.map_err(|source| Error::Write { key: key.clone(), source })?;
        count += 1;
    }
    Ok(count)
}

/// Makes the secret once for all replicas.
async fn settle(database: &Database, name: &str, fresh: String) -> database::Result<String> {
    let mut write = database.write().await?;
    let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    write.run(sql, args![name, fresh]).await?;
    let value = write.one("SELECT value FROM settings WHERE name = $1", args![name]).await?.get("value")?;
    write.commit().await?;
    Ok(value)
}
