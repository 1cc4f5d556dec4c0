//! Kubeflow's Python SDK against a whole volley; the script beside this file is the list of steps.

use crate::command::finish;
use crate::examples::{repository, world};
use std::process::Command;

// PT-SDK-1 PT-SDK-2 PT-SDK-3 PT-SDK-4 PT-SDK-5
#[test]
fn the_training_client_creates_waits_reads_changes_and_deletes() {
    let python = repository().join(".cache/venv-training/bin/python");
    assert!(python.exists(), "the training SDK is not installed in .cache/venv-training; run `make setup` first");
    let world = world();
    let mut command = Command::new(python);
    command.arg(repository().join("tests/training/sdk.py")).env("KUBECONFIG", world.home.join("kubeconfig"));
    // A proxy of the surroundings must not be asked for addresses of this machine.
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let output = finish(command, "");
    assert_eq!(output.code, 0, "{}{}\n{}", output.stdout, output.stderr, world.log());
}
