//! How long to wait before trying again, per kind of trouble (spec K 16.1 "restarting").

use super::later;
use super::seen::{Exit, Trouble};
use jiff::Timestamp;

const RESTART_FIRST_S: u32 = 10;
const RESTART_MAX_S: u32 = 300;
/// A container that ran this long is taken to be well: its next restart is at once and the delays begin anew.
const RESTART_RESET_S: i64 = 600;

const PULL_FIRST_S: i64 = 10;
const PULL_MAX_S: i64 = 300;
/// How long `ErrImagePull` stands before it becomes `ImagePullBackOff`, and an end before `CrashLoopBackOff`: the
/// kubelet's next look at the pod comes after about this time.
pub const ERROR_SHOWN_S: i64 = 2;

/// The kubelet looks at a pod with a start or sandbox error again after this time.
const START_RETRY_S: i64 = 10;
const MOUNT_FIRST_MS: i64 = 500;
const MOUNT_MAX_MS: i64 = 122_000;

fn has_recovered(exit: &Exit) -> bool {
    let started_at = exit.started_at.unwrap_or(exit.finished_at);
    exit.finished_at.duration_since(started_at).as_secs() > RESTART_RESET_S
}

/// When the container may start again after this end.
pub fn restart_at(exit: &Exit) -> Timestamp {
    if has_recovered(exit) {
        return exit.finished_at;
    }
    later(exit.finished_at, i64::from(exit.attempt.restart_delay_seconds))
}

/// The delay that the attempt after `exit` hands to its own successor: none after the first, then 10 s, doubling.
pub fn next_restart_delay(exit: Option<&Exit>) -> u32 {
    match exit {
        None => 0,
        Some(exit) if has_recovered(exit) || exit.attempt.restart_delay_seconds == 0 => RESTART_FIRST_S,
        Some(exit) => exit.attempt.restart_delay_seconds.saturating_mul(2).min(RESTART_MAX_S),
    }
}

/// The delay that attempt `number` hands on if all before it were short.
pub fn delay_of_attempt(number: u32) -> u32 {
    match number {
        0 => 0,
        // Six doublings pass the maximum.
        number => (RESTART_FIRST_S << (number - 1).min(6)).min(RESTART_MAX_S),
    }
}

pub fn pull_at(trouble: &Trouble) -> Timestamp {
    later(trouble.at, doubled(PULL_FIRST_S, PULL_MAX_S, trouble.failures))
}

pub fn start_at(trouble: &Trouble) -> Timestamp {
    later(trouble.at, START_RETRY_S)
}

pub fn mount_at(trouble: &Trouble) -> Timestamp {
    let delay = doubled(MOUNT_FIRST_MS, MOUNT_MAX_MS, trouble.failures);
    let delay = jiff::SignedDuration::from_millis(delay);
    trouble.at.saturating_add(delay).expect("adding milliseconds has no calendar units")
}

fn doubled(first: i64, max: i64, failures: u32) -> i64 {
    // Ten doublings pass every maximum here, and cannot overflow.
    let doublings = failures.saturating_sub(1).min(10);
    (first << doublings).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::seen::Attempt;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn exit(delay: u32, ran_s: i64) -> Exit {
        let attempt = Attempt { restart_delay_seconds: delay, ..Attempt::default() };
        Exit {
            attempt,
            code: 1,
            signal: None,
            started_at: Some(at(0)),
            finished_at: at(ran_s),
            oom_killed: false,
            reason: None,
            message: None,
            stopped_for: None,
        }
    }

    // K-POD-2
    #[test]
    fn restarts_come_at_once_then_after_10_s_doubling_to_5_minutes() {
        let mut delay = next_restart_delay(None);
        let mut delays = vec![delay];
        for _ in 0..7 {
            delay = next_restart_delay(Some(&exit(delay, 1)));
            delays.push(delay);
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(restart_at(&exit(40, 1)), at(41));
    }

    #[test]
    fn ten_good_minutes_forgive_all_earlier_crashes() {
        assert_eq!(restart_at(&exit(300, 601)), at(601));
        assert_eq!(next_restart_delay(Some(&exit(300, 601))), 10);
        assert_eq!(restart_at(&exit(300, 600)), at(900));
    }

    #[test]
    fn pulls_are_tried_again_after_10_s_doubling_to_5_minutes() {
        let trouble = |failures| Trouble { reason: String::new(), message: String::new(), at: at(0), failures };
        let delays: Vec<i64> = [1, 2, 3, 6, 60].map(|n| pull_at(&trouble(n)).as_second()).to_vec();
        assert_eq!(delays, [10, 20, 40, 300, 300]);
        assert_eq!(mount_at(&trouble(2)), at(1));
        assert_eq!(start_at(&trouble(9)), at(10));
    }
}
