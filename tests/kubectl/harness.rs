//! The stage for the tests of this binary: one cluster per process, started on a free port, and the kubectls of this machine.
//!
//! A `Space` is a fresh namespace seen through one kubectl; tests take one each, so they can run side by side in one
//! process (`cargo test`) or in one process each (`cargo nextest`).

use crate::http;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use volley_cluster::{Cluster, Options};

/// How long a condition may take to come true; far above what any of them needs, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Where other kubectl versions are installed beside the one on the PATH.
const KUBECTL_FOLDERS: &[&str] = &["/usr/lib/google-cloud-sdk/bin"];

/// The cluster of this process.
pub struct Stage {
    pub home: PathBuf,
    pub address: String,
    pub token: String,
    runtime: tokio::runtime::Runtime,
    cluster: Cluster,
}

static STAGE: LazyLock<Stage> = LazyLock::new(Stage::open);
static KUBECTLS: LazyLock<Vec<Kubectl>> = LazyLock::new(find_kubectls);
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
        let options = Options { home: home.to_owned(), listen, names: Vec::new(), node: None };
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

/// One kubectl binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubectl {
    pub path: PathBuf,
    /// The minor version: 33 for v1.33.1.
    pub minor: u32,
}

/// Every kubectl of this machine, oldest first: on the PATH, beside it, and named by `VOLLEY_KUBECTL` (`:`-separated).
fn find_kubectls() -> Vec<Kubectl> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let listed =
        |name: &str| std::env::var_os(name).map(|v| std::env::split_paths(&v).collect::<Vec<_>>()).unwrap_or_default();
    paths.extend(listed("PATH").into_iter().map(|folder| folder.join("kubectl")));
    paths.extend(listed("VOLLEY_KUBECTL"));
    for folder in KUBECTL_FOLDERS {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        paths.extend(
            entries
                .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1."))),
        );
    }
    let mut found: Vec<Kubectl> = paths.into_iter().filter(|path| path.is_file()).filter_map(kubectl_at).collect();
    found.sort_by_key(|kubectl| kubectl.minor);
    found.dedup_by_key(|kubectl| kubectl.minor);
    assert!(!found.is_empty(), "no kubectl was found on the PATH; `make setup` installs it");
    found
}

fn kubectl_at(path: PathBuf) -> Option<Kubectl> {
    let output = Command::new(&path).args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse().ok()?;
    Some(Kubectl { path, minor })
}

/// Every kubectl, oldest first.
pub fn kubectls() -> &'static [Kubectl] {
    &KUBECTLS
}

/// The newest kubectl, used wherever the version makes no difference.
pub fn newest() -> &'static Kubectl {
    kubectls().last().expect("finding none is an error")
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

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
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
        let mut command = self.command(args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("kubectl starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(stdout)).map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Running { child, lines }
    }
}

/// A command that prints while it runs.
pub struct Running {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Running {
    /// The next line it prints.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line is printed in time")
    }

    /// Waits for the end; the exit code.
    #[track_caller]
    pub fn end(mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code().unwrap_or(-1);
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        panic!("the command does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn finish(mut command: Command, stdin: &str) -> Output {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("kubectl starts");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    let text = stdin.to_owned();
    // A command that reads no input closes the pipe early, which is its right.
    let writer = std::thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("kubectl ends");
    writer.join().expect("the writer does not panic");
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// Asks again until the answer is there; for conditions that nothing can be watched for.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(10));
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
