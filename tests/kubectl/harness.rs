//! The stage for the tests of this binary: one cluster per process, started on a free port, and the kubectls of this machine.
//!
//! A `Space` is a fresh namespace seen through one kubectl; tests take one each, so they can run side by side in one
//! process (`cargo test`) or in one process each (`cargo nextest`).

use crate::command::finish;
pub use crate::command::{Output, PATIENCE, Running, eventually};
use crate::http;
pub use crate::installed::{Kubectl, kubectls, newest};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use volley_cluster::{Cluster, Options};

/// The cluster of this process.
pub struct Stage {
    pub home: PathBuf,
    pub address: String,
    pub token: String,
    runtime: tokio::runtime::Runtime,
    cluster: Cluster,
}

static STAGE: LazyLock<Stage> = LazyLock::new(Stage::open);
static SPACES: AtomicU32 = AtomicU32::new(0);

pub fn stage() -> &'static Stage {
    &STAGE
}

impl Stage {
    fn open() -> Stage {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubectl");
        std::fs::create_dir_all(&root).expect("the target folder is writable");
        remove_homes_of_the_dead(&root);
        let home = root.join(std::process::id().to_string());
        std::fs::create_dir_all(home.join("client")).expect("the target folder is writable");
        Stage::start(&home)
    }

    /// Starts a cluster in a home, new or used.
    pub fn start(home: &Path) -> Stage {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let listen = ([127, 0, 0, 1], 0).into();
        let options = Options::new(home, listen);
        let cluster = runtime.block_on(Cluster::start(options)).expect("the cluster starts");
        std::fs::write(home.join("kubeconfig"), cluster.kubeconfig()).expect("the home is writable");
        let token = std::fs::read_to_string(home.join("pki/admin.token")).expect("the cluster made its keys");
        let (home, token, address) = (home.to_owned(), token.trim().to_owned(), cluster.address().to_string());
        Stage { home, address, token, runtime, cluster }
    }

    pub fn stop(self) {
        self.runtime.block_on(self.cluster.stop());
    }
}

/// A static is never dropped, so every process leaves its home behind; the next one clears it away.
fn remove_homes_of_the_dead(root: &Path) {
    for entry in std::fs::read_dir(root).expect("the folder was just made").flatten() {
        let alive = Path::new("/proc").join(entry.file_name()).exists();
        if !alive {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Runs a check with each kubectl version, in a namespace of its own, and says which version failed.
pub fn for_each_kubectl(theme: &str, check: impl Fn(&Space)) {
    with_each(kubectls().iter(), theme, check);
}

/// The same with the oldest, the newest and one between, another one for each theme: for what hardly differs between
/// versions. `VOLLEY_KUBECTL_ALL` set to anything runs all of them here too.
pub fn for_some_kubectls(theme: &str, check: impl Fn(&Space)) {
    let all = kubectls();
    let turn: usize = theme.bytes().map(usize::from).sum();
    let is_all = std::env::var_os("VOLLEY_KUBECTL_ALL").is_some();
    let chosen = |place: &usize| is_all || *place == 0 || *place + 1 == all.len() || *place == turn % all.len();
    with_each(all.iter().enumerate().filter(|(place, _)| chosen(place)).map(|(_, kubectl)| kubectl), theme, check);
}

fn with_each(kubectls: impl Iterator<Item = &'static Kubectl>, theme: &str, check: impl Fn(&Space)) {
    for kubectl in kubectls {
        let space = Space::with(kubectl, theme);
        eprintln!("with kubectl 1.{}", kubectl.minor);
        check(&space);
    }
}

/// A fresh namespace seen through one kubectl.
pub struct Space {
    pub name: String,
    pub kubectl: &'static Kubectl,
    pub folder: PathBuf,
}

impl Space {
    pub fn new(theme: &str) -> Space {
        Space::with(newest(), theme)
    }

    pub fn with(kubectl: &'static Kubectl, theme: &str) -> Space {
        let name = format!("{theme}-{}", SPACES.fetch_add(1, Ordering::Relaxed));
        let folder = stage().home.join("files").join(&name);
        std::fs::create_dir_all(&folder).expect("the home is writable");
        let made = http::post("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        assert_eq!(made.code, 201, "{}", made.body);
        Space { name, kubectl, folder }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl.path);
        command.args(["--namespace", &self.name]).args(args).current_dir(&self.folder);
        command.env("KUBECONFIG", stage().home.join("kubeconfig")).env("HOME", stage().home.join("client"));
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, "")
    }

    /// Runs kubectl with text on its standard input.
    pub fn run_with(&self, args: &[&str], stdin: &str) -> Output {
        finish(self.command(args), stdin)
    }

    /// What a successful command prints.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        self.ok_with(args, "")
    }

    #[track_caller]
    pub fn ok_with(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run_with(args, stdin);
        assert_eq!(output.code, 0, "kubectl {}: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stdout
    }

    /// What a failing command says; it must end with code 1.
    #[track_caller]
    pub fn fails(&self, args: &[&str]) -> String {
        self.fails_with(args, "")
    }

    #[track_caller]
    pub fn fails_with(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run_with(args, stdin);
        assert_eq!(output.code, 1, "kubectl {} should fail: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stderr
    }

    /// The object that a command prints with `-o json`.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("kubectl prints JSON")
    }

    #[track_caller]
    pub fn apply(&self, yaml: &str) -> String {
        self.ok_with(&["apply", "-f", "-"], yaml)
    }

    /// Writes a file into the folder that kubectl runs in.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).expect("the home is writable");
        path
    }

    /// The path of this namespace in the core group, with what is below it.
    pub fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.name)
    }

    pub fn group(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.name)
    }

    /// Starts a long-running command; it is killed when dropped.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }
}

/// Lines with runs of blanks reduced to two, so that tables compare without their padding.
pub fn squeeze(table: &str) -> Vec<String> {
    let line = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells.join("  ")
    };
    table.lines().map(line).collect()
}
