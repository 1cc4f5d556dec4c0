//! `volley operator` in a process of its own.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The only replica on its cluster; dropping it kills it, as a crash does.
pub struct Operator(Child);

impl Operator {
    /// Its log is appended to a file, so that one file has all of its lives.
    pub fn start(kubeconfig: &Path, log: &Path) -> Operator {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.args(["operator", "--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000"]);
        command.arg("--kubeconfig").arg(kubeconfig).env_remove("RUST_LOG");
        Operator(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
