//! A copy of everything in a folder, taken while the server runs, and a server made from such a copy.
//!
//! The database is copied as of one moment, the bytes after it. Bytes are stored before the database speaks of them, so
//! whatever the copy of the database names is there, unless it was deleted while the copy was taken.

use crate::Settings;
use crate::blobs;
use crate::database::{self, Database};
use std::path::{Path, PathBuf};

const DATABASE: &str = "volley.db";
const BLOBS: &str = "blobs";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` is not an empty folder; hint: name one that does not exist yet", at.display())]
    Taken { at: PathBuf },
    #[error("failed to prepare `{}`", at.display())]
    Folder { at: PathBuf, source: std::io::Error },
    #[error("there is no database at `{}`; hint: --home or --database says where the server keeps it", at.display())]
    NoDatabase { at: PathBuf },
    #[error("there is no backup in `{}`: `{DATABASE}` is missing", at.display())]
    NoBackup { at: PathBuf },
    #[error(
        "the database is PostgreSQL, which has its own backups; hint: take it with pg_dump first, then the files with --only-files"
    )]
    Postgres,
    #[error("`{}` exists; hint: restore into a new home, or move it away", at.display())]
    Exists { at: PathBuf },
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Blobs(#[from] blobs::Error),
}

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    All,
    /// For a database that has its own backups.
    Files,
}

/// Copies the server of these settings into a new folder; gives how many files that users stored were copied.
pub async fn backup(settings: &Settings, part: Part, to: &Path) -> Result<u64, Error> {
    claim(to)?;
    if part == Part::All {
        let from = sqlite(settings)?;
        if !from.is_file() {
            return Err(Error::NoDatabase { at: from });
        }
        let copy = to.join(DATABASE);
        database::copy(&from, &copy).await?;
        sync(&copy)?;
    }
    Ok(blobs::copy(&settings.blobs_place(), &place(&to.join(BLOBS)), &settings.aws).await?)
}

/// Makes a server of these settings from a copy. Nothing that exists is touched.
pub async fn restore(settings: &Settings, part: Part, from: &Path) -> Result<u64, Error> {
    if part == Part::All {
        let (copy, to) = (from.join(DATABASE), sqlite(settings)?);
        if !copy.is_file() {
            return Err(Error::NoBackup { at: from.to_owned() });
        }
        if to.exists() {
            return Err(Error::Exists { at: to });
        }
        let failed = |source| Error::Folder { at: settings.folder.clone(), source };
        std::fs::create_dir_all(&settings.folder).map_err(failed)?;
        // Under another name until it is whole, so that a restore that broke off is not taken for a server.
        let partial = to.with_extension("partial");
        let _ = std::fs::remove_file(&partial);
        database::copy(&copy, &partial).await?;
        // Opening it brings an older copy up to date, and refuses a newer one.
        Database::open(&place(&partial)).await?.close().await;
        sync(&partial)?;
        let _ = std::fs::remove_file(to.with_extension("partial.lock"));
        std::fs::rename(&partial, &to).map_err(failed)?;
        sync(&settings.folder)?;
    }
    Ok(blobs::copy(&place(&from.join(BLOBS)), &settings.blobs_place(), &settings.aws).await?)
}

fn claim(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Folder { at: folder.to_owned(), source })?;
    let mut inside = std::fs::read_dir(folder).map_err(|source| Error::Folder { at: folder.to_owned(), source })?;
    if inside.next().is_some() {
        return Err(Error::Taken { at: folder.to_owned() });
    }
    Ok(())
}

fn sqlite(settings: &Settings) -> Result<PathBuf, Error> {
    let url = settings.database_url();
    if database::is_postgres(&url) { Err(Error::Postgres) } else { Ok(PathBuf::from(url)) }
}

fn sync(path: &Path) -> Result<(), Error> {
    let synced = std::fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| Error::Folder { at: path.to_owned(), source })
}

fn place(path: &Path) -> String {
    path.display().to_string()
}
