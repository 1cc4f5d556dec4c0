//! What node and shim say to each other: length-prefixed JSON over the pod's socket, descriptors beside it.
//!
//! A connection carries one request and its reply; after `Exec` the exit follows, after `Watch` every change does.

use super::spec::{Container, User};
use super::sys;
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Names of files in a pod's folder.
pub const SOCKET: &str = "shim.sock";
pub const SANDBOX: &str = "sandbox.json";
pub const RECORDS: &str = "state.log";
pub const SHIM_LOG: &str = "shim.log";
/// The empty folder on which each container mounts its root, in a mount namespace of its own.
pub const ROOT: &str = "root";
pub const SHM: &str = "shm";

/// Environment and arguments of a container may be megabytes; what is larger than this is not a request.
const FRAME_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    State,
    Start(Box<Container>),
    Signal { container: String, signal: i32 },
    Kill { container: String },
    Exec { container: String, exec: Exec },
    Attach { container: String, outputs: u8 },
    Resize { container: String, rows: u16, columns: u16 },
    CloseStdin { container: String },
    Stats { container: String },
    Forget { container: String },
    Watch,
    Stop,
}

/// A process to run beside a container's own, with that one's user, environment and confinement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    pub args: Vec<String>,
    #[serde(default)]
    pub env: Vec<(String, String)>,
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub tty: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Done,
    Fault(Fault),
    State(PodState),
    Started(Started),
    Exited { container: String, exit: Exit },
    Stats(Stats),
}

/// What a shim cannot do, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    pub kind: FaultKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// No such container, or it has ended already.
    NotFound,
    /// The request contradicts itself or the container's own files.
    Invalid,
    /// The command to run does not exist or may not be run.
    Command,
    /// This mode or machine cannot honour the request.
    Unsupported,
    /// A system call failed; trying again may help.
    System,
}

impl Fault {
    pub fn new(kind: FaultKind, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into() }
    }

    pub fn unsupported(text: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Unsupported, text)
    }

    pub fn invalid(text: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Invalid, text)
    }
}

/// Says what was tried when a system call failed.
pub trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Fault>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Fault> {
        self.map_err(|error| Fault::new(FaultKind::System, format!("failed to {}: {error}", what())))
    }
}

/// A process of the machine, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    /// Clock ticks between the machine's start and the process's.
    pub start_ticks: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub process: ProcessId,
    pub at: Timestamp,
    /// Best-effort demands that the machine refused, and lower file systems that could not be shown.
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// As a shell tells it: 128 and the signal's number when a signal ended the process.
    pub code: i32,
    pub signal: Option<i32>,
    /// How often the kernel killed in this container for lack of memory.
    pub oom_kills: u64,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodState {
    pub shim: ProcessId,
    pub containers: BTreeMap<String, ContainerState>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerState {
    pub name: String,
    pub attempt: u32,
    pub started: Started,
    pub exit: Option<Exit>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    pub cpu_usage_ns: u64,
    pub memory_usage_bytes: u64,
    /// Usage without the file cache that can be dropped at once, as `kubectl top` shows it.
    pub memory_working_set_bytes: u64,
    pub pids: u64,
    pub oom_kills: u64,
}

pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Collects frames, and the descriptors that came with them, from a socket.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

impl Incoming {
    /// Reads once; false at the end of the stream.
    pub fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let count = sys::receive_with_fds(socket, &mut buffer, &mut self.fds)?;
        self.bytes.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }

    /// The next whole message, if it is there.
    pub fn take_message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((head, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let size = u32::from_le_bytes(*head) as usize;
        if size > FRAME_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {size} bytes is too large")));
        }
        if rest.len() < size {
            return Ok(None);
        }
        let message = serde_json::from_slice(&rest[..size])?;
        self.bytes.drain(..4 + size);
        Ok(Some(message))
    }
}

/// Sends a whole message over a blocking socket.
pub fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[&OwnedFd]) -> io::Result<()> {
    let frame = encode(message)?;
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
    let mut sent = sys::send_with_fds(socket, &frame, &fds)?;
    while sent < frame.len() {
        sent += sys::send_with_fds(socket, &frame[sent..], &[])?;
    }
    Ok(())
}

/// The start time of a process as the kernel counts it; none when there is no such process, or it is only a zombie.
pub fn process_id(pid: i32) -> Option<ProcessId> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold anything, but nothing after its closing bracket can hold one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(ProcessId { pid, start_ticks })
}

impl ProcessId {
    pub fn is_alive(self) -> bool {
        process_id(self.pid) == Some(self)
    }
}
