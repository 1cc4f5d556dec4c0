//! What became of the runs that a sweep gave to its agents: an answer may be lost on its way, and an agent may die.
//!
//! A point that nobody has, as far as can be known, is given out again; one that somebody may have is waited for.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long an agent is silent before others take what it never began with: as long as a run.
pub const SILENCE_MAX: SignedDuration = SignedDuration::from_mins(5);
/// How often a point is given out that never becomes a run: its program may end within seconds, before its agent
/// speaks of it, and without a word to us.
pub const TIMES_MAX: i64 = 3;

/// A run that was given out and has not appeared.
#[derive(Clone, Debug)]
pub struct Absent {
    /// Whether it was given to the agent that asks now, which says that it runs nothing.
    pub is_own: bool,
    /// Whether its agent has spoken of it since, so the answer was not lost.
    pub is_confirmed: bool,
    /// When its agent was heard of.
    pub heard: Timestamp,
    /// How often its point was given out.
    pub times: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It ran, or runs, and will not be given out again.
    Tried,
    /// Nobody has it.
    Lost,
    /// Its agent may have it, or may never have heard of it.
    Unsure,
}

pub fn standing(absent: &Absent, now: Timestamp) -> Standing {
    let is_silent = !absent.is_own && now.duration_since(absent.heard) > SILENCE_MAX;
    let is_unheard = absent.is_own && !absent.is_confirmed;
    match absent {
        absent if absent.times >= TIMES_MAX => Standing::Tried,
        _ if is_silent || is_unheard => Standing::Lost,
        absent if absent.is_confirmed => Standing::Tried,
        _ => Standing::Unsure,
    }
}

/// Whether an agent says by this that it has the run. W&B's clients send `true` for what waits or runs, and leave out the rest.
pub fn is_had(said: &Value) -> bool {
    match said {
        Value::Bool(is_had) => *is_had,
        Value::String(state) => ["pending", "queued", "running"].contains(&state.to_lowercase().as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn check(is_own: bool, is_confirmed: bool, silence: i64, times: i64) -> Standing {
        standing(&Absent { is_own, is_confirmed, heard: at(0), times }, at(silence))
    }

    // SWP-3
    #[test]
    fn a_point_whose_answer_was_lost_is_given_out_again() {
        assert_eq!(check(true, false, 0, 1), Standing::Lost, "the agent asks again and has nothing");
        assert_eq!(check(true, true, 0, 1), Standing::Tried, "it had it, and its program said nothing to us");
        assert_eq!(check(false, false, 10, 1), Standing::Unsure, "another agent may have it");
        assert_eq!(check(false, true, 10, 1), Standing::Tried, "another agent has it");
        for is_confirmed in [false, true] {
            assert_eq!(check(false, is_confirmed, 301, 1), Standing::Lost, "the other agent is gone");
        }
        assert_eq!(check(true, false, 0, TIMES_MAX), Standing::Tried, "its program ends as soon as it begins");
    }

    #[test]
    fn an_agent_says_in_several_ways_that_it_has_a_run() {
        for said in [json!(true), json!("running"), json!("QUEUED")] {
            assert!(is_had(&said), "{said}");
        }
        for said in [json!(false), json!("finished"), json!(null), json!({})] {
            assert!(!is_had(&said), "{said}");
        }
    }

    proptest! {
        #[test]
        fn a_point_is_never_in_doubt_for_longer_than_its_agent_is_silent(
            is_own: bool, is_confirmed: bool, times in 1..5i64, silence in 301..10_000i64,
        ) {
            prop_assert_ne!(check(is_own, is_confirmed, silence, times), Standing::Unsure);
        }
    }
}
