//! A pod in a temporary folder, with a busybox file system.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use volley_cluster::runtime::client::{Executed, Launcher, Pod, Streams};
use volley_cluster::runtime::spec::{Container, LogFile, Mode, Process, Root, Sandbox};
use volley_cluster::runtime::wire::{Exec, Exit};

pub const SHIM: &str = env!("CARGO_BIN_EXE_volley-shim");

pub fn launcher() -> Launcher {
    Launcher::new(Path::new(SHIM), &[])
}

pub fn must_be_root() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("\nUid:\t0\t0\t"), "this test starts containers as root: run it as root");
}

/// A file system of busybox alone, made once for all tests of all runs: each test is a process of its own.
pub fn busybox() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let place = std::env::temp_dir().join("volley-tests-busybox");
        if place.exists() {
            return place;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["bin", "etc", "tmp", "root"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::copy("/bin/busybox", root.join("bin/busybox"))
            .expect("the tests need busybox: apt-get install busybox-static");
        let listed = Command::new("/bin/busybox").arg("--list").output().unwrap();
        for applet in String::from_utf8(listed.stdout).unwrap().lines().filter(|name| *name != "busybox") {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        std::fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n")
            .unwrap();
        std::fs::write(root.join("etc/group"), "root:x:0:\napps:x:1001:\nextra:x:1002:app\n").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(root, open).unwrap();
        // Whoever was faster has made the same.
        if std::fs::rename(root, &place).is_ok() {
            let _nothing_to_remove = folder.keep();
        }
        place
    })
}

pub struct Place {
    pub folder: TempDir,
    pub id: String,
}

impl Place {
    pub fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Place { folder: tempfile::tempdir().unwrap(), id }
    }

    pub fn pod_folder(&self) -> PathBuf {
        self.folder.path().join("pod")
    }

    pub fn log(&self, id: &str) -> PathBuf {
        self.folder.path().join(format!("{id}.log"))
    }

    pub fn sandbox(&self) -> Sandbox {
        let cgroup = Some(Path::new("volley-test").join(&self.id));
        Sandbox { cgroup, ..Sandbox::new(&self.id, Mode::Root) }
    }

    pub fn layers(&self, id: &str) -> Root {
        Root::Layers { lower: vec![busybox().into()], scratch: self.pod_folder().join("scratch").join(id) }
    }

    pub fn container(&self, id: &str, script: &str) -> Container {
        let process = Process::new(["/bin/sh", "-c", script]);
        let log = LogFile { path: self.log(id), bytes_max: 10 << 20, files_max: 2 };
        Container { log: Some(log), ..Container::new(id, self.layers(id), process) }
    }

    pub async fn pod(&self) -> Pod {
        self.pod_with(self.sandbox()).await
    }

    pub async fn pod_with(&self, sandbox: Sandbox) -> Pod {
        Pod::start(&launcher(), &self.pod_folder(), &sandbox).await.expect("the pod starts")
    }

    /// What the container printed, without the times.
    pub fn printed(&self, id: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.log(id)).unwrap_or_default();
        text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Place {
    /// A test that fails leaves its pod; it ends with the shim.
    fn drop(&mut self) {
        let records = std::fs::read_to_string(self.pod_folder().join("state.log")).unwrap_or_default();
        let shim = records.split_once("\"pid\":").and_then(|(_, rest)| rest.split(',').next());
        if let Some(pid) = shim.filter(|_| std::thread::panicking()) {
            let _gone_already = Command::new("kill").args(["-9", pid]).status();
        }
    }
}

/// Runs one script in a pod of its own; how it ended and what it printed.
pub async fn run(script: &str) -> (Exit, Vec<String>) {
    run_with(script, |_, _| {}).await
}

pub async fn run_with(script: &str, change: impl FnOnce(&mut Container, &Place)) -> (Exit, Vec<String>) {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", script);
    change(&mut container, &place);
    let outcome = run_in(&pod, container).await;
    let printed = place.printed("main");
    pod.remove().await.expect("the pod is removed");
    (outcome, printed)
}

pub async fn run_in(pod: &Pod, container: Container) -> Exit {
    let id = container.id.clone();
    pod.start_container(container).await.expect("the container starts");
    pod.wait(&id).await.expect("the container ends")
}

/// Runs a process beside the container's and collects its output.
pub async fn exec_output(pod: &Pod, container: &str, script: &str) -> (Exit, String) {
    let (read, write) = std::io::pipe().unwrap();
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let streams = Streams { stdin: null(), stdout: write.try_clone().unwrap().into(), stderr: write.into() };
    let exec = Exec { args: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(), ..Exec::default() };
    let mut process: Executed = pod.exec(container, exec, Some(streams)).await.expect("the process starts");
    let reading = tokio::task::spawn_blocking(move || std::io::read_to_string(read).unwrap());
    let exit = process.wait().await.unwrap();
    (exit, reading.await.unwrap())
}

/// Waits until the log has a line, so that no test guesses how long a start takes.
pub async fn until_printed(place: &Place, id: &str, wanted: &str) {
    until(|| place.printed(id).iter().any(|line| line.contains(wanted))).await;
}

pub async fn until(is_so: impl Fn() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < patience, "waited a minute in vain");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
