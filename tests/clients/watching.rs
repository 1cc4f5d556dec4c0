//! Watches: replaying one from any revision onto that revision's list gives the present list, with and without
//! selectors; and a thousand watchers see the same thing.

use crate::support::{Running, config_map, namespace, soon};
use futures::io::AsyncBufReadExt;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Lines of a watch, as bytes; the request is the client's, the reading is ours.
async fn lines(client: &Client, path: &str) -> impl stream::Stream<Item = String> + Unpin + use<> {
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    let reader = client.request_stream(request).await.expect("the watch is accepted");
    reader
        .lines()
        .map_err(|error| panic!("the watch broke: {error}"))
        .map(|line: Result<String, ()>| line.expect("mapped above"))
        .boxed()
}

async fn get(client: &Client, path: &str) -> Value {
    client.request(http::Request::get(path).body(Vec::new()).expect("a request")).await.expect("listed")
}

/// Objects by name, with what list items leave out added, so that they compare with watch events.
fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let full = items.into_iter().map(|mut item| {
        item["kind"] = "ConfigMap".into();
        item["apiVersion"] = "v1".into();
        (item["metadata"]["name"].as_str().unwrap_or_default().to_owned(), item)
    });
    full.collect()
}

#[derive(Debug, Clone)]
enum Step {
    Write { name: u8, colour: u8, value: u8 },
    Recolour { name: u8, colour: u8 },
    Delete { name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6u8;
    prop_oneof![
        4 => (name.clone(), 0..3u8, 0..4u8).prop_map(|(name, colour, value)| Step::Write { name, colour, value }),
        2 => (name.clone(), 0..3u8).prop_map(|(name, colour)| Step::Recolour { name, colour }),
        2 => name.prop_map(|name| Step::Delete { name }),
    ]
}

const COLOURS: [&str; 3] = ["red", "green", "blue"];
/// Selectors in the query, each of which the last object of a history matches.
const SELECTIONS: [&str; 5] = [
    "",
    "&labelSelector=colour%3Dred",
    "&labelSelector=colour%20in%20(red,green)",
    "&fieldSelector=metadata.name!%3Dn-1,metadata.name!%3Dkube-root-ca.crt",
    "&labelSelector=colour!%3Dblue&fieldSelector=metadata.name!%3Dn-2",
];
const LAST: &str = "zz-last";

async fn perform(maps: &Api<ConfigMap>, step: &Step) {
    let name = |number: &u8| format!("n-{number}");
    // Each step may meet a missing or an existing object; the history is whatever the server made of it.
    match step {
        Step::Write { name: number, colour, value } => {
            let map = config_map(&name(number), &[("colour", COLOURS[usize::from(*colour)])], &value.to_string());
            if maps.create(&PostParams::default(), &map).await.is_err() {
                let _ = maps.replace(&name(number), &PostParams::default(), &map).await;
            }
        }
        Step::Recolour { name: number, colour } => {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"colour": COLOURS[usize::from(*colour)]}}}));
            let _ = maps.patch(&name(number), &PatchParams::default(), &patch).await;
        }
        Step::Delete { name: number } => {
            let _ = maps.delete(&name(number), &DeleteParams::default()).await;
        }
    }
}

/// Replays the watch from a list's revision onto that list.
async fn replayed(client: &Client, path: &str, selection: &str, start: &Value) -> BTreeMap<String, Value> {
    let mut objects = by_name(start);
    let from = start["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut events = lines(client, &format!("{path}?watch=1&resourceVersion={from}{selection}")).await;
    let mut last_revision: u64 = from.parse().expect("a number");
    loop {
        let line = soon("the last event", events.next()).await.expect("the watch goes on");
        let event: Value = serde_json::from_str(&line).expect("a JSON line");
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let revision = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse().expect("a number");
        assert!(revision > last_revision, "revision {revision} after {last_revision}");
        last_revision = revision;
        match event["type"].as_str() {
            Some("ADDED") => assert!(objects.insert(name.clone(), object.clone()).is_none(), "{name} was added twice"),
            Some("MODIFIED") => assert!(objects.insert(name.clone(), object.clone()).is_some(), "{name} was not there"),
            Some("DELETED") => assert!(objects.remove(&name).is_some(), "{name} was not there"),
            other => panic!("unexpected {other:?}: {line}"),
        }
        if name == LAST {
            return objects;
        }
    }
}

async fn check_history(client: &Client, namespace_name: &str, steps: &[Step]) {
    namespace(client, namespace_name).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace_name);
    let path = format!("/api/v1/namespaces/{namespace_name}/configmaps");
    let mut starts = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let selection = SELECTIONS[number % SELECTIONS.len()];
        starts.push((selection, get(client, &format!("{path}?limit=0{selection}")).await));
        perform(&maps, step).await;
    }
    maps.create(&PostParams::default(), &config_map(LAST, &[("colour", "red")], "")).await.expect("created");
    for (selection, start) in &starts {
        let present = by_name(&get(client, &format!("{path}?limit=0{selection}")).await);
        let replayed = replayed(client, &path, selection, start).await;
        // Objects that others add meanwhile, such as the namespace's CA bundle, may be behind the last event.
        let ours = |objects: BTreeMap<String, Value>| -> BTreeMap<String, Value> {
            objects.into_iter().filter(|(name, _)| name != "kube-root-ca.crt").collect()
        };
        assert_eq!(ours(replayed), ours(present), "selection {selection:?} of {steps:?}");
    }
}

// K-WATCH-1 K-WATCH-3
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_the_difference_of_two_lists() {
    let running = Running::start().await;
    let client = running.local();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(24));
    for case in 0..24 {
        let steps = prop::collection::vec(step(), 1..25).new_tree(&mut runner).expect("a tree").current();
        check_history(&client, &format!("law-{case}"), &steps).await;
    }
}

const WATCHERS: usize = 1000;
const EVENTS: usize = 60;

// K-WATCH-1 K-WATCH-9
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_watchers_see_every_event_once_and_in_order() {
    let running = Running::start().await;
    let client = running.local();
    namespace(&client, "crowd").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "crowd");
    let path = "/api/v1/namespaces/crowd/configmaps";
    let start = get(&client, path).await["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let select = "&labelSelector=crowd%3Dyes";
    let watchers = stream::iter(0..WATCHERS).map(|number| {
        let client = client.clone();
        // Every second watcher selects, so that both ways through the server are taken.
        let query = format!("{path}?watch=1&resourceVersion={start}{}", if number % 2 == 0 { "" } else { select });
        tokio::spawn(async move {
            let events = lines(&client, &query).await.filter(|line| std::future::ready(line.contains("crowd")));
            soon("all events", events.take(EVENTS * 3).collect::<Vec<String>>()).await
        })
    });
    let watchers: Vec<_> = watchers.collect().await;
    for number in 0..EVENTS {
        let name = format!("e-{number}");
        maps.create(&PostParams::default(), &config_map(&name, &[("crowd", "yes")], "1")).await.expect("created");
        let patch = Patch::Merge(json!({"data": {"value": "2"}}));
        maps.patch(&name, &PatchParams::default(), &patch).await.expect("patched");
        maps.delete(&name, &DeleteParams::default()).await.expect("deleted");
    }
    let mut first: Option<Vec<String>> = None;
    for watcher in watchers {
        let seen = watcher.await.expect("the watcher lives");
        assert_eq!(seen.len(), EVENTS * 3);
        let first = first.get_or_insert_with(|| seen.clone());
        assert!(*first == seen, "two watchers saw different things");
    }
    let kinds: Vec<String> =
        first.unwrap_or_default().iter().map(|line| line.chars().skip(9).take(5).collect()).collect();
    assert_eq!(&kinds[..3], ["ADDED", "MODIF", "DELET"]);
}
