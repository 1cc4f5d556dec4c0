//! The two views of an event, core `v1` and `events.k8s.io/v1`, over one stored object (K-EVT-1).
//!
//! Fields that only one view names are renamed; everything else, metadata included, passes through.

use super::defaults;
use serde_json::Value;

/// Field names: in the core view, in the events.k8s.io view.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Strings that the events.k8s.io view leaves out while they are empty; the core view always writes them.
const OMITTED_WHEN_EMPTY: &[&str] = &["reportingController", "reportingInstance"];

/// The events.k8s.io view of a core event.
pub fn core_to_events(event: &Value) -> Value {
    let mut view = renamed(event, "events.k8s.io/v1", |name| {
        NAMES.iter().find(|(core, _)| *core == name).map_or(name, |(_, events)| events)
    });
    if let Some(map) = view.as_object_mut() {
        for name in OMITTED_WHEN_EMPTY {
            if map.get(*name).is_some_and(|value| value == "") {
                map.remove(*name);
            }
        }
    }
    defaults::fill("events.k8s.io", "Event", &mut view);
    view
}

/// The core view of an events.k8s.io event.
pub fn events_to_core(event: &Value) -> Value {
    let mut view =
        renamed(event, "v1", |name| NAMES.iter().find(|(_, events)| *events == name).map_or(name, |(core, _)| core));
    defaults::fill("", "Event", &mut view);
    view
}

fn renamed<'a>(event: &'a Value, api_version: &str, rename: impl Fn(&'a str) -> &'a str) -> Value {
    let fields = event.as_object().into_iter().flatten();
    let mut view: Value = Value::Object(fields.map(|(name, value)| (rename(name).to_owned(), value.clone())).collect());
    view["apiVersion"] = api_version.into();
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn core_event() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Started",
            "message": "Started container c", "source": {"component": "kubelet", "host": "n"}, "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:09Z", "type": "Normal",
            "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "n",
        })
    }

    // K-EVT-1
    #[test]
    fn a_core_event_reads_as_an_events_event_and_back() {
        let expected = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "p.1", "namespace": "default"},
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Started",
            "note": "Started container c", "deprecatedSource": {"component": "kubelet", "host": "n"},
            "deprecatedCount": 2, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-01T00:00:09Z", "type": "Normal", "eventTime": null,
            "reportingController": "kubelet", "reportingInstance": "n",
        });
        assert_eq!(core_to_events(&core_event()), expected);
        assert_eq!(events_to_core(&expected), core_event());
    }

    // K-EVT-1
    #[test]
    fn the_core_view_always_writes_its_empty_fields() {
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}});
        let expected = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {}, "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
            "reportingInstance": "",
        });
        assert_eq!(events_to_core(&event), expected);
    }
}
