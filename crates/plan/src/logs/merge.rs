//! Lines of many logs in the order of their times.
//!
//! Complete logs are merged exactly: nothing is told before every log has shown its next line or its end. Logs that are
//! followed may be silent for hours, so a line waits for the silent ones no longer than a window.
//! The caller reads a log only while it `has_room`, which bounds what is held.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// What a log may hold back: enough for a burst within a window, and little when hundreds of ranks are read.
pub const HELD_BYTES_MAX: usize = 64 << 10;

/// Which log a line is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId(usize);

/// A line that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub time: Timestamp,
    pub text: Vec<u8>,
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Tell(LogId, Line),
    /// Nothing, until something is read or, if given, that time has come.
    Wait(Option<Timestamp>),
    /// Every log has ended, and all of it was told.
    End,
}

#[derive(Debug)]
struct Held {
    line: Line,
    arrived: Timestamp,
}

#[derive(Debug)]
struct Log {
    held: VecDeque<Held>,
    bytes: usize,
    is_open: bool,
    /// Since when there is nothing to tell of it.
    silent_since: Timestamp,
    /// The time of its newest line: a line without a time is as old as the one before it, and none is older.
    last: Timestamp,
}

/// The logs that are being read.
#[derive(Debug)]
pub struct Merge {
    /// How long a line waits for logs that are silent; `None` waits for their end.
    window: Option<SignedDuration>,
    logs: Vec<Log>,
    /// The first line of each log that has one.
    heads: BTreeSet<(Timestamp, LogId)>,
    /// Open logs without a line, by `silent_since`.
    silent: BTreeSet<(Timestamp, LogId)>,
}

impl Merge {
    pub fn new(window: Option<SignedDuration>) -> Merge {
        Merge { window, logs: Vec::new(), heads: BTreeSet::new(), silent: BTreeSet::new() }
    }

    /// A log from which lines will come. Of lines with the same time, the log that was opened first goes first.
    pub fn open(&mut self, now: Timestamp) -> LogId {
        let id = LogId(self.logs.len());
        let held = VecDeque::new();
        self.logs.push(Log { held, bytes: 0, is_open: true, silent_since: now, last: Timestamp::MIN });
        self.silent.insert((now, id));
        id
    }

    /// Takes the next line of a log.
    pub fn push(&mut self, id: LogId, time: Option<Timestamp>, text: Vec<u8>, now: Timestamp) {
        let log = &mut self.logs[id.0];
        log.last = time.unwrap_or(log.last).max(log.last);
        if log.held.is_empty() {
            self.silent.remove(&(log.silent_since, id));
            self.heads.insert((log.last, id));
        }
        log.bytes += text.len();
        log.held.push_back(Held { line: Line { time: log.last, text }, arrived: now });
    }

    /// No more lines will come from this log.
    pub fn close(&mut self, id: LogId) {
        let log = &mut self.logs[id.0];
        log.is_open = false;
        self.silent.remove(&(log.silent_since, id));
    }

    /// Whether another line of this log may be read.
    pub fn has_room(&self, id: LogId) -> bool {
        self.logs[id.0].bytes < HELD_BYTES_MAX
    }

    pub fn next(&mut self, now: Timestamp) -> Next {
        let Some(&(_, id)) = self.heads.first() else {
            let is_over = self.silent.is_empty();
            return if is_over { Next::End } else { Next::Wait(None) };
        };
        match self.waits_until(id) {
            Some(None) => Next::Wait(None),
            Some(Some(until)) if now < until => Next::Wait(Some(until)),
            Some(Some(_)) | None => self.tell(id, now),
        }
    }

    /// How long the first line of this log waits for logs that are silent; the outer `None` when there are none.
    fn waits_until(&self, id: LogId) -> Option<Option<Timestamp>> {
        let &(silent_since, _) = self.silent.last()?;
        let Some(window) = self.window else { return Some(None) };
        let log = &self.logs[id.0];
        let arrived = log.held.front().map_or(Timestamp::MIN, |held| held.arrived);
        // A log that writes faster than it is told is not slowed down by one that has long been silent.
        let since = if self.has_room(id) { silent_since.max(arrived) } else { silent_since };
        Some(Some(since.checked_add(window).unwrap_or(Timestamp::MAX)))
    }

    fn tell(&mut self, id: LogId, now: Timestamp) -> Next {
        self.heads.pop_first();
        let log = &mut self.logs[id.0];
        let Some(Held { line, .. }) = log.held.pop_front() else { return Next::Wait(Some(now)) };
        log.bytes -= line.text.len();
        match log.held.front() {
            Some(head) => {
                self.heads.insert((head.line.time, id));
            }
            None if log.is_open => {
                log.silent_since = now;
                self.silent.insert((now, id));
            }
            None => {}
        }
        Next::Tell(id, line)
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
