//! The story of an item from submitted to ended: which stage it was in, from when until when, and what each wait was for.

use super::item::{End, State};
use jiff::Timestamp;

/// Stages that are told; of an item that went to and fro for days, the last ones.
const STAGES_MAX: usize = 40;

/// Something that was noted of an item when it happened: a new state, or a new reason to wait in the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: Timestamp,
    pub state: State,
    /// Counted from 0.
    pub attempt: i64,
    pub waiting: Option<String>,
}

/// What an item was doing for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// In its queue, or in the hands of an agent that looks whether it fits.
    Queued,
    /// An agent answers for it, and its processes do not run yet.
    Starting,
    Running,
}

impl Name {
    pub fn word(self) -> &'static str {
        match self {
            Name::Queued => "queued",
            Name::Starting => "starting",
            Name::Running => "running",
        }
    }

    fn of(state: State) -> Option<Name> {
        match state {
            State::Pending | State::Leased => Some(Name::Queued),
            State::Claimed => Some(Name::Starting),
            State::Running => Some(Name::Running),
            State::Finished | State::Failed => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    pub name: Name,
    pub from: Timestamp,
    /// Not there for what goes on.
    pub until: Option<Timestamp>,
    /// What it waited for, where somebody said so.
    pub reason: Option<String>,
    /// Counted from 1.
    pub attempt: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    pub stages: Vec<Stage>,
    pub end: Option<(End, Timestamp)>,
}

/// What is known of an item besides its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    pub created: Timestamp,
    pub ended: Option<(End, Timestamp)>,
    /// Why it waits now.
    pub reason: Option<String>,
}

pub fn of(bounds: &Bounds, steps: &[Step]) -> Timeline {
    let mut stages: Vec<Stage> = Vec::new();
    let first = Step { at: bounds.created, state: State::Pending, attempt: 0, waiting: None };
    for step in std::iter::once(&first).chain(steps) {
        let Some(name) = Name::of(step.state) else { continue };
        let attempt = step.attempt + 1;
        match stages.last_mut() {
            // A reason belongs to the whole wait until another takes its place.
            Some(last) if last.name == name && last.attempt == attempt => match (&last.reason, &step.waiting) {
                (None, reason) => last.reason.clone_from(reason),
                (Some(_), None) => (),
                (Some(known), Some(reason)) if known == reason => (),
                (Some(_), Some(_)) => follow(&mut stages, name, step, attempt),
            },
            _ => follow(&mut stages, name, step, attempt),
        }
    }
    if let Some(last) = stages.last_mut() {
        match bounds.ended {
            Some((_, at)) => last.until = Some(at.max(last.from)),
            None => last.reason = bounds.reason.clone().or(last.reason.take()),
        }
    }
    let surplus = stages.len().saturating_sub(STAGES_MAX);
    stages.drain(..surplus);
    Timeline { stages, end: bounds.ended }
}

fn follow(stages: &mut Vec<Stage>, name: Name, step: &Step, attempt: i64) {
    if let Some(last) = stages.last_mut() {
        last.until = Some(step.at.max(last.from));
    }
    stages.push(Stage { name, from: step.at, until: None, reason: step.waiting.clone(), attempt });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn step(second: i64, state: State, waiting: Option<&str>) -> Step {
        Step { at: at(second), state, attempt: 0, waiting: waiting.map(str::to_owned) }
    }

    /// `queued 0-3: why`, `running 5-`.
    fn told(bounds: &Bounds, steps: &[Step]) -> Vec<String> {
        let second = |time: Timestamp| time.as_second().to_string();
        let line = |stage: &Stage| {
            let reason = stage.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let until = stage.until.map(second).unwrap_or_default();
            format!("{} {}-{until}{reason}", stage.name.word(), second(stage.from))
        };
        of(bounds, steps).stages.iter().map(line).collect()
    }

    fn open() -> Bounds {
        Bounds { created: at(0), ended: None, reason: None }
    }

    #[test]
    fn what_was_only_submitted_waits_in_its_queue_for_what_is_known_now() {
        assert_eq!(told(&open(), &[]), ["queued 0-"]);
        let bounds = Bounds { reason: Some("2 before it".into()), ..open() };
        assert_eq!(told(&bounds, &[]), ["queued 0-: 2 before it"]);
    }

    #[test]
    fn each_wait_has_its_reason_and_to_be_looked_at_is_none() {
        let steps = [
            step(2, State::Leased, None),
            step(3, State::Claimed, None),
            step(4, State::Claimed, Some("needs 8 GPUs together, 6 free")),
            step(9, State::Claimed, Some("pulls its image")),
            step(12, State::Running, None),
        ];
        let bounds = Bounds { ended: Some((End::Finished, at(20))), ..open() };
        assert_eq!(
            told(&bounds, &steps),
            [
                "queued 0-3",
                "starting 3-9: needs 8 GPUs together, 6 free",
                "starting 9-12: pulls its image",
                "running 12-20"
            ]
        );
    }

    #[test]
    fn going_to_and_fro_is_one_wait() {
        let steps: Vec<Step> =
            (1..500).map(|n| step(n, if n % 2 == 1 { State::Leased } else { State::Pending }, None)).collect();
        assert_eq!(told(&open(), &steps), ["queued 0-"]);
    }

    #[test]
    fn a_second_attempt_is_a_wait_of_its_own() {
        let again = Step { attempt: 1, ..step(5, State::Pending, Some("preempted by run b")) };
        let steps = [step(1, State::Claimed, None), step(2, State::Running, None), again];
        assert_eq!(
            told(&open(), &steps),
            ["queued 0-1", "starting 1-2", "running 2-5", "queued 5-: preempted by run b"]
        );
    }

    #[test]
    fn a_clock_that_went_back_gives_no_stage_that_ends_before_it_began() {
        let steps = [step(5, State::Claimed, None), step(3, State::Running, None)];
        let bounds = Bounds { ended: Some((End::Failed, at(1))), ..open() };
        assert_eq!(told(&bounds, &steps), ["queued 0-5", "starting 5-5", "running 3-3"]);
    }
}
