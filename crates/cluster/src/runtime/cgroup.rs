//! Limits and readings by cgroups: version 1, version 2 and both at once (each controller is taken where it is mounted).
//!
//! The shim makes one group per container below the pod's own, and removes both; the node only reads.

use super::spec::{Device, Resources};
use super::wire::{Context, Fault, Stats};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How often a group is made again because its parent went away; each time another pod's last group ended just then.
const MAKE_TRIES_MAX: usize = 64;

/// The controllers that containers are put under.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "devices"];
const PERIOD_US: u64 = 100_000;
/// A group stays busy for a moment after its last process was reaped.
const REMOVE_TRIES_MAX: u32 = 500;

/// Where this machine's controllers are mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    v1: BTreeMap<&'static str, PathBuf>,
    v2: Option<PathBuf>,
    v2_controllers: BTreeSet<&'static str>,
}

impl Layout {
    pub fn find() -> Layout {
        let mut layout = Layout::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        if let Some(unified) = &layout.v2 {
            let present = fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default();
            let present: BTreeSet<&str> = present.split_ascii_whitespace().collect();
            layout.v2_controllers = CONTROLLERS.into_iter().filter(|name| present.contains(name)).collect();
            // Version 2 counts processor time without being asked to.
            if layout.v2_controllers.contains("cpu") {
                layout.v2_controllers.insert("cpuacct");
            }
        }
        layout
    }

    fn parse(mountinfo: &str) -> Layout {
        let mut layout = Layout::default();
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let right: Vec<&str> = right.split(' ').collect();
            let Some(mount) = left.split(' ').nth(4).map(PathBuf::from) else { continue };
            match right.first() {
                Some(&"cgroup2") => layout.v2 = layout.v2.or(Some(mount)),
                Some(&"cgroup") => {
                    let options: BTreeSet<&str> = right.get(2).unwrap_or(&"").split(',').collect();
                    let found = CONTROLLERS.into_iter().filter(|name| options.contains(name));
                    layout.v1.extend(found.map(|name| (name, mount.clone())));
                }
                _ => {}
            }
        }
        layout
    }

    pub fn describe(&self) -> &'static str {
        match (self.v1.is_empty(), &self.v2) {
            (true, None) => "none",
            (true, Some(_)) => "v2",
            (false, None) => "v1",
            (false, Some(_)) => "hybrid",
        }
    }

    /// Device rules are enforced here by a controller; elsewhere by withholding `MKNOD`.
    pub fn limits_devices(&self) -> bool {
        self.v1.contains_key("devices")
    }

    pub fn has(&self, controller: &str) -> bool {
        self.v1.contains_key(controller) || self.v2_controllers.contains(controller)
    }

    /// The group's folders, each once: version 1 mounts may hold several controllers.
    fn folders(&self, group: &Path) -> BTreeSet<PathBuf> {
        let v1 = self.v1.values().map(|mount| mount.join(group));
        let v2 = self.v2.iter().filter(|_| !self.v2_controllers.is_empty()).map(|mount| mount.join(group));
        v1.chain(v2).collect()
    }

    /// Makes the group with its limits. `group` is relative to the root of each controller.
    pub fn create(&self, group: &Path, resources: &Resources) -> Result<Cgroup, Fault> {
        self.check(resources)?;
        if let Some(unified) = self.v2.as_ref().filter(|_| !self.v2_controllers.is_empty()) {
            self.hand_down(unified, group)?;
        }
        let cgroup = Cgroup { layout: self.clone(), group: group.to_owned() };
        for folder in self.folders(group) {
            again_when_gone(|| fs::create_dir_all(&folder))
                .context(|| format!("make the cgroup {}", folder.display()))?;
        }
        cgroup.limit(resources)?;
        Ok(cgroup)
    }

    fn check(&self, resources: &Resources) -> Result<(), Fault> {
        let wanted = [
            ("cpu", resources.cpu_shares.is_some() || resources.cpu_quota_us.is_some()),
            ("memory", resources.memory_bytes.is_some()),
            ("pids", resources.pids.is_some()),
        ];
        match wanted.iter().find(|(name, is_wanted)| *is_wanted && !self.has(name)) {
            Some((name, _)) => Err(Fault::unsupported(format!(
                "a {name} limit was asked for, but the machine has no {name} cgroup controller"
            ))),
            None => Ok(()),
        }
    }

    /// Switches the controllers on for the group, from the top down.
    fn hand_down(&self, unified: &Path, group: &Path) -> Result<(), Fault> {
        let names = self.v2_controllers.iter().filter(|name| **name != "cpuacct");
        let wanted: Vec<String> = names.map(|name| format!("+{name}")).collect();
        let made = again_when_gone(|| {
            let mut folder = unified.to_owned();
            for part in group.components() {
                fs::write(folder.join("cgroup.subtree_control"), wanted.join(" "))?;
                folder.push(part);
                fs::create_dir_all(&folder)?;
            }
            Ok(())
        });
        made.context(|| format!("make the cgroup {} with its controllers", unified.join(group).display()))
    }
}

/// Tries again when a folder vanished in between: whoever removes the last pod of a parent group removes the parent too.
fn again_when_gone(mut make: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut made = make();
    for _ in 0..MAKE_TRIES_MAX {
        match &made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made = make(),
            _ => break,
        }
    }
    made
}

/// One container's or pod's group.
#[derive(Debug, Clone)]
pub struct Cgroup {
    layout: Layout,
    group: PathBuf,
}

impl Cgroup {
    /// The group that a shim made earlier.
    pub fn existing(layout: &Layout, group: &Path) -> Cgroup {
        Cgroup { layout: layout.clone(), group: group.to_owned() }
    }

    fn v1_file(&self, controller: &str, name: &str) -> Option<PathBuf> {
        Some(self.layout.v1.get(controller)?.join(&self.group).join(name))
    }

    fn v2_file(&self, controller: &str, name: &str) -> Option<PathBuf> {
        let unified = self.layout.v2.as_ref().filter(|_| self.layout.v2_controllers.contains(controller))?;
        Some(unified.join(&self.group).join(name))
    }

    fn limit(&self, resources: &Resources) -> Result<(), Fault> {
        let mut writes: Vec<(Option<PathBuf>, String)> = Vec::new();
        if let Some(shares) = resources.cpu_shares.map(|shares| shares.clamp(2, 262_144)) {
            // The kubelet's mapping of shares (2 to 262144) to weights (1 to 10000).
            let weight = 1 + (shares - 2) * 9999 / 262_142;
            writes.push((self.v1_file("cpu", "cpu.shares"), shares.to_string()));
            writes.push((self.v2_file("cpu", "cpu.weight"), weight.to_string()));
        }
        if let Some(quota) = resources.cpu_quota_us {
            writes.push((self.v1_file("cpu", "cpu.cfs_period_us"), PERIOD_US.to_string()));
            writes.push((self.v1_file("cpu", "cpu.cfs_quota_us"), quota.to_string()));
            writes.push((self.v2_file("cpu", "cpu.max"), format!("{quota} {PERIOD_US}")));
        }
        if let Some(pids) = resources.pids {
            writes.push((self.v1_file("pids", "pids.max"), pids.to_string()));
            writes.push((self.v2_file("pids", "pids.max"), pids.to_string()));
        }
        if let Some(memory) = resources.memory_bytes {
            writes.push((self.v1_file("memory", "memory.limit_in_bytes"), memory.to_string()));
            // Swap is not part of what was asked for; kernels without swap accounting lack these files.
            let optional = |file: Option<PathBuf>| file.filter(|path| path.exists());
            writes.push((optional(self.v1_file("memory", "memory.memsw.limit_in_bytes")), memory.to_string()));
            writes.push((self.v2_file("memory", "memory.max"), memory.to_string()));
            writes.push((optional(self.v2_file("memory", "memory.swap.max")), "0".into()));
            writes.push((optional(self.v2_file("memory", "memory.oom.group")), "1".into()));
        }
        for (path, value) in writes.into_iter().filter_map(|(path, value)| Some((path?, value))) {
            fs::write(&path, &value).context(|| format!("write {value} to {}", path.display()))?;
        }
        Ok(())
    }

    /// Lifts the processor limits of the group and of the pod's above it, for those who were killed: thousands of them
    /// (a fork bomb) would need minutes of a small share to die.
    pub fn hasten(&self) {
        let above = self.group.parent().map(|pod| Cgroup { layout: self.layout.clone(), group: pod.to_owned() });
        for group in std::iter::once(self).chain(&above) {
            let files = [(group.v1_file("cpu", "cpu.cfs_quota_us"), "-1"), (group.v2_file("cpu", "cpu.max"), "max")];
            for (path, value) in files.into_iter().filter_map(|(path, value)| Some((path?, value))) {
                let _dies_slowly_then = fs::write(path, value);
            }
        }
    }

    /// Allows the devices that every container has, and `devices`; nothing else can be opened afterwards.
    pub fn limit_devices(&self, devices: &[Device]) -> Result<(), Fault> {
        let Some(deny) = self.v1_file("devices", "devices.deny") else { return Ok(()) };
        let allow = deny.with_file_name("devices.allow");
        // Making nodes is harmless where opening them is not allowed: null, zero, full, random, urandom, tty, ptmx, terminals.
        let common =
            "c *:* m,b *:* m,c 1:3 rwm,c 1:5 rwm,c 1:7 rwm,c 1:8 rwm,c 1:9 rwm,c 5:0 rwm,c 5:2 rwm,c 136:* rwm";
        let mut rules: Vec<String> = common.split(',').map(str::to_owned).collect();
        for device in devices {
            rules.push(device_rule(device)?);
        }
        fs::write(&deny, "a").context(|| format!("write to {}", deny.display()))?;
        for rule in rules {
            fs::write(&allow, &rule).context(|| format!("write {rule} to {}", allow.display()))?;
        }
        Ok(())
    }

    /// Moves this process into the group.
    pub fn join(&self) -> Result<(), Fault> {
        for folder in self.layout.folders(&self.group) {
            let procs = folder.join("cgroup.procs");
            fs::write(&procs, "0").context(|| format!("join the cgroup {}", folder.display()))?;
        }
        Ok(())
    }

    /// Numbers of the group's processes, as this process's PID namespace counts them.
    pub fn processes(&self) -> Vec<i32> {
        let folder = self.layout.folders(&self.group).into_iter().next();
        let text = folder.and_then(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok()).unwrap_or_default();
        // A zero is a process of a namespace that cannot be seen from here.
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
    }

    pub fn oom_kills(&self) -> u64 {
        let v1 = self.v1_file("memory", "memory.oom_control");
        let file = v1.or_else(|| self.v2_file("memory", "memory.events"));
        file.map_or(0, |path| keyed(&path, "oom_kill"))
    }

    pub fn stats(&self) -> Stats {
        let number = |file: Option<PathBuf>| -> u64 {
            file.and_then(|path| fs::read_to_string(path).ok()).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let usage_file = |v1: &str, v2: &str| self.v1_file("memory", v1).or_else(|| self.v2_file("memory", v2));
        let memory_usage_bytes = number(usage_file("memory.usage_in_bytes", "memory.current"));
        let inactive_key = if self.layout.v1.contains_key("memory") { "total_inactive_file" } else { "inactive_file" };
        let inactive = usage_file("memory.stat", "memory.stat").map_or(0, |path| keyed(&path, inactive_key));
        let cpu_usage_ns = match self.v1_file("cpuacct", "cpuacct.usage") {
            Some(file) => number(Some(file)),
            None => self.v2_file("cpu", "cpu.stat").map_or(0, |path| keyed(&path, "usage_usec") * 1000),
        };
        let pids = number(self.v1_file("pids", "pids.current").or_else(|| self.v2_file("pids", "pids.current")));
        Stats {
            cpu_usage_ns,
            memory_usage_bytes,
            memory_working_set_bytes: memory_usage_bytes.saturating_sub(inactive),
            pids,
            oom_kills: self.oom_kills(),
        }
    }

    /// The folders by controller, as a container sees them below `/sys/fs/cgroup`; empty on version 2, which has a namespace.
    pub fn v1_folders(&self) -> BTreeMap<&'static str, PathBuf> {
        self.layout.v1.iter().map(|(name, mount)| (*name, mount.join(&self.group))).collect()
    }

    /// Removes the group and the groups below it, then those above it that are empty.
    pub fn remove(&self) -> io::Result<()> {
        for folder in self.layout.folders(&self.group) {
            remove_tree(&folder)?;
            let mut parent = self.group.parent();
            while let Some(above) = parent.filter(|above| above.components().next().is_some()) {
                // Only an empty group can be removed; a busy parent belongs to other pods.
                let mount = folder.ancestors().nth(self.group.components().count()).unwrap_or(&folder);
                if fs::remove_dir(mount.join(above)).is_err() {
                    break;
                }
                parent = above.parent();
            }
        }
        Ok(())
    }
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path())?;
    }
    let mut tries = 0;
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < REMOVE_TRIES_MAX => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
}

fn device_rule(device: &Device) -> Result<String, Fault> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let path = device.host_path.display();
    let found = fs::metadata(&device.host_path).context(|| format!("look at the device {path}"))?;
    let letter = match found.file_type() {
        kind if kind.is_char_device() => 'c',
        kind if kind.is_block_device() => 'b',
        _ => return Err(Fault::invalid(format!("{path} is not a device"))),
    };
    let number = found.rdev();
    Ok(format!("{letter} {}:{} {}", libc::major(number), libc::minor(number), device.access))
}

/// The number behind `key` in a file of `key number` lines.
fn keyed(path: &Path, key: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == key).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_taken_where_they_are_mounted() {
        let layout = Layout::parse(
            "31 23 0:26 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 23 0:27 / /cg/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
             33 23 0:28 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n\
             34 23 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        );
        assert_eq!(layout.describe(), "hybrid");
        assert_eq!(layout.v1.keys().copied().collect::<Vec<_>>(), ["cpu", "cpuacct", "memory"]);
        let folders: Vec<_> = layout.folders(Path::new("volley/a")).into_iter().collect();
        assert_eq!(folders, [PathBuf::from("/cg/cpu,cpuacct/volley/a"), PathBuf::from("/cg/memory/volley/a")]);
    }

    #[test]
    fn version_2_limits_are_written_in_its_own_terms() {
        let unified = tempfile::tempdir().unwrap();
        let v2_controllers = ["cpu", "memory", "pids"].into_iter().collect();
        let layout = Layout { v1: BTreeMap::new(), v2: Some(unified.path().into()), v2_controllers };
        let group = unified.path().join("volley/a");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.swap.max"), "max").unwrap();
        let resources =
            Resources { cpu_shares: Some(1024), cpu_quota_us: Some(150_000), memory_bytes: Some(4096), pids: Some(9) };
        let cgroup = layout.create(Path::new("volley/a"), &resources).unwrap();
        let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
        let files = ["cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "pids.max"];
        assert_eq!(files.map(read), ["39", "150000 100000", "4096", "0", "9"]);
        for folder in [unified.path(), &unified.path().join("volley")] {
            assert_eq!(fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap(), "+cpu +memory +pids");
        }
        fs::write(group.join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
        fs::write(group.join("memory.current"), "1000\n").unwrap();
        fs::write(group.join("memory.stat"), "anon 1\ninactive_file 300\n").unwrap();
        let stats = cgroup.stats();
        assert_eq!((stats.oom_kills, stats.memory_usage_bytes, stats.memory_working_set_bytes), (2, 1000, 700));
    }

    #[test]
    fn a_limit_without_its_controller_is_refused_by_name() {
        let resources = Resources { memory_bytes: Some(1 << 20), ..Resources::default() };
        let fault = Layout::default().create(Path::new("volley/a"), &resources).unwrap_err();
        assert_eq!(fault.text, "a memory limit was asked for, but the machine has no memory cgroup controller");
    }
}
