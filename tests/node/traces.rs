//! What one volley has on the machine: processes, mounts, cgroups and links, told by its home and not by their names.
//!
//! Other volleys run on the machine at the same time, so a difference of before and after would blame the wrong one.
//! Instead the traces are noted while pods run, and looked for again when volley is down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Traces {
    home: String,
    links_before: BTreeSet<String>,
    /// Noted while pods ran.
    cgroups: BTreeSet<PathBuf>,
    bridges: BTreeSet<String>,
    links: BTreeSet<String>,
}

/// A process that belongs to a home.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: u32,
    pub command: String,
}

impl Traces {
    pub fn new(home: &Path) -> Traces {
        Traces {
            home: home.display().to_string(),
            links_before: links(),
            cgroups: BTreeSet::new(),
            bridges: BTreeSet::new(),
            links: BTreeSet::new(),
        }
    }

    /// Notes what there is now; `addresses` are those of the pods.
    pub fn note(&mut self, addresses: &[Ipv4Addr]) {
        for process in self.processes() {
            self.cgroups.extend(cgroups_of(process.pid));
        }
        for (link, address, prefix) in addresses_of_links() {
            let is_ours = addresses.iter().any(|pod| network(*pod, prefix) == network(address, prefix));
            if is_ours && is_bridge(&link) && !self.links_before.contains(&link) {
                self.links.extend(ports_of(&link));
                self.bridges.insert(link);
            }
        }
    }

    /// The processes of this home: named in their command or environment, or on its files.
    pub fn processes(&self) -> Vec<Process> {
        let own_mounts = fs::read_link("/proc/self/ns/mnt").unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |folder: &Path| {
            let mentions = |file: &str| contains(&fs::read(folder.join(file)).unwrap_or_default(), &self.home);
            let is_apart = fs::read_link(folder.join("ns/mnt")).is_ok_and(|mounts| mounts != own_mounts);
            mentions("cmdline") || mentions("environ") || (is_apart && has_root_of(folder, &self.home))
        };
        let mut found = Vec::new();
        for pid in pids.filter(|pid| *pid != std::process::id()) {
            let folder = Path::new("/proc").join(pid.to_string());
            let command = fs::read_to_string(folder.join("comm")).unwrap_or_default().trim().to_owned();
            // The tests' own clients and the commands around them.
            let is_client = command.starts_with("kubectl") || command == "setsid" || command == "docker-registry";
            let is_dead = fs::read_link(folder.join("ns/mnt")).is_err();
            if !is_client && !is_dead && is_ours(&folder) {
                found.push(Process { pid, command });
            }
        }
        found
    }

    /// Everything that is still there, in words; nothing must be, once volley is down.
    pub fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = self.processes().iter().map(|process| format!("process {process:?}")).collect();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(&self.home)).map(|line| format!("mount {line}")));
        left.extend(self.cgroups.iter().filter(|group| is_left(group)).map(|group| format!("cgroup {group:?}")));
        let links = links();
        let noted = self.bridges.iter().chain(&self.links);
        left.extend(noted.filter(|link| links.contains(*link)).map(|link| format!("link {link}")));
        for bridge in &self.bridges {
            left.extend(rules().lines().filter(|line| line.contains(bridge)).map(|line| format!("rule {line}")));
        }
        left
    }

    pub fn cgroups(&self) -> &BTreeSet<PathBuf> {
        &self.cgroups
    }

    pub fn bridges(&self) -> &BTreeSet<String> {
        &self.bridges
    }
}

/// Whether a process's root is a layer of this home. Other mounts prove nothing: every mount namespace has copies.
fn has_root_of(process: &Path, home: &str) -> bool {
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some("/") && line.contains(home))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A group's last child may belong to another volley below the same parent; what is empty belongs to nobody.
fn is_left(group: &Path) -> bool {
    let Ok(entries) = fs::read_dir(group) else { return false };
    !entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// The cgroup folders of a process and their parents, but not those that this test itself is in.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let own = groups("/proc/self/cgroup");
    let mounts = cgroup_mounts();
    let mut found = Vec::new();
    for (controllers, path) in groups(&format!("/proc/{pid}/cgroup")) {
        let own_path = own.get(&controllers).cloned().unwrap_or_default();
        let Some(mount) = mounts.get(controllers.split(',').next().unwrap_or_default()) else { continue };
        let above = Path::new(&path).ancestors().filter(|group| !Path::new(&own_path).starts_with(group));
        found.extend(above.map(|group| mount.join(group.strip_prefix("/").unwrap_or(group))));
    }
    found
}

/// Controllers and path of each hierarchy; version 2 has no controllers here.
fn groups(file: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let parts = |line: &str| line.splitn(3, ':').skip(1).map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(parts).filter(|parts| parts.len() == 2).map(|parts| (parts[0].clone(), parts[1].clone())).collect()
}

fn cgroup_mounts() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for line in fs::read_to_string("/proc/self/mounts").unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[2] {
            "cgroup2" => drop(found.insert(String::new(), words[1].into())),
            "cgroup" => found.extend(words[3].split(',').map(|option| (option.to_owned(), words[1].into()))),
            _ => {}
        }
    }
    found
}

fn links() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_bridge(link: &str) -> bool {
    Path::new("/sys/class/net").join(link).join("bridge").exists()
}

fn ports_of(bridge: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new("/sys/class/net").join(bridge).join("brif")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn addresses_of_links() -> Vec<(String, Ipv4Addr, u32)> {
    let listed = Command::new("ip").args(["-o", "-4", "address"]).output().expect("the tests need iproute2");
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, prefix) = words.get(3)?.split_once('/')?;
        Some(((*words.get(1)?).to_owned(), address.parse().ok()?, prefix.parse().ok()?))
    };
    String::from_utf8_lossy(&listed.stdout).lines().filter_map(parse).collect()
}

fn network(address: Ipv4Addr, prefix: u32) -> u32 {
    u32::from(address) & u32::MAX.checked_shl(32 - prefix).unwrap_or(0)
}

/// The machine's packet rules, by whichever tools it has.
fn rules() -> String {
    let run = |program: &str, args: &[&str]| Command::new(program).args(args).output().map(|output| output.stdout);
    let all = [run("nft", &["list", "ruleset"]), run("iptables-save", &[])];
    all.into_iter().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}
