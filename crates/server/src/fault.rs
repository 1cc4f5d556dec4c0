//! The one error that requests end with, and its HTTP status.
//!
//! A message is shown to people, so it says what to do. What is our own fault is logged with its causes and told as one
//! sentence; its text never leaves the process.

use crate::database;
use http::StatusCode;
use volley_plan::people::{Decision, Role};

#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub status: StatusCode,
    pub message: String,
    /// After how many seconds asking again may help.
    pub retry_after_s: Option<u64>,
}

pub type Result<T> = std::result::Result<T, Fault>;

/// How often a request is tried that lost against others; each time at least one of those went on, so few are enough.
pub const TRIES_MAX: usize = 5;

impl Fault {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into(), retry_after_s: None }
    }

    pub fn bad(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn missing(what: impl std::fmt::Display) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, format!("{what} was not found"))
    }

    /// Asked too often; whole seconds, because the header has no smaller ones.
    pub fn too_often(message: impl Into<String>, wait: std::time::Duration) -> Fault {
        let seconds = wait.as_secs().saturating_add(1);
        Fault { retry_after_s: Some(seconds), ..Fault::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    pub fn conflict(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::CONFLICT, message)
    }

    pub fn internal(error: impl std::error::Error) -> Fault {
        let mut chain = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            chain.push_str(": ");
            chain.push_str(&next.to_string());
            cause = next.source();
        }
        tracing::error!(error = chain, "a request failed");
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed; its log says why")
    }

    /// Whether nothing was done and the same request may well succeed now.
    pub fn is_passing(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// What a refused request is told about `what`.
    pub fn of(decision: Decision, what: impl std::fmt::Display) -> Result<()> {
        match decision {
            Decision::Yes => Ok(()),
            Decision::Hidden => Err(Fault::missing(what)),
            Decision::No { needs } => {
                let needs = needs.map_or("an administrator of the server", Role::name);
                let message = format!("permission denied for {what}; hint: it needs the role `{needs}`");
                Err(Fault::new(StatusCode::FORBIDDEN, message))
            }
        }
    }
}

impl From<database::Error> for Fault {
    fn from(error: database::Error) -> Fault {
        if error.is_lost_to_others() {
            return Fault::new(StatusCode::SERVICE_UNAVAILABLE, "others changed the same things; hint: try again");
        }
        Fault::internal(error)
    }
}
