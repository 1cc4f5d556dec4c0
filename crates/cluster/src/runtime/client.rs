//! The node's side: starts shims, finds them again after a restart, and speaks to them.
//!
//! Every call opens its own connection, so calls do not wait for each other, and a node that dies in the middle of one leaves
//! nothing half said.

use super::Capabilities;
use super::cgroup::{Cgroup, Layout};
use super::leftovers;
use super::network;
use super::record;
use super::rootfs;
use super::shim::Hello;
use super::spec::{Container, Network, Sandbox};
use super::sys::{self, MountAttributes};
use super::wire::{
    self, ContainerState, Exec, Exit, Fault, Incoming, PodState, ProcessId, Reply, Request, Started, Stats,
};
use jiff::Timestamp;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Interest};
use tokio::net::UnixStream;

/// A shim starts within milliseconds; on a machine that is out of breath, within a minute.
const STARTING_TRIES_MAX: u32 = 6_000;
const STARTING_TRY: Duration = Duration::from_millis(10);
/// The kernel may need a while to end a pod of many processes; one that takes longer hangs in it.
const SHIM_END_MS_MAX: i32 = 60_000;

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("failed to start a shim by {program}")]
    Launch { program: PathBuf, source: io::Error },
    #[error("failed to prepare the pod's folder {folder}")]
    Folder { folder: PathBuf, source: io::Error },
    #[error("failed to speak to the shim in {folder}")]
    Talk { folder: PathBuf, source: io::Error },
    #[error("the shim in {folder} gave no answer")]
    Silent { folder: PathBuf },
}

/// How to run the shim: a program and the arguments before `run FOLDER`.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
    args: Vec<String>,
    /// Keeps the read-only copy of the mount that `program` then names.
    _sealed: Option<Arc<OwnedFd>>,
}

impl Launcher {
    /// This program's own hidden verb, `shim`.
    pub fn own() -> io::Result<Launcher> {
        Ok(Launcher::new(&std::env::current_exe()?, &["shim"]))
    }

    /// Any program that ends in `shim_main`. As root it is run from a read-only mount that nobody can change back: a container's
    /// root could otherwise have itself run as `/proc/self/exe` and then overwrite the machine's file.
    pub fn new(program: &Path, args: &[&str]) -> Launcher {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let read_only = MountAttributes { set: sys::MOUNT_ATTR_RDONLY, ..Default::default() };
        let sealed =
            sys::open_tree(None, program).and_then(|tree| sys::mount_setattr(&tree, true, read_only).map(|()| tree));
        match sealed {
            Ok(tree) => {
                // The path is looked up in the forked child, which has the descriptor until its exec.
                let program = format!("/proc/self/fd/{}", tree.as_raw_fd()).into();
                Launcher { program, args, _sealed: Some(Arc::new(tree)) }
            }
            Err(_) => Launcher { program: program.to_owned(), args, _sealed: None },
        }
    }

    /// Tells what the machine allows; `folder` is where pods will be kept.
    pub async fn probe(&self, folder: &Path) -> Result<Capabilities, RuntimeError> {
        let launch = |source| RuntimeError::Launch { program: self.program.clone(), source };
        let output = self.command("probe", folder).stderr(Stdio::piped()).output().await.map_err(launch)?;
        serde_json::from_slice(&output.stdout).map_err(|error| launch(error.into()))
    }

    fn command(&self, verb: &str, folder: &Path) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args).arg(verb).arg(folder).current_dir("/").env_clear().stdin(Stdio::null());
        for name in ["PATH", "HOME"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }
}

/// A pod whose shim lives.
#[derive(Debug, Clone)]
pub struct Pod {
    folder: PathBuf,
    shim: ProcessId,
}

/// What a folder of an earlier node turned out to be.
#[derive(Debug)]
pub enum Adopted {
    Running(Pod),
    /// The shim has died and its pod with it: how each container ended, as far as it was recorded.
    Dead(PodState),
    /// No shim ever got as far as writing there.
    Nothing,
}

/// A process that runs beside a container's own.
pub struct Executed {
    pub started: Started,
    /// The master end, if a terminal was asked for: read output from it, write input to it.
    pub terminal: Option<OwnedFd>,
    talk: Talk,
}

/// Where a process without a terminal reads and writes.
pub struct Streams {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

impl Pod {
    /// Starts a pod in `folder`, which is made if it is missing.
    pub async fn start(launcher: &Launcher, folder: &Path, sandbox: &Sandbox) -> Result<Pod, RuntimeError> {
        let failed = |source| RuntimeError::Folder { folder: folder.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let folder = fs::canonicalize(folder).map_err(failed)?;
        let failed = |source| RuntimeError::Folder { folder: folder.clone(), source };
        let text = serde_json::to_vec(sandbox).map_err(|error| failed(error.into()))?;
        let path = folder.join(wire::SANDBOX);
        let mut sandbox_file =
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
        // The shim inherits the lock as its standard input and holds it to its end, whatever becomes of this process: a pod that
        // is still starting when the node dies is found, too.
        sandbox_file.try_lock().map_err(|error| failed(error.into()))?;
        sandbox_file.set_len(0).and_then(|()| sandbox_file.write_all(&text)).map_err(failed)?;
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(folder.join(wire::SHIM_LOG))
            .map_err(failed)?;
        let launch = |source| RuntimeError::Launch { program: launcher.program.clone(), source };
        let mut command = launcher.command("run", &folder);
        command.stdin(sandbox_file).stdout(Stdio::piped()).stderr(log);
        // Whoever spawns stands still until the new process runs its program: no thread that others wait for.
        let spawned = tokio::task::spawn_blocking(move || command.spawn()).await;
        let mut child = spawned.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(launch)?;
        let output = child.stdout.take().ok_or_else(|| RuntimeError::Silent { folder: folder.clone() })?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await.map_err(launch)?;
        // A shim that makes a PID namespace goes on in a child and ends here; any other is this child.
        if sandbox.isolates_pids() {
            child.wait().await.map_err(launch)?;
        } else {
            tokio::spawn(async move { child.wait().await });
        }
        match serde_json::from_str(&line) {
            Ok(Hello::Ready(shim)) => Ok(Pod { folder, shim }),
            Ok(Hello::Fault(fault)) => Err(fault.into()),
            Err(_) => Err(RuntimeError::Silent { folder }),
        }
    }

    /// Finds the pod that a node started earlier in `folder`.
    pub async fn adopt(folder: &Path) -> Result<Adopted, RuntimeError> {
        let failed = |source| RuntimeError::Folder { folder: folder.to_owned(), source };
        let Some(mut state) = recorded(folder).await.map_err(failed)? else { return Ok(Adopted::Nothing) };
        let pod = Pod { folder: folder.to_owned(), shim: state.shim };
        if pod.shim.is_alive() {
            if pod.state().await.is_ok_and(|seen| seen.shim == pod.shim) {
                return Ok(Adopted::Running(pod));
            }
            // It was told to end and is about to; its records are complete only then.
            pod.until_ended(sys::process_descriptor(pod.shim.pid)).await?;
            state = record::read(&folder.join(wire::RECORDS)).map_err(failed)?.unwrap_or(state);
        }
        let killed =
            Exit { code: 128 + libc::SIGKILL, signal: Some(libc::SIGKILL), oom_kills: 0, at: Timestamp::now() };
        for container in state.containers.values_mut() {
            container.exit.get_or_insert_with(|| killed.clone());
        }
        Ok(Adopted::Dead(state))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn shim(&self) -> ProcessId {
        self.shim
    }

    pub async fn state(&self) -> Result<PodState, RuntimeError> {
        match self.ask(&Request::State).await? {
            Reply::State(state) => Ok(state),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns once the container's program runs.
    pub async fn start_container(&self, container: Container) -> Result<Started, RuntimeError> {
        match self.ask(&Request::Start(Box::new(container))).await? {
            Reply::Started(started) => Ok(started),
            other => Err(self.unexpected(&other)),
        }
    }

    pub async fn signal(&self, container: &str, signal: i32) -> Result<(), RuntimeError> {
        self.order(&Request::Signal { container: container.to_owned(), signal }).await
    }

    pub async fn kill(&self, container: &str) -> Result<(), RuntimeError> {
        self.order(&Request::Kill { container: container.to_owned() }).await
    }

    pub async fn resize(&self, container: &str, rows: u16, columns: u16) -> Result<(), RuntimeError> {
        self.order(&Request::Resize { container: container.to_owned(), rows, columns }).await
    }

    /// Ends the input of a container that reads it; whoever attached to it must close its own end too.
    pub async fn close_stdin(&self, container: &str) -> Result<(), RuntimeError> {
        self.order(&Request::CloseStdin { container: container.to_owned() }).await
    }

    /// Drops a container that has ended, with its writable layer.
    pub async fn forget(&self, container: &str) -> Result<(), RuntimeError> {
        self.order(&Request::Forget { container: container.to_owned() }).await
    }

    pub async fn stats(&self, container: &str) -> Result<Stats, RuntimeError> {
        match self.ask(&Request::Stats { container: container.to_owned() }).await? {
            Reply::Stats(stats) => Ok(stats),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Runs a process beside the container's own; streams are for one without a terminal.
    pub async fn exec(&self, container: &str, exec: Exec, streams: Option<Streams>) -> Result<Executed, RuntimeError> {
        let mut talk = self.talk().await?;
        let fds: Vec<&OwnedFd> =
            streams.iter().flat_map(|streams| [&streams.stdin, &streams.stdout, &streams.stderr]).collect();
        talk.send(&Request::Exec { container: container.to_owned(), exec }, &fds).await?;
        match talk.receive().await? {
            Some(Reply::Started(started)) => Ok(Executed { started, terminal: talk.incoming.fds.pop(), talk }),
            Some(Reply::Fault(fault)) => Err(fault.into()),
            Some(other) => Err(self.unexpected(&other)),
            None => Err(self.silent()),
        }
    }

    /// Copies the container's output to the given ends from now on; gives the end for its input, if it reads any.
    ///
    /// A terminal has one output. It is the end for input, too, and can be resized by it.
    pub async fn attach(&self, container: &str, outputs: &[OwnedFd]) -> Result<Option<OwnedFd>, RuntimeError> {
        let mut talk = self.talk().await?;
        let fds: Vec<&OwnedFd> = outputs.iter().collect();
        let count = outputs.len().min(2) as u8;
        talk.send(&Request::Attach { container: container.to_owned(), outputs: count }, &fds).await?;
        match talk.receive().await? {
            Some(Reply::Done) => Ok(talk.incoming.fds.pop()),
            Some(Reply::Fault(fault)) => Err(fault.into()),
            Some(other) => Err(self.unexpected(&other)),
            None => Err(self.silent()),
        }
    }

    /// Hears of every end from now on.
    pub async fn watch(&self) -> Result<Watch, RuntimeError> {
        let mut talk = self.talk().await?;
        talk.send(&Request::Watch, &[]).await?;
        match talk.receive().await? {
            Some(Reply::State(state)) => Ok(Watch { state, talk }),
            Some(other) => Err(self.unexpected(&other)),
            None => Err(self.silent()),
        }
    }

    /// Waits until the container has ended.
    pub async fn wait(&self, container: &str) -> Result<Exit, RuntimeError> {
        let mut watch = self.watch().await?;
        if let Some(exit) = watch.state.containers.get(container).and_then(|found| found.exit.clone()) {
            return Ok(exit);
        }
        while let Some((id, exit)) = watch.next().await? {
            if id == container {
                return Ok(exit);
            }
        }
        Err(self.silent())
    }

    /// Ends all containers and the shim, and removes everything of the pod: processes, mounts, cgroups, interfaces, files.
    pub async fn remove(self) -> Result<(), RuntimeError> {
        if self.shim.is_alive() {
            let process = sys::process_descriptor(self.shim.pid);
            // A shim that does not answer is killed; the kernel ends the pod with it.
            if self.order(&Request::Stop).await.is_err() {
                let _gone_already = sys::kill(self.shim.pid, libc::SIGKILL);
            }
            self.until_ended(process).await?;
        }
        remove_remains(&self.folder).await
    }

    async fn order(&self, request: &Request) -> Result<(), RuntimeError> {
        match self.ask(request).await? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn ask(&self, request: &Request) -> Result<Reply, RuntimeError> {
        let mut talk = self.talk().await?;
        talk.send(request, &[]).await?;
        match talk.receive().await? {
            Some(Reply::Fault(fault)) => Err(fault.into()),
            Some(reply) => Ok(reply),
            None => Err(self.silent()),
        }
    }

    async fn until_ended(&self, process: io::Result<OwnedFd>) -> Result<(), RuntimeError> {
        let process = match process {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
            found => found.map_err(|source| self.talk_error(source))?,
        };
        let waiting = tokio::task::spawn_blocking(move || sys::wait_until_readable(&process, SHIM_END_MS_MAX));
        let has_ended = waiting.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        has_ended.map_err(|source| self.talk_error(source))
    }

    async fn talk(&self) -> Result<Talk, RuntimeError> {
        let stream = connect(&self.folder).await.map_err(|source| self.talk_error(source))?;
        Ok(Talk { folder: self.folder.clone(), stream, incoming: Incoming::default() })
    }

    fn talk_error(&self, source: io::Error) -> RuntimeError {
        RuntimeError::Talk { folder: self.folder.clone(), source }
    }

    fn silent(&self) -> RuntimeError {
        RuntimeError::Silent { folder: self.folder.clone() }
    }

    fn unexpected(&self, reply: &Reply) -> RuntimeError {
        self.talk_error(io::Error::new(io::ErrorKind::InvalidData, format!("unexpected answer {reply:?}")))
    }
}

impl Executed {
    /// Waits for the process to end.
    pub async fn wait(&mut self) -> Result<Exit, RuntimeError> {
        match self.talk.receive().await? {
            Some(Reply::Exited { exit, .. }) => Ok(exit),
            Some(_) | None => Err(RuntimeError::Silent { folder: self.talk.folder.clone() }),
        }
    }

    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), |terminal| sys::resize_terminal(terminal, rows, columns))
    }
}

/// A stream of ends.
pub struct Watch {
    /// How things were when the watch began.
    pub state: PodState,
    talk: Talk,
}

impl Watch {
    /// The next container that ends, and how; none when the shim is gone.
    pub async fn next(&mut self) -> Result<Option<(String, Exit)>, RuntimeError> {
        loop {
            match self.talk.receive().await? {
                Some(Reply::Exited { container, exit }) => return Ok(Some((container, exit))),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

struct Talk {
    folder: PathBuf,
    stream: UnixStream,
    incoming: Incoming,
}

impl Talk {
    async fn send(&mut self, request: &Request, fds: &[&OwnedFd]) -> Result<(), RuntimeError> {
        let sent = async {
            let frame = wire::encode(request)?;
            let mut fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
            let mut sent = 0;
            while sent < frame.len() {
                let write = || sys::send_with_fds(self.stream.as_fd(), &frame[sent..], &fds);
                sent += self.stream.async_io(Interest::WRITABLE, write).await?;
                fds.clear();
            }
            Ok(())
        };
        sent.await.map_err(|source| RuntimeError::Talk { folder: self.folder.clone(), source })
    }

    async fn receive(&mut self) -> Result<Option<Reply>, RuntimeError> {
        let failed = |source| RuntimeError::Talk { folder: self.folder.clone(), source };
        loop {
            if let Some(reply) = self.incoming.take_message().map_err(failed)? {
                return Ok(Some(reply));
            }
            let (stream, incoming) = (&self.stream, &mut self.incoming);
            match stream.async_io(Interest::READABLE, || incoming.fill(stream.as_fd())).await {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// What the shim has recorded; waits for one that is still starting.
async fn recorded(folder: &Path) -> io::Result<Option<PodState>> {
    for _try in 0..STARTING_TRIES_MAX {
        let is_held = is_held(folder)?;
        match record::read(&folder.join(wire::RECORDS))? {
            Some(state) => return Ok(Some(state)),
            None if !is_held => return Ok(None),
            None => tokio::time::sleep(STARTING_TRY).await,
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "a shim has been starting for too long"))
}

/// Whether a shim lives in the folder, or is about to.
fn is_held(folder: &Path) -> io::Result<bool> {
    match fs::File::open(folder.join(wire::SANDBOX)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(error)) => Err(error),
        },
    }
}

/// Socket paths are short, folders of pods may not be: the folder's descriptor stands for it.
async fn connect(folder: &Path) -> io::Result<UnixStream> {
    let folder = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), wire::SOCKET)).await
}

/// Removes what a dead pod has left: stray processes, its cgroup, its interface, its folder. Fails while its shim lives.
pub async fn remove_remains(folder: &Path) -> Result<(), RuntimeError> {
    let owned = folder.to_owned();
    let removed = tokio::task::spawn_blocking(move || remove_blocking(&owned)).await;
    let failed = |source| RuntimeError::Folder { folder: folder.to_owned(), source };
    removed.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)
}

fn remove_blocking(folder: &Path) -> io::Result<()> {
    if is_held(folder)? {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the pod's shim is still alive"));
    }
    let sandbox = fs::read(folder.join(wire::SANDBOX)).ok();
    if let Some(sandbox) = sandbox.and_then(|text| serde_json::from_slice::<Sandbox>(&text).ok()) {
        if !sandbox.isolates_pids() {
            leftovers::kill_pod(&sandbox.id);
        }
        if let Some(group) = &sandbox.cgroup {
            Cgroup::existing(&Layout::find(), group).remove()?;
        }
        if let Network::Bridge(_) = sandbox.network {
            network::remove_interface(&sandbox.id).map_err(io::Error::other)?;
        }
    }
    rootfs::remove_layer(folder)
}

impl PodState {
    /// The newest attempt at the container of this name.
    pub fn newest(&self, name: &str) -> Option<(&String, &ContainerState)> {
        self.containers
            .iter()
            .filter(|(_, container)| container.name == name)
            .max_by_key(|(_, container)| container.attempt)
    }
}
