//! The pod's phase, counted from the statuses of its containers (the kubelet's rules).

use super::course::{Ending, has_died_with_its_sandbox};
use super::seen::Seen;
use super::{Role, all_containers, restart};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

/// How many containers are in which state, as far as the phase cares.
#[derive(Default)]
struct Count {
    init_pending: u32,
    sidecars_pending: u32,
    init_failed: u32,
    waiting: u32,
    running: u32,
    stopped: u32,
    stopped_for_good: u32,
    succeeded: u32,
}

/// The phase that the statuses amount to; `ending` says that nothing will start again.
pub fn phase(pod: &Pod, seen: &Seen, statuses: &[ContainerStatus], ending: Option<Ending>) -> &'static str {
    match ending {
        Some(Ending::Rejected | Ending::Evicted | Ending::DeadlineExceeded) => return "Failed",
        Some(Ending::Over | Ending::Deleted | Ending::Finished) | None => {}
    }
    let count = count(pod, seen, statuses);
    if count.init_failed > 0 {
        return "Failed";
    }
    let has_initialised = super::main_containers(pod).iter().any(|main| {
        let attempt = seen.container(&main.name).attempt();
        attempt.is_some_and(|attempt| attempt.sandbox_number == seen.sandbox_number)
    });
    let is_pending = count.init_pending > 0 || (count.sidecars_pending > 0 && !has_initialised) || count.waiting > 0;
    let is_lost = has_died_with_its_sandbox(pod, seen) && count.running == 0;
    if is_pending {
        return if is_lost { "Failed" } else { "Pending" };
    }
    if count.running > 0 {
        return "Running";
    }
    if count.stopped == 0 {
        return "Pending";
    }
    let is_over = ending.is_some() || is_lost || count.stopped == count.stopped_for_good;
    match (is_over, count.stopped == count.succeeded) {
        (false, _) => "Running",
        (true, true) => "Succeeded",
        (true, false) => "Failed",
    }
}

fn count(pod: &Pod, seen: &Seen, statuses: &[ContainerStatus]) -> Count {
    let mut count = Count::default();
    for (role, container) in all_containers(pod) {
        let Some(status) = statuses.iter().find(|status| status.name == container.name) else { continue };
        let state = status.state.clone().unwrap_or_default();
        let ended =
            state.terminated.or_else(|| status.last_state.clone()?.terminated.filter(|_| state.waiting.is_some()));
        let is_running = state.running.is_some();
        match role {
            Role::Init => match ended {
                Some(end) if end.exit_code == 0 => {}
                Some(_) => count.init_failed += u32::from(!is_restarted(pod, seen, role, container)),
                None => count.init_pending += 1,
            },
            Role::Sidecar if is_running => {
                count.running += 1;
                count.sidecars_pending += u32::from(status.started != Some(true));
            }
            Role::Sidecar if ended.is_none() => {
                count.sidecars_pending += 1;
                count.waiting += 1;
            }
            Role::Sidecar => {}
            Role::Ephemeral => {}
            Role::Main if is_running => count.running += 1,
            Role::Main => match ended {
                Some(end) => {
                    count.stopped += 1;
                    count.succeeded += u32::from(end.exit_code == 0);
                    count.stopped_for_good += u32::from(!is_restarted(pod, seen, role, container));
                }
                None => count.waiting += 1,
            },
        }
    }
    count
}

/// Whether the container's newest end is followed by a start, planned or already under way.
fn is_restarted(pod: &Pod, seen: &Seen, role: Role, container: &Container) -> bool {
    let seen = seen.container(&container.name);
    match seen.exited() {
        Some(exit) => restart::is_restarted(pod, role, container, exit),
        None => seen.attempt().is_some(),
    }
}
