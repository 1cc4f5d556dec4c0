//! The seam to the node: what the API server asks of whoever runs the pods.
//!
//! The node implements it and is set once, after the server is open; until then nothing of a pod can be reached. `sessions` and
//! `usage` in this folder are the askers.

use crate::streams::Io;
use crate::streams::session::{Outcome, Streams};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A container of a pod on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub pod_uid: String,
    pub container: String,
}

/// What something used over a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Billionths of one processor, on average over the window.
    pub cpu_nanocores: u64,
    /// At the end of the window.
    pub memory_bytes: u64,
    /// The end of the window.
    pub at: Timestamp,
    pub window: SignedDuration,
}

pub trait NodeDoor: Send + Sync + 'static {
    /// The name of the Node object that is this machine.
    fn name(&self) -> &str;

    /// The log file of a container's attempt; none when the node does not know the pod.
    fn log(&self, place: &Place, attempt: u64) -> Option<PathBuf>;

    fn is_running(&self, place: &Place) -> bool;

    /// Runs a command beside the container's own; on a terminal when the streams can be resized.
    fn exec(&self, place: &Place, command: Vec<String>, streams: Streams) -> BoxFuture<'static, Outcome>;

    /// Joins the container's own streams. If its input is only for the first who attaches, it ends with that one's.
    fn attach(&self, place: &Place, is_stdin_once: bool, streams: Streams) -> BoxFuture<'static, Outcome>;

    /// Connects to a port as a process of the pod would.
    fn connect(&self, pod_uid: &str, port: u16) -> BoxFuture<'static, io::Result<Io>>;

    /// What the whole machine uses; none until it was measured.
    fn usage(&self) -> Option<Usage>;

    /// How the machine's GPUs do, as JSON; none where nothing measures them.
    fn gpu_usage(&self) -> Option<String>;

    /// What the running containers of a pod use, by name; empty until all of them were measured.
    fn pod_usage(&self, pod_uid: &str) -> BTreeMap<String, Usage>;
}
