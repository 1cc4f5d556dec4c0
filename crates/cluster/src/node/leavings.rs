//! What an earlier process left on this machine: pods that run on and are taken over, or that are ended and cleared away.

use super::deeds::chain;
use super::record::Record;
use super::volumes::{VolumeError, unmount};
use super::worker::{Adopted, exit_of};
use super::{cgroup_of, network, paths};
use crate::runtime::cgroup::{Cgroup, Layout};
use crate::runtime::client::{self, Adopted as Found, RuntimeError};
use crate::runtime::wire::{ContainerState, Exit as Ended, PodState};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use volley_plan::node::seen::{HookSeen, ImageSeen, Running, Sandbox, Seen, State, Volumes};

#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    #[error("failed to read {folder}")]
    Read { folder: PathBuf, source: io::Error },
    #[error("failed to end the pod in {folder}")]
    Pod { folder: PathBuf, source: RuntimeError },
    #[error("failed to remove the volumes of the pod in {folder}")]
    Volumes { folder: PathBuf, source: VolumeError },
    #[error("failed to remove the cgroup {group}")]
    Cgroup { group: PathBuf, source: io::Error },
    #[error("failed to take the network down")]
    Network(#[source] network::NetworkError),
}

/// The folders of pods, by uid.
fn folders(home: &Path) -> Result<BTreeMap<String, PathBuf>, ClearError> {
    let folder = paths::pods(home);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(ClearError::Read { folder, source }),
        Ok(entries) => entries,
    };
    Ok(entries.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect())
}

/// Takes over what runs. A pod whose record cannot be read is ended and starts anew, if its object is still there; one that
/// cannot be reached is left alone, and its folder keeps a second one from starting beside it.
pub async fn adopt(home: &Path) -> Result<BTreeMap<String, Adopted>, ClearError> {
    let adoptions = folders(home)?.into_iter().map(|(uid, folder)| async move {
        let adopted = match Record::read(&folder) {
            Some(record) => adopt_pod(&folder, record).await.map(Some),
            None => end_pod(&folder, Duration::ZERO).await.map(|_| {
                let _read_only_by_then = crate::images::tree::remove_tree(&folder);
                None
            }),
        };
        match adopted {
            Ok(adopted) => adopted.map(|adopted| (uid, adopted)),
            Err(error) => {
                tracing::error!(error = chain(&error), "a pod of an earlier run could not be taken over");
                None
            }
        }
    });
    Ok(futures::future::join_all(adoptions).await.into_iter().flatten().collect())
}

async fn adopt_pod(folder: &Path, mut record: Record) -> Result<Adopted, ClearError> {
    let failed = |source| ClearError::Pod { folder: folder.to_owned(), source };
    // One that was still being made is made again.
    for extra in sandboxes(folder)
        .filter(|(number, _)| *number != record.seen.sandbox_number || record.seen.sandbox != Sandbox::Ready)
    {
        end_sandbox(&extra.1, Duration::ZERO).await.map_err(failed)?;
    }
    let mut shim = None;
    if record.seen.sandbox == Sandbox::Ready {
        match client::Pod::adopt(&paths::sandbox(folder, record.seen.sandbox_number)).await.map_err(failed)? {
            Found::Running(pod) => {
                let state = pod.state().await.map_err(failed)?;
                resume(&mut record.seen, &state);
                shim = Some(pod);
            }
            Found::Dead(state) => lose(&mut record.seen, &state),
            Found::Nothing => lose(&mut record.seen, &PodState { shim: nobody(), containers: BTreeMap::new() }),
        }
    } else {
        record.seen.sandbox = Sandbox::Absent;
    }
    forget_under_way(&mut record.seen);
    Ok(Adopted { record, shim })
}

fn nobody() -> crate::runtime::wire::ProcessId {
    crate::runtime::wire::ProcessId { pid: 0, start_ticks: 0 }
}

/// What was under way when the process died is not any more.
fn forget_under_way(seen: &mut Seen) {
    if seen.volumes == Volumes::Mounting {
        seen.volumes = Volumes::Absent;
    }
    for container in seen.containers.values_mut() {
        if matches!(container.image, ImageSeen::Pulling { .. }) {
            container.image = ImageSeen::Absent;
        }
        if let State::Running(running) = &mut container.state {
            let again = |hook: &mut HookSeen| {
                if *hook == HookSeen::Running {
                    *hook = HookSeen::NotRun;
                }
            };
            again(&mut running.post_start);
            running.stop.iter_mut().for_each(|stop| again(&mut stop.pre_stop));
            for probe in [&mut running.startup, &mut running.readiness, &mut running.liveness] {
                probe.is_running = false;
            }
        }
    }
}

/// Brings what is known up to what a living shim says; ends that it has recorded come by its watch.
fn resume(seen: &mut Seen, state: &PodState) {
    for container in seen.containers.values_mut() {
        let State::Creating(attempt) = &container.state else { continue };
        container.state = match state.containers.get(&attempt.id) {
            Some(found) => State::Running(Box::new(running(attempt.clone(), found))),
            None => container.last.clone().map_or(State::NotCreated, State::Exited),
        };
    }
}

fn running(attempt: volley_plan::node::seen::Attempt, found: &ContainerState) -> Running {
    Running::new(attempt, u32::try_from(found.started.process.pid).unwrap_or_default(), found.started.at)
}

/// The pod died with its shim: everything in it has ended.
fn lose(seen: &mut Seen, state: &PodState) {
    resume(seen, state);
    for container in seen.containers.values_mut() {
        let State::Running(running) = &container.state else { continue };
        let killed = || Ended { code: 137, signal: Some(9), oom_kills: 0, at: jiff::Timestamp::now() };
        let ended =
            state.containers.get(&running.attempt.id).and_then(|found| found.exit.clone()).unwrap_or_else(killed);
        container.state = State::Exited(exit_of((**running).clone(), ended, None));
    }
    seen.sandbox = Sandbox::Ended;
}

fn sandboxes(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix("sandbox-")?.parse().ok()?;
        Some((number, entry.path()))
    })
}

/// Ends every pod of a home whose process is gone, and leaves the machine as it was: no process, mount, cgroup or
/// interface. What the API holds and what containers have logged stays.
pub async fn clear(home: &Path, grace: Duration) -> Result<(), ClearError> {
    let endings = folders(home)?.into_values().map(|folder| async move {
        let record = Record::read(&folder);
        let state = end_pod(&folder, grace).await?;
        if let Some(mut record) = record {
            if record.seen.sandbox == Sandbox::Ready {
                lose(&mut record.seen, &state);
            }
            record.seen.sandbox = Sandbox::Absent;
            record.seen.volumes = Volumes::Absent;
            forget_under_way(&mut record.seen);
            if let Err(error) = record.write(&folder) {
                tracing::warn!(folder = %folder.display(), %error, "a pod's record could not be written");
            }
        }
        Ok(())
    });
    let ended: Vec<Result<(), ClearError>> = futures::future::join_all(endings).await;
    let disconnected = network::clear(home).await.map_err(ClearError::Network);
    let group = cgroup_of(home);
    let removed = Cgroup::existing(&Layout::find(), &group).remove();
    ended.into_iter().collect::<Result<(), _>>()?;
    disconnected?;
    removed.map_err(|source| ClearError::Cgroup { group, source })
}

/// Ends all that runs of a pod and unmounts its volumes; how its containers ended.
async fn end_pod(folder: &Path, grace: Duration) -> Result<PodState, ClearError> {
    let mut state = PodState { shim: nobody(), containers: BTreeMap::new() };
    for (_, sandbox) in sandboxes(folder) {
        let ended = end_sandbox(&sandbox, grace).await;
        state.containers.extend(ended.map_err(|source| ClearError::Pod { folder: folder.to_owned(), source })?);
    }
    let unmounted = unmount(&paths::volumes(folder)).await;
    unmounted.map_err(|source| ClearError::Volumes { folder: folder.to_owned(), source })?;
    Ok(state)
}

async fn end_sandbox(folder: &Path, grace: Duration) -> Result<BTreeMap<String, ContainerState>, RuntimeError> {
    let state = match client::Pod::adopt(folder).await? {
        Found::Nothing => PodState { shim: nobody(), containers: BTreeMap::new() },
        Found::Dead(state) => state,
        Found::Running(pod) => {
            stop_containers(&pod, grace).await;
            // Recorded ends are read before the records go.
            let state = pod.state().await;
            pod.remove().await?;
            return Ok(state.map(|state| state.containers).unwrap_or_default());
        }
    };
    client::remove_remains(folder).await?;
    Ok(state.containers)
}

/// Asks all containers to end and waits for them, for a while.
async fn stop_containers(pod: &client::Pod, grace: Duration) {
    let Ok(mut watch) = pod.watch().await else { return };
    let mut alive: Vec<String> =
        watch.state.containers.iter().filter(|(_, found)| found.exit.is_none()).map(|(id, _)| id.clone()).collect();
    if grace.is_zero() {
        return;
    }
    for id in &alive {
        if let Err(error) = pod.signal(id, libc::SIGTERM).await {
            tracing::debug!(error = chain(&error), container = id, "a container was not asked to end");
        }
    }
    let ending = async {
        while !alive.is_empty() {
            match watch.next().await {
                Ok(Some((id, _))) => alive.retain(|other| *other != id),
                Ok(None) | Err(_) => return,
            }
        }
    };
    let _killed_then = tokio::time::timeout(grace, ending).await;
}

/// Whether anything of a home runs though its process is gone.
pub fn has_leavings(home: &Path) -> bool {
    let folders = folders(home).unwrap_or_default();
    folders.values().any(|folder| sandboxes(folder).next().is_some()) || network::is_open(home)
}
