//! Code from git: one commit, by https or ssh and nothing else, also for what is below it.

use crate::runner::{Done, Failure};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Of one command; large repositories take minutes.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);
/// Hooks and other transports would run what nobody has asked for.
const SETTINGS: [&str; 10] = [
    "-c", "protocol.allow=never", "-c", "protocol.https.allow=always", "-c", "protocol.ssh.allow=always", "-c",
    "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false",
];

/// The remote and the commit were checked (`code::check`).
pub async fn fetch(remote: &str, commit: &str, folder: &Path) -> Done {
    git(folder, &["init", "-q", "."]).await?;
    // Some servers give a commit alone; of the others everything is asked for.
    let alone = git(folder, &["fetch", "-q", "--depth", "1", "--", remote, commit]).await;
    if alone.is_err() {
        git(folder, &["fetch", "-q", "--tags", "--", remote, "+refs/heads/*:refs/remotes/origin/*"]).await?;
    }
    git(folder, &["checkout", "-q", "--detach", commit]).await?;
    if folder.join(".gitmodules").exists() {
        git(folder, &["submodule", "update", "-q", "--init", "--recursive"]).await?;
    }
    Ok(())
}

async fn git(folder: &Path, words: &[&str]) -> Done {
    let mut command = Command::new("git");
    command.args(SETTINGS).args(words).current_dir(folder).kill_on_drop(true);
    // Nobody is there to be asked.
    command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    let output = match tokio::time::timeout(TIME_MAX, command.output()).await {
        Err(_) => return Err(Failure::Refused(format!("git {} took more than {TIME_MAX:?}", words[0]))),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(Failure::Refused("git is not on the agent's machine; hint: install it".to_owned()));
        }
        Ok(output) => output?,
    };
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Refused(format!("git {} failed: {}", words[0], told.trim())))
}
