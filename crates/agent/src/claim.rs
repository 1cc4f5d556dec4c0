//! What this machine holds of attempts that run on it: a folder each, made before the item is acknowledged and removed
//! when its end was told.
//!
//! It stands for the finalizer that workloads in a cluster have: an acknowledged item without a folder was begun on another
//! machine, and one whose folder says that it was begun is never begun again. Agents of one home share the folders.

use crate::attempt::Attempt;
use crate::runner::{Done, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use volley_plan::agent::life::Standing;

/// Why it is taken away.
pub const VERDICT: &str = "verdict";
/// It is being ended, since when.
pub const STOPPING: &str = "stopping";
/// Whoever finds it begins nothing.
pub const BEGUN: &str = "begun";

/// The name of all folders together.
const SITE: &str = "site";

/// All folders.
#[derive(Debug, Clone)]
pub struct Claims {
    folder: PathBuf,
}

impl Claims {
    pub fn new(folder: &Path) -> io::Result<Claims> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Claims { folder: folder.to_owned() })
    }

    /// By which this machine's folders are known to be the same ones; made up once.
    pub fn site(&self) -> io::Result<String> {
        let here = Claim::at(&self.folder);
        here.write_first(SITE, &fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim())?;
        here.read(SITE).ok_or_else(|| io::Error::other("the name of the folder of launches cannot be read"))
    }

    pub fn of(&self, attempt: &Attempt) -> Claim {
        self.claim(&attempt.key, attempt.item.attempt)
    }

    /// Refuses what was begun on another machine: its processes cannot be seen from here, and it must not run twice.
    pub fn check(&self, attempt: &Attempt) -> Done {
        let item = &attempt.item;
        if item.standing != Standing::Claimed || !item.is_mine || self.of(attempt).is_made() {
            return Ok(());
        }
        let what = "the agent that had it is gone, and what it began on its own machine cannot be seen from here";
        Err(Failure::Refused(format!("{what}; hint: launch it again once nothing of it runs there any more")))
    }

    fn claim(&self, key: &str, attempt: u32) -> Claim {
        Claim { path: self.folder.join(format!("{key}-{attempt}")), key: key.to_owned(), attempt }
    }

    pub fn all(&self) -> Vec<Claim> {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let claim = |name: String| {
            let (key, attempt) = name.rsplit_once('-')?;
            Some(self.claim(key, attempt.parse().ok()?))
        };
        names.filter_map(|entry| claim(entry.file_name().into_string().ok()?)).collect()
    }

    /// Those of earlier attempts.
    pub fn older(&self, attempt: &Attempt) -> Vec<Claim> {
        let is_older = |claim: &Claim| claim.key == attempt.key && claim.attempt < attempt.item.attempt;
        self.all().into_iter().filter(is_older).collect()
    }

    pub fn has(&self, key: &str) -> bool {
        self.all().iter().any(|claim| claim.key == key)
    }
}

/// One folder.
#[derive(Debug, Clone)]
pub struct Claim {
    pub path: PathBuf,
    pub key: String,
    pub attempt: u32,
}

impl Claim {
    /// A folder that somebody else has made.
    pub fn at(path: &Path) -> Claim {
        Claim { path: path.to_owned(), key: String::new(), attempt: 0 }
    }

    pub fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    pub fn is_made(&self) -> bool {
        self.path.is_dir()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.path.join(name)).ok()?).ok()
    }

    /// All of it or nothing.
    pub fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let new = self.path.join(format!("{name}.new"));
        fs::write(&new, serde_json::to_vec(value).map_err(io::Error::other)?)?;
        fs::rename(new, self.path.join(name))
    }

    /// Writes it unless it is there, which it says.
    pub fn write_first<T: Serialize>(&self, name: &str, value: &T) -> io::Result<bool> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path.join(name));
        match file {
            Ok(mut file) => {
                file.write_all(&serde_json::to_vec(value).map_err(io::Error::other)?)?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_made_once_and_folders_are_found_by_their_item() {
        let root = tempfile::tempdir().unwrap();
        let claims = Claims::new(&root.path().join("work")).unwrap();
        let claim = claims.claim("k1", 2);
        assert!(!claim.is_made() && !claims.has("k1"));
        claim.make().unwrap();
        claim.make().unwrap();
        assert!(claim.write_first(BEGUN, &1).unwrap());
        assert!(!claim.write_first(BEGUN, &2).unwrap());
        assert_eq!(claim.read::<i64>(BEGUN), Some(1));
        assert!(claims.has("k1") && !claims.has("k"));
        claim.write(VERDICT, &"late").unwrap();
        assert_eq!(claim.read::<String>(VERDICT).as_deref(), Some("late"));
        claim.remove().unwrap();
        claim.remove().unwrap();
        assert!(claims.all().is_empty());
    }

    #[test]
    fn folders_keep_the_name_that_they_were_given_first() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (Claims::new(&root.path().join("a")).unwrap(), Claims::new(&root.path().join("b")).unwrap());
        let name = a.site().unwrap();
        assert_eq!(Claims::new(&root.path().join("a")).unwrap().site().unwrap(), name);
        assert_ne!(b.site().unwrap(), name);
        assert!(a.all().is_empty());
    }
}
