//! The kubectl binaries of this machine.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// Where other kubectl versions are installed beside the one on the PATH.
const KUBECTL_FOLDERS: &[&str] = &["/usr/lib/google-cloud-sdk/bin"];

static KUBECTLS: LazyLock<Vec<Kubectl>> = LazyLock::new(find_kubectls);

/// One kubectl binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubectl {
    pub path: PathBuf,
    /// The minor version: 33 for v1.33.1.
    pub minor: u32,
}

/// Every kubectl of this machine, oldest first: on the PATH, beside it, and named by `VOLLEY_KUBECTL` (`:`-separated).
fn find_kubectls() -> Vec<Kubectl> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let listed =
        |name: &str| std::env::var_os(name).map(|v| std::env::split_paths(&v).collect::<Vec<_>>()).unwrap_or_default();
    paths.extend(listed("PATH").into_iter().map(|folder| folder.join("kubectl")));
    paths.extend(listed("VOLLEY_KUBECTL"));
    for folder in KUBECTL_FOLDERS {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        paths.extend(
            entries
                .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1."))),
        );
    }
    let mut found: Vec<Kubectl> = paths.into_iter().filter(|path| path.is_file()).filter_map(kubectl_at).collect();
    found.sort_by_key(|kubectl| kubectl.minor);
    found.dedup_by_key(|kubectl| kubectl.minor);
    assert!(!found.is_empty(), "no kubectl was found on the PATH; `make setup` installs it");
    found
}

fn kubectl_at(path: PathBuf) -> Option<Kubectl> {
    let output = Command::new(&path).args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse().ok()?;
    Some(Kubectl { path, minor })
}

/// Every kubectl, oldest first.
pub fn kubectls() -> &'static [Kubectl] {
    &KUBECTLS
}

/// The newest kubectl, used wherever the version makes no difference.
pub fn newest() -> &'static Kubectl {
    kubectls().last().expect("finding none is an error")
}
