//! Where bytes are kept: a folder, or a bucket of an S3-compatible store, which is asked whether it will have us.

use super::Error;
use futures::StreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a request to a store that fails is tried again: shorter than clients wait for us.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES_MAX: usize = 5;
/// How long the first question may take, when the server starts.
const CHECK_MAX: Duration = Duration::from_secs(20);

/// The usual `AWS_…` variables: region, endpoint and keys, which are never shown.
#[derive(Clone, Default)]
pub struct Aws(pub Vec<(String, String)>);

impl Aws {
    pub fn from_environment() -> Aws {
        Aws(std::env::vars().filter(|(name, _)| name.starts_with("AWS_")).collect())
    }
}

impl fmt::Debug for Aws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

pub async fn open(place: &str, aws: &Aws) -> Result<Arc<dyn ObjectStore>, Error> {
    let Some(rest) = place.strip_prefix("s3://") else {
        std::fs::create_dir_all(place).map_err(|source| Error::Folder { at: place.to_owned(), source })?;
        let disk = LocalFileSystem::new_with_prefix(place);
        let disk = disk.map_err(|source| Error::Place { at: place.to_owned(), source })?;
        return Ok(Arc::new(disk.with_fsync(true)));
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let store = open_bucket(bucket, aws).map_err(|source| Error::Place { at: place.to_owned(), source })?;
    check(&store, bucket).await?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

fn open_bucket(bucket: &str, aws: &Aws) -> Result<object_store::aws::AmazonS3, object_store::Error> {
    let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::new().with_bucket_name(bucket).with_retry(retry);
    for (name, value) in &aws.0 {
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    // Whoever names a plain endpoint wants it.
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    if is_plain { builder.with_allow_http(true).build() } else { builder.build() }
}

/// Asks for one name, so that a wrong key or bucket is told now, and not to the first who uploads.
async fn check(store: &dyn ObjectStore, bucket: &str) -> Result<(), Error> {
    let bucket = bucket.to_owned();
    let asked = tokio::time::timeout(CHECK_MAX, store.list(None).next()).await;
    let source = match asked {
        Ok(None | Some(Ok(_))) => return Ok(()),
        Ok(Some(Err(source))) => source,
        Err(_) => return Err(Error::Silent { bucket, seconds: CHECK_MAX.as_secs() }),
    };
    // A failed list has no status of its own, only words of where it came from.
    let told = words(&source);
    let has = |signs: [&str; 2]| signs.iter().any(|sign| told.contains(sign));
    Err(match source {
        source if has(["NoSuchBucket", "404 Not Found"]) => Error::NoBucket { bucket, source },
        source if has(["403 Forbidden", "401 Unauthorized"]) => Error::Credentials { bucket, source },
        source => Error::Unreachable { bucket, source },
    })
}

/// An error with all of its causes.
fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
