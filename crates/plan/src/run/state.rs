//! The state of a run, and what changes it.

use jiff::{SignedDuration, Timestamp};

/// A client that lives posts every 30 s and waits at most 60 s between tries, so this much silence is death.
pub const SILENCE_MAX: SignedDuration = SignedDuration::from_mins(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Running,
    Finished,
    Failed,
    Crashed,
    Preempting,
    Preempted,
}

impl State {
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Running,
        State::Finished,
        State::Failed,
        State::Crashed,
        State::Preempting,
        State::Preempted,
    ];

    pub fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Running => "running",
            State::Finished => "finished",
            State::Failed => "failed",
            State::Crashed => "crashed",
            State::Preempting => "preempting",
            State::Preempted => "preempted",
        }
    }

    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    pub fn has_ended(self) -> bool {
        match self {
            State::Finished | State::Failed | State::Crashed | State::Preempted => true,
            State::Pending | State::Running | State::Preempting => false,
        }
    }
}

/// What a post to the file stream says about the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Alive,
    Preempting,
    Ended { exit_code: i64 },
}

/// The state after a post. Whoever posts is alive, whatever was thought of it before.
pub fn after_post(before: State, word: Word) -> State {
    match (word, before) {
        (Word::Ended { exit_code: 0 }, _) => State::Finished,
        (Word::Ended { .. }, _) => State::Failed,
        (Word::Preempting, _) => State::Preempting,
        (Word::Alive, State::Preempting) => State::Preempting,
        (Word::Alive, _) => State::Running,
    }
}

/// The same for one of several processes that share a run. Its life does not undo that the run was ended by another.
pub fn after_shared_post(before: State, word: Word) -> State {
    match word {
        Word::Alive | Word::Preempting if before.has_ended() => before,
        Word::Alive | Word::Preempting | Word::Ended { .. } => after_post(before, word),
    }
}

/// The state of a run that says nothing, at `now`.
pub fn after_silence(before: State, heartbeat: Timestamp, now: Timestamp) -> State {
    let is_silent = now.duration_since(heartbeat) > SILENCE_MAX;
    match before {
        State::Running if is_silent => State::Crashed,
        State::Preempting if is_silent => State::Preempted,
        other => other,
    }
}

/// The state once the agent that saw all of a run's processes says how they ended. A run that said itself that it failed
/// did fail, although its processes ended well.
pub fn after_verdict(before: State, exit_code: i64) -> State {
    match (exit_code, before) {
        (0, State::Failed) => State::Failed,
        (0, _) => State::Finished,
        (_, _) => State::Failed,
    }
}

/// The state that somebody asks for by `updateRunState`; nothing if it may not be.
pub fn on_request(before: State, wanted: State) -> Option<State> {
    let is_allowed = match wanted {
        State::Pending => {
            matches!(before, State::Running | State::Failed | State::Crashed | State::Preempted | State::Pending)
        }
        State::Failed => matches!(before, State::Pending | State::Running | State::Failed),
        State::Running | State::Finished | State::Crashed | State::Preempting | State::Preempted => false,
    };
    is_allowed.then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    // RUN-5, FS-7, FS-8
    #[test]
    fn a_post_says_whether_the_process_lives() {
        for before in State::ALL {
            assert_eq!(after_post(before, Word::Ended { exit_code: 0 }), State::Finished);
            assert_eq!(after_post(before, Word::Ended { exit_code: 255 }), State::Failed);
            assert_eq!(after_post(before, Word::Preempting), State::Preempting);
        }
        assert_eq!(after_post(State::Finished, Word::Alive), State::Running);
        assert_eq!(after_post(State::Crashed, Word::Alive), State::Running);
        assert_eq!(after_post(State::Preempting, Word::Alive), State::Preempting);
    }

    #[test]
    fn the_agent_has_the_last_word_but_on_a_run_that_failed_by_itself() {
        assert_eq!(after_verdict(State::Crashed, 0), State::Finished);
        assert_eq!(after_verdict(State::Pending, 0), State::Finished);
        assert_eq!(after_verdict(State::Failed, 0), State::Failed);
        assert_eq!(after_verdict(State::Finished, 255), State::Failed);
    }

    // AUTH-6
    #[test]
    fn a_process_that_shares_a_run_does_not_bring_it_back_to_life() {
        assert_eq!(after_shared_post(State::Finished, Word::Alive), State::Finished);
        assert_eq!(after_shared_post(State::Pending, Word::Alive), State::Running);
        assert_eq!(after_shared_post(State::Running, Word::Ended { exit_code: 0 }), State::Finished);
    }

    // RUN-10
    #[test]
    fn silence_ends_only_what_was_alive() {
        let then = Timestamp::from_second(1_000_000).unwrap();
        let soon = then + SILENCE_MAX;
        let late = soon + SignedDuration::from_secs(1);
        assert_eq!(after_silence(State::Running, then, soon), State::Running);
        assert_eq!(after_silence(State::Running, then, late), State::Crashed);
        assert_eq!(after_silence(State::Preempting, then, late), State::Preempted);
        assert_eq!(after_silence(State::Pending, then, late), State::Pending);
        assert_eq!(after_silence(State::Finished, then, late), State::Finished);
    }

    #[test]
    fn a_request_may_only_put_back_or_fail() {
        assert_eq!(on_request(State::Crashed, State::Pending), Some(State::Pending));
        assert_eq!(on_request(State::Finished, State::Pending), None);
        assert_eq!(on_request(State::Running, State::Failed), Some(State::Failed));
        assert_eq!(on_request(State::Finished, State::Failed), None);
        assert_eq!(on_request(State::Pending, State::Finished), None);
    }

    #[test]
    fn every_state_has_a_name_of_its_own() {
        for state in State::ALL {
            assert_eq!(State::named(state.name()), Some(state));
        }
    }
}
