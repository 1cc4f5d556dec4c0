//! The work queue: which object must be looked at next.
//!
//! Whoever learns of a change puts keys in, one loop takes them out. A key is held at most once, is worked on by one
//! worker at a time, and comes back after a failure with a growing delay. Lanes take turns, so that a busy one starves
//! nobody.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The delay after the first failure; it doubles with each further one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
/// An object that keeps failing costs next to nothing at this pace, and recovers within half a minute.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// One object that somebody must look at.
pub trait Key: Clone + Debug + Ord + Hash {
    /// What takes turns: a controller, or a kind. The order is that of the turns.
    type Lane: Copy + Debug + Ord;

    fn lane(&self) -> Self::Lane;
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

/// Its size is bounded by the number of objects times the lanes that look at each, as keys are held once.
#[derive(Debug)]
struct State<K: Key> {
    waiting: BTreeMap<K::Lane, VecDeque<K>>,
    last: Option<K::Lane>,
    items: HashMap<K, Item>,
    timers: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
pub struct Queue<K: Key> {
    state: Mutex<State<K>>,
    wake: Notify,
}

impl<K: Key> Default for Queue<K> {
    fn default() -> Self {
        let state = State { waiting: BTreeMap::new(), last: None, items: HashMap::new(), timers: BTreeSet::new() };
        Queue { state: Mutex::new(state), wake: Notify::new() }
    }
}

impl<K: Key> Queue<K> {
    /// Asks for a visit as soon as a worker is free.
    pub fn add(&self, key: K) {
        self.state.lock().add(key);
        self.wake.notify_one();
    }

    /// Asks for a visit after `delay`, unless an earlier one is planned already.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.state.lock().set_timer(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// The next key whose turn it is. There is one caller; every key is handed back by `done` or `failed`.
    pub async fn next(&self) -> K {
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
    pub fn done(&self, key: &K, again: Option<Duration>) {
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
    pub fn failed(&self, key: &K) -> (u32, Duration) {
        let mut state = self.state.lock();
        let mut failures = 0;
        state.finish(key, |item| {
            item.failures = item.failures.saturating_add(1);
            failures = item.failures;
        });
        let delay = retry_delay(failures);
        state.set_timer(key.clone(), Instant::now() + delay);
        drop(state);
        self.wake.notify_one();
        (failures, delay)
    }
}

fn retry_delay(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (RETRY_DELAY_MIN * 2_u32.pow(doublings)).min(RETRY_DELAY_MAX)
}

impl<K: Key> State<K> {
    fn add(&mut self, key: K) {
        let item = self.items.entry(key.clone()).or_default();
        if item.is_running {
            item.is_stale = true;
        } else if !item.is_waiting {
            item.is_waiting = true;
            self.waiting.entry(key.lane()).or_default().push_back(key);
        }
    }

    fn set_timer(&mut self, key: K, at: Instant) {
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

    /// A key of the lane after the one that was served last.
    fn take(&mut self) -> Option<K> {
        let has_work = |(_, keys): &(&K::Lane, &VecDeque<K>)| !keys.is_empty();
        let after = self.waiting.iter().filter(has_work).find(|(lane, _)| self.last.is_none_or(|last| **lane > last));
        let lane = *after.or_else(|| self.waiting.iter().find(has_work))?.0;
        let key = self.waiting.get_mut(&lane)?.pop_front()?;
        self.last = Some(lane);
        let item = self.items.entry(key.clone()).or_default();
        item.is_waiting = false;
        item.is_running = true;
        Some(key)
    }

    fn finish(&mut self, key: &K, note: impl FnOnce(&mut Item)) {
        let Some(item) = self.items.get_mut(key) else { return };
        item.is_running = false;
        note(item);
        if std::mem::take(&mut item.is_stale) {
            self.add(key.clone());
        }
    }

    /// Forgets a key with nothing left to remember.
    fn tidy(&mut self, key: &K) {
        if self.items.get(key).is_some_and(|item| !item.is_waiting && !item.is_running && item.timer.is_none()) {
            self.items.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Word = (u8, &'static str);

    impl Key for Word {
        type Lane = u8;

        fn lane(&self) -> u8 {
            self.0
        }
    }

    const A: Word = (2, "a");

    fn ready(queue: &Queue<Word>) -> Vec<&'static str> {
        let mut state = queue.state.lock();
        state.ring(Instant::now());
        std::iter::from_fn(|| state.take()).map(|key| key.1).collect()
    }

    // CTL-2
    #[tokio::test(start_paused = true)]
    async fn a_key_is_held_once_and_worked_on_by_one_worker() {
        let queue = Queue::default();
        queue.add(A);
        queue.add(A);
        assert_eq!(ready(&queue), ["a"]);
        queue.add(A);
        assert!(ready(&queue).is_empty(), "it is being worked on");
        queue.done(&A, None);
        assert_eq!(ready(&queue), ["a"], "what changed meanwhile is looked at again");
        queue.done(&A, None);
        assert!(queue.state.lock().items.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_with_growing_delays_up_to_a_limit() {
        let queue = Queue::default();
        queue.add(A);
        let mut delays = Vec::new();
        for failures in 1..=15 {
            let before = Instant::now();
            assert_eq!(queue.next().await, A);
            delays.push(before.elapsed());
            assert_eq!(queue.failed(&A).0, failures);
        }
        assert_eq!(delays[1..4], [5, 10, 20].map(Duration::from_millis));
        assert_eq!(delays[14], RETRY_DELAY_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn lanes_take_turns() {
        let queue = Queue::default();
        for name in ["1", "2", "3"] {
            queue.add((7, name));
        }
        queue.add((0, "g"));
        assert_eq!(ready(&queue), ["g", "1", "2", "3"]);
        queue.add((4, "j"));
        queue.add((0, "h"));
        assert_eq!(ready(&queue), ["h", "j"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_visits_is_kept() {
        let queue = Queue::default();
        queue.add_after(A, Duration::from_secs(10));
        queue.add_after(A, Duration::from_secs(20));
        queue.done(&A, Some(Duration::from_secs(5)));
        let start = Instant::now();
        assert_eq!(queue.next().await, A);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        queue.done(&A, None);
        assert!(queue.state.lock().timers.is_empty());
    }
}
