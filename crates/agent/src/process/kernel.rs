//! Processes as the kernel knows them: one is itself only by its number, the time at which it began and the boot.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In ticks since the boot.
    started: u64,
    boot: String,
}

/// What `/proc/PID/stat` says behind the name, which may hold anything.
struct Stat {
    is_over: bool,
    started: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // The state is the third field of all, the start the 22nd.
        Some(Stat { is_over: matches!(*fields.first()?, "Z" | "X"), started: fields.get(19)?.parse().ok()? })
    }
}

/// Which start of the machine this is.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl Process {
    pub fn of(pid: i32) -> Option<Process> {
        Some(Process { pid, started: Stat::of(pid)?.started, boot: boot() })
    }

    /// Began before the machine's last start.
    pub fn is_of_another_boot(&self) -> bool {
        self.boot != boot()
    }

    pub fn is_alive(&self) -> bool {
        let is_it = |stat: Stat| !stat.is_over && stat.started == self.started;
        !self.is_of_another_boot() && Stat::of(self.pid).is_some_and(is_it)
    }

    /// A handle that stays this process's, though its number be given away.
    fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::NONBLOCK).ok()?;
        self.is_alive().then_some(handle)
    }

    pub fn kill(&self) {
        if let Some(handle) = self.open() {
            // It may have ended by itself meanwhile.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }

    /// Asks all of its group to end.
    pub fn ask_group_to_end(&self) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            // As above.
            let _ = kill_process_group(pid, Signal::TERM);
        }
    }
}

/// A pipe by a name whose other end its maker holds for as long as it lives.
pub fn hold(path: &Path) -> io::Result<File> {
    match mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0) {
        Ok(()) | Err(Errno::EXIST) => (),
        Err(error) => return Err(error.into()),
    }
    // For both, so that nobody waits for anybody.
    File::options().read(true).write(true).open(path)
}

/// Returns when nobody holds it any more, whoever's child that was.
pub async fn until_let_go(path: &Path, is_held: impl Fn() -> bool) {
    let Ok(mut pipe) = pipe::OpenOptions::new().open_receiver(path) else { return };
    // The kernel tells only of those who let go after it was opened.
    if !is_held() {
        return;
    }
    // Nothing is ever written.
    let _ = pipe.read(&mut [0]).await;
}

/// Processes whose environment has all these entries: whatever became of their parents, they were begun with them.
pub fn with_environment(entries: &[String]) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_all = |pid: &i32| {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        let own: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        entries.iter().all(|entry| own.contains(&entry.as_bytes()))
    };
    numbers.filter(has_all).filter_map(Process::of).filter(Process::is_alive).collect()
}

/// How often the kernel has killed for want of memory.
pub fn memory_kills() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn a_pipe_tells_when_its_holder_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alive");
        until_let_go(&path, || true).await;
        let held = hold(&path).unwrap();
        let waiting = until_let_go(&path, || true);
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(held);
        waiting.await;
        until_let_go(&path, || false).await;
    }

    #[test]
    fn a_process_is_known_by_when_it_began() {
        let mut child = Command::new("sleep").arg("1000").env("VOLLEY_TEST_MARK", "a b=c").spawn().unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(process.is_alive());
        // Until it has become `sleep`, it has the environment of nobody.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !with_environment(&["VOLLEY_TEST_MARK=a b=c".to_owned()]).contains(&process) {
            assert!(std::time::Instant::now() < deadline, "it is found by its environment");
            std::thread::yield_now();
        }
        assert!(!Process { started: process.started + 1, ..process.clone() }.is_alive());
        assert!(Process { boot: "other".to_owned(), ..process.clone() }.is_of_another_boot());
        process.kill();
        while process.is_alive() {
            assert!(std::time::Instant::now() < deadline, "what nobody has waited for is over all the same");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
