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
    Named(Named),
}

pub struct Named {
    kubeconfig: PathBuf,
    namespace: String,
    operator: Option<Operator>,
    folder: TempDir,
    _turn: File,
}

impl Site {
    pub fn find() -> Site {
        match std::env::var_os("VOLLEY_TEST_KUBECONFIG") {
            Some(kubeconfig) => Site::Named(Named::find(kubeconfig.into())),
            None => Site::Own(World::start_parts("cluster,operator", &[])),
        }
    }

    /// What pods are made from.
    pub fn image(&self) -> String {
        match self {
            Site::Own(_) => "host".to_owned(),
            Site::Named(_) => std::env::var("VOLLEY_TEST_IMAGE").unwrap_or_else(|_| IMAGE.to_owned()),
        }
    }

    /// The operator dies, with all of volley where the cluster is its own, and comes back.
    pub fn die_and_return(&mut self) {
        match self {
            Site::Own(world) => {
                world.kill();
                world.up();
            }
            Site::Named(named) => {
                // One dies before the next begins.
                named.operator = None;
                named.operator = Some(named.start_operator());
            }
        }
    }

    pub fn run(&self, args: &[&str], input: &str) -> Output {
        match self {
            Site::Own(world) => finish(world.kubectl_with(newest(), args), input),
            Site::Named(named) => named.run(args, input),
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
    fn find(kubeconfig: PathBuf) -> Named {
        let turn = File::create(std::env::temp_dir().join("volley-test-cluster.lock")).unwrap();
        turn.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let namespace = format!("volley-test-{}", uuid::Uuid::new_v4().simple());
        let mut named = Named { kubeconfig, namespace, operator: None, folder, _turn: turn };
        for part in ["crds", "rbac"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
            command.args(["operator", "manifests", "--only", part]);
            let manifests = finish(command, "").stdout;
            let output = named.run(&["apply", "-f", "-"], &manifests);
            assert_eq!(output.code, 0, "{}", output.stderr);
        }
        let output = named.run(&["create", "namespace", &named.namespace], "");
        assert_eq!(output.code, 0, "{}", output.stderr);
        named.operator = Some(named.start_operator());
        named
    }

    fn start_operator(&self) -> Operator {
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
