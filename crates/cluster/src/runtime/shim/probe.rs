//! Tells what the machine allows, by trying it: each attempt is made in a child that ends with it.

use super::pod;
use crate::runtime::cgroup::Layout;
use crate::runtime::spec::{Mode, Resources};
use crate::runtime::sys::{self, Ended};
use crate::runtime::wire::{Context, Fault, FaultKind};
use crate::runtime::{Capabilities, rootfs};
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Prints the capabilities; `folder` is where pods will be kept.
pub fn main(folder: &Path) -> i32 {
    let found = find(folder);
    println!("{}", serde_json::to_string(&found).unwrap_or_default());
    0
}

fn find(folder: &Path) -> Capabilities {
    let mut lacks = Vec::new();
    let is_root = sys::ids().0 == 0;
    if is_root {
        match attempt(folder, Mode::Root) {
            Ok(()) => {
                lacks.extend(lacks_of_root());
                return Capabilities { mode: Mode::Root, cgroups: Layout::find().describe().into(), lacks };
            }
            Err(fault) => lacks.push(format!("containers as root: {fault}")),
        }
    }
    match attempt(folder, Mode::Rootless) {
        Ok(()) => {
            lacks.push("a network of the pod's own: pods share the machine's".into());
            lacks.push("limits on cpu, memory and processes: no cgroup is delegated to this user".into());
            lacks.push("devices other than those this user may open".into());
            Capabilities { mode: Mode::Rootless, cgroups: "none".into(), lacks }
        }
        Err(fault) => {
            lacks.push(format!("user namespaces: {fault}"));
            let missing = [
                "images: only `host` runs",
                "isolation: pods see the machine's files, processes and network, and may write what this user may write",
                "volumes, limits, capabilities, users other than this one",
                "certain death: a process that leaves its session and clears its environment may outlive its pod",
            ];
            lacks.extend(missing.map(str::to_owned));
            Capabilities { mode: Mode::Process, cgroups: "none".into(), lacks }
        }
    }
}

fn lacks_of_root() -> Vec<String> {
    let mut lacks = Vec::new();
    let layout = Layout::find();
    for (controller, what) in [("cpu", "cpu limits"), ("memory", "memory limits"), ("pids", "limits on processes")] {
        if !layout.has(controller) {
            lacks.push(format!("{what}: the machine has no {controller} cgroup controller"));
        }
    }
    let group = format!("volley-probe-{}", std::process::id());
    match layout.create(Path::new(&group), &Resources::default()) {
        Ok(cgroup) => drop(cgroup.remove()),
        Err(fault) => lacks.push(format!("limits: {fault}")),
    }
    let permitted = sys::capabilities_permitted().unwrap_or(0);
    let all = (1u64 << 41) - 1;
    let missing = crate::runtime::capability::names(all & !permitted);
    if !missing.is_empty() {
        lacks.push(format!("capabilities that this process has not: {}", missing.join(", ")));
    }
    lacks
}

/// Tries the mode in a child, whose mounts go with it.
fn attempt(folder: &Path, mode: Mode) -> Result<(), Fault> {
    let scratch = folder.join(format!("probe-{}", std::process::id()));
    let tried = in_child(|| contain(&scratch, mode));
    let _left_by_none = rootfs::remove_layer(&scratch);
    tried
}

fn in_child(trial: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    let what = || "try containers".to_owned();
    let (read, write) = sys::pipe().context(what)?;
    match sys::fork().context(what)? {
        None => {
            let text = trial().err().map(|fault| fault.text).unwrap_or_default();
            let _parent_reads = sys::write(&write, text.as_bytes());
            sys::exit_now(i32::from(!text.is_empty()))
        }
        Some(pid) => {
            drop(write);
            let text = read_all(read);
            match sys::wait_for(pid).context(what)? {
                Ended::Exited(0) => Ok(()),
                _ => Err(Fault::new(FaultKind::Unsupported, text)),
            }
        }
    }
}

fn read_all(fd: OwnedFd) -> String {
    let mut text = String::new();
    let _broken_is_empty = fs::File::from(fd).read_to_string(&mut text);
    text
}

/// Does what a container needs most: namespaces, an overlay, a fresh `/proc`.
fn contain(scratch: &Path, mode: Mode) -> Result<(), Fault> {
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(scratch.join(name)).context(|| format!("make {}", scratch.display()))?;
    }
    if mode == Mode::Rootless {
        pod::enter_user_namespace()?;
    }
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    sys::unshare(flags).context(|| "make namespaces".into())?;
    let pid = sys::fork().context(|| "start a process".into())?;
    if let Some(pid) = pid {
        return match sys::wait_for(pid).context(|| "wait for a process".into())? {
            Ended::Exited(0) => Ok(()),
            Ended::Exited(1) => Err(Fault::unsupported("a fresh /proc cannot be mounted")),
            Ended::Exited(2) => Err(Fault::unsupported("overlay file systems cannot be mounted")),
            other => Err(Fault::unsupported(format!("the first process of a PID namespace ended: {other:?}"))),
        };
    }
    let at = |name: &str| scratch.join(name).display().to_string();
    let extra = if mode == Mode::Rootless { ",userxattr" } else { "" };
    let options = format!("lowerdir={},upperdir={},workdir={}{extra}", at("lower"), at("upper"), at("work"));
    let is_separate = sys::mount("", Path::new("/"), "", libc::MS_REC | libc::MS_SLAVE, "").is_ok();
    let has_proc = is_separate && sys::mount("proc", &scratch.join("merged"), "proc", 0, "").is_ok();
    let has_overlay = sys::mount("overlay", &scratch.join("merged"), "overlay", 0, &options).is_ok();
    sys::exit_now(if !has_proc {
        1
    } else if !has_overlay {
        2
    } else {
        0
    })
}
