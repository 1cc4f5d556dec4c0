//! Server processes: started, waited for, looked at, killed.

use crate::wire::Access;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const START_MAX: Duration = Duration::from_secs(30);

/// A running server and the way to it; dropping it kills it.
pub struct Server {
    child: Child,
    pub access: Access,
    /// From the start of the process to the first good answer.
    pub started_in: Duration,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// A cluster on this home, without a node: `node` measures that.
    pub async fn start(program: &Path, home: &Path) -> Result<Server> {
        fs::create_dir_all(home)?;
        let _ = fs::remove_file(home.join("kubeconfig"));
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["cluster", "--no-node", "--listen", &address.to_string(), "--home"]).arg(home);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let child = command.spawn().with_context(|| format!("failed to run `{}`", program.display()))?;
        wait_until_ready(address).await?;
        let started_in = begun.elapsed();
        while !home.join("kubeconfig").exists() {
            ensure!(begun.elapsed() < START_MAX, "no kubeconfig was written");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let kubeconfig = fs::read_to_string(home.join("kubeconfig"))?;
        Ok(Server { child, access: Access::from_kubeconfig(&kubeconfig)?, started_in })
    }

    /// The reference: a TLS server that reads the body and answers with fixed bytes.
    pub fn hello() -> Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        let begun = Instant::now();
        let mut child = command.arg("hello").stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        // The first lines are all it ever prints, so this blocks for the start only.
        let lines = output.lines().map_while(Result::ok).take_while(|line| line != "---");
        let kubeconfig: Vec<String> = lines.collect();
        let access = Access::from_kubeconfig(&kubeconfig.join("\n"))?;
        Ok(Server { child, access, started_in: begun.elapsed() })
    }

    pub fn resident_mb(&self) -> Result<f64> {
        resident_mb(self.child.id())
    }
}

/// Resident memory in MB, as the kernel counts it.
pub fn resident_mb(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS is in status")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes / 1024.0)
}

/// Processor time of this thread, so that others on the machine do not count: for what waits for nothing.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Asks `/readyz` over plain HTTP until the answer is good.
async fn wait_until_ready(address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < START_MAX {
        if is_ready(address).await.unwrap_or(false) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    bail!("the server was not ready within {START_MAX:?}")
}

async fn is_ready(address: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
