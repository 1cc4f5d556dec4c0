//! What clients do with a running pod: the node's end of logs, exec, attach, port-forward and `top`.
//!
//! The API server asks by `NodeDoor`; here a question becomes calls on the pod's shim, and descriptors become streams.

use super::usage::Sampler;
use super::{Handle, Handles};
use crate::apiserver::node_door::{NodeDoor, Place, Usage};
use crate::runtime::client::{self, Pod, RuntimeError};
use crate::runtime::sys;
use crate::runtime::wire::{Exec, Exit};
use crate::streams::Io;
use crate::streams::session::{Outcome, Streams, TerminalSize};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};

/// Bytes read from a process at a time.
const READ_BYTES: usize = 32 * 1024;

/// The node as the API server sees it.
pub struct Access {
    node: String,
    handles: Arc<dyn Handles>,
    usage: Arc<Sampler>,
}

impl Access {
    pub fn new(node: &str, handles: Arc<dyn Handles>, usage: Arc<Sampler>) -> Access {
        Access { node: node.to_owned(), handles, usage }
    }

    /// The shim and the runtime's id of a container that runs.
    fn running(&self, place: &Place) -> Option<(Pod, String)> {
        let handle = self.handles.find(&place.pod_uid)?;
        let (id, is_running) = handle.containers.get(&place.container)?;
        Some((handle.shim?, id.clone())).filter(|_| *is_running)
    }
}

impl NodeDoor for Access {
    fn name(&self) -> &str {
        &self.node
    }

    fn log(&self, place: &Place, attempt: u64) -> Option<PathBuf> {
        let folder = self.handles.find(&place.pod_uid)?.folder;
        Some(folder.join("logs").join(&place.container).join(format!("{attempt}.log")))
    }

    fn is_running(&self, place: &Place) -> bool {
        self.running(place).is_some()
    }

    fn exec(&self, place: &Place, command: Vec<String>, streams: Streams) -> BoxFuture<'static, Outcome> {
        let found = self.running(place);
        let place = place.clone();
        Box::pin(async move {
            let Some((pod, id)) = found else { return not_found(&place) };
            let ended = match streams.resize {
                Some(_) => exec_on_terminal(&pod, &id, command, streams).await,
                None => exec_on_pipes(&pod, &id, command, streams).await,
            };
            ended.map_or_else(|error| exec_failure(&error), |exit| outcome(&exit))
        })
    }

    fn attach(&self, place: &Place, is_stdin_once: bool, streams: Streams) -> BoxFuture<'static, Outcome> {
        let found = self.running(place);
        let place = place.clone();
        Box::pin(async move {
            let Some((pod, id)) = found else { return not_found(&place) };
            match attach(pod, id, is_stdin_once, streams).await {
                // However the container ended: its code is in the pod's status, and the reference says success here.
                Ok(()) => Outcome::Exit(0),
                Err(error) => Outcome::Error(format!("error attaching to container: {error}")),
            }
        })
    }

    fn connect(&self, pod_uid: &str, port: u16) -> BoxFuture<'static, io::Result<Io>> {
        let handle = self.handles.find(pod_uid);
        Box::pin(async move { connect(handle, port).await })
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.node()
    }

    fn gpu_usage(&self) -> Option<String> {
        self.usage.gpus()
    }

    fn pod_usage(&self, pod_uid: &str) -> BTreeMap<String, Usage> {
        self.usage.pod(pod_uid)
    }
}

fn not_found(place: &Place) -> Outcome {
    Outcome::Error(format!("container not found ({:?})", place.container))
}

fn exec_failure(error: &RuntimeError) -> Outcome {
    let why = match error {
        RuntimeError::Fault(fault) => {
            format!("OCI runtime exec failed: exec failed: unable to start container process: {fault}")
        }
        other => other.to_string(),
    };
    Outcome::Error(format!("error executing command in container: failed to exec in container: {why}"))
}

fn outcome(exit: &Exit) -> Outcome {
    exit.signal.map_or(Outcome::Exit(exit.code), Outcome::Signal)
}

async fn exec_on_pipes(pod: &Pod, id: &str, args: Vec<String>, streams: Streams) -> Result<Exit, RuntimeError> {
    let Streams { stdin, stdout, stderr, resize: _ } = streams;
    let failed = |source| RuntimeError::Talk { folder: pod.folder().to_owned(), source };
    let (input, own_input) = input_pipe(stdin.is_some()).map_err(failed)?;
    let (own_output, output) = output_pipe(stdout.is_some()).map_err(failed)?;
    let (own_errors, errors) = output_pipe(stderr.is_some()).map_err(failed)?;
    let fds = client::Streams { stdin: input, stdout: output, stderr: errors };
    let exec = Exec { args, ..Exec::default() };
    let mut process = pod.exec(id, exec, Some(fds)).await?;
    let ended = async { tokio::join!(process.wait(), copy_out(own_output, stdout), copy_out(own_errors, stderr)).0 };
    beside(ended, copy_in(stdin, own_input)).await
}

async fn exec_on_terminal(pod: &Pod, id: &str, args: Vec<String>, streams: Streams) -> Result<Exit, RuntimeError> {
    let Streams { stdin, stdout, stderr: _, resize } = streams;
    let mut process = pod.exec(id, Exec { args, tty: true, ..Exec::default() }, None).await?;
    let failed = |source| RuntimeError::Talk { folder: pod.folder().to_owned(), source };
    let terminal = process.terminal.take();
    let terminal = terminal.ok_or_else(|| failed(io::Error::other("the shim sent no terminal")))?;
    let (input, output) = (terminal.try_clone().map_err(failed)?, terminal.try_clone().map_err(failed)?);
    let sizes = each_size(resize, |size| {
        let is_set = sys::resize_terminal(&terminal, size.height, size.width);
        async move { is_set.is_ok() }
    });
    let ended = async { tokio::join!(process.wait(), copy_out(Some(output), stdout)).0 };
    beside(ended, async { tokio::join!(copy_in(stdin, Some(input)), sizes) }).await
}

async fn attach(pod: Pod, id: String, is_stdin_once: bool, streams: Streams) -> Result<(), RuntimeError> {
    let Streams { stdin, stdout, stderr, resize } = streams;
    let failed = |source| RuntimeError::Talk { folder: pod.folder().to_owned(), source };
    let (own_output, output) = output_pipe(stdout.is_some()).map_err(failed)?;
    let (own_errors, errors) = output_pipe(stderr.is_some()).map_err(failed)?;
    let input = pod.attach(&id, &[output, errors]).await?.filter(|_| stdin.is_some());
    let last = StdinOnce { pod: pod.clone(), id: id.clone() };
    let last = Some(last).filter(|_| is_stdin_once && input.is_some() && resize.is_none());
    let (reads_input, stays) = (input.is_some(), last.is_some());
    let input = async move {
        copy_in(stdin, input).await;
        drop(last);
        // Who has no more to say is let go, unless the container is to see the end of its input and answer.
        if !reads_input || stays {
            pending::<()>().await;
        }
    };
    let sizes = each_size(resize, |size| {
        let (pod, id) = (pod.clone(), id.clone());
        async move { pod.resize(&id, size.height, size.width).await.is_ok() }
    });
    let ended = async { tokio::join!(pod.wait(&id), copy_out(own_output, stdout), copy_out(own_errors, stderr)).0 };
    tokio::select! {
        exit = beside(ended, sizes) => exit.map(drop),
        () = input => Ok(()),
    }
}

/// Ends a container's input with the first client that attached to it, however that one leaves.
struct StdinOnce {
    pod: Pod,
    id: String,
}

impl Drop for StdinOnce {
    fn drop(&mut self) {
        let (pod, id) = (self.pod.clone(), std::mem::take(&mut self.id));
        tokio::spawn(async move {
            let _ended_already = pod.close_stdin(&id).await;
        });
    }
}

/// The process's end and ours; nothing to read when no input was asked for.
fn input_pipe(is_wanted: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if !is_wanted {
        return Ok((File::open("/dev/null")?.into(), None));
    }
    let (read, write) = sys::pipe()?;
    Ok((read, Some(write)))
}

/// Our end and the process's.
fn output_pipe(is_wanted: bool) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    if !is_wanted {
        return Ok((None, OpenOptions::new().write(true).open("/dev/null")?.into()));
    }
    let (read, write) = sys::pipe()?;
    Ok((Some(read), write))
}

/// Runs one future to its end while another goes on beside it.
async fn beside<T>(main: impl Future<Output = T>, other: impl Future) -> T {
    tokio::select! {
        result = main => result,
        _ = async { other.await; pending::<()>().await } => unreachable!("waits for ever"),
    }
}

/// Hands a process's output on until it ends; the end of a terminal is an error of its own.
async fn copy_out(from: Option<OwnedFd>, to: Option<mpsc::Sender<Bytes>>) {
    let (Some(from), Some(to)) = (from, to) else { return };
    // Unchecked, because a terminal is read just like a pipe; unlike the checked way, this leaves it blocking.
    let Ok(mut from) = sys::set_nonblocking(&from, true).and_then(|()| pipe::Receiver::from_owned_fd_unchecked(from))
    else {
        return;
    };
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(READ_BYTES);
        let has_read = matches!(from.read_buf(&mut buffer).await, Ok(1..));
        if !has_read || to.send(buffer.split().freeze()).await.is_err() {
            return;
        }
    }
}

/// Writes a client's input to a process until either has enough; closes the process's end then.
async fn copy_in(from: Option<mpsc::Receiver<Bytes>>, to: Option<OwnedFd>) {
    let (Some(mut from), Some(to)) = (from, to) else { return };
    let Ok(mut to) = sys::set_nonblocking(&to, true).and_then(|()| pipe::Sender::from_owned_fd_unchecked(to)) else {
        return;
    };
    while let Some(piece) = from.recv().await {
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}

/// Sets every size that the client's terminal takes, as long as that works.
async fn each_size<R: Future<Output = bool>>(
    sizes: Option<watch::Receiver<Option<TerminalSize>>>,
    set: impl Fn(TerminalSize) -> R,
) {
    let Some(mut sizes) = sizes else { return };
    loop {
        let size = *sizes.borrow_and_update();
        if let Some(size) = size
            && !set(size).await
        {
            return;
        }
        if sizes.changed().await.is_err() {
            return;
        }
    }
}

/// Connects from inside the pod's network: many programs listen on its loopback only.
async fn connect(handle: Option<Handle>, port: u16) -> io::Result<Io> {
    let shim = handle.and_then(|handle| handle.shim);
    let shim = shim.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the pod is not running"))?;
    let mut failures = Vec::new();
    for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))] {
        let socket = socket_within(shim.shim().pid, address).await?;
        match socket.connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Box::new(stream));
            }
            Err(error) => failures.push(format!("{address}: {error}")),
        }
    }
    let why = format!("failed to connect to localhost:{port} inside the pod: {}", failures.join(", "));
    Err(io::Error::new(io::ErrorKind::ConnectionRefused, why))
}

/// A socket of a process's network. It stays one wherever it is used, so that only making it needs the namespace.
async fn socket_within(pid: i32, address: SocketAddr) -> io::Result<TcpSocket> {
    let make = move || if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let network = format!("/proc/{pid}/ns/net");
    let is_shared = fs::metadata(&network)?.ino() == fs::metadata("/proc/self/ns/net")?.ino();
    if is_shared {
        return make();
    }
    let (sender, made) = oneshot::channel();
    // A thread of its own that ends at once: no other work must find itself in the pod's network.
    std::thread::Builder::new().name("pod-socket".to_owned()).spawn(move || {
        let entered = File::open(&network).and_then(|file| sys::setns(file, libc::CLONE_NEWNET));
        let _asker_left = sender.send(entered.and_then(|()| make()));
    })?;
    made.await.map_err(io::Error::other)?
}
