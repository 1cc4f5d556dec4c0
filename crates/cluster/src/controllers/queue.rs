//! The work queue: which object each controller must look at next.
//!
//! `route` puts keys in, the loop in `mod` takes them out. A key is held at most once, is worked on by one worker at a
//! time, and comes back after a failure with a growing delay. Controllers take turns, so that a busy one starves nobody.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The delay after the first failure; it doubles with each further one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
/// An object that keeps failing costs next to nothing at this pace, and recovers within half a minute.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// The built-in controllers; the order is that of their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    Garbage,
    Namespace,
    Account,
    TokenSecret,
    Job,
    TrackedPod,
    CronJob,
    ReplicaSet,
    Deployment,
    Endpoints,
    Volumes,
    Quota,
    Budget,
    Definition,
    ClusterRoles,
    Scheduler,
    OwnNode,
    NodeTaints,
    PodEnd,
    EventExpiry,
}

/// One object, or all of them where the name is empty, for one controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub controller: Controller,
    /// The key in the store: `namespace/name`, or `name` for cluster-scoped objects.
    pub name: Arc<str>,
}

impl Key {
    pub fn new(controller: Controller, name: impl Into<Arc<str>>) -> Key {
        Key { controller, name: name.into() }
    }
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

/// Its size is bounded by the number of stored objects times the controllers that look at each, as keys are held once.
#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Controller, VecDeque<Key>>,
    last: Option<Controller>,
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

    /// Asks for a visit after `delay`, unless an earlier one is planned already.
    pub fn add_after(&self, key: Key, delay: Duration) {
        self.state.lock().set_timer(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// The next key whose turn it is. There is one caller; it must hand every key back through `done`.
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

    /// Ends a visit that failed; the key comes back after a delay, which is returned with the number of failures.
    pub fn failed(&self, key: &Key) -> (u32, Duration) {
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

impl State {
    fn add(&mut self, key: Key) {
        let item = self.items.entry(key.clone()).or_default();
        if item.is_running {
            item.is_stale = true;
        } else if !item.is_waiting {
            item.is_waiting = true;
            self.waiting.entry(key.controller).or_default().push_back(key);
        }
    }

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

    /// A key of the controller after the one that was served last.
    fn take(&mut self) -> Option<Key> {
        let has_work = |(_, keys): &(&Controller, &VecDeque<Key>)| !keys.is_empty();
        let after = self.waiting.iter().filter(has_work).find(|(id, _)| self.last.is_none_or(|last| **id > last));
        let controller = *after.or_else(|| self.waiting.iter().find(has_work))?.0;
        let key = self.waiting.get_mut(&controller)?.pop_front()?;
        self.last = Some(controller);
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

    fn key(name: &str) -> Key {
        Key::new(Controller::Job, name)
    }

    fn ready(queue: &Queue) -> Vec<String> {
        let mut state = queue.state.lock();
        state.ring(Instant::now());
        std::iter::from_fn(|| state.take()).map(|key| key.name.to_string()).collect()
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
    async fn failures_come_back_with_growing_delays() {
        let queue = Queue::default();
        let mut delays = Vec::new();
        for _ in 0..15 {
            queue.add(key("a"));
            assert_eq!(ready(&queue), ["a"]);
            delays.push(queue.failed(&key("a")).1);
            tokio::time::advance(RETRY_DELAY_MAX).await;
            assert_eq!(ready(&queue), ["a"]);
            queue.failed(&key("a"));
            queue.state.lock().items.get_mut(&key("a")).unwrap().failures -= 1;
        }
        assert_eq!(delays[..3], [5, 10, 20].map(Duration::from_millis));
        assert_eq!(delays[14], RETRY_DELAY_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_take_turns() {
        let queue = Queue::default();
        for name in ["1", "2", "3"] {
            queue.add(Key::new(Controller::ReplicaSet, name));
        }
        queue.add(Key::new(Controller::Garbage, "g"));
        assert_eq!(ready(&queue), ["g", "1", "2", "3"]);
        queue.add(Key::new(Controller::Job, "j"));
        queue.add(Key::new(Controller::Garbage, "h"));
        assert_eq!(ready(&queue), ["h", "j"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_visits_is_kept() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(10));
        queue.add_after(key("a"), Duration::from_secs(20));
        queue.add_after(key("a"), Duration::from_secs(5));
        let start = Instant::now();
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        queue.done(&key("a"), None);
        assert!(queue.state.lock().timers.is_empty());
    }
}
