//! A bound on how many calls the operator makes, so that it cannot crowd out a cluster's other clients.

use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// A bucket of tokens: `burst` at once, then `per_second`. Callers pass in the order in which they came.
#[derive(Debug)]
pub struct Limiter {
    /// How long a token takes to come back.
    refill: Duration,
    /// How long all but one of them take.
    slack: Duration,
    /// When the bucket will be full again. The lock is held while its owner waits, which makes the queue a fair one; a
    /// caller that goes away while it waits takes no token.
    full_at: Mutex<Instant>,
}

impl Limiter {
    pub fn new(per_second: u32, burst: u32) -> Limiter {
        let refill = Duration::from_secs(1) / per_second.max(1);
        Limiter { refill, slack: refill * (burst.max(1) - 1), full_at: Mutex::new(Instant::now()) }
    }

    /// Waits for a token.
    pub async fn pass(&self) {
        let mut full_at = self.full_at.lock().await;
        let wait = full_at.saturating_duration_since(Instant::now()).saturating_sub(self.slack);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        *full_at = (*full_at).max(Instant::now()) + self.refill;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use parking_lot::Mutex as Order;

    /// Passes that many times; how many milliseconds each had to wait in all.
    async fn waits(limiter: &Limiter, times: usize) -> Vec<u128> {
        let began = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..times {
            limiter.pass().await;
            waits.push(began.elapsed().as_millis());
        }
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        assert_eq!(waits(&Limiter::new(10, 3), 6).await, [0, 0, 0, 100, 200, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_come_back_but_never_more_than_the_burst() {
        let limiter = Limiter::new(10, 3);
        waits(&limiter, 3).await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(waits(&limiter, 2).await, [0, 100]);
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(waits(&limiter, 4).await, [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_pass_in_the_order_in_which_they_came() {
        let (limiter, order) = (Limiter::new(10, 1), Order::new(Vec::new()));
        let callers = (0..20).map(|caller| {
            let (limiter, order) = (&limiter, &order);
            async move {
                limiter.pass().await;
                order.lock().push(caller);
            }
        });
        join_all(callers).await;
        assert_eq!(order.into_inner(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_takes_no_token() {
        let limiter = Limiter::new(1, 1);
        limiter.pass().await;
        let gone = tokio::time::timeout(Duration::from_millis(500), limiter.pass()).await;
        assert!(gone.is_err());
        assert_eq!(waits(&limiter, 2).await, [500, 1500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_nothing_is_one_a_second() {
        assert_eq!(waits(&Limiter::new(0, 0), 3).await, [0, 1000, 2000]);
    }
}
