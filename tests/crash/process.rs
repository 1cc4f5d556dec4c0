//! A server process that is started, waited for and killed.

use kube::config::AuthInfo;
use kube::{Client, Config};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A debug build on a busy machine starts well within this.
const START_MAX: Duration = Duration::from_secs(20);
/// A server gives up a request of its own accord after a minute; one that is silent for longer has stopped answering.
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// A running server; dropping it kills it.
pub struct Server {
    child: Child,
    pub client: Client,
}

/// The server's command line on a home, on a free port.
pub fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
    command.arg("cluster").args(["--no-node", "--listen", "127.0.0.1:0", "--home"]).arg(home);
    command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Server {
    pub async fn start(home: &Path) -> Server {
        Server::spawn(home, command(home)).await
    }

    /// Runs a command that becomes the server, and returns when clients are answered.
    pub async fn spawn(home: &Path, mut command: Command) -> Server {
        let kubeconfig = home.join("kubeconfig");
        // The file is written when clients are answered, so its return says that this process is ready.
        let _ = fs::remove_file(&kubeconfig);
        let log = fs::File::create(log_path(home)).expect("a file for the server's log");
        let mut child = command.stderr(log).spawn().expect("the server is spawned");
        let started = Instant::now();
        while !kubeconfig.exists() {
            if let Some(status) = child.try_wait().expect("the child is ours") {
                panic!("the server ended with {status}: {}", read_log(home));
            }
            assert!(started.elapsed() < START_MAX, "not ready after {START_MAX:?}: {}", read_log(home));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let client = client(home, &fs::read_to_string(&kubeconfig).expect("it was just there"));
        Server { child, client }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no handler runs, nothing is flushed.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Beside the home, so that a full disk does not take the log too.
pub fn log_path(home: &Path) -> PathBuf {
    home.with_extension("log")
}

pub fn read_log(home: &Path) -> String {
    fs::read_to_string(log_path(home)).unwrap_or_default()
}

/// What a start that must fail says.
pub fn refusal(home: &Path) -> String {
    let output = command(home).stderr(Stdio::piped()).output().expect("the server is spawned");
    assert!(!output.status.success(), "the server started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Plain HTTP with the admin's token: TLS has its own tests, and here thousands of connections break.
fn client(home: &Path, kubeconfig: &str) -> Client {
    let address = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: https://")).expect("an address");
    let mut config = Config::new(format!("http://{address}").parse().expect("a URL"));
    let token = fs::read_to_string(home.join("pki/admin.token")).expect("the admin's token").trim().to_owned();
    // What the server refuses for a time or does not answer is a fault here; the defaults repeat it fifteen times in
    // silence, or wait for ever.
    config.default_retry = false;
    config.read_timeout = Some(ANSWER_MAX);
    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
    Client::try_from(config).expect("a client")
}
