//! The command line as a user meets it: the real program, a home of its own for each test, free ports only.

mod archive;
mod check;
mod image;
mod map;
mod node;
mod operator;
mod registry;
mod server;
mod launch;
mod start;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A home that is stopped and removed with the test, whether it passed or not.
struct World {
    folder: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.command(&["down"]).output().expect("the program under test runs");
    }
}

impl World {
    fn new() -> World {
        World { folder: tempfile::tempdir().expect("a temporary folder can be made") }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.args(arguments).env("VOLLEY_HOME", self.home()).env("HOME", self.folder.path());
        command.env_remove("RUST_LOG").env_remove("KUBECONFIG").env_remove("NO_COLOR");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program under test runs")
    }

    /// What a successful command prints.
    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("output is UTF-8")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.stdout(arguments)).expect("-o json prints JSON")
    }

    fn up(&self) -> Value {
        self.json(&["up", "--listen", "127.0.0.1:0", "-o", "json"])
    }

    fn pid(&self) -> String {
        fs::read_to_string(self.home().join("volley.pid")).expect("a running process has a pid file").trim().to_owned()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args(["-s", name, pid]).status().expect("`kill` runs");
    assert!(sent.success());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").permissions().mode() & 0o777
}

#[test]
fn up_returns_when_ready_and_down_when_ended() {
    let world = World::new();
    let status = world.up();
    assert_eq!(status["running"], true);
    assert_eq!(status["parts"][0]["health"], "ok");
    assert_eq!(status["pid"].to_string(), world.pid());
    let kubeconfig = world.home().join("kubeconfig");
    assert_eq!(mode(&kubeconfig), 0o600);
    let server = status["parts"][0]["address"].as_str().unwrap();
    assert!(world.stdout(&["kubeconfig"]).contains(server));
    assert_eq!(world.stdout(&["kubeconfig", "--path"]).trim(), kubeconfig.to_str().unwrap());
    assert_eq!(world.json(&["status", "-o", "json"])["pid"], status["pid"]);
    assert_eq!(world.stdout(&["status", "-o", "name"]), "cluster\noperator\nserver\nagent\n");

    let pid = world.pid();
    world.stdout(&["down"]);
    assert!(!world.home().join("volley.pid").exists());
    assert!(!world.home().join("volley.sock").exists());
    // The same home, at once: nothing of the old process is in the way.
    world.up();
    assert_ne!(world.pid(), pid);
}

#[test]
fn a_second_up_finds_the_first() {
    let world = World::new();
    let first = world.up();
    let second = world.run(&["up"]);
    assert!(second.status.success());
    assert!(stderr(&second).starts_with("volley is already running in "));
    let address = first["parts"][0]["address"].as_str().unwrap();
    assert!(String::from_utf8_lossy(&second.stdout).contains(address));
}

#[test]
fn of_several_ups_at_the_same_time_one_starts_and_all_succeed() {
    let world = World::new();
    let start = || {
        let mut command = world.command(&["up", "--listen", "127.0.0.1:0", "-o", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program under test runs")
    };
    let started: Vec<_> = (0..4).map(|_| start()).collect();
    let pids: Vec<Value> = started
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            serde_json::from_slice::<Value>(&output.stdout).unwrap()["pid"].clone()
        })
        .collect();
    assert!(pids.iter().all(|pid| pid == &pids[0]), "{pids:?}");
}

#[test]
fn after_a_crash_status_tells_the_truth_and_up_starts_again() {
    let world = World::new();
    world.up();
    // At once, while the kernel may still be clearing the process away: the pid file and the socket stay behind.
    signal("KILL", &world.pid());
    let status = world.run(&["status", "-o", "json"]);
    assert_eq!(status.status.code(), Some(1));
    assert_eq!(serde_json::from_slice::<Value>(&status.stdout).unwrap()["running"], false);
    world.up();
    assert_eq!(world.json(&["status", "-o", "json"])["parts"][0]["health"], "ok");
}

#[test]
fn a_second_process_in_a_home_is_refused() {
    let world = World::new();
    world.up();
    let output = world.run(&["cluster", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains("error: another volley runs in `"), "{told}");
    assert_eq!(world.json(&["status", "-o", "json"])["parts"][0]["health"], "ok");
}

#[test]
fn a_named_port_that_is_taken_is_an_error_with_a_hint() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = world.run(&["up", "--listen", &address.to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let expected = format!(
        "error: failed to start the cluster\n  caused by: failed to listen on {address}\n  \
         caused by: Address already in use (os error 98)\nhint: port {port} is taken; choose another, or let the \
         system choose one with --listen 127.0.0.1:0\n",
        port = address.port()
    );
    assert_eq!(stderr(&output), expected);
    assert!(!world.home().join("volley.pid").exists());
}

#[test]
fn a_damaged_home_is_told_by_up_not_only_by_the_log() {
    let world = World::new();
    fs::create_dir_all(world.home().join("cluster")).unwrap();
    fs::write(world.home().join("cluster/store.log"), "this is not a store").unwrap();
    let output = world.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("store.log` is not a store"), "{}", stderr(&output));
}

#[test]
fn a_foreground_cluster_stops_on_a_signal() {
    let world = World::new();
    let mut command = world.command(&["up", "--no-node", "--foreground", "--listen", "127.0.0.1:0", "-o", "name"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "cluster\n");
    signal("TERM", &child.id().to_string());
    assert!(child.wait().unwrap().success());
    assert!(!world.home().join("volley.pid").exists());
}

#[test]
fn the_log_is_json_when_asked_for() {
    let world = World::new();
    world.stdout(&["--log-format", "json", "up", "--only", "cluster", "--listen", "127.0.0.1:0"]);
    let log = fs::read_to_string(world.home().join("volley.log")).unwrap();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["level"], "INFO");
}

#[test]
fn a_backup_of_a_running_cluster_starts_another() {
    let (world, other) = (World::new(), World::new());
    world.up();
    let file = world.folder.path().join("copy.volley");
    let file_text = file.to_str().unwrap();
    let saved = world.json(&["cluster", "backup", file_text, "-o", "json"]);
    assert!(saved["objects"].as_u64().is_some_and(|objects| objects > 10), "{saved}");
    assert_eq!(mode(&file), 0o600);
    let again = world.run(&["cluster", "backup", file_text]);
    assert!(stderr(&again).contains("already exists\nhint: move it away first"), "{}", stderr(&again));
    let refused = world.run(&["cluster", "restore", file_text]);
    assert!(stderr(&refused).contains("hint: stop it with `volley down` first"), "{}", stderr(&refused));

    let restored = other.json(&["cluster", "restore", file_text, "-o", "json"]);
    assert_eq!(restored["objects"], saved["objects"]);
    // Nothing runs there yet, so this reads the store itself.
    let at_rest = other.folder.path().join("rest.volley");
    let at_rest = other.json(&["cluster", "backup", at_rest.to_str().unwrap(), "-o", "json"]);
    assert_eq!(at_rest["revision"], saved["revision"]);
    other.up();
}

#[test]
fn kubeconfig_before_the_first_start_says_what_to_do() {
    let world = World::new();
    let output = world.run(&["kubeconfig"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with("hint: `volley up` makes one\n"), "{}", stderr(&output));
}

#[test]
fn merging_adds_a_context_to_the_users_own_file() {
    let world = World::new();
    world.up();
    world.stdout(&["kubeconfig", "--merge"]);
    let merged = fs::read_to_string(world.folder.path().join(".kube/config")).unwrap();
    assert!(merged.contains("current-context: volley"), "{merged}");
    assert_eq!(mode(&world.folder.path().join(".kube/config")), 0o600);
}

#[test]
fn every_kind_is_listed_as_running_stored_or_not_served() {
    let world = World::new();
    let text = world.stdout(&["cluster", "api"]);
    let row = |resource: &str, version: &str| {
        text.lines()
            .find(|line| line.contains(&format!("   {resource} ")) && line.ends_with(version))
            .map(str::to_owned)
    };
    assert!(row("pods", "v1").is_some_and(|row| row.starts_with("Runs ")));
    assert!(row("ingresses", "networking.k8s.io/v1").is_some_and(|row| row.starts_with("Stored ")));
    assert!(row("flowschemas", "flowcontrol.apiserver.k8s.io/v1").is_some_and(|row| row.starts_with("Not served ")));
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let world = World::new();
    for arguments in
        [&["up", "--frobnicate"][..], &["status", "-o", "xml"], &["up", "--listen", "nowhere"], &["nothing"]]
    {
        let output = world.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}

#[test]
fn completions_know_the_verbs() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.stdout(&["completions", shell]).contains("kubeconfig"));
    }
}

#[test]
fn the_version_says_which_kubernetes_is_served() {
    let world = World::new();
    assert_eq!(world.stdout(&["version"]), format!("volley {}\n", env!("CARGO_PKG_VERSION")));
    let version = world.json(&["version", "-o", "json"]);
    assert!(version["kubernetes"].as_str().is_some_and(|text| text.starts_with("v1.")), "{version}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let world = World::new();
    let mut child = world.command(&["cluster", "api"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
}
