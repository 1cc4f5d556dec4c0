//! One pod's worker: it hears what happened, asks `plan::node` what to do, begins it, and reports.
//!
//! Everything the worker knows is in `Seen`, and only the worker changes it. What takes time runs beside it (`deeds`)
//! and comes back as a `Note`; so planning never waits, and a pod that hangs holds up nobody else.

use super::deeds::{Deeds, Launched, Note, Which};
use super::keeper::Obtained;
use super::pods::Entry;
use super::record::Record;
use super::{Handle, Parts, about, paths};
use crate::images::digest::Digest;
use crate::images::error::ImageError;
use crate::runtime::client;
use crate::runtime::wire;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use volley_api::kube::status::ApiError;
use volley_plan::control::Event;
use volley_plan::node::actions::{Action, pod_actions};
use volley_plan::node::course::{Course, course};
use volley_plan::node::probes::{record as record_probe, spec_of};
use volley_plan::node::seen::{
    Attempt, Exit, HookSeen, ImageSeen, ProbeKind, Pull, Running, Sandbox, Seen, State, StopSeen, Trouble, Volumes,
};
use volley_plan::node::{containers, events, is_terminal, status};

/// Plans in a row before the worker waits again; each one begins something, so it ends far earlier.
const ROUNDS_MAX: usize = 64;
/// After a failed clean-up or a status that could not be written.
const RETRY: Duration = Duration::from_secs(1);
/// Notes that may wait: a pod has a handful of things under way at once.
pub const NOTES_MAX: usize = 256;

pub struct Worker {
    parts: Arc<Parts>,
    entry: Arc<Entry>,
    uid: String,
    folder: PathBuf,
    /// The object as the node takes it: see `adjusted`.
    pod: Pod,
    is_gone: bool,
    seen: Seen,
    granted: BTreeMap<String, Vec<String>>,
    shim: Option<client::Pod>,
    /// How often in a row what is tried again has failed, by what it is.
    failures: BTreeMap<String, u32>,
    /// Clean-ups and writes under way: planned again and again until they are done, begun once.
    busy: BTreeSet<&'static str>,
    /// Ends of containers whose start has not been heard of yet.
    early: BTreeMap<String, wire::Exit>,
    /// What the record holds. The object is in it for those who have no other: its changes alone are not written.
    saved: Option<(Seen, BTreeMap<String, Vec<String>>)>,
    retry_at: Option<Timestamp>,
    refresh_at: Option<Timestamp>,
    deeds: Deeds,
    inbox: mpsc::Receiver<Note>,
}

/// What a worker leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// The pod's folder, with what is needed to go on.
    Files,
}

impl Left {
    pub fn is_gone(self) -> bool {
        self == Left::Nothing
    }
}

/// What an earlier process left of a pod.
pub struct Adopted {
    pub record: Record,
    pub shim: Option<client::Pod>,
}

impl Worker {
    pub fn new(
        parts: Arc<Parts>,
        entry: Arc<Entry>,
        pod: Pod,
        adopted: Option<Adopted>,
        (outbox, inbox): (mpsc::Sender<Note>, mpsc::Receiver<Note>),
    ) -> Worker {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let folder = paths::pods(&parts.home).join(&uid);
        let (seen, granted, shim) = match adopted {
            Some(adopted) => (adopted.record.seen, adopted.record.granted, adopted.shim),
            None => (Seen::default(), BTreeMap::new(), None),
        };
        let deeds = Deeds { parts: parts.clone(), folder: folder.clone(), outbox };
        let mut worker = Worker {
            parts,
            entry,
            uid,
            folder,
            pod: Pod::default(),
            is_gone: false,
            seen,
            granted,
            shim,
            failures: BTreeMap::new(),
            busy: BTreeSet::new(),
            early: BTreeMap::new(),
            saved: None,
            retry_at: None,
            refresh_at: None,
            deeds,
            inbox,
        };
        worker.pod = worker.adjusted(pod);
        worker
    }

    /// Works until nothing of the pod is left to do, or the node stops and leaves it running.
    pub async fn run(mut self, stop: CancellationToken) -> Left {
        if let Some(shim) = self.shim.clone() {
            self.deeds.watch(shim);
            // What its volumes are made of may have changed since the process before, and its tokens grow old.
            self.refresh_volumes();
        }
        loop {
            let next_at = if self.seen.accepted_at.is_some() || self.is_gone || self.try_admit() {
                self.settle().await
            } else {
                None
            };
            self.publish();
            if self.is_over() {
                self.leave().await;
                return Left::Nothing;
            }
            if self.is_at_rest() && self.rest() {
                return Left::Files;
            }
            let next_at = [next_at, self.retry_at, self.refresh_at].into_iter().flatten().min();
            let is_waiting_for_room = self.seen.accepted_at.is_none();
            let room = self.parts.clone();
            tokio::select! {
                () = stop.cancelled() => {
                    self.save();
                    return Left::Files;
                }
                note = self.inbox.recv() => match note {
                    Some(note) => self.hear(note),
                    None => return Left::Files,
                },
                () = until(next_at) => self.wake(),
                () = room.grants.changed(), if is_waiting_for_room => {}
            }
            while let Ok(note) = self.inbox.try_recv() {
                self.hear(note);
            }
        }
    }

    fn wake(&mut self) {
        let now = Timestamp::now();
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.refresh_at.is_some_and(|at| at <= now) {
            self.refresh_at = None;
            self.refresh_volumes();
        }
    }

    /// Takes the pod on with its devices, or refuses it; false while what it needs is about to be given back.
    fn try_admit(&mut self) -> bool {
        match self.parts.grants.admit(&self.parts, &self.pod, &self.uid) {
            Ok(granted) => self.granted = granted,
            Err(None) => return false,
            Err(Some(rejection)) => self.change(|worker| worker.seen.rejected = Some(rejection)),
        }
        self.seen.accepted_at = Some(Timestamp::now());
        true
    }

    /// Plans and begins until there is nothing to begin; returns when to look again.
    async fn settle(&mut self) -> Option<Timestamp> {
        let mut next_at = None;
        for _round in 0..ROUNDS_MAX {
            let plan = pod_actions(&self.pod, &self.seen, Timestamp::now());
            next_at = plan.next_at;
            let mut has_begun = false;
            for action in plan.actions {
                has_begun |= self.begin(action).await;
            }
            if !has_begun {
                break;
            }
        }
        self.release_devices();
        self.save();
        self.report();
        next_at
    }

    /// Begins an action; false if it is under way already.
    async fn begin(&mut self, action: Action) -> bool {
        let now = Timestamp::now();
        match action {
            Action::MountVolumes => {
                self.seen.volumes = Volumes::Mounting;
                self.deeds.mount(&self.pod);
            }
            Action::MakeSandbox { number } => {
                self.change(|worker| worker.seen.sandbox = Sandbox::Making);
                self.deeds.make_sandbox(&self.pod, number);
            }
            Action::PullImage { container, image, attempt_number } => self.pull(container, image, attempt_number).await,
            Action::Start { container, attempt_number, sandbox_number, restart_delay_seconds } => {
                let numbers = (attempt_number, sandbox_number, restart_delay_seconds);
                self.start(container, numbers);
            }
            Action::PostStart { container } => self.hook(&container, Which::PostStart),
            Action::PreStop { container } => self.hook(&container, Which::PreStop),
            Action::Probe { container, kind } => {
                let Some((spec, running)) = self.running(&container) else { return false };
                running.probe_mut(kind).is_running = true;
                let id = running.attempt.id.clone();
                let address = self.probe_address();
                self.deeds.probe(self.shim.clone(), spec, id, kind, address);
            }
            Action::Stop { container, grace_seconds, reason } => self.change(|worker| {
                let Some((_, running)) = worker.running(&container) else { return };
                let stop = running.stop.take().unwrap_or(StopSeen {
                    reason,
                    since: now,
                    grace_seconds,
                    pre_stop: HookSeen::NotRun,
                    signalled_at: None,
                    killed_at: None,
                });
                running.stop = Some(StopSeen { since: now, grace_seconds, ..stop });
            }),
            Action::Signal { container } => self.signal(&container, false, now),
            Action::Kill { container } => self.signal(&container, true, now),
            Action::TearDownSandbox => {
                if self.busy.insert("sandbox") {
                    self.deeds.tear_down(self.shim.take(), &self.uid, self.seen.sandbox_number);
                } else {
                    return false;
                }
            }
            Action::UnmountVolumes => {
                if !self.busy.insert("volumes") {
                    return false;
                }
                self.deeds.unmount();
            }
            Action::RemovePod => {
                if self.is_gone || !self.busy.insert("pod") {
                    return false;
                }
                self.deeds.remove_object(&self.pod);
            }
        }
        true
    }

    /// Takes an image that is here as it is, and asks for one that is not.
    async fn pull(&mut self, container: String, image: String, attempt_number: u32) {
        let is_asked_always =
            self.container(&container).is_some_and(|spec| spec.image_pull_policy.as_deref() == Some("Always"));
        if !is_asked_always && let Ok(Some(found)) = self.parts.keeper.find(&image).await {
            let image_id = found.id();
            return self.change(|worker| {
                worker.seen_mut(&container).image = ImageSeen::Present { image_id, pull: None };
            });
        }
        self.change(|worker| worker.seen_mut(&container).image = ImageSeen::Pulling { since: Timestamp::now() });
        self.deeds.pull(&self.pod, container, image, attempt_number);
    }

    fn start(&mut self, container: String, (number, sandbox_number, restart_delay_seconds): (u32, u32, u32)) {
        let (Some(spec), Some(shim)) = (self.container(&container), self.shim.clone()) else { return };
        let seen = self.seen_mut(&container);
        let image_id = match &seen.image {
            ImageSeen::Present { image_id, .. } => image_id.clone(),
            ImageSeen::Absent | ImageSeen::Pulling { .. } | ImageSeen::Failed(_) => String::new(),
        };
        let last = seen.exited().cloned().or_else(|| seen.last.take());
        let before_last = last.as_ref().map(|exit| exit.attempt.id.clone());
        seen.last = last;
        let id = container_id(&self.uid, &container, number, sandbox_number);
        let image = spec.image.clone().unwrap_or_default();
        let attempt = Attempt { number, sandbox_number, restart_delay_seconds, id, image, image_id };
        self.seen_mut(&container).state = State::Creating(attempt.clone());
        let granted = self.granted.get(&container).cloned().unwrap_or_default();
        // On disk before it runs: a process that is killed now must find this attempt again.
        self.save();
        self.deeds.start(shim, &self.pod, spec, attempt, granted, self.seen.addresses.clone(), before_last);
    }

    fn hook(&mut self, container: &str, which: Which) {
        let address = self.probe_address();
        let Some((spec, running)) = self.running(container) else { return };
        let id = running.attempt.id.clone();
        match which {
            Which::PostStart => running.post_start = HookSeen::Running,
            Which::PreStop => {
                if let Some(stop) = &mut running.stop {
                    stop.pre_stop = HookSeen::Running;
                }
            }
        }
        self.deeds.hook(self.shim.clone(), spec, id, which, address);
    }

    fn signal(&mut self, container: &str, is_kill: bool, now: Timestamp) {
        let Some((spec, running)) = self.running(container) else { return };
        let (id, image) = (running.attempt.id.clone(), running.attempt.image.clone());
        if let Some(stop) = &mut running.stop {
            let at = if is_kill { &mut stop.killed_at } else { &mut stop.signalled_at };
            *at = Some(now);
        }
        if let Some(shim) = self.shim.clone() {
            self.deeds.signal(shim, id, is_kill, &spec, image);
        }
    }

    /// Where probes without a host of their own go.
    fn probe_address(&self) -> String {
        self.seen.addresses.first().cloned().unwrap_or_default()
    }

    fn hear(&mut self, note: Note) {
        match note {
            Note::Object(pod) => self.take_object(*pod),
            Note::Gone => self.take_gone(),
            Note::Mounted(result) => {
                let volumes = match result {
                    Ok(again_at) => {
                        self.failures.remove("volumes");
                        self.refresh_at = again_at;
                        Volumes::Ready
                    }
                    Err(error) => Volumes::Failed(self.trouble("volumes", error.reason, error.message)),
                };
                self.change(|worker| worker.seen.volumes = volumes);
            }
            Note::Refreshed(again_at) => {
                self.busy.remove("refresh");
                self.refresh_at = again_at;
            }
            Note::Refresh => self.refresh_volumes(),
            Note::Sandbox { number, result } => self.take_sandbox(number, result),
            Note::Pulled { container, attempt_number, since, result } => {
                self.take_image(&container, (attempt_number, since), result);
            }
            Note::Started { container, attempt, result } => self.take_start(&container, attempt, result),
            Note::Hooked { container, id, which, result } => self.take_hook(&container, &id, which, result),
            Note::Probed { container, id, kind, success, output } => {
                self.take_probe(&container, &id, kind, (success, &output));
            }
            Note::Ended { id, exit } => self.take_end(id, exit),
            Note::ShimGone(ends) => self.take_shim_loss(ends),
            Note::TornDown(result) => {
                self.busy.remove("sandbox");
                match result {
                    Ok(()) => self.seen.sandbox = Sandbox::Absent,
                    Err(text) => self.retry("the sandbox could not be removed", &text),
                }
            }
            Note::Unmounted(result) => {
                self.busy.remove("volumes");
                match result {
                    Ok(()) => self.seen.volumes = Volumes::Absent,
                    Err(error) => self.retry("the volumes could not be removed", &error.message),
                }
            }
            Note::Removed(result) => self.after_write("pod", result.map(|()| None)),
            Note::Reported(result) => self.after_write("status", result.map(Some)),
            Note::Evict(eviction) => self.change(|worker| worker.seen.eviction = Some(eviction)),
        }
    }

    fn take_image(
        &mut self,
        container: &str,
        (attempt_number, since): (u32, Timestamp),
        result: Result<Obtained, ImageError>,
    ) {
        let image = match result {
            Ok(obtained) => {
                self.failures.remove(container);
                let total_ms = u64::try_from(Timestamp::now().duration_since(since).as_millis()).unwrap_or(0);
                let (pull_ms, size_bytes) = (obtained.took_ms, obtained.size_bytes);
                let pull = Some(Pull { attempt_number, pull_ms, total_ms, size_bytes });
                ImageSeen::Present { image_id: obtained.image_id, pull }
            }
            Err(error) => ImageSeen::Failed(self.trouble(container, error.reason().to_owned(), error.to_string())),
        };
        self.change(|worker| worker.seen_mut(container).image = image);
    }

    fn take_hook(&mut self, container: &str, id: &str, which: Which, result: Result<(), String>) {
        let seen = result.map_or_else(HookSeen::Failed, |()| HookSeen::Done);
        self.change(|worker| {
            let Some(running) = worker.running_attempt(container, id) else { return };
            match (which, &mut running.stop) {
                (Which::PostStart, _) => running.post_start = seen,
                (Which::PreStop, Some(stop)) => stop.pre_stop = seen,
                (Which::PreStop, None) => {}
            }
        });
    }

    fn take_probe(&mut self, container: &str, id: &str, kind: ProbeKind, (success, output): (bool, &str)) {
        let spec = self.container(container);
        let Some(probe) = spec.as_ref().and_then(|spec| spec_of(spec, kind)) else { return };
        self.change(|worker| {
            let Some(running) = worker.running_attempt(container, id) else { return };
            let probed = record_probe(running.probe(kind), probe, success, output, Timestamp::now());
            *running.probe_mut(kind) = probed;
        });
    }

    fn after_write(&mut self, what: &'static str, result: Result<Option<Value>, ApiError>) {
        self.busy.remove(what);
        match result {
            Ok(Some(object)) => {
                if let Ok(pod) = serde_json::from_value(object) {
                    self.take_object(pod);
                }
            }
            Ok(None) => {}
            // The object is gone or another one by now; the watch tells.
            Err(error) if matches!(error.code, 404 | 409) => {}
            Err(error) => self.retry("a status could not be written", &error.to_string()),
        }
    }

    fn retry(&mut self, what: &str, why: &str) {
        tracing::warn!(pod = self.uid, why, "{what}; it is tried again");
        self.retry_at = Timestamp::now().checked_add(RETRY).ok();
    }

    fn take_object(&mut self, pod: Pod) {
        let revision = |pod: &Pod| pod.metadata.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok());
        if !self.is_gone && revision(&pod) >= revision(&self.pod) {
            self.pod = self.adjusted(pod);
        }
    }

    /// Somebody removed the object without waiting for us: what runs is ended at once.
    fn take_gone(&mut self) {
        self.is_gone = true;
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now());
        self.pod.metadata.deletion_timestamp.get_or_insert(now);
        self.pod.metadata.deletion_grace_period_seconds = Some(0);
    }

    /// The object with what the node adds to it: an image that is the machine itself is never pulled.
    fn adjusted(&self, mut pod: Pod) -> Pod {
        let Some(spec) = &mut pod.spec else { return pod };
        let own = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        let own = own.map(|container| (&container.image, &mut container.image_pull_policy));
        let added = spec.ephemeral_containers.iter_mut().flatten();
        let added = added.map(|container| (&container.image, &mut container.image_pull_policy));
        for (image, policy) in own.chain(added) {
            if self.parts.keeper.is_host(image.as_deref().unwrap_or_default()) {
                *policy = Some("IfNotPresent".to_owned());
            }
        }
        pod
    }

    fn take_sandbox(&mut self, number: u32, result: Result<(client::Pod, Vec<String>), String>) {
        match result {
            Ok((shim, addresses)) => {
                self.failures.remove("sandbox");
                self.deeds.watch(shim.clone());
                self.shim = Some(shim);
                self.change(|worker| {
                    worker.seen.sandbox = Sandbox::Ready;
                    worker.seen.sandbox_number = number;
                    worker.seen.addresses = addresses;
                });
            }
            Err(message) => {
                let trouble = self.trouble("sandbox", "FailedCreatePodSandBox".to_owned(), message);
                self.change(|worker| worker.seen.sandbox = Sandbox::Failed(trouble));
            }
        }
    }

    fn take_start(&mut self, container: &str, attempt: Attempt, result: Launched) {
        let is_current = matches!(&self.seen.container(container).state, State::Creating(now) if now.id == attempt.id);
        if !is_current {
            return;
        }
        let id = attempt.id.clone();
        match result {
            Launched::Running(started) => {
                let pid = u32::try_from(started.process.pid).unwrap_or_default();
                self.failures.remove(&id);
                self.change(|worker| {
                    let seen = worker.seen_mut(container);
                    seen.start_trouble = None;
                    seen.state = State::Running(Box::new(Running::new(attempt, pid, started.at)));
                });
                if let Some(exit) = self.early.remove(&id) {
                    self.take_end(id, exit);
                }
            }
            Launched::CannotRun(message) => self.change(|worker| {
                let seen = worker.seen_mut(container);
                seen.start_trouble = None;
                seen.state = State::Exited(Exit {
                    attempt,
                    code: 128,
                    signal: None,
                    started_at: None,
                    finished_at: Timestamp::now(),
                    oom_killed: false,
                    reason: Some("StartError".to_owned()),
                    message: Some(message),
                    stopped_for: None,
                });
            }),
            Launched::Refused(refusal) => {
                let trouble = self.trouble(container, refusal.reason.to_owned(), refusal.message);
                self.change(|worker| {
                    let seen = worker.seen_mut(container);
                    seen.start_trouble = Some(trouble);
                    // The attempt never was: the one before it is the newest again.
                    seen.state = seen.last.clone().map_or(State::NotCreated, State::Exited);
                });
            }
        }
    }

    fn take_end(&mut self, id: String, exit: wire::Exit) {
        let found =
            self.seen.containers.iter().find(|(_, seen)| seen.attempt().is_some_and(|attempt| attempt.id == id));
        let Some((name, seen)) = found else { return };
        let Some(running) = seen.running().cloned() else {
            if matches!(seen.state, State::Creating(_)) {
                self.early.insert(id, exit);
            }
            return;
        };
        let name = name.clone();
        let message =
            self.container(&name).and_then(|spec| self.deeds.last_words(&spec, running.attempt.number, exit.code));
        let ended = exit_of(running, exit, message);
        self.change(|worker| worker.seen_mut(&name).state = State::Exited(ended));
    }

    /// The shim died and everything in the pod with it.
    fn take_shim_loss(&mut self, ends: BTreeMap<String, wire::Exit>) {
        if self.seen.sandbox != Sandbox::Ready || self.busy.contains("sandbox") {
            return;
        }
        let killed = |ends: &BTreeMap<String, wire::Exit>, id: &str| {
            let killed = wire::Exit { code: 137, signal: Some(9), oom_kills: 0, at: Timestamp::now() };
            ends.get(id).cloned().unwrap_or(killed)
        };
        let alive: Vec<String> =
            self.seen.containers.values().filter_map(|seen| Some(seen.running()?.attempt.id.clone())).collect();
        for id in alive {
            let exit = killed(&ends, &id);
            self.take_end(id, exit);
        }
        self.change(|worker| {
            for seen in worker.seen.containers.values_mut() {
                if matches!(seen.state, State::Creating(_)) {
                    seen.state = seen.last.clone().map_or(State::NotCreated, State::Exited);
                }
            }
            worker.seen.sandbox = Sandbox::Ended;
        });
    }

    fn trouble(&mut self, what: &str, reason: String, message: String) -> Trouble {
        let failures = self.failures.entry(what.to_owned()).or_default();
        *failures = failures.saturating_add(1);
        Trouble { reason, message, at: Timestamp::now(), failures: *failures }
    }

    fn refresh_volumes(&mut self) {
        if matches!(self.seen.volumes, Volumes::Ready) && !self.is_ending() && self.busy.insert("refresh") {
            self.deeds.refresh(&self.pod, self.seen.addresses.clone());
        }
    }

    /// Makes a change and tells users what it means.
    fn change(&mut self, make: impl FnOnce(&mut Self)) {
        let before = self.seen.clone();
        make(self);
        for event in events::events(&before, &self.seen, &self.pod) {
            let about = about(&self.pod);
            let (kind, reason, message) = (event.kind, event.reason, event.message);
            let field_path = event.field_path;
            self.parts.reporter.report(Event { kind, reason, message, about, component: "kubelet", field_path });
        }
    }

    fn seen_mut(&mut self, container: &str) -> &mut volley_plan::node::seen::ContainerSeen {
        self.seen.containers.entry(container.to_owned()).or_default()
    }

    fn container(&self, name: &str) -> Option<Container> {
        containers(&self.pod).into_iter().find(|container| container.name == name)
    }

    fn running(&mut self, name: &str) -> Option<(Container, &mut Running)> {
        let spec = self.container(name)?;
        match &mut self.seen.containers.get_mut(name)?.state {
            State::Running(running) => Some((spec, running)),
            State::NotCreated | State::Creating(_) | State::Exited(_) => None,
        }
    }

    fn running_attempt(&mut self, name: &str, id: &str) -> Option<&mut Running> {
        self.running(name).map(|(_, running)| running).filter(|running| running.attempt.id == id)
    }

    fn is_ending(&self) -> bool {
        self.is_gone || matches!(course(&self.pod, &self.seen, Timestamp::now()), Course::End(_))
    }

    /// What has ended for good holds nothing; the scheduler may count on it as soon as the status says so.
    fn release_devices(&mut self) {
        let is_done = self.is_ending() && !self.seen.is_anything_alive();
        if is_done && self.entry.set_over() {
            self.granted.clear();
            self.parts.grants.release(&self.uid);
        }
    }

    fn report(&mut self) {
        let is_due = !self.is_gone && self.retry_at.is_none() && !self.busy.contains("status");
        if !is_due {
            return;
        }
        let mut status = status::status(&self.pod, &self.seen, &self.parts.machine.host_facts(), Timestamp::now());
        status::tell_devices(&mut status, &self.pod, &self.granted);
        if let Some(patch) = status::patch(&self.pod, &status) {
            self.busy.insert("status");
            self.deeds.report(&self.pod, patch);
        }
    }

    fn save(&mut self) {
        if self.saved.as_ref().is_some_and(|(seen, granted)| *seen == self.seen && *granted == self.granted) {
            return;
        }
        let record = Record { pod: self.pod.clone(), seen: self.seen.clone(), granted: self.granted.clone() };
        let written = std::fs::create_dir_all(&self.folder).and_then(|()| record.write(&self.folder));
        match written {
            Ok(()) => self.saved = Some((record.seen, record.granted)),
            Err(error) => tracing::warn!(pod = self.uid, %error, "the pod's record could not be written"),
        }
    }

    fn publish(&self) {
        let containers =
            self.seen.containers.iter().filter_map(|(name, seen)| {
                Some((name.clone(), (seen.attempt()?.id.clone(), seen.running().is_some())))
            });
        self.entry.publish(
            Handle {
                folder: self.folder.clone(),
                address: self.seen.addresses.first().cloned(),
                shim: self.shim.clone().filter(|_| self.seen.sandbox == Sandbox::Ready),
                containers: containers.collect(),
            },
            &self.pod,
        );
    }

    /// Whether the object is gone and nothing of the pod is left on the machine.
    fn is_over(&self) -> bool {
        let has_sandbox = !matches!(self.seen.sandbox, Sandbox::Absent | Sandbox::Failed(_));
        self.is_gone
            && !has_sandbox
            && !self.seen.is_anything_alive()
            && self.seen.volumes == Volumes::Absent
            && ["sandbox", "volumes"].iter().all(|what| !self.busy.contains(what))
    }

    /// Whether the pod has ended, is cleaned up and reported: only its files are left, until its object goes.
    fn is_at_rest(&self) -> bool {
        is_terminal(&self.pod)
            && self.pod.metadata.deletion_timestamp.is_none()
            && !self.is_gone
            && self.busy.is_empty()
            && self.retry_at.is_none()
            && self.seen.sandbox == Sandbox::Absent
            && self.seen.volumes == Volumes::Absent
    }

    /// Closes the mailbox; false if something came in before that.
    fn rest(&mut self) -> bool {
        self.save();
        if !self.inbox.is_empty() {
            return false;
        }
        self.inbox.close();
        self.inbox.is_empty()
    }

    async fn leave(self) {
        self.parts.grants.release(&self.uid);
        self.parts.network.release(&self.uid).await;
        let folder = self.folder.clone();
        let removed = tokio::task::spawn_blocking(move || crate::images::tree::remove_tree(&folder)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(pod = self.uid, %error, "the pod's folder could not be removed");
        }
    }
}

/// The id that clients see of one attempt; also its name in the pod's shim.
fn container_id(uid: &str, container: &str, attempt: u32, sandbox: u32) -> String {
    Digest::of(format!("{uid}/{container}/{attempt}/{sandbox}").as_bytes()).hex().to_owned()
}

/// How a container that ran has ended.
pub fn exit_of(running: Running, ended: wire::Exit, message: Option<String>) -> Exit {
    Exit {
        code: ended.code,
        signal: ended.signal,
        started_at: Some(running.started_at),
        finished_at: ended.at,
        oom_killed: ended.oom_kills > 0 && ended.code != 0,
        reason: None,
        message,
        stopped_for: running.stop.as_ref().map(|stop| stop.reason),
        attempt: running.attempt,
    }
}

/// Waits for a point in time; for ever without one.
async fn until(time: Option<Timestamp>) {
    match time {
        Some(time) => {
            let left = time.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
