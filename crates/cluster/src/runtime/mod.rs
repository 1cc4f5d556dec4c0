//! Runs containers: what a pod and its containers are asked to be (`spec`), the pod's helper process (`shim`), and the node's
//! side of the talk with it (`client`).
//!
//! The node calls `probe` once, then `Pod::start` and `Pod::adopt`; the binary's hidden verb calls `shim_main`. Everything
//! between the two is below: file systems, users, filters, cgroups, networks, logs and records.

pub mod spec;
pub mod wire;
pub mod client;
mod shim;
mod rootfs;
mod process;
mod user;
mod capability;
mod seccomp;
mod syscalls;
pub mod cgroup;
pub mod network;
mod record;
mod leftovers;
pub(crate) mod sys;

pub use shim::shim_main;
pub use sys::give_back_code;

use serde::{Deserialize, Serialize};

/// What this machine lets pods be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    pub mode: spec::Mode,
    /// `v1`, `v2`, `hybrid` or `none`.
    pub cgroups: String,
    /// What pods cannot have here, as sentences for people.
    pub lacks: Vec<String>,
}
