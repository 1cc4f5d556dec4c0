//! What the store promises, case by case. Laws are in `law_tests.rs`, broken disks in `fault_tests.rs`.

use std::path::Path;
use std::sync::Arc;

use super::*;

/// The owner's part in these tests: the length of the value.
type Length = usize;
pub(super) type TestStore = Store<Length>;

fn length_of(_bucket: &str, _key: &str, value: &[u8]) -> Length {
    value.len()
}

pub(super) fn open(dir: &Path) -> Arc<TestStore> {
    try_open(dir, small()).expect("the store opens")
}

/// The usual options, without writing megabytes of zeros for a few small objects.
pub(super) fn small() -> Options {
    Options { preallocate_bytes: 4096, ..Options::default() }
}

pub(super) fn try_open(dir: &Path, options: Options) -> Result<Arc<TestStore>, StoreError> {
    Store::open(dir, options, length_of)
}

pub(super) fn put(bucket: &Bucket, key: &str, expect: Expect, text: &str) -> Write<Length> {
    Write { bucket: bucket.clone(), key: key.into(), expect, change: Change::Put(draft(text)) }
}

pub(super) fn delete(bucket: &Bucket, key: &str, expect: Expect) -> Write<Length> {
    Write { bucket: bucket.clone(), key: key.into(), expect, change: Change::Delete(draft("gone")) }
}

fn draft(text: &str) -> Draft<Length> {
    Draft { head: format!("{text} at ").into_bytes(), tail: b".".to_vec(), meta: text.len() }
}

/// `key=value` of every entry, which reads well in a failed assertion.
pub(super) fn text(listing: &Listing<Length>) -> Vec<String> {
    listing.entries.iter().map(|entry| format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value))).collect()
}

#[tokio::test]
async fn a_commit_fills_in_the_revision_and_is_seen() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let entries = store.commit(vec![put(&pods, "a", Expect::Absent, "one")]).await.unwrap();
    assert_eq!(&entries[0].value[..], b"one at 1.");
    assert_eq!((store.revision(), entries[0].revision, entries[0].meta), (1, 1, 3));
    assert_eq!(text(&store.list(&pods, "")), ["a=one at 1."]);
    assert_eq!(store.buckets(), [pods]);
}

#[tokio::test]
async fn expectations_are_checked_against_the_present_state() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Absent, "one")]).await.unwrap();
    let cases = [
        put(&pods, "a", Expect::Absent, "two"),
        put(&pods, "a", Expect::Revision(7), "two"),
        put(&pods, "b", Expect::Revision(1), "two"),
        delete(&pods, "b", Expect::Any),
        delete(&pods, "a", Expect::Revision(7)),
        delete(&pods, "a", Expect::Absent),
    ];
    for write in cases {
        let key = write.key.clone();
        let Err(CommitError::Conflict { index: 0, current }) = store.commit(vec![write]).await else {
            panic!("no conflict")
        };
        assert_eq!(current.map(|entry| entry.revision), (&*key == "a").then_some(1));
    }
    assert_eq!(store.revision(), 1, "a conflict takes no revision");
    store.commit(vec![put(&pods, "a", Expect::Revision(1), "two")]).await.unwrap();
    store.commit(vec![delete(&pods, "a", Expect::Revision(2))]).await.unwrap();
    assert!(store.get(&pods, "a").is_none());
}

#[tokio::test]
async fn a_transaction_happens_whole_or_not_at_all() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let failed = store
        .commit(vec![
            put(&pods, "a", Expect::Absent, "one"),
            delete(&pods, "a", Expect::Any),
            put(&pods, "b", Expect::Revision(9), "two"),
        ])
        .await;
    assert!(matches!(failed, Err(CommitError::Conflict { index: 2, current: None })));
    assert_eq!((store.revision(), store.list(&pods, "").entries.len()), (0, 0));

    let entries = store
        .commit(vec![
            put(&pods, "a", Expect::Absent, "one"),
            put(&pods, "a", Expect::Any, "two"),
            put(&pods, "b", Expect::Absent, "three"),
        ])
        .await
        .unwrap();
    assert_eq!(entries.iter().map(|entry| entry.revision).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(text(&store.list(&pods, "")), ["a=two at 2.", "b=three at 3."]);
}

#[tokio::test]
async fn an_acknowledged_write_is_there_after_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let (pods, jobs) = (store.bucket("pods"), store.bucket("batch/jobs"));
    store
        .commit(vec![put(&pods, "n/a", Expect::Absent, "one"), put(&jobs, "n/j", Expect::Absent, "job")])
        .await
        .unwrap();
    store.commit(vec![put(&pods, "n/b", Expect::Absent, "two"), delete(&jobs, "n/j", Expect::Any)]).await.unwrap();
    drop(store);

    let store = open(dir.path());
    let pods = store.bucket("pods");
    assert_eq!(store.revision(), 4);
    assert_eq!(text(&store.list(&pods, "n/")), ["n/a=one at 1.", "n/b=two at 3."]);
    assert_eq!(store.get(&pods, "n/a").unwrap().meta, "one at 1.".len(), "the owner's part is restored");
    assert_eq!(store.buckets().iter().map(Bucket::name).collect::<Vec<_>>(), ["batch/jobs", "pods"]);
    let entries = store.commit(vec![put(&pods, "n/c", Expect::Absent, "three")]).await.unwrap();
    assert_eq!(entries[0].revision, 5);
}

#[tokio::test]
async fn history_before_opening_has_expired_and_later_history_has_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Any, "one"), put(&pods, "a", Expect::Any, "two")]).await.unwrap();
    drop(store);

    let store = open(dir.path());
    let pods = store.bucket("pods");
    assert_eq!(store.watch(&pods, 1).err(), Some(Expired { requested: 1, oldest: 2 }));
    assert_eq!(store.watch_all(1).err(), Some(Expired { requested: 1, oldest: 2 }));
    assert!(store.list_at(&pods, "", 1).is_err());
    let mut watch = store.watch(&pods, 2).unwrap();
    store.commit(vec![put(&pods, "a", Expect::Any, "three")]).await.unwrap();
    let events = watch.next().await.unwrap();
    assert_eq!(format!("{events:?}"), "[Event(Updated a @3)]");
    assert_eq!(text(&store.list_at(&pods, "", 2).unwrap()), ["a=two at 2."]);
}

#[tokio::test]
async fn a_watch_gives_every_event_once_and_in_order() {
    let store = TestStore::in_memory(Options::default());
    let (pods, jobs) = (store.bucket("pods"), store.bucket("jobs"));
    let (listing, mut watch) = store.list_and_watch(&pods, "");
    let mut all = store.watch_all(0).unwrap();
    assert_eq!((listing.revision, listing.entries.len()), (0, 0));
    store.commit(vec![put(&pods, "a", Expect::Any, "one"), put(&jobs, "j", Expect::Any, "job")]).await.unwrap();
    store.commit(vec![put(&pods, "a", Expect::Any, "two"), delete(&pods, "a", Expect::Any)]).await.unwrap();

    let events = watch.next().await.unwrap();
    assert_eq!(format!("{events:?}"), "[Event(Created a @1), Event(Updated a @3), Event(Deleted a @4)]");
    assert_eq!(&events[2].entry.value[..], b"gone at 4.");
    assert_eq!(events[2].previous.as_ref().map(|entry| entry.revision), Some(3));
    assert!(watch.try_next().unwrap().is_empty());
    let seen: Vec<String> =
        all.next().await.unwrap().iter().map(|(bucket, event)| format!("{} {event:?}", bucket.name())).collect();
    assert_eq!(
        seen,
        [
            "pods Event(Created a @1)", "jobs Event(Created j @2)", "pods Event(Updated a @3)",
            "pods Event(Deleted a @4)"
        ]
    );
}

#[tokio::test]
async fn a_watch_from_the_future_waits_for_its_revision() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let mut watch = store.watch(&pods, 2).unwrap();
    store.commit(vec![put(&pods, "a", Expect::Any, "one"), put(&pods, "a", Expect::Any, "two")]).await.unwrap();
    assert!(watch.try_next().unwrap().is_empty());
    store.commit(vec![put(&pods, "a", Expect::Any, "three")]).await.unwrap();
    assert_eq!(watch.next().await.unwrap()[0].revision, 3);
}

#[tokio::test]
async fn a_waiting_watch_is_woken() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let mut watch = store.watch(&pods, 0).unwrap();
    let waiting = tokio::spawn(async move { watch.next().await.map(|events| events.len()) });
    tokio::task::yield_now().await;
    store.commit(vec![put(&pods, "a", Expect::Any, "one")]).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(1));
}

#[tokio::test]
async fn the_position_of_an_idle_watch_follows_the_store() {
    let store = TestStore::in_memory(Options::default());
    let (pods, jobs) = (store.bucket("pods"), store.bucket("jobs"));
    let mut watch = store.watch(&pods, 0).unwrap();
    store.commit(vec![put(&jobs, "j", Expect::Any, "job")]).await.unwrap();
    assert_eq!(watch.position(), 1);
    store.commit(vec![put(&pods, "a", Expect::Any, "one"), put(&jobs, "j", Expect::Any, "job")]).await.unwrap();
    assert_eq!(watch.position(), 0, "there is an event that was not delivered");
    watch.next().await.unwrap();
    assert_eq!(watch.position(), 3);
}

#[tokio::test]
async fn a_slow_watch_learns_that_it_lagged_and_a_quiet_one_does_not() {
    let options = Options { ring_events_max: 4, ..Options::default() };
    let store = TestStore::in_memory(options);
    let (pods, jobs) = (store.bucket("pods"), store.bucket("jobs"));
    let (mut slow, mut quiet) = (store.watch(&pods, 0).unwrap(), store.watch(&jobs, 0).unwrap());
    let mut all = store.watch_all(0).unwrap();
    store.commit(vec![put(&jobs, "j", Expect::Any, "job")]).await.unwrap();
    for _ in 0..6 {
        store.commit(vec![put(&pods, "a", Expect::Any, "one")]).await.unwrap();
    }
    assert_eq!(slow.next().await.err(), Some(Lagged { position: 0, oldest: 3 }));
    assert!(all.next().await.is_err());
    assert_eq!(quiet.next().await.unwrap().len(), 1);
    assert_eq!(store.watch(&pods, 2).err(), Some(Expired { requested: 2, oldest: 3 }));
    assert_eq!(store.watch(&pods, 3).unwrap().next().await.unwrap().len(), 4);
}

#[tokio::test]
async fn the_rings_stay_within_their_bytes_and_keep_a_few_events_of_each_bucket() {
    let store = TestStore::in_memory(Options { ring_bytes_max: 64 << 10, ..Options::default() });
    let (pods, jobs) = (store.bucket("pods"), store.bucket("jobs"));
    store.commit(vec![put(&jobs, "j", Expect::Any, "job")]).await.unwrap();
    for _ in 0..200 {
        store.commit(vec![put(&pods, "a", Expect::Any, &"x".repeat(1000))]).await.unwrap();
    }
    assert_eq!(store.watch(&jobs, 0).unwrap().next().await.unwrap().len(), 1);
    assert_eq!(store.watch(&pods, 137).unwrap().next().await.unwrap().len(), 64);
    assert!(store.watch(&pods, 136).is_err());
}

#[tokio::test]
async fn a_long_catch_up_comes_in_bounded_batches() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    store.commit((0..700).map(|_| put(&pods, "a", Expect::Any, "one")).collect()).await.unwrap();
    let mut watch = store.watch(&pods, 0).unwrap();
    let mut all = store.watch_all(0).unwrap();
    assert_eq!((watch.next().await.unwrap().len(), watch.position()), (512, 512));
    assert_eq!((watch.next().await.unwrap().len(), watch.position()), (188, 700));
    assert_eq!((all.next().await.unwrap().len(), all.position()), (512, 512));
    assert_eq!((all.next().await.unwrap().len(), all.position()), (188, 700));
}

#[tokio::test]
async fn a_listing_as_of_an_earlier_revision_undoes_what_came_later() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "n/a", Expect::Any, "one"), put(&pods, "n/b", Expect::Any, "two")]).await.unwrap();
    store.commit(vec![delete(&pods, "n/a", Expect::Any), put(&pods, "n/c", Expect::Any, "three")]).await.unwrap();
    store.commit(vec![put(&pods, "n/b", Expect::Any, "four"), put(&pods, "m/x", Expect::Any, "x")]).await.unwrap();
    let cases: [(Revision, &[&str]); 5] = [
        (0, &[]),
        (1, &["n/a=one at 1."]),
        (2, &["n/a=one at 1.", "n/b=two at 2."]),
        (4, &["n/b=two at 2.", "n/c=three at 4."]),
        (6, &["n/b=four at 5.", "n/c=three at 4."]),
    ];
    for (revision, expected) in cases {
        let listing = store.list_at(&pods, "n/", revision).unwrap();
        assert_eq!(
            (listing.revision, text(&listing)),
            (revision, expected.iter().map(|line| line.to_string()).collect())
        );
    }
    assert_eq!(store.list_at(&pods, "", 99).unwrap().revision, 6, "the future is not known yet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_get_increasing_revisions_and_read_what_they_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let pods = store.bucket("pods");
    let mut watch = store.watch(&pods, 0).unwrap();
    let writers: Vec<_> = (0..32)
        .map(|number| {
            let (store, pods) = (store.clone(), pods.clone());
            tokio::spawn(async move {
                let key = format!("writer-{number}");
                let mut last = 0;
                for _ in 0..20 {
                    let expect = if last == 0 { Expect::Absent } else { Expect::Revision(last) };
                    let entries = store.commit(vec![put(&pods, &key, expect, "x")]).await.unwrap();
                    assert!(entries[0].revision > last);
                    last = entries[0].revision;
                    assert!(store.revision() >= last);
                    assert_eq!(store.get(&pods, &key).unwrap().revision, last);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut revisions = Vec::new();
    while revisions.len() < 640 {
        revisions.extend(watch.next().await.unwrap().iter().map(|event| event.revision));
    }
    assert_eq!(revisions, (1..=640).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_and_its_watch_leave_no_gap_beside_busy_writers() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let (store, pods) = (store.clone(), pods.clone());
            tokio::spawn(async move {
                for round in 0..100 {
                    let key = format!("{}", (number + round) % 5);
                    // Both may be refused when another writer was faster; the listings must agree all the same.
                    let _ = store.commit(vec![put(&pods, &key, Expect::Any, "x")]).await;
                    let _ = store.commit(vec![delete(&pods, &key, Expect::Any)]).await;
                }
            })
        })
        .collect();
    let mut readers = Vec::new();
    while !writers.iter().all(|writer| writer.is_finished()) {
        readers.push(store.list_and_watch(&pods, ""));
        tokio::task::yield_now().await;
    }
    readers.truncate(200);
    store.commit(vec![put(&pods, "last", Expect::Absent, "x")]).await.unwrap();
    for (listing, mut watch) in readers {
        let mut seen: std::collections::BTreeMap<_, _> =
            listing.entries.iter().map(|entry| (entry.key.clone(), entry.revision)).collect();
        while watch.position() < store.revision() {
            for event in watch.next().await.unwrap() {
                match event.kind {
                    EventKind::Created | EventKind::Updated => seen.insert(event.entry.key.clone(), event.revision),
                    EventKind::Deleted => seen.remove(&event.entry.key),
                };
            }
        }
        let now = store.list(&pods, "").entries.iter().map(|entry| (entry.key.clone(), entry.revision)).collect();
        assert_eq!(seen, now, "from revision {}", listing.revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_many_contenders_creates_a_key() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let contenders = (0..32).map(|_| {
        let (store, pods) = (store.clone(), pods.clone());
        tokio::spawn(async move { store.commit(vec![put(&pods, "a", Expect::Absent, "mine")]).await.is_ok() })
    });
    let mut winners = 0;
    for contender in contenders.collect::<Vec<_>>() {
        winners += usize::from(contender.await.unwrap());
    }
    assert_eq!((winners, store.revision()), (1, 1));
}

#[tokio::test]
async fn a_second_process_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let error = try_open(dir.path(), Options::default()).err().unwrap();
    assert!(matches!(&error, StoreError::Locked { path } if path == dir.path()), "{error}");
    drop(first);
    open(dir.path());
}

#[tokio::test]
async fn a_transaction_over_the_limit_is_refused_and_the_store_goes_on() {
    let store = TestStore::in_memory(Options::default());
    let pods = store.bucket("pods");
    let huge = Draft { head: vec![b'x'; 65 << 20], tail: Vec::new(), meta: 0 };
    let write = Write { bucket: pods.clone(), key: "a".into(), expect: Expect::Any, change: Change::Put(huge) };
    assert!(matches!(store.commit(vec![write]).await, Err(CommitError::Io(_))));
    store.commit(vec![put(&pods, "a", Expect::Absent, "one")]).await.unwrap();
}

#[tokio::test]
async fn a_backup_restores_to_the_same_state_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (home, file, elsewhere) = (dir.path().join("home"), dir.path().join("backup"), dir.path().join("elsewhere"));
    let store = open(&home);
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Any, "one"), put(&pods, "b", Expect::Any, "two")]).await.unwrap();
    store.commit(vec![delete(&pods, "b", Expect::Any)]).await.unwrap();
    let verified = store.backup(&file).unwrap();
    assert_eq!((verified.revision, verified.objects, verified.is_torn), (3, 1, false));
    store.commit(vec![put(&pods, "c", Expect::Any, "after the backup")]).await.unwrap();
    assert!(matches!(store.backup(&file), Err(StoreError::Exists { .. })));

    assert_eq!(restore(&file, &elsewhere).unwrap(), verified);
    let restored = open(&elsewhere);
    assert_eq!(
        (restored.revision(), text(&restored.list(&restored.bucket("pods"), ""))),
        (3, vec!["a=one at 1.".into()])
    );
    drop(restored);
    assert!(matches!(restore(&file, &elsewhere), Err(StoreError::Exists { .. })), "a store is never overwritten");
}

#[tokio::test]
async fn a_cut_off_backup_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("home"));
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Any, "one")]).await.unwrap();
    let file = dir.path().join("backup");
    let bytes = store.backup(&file).unwrap().bytes;
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(bytes - 1).unwrap();
    let error = restore(&file, &dir.path().join("elsewhere")).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
