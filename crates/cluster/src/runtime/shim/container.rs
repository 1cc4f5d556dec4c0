//! A container as its shim sees it: the process, its streams on their way to the log and to those attached, and its end.

use super::birth::Nursery;
use crate::runtime::cgroup::Cgroup;
use crate::runtime::leftovers;
use crate::runtime::process::Stdio;
use crate::runtime::rootfs;
use crate::runtime::spec::{Container, Root};
use crate::runtime::sys::{self, Ended, Pid};
use crate::runtime::wire::{ContainerState, Context, Exit, Fault, Started};
use crate::streams::logs::Output as Stream;
use crate::streams::logs::writer::{LogLimits, LogWriter};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What one turn of the loop takes from a stream, so that no container keeps the others waiting.
const READ_BYTES: usize = 64 * 1024;
/// Output that one who attached has not read yet; who falls further behind is cut off.
const PENDING_BYTES_MAX: usize = 1 << 20;

pub struct Running {
    pub spec: Container,
    pub pid: Pid,
    pub started: Started,
    pub exit: Option<Exit>,
    pub cgroup: Option<Cgroup>,
    outputs: Vec<Output>,
    log: Option<LogWriter>,
    stdin: Option<OwnedFd>,
    pub terminal: Option<OwnedFd>,
    attached: Vec<Attached>,
}

struct Output {
    fd: OwnedFd,
    stream: Stream,
}

/// One place where output is copied to.
struct Attached {
    fd: OwnedFd,
    stream: Stream,
    pending: VecDeque<u8>,
}

/// The shim's ends of a container's streams.
struct Ends {
    stdin: Option<OwnedFd>,
    outputs: Vec<Output>,
}

impl Running {
    pub fn start(nursery: &Nursery, spec: Container, beside: Option<i32>) -> Result<Running, Fault> {
        let log = match &spec.log {
            Some(target) => {
                let limits = LogLimits { file_bytes_max: target.bytes_max, files_max: target.files_max as usize };
                let opened = LogWriter::open(&target.path, limits);
                Some(opened.context(|| format!("open the log {}", target.path.display()))?)
            }
            None => None,
        };
        let (ends, stdio) = streams(&spec).context(|| "make the container's streams".into())?;
        let cgroup = nursery.cgroup(&spec)?;
        let born = match nursery.start(&spec, cgroup.as_ref(), beside, stdio) {
            Ok(born) => born,
            Err(fault) => {
                let _emptied = cgroup.map(|cgroup| cgroup.remove());
                return Err(fault);
            }
        };
        let process = crate::runtime::wire::process_id(born.machine_pid);
        let process = process.unwrap_or(crate::runtime::wire::ProcessId { pid: born.machine_pid, start_ticks: 0 });
        let mut outputs = ends.outputs;
        if let Some(master) = &born.terminal {
            let fd = master.try_clone().context(|| "copy the terminal".into())?;
            outputs.push(Output { fd, stream: Stream::Stdout });
        }
        for output in &outputs {
            sys::set_nonblocking(&output.fd, true).context(|| "set up the container's streams".into())?;
        }
        Ok(Running {
            pid: born.pid,
            started: Started { process, at: Timestamp::now(), warnings: born.warnings },
            exit: None,
            cgroup,
            outputs,
            log,
            stdin: ends.stdin,
            terminal: born.terminal,
            attached: Vec::new(),
            spec,
        })
    }

    pub fn state(&self) -> ContainerState {
        ContainerState {
            name: self.spec.name.clone(),
            attempt: self.spec.attempt,
            started: self.started.clone(),
            exit: self.exit.clone(),
        }
    }

    /// Descriptors to wait for, and what for.
    pub fn interests(&self) -> impl Iterator<Item = (RawFd, libc::c_short)> + '_ {
        let reads = self.outputs.iter().map(|output| (output.fd.as_raw_fd(), libc::POLLIN));
        let late = self.attached.iter().filter(|attached| !attached.pending.is_empty());
        reads.chain(late.map(|attached| (attached.fd.as_raw_fd(), libc::POLLOUT)))
    }

    /// Moves what can be moved now.
    pub fn pump(&mut self, is_ready: impl Fn(RawFd) -> bool) {
        let mut ended = Vec::new();
        for index in 0..self.outputs.len() {
            if is_ready(self.outputs[index].fd.as_raw_fd()) && !self.read_once(index) {
                ended.push(index);
            }
        }
        for index in ended.into_iter().rev() {
            self.outputs.remove(index);
        }
        self.attached.retain_mut(|attached| attached.flush());
    }

    /// Reads one stream once; false at its end.
    fn read_once(&mut self, index: usize) -> bool {
        let mut buffer = [0; READ_BYTES];
        let output = &self.outputs[index];
        let count = match sys::read(&output.fd, &mut buffer) {
            Ok(count) => count,
            Err(error) => return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        let stream = output.stream;
        if let Some(log) = &mut self.log {
            // A full disk must not stop the container: its output is lost, its exit is not.
            let _lost = match count {
                0 => log.finish(stream, Timestamp::now()),
                _ => log.write(stream, &buffer[..count], Timestamp::now()),
            };
        }
        for attached in self.attached.iter_mut().filter(|attached| attached.stream == stream) {
            attached.pending.extend(&buffer[..count]);
        }
        count > 0
    }

    /// Copies output to `fds` from now on; gives the end to write input to, if the container reads any.
    pub fn attach(&mut self, fds: Vec<OwnedFd>) -> Result<Option<OwnedFd>, Fault> {
        for (fd, stream) in fds.into_iter().zip([Stream::Stdout, Stream::Stderr]) {
            sys::set_nonblocking(&fd, true).context(|| "attach an output".into())?;
            self.attached.push(Attached { fd, stream, pending: VecDeque::new() });
        }
        let input = self.terminal.as_ref().filter(|_| self.spec.stdin).or(self.stdin.as_ref());
        input.map(|fd| fd.try_clone()).transpose().context(|| "attach the input".into())
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn signal(&self, signal: i32) -> io::Result<()> {
        sys::kill(self.pid, signal)
    }

    pub fn kill(&self) -> io::Result<()> {
        self.signal(libc::SIGKILL)?;
        self.cgroup.iter().for_each(Cgroup::hasten);
        Ok(())
    }

    /// Takes in that the first process has ended: the rest of the output, the leftovers, the reason.
    pub fn end(&mut self, ended: Ended, nursery: &Nursery) -> Exit {
        if !nursery.ends_whole(&self.spec) {
            let mark = leftovers::mark(&nursery.sandbox.id, &self.spec.id);
            leftovers::kill_container(&mark, self.started.process.pid, self.cgroup.as_ref());
        }
        while !self.outputs.is_empty() {
            let before = self.outputs.len();
            let mut has_more = false;
            for index in (0..before).rev() {
                let mut poll =
                    [libc::pollfd { fd: self.outputs[index].fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
                let is_ready = sys::poll(&mut poll, 0).is_ok_and(|count| count > 0);
                if is_ready && self.read_once(index) {
                    has_more = true;
                } else {
                    self.finish_output(index);
                }
            }
            if !has_more {
                break;
            }
        }
        self.attached.retain_mut(Attached::flush);
        self.attached.clear();
        (self.stdin, self.terminal, self.log) = (None, None, None);
        let oom_kills = self.cgroup.as_ref().map_or(0, Cgroup::oom_kills);
        let (code, signal) = match ended {
            Ended::Exited(code) => (code, None),
            Ended::Signalled(signal) => (128 + signal, Some(signal)),
        };
        let exit = Exit { code, signal, oom_kills, at: Timestamp::now() };
        self.exit = Some(exit.clone());
        exit
    }

    fn finish_output(&mut self, index: usize) {
        let output = self.outputs.remove(index);
        if let Some(log) = &mut self.log {
            let _lost = log.finish(output.stream, Timestamp::now());
        }
    }

    /// Removes the writable layer. The shim does so itself: in a user namespace only it may remove files of mapped users.
    pub fn remove_scratch(&self) {
        match &self.spec.root {
            Root::Layers { scratch, .. } | Root::Host { scratch } => {
                if let Err(error) = rootfs::remove_layer(scratch) {
                    eprintln!("the writable layer {} cannot be removed: {error}", scratch.display());
                }
            }
            Root::Machine => {}
        }
    }

    /// Removes the container's cgroup once nothing runs in it.
    pub fn release(&mut self) {
        if let Some(cgroup) = self.cgroup.take() {
            let _tried_again_when_the_pod_ends = cgroup.remove();
        }
    }
}

impl Attached {
    /// Writes what the reader takes; false when it is gone or too slow.
    fn flush(&mut self) -> bool {
        while !self.pending.is_empty() {
            let (front, _) = self.pending.as_slices();
            match sys::write(&self.fd, front) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.pending.len() <= PENDING_BYTES_MAX;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

fn streams(spec: &Container) -> io::Result<(Ends, Stdio)> {
    if spec.process.tty {
        return Ok((Ends { stdin: None, outputs: Vec::new() }, Stdio::Terminal));
    }
    let (stdin, own_stdin) = if spec.stdin {
        let (read, write) = sys::pipe()?;
        (read, Some(write))
    } else {
        (File::open("/dev/null")?.into(), None)
    };
    let (stdout_read, stdout) = sys::pipe()?;
    let (stderr_read, stderr) = sys::pipe()?;
    let output = |fd, stream| Output { fd, stream };
    let outputs = vec![output(stdout_read, Stream::Stdout), output(stderr_read, Stream::Stderr)];
    Ok((Ends { stdin: own_stdin, outputs }, Stdio::Given { stdin, stdout, stderr }))
}
