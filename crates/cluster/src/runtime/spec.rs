//! What the node asks of a shim: plain data, written to the pod's folder or sent over its socket.
//!
//! Everything in here is a demand. A runtime that cannot honour one answers with an error that names it; the few best-effort
//! fields (`rlimits`, `oom_score_adj`) come back as warnings when the machine refuses them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// How containers are kept apart, by what the machine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All namespaces, overlay file systems, cgroups and pod networks.
    Root,
    /// The same inside a user namespace; the network is the machine's own.
    Rootless,
    /// Plain processes in their own sessions.
    Process,
}

/// A pod: what its containers share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    pub id: String,
    pub mode: Mode,
    pub hostname: String,
    #[serde(default)]
    pub network: Network,
    /// Folder below the root of every cgroup controller, such as `volley/pod-1`; none leaves the pod unlimited.
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    /// `net.*` and `kernel.shm*`-like settings of the pod's own namespaces, by dotted name.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    #[serde(default)]
    pub host_ipc: bool,
    #[serde(default)]
    pub share_pids: bool,
    #[serde(default)]
    pub host_pids: bool,
    /// Size of `/dev/shm`, which all containers of the pod share.
    #[serde(default = "shm_bytes_default")]
    pub shm_bytes: u64,
}

/// What containerd gives.
fn shm_bytes_default() -> u64 {
    64 << 20
}

impl Sandbox {
    pub fn new(id: impl Into<String>, mode: Mode) -> Sandbox {
        let id = id.into();
        Sandbox {
            hostname: id.clone(),
            id,
            mode,
            network: Network::Host,
            cgroup: None,
            sysctls: BTreeMap::new(),
            host_ipc: false,
            share_pids: false,
            host_pids: false,
            shm_bytes: shm_bytes_default(),
        }
    }

    /// Whether the pod's processes are in a PID namespace whose first process is the shim, so that the kernel ends them with it.
    pub fn isolates_pids(&self) -> bool {
        self.mode != Mode::Process && !self.host_pids
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The machine's own network (and host name).
    #[default]
    Host,
    /// A network namespace with nothing but loopback.
    Loopback,
    /// A network namespace with one interface on a bridge of the machine.
    Bridge(BridgePort),
}

/// One pod's place on the bridge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BridgePort {
    pub bridge: Bridge,
    /// The pod's address, inside the bridge's subnet.
    pub address: Ipv4Addr,
}

/// The bridge that pods of this machine share. The shim makes it when it is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bridge {
    /// At most 15 bytes, as all interface names.
    pub name: String,
    /// The machine's address on the bridge: the pods' gateway.
    pub gateway: Ipv4Addr,
    pub prefix_length: u8,
}

/// One attempt at running a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// Unique within the pod; a restarted container is a new id.
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub attempt: u32,
    pub root: Root,
    #[serde(default)]
    pub mounts: Vec<Mount>,
    #[serde(flatten)]
    pub process: Process,
    #[serde(default)]
    pub read_only_root: bool,
    #[serde(default = "masked_paths_default")]
    pub masked_paths: Vec<PathBuf>,
    #[serde(default = "read_only_paths_default")]
    pub read_only_paths: Vec<PathBuf>,
    #[serde(default)]
    pub resources: Resources,
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Keeps standard input open for those who attach; else it is `/dev/null`.
    #[serde(default)]
    pub stdin: bool,
    #[serde(default)]
    pub log: Option<LogFile>,
    /// The name of a running container whose processes this one is to see; it ends with them.
    #[serde(default)]
    pub beside: Option<String>,
}

/// A process to run inside a container: its entry point, or one that is executed later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub args: Vec<String>,
    #[serde(default)]
    pub env: Vec<(String, String)>,
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    #[serde(default)]
    pub user: User,
    #[serde(default)]
    pub capabilities: CapabilityChange,
    #[serde(default)]
    pub privileged: bool,
    #[serde(default)]
    pub no_new_privs: bool,
    #[serde(default)]
    pub seccomp: Seccomp,
    #[serde(default)]
    pub rlimits: Vec<Rlimit>,
    #[serde(default)]
    pub oom_score_adj: Option<i32>,
    #[serde(default)]
    pub tty: bool,
}

impl Process {
    pub fn new(args: impl IntoIterator<Item = impl Into<String>>) -> Process {
        Process {
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            user: User::default(),
            capabilities: CapabilityChange::default(),
            privileged: false,
            no_new_privs: false,
            seccomp: Seccomp::default(),
            rlimits: Vec::new(),
            oom_score_adj: None,
            tty: false,
        }
    }
}

impl Container {
    pub fn new(id: impl Into<String>, root: Root, process: Process) -> Container {
        let id = id.into();
        Container {
            name: id.clone(),
            id,
            attempt: 0,
            root,
            mounts: Vec::new(),
            process,
            read_only_root: false,
            masked_paths: masked_paths_default(),
            read_only_paths: read_only_paths_default(),
            resources: Resources::default(),
            devices: Vec::new(),
            stdin: false,
            log: None,
            beside: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Root {
    /// An image's layer folders, topmost first, below a private writable layer that is kept in `scratch`.
    Layers { lower: Vec<PathBuf>, scratch: PathBuf },
    /// The machine's own file systems, read-only below a private writable layer that is kept in `scratch`.
    Host { scratch: PathBuf },
    /// The machine's own file systems as they are, writable: all that `Mode::Process` can give.
    Machine,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    pub target: PathBuf,
    pub source: MountSource,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub propagation: Propagation,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountSource {
    /// A file or folder of the machine. `sub_path` is resolved inside it and may not leave it, not even by links.
    Bind {
        path: PathBuf,
        #[serde(default)]
        sub_path: Option<PathBuf>,
    },
    Tmpfs {
        bytes: Option<u64>,
        mode: u32,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Propagation {
    #[default]
    None,
    HostToContainer,
    Bidirectional,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    /// An image's `user[:group]`, numbers or names of the container's own `/etc/passwd` and `/etc/group`.
    Named {
        user: String,
        #[serde(default)]
        extra_groups: Vec<u32>,
    },
    /// A number; without a group, the one that the container's `/etc/passwd` gives the user, else 0.
    Number {
        uid: u32,
        #[serde(default)]
        gid: Option<u32>,
        #[serde(default)]
        extra_groups: Vec<u32>,
    },
}

impl Default for User {
    fn default() -> User {
        User::Number { uid: 0, gid: None, extra_groups: Vec::new() }
    }
}

/// Changes to the default set, by names without `CAP_`; `ALL` stands for all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapabilityChange {
    #[serde(default)]
    pub add: Vec<String>,
    #[serde(default)]
    pub drop: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seccomp {
    #[default]
    RuntimeDefault,
    Unconfined,
    /// A profile in the JSON format that Docker and the kubelet read.
    Localhost(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Such as `nofile`.
    pub name: String,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    #[serde(default)]
    pub cpu_shares: Option<u64>,
    /// Microseconds of processor time in each period of 100 ms.
    #[serde(default)]
    pub cpu_quota_us: Option<u64>,
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    #[serde(default)]
    pub pids: Option<u64>,
}

impl Resources {
    pub fn is_empty(&self) -> bool {
        *self == Resources::default()
    }
}

/// A device of the machine that the container may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub host_path: PathBuf,
    pub container_path: PathBuf,
    /// Any of `r`, `w`, `m`.
    pub access: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogFile {
    pub path: PathBuf,
    /// The file is set aside as `PATH.1`, the next one as `PATH.2` and so on, when it would grow beyond this.
    pub bytes_max: u64,
    /// How many files are kept, the current one included.
    pub files_max: u32,
}

/// What containerd hides from containers that are not privileged.
fn masked_paths_default() -> Vec<PathBuf> {
    let paths = [
        "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
        "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap",
        "/sys/firmware",
    ];
    paths.map(PathBuf::from).to_vec()
}

fn read_only_paths_default() -> Vec<PathBuf> {
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"].map(PathBuf::from).to_vec()
}
