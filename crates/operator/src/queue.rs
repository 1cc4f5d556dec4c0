//! Whose turn it is: a key is held once, worked on by one worker at a time, and comes back after a failure with a growing
//! delay.
//!
//! kube's own controller queue is tied to one kind and its store; ours has keys of many kinds over one cache.

use crate::kinds::Kind;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The delay after the first failure; it doubles with each further one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
/// An object that keeps failing costs next to nothing at this pace, and recovers within half a minute.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// One object that somebody must look at; without a name, what is to be seen to once for all of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: &'static Kind,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Default)]
struct Item {
    is_waiting: bool,
    is_running: bool,
    /// Asked for while it was being worked on.
    is_stale: bool,
    failures: u32,
    timer: Option<Instant>,
}

/// Its size is bounded by the number of objects, as keys are held once.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Key>,
    items: HashMap<Key, Item>,
    timers: BTreeSet<(Instant, Key)>,
}

#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

impl Queue {
    /// Asks for a visit as soon as a worker is free.
    pub fn add(&self, key: Key) {
        self.state.lock().add(key);
        self.wake.notify_one();
    }

    /// The next key whose turn it is. There is one caller; every key is handed back by `done` or `failed`.
    pub async fn next(&self) -> Key {
        loop {
            let deadline = {
                let mut state = self.state.lock();
                state.ring(Instant::now());
                if let Some(key) = state.take() {
                    return key;
                }
                state.timers.first().map(|(at, _)| *at)
            };
            match deadline {
                Some(at) => {
                    // Either way the loop looks again.
                    let _ = tokio::time::timeout_at(at, self.wake.notified()).await;
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Ends a visit that went well; `again` asks for another one later.
    pub fn done(&self, key: &Key, again: Option<Duration>) {
        let mut state = self.state.lock();
        state.finish(key, |item| item.failures = 0);
        if let Some(delay) = again {
            state.set_timer(key.clone(), Instant::now() + delay);
        }
        state.tidy(key);
        drop(state);
        self.wake.notify_one();
    }

    /// Ends a visit that failed; how often in a row that was, and the delay after which the key comes back.
    pub fn failed(&self, key: &Key) -> (u32, Duration) {
        let mut state = self.state.lock();
        let mut failures = 0;
        state.finish(key, |item| {
            item.failures = item.failures.saturating_add(1);
            failures = item.failures;
        });
        let doublings = failures.saturating_sub(1).min(16);
        let delay = (RETRY_DELAY_MIN * 2_u32.pow(doublings)).min(RETRY_DELAY_MAX);
        state.set_timer(key.clone(), Instant::now() + delay);
        drop(state);
        self.wake.notify_one();
        (failures, delay)
    }
}

impl State {
    fn add(&mut self, key: Key) {
        let item = self.items.entry(key.clone()).or_default();
        if item.is_running {
            item.is_stale = true;
        } else if !item.is_waiting {
            item.is_waiting = true;
            self.waiting.push_back(key);
        }
    }

    /// The earlier of two visits is kept.
    fn set_timer(&mut self, key: Key, at: Instant) {
        let item = self.items.entry(key.clone()).or_default();
        if item.timer.is_some_and(|earlier| earlier <= at) {
            return;
        }
        if let Some(later) = item.timer.replace(at) {
            self.timers.remove(&(later, key.clone()));
        }
        self.timers.insert((at, key));
    }

    /// Moves the keys whose time has come to the waiting ones.
    fn ring(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            if let Some(item) = self.items.get_mut(&key) {
                item.timer = None;
            }
            self.add(key);
        }
    }

    fn take(&mut self) -> Option<Key> {
        let key = self.waiting.pop_front()?;
        let item = self.items.entry(key.clone()).or_default();
        item.is_waiting = false;
        item.is_running = true;
        Some(key)
    }

    fn finish(&mut self, key: &Key, note: impl FnOnce(&mut Item)) {
        let Some(item) = self.items.get_mut(key) else { return };
        item.is_running = false;
        note(item);
        if std::mem::take(&mut item.is_stale) {
            self.add(key.clone());
        }
    }

    /// Forgets a key with nothing left to remember.
    fn tidy(&mut self, key: &Key) {
        if self.items.get(key).is_some_and(|item| !item.is_waiting && !item.is_running && item.timer.is_none()) {
            self.items.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::own;

    fn key(name: &str) -> Key {
        Key { kind: own::job(), namespace: "n".to_owned(), name: name.to_owned() }
    }

    fn ready(queue: &Queue) -> Vec<String> {
        let mut state = queue.state.lock();
        state.ring(Instant::now());
        std::iter::from_fn(|| state.take()).map(|key| key.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_held_once_and_worked_on_by_one_worker() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(ready(&queue), ["a"]);
        queue.add(key("a"));
        assert!(ready(&queue).is_empty(), "it is being worked on");
        queue.done(&key("a"), None);
        assert_eq!(ready(&queue), ["a"], "what changed meanwhile is looked at again");
        queue.done(&key("a"), None);
        assert!(queue.state.lock().items.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_with_growing_delays_up_to_a_limit() {
        let queue = Queue::default();
        queue.add(key("a"));
        let mut delays = Vec::new();
        for _ in 0..15 {
            let before = Instant::now();
            assert_eq!(queue.next().await, key("a"));
            delays.push(before.elapsed());
            queue.failed(&key("a"));
        }
        assert_eq!(delays[1..4], [5, 10, 20].map(Duration::from_millis));
        assert_eq!(delays[14], RETRY_DELAY_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_visits_is_kept() {
        let queue = Queue::default();
        for seconds in [10, 20, 5] {
            queue.done(&key("a"), Some(Duration::from_secs(seconds)));
        }
        let start = Instant::now();
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        queue.done(&key("a"), None);
        assert!(queue.state.lock().timers.is_empty());
    }
}
