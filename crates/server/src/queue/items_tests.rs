//! What SQL does to items is what `plan::queue::item` says, in the order of priority and then age.

use super::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use volley_plan::queue::item::{End, Item as Life};

const HISTORIES: usize = 24;

#[derive(Clone, Debug)]
enum Step {
    Push {
        priority: i64,
    },
    Wait {
        seconds: i64,
    },
    Pop,
    /// With one of the leases that were given, counted from the newest.
    Acknowledge {
        back: usize,
    },
    Fail {
        back: usize,
    },
    Release {
        back: usize,
    },
    Adopt {
        back: usize,
    },
    Requeue {
        back: usize,
    },
    End {
        back: usize,
        how: End,
    },
    Stop {
        back: usize,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0i64..4).prop_map(|priority| Step::Push { priority }),
        2 => (1i64..50).prop_map(|seconds| Step::Wait { seconds }),
        4 => Just(Step::Pop),
        2 => (0usize..4).prop_map(|back| Step::Acknowledge { back }),
        1 => (0usize..4).prop_map(|back| Step::Fail { back }),
        1 => (0usize..4).prop_map(|back| Step::Release { back }),
        1 => (0usize..4).prop_map(|back| Step::Adopt { back }),
        1 => (0usize..4).prop_map(|back| Step::Requeue { back }),
        1 => (0usize..4, prop::sample::select(End::ALL.to_vec())).prop_map(|(back, how)| Step::End { back, how }),
        1 => (0usize..4).prop_map(|back| Step::Stop { back }),
    ]
}

/// Items as `plan` sees them: rank, number, life.
type Model = Vec<(i64, i64, Life)>;

/// The first by rank and age that may be handed out.
fn first(model: &mut Model, now: Timestamp) -> Option<&mut (i64, i64, Life)> {
    let waiting = model.iter_mut().filter(|(_, _, life)| life.is_waiting(now));
    waiting.min_by_key(|(rank, id, _)| (*rank, *id))
}

async fn queue() -> (tempfile::TempDir, Database, Queue) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
    let mut write = database.write().await.unwrap();
    let setup = "INSERT INTO entities (id, name, is_team, created_at) VALUES (1, 'e', 0, 0); \
                 INSERT INTO users (id, username, name, is_admin, is_service, entity_id, created_at) VALUES (1, 'u', 'u', 1, 0, 1, 0); \
                 INSERT INTO projects (id, entity_id, name, folded, created_at) VALUES (1, 1, 'p', 'p', 0); \
                 INSERT INTO queues (id, project_id, name, access, mode, links, user_id, created_at, updated_at) \
                 VALUES (1, 1, 'q', 'PROJECT', 'V0', '{}', 1, 0, 0)";
    write.script(setup.to_owned()).await.unwrap();
    write.commit().await.unwrap();
    let queue = super::super::store::by_id(&database, 1).await.unwrap().unwrap();
    (folder, database, queue)
}

async fn push(database: &Database, priority: i64, now: Timestamp) -> i64 {
    let sql = "INSERT INTO items (queue_id, state, spec, template_values, priority, rank, lease, warnings, user_id, created_at, \
               updated_at) VALUES (1, 'PENDING', '{}', '{}', $1, $1, 0, '[]', 1, $2, $2) RETURNING id";
    let mut write = database.write().await.unwrap();
    let id = write.one(sql, args![priority, now]).await.unwrap().get("id").unwrap();
    write.commit().await.unwrap();
    id
}

async fn answer(database: &Database, id: i64, now: Timestamp, decide: impl Fn(&Life) -> Answer) -> (Answer, bool) {
    let mut write = database.write().await.unwrap();
    let item = lock(&mut write, id).await.unwrap().unwrap();
    let answer = decide(&item.life);
    let is_granted = settle(&mut write, &item, answer.clone(), now).await.unwrap();
    write.commit().await.unwrap();
    (answer, is_granted)
}

async fn follow_steps(steps: Vec<Step>) {
    let (_folder, database, queue) = queue().await;
    let mut model: Model = Vec::new();
    let mut leases: Vec<(i64, i64)> = Vec::new();
    let mut now = Timestamp::from_second(1_000_000).unwrap();
    for step in steps {
        match step {
            Step::Push { priority } => {
                let id = push(&database, priority, now).await;
                model.push((priority, id, Life::new()));
            }
            Step::Wait { seconds } => now += jiff::SignedDuration::from_secs(seconds),
            Step::Pop => {
                let mut write = database.write().await.unwrap();
                let popped = pop(&mut write, &queue, None, &[], now).await.unwrap();
                write.commit().await.unwrap();
                let expected = first(&mut model, now).map(|(_, id, life)| {
                    *life = item::pop(life, now).unwrap();
                    (*id, life.lease)
                });
                assert_eq!(popped.map(|popped| (popped.id, popped.lease)), expected);
                leases.extend(expected);
            }
            Step::Acknowledge { back }
            | Step::Fail { back }
            | Step::Release { back }
            | Step::Adopt { back }
            | Step::Requeue { back }
            | Step::End { back, .. }
            | Step::Stop { back } => {
                let Some((id, lease)) = leases.iter().rev().nth(back).copied() else { continue };
                let decide = |life: &Life| match step {
                    Step::Fail { .. } => item::fail(life, lease, "no"),
                    Step::Release { .. } => item::release(life, lease),
                    Step::Adopt { .. } => item::adopt(life, lease, true),
                    Step::Requeue { .. } => item::requeue(life, lease, life.attempt),
                    Step::End { how, .. } => item::end(life, lease, how),
                    Step::Stop { .. } => item::stop(life),
                    Step::Acknowledge { .. } | Step::Push { .. } | Step::Wait { .. } | Step::Pop => {
                        item::acknowledge(life, lease, &format!("run-{id}-{lease}"))
                    }
                };
                let (given, is_granted) = answer(&database, id, now, decide).await;
                let (_, _, life) = model.iter_mut().find(|(_, known, _)| *known == id).unwrap();
                assert_eq!(given, decide(life));
                assert_eq!(is_granted, given != Answer::Refused);
                if let Answer::Done(next) = given {
                    *life = next;
                    if life.lease > lease {
                        leases.push((id, life.lease));
                    }
                }
            }
        }
        for (priority, id, life) in &model {
            let item = by_id(&database, *id).await.unwrap().unwrap();
            assert_eq!((item.priority, &item.life), (*priority, life), "item {id}");
        }
    }
}

// RQI-1, RQI-2, L-6
#[tokio::test]
async fn sql_does_what_the_plan_says_in_order_of_priority_and_age() {
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..HISTORIES {
        let steps = prop::collection::vec(any_step(), 0..40).new_tree(&mut runner).unwrap().current();
        follow_steps(steps).await;
    }
}

#[tokio::test]
async fn an_agent_hears_of_all_that_it_holds_and_of_what_others_left_alone() {
    let (_folder, database, _) = queue().await;
    let now = Timestamp::from_second(1_000_000).unwrap();
    let agent = "INSERT INTO agents (project_id, name, hostname, queues, status, is_told_to_stop, user_id, created_at, \
                 heartbeat_at) VALUES (1, $1, 'h', '[]', $1, 0, 1, 0, $2)";
    let mut write = database.write().await.unwrap();
    // This one, one that lives, one that is silent, one that said goodbye.
    for (name, heard) in [("POLLING", now), ("RUNNING", now), ("SILENT", now - ORPHANED_AFTER * 2), ("KILLED", now)] {
        write.run(agent, args![name, heard]).await.unwrap();
    }
    write.commit().await.unwrap();
    let mut expected = Vec::new();
    for number in 0..12i64 {
        let (id, agent) = (push(&database, 2, now).await, number % 4 + 1);
        let mut write = database.write().await.unwrap();
        let sql = "UPDATE items SET state = 'CLAIMED', keeper = 'agent', agent_id = $2 WHERE id = $1";
        write.run(sql, args![id, agent]).await.unwrap();
        write.commit().await.unwrap();
        expected.extend((agent != 2).then_some(id));
    }
    for page in [2, 3, 100] {
        let found = own_and_orphaned(&database, 1, 1, now, page).await.unwrap();
        assert_eq!(found.iter().map(|item| item.id).collect::<Vec<_>>(), expected, "pages of {page}");
    }
}

//
#[tokio::test]
async fn what_an_agent_has_no_room_for_does_not_hide_what_is_behind_it() {
    let (_folder, database, queue) = queue().await;
    let mut now = Timestamp::from_second(1_000_000).unwrap();
    let first = push(&database, 0, now).await;
    let second = push(&database, 0, now).await;
    let take = async |without: &[i64], now: Timestamp| {
        let mut write = database.write().await.unwrap();
        let popped = pop(&mut write, &queue, None, without, now).await.unwrap();
        write.commit().await.unwrap();
        popped.map(|popped| popped.id)
    };
    assert_eq!(take(&[first, second], now).await, None);
    assert_eq!(take(&[first], now).await, Some(second));
    now += LEASE * 2;
    assert_eq!(take(&[first, second], now).await, None, "nor after a lease ran out");
    assert_eq!(take(&[second], now).await, Some(first));
}
