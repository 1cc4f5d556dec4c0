//! Laws and cases of the order in which lines are told.

use super::*;
use proptest::prelude::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000 + millis).unwrap()
}

fn text(line: &Line) -> String {
    String::from_utf8(line.text.clone()).unwrap()
}

/// Everything that may be told now.
fn told(merge: &mut Merge, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    while let Next::Tell(_, line) = merge.next(now) {
        lines.push(text(&line));
    }
    lines
}

const WINDOW: SignedDuration = SignedDuration::from_millis(250);

#[test]
fn without_a_log_all_is_told() {
    assert_eq!(Merge::new(None).next(at(0)), Next::End);
}

#[test]
fn complete_logs_wait_for_each_other_however_long_it_takes() {
    let mut merge = Merge::new(None);
    let (a, b) = (merge.open(at(0)), merge.open(at(0)));
    merge.push(a, Some(at(1)), b"a1".to_vec(), at(0));
    assert_eq!(merge.next(at(1_000_000)), Next::Wait(None));
    merge.push(b, Some(at(0)), b"b0".to_vec(), at(0));
    assert_eq!(told(&mut merge, at(0)), ["b0"]);
    merge.close(b);
    assert_eq!(told(&mut merge, at(0)), ["a1"]);
    assert_eq!(merge.next(at(0)), Next::Wait(None));
    merge.close(a);
    assert_eq!(merge.next(at(0)), Next::End);
}

#[test]
fn a_followed_line_waits_a_window_for_what_the_others_may_have_said_before_it() {
    let mut merge = Merge::new(Some(WINDOW));
    let (a, b) = (merge.open(at(0)), merge.open(at(0)));
    merge.push(a, Some(at(5000)), b"second".to_vec(), at(5010));
    assert_eq!(merge.next(at(5020)), Next::Wait(Some(at(5260))));
    merge.push(b, Some(at(4999)), b"first".to_vec(), at(5100));
    assert_eq!(told(&mut merge, at(5100)), ["first"]);
    assert_eq!(told(&mut merge, at(5350)), ["second"]);
}

#[test]
fn lines_that_arrived_together_wait_once_and_not_one_after_the_other() {
    let mut merge = Merge::new(Some(WINDOW));
    let (a, _silent) = (merge.open(at(0)), merge.open(at(0)));
    for number in 0..100 {
        merge.push(a, Some(at(5000 + number)), number.to_string().into_bytes(), at(5100));
    }
    assert_eq!(told(&mut merge, at(5349)), Vec::<String>::new());
    assert_eq!(told(&mut merge, at(5350)).len(), 100);
}

#[test]
fn a_flood_is_not_held_up_by_a_log_that_has_long_been_silent() {
    let mut merge = Merge::new(Some(WINDOW));
    let (a, _silent) = (merge.open(at(0)), merge.open(at(0)));
    while merge.has_room(a) {
        merge.push(a, Some(at(9000)), vec![b'x'; 1000], at(9000));
    }
    assert_eq!(told(&mut merge, at(9000)).len(), 1);
    assert!(merge.has_room(a));
}

#[test]
fn a_line_without_a_time_stays_with_the_one_before_it() {
    let mut merge = Merge::new(None);
    let (a, b) = (merge.open(at(0)), merge.open(at(0)));
    merge.push(a, Some(at(7)), b"a".to_vec(), at(0));
    merge.push(a, None, b"a, continued".to_vec(), at(0));
    merge.push(b, Some(at(8)), b"b".to_vec(), at(0));
    [a, b].into_iter().for_each(|log| merge.close(log));
    assert_eq!(told(&mut merge, at(0)), ["a", "a, continued", "b"]);
}

/// Logs as their lines' times, and in which order and at which pace lines are read.
fn logs() -> impl Strategy<Value = (Vec<Vec<i64>>, Vec<usize>, Option<i64>)> {
    let logs = proptest::collection::vec(proptest::collection::vec(0..50i64, 0..20), 0..6);
    (logs, proptest::collection::vec(0..6usize, 0..200), proptest::option::of(0..40i64))
}

/// Reads the logs in the given order, telling whatever may be told after each step of a millisecond.
fn run(logs: &[Vec<i64>], order: &[usize], window: Option<i64>) -> Vec<(usize, usize, i64)> {
    let mut merge = Merge::new(window.map(SignedDuration::from_millis));
    let ids: Vec<LogId> = logs.iter().map(|_| merge.open(at(0))).collect();
    let mut read = vec![0; logs.len()];
    let mut told = Vec::new();
    let rest = (0..logs.len()).flat_map(|log| std::iter::repeat_n(log, logs[log].len() + 1));
    for (now, log) in order.iter().copied().filter(|log| *log < logs.len()).chain(rest).enumerate() {
        let now = at(i64::try_from(now).unwrap());
        match logs[log].get(read[log]) {
            Some(time) => merge.push(ids[log], Some(at(*time)), format!("{log} {}", read[log]).into_bytes(), now),
            None => merge.close(ids[log]),
        }
        read[log] += 1;
        while let Next::Tell(id, line) = merge.next(now) {
            let number = text(&line).split(' ').nth(1).unwrap().parse().unwrap();
            told.push((id.0, number, line.time.as_millisecond() - 1_000_000));
        }
    }
    assert_eq!(merge.next(at(0)), Next::End);
    told
}

proptest! {
    #[test]
    fn every_line_is_told_once_and_each_logs_order_is_kept((logs, order, window) in logs()) {
        let told = run(&logs, &order, window);
        for (log, lines) in logs.iter().enumerate() {
            let numbers: Vec<usize> = told.iter().filter(|line| line.0 == log).map(|line| line.1).collect();
            prop_assert_eq!(numbers, (0..lines.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn complete_logs_are_told_in_order_of_time_however_they_were_read((logs, order, _) in logs()) {
        let told = run(&logs, &order, None);
        prop_assert!(told.is_sorted_by_key(|line| line.2), "{:?}", told);
        prop_assert_eq!(told, run(&logs, &[], None));
    }
}
