//! What the runtime knows of one pod: the facts that every decision about it is made from.
//!
//! The shell keeps these on disk beside the pod, so that a restart of the node continues where it was. `Default` is a
//! pod that has just been bound: nothing exists yet.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// When the node took the pod on; becomes `status.startTime`.
    pub accepted_at: Option<Timestamp>,
    /// The node refuses the pod: nothing of it may ever start.
    pub rejected: Option<Rejection>,
    pub eviction: Option<Eviction>,
    pub volumes: Volumes,
    pub sandbox: Sandbox,
    /// The number of the newest sandbox, from 1; 0 when none was ever made.
    pub sandbox_number: u32,
    /// The pod's addresses, the first one being its main one.
    pub addresses: Vec<String>,
    /// By name; init containers, sidecars and main containers share one space of names.
    pub containers: BTreeMap<String, ContainerSeen>,
}

impl Seen {
    pub fn container(&self, name: &str) -> &ContainerSeen {
        static UNSEEN: ContainerSeen = ContainerSeen::unseen();
        self.containers.get(name).unwrap_or(&UNSEEN)
    }

    /// Whether a process of the pod runs or may be about to.
    pub fn is_anything_alive(&self) -> bool {
        self.containers.values().any(|container| match container.state {
            State::Creating(_) | State::Running(_) => true,
            State::NotCreated | State::Exited(_) => false,
        })
    }
}

/// Why the node did not admit the pod, in the words of `status.reason` and `status.message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub reason: String,
    pub message: String,
}

/// The node takes the pod away, usually because it runs short of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    pub message: String,
    pub grace_seconds: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Volumes {
    #[default]
    Absent,
    Mounting,
    Ready,
    Failed(Trouble),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Sandbox {
    #[default]
    Absent,
    Making,
    Ready,
    /// It is gone with all that ran in it, but its remains are not cleared away.
    Ended,
    Failed(Trouble),
}

/// Something that went wrong and is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// As clients see it in `waiting.reason`; empty where no reason is shown.
    pub reason: String,
    pub message: String,
    pub at: Timestamp,
    /// How often in a row, from 1.
    pub failures: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerSeen {
    pub state: State,
    /// How the attempt before the current one ended.
    pub last: Option<Exit>,
    /// Of the image that the spec names now.
    pub image: ImageSeen,
    /// The newest try to create or start it failed (`CreateContainerConfigError`, `CreateContainerError`, …).
    pub start_trouble: Option<Trouble>,
}

impl ContainerSeen {
    const fn unseen() -> Self {
        ContainerSeen { state: State::NotCreated, last: None, image: ImageSeen::Absent, start_trouble: None }
    }

    /// The newest attempt, if there ever was one.
    pub fn attempt(&self) -> Option<&Attempt> {
        match &self.state {
            State::NotCreated => None,
            State::Creating(attempt) => Some(attempt),
            State::Running(running) => Some(&running.attempt),
            State::Exited(exit) => Some(&exit.attempt),
        }
    }

    pub fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            State::NotCreated | State::Creating(_) | State::Exited(_) => None,
        }
    }

    pub fn exited(&self) -> Option<&Exit> {
        match &self.state {
            State::Exited(exit) => Some(exit),
            State::NotCreated | State::Creating(_) | State::Running(_) => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    #[default]
    NotCreated,
    Creating(Attempt),
    Running(Box<Running>),
    Exited(Exit),
}

/// One run of a container, from its creation on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 0; equals the restart count.
    pub number: u32,
    /// The sandbox that it runs in.
    pub sandbox_number: u32,
    /// How long its successor waits after its end; given with `Action::Start`.
    pub restart_delay_seconds: u32,
    pub id: String,
    /// The reference that the spec named when it was created.
    pub image: String,
    pub image_id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub attempt: Attempt,
    pub pid: u32,
    pub started_at: Timestamp,
    pub post_start: HookSeen,
    pub startup: ProbeSeen,
    pub readiness: ProbeSeen,
    pub liveness: ProbeSeen,
    pub stop: Option<StopSeen>,
}

impl Running {
    pub fn new(attempt: Attempt, pid: u32, started_at: Timestamp) -> Self {
        let (startup, readiness, liveness) = Default::default();
        Running { attempt, pid, started_at, post_start: HookSeen::NotRun, startup, readiness, liveness, stop: None }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub attempt: Attempt,
    pub code: i32,
    pub signal: Option<i32>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
    pub oom_killed: bool,
    /// A reason that the exit code does not tell, for example `ContainerCannotRun`.
    pub reason: Option<String>,
    /// The termination message that the container left, or the runtime's.
    pub message: Option<String>,
    /// Why the node had asked it to stop, if it had.
    pub stopped_for: Option<StopReason>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum HookSeen {
    #[default]
    NotRun,
    Running,
    Done,
    Failed(String),
}

/// A container's stop under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopSeen {
    pub reason: StopReason,
    pub since: Timestamp,
    pub grace_seconds: i64,
    pub pre_stop: HookSeen,
    pub signalled_at: Option<Timestamp>,
    pub killed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StopReason {
    /// The whole pod ends: deleted, evicted, or its main containers are done.
    PodEnds,
    /// The whole pod ends because it was active for too long.
    DeadlineExceeded,
    LivenessProbe,
    StartupProbe,
    PostStartHook,
    /// The spec names another image now.
    DefinitionChanged,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum ImageSeen {
    #[default]
    Absent,
    Pulling {
        since: Timestamp,
    },
    Present {
        image_id: String,
        /// The pull that brought or confirmed it; `None` when it was there already.
        pull: Option<Pull>,
    },
    Failed(Trouble),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// The attempt that the pull was made for.
    pub attempt_number: u32,
    pub pull_ms: u64,
    /// With the time spent waiting for other pulls.
    pub total_ms: u64,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

/// What the probes of one kind have found; advanced by `probes::record`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeSeen {
    pub is_running: bool,
    pub last_at: Option<Timestamp>,
    /// The newest single result, how often it came in a row, and what the probe said.
    pub last_success: Option<bool>,
    pub in_a_row: u32,
    pub output: String,
    /// The verdict once a threshold was reached; `None` until then.
    pub verdict: Option<bool>,
    /// How many probes have ended; lets events tell a repeated failure from an old one.
    pub runs: u64,
}
