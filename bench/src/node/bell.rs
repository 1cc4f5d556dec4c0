//! How the start of a container's program is heard: it writes its name into a named pipe that all containers have mounted.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A pod that has not started by then never will.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Bell {
    /// The folder that containers have mounted.
    pub folder: PathBuf,
    rings: mpsc::UnboundedReceiver<(String, Instant)>,
}

impl Bell {
    pub fn hang(folder: &Path) -> Result<Bell> {
        let path = folder.join("bell");
        ensure!(Command::new("mkfifo").arg(&path).status()?.success(), "mkfifo failed");
        // Held for writing too, so that it never ends.
        let pipe = OpenOptions::new().read(true).write(true).open(&path)?;
        let (sender, rings) = mpsc::unbounded_channel();
        // A thread of its own: the load on the runtime must not be counted as somebody's start.
        std::thread::spawn(move || {
            for name in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send((name, Instant::now())).is_err() {
                    return;
                }
            }
        });
        Ok(Bell { folder: folder.to_owned(), rings })
    }

    /// When each of so many containers rang.
    pub async fn hear(&mut self, count: usize) -> Result<BTreeMap<String, Instant>> {
        let mut heard = BTreeMap::new();
        while heard.len() < count {
            let ring = tokio::time::timeout(PATIENCE, self.rings.recv()).await;
            let ring = ring.with_context(|| format!("only {} of {count} containers have started", heard.len()))?;
            let (name, at) = ring.context("the bell is gone")?;
            heard.insert(name, at);
        }
        Ok(heard)
    }
}
