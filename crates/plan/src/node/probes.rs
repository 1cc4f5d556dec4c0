//! Probes: when one is due, and what a row of results means.

use super::actions::{Action, PodActions};
use super::later;
use super::seen::{HookSeen, ProbeKind, ProbeSeen, Running};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};

const PERIOD_DEFAULT_S: i32 = 10;
const FAILURES_DEFAULT: i32 = 3;

impl Running {
    pub fn probe(&self, kind: ProbeKind) -> &ProbeSeen {
        match kind {
            ProbeKind::Startup => &self.startup,
            ProbeKind::Readiness => &self.readiness,
            ProbeKind::Liveness => &self.liveness,
        }
    }

    pub fn probe_mut(&mut self, kind: ProbeKind) -> &mut ProbeSeen {
        match kind {
            ProbeKind::Startup => &mut self.startup,
            ProbeKind::Readiness => &mut self.readiness,
            ProbeKind::Liveness => &mut self.liveness,
        }
    }
}

pub fn spec_of(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
    }
}

/// Folds the result of one probe into what is known: a verdict changes only when its threshold is reached.
pub fn record(seen: &ProbeSeen, probe: &Probe, success: bool, output: &str, at: Timestamp) -> ProbeSeen {
    let in_a_row = if seen.last_success == Some(success) { seen.in_a_row.saturating_add(1) } else { 1 };
    let threshold = if success { probe.success_threshold } else { probe.failure_threshold };
    let threshold = threshold.unwrap_or(if success { 1 } else { FAILURES_DEFAULT }).max(1);
    let is_reached = i64::from(in_a_row) >= i64::from(threshold);
    ProbeSeen {
        is_running: false,
        last_at: Some(at),
        last_success: Some(success),
        in_a_row,
        output: output.to_owned(),
        verdict: if is_reached { Some(success) } else { seen.verdict },
        runs: seen.runs.saturating_add(1),
    }
}

/// Whether `postStart` is behind the container (or it has none).
pub fn has_run_post_start(container: &Container, running: &Running) -> bool {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
    hook.is_none() || running.post_start == HookSeen::Done
}

/// Whether the container counts as started: its hook has run and its startup probe, if any, has succeeded.
pub fn has_started(container: &Container, running: &Running) -> bool {
    let has_come_up = container.startup_probe.is_none() || running.startup.verdict == Some(true);
    has_run_post_start(container, running) && has_come_up
}

/// Plans the probes that are due; while the pod ends, only readiness is still watched.
pub fn plan_probes(container: &Container, running: &Running, is_ending: bool, now: Timestamp, plan: &mut PodActions) {
    if !has_run_post_start(container, running) {
        return;
    }
    let has_started = has_started(container, running);
    for kind in [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness] {
        let is_wanted = match kind {
            ProbeKind::Startup => !is_ending && running.startup.verdict.is_none(),
            ProbeKind::Readiness => has_started,
            ProbeKind::Liveness => !is_ending && has_started && running.liveness.verdict != Some(false),
        };
        let seen = running.probe(kind);
        let Some(probe) = spec_of(container, kind).filter(|_| is_wanted && !seen.is_running) else { continue };
        let due = due_at(probe, seen, running.started_at);
        if due <= now {
            plan.actions.push(Action::Probe { container: container.name.clone(), kind });
        } else {
            plan.look_at(due);
        }
    }
}

fn due_at(probe: &Probe, seen: &ProbeSeen, started_at: Timestamp) -> Timestamp {
    let period = i64::from(probe.period_seconds.unwrap_or(PERIOD_DEFAULT_S).max(1));
    let first = later(started_at, i64::from(probe.initial_delay_seconds.unwrap_or(0)));
    seen.last_at.map_or(first, |last_at| later(last_at, period).max(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // K-POD-3
    #[test]
    fn a_verdict_needs_its_threshold_of_equal_results_in_a_row() {
        let probe: Probe = serde_json::from_value(json!({"failureThreshold": 2, "successThreshold": 2})).unwrap();
        let results = [(true, None), (true, Some(true)), (false, Some(true)), (true, Some(true))];
        let mut seen = ProbeSeen::default();
        for (success, verdict) in results.into_iter().chain([(false, Some(true)), (false, Some(false))]) {
            seen = record(&seen, &probe, success, "", Timestamp::UNIX_EPOCH);
            assert_eq!(seen.verdict, verdict);
        }
        assert_eq!(seen.runs, 6);
    }
}
