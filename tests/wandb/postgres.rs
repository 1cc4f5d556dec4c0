//! A PostgreSQL of one's own: Debian's programs, a temporary folder, a socket in it, no network.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;
/// A machine that does much else needs some time for it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Postgres {
    folder: TempDir,
    child: Child,
}

impl Postgres {
    /// With one setting of its own. Tests go without syncs of the disk: they kill our programs, not the machine.
    pub fn start(setting: &str) -> Postgres {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        if is_root() {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("the folder is given away");
        }
        let made = program("initdb")
            .args(["--auth=trust", "--username=volley", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .expect("initdb runs; hint: make setup");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let child = program("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .args(["-c", "listen_addresses=", "-c", setting, "-c", "max_connections=120"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres runs");
        let postgres = Postgres { folder, child };
        postgres.wait();
        postgres
    }

    pub fn url(&self) -> String {
        format!("postgres://volley@localhost/postgres?host={}", self.folder.path().display())
    }

    fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        let is_ready = || {
            let asked = program("pg_isready").arg("-q").arg("-h").arg(self.folder.path()).status();
            asked.is_ok_and(|status| status.success())
        };
        while !is_ready() {
            assert!(Instant::now() < end, "PostgreSQL did not become ready");
            std::thread::yield_now();
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own children notice that it is gone, and end too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian keeps a folder for each version; the newest will do.
fn program(name: &str) -> Command {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is installed; hint: make setup")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    versions.sort();
    let newest = versions.last().expect("a version of PostgreSQL");
    let mut command = Command::new(newest.join("bin").join(name));
    command.current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0)
}
