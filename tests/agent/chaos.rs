//! Nothing lost, nothing twice: every part is killed again and again while submissions flow.
//!
//! `VOLLEY_CHAOS_ITEMS` says how many; the usual number fits a run of all tests.

use crate::command::PATIENCE;
use crate::site::{Site, until_within, with_ledger};
use rand::RngExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use volley_client::items::Item;

const ITEMS_DEFAULT: usize = 40;
/// Nobody is killed for longer than this without any item having ended in between.
const LULL_MAX: Duration = Duration::from_secs(10);
pub const KINDS: [&str; 3] = ["jobs", "gangs", "torch"];

/// Each rank notes that it ran and says so; the first waits for the second, so that a job ends with both.
const SCRIPT: &str = r#"rank=${RANK:-${VC_TASK_INDEX:-0}}
echo "rank $rank ran"
echo ran >>/ledger/$WANDB_RUN_ID.$VOLLEY_ATTEMPT.$rank
if test "$rank" = 0 && test -n "$OTHERS"; then
  until test -e /ledger/$WANDB_RUN_ID.$VOLLEY_ATTEMPT.1; do sleep 0.05; done
fi
sleep 0.$(($(printf %d 0x$(printf %s "$WANDB_RUN_ID" | md5sum | cut -c1)) % 10))"#;

fn items() -> usize {
    std::env::var("VOLLEY_CHAOS_ITEMS").ok().and_then(|number| number.parse().ok()).unwrap_or(ITEMS_DEFAULT)
}

fn container(name: &str, has_others: bool) -> Value {
    let environment = if has_others { json!([{ "name": "OTHERS", "value": "1" }]) } else { json!([]) };
    json!({ "name": name, "image": "${image_uri}", "env": environment })
}

/// A Job, a Volcano Job of two, a PyTorchJob of two.
pub fn configs(site: &Site) -> [Value; 3] {
    let pod = |name: &str, has_others| json!({ "restartPolicy": "Never", "containers": [container(name, has_others)] });
    let job =
        json!({ "kind": "Job", "apiVersion": "batch/v1", "spec": { "template": { "spec": pod("main", false) } } });
    let gang = json!({ "kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "metadata": { "name": "gang-${run_id}" },
        "spec": { "minAvailable": 2, "schedulerName": "volcano", "plugins": { "env": [] },
            "tasks": [{ "name": "rank", "replicas": 2, "template": { "spec": pod("main", true) } }] } });
    let replica = || json!({ "replicas": 1, "restartPolicy": "Never", "template": { "spec": pod("pytorch", true) } });
    let torch = json!({ "kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1", "metadata": { "name": "torch-${run_id}" },
        "spec": { "pytorchReplicaSpecs": { "Master": replica(), "Worker": replica() } } });
    let replicas = ["/spec/pytorchReplicaSpecs/Master/template/spec", "/spec/pytorchReplicaSpecs/Worker/template/spec"];
    [
        with_ledger(job, &["/spec/template/spec"], &site.ledger),
        with_ledger(gang, &["/spec/tasks/0/template/spec"], &site.ledger),
        with_ledger(torch, &replicas, &site.ledger),
    ]
}

pub fn make_queues(site: &Site) {
    for (name, config) in KINDS.into_iter().zip(configs(site)) {
        site.make_queue(name, config);
    }
}

/// Ranks that have run.
fn ran(site: &Site) -> usize {
    fs::read_dir(&site.ledger).unwrap().count()
}

// L-33, L-4, A-18
#[test]
fn every_item_ends_once_and_every_rank_runs_once_while_all_parts_are_killed() {
    let count = items();
    let mut site = Site::start();
    make_queues(&site);
    let url = site.client.url().to_owned();
    site.add_agent(&KINDS, &url);
    site.add_agent(&KINDS, &url);
    let begun = Instant::now();
    let mut submitted: Vec<(String, &str)> = Vec::new();
    let mut kills: BTreeMap<String, usize> = BTreeMap::new();
    let mut random = rand::rng();
    let ranks = |queue: &str| if queue == "jobs" { 1 } else { 2 };
    // Half of them wait already when the first part is killed.
    let mut last = (0, Instant::now());
    let mut wanted = 0;
    // However many items there are, the parts are killed some dozen times.
    let lull_ranks = 8.max(count / 20);
    loop {
        let more = if submitted.is_empty() { count / 2 } else { random.random_range(1..=5) };
        for _ in 0..more.min(count - submitted.len()) {
            let queue = KINDS[submitted.len() % KINDS.len()];
            submitted.push((site.submit(queue, &format!("chaos-{}", submitted.len()), SCRIPT), queue));
        }
        let total: usize = submitted.iter().map(|(_, queue)| ranks(queue)).sum();
        let now = ran(&site);
        if submitted.len() == count && now >= total {
            break;
        }
        site.revive();
        let is_due = now >= wanted || last.1.elapsed() > LULL_MAX;
        if is_due {
            let victim = site.strike(random.random_range(0..site.parts()));
            *kills.entry(victim).or_default() += 1;
            wanted = now + random.random_range(1..=lull_ranks);
            last = (now, Instant::now());
        }
        let lull = begun.elapsed().as_secs() / 600;
        assert!(lull < 1 + count as u64 / 100, "{now} of {total} ranks ran\n{}", site.logs());
        std::thread::park_timeout(Duration::from_millis(20));
    }
    site.revive();
    let mut all: Vec<(Item, usize)> = Vec::new();
    for (id, queue) in &submitted {
        let item = until_within(2 * PATIENCE, &format!("{id} of {queue} ends"), || {
            Some(site.item(id)).filter(|item| item.end.is_some())
        });
        all.push((item, ranks(queue)));
    }
    let took = begun.elapsed();
    println!("{count} items in {took:.1?}, killed: {kills:?}");
    check_ledger(&site, &all);
    check_lines(&site, &all);
    check_events(&site, &all);
}

/// One line for each rank of each attempt, and nothing else.
fn check_ledger(site: &Site, all: &[(Item, usize)]) {
    let mut expected = BTreeMap::new();
    for (item, ranks) in all {
        assert_eq!((item.end.as_deref(), item.attempt), (Some("finished"), 1), "{item:#?}\n{}", site.logs());
        let run = &item.run.as_ref().expect("it has a run").name;
        expected.extend((0..*ranks).map(|rank| (format!("{run}.1.{rank}"), "ran\n".to_owned())));
    }
    let read = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path()).unwrap())
    };
    let ledger: BTreeMap<String, String> = fs::read_dir(&site.ledger).unwrap().flatten().map(read).collect();
    let wrong: Vec<_> = ledger.iter().filter(|(name, text)| expected.get(*name) != Some(text)).collect();
    assert!(wrong.is_empty() && ledger.len() == expected.len(), "{wrong:?}");
}

/// What every rank said is in its run, once; lines may come a moment after the end when the cluster was away for it.
fn check_lines(site: &Site, all: &[(Item, usize)]) {
    for (item, ranks) in all {
        let expected: Vec<String> = (0..*ranks).map(|rank| format!("rank {rank} ran")).collect();
        let what = format!("all lines of {}: {:?}", item.id, site.lines(item));
        until_within(PATIENCE, &what, || (site.lines(item) == expected).then_some(()));
    }
}

/// The server told one end of each.
fn check_events(site: &Site, all: &[(Item, usize)]) {
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    site.runtime.block_on(async {
        let mut events = site.client.events(Some(0)).await.unwrap();
        while ends.len() < all.len() {
            let event = events.next().await.unwrap().expect("the stream goes on");
            if event.kind == "item.state" && matches!(event.body["state"].as_str(), Some("FINISHED" | "FAILED")) {
                *ends.entry(event.subject.clone()).or_default() += 1;
            }
        }
    });
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
}
