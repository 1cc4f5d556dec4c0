//! How often somebody may ask: a bucket that fills at a steady rate and holds a burst.
//!
//! A request takes one from the bucket. Who finds it empty is told how long to wait. The server keeps a bucket for each
//! key, and one for each address whose sign-ins fail.

use jiff::Timestamp;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    /// How many may come at once.
    pub burst: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    left: f64,
    at: Timestamp,
}

impl Bucket {
    pub fn full(rate: Rate, now: Timestamp) -> Bucket {
        Bucket { left: rate.burst, at: now }
    }

    /// Takes one, or says after how long there is one. A clock that went back fills nothing.
    pub fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Duration> {
        self.fill(rate, now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::try_from_secs_f64((1.0 - self.left) / rate.per_second).unwrap_or(Duration::MAX))
    }

    /// Whether nothing is known of it any more that a new one would not know, so that it can be forgotten.
    pub fn is_full(&mut self, rate: Rate, now: Timestamp) -> bool {
        self.fill(rate, now);
        self.left >= rate.burst
    }

    fn fill(&mut self, rate: Rate, now: Timestamp) {
        let seconds = (now.duration_since(self.at).as_secs_f64()).max(0.0);
        self.left = (self.left + seconds * rate.per_second).min(rate.burst);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn a_burst_is_served_and_then_one_at_a_time() {
        let mut bucket = Bucket::full(RATE, at(0));
        for _ in 0..3 {
            assert_eq!(bucket.take(RATE, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(RATE, at(0)), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(RATE, at(500)), Ok(()));
        assert!(bucket.take(RATE, at(400)).is_err(), "the clock went back");
        assert!(!bucket.is_full(RATE, at(1_000)) && bucket.is_full(RATE, at(2_000)));
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_the_burst_and_the_rate(steps in proptest::collection::vec(0i64..2_000, 1..200)) {
            let mut bucket = Bucket::full(RATE, at(0));
            let (mut now, mut served) = (0, 0.0);
            for step in steps {
                now += step;
                match bucket.take(RATE, at(now)) {
                    Ok(()) => served += 1.0,
                    Err(wait) => prop_assert!(wait <= Duration::from_millis(500)),
                }
            }
            prop_assert!(served <= RATE.burst + RATE.per_second * (now as f64) / 1000.0 + 1e-6);
        }
    }
}
