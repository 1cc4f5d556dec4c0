//! Broken disks and damaged files: what is repaired, what is refused, and what the message says.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::tests::{TestStore, open, put, small, text, try_open};
use super::*;

/// Commits one key per transaction, and hands back where each frame ends.
async fn fill(dir: &Path, keys: &[&str]) -> Vec<u64> {
    let store = open(dir);
    let pods = store.bucket("pods");
    let mut ends = Vec::new();
    for key in keys {
        store.commit(vec![put(&pods, key, Expect::Absent, "value")]).await.unwrap();
        ends.push(verify(&TestStore::log_path(dir)).unwrap().bytes);
    }
    ends
}

fn keys_of(store: &TestStore) -> Vec<String> {
    store.list(&store.bucket("pods"), "").entries.iter().map(|entry| entry.key.to_string()).collect()
}

fn problem(dir: &Path) -> String {
    try_open(dir, Options::default()).err().expect("the store is refused").to_string()
}

#[tokio::test]
async fn a_tail_torn_at_any_byte_is_cut_back_to_the_last_whole_frame() {
    let dir = tempfile::tempdir().unwrap();
    let ends = fill(dir.path(), &["a", "b", "c"]).await;
    let path = TestStore::log_path(dir.path());
    let whole = fs::read(&path).unwrap();
    let (start, end) = (ends[1] as usize, ends[2] as usize);
    for cut in start..end {
        // Once as a shorter file, once with the zeros of preallocation behind the cut.
        let mut zeroed = whole.clone();
        zeroed[cut..end].fill(0);
        for bytes in [&whole[..cut], &zeroed[..]] {
            fs::write(&path, bytes).unwrap();
            let is_whole = bytes.len() >= end && bytes[..end] == whole[..end];
            let store = open(dir.path());
            let expected: &[&str] = if is_whole { &["a", "b", "c"] } else { &["a", "b"] };
            assert_eq!(keys_of(&store), expected, "cut at {cut}");
            let pods = store.bucket("pods");
            store.commit(vec![put(&pods, "d", Expect::Absent, "value")]).await.unwrap();
            drop(store);
            let store = open(dir.path());
            let revision = store.get(&store.bucket("pods"), "d").map(|entry| entry.revision);
            assert_eq!(revision, Some(expected.len() as u64 + 1), "cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_before_a_whole_frame_is_refused_with_its_offset() {
    let dir = tempfile::tempdir().unwrap();
    let ends = fill(dir.path(), &["a", "b", "c"]).await;
    let path = TestStore::log_path(dir.path());
    let whole = fs::read(&path).unwrap();
    for at in ends[0]..ends[1] {
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let expected = format!(
            "`{}` is damaged at byte {}: a frame does not match its checksum, and whole frames follow it\nhint: restore a backup",
            path.display(),
            ends[0]
        );
        assert_eq!(problem(dir.path()), expected, "flipped at {at}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "a refused file is left as it is");
    }
}

#[tokio::test]
async fn damage_in_the_snapshot_is_never_taken_for_a_torn_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Absent, "value")]).await.unwrap();
    store.compact().await.unwrap();
    drop(store);
    let path = TestStore::log_path(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(problem(dir.path()).contains("damaged at byte 40: the snapshot at its start is not whole"));
}

#[tokio::test]
async fn a_newer_format_is_refused_with_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), &["a"]).await;
    let path = TestStore::log_path(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let message = problem(dir.path());
    assert!(message.contains("has format version 7, and this program reads up to version 1"), "{message}");
}

#[tokio::test]
async fn a_file_that_is_not_a_store_or_has_a_bad_header_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), &["a"]).await;
    let path = TestStore::log_path(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(problem(dir.path()).contains("damaged at byte 0: the file header"));
    for foreign in ["", "SQLite format 3"] {
        fs::write(&path, foreign).unwrap();
        assert!(problem(dir.path()).contains("is not a store"));
    }
}

/// What the next changes of files run into.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// No file can grow beyond this; the write that meets the limit is short.
    Limit(u64),
    Sync,
    DirectorySync,
    /// A disk that answers neither writes nor truncation.
    Dead,
}

struct FaultyDisk {
    fault: Mutex<Fault>,
}

impl FaultyDisk {
    fn options() -> (Arc<FaultyDisk>, Options) {
        let disk = Arc::new(FaultyDisk { fault: Mutex::new(Fault::None) });
        let options = Options { disk: disk.clone(), ..small() };
        (disk, options)
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    fn fail_when(&self, faults: &[Fault]) -> io::Result<()> {
        if faults.contains(&*self.fault.lock()) { Err(io::Error::other("injected")) } else { Ok(()) }
    }
}

impl Disk for FaultyDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.fail_when(&[Fault::Dead])?;
        let Fault::Limit(limit) = *self.fault.lock() else { return MachineDisk.write(file, bytes, offset) };
        let fits = limit.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if fits == 0 { Err(io::ErrorKind::StorageFull.into()) } else { MachineDisk.write(file, &bytes[..fits], offset) }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.fail_when(&[Fault::Sync, Fault::Dead])?;
        MachineDisk.sync(file)
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.fail_when(&[Fault::Dead])?;
        MachineDisk.truncate(file, length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        MachineDisk.rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.fail_when(&[Fault::DirectorySync])?;
        MachineDisk.sync_directory(path)
    }
}

#[tokio::test]
async fn a_full_disk_rolls_back_and_the_store_recovers_when_space_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, options) = FaultyDisk::options();
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    let large = "x".repeat(5000);
    for limit in [0, 41, 50, 4000, 5000] {
        disk.set(Fault::Limit(limit));
        let failed = store.commit(vec![put(&pods, "a", Expect::Absent, &large)]).await;
        assert!(matches!(failed, Err(CommitError::Full(_))), "{failed:?}");
        assert_eq!((store.revision(), store.get(&pods, "a").is_some()), (0, false));
        assert_eq!(fs::metadata(TestStore::log_path(dir.path())).unwrap().len(), 40, "rolled back");
    }
    disk.set(Fault::None);
    store.commit(vec![put(&pods, "a", Expect::Absent, &large)]).await.unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!((keys_of(&store), store.revision()), (vec!["a".to_owned()], 1));
}

#[tokio::test]
async fn a_frame_that_fits_is_written_although_preallocation_does_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, options) = FaultyDisk::options();
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    disk.set(Fault::Limit(1000));
    store.commit(vec![put(&pods, "a", Expect::Absent, "x")]).await.unwrap();
    disk.set(Fault::None);
    store.commit(vec![put(&pods, "b", Expect::Absent, "x")]).await.unwrap();
    assert_eq!(fs::metadata(TestStore::log_path(dir.path())).unwrap().len(), 4096);
    drop(store);
    assert_eq!(keys_of(&open(dir.path())), ["a", "b"]);
}

#[tokio::test]
async fn short_writes_are_continued() {
    struct ShortDisk;
    impl Disk for ShortDisk {
        fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
            MachineDisk.write(file, &bytes[..bytes.len().min(7)], offset)
        }
        fn sync(&self, file: &File) -> io::Result<()> {
            MachineDisk.sync(file)
        }
        fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
            MachineDisk.truncate(file, length)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            MachineDisk.rename(from, to)
        }
        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            MachineDisk.sync_directory(path)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options { disk: Arc::new(ShortDisk), preallocate_bytes: 256, ..Options::default() };
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Absent, &"x".repeat(300))]).await.unwrap();
    store.compact().await.unwrap();
    drop(store);
    assert_eq!(keys_of(&open(dir.path())), ["a"]);
}

#[tokio::test]
async fn after_a_failed_sync_the_store_is_read_only_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, options) = FaultyDisk::options();
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Absent, "one")]).await.unwrap();
    disk.set(Fault::Sync);
    let failed = store.commit(vec![put(&pods, "b", Expect::Absent, "two")]).await;
    assert!(matches!(failed, Err(CommitError::Io(_))));
    disk.set(Fault::None);
    let failed = store.commit(vec![put(&pods, "b", Expect::Absent, "two")]).await;
    assert!(matches!(failed, Err(CommitError::Io(_))), "a disk that works again proves nothing about lost pages");
    assert!(matches!(store.compact().await, Err(StoreError::ReadOnly(_))));
    assert!(store.failure().is_some(), "whoever asks is told");
    assert_eq!((text(&store.list(&pods, "")), store.revision()), (vec!["a=one at 1.".into()], 1));
}

#[tokio::test]
async fn a_write_that_cannot_be_rolled_back_makes_the_store_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, options) = FaultyDisk::options();
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    disk.set(Fault::Dead);
    assert!(matches!(store.commit(vec![put(&pods, "a", Expect::Any, "one")]).await, Err(CommitError::Io(_))));
    disk.set(Fault::None);
    assert!(matches!(store.commit(vec![put(&pods, "a", Expect::Any, "one")]).await, Err(CommitError::Io(_))));
}

#[tokio::test]
async fn a_failed_compaction_leaves_the_log_and_the_store_working() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, options) = FaultyDisk::options();
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Absent, "one")]).await.unwrap();
    disk.set(Fault::Limit(60));
    assert!(matches!(store.compact().await, Err(StoreError::Io { .. })));
    assert!(!dir.path().join("store.log.new").exists(), "the space is given back");
    disk.set(Fault::None);
    store.commit(vec![put(&pods, "b", Expect::Absent, "two")]).await.unwrap();
    store.compact().await.unwrap();
    drop(store);
    assert_eq!(keys_of(&open(dir.path())), ["a", "b"]);
}

#[tokio::test]
async fn a_rename_that_may_not_last_makes_the_store_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, options) = FaultyDisk::options();
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    store.commit(vec![put(&pods, "a", Expect::Absent, "one")]).await.unwrap();
    disk.set(Fault::DirectorySync);
    assert!(matches!(store.compact().await, Err(StoreError::ReadOnly(_))));
    assert!(matches!(store.commit(vec![put(&pods, "b", Expect::Any, "two")]).await, Err(CommitError::Io(_))));
    drop(store);
    assert_eq!(keys_of(&open(dir.path())), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_goes_on_beside_writers_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Compaction by itself as often as possible, besides the ones asked for.
    let options = Options { compact_bytes_min: 2000, ..small() };
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let (store, pods) = (store.clone(), pods.clone());
            tokio::spawn(async move {
                for round in 0..60 {
                    let key = format!("{number}-{}", round % 3);
                    store.commit(vec![put(&pods, &key, Expect::Any, &"x".repeat(200))]).await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..10 {
        store.compact().await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // The first may join one that began before the last writes; the second begins after them.
    store.compact().await.unwrap();
    store.compact().await.unwrap();
    let before = (store.revision(), text(&store.list(&pods, "")));
    assert_eq!((before.0, before.1.len()), (480, 24));
    drop(store);
    let size = fs::metadata(TestStore::log_path(dir.path())).unwrap().len();
    assert!(size < 10_000, "24 objects of 200 bytes take {size} bytes");
    let store = open(dir.path());
    assert_eq!((store.revision(), text(&store.list(&pods, ""))), before);
}

#[tokio::test]
async fn the_log_is_compacted_by_itself_when_most_of_it_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { compact_bytes_min: 10_000, preallocate_bytes: 0, ..Options::default() };
    let store = try_open(dir.path(), options).unwrap();
    let pods = store.bucket("pods");
    // Nobody can tell how many commits pass while the compaction thread works, only that it ends.
    let mut largest = 0;
    for _ in 0..100_000 {
        store.commit(vec![put(&pods, "a", Expect::Any, &"x".repeat(1000))]).await.unwrap();
        let size = fs::metadata(TestStore::log_path(dir.path())).unwrap().len();
        if size < largest {
            assert!(largest > 10_000, "{largest} bytes were not worth it");
            return;
        }
        largest = size;
    }
    panic!("the log grew to {largest} bytes");
}
