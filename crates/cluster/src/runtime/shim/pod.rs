//! The pod's own namespaces: the shim enters them once, and every container inherits them.
//!
//! The shim is the first process of the pod's PID namespace, so the kernel ends the whole pod with it, whatever its processes
//! have made of themselves. Its mounts, network and interfaces go the same way.

use crate::runtime::network::{self, Netlink};
use crate::runtime::spec::{Mode, Network, Sandbox};
use crate::runtime::sys::{self, Ended};
use crate::runtime::wire::{self, Context, Fault};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes the namespaces and enters them. The caller's process ends here; what returns is a child of it.
pub fn enter(sandbox: &Sandbox, folder: &Path) -> Result<(), Fault> {
    check(sandbox)?;
    for name in [wire::ROOT, wire::SHM] {
        fs::create_dir_all(folder.join(name)).context(|| format!("make {name} in the pod's folder"))?;
    }
    if sandbox.mode == Mode::Process {
        return sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map(drop).context(|| "adopt orphans".into());
    }
    let machine = matches!(sandbox.network, Network::Bridge(_)).then(Netlink::open).transpose()?;
    if sandbox.mode == Mode::Rootless {
        enter_user_namespace()?;
    }
    sys::unshare(namespaces(sandbox)).context(|| "make the pod's namespaces".into())?;
    if sandbox.isolates_pids() {
        let child = sys::fork().context(|| "start the pod's first process".into())?;
        if child.is_some() {
            sys::exit_now(0);
        }
    } else {
        sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).context(|| "adopt orphans".into())?;
    }
    sys::mount("", Path::new("/"), "", libc::MS_REC | libc::MS_SLAVE, "").context(|| "separate the mounts".into())?;
    let shm = format!("mode=1777,size={}", sandbox.shm_bytes);
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    sys::mount("shm", &folder.join(wire::SHM), "tmpfs", flags, &shm)
        .context(|| "make the pod's shared memory".into())?;
    sys::sethostname(&sandbox.hostname).context(|| format!("set the host name {:?}", sandbox.hostname))?;
    set_network(sandbox, machine.as_ref())?;
    for (name, value) in &sandbox.sysctls {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        fs::write(&path, value).context(|| format!("set the sysctl {name} to {value}"))?;
    }
    Ok(())
}

fn check(sandbox: &Sandbox) -> Result<(), Fault> {
    let lacks = |what: &str| Err(Fault::unsupported(format!("{what} cannot be had in the {:?} mode", sandbox.mode)));
    match (sandbox.mode, &sandbox.network) {
        (Mode::Rootless, Network::Bridge(_)) => return lacks("a network on the bridge"),
        (Mode::Process, Network::Bridge(_) | Network::Loopback) => return lacks("a network of the pod's own"),
        _ => {}
    }
    if sandbox.mode == Mode::Process && sandbox.share_pids {
        return lacks("a PID namespace of the pod's own");
    }
    if sandbox.mode == Mode::Process && !sandbox.sysctls.is_empty() {
        return lacks("sysctls of the pod's own");
    }
    let owns_network = sandbox.network != Network::Host;
    for name in sandbox.sysctls.keys() {
        let is_ipc =
            ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."].iter().any(|start| name.starts_with(start));
        let is_own = name.starts_with("net.") && owns_network || is_ipc && !sandbox.host_ipc;
        if !is_own || name.contains("..") || name.contains('/') {
            return Err(Fault::unsupported(format!("the sysctl {name} is not one of the pod's own namespaces")));
        }
    }
    Ok(())
}

fn namespaces(sandbox: &Sandbox) -> libc::c_int {
    let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWUTS;
    if sandbox.isolates_pids() {
        flags |= libc::CLONE_NEWPID;
    }
    if !sandbox.host_ipc {
        flags |= libc::CLONE_NEWIPC;
    }
    if sandbox.network != Network::Host {
        flags |= libc::CLONE_NEWNET;
    }
    flags
}

fn set_network(sandbox: &Sandbox, machine: Option<&Netlink>) -> Result<(), Fault> {
    match (&sandbox.network, machine) {
        (Network::Host, _) => Ok(()),
        (Network::Bridge(port), Some(machine)) => {
            let pod = Netlink::open()?;
            pod.loopback()?;
            network::connect(machine, &pod, port, &sandbox.id)
        }
        (Network::Loopback | Network::Bridge(_), _) => Netlink::open()?.loopback(),
    }
}

/// Becomes root of a new user namespace. With subordinate ids the namespace has 65536 users, without them only this one.
pub fn enter_user_namespace() -> Result<(), Fault> {
    let (uid, gid) = sys::ids();
    let what = || "make a user namespace".to_owned();
    let ranges = subordinate("/etc/subuid", uid).zip(subordinate("/etc/subgid", uid));
    let (asked, ask) = sys::pipe().context(what)?;
    let parent = std::process::id();
    // Only a process outside the namespace may write a map of many ids, by the machine's setuid helpers.
    let helper = match ranges {
        None => None,
        Some((users, groups)) => match sys::fork().context(what)? {
            Some(pid) => Some(pid),
            None => {
                drop(ask);
                let _end = sys::read(&asked, &mut [0]);
                let map = |tool: &str, own: u32, (first, count): (u32, u32)| {
                    let numbers = [parent, 0, own, 1, 1, first, count].map(|number| number.to_string());
                    Command::new(tool).args(numbers).status().is_ok_and(|status| status.success())
                };
                let is_mapped = map("newuidmap", uid, users) && map("newgidmap", gid, groups);
                sys::exit_now(i32::from(!is_mapped))
            }
        },
    };
    drop(asked);
    sys::unshare(libc::CLONE_NEWUSER).context(what)?;
    drop(ask);
    let is_mapped = helper.is_some_and(|helper| sys::wait_for(helper).is_ok_and(|ended| ended == Ended::Exited(0)));
    if !is_mapped {
        fs::write("/proc/self/setgroups", "deny").context(what)?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1")).context(what)?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1")).context(what)?;
    }
    sys::set_group(0).context(what)?;
    sys::set_user(0).context(what)
}

/// The first range that the file gives the user, by number or name.
fn subordinate(path: &str, uid: u32) -> Option<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let has_uid = |line: &&str| line.split(':').nth(2) == Some(uid.to_string().as_str());
    let name = passwd.lines().find(has_uid).and_then(|line| line.split(':').next().map(str::to_owned));
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_own = fields.first().is_some_and(|who| *who == uid.to_string() || Some(*who) == name.as_deref());
        is_own.then(|| Some((fields.get(1)?.parse().ok()?, fields.get(2)?.parse::<u32>().ok()?.min(65_535))))?
    })
}
