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
    try_open(dir, Options::default()).expect("the store opens")
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
