//! `kill -9` at random moments under 32 writers and a few watchers, again and again on the same home.

use crate::ledger::{Ledger, revision_of, value_of};
use crate::process::Server;
use futures::{StreamExt, future};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const NAMESPACE: &str = "crash";
const WRITERS: usize = 32;
const WATCHERS: usize = 4;
const KILLS: usize = 50;
/// A life ends after this many acknowledged writes: from "hardly begun" to "many batches in flight".
const WRITES_PER_LIFE: std::ops::Range<u64> = 0..400;
/// And a little later, so that the moment is not bound to an answer.
const AFTERLIFE_MICROSECONDS: std::ops::Range<u64> = 0..8_000;
/// On a slow machine a life ends without its writes, so that fifty fit in a minute.
const LIFE_MAX: Duration = Duration::from_millis(600);
/// Every connection ends with the process, so a client that waits on after this long waits for ever: hyper loses a request
/// that is handed to a connection in the moment of its end (hyperium/hyper#4122), and kube sets no limit.
const NOTICE_MAX: Duration = Duration::from_secs(5);
const SELECT: &str = "metadata.name!=kube-root-ca.crt";

/// A client's cache, kept by list and watch as client-go's reflector does.
#[derive(Default)]
struct Follower {
    objects: BTreeMap<String, Option<String>>,
    revision: u64,
    relists: usize,
    resumed: usize,
}

impl Follower {
    /// Follows until the connection breaks or an object of this name arrives.
    async fn follow(&mut self, maps: &Api<ConfigMap>, until: &str) -> Option<()> {
        if self.revision == 0 {
            self.relist(maps).await?;
        }
        loop {
            let params = WatchParams::default().fields(SELECT);
            let mut events = maps.watch(&params, &self.revision.to_string()).await.ok()?.boxed();
            let mut expired = false;
            while let Some(event) = events.next().await {
                match event.ok()? {
                    WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                        self.advance(&map);
                        self.objects.insert(map.name_any(), value_of(&map));
                        if map.name_any() == until {
                            return Some(());
                        }
                    }
                    WatchEvent::Deleted(map) => {
                        self.advance(&map);
                        let known = self.objects.remove(&map.name_any());
                        assert!(known.is_some(), "{} was deleted but never seen", map.name_any());
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => {
                        assert_eq!(status.code, 410, "{status:?}");
                        expired = true;
                    }
                }
            }
            if expired {
                self.relist(maps).await?;
            } else {
                self.resumed += 1;
                return None;
            }
        }
    }

    fn advance(&mut self, map: &ConfigMap) {
        let revision = revision_of(map.resource_version());
        assert!(revision > self.revision, "revision {revision} after {}", self.revision);
        self.revision = revision;
    }

    async fn relist(&mut self, maps: &Api<ConfigMap>) -> Option<()> {
        let list = maps.list(&ListParams::default().fields(SELECT)).await.ok()?;
        let revision = revision_of(list.metadata.resource_version.clone());
        assert!(revision >= self.revision, "the list went back from {} to {revision}", self.revision);
        self.objects = list.iter().map(|map| (map.name_any(), value_of(map))).collect();
        self.revision = revision;
        self.relists += 1;
        Some(())
    }
}

fn seed() -> u64 {
    let chosen = std::env::var("CRASH_SEED").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or_else(rand::random)
}

// K-WATCH-1 K-WATCH-6 K-OBJ-1
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_fifty_kills_under_load() {
    let seed = seed();
    println!("CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("a home");
    let mut ledgers: Vec<Ledger> = (0..WRITERS).map(|writer| Ledger::new(writer, seed)).collect();
    let mut followers: Vec<Follower> = (0..WATCHERS).map(|_| Follower::default()).collect();
    let (started, mut highest) = (Instant::now(), 0);
    for life in 0..=KILLS {
        let mut server = Server::start(&home).await;
        let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), NAMESPACE);
        if life == 0 {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(NAMESPACE.into());
            Api::all(server.client.clone()).create(&PostParams::default(), &namespace).await.expect("created");
        }
        let list = maps.list(&ListParams::default().fields(SELECT)).await.expect("listed");
        let revision = revision_of(list.metadata.resource_version.clone());
        assert!(revision >= highest, "life {life} began at revision {revision}, but {highest} was seen before");
        ledgers.iter_mut().for_each(|ledger| ledger.check(&list));
        if life == KILLS {
            finish(&maps, &mut followers).await;
            break;
        }
        let (count, mut counted) = watch::channel(0);
        let (enough, delay) = (random.random_range(WRITES_PER_LIFE), random.random_range(AFTERLIFE_MICROSECONDS));
        let writing = future::join_all(ledgers.iter_mut().map(|ledger| ledger.write_until_gone(&maps, &count)));
        let following = future::join_all(followers.iter_mut().map(|follower| follower.follow(&maps, "never")));
        let killing = async {
            let _ = tokio::time::timeout(LIFE_MAX, counted.wait_for(|count| *count >= enough)).await;
            tokio::time::sleep(Duration::from_micros(delay)).await;
            server.kill();
            // What was answered before the end is still read and counts; a request that was lost is in doubt.
            tokio::time::sleep(NOTICE_MAX).await;
        };
        future::select(pin!(future::join(writing, following)), pin!(killing)).await;
        let seen = ledgers.iter().map(|ledger| ledger.revision).chain(followers.iter().map(|f| f.revision));
        highest = seen.fold(highest, u64::max);
    }
    let writes: u64 = ledgers.iter().map(Ledger::acknowledged_writes).sum();
    let relists: usize = followers.iter().map(|follower| follower.relists).sum();
    println!("{writes} acknowledged writes, {KILLS} kills, {relists} relists in {:?}", started.elapsed());
    assert!(writes > 10 * KILLS as u64, "only {writes} writes: the load was no load");
}

/// Everything stands still but one last write: every follower ends with exactly what a list shows.
async fn finish(maps: &Api<ConfigMap>, followers: &mut [Follower]) {
    let mut last = ConfigMap::default();
    last.metadata.name = Some("zz-last".into());
    let following = future::join_all(followers.iter_mut().map(|follower| async {
        // A follower that listed after the last write has it already.
        if !follower.objects.contains_key("zz-last") {
            let followed = tokio::time::timeout(Duration::from_secs(10), follower.follow(maps, "zz-last")).await;
            assert!(followed.is_ok() || follower.objects.contains_key("zz-last"), "the last write never came");
        }
    }));
    let write = async { maps.create(&PostParams::default(), &last).await.expect("created") };
    future::join(following, write).await;
    let list = maps.list(&ListParams::default().fields(SELECT)).await.expect("listed");
    let present: BTreeMap<String, Option<String>> = list.iter().map(|map| (map.name_any(), value_of(map))).collect();
    for follower in followers {
        assert_eq!(follower.objects, present);
    }
}
