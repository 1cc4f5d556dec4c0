//! A pretend runtime for tests: it obeys a pod's actions at once and lets the test say how containers fare.

use super::actions::{Action, PodActions, pod_actions};
use super::events::events;
use super::probes::{record, spec_of};
use super::seen::{
    Attempt, ContainerSeen, Exit, HookSeen, ImageSeen, Pull, Running, Sandbox, Seen, State, StopSeen, Trouble, Volumes,
};
use super::status::{HostFacts, status};
use super::{all_containers, ephemeral_containers, later};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub fn make_pod(spec: Value) -> Pod {
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "u1", "generation": 1});
    let mut pod = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}});
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container.as_object_mut().unwrap().entry("image").or_insert(json!("i:1"));
        }
    }
    serde_json::from_value(pod).unwrap()
}

pub struct Machine {
    pub pod: Pod,
    pub seen: Seen,
    pub second: i64,
    /// Every action obeyed, in short words.
    pub done: Vec<String>,
    /// Every event told, as `Reason message`.
    pub told: Vec<String>,
    /// Containers that ignore the stop signal.
    pub stubborn: BTreeSet<String>,
    /// Containers whose hooks never come back.
    pub slow_hooks: BTreeSet<String>,
    /// Containers whose images cannot be pulled.
    pub unpullable: BTreeSet<String>,
    /// By container and probe; what is not named succeeds.
    pub failing_probes: BTreeSet<(String, super::seen::ProbeKind)>,
    /// Exit codes on the stop signal.
    pub exit_codes: BTreeMap<String, i32>,
    pub is_removed: bool,
    /// Nothing is done at once: what was begun ends only after a round in which it is seen under way.
    pub is_slow: bool,
    under_way: Vec<Action>,
}

impl Machine {
    pub fn new(spec: Value) -> Self {
        let seen = Seen { accepted_at: Some(at(0)), ..Seen::default() };
        Machine {
            pod: make_pod(spec),
            seen,
            second: 0,
            done: Vec::new(),
            told: Vec::new(),
            stubborn: BTreeSet::new(),
            slow_hooks: BTreeSet::new(),
            unpullable: BTreeSet::new(),
            failing_probes: BTreeSet::new(),
            exit_codes: BTreeMap::new(),
            is_removed: false,
            is_slow: false,
            under_way: Vec::new(),
        }
    }

    pub fn now(&self) -> Timestamp {
        at(self.second)
    }

    pub fn plan(&self) -> PodActions {
        pod_actions(&self.pod, &self.seen, self.now())
    }

    /// Plans and obeys until nothing is left to do now, which must be soon; the status is stored after each round.
    pub fn settle(&mut self) {
        const ROUNDS_MAX: usize = 40;
        for _ in 0..ROUNDS_MAX {
            self.report();
            let plan = self.plan();
            if self.is_removed || plan.actions.is_empty() && self.under_way.is_empty() {
                return;
            }
            for action in std::mem::take(&mut self.under_way) {
                self.change(|machine| machine.obey(&action));
            }
            for action in plan.actions {
                self.change(|machine| machine.begin(action));
            }
        }
        panic!("still planning after {ROUNDS_MAX} rounds: {:?} {:#?}", self.plan(), self.seen);
    }

    /// Lets time pass, planning whenever the plan asked to.
    pub fn pass(&mut self, seconds: i64) {
        let end = self.second + seconds;
        self.settle();
        while let Some(next) = self.plan().next_at.filter(|next| *next <= at(end)) {
            let next = next.as_second() + i64::from(next.subsec_nanosecond() > 0) - at(0).as_second();
            assert!(next > self.second, "a look at {next} was asked for at {}: {:?}", self.second, self.plan());
            self.second = next;
            self.settle();
        }
        self.second = end;
        self.settle();
    }

    pub fn report(&mut self) {
        let host = HostFacts { addresses: vec!["10.0.0.1".to_owned()] };
        self.pod.status = Some(status(&self.pod, &self.seen, &host, self.now()));
    }

    fn change(&mut self, make: impl FnOnce(&mut Self)) {
        let before = self.seen.clone();
        make(self);
        let events = events(&before, &self.seen, &self.pod);
        self.told.extend(events.into_iter().map(|event| format!("{} {}", event.reason, event.message)));
    }

    /// Does what is done at once; shows the rest as under way until the next round.
    fn begin(&mut self, action: Action) {
        if !self.is_slow {
            return self.obey(&action);
        }
        match &action {
            Action::MountVolumes => self.seen.volumes = Volumes::Mounting,
            Action::MakeSandbox { .. } => self.seen.sandbox = Sandbox::Making,
            Action::PullImage { container, .. } => {
                let since = self.now();
                self.seen.containers.entry(container.clone()).or_default().image = ImageSeen::Pulling { since };
            }
            Action::Start { container, .. } => {
                let attempt = self.attempt(&action);
                let seen = self.seen.containers.entry(container.clone()).or_default();
                seen.last = seen.exited().cloned();
                seen.state = State::Creating(attempt);
            }
            Action::PostStart { container } => self.running(container).post_start = HookSeen::Running,
            Action::Probe { container, kind } => self.running(container).probe_mut(*kind).is_running = true,
            Action::PreStop { container } => {
                self.running(container).stop.as_mut().unwrap().pre_stop = HookSeen::Running;
            }
            Action::Stop { .. }
            | Action::Signal { .. }
            | Action::Kill { .. }
            | Action::TearDownSandbox
            | Action::UnmountVolumes
            | Action::RemovePod => return self.obey(&action),
        }
        self.under_way.push(action);
    }

    fn attempt(&self, action: &Action) -> Attempt {
        let Action::Start { container, attempt_number, sandbox_number, restart_delay_seconds } = action else {
            panic!("{action:?} starts nothing");
        };
        Attempt {
            number: *attempt_number,
            sandbox_number: *sandbox_number,
            restart_delay_seconds: *restart_delay_seconds,
            id: format!("{container}-{attempt_number}"),
            image: self.spec(container).image.clone().unwrap(),
            image_id: "sha256:1".to_owned(),
        }
    }

    /// Whether the container that the action is for is still there.
    fn is_in_vain(&self, action: &Action) -> bool {
        let (Action::PostStart { container } | Action::PreStop { container } | Action::Probe { container, .. }) =
            action
        else {
            return false;
        };
        !self.is_running(container)
    }

    fn obey(&mut self, action: &Action) {
        if self.is_in_vain(action) {
            return;
        }
        let now = self.now();
        match action {
            Action::MountVolumes => self.seen.volumes = Volumes::Ready,
            Action::MakeSandbox { number } => {
                self.seen.sandbox = Sandbox::Ready;
                self.seen.sandbox_number = *number;
                self.seen.addresses = vec!["10.1.0.2".to_owned()];
            }
            Action::PullImage { container, attempt_number, .. } => self.pull(container, *attempt_number),
            Action::Start { container, .. } => {
                let attempt = self.attempt(action);
                self.start(container, attempt);
            }
            Action::PostStart { container } => {
                let is_slow = self.slow_hooks.contains(container);
                self.running(container).post_start = if is_slow { HookSeen::Running } else { HookSeen::Done };
            }
            Action::Probe { container, kind } => {
                let is_well = !self.failing_probes.contains(&(container.clone(), *kind));
                let spec = spec_of(&self.spec(container), *kind).cloned().unwrap();
                let probe = self.running(container).probe_mut(*kind);
                *probe = record(probe, &spec, is_well, "no", now);
            }
            Action::Stop { container, grace_seconds, reason } => {
                let grace_seconds = *grace_seconds;
                let old = self.running(container).stop.take();
                let fresh = StopSeen {
                    reason: *reason,
                    since: now,
                    grace_seconds,
                    pre_stop: HookSeen::NotRun,
                    signalled_at: None,
                    killed_at: None,
                };
                let stop = old.map_or(fresh, |old| StopSeen { since: now, grace_seconds, ..old });
                self.running(container).stop = Some(stop);
            }
            Action::PreStop { container } => {
                let is_slow = self.slow_hooks.contains(container);
                let stop = self.running(container).stop.as_mut().unwrap();
                stop.pre_stop = if is_slow { HookSeen::Running } else { HookSeen::Done };
            }
            Action::Signal { container } => {
                self.running(container).stop.as_mut().unwrap().signalled_at = Some(now);
                if !self.stubborn.contains(container) {
                    let code = self.exit_codes.get(container).copied().unwrap_or(143);
                    self.end(container, code);
                }
            }
            Action::Kill { container } => {
                self.running(container).stop.as_mut().unwrap().killed_at = Some(now);
                self.end(container, 137);
            }
            Action::TearDownSandbox => {
                assert!(!self.seen.is_anything_alive(), "the sandbox goes last");
                self.seen.sandbox = Sandbox::Absent;
            }
            Action::UnmountVolumes => self.seen.volumes = Volumes::Absent,
            Action::RemovePod => self.is_removed = true,
        }
        self.done.push(words(action));
    }

    fn pull(&mut self, container: &str, attempt_number: u32) {
        let at = self.now();
        let is_unpullable = self.unpullable.contains(container);
        let seen = self.seen.containers.entry(container.to_owned()).or_default();
        seen.image = if is_unpullable {
            let failures = if let ImageSeen::Failed(old) = &seen.image { old.failures + 1 } else { 1 };
            let (reason, message) = ("ErrImagePull".to_owned(), "not found".to_owned());
            ImageSeen::Failed(Trouble { reason, message, at, failures })
        } else {
            let pull = Pull { attempt_number, pull_ms: 1204, total_ms: 1310, size_bytes: 77 };
            ImageSeen::Present { image_id: "sha256:1".to_owned(), pull: Some(pull) }
        };
    }

    fn start(&mut self, container: &str, attempt: Attempt) {
        let now = self.now();
        let seen = self.seen.containers.entry(container.to_owned()).or_default();
        assert!(seen.running().is_none(), "one attempt of {container} at a time");
        if !matches!(seen.state, State::Creating(_)) {
            seen.last = seen.exited().cloned();
        }
        let expected = seen.last.as_ref().map_or(0, |last| last.attempt.number + 1);
        assert_eq!(attempt.number, expected, "attempts are numbered without gaps");
        seen.state = State::Running(Box::new(Running::new(attempt, 4242, now)));
    }

    pub fn spec(&self, container: &str) -> Container {
        let others = all_containers(&self.pod).map(|(_, spec)| spec.clone());
        others.chain(ephemeral_containers(&self.pod)).find(|spec| spec.name == container).unwrap()
    }

    pub fn container(&self, name: &str) -> &ContainerSeen {
        self.seen.container(name)
    }

    pub fn running(&mut self, container: &str) -> &mut Running {
        match &mut self.seen.containers.get_mut(container).unwrap().state {
            State::Running(running) => running,
            other => panic!("{container} does not run: {other:?}"),
        }
    }

    pub fn is_running(&self, container: &str) -> bool {
        self.container(container).running().is_some()
    }

    fn end(&mut self, container: &str, code: i32) {
        let finished_at = self.now();
        let running = self.running(container).clone();
        let exit = Exit {
            attempt: running.attempt,
            code,
            signal: None,
            started_at: Some(running.started_at),
            finished_at,
            oom_killed: false,
            reason: None,
            message: None,
            stopped_for: running.stop.map(|stop| stop.reason),
        };
        self.seen.containers.get_mut(container).unwrap().state = State::Exited(exit);
    }

    /// A container ends by itself.
    pub fn exit(&mut self, container: &str, code: i32) {
        self.change(|machine| machine.end(container, code));
        self.settle();
    }

    /// The sandbox goes, and all that ran in it.
    pub fn lose_sandbox(&mut self) {
        let names: Vec<String> = self.seen.containers.keys().cloned().collect();
        for name in names {
            if self.is_running(&name) {
                self.end(&name, 137);
            }
        }
        self.seen.sandbox = Sandbox::Ended;
        self.settle();
    }

    pub fn delete(&mut self, grace_seconds: i64) {
        self.pod.metadata.deletion_timestamp = Some(Time(later(self.now(), grace_seconds)));
        self.pod.metadata.deletion_grace_period_seconds = Some(grace_seconds);
        self.settle();
    }

    pub fn phase(&self) -> &str {
        super::stored_phase(&self.pod)
    }

    pub fn status(&self) -> Value {
        serde_json::to_value(&self.pod.status).unwrap()
    }
}

fn words(action: &Action) -> String {
    match action {
        Action::MountVolumes => "mount".to_owned(),
        Action::MakeSandbox { number } => format!("sandbox {number}"),
        Action::PullImage { container, .. } => format!("pull {container}"),
        Action::Start { container, attempt_number, .. } => format!("start {container} {attempt_number}"),
        Action::PostStart { container } => format!("postStart {container}"),
        Action::Probe { container, kind } => format!("{kind:?} {container}"),
        Action::Stop { container, grace_seconds, .. } => format!("stop {container} {grace_seconds}"),
        Action::PreStop { container } => format!("preStop {container}"),
        Action::Signal { container } => format!("signal {container}"),
        Action::Kill { container } => format!("kill {container}"),
        Action::TearDownSandbox => "tear down".to_owned(),
        Action::UnmountVolumes => "unmount".to_owned(),
        Action::RemovePod => "remove".to_owned(),
    }
}
