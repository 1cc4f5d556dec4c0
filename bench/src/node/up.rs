//! A volley with a node, as `volley up` starts it; dropping it brings it down and removes its home.

use crate::pods::PODS;
use crate::wire::{Access, Protocol};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CLEAN_MAX: Duration = Duration::from_secs(60);

pub struct Up {
    program: PathBuf,
    pub home: PathBuf,
    pub access: Access,
    pub pid: u32,
    /// Until `volley up` said that all is ready.
    pub ready_in: Duration,
}

impl Drop for Up {
    fn drop(&mut self) {
        let down = self.volley(&["down", "--grace", "0", "--purge", "--yes"]).status();
        if !down.is_ok_and(|status| status.success()) {
            eprintln!("`volley down --home {}` failed; something of it may be left", self.home.display());
        }
    }
}

impl Up {
    pub async fn start(program: &Path, home: &Path) -> Result<Up> {
        Up::start_parts(program, home, &["--only", "cluster"])
    }

    /// With the operator.
    pub async fn start_whole(program: &Path, home: &Path) -> Result<Up> {
        Up::start_parts(program, home, &[])
    }

    pub fn start_parts(program: &Path, home: &Path, parts: &[&str]) -> Result<Up> {
        let command = |args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).arg("--home").arg(home).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let begun = Instant::now();
        let status = command(&["up", "--listen", "127.0.0.1:0"]).args(parts).status()?;
        let ready_in = begun.elapsed();
        ensure!(status.success(), "`volley up` failed in {}", home.display());
        let access = Access::from_kubeconfig(&fs::read_to_string(home.join("kubeconfig"))?)?;
        let pid = fs::read_to_string(home.join("volley.pid"))?.trim().parse().context("volley.pid holds a number")?;
        Ok(Up { program: program.to_owned(), home: home.to_owned(), access, pid, ready_in })
    }

    pub fn volley(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--home").arg(&self.home).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub fn load(&self, archive: &Path) -> Result<()> {
        let status = self.volley(&["image", "load"]).arg(archive).status()?;
        ensure!(status.success(), "`volley image load` failed");
        Ok(())
    }

    /// Removes all pods and waits until nothing of them is left.
    pub async fn clear(&self) -> Result<()> {
        let mut connection = self.access.connect(Protocol::Http1).await?;
        let now = Bytes::from_static(br#"{"gracePeriodSeconds":0}"#);
        connection.call(Method::DELETE, PODS, now).await?;
        let begun = Instant::now();
        while fs::read_dir(self.home.join("node/pods"))?.next().is_some() {
            ensure!(begun.elapsed() < CLEAN_MAX, "pods are left in {}", self.home.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// The shims of all pods: their arguments name the home.
    pub fn shims(&self) -> Result<Vec<u32>> {
        let home = self.home.display().to_string();
        let processes = fs::read_dir("/proc")?.flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_shim = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&format!("{home}/")) && line.split('\0').any(|word| word == "shim")
        };
        Ok(numbers.filter(is_shim).collect())
    }
}
