//! Who leads, by a Lease: what to do about the record that was read, as client-go's election decides it.
//!
//! How long a record stands is measured by the reader, from when it first saw it, and never by the times written in it:
//! clocks of machines differ. `operator::lead` reads, asks `step`, and writes with the resourceVersion that it read.

use jiff::Timestamp;
use std::time::Duration;

/// How an election is timed. `renew_deadline` must be below `lease`: who cannot renew stops before another may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A record that stands still for this long may be taken by another. On the wire it is in whole seconds.
    pub lease: Duration,
    /// The holder stops leading when it could not renew for this long.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry: Duration,
}

/// client-go's own, so that our replicas behave as those of any other controller.
pub const USUAL: Timing =
    Timing { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) };

/// The part of a Lease that an election reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty when the last holder resigned.
    pub holder: String,
    pub duration_s: i32,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i32,
}

/// What to do about a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is none: create it with this record.
    Create(Record),
    /// It is ours, or free: write this record.
    Write(Record),
    /// Another holds it.
    Wait,
}

/// Decides for `identity`. `unchanged_for` is how long we have seen exactly this record.
pub fn step(record: Option<&Record>, identity: &str, unchanged_for: Duration, now: Timestamp, timing: &Timing) -> Step {
    let fresh = Record {
        holder: identity.to_owned(),
        duration_s: i32::try_from(timing.lease.as_secs()).unwrap_or(i32::MAX),
        acquired: Some(now),
        renewed: Some(now),
        transitions: 0,
    };
    let Some(record) = record else {
        return Step::Create(fresh);
    };
    if record.holder == identity {
        return Step::Write(Record {
            acquired: record.acquired.or(Some(now)),
            transitions: record.transitions,
            ..fresh
        });
    }
    match stands(record, unchanged_for, timing) {
        true => Step::Wait,
        false => Step::Write(Record { transitions: record.transitions.saturating_add(1), ..fresh }),
    }
}

/// Whether somebody holds the record that we have seen for `unchanged_for`.
pub fn stands(record: &Record, unchanged_for: Duration, timing: &Timing) -> bool {
    !record.holder.is_empty() && unchanged_for < span(record, timing)
}

/// For how long a record stands that nobody renews.
pub fn span(record: &Record, timing: &Timing) -> Duration {
    // The holder knows best how long it may take to renew; a record without a word on it is measured by our own.
    match u64::try_from(record.duration_s) {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => timing.lease,
    }
}

/// The record that lets another take over at once; `None` when it is not ours to give.
pub fn resigned(record: &Record, identity: &str, now: Timestamp) -> Option<Record> {
    let is_ours = record.holder == identity;
    // One second, as client-go writes it: a reader that ignores the empty holder takes over soon, too.
    is_ours.then(|| Record {
        holder: String::new(),
        duration_s: 1,
        acquired: Some(now),
        renewed: Some(now),
        transitions: record.transitions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn held(by: &str, transitions: i32) -> Record {
        Record { holder: by.to_owned(), duration_s: 15, acquired: Some(at(10)), renewed: Some(at(20)), transitions }
    }

    fn decide(record: Option<&Record>, unchanged_for: Duration) -> Step {
        step(record, "us", unchanged_for, at(100), &USUAL)
    }

    fn ours(acquired: i64, transitions: i32) -> Record {
        Record {
            holder: "us".to_owned(),
            duration_s: 15,
            acquired: Some(at(acquired)),
            renewed: Some(at(100)),
            transitions,
        }
    }

    #[test]
    fn another_holder_who_renews_is_left_alone() {
        assert_eq!(decide(Some(&held("them", 3)), Duration::ZERO), Step::Wait);
        assert_eq!(decide(Some(&held("them", 3)), 15 * SECOND - Duration::from_millis(1)), Step::Wait);
    }

    #[test]
    fn a_missing_lease_is_created() {
        assert_eq!(decide(None, 99 * SECOND), Step::Create(ours(100, 0)));
    }

    #[test]
    fn ours_is_renewed_and_keeps_its_beginning() {
        for unchanged_for in [Duration::ZERO, 99 * SECOND] {
            assert_eq!(decide(Some(&held("us", 3)), unchanged_for), Step::Write(ours(10, 3)));
        }
    }

    #[test]
    fn one_that_stands_still_for_its_own_duration_is_taken_over() {
        assert_eq!(decide(Some(&held("them", 3)), 15 * SECOND), Step::Write(ours(100, 4)));
        let slow = Record { duration_s: 60, ..held("them", 3) };
        assert_eq!(decide(Some(&slow), 59 * SECOND), Step::Wait);
        let silent = Record { duration_s: 0, ..held("them", 3) };
        assert_eq!(decide(Some(&silent), 14 * SECOND), Step::Wait);
        assert_eq!(decide(Some(&silent), 15 * SECOND), Step::Write(ours(100, 4)));
    }

    #[test]
    fn times_written_by_other_clocks_say_nothing() {
        for renewed in [at(-9_000_000), at(9_000_000)] {
            let skewed = Record { renewed: Some(renewed), ..held("them", 3) };
            assert_eq!(decide(Some(&skewed), SECOND), Step::Wait);
            assert!(matches!(decide(Some(&skewed), 15 * SECOND), Step::Write(_)));
        }
    }

    #[test]
    fn a_resigned_lease_is_taken_at_once() {
        let resigned = resigned(&held("them", 3), "them", at(99)).unwrap();
        assert_eq!(resigned.holder, "");
        assert_eq!(resigned.transitions, 3);
        assert_eq!(decide(Some(&resigned), Duration::ZERO), Step::Write(ours(100, 4)));
    }

    #[test]
    fn only_the_holder_resigns() {
        assert_eq!(resigned(&held("them", 3), "us", at(99)), None);
    }

    #[test]
    fn who_cannot_renew_stops_before_another_may_start() {
        assert!(USUAL.retry < USUAL.renew_deadline && USUAL.renew_deadline < USUAL.lease);
    }
}
