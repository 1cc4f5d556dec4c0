//! Where the node keeps things, below `$VOLLEY_HOME`.

use std::path::{Path, PathBuf};

pub fn pods(home: &Path) -> PathBuf {
    home.join("node/pods")
}

pub fn seccomp(home: &Path) -> PathBuf {
    home.join("node/seccomp")
}

pub fn volumes(pod: &Path) -> PathBuf {
    pod.join("volumes")
}

pub fn etc(pod: &Path) -> PathBuf {
    pod.join("etc")
}

pub fn sandbox(pod: &Path, number: u32) -> PathBuf {
    pod.join(format!("sandbox-{number}"))
}

/// A container's writable layer; it goes with its sandbox.
pub fn scratch(pod: &Path, sandbox_number: u32, container_id: &str) -> PathBuf {
    sandbox(pod, sandbox_number).join("scratch").join(container_id)
}

pub fn logs(pod: &Path, container: &str) -> PathBuf {
    pod.join("logs").join(container)
}

pub fn log(pod: &Path, container: &str, attempt_number: u32) -> PathBuf {
    logs(pod, container).join(format!("{attempt_number}.log"))
}

pub fn message(pod: &Path, container: &str, attempt_number: u32) -> PathBuf {
    pod.join("messages").join(format!("{container}-{attempt_number}"))
}
