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

/// Every change of state that an item may go through. A lease that ran out is taken by the next agent; a run that says it
/// came from an item is believed, whoever has it.
const TABLE: [(State, State); 14] = [
    (State::Pending, State::Leased),
    (State::Pending, State::Failed),
    (State::Leased, State::Leased),
    (State::Leased, State::Claimed),
    (State::Leased, State::Running),
    (State::Leased, State::Finished),
    (State::Leased, State::Failed),
    (State::Claimed, State::Running),
    (State::Claimed, State::Finished),
    (State::Claimed, State::Failed),
    (State::Running, State::Finished),
    (State::Running, State::Failed),
    (State::Pending, State::Running),
    (State::Pending, State::Finished),
];

fn any_item() -> impl Strategy<Value = Item> {
    let state = prop::sample::select(State::ALL.to_vec());
    (state, 0i64..4, prop::option::of(0i64..200), prop::option::of("[ab]"))
        .prop_map(|(state, lease, until, run_name)| Item { state, lease, leased_until: until.map(at), run_name })
}

proptest! {
    // RQI-1 to RQI-5: whatever is asked of whatever item, it changes by the table or not at all.
    #[test]
    fn no_item_changes_but_by_the_table(item in any_item(), clock in 0i64..200, lease in 0i64..4, run in "[ab]") {
        let mut next = Vec::new();
        next.extend(pop(&item, at(clock)));
        for answer in [acknowledge(&item, lease, &run), fail(&item, lease, "no")] {
            if let Answer::Done(changed) = answer {
                next.push(changed);
            }
        }
        for state in RunState::ALL {
            let followed = follow(item.state, state);
            if followed != item.state {
                next.push(Item { state: followed, ..item.clone() });
            }
        }
        for changed in next {
            let is_known = TABLE.contains(&(item.state, changed.state));
            prop_assert!(is_known, "{:?} became {:?}", item, changed);
            prop_assert!(!item.state.is_final());
        }
    }

    // RQI-1: a number is never handed out twice, and only the newest may be spoken for.
    #[test]
    fn a_lease_is_a_fence(item in any_item(), clock in 0i64..200, stale in 0i64..4) {
        if let Some(leased) = pop(&item, at(clock)) {
            prop_assert_eq!(leased.lease, item.lease + 1);
            prop_assert!(!leased.is_waiting(at(clock)), "nobody else has it meanwhile");
            if stale != leased.lease {
                prop_assert_eq!(acknowledge(&leased, stale, "a"), Answer::Refused);
                prop_assert_eq!(fail(&leased, stale, "no"), Answer::Again);
            }
            let claimed = done(acknowledge(&leased, leased.lease, "a"));
            prop_assert_eq!(acknowledge(&claimed, leased.lease, "a"), Answer::Again);
            prop_assert_eq!(pop(&claimed, at(10_000)), None);
        }
    }

    // RQI-2: a lease that ran out changes nothing but who may take the item.
    #[test]
    fn an_item_that_comes_back_is_as_it_was(clock in 0i64..200, wait in 0i64..200) {
        let leased = pop(&Item::new(), at(clock)).unwrap();
        let later = at(clock + wait);
        let again = pop(&leased, later);
        prop_assert_eq!(again.is_some(), wait >= LEASE.as_secs());
        prop_assert_eq!(leased.shown(later) == State::Pending, again.is_some());
        if let Some(again) = again {
            prop_assert_eq!((again.lease, again.state, again.run_name), (2, State::Leased, None));
        }
    }
}
