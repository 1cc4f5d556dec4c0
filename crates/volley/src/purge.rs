//! `volley down --purge`: removes the home, and only the home.
//!
//! A folder that somebody named by mistake must survive: everything at its top has to be ours, nothing may be mounted
//! below it, and links are removed rather than followed.

use crate::home::Home;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use volley_cluster::images::tree::remove_tree;

/// What volley makes at the top of its home, beside the files `volley.*`.
const OURS: [&str; 11] = [
    "agent", "cluster", "config.yaml", "image-maps", "images", "kubeconfig", "login.json", "node", "pki", "server",
    "volumes",
];
/// Whatever was ever done in a home, it left one of these.
const MARKS: [&str; 3] = ["volley.lock", "volley.turn", "volley.images"];

/// Refuses what is not a home of volley, before anything is stopped.
pub fn check(home: &Home) -> Result<()> {
    let folder = home.folder();
    let found = folder.symlink_metadata().with_context(|| format!("failed to look at `{}`", folder.display()))?;
    if found.is_symlink() {
        let target = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        bail!("`{}` is a link\nhint: to remove what it names, give --home {}", folder.display(), target.display());
    }
    let (mut is_home, mut foreign) = (false, Vec::new());
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read `{}`", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        is_home |= MARKS.contains(&name.as_str());
        if !name.starts_with("volley.") && !OURS.contains(&name.as_str()) {
            foreign.push(name);
        }
    }
    if !is_home {
        bail!("`{}` is not a home of volley, so it is left alone\nhint: --home names the folder", folder.display());
    }
    if !foreign.is_empty() {
        foreign.sort();
        bail!(
            "`{}` holds what is not volley's: {}\nhint: move it elsewhere first",
            folder.display(),
            foreign.join(", ")
        );
    }
    Ok(())
}

/// Asks on a terminal; elsewhere the option is the answer.
pub fn is_wanted(home: &Home) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(true);
    }
    eprint!("remove `{}` with all its images, volumes and keys? [y/N] ", home.folder().display());
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Removes a home that nobody runs in.
pub fn remove(home: &Home) -> Result<()> {
    let folder = home.folder();
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    // Who would start meanwhile waits, and then finds an empty place.
    let _turn = home.turn()?;
    let Some(_claim) = home.claim()? else {
        bail!("another volley runs in `{}` by now\nhint: `volley down --purge` again", folder.display());
    };
    let mounted = mounted_below(folder)?;
    if let Some(first) = mounted.first() {
        bail!(
            "`{}` is still mounted, so nothing was removed\nhint: `umount {}`, then `volley down --purge` again",
            first.display(),
            first.display()
        );
    }
    remove_tree(folder).with_context(|| {
        format!(
            "failed to remove `{}`\nhint: files that pods wrote as other users need their rights, or root's",
            folder.display()
        )
    })?;
    eprintln!("removed `{}`", folder.display());
    Ok(())
}

/// Mount points below a folder: what is behind them is somebody else's.
fn mounted_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = fs::canonicalize(folder)?;
    let text = fs::read_to_string("/proc/self/mountinfo").context("failed to read the mounts")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(|point| PathBuf::from(unescaped(point)));
    Ok(points.filter(|point| point.starts_with(&folder) && *point != folder).collect())
}

/// The kernel writes blanks and the like as `\040`.
fn unescaped(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&piece[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(piece);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &tempfile::TempDir) -> Home {
        Home::find(Some(&folder.path().join("home"))).unwrap()
    }

    #[test]
    fn a_home_goes_as_a_whole_and_what_its_links_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        drop(home.claim().unwrap());
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        fs::create_dir_all(home.folder().join("volumes/claim")).unwrap();
        std::os::unix::fs::symlink(&outside, home.folder().join("volumes/claim/link")).unwrap();
        std::os::unix::fs::symlink(&outside, home.folder().join("images")).unwrap();
        check(&home).unwrap();
        remove(&home).unwrap();
        assert!(!home.folder().exists());
        assert!(outside.join("precious").exists());
        // Again: nothing is there, which is what was wanted.
        remove(&home).unwrap();
    }

    #[test]
    fn what_is_not_a_home_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        fs::create_dir(home.folder()).unwrap();
        assert!(check(&home).unwrap_err().to_string().contains("is not a home of volley"));
        fs::write(home.folder().join("kubeconfig"), "").unwrap();
        assert!(check(&home).unwrap_err().to_string().contains("is not a home of volley"));
    }

    #[test]
    fn a_home_with_somebody_elses_files_is_refused_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        drop(home.claim().unwrap());
        fs::write(home.folder().join("thesis.tex"), "").unwrap();
        assert!(check(&home).unwrap_err().to_string().contains("not volley's: thesis.tex\nhint:"));
    }

    #[test]
    fn a_link_to_a_home_is_not_the_home() {
        let folder = tempfile::tempdir().unwrap();
        let real = home(&folder);
        drop(real.claim().unwrap());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(real.folder(), &link).unwrap();
        assert!(check(&Home::find(Some(&link)).unwrap()).unwrap_err().to_string().contains("is a link\nhint:"));
    }

    #[test]
    fn a_running_home_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let _claim = home.claim().unwrap();
        assert!(remove(&home).unwrap_err().to_string().contains("another volley runs in"));
        assert!(home.folder().exists());
    }

    #[test]
    fn mount_points_are_read_as_the_kernel_writes_them() {
        assert_eq!(unescaped(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescaped(r"/plain"), "/plain");
    }
}
