//! Cases of an item's life at its agent.

use super::super::trouble::Cause;
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn claimed() -> Seen {
    Seen {
        item: Item { standing: Standing::Claimed, is_mine: true, is_orphaned: false, attempt: 1, is_stop_asked: false },
        image: Image::Ready,
        refusal: None,
        workload: None,
        has_older: false,
        pods: 0,
        strays: 0,
        has_helpers: false,
        trouble: None,
        lacks_run: false,
    }
}

fn workload(state: State) -> Workload {
    Workload {
        state,
        since: at(0),
        is_being_deleted: false,
        is_held: true,
        verdict: None,
        owns_its_own: true,
        is_disrupted: false,
        failure: None,
    }
}

fn running(state: State) -> Seen {
    Seen { workload: Some(workload(state)), pods: 1, has_helpers: true, ..claimed() }
}

fn deeds(seen: &Seen, second: i64) -> Vec<Deed> {
    plan(seen, &Timers::default(), at(second)).deeds
}

fn trouble(cause: Cause, message: &str) -> Trouble {
    Trouble { cause, message: message.to_owned(), since: at(0), speaker: None, last_lines: Vec::new() }
}

// K-76, K-78
#[test]
fn a_crash_loop_is_ended_with_what_was_said_last() {
    let mut seen = running(State::Running);
    let last_lines = (0..12).map(|number| format!("line {number}")).collect();
    seen.trouble = Some(Trouble { last_lines, ..trouble(Cause::CrashLoop, "keeps crashing") });
    assert_eq!(deeds(&seen, 599), []);
    let Some(Deed::Mark(reason)) = deeds(&seen, 600).into_iter().next() else { panic!("it is ended") };
    assert!(reason.starts_with("crash loop: keeps crashing; its last lines:\nline 2\n"), "{reason}");
    assert!(reason.ends_with("\nline 11"));
    let waits_for = plan(&seen, &Timers::default(), at(0)).waits_for;
    assert_eq!(waits_for.as_deref(), Some("keeps crashing"), "a list has room for one line");
}

fn fail(stage: Stage, reason: &str) -> Deed {
    Deed::Fail { stage, reason: reason.to_owned() }
}

// K-77, L-31
#[test]
fn pods_that_were_left_by_who_deleted_their_workload_are_taken_away() {
    let mut seen = running(State::Running);
    seen.workload = Some(Workload { is_being_deleted: true, ..workload(State::Running) });
    assert_eq!(deeds(&seen, 0), [], "they are going");
    seen.strays = 1;
    assert_eq!(deeds(&seen, 0), [Deed::Delete]);
    seen.item.is_stop_asked = true;
    assert_eq!(deeds(&seen, 0), [Deed::Delete]);
}

// L-2, L-4, A-22
#[test]
fn an_item_is_acknowledged_then_submitted() {
    assert_eq!(deeds(&running(State::Running), 0), [], "all is well, nothing to do");
    let mut seen = claimed();
    seen.item.standing = Standing::Leased;
    assert_eq!(deeds(&seen, 0), [Deed::Acknowledge]);
    assert_eq!(deeds(&claimed(), 0), [Deed::Submit, Deed::Own]);
    seen.item.is_mine = false;
    assert_eq!(deeds(&seen, 0), [], "somebody else's");
}

// L-33
#[test]
fn an_orphan_is_taken_over_and_goes_on_where_it_was() {
    let mut seen = running(State::Running);
    (seen.item.is_mine, seen.item.is_orphaned) = (false, true);
    assert_eq!(deeds(&seen, 0), [Deed::Adopt]);
}

// A-17, L-10
#[test]
fn what_cannot_start_fails_with_its_reason() {
    let refused = Seen { refusal: Some("K-1".into()), ..claimed() };
    assert_eq!(deeds(&refused, 0), [fail(Stage::Agent, "K-1"), Deed::Sweep]);
    let building = |image| plan(&Seen { image, ..claimed() }, &Timers::default(), at(0));
    assert_eq!(building(Image::Missing).deeds, [Deed::Build]);
    assert_eq!(building(Image::Building).waits_for.as_deref(), Some("building image"));
    assert_eq!(building(Image::Failed("no pip".into())).deeds[0], fail(Stage::Build, "no pip"));
}

// L-16, L-20, L-21
#[test]
fn an_end_is_told_before_the_workload_is_let_go() {
    assert_eq!(deeds(&running(State::Finished), 0), [Deed::Finish, Deed::Release, Deed::Sweep]);
    let untracked = Seen { lacks_run: true, ..running(State::Finished) };
    assert!(matches!(deeds(&untracked, 0)[0], Deed::Fail { stage: Stage::Run, .. }));
    let mut seen = running(State::Failed);
    seen.workload.as_mut().unwrap().failure = Some("exit code 3".into());
    assert_eq!(deeds(&seen, 0), [fail(Stage::Run, "exit code 3"), Deed::Release, Deed::Sweep]);
}

// L-23, L-26, L-27
#[test]
fn a_preempted_item_is_queued_again_a_few_times() {
    let mut seen = running(State::Failed);
    seen.workload.as_mut().unwrap().is_disrupted = true;
    assert_eq!(deeds(&seen, 0), [Deed::Requeue, Deed::DeleteOlder, Deed::ReleaseOlder]);
    seen.item.attempt = ATTEMPTS_MAX;
    assert_eq!(deeds(&seen, 0)[0], fail(Stage::Run, "the cluster preempted it 6 times"));
    let next = Seen { has_older: true, pods: 1, ..claimed() };
    assert_eq!(deeds(&next, 0), [Deed::DeleteOlder, Deed::ReleaseOlder], "never both attempts at once");
    assert!(plan(&Seen { has_older: false, ..next }, &Timers::default(), at(0)).waits_for.is_some());
}

// L-28, L-29, L-30, L-31, L-34, L-37
#[test]
fn stopped_is_said_when_nothing_runs_any_more() {
    let asked = |mut seen: Seen| {
        seen.item.is_stop_asked = true;
        seen
    };
    assert_eq!(deeds(&asked(running(State::Running)), 0), [Deed::Delete]);
    let mut stopping = asked(running(State::Running));
    stopping.workload.as_mut().unwrap().is_being_deleted = true;
    let waiting = plan(&stopping, &Timers::default(), at(0));
    assert_eq!((waiting.deeds.len(), waiting.waits_for.as_deref()), (0, Some("1 pod is stopping")));
    stopping.pods = 0;
    assert_eq!(deeds(&stopping, 0), [Deed::Stopped, Deed::Release, Deed::Sweep]);
    stopping.workload = None;
    assert_eq!(deeds(&stopping, 0), [Deed::Stopped, Deed::Sweep], "gone is as good as deleted");
    let building = asked(Seen { image: Image::Building, ..claimed() });
    assert_eq!(deeds(&building, 0), [Deed::CancelBuild, Deed::Stopped, Deed::Sweep]);
}

// K-75, K-76
#[test]
fn trouble_that_lasts_ends_the_item_with_its_cause() {
    let mut seen = running(State::Starting);
    seen.trouble = Some(trouble(Cause::Image, "no such image"));
    let waiting = plan(&seen, &Timers::default(), at(60));
    assert_eq!((waiting.deeds.len(), waiting.waits_for.as_deref()), (0, Some("no such image")));
    assert_eq!(deeds(&seen, 300), [Deed::Mark("image: no such image".into()), Deed::Delete]);
    seen.workload.as_mut().unwrap().verdict = Some("image: no such image".into());
    assert_eq!(deeds(&seen, 300), [Deed::Delete], "it crashed after the mark");
    seen.workload.as_mut().unwrap().is_being_deleted = true;
    seen.pods = 0;
    assert_eq!(deeds(&seen, 300)[0], fail(Stage::Agent, "image: no such image"));
}

// K-74, K-75
#[test]
fn a_workload_that_never_starts_is_given_up_unless_it_waits_for_room() {
    let mut seen = running(State::Starting);
    assert_eq!(deeds(&seen, 1799), []);
    assert_eq!(deeds(&seen, 1800), [Deed::Mark("it did not start in time".into()), Deed::Delete]);
    seen.trouble = Some(trouble(Cause::Unschedulable, "no GPU"));
    assert_eq!(deeds(&seen, 99_999), [], "a full cluster is no failure");
    seen.trouble = None;
    assert!(plan(&seen, &Timers { start: None }, at(99_999)).deeds.is_empty());
}

// K-77
#[test]
fn a_workload_that_somebody_deletes_is_noticed() {
    let mut seen = running(State::Running);
    seen.workload.as_mut().unwrap().is_being_deleted = true;
    assert_eq!(deeds(&seen, 0), []);
    seen.pods = 0;
    assert_eq!(deeds(&seen, 0), [fail(Stage::Run, "deleted externally"), Deed::Release, Deed::Sweep]);
    seen.workload.as_mut().unwrap().state = State::Finished;
    assert_eq!(deeds(&seen, 0)[0], Deed::Finish, "its time to live was over");
}

// L-32, L-35, L-36
#[test]
fn nothing_of_an_ended_item_stays() {
    let ended = |mut seen: Seen| {
        seen.item.standing = Standing::Ended;
        seen
    };
    assert_eq!(deeds(&ended(running(State::Running)), 0), [Deed::Delete, Deed::Release]);
    assert_eq!(deeds(&ended(running(State::Finished)), 0), [Deed::Release]);
    let mut alone = ended(claimed());
    alone.has_helpers = true;
    assert_eq!(deeds(&alone, 0), [Deed::Sweep]);
    assert_eq!(deeds(&ended(claimed()), 0), []);
    let older = ended(Seen { has_older: true, ..claimed() });
    assert_eq!(deeds(&older, 0), [Deed::DeleteOlder, Deed::ReleaseOlder]);
}
