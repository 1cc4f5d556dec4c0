//! How much of what happened is kept for whoever comes back.

use jiff::{SignedDuration, Timestamp};

/// The window of events that a client can resume in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub age_max: SignedDuration,
    pub count_max: i64,
}

impl Default for Window {
    /// Longer than a laptop is closed over holidays, and a few hundred megabytes at most.
    fn default() -> Window {
        Window { age_max: SignedDuration::from_hours(7 * 24), count_max: 1_000_000 }
    }
}

impl Window {
    /// The last event that can go, of the oldest ones in order of their ids. The newest always stays: its id says how far
    /// the counting has come.
    pub fn outdated(&self, oldest: &[(i64, Timestamp)], newest: i64, now: Timestamp) -> Option<i64> {
        let is_over = |(id, at): &&(i64, Timestamp)| {
            let is_old = now.duration_since(*at) > self.age_max;
            *id < newest && (is_old || *id <= newest.saturating_sub(self.count_max))
        };
        oldest.iter().take_while(is_over).last().map(|(id, _)| *id)
    }

    /// Whether a client that saw event `after` last must start afresh: what followed was not kept, or never was, as after
    /// an older copy of the database was restored.
    pub fn is_lost(after: i64, pruned: i64, newest: i64) -> bool {
        after < pruned || after > newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn events_go_by_age_and_by_count_and_the_newest_stays() {
        let window = Window { age_max: SignedDuration::from_secs(10), count_max: 3 };
        let events: Vec<_> = (1..=5).map(|id| (id, at(id))).collect();
        assert_eq!(window.outdated(&events, 5, at(5)), Some(2), "three of five are kept");
        assert_eq!(window.outdated(&events, 5, at(14)), Some(3), "the third is eleven seconds old");
        assert_eq!(window.outdated(&events, 5, at(1_000)), Some(4), "the newest is kept however old it is");
        assert_eq!(window.outdated(&events[2..], 5, at(5)), None);
        assert_eq!(window.outdated(&[], 0, at(5)), None);
    }

    #[test]
    fn who_missed_something_is_told() {
        assert!(!Window::is_lost(7, 7, 9), "the next one is there");
        assert!(!Window::is_lost(9, 7, 9) && !Window::is_lost(0, 0, 0));
        assert!(Window::is_lost(6, 7, 9), "the seventh is gone");
        assert!(Window::is_lost(10, 7, 9), "there never was a tenth");
    }

    proptest! {
        #[test]
        fn pruning_again_prunes_nothing_more(
            ages in prop::collection::vec(0..100i64, 1..50), age in 0..100i64, count_max in 1..50i64,
        ) {
            let window = Window { age_max: SignedDuration::from_secs(age), count_max };
            let events: Vec<_> = (1..).zip(ages.iter().map(|age| at(100 - age))).collect();
            let newest = i64::try_from(events.len()).unwrap();
            let upto = window.outdated(&events, newest, at(100)).unwrap_or(0);
            prop_assert!(upto < newest);
            let kept: Vec<_> = events.into_iter().filter(|(id, _)| *id > upto).collect();
            prop_assert!(kept.len() <= usize::try_from(count_max).unwrap());
            prop_assert_eq!(window.outdated(&kept, newest, at(100)), None);
        }
    }
}
