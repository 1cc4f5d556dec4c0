//! Code that a launch runs: fetched from git or from the server's artifacts into a folder of this machine, or by the verb
//! `volley fetch` into a pod's.

mod artifact;
mod git;

use crate::runner::{Done, Failure};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use volley_client::Client;
use volley_plan::launch::code;
use volley_plan::launch::order::CodeSource;

pub use volley_plan::launch::code::FETCH_VERB as VERB;

/// Fetches it once: a folder that is there has all of it.
pub async fn fetch(client: &Client, source: &CodeSource, folder: &Path) -> Done {
    if folder.exists() {
        return Ok(());
    }
    let new = folder.with_extension("new");
    match tokio::fs::remove_dir_all(&new).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => (),
    }
    fill(client, source, &new).await?;
    Ok(tokio::fs::rename(&new, folder).await?)
}

async fn fill(client: &Client, source: &CodeSource, folder: &Path) -> Done {
    code::check(source).map_err(|refusal| Failure::Refused(refusal.to_string()))?;
    tokio::fs::create_dir_all(folder).await?;
    match source {
        CodeSource::Artifact { id, .. } => artifact::fetch(client, id, folder).await,
        CodeSource::Repository { remote, commit } => git::fetch(remote, commit, folder).await,
        // Refused above.
        CodeSource::Other(_) => Ok(()),
    }
}

/// `volley fetch FOLDER artifact ID`, `volley fetch FOLDER git REMOTE COMMIT`: into a folder that is there, for anybody to
/// change. The server and the key are in the variables that workloads have.
pub async fn main(words: Vec<String>) -> Result<(), String> {
    let (folder, source) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder, "artifact", id] => (folder, CodeSource::Artifact { id: id.to_owned(), reference: None }),
        [folder, "git", remote, commit] => {
            (folder, CodeSource::Repository { remote: remote.to_owned(), commit: commit.to_owned() })
        }
        _ => return Err("expected FOLDER artifact ID, or FOLDER git REMOTE COMMIT".to_owned()),
    };
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let client = Client::new(&variable("WANDB_BASE_URL")?, &variable("WANDB_API_KEY")?);
    let folder = PathBuf::from(folder);
    let told = |error: &dyn std::error::Error| match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    let client = client.map_err(|error| told(&error))?;
    fill(&client, &source, &folder).await.map_err(|error| told(&error))?;
    open_up(&folder).map_err(|error| error.to_string())
}

/// Whoever the launch runs as may change its code.
pub fn open_up(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            continue;
        }
        let mut mode = entry.metadata()?.permissions();
        let is_run = kind.is_dir() || mode.mode() & 0o111 != 0;
        mode.set_mode(if is_run { 0o777 } else { 0o666 });
        std::fs::set_permissions(entry.path(), mode)?;
        if kind.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
