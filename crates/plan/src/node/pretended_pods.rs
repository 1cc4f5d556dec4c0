//! The life of a pod on a node that is not there: everything goes well at once, and its containers end when the pod's
//! annotations say so.
//!
//! The shell hands each pod to `live` when it changes or its time has come, writes the status and removes the object.
//! What is planned is what the real node would do (`actions`); only the machine is left out.

use super::actions::{Action, pod_actions};
use super::probes::{record, spec_of};
use super::seen::{
    Attempt, ContainerSeen, Exit, HookSeen, ImageSeen, Pull, Running, Sandbox, Seen, State, StopSeen, Volumes,
};
use super::status::{HostFacts, patch, status};
use super::{Role, all_containers, back_off, earliest, is_terminal, later};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use serde_json::Value;

/// Seconds that the main containers run; without it they run until the pod is deleted.
pub const RUN_SECONDS: &str = "volley.dev/run-seconds";
/// What they end with then; 0 if it is not said.
pub const EXIT_CODE: &str = "volley.dev/exit-code";
/// Seconds that they take to stop when they are asked to, up to the grace that they are given; 0 if it is not said.
pub const STOP_SECONDS: &str = "volley.dev/stop-seconds";
const IMAGE_ID: &str = "pretend";
const PID: u32 = 1;
const TERMINATED: i32 = 143;
const KILLED: i32 = 137;
/// A pod is at rest long before; more would be a plan that never ends.
const ROUNDS_MAX: usize = 200;

/// What came of a look at a pod.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    /// To be written to the pod's status first.
    pub patch: Option<Value>,
    /// Then its object may go.
    pub is_over: bool,
    pub next_at: Option<Timestamp>,
}

/// Lets the pod live until `now`. `address` is for a pod that has none yet.
pub fn live(pod: &Pod, seen: &mut Seen, host: &HostFacts, address: &str, now: Timestamp) -> Step {
    seen.accepted_at.get_or_insert(now);
    let mut shown = pod.clone();
    let mut step = Step::default();
    for _ in 0..ROUNDS_MAX {
        let ends = end_what_is_done(&shown, seen, now);
        shown.status = Some(status(&shown, seen, host, now));
        let plan = pod_actions(&shown, seen, now);
        step.next_at = earliest([plan.next_at, ends]);
        if plan.actions.is_empty() {
            break;
        }
        if plan.actions == [Action::RemovePod] {
            step.is_over = true;
            break;
        }
        let mut machine = Machine { pod: &shown, seen, address, now };
        plan.actions.iter().for_each(|action| machine.obey(action));
    }
    step.patch = shown.status.as_ref().and_then(|status| patch(pod, status));
    step
}

/// Ends the containers whose time is up; when the next one's is.
fn end_what_is_done(pod: &Pod, seen: &mut Seen, now: Timestamp) -> Option<Timestamp> {
    let mut next = None;
    for (role, container) in all_containers(pod) {
        let Some(running) = seen.container(&container.name).running() else { continue };
        let (ends_at, code) = match end_of(pod, role, running) {
            Some(end) => end,
            None => continue,
        };
        if ends_at <= now {
            end(seen, &container.name, ends_at, code);
        } else {
            next = earliest([next, Some(ends_at)]);
        }
    }
    next
}

fn end_of(pod: &Pod, role: Role, running: &Running) -> Option<(Timestamp, i32)> {
    let signalled = running.stop.as_ref().and_then(|stop| stop.signalled_at);
    let stopped = signalled.map(|at| (later(at, seconds(pod, STOP_SECONDS).unwrap_or(0)), TERMINATED));
    let done = match role {
        Role::Init => Some((running.started_at, 0)),
        Role::Sidecar | Role::Ephemeral => None,
        Role::Main => {
            let code = seconds(pod, EXIT_CODE).and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
            seconds(pod, RUN_SECONDS).map(|seconds| (later(running.started_at, seconds), code))
        }
    };
    stopped.into_iter().chain(done).min()
}

fn seconds(pod: &Pod, key: &str) -> Option<i64> {
    let text = pod.metadata.annotations.as_ref()?.get(key)?;
    // Parts of a second count for a whole one: the statuses that survive a restart have whole seconds.
    let seconds = text.trim().trim_end_matches('s').parse::<f64>().ok()?.ceil();
    (0.0..=1e12).contains(&seconds).then_some(seconds as i64)
}

fn end(seen: &mut Seen, container: &str, finished_at: Timestamp, code: i32) {
    let Some(known) = seen.containers.get_mut(container) else { return };
    let State::Running(running) = &known.state else { return };
    known.state = State::Exited(Exit {
        attempt: running.attempt.clone(),
        code,
        signal: None,
        started_at: Some(running.started_at),
        finished_at,
        oom_killed: false,
        reason: None,
        message: None,
        stopped_for: running.stop.as_ref().map(|stop| stop.reason),
    });
}

struct Machine<'a> {
    pod: &'a Pod,
    seen: &'a mut Seen,
    address: &'a str,
    now: Timestamp,
}

impl Machine<'_> {
    fn obey(&mut self, action: &Action) {
        let now = self.now;
        match action {
            Action::MountVolumes => self.seen.volumes = Volumes::Ready,
            Action::UnmountVolumes => self.seen.volumes = Volumes::Absent,
            Action::MakeSandbox { number } => {
                self.seen.sandbox = Sandbox::Ready;
                self.seen.sandbox_number = *number;
                if self.seen.addresses.is_empty() {
                    self.seen.addresses = vec![self.address.to_owned()];
                }
            }
            Action::TearDownSandbox => self.seen.sandbox = Sandbox::Absent,
            Action::PullImage { container, attempt_number, .. } => {
                let pull = Pull { attempt_number: *attempt_number, pull_ms: 0, total_ms: 0, size_bytes: 0 };
                let image = ImageSeen::Present { image_id: IMAGE_ID.to_owned(), pull: Some(pull) };
                self.seen.containers.entry(container.clone()).or_default().image = image;
            }
            Action::Start { container, attempt_number, sandbox_number, restart_delay_seconds } => {
                self.start(container, (*attempt_number, *sandbox_number, *restart_delay_seconds));
            }
            Action::PostStart { container } => self.change(container, |running| running.post_start = HookSeen::Done),
            Action::Probe { container, kind } => {
                let spec = all_containers(self.pod).find(|(_, spec)| spec.name == *container);
                let Some(spec) = spec.and_then(|(_, spec)| spec_of(spec, *kind)).cloned() else { return };
                self.change(container, |running| {
                    let probe = running.probe_mut(*kind);
                    *probe = record(probe, &spec, true, "", now);
                });
            }
            Action::Stop { container, grace_seconds, reason } => self.change(container, |running| {
                let fresh = StopSeen {
                    reason: *reason,
                    since: now,
                    grace_seconds: *grace_seconds,
                    pre_stop: HookSeen::NotRun,
                    signalled_at: None,
                    killed_at: None,
                };
                let old = running.stop.take();
                running.stop =
                    Some(old.map_or(fresh, |old| StopSeen { since: now, grace_seconds: *grace_seconds, ..old }));
            }),
            Action::PreStop { container } => self.stop(container, |stop| stop.pre_stop = HookSeen::Done),
            Action::Signal { container } => self.stop(container, |stop| stop.signalled_at = Some(now)),
            Action::Kill { container } => {
                self.stop(container, |stop| stop.killed_at = Some(now));
                end(self.seen, container, now, KILLED);
            }
            // The shell's, once the status is written.
            Action::RemovePod => {}
        }
    }

    fn change(&mut self, container: &str, make: impl FnOnce(&mut Running)) {
        if let Some(State::Running(running)) = self.seen.containers.get_mut(container).map(|known| &mut known.state) {
            make(running);
        }
    }

    fn stop(&mut self, container: &str, make: impl FnOnce(&mut StopSeen)) {
        self.change(container, |running| running.stop.iter_mut().for_each(make_once(make)));
    }

    fn start(&mut self, container: &str, (number, sandbox_number, restart_delay_seconds): (u32, u32, u32)) {
        let spec = all_containers(self.pod).find(|(_, spec)| spec.name == container);
        let attempt = Attempt {
            number,
            sandbox_number,
            restart_delay_seconds,
            id: format!("{}-{container}-{number}", super::uid(self.pod)),
            image: spec.and_then(|(_, spec)| spec.image.clone()).unwrap_or_default(),
            image_id: IMAGE_ID.to_owned(),
        };
        let known = self.seen.containers.entry(container.to_owned()).or_default();
        known.last = known.exited().cloned();
        known.state = State::Running(Box::new(Running::new(attempt, PID, self.now)));
    }
}

/// A change that is made to the one thing that there is, if any.
fn make_once<T>(make: impl FnOnce(&mut T)) -> impl FnMut(&mut T) {
    let mut make = Some(make);
    move |thing| {
        if let Some(make) = make.take() {
            make(thing);
        }
    }
}

/// What a new process knows of a pod that an earlier one let live: all of it is in the status.
pub fn recall(pod: &Pod) -> Seen {
    let Some(stored) = pod.status.as_ref().filter(|status| status.start_time.is_some()) else { return Seen::default() };
    let mut seen = Seen {
        accepted_at: stored.start_time.as_ref().map(|time| time.0),
        addresses: stored.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect(),
        ..Seen::default()
    };
    if is_terminal(pod) {
        return seen;
    }
    (seen.volumes, seen.sandbox, seen.sandbox_number) = (Volumes::Ready, Sandbox::Ready, 1);
    let mains = stored.container_statuses.iter().flatten();
    for known in mains.chain(stored.init_container_statuses.iter().flatten()) {
        if let Some(container) = recall_container(known) {
            seen.containers.insert(known.name.clone(), container);
        }
    }
    seen
}

fn recall_container(known: &ContainerStatus) -> Option<ContainerSeen> {
    let number = u32::try_from(known.restart_count).unwrap_or(0);
    let attempt = |number: u32| Attempt {
        number,
        sandbox_number: 1,
        restart_delay_seconds: back_off::delay_of_attempt(number),
        id: known.container_id.as_deref().and_then(|id| id.split("://").nth(1)).unwrap_or_default().to_owned(),
        image: known.image.clone(),
        image_id: known.image_id.clone(),
    };
    let exit = |state: &Option<ContainerState>, number: u32| {
        let ended = state.as_ref()?.terminated.as_ref()?;
        Some(Exit {
            attempt: attempt(number),
            code: ended.exit_code,
            signal: ended.signal,
            started_at: ended.started_at.as_ref().map(|time| time.0),
            finished_at: ended.finished_at.as_ref()?.0,
            oom_killed: false,
            reason: None,
            message: ended.message.clone(),
            stopped_for: None,
        })
    };
    let started = known.state.as_ref()?.running.as_ref().and_then(|running| Some(running.started_at.as_ref()?.0));
    let state = match started {
        Some(started_at) => State::Running(Box::new(Running::new(attempt(number), PID, started_at))),
        None => State::Exited(exit(&known.state, number).or_else(|| exit(&known.last_state, number))?),
    };
    let last = number.checked_sub(1).and_then(|before| exit(&known.last_state, before));
    let image = ImageSeen::Present { image_id: known.image_id.clone(), pull: None };
    Some(ContainerSeen { state, last, image, start_trouble: None })
}

#[cfg(test)]
mod tests {
    use super::super::pretend::{at, make_pod};
    use super::super::stored_phase;
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    struct World {
        pod: Pod,
        seen: Seen,
    }

    impl World {
        fn new(annotations: Value, spec: Value) -> World {
            let mut pod = make_pod(spec);
            pod.metadata.annotations = serde_json::from_value(annotations).unwrap();
            World { pod, seen: Seen::default() }
        }

        fn look(&mut self, second: i64) -> Step {
            let host = HostFacts { addresses: vec!["198.18.0.1".to_owned()] };
            let step = live(&self.pod, &mut self.seen, &host, "100.64.0.1", at(second));
            let mut stored = serde_json::to_value(&self.pod).unwrap();
            if let Some(patch) = &step.patch {
                json_patch::merge(&mut stored, patch);
            }
            self.pod = serde_json::from_value(stored).unwrap();
            let again = live(&self.pod, &mut self.seen.clone(), &host, "x", at(second));
            assert_eq!(again.patch, None, "looking again changes nothing");
            step
        }

        fn delete(&mut self, second: i64, grace: i64) {
            self.pod.metadata.deletion_timestamp = Some(Time(at(second + grace)));
            self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        }

        fn status(&self) -> Value {
            serde_json::to_value(&self.pod.status).unwrap()
        }
    }

    fn one() -> Value {
        json!({"containers": [{"name": "main"}], "restartPolicy": "Never"})
    }

    #[test]
    fn a_pod_runs_for_its_time_and_succeeds() {
        let mut world = World::new(json!({RUN_SECONDS: "60"}), one());
        assert_eq!(world.look(0).next_at, Some(at(60)));
        let status = world.status();
        assert_eq!((&status["phase"], &status["podIP"]), (&json!("Running"), &json!("100.64.0.1")));
        assert_eq!(status["containerStatuses"][0]["ready"], true);
        assert!(status["containerStatuses"][0]["state"]["running"]["startedAt"].is_string());
        assert_eq!(world.look(59).patch, None);
        assert!(!world.look(60).is_over);
        assert_eq!(stored_phase(&world.pod), "Succeeded");
        assert_eq!(world.status()["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    }

    #[test]
    fn an_image_that_is_asked_for_always_is_there_at_once() {
        let spec = json!({"containers": [{"name": "main", "imagePullPolicy": "Always"}], "restartPolicy": "Never"});
        let mut world = World::new(json!({RUN_SECONDS: "0"}), spec);
        world.look(0);
        assert_eq!(stored_phase(&world.pod), "Succeeded");
    }

    #[test]
    fn a_pod_without_a_time_runs_until_it_is_deleted_and_may_fail() {
        let mut world = World::new(json!({}), one());
        assert_eq!(world.look(0).next_at, None);
        world.delete(10, 30);
        assert!(world.look(10).is_over);
        let mut world = World::new(json!({RUN_SECONDS: "1.5s", EXIT_CODE: "3"}), one());
        world.look(0);
        world.look(2);
        assert_eq!(stored_phase(&world.pod), "Failed");
        assert_eq!(world.status()["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    }

    #[test]
    fn one_that_stops_slowly_is_killed_when_its_grace_is_over() {
        let mut world = World::new(json!({STOP_SECONDS: "20"}), one());
        world.look(0);
        world.delete(10, 30);
        assert_eq!(world.look(10), Step { next_at: Some(at(30)), ..Step::default() });
        assert!(world.look(30).is_over);
        let mut world = World::new(json!({STOP_SECONDS: "100"}), one());
        world.look(0);
        world.delete(10, 30);
        assert_eq!(world.look(10).next_at, Some(at(40)));
        assert!(world.look(40).is_over);
        assert_eq!(world.status()["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
    }

    #[test]
    fn init_containers_are_done_at_once_deadlines_end_and_failures_are_tried_again() {
        let spec = json!({"initContainers": [{"name": "first"}], "containers": [{"name": "main"}],
            "restartPolicy": "Never", "activeDeadlineSeconds": 5});
        let mut world = World::new(json!({}), spec);
        assert_eq!(world.look(0).next_at, Some(at(5)));
        assert_eq!(stored_phase(&world.pod), "Running");
        world.look(5);
        assert_eq!((stored_phase(&world.pod), &world.status()["reason"]), ("Failed", &json!("DeadlineExceeded")));
        let spec = json!({"containers": [{"name": "main"}], "restartPolicy": "OnFailure"});
        let mut world = World::new(json!({RUN_SECONDS: "1", EXIT_CODE: "1"}), spec);
        (0..60).for_each(|second| drop(world.look(second)));
        assert!(world.status()["containerStatuses"][0]["restartCount"].as_i64() >= Some(2));
    }

    #[test]
    fn a_new_process_goes_on_where_the_old_one_was() {
        let mut world = World::new(json!({RUN_SECONDS: "60"}), one());
        world.look(0);
        world.seen = recall(&world.pod);
        assert_eq!(world.look(30).patch, None);
        world.look(60);
        assert_eq!(stored_phase(&world.pod), "Succeeded");
        world.seen = recall(&world.pod);
        assert_eq!(world.look(61), Step::default());
        world.delete(62, 30);
        assert!(world.look(62).is_over);
    }
}
