//! The subset of SPDY/3.1 that Kubernetes clients speak (spec K-SPDY-2): frames, header blocks and the multiplexed connection.
//!
//! There are no flow control windows: a reader that falls behind holds up its whole connection, as in the reference.

pub mod dictionary;
pub mod headers;
pub mod frame;
pub mod connection;
pub mod exec;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpdyError {
    #[error("frame is of SPDY version {0}")]
    Version(u16),
    #[error("control frame of type {kind} has {len} bytes")]
    ControlLength { kind: u16, len: usize },
    #[error("header block is malformed")]
    Headers,
    #[error("stream id {0} was used or is not a client's")]
    StreamId(u32),
}

/// The stream protocol spoken over SPDY; they differ in how the outcome is written and whether a terminal can be resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V4,
    V3,
    V2,
    V1,
}

impl Version {
    pub fn has_resize(self) -> bool {
        matches!(self, Version::V4 | Version::V3)
    }

    /// Whether the outcome is a `Status` object; older protocols carry the bare text of a failure.
    pub fn has_status(self) -> bool {
        self == Version::V4
    }
}
