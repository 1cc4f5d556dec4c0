//! The pod's helper process: makes the pod's namespaces, runs its containers, writes their logs, reaps them, records their ends.
//!
//! One single-threaded loop over poll. It outlives the node, which finds it again by its socket; when it dies, the kernel ends
//! its pod. An end is on disk before anybody hears of it.

mod birth;
mod connection;
mod container;
mod pod;
mod probe;

use super::cgroup::Cgroup;
use super::network;
use super::process::Stdio;
use super::record::{Record, Records};
use super::spec::{Container, Mode, Network, Sandbox};
use super::sys::{self, Ended, MountAttributes, Pid};
use super::wire::{self, Context, Exec, Fault, FaultKind, PodState, ProcessId, Reply, Request, Started};
use birth::Nursery;
use connection::Connection;
use container::Running;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// What the shim writes to its standard output once, when it can be spoken to or cannot start.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub enum Hello {
    Ready(ProcessId),
    Fault(Fault),
}

/// The hidden verb: `run FOLDER` is a pod's shim, `probe FOLDER` tells what the machine allows.
pub fn shim_main(args: impl IntoIterator<Item = String>) -> i32 {
    let args: Vec<String> = args.into_iter().collect();
    let folder = |text: &String| fs::canonicalize(text).unwrap_or_else(|_| PathBuf::from(text));
    match args.as_slice() {
        [verb, path] if verb == "run" => run(&folder(path), Stage::Outside),
        [verb, path] if verb == ENTERED => run(&folder(path), Stage::Entered),
        [verb, path] if verb == "probe" => probe::main(&folder(path)),
        _ => {
            eprintln!("usage: shim run|probe FOLDER");
            2
        }
    }
}

/// The verb by which a rootless shim runs itself again, once it may mount.
const ENTERED: &str = "entered";

/// Where a shim begins: on the machine, or in the pod's namespaces already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Outside,
    Entered,
}

fn run(folder: &Path, stage: Stage) -> i32 {
    let say = |hello: &Hello| {
        let text = serde_json::to_string(hello).unwrap_or_default();
        let _nobody_listens = writeln!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
    };
    match Shim::open(folder, stage) {
        Err(fault) => {
            say(&Hello::Fault(fault));
            1
        }
        Ok(mut shim) => {
            say(&Hello::Ready(shim.process));
            // Whoever started the shim waits for the end of its output.
            let _stays_open = fs::File::open("/dev/null").map(|null| sys::place_fd(std::os::fd::AsFd::as_fd(&null), 1));
            match shim.serve() {
                Ok(()) => 0,
                Err(error) => {
                    eprintln!("the shim cannot go on: {error}");
                    1
                }
            }
        }
    }
}

/// Runs this program again from a read-only mount; comes back only if that failed or is not needed.
///
/// A root node does so once for all its shims (`Launcher`); an ordinary user may mount only here. A program that has been
/// replaced since the node started is no longer a file of the machine that a container could spoil.
fn run_sealed(folder: &Path) -> std::io::Result<()> {
    let path = fs::read_link("/proc/self/exe")?;
    let (own, found) = (fs::metadata("/proc/self/exe")?, fs::metadata(&path));
    if !found.is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino())) {
        return Ok(());
    }
    let tree = sys::open_tree(None, &path)?;
    sys::mount_setattr(&tree, true, MountAttributes { set: sys::MOUNT_ATTR_RDONLY, ..Default::default() })?;
    let program = sys::c_string(format!("/proc/self/fd/{}", tree.as_raw_fd()))?;
    let mut args: Vec<String> = std::env::args().take_while(|arg| arg != "run").collect();
    args.extend([ENTERED.to_owned(), folder.display().to_string()]);
    let args = args.iter().map(sys::c_string).collect::<std::io::Result<Vec<_>>>()?;
    let variables = std::env::vars().map(|(name, value)| sys::c_string(format!("{name}={value}")));
    let env = variables.collect::<std::io::Result<Vec<_>>>()?;
    Err(sys::exec(&program, &args, &env))
}

struct Shim {
    nursery: Nursery,
    process: ProcessId,
    listener: UnixListener,
    signals: OwnedFd,
    records: Records,
    connections: BTreeMap<u64, Connection>,
    connections_made: u64,
    containers: BTreeMap<String, Running>,
    /// Processes beside containers, and who waits for them.
    execs: BTreeMap<Pid, u64>,
    is_stopping: bool,
}

impl Shim {
    fn open(folder: &Path, stage: Stage) -> Result<Shim, Fault> {
        let path = folder.join(wire::SANDBOX);
        let text = fs::read(&path).context(|| format!("read {}", path.display()))?;
        let sandbox: Sandbox =
            serde_json::from_slice(&text).map_err(|error| Fault::invalid(format!("{}: {error}", path.display())))?;
        let _a_session_already = sys::new_session();
        sys::clear_umask(0o022);
        sys::ignore_signal(libc::SIGPIPE);
        let signals = sys::signal_descriptor(&[libc::SIGCHLD, libc::SIGTERM]).context(|| "watch signals".into())?;
        if stage == Stage::Outside {
            pod::enter(&sandbox, folder)?;
            if sandbox.mode == Mode::Rootless {
                run_sealed(folder).context(|| "run the shim from a read-only mount".into())?;
            }
        }
        // A relative name: socket paths are short, folders of pods may not be.
        std::env::set_current_dir(folder).context(|| format!("enter {}", folder.display()))?;
        let _none_from_before = fs::remove_file(wire::SOCKET);
        let listener = UnixListener::bind(wire::SOCKET).context(|| "listen on the pod's socket".into())?;
        std::env::set_current_dir("/").context(|| "leave the pod's folder".into())?;
        listener.set_nonblocking(true).context(|| "listen on the pod's socket".into())?;
        let pid = birth::own_machine_pid()?;
        let process = wire::process_id(pid)
            .ok_or_else(|| Fault::new(FaultKind::System, "the shim cannot see itself in /proc"))?;
        let mut records = Records::open(&folder.join(wire::RECORDS)).context(|| "open the pod's records".into())?;
        records.append(&Record::Shim(process)).context(|| "write the pod's records".into())?;
        Ok(Shim {
            nursery: Nursery::new(sandbox, folder.to_owned())?,
            process,
            listener,
            signals,
            records,
            connections: BTreeMap::new(),
            connections_made: 0,
            containers: BTreeMap::new(),
            execs: BTreeMap::new(),
            is_stopping: false,
        })
    }

    fn serve(&mut self) -> std::io::Result<()> {
        while !self.has_stopped() {
            let ready = self.wait()?;
            if ready.contains(&self.signals.as_raw_fd()) && sys::drain_signals(&self.signals).contains(&libc::SIGTERM) {
                self.stop();
            }
            for container in self.containers.values_mut() {
                container.pump(|fd| ready.contains(&fd));
            }
            self.reap();
            if ready.contains(&self.listener.as_raw_fd()) {
                self.accept();
            }
            self.converse(&ready);
        }
        self.finish();
        Ok(())
    }

    /// Sleeps until something can be done; the descriptors for which it can.
    fn wait(&self) -> std::io::Result<BTreeSet<RawFd>> {
        let own = [(self.signals.as_raw_fd(), libc::POLLIN), (self.listener.as_raw_fd(), libc::POLLIN)];
        let talks = self.connections.values().map(Connection::interest);
        let pumps = self.containers.values().flat_map(Running::interests);
        let interests = own.into_iter().chain(talks).chain(pumps);
        let mut fds: Vec<libc::pollfd> =
            interests.map(|(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
        sys::poll(&mut fds, -1)?;
        Ok(fds.into_iter().filter(|fd| fd.revents != 0).map(|fd| fd.fd).collect())
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                self.connections_made += 1;
                self.connections.insert(self.connections_made, Connection::new(stream));
            }
        }
    }

    /// Reads requests, answers them, and drops connections that have ended.
    fn converse(&mut self, ready: &BTreeSet<RawFd>) {
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            let is_ready = ready.contains(&connection.interest().0);
            let mut requests = Vec::new();
            let is_open = !is_ready || connection.read(&mut requests);
            for (request, fds) in requests {
                let answer = self.answer(number, request, fds);
                let (reply, fds) = answer.unwrap_or_else(|fault| (Some(Reply::Fault(fault)), Vec::new()));
                if let (Some(reply), Some(connection)) = (reply, self.connections.get_mut(&number)) {
                    connection.send(&reply, fds);
                }
            }
            let is_well = self.connections.get_mut(&number).is_some_and(Connection::flush);
            if !is_open || !is_well {
                self.connections.remove(&number);
            }
        }
    }

    fn answer(
        &mut self,
        number: u64,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> Result<(Option<Reply>, Vec<OwnedFd>), Fault> {
        let done = Ok((Some(Reply::Done), Vec::new()));
        match request {
            Request::State => Ok((Some(Reply::State(self.state())), Vec::new())),
            Request::Start(container) => {
                self.start(*container).map(|started| (Some(Reply::Started(started)), Vec::new()))
            }
            Request::Signal { container, signal } => {
                self.living(&container)?.signal(signal).context(|| format!("send signal {signal} to {container}"))?;
                done
            }
            Request::Kill { container } => {
                self.living(&container)?.kill().context(|| format!("kill {container}"))?;
                done
            }
            Request::Exec { container, exec } => self.exec(number, &container, exec, fds),
            Request::Attach { container, outputs: _ } => {
                let input = self.living(&container)?.attach(fds)?;
                Ok((Some(Reply::Done), input.into_iter().collect()))
            }
            Request::Resize { container, rows, columns } => {
                let found = self.living(&container)?;
                let terminal =
                    found.terminal.as_ref().ok_or_else(|| Fault::invalid(format!("{container} has no terminal")))?;
                sys::resize_terminal(terminal, rows, columns).context(|| "resize the terminal".into())?;
                done
            }
            Request::CloseStdin { container } => {
                self.living(&container)?.close_stdin();
                done
            }
            Request::Stats { container } => {
                let stats = self.living(&container)?.cgroup.as_ref().map(Cgroup::stats);
                let stats =
                    stats.ok_or_else(|| Fault::unsupported(format!("{container} has no cgroup to read from")))?;
                Ok((Some(Reply::Stats(stats)), Vec::new()))
            }
            Request::Forget { container } => {
                self.forget(&container)?;
                done
            }
            Request::Watch => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.is_watching = true;
                }
                Ok((Some(Reply::State(self.state())), Vec::new()))
            }
            Request::Stop => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.awaits_stop = true;
                }
                self.stop();
                Ok((None, Vec::new()))
            }
        }
    }

    fn state(&self) -> PodState {
        let containers = self.containers.iter().map(|(id, container)| (id.clone(), container.state())).collect();
        PodState { shim: self.process, containers }
    }

    /// The container, if it runs.
    fn living(&mut self, id: &str) -> Result<&mut Running, Fault> {
        let found = self.containers.get_mut(id).filter(|container| container.exit.is_none());
        found.ok_or_else(|| Fault::new(FaultKind::NotFound, format!("container {id} is not running")))
    }

    fn start(&mut self, spec: Container) -> Result<Started, Fault> {
        if self.is_stopping {
            return Err(Fault::invalid("the pod is stopping"));
        }
        let is_plain =
            !spec.id.is_empty() && spec.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !is_plain || spec.id.starts_with('.') {
            return Err(Fault::invalid(format!("{:?} cannot name a container", spec.id)));
        }
        if self.containers.contains_key(&spec.id) {
            return Err(Fault::invalid(format!("container {} exists already", spec.id)));
        }
        let beside = spec.beside.as_ref().map(|name| self.first_process_of(name)).transpose()?;
        let running = Running::start(&self.nursery, spec, beside)?;
        let record = Record::Started {
            container: running.spec.id.clone(),
            name: running.spec.name.clone(),
            attempt: running.spec.attempt,
            started: running.started.clone(),
        };
        self.records.append(&record).context(|| "record the start".into())?;
        let started = running.started.clone();
        self.containers.insert(running.spec.id.clone(), running);
        Ok(started)
    }

    fn first_process_of(&self, name: &str) -> Result<i32, Fault> {
        let mut alive = self.containers.values().filter(|container| container.exit.is_none());
        let found = alive.find(|container| container.spec.name == name);
        let found = found.ok_or_else(|| Fault::invalid(format!("the target container {name} is not running")))?;
        Ok(found.started.process.pid)
    }

    fn exec(
        &mut self,
        number: u64,
        id: &str,
        exec: Exec,
        fds: Vec<OwnedFd>,
    ) -> Result<(Option<Reply>, Vec<OwnedFd>), Fault> {
        let stdio = match (exec.tty, <[OwnedFd; 3]>::try_from(fds)) {
            (true, _) => Stdio::Terminal,
            (false, Ok([stdin, stdout, stderr])) => Stdio::Given { stdin, stdout, stderr },
            (false, Err(_)) => {
                return Err(Fault::invalid("three streams must come with a process that has no terminal"));
            }
        };
        let found = self.containers.get(id).filter(|container| container.exit.is_none());
        let container =
            found.ok_or_else(|| Fault::new(FaultKind::NotFound, format!("container {id} is not running")))?;
        let machine_pid = container.started.process.pid;
        let born = self.nursery.exec(&container.spec, container.cgroup.as_ref(), machine_pid, exec, stdio)?;
        self.execs.insert(born.pid, number);
        let process = wire::process_id(born.machine_pid).unwrap_or(ProcessId { pid: born.machine_pid, start_ticks: 0 });
        let started = Started { process, at: Timestamp::now(), warnings: born.warnings };
        Ok((Some(Reply::Started(started)), born.terminal.into_iter().collect()))
    }

    fn forget(&mut self, id: &str) -> Result<(), Fault> {
        match self.containers.get(id) {
            Some(container) if container.exit.is_none() => {
                return Err(Fault::invalid(format!("container {id} is still running")));
            }
            Some(_) => {}
            None => return Ok(()),
        }
        self.records.append(&Record::Forgotten { container: id.to_owned() }).context(|| "record the removal".into())?;
        if let Some(container) = self.containers.remove(id) {
            container.remove_scratch();
        }
        Ok(())
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, ended))) = sys::reap_any() {
            if let Some(number) = self.execs.remove(&pid) {
                self.tell_exec(number, ended);
                continue;
            }
            let found = self.containers.values_mut().find(|container| container.pid == pid && container.exit.is_none());
            let Some(container) = found else { continue };
            let exit = container.end(ended, &self.nursery);
            let id = container.spec.id.clone();
            // Without a record nobody is told: the node then learns of the end when the shim is gone.
            match self.records.append(&Record::Exited { container: id.clone(), exit: exit.clone() }) {
                Err(error) => eprintln!("the end of {id} cannot be recorded: {error}"),
                Ok(()) => {
                    for connection in self.connections.values_mut().filter(|connection| connection.is_watching) {
                        connection.send(&Reply::Exited { container: id.clone(), exit: exit.clone() }, Vec::new());
                    }
                }
            }
            if let Some(container) = self.containers.get_mut(&id) {
                container.release();
            }
        }
    }

    fn tell_exec(&mut self, number: u64, ended: Ended) {
        let (code, signal) = match ended {
            Ended::Exited(code) => (code, None),
            Ended::Signalled(signal) => (128 + signal, Some(signal)),
        };
        let exit = wire::Exit { code, signal, oom_kills: 0, at: Timestamp::now() };
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.send(&Reply::Exited { container: String::new(), exit }, Vec::new());
        }
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        for container in self.containers.values().filter(|container| container.exit.is_none()) {
            let _ended_already = container.kill();
        }
    }

    fn has_stopped(&self) -> bool {
        self.is_stopping && self.containers.values().all(|container| container.exit.is_some())
    }

    /// Leaves nothing but the records, then says so.
    fn finish(&mut self) {
        if let Some(group) = &self.nursery.sandbox.cgroup
            && let Err(error) = Cgroup::existing(&self.nursery.cgroups, group).remove()
        {
            eprintln!("the pod's cgroup {} cannot be removed: {error}", group.display());
        }
        if let Network::Bridge(_) = self.nursery.sandbox.network {
            let _goes_with_the_namespace = network::disconnect();
        }
        for container in self.containers.values() {
            container.remove_scratch();
        }
        let _removed_already = fs::remove_file(self.nursery.folder.join(wire::SOCKET));
        for connection in self.connections.values_mut() {
            if connection.awaits_stop {
                connection.send(&Reply::Done, Vec::new());
            }
            connection.flush();
        }
    }
}
