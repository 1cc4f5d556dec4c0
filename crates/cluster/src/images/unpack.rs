//! One layer's archive into one folder that overlayfs can mount: files, links, whiteouts, owners and attributes.
//!
//! Blocking; the store calls it off the async threads and renames the folder into place afterwards. The digest of the
//! uncompressed bytes (the diff id) is the caller's proof that everything was read.

use super::digest::Digest;
use super::error::{ImageError, Refusal};
use super::inflate::{Inflated, Limits};
use super::tape::{Entry, Kind, Tape};
use super::tree::{Facts, Found, Place, Privilege, Tree, TreeError, clean, hide_below};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const WHITEOUT_PREFIX: &[u8] = b".wh.";
const OPAQUE_MARK: &[u8] = b".wh..wh..opq";
/// Names that aufs and BuildKit reserve beside whiteouts; they mean nothing to us.
const RESERVED_PREFIX: &[u8] = b".wh..wh.";
/// Overlay's own attributes: an archive that sets them could bend the mount.
const OVERLAY_XATTRS: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];
const COPY_SIZE: usize = 256 << 10;

/// What an unpacked layer holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    /// Bytes of file content.
    pub bytes: u64,
    /// Devices, and attributes that the file system or our rights did not allow.
    pub left_out: u64,
}

/// Unpacks the blob into an empty folder and checks the diff id.
pub fn unpack(
    blob: &Path,
    folder: &Path,
    diff_id: &Digest,
    limits: Limits,
    privilege: Privilege,
) -> Result<Unpacked, ImageError> {
    let context = Context { blob, folder, diff_id };
    let stream = Inflated::open(blob, limits).map_err(|error| context.read_failed(error))?;
    let tree = Tree::new(folder, privilege).map_err(|error| context.failed(error))?;
    let mut layer = Layer { tree, folders: BTreeMap::new(), found: Unpacked::default(), buffer: vec![0; COPY_SIZE] };
    let mut tape = Tape::new(stream);
    while let Some(entry) = tape.next_entry().map_err(|error| context.read_failed(error))? {
        layer.found.entries += 1;
        if layer.found.entries > limits.entries_max {
            return Err(context.refused(Refusal::Entries(limits.entries_max)));
        }
        layer.add(&entry, &mut tape).map_err(|error| context.failed(error))?;
    }
    let actual = tape.into_inner().finish().map_err(|error| context.read_failed(error))?;
    if actual != *diff_id {
        let what = format!("uncompressed layer {}", blob.display());
        return Err(ImageError::Corrupt { what, expected: diff_id.to_string(), actual: actual.to_string() });
    }
    layer.close_folders().map_err(|error| context.failed(error))?;
    Ok(layer.found)
}

/// Whose fault an error is, and how it is told.
struct Context<'a> {
    blob: &'a Path,
    folder: &'a Path,
    diff_id: &'a Digest,
}

impl Context<'_> {
    fn refused(&self, refusal: Refusal) -> ImageError {
        ImageError::Refused { layer: self.diff_id.to_string(), refusal }
    }

    fn failed(&self, error: TreeError) -> ImageError {
        match error {
            TreeError::Refused(refusal) => self.refused(refusal),
            TreeError::File(path, error) if error.kind() == io::ErrorKind::InvalidData => {
                self.refused(Refusal::Malformed(format!("{}: {error}", path.display())))
            }
            TreeError::File(path, error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()) {
                Some(refusal) => self.refused(refusal.clone()),
                None => ImageError::file("unpack", &self.folder.join(path), error),
            },
        }
    }

    fn read_failed(&self, error: io::Error) -> ImageError {
        if let Some(refusal) = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()) {
            return self.refused(refusal.clone());
        }
        match error.raw_os_error() {
            Some(_) => ImageError::file("read", self.blob, error),
            None => self.refused(Refusal::Malformed(error.to_string())),
        }
    }
}

/// A layer being made.
struct Layer {
    tree: Tree,
    /// Folders' modes and times are set at the end: a read-only folder must first be filled.
    folders: BTreeMap<PathBuf, Facts>,
    found: Unpacked,
    buffer: Vec<u8>,
}

impl Layer {
    fn add(&mut self, entry: &Entry, content: &mut impl Read) -> Result<(), TreeError> {
        let path = clean(&entry.path)?;
        let Some(name) = path.file_name() else {
            // The root itself: its mode and times count, its name does not.
            self.folders.insert(PathBuf::new(), facts(entry));
            return Ok(());
        };
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT_PREFIX) {
            return self.add_whiteout(&path, OsStr::from_bytes(hidden));
        }
        match entry.kind {
            Kind::Directory => self.add_folder(&path, entry),
            Kind::File => self.add_file(&path, entry, content),
            Kind::Symlink => self.add_symlink(&path, entry),
            Kind::HardLink => self.add_hard_link(&path, entry),
            Kind::Character | Kind::Block | Kind::Fifo => self.add_node(&path, entry),
            Kind::Sparse => Err(Refusal::Sparse(path.display().to_string()).into()),
            Kind::Other => Ok(()),
        }
    }

    fn add_whiteout(&mut self, path: &Path, hidden: &OsStr) -> Result<(), TreeError> {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let parent = path.parent().unwrap_or(Path::new(""));
        if name == OPAQUE_MARK {
            return self.hide_below(parent);
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Ok(());
        }
        if matches!(hidden.as_bytes(), b"" | b"." | b"..") {
            return Err(Refusal::Escape(path.display().to_string()).into());
        }
        let target = parent.join(hidden);
        let place = self.tree.place(&target)?;
        match fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => self.hide_below(&target),
            // What the layer itself brings stays.
            Ok(_) => Ok(()),
            Err(Errno::NOENT) => self.make_whiteout(&place),
            Err(error) => Err(place.failed(error)),
        }
    }

    /// A character device 0:0; where even that is not allowed, the empty file that newer kernels understand.
    fn make_whiteout(&mut self, place: &Place) -> Result<(), TreeError> {
        match fs::mknodat(&place.folder, &place.name, FileType::CharacterDevice, Mode::empty(), 0) {
            Ok(()) => return Ok(()),
            Err(Errno::PERM | Errno::ACCESS) => {}
            Err(error) => return Err(place.failed(error)),
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = fs::openat(&place.folder, &place.name, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| place.failed(error))?;
        let marks = fs::fsetxattr(&file, "user.overlay.whiteout", b"", fs::XattrFlags::empty())
            .and_then(|()| fs::fsetxattr(&place.folder, "user.overlay.opaque", b"x", fs::XattrFlags::empty()));
        marks.map_err(|error| place.failed(error))
    }

    /// Marks a folder so that nothing of the layers below shows through.
    fn hide_below(&mut self, folder: &Path) -> Result<(), TreeError> {
        let target = self.tree.folder(folder)?;
        hide_below(&target).map_err(|error| TreeError::File(folder.to_owned(), error.into()))
    }

    fn add_folder(&mut self, path: &Path, entry: &Entry) -> Result<(), TreeError> {
        let place = self.tree.place(path)?;
        let found = self.tree.clear(&place, true)?;
        if found != Found::Folder {
            fs::mkdirat(&place.folder, &place.name, Mode::from_raw_mode(0o700)).map_err(|error| place.failed(error))?;
        }
        if found == Found::Whiteout {
            self.hide_below(path)?;
        }
        self.set_xattrs(&place, entry)?;
        self.folders.insert(path.to_owned(), facts(entry));
        Ok(())
    }

    fn add_file(&mut self, path: &Path, entry: &Entry, content: &mut impl Read) -> Result<(), TreeError> {
        let failed = |error: io::Error| TreeError::File(path.to_owned(), error);
        let place = self.vacant(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = fs::openat(&place.folder, &place.name, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| place.failed(error))?;
        let mut file = File::from(made);
        loop {
            let count = content.read(&mut self.buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            file.write_all(&self.buffer[..count]).map_err(failed)?;
            self.found.bytes += count as u64;
        }
        self.tree.set_facts(&file, &facts(entry), path)?;
        self.set_xattrs(&place, entry)
    }

    fn add_symlink(&mut self, path: &Path, entry: &Entry) -> Result<(), TreeError> {
        let place = self.vacant(path)?;
        fs::symlinkat(OsStr::from_bytes(&entry.link), &place.folder, &place.name)
            .map_err(|error| place.failed(error))?;
        self.tree.set_facts_at(&place, &facts(entry), true)?;
        self.set_xattrs(&place, entry)
    }

    fn add_hard_link(&mut self, path: &Path, entry: &Entry) -> Result<(), TreeError> {
        let names = || (path.display().to_string(), String::from_utf8_lossy(&entry.link).into_owned());
        let refuse = |make: fn(String, String) -> Refusal| {
            let (name, target) = names();
            TreeError::from(make(name, target))
        };
        let target = clean(&entry.link).map_err(|_| refuse(Refusal::LinkEscape))?;
        if target == path {
            return Ok(());
        }
        let from = match self.tree.existing(&target) {
            Ok(from) => from,
            Err(TreeError::Refused(_)) => return Err(refuse(Refusal::LinkEscape)),
            Err(TreeError::File(_, error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refuse(Refusal::LinkMissing));
            }
            Err(error) => return Err(error),
        };
        let place = self.vacant(path)?;
        match fs::linkat(&from.folder, &from.name, &place.folder, &place.name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(refuse(Refusal::LinkMissing)),
            Err(error) => Err(place.failed(error)),
        }
    }

    fn add_node(&mut self, path: &Path, entry: &Entry) -> Result<(), TreeError> {
        let kind = match entry.kind {
            Kind::Character => FileType::CharacterDevice,
            Kind::Block => FileType::BlockDevice,
            _ => FileType::Fifo,
        };
        if kind != FileType::Fifo && self.tree.privilege() == Privilege::User {
            self.found.left_out += 1;
            return Ok(());
        }
        let place = self.vacant(path)?;
        let device = fs::makedev(entry.device.0, entry.device.1);
        fs::mknodat(&place.folder, &place.name, kind, Mode::from_raw_mode(0o600), device)
            .map_err(|error| place.failed(error))?;
        self.tree.set_facts_at(&place, &facts(entry), false)?;
        self.set_xattrs(&place, entry)
    }

    fn vacant(&mut self, path: &Path) -> Result<Place, TreeError> {
        let place = self.tree.place(path)?;
        self.tree.clear(&place, false)?;
        self.folders.remove(path);
        Ok(place)
    }

    fn set_xattrs(&mut self, place: &Place, entry: &Entry) -> Result<(), TreeError> {
        for (name, value) in &entry.xattrs {
            let is_overlays = OVERLAY_XATTRS.iter().any(|prefix| name.starts_with(prefix));
            if is_overlays || name.contains(&0) || !self.tree.set_xattr(place, name, value)? {
                self.found.left_out += 1;
            }
        }
        Ok(())
    }

    /// Deepest first, since filling a folder changes its time and a read-only parent would lock its children out.
    fn close_folders(&mut self) -> Result<(), TreeError> {
        let folders = std::mem::take(&mut self.folders);
        for (path, facts) in folders.iter().rev() {
            let folder = self.tree.folder(path)?;
            let file = File::from(folder.try_clone().map_err(|error| TreeError::File(path.clone(), error))?);
            self.tree.set_facts(&file, facts, path)?;
        }
        Ok(())
    }
}

fn facts(entry: &Entry) -> Facts {
    Facts { uid: entry.uid, gid: entry.gid, mode: entry.mode, mtime_s: entry.mtime_s, mtime_ns: entry.mtime_ns }
}
