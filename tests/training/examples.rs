//! One folder of `examples/` on a volley of its own: its files, its README, and waiting for what its pods print.
//!
//! Three processes that load torch need seconds on an idle machine and a minute on a busy one, so waiting is patient here.

use crate::command::finish;
use crate::installed::newest;
use crate::world::World;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A volley with the operator, where every image is the machine's own environment.
pub fn world() -> World {
    let script = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    let has_torch = Command::new("/usr/bin/python3").args(["-c", script]).status().is_ok_and(|status| status.success());
    assert!(has_torch, "/usr/bin/python3 has no torch, which the examples train with; run `make setup` first");
    World::start_parts("cluster,operator", &["--image-map", "*=host"])
}

pub struct Example<'a> {
    world: &'a World,
    folder: &'static str,
    namespace: &'static str,
}

impl<'a> Example<'a> {
    pub fn new(world: &'a World, folder: &'static str, namespace: &'static str) -> Example<'a> {
        Example { world, folder, namespace }
    }

    fn path(&self, file: &str) -> String {
        repository().join("examples").join(self.folder).join(file).display().to_string()
    }

    #[track_caller]
    fn kubectl(&self, args: &[&str]) -> String {
        self.world.kubectl(&[&["-n", self.namespace], args].concat())
    }

    #[track_caller]
    pub fn config_map(&self, name: &str, files: &[&str]) {
        let sources: Vec<String> = files.iter().map(|file| format!("--from-file={}", self.path(file))).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        self.kubectl(&[&["create", "configmap", name], sources.as_slice()].concat());
    }

    /// The only object of a file.
    pub fn object(&self, file: &str) -> Value {
        serde_saphyr::from_str(&std::fs::read_to_string(self.path(file)).unwrap()).unwrap()
    }

    #[track_caller]
    pub fn apply(&self, object: &Value) {
        self.world.apply(&object.to_string());
    }

    #[track_caller]
    pub fn apply_file(&self, file: &str) {
        self.kubectl(&["apply", "-f", &self.path(file)]);
    }

    /// An object, or null when there is none.
    pub fn get(&self, name: &str) -> Value {
        let output = self.world.run(&["-n", self.namespace, "get", name, "-o", "json"]);
        serde_json::from_str(&output.stdout).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait(&self, condition: &str, name: &str) {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        let output = self.world.run(&["-n", self.namespace, "wait", &format!("--for={condition}"), name, &timeout]);
        assert_eq!(output.code, 0, "{}\n{:#}\n{}", output.stderr, self.get(name)["status"], self.pods_in_words());
    }

    /// Asks until the answer is there, and says how the pods are when it does not come.
    #[track_caller]
    fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask() {
                Ok(answer) => return answer,
                Err(last) => {
                    assert!(Instant::now() < deadline, "{what}: in vain: {last}\n{}", self.pods_in_words());
                }
            }
            std::thread::park_timeout(POLL);
        }
    }

    #[track_caller]
    pub fn until_log(&self, pod: &str, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        self.until(&format!("{pod}: {what}"), || {
            let log = self.log(pod);
            if is_so(&log) { Ok(log) } else { Err(log) }
        })
    }

    /// What a pod has printed once it has printed the text, up to the end of that line.
    #[track_caller]
    pub fn until_logged(&self, pod: &str, text: &str) -> String {
        self.until_log(pod, text, |log| {
            log.split_inclusive('\n').any(|line| line.contains(text) && line.ends_with('\n'))
        })
    }

    #[track_caller]
    pub fn until_pod(&self, pod: &str, phase: &str) {
        self.until(&format!("{pod} is {phase}"), || {
            let seen = self.get(&format!("pod/{pod}"));
            if phase_of_pod(&seen) == phase { Ok(()) } else { Err(seen["status"].to_string()) }
        });
    }

    /// Waits until these are all the pods of the namespace.
    #[track_caller]
    pub fn until_pods(&self, names: &[&str]) {
        self.until(&format!("the pods are {names:?}"), || {
            let listed = self.kubectl(&["get", "pods", "-o", "name"]);
            let found: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("pod/")).collect();
            if found == names { Ok(()) } else { Err(listed) }
        });
    }

    fn log(&self, pod: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/log", self.namespace);
        let answer = self.world.ask("GET", &path, None).ok();
        answer.filter(|answer| answer.code == 200).map(|answer| answer.text()).unwrap_or_default()
    }

    fn pods_in_words(&self) -> String {
        self.world.run(&["-n", self.namespace, "describe", "pods"]).stdout
    }

    /// Where the README's commands leave what they make.
    pub fn scratch(&self) -> PathBuf {
        self.world.folder.path().join("examples")
    }

    /// Runs the README's blocks marked `sh run` as a reader would, beside copies of all examples; what they print.
    #[track_caller]
    pub fn readme(&self) -> String {
        let text = std::fs::read_to_string(self.path("README.md")).unwrap();
        let mut script = String::from("set -euxo pipefail\n");
        let mut is_inside = false;
        for line in text.lines() {
            match line {
                "```sh run" => is_inside = true,
                "```" => is_inside = false,
                _ if is_inside => script.extend([line, "\n"]),
                _ => {}
            }
        }
        let bin = self.world.folder.path().join("bin");
        if !bin.exists() {
            std::fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(&newest().path, bin.join("kubectl")).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_volley"), bin.join("volley")).unwrap();
            let copied = Command::new("cp").arg("-r").arg(repository().join("examples")).arg(self.scratch()).status();
            assert!(copied.unwrap().success());
        }
        let mut command = Command::new("bash");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.args(["-c", &script]).current_dir(self.scratch()).env("PATH", path);
        command.env("VOLLEY_HOME", &self.world.home).env("KUBECONFIG", self.world.home.join("kubeconfig"));
        let output = finish(command, "");
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, 0, "{}: {printed}\n{}\n{}", self.folder, self.pods_in_words(), self.world.log());
        printed
    }
}

pub fn phase_of_pod(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

/// The word that `kubectl get` prints for a job: a Volcano Job's phase, a training job's last condition.
pub fn state_of(job: &Value) -> &str {
    let phase = job["status"]["state"]["phase"].as_str();
    let last = || job["status"]["conditions"].as_array()?.last()?["type"].as_str();
    phase.or_else(last).unwrap_or_default()
}
