//! Where jobs run with real pods: a volley of the test's own, or the cluster that `VOLLEY_TEST_KUBECONFIG` leads to.
//!
//! On a named cluster the operator runs beside the test, pods are made from `VOLLEY_TEST_IMAGE`, and tests take turns, by a
//! lock on a file: an operator looks after a whole cluster.

use crate::command::{Output, eventually, finish};
use crate::installed::newest;
use crate::operator::Operator;
use crate::world::World;
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Small, and has the Python that the tests' pods run.
const IMAGE: &str = "python:3-alpine";

pub enum Site {
    Own(World),
    Named { named: Named, operator: Option<Operator>, _turn: Turn },
}

/// A namespace of its own on the named cluster, which has the definitions of training jobs.
pub struct Named {
    pub kubeconfig: PathBuf,
    pub namespace: String,
    folder: TempDir,
}

/// While it lives, no other test uses the named cluster.
pub struct Turn(#[expect(dead_code, reason = "the lock goes with it")] File);

impl Turn {
    pub fn take() -> Turn {
        let file = File::create(std::env::temp_dir().join("volley-test-cluster.lock")).unwrap();
        file.lock().unwrap();
        Turn(file)
    }
}

/// The kubeconfig of the named cluster, if there is one.
pub fn named() -> Option<PathBuf> {
    std::env::var_os("VOLLEY_TEST_KUBECONFIG").map(PathBuf::from)
}

impl Site {
    pub fn find() -> Site {
        let Some(kubeconfig) = named() else { return Site::Own(World::start_parts("cluster,operator", &[])) };
        let turn = Turn::take();
        let named = Named::new(kubeconfig);
        let operator = Some(named.start_operator());
        Site::Named { named, operator, _turn: turn }
    }

    /// What pods are made from.
    pub fn image(&self) -> String {
        match self {
            Site::Own(_) => "host".to_owned(),
            Site::Named { .. } => std::env::var("VOLLEY_TEST_IMAGE").unwrap_or_else(|_| IMAGE.to_owned()),
        }
    }

    /// The operator dies, with all of volley where the cluster is its own, and comes back.
    pub fn die_and_return(&mut self) {
        match self {
            Site::Own(world) => {
                world.kill();
                world.up();
            }
            Site::Named { named, operator, .. } => {
                // One dies before the next begins.
                *operator = None;
                *operator = Some(named.start_operator());
            }
        }
    }

    pub fn run(&self, args: &[&str], input: &str) -> Output {
        match self {
            Site::Own(world) => finish(world.kubectl_with(newest(), args), input),
            Site::Named { named, .. } => named.run(args, input),
        }
    }

    #[track_caller]
    pub fn kubectl(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        assert_eq!(output.code, 0, "kubectl {}: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stdout
    }

    #[track_caller]
    pub fn create(&self, object: &Value) {
        self.kubectl(&["create", "-f", "-"], &object.to_string());
    }

    /// Waits until an object is as it should be.
    #[track_caller]
    pub fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
        let object = || serde_json::from_str(&self.run(&["get", name, "-o", "json"], "").stdout).unwrap_or_default();
        eventually(what, || is_so(&object()).then_some(()));
    }
}

impl Named {
    pub fn new(kubeconfig: PathBuf) -> Named {
        let folder = tempfile::tempdir().unwrap();
        let namespace = format!("volley-test-{}", uuid::Uuid::new_v4().simple());
        let named = Named { kubeconfig, namespace, folder };
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.args(["operator", "manifests", "--only", "crds"]);
        let output = named.run(&["create", "-f", "-"], &finish(command, "").stdout);
        let is_there = |line: &str| line.contains("AlreadyExists");
        assert!(output.code == 0 || output.stderr.lines().all(is_there), "{}", output.stderr);
        let output = named.run(&["create", "namespace", &named.namespace], "");
        assert_eq!(output.code, 0, "{}", output.stderr);
        let has_account = || named.run(&["get", "serviceaccount", "default"], "").code == 0;
        eventually("the namespace has its account", || has_account().then_some(()));
        named
    }

    pub fn start_operator(&self) -> Operator {
        Operator::start(&self.kubeconfig, &self.folder.path().join("operator.log"))
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new(&newest().path);
        command.args(["--namespace", &self.namespace]).args(args).env("KUBECONFIG", &self.kubeconfig);
        finish(command, input)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("operator.log")).unwrap_or_default();
            eprintln!("the operator's log:\n{log}");
        }
        self.run(&["delete", "namespace", &self.namespace, "--wait=false"], "");
    }
}
