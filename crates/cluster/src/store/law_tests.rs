//! Laws: whatever is committed, the store agrees with a plain map, across restarts, compactions and watches.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{TestStore, delete, open, put, text};
use super::*;

const BUCKETS: [&str; 2] = ["pods", "jobs"];

#[derive(Clone, Debug)]
struct Step {
    bucket: usize,
    key: u8,
    expect: Wish,
    is_delete: bool,
}

/// What a write expects, relative to the state when it is made.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Absent,
    Current,
    Stale,
    Any,
}

#[derive(Clone, Debug)]
enum Action {
    Commit(Vec<Step>),
    Reopen,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let wish =
        prop_oneof![Just(Wish::Absent), Just(Wish::Current), Just(Wish::Stale), Just(Wish::Any), Just(Wish::Any)];
    (0..BUCKETS.len(), 0..6_u8, wish, prop::bool::weighted(0.3)).prop_map(|(bucket, key, expect, is_delete)| Step {
        bucket,
        key,
        expect,
        is_delete,
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => vec(step(), 1..5).prop_map(Action::Commit),
        1 => Just(Action::Reopen),
        1 => Just(Action::Compact),
    ]
}

/// The store as a plain map: (bucket, key) to (revision, value).
#[derive(Clone, Default)]
struct Model {
    revision: Revision,
    objects: BTreeMap<(usize, String), (Revision, String)>,
}

impl Model {
    fn expectation(&self, step: &Step, key: &str) -> Expect {
        let current = self.objects.get(&(step.bucket, key.to_owned())).map_or(0, |(revision, _)| *revision);
        match step.expect {
            Wish::Absent => Expect::Absent,
            Wish::Current => Expect::Revision(current),
            Wish::Stale => Expect::Revision(current + 1_000_000),
            Wish::Any => Expect::Any,
        }
    }

    /// The model after the transaction, or the index of the write that conflicts.
    fn apply(&self, steps: &[(Step, String, Expect)]) -> Result<Model, usize> {
        let mut after = self.clone();
        for (index, (step, key, expect)) in steps.iter().enumerate() {
            let place = (step.bucket, key.clone());
            let current = after.objects.get(&place).map(|(revision, _)| *revision);
            let is_met = match expect {
                Expect::Absent => current.is_none(),
                Expect::Revision(revision) => current == Some(*revision),
                Expect::Any => true,
            };
            if !is_met || (step.is_delete && current.is_none()) {
                return Err(index);
            }
            after.revision += 1;
            if step.is_delete {
                after.objects.remove(&place);
            } else {
                after.objects.insert(place, (after.revision, format!("v at {}.", after.revision)));
            }
        }
        Ok(after)
    }

    fn text(&self, bucket: usize) -> Vec<String> {
        let of_bucket = self.objects.iter().filter(|((of, _), _)| *of == bucket);
        of_bucket.map(|((_, key), (_, value))| format!("{key}={value}")).collect()
    }
}

async fn commit(store: &TestStore, model: &Model, steps: Vec<Step>) -> Model {
    let steps: Vec<_> = steps
        .into_iter()
        .map(|step| {
            let key = format!("key-{}", step.key);
            let expect = model.expectation(&step, &key);
            (step, key, expect)
        })
        .collect();
    let writes = steps.iter().map(|(step, key, expect)| {
        let bucket = store.bucket(BUCKETS[step.bucket]);
        if step.is_delete { delete(&bucket, key, *expect) } else { put(&bucket, key, *expect, "v") }
    });
    match (store.commit(writes.collect()).await, model.apply(&steps)) {
        (Ok(entries), Ok(after)) => {
            let revisions: Vec<Revision> = entries.iter().map(|entry| entry.revision).collect();
            assert_eq!(revisions, (model.revision + 1..=after.revision).collect::<Vec<_>>());
            after
        }
        (Err(CommitError::Conflict { index, .. }), Err(expected)) => {
            assert_eq!(index, expected);
            model.clone()
        }
        (outcome, expected) => panic!("{outcome:?}, but the model says {:?}", expected.map(|model| model.revision)),
    }
}

fn assert_same(store: &TestStore, model: &Model) {
    assert_eq!(store.revision(), model.revision);
    for (index, name) in BUCKETS.iter().enumerate() {
        assert_eq!(text(&store.list(&store.bucket(name), "")), model.text(index));
    }
}

/// A listing of any revision with the events after it replayed is the listing of today; the listing is the one
/// that the model had then.
/// A listing put together from stretches of two.
fn in_stretches(store: &TestStore, bucket: &Bucket, revision: Revision) -> Listing<usize> {
    let mut entries: Vec<Arc<Entry<usize>>> = Vec::new();
    loop {
        let after = entries.last().map(|entry| entry.key.clone()).unwrap_or_default();
        let stretch = Stretch { prefix: "", after: &after, count: 2, at: Some(revision) };
        let next = store.stretch(bucket, &stretch).unwrap();
        assert!(next.revision == revision && next.entries.len() <= 2);
        if next.entries.is_empty() {
            return Listing { revision, entries };
        }
        entries.extend(next.entries);
    }
}

fn assert_history(store: &TestStore, opened_at: Revision, past: &BTreeMap<Revision, Model>) {
    for (index, name) in BUCKETS.iter().enumerate() {
        let bucket = store.bucket(name);
        for revision in opened_at..=store.revision() {
            let listing = store.list_at(&bucket, "", revision).unwrap();
            if let Some(model) = past.get(&revision) {
                assert_eq!(text(&listing), model.text(index), "as of {revision}");
            }
            assert_eq!(text(&in_stretches(store, &bucket, revision)), text(&listing), "in stretches as of {revision}");
            let mut replayed: BTreeMap<Box<str>, Arc<Entry<usize>>> =
                listing.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
            let mut last = revision;
            for event in store.watch(&bucket, revision).unwrap().try_next().unwrap() {
                assert!(event.revision > last);
                last = event.revision;
                let previous = match event.kind {
                    EventKind::Created | EventKind::Updated => {
                        replayed.insert(event.entry.key.clone(), event.entry.clone())
                    }
                    EventKind::Deleted => replayed.remove(&event.entry.key),
                };
                let revisions = (previous, event.previous.clone());
                assert_eq!(revisions.0.map(|entry| entry.revision), revisions.1.map(|entry| entry.revision));
            }
            let replayed = Listing { revision, entries: replayed.into_values().collect() };
            assert_eq!(text(&replayed), text(&store.list(&bucket, "")), "replayed from {revision}");
        }
    }
}

async fn check(actions: Vec<Action>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut model = Model::default();
    let mut opened_at = 0;
    let mut past = BTreeMap::from([(0, model.clone())]);
    for action in actions {
        match action {
            Action::Commit(steps) => {
                model = commit(&store, &model, steps).await;
                past.insert(model.revision, model.clone());
            }
            Action::Reopen => {
                drop(store);
                store = open(dir.path());
                opened_at = model.revision;
            }
            Action::Compact => store.compact().await.unwrap(),
        }
        assert_same(&store, &model);
    }
    assert_history(&store, opened_at, &past);
    drop(store);
    assert_same(&open(dir.path()), &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_store_agrees_with_a_map_through_restarts_compactions_and_watches(actions in vec(action(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(actions));
    }
}
