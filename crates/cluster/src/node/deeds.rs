//! What a worker has done for it: each deed runs beside it and comes back as a `Note`.

use super::container::{Making, Refusal, sources};
use super::keeper::{Found, Obtained};
use super::volumes::VolumeError;
use super::{Parts, handlers, paths, volumes};
use crate::images::error::ImageError;
use crate::runtime::cgroup::Layout;
use crate::runtime::client::{self, Adopted, RuntimeError, Streams};
use crate::runtime::spec::{Resources, Sandbox};
use crate::runtime::sys;
use crate::runtime::wire::{Exec, Exit, Fault, FaultKind, Started};
use crate::streams::logs::reader::{LogReader, ReadOptions};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use volley_api::kube::status::ApiError;
use volley_plan::node::seen::{Attempt, Eviction, ProbeKind};
use volley_plan::node::{files, handlers as planned, probes, resources, termination};

/// Processes of one pod: far more than any training job has, far fewer than a fork bomb wants.
const POD_PIDS_MAX: u64 = 8192;
/// Of what a probe or hook prints.
const OUTPUT_BYTES_MAX: u64 = 10 * 1024;
/// Lines of its log that a container's last words may be taken from.
const LAST_LINES: u64 = 80;
/// A hook has no time limit of its own: the pod's grace ends it. This is only the end of all patience.
const HOOK_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Before a shim that lives but does not answer is asked again.
const WATCH_PAUSE: Duration = Duration::from_millis(50);

/// What a worker is told.
pub enum Note {
    /// The stored object has changed.
    Object(Box<Pod>),
    /// The object is gone.
    Gone,
    /// With when a token in them has to be renewed.
    Mounted(Result<Option<Timestamp>, VolumeError>),
    /// Something that a volume is made of has changed.
    Refresh,
    Refreshed(Option<Timestamp>),
    Sandbox {
        number: u32,
        result: Result<(client::Pod, Vec<String>), String>,
    },
    Pulled {
        container: String,
        attempt_number: u32,
        since: Timestamp,
        result: Result<Obtained, ImageError>,
    },
    Started {
        container: String,
        attempt: Attempt,
        result: Launched,
    },
    Hooked {
        container: String,
        id: String,
        which: Which,
        result: Result<(), String>,
    },
    Probed {
        container: String,
        id: String,
        kind: ProbeKind,
        success: bool,
        output: String,
    },
    Ended {
        id: String,
        exit: Exit,
    },
    /// The shim is gone; the ends that it recorded.
    ShimGone(BTreeMap<String, Exit>),
    TornDown(Result<(), String>),
    Unmounted(Result<(), VolumeError>),
    Removed(Result<(), ApiError>),
    Reported(Result<Value, ApiError>),
    Evict(Eviction),
}

/// What became of an attempt to start a container.
pub enum Launched {
    Running(Started),
    /// The program does not exist or cannot be run: the container counts as ended.
    CannotRun(String),
    /// The container could not be made; it is tried again.
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    PostStart,
    PreStop,
}

pub struct Deeds {
    pub parts: Arc<Parts>,
    pub folder: PathBuf,
    pub outbox: mpsc::Sender<Note>,
}

impl Deeds {
    /// Runs a deed and hands its note to the worker; a worker that has left needs none.
    fn go(&self, deed: impl Future<Output = Note> + Send + 'static) {
        let outbox = self.outbox.clone();
        tokio::spawn(async move {
            let _worker_has_left = outbox.send(deed.await).await;
        });
    }

    pub fn mount(&self, pod: &Pod) {
        let (parts, pod, folder) = (self.parts.clone(), pod.clone(), paths::volumes(&self.folder));
        self.go(async move {
            let sources = sources(&parts, &pod, &[]);
            Note::Mounted(parts.volumes.mount(&pod, &folder, &sources).await)
        });
    }

    pub fn refresh(&self, pod: &Pod, addresses: Vec<String>) {
        let (parts, pod, folder) = (self.parts.clone(), pod.clone(), paths::volumes(&self.folder));
        self.go(async move {
            let sources = sources(&parts, &pod, &addresses);
            match parts.volumes.refresh(&pod, &folder, &sources).await {
                Ok(again_at) => Note::Refreshed(again_at),
                Err(error) => {
                    tracing::debug!(%error, "a volume could not be brought up to date");
                    Note::Refreshed(Timestamp::now().checked_add(Duration::from_secs(60)).ok())
                }
            }
        });
    }

    pub fn unmount(&self) {
        let folder = paths::volumes(&self.folder);
        self.go(async move { Note::Unmounted(volumes::unmount(&folder).await) });
    }

    pub fn make_sandbox(&self, pod: &Pod, number: u32) {
        let (parts, pod, folder) = (self.parts.clone(), pod.clone(), self.folder.clone());
        self.go(async move {
            // The semaphore is never closed.
            let _turn = parts.turns.acquire().await;
            let made = SandboxMaking { parts: &parts, pod: &pod, folder: &folder }.make(number).await;
            Note::Sandbox { number, result: made }
        });
    }

    /// Hears of every end of a container, and of the shim's own.
    pub fn watch(&self, shim: client::Pod) {
        let outbox = self.outbox.clone();
        tokio::spawn(async move {
            let ends = loop {
                if forward_ends(&shim, &outbox).await.is_none() {
                    return;
                }
                match client::Pod::adopt(shim.folder()).await {
                    // Only the connection broke.
                    Ok(Adopted::Running(_)) | Err(_) => tokio::time::sleep(WATCH_PAUSE).await,
                    Ok(Adopted::Dead(state)) => {
                        let ended = state.containers.into_iter();
                        break ended.filter_map(|(id, found)| Some((id, found.exit?))).collect();
                    }
                    Ok(Adopted::Nothing) => break BTreeMap::new(),
                }
            };
            let _worker_has_left = outbox.send(Note::ShimGone(ends)).await;
        });
    }

    pub fn tear_down(&self, shim: Option<client::Pod>, uid: &str, number: u32) {
        let (parts, folder, uid) = (self.parts.clone(), paths::sandbox(&self.folder, number), uid.to_owned());
        self.go(async move {
            let removed = match shim {
                Some(shim) => shim.remove().await,
                None => client::remove_remains(&folder).await,
            };
            parts.network.release(&uid).await;
            Note::TornDown(removed.map_err(|error| chain(&error)))
        });
    }

    pub fn pull(&self, pod: &Pod, container: String, image: String, attempt_number: u32) {
        let (parts, pod, since) = (self.parts.clone(), pod.clone(), Timestamp::now());
        self.go(async move {
            let result = parts.keeper.pull(&parts, &pod, &image).await;
            Note::Pulled { container, attempt_number, since, result }
        });
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is what the worker knows and the start needs")]
    pub fn start(
        &self,
        shim: client::Pod,
        pod: &Pod,
        spec: Container,
        attempt: Attempt,
        granted: Vec<String>,
        addresses: Vec<String>,
        before: Option<String>,
    ) {
        let (parts, pod, folder) = (self.parts.clone(), pod.clone(), self.folder.clone());
        self.go(async move {
            let result = Launch { parts: &parts, pod: &pod, spec: &spec, folder: &folder, attempt: &attempt };
            let result = result.launch(&shim, &granted, &addresses).await;
            if let (Launched::Running(_), Some(before)) = (&result, before) {
                // Its layer is no longer needed; its log is, until the next attempt.
                let _goes_with_the_pod = shim.forget(&before).await;
                remove_old_logs(&paths::logs(&folder, &spec.name), attempt.number);
            }
            Note::Started { container: spec.name, attempt, result }
        });
    }

    pub fn hook(&self, shim: Option<client::Pod>, spec: Container, id: String, which: Which, address: String) {
        self.go(async move {
            let lifecycle = spec.lifecycle.as_ref();
            let hook = lifecycle.and_then(|lifecycle| match which {
                Which::PostStart => lifecycle.post_start.as_ref(),
                Which::PreStop => lifecycle.pre_stop.as_ref(),
            });
            let result = match hook.map(|hook| planned::hook(&spec, hook, &address)) {
                None => Ok(()),
                Some(Err(text)) => Err(text),
                Some(Ok(handler)) => {
                    let exec = async |command: &[String], timeout| captured(shim, &id, command, timeout).await;
                    handlers::run_hook(&handler, HOOK_TIMEOUT, exec).await.map(drop)
                }
            };
            Note::Hooked { container: spec.name, id, which, result }
        });
    }

    pub fn probe(&self, shim: Option<client::Pod>, spec: Container, id: String, kind: ProbeKind, address: String) {
        self.go(async move {
            let result = match probes::spec_of(&spec, kind) {
                None => Err("the probe is gone".to_owned()),
                Some(probe) => {
                    let seconds = u64::try_from(probe.timeout_seconds.unwrap_or(1).max(1)).unwrap_or(1);
                    match planned::probe(&spec, probe, &address) {
                        Ok(handler) => {
                            let exec = async |command: &[String], timeout| captured(shim, &id, command, timeout).await;
                            handlers::run(&handler, Duration::from_secs(seconds), exec).await
                        }
                        Err(text) => Err(text),
                    }
                }
            };
            let (success, output) = match result {
                Ok(output) => (true, output),
                Err(output) => (false, output),
            };
            Note::Probed { container: spec.name, id, kind, success, output }
        });
    }

    pub fn signal(&self, shim: client::Pod, id: String, is_kill: bool, spec: &Container, image: String) {
        let parts = self.parts.clone();
        let asked = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
        tokio::spawn(async move {
            let sent = if is_kill {
                shim.kill(&id).await
            } else {
                let images_own = match (&asked, parts.keeper.find(&image).await) {
                    (None, Ok(Some(Found::Image(image)))) => Some(image.config.stop_signal),
                    (Some(_), _) | (None, _) => None,
                };
                shim.signal(&id, signal_number(asked.or(images_own).as_deref().unwrap_or_default())).await
            };
            if let Err(error) = sent {
                // Most likely it has just ended; if not, the kill after the grace is tried again by a later plan.
                tracing::debug!(error = chain(&error), container = id, "a signal was not delivered");
            }
        });
    }

    pub fn remove_object(&self, pod: &Pod) {
        let (parts, pod) = (self.parts.clone(), pod.clone());
        self.go(async move {
            let (namespace, name) = place(&pod);
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            Note::Removed(parts.server.local("kubelet").delete_pod_now((namespace, name), uid).await)
        });
    }

    pub fn report(&self, pod: &Pod, patch: Value) {
        let (parts, pod) = (self.parts.clone(), pod.clone());
        self.go(async move {
            let (namespace, name) = place(&pod);
            Note::Reported(parts.server.local("kubelet").patch_status("", "pods", namespace, name, patch).await)
        });
    }

    /// The message that a container left behind.
    pub fn last_words(&self, spec: &Container, attempt_number: u32, exit_code: i32) -> Option<String> {
        let file = fs::read(paths::message(&self.folder, &spec.name, attempt_number)).unwrap_or_default();
        let wants_log = spec.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        let log = if wants_log && exit_code != 0 && file.is_empty() {
            self.log_tail(spec, attempt_number)
        } else {
            String::new()
        };
        termination::message(spec, &termination::Remains { runtime_message: "", file: &file, log: &log, exit_code })
    }

    fn log_tail(&self, spec: &Container, attempt_number: u32) -> String {
        let options = ReadOptions { tail_lines: Some(LAST_LINES), ..ReadOptions::default() };
        let path = paths::log(&self.folder, &spec.name, attempt_number);
        let Ok(mut reader) = LogReader::open(&path, &options) else { return String::new() };
        let mut text = Vec::new();
        while let Ok(Some(piece)) = reader.next_piece() {
            text.extend_from_slice(&piece);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Tells of the ends that there were and that come, until the connection ends; `None` when nobody listens any more.
async fn forward_ends(shim: &client::Pod, outbox: &mpsc::Sender<Note>) -> Option<()> {
    let Ok(mut watch) = shim.watch().await else { return Some(()) };
    let state = &watch.state.containers;
    let ended = state.iter().filter_map(|(id, found)| Some((id.clone(), found.exit.clone()?)));
    for (id, exit) in ended.collect::<Vec<_>>() {
        outbox.send(Note::Ended { id, exit }).await.ok()?;
    }
    while let Ok(Some((id, exit))) = watch.next().await {
        outbox.send(Note::Ended { id, exit }).await.ok()?;
    }
    Some(())
}

fn place(pod: &Pod) -> (&str, &str) {
    (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default())
}

/// An error with its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Logs are kept of the current attempt and the one before it.
fn remove_old_logs(folder: &std::path::Path, newest: u32) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.split('.').next()).and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| number.saturating_add(1) < newest) {
            let _goes_with_the_pod = fs::remove_file(entry.path());
        }
    }
}

/// A signal by its name, with or without `SIG`, or its number; TERM when nothing is named.
fn signal_number(name: &str) -> i32 {
    let plain = name.strip_prefix("SIG").unwrap_or(name);
    match plain {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ABRT" => libc::SIGABRT,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        "ALRM" => libc::SIGALRM,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "WINCH" => libc::SIGWINCH,
        "PWR" => libc::SIGPWR,
        "RTMIN+3" => libc::SIGRTMIN() + 3,
        number => number.parse().ok().filter(|number| (1..=64).contains(number)).unwrap_or(libc::SIGTERM),
    }
}

/// Runs a command in a container; its exit code and the beginning of what it printed. One that takes too long is killed.
async fn captured(
    shim: Option<client::Pod>,
    id: &str,
    command: &[String],
    timeout: Duration,
) -> Result<(i32, String), String> {
    let Some(shim) = shim else { return Err("the pod does not run".to_owned()) };
    let failed = |error: std::io::Error| error.to_string();
    let (read, write) = std::io::pipe().map_err(failed)?;
    let stdin = OwnedFd::from(fs::File::open("/dev/null").map_err(failed)?);
    let stderr = write.try_clone().map_err(failed)?;
    let streams = Streams { stdin, stdout: write.into(), stderr: stderr.into() };
    let exec = Exec { args: command.to_vec(), ..Exec::default() };
    let mut process = shim.exec(id, exec, Some(streams)).await.map_err(|error| chain(&error))?;
    let started = process.started.process;
    let mut reader = tokio::net::unix::pipe::Receiver::from_owned_fd(read.into()).map_err(failed)?;
    let mut output = Vec::new();
    let reading = async {
        let mut beginning = (&mut reader).take(OUTPUT_BYTES_MAX);
        let _cut_off = beginning.read_to_end(&mut output).await;
        // What is not kept is read all the same: a full pipe would stop the command.
        let _ended = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
        std::future::pending::<()>().await;
    };
    let exit = tokio::select! {
        exit = tokio::time::timeout(timeout, process.wait()) => exit,
        () = reading => return Err("the command's output could not be read".to_owned()),
    };
    // What it wrote last may still be in the pipe.
    let mut rest = vec![0; OUTPUT_BYTES_MAX as usize - output.len()];
    if let Ok(count) = reader.try_read(&mut rest) {
        output.extend_from_slice(&rest[..count]);
    }
    match exit {
        Ok(Ok(exit)) => Ok((exit.code, String::from_utf8_lossy(&output).into_owned())),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => {
            if started.is_alive() {
                let _ended_just_now = sys::kill(started.pid, libc::SIGKILL);
            }
            Err(format!("command {command:?} timed out after {timeout:?}"))
        }
    }
}

struct SandboxMaking<'a> {
    parts: &'a Parts,
    pod: &'a Pod,
    folder: &'a std::path::Path,
}

impl SandboxMaking<'_> {
    async fn make(&self, number: u32) -> Result<(client::Pod, Vec<String>), String> {
        let (parts, pod) = (self.parts, self.pod);
        let connected = parts.network.connect(pod)?;
        self.write_etc(&connected.addresses).map_err(|error| format!("failed to write the pod's files: {error}"))?;
        let sandbox = self.sandbox(connected.sandbox);
        if let Some(group) = &sandbox.cgroup {
            let cgroup = resources::pod_cgroup(pod, Some(POD_PIDS_MAX));
            let limits = Resources {
                cpu_shares: Some(cgroup.cpu_shares),
                cpu_quota_us: cgroup.cpu_quota_us,
                memory_bytes: cgroup.memory_bytes,
                pids: cgroup.pids,
            };
            Layout::find().create(group, &limits).map_err(|fault| fault.to_string())?;
        }
        let folder = paths::sandbox(self.folder, number);
        let shim = client::Pod::start(&parts.launcher, &folder, &sandbox).await.map_err(|error| chain(&error))?;
        match parts.network.open_ports(pod, &connected.addresses).await {
            Ok(()) => Ok((shim, connected.addresses)),
            Err(text) => {
                let _left_for_the_next_try = shim.remove().await;
                Err(text)
            }
        }
    }

    fn sandbox(&self, network: crate::runtime::spec::Network) -> Sandbox {
        let (parts, pod) = (self.parts, self.pod);
        let spec = pod.spec.as_ref();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let around = parts.machine.surroundings(&[]);
        let sysctls =
            spec.and_then(|spec| spec.security_context.as_ref()).and_then(|security| security.sysctls.as_ref());
        let mut sandbox = Sandbox::new(&uid, parts.capabilities.mode);
        sandbox.hostname = files::kernel_hostname(pod, &around.cluster_domain, &around.host_name);
        sandbox.network = network;
        sandbox.cgroup = parts.has_cgroups().then(|| parts.cgroup.join(format!("pod{uid}")));
        sandbox.sysctls =
            sysctls.into_iter().flatten().map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect();
        sandbox.host_ipc = spec.is_some_and(|spec| spec.host_ipc == Some(true));
        sandbox.host_pids = spec.is_some_and(|spec| spec.host_pid == Some(true));
        sandbox.share_pids = spec.is_some_and(|spec| spec.share_process_namespace == Some(true));
        sandbox
    }

    fn write_etc(&self, addresses: &[String]) -> std::io::Result<()> {
        let (parts, pod) = (self.parts, self.pod);
        let around = parts.machine.surroundings(&[]);
        let etc = paths::etc(self.folder);
        fs::create_dir_all(&etc)?;
        fs::write(etc.join("hosts"), hosts(parts, pod, addresses))?;
        let hostname = files::kernel_hostname(pod, &around.cluster_domain, &around.host_name);
        fs::write(etc.join("hostname"), format!("{hostname}\n"))?;
        fs::write(etc.join("resolv.conf"), files::resolv_conf(pod, &parts.network.dns()))
    }
}

/// `/etc/hosts` of a pod; where there is no name server of ours, it also holds the names of services and peers.
pub fn hosts(parts: &Parts, pod: &Pod, addresses: &[String]) -> String {
    let around = parts.machine.surroundings(&[]);
    let machines = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let mut text = files::hosts_file(pod, addresses, &around.cluster_domain, &machines);
    if parts.network.dns().cluster_servers.is_empty() {
        for (address, names) in parts.network.hosts_lines(pod) {
            text.push_str(&format!("{address}\t{}\n", names.join("\t")));
        }
    }
    text
}

struct Launch<'a> {
    parts: &'a Parts,
    pod: &'a Pod,
    spec: &'a Container,
    folder: &'a std::path::Path,
    attempt: &'a Attempt,
}

impl Launch<'_> {
    async fn launch(&self, shim: &client::Pod, granted: &[String], addresses: &[String]) -> Launched {
        let refused = |reason, message| Launched::Refused(Refusal { reason, message });
        let found = match self.parts.keeper.find(&self.attempt.image).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                return refused("CreateContainerError", format!("image {:?} is no longer here", self.attempt.image));
            }
            Err(error) => return refused("ImageInspectError", error.to_string()),
        };
        let sources = sources(self.parts, self.pod, addresses);
        let making = Making {
            parts: self.parts,
            pod: self.pod,
            container: self.spec,
            folder: self.folder,
            sandbox_number: self.attempt.sandbox_number,
            id: &self.attempt.id,
            attempt_number: self.attempt.number,
            found: &found,
            granted,
            sources: &sources,
        };
        let demand = match making.demand() {
            Ok(demand) => demand,
            Err(refusal) => return Launched::Refused(refusal),
        };
        match shim.start_container(demand).await {
            Ok(started) => {
                for warning in &started.warnings {
                    tracing::debug!(container = self.attempt.id, warning, "a wish of the container was not granted");
                }
                self.parts.keeper.touch(&found).await;
                Launched::Running(started)
            }
            Err(RuntimeError::Fault(Fault { kind: FaultKind::Command, text })) => Launched::CannotRun(text),
            Err(error) => refused("CreateContainerError", chain(&error)),
        }
    }
}
