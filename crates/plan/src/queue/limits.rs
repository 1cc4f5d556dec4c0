//! How much of a queue's work there may be at once, and what its waits and durations come to.

/// What whoever manages a queue allows; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Items that agents have at once.
    pub running_max: Option<i64>,
    /// Items that wait at once.
    pub pending_max: Option<i64>,
}

impl Limits {
    /// Whether one more item may be handed out while agents have this many.
    pub fn is_room_to_run(&self, running: i64) -> bool {
        self.running_max.is_none_or(|most| running < most)
    }

    /// Whether one more item may wait while this many do.
    pub fn is_room_to_wait(&self, pending: i64) -> bool {
        self.pending_max.is_none_or(|most| pending < most)
    }
}

/// Which of `count` values in rising order, counted from 0, is the one that `percent` of them do not exceed.
pub fn rank(count: i64, percent: i64) -> Option<i64> {
    (count > 0).then(|| ((count * percent + 99) / 100 - 1).clamp(0, count - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_and_no_limit_is_none() {
        let limits = Limits { running_max: Some(2), pending_max: None };
        assert!(limits.is_room_to_run(1) && !limits.is_room_to_run(2));
        assert!(limits.is_room_to_wait(i64::MAX));
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(rank(0, 50), None);
        assert_eq!((rank(1, 50), rank(1, 99)), (Some(0), Some(0)));
        assert_eq!((rank(100, 50), rank(100, 90), rank(100, 99)), (Some(49), Some(89), Some(98)));
        assert_eq!(rank(3, 50), Some(1));
    }
}
