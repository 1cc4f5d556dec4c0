//! Scenarios 5 and 6 of the launch specification: an agent that dies with all kinds of work, and work that the cluster takes.

use crate::chaos::{KINDS, make_queues};
use crate::site::{Site, until};
use serde_json::{Value, json};
use std::fs;
use volley_client::items::Item;

/// Says that it is up, and that it is done once it may be.
const WAIT: &str = "echo up; trap 'exit 0' TERM; while ! test -e /ledger/go; do sleep 0.05; done; echo done";

// L-31, L-33, L-36, A-25, A-34
#[test]
fn jobs_gangs_and_training_jobs_outlive_their_agent_and_are_looked_after_by_the_next() {
    let mut site = Site::start();
    make_queues(&site);
    let url = site.client.url().to_owned();
    site.add_agent(&KINDS, &url);
    let ids = KINDS.map(|queue| site.submit(queue, queue, WAIT));
    let stopped = KINDS.map(|queue| site.submit(queue, &format!("{queue}-stopped"), WAIT));
    let ranks = [1, 2, 2];
    for (id, ranks) in ids.iter().chain(&stopped).zip(ranks.iter().cycle()) {
        let ups = vec!["up"; *ranks];
        site.until_item(id, "all its ranks are up", |item| item.state == "RUNNING" && site.lines(item) == ups);
    }
    site.agents[0].kill();
    // Asked for while nobody is there to do it.
    site.stop(&stopped[0]);
    site.agents[0].start();
    // Another takes over from one that said that it ends, and does the same.
    let end = |site: &Site, id: &str| {
        let item = site.until_end(id);
        let is_over = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        assert!(item.end.as_deref() == Some("stopped") && site.pods(&item).iter().all(is_over), "{item:#?}");
    };
    end(&site, &stopped[0]);
    site.agents[0].end("-TERM");
    site.add_agent(&KINDS, &url);
    for id in &stopped[1..] {
        site.stop(id);
        end(&site, id);
    }
    fs::write(site.ledger.join("go"), "").unwrap();
    for (id, ranks) in ids.iter().zip(ranks) {
        let item = site.until_end(id);
        assert_eq!((item.end.as_deref(), item.attempt), (Some("finished"), 1), "{item:#?}");
        let expected = [vec!["done"; ranks], vec!["up"; ranks]].concat();
        assert_eq!(site.lines(&item), expected, "no line is lost or told twice");
    }
    site.until_no_secret();
}

/// Evicts the running pod of an item, as draining its node does.
fn evict(site: &Site, item: &Item) {
    let pods = site.pods(item);
    let pod = pods.iter().find(|pod| pod["status"]["phase"] == "Running").expect("a pod runs");
    let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
    let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", text("namespace"), text("name"));
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": text("name"), "namespace": text("namespace") } });
    site.kubectl(&["create", "--raw", &path, "-f", "-"], &eviction.to_string());
}

// L-22, L-23, L-24, L-25, L-26, L-27
#[test]
fn evicted_work_is_tried_again_as_the_same_run_and_fails_after_the_last_attempt() {
    let mut site = Site::start();
    make_queues(&site);
    let url = site.client.url().to_owned();
    site.add_agent(&KINDS, &url);
    let script = "echo attempt $VOLLEY_ATTEMPT resume ${WANDB_RESUME:-never} of $WANDB_RUN_ID; trap 'exit 143' TERM; while :; do sleep 0.05; done";
    let id = site.submit("jobs", "evicted", script);
    let (mut names, mut runs) = (Vec::new(), Vec::new());
    for attempt in 1..=6 {
        let item = site.until_item(&id, "the attempt runs", |item| {
            let is_up = || site.pods(item).iter().any(|pod| pod["status"]["phase"] == "Running");
            item.attempt == attempt && item.state == "RUNNING" && is_up()
        });
        let name = item.run.clone().unwrap().name;
        let resume = if attempt == 1 { "never" } else { "allow" };
        let line = format!("attempt {attempt} resume {resume} of {name}");
        until("its line is there", || site.lines(&item).contains(&line).then_some(()));
        assert_eq!(item.priority, 1, "as it was submitted");
        runs.push(name);
        let own = site.pods(&item);
        let label = json!(attempt.to_string());
        let job = own.iter().find(|pod| pod["metadata"]["labels"]["volley.dev/attempt"] == label);
        names.push(job.unwrap()["metadata"]["labels"]["batch.kubernetes.io/job-name"].to_string());
        evict(&site, &item);
    }
    let item = site.until_end(&id);
    assert_eq!((item.end.as_deref(), item.attempt), (Some("failed"), 6), "{item:#?}");
    assert!(item.error.as_ref().unwrap().message.contains("preempted it 6 times"), "{item:#?}");
    names.dedup();
    runs.dedup();
    assert_eq!((names.len(), runs.len()), (6, 1), "each attempt has an object of its own, and all are one run");
    site.until_no_secret();
}
