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
    assert_eq!(follow(State::Claimed, RunState::Running, Keeper::Run), State::Running);
    assert_eq!(follow(State::Claimed, RunState::Pending, Keeper::Run), State::Claimed);
    assert_eq!(follow(State::Running, RunState::Finished, Keeper::Run), State::Finished);
    assert_eq!(follow(State::Running, RunState::Crashed, Keeper::Run), State::Failed);
    for (run, keeper) in RunState::ALL.into_iter().flat_map(|run| [(run, Keeper::Run), (run, Keeper::Agent)]) {
        assert_eq!(follow(State::Failed, run, keeper), State::Failed);
        assert_eq!(follow(State::Finished, run, keeper), State::Finished);
    }
}

#[test]
fn the_run_of_a_kept_item_begins_it_but_only_the_agent_ends_it() {
    assert_eq!(follow(State::Claimed, RunState::Running, Keeper::Agent), State::Running);
    for run in [RunState::Finished, RunState::Failed, RunState::Crashed, RunState::Preempted] {
        assert_eq!(follow(State::Running, run, Keeper::Agent), State::Running);
    }
    // What the preempted attempt still says does not begin the one that waits.
    assert_eq!(follow(State::Pending, RunState::Running, Keeper::Agent), State::Pending);
}

// RQI-3
#[test]
fn an_item_whose_agent_died_before_its_run_began_is_given_up() {
    let alone = Alone {
        state: State::Claimed,
        keeper: Keeper::Run,
        has_run: false,
        is_stop_asked: false,
        agent_heartbeat: at(0),
        has_heirs: false,
    };
    assert!(!is_abandoned(&alone, at(600)));
    assert!(is_abandoned(&alone, at(601)));
    assert!(!is_abandoned(&Alone { has_run: true, ..alone }, at(601)));
    assert!(is_abandoned(&Alone { has_run: true, is_stop_asked: true, ..alone }, at(601)));
    assert!(!is_abandoned(&Alone { has_run: true, is_stop_asked: true, ..alone }, at(600)));
    assert!(!is_abandoned(&Alone { has_run: true, state: State::Running, ..alone }, at(601)));
}

#[test]
fn what_our_agent_kept_waits_for_the_next_agent() {
    let alone = Alone {
        state: State::Running,
        keeper: Keeper::Agent,
        has_run: true,
        is_stop_asked: false,
        agent_heartbeat: at(0),
        has_heirs: true,
    };
    let day = 24 * 60 * 60;
    assert!(!is_abandoned(&alone, at(10 * day)));
    assert!(!is_abandoned(&Alone { has_heirs: false, ..alone }, at(day)));
    assert!(is_abandoned(&Alone { has_heirs: false, ..alone }, at(day + 1)));
    assert!(is_abandoned(&Alone { has_heirs: false, has_run: false, state: State::Claimed, ..alone }, at(day + 1)));
}

fn claimed() -> Item {
    done(acknowledge(&pop(&Item::new(), at(0)).unwrap(), 1, "a"))
}

#[test]
fn what_did_not_fit_waits_at_its_old_place() {
    let leased = pop(&Item::new(), at(0)).unwrap();
    let released = done(release(&leased, 1));
    assert_eq!((released.state, released.lease, released.attempt), (State::Pending, 1, 0));
    assert_eq!(release(&released, 1), Answer::Again);
    let again = pop(&released, at(1)).unwrap();
    assert_eq!(release(&again, 1), Answer::Refused);
    assert_eq!(acknowledge(&again, 1, "a"), Answer::Refused);
    assert_eq!(release(&claimed(), 1), Answer::Refused);
}

#[test]
fn an_item_is_taken_over_only_from_an_agent_that_is_gone() {
    assert!(!is_orphaned(State::Claimed, at(0), at(60)));
    assert!(is_orphaned(State::Claimed, at(0), at(61)));
    assert!(!is_orphaned(State::Leased, at(0), at(61)), "a lease runs out by itself");
    let item = claimed();
    assert_eq!(adopt(&item, 1, false), Answer::Refused);
    assert!(is_in_reach(None, None) && is_in_reach(None, Some("a")) && is_in_reach(Some("a"), Some("a")));
    assert!(!is_in_reach(Some("a"), Some("b")) && !is_in_reach(Some("a"), None), "it would be begun a second time");
    let adopted = done(adopt(&item, 1, true));
    assert_eq!((adopted.state, adopted.lease, adopted.run_name.as_deref()), (State::Claimed, 2, Some("a")));
    for stale in [adopt(&adopted, 1, true), end(&adopted, 1, End::Finished), requeue(&adopted, 1, 0)] {
        assert_eq!(stale, Answer::Refused);
    }
    assert_eq!(done(end(&adopted, 2, End::Finished)).state, State::Finished);
}

// LA-L-25
#[test]
fn a_preempted_item_waits_once_more_and_only_once() {
    let again = done(requeue(&claimed(), 1, 0));
    assert_eq!((again.state, again.attempt, again.run_name.as_deref()), (State::Pending, 1, Some("a")));
    assert_eq!(requeue(&again, 1, 0), Answer::Again);
    let second = done(acknowledge(&pop(&again, at(5)).unwrap(), 2, "a"));
    assert_eq!((second.lease, second.attempt), (2, 1));
    assert_eq!(requeue(&second, 2, 0), Answer::Again);
    assert_eq!(requeue(&second, 1, 0), Answer::Refused);
    assert_eq!(done(requeue(&second, 2, 1)).attempt, 2);
    let stopping = done(stop(&claimed()));
    assert_eq!(done(requeue(&stopping, 1, 0)).end(), Some(End::Stopped));
}

#[test]
fn a_stop_ends_what_waits_and_asks_who_runs() {
    let leased = pop(&Item::new(), at(0)).unwrap();
    for item in [Item::new(), leased.clone()] {
        assert_eq!(done(stop(&item)).end(), Some(End::Stopped));
    }
    assert_eq!(acknowledge(&done(stop(&leased)), 1, "a"), Answer::Refused);
    let asked = done(stop(&claimed()));
    assert_eq!((asked.state, asked.is_stop_asked, asked.end()), (State::Claimed, true, None));
    assert_eq!(stop(&asked), Answer::Again);
    let stopped = done(end(&asked, 1, End::Stopped));
    assert_eq!((stopped.state, stopped.end()), (State::Failed, Some(End::Stopped)));
    assert_eq!(end(&stopped, 1, End::Failed), Answer::Again);
    assert_eq!(stop(&stopped), Answer::Again);
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Pop(usize),
    Acknowledge(usize),
    Fail(usize),
    Release(usize),
    /// Whether it is orphaned is the world's doing.
    Adopt(usize),
    Requeue(usize),
    End(usize, End),
    Stop,
    Run(RunState),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1i64..90).prop_map(Step::Wait),
        (0usize..3).prop_map(Step::Pop),
        (0usize..3).prop_map(Step::Acknowledge),
        (0usize..3).prop_map(Step::Fail),
        (0usize..3).prop_map(Step::Release),
        (0usize..3).prop_map(Step::Adopt),
        (0usize..3).prop_map(Step::Requeue),
        (0usize..3, prop::sample::select(End::ALL.to_vec())).prop_map(|(agent, end)| Step::End(agent, end)),
        Just(Step::Stop),
        prop::sample::select(RunState::ALL.to_vec()).prop_map(Step::Run),
    ]
}

proptest! {
    // Three agents do anything in any order: at most one at a time has the item, and nobody else is told that it is its own;
    // the numbers of leases and attempts never fall, and what has ended stays ended.
    #[test]
    fn an_item_is_started_by_one_agent_only(steps in prop::collection::vec(any_step(), 0..80)) {
        let mut item = Item::new();
        let mut held = [0i64; 3];
        let mut clock = 0;
        for step in steps {
            let before = item.clone();
            let answer = match step {
                Step::Wait(seconds) => { clock += seconds; Answer::Again }
                Step::Pop(agent) => match pop(&item, at(clock)) {
                    Some(popped) => { held[agent] = popped.lease; Answer::Done(popped) }
                    None => Answer::Refused,
                },
                Step::Acknowledge(agent) => {
                    let answer = acknowledge(&item, held[agent], "r");
                    prop_assert!(answer == Answer::Refused || held[agent] == before.lease);
                    answer
                }
                Step::Fail(agent) => {
                    let answer = fail(&item, held[agent], "no");
                    if matches!(answer, Answer::Done(_)) {
                        prop_assert!(held[agent] == before.lease || before.lease == 0);
                    }
                    answer
                }
                Step::Release(agent) => release(&item, held[agent]),
                Step::Adopt(agent) => {
                    // One that asks for an item knows its lease from the server's list.
                    let answer = adopt(&item, before.lease, agent != 0);
                    if let Answer::Done(next) = &answer {
                        held[agent] = next.lease;
                    }
                    answer
                }
                Step::Requeue(agent) => requeue(&item, held[agent], before.attempt),
                Step::End(agent, how) => {
                    let answer = end(&item, held[agent], how);
                    if matches!(answer, Answer::Done(_)) {
                        prop_assert_eq!(held[agent], before.lease);
                    }
                    answer
                }
                Step::Stop => stop(&item),
                Step::Run(run) => {
                    let state = follow(item.state, run, Keeper::Agent);
                    Answer::Done(Item { state, ..item.clone() })
                }
            };
            if let Answer::Done(next) = answer {
                item = next;
            }
            prop_assert!(held.iter().filter(|lease| **lease == item.lease && **lease > 0).count() <= 1, "{:?}", held);
            prop_assert!(item.lease >= before.lease && item.attempt >= before.attempt);
            prop_assert!(item.is_stop_asked >= before.is_stop_asked);
            if before.state.is_final() {
                prop_assert_eq!(&item, &before);
            }
        }
    }
}

/// Every change of state that an item may go through. A lease that ran out is taken by the next agent; a run that says it
/// came from an item is believed, whoever has it. A started item changes while it stays what it is when it is taken over,
/// or asked to stop; it waits again when it was preempted, and a leased one when it did not fit.
const TABLE: [(State, State); 19] = [
    (State::Leased, State::Pending),
    (State::Claimed, State::Pending),
    (State::Running, State::Pending),
    (State::Claimed, State::Claimed),
    (State::Running, State::Running),
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
    let rest = (0i64..3, any::<bool>());
    (state, 0i64..4, prop::option::of(0i64..200), prop::option::of("[ab]"), rest).prop_map(
        |(state, lease, until, run_name, (attempt, is_stop_asked))| Item {
            state,
            lease,
            leased_until: until.map(at),
            run_name,
            attempt,
            is_stop_asked,
            was_stopped: false,
        },
    )
}

proptest! {
    // RQI-1 to RQI-5: whatever is asked of whatever item, it changes by the table or not at all.
    #[test]
    fn no_item_changes_but_by_the_table(item in any_item(), clock in 0i64..200, lease in 0i64..4, run in "[ab]",
        attempt in 0i64..3, how in prop::sample::select(End::ALL.to_vec())) {
        let mut next = Vec::new();
        next.extend(pop(&item, at(clock)));
        let answers = [
            acknowledge(&item, lease, &run), fail(&item, lease, "no"), release(&item, lease), stop(&item),
            adopt(&item, lease, true), requeue(&item, lease, attempt), end(&item, lease, how), start(&item, lease),
        ];
        for answer in answers {
            if let Answer::Done(changed) = answer {
                next.push(changed);
            }
        }
        for (state, keeper) in RunState::ALL.into_iter().flat_map(|run| [(run, Keeper::Run), (run, Keeper::Agent)]) {
            let followed = follow(item.state, state, keeper);
            if followed != item.state {
                next.push(Item { state: followed, ..item.clone() });
            }
        }
        for changed in next {
            let is_known = TABLE.contains(&(item.state, changed.state));
            prop_assert!(is_known, "{:?} became {:?}", item, changed);
            prop_assert!(!item.state.is_final());
            // Nobody but who holds the newest lease changes what was started, except by asking for its end.
            if matches!(item.state, State::Claimed | State::Running) && changed.is_stop_asked == item.is_stop_asked {
                prop_assert!(item.lease == lease || changed.state != State::Pending);
            }
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

#[test]
fn an_end_has_one_exit_code_whoever_tells_it() {
    let codes = |end: End| [None, Some(0), Some(3)].map(|code| end.exit_code(code));
    assert_eq!(codes(End::Finished), [0, 0, 0]);
    assert_eq!(codes(End::Failed), [1, 1, 3]);
    assert_eq!(codes(End::Stopped), [EXIT_STOPPED; 3]);
}
