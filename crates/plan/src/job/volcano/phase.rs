//! The phases of a Volcano Job, what can be done to it, and the table of both (spec/volcano.md 4.1, 4.5).

/// Where a Job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    Running,
    Restarting,
    Aborting,
    Aborted,
    Completing,
    Completed,
    Terminating,
    Terminated,
    Failed,
}

const PHASES: [(&str, Phase); 10] = [
    ("Pending", Phase::Pending),
    ("Running", Phase::Running),
    ("Restarting", Phase::Restarting),
    ("Aborting", Phase::Aborting),
    ("Aborted", Phase::Aborted),
    ("Completing", Phase::Completing),
    ("Completed", Phase::Completed),
    ("Terminating", Phase::Terminating),
    ("Terminated", Phase::Terminated),
    ("Failed", Phase::Failed),
];

impl Phase {
    /// The phase of that name; none when no status has been written yet.
    pub fn read(name: &str) -> Option<Phase> {
        PHASES.iter().find(|(known, _)| *known == name).map(|(_, phase)| *phase)
    }

    pub fn name(self) -> &'static str {
        PHASES.iter().find(|(_, phase)| *phase == self).map_or("", |(name, _)| name)
    }

    /// Nothing leads out of it.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Completed | Phase::Failed | Phase::Terminated)
    }

    /// Whether what happens to pods can still change the Job's course.
    pub fn heeds_events(self) -> bool {
        matches!(self, Phase::Pending | Phase::Running | Phase::Restarting)
    }
}

/// What a policy or a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Sync,
    RestartJob,
    RestartTask,
    RestartPod,
    RestartPartition,
    AbortJob,
    CompleteJob,
    TerminateJob,
    ResumeJob,
}

const DEEDS: [(&str, Deed); 9] = [
    ("SyncJob", Deed::Sync),
    ("RestartJob", Deed::RestartJob),
    ("RestartTask", Deed::RestartTask),
    ("RestartPod", Deed::RestartPod),
    ("RestartPartition", Deed::RestartPartition),
    ("AbortJob", Deed::AbortJob),
    ("CompleteJob", Deed::CompleteJob),
    ("TerminateJob", Deed::TerminateJob),
    ("ResumeJob", Deed::ResumeJob),
];

impl Deed {
    /// Whatever else is asked for means a plain look at the Job.
    pub fn read(name: &str) -> Deed {
        DEEDS.iter().find(|(known, _)| *known == name).map_or(Deed::Sync, |(_, deed)| *deed)
    }

    pub fn name(self) -> &'static str {
        DEEDS.iter().find(|(_, deed)| *deed == self).map_or("", |(name, _)| name)
    }

    /// Restarts a part of the Job, which must be named.
    pub fn needs_target(self) -> bool {
        matches!(self, Deed::RestartTask | Deed::RestartPod | Deed::RestartPartition)
    }
}

/// Which pods a beginning takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    All,
    /// All but those that have ended.
    Soft,
    /// Those that the action names.
    Target,
}

/// What a deed means in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Go on as the phase does by itself.
    Go,
    /// Take pods away and be in another phase.
    Begin { to: Phase, kill: Kill, counts: bool },
}

/// The transition table. `counts` says that a retry is used up.
pub fn step(phase: Phase, deed: Deed, is_strict: bool) -> Step {
    let begin = |to, kill, counts| Step::Begin { to, kill, counts };
    let stop = match deed {
        Deed::AbortJob => Some(Phase::Aborting),
        Deed::CompleteJob => Some(Phase::Completing),
        Deed::TerminateJob => Some(Phase::Terminating),
        Deed::Sync
        | Deed::RestartJob
        | Deed::RestartTask
        | Deed::RestartPod
        | Deed::RestartPartition
        | Deed::ResumeJob => None,
    };
    match (phase, deed, stop) {
        (Phase::Pending | Phase::Running, Deed::RestartJob, _) => begin(Phase::Restarting, Kill::All, true),
        (Phase::Pending | Phase::Running, deed, _) if deed.needs_target() => {
            begin(Phase::Restarting, Kill::Target, true)
        }
        (Phase::Pending | Phase::Running, _, Some(to)) => begin(to, Kill::Soft, false),
        (Phase::Restarting, deed, _) if deed.needs_target() => begin(Phase::Restarting, Kill::Target, false),
        (Phase::Restarting, Deed::RestartJob | Deed::ResumeJob, _) => begin(Phase::Restarting, Kill::All, false),
        // SM-24: upstream restarts all the same, and what was asked for is lost.
        (Phase::Restarting, _, Some(_)) if is_strict => begin(Phase::Restarting, Kill::All, false),
        (Phase::Restarting, _, Some(to)) => begin(to, Kill::Soft, false),
        // SM-25: upstream takes a retry for a resume.
        (Phase::Aborting | Phase::Aborted, Deed::ResumeJob, _) => begin(Phase::Restarting, Kill::Soft, is_strict),
        _ => Step::Go,
    }
}
