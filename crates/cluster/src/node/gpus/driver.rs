//! Where the driver's libraries and programs are on this machine, for containers whose image does not have them.
//!
//! A specification of the Container Device Interface wins (`cdi`). Without one the folder that holds `libcuda` of the
//! running driver is looked up in the loader's cache and in the usual places, and the table below says what is taken.

use super::cdi::{self, Specification};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Libraries for computing, video and management, and the version by which programs load them. Those without one are
/// loaded by the driver's own version. Displays (OpenGL, Vulkan) are left out, as NVIDIA's toolkit does by default.
const LIBRARIES: [(&str, Option<&str>); 16] = [
    ("libcuda", Some("1")),
    ("libcudadebugger", Some("1")),
    ("libnvcuvid", Some("1")),
    ("libnvidia-allocator", Some("1")),
    ("libnvidia-cfg", Some("1")),
    ("libnvidia-encode", Some("1")),
    ("libnvidia-gpucomp", None),
    ("libnvidia-ml", Some("1")),
    ("libnvidia-nvvm", Some("4")),
    ("libnvidia-nvvm70", Some("4")),
    ("libnvidia-opencl", Some("1")),
    ("libnvidia-opticalflow", Some("1")),
    ("libnvidia-pkcs11", None),
    ("libnvidia-pkcs11-openssl3", None),
    ("libnvidia-ptxjitcompiler", Some("1")),
    ("libnvidia-sandboxutils", Some("1")),
];

/// Libraries that programs also load by their plain name.
const PLAIN: [&str; 2] = ["libcuda", "libnvidia-ml"];

const PROGRAMS: [&str; 5] =
    ["nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"];

const PROGRAM_FOLDERS: [&str; 5] = ["usr/bin", "usr/local/nvidia/bin", "usr/local/bin", "opt/bin", "usr/lib/wsl/lib"];

/// Where libraries are if the loader's cache does not say; the first two are those that the loader searches anyway.
pub(super) const FOLDERS: [&str; 7] = [
    super::gear::MULTIARCH_FOLDER,
    "usr/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "usr/lib/nvidia/current",
    "run/opengl-driver/lib",
    "usr/lib",
];

/// The driver's files that containers get.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The name by which a program loads it, and where it is.
    pub libraries: Vec<(String, PathBuf)>,
    pub programs: Vec<PathBuf>,
    /// The libraries' folder if the machine's loader does not find it by itself.
    pub hidden_folder: Option<PathBuf>,
    pub specification: Option<Specification>,
}

impl Files {
    /// Finds the files of the driver that runs, by its version such as `580.159.04`; `loaded` is where its management
    /// library was found.
    pub(super) fn find(root: &Path, version: &str, loaded: Option<PathBuf>) -> Files {
        let cache = fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
        let cached: Vec<PathBuf> = cached_folders(&cache).iter().map(|folder| root.join(below_root(folder))).collect();
        let usual = FOLDERS.iter().map(|folder| root.join(folder));
        let mut folders = loaded.into_iter().chain(cached.iter().cloned()).chain(usual);
        let folder = folders.find(|folder| folder.join(format!("libcuda.so.{version}")).exists());
        let searched = FOLDERS[..2].iter().map(|folder| root.join(folder)).chain(cached);
        let searched: Vec<PathBuf> = searched.filter_map(|folder| folder.canonicalize().ok()).collect();
        let is_hidden = |folder: &PathBuf| folder.canonicalize().is_ok_and(|real| !searched.contains(&real));
        let hidden_folder = folder.clone().filter(is_hidden);
        let specification = cdi::find(root);
        let listed = specification.as_ref().map(|found| found.libraries()).unwrap_or_default();
        let libraries = match folder {
            _ if !listed.is_empty() => names(listed, version),
            Some(folder) => names(LIBRARIES.map(|(stem, _)| folder.join(format!("{stem}.so.{version}"))), version),
            None => {
                tracing::warn!(version, "libcuda of the running driver is not found; images must bring their own");
                Vec::new()
            }
        };
        Files { libraries, programs: programs(root), hidden_folder, specification }
    }
}

/// The names by which programs load these files, as far as they are of the driver and exist.
fn names(files: impl IntoIterator<Item = PathBuf>, version: &str) -> Vec<(String, PathBuf)> {
    let mut names = Vec::new();
    for file in files {
        let Some(stem) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(&format!(".so.{version}")))
        else {
            continue;
        };
        let Some((stem, known_as)) = LIBRARIES.iter().find(|(known, _)| *known == stem) else { continue };
        // Distributions that move libraries about leave links, which would lead nowhere in the container.
        let Ok(path) = fs::canonicalize(&file) else { continue };
        if PLAIN.contains(stem) {
            names.push((format!("{stem}.so"), path.clone()));
        }
        names.push((format!("{stem}.so.{}", known_as.unwrap_or(version)), path));
    }
    names
}

fn programs(root: &Path) -> Vec<PathBuf> {
    let places = |name: &&str| {
        let mut places = PROGRAM_FOLDERS.iter().map(|folder| root.join(folder).join(name));
        places.find_map(|place| fs::canonicalize(place).ok().filter(|found| found.ends_with(name) && is_program(found)))
    };
    PROGRAMS.iter().filter_map(places).collect()
}

/// A script in the program's place would call the program by a path that the container does not have.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// Folders that hold a driver library according to the loader's cache, in its order.
fn cached_folders(cache: &[u8]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for (name, path) in cached_libraries(cache) {
        let is_driver = PLAIN.iter().any(|stem| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so")));
        let Some(folder) = Path::new(path).parent().filter(|_| is_driver) else { continue };
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// Names and paths of all libraries in the loader's cache.
///
/// The cache is a header of 48 bytes that starts with its name, entries of 24 bytes (kind, then the offsets of the
/// library's name and path, then what does not matter here), and texts. Older programs write it behind another one.
fn cached_libraries(cache: &[u8]) -> Vec<(&str, &str)> {
    const NAME: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    let Some(start) = cache.windows(NAME.len()).position(|window| window == NAME) else { return Vec::new() };
    let cache = &cache[start..];
    let number = |at: usize| cache.get(at..at + 4).and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
    let text = |at: usize| {
        let bytes = cache.get(number(at)? as usize..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok()
    };
    // A cache that was cut off tells more entries than it has bytes for.
    let count = number(NAME.len()).map_or(0, |count| count as usize).min(cache.len() / ENTRY_BYTES);
    let entries = (0..count).map(|index| HEADER_BYTES + index * ENTRY_BYTES);
    entries.filter_map(|entry| Some((text(entry + 4)?, text(entry + 8)?))).collect()
}

pub(super) fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Has the kernel load the module for unified memory, without which CUDA does not start.
///
/// Programs on the machine load it at their first use of CUDA; inside a container they cannot.
pub(super) fn load_memory_module(root: &Path) {
    if root.join("dev/nvidia-uvm").exists() {
        return;
    }
    let mut command = Command::new("nvidia-modprobe");
    command.args(["-u", "-c", "0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => tracing::warn!(%status, "nvidia-modprobe did not load nvidia-uvm; CUDA will not start in pods"),
        Err(error) => tracing::warn!(%error, "nvidia-uvm is not loaded and nvidia-modprobe is not there to load it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache as the loader reads it, of names and paths.
    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut cache = b"glibc-ld.so.cache1.1".to_vec();
        cache.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
        cache.resize(48, 0);
        let start = 48 + entries.len() * 24;
        for (name, path) in entries {
            cache.extend(0x0303_u32.to_le_bytes());
            for text in [name, path] {
                cache.extend(u32::try_from(start + texts.len()).unwrap().to_le_bytes());
                texts.extend(text.bytes().chain([0]));
            }
            cache.resize(cache.len() + 12, 0);
        }
        cache.extend(texts);
        cache
    }

    const CACHED: [(&str, &str); 4] = [
        ("libc.so.6", "/lib/libc.so.6"),
        ("libcuda.so.1", "/opt/compat/libcuda.so.1"),
        ("libcuda.so.1", "/opt/driver/libcuda.so.1"),
        ("libnvidia-ml.so.1", "/opt/driver/libnvidia-ml.so.1"),
    ];

    #[test]
    fn the_cache_tells_each_driver_folder_once() {
        let expected = [PathBuf::from("/opt/compat"), PathBuf::from("/opt/driver")];
        assert_eq!(cached_folders(&cache(&CACHED)), expected);
        let behind_an_old_one = [b"ld.so-1.7.0\0\0\0\0\0".as_slice(), &cache(&CACHED)].concat();
        assert_eq!(cached_folders(&behind_an_old_one), expected);
    }

    #[test]
    fn a_damaged_cache_tells_what_it_can() {
        let whole = cache(&CACHED);
        for length in 0..whole.len() {
            assert!(cached_folders(&whole[..length]).len() <= 2);
        }
        assert_eq!(cached_folders(b"not a cache"), Vec::<PathBuf>::new());
    }

    fn write(path: PathBuf) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_running_drivers_files_are_taken_not_those_of_another_version() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root.join("opt/compat/libcuda.so.999.1"));
        for library in ["libcuda", "libnvidia-ml", "libnvidia-nvvm", "libnvidia-gpucomp", "libGLX_nvidia"] {
            write(root.join("opt/driver").join(format!("{library}.so.580.1")));
        }
        write(root.join("usr/local/nvidia/bin/nvidia-smi"));
        fs::write(root.join("usr/local/nvidia/bin/nvidia-smi"), "\x7fELF").unwrap();
        write(root.join("usr/bin/nvidia-smi"));
        fs::write(root.join("usr/bin/nvidia-smi"), "#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi\n").unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("etc/ld.so.cache"), cache(&CACHED)).unwrap();
        let files = Files::find(root, "580.1", None);
        let names: Vec<&str> = files.libraries.iter().map(|(name, _)| name.as_str()).collect();
        let plain_and_versioned = ["libcuda.so", "libcuda.so.1", "libnvidia-gpucomp.so.580.1"];
        assert_eq!(names[..3], plain_and_versioned);
        assert_eq!(names[3..], ["libnvidia-ml.so", "libnvidia-ml.so.1", "libnvidia-nvvm.so.4"]);
        assert_eq!(files.libraries[0].1, root.canonicalize().unwrap().join("opt/driver/libcuda.so.580.1"));
        assert_eq!(files.programs, [root.canonicalize().unwrap().join("usr/local/nvidia/bin/nvidia-smi")]);
        assert_eq!(files.hidden_folder, None, "the loader knows it");
        write(root.join("home/me/libcuda.so.580.1"));
        let files = Files::find(root, "580.1", Some(root.join("home/me")));
        assert_eq!(files.hidden_folder, Some(root.join("home/me")), "by a variable that containers do not have");
    }

    #[test]
    fn a_folder_that_the_loader_does_not_know_is_told() {
        let root = tempfile::tempdir().unwrap();
        write(root.path().join("usr/local/nvidia/lib64/libcuda.so.580.1"));
        let files = Files::find(root.path(), "580.1", None);
        assert_eq!(files.libraries.len(), 2);
        assert_eq!(files.hidden_folder, Some(root.path().join("usr/local/nvidia/lib64")));
        assert!(Files::find(root.path(), "590.1", None).libraries.is_empty());
    }

    #[test]
    fn this_machines_cache_is_read_as_its_own_program_reads_it() {
        let cache = fs::read("/etc/ld.so.cache").unwrap();
        let output = Command::new("/sbin/ldconfig").arg("-p").output().unwrap();
        let listing = String::from_utf8(output.stdout).unwrap();
        let lines = listing.lines().filter_map(|line| line.trim().split_once(" => "));
        let expected: Vec<(&str, &str)> = lines.map(|(name, path)| (name.split(' ').next().unwrap(), path)).collect();
        assert!(!expected.is_empty());
        assert_eq!(cached_libraries(&cache), expected);
    }
}
