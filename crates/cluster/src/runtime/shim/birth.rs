//! Starts containers, and processes beside them: forks into the right PID namespace and waits for the child's report.

use crate::runtime::cgroup::{Cgroup, Layout};
use crate::runtime::leftovers;
use crate::runtime::process::{self, Report, Setting, Stdio};
use crate::runtime::rootfs;
use crate::runtime::spec::{Container, Mode, Process, Root, Sandbox};
use crate::runtime::sys::{self, Pid};
use crate::runtime::wire::{self, Context, Exec, Fault, FaultKind, Incoming};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What all births of a pod need.
pub struct Nursery {
    pub sandbox: Sandbox,
    pub folder: PathBuf,
    pub cgroups: Layout,
    own_pids: Option<File>,
    /// First process of the PID namespace that the containers share, if they do: its number on the machine.
    pause: Option<i32>,
}

/// A process that has started: its number here and on the machine, and its terminal.
pub struct Born {
    pub pid: Pid,
    pub machine_pid: i32,
    pub terminal: Option<OwnedFd>,
    pub warnings: Vec<String>,
}

impl Nursery {
    pub fn new(sandbox: Sandbox, folder: PathBuf) -> Result<Nursery, Fault> {
        let own_pids = match sandbox.isolates_pids() {
            true => Some(File::open("/proc/self/ns/pid").context(|| "open the pod's PID namespace".into())?),
            false => None,
        };
        let cgroups = if sandbox.cgroup.is_some() { Layout::find() } else { Layout::default() };
        let mut nursery = Nursery { sandbox, folder, cgroups, own_pids, pause: None };
        if nursery.sandbox.share_pids {
            nursery.pause = Some(nursery.fork_pause()?);
        }
        Ok(nursery)
    }

    /// Whether a container's processes end with its first one.
    pub fn ends_whole(&self, container: &Container) -> bool {
        self.own_pids.is_some() && self.pause.is_none() && container.beside.is_none()
    }

    pub fn cgroup(&self, container: &Container) -> Result<Option<Cgroup>, Fault> {
        match &self.sandbox.cgroup {
            Some(group) => {
                let cgroup = self.cgroups.create(&group.join(&container.id), &container.resources)?;
                let may_use_all = container.process.privileged || self.sandbox.mode != Mode::Root;
                if !may_use_all {
                    cgroup.limit_devices(&container.devices)?;
                }
                Ok(Some(cgroup))
            }
            None if container.resources.is_empty() => Ok(None),
            None => Err(Fault::unsupported(format!(
                "container {} asks for limits, but its pod has no cgroup",
                container.name
            ))),
        }
    }

    /// Starts a container; `beside` is the first process of the one whose processes it is to see.
    pub fn start(
        &self,
        container: &Container,
        cgroup: Option<&Cgroup>,
        beside: Option<i32>,
        stdio: Stdio,
    ) -> Result<Born, Fault> {
        check(&self.sandbox, container)?;
        let profile = process::profile_text(&container.process)?;
        let process = self.marked(container);
        self.fork(self.container_pids(beside)?, |report| {
            let (pid, mut warnings) = first_steps(&process, cgroup)?;
            if self.sandbox.mode != Mode::Process {
                let own_cgroups = if cgroup.is_some() { libc::CLONE_NEWCGROUP } else { 0 };
                sys::unshare(libc::CLONE_NEWNS | own_cgroups).context(|| "make the container's mounts".into())?;
                let plan = rootfs::Plan { sandbox: &self.sandbox, container, folder: &self.folder, cgroup };
                warnings.extend(rootfs::enter(&plan)?);
            }
            Ok(process::become_program(self.setting(&process, profile, report, pid, warnings), stdio))
        })
    }

    /// Runs a process beside the container's own, whose number on the machine is `machine_pid`.
    pub fn exec(
        &self,
        container: &Container,
        cgroup: Option<&Cgroup>,
        machine_pid: i32,
        exec: Exec,
        stdio: Stdio,
    ) -> Result<Born, Fault> {
        let mut process = self.marked(container);
        process.env.extend(exec.env);
        process.cwd = exec.cwd.or(process.cwd);
        process.user = exec.user.unwrap_or(process.user);
        (process.args, process.tty) = (exec.args, exec.tty);
        let profile = process::profile_text(&process)?;
        let namespace = |name: &str| {
            File::open(format!("/proc/{machine_pid}/ns/{name}"))
                .context(|| format!("open the container's {name} namespace"))
        };
        let is_contained = self.sandbox.mode != Mode::Process;
        let mounts = if is_contained { Some(namespace("mnt")?) } else { None };
        let pids = if self.own_pids.is_some() { Pids::Join(namespace("pid")?) } else { Pids::Own };
        let cgroups = if is_contained && cgroup.is_some() { Some(namespace("cgroup")?) } else { None };
        self.fork(pids, |report| {
            let (pid, warnings) = first_steps(&process, cgroup)?;
            if let Some(cgroups) = &cgroups {
                sys::setns(cgroups, libc::CLONE_NEWCGROUP).context(|| "enter the container's cgroups".into())?;
            }
            if let Some(mounts) = &mounts {
                sys::setns(mounts, libc::CLONE_NEWNS).context(|| "enter the container's mounts".into())?;
            }
            Ok(process::become_program(self.setting(&process, profile, report, pid, warnings), stdio))
        })
    }

    fn setting<'a>(
        &self,
        process: &'a Process,
        profile: Option<String>,
        report: &'a OwnedFd,
        pid: i32,
        warnings: Vec<String>,
    ) -> Setting<'a> {
        let devices_are_limited = self.sandbox.cgroup.is_some() && self.cgroups.limits_devices();
        let ends_with_shim = self.own_pids.is_some();
        Setting {
            mode: self.sandbox.mode,
            process,
            profile,
            devices_are_limited,
            ends_with_shim,
            report,
            pid,
            warnings,
        }
    }

    fn marked(&self, container: &Container) -> Process {
        let mut process = container.process.clone();
        if !self.ends_whole(container) {
            process.env.push((leftovers::MARK.into(), leftovers::mark(&self.sandbox.id, &container.id)));
        }
        process
    }

    fn container_pids(&self, beside: Option<i32>) -> Result<Pids, Fault> {
        match (&self.own_pids, self.pause.or(beside)) {
            (None, _) => Ok(Pids::Own),
            (Some(_), None) => Ok(Pids::New),
            (Some(_), Some(first)) => {
                let path = format!("/proc/{first}/ns/pid");
                let namespace = File::open(path).context(|| "open the PID namespace to share".into())?;
                Ok(Pids::Join(namespace))
            }
        }
    }

    /// Forks a child for `run`, which returns only with what went wrong.
    fn fork(&self, pids: Pids, run: impl FnOnce(&OwnedFd) -> Result<Fault, Fault>) -> Result<Born, Fault> {
        let (report, childs_report) = UnixStream::pair().context(|| "make a report socket".into())?;
        let (report, childs_report) = (OwnedFd::from(report), OwnedFd::from(childs_report));
        match &pids {
            Pids::Own => {}
            Pids::New => sys::unshare(libc::CLONE_NEWPID).context(|| "make the container's PID namespace".into())?,
            Pids::Join(namespace) => {
                sys::setns(namespace, libc::CLONE_NEWPID).context(|| "enter the PID namespace".into())?
            }
        }
        let forked = sys::fork().context(|| "start a process".into());
        let Ok(None) = forked else {
            if let Some(own) = self.own_pids.as_ref().filter(|_| !matches!(pids, Pids::Own)) {
                sys::setns(own, libc::CLONE_NEWPID).context(|| "return to the pod's PID namespace".into())?;
            }
            drop(childs_report);
            let pid = forked?.unwrap_or_default();
            return await_report(pid, &report);
        };
        drop(report);
        // Processes of the container must not look into this one while it still holds the machine's files.
        let _hardening = sys::prctl(libc::PR_SET_DUMPABLE, 0);
        // A terminal that is given up after a failure hangs up its session, which must still report.
        sys::ignore_signal(libc::SIGHUP);
        let fault = run(&childs_report).unwrap_or_else(|fault| fault);
        let _shim_is_gone = wire::send(childs_report.as_fd(), &Report::Fault(fault), &[]);
        sys::exit_now(1)
    }

    /// Starts the first process of the shared PID namespace: it reaps orphans, sees no files, and never ends by itself.
    fn fork_pause(&self) -> Result<i32, Fault> {
        let born = self.fork(Pids::New, |report| {
            let pid = own_machine_pid()?;
            let root = self.folder.join(wire::ROOT);
            sys::unshare(libc::CLONE_NEWNS).context(|| "make the first process's mounts".into())?;
            sys::mount("empty", &root, "tmpfs", libc::MS_RDONLY, "size=0").context(|| "make an empty root".into())?;
            std::env::set_current_dir(&root).context(|| "enter the empty root".into())?;
            sys::pivot_root_here().context(|| "enter the empty root".into())?;
            sys::unmount_detached(Path::new(".")).context(|| "drop the machine's files".into())?;
            sys::ignore_signal(libc::SIGCHLD);
            let _lists_it_by_the_shims_name = sys::set_name("pause");
            wire::send(report.as_fd(), &Report::Ready { pid, warnings: Vec::new() }, &[])
                .context(|| "report to the shim".into())?;
            sys::close_all();
            loop {
                sys::pause();
            }
        })?;
        Ok(born.machine_pid)
    }
}

enum Pids {
    Own,
    New,
    Join(File),
}

fn check(sandbox: &Sandbox, container: &Container) -> Result<(), Fault> {
    if sandbox.mode != Mode::Process {
        return Ok(());
    }
    let lacks = |what: &str| {
        Err(Fault::unsupported(format!("container {}: {what} cannot be had in the process mode", container.name)))
    };
    let capabilities = &container.process.capabilities;
    match () {
        () if container.root != Root::Machine => lacks("a root file system of its own"),
        () if !container.mounts.is_empty() => lacks("mounts"),
        () if container.read_only_root => lacks("a read-only root"),
        () if !container.devices.is_empty() => lacks("devices of its own"),
        () if container.process.privileged => lacks("privileged"),
        () if !capabilities.add.is_empty() => lacks("capabilities"),
        () => Ok(()),
    }
}

/// What a child does while it still sees the machine: joins the cgroup, learns its number.
fn first_steps(process: &Process, cgroup: Option<&Cgroup>) -> Result<(i32, Vec<String>), Fault> {
    if let Some(cgroup) = cgroup {
        cgroup.join()?;
    }
    let mut warnings = Vec::new();
    if let Some(adjustment) = process.oom_score_adj
        && let Err(error) = fs::write("/proc/self/oom_score_adj", adjustment.to_string())
    {
        warnings.push(format!("oom_score_adj could not be set to {adjustment}: {error}"));
    }
    Ok((own_machine_pid()?, warnings))
}

/// This process's number on the machine: the one that the machine's `/proc` shows.
pub fn own_machine_pid() -> Result<i32, Fault> {
    let link = fs::read_link("/proc/self").context(|| "read /proc/self".into())?;
    let number = link.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Fault::new(FaultKind::System, "/proc/self is not a number"))
}

/// Reads the child's reports until exec closes the socket.
fn await_report(pid: Pid, report: &OwnedFd) -> Result<Born, Fault> {
    let mut incoming = Incoming::default();
    let mut born = None;
    let outcome = loop {
        match incoming.take_message::<Report>() {
            Ok(Some(Report::Ready { pid: machine_pid, warnings })) => {
                let terminal = incoming.fds.pop();
                born = Some(Born { pid, machine_pid, terminal, warnings });
                continue;
            }
            Ok(Some(Report::Fault(fault))) => break Err(fault),
            Ok(None) => {}
            Err(error) => {
                break Err(Fault::new(FaultKind::System, format!("failed to read the child's report: {error}")));
            }
        }
        match incoming.fill(report.as_fd()) {
            Ok(true) => {}
            Ok(false) => {
                let died = || Fault::new(FaultKind::System, "the new process died before its program started");
                break born.take().ok_or_else(died);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                break Err(Fault::new(FaultKind::System, format!("failed to read the child's report: {error}")));
            }
        }
    };
    if outcome.is_err() {
        let _ended_already = sys::kill(pid, libc::SIGKILL);
        let _reaped = sys::wait_for(pid);
    }
    outcome
}
