//! Measures the store: commits per second, start-up, fan-out to watchers, and writers beside a compaction.
//!
//! Prints one JSON line per figure. Every figure has a reference taken in the same run on the same disk (bare
//! append and fdatasync, or bare reading), because only the ratio travels from one machine to another.
//! Usage: `store_bench [directory]`; the directory decides which disk is measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use volley_cluster::store::{Bucket, Change, Draft, Expect, Options, Store, Write};

/// What an API server would keep parsed beside each object.
type Labels = BTreeMap<String, String>;
type BenchStore = Store<Labels>;
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const VALUE_BYTES: usize = 2048;
const OBJECTS: usize = 100_000;
const WATCHERS: usize = 1000;
const WATCHED_EVENTS: usize = 200;
/// Reference and measurement alternate this often and the median ratio counts, so that noise of the machine falls
/// on both alike.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(600);

fn main() -> Outcome<()> {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let dir = tempfile::tempdir_in(parent)?;
    for (writers, preallocate_bytes) in [(1, 0), (1, 1 << 20), (8, 1 << 20), (32, 1 << 20), (256, 1 << 20)] {
        let options = Options { preallocate_bytes, ..Options::default() };
        runtime.block_on(measure_commits(dir.path(), writers, options))?;
    }
    runtime.block_on(measure_fan_out(dir.path()))?;
    runtime.block_on(measure_start_and_compaction(dir.path()))
}

fn report(figure: &str, unit: &str, value: f64, (reference, reference_value): (&str, f64), ratio: f64) {
    println!(
        "{{\"figure\":\"{figure}\",\"unit\":\"{unit}\",\"value\":{value:.3},\"reference\":\"{reference}\",\
         \"reference_value\":{reference_value:.3},\"ratio\":{ratio:.3}}}"
    );
}

async fn measure_commits(dir: &Path, writers: usize, options: Options) -> Outcome<()> {
    let home = tempfile::tempdir_in(dir)?;
    let preallocation = if options.preallocate_bytes == 0 { "_no_preallocation" } else { "" };
    let store = open(home.path(), options)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let reference = bare_appends_per_second(dir)?;
        rounds.push((commits_per_second(&store, writers).await?, reference));
    }
    let (value, reference) = median_by_ratio(rounds);
    let figure = format!("commits_{writers}_writers{preallocation}");
    report(&figure, "commits/s", value, ("bare append+fdatasync per second", reference), value / reference);
    Ok(())
}

/// What the disk does without a store: one writer, one file that grows, one sync for each value.
fn bare_appends_per_second(dir: &Path) -> Outcome<f64> {
    let mut file = tempfile::tempfile_in(dir)?;
    let value = vec![b'x'; VALUE_BYTES];
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < ROUND {
        file.write_all(&value)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

async fn commits_per_second(store: &Arc<BenchStore>, writers: usize) -> Outcome<f64> {
    let bucket = store.bucket("bench");
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|number| {
            let (store, bucket) = (store.clone(), bucket.clone());
            tokio::spawn(async move {
                let mut count = 0_u32;
                while start.elapsed() < ROUND {
                    store.commit(vec![put(&bucket, format!("{number}-{}", count % 100))]).await?;
                    count += 1;
                }
                Ok::<u32, volley_cluster::store::CommitError<Labels>>(count)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(f64::from(total) / start.elapsed().as_secs_f64())
}

/// One event after the other to a thousand waiting tasks; an event counts once everyone has it.
async fn measure_fan_out(dir: &Path) -> Outcome<()> {
    let home = tempfile::tempdir_in(dir)?;
    let store = open(home.path(), Options::default())?;
    let bucket = store.bucket("bench");
    let (done, mut finished) = tokio::sync::mpsc::channel(WATCHERS);
    for _ in 0..WATCHERS {
        let (mut watch, done) = (store.watch(&bucket, 0)?, done.clone());
        tokio::spawn(async move {
            while let Ok(events) = watch.next().await {
                if done.send(events.len()).await.is_err() {
                    return;
                }
            }
        });
    }
    let reference = bare_appends_per_second(dir)?;
    let start = Instant::now();
    for _ in 0..WATCHED_EVENTS {
        store.commit(vec![put(&bucket, "watched".into())]).await?;
        let mut delivered = 0;
        while delivered < WATCHERS {
            delivered += finished.recv().await.ok_or("a watcher ended")?;
        }
    }
    let value = (WATCHERS * WATCHED_EVENTS) as f64 / start.elapsed().as_secs_f64();
    let reference = ("bare append+fdatasync per second", reference);
    report("fan_out_1000_watchers", "deliveries/s", value, reference, value / reference.1);
    Ok(())
}

async fn measure_start_and_compaction(dir: &Path) -> Outcome<()> {
    let home = tempfile::tempdir_in(dir)?;
    let store = open(home.path(), Options::default())?;
    let bucket = store.bucket("bench");
    for batch in 0..OBJECTS / 100 {
        store.commit((0..100).map(|number| put(&bucket, format!("{batch:05}-{number:02}"))).collect()).await?;
    }
    drop(store);
    let before = resident_mib()?;
    let store = open(home.path(), Options::default())?;
    let resident = resident_mib()? - before;
    let values = (OBJECTS * VALUE_BYTES) as f64 / f64::from(1 << 20);
    report("resident_100k_objects", "MiB", resident, ("the values alone, MiB", values), resident / values);
    drop(store);
    measure_start(home.path(), "start_100k_objects")?;

    let store = open(home.path(), Options::default())?;
    let quiet = slowest_commit_ms(&store, Duration::from_secs(2), None).await?;
    let compacting = tokio::spawn({
        let store = store.clone();
        async move { store.compact().await }
    });
    let busy = slowest_commit_ms(&store, Duration::from_secs(20), Some(&compacting)).await?;
    compacting.await??;
    report(
        "slowest_commit_beside_compaction",
        "ms",
        busy,
        ("slowest commit without compaction, ms", quiet),
        busy / quiet,
    );
    drop(store);
    measure_start(home.path(), "start_100k_objects_compacted")
}

fn resident_mib() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn measure_start(home: &Path, figure: &str) -> Outcome<()> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let reference = {
            let start = Instant::now();
            let mut bytes = Vec::new();
            File::open(BenchStore::log_path(home))?.read_to_end(&mut bytes)?;
            start.elapsed().as_secs_f64() * 1000.0
        };
        let start = Instant::now();
        let store = open(home, Options::default())?;
        rounds.push((start.elapsed().as_secs_f64() * 1000.0, reference));
        drop(store);
    }
    let (value, reference) = median_by_ratio(rounds);
    report(figure, "ms", value, ("bare read of the log, ms", reference), value / reference);
    Ok(())
}

async fn slowest_commit_ms(
    store: &Arc<BenchStore>,
    limit: Duration,
    until: Option<&tokio::task::JoinHandle<Result<(), volley_cluster::store::StoreError>>>,
) -> Outcome<f64> {
    let bucket = store.bucket("latency");
    let begin = Instant::now();
    let mut slowest = Duration::ZERO;
    while begin.elapsed() < limit && !until.is_some_and(|task| task.is_finished()) {
        let start = Instant::now();
        store.commit(vec![put(&bucket, "key".into())]).await?;
        slowest = slowest.max(start.elapsed());
    }
    Ok(slowest.as_secs_f64() * 1000.0)
}

fn open(dir: &Path, options: Options) -> Outcome<Arc<BenchStore>> {
    Ok(Store::open(dir, options, labels_of)?)
}

fn labels_of(_bucket: &str, _key: &str, value: &[u8]) -> Labels {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        labels: Labels,
    }
    serde_json::from_slice::<Object>(value).expect("the benchmark wrote it").metadata.labels
}

/// A pod-like object of `VALUE_BYTES`.
fn put(bucket: &Bucket, key: String) -> Write<Labels> {
    let labels = Labels::from([("app".into(), "bench".into()), ("key".into(), key.clone())]);
    let head = format!(
        "{{\"metadata\":{{\"labels\":{{\"app\":\"bench\",\"key\":\"{key}\"}},\"name\":\"{key}\",\"resourceVersion\":\""
    );
    let mut tail = String::from("\"},\"spec\":{\"env\":[");
    while head.len() + tail.len() < VALUE_BYTES - 64 {
        tail.push_str("{\"name\":\"SETTING\",\"value\":\"some words of text\"},");
    }
    tail.push_str("{}]}}");
    let draft = Draft { head: head.into_bytes(), tail: tail.into_bytes(), meta: labels };
    Write { bucket: bucket.clone(), key: key.into(), expect: Expect::Any, change: Change::Put(draft) }
}

fn median_by_ratio(mut rounds: Vec<(f64, f64)>) -> (f64, f64) {
    rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    rounds[rounds.len() / 2]
}
