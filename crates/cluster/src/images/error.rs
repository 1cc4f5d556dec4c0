//! Why an image is not there: one typed error with the texts and reasons that kubectl users know.
//!
//! The node puts `reason` into the container's waiting state and `to_string` into the event. Errors are shared by
//! everyone who waits for the same download, so they can be cloned.

use super::auth::AuthError;
use super::digest::{Digest, DigestError};
use super::reference::ReferenceError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, thiserror::Error)]
pub enum ImageError {
    #[error("Failed to apply default image tag: {0}")]
    Name(#[from] ReferenceError),
    #[error("Container image {0:?} is not present with pull policy of Never")]
    NeverPull(String),
    #[error("failed to pull and unpack image {image:?}: {cause}")]
    Pull { image: String, cause: Box<ImageError> },
    #[error("failed to resolve reference {image:?}: {cause}")]
    Resolve { image: String, cause: Box<ImageError> },
    #[error("{0}: not found")]
    NotFound(String),
    #[error("pull access denied, repository does not exist or may require authorization: {0}")]
    Denied(String),
    #[error("failed to do request: {method} {url:?}: {fault}")]
    Request { method: &'static str, url: String, fault: RequestFault },
    #[error("unexpected status from {method} request to {url}: {status}")]
    Status { method: &'static str, url: String, status: u16 },
    #[error("registry {registry} asked for more patience: 429 Too Many Requests")]
    TooManyRequests { registry: String },
    #[error("failed to fetch oauth token: {0}")]
    Token(String),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("no match for platform in manifest: {wanted} is not among {offered}: not found")]
    Platform { wanted: String, offered: String },
    #[error("media type {0:?} is not supported; the image must be pushed again as an OCI or Docker v2.2 image")]
    MediaType(String),
    #[error("{what} is malformed: {message}")]
    Malformed { what: String, message: String },
    #[error("{what} failed verification: expected {expected}, got {actual}")]
    Corrupt { what: String, expected: String, actual: String },
    #[error("{what} is larger than the {limit} bytes allowed")]
    TooLarge { what: String, limit: u64 },
    #[error("layer {layer} refused: {refusal}")]
    Refused { layer: String, refusal: Refusal },
    #[error("no space left on device: {path} has {free} bytes free, {needed} more are needed")]
    DiskFull { path: PathBuf, needed: u64, free: u64 },
    #[error("failed to {action} {path}: {source}")]
    File { action: &'static str, path: PathBuf, source: Arc<io::Error> },
    #[error("the blob {0} is no longer stored; pull the image again")]
    BlobGone(Digest),
    #[error("image {0:?} is in use by {1}")]
    InUse(String, String),
    #[error("the task that did the work ended early")]
    Interrupted,
}

/// What kept a request from getting an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    #[error("dial tcp: lookup {0}: no such host")]
    NoSuchHost(String),
    #[error("dial tcp: connect: connection refused")]
    Refused,
    #[error("tls: failed to verify certificate: {0}")]
    Tls(String),
    #[error("i/o timeout")]
    Timeout,
    #[error("{0}")]
    Other(String),
}

/// Why a layer's archive was not unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the name {0:?} leads out of the image")]
    Escape(String),
    #[error("the link {0:?} leads out of the image to {1:?}")]
    LinkEscape(String, String),
    #[error("the hard link {0:?} points to {1:?}, which is not in the layer")]
    LinkMissing(String, String),
    #[error("more than {0} entries")]
    Entries(u64),
    #[error("more than {0} bytes unpacked")]
    Bytes(u64),
    #[error("it unpacks to more than {0} times its size")]
    Ratio(u64),
    #[error("the name {0:?} is longer than the file system allows")]
    NameLength(String),
    #[error("{0:?} is a sparse file, which is not supported")]
    Sparse(String),
    #[error("the archive is malformed: {0}")]
    Malformed(String),
}

impl ImageError {
    /// The kubelet's reason for the container's waiting state.
    pub fn reason(&self) -> &'static str {
        match self {
            ImageError::Name(_) => "InvalidImageName",
            ImageError::NeverPull(_) => "ErrImageNeverPull",
            ImageError::Pull { cause, .. } | ImageError::Resolve { cause, .. } => cause.reason(),
            ImageError::Request { .. } | ImageError::TooManyRequests { .. } => "ErrImagePull",
            ImageError::Status { status, .. } if *status == 503 => "RegistryUnavailable",
            ImageError::File { action: "read", .. } | ImageError::BlobGone(_) => "ImageInspectError",
            _ => "ErrImagePull",
        }
    }

    /// Whether the same request may well succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            ImageError::Pull { cause, .. } | ImageError::Resolve { cause, .. } => cause.is_transient(),
            ImageError::Request { fault, .. } => match fault {
                RequestFault::Refused | RequestFault::Timeout | RequestFault::Other(_) => true,
                RequestFault::NoSuchHost(_) | RequestFault::Tls(_) => false,
            },
            ImageError::Status { status, .. } => *status >= 500 || *status == 408,
            ImageError::TooManyRequests { .. } => true,
            _ => false,
        }
    }

    /// Whether other credentials might help.
    pub fn is_denied(&self) -> bool {
        match self {
            ImageError::Pull { cause, .. } | ImageError::Resolve { cause, .. } => cause.is_denied(),
            ImageError::Denied(_) | ImageError::Token(_) => true,
            _ => false,
        }
    }

    /// An operation on a file that failed; a full disk is told apart, with its numbers.
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> ImageError {
        if is_disk_full(&source) {
            return ImageError::disk_full(path, 0);
        }
        ImageError::File { action, path: path.to_owned(), source: Arc::new(source) }
    }

    pub fn disk_full(path: &Path, needed: u64) -> ImageError {
        let free = super::layout::space(path).map(|space| space.free).unwrap_or(0);
        ImageError::DiskFull { path: path.to_owned(), needed, free }
    }

    pub fn malformed(what: impl Into<String>, message: impl ToString) -> ImageError {
        ImageError::Malformed { what: what.into(), message: message.to_string() }
    }
}

impl From<DigestError> for ImageError {
    fn from(error: DigestError) -> ImageError {
        ImageError::malformed("a digest", error)
    }
}

pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
