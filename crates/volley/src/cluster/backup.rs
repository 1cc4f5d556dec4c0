//! `volley cluster backup` and `restore`: the store as one file.
//!
//! A running process has the store to itself, so it writes the backup; without one the store is opened here.

use crate::control::{self, Answer, Ask, Saved};
use crate::home::Home;
use crate::output::{Output, Show};
use crate::status;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volley_cluster::store::{self, Store};

const BACKUP_EXAMPLES: &str = "\
Examples:
  volley cluster backup before.volley
  volley cluster backup \"$(date +%F).volley\" -o json

The cluster may run meanwhile: the backup holds one moment of it. It holds secrets, so keep it safe. The keys of the
cluster (below the home, in `pki`) and the data in volumes are not part of it.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  volley down
  mv ~/.volley/cluster ~/.volley/cluster.old
  volley cluster restore before.volley
  volley up

A store that is there is never overwritten.";

/// Write everything that the cluster stores to a new file
#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct Backup {
    /// The file to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Start a cluster's store from a backup
#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct Restore {
    /// The file that `volley cluster backup` wrote
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

impl Backup {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        // The running process works in another folder.
        let file = std::path::absolute(&self.file)?;
        let saved = match control::ask(home, &Ask::Backup(file.clone()))? {
            Some(Answer::Saved(saved)) => saved,
            Some(other) => bail!("the running process answered `{other:?}` to a request for a backup"),
            None => backup_at_rest(home, &file)?,
        };
        self.output.print(&saved)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn backup_at_rest(home: &Home, file: &Path) -> Result<Saved> {
    let folder = home.store();
    if !Store::<()>::log_path(&folder).exists() {
        bail!(
            "there is no cluster in `{}`\nhint: `volley up` makes one; --home names another folder",
            home.folder().display()
        );
    }
    let store = Store::open(&folder, store::Options::default(), |_, _, _| ()).context("failed to open the store")?;
    let verified = store.backup(file).context("failed to write the backup")?;
    Ok(saved(file, &verified))
}

impl Restore {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        if status::of(home)?.is_some() {
            bail!("volley runs in `{}`\nhint: stop it with `volley down` first", home.folder().display());
        }
        home.create()?;
        let verified = store::restore(&self.file, &home.store()).context("failed to restore the backup")?;
        self.output.print(&saved(&self.file, &verified))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn saved(file: &Path, verified: &store::Verified) -> Saved {
    let (revision, objects, bytes) = (verified.revision, verified.objects, verified.bytes);
    Saved { file: file.to_owned(), revision, objects, bytes }
}

impl Show for Saved {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        let cells = [self.objects.to_string(), self.revision.to_string(), self.bytes.to_string()];
        let headings = ["OBJECTS", "REVISION", "BYTES", "FILE"].map(str::to_owned);
        vec![headings.to_vec(), [cells.to_vec(), self.names()].concat()]
    }

    fn names(&self) -> Vec<String> {
        vec![self.file.display().to_string()]
    }
}
