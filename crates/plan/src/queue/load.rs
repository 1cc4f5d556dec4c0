//! How a queue was used: what waited and ran over some time, and what each person had of it.
//!
//! Times are microseconds, as they are kept.

use super::limits::rank;
use std::collections::BTreeMap;

/// One item's time in a queue.
#[derive(Clone, Debug)]
pub struct Stay {
    pub user: String,
    pub gpus: i64,
    pub created: i64,
    /// When an agent began with it; nothing while it waits, or if it was taken back before.
    pub started: Option<i64>,
    pub ended: Option<i64>,
    pub has_failed: bool,
}

/// The most at once within one part of the time, which begins at `at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    pub at: i64,
    pub waiting: i64,
    pub running: i64,
    pub gpus: i64,
}

impl Point {
    fn moved(self, by: Point) -> Point {
        let (waiting, running) = (self.waiting + by.waiting, self.running + by.running);
        Point { at: self.at, waiting, running, gpus: self.gpus + by.gpus }
    }

    fn most(self, other: Point) -> Point {
        let (waiting, running) = (self.waiting.max(other.waiting), self.running.max(other.running));
        Point { at: self.at, waiting, running, gpus: self.gpus.max(other.gpus) }
    }
}

/// So many equal parts from `since` until `now`, each with its peaks: a job of a minute shows in a week.
pub fn over_time(stays: &[Stay], since: i64, now: i64, parts: usize) -> Vec<Point> {
    let mut changes: Vec<Point> = stays.iter().flat_map(|stay| changes(stay, now)).collect();
    changes.sort_by_key(|change| (change.at, change.waiting + change.running));
    let (mut next, mut current) = (changes.into_iter().peekable(), Point::default());
    let parts = i64::try_from(parts.max(1)).unwrap_or(i64::MAX);
    let end_of = |part: i64| since + (now - since).max(parts) / parts * (part + 1);
    let mut points = Vec::new();
    for part in 0..parts {
        let begin = if part == 0 { since } else { end_of(part - 1) };
        while let Some(change) = next.next_if(|change| change.at <= begin) {
            current = current.moved(change);
        }
        let mut peak = current;
        while let Some(change) = next.next_if(|change| change.at < end_of(part)) {
            current = current.moved(change);
            peak = peak.most(current);
        }
        points.push(Point { at: begin, ..peak });
    }
    points
}

/// It begins to wait, begins to run, ends. Of several changes at one time, what ends comes first.
fn changes(stay: &Stay, now: i64) -> Vec<Point> {
    let waits = |at: i64, by: i64| Point { at, waiting: by, ..Point::default() };
    let runs = |at: i64, by: i64| Point { at, waiting: 0, running: by, gpus: by * stay.gpus };
    let waited_until = stay.started.or(stay.ended).unwrap_or(now + 1);
    let mut changes = vec![waits(stay.created, 1), waits(waited_until, -1)];
    if let Some(started) = stay.started {
        changes.extend([runs(started, 1), runs(stay.ended.unwrap_or(now + 1), -1)]);
    }
    changes
}

/// What one person had of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub user: String,
    pub submitted: i64,
    pub waiting: i64,
    pub running: i64,
    pub failed: i64,
    /// Half of what began had waited no longer.
    pub wait_p50: Option<i64>,
    pub ran: i64,
    /// GPUs that were asked for, times how long they were held.
    pub gpu_time: i64,
}

/// By name.
pub fn by_person(stays: &[Stay], now: i64) -> Vec<Share> {
    let mut people: BTreeMap<&str, (Share, Vec<i64>)> = BTreeMap::new();
    for stay in stays {
        let (share, waits) = people.entry(&stay.user).or_default();
        let ran = stay.started.map_or(0, |started| stay.ended.unwrap_or(now) - started);
        let is_over = stay.ended.is_some();
        share.submitted += 1;
        share.waiting += i64::from(stay.started.is_none() && !is_over);
        share.running += i64::from(stay.started.is_some() && !is_over);
        share.failed += i64::from(stay.has_failed);
        share.ran += ran;
        share.gpu_time += ran * stay.gpus;
        waits.extend(stay.started.map(|started| started - stay.created));
    }
    let told = |(user, (share, mut waits)): (&str, (Share, Vec<i64>))| {
        waits.sort_unstable();
        let middle = rank(i64::try_from(waits.len()).unwrap_or(0), 50).and_then(|at| usize::try_from(at).ok());
        Share { user: user.to_owned(), wait_p50: middle.and_then(|at| waits.get(at).copied()), ..share }
    };
    people.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(user: &str, gpus: i64, times: (i64, Option<i64>, Option<i64>)) -> Stay {
        let (created, started, ended) = times;
        Stay { user: user.to_owned(), gpus, created, started, ended, has_failed: false }
    }

    #[test]
    fn a_quiet_queue_is_a_flat_line() {
        let points = over_time(&[], 0, 100, 4);
        assert_eq!(points.iter().map(|point| point.at).collect::<Vec<_>>(), [0, 25, 50, 75]);
        assert!(points.iter().all(|point| *point == Point { at: point.at, ..Point::default() }));
    }

    #[test]
    fn each_part_has_its_peaks_and_what_goes_on_is_in_all_of_them() {
        let stays = [
            stay("ann", 2, (5, Some(30), Some(60))),
            stay("ann", 1, (26, Some(27), Some(29))),
            stay("bob", 4, (40, None, None)),
            stay("bob", 4, (41, None, Some(45))),
        ];
        let told = |point: &Point| (point.waiting, point.running, point.gpus);
        let points = over_time(&stays, 0, 100, 4);
        assert_eq!(points.iter().map(told).collect::<Vec<_>>(), [(1, 0, 0), (2, 1, 2), (1, 1, 2), (1, 0, 0)]);
    }

    #[test]
    fn what_began_before_the_time_is_counted_from_its_beginning() {
        let points = over_time(&[stay("ann", 8, (0, Some(10), None))], 50, 100, 2);
        assert_eq!(
            points,
            [Point { at: 50, waiting: 0, running: 1, gpus: 8 }, Point { at: 75, waiting: 0, running: 1, gpus: 8 },]
        );
    }

    #[test]
    fn people_are_told_what_they_had() {
        let stays = [
            stay("bob", 0, (0, None, None)),
            stay("ann", 2, (0, Some(10), Some(40))),
            Stay { has_failed: true, ..stay("ann", 1, (0, Some(30), None)) },
        ];
        let told = by_person(&stays, 50);
        assert_eq!(
            told[0],
            Share {
                user: "ann".to_owned(),
                submitted: 2,
                running: 1,
                failed: 1,
                wait_p50: Some(10),
                ran: 50,
                gpu_time: 80,
                ..Share::default()
            }
        );
        assert_eq!((told[1].user.as_str(), told[1].waiting, told[1].wait_p50), ("bob", 1, None));
    }
}
