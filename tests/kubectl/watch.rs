//! Watches: from kubectl's side line by line, and event by event on the wire.

use crate::harness::{Space, Stage, for_each_kubectl, for_some_kubectls, squeeze, stage};
use crate::http::{Stream, delete, get, own, patch, post, put, request};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn make(space: &Space, name: &str, labels: Value) -> Value {
    post(&space.core("configmaps"), &json!({"metadata": {"name": name, "labels": labels}})).ok()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn now(space: &Space) -> u64 {
    revision(&get(&space.core("configmaps?labelSelector=w")).ok())
}

/// Watches config maps with label `w`, so that the namespace's own ones stay out of sight.
fn watch(space: &Space, query: &str) -> Stream {
    request("GET", &space.core(&format!("configmaps?watch=1&labelSelector=w&{query}"))).stream()
}

fn brief((kind, object): (String, Value)) -> String {
    format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default())
}

// K-WATCH-9
#[test]
fn every_kubectl_prints_a_line_per_change() {
    for_each_kubectl("lines", |space| {
        make(space, "first", json!({"w": "1"}));
        let watch = space.start(&[
            "get",
            "cm",
            "-w",
            "-l",
            "w",
            "--no-headers",
            "-o",
            "custom-columns=N:.metadata.name,W:.metadata.labels.w",
        ]);
        let line = || watch.line().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line(), "first 1");
        make(space, "second", json!({"w": "1"}));
        assert_eq!(line(), "second 1");
        patch("merge", &space.core("configmaps/second"), &json!({"metadata": {"labels": {"w": "2"}}})).ok();
        assert_eq!(line(), "second 2");
        delete(&space.core("configmaps/first")).ok();
        assert_eq!(line(), "first 1");
    });
}

// K-WATCH-8
#[test]
fn every_kubectl_watches_tables() {
    for_some_kubectls("tables", |space| {
        make(space, "first", json!({"w": "1"}));
        let watch = space.start(&["get", "cm", "-w", "-l", "w"]);
        assert_eq!(squeeze(&watch.line()), ["NAME  DATA  AGE"]);
        assert!(squeeze(&watch.line())[0].starts_with("first  0  "));
        make(space, "second", json!({"w": "1"}));
        assert!(squeeze(&watch.line())[0].starts_with("second  0  "));
        let only = space.start(&["get", "cm", "--watch-only", "--output-watch-events", "-l", "w=1"]);
        patch("merge", &space.core("configmaps/second"), &json!({"data": {"k": "v"}})).ok();
        assert!(squeeze(&watch.line())[0].starts_with("second  1  "));
        drop(only);
    });
}

// K-WATCH-1
#[test]
fn a_watch_from_a_version_gives_every_later_change_once() {
    let space = Space::new("from");
    let start = now(&space);
    let made = make(&space, "a", json!({"w": "1"}));
    let changed = patch("merge", &space.core("configmaps/a"), &json!({"data": {"k": "v"}})).ok();
    delete(&space.core("configmaps/a")).ok();
    let mut stream = watch(&space, &format!("resourceVersion={start}"));
    let (kind, object) = stream.event();
    assert_eq!((kind.as_str(), revision(&object)), ("ADDED", revision(&made)));
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    let (kind, object) = stream.event();
    assert_eq!((kind.as_str(), revision(&object)), ("MODIFIED", revision(&changed)));
    let (kind, object) = stream.event();
    assert_eq!((kind.as_str(), &object["data"]["k"]), ("DELETED", &json!("v")));
    assert!(revision(&object) > revision(&changed), "the last state carries the revision of the deletion");
    let mut later = watch(&space, &format!("resourceVersion={}", revision(&made)));
    assert_eq!(brief(later.event()), "MODIFIED a");
}

// K-WATCH-2
#[test]
fn a_watch_without_a_version_starts_with_what_is_there() {
    let space = Space::new("synthetic");
    make(&space, "b", json!({"w": "1"}));
    make(&space, "a", json!({"w": "1"}));
    for query in ["", "resourceVersion=0", "resourceVersion="] {
        let mut stream = watch(&space, query);
        assert_eq!([brief(stream.event()), brief(stream.event())], ["ADDED a", "ADDED b"], "{query}");
    }
    let mut stream = watch(&space, "");
    stream.event();
    stream.event();
    make(&space, "c", json!({"w": "1"}));
    assert_eq!(brief(stream.event()), "ADDED c");
}

// K-WATCH-3
#[test]
fn entering_and_leaving_a_selection_are_events() {
    let space = Space::new("transitions");
    let mut stream = request("GET", &space.core("configmaps?watch=1&labelSelector=side%3Din")).stream();
    make(&space, "a", json!({"side": "out"}));
    let side =
        |side: &str| patch("merge", &space.core("configmaps/a"), &json!({"metadata": {"labels": {"side": side}}})).ok();
    side("in");
    let left = side("away");
    assert_eq!(brief(stream.event()), "ADDED a");
    let (kind, object) = stream.event();
    assert_eq!(kind, "DELETED");
    assert_eq!(object["metadata"]["labels"]["side"], "in", "the state before it left");
    assert_eq!(revision(&object), revision(&left), "with the revision of the change");
    let namespaces = format!("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3D{}", space.name);
    assert_eq!(brief(request("GET", &namespaces).stream().event()), format!("ADDED {}", space.name));
}

// K-WATCH-4
#[test]
fn a_watch_can_replace_the_list_before_it() {
    let space = Space::new("watchlist");
    make(&space, "a", json!({"w": "1"}));
    for version in ["", "&resourceVersion=0"] {
        let query =
            format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true{version}");
        let mut stream = watch(&space, &query);
        assert_eq!(brief(stream.event()), "ADDED a");
        let (kind, object) = stream.event();
        assert_eq!(kind, "BOOKMARK");
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
        assert!(revision(&object) > 0);
        patch("merge", &space.core("configmaps/a"), &json!({"data": {"k": version}})).ok();
        assert_eq!(brief(stream.event()), "MODIFIED a");
    }
    let refused = get(&space.core("configmaps?watch=1&sendInitialEvents=true"));
    let text = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    assert_eq!(refused.status(), (422, "Invalid".into(), text.into()));
    let refused = get(&space.core("configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
    let text = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
    assert_eq!(refused.status(), (422, "Invalid".into(), text.into()));
}

// K-WATCH-5 K-HTTP-4
#[test]
fn a_timed_watch_ends_cleanly_with_a_bookmark_before() {
    let space = Space::new("timed");
    make(&space, "a", json!({"w": "1"}));
    let from = now(&space);
    let mut stream = watch(&space, &format!("resourceVersion={from}&timeoutSeconds=1&allowWatchBookmarks=true"));
    let (kind, object) = stream.event();
    assert_eq!(kind, "BOOKMARK");
    assert!(revision(&object) >= from);
    assert_eq!(object["metadata"].get("annotations"), None);
    assert!(stream.next().is_none(), "the stream ends without an error event");
    let mut plain = watch(&space, &format!("resourceVersion={from}&timeoutSeconds=1"));
    assert!(plain.next().is_none());
}

// K-WATCH-6
#[test]
fn a_version_that_is_too_old_is_an_error_event() {
    // A server that starts anew knows the objects, but no longer how they came to be.
    let home = stage().home.join("restarted");
    Stage::start(&home).stop();
    let again = Stage::start(&home);
    let mut stream = own("GET", "/api/v1/namespaces?watch=1&resourceVersion=1").at(&again.address).stream();
    let (kind, status) = stream.event();
    assert_eq!(kind, "ERROR");
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Failure")));
    assert_eq!((&status["reason"], &status["code"]), (&json!("Expired"), &json!(410)));
    assert!(status["message"].as_str().unwrap().starts_with("too old resource version: 1 ("), "{status}");
    assert!(stream.next().is_none());
}

// K-WATCH-7
#[test]
fn a_version_from_the_future_waits_and_nonsense_is_refused() {
    let space = Space::new("future");
    let mut stream = watch(&space, "resourceVersion=99999999&timeoutSeconds=1");
    assert!(stream.next().is_none());
    let refused = get(&space.core("configmaps?watch=1&resourceVersion=abc"));
    assert!(refused.code >= 400 && refused.json()["kind"] == "Status", "{}", refused.body);
}

// K-WATCH-8
#[test]
fn tables_and_partial_objects_are_watched_too() {
    let space = Space::new("forms");
    make(&space, "a", json!({"w": "1"}));
    make(&space, "b", json!({"w": "1"}));
    let path = space.core("configmaps?watch=1&labelSelector=w");
    let mut stream = request("GET", &path).header("Accept", TABLE).stream();
    let (_, first) = stream.event();
    assert_eq!((&first["kind"], first["columnDefinitions"].as_array().unwrap().len()), (&json!("Table"), 3));
    assert_eq!(first["rows"].as_array().unwrap().len(), 1);
    let (_, second) = stream.event();
    assert!(second["columnDefinitions"].as_array().is_none_or(Vec::is_empty), "{second}");
    assert_eq!(second["rows"][0]["object"]["metadata"]["name"], "b");
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let path = format!("{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let mut stream = request("GET", &path).header("Accept", partial).stream();
    let (kind, object) = stream.event();
    assert_eq!((kind.as_str(), &object["kind"]), ("ADDED", &json!("PartialObjectMetadata")));
    stream.event();
    let (kind, object) = stream.event();
    assert_eq!((kind.as_str(), &object["kind"]), ("BOOKMARK", &json!("PartialObjectMetadata")));
}

// K-WATCH-11
#[test]
fn watching_an_item_path_is_a_plain_get() {
    let space = Space::new("item");
    make(&space, "a", json!({"w": "1"}));
    assert_eq!(get(&space.core("configmaps/a?watch=1")).ok()["kind"], "ConfigMap");
    let mut stream = request("GET", &space.core("configmaps?watch=1&fieldSelector=metadata.name%3Da")).stream();
    assert_eq!(brief(stream.event()), "ADDED a");
    let mut legacy = request("GET", &format!("/api/v1/watch/namespaces/{}/configmaps", space.name)).stream();
    assert_eq!(legacy.event().0, "ADDED");
}

// K-WATCH-12
#[test]
fn many_watches_run_beside_each_other() {
    let space = Space::new("many");
    let mut streams: Vec<Stream> =
        (0..50).map(|_| watch(&space, &format!("resourceVersion={}", now(&space)))).collect();
    make(&space, "a", json!({"w": "1"}));
    // The first watchers read nothing until the last has: none waits for another.
    for stream in streams.iter_mut().rev() {
        assert_eq!(brief(stream.event()), "ADDED a");
    }
}

// K-WR-3
#[test]
fn a_write_that_changes_nothing_is_no_event() {
    let space = Space::new("quiet");
    let made = make(&space, "a", json!({"w": "1"}));
    let mut stream = watch(&space, &format!("resourceVersion={}", revision(&made)));
    put(&space.core("configmaps/a"), &made).ok();
    make(&space, "b", json!({"w": "1"}));
    assert_eq!(brief(stream.event()), "ADDED b");
}
