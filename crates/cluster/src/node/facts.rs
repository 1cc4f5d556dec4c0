//! Reads the machine: once what it is (`read`), and again and again what is left of it (`Gauges`).
//!
//! Inside a container or a slice, the limits of volley's own cgroup and of those around it are the machine.

use crate::apiserver::bootstrap::own_address;
use crate::apiserver::discovery::{arch, kubelet_version};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use volley_plan::node::machine::Facts;
use volley_plan::node::pressure::{Level, Reading};

/// What the machine is. `home` is on the disk that pods write to.
pub fn read(home: &Path) -> Facts {
    let limits = own_limits();
    let system = content("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
    let cpu_milli = cpu_count() * 1000;
    let memory_bytes = memory("MemTotal").unwrap_or(0);
    Facts {
        name: host_name(),
        address: own_address(),
        cpu_milli: limits.cpu_milli.map_or(cpu_milli, |limit| limit.min(cpu_milli)),
        memory_bytes: limits.memory.map_or(memory_bytes, |limit| limit.bytes.min(memory_bytes)),
        disk_bytes: disk(home).0.map_or(0, |level| level.capacity),
        huge_page_bytes: huge_pages(),
        architecture: arch().to_owned(),
        kernel: content("/proc/sys/kernel/osrelease"),
        system: system.trim_matches('"').to_owned(),
        machine_id: content("/etc/machine-id"),
        boot_id: content("/proc/sys/kernel/random/boot_id"),
        kubelet_version: kubelet_version(),
        volley_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// What is left, read anew at each call: a few small files and one system call.
#[derive(Debug)]
pub struct Gauges {
    home: PathBuf,
    memory_limit: Option<MemoryLimit>,
}

impl Gauges {
    pub fn new(home: &Path) -> Gauges {
        Gauges { home: home.to_owned(), memory_limit: own_limits().memory }
    }

    pub fn read(&self) -> Reading {
        let (disk, inodes) = disk(&self.home);
        Reading { memory: self.memory(), disk, inodes, pids: pids() }
    }

    fn memory(&self) -> Option<Level> {
        let machine = Level { available: memory("MemAvailable")?, capacity: memory("MemTotal")? };
        let own = self.memory_limit.as_ref().and_then(MemoryLimit::level);
        Some(own.filter(|own| own.available < machine.available).unwrap_or(machine))
    }
}

fn content(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn number(path: impl AsRef<Path>) -> Option<i64> {
    content(path).parse().ok()
}

/// The host's name as a name of an object.
fn host_name() -> String {
    let name = content("/proc/sys/kernel/hostname").to_lowercase();
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.chars().map(legal).collect();
    match name.trim_matches(['-', '.']) {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// A row of `/proc/meminfo` in bytes.
fn memory(row: &str) -> Option<i64> {
    let text = content("/proc/meminfo");
    let rest = text.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(':'))?;
    rest.trim().trim_end_matches(" kB").parse::<i64>().ok().map(|kib| kib * 1024)
}

/// The processors that this process may run on: `Cpus_allowed_list: 0-3,8`.
fn cpu_count() -> i64 {
    let status = content("/proc/self/status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (i64, i64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(last - first + 1)
    };
    list.split(',').filter_map(count).sum::<i64>().max(1)
}

fn huge_pages() -> BTreeMap<i64, i64> {
    let folders = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let row = |folder: fs::DirEntry| {
        let name = folder.file_name().into_string().ok()?;
        let page = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<i64>().ok()? * 1024;
        Some((page, number(folder.path().join("nr_hugepages"))? * page))
    };
    folders.filter_map(row).collect()
}

/// Bytes and inodes of the disk that `path` is on; some file systems do not count inodes.
fn disk(path: &Path) -> (Option<Level>, Option<Level>) {
    let Ok(disk) = rustix::fs::statvfs(path) else { return (None, None) };
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let bytes = |blocks: u64| whole(blocks.saturating_mul(disk.f_frsize));
    let space = Level { available: bytes(disk.f_bavail), capacity: bytes(disk.f_blocks) };
    let inodes = Level { available: whole(disk.f_favail), capacity: whole(disk.f_files) };
    (Some(space), Some(inodes).filter(|inodes| inodes.capacity > 0))
}

/// Tasks that may still be made; `/proc/loadavg` says `0.20 0.18 0.12 1/80 11206`.
fn pids() -> Option<Level> {
    let limit = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"].into_iter().filter_map(number).min()?;
    let load = content("/proc/loadavg");
    let tasks: i64 = load.split(' ').nth(3)?.split_once('/')?.1.parse().ok()?;
    Some(Level { available: (limit - tasks).max(0), capacity: limit })
}

/// The tightest limits of this process's cgroup and the groups around it.
#[derive(Debug, Default)]
struct Limits {
    cpu_milli: Option<i64>,
    memory: Option<MemoryLimit>,
}

#[derive(Debug)]
struct MemoryLimit {
    bytes: i64,
    folder: PathBuf,
}

impl MemoryLimit {
    /// As the kubelet reckons: file pages that were not used lately can be had back at once.
    fn level(&self) -> Option<Level> {
        let used = ["memory.current", "memory.usage_in_bytes"];
        let used = used.into_iter().find_map(|file| number(self.folder.join(file)))?;
        let rows = content(self.folder.join("memory.stat"));
        let row = |name: &str| rows.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        let idle: i64 = row("total_inactive_file").or_else(|| row("inactive_file")).unwrap_or(0);
        Some(Level { available: (self.bytes - (used - idle).max(0)).max(0), capacity: self.bytes })
    }
}

fn own_limits() -> Limits {
    limits(&content("/proc/self/mountinfo"), &content("/proc/self/cgroup"))
}

fn limits(mounts: &str, groups: &str) -> Limits {
    let mut limits = Limits::default();
    for line in mounts.lines() {
        let Some((folder, top)) = own_group(line, groups) else { continue };
        for folder in folder.ancestors().take_while(|folder| folder.starts_with(&top)) {
            if let Some(milli) = cpu_limit(folder) {
                limits.cpu_milli = Some(limits.cpu_milli.map_or(milli, |known| known.min(milli)));
            }
            let is_tighter = |bytes: &i64| limits.memory.as_ref().is_none_or(|known| *bytes < known.bytes);
            if let Some(bytes) = memory_limit(folder).filter(is_tighter) {
                limits.memory = Some(MemoryLimit { bytes, folder: folder.to_owned() });
            }
        }
    }
    limits
}

/// If the line of `mountinfo` is a hierarchy of cgroups: the folder of this process's group, and where it is mounted.
fn own_group(line: &str, groups: &str) -> Option<(PathBuf, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    let (root, top) = (left.get(3)?, PathBuf::from(left.get(4)?));
    let is_here = |controllers: &str| match *right.first()? {
        "cgroup2" => controllers.is_empty().then_some(()),
        "cgroup" => {
            let options = right.get(2)?;
            let is_listed = |name: &str| !name.is_empty() && options.split(',').any(|option| option == name);
            controllers.split(',').any(is_listed).then_some(())
        }
        _ => None,
    };
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        is_here(controllers).map(|()| path)
    })?;
    // Without a cgroup namespace of its own, a container sees the whole path but only its own part of the tree.
    let below = Path::new(path).strip_prefix(root).ok().or_else(|| Path::new(path).strip_prefix("/").ok())?;
    let folder = top.join(below);
    Some(if folder.is_dir() { (folder, top) } else { (top.clone(), top) })
}

fn cpu_limit(folder: &Path) -> Option<i64> {
    let unified = content(folder.join("cpu.max"));
    let (quota, period): (i64, i64) = match unified.split_once(' ') {
        Some((quota, period)) => (quota.parse().ok()?, period.parse().ok()?),
        None => (number(folder.join("cpu.cfs_quota_us"))?, number(folder.join("cpu.cfs_period_us"))?),
    };
    (quota > 0 && period > 0).then(|| (quota.saturating_mul(1000) / period).max(1))
}

/// `max`, or a number near the largest one, is no limit; the machine's size then is the smaller one.
fn memory_limit(folder: &Path) -> Option<i64> {
    ["memory.max", "memory.limit_in_bytes"].into_iter().find_map(|file| number(folder.join(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_processors_memory_and_a_disk() {
        let home = tempfile::tempdir().unwrap();
        let facts = read(home.path());
        assert!(!facts.name.is_empty() && facts.cpu_milli >= 1);
        assert!(facts.memory_bytes > 0 && facts.disk_bytes > 0);
        let reading = Gauges::new(home.path()).read();
        let (memory, pids) = (reading.memory.unwrap(), reading.pids.unwrap());
        assert!(memory.available <= memory.capacity && pids.available < pids.capacity);
        assert!(reading.disk.unwrap().capacity >= facts.disk_bytes);
    }

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_counts_in_version_two() {
        let top = tempfile::tempdir().unwrap();
        write(&top.path().join("a"), &[("cpu.max", "150000 100000\n"), ("memory.max", "max\n")]);
        let own = top.path().join("a/b");
        write(&own, &[("cpu.max", "max 100000\n"), ("memory.max", "1000\n"), ("memory.current", "700\n")]);
        write(&own, &[("memory.stat", "anon 5\ninactive_file 100\n")]);
        let mounts = format!("30 20 0:26 / {} rw - cgroup2 cgroup2 rw", top.path().display());
        let found = limits(&mounts, "0::/a/b");
        assert_eq!(found.cpu_milli, Some(1500));
        let memory = found.memory.unwrap();
        assert_eq!(memory.level(), Some(Level { available: 400, capacity: 1000 }));
    }

    #[test]
    fn a_container_that_sees_only_its_part_of_version_one_is_limited_too() {
        let top = tempfile::tempdir().unwrap();
        write(top.path(), &[("cpu.cfs_quota_us", "50000"), ("cpu.cfs_period_us", "100000")]);
        let mounts = format!("30 20 0:26 /box/1 {} rw - cgroup cgroup rw,cpu,cpuacct", top.path().display());
        let found = limits(&mounts, "4:memory:/\n2:cpu,cpuacct:/box/1\n0::/");
        assert_eq!(found.cpu_milli, Some(500));
        assert!(found.memory.is_none());
    }
}
