//! `$VOLLEY_HOME`: where everything is kept, and who may run in it.
//!
//! The running process holds a lock on `volley.lock` until it ends, however it ends, so a pid file left by a crash, or
//! one whose number now belongs to another program, is never mistaken for a running process.

use anyhow::{Context, Result, anyhow};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A log larger than this is put aside at the next start: a month of ordinary days, and still quick to open.
const LOG_BYTES_MAX: u64 = 10 << 20;

/// The folder and the names in it.
#[derive(Debug, Clone)]
pub struct Home {
    folder: PathBuf,
}

impl Home {
    /// `--home` or `VOLLEY_HOME`, else `~/.volley`; absolute, because the background process works elsewhere.
    pub fn find(wanted: Option<&Path>) -> Result<Home> {
        let folder = match wanted {
            Some(folder) => folder.to_owned(),
            None => std::env::home_dir()
                .filter(|folder| !folder.as_os_str().is_empty())
                .ok_or_else(|| anyhow!("this user has no home folder\nhint: set VOLLEY_HOME or give --home"))?
                .join(".volley"),
        };
        let folder = std::path::absolute(&folder).with_context(|| format!("`{}` is not a path", folder.display()))?;
        Ok(Home { folder })
    }

    /// Makes the folder if it is not there; only its owner may look inside, since keys are below it.
    pub fn create(&self) -> Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.with_context(|| {
            format!(
                "failed to make the folder `{}`\nhint: choose another with --home or VOLLEY_HOME",
                self.folder.display()
            )
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("volley.log")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("volley.sock")
    }

    /// Where the cluster keeps its store.
    pub fn store(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    /// Where the control plane keeps its database and files.
    pub fn server(&self) -> PathBuf {
        self.folder.join("server")
    }

    /// Where agents keep who they are, and logs that the server does not have yet.
    pub fn agent(&self) -> PathBuf {
        self.folder.join("agent")
    }

    /// Which server `volley login` chose, and the key for it.
    pub fn login(&self) -> PathBuf {
        self.folder.join("login.json")
    }

    /// Settings that a start reads.
    pub fn config(&self) -> PathBuf {
        self.folder.join("config.yaml")
    }

    /// What `volley image map` keeps.
    pub fn image_maps(&self) -> PathBuf {
        self.folder.join("image-maps")
    }

    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }

    /// Opens the lock of those who change the images; who adds holds it shared, who removes alone.
    pub fn images_lock(&self) -> Result<File> {
        self.open_lock("volley.images")
    }

    fn pid(&self) -> PathBuf {
        self.folder.join("volley.pid")
    }

    /// The log for a new process to append to; a large one is renamed first and replaces the one before it.
    pub fn open_log(&self) -> Result<File> {
        let path = self.log();
        let is_large = fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES_MAX);
        if is_large {
            let old = self.folder.join("volley.log.1");
            fs::rename(&path, &old).with_context(|| format!("failed to rename `{}`", path.display()))?;
        }
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        opened.with_context(|| format!("failed to open `{}`", path.display()))
    }

    /// The last lines of the log, for a process that ended without a word.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Waits for the turn of this process to start another in this home, which lasts until the file is dropped.
    ///
    /// Of two `volley up` at the same time, the second finds what the first has started.
    pub fn turn(&self) -> Result<File> {
        self.create()?;
        let lock = self.open_lock("volley.turn")?;
        lock.lock().with_context(|| format!("failed to wait for another start in `{}`", self.folder.display()))?;
        Ok(lock)
    }

    fn open_lock(&self, name: &str) -> Result<File> {
        let path = self.folder.join(name);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        opened.with_context(|| format!("failed to open `{}`", path.display()))
    }

    /// Makes this process the one that runs in this home; `None` when another one is.
    pub fn claim(&self) -> Result<Option<Claim>> {
        self.create()?;
        let lock = self.open_lock("volley.lock")?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => {
                return Err(source).with_context(|| format!("failed to lock `{}`", self.folder.display()));
            }
        }
        write_private(&self.pid(), &format!("{}\n", std::process::id()))?;
        Ok(Some(Claim { home: self.clone(), _lock: lock }))
    }
}

/// The right to run in a home, and the files that tell others so; dropping it gives both up.
pub struct Claim {
    home: Home,
    _lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        for path in [self.home.socket(), self.home.pid()] {
            let removed = fs::remove_file(&path);
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, path = %path.display(), "a file was left behind");
            }
        }
    }
}

/// Replaces a file as a whole, readable by its owner only: readers see the old or the new text, never a part.
///
/// It is not synced: what is written so is written anew at every start, and a sync would make every start slower.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    replace(path, text, |_| Ok(()))
}

/// The same for a file that must survive a loss of power.
pub fn write_private_durably(path: &Path, text: &str) -> Result<()> {
    replace(path, text, File::sync_all)
}

fn replace(path: &Path, text: &str, sync: impl FnOnce(&File) -> io::Result<()>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = write_new(&new, text, sync).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&new);
    }
    written.with_context(|| format!("failed to write `{}`", path.display()))
}

fn write_new(path: &Path, text: &str, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    sync(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(&folder.path().join("home"))).unwrap();
        (folder, home)
    }

    #[test]
    fn one_process_at_a_time_runs_in_a_home() {
        let (_folder, home) = home();
        let claim = home.claim().unwrap();
        assert!(claim.is_some());
        assert!(home.claim().unwrap().is_none());
        drop(claim);
        assert!(home.claim().unwrap().is_some());
    }

    #[test]
    fn a_pid_file_that_a_crash_left_behind_does_not_matter() {
        let (_folder, home) = home();
        home.create().unwrap();
        fs::write(home.pid(), "1\n").unwrap();
        let claim = home.claim().unwrap();
        assert_eq!(fs::read_to_string(home.pid()).unwrap(), format!("{}\n", std::process::id()));
        drop(claim);
        assert!(!home.pid().exists());
    }

    #[test]
    fn what_is_private_is_readable_by_its_owner_only() {
        let (_folder, home) = home();
        home.create().unwrap();
        write_private(&home.kubeconfig(), "old").unwrap();
        write_private(&home.kubeconfig(), "new").unwrap();
        assert_eq!(fs::read_to_string(home.kubeconfig()).unwrap(), "new");
        assert_eq!(fs::metadata(home.kubeconfig()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(home.folder()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(home.folder()).unwrap().count(), 1, "no unfinished file is left");
    }

    #[test]
    fn a_large_log_is_put_aside_and_a_small_one_is_continued() {
        let (_folder, home) = home();
        home.create().unwrap();
        let old = home.folder().join("volley.log.1");
        home.open_log().unwrap().write_all(b"first\n").unwrap();
        home.open_log().unwrap().write_all(b"second\n").unwrap();
        assert_eq!(home.log_tail(1), "second");
        assert!(!old.exists());
        home.open_log().unwrap().set_len(LOG_BYTES_MAX + 1).unwrap();
        assert_eq!(home.open_log().unwrap().metadata().unwrap().len(), 0);
        assert_eq!(fs::metadata(old).unwrap().len(), LOG_BYTES_MAX + 1);
    }
}
