//! The agent's own folder: which agent it is on the server, so that a restart is the same agent and holds the same items,
//! and the journals of logs. A second agent that is started on the same folder gets one beside it.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Agents of one folder that run at the same time.
const AGENTS_MAX: usize = 64;
/// How long an agent that was killed may still seem to use its folder.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(500);
const CLAIM_PAUSE: Duration = Duration::from_millis(5);

pub struct Folder {
    pub path: PathBuf,
    /// Held for as long as the agent runs; it ends with the process.
    _lock: File,
}

/// Who the agent was when it ran here last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub url: String,
    pub entity: String,
    pub queues: Vec<String>,
    pub agent: String,
}

impl Folder {
    /// Claims the first folder that no other agent uses.
    pub async fn claim(root: &Path) -> io::Result<Folder> {
        let began = Instant::now();
        loop {
            let is_last = began.elapsed() > CLAIM_TIMEOUT;
            // Others only once the first is in use for good: a restart must find its own.
            for number in 1..=if is_last { AGENTS_MAX } else { 1 } {
                if let Some(folder) = Folder::try_claim(root.join(number.to_string()))? {
                    return Ok(folder);
                }
            }
            if is_last {
                return Err(io::Error::other(format!("{AGENTS_MAX} agents use `{}` already", root.display())));
            }
            tokio::time::sleep(CLAIM_PAUSE).await;
        }
    }

    fn try_claim(path: PathBuf) -> io::Result<Option<Folder>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        let lock = File::create(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Folder { path, _lock: lock })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether an agent works in one of them.
    pub fn is_used(root: &Path) -> bool {
        let lock = |number: usize| File::open(root.join(number.to_string()).join("lock")).ok();
        let is_held = |lock: File| matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock));
        (1..=AGENTS_MAX).filter_map(lock).any(is_held)
    }

    fn identity_path(&self) -> PathBuf {
        self.path.join("agent.json")
    }

    pub fn identity(&self) -> Option<Identity> {
        serde_json::from_str(&fs::read_to_string(self.identity_path()).ok()?).ok()
    }

    pub fn keep(&self, identity: &Identity) -> io::Result<()> {
        let new = self.path.join("agent.new");
        fs::write(&new, serde_json::to_vec_pretty(identity).map_err(io::Error::other)?)?;
        fs::rename(&new, self.identity_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_agents_do_not_share_a_folder_and_a_restart_finds_its_own() {
        let root = tempfile::tempdir().unwrap();
        let first = Folder::claim(root.path()).await.unwrap();
        let second = Folder::claim(root.path()).await.unwrap();
        assert_ne!(first.path, second.path);
        let own = |path: &str| Identity { url: path.into(), entity: "e".into(), queues: vec![], agent: "a".into() };
        first.keep(&own("one")).unwrap();
        drop(first);
        assert_eq!(Folder::claim(root.path()).await.unwrap().identity(), Some(own("one")));
    }
}
