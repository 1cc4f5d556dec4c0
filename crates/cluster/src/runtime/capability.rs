//! Capabilities by name, and the set that a container gets.

use super::spec::{Mode, Process};
use super::sys;
use super::wire::{Context, Fault};
use std::io;

/// In the kernel's order: a name's place is its number.
const NAMES: [&str; 41] = [
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
];

/// What containerd gives a container that asks for nothing.
const DEFAULT: [&str; 14] = [
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
];

fn bit(name: &str) -> Result<u64, Fault> {
    let upper = name.to_ascii_uppercase();
    let plain = upper.strip_prefix("CAP_").unwrap_or(&upper);
    match NAMES.iter().position(|known| *known == plain) {
        Some(number) => Ok(1 << number),
        None => Err(Fault::invalid(format!("unknown capability {name:?}"))),
    }
}

pub fn names(bits: u64) -> Vec<&'static str> {
    NAMES.iter().enumerate().filter(|(number, _)| bits & (1 << number) != 0).map(|(_, name)| *name).collect()
}

/// The set for the process; one that was asked for by name and cannot be had is an error.
pub fn allowed(process: &Process, mode: Mode, devices_are_limited: bool) -> Result<u64, Fault> {
    let permitted = sys::capabilities_permitted().context(|| "read this process's capabilities".into())?;
    let (wanted, named) = wanted(process, devices_are_limited || mode == Mode::Rootless)?;
    let lacking = named & !permitted;
    if lacking == 0 {
        return Ok(wanted & permitted);
    }
    let lacking = names(lacking).join(", ");
    Err(Fault::unsupported(format!("the container asks for {lacking}, which this machine does not allow to be given")))
}

/// The whole set, and the part of it that was asked for by name.
fn wanted(process: &Process, devices_are_limited: bool) -> Result<(u64, u64), Fault> {
    let all: u64 = (1 << NAMES.len()) - 1;
    if process.privileged {
        return Ok((all, 0));
    }
    let is_all = |name: &String| name.eq_ignore_ascii_case("ALL");
    let mut bits = 0;
    for name in DEFAULT {
        // Where no cgroup guards devices, making a node would be opening the device.
        if name != "MKNOD" || devices_are_limited {
            bits |= bit(name)?;
        }
    }
    if process.capabilities.add.iter().any(is_all) {
        bits = all;
    }
    if process.capabilities.drop.iter().any(is_all) {
        bits = 0;
    }
    let mut named = 0;
    for name in process.capabilities.add.iter().filter(|name| !is_all(name)) {
        named |= bit(name)?;
    }
    bits |= named;
    for name in process.capabilities.drop.iter().filter(|name| !is_all(name)) {
        bits &= !bit(name)?;
    }
    Ok((bits, named & bits))
}

/// Takes everything else away for good, from this process and what it execs.
pub fn bound(allowed: u64) -> io::Result<()> {
    for number in 0..64 {
        if allowed & (1 << number) != 0 {
            continue;
        }
        match sys::prctl(libc::PR_CAPBSET_DROP, number) {
            // The kernel knows no such number, nor any after it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            dropped => dropped?,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::spec::CapabilityChange;
    use super::*;

    fn set(add: &[&str], drop: &[&str]) -> Vec<&'static str> {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let capabilities = CapabilityChange { add: list(add), drop: list(drop) };
        names(wanted(&Process { capabilities, ..Process::new(["true"]) }, true).unwrap().0)
    }

    #[test]
    fn nothing_asked_for_gives_the_default_set() {
        assert_eq!(set(&[], &[]).len(), DEFAULT.len());
    }

    #[test]
    fn all_dropped_and_one_added_leaves_one() {
        assert_eq!(set(&["CAP_NET_ADMIN"], &["ALL"]), ["NET_ADMIN"]);
    }

    #[test]
    fn all_added_and_one_dropped_lacks_one() {
        let names = set(&["all"], &["SYS_ADMIN"]);
        assert!(names.len() == NAMES.len() - 1 && !names.contains(&"SYS_ADMIN"));
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert!(bit("FLY").is_err());
    }
}
