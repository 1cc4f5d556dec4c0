//! Crashes and power losses at every step: each leaves a store that opens and has all that was acknowledged.
//!
//! A disk keeps a picture of the directory before and after every change, as a crash of the process would leave it
//! and as a loss of power would: only synced bytes, under names whose directory was synced.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::tests::{TestStore, open, put, small, try_open};
use super::*;

type Files = BTreeMap<String, Vec<u8>>;

/// The files as a crash may leave them, and the last revision that someone was told is durable.
struct Picture {
    acknowledged: Revision,
    files: Files,
}

#[derive(Default)]
struct Durable {
    /// By inode: the bytes at the last sync.
    content: BTreeMap<u64, Vec<u8>>,
    /// The directory at its last sync.
    names: BTreeMap<String, u64>,
}

/// One lock around every change, so that a picture never shows half of one.
struct Photographer {
    dir: PathBuf,
    acknowledged: Arc<AtomicU64>,
    durable: Mutex<(Durable, Vec<Picture>)>,
}

impl Photographer {
    fn new(dir: &Path) -> Arc<Photographer> {
        fs::create_dir_all(dir).unwrap();
        let durable = Mutex::new((Durable { content: files(dir), names: names(dir) }, Vec::new()));
        Arc::new(Photographer { dir: dir.to_owned(), acknowledged: Arc::default(), durable })
    }

    fn around<T>(&self, change: impl FnOnce(&mut Durable) -> io::Result<T>) -> io::Result<T> {
        let (durable, pictures) = &mut *self.durable.lock();
        self.photograph(durable, pictures);
        let outcome = change(durable);
        self.photograph(durable, pictures);
        outcome
    }

    fn photograph(&self, durable: &Durable, pictures: &mut Vec<Picture>) {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let content = files(&self.dir);
        let picture = |names: &BTreeMap<String, u64>, content: &BTreeMap<u64, Vec<u8>>| {
            let file = |(name, inode): (&String, &u64)| (name.clone(), content.get(inode).cloned().unwrap_or_default());
            Picture { acknowledged, files: names.iter().map(file).collect() }
        };
        pictures.push(picture(&names(&self.dir), &content));
        pictures.push(picture(&durable.names, &durable.content));
    }

    fn pictures(&self) -> Vec<Picture> {
        std::mem::take(&mut self.durable.lock().1)
    }
}

fn names(dir: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    // A name may vanish while the directory is read: unfinished files are removed outside the seam.
    let named = entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.metadata().ok()?.ino())));
    named.collect()
}

fn files(dir: &Path) -> BTreeMap<u64, Vec<u8>> {
    names(dir).into_iter().filter_map(|(name, inode)| Some((inode, fs::read(dir.join(name)).ok()?))).collect()
}

impl Disk for Photographer {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // Half at a time, so that a picture shows a write cut in the middle.
        let half = bytes.len().div_ceil(2);
        self.around(|_| MachineDisk.write(file, &bytes[..half], offset))
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.around(|durable| {
            let inode = file.metadata()?.ino();
            let bytes = files(&self.dir).remove(&inode).expect("the store syncs only files in its directory");
            durable.content.insert(inode, bytes);
            Ok(())
        })
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.around(|_| MachineDisk.truncate(file, length))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.around(|_| MachineDisk.rename(from, to))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.around(|durable| {
            durable.names = names(path);
            Ok(())
        })
    }
}

async fn assert_recoverable(pictures: Vec<Picture>) {
    for picture in pictures {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &picture.files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let store = open(dir.path());
        let pods = store.bucket("pods");
        let revision = store.revision();
        assert!(revision >= picture.acknowledged, "{revision} < {}", picture.acknowledged);
        // Key n was written by revision n, so the keys are exactly the revisions up to now.
        assert_eq!(store.list(&pods, "").entries.len() as u64, revision);
        store.commit(vec![put(&pods, "after", Expect::Absent, "value")]).await.unwrap();
        assert!(!dir.path().join("store.log.new").exists());
    }
}

async fn commit_and_note(store: &TestStore, acknowledged: &AtomicU64, number: usize) {
    let pods = store.bucket("pods");
    let entries = store.commit(vec![put(&pods, &format!("{number:04}"), Expect::Absent, "value")]).await.unwrap();
    acknowledged.fetch_max(entries[0].revision, Ordering::SeqCst);
}

#[tokio::test]
async fn a_crash_at_any_step_of_the_first_start_and_commits_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Photographer::new(dir.path());
    let store = try_open(dir.path(), Options { disk: disk.clone(), preallocate_bytes: 256, ..small() }).unwrap();
    for number in 0..5 {
        commit_and_note(&store, &disk.acknowledged, number).await;
    }
    drop(store);
    let pictures = disk.pictures();
    assert!(pictures.len() > 50);
    assert_recoverable(pictures).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_step_of_compactions_beside_commits_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Photographer::new(dir.path());
    let store = try_open(dir.path(), Options { disk: disk.clone(), preallocate_bytes: 0, ..small() }).unwrap();
    for number in 0..5 {
        commit_and_note(&store, &disk.acknowledged, number).await;
    }
    disk.pictures();
    let writer = tokio::spawn({
        let (store, acknowledged) = (store.clone(), disk.acknowledged.clone());
        async move {
            for number in 5..20 {
                commit_and_note(&store, &acknowledged, number).await;
            }
        }
    });
    for _ in 0..3 {
        store.compact().await.unwrap();
    }
    writer.await.unwrap();
    drop(store);
    assert_recoverable(disk.pictures()).await;
}
