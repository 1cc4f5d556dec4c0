//! The Python clients: each script is a list of steps that assert what their author would take for granted.

use crate::support::Running;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a script beside this file with the cluster's kubeconfig.
async fn run(script: &str, running: &Running) {
    let python = root().join(".cache/venv/bin/python");
    assert!(python.exists(), "the Python clients are not installed in .cache/venv; run `make setup` first");
    let mut command = Command::new(python);
    command.arg(root().join("tests/clients").join(script)).env("KUBECONFIG", running.kubeconfig_file());
    // A proxy of the surroundings must not be asked for addresses of this machine.
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("not cancelled").expect("python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script} failed\n{}\n{}", text(&output.stdout), text(&output.stderr));
}

// K-WR-1 K-WR-2 K-PATCH-1 K-SMP-1 K-PATCH-2 K-DEL-5 K-OBJ-6
#[tokio::test(flavor = "multi_thread")]
async fn the_typed_python_client_creates_patches_and_deletes() {
    run("typed.py", &Running::start().await).await;
}

// K-CRD-7 K-PATCH-1 K-DISC-1
#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_and_the_dynamic_python_client_work() {
    run("custom.py", &Running::start().await).await;
}

// K-LIST-3 K-LIST-4 K-WATCH-1 K-WATCH-6
#[tokio::test(flavor = "multi_thread")]
async fn python_pages_and_watches_resume() {
    run("following.py", &Running::restarted().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_asyncio_python_client_works_at_once_and_beside_a_watch() {
    run("asynchronous.py", &Running::start().await).await;
}
