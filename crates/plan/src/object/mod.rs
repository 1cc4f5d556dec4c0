//! What a write does to an object: patches, field ownership, server-side apply.
//!
//! Everything works on plain JSON and a `Shape`; the API server reads, calls one of these, defaults, admits, stores.
//! `managed` says in which order to call what.

pub mod apply;
pub mod fields;
pub mod managed;
pub mod merge;
pub mod strategic;

mod changes;
mod combine;
mod entry;
mod last_applied;
#[cfg(test)]
mod laws;
mod typed;

use serde_json::json;
use volley_api::kube::status::ApiError;

/// Why a patch could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch of its type.
    #[error("error decoding patch: {0}")]
    Decode(String),
    /// A directive of a strategic merge patch has the wrong form.
    #[error("{0}")]
    Format(&'static str),
    /// An operation does not fit the object, a failed `test` included. The reference keeps the cause to itself.
    #[error("the server rejected our request due to an error in our request")]
    Rejected,
    #[error("Request entity is too large: The allowed maximum operations in a JSON patch is {max}, got {count}")]
    TooManyOperations { count: usize, max: usize },
    /// A strategic merge patch that does not fit the object; the reference answers 500 with the bare text.
    #[error("{0}")]
    Strategic(String),
}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> ApiError {
        let message = error.to_string();
        match error {
            PatchError::Decode(_) | PatchError::Format(_) => ApiError::bad_request(message),
            PatchError::Rejected => ApiError { details: json!({}), ..ApiError::new(422, "Invalid", message) },
            PatchError::TooManyOperations { .. } => ApiError::new(413, "RequestEntityTooLarge", message),
            PatchError::Strategic(_) => ApiError::bare(message),
        }
    }
}
