//! A layer's folder in the making: every name is resolved below an open root, never by the kernel from `/`.
//!
//! `unpack` tells it what to make. Links inside the layer are followed as the container would (absolute ones start at
//! the layer's root); a name that would climb above the root is refused, so nothing outside can be touched.

use super::error::Refusal;
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Symbolic links followed for one name; the kernel's own limit.
const LINKS_MAX: usize = 40;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NAME_LENGTH_MAX: usize = 255;
const PATH_LENGTH_MAX: usize = 4096;

/// What may be done to files here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Owners, devices and all attributes are set as asked for, or it is an error.
    Root,
    /// Owners and privileged attributes are set where the kernel allows it; devices are left out.
    User,
}

impl Privilege {
    /// Root of the machine, rather than of a user namespace or nobody.
    pub fn of_this_process() -> Privilege {
        let is_root = rustix::process::geteuid().is_root();
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let has_all_ids = map.split_whitespace().eq(["0", "0", "4294967295"]);
        if is_root && has_all_ids { Privilege::Root } else { Privilege::User }
    }
}

/// The owner, mode and times of a member.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub mtime_s: i64,
    pub mtime_ns: u32,
}

#[derive(Debug)]
pub enum TreeError {
    Refused(Refusal),
    File(PathBuf, io::Error),
}

impl From<Refusal> for TreeError {
    fn from(refusal: Refusal) -> TreeError {
        TreeError::Refused(refusal)
    }
}

/// A parent folder and the last name, ready for the `*at` calls.
pub struct Place {
    pub folder: Arc<OwnedFd>,
    pub name: OsString,
    /// The full name within the layer, for messages.
    pub path: PathBuf,
}

pub struct Tree {
    root: Arc<OwnedFd>,
    privilege: Privilege,
    /// The folder of the previous member: archives list a folder's files together.
    recent: Option<(PathBuf, Arc<OwnedFd>)>,
}

/// The parts of a member's name; leading slashes and dots mean nothing.
pub fn clean(name: &[u8]) -> Result<PathBuf, Refusal> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    let mut path = PathBuf::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(Refusal::Escape(shown())),
            _ if part.contains(&0) => return Err(Refusal::Escape(shown())),
            _ if part.len() > NAME_LENGTH_MAX => return Err(Refusal::NameLength(shown())),
            _ => path.push(OsStr::from_bytes(part)),
        }
    }
    if path.as_os_str().len() >= PATH_LENGTH_MAX { Err(Refusal::NameLength(shown())) } else { Ok(path) }
}

impl Tree {
    pub fn new(root: &Path, privilege: Privilege) -> Result<Tree, TreeError> {
        let open = fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = open.map_err(|error| TreeError::File(root.to_owned(), error.into()))?;
        Ok(Tree { root: Arc::new(root), privilege, recent: None })
    }

    pub fn privilege(&self) -> Privilege {
        self.privilege
    }

    /// Finds the folder a name goes into; missing folders are made.
    pub fn place(&mut self, path: &Path) -> Result<Place, TreeError> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or(OsStr::new(".")).to_owned();
        if let Some((known, folder)) = &self.recent
            && known == parent
        {
            return Ok(Place { folder: folder.clone(), name, path: path.to_owned() });
        }
        let folder = self.walk(parent, true)?;
        self.recent = Some((parent.to_owned(), folder.clone()));
        Ok(Place { folder, name, path: path.to_owned() })
    }

    /// Opens a folder; it is made where it is missing.
    pub fn folder(&self, path: &Path) -> Result<Arc<OwnedFd>, TreeError> {
        self.walk(path, true)
    }

    /// Opens a folder below the root, part by part.
    fn walk(&self, path: &Path, make: bool) -> Result<Arc<OwnedFd>, TreeError> {
        let failed = |error: Errno| TreeError::File(path.to_owned(), error.into());
        let escape = || Refusal::Escape(path.display().to_string());
        let mut stack = vec![self.root.clone()];
        let mut parts: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
        let mut links = 0;
        while let Some(part) = parts.pop() {
            if part == ".." {
                stack.pop();
                if stack.is_empty() {
                    return Err(escape().into());
                }
                continue;
            }
            let here = stack.last().expect("the root is never popped without returning").clone();
            match fs::openat(&here, &part, FOLDER, Mode::empty()) {
                Ok(next) => stack.push(Arc::new(next)),
                Err(Errno::NOENT) if make => stack.push(make_folder(&here, &part).map_err(failed)?),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    links += 1;
                    match fs::readlinkat(&here, &part, Vec::new()) {
                        Ok(_) if links > LINKS_MAX => return Err(escape().into()),
                        Ok(target) => self.follow(target.as_bytes(), &mut stack, &mut parts),
                        Err(Errno::INVAL) if make => stack.push(self.replace(&here, &part).map_err(failed)?),
                        Err(error) => return Err(failed(error)),
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(stack.pop().expect("the root is never popped without returning"))
    }

    /// Puts a folder where something else was: the later member wins, as in a plain extraction. A folder in the place
    /// of a whiteout still hides what the layers below have there.
    fn replace(&self, here: &OwnedFd, part: &OsStr) -> Result<Arc<OwnedFd>, Errno> {
        let was_whiteout = fs::statat(here, part, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|found| is_whiteout(&found));
        fs::unlinkat(here, part, AtFlags::empty())?;
        let folder = make_folder(here, part)?;
        if was_whiteout {
            hide_below(&folder)?;
        }
        Ok(folder)
    }

    fn follow(&self, target: &[u8], stack: &mut Vec<Arc<OwnedFd>>, parts: &mut Vec<OsString>) {
        if target.starts_with(b"/") {
            stack.truncate(1);
        }
        let names = target.split(|byte| *byte == b'/').rev().filter(|part| !matches!(part, [] | [b'.']));
        parts.extend(names.map(|part| OsString::from_vec(part.to_vec())));
    }

    /// Makes room for a member; a folder that is to be a folder again stays. Gives whether a whiteout was there.
    pub fn clear(&mut self, place: &Place, keeps_folder: bool) -> Result<Found, TreeError> {
        let found = match fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(error) => return Err(place.failed(error)),
            Ok(found) => found,
        };
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_folder && keeps_folder {
            return Ok(Found::Folder);
        }
        // The folder found last may have been reached through what goes away now.
        self.recent = None;
        if is_folder {
            let path = place.through_descriptor();
            remove_tree(&path).map_err(|error| TreeError::File(place.path.clone(), error))?;
            return Ok(Found::Other);
        }
        fs::unlinkat(&place.folder, &place.name, AtFlags::empty()).map_err(|error| place.failed(error))?;
        Ok(if is_whiteout(&found) { Found::Whiteout } else { Found::Other })
    }

    /// Opens the target of a hard link's parent; the target must be there already.
    pub fn existing(&mut self, path: &Path) -> Result<Place, TreeError> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let folder = self.walk(parent, false)?;
        Ok(Place { folder, name: path.file_name().unwrap_or(OsStr::new(".")).to_owned(), path: path.to_owned() })
    }

    /// Owner, then mode (a change of owner clears setuid bits), then times, on an open file.
    pub fn set_facts(&self, file: &File, facts: &Facts, path: &Path) -> Result<(), TreeError> {
        let failed = |error: Errno| TreeError::File(path.to_owned(), error.into());
        self.lenient(fs::fchown(file, owner(facts.uid), group(facts.gid))).map_err(failed)?;
        fs::fchmod(file, Mode::from_raw_mode(facts.mode)).map_err(failed)?;
        fs::futimens(file, &facts.times()).map_err(failed)
    }

    /// The same for what cannot be opened: links, devices, pipes.
    pub fn set_facts_at(&self, place: &Place, facts: &Facts, is_link: bool) -> Result<(), TreeError> {
        let owned =
            fs::chownat(&place.folder, &place.name, owner(facts.uid), group(facts.gid), AtFlags::SYMLINK_NOFOLLOW);
        self.lenient(owned).map_err(|error| place.failed(error))?;
        if !is_link {
            let mode = Mode::from_raw_mode(facts.mode);
            fs::chmodat(&place.folder, &place.name, mode, AtFlags::empty()).map_err(|error| place.failed(error))?;
        }
        fs::utimensat(&place.folder, &place.name, &facts.times(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| place.failed(error))
    }

    /// Sets one extended attribute; file systems and users without the right to it go without.
    pub fn set_xattr(&self, place: &Place, name: &[u8], value: &[u8]) -> Result<bool, TreeError> {
        match fs::lsetxattr(place.through_descriptor(), OsStr::from_bytes(name), value, XattrFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(false),
            Err(error) => Err(place.failed(error)),
        }
    }

    fn lenient(&self, outcome: Result<(), Errno>) -> Result<(), Errno> {
        match (outcome, self.privilege) {
            (Err(Errno::PERM | Errno::INVAL), Privilege::User) => Ok(()),
            (outcome, _) => outcome,
        }
    }
}

/// What stood where a member goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Folder,
    Whiteout,
    Other,
}

impl Place {
    pub fn failed(&self, error: Errno) -> TreeError {
        TreeError::File(self.path.clone(), error.into())
    }

    /// A path for the calls that take no descriptor; it goes through ours, so no link can bend it.
    pub fn through_descriptor(&self) -> PathBuf {
        let folder = PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_fd().as_raw_fd()));
        folder.join(&self.name)
    }
}

impl Facts {
    fn times(&self) -> Timestamps {
        let time = Timespec { tv_sec: self.mtime_s, tv_nsec: self.mtime_ns.into() };
        Timestamps { last_access: time, last_modification: time }
    }
}

fn is_whiteout(found: &fs::Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && found.st_rdev == 0
}

fn make_folder(here: &OwnedFd, part: &OsStr) -> Result<Arc<OwnedFd>, Errno> {
    fs::mkdirat(here, part, Mode::from_raw_mode(0o755))?;
    let folder = fs::openat(here, part, FOLDER, Mode::empty())?;
    // The process's umask must not show in images.
    fs::fchmod(&folder, Mode::from_raw_mode(0o755))?;
    Ok(Arc::new(folder))
}

/// Marks a folder so that overlayfs shows nothing of the layers below in it.
pub fn hide_below(folder: &OwnedFd) -> Result<(), Errno> {
    let mark = |name: &str| fs::fsetxattr(folder, name, b"y", XattrFlags::empty());
    match mark("trusted.overlay.opaque") {
        Err(Errno::PERM | Errno::OPNOTSUPP) => mark("user.overlay.opaque"),
        done => done,
    }
}

fn owner(uid: u32) -> Option<Uid> {
    // All bits set means "leave it" to the kernel, and is no user.
    (uid != u32::MAX).then(|| Uid::from_raw(uid))
}

fn group(gid: u32) -> Option<Gid> {
    (gid != u32::MAX).then(|| Gid::from_raw(gid))
}

/// Removes a folder and all below it, also folders that their owner may not write to.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            std::fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
