//! One volley in a home of its own, and what a test does with it: questions to the API, and waiting.

use crate::command::{PATIENCE, finish};
use crate::http::{Answer, Request};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const POLL: Duration = Duration::from_millis(25);

pub struct World {
    folder: TempDir,
    home: PathBuf,
    address: String,
    token: String,
}

impl World {
    /// Starts everything that `volley up` starts.
    pub fn start(flags: &[&str]) -> World {
        // Not in /tmp, which may be shown to pods entry by entry and have thousands.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = folder.path().join("home");
        let mut world = World { folder, home, address: String::new(), token: String::new() };
        world.up(flags);
        world
    }

    pub fn up(&mut self, flags: &[&str]) {
        self.volley(&[&["up", "--listen", "127.0.0.1:0"], flags].concat());
        let kubeconfig = fs::read_to_string(self.home.join("kubeconfig")).unwrap();
        let server = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: https://"));
        self.address = server.unwrap().to_owned();
        self.token = fs::read_to_string(self.home.join("pki/admin.token")).unwrap().trim().to_owned();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.args(args).env("VOLLEY_HOME", &self.home).env("HOME", self.folder.path());
        command.env_remove("KUBECONFIG").env_remove("RUST_LOG").current_dir(self.folder.path());
        command
    }

    /// What a successful verb prints.
    #[track_caller]
    pub fn volley(&self, args: &[&str]) -> String {
        let output = finish(self.command(args), "");
        assert_eq!(output.code, 0, "volley {}: {}{}\n{}", args.join(" "), output.stdout, output.stderr, self.log());
        output.stdout
    }

    /// SIGKILL to the process; pods go on without it.
    pub fn kill(&self) {
        let status: Value = serde_json::from_str(&self.volley(&["status", "-o", "json"])).unwrap();
        let pid = status["pid"].to_string();
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        let is_gone = || !std::path::Path::new("/proc").join(&pid).join("ns/mnt").exists();
        self.until("the process is gone", || is_gone().then_some(()));
    }

    /// The end of volley's own log.
    fn log(&self) -> String {
        let text = fs::read_to_string(self.home.join("volley.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Accept", "application/json"),
            ("Content-Type", if method == "PATCH" { "application/merge-patch+json" } else { "application/json" }),
        ];
        let body = body.map(Value::to_string).unwrap_or_default();
        Request { address: &self.address, method, path, headers: &headers, body: body.as_bytes() }.send().unwrap()
    }

    /// Creates an object at the path of its kind, such as `/apis/kubeflow.org/v1/namespaces/default/pytorchjobs`.
    #[track_caller]
    pub fn create(&self, path: &str, object: &Value) -> Value {
        let answer = self.ask("POST", path, Some(object));
        assert_eq!(answer.code, 201, "{}", answer.text());
        answer.json()
    }

    /// The object, or null when there is none.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        if answer.code == 200 { answer.json() } else { Value::Null }
    }

    pub fn logs(&self, pod: &str) -> String {
        self.ask("GET", &format!("/api/v1/namespaces/default/pods/{pod}/log"), None).text()
    }

    #[track_caller]
    pub fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found() {
                return found;
            }
            if Instant::now() > deadline {
                panic!("in vain: {what}\n{}\n{}", self.tell(), self.log());
            }
            std::thread::park_timeout(POLL);
        }
    }

    /// Pods and events, for one who reads of a failure.
    fn tell(&self) -> String {
        let items = |path: &str| self.get(path)["items"].as_array().cloned().unwrap_or_default();
        let pods = items("/api/v1/namespaces/default/pods");
        let pods = pods.iter().map(|pod| format!("{}: {}", pod["metadata"]["name"], pod["status"]));
        let events = items("/api/v1/namespaces/default/events");
        let events = events.iter().map(|event| format!("{} {}: {}", event["involvedObject"]["name"], event["reason"], event["message"]));
        pods.chain(events).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let is_failed = std::thread::panicking();
        let output = finish(self.command(&["down", "--grace", "0"]), "");
        assert!(is_failed || output.code == 0, "volley down: {}{}\n{}", output.stdout, output.stderr, self.log());
    }
}
