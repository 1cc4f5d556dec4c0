//! How often the same is said: while the reason of a gang stays, only its numbers change, with every pod that ends.
//!
//! The condition follows them at a walk, events once in a while. What is new is said at once.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;
use tokio::time::Instant;
use volley_plan::gang::Waiting;
use volley_plan::gang::why::WaitingOn;

/// A waiting gang's numbers are written this often: a thousand of them then cost a thousand writes a second at most.
const NUMBERS_PACE: Duration = Duration::from_secs(1);
/// As kubectl shows them, events of the last hour are still few.
const EVENTS_PACE: Duration = Duration::from_secs(60);

/// What somebody was told last, and when.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    on: Option<Discriminant<WaitingOn>>,
    reason: &'static str,
    wrote: Instant,
    /// When there was an event of it.
    said: Option<Instant>,
}

impl Told {
    /// What is to be told now, after what was told before; whether there is an event of it.
    pub fn next(before: Option<&Told>, reason: &'static str, waiting: Option<&Waiting>, now: Instant) -> (Told, bool) {
        let on = waiting.map(|waiting| discriminant(&waiting.on));
        let same = before.filter(|before| before.on == on && before.reason == reason);
        let said = same.and_then(|before| before.said).filter(|said| now - *said < EVENTS_PACE);
        (Told { on, reason, wrote: now, said: said.or(Some(now)) }, said.is_none())
    }

    /// The same, where there was no event to tell of.
    pub fn unsaid(self, before: Option<&Told>) -> Told {
        let same = before.filter(|before| before.on == self.on && before.reason == self.reason);
        Told { said: same.and_then(|before| before.said), ..self }
    }

    /// Until when these numbers are to wait, if only numbers are new.
    pub fn rests(&self, waiting: Option<&Waiting>, now: Instant) -> Option<Instant> {
        let is_same = self.on.is_some() && self.on == waiting.map(|waiting| discriminant(&waiting.on));
        let until = self.wrote + NUMBERS_PACE;
        (is_same && now < until).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(have: usize) -> Waiting {
        Waiting { on: WaitingOn::Members { have, need: 9 }, pods: 1, has_minimum: false }
    }

    #[test]
    fn a_new_reason_is_said_at_once_and_new_numbers_now_and_then() {
        let closed = WaitingOn::ClosedQueue { queue: "q".to_owned(), state: "Closed".to_owned() };
        let closed = Waiting { on: closed, pods: 1, has_minimum: false };
        let begin = Instant::now();
        let (told, is_said) = Told::next(None, "", Some(&members(1)), begin);
        assert!(is_said && told.rests(Some(&members(2)), begin).is_some());
        assert!(told.rests(Some(&closed), begin).is_none() && told.rests(None, begin).is_none());
        assert!(Told::next(Some(&told), "", Some(&closed), begin).1);
        assert!(Told::next(Some(&told), "other", Some(&members(1)), begin).1);
        let later = begin + NUMBERS_PACE;
        assert!(told.rests(Some(&members(2)), later).is_none());
        let (told, is_said) = Told::next(Some(&told), "", Some(&members(2)), later);
        assert!(!is_said);
        let quiet = Told::next(None, "", Some(&members(1)), begin).0.unsaid(None);
        assert!(Told::next(Some(&quiet), "", Some(&members(2)), later).1);
        assert!(Told::next(Some(&told), "", Some(&members(3)), begin + EVENTS_PACE).1);
    }
}
