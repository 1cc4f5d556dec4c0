//! Cases and laws of an item's life.

use super::*;
use proptest::prelude::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn done(answer: Answer) -> Item {
    match answer {
        Answer::Done(item) => item,
        other => panic!("{other:?}"),
    }
}

// RQI-1, RQI-2, AGT-8
#[test]
fn an_item_is_leased_once_and_comes_back_when_the_lease_runs_out() {
    let leased = pop(&Item::new(), at(0)).unwrap();
    assert_eq!((leased.state, leased.lease), (State::Leased, 1));
    assert_eq!(pop(&leased, at(59)), None);
    assert_eq!(leased.shown(at(59)), State::Leased);
    assert_eq!(leased.shown(at(60)), State::Pending);
    let again = pop(&leased, at(60)).unwrap();
    assert_eq!(again.lease, 2);
    assert_eq!(acknowledge(&again, 1, "a"), Answer::Refused);
    let claimed = done(acknowledge(&again, 2, "b"));
    assert_eq!((claimed.state, claimed.run_name.as_deref()), (State::Claimed, Some("b")));
    assert_eq!(acknowledge(&claimed, 2, "b"), Answer::Again);
    assert_eq!(acknowledge(&claimed, 2, "c"), Answer::Refused);
    assert_eq!(pop(&claimed, at(10_000)), None);
}

// AGT-11
#[test]
fn a_late_acknowledgement_counts_while_nobody_else_has_the_item() {
    let leased = pop(&Item::new(), at(0)).unwrap();
    assert!(leased.is_waiting(at(100)));
    assert_eq!(done(acknowledge(&leased, 1, "a")).state, State::Claimed);
}

// AGT-10, AGT-11
#[test]
fn only_who_holds_an_item_can_fail_it() {
    assert_eq!(done(fail(&Item::new(), 1, "no")).state, State::Failed);
    let first = pop(&Item::new(), at(0)).unwrap();
    assert_eq!(done(fail(&first, 1, "no")).state, State::Failed);
    let second = pop(&first, at(60)).unwrap();
    assert_eq!(fail(&second, 1, "no"), Answer::Again);
    let claimed = done(acknowledge(&second, 2, "b"));
    assert_eq!(fail(&claimed, 2, "Error acking run queue item 7. Item lease may have ended."), Answer::Again);
    assert_eq!(done(fail(&claimed, 2, "the build failed")).state, State::Failed);
    let finished = Item { state: State::Finished, ..claimed };
    assert_eq!(fail(&finished, 2, "late"), Answer::Again);
}

// RQI-4, RQI-5
#[test]
fn a_started_item_follows_its_run_until_it_ends() {
    assert_eq!(follow(State::Claimed, RunState::Running), State::Running);
    assert_eq!(follow(State::Claimed, RunState::Pending), State::Claimed);
    assert_eq!(follow(State::Running, RunState::Finished), State::Finished);
    assert_eq!(follow(State::Running, RunState::Crashed), State::Failed);
    for run in RunState::ALL {
        assert_eq!(follow(State::Failed, run), State::Failed);
        assert_eq!(follow(State::Finished, run), State::Finished);
    }
}

// RQI-3
#[test]
fn an_item_whose_agent_died_before_its_run_began_is_given_up() {
    assert!(!is_abandoned(State::Claimed, false, at(0), at(600)));
    assert!(is_abandoned(State::Claimed, false, at(0), at(601)));
    assert!(!is_abandoned(State::Claimed, true, at(0), at(601)));
    assert!(!is_abandoned(State::Running, true, at(0), at(601)));
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Pop(usize),
    Acknowledge(usize),
    Fail(usize),
    Run(RunState),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1i64..90).prop_map(Step::Wait),
        (0usize..3).prop_map(Step::Pop),
        (0usize..3).prop_map(Step::Acknowledge),
        (0usize..3).prop_map(Step::Fail),
        prop::sample::select(RunState::ALL.to_vec()).prop_map(Step::Run),
    ]
}

proptest! {
    // Three agents do anything in any order: at most one is ever told that the item is its own, the number of a lease
    // never falls, and what has ended stays ended.
    #[test]
    fn an_item_is_started_by_one_agent_only(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut item = Item::new();
        let mut held = [0i64; 3];
        let mut owners = std::collections::BTreeSet::new();
        let mut clock = 0;
        for step in steps {
            let before = item.clone();
            match step {
                Step::Wait(seconds) => clock += seconds,
                Step::Pop(agent) => if let Some(popped) = pop(&item, at(clock)) {
                    held[agent] = popped.lease;
                    item = popped;
                },
                Step::Acknowledge(agent) => match acknowledge(&item, held[agent], &format!("run-{agent}")) {
                    Answer::Done(next) => { owners.insert(agent); item = next; }
                    Answer::Again => { owners.insert(agent); }
                    Answer::Refused => (),
                },
                Step::Fail(agent) => if let Answer::Done(next) = fail(&item, held[agent], "no") {
                    prop_assert!(held[agent] == before.lease || before.lease == 0);
                    item = next;
                },
                Step::Run(run) => if matches!(item.state, State::Claimed | State::Running) {
                    item.state = follow(item.state, run);
                },
            }
            prop_assert!(owners.len() <= 1, "{owners:?}");
            prop_assert!(item.lease >= before.lease);
            if before.state.is_final() {
                prop_assert_eq!(&item, &before);
            }
        }
    }
}
