//! Builds a container's file system in a fresh mount namespace and makes it the root. Runs in the child that becomes the container.
//!
//! Nothing is ever mounted in the machine's own namespace, so nothing can be left behind there. Volumes are taken as detached
//! copies before the root changes and put in place after it: links inside an image can then not lead a mount astray.

use super::cgroup::Cgroup;
use super::spec::{Container, Device, Mode, Mount, MountSource, Propagation, Root, Sandbox};
use super::sys::{self, MountAttributes};
use super::wire::{self, Context, Fault, FaultKind};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Mount options are copied into one page; what is longer goes layer by layer.
const OPTIONS_BYTES_MAX: usize = 4000;
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const NOSUID_NODEV_NOEXEC: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

pub struct Plan<'a> {
    pub sandbox: &'a Sandbox,
    pub container: &'a Container,
    /// The pod's folder.
    pub folder: &'a Path,
    pub cgroup: Option<&'a Cgroup>,
}

/// A volume that waits to be put in place.
struct Held<'a> {
    mount: &'a Mount,
    tree: Option<OwnedFd>,
    is_folder: bool,
}

/// Makes the container's root this process's root; gives back what could not be shown.
pub fn enter(plan: &Plan<'_>) -> Result<Vec<String>, Fault> {
    let root = plan.folder.join(wire::ROOT);
    // What the machine mounts or unmounts later still reaches volumes that ask for it; nothing goes the other way.
    sys::mount("", Path::new("/"), "", libc::MS_REC | libc::MS_SLAVE, "").context(|| "separate the mounts".into())?;
    let warnings = lay_root(plan, &root)?;
    let held = plan.container.mounts.iter().map(hold).collect::<Result<Vec<_>, Fault>>()?;
    let devices = hold_devices(plan)?;
    let shm = sys::open_tree(None, &plan.folder.join(wire::SHM)).context(|| "take the pod's shared memory".into())?;
    let cgroups = hold_cgroups(plan)?;
    let old_root = File::open("/").context(|| "open the old root".into())?;
    std::env::set_current_dir(&root).context(|| format!("enter {}", root.display()))?;
    sys::pivot_root_here().context(|| "change the root".into())?;
    std::env::set_current_dir("/").context(|| "enter the new root".into())?;
    kernel_files(plan, cgroups)?;
    device_files(plan, devices, shm)?;
    for volume in held {
        put(volume)?;
    }
    hide(plan)?;
    leave(&old_root)?;
    if plan.container.read_only_root {
        let here = File::open("/").context(|| "open the root".into())?;
        let attributes = MountAttributes { set: sys::MOUNT_ATTR_RDONLY, ..Default::default() };
        sys::mount_setattr(&here, false, attributes).context(|| "make the root read-only".into())?;
    }
    Ok(warnings)
}

/// Drops the machine's file systems, which lie below the new root until now.
fn leave(old_root: &File) -> Result<(), Fault> {
    std::env::set_current_dir(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(old_root)))
        .context(|| "go back to the old root".into())?;
    sys::unmount_detached(Path::new(".")).context(|| "drop the old root".into())?;
    std::env::set_current_dir("/").context(|| "enter the new root".into())
}

fn lay_root(plan: &Plan<'_>, root: &Path) -> Result<Vec<String>, Fault> {
    let is_rootless = plan.sandbox.mode == Mode::Rootless;
    match &plan.container.root {
        Root::Layers { lower, scratch } => {
            if lower.is_empty() {
                return Err(Fault::invalid("the image has no layers"));
            }
            overlay(lower, scratch, root, is_rootless).context(|| "mount the image's layers".into())?;
            Ok(Vec::new())
        }
        Root::Host { scratch } => {
            let mounts = machine_mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
            let mounts = mounts.into_iter().filter(|(mount, _)| !mount.starts_with(plan.folder));
            // What will be hidden is not taken in: other pods' volumes would live as long as this container.
            let is_hidden = |mount: &Path| plan.container.masked_paths.iter().any(|path| mount.starts_with(path));
            let mounts = mounts.map(|(mount, is_real)| (mount.clone(), is_real && !is_hidden(&mount))).collect();
            let mut host = HostRoot { root, scratch, is_rootless, mounts, overlays: 0, warnings: Vec::new() };
            host.compose(Path::new("/"))?;
            Ok(host.warnings)
        }
        Root::Machine => {
            Err(Fault::unsupported("the machine's own file systems, writable, are for the process mode only"))
        }
    }
}

/// Mounts layers, topmost first, below the writable layer in `scratch`.
///
/// The layer goes with its container, so nothing of it has to reach the disk. Without `volatile` the kernel syncs the whole file
/// system below it at every unmount, which on a busy machine takes many seconds; kernels before 5.10 do not know the word.
fn overlay(lower: &[PathBuf], scratch: &Path, target: &Path, is_rootless: bool) -> io::Result<()> {
    let (upper, work) = (scratch.join("upper"), scratch.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    if let Some(mode) = lower.first().and_then(|top| fs::metadata(top).ok()).map(|found| found.permissions().mode()) {
        fs::set_permissions(&upper, fs::Permissions::from_mode(mode & 0o7777))?;
    }
    let plain: &[&str] = if is_rootless { &["userxattr"] } else { &[] };
    match mount_overlay(lower, [&upper, &work], target, &[plain, &["volatile"]].concat()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            mount_overlay(lower, [&upper, &work], target, plain)
        }
        mounted => mounted,
    }
}

fn mount_overlay(lower: &[PathBuf], [upper, work]: [&Path; 2], target: &Path, flags: &[&str]) -> io::Result<()> {
    let mut options = OsString::from("lowerdir=");
    for (index, layer) in lower.iter().enumerate() {
        options.push(if index == 0 { "" } else { ":" });
        options.push(escaped(layer));
    }
    for (key, path) in [(",upperdir=", upper), (",workdir=", work)] {
        options.push(key);
        options.push(escaped(path));
    }
    for flag in flags {
        options.push(",");
        options.push(flag);
    }
    if options.len() <= OPTIONS_BYTES_MAX {
        return match options.to_str() {
            Some(options) => sys::mount("overlay", target, "overlay", 0, options),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "a layer's path is not UTF-8")),
        };
    }
    let mut settings: Vec<(&str, &std::ffi::OsStr)> =
        lower.iter().map(|layer| ("lowerdir+", layer.as_os_str())).collect();
    settings.extend([("upperdir", upper.as_os_str()), ("workdir", work.as_os_str())]);
    sys::move_mount(sys::file_system("overlay", &settings, flags)?, target)
}

/// Removes a writable layer, or a folder of several. The kernel keeps one folder in it that its owner may not enter.
pub fn remove_layer(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_folders(folder)?;
            fs::remove_dir_all(folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn open_folders(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

/// Colons and commas separate layers and options.
fn escaped(path: &Path) -> OsString {
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b',' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    OsString::from_vec(bytes)
}

/// Entries of a folder that are shown one by one; each costs a mount at the start and at the end.
const ENTRIES_MAX: usize = 256;

/// The machine's file systems, each below a writable layer of its own.
struct HostRoot<'a> {
    root: &'a Path,
    scratch: &'a Path,
    is_rootless: bool,
    mounts: Vec<(PathBuf, bool)>,
    overlays: usize,
    warnings: Vec<String>,
}

impl HostRoot<'_> {
    /// Shows what is at `path` of the machine at the same place of the new root.
    fn compose(&mut self, path: &Path) -> Result<(), Fault> {
        let target = self.root.join(path.strip_prefix("/").unwrap_or(path));
        let what = || format!("show the machine's {}", path.display());
        // Others' mounts come and go, and this user may not look at all of them.
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        if !path.is_dir() {
            return self.bind(path, &target).context(what);
        }
        let scratch = self.scratch.join(self.overlays.to_string());
        self.overlays += 1;
        match overlay(&[path.to_owned()], &scratch, &target, self.is_rootless) {
            Ok(()) => self.compose_mounts_below(path),
            // In a user namespace a folder with mounts below it cannot be a layer: its entries can.
            Err(error)
                if error.raw_os_error() == Some(libc::EINVAL)
                    && self.mounts.iter().any(|(m, _)| m.starts_with(path)) =>
            {
                let count = fs::read_dir(path).map_or(0, Iterator::count);
                if count <= ENTRIES_MAX {
                    return self.compose_entries(path, &target, &scratch);
                }
                self.compose_crowded(path, &target, &scratch)
            }
            Err(error) if path == Path::new("/") => Err(error).context(what),
            Err(error) => match self.bind(path, &target) {
                Ok(()) => Ok(()),
                Err(_) => {
                    self.warnings.push(format!("the machine's {} is not shown: {error}", path.display()));
                    Ok(())
                }
            },
        }
    }

    /// File systems that are mounted directly below `path`, with no other in between.
    fn compose_mounts_below(&mut self, path: &Path) -> Result<(), Fault> {
        let below: Vec<PathBuf> = self
            .mounts
            .iter()
            .filter(|(m, real)| *real && m != path && m.starts_with(path))
            .map(|(m, _)| m.clone())
            .collect();
        for mount in &below {
            let is_inside_another = below.iter().any(|other| other != mount && mount.starts_with(other));
            if !is_inside_another && !is_kernel_place(mount) {
                self.compose(mount)?;
            }
        }
        Ok(())
    }

    fn compose_entries(&mut self, path: &Path, target: &Path, scratch: &Path) -> Result<(), Fault> {
        let what = || format!("show the machine's {}", path.display());
        let own = scratch.join("folder");
        fs::create_dir_all(&own).context(what)?;
        let tree = sys::open_tree(None, &own).context(what)?;
        sys::move_mount(tree, target).context(what)?;
        // A folder that this user may not read stays empty: he could not look into it on the machine either.
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            entries => entries.context(what)?,
        };
        for entry in entries.flatten() {
            let shown = self.compose_entry(&entry, &target.join(entry.file_name()));
            let has_gone = shown.is_err() && entry.path().symlink_metadata().is_err();
            if !has_gone {
                shown?;
            }
        }
        Ok(())
    }

    /// A folder with too many entries: one for everybody's temporary files is there but empty, others are read-only.
    fn compose_crowded(&mut self, path: &Path, target: &Path, scratch: &Path) -> Result<(), Fault> {
        let what = || format!("show the machine's {}", path.display());
        let mode = fs::metadata(path).context(what)?.permissions().mode() & 0o7777;
        let (how, shown) = if mode == 0o1777 {
            let own = scratch.join("folder");
            fs::create_dir_all(&own).context(what)?;
            fs::set_permissions(&own, fs::Permissions::from_mode(mode)).context(what)?;
            ("empty", sys::open_tree(None, &own).and_then(|tree| sys::move_mount(tree, target)))
        } else {
            ("read-only", self.bind(path, target))
        };
        shown.context(what)?;
        let why = "it has many entries and mounts below it";
        self.warnings.push(format!("the machine's {} is shown {how}: {why}", path.display()));
        Ok(())
    }

    fn compose_entry(&mut self, entry: &fs::DirEntry, place: &Path) -> Result<(), Fault> {
        let path = entry.path();
        let what = || format!("show the machine's {}", path.display());
        let Ok(kind) = entry.file_type() else { return Ok(()) };
        if kind.is_symlink() {
            let link = fs::read_link(&path).context(what)?;
            match symlink(link, place) {
                // An attempt before this one came so far.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                made => made.context(what)?,
            }
        } else if kind.is_dir() {
            let mode = entry.metadata().map_or(0o755, |found| found.permissions().mode() & 0o7777);
            fs::create_dir_all(place).context(what)?;
            let _others_folder = fs::set_permissions(place, fs::Permissions::from_mode(mode));
            let is_pseudo = self.mounts.iter().any(|(m, real)| *m == path && !real);
            if !is_kernel_place(&path) && !is_pseudo {
                self.compose(&path)?;
            }
        } else if kind.is_file() {
            File::create(place).context(what)?;
            self.compose(&path)?;
        }
        Ok(())
    }

    fn bind(&self, path: &Path, target: &Path) -> io::Result<()> {
        let tree = sys::open_tree(None, path)?;
        sys::mount_setattr(&tree, true, MountAttributes { set: sys::MOUNT_ATTR_RDONLY, ..Default::default() })?;
        sys::move_mount(tree, target)
    }
}

/// Places that every container gets anew.
fn is_kernel_place(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|place| path.starts_with(place))
}

/// Mount points of the machine, and whether files are kept there.
fn machine_mounts(mountinfo: &str) -> Vec<(PathBuf, bool)> {
    const NO_FILES: [&str; 17] = [
        "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs", "fusectl",
        "hugetlbfs", "mqueue", "nsfs", "proc", "rpc_pipefs", "securityfs", "sysfs",
    ];
    let mut mounts: Vec<(PathBuf, bool)> = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next()) else { continue };
        let point = point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
        mounts.retain(|(known, _)| known.as_os_str() != point.as_str());
        mounts.push((point.into(), !NO_FILES.contains(&kind)));
    }
    mounts
}

fn hold(mount: &Mount) -> Result<Held<'_>, Fault> {
    let MountSource::Bind { path, sub_path } = &mount.source else {
        return Ok(Held { mount, tree: None, is_folder: true });
    };
    let what = || format!("mount {} at {}", path.display(), mount.target.display());
    let options = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
    let mut place: OwnedFd = options.context(what)?.into();
    if let Some(sub_path) = sub_path {
        let inside = format!("mount sub-path {} of {}", sub_path.display(), path.display());
        place = sys::open_beneath(&place, sub_path).context(|| inside)?;
    }
    let is_folder = File::from(place.try_clone().context(what)?).metadata().context(what)?.is_dir();
    let tree = sys::open_tree(Some(place.as_fd()), Path::new("")).context(what)?;
    let propagation = match mount.propagation {
        Propagation::None => libc::MS_PRIVATE,
        Propagation::HostToContainer => libc::MS_SLAVE,
        Propagation::Bidirectional => {
            let text =
                format!("mount {} asks for bidirectional propagation, which pods cannot have", mount.target.display());
            return Err(Fault::unsupported(text));
        }
    };
    let set = if mount.read_only { sys::MOUNT_ATTR_RDONLY } else { 0 };
    sys::mount_setattr(&tree, true, MountAttributes { set, propagation, ..Default::default() }).context(what)?;
    Ok(Held { mount, tree: Some(tree), is_folder })
}

fn put(held: Held<'_>) -> Result<(), Fault> {
    let target = absolute(&held.mount.target);
    let what = || format!("mount at {}", target.display());
    make_place(&target, held.is_folder).context(what)?;
    match (&held.mount.source, held.tree) {
        (MountSource::Tmpfs { bytes, mode }, _) => {
            let size = bytes.map_or(String::new(), |bytes| format!(",size={bytes}"));
            let flags = libc::MS_NOSUID | libc::MS_NODEV | if held.mount.read_only { libc::MS_RDONLY } else { 0 };
            sys::mount("tmpfs", &target, "tmpfs", flags, &format!("mode={mode:o}{size}")).context(what)
        }
        (MountSource::Bind { .. }, Some(tree)) => sys::move_mount(tree, &target).context(what),
        (MountSource::Bind { .. }, None) => Err(Fault::new(FaultKind::System, "a bind mount was not held")),
    }
}

/// The path from the root, without `..`.
fn absolute(path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    Path::new("/").join(parts.collect::<PathBuf>())
}

fn make_place(target: &Path, is_folder: bool) -> io::Result<()> {
    if target.exists() {
        return Ok(());
    }
    if is_folder {
        return fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(target).map(drop)
}

fn hold_cgroups(plan: &Plan<'_>) -> Result<Vec<(&'static str, OwnedFd)>, Fault> {
    let folders = plan.cgroup.map(Cgroup::v1_folders).unwrap_or_default();
    let mut held = Vec::new();
    for (controller, folder) in folders {
        let tree = sys::open_tree(None, &folder).context(|| format!("take the cgroup {}", folder.display()))?;
        let attributes = MountAttributes { set: sys::MOUNT_ATTR_RDONLY, ..Default::default() };
        sys::mount_setattr(&tree, true, attributes).context(|| "make the cgroup read-only".into())?;
        held.push((controller, tree));
    }
    Ok(held)
}

/// `/proc` and `/sys`. Done before the machine's own are dropped: in a user namespace the kernel wants to see those.
fn kernel_files(plan: &Plan<'_>, cgroups: Vec<(&'static str, OwnedFd)>) -> Result<(), Fault> {
    let (proc, sys_folder) = (Path::new("/proc"), Path::new("/sys"));
    for folder in [proc, sys_folder, Path::new("/dev")] {
        fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
    }
    sys::mount("proc", proc, "proc", NOSUID_NODEV_NOEXEC, "").context(|| "mount /proc".into())?;
    let read_only = if plan.container.process.privileged { 0 } else { libc::MS_RDONLY };
    let mounted = sys::mount("sysfs", sys_folder, "sysfs", NOSUID_NODEV_NOEXEC | read_only, "");
    match (mounted, plan.sandbox.mode) {
        // Without a network namespace of its own a user namespace may not mount it.
        (Err(_), Mode::Rootless) => {
            sys::mount("tmpfs", sys_folder, "tmpfs", NOSUID_NODEV_NOEXEC | read_only, "mode=755")
                .context(|| "mount /sys".into())?;
            return Ok(());
        }
        (mounted, _) => mounted.context(|| "mount /sys".into())?,
    }
    let groups = Path::new("/sys/fs/cgroup");
    if cgroups.is_empty() {
        if plan.cgroup.is_some() {
            sys::mount("cgroup", groups, "cgroup2", NOSUID_NODEV_NOEXEC | read_only, "")
                .context(|| "mount the cgroups".into())?;
        }
        return Ok(());
    }
    sys::mount("tmpfs", groups, "tmpfs", NOSUID_NODEV_NOEXEC, "mode=755").context(|| "mount the cgroups".into())?;
    for (controller, tree) in cgroups {
        let place = groups.join(controller);
        fs::create_dir_all(&place).context(|| format!("make {}", place.display()))?;
        sys::move_mount(tree, &place).context(|| format!("mount {}", place.display()))?;
    }
    Ok(())
}

enum HeldDevice {
    /// A node to make anew.
    Node { place: PathBuf, number: u64, is_block: bool, mode: u32 },
    /// The machine's own node, where new ones cannot be made.
    Tree { place: PathBuf, tree: OwnedFd },
}

fn hold_devices(plan: &Plan<'_>) -> Result<Vec<HeldDevice>, Fault> {
    let common = DEVICES.iter().map(|name| {
        let path = PathBuf::from("/dev").join(name);
        Device { host_path: path.clone(), container_path: path, access: "rwm".into() }
    });
    let mut devices: Vec<Device> = common.collect();
    if plan.container.process.privileged && plan.sandbox.mode == Mode::Root {
        devices.extend(machine_devices());
    }
    devices.extend(plan.container.devices.iter().cloned());
    devices.iter().map(|device| hold_device(device, plan.sandbox.mode)).collect()
}

fn machine_devices() -> Vec<Device> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let nodes = entries.filter(|entry| {
        let is_node = entry.file_type().is_ok_and(|kind| kind.is_char_device() || kind.is_block_device());
        is_node && entry.file_name() != "console" && entry.file_name() != "ptmx"
    });
    nodes.map(|entry| Device { host_path: entry.path(), container_path: entry.path(), access: "rwm".into() }).collect()
}

fn hold_device(device: &Device, mode: Mode) -> Result<HeldDevice, Fault> {
    let what = || format!("give the container the device {}", device.host_path.display());
    let found = fs::metadata(&device.host_path).context(what)?;
    let is_block = found.file_type().is_block_device();
    if !is_block && !found.file_type().is_char_device() {
        return Err(Fault::invalid(format!("{} is not a device", device.host_path.display())));
    }
    let place = absolute(&device.container_path);
    match mode {
        Mode::Root => Ok(HeldDevice::Node { place, number: found.rdev(), is_block, mode: found.mode() & 0o777 }),
        Mode::Rootless | Mode::Process => {
            Ok(HeldDevice::Tree { place, tree: sys::open_tree(None, &device.host_path).context(what)? })
        }
    }
}

fn device_files(plan: &Plan<'_>, devices: Vec<HeldDevice>, shm: OwnedFd) -> Result<(), Fault> {
    let dev = Path::new("/dev");
    sys::mount("tmpfs", dev, "tmpfs", libc::MS_NOSUID | libc::MS_NOEXEC, "mode=755,size=65536k")
        .context(|| "mount /dev".into())?;
    for device in devices {
        let (HeldDevice::Node { place, .. } | HeldDevice::Tree { place, .. }) = &device;
        let what = format!("make the device {}", place.display());
        put_device(device).context(|| what)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, dev.join(name)).context(|| format!("link /dev/{name}"))?;
    }
    for name in ["pts", "shm", "mqueue"] {
        fs::create_dir_all(dev.join(name)).context(|| format!("make /dev/{name}"))?;
    }
    // Group 5 is tty on all distributions; a user namespace may not map it.
    let group = if plan.sandbox.mode == Mode::Root { ",gid=5" } else { "" };
    let options = format!("newinstance,ptmxmode=0666,mode=0620{group}");
    sys::mount("devpts", &dev.join("pts"), "devpts", libc::MS_NOSUID | libc::MS_NOEXEC, &options)
        .context(|| "mount /dev/pts".into())?;
    sys::mount("mqueue", &dev.join("mqueue"), "mqueue", NOSUID_NODEV_NOEXEC, "")
        .context(|| "mount /dev/mqueue".into())?;
    sys::move_mount(shm, &dev.join("shm")).context(|| "mount /dev/shm".into())
}

fn put_device(device: HeldDevice) -> io::Result<()> {
    match device {
        HeldDevice::Node { place, number, is_block, mode } => {
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder)?;
            }
            match sys::make_device(&place, number, is_block) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made.and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(mode))),
            }
        }
        HeldDevice::Tree { place, tree } => {
            make_place(&place, false)?;
            sys::move_mount(tree, &place)
        }
    }
}

/// Covers what a container must not see, and makes read-only what it must not change; a privileged one may do both.
fn hide(plan: &Plan<'_>) -> Result<(), Fault> {
    let is_exempt = |path: &Path| plan.container.process.privileged && is_kernel_place(path);
    // The machine's files hold the pod's own folder, too, and in it the socket by which the shim takes orders.
    let own = matches!(plan.container.root, Root::Host { .. }).then(|| plan.folder.to_owned());
    for path in plan.container.masked_paths.iter().chain(&own).filter(|path| !is_exempt(path)) {
        let what = || format!("hide {}", path.display());
        let covered = match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                sys::mount("tmpfs", path, "tmpfs", libc::MS_RDONLY | NOSUID_NODEV_NOEXEC, "size=0")
            }
            Ok(_) => sys::open_tree(None, Path::new("/dev/null")).and_then(|null| sys::move_mount(null, path)),
            Err(_) => Ok(()),
        };
        covered.context(what)?;
    }
    for path in plan.container.read_only_paths.iter().filter(|path| !is_exempt(path) && path.exists()) {
        let what = || format!("make {} read-only", path.display());
        let tree = sys::open_tree(None, path).context(what)?;
        let attributes = MountAttributes { set: sys::MOUNT_ATTR_RDONLY, ..Default::default() };
        sys::mount_setattr(&tree, true, attributes).context(what)?;
        sys::move_mount(tree, path).context(what)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_paths_are_escaped() {
        assert_eq!(escaped(Path::new("/a:b,c\\d")), OsString::from("/a\\:b\\,c\\\\d"));
    }

    #[test]
    fn targets_cannot_leave_the_root() {
        assert_eq!(absolute(Path::new("../../etc/../passwd")), Path::new("/etc/passwd"));
    }

    #[test]
    fn the_last_mount_of_a_place_counts() {
        let mounts = machine_mounts(
            "22 1 8:1 / / rw - ext4 /dev/vda rw\n23 22 0:4 / /proc rw - proc proc rw\n\
             24 22 8:2 / /my\\040home rw - xfs /dev/b rw\n25 22 0:4 / /my\\040home rw - proc proc rw\n",
        );
        assert_eq!(mounts, [("/".into(), true), ("/proc".into(), false), ("/my home".into(), false)]);
    }
}
