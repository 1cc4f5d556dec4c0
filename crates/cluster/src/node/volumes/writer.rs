//! Writes a volume's files so that readers see all of them change at once, the way the kubelet lays them out.
//!
//! The files are in a folder with a time for a name; `..data` links to it and each visible name links into `..data`. A
//! change is a new folder and the rename of one link. Nothing is synced: after a crash the volume is written again.

use super::tree;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, fchown, symlink};
use std::path::Path;
use volley_plan::node::volumes::Ownership;

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";

#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub content: Vec<u8>,
    pub mode: u32,
    /// The file's owner, if not root.
    pub user: Option<u32>,
}

/// Brings the volume at `place` to these files, by paths inside it; says whether anything had to change.
pub fn write(place: &Path, files: &BTreeMap<String, Written>, group: Option<u32>) -> io::Result<bool> {
    let current = fs::read_link(place.join(DATA)).ok();
    if let Some(current) = &current
        && is_current(&place.join(current), files, group)
    {
        return Ok(false);
    }
    let name = Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.%9N").to_string();
    let folder = place.join(&name);
    make_folder(&folder, group)?;
    for (path, file) in files {
        write_file(&folder, path, file, group)?;
    }
    let next = place.join(DATA_NEXT);
    // One that is there was left by a process that was killed.
    fs::remove_file(&next).or_else(absent_is_fine)?;
    symlink(&name, &next)?;
    fs::rename(&next, place.join(DATA))?;
    let visible: BTreeSet<&str> = files.keys().map(|path| path.split('/').next().unwrap_or(path)).collect();
    for name in &visible {
        match symlink(Path::new(DATA).join(name), place.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    if current.is_some() {
        tidy(place, &name, &visible)?;
    }
    Ok(true)
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn make_folder(folder: &Path, group: Option<u32>) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    let Some(group) = group else { return fs::set_permissions(folder, Permissions::from_mode(0o755)) };
    chown(folder, None, Some(group))?;
    fs::set_permissions(folder, Permissions::from_mode(Ownership::shared_mode(0o755, true, true)))
}

fn write_file(folder: &Path, path: &str, file: &Written, group: Option<u32>) -> io::Result<()> {
    let mut place = folder.to_owned();
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        place.push(part);
        if parts.peek().is_some() {
            make_folder(&place, group)?;
        }
    }
    let mut opened = File::options().write(true).create(true).truncate(true).mode(0o600).open(&place)?;
    opened.write_all(&file.content)?;
    if file.user.is_some() || group.is_some() {
        fchown(&opened, file.user, group)?;
    }
    opened.set_permissions(Permissions::from_mode(mode_of(file, group)))
}

fn mode_of(file: &Written, group: Option<u32>) -> u32 {
    if group.is_some() { Ownership::shared_mode(file.mode, false, true) } else { file.mode }
}

fn is_current(folder: &Path, files: &BTreeMap<String, Written>, group: Option<u32>) -> bool {
    let is_same = |(path, file): (&String, &Written)| {
        let place = folder.join(path);
        let mode = fs::symlink_metadata(&place).map(|found| found.permissions().mode() & 0o7777);
        mode.is_ok_and(|mode| mode == mode_of(file, group)) && fs::read(&place).is_ok_and(|found| found == file.content)
    };
    files.iter().all(is_same) && count(folder).is_ok_and(|count| count == files.len())
}

/// How many files there are, in folders too.
fn count(folder: &Path) -> io::Result<usize> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        total += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(total)
}

/// Removes what earlier contents have left: their folders, and links to names that are no more.
fn tidy(place: &Path, current: &str, visible: &BTreeSet<&str>) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let (name, kind) = entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)))?;
        let name = name.to_string_lossy();
        let is_own = name == DATA || name == current || visible.contains(&*name);
        let path = place.join(&*name);
        if !is_own && kind.is_symlink() {
            fs::remove_file(path)?;
        } else if !is_own && name.starts_with("..") {
            tree::remove(&path)?;
        }
    }
    Ok(())
}
