//! The verbs that speak to a cluster (`vcjob`, `vcqueue`, `logs`, `why`, `simulate`), as a user types them: the real program against a real
//! volley in a home of its own, with kubectl as the other hand.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

#[path = "../../../../tests/kubectl/command.rs"]
mod command;
mod target;
mod vcjob;
mod vcqueue;
mod logs;
mod follow;
mod jobs;
mod pretend;
mod why;
mod gangs;
mod simulate;

use command::{Output, eventually, finish};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A volley that is stopped and removed with the test, whether it passed or not.
struct World {
    folder: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        finish(self.command(&["down"]), "");
    }
}

impl World {
    /// A home in which nothing runs.
    fn empty() -> World {
        World { folder: tempfile::tempdir_in("/var/tmp").unwrap() }
    }

    /// The cluster alone: nobody works on its training jobs.
    fn start(flags: &[&str]) -> World {
        let world = World::empty();
        world.up(&[&["--only", "cluster", "--listen", "127.0.0.1:0"], flags].concat());
        world
    }

    /// All parts.
    fn start_all() -> World {
        let world = World::empty();
        world.up(&["--listen", "127.0.0.1:0"]);
        world
    }

    fn up(&self, flags: &[&str]) {
        let output = finish(self.command(&[&["up"], flags].concat()), "");
        assert_eq!(output.code, 0, "{}", output.stderr);
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.args(arguments).env("VOLLEY_HOME", self.home()).env("HOME", self.folder.path());
        command.env_remove("RUST_LOG").env_remove("KUBECONFIG").env_remove("NO_COLOR");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments), "")
    }

    /// What a successful command prints.
    #[track_caller]
    fn volley(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 0, "volley {arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// What a command that fails says.
    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 1, "volley {arguments:?}: {}{}", output.stdout, output.stderr);
        output.stderr
    }

    #[track_caller]
    fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", self.home().join("kubeconfig")).env("HOME", self.folder.path());
        let output = finish(command, input);
        assert_eq!(output.code, 0, "kubectl {arguments:?}: {}", output.stderr);
        output.stdout
    }

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "")
    }

    #[track_caller]
    fn apply(&self, object: &Value) {
        self.kubectl_with(&["apply", "-f", "-"], &object.to_string());
    }

    #[track_caller]
    fn get(&self, what: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[&["get", "-o", "json"], what].concat())).unwrap()
    }

    #[track_caller]
    fn until(&self, what: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("what is waited for of {what:?}"), || Some(self.get(what)).filter(|object| is_so(object)))
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// A pod that runs a shell's words on this machine's own files.
fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": pod_spec(script),
    })
}

fn pod_spec(script: &str) -> Value {
    json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "host", "command": ["sh", "-c", script]}],
    })
}

/// A Volcano job of one worker task.
fn job(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "schedulerName": "volcano", "queue": "default", "tasks": [
            {"name": "worker", "replicas": replicas, "template": {"spec": pod_spec("true")}}]},
    })
}
