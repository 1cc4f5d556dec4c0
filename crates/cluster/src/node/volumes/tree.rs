//! Walks over volumes that follow no link and enter no other file system, whatever a container puts in their way.
//!
//! Everything goes through open folders, so that a name that changes meanwhile cannot lead elsewhere.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use volley_plan::node::volumes::Ownership;

/// Each level holds a descriptor and a piece of the stack. What is deeper is brought up when it is removed, and left out
/// when it is counted or given away.
const DEPTH_MAX: usize = 200;

/// A pod that ends and the end of everything may remove the same tree at once. What the other was faster with is gone; each
/// round begins with a smaller tree, so far fewer are enough.
const ROUNDS_MAX: usize = 1000;

/// Removes a folder with all that it holds.
pub fn remove(folder: &Path) -> io::Result<()> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    for _ in 1..ROUNDS_MAX {
        match remove_once(folder) {
            Err(error) if is_gone(&error) => {}
            done => return done,
        }
    }
    remove_once(folder)
}

fn remove_once(folder: &Path) -> io::Result<()> {
    let opened = match open(rustix::fs::CWD, folder) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let device = rustix::fs::fstat(&opened)?.st_dev;
    // Each round brings up what lay too deep for the one before; all trees end.
    while !entries(&opened, 0)?.is_empty() {
        empty(&opened, &opened, device, 0)?;
    }
    Ok(rustix::fs::rmdir(folder)?)
}

fn empty(top: &OwnedFd, folder: &OwnedFd, device: u64, depth: usize) -> io::Result<()> {
    for (name, kind) in entries(folder, depth)? {
        if kind != FileType::Directory {
            rustix::fs::unlinkat(folder, &*name, AtFlags::empty())?;
            continue;
        }
        // A container may have taken away its own right to look inside; without privileges that binds us, too.
        let inner = open(folder, &*name).or_else(|error| {
            let is_denied = error == rustix::io::Errno::ACCESS;
            let status = rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
            if !is_denied || FileType::from_raw_mode(status.st_mode) != FileType::Directory {
                return Err(error);
            }
            rustix::fs::chmodat(folder, &*name, Mode::RWXU, AtFlags::empty())?;
            open(folder, &*name)
        })?;
        let status = rustix::fs::fstat(&inner)?;
        if status.st_dev != device {
            let text = format!("{} is a mount, which must go first", name.to_string_lossy());
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, text));
        }
        if status.st_mode & 0o700 != 0o700 {
            rustix::fs::fchmod(&inner, Mode::RWXU)?;
        }
        if depth < DEPTH_MAX {
            empty(top, &inner, device, depth + 1)?;
            rustix::fs::unlinkat(folder, &*name, AtFlags::REMOVEDIR)?;
        } else {
            rustix::fs::renameat(folder, &*name, top, format!("..deep-{}", status.st_ino))?;
        }
    }
    Ok(())
}

/// Gives a tree to a group, which may then read and write all of it.
pub fn share(folder: &Path, group: u32, only_on_mismatch: bool) -> io::Result<()> {
    let opened = open(rustix::fs::CWD, folder)?;
    let status = rustix::fs::fstat(&opened)?;
    let is_right = status.st_gid == group && Ownership::shared_mode(status.st_mode, true, false) == status.st_mode;
    if only_on_mismatch && is_right {
        return Ok(());
    }
    share_folder(&opened, group, status.st_dev, 0)
}

fn share_folder(folder: &OwnedFd, group: u32, device: u64, depth: usize) -> io::Result<()> {
    for (name, kind) in entries(folder, depth)? {
        let shared = match kind {
            FileType::Directory => open(folder, &*name).map_err(io::Error::from).and_then(|inner| {
                let is_here = rustix::fs::fstat(&inner)?.st_dev == device;
                if is_here { share_folder(&inner, group, device, depth + 1) } else { Ok(()) }
            }),
            FileType::RegularFile => share_file(folder, &name, group),
            _ => {
                let group = Some(rustix::fs::Gid::from_raw(group));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::chownat(folder, &*name, None, group, flags).map_err(io::Error::from)
            }
        };
        // One file that is immutable or has just gone is no reason to keep the pod from all others.
        if let Err(error) = shared {
            tracing::warn!(name = %name.to_string_lossy(), %error, "a file could not be given to the pod's fsGroup");
        }
    }
    // Last, so that a root that is right says that all of it is.
    take(folder, group, true)
}

fn share_file(folder: &OwnedFd, name: &CStr, group: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    take(&rustix::fs::openat(folder, name, flags, Mode::empty())?, group, false)
}

fn take(file: &OwnedFd, group: u32, is_folder: bool) -> io::Result<()> {
    let status = rustix::fs::fstat(file)?;
    rustix::fs::fchown(file, None, Some(rustix::fs::Gid::from_raw(group)))?;
    let mode = Ownership::shared_mode(status.st_mode & 0o7777, is_folder, false);
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// The bytes that a folder takes on disk; what has several names counts once.
pub fn usage(folder: &Path) -> io::Result<u64> {
    let opened = open(rustix::fs::CWD, folder)?;
    let device = rustix::fs::fstat(&opened)?.st_dev;
    usage_of(&opened, device, &mut BTreeSet::new(), 0)
}

fn usage_of(folder: &OwnedFd, device: u64, seen: &mut BTreeSet<u64>, depth: usize) -> io::Result<u64> {
    let mut total = 0;
    for (name, kind) in entries(folder, depth)? {
        let Ok(status) = rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if status.st_dev != device || !is_first(&status, seen) {
            continue;
        }
        // The kernel counts in halves of a kibibyte, whatever the file system's blocks are.
        total += u64::try_from(status.st_blocks).unwrap_or(0) * 512;
        if kind == FileType::Directory
            && let Ok(inner) = open(folder, &*name)
        {
            total += usage_of(&inner, device, seen, depth + 1).unwrap_or(0);
        }
    }
    Ok(total)
}

fn is_first(status: &Stat, seen: &mut BTreeSet<u64>) -> bool {
    status.st_nlink < 2 || seen.insert(status.st_ino)
}

fn open(folder: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// All names in a folder with their types, read at once: the folder changes while it is walked.
fn entries(folder: &OwnedFd, depth: usize) -> io::Result<Vec<(CString, FileType)>> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!("folders are nested deeper than {DEPTH_MAX}")));
    }
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let status = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(status.st_mode)
            }
            known => known,
        };
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}
