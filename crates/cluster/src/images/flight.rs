//! Work that several pulls want is done once: whoever comes first starts it, the others wait for the same result.
//!
//! The work lives as long as somebody waits for it, so a cancelled pull stops only what nobody else needs.

use super::digest::Digest;
use super::error::ImageError;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

/// How far a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    /// Bytes on disk so far.
    Downloading(u64),
    Unpacking,
    Done,
}

impl Stage {
    pub fn bytes(self) -> u64 {
        match self {
            Stage::Downloading(bytes) => bytes,
            Stage::Waiting | Stage::Unpacking | Stage::Done => 0,
        }
    }
}

/// A layer's progress, as a pull's caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub layer: Digest,
    pub stage: Stage,
    /// Compressed size.
    pub total: u64,
}

/// Called from the pull's own task: quick, and never for each chunk when chunks come fast.
pub type OnProgress = Arc<dyn Fn(&Progress) + Send + Sync>;

type Work = BoxFuture<'static, Result<(), ImageError>>;

#[derive(Default)]
pub struct Flights {
    under_way: Mutex<HashMap<Digest, (WeakShared<Work>, watch::Receiver<Stage>)>>,
}

pub struct Flight {
    work: Shared<Work>,
    stage: watch::Receiver<Stage>,
}

impl Flights {
    /// Joins the work under way for a key, or starts it.
    pub fn join(&self, key: &Digest, start: impl FnOnce(watch::Sender<Stage>) -> Work) -> Flight {
        let mut under_way = self.under_way.lock();
        under_way.retain(|_, (work, _)| work.upgrade().is_some_and(|work| work.peek().is_none()));
        if let Some((work, stage)) = under_way.get(key)
            && let Some(work) = work.upgrade()
        {
            return Flight { work, stage: stage.clone() };
        }
        let (sender, stage) = watch::channel(Stage::Waiting);
        let work = start(sender).shared();
        if let Some(weak) = work.downgrade() {
            under_way.insert(key.clone(), (weak, stage.clone()));
        }
        Flight { work, stage }
    }
}

impl Flight {
    /// Waits for the end and passes each change of stage on.
    pub async fn wait(mut self, on_stage: impl Fn(Stage)) -> Result<(), ImageError> {
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                changed = self.stage.changed(), if is_open => match changed {
                    Ok(()) => on_stage(*self.stage.borrow_and_update()),
                    Err(_) => is_open = false,
                },
                done = &mut self.work => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn two_who_want_the_same_share_one_piece_of_work() {
        let (flights, count) = (Flights::default(), Arc::new(AtomicU32::new(0)));
        let key = Digest::of(b"k");
        let start = |sender: watch::Sender<Stage>| {
            let count = count.clone();
            async move {
                tokio::task::yield_now().await;
                sender.send_replace(Stage::Done);
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            .boxed()
        };
        let (first, second) = (flights.join(&key, start), flights.join(&key, start));
        let (one, two) = tokio::join!(first.wait(|_| ()), second.wait(|_| ()));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        flights.join(&key, start).wait(|_| ()).await.expect("again");
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn work_ends_when_the_last_waiter_goes() {
        let flights = Flights::default();
        let (alive, key) = (Arc::new(()), Digest::of(b"k"));
        let held = alive.clone();
        let flight = flights.join(&key, |_| {
            async move {
                let _held = held;
                futures::future::pending().await
            }
            .boxed()
        });
        let other = flights.join(&key, |_| unreachable!("joins the first"));
        drop(flight);
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(other);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
