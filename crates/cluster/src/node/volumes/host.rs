//! Volumes that lie elsewhere on the machine: a check that they are what the pod says, and a link to them.

use std::fs::{self, DirBuilder, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, symlink};
use std::path::Path;

/// Makes what may be made and refuses what is of another type, in the kubelet's words.
pub fn check(path: &Path, kind: &str) -> Result<(), String> {
    if !path.is_absolute() {
        return Err(format!("hostPath {} is not an absolute path", path.display()));
    }
    let found = fs::metadata(path).ok().map(|found| found.file_type());
    let is = |test: fn(&FileType) -> bool| found.as_ref().is_some_and(test);
    let make_error = |error: io::Error| format!("cannot make {}: {error}", path.display());
    let (is_right, wanted) = match (kind, found.is_some()) {
        // Without a type nothing is checked; what is missing becomes a folder, as container runtimes make it.
        ("", true) => return Ok(()),
        ("" | "DirectoryOrCreate", false) => {
            return DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(make_error);
        }
        ("FileOrCreate", false) => {
            let opened = fs::OpenOptions::new().create(true).append(true).mode(0o644).open(path);
            return opened.map(drop).map_err(make_error);
        }
        ("Directory" | "DirectoryOrCreate", _) => (is(FileType::is_dir), "directory"),
        ("File" | "FileOrCreate", _) => (is(FileType::is_file), "file"),
        ("Socket", _) => (is(FileTypeExt::is_socket), "socket file"),
        ("CharDevice", _) => (is(FileTypeExt::is_char_device), "character device"),
        ("BlockDevice", _) => (is(FileTypeExt::is_block_device), "block device"),
        (other, _) => return Err(format!("{other} is an invalid volume type")),
    };
    if is_right { Ok(()) } else { Err(format!("hostPath type check failed: {} is not a {wanted}", path.display())) }
}

/// A local volume's folder is made by whoever made the volume.
pub fn check_local(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() && path.is_absolute() => Ok(()),
        Ok(_) => Err(format!("local volume {} is not the absolute path of a directory", path.display())),
        Err(_) => Err(format!("path {:?} does not exist", path.display().to_string())),
    }
}

/// Notes where the volume lies; says whether that is new.
pub fn link(place: &Path, target: &Path) -> Result<bool, String> {
    match fs::read_link(place) {
        Ok(known) if known == target => return Ok(false),
        // The claim is bound to another volume now.
        Ok(_) => fs::remove_file(place),
        Err(_) => Ok(()),
    }
    .and_then(|()| symlink(target, place))
    .map(|()| true)
    .map_err(|error| format!("cannot link {} to {}: {error}", place.display(), target.display()))
}
