//! Turns the forked child into the program that was asked for: user, capabilities, filters, limits, then exec.
//!
//! Runs inside the container's namespaces and root. Whatever fails is told to the shim over the report socket, which closes
//! by itself when the program starts.

use super::capability;
use super::seccomp::Filter;
use super::spec::{Mode, Process, Seccomp};
use super::sys;
use super::user::{self, Identity};
use super::wire::{self, Context, Fault, FaultKind};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the child tells the shim before it execs: first `Ready`, then perhaps `Fault`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// The child's number on the machine; with a terminal, its master end comes along.
    Ready {
        pid: i32,
        warnings: Vec<String>,
    },
    Fault(Fault),
}

pub enum Stdio {
    Given { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    Terminal,
}

pub struct Setting<'a> {
    pub mode: Mode,
    pub process: &'a Process,
    /// Profile text, read before the root changed.
    pub profile: Option<String>,
    /// Whether a cgroup keeps the container from opening devices it was not given.
    pub devices_are_limited: bool,
    /// Whether the kernel ends the process with the shim, by its PID namespace.
    pub ends_with_shim: bool,
    pub report: &'a OwnedFd,
    pub pid: i32,
    pub warnings: Vec<String>,
}

/// The profile that the process names, read while the machine's files can still be reached.
pub fn profile_text(process: &Process) -> Result<Option<String>, Fault> {
    match &process.seccomp {
        Seccomp::Localhost(path) if !process.privileged => {
            fs::read_to_string(path).map(Some).context(|| format!("read the seccomp profile {}", path.display()))
        }
        _ => Ok(None),
    }
}

/// Becomes the process; comes back only with what went wrong.
pub fn become_program(mut setting: Setting<'_>, stdio: Stdio) -> Fault {
    match prepare(&mut setting, stdio) {
        Err(fault) => fault,
        Ok((path, args, env)) => {
            sys::reset_signals();
            let error = sys::exec(&path, &args, &env);
            exec_fault(&setting.process.args[0], &error)
        }
    }
}

type Program = (CString, Vec<CString>, Vec<CString>);

fn prepare(setting: &mut Setting<'_>, stdio: Stdio) -> Result<Program, Fault> {
    let process = setting.process;
    let Some(command) = process.args.first() else { return Err(Fault::invalid("no command was given")) };
    sys::new_session().context(|| "start a session".into())?;
    let identity = user::resolve(&process.user, setting.mode)?;
    let master = connect(stdio, identity.uid)?;
    let cwd = process.cwd.clone().unwrap_or_else(|| "/".into());
    if setting.mode != Mode::Process {
        let _refused_below = fs::create_dir_all(&cwd);
    }
    std::env::set_current_dir(&cwd).context(|| format!("enter the working folder {}", cwd.display()))?;
    for limit in &process.rlimits {
        if let Err(text) = set_limit(limit) {
            setting.warnings.push(text);
        }
    }
    let warning = confine(setting, &identity)?;
    setting.warnings.extend(warning);
    if !setting.ends_with_shim {
        // Set last: a change of user clears it.
        sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong).context(|| "end with the shim".into())?;
    }
    let env = environment(process, &identity);
    let path = find(command, &env)?;
    let ready = Report::Ready { pid: setting.pid, warnings: std::mem::take(&mut setting.warnings) };
    let fds: Vec<&OwnedFd> = master.iter().collect();
    wire::send(setting.report.as_fd(), &ready, &fds).context(|| "report to the shim".into())?;
    drop(master);
    sys::close_others_on_exec().context(|| "close the shim's files".into())?;
    let c = |text: &str| sys::c_string(text).context(|| "pass arguments and environment".into());
    let args = process.args.iter().map(|arg| c(arg)).collect::<Result<_, Fault>>()?;
    let env = env.iter().map(|(name, value)| c(&format!("{name}={value}"))).collect::<Result<_, Fault>>()?;
    Ok((sys::c_string(path).context(|| "pass the program's path".into())?, args, env))
}

/// Puts standard input and outputs in place; a terminal's master end is given back.
fn connect(stdio: Stdio, uid: u32) -> Result<Option<OwnedFd>, Fault> {
    match stdio {
        Stdio::Given { stdin, stdout, stderr } => {
            for (fd, number) in [(&stdin, 0), (&stdout, 1), (&stderr, 2)] {
                // A program may open /dev/stdout again, which only the pipe's owner can.
                let is_pipe = File::from(fd.try_clone().context(|| "look at a stream".into())?)
                    .metadata()
                    .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type()));
                if is_pipe {
                    let _not_mapped = fchown(fd, Some(uid), None);
                }
                sys::place_fd(fd.as_fd(), number).context(|| "connect a stream".into())?;
            }
            Ok(None)
        }
        Stdio::Terminal => {
            let what = || "open a terminal".to_owned();
            let master: OwnedFd = File::options().read(true).write(true).open("/dev/ptmx").context(what)?.into();
            let terminal = sys::open_terminal(&master).context(what)?;
            let _not_mapped = fchown(&terminal, Some(uid), None);
            for number in 0..3 {
                sys::place_fd(terminal.as_fd(), number).context(what)?;
            }
            sys::control_terminal().context(|| "control the terminal".into())?;
            Ok(Some(master))
        }
    }
}

/// Gives up rights in the one order that works: each step needs a right that a later one takes away.
fn confine(setting: &Setting<'_>, identity: &Identity) -> Result<Option<String>, Fault> {
    let process = setting.process;
    let warning = user::map(identity, setting.mode)?;
    let allowed = capability::allowed(process, setting.mode, setting.devices_are_limited)?;
    let is_plain = setting.mode == Mode::Process && sys::ids().0 != 0;
    let filter = filter(setting, allowed)?;
    // Without any right of its own a process may only filter itself for good.
    let no_new_privs = process.no_new_privs || is_plain && (filter.is_some() || !process.capabilities.drop.is_empty());
    if no_new_privs {
        sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).context(|| "set no_new_privs".into())?;
    }
    if !is_plain {
        capability::bound(allowed).context(|| "drop capabilities".into())?;
    }
    let install = || match &filter {
        Some(program) => sys::install_seccomp(program).context(|| "install the seccomp filter".into()),
        None => Ok(()),
    };
    if !no_new_privs {
        install()?;
    }
    user::assume(identity, setting.mode)?;
    if !is_plain && sys::ids().0 == 0 {
        sys::set_capabilities(allowed).context(|| "set capabilities".into())?;
    }
    if no_new_privs {
        install()?;
    }
    Ok(warning)
}

fn filter(setting: &Setting<'_>, allowed: u64) -> Result<Option<Vec<libc::sock_filter>>, Fault> {
    if setting.process.privileged {
        return Ok(None);
    }
    let names = capability::names(allowed);
    match (&setting.process.seccomp, &setting.profile) {
        (Seccomp::Unconfined, _) => Ok(None),
        (Seccomp::RuntimeDefault, _) => Filter::runtime_default(&names).program().map(Some),
        (Seccomp::Localhost(_), Some(text)) => Filter::from_profile(text, &names)?.program().map(Some),
        (Seccomp::Localhost(path), None) => {
            Err(Fault::invalid(format!("the seccomp profile {} was not read", path.display())))
        }
    }
}

fn set_limit(limit: &super::spec::Rlimit) -> Result<(), String> {
    let resource = match limit.name.trim_start_matches("RLIMIT_").to_ascii_lowercase().as_str() {
        "as" => libc::RLIMIT_AS,
        "core" => libc::RLIMIT_CORE,
        "cpu" => libc::RLIMIT_CPU,
        "data" => libc::RLIMIT_DATA,
        "fsize" => libc::RLIMIT_FSIZE,
        "memlock" => libc::RLIMIT_MEMLOCK,
        "nofile" => libc::RLIMIT_NOFILE,
        "nproc" => libc::RLIMIT_NPROC,
        "stack" => libc::RLIMIT_STACK,
        other => return Err(format!("the limit {other} is not known")),
    };
    sys::set_rlimit(resource, limit.soft, limit.hard)
        .map_err(|error| format!("the limit {} could not be set to {}: {error}", limit.name, limit.soft))
}

/// The environment as asked for, with the search path and home that every program expects.
fn environment(process: &Process, identity: &Identity) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = Vec::with_capacity(process.env.len() + 3);
    for (name, value) in &process.env {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    let mut default = |name: &str, value: &str| {
        if env.iter().all(|(known, _)| known != name) {
            env.push((name.to_owned(), value.to_owned()));
        }
    };
    default("PATH", PATH_DEFAULT);
    default("HOME", &identity.home);
    if process.tty {
        default("TERM", "xterm");
    }
    env
}

/// The program's path, looked up as a shell would in the container's own search path.
fn find(command: &str, env: &[(String, String)]) -> Result<PathBuf, Fault> {
    if command.contains('/') {
        return Ok(command.into());
    }
    let search = env.iter().find(|(name, _)| name == "PATH").map_or(PATH_DEFAULT, |(_, value)| value);
    let mut places =
        search.split(':').map(|folder| Path::new(if folder.is_empty() { "." } else { folder }).join(command));
    let found = places
        .find(|path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0));
    found.ok_or_else(|| {
        Fault::new(FaultKind::Command, format!("exec: \"{command}\": executable file not found in $PATH"))
    })
}

fn exec_fault(command: &str, error: &io::Error) -> Fault {
    let text = match error.raw_os_error() {
        Some(libc::ENOENT) => format!("exec: \"{command}\": stat {command}: no such file or directory"),
        Some(libc::EACCES) => format!("exec: \"{command}\": permission denied"),
        Some(libc::ENOEXEC) => format!("exec {command}: exec format error"),
        _ => format!("exec {command}: {error}"),
    };
    Fault::new(FaultKind::Command, text)
}
