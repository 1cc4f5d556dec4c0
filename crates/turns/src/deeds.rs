//! Carrying a plan out: its actions in order, neighbours that do not depend on each other side by side.

use futures::future::join_all;
use std::future::Future;
use volley_plan::control::Action;
use volley_plan::control::runs::runs;

/// Does everything, a few at first and more as they succeed, up to `at_most` at once: what is refused fails after a single
/// call. Nothing is begun after a failure.
pub async fn carry_out<E, Deed: Future<Output = Result<(), E>>>(
    actions: Vec<Action>,
    at_most: usize,
    act: impl Fn(Action) -> Deed,
) -> Result<(), E> {
    for mut run in runs(actions) {
        let mut at_once = 1;
        while !run.is_empty() {
            let batch = run.drain(..run.len().min(at_once)).map(&act);
            join_all(batch).await.into_iter().collect::<Result<(), _>>()?;
            at_once = (at_once * 2).min(at_most);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use serde_json::json;

    fn pod(number: usize) -> Action {
        Action::Create { object: json!({"kind": "Pod", "metadata": {"name": format!("p{number}")}}), event: None }
    }

    #[tokio::test]
    async fn more_are_begun_as_they_succeed_and_none_after_a_failure() {
        let begun = Mutex::new(0);
        let widest = Mutex::new(Vec::new());
        let act = |action: Action| {
            *begun.lock() += 1;
            let number = *begun.lock();
            let is_refused = number == 9;
            let (begun, widest) = (&begun, &widest);
            async move {
                tokio::task::yield_now().await;
                widest.lock().push(*begun.lock());
                drop(action);
                if is_refused { Err(()) } else { Ok(()) }
            }
        };
        assert_eq!(carry_out((0..40).map(pod).collect(), 4, act).await, Err(()));
        // One, two, four, four: the ninth is in the fourth batch, and there is no fifth.
        assert_eq!(*begun.lock(), 11);
        assert_eq!(*widest.lock(), [1, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11]);
    }
}
