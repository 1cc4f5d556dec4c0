//! A call that is never answered is one that failed: whoever waits for it would keep its key from everybody for ever.
//!
//! Timeouts of a connection do not see it: a request that is handed to a connection in the moment of its end can be lost by
//! the client's library (hyperium/hyper#4122), and then there is no connection any more.

use std::time::Duration;

/// An API server gives up a request of its own accord after a minute; what takes longer will not come.
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// The answer of a call, or the error that `late` makes of the words for its absence.
pub async fn answered<T, E>(call: impl Future<Output = Result<T, E>>, late: impl FnOnce(String) -> E) -> Result<T, E> {
    match tokio::time::timeout(ANSWER_MAX, call).await {
        Ok(answer) => answer,
        Err(_) => Err(late(format!("no answer within {ANSWER_MAX:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_never_answered_has_failed() {
        let lost = std::future::pending::<Result<(), String>>();
        assert_eq!(answered(lost, |words| words).await, Err("no answer within 90s".to_owned()));
        assert_eq!(answered(async { Ok::<_, String>(1) }, |words| words).await, Ok(1));
    }
}
