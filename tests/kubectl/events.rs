//! Events in their two groups, as kubectl shows them.

use crate::harness::{Space, for_some_kubectls, squeeze};
use crate::http::{get, patch, post};
use serde_json::{Value, json};

fn core_event(space: &Space, name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": space.name, "uid": "u"},
        "reason": "Tested", "message": "a message", "type": "Warning", "source": {"component": "tester", "host": "h"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1})
}

fn names(path: &str) -> Vec<String> {
    let list = get(path).ok();
    list["items"].as_array().unwrap().iter().map(|e| e["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

// K-EVT-1
#[test]
fn both_groups_are_views_of_one_store() {
    let space = Space::new("views");
    post(&space.core("events"), &core_event(&space, "one")).ok();
    let newer = json!({"metadata": {"name": "two"}, "regarding": {"kind": "Pod", "name": "q", "namespace": space.name}, "reason": "Tested", "note": "a note",
        "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "tester", "reportingInstance": "t-1", "action": "Testing"});
    let made = post(&space.group("events.k8s.io/v1", "events"), &newer);
    assert_eq!(made.code, 201, "{}", made.body);
    let viewed = get(&space.group("events.k8s.io/v1", "events/one")).ok();
    assert_eq!(
        (&viewed["apiVersion"], &viewed["note"], &viewed["regarding"]["name"]),
        (&json!("events.k8s.io/v1"), &json!("a message"), &json!("p"))
    );
    assert_eq!((&viewed["deprecatedCount"], &viewed["deprecatedSource"]["component"]), (&json!(1), &json!("tester")));
    let core = get(&space.core("events/two")).ok();
    assert_eq!(
        (&core["apiVersion"], &core["message"], &core["involvedObject"]["name"]),
        (&json!("v1"), &json!("a note"), &json!("q"))
    );
    assert_eq!(
        (&core["source"], &core["firstTimestamp"], &core["lastTimestamp"]),
        (&json!({}), &Value::Null, &Value::Null)
    );
    assert_eq!((&core["reportingComponent"], &core["reportingInstance"]), (&json!("tester"), &json!("t-1")));
    assert_eq!(core["eventTime"], "2026-01-01T00:00:00.000000Z");
    let bare =
        json!({"metadata": {"name": "bare"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": space.name}});
    let bare = post(&space.core("events"), &bare).ok();
    for (field, expected) in [
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        assert_eq!(bare.get(field), Some(&expected), "{field} is always written");
    }
    assert_eq!(names(&space.core("events")), ["bare", "one", "two"]);
    assert_eq!(names(&space.group("events.k8s.io/v1", "events")), ["bare", "one", "two"]);
    assert_eq!(names(&space.core("events?fieldSelector=involvedObject.name%3Dq,reason%3DTested")), ["two"]);
    assert_eq!(
        names(&space.group("events.k8s.io/v1", "events?fieldSelector=regarding.name%3Dp,type%3DWarning")),
        ["one"]
    );
    assert_eq!(names(&space.core("events?fieldSelector=source%3Dtester")), ["one", "two"]);
}

// K-EVT-2
#[test]
fn an_event_lives_where_its_object_does() {
    let space = Space::new("where");
    let mut elsewhere = core_event(&space, "e");
    elsewhere["involvedObject"]["namespace"] = "elsewhere".into();
    let answer = post(&space.core("events"), &elsewhere);
    assert_eq!(answer.code, 422);
    let text = "involvedObject.namespace: Invalid value: \"elsewhere\": does not match event.namespace";
    assert!(answer.status().2.ends_with(text), "{}", answer.body);
}

// K-EVT-3
#[test]
fn repetition_is_counted_by_the_emitter() {
    let space = Space::new("repeat");
    post(&space.core("events"), &core_event(&space, "e")).ok();
    let body = json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"});
    let patched = patch("strategic", &space.core("events/e"), &body).ok();
    assert_eq!((&patched["count"], &patched["lastTimestamp"]), (&json!(2), &json!("2026-01-01T00:01:00Z")));
    assert_eq!(names(&space.core("events")), ["e"]);
}

#[test]
fn every_kubectl_shows_events() {
    for_some_kubectls("show", |space| {
        post(&space.core("events"), &core_event(space, "e")).ok();
        let table = squeeze(&space.ok(&["get", "events"]));
        assert_eq!(table[0], "LAST SEEN  TYPE  REASON  OBJECT  MESSAGE");
        assert!(table[1].ends_with("Warning  Tested  pod/p  a message"), "{table:?}");
        let wide = squeeze(&space.ok(&["get", "ev", "-o", "wide"]));
        assert_eq!(wide[0], "LAST SEEN  TYPE  REASON  OBJECT  SUBOBJECT  SOURCE  MESSAGE  FIRST SEEN  COUNT  NAME");
        assert!(wide[1].contains("  tester, h  a message  "), "{wide:?}");
        let events = squeeze(&space.ok(&["events", "--for", "pod/p", "--types=Warning"]));
        assert_eq!(events[0], "LAST SEEN  TYPE  REASON  OBJECT  MESSAGE");
        assert!(events[1].ends_with("Warning  Tested  Pod/p  a message"), "{events:?}");
    });
}
