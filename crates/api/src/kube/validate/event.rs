//! Events of both groups: where they live, and what a new-style event must say (K-EVT-2).

use super::Rule;
use super::place::{IMMUTABLE, Place};
use crate::kube::events::events_to_core;
use crate::kube::{names, text};
use serde_json::Value;

pub(super) const RULES: &[Rule] = &[
    Rule::of("", "Event", |event| common(event, "reportingComponent")),
    Rule::of("events.k8s.io", "Event", |_| {}).on_create(new_style).on_update(new_style_update),
];

const TEXT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// Takes the core view; `reporter` is the name that the request's own view has for the reporting controller.
fn common(event: &Place, reporter: &str) {
    let (own, other) = (event.text("metadata.namespace"), event.text("involvedObject.namespace"));
    let is_new_style = event.has("eventTime");
    let fits = match (other, is_new_style) {
        ("", false) => matches!(own, "" | "default"),
        ("", true) => matches!(own, "default" | "kube-system"),
        (other, false) => own == other,
        (_, true) => true,
    };
    event.invalid_if(!fits, "involvedObject.namespace", other, "does not match event.namespace");
    if !is_new_style {
        return;
    }
    let controller = event.stand_in(reporter, event.get("reportingComponent"));
    controller.needs(&[""]);
    controller.named("", names::qualified_name);
    event.needs(&["reportingInstance", "action", "reason"]);
    let texts = [("reportingInstance", TEXT_MAX), ("action", TEXT_MAX), ("reason", TEXT_MAX), ("message", NOTE_MAX)];
    for (key, length_max) in texts {
        let is_long = event.text(key).len() > length_max;
        event.invalid_if(is_long, key, "", &format!("can have at most {length_max} characters"));
    }
}

fn new_style(event: &Place) {
    let core = events_to_core(event.value);
    let event = event.stand_in("", &core);
    common(&event, "reportingController");
    series(&event);
    event.needs(&["eventTime"]);
    let kind = event.text("type");
    let is_known = matches!(kind, "Normal" | "Warning");
    event.invalid_if(!is_known, "type", "", &format!("has invalid value: {kind}"));
    let has_source = ["source.component", "source.host"].iter().any(|key| !event.text(key).is_empty());
    let old_style = [
        ("firstTimestamp", event.has("firstTimestamp")),
        ("lastTimestamp", event.has("lastTimestamp")),
        ("count", event.integer("count").unwrap_or(0) != 0),
        ("source", has_source),
    ];
    for (key, is_given) in old_style {
        event.invalid_if(is_given, key, "", "needs to be unset");
    }
}

fn series(event: &Place) {
    let Some(series) = event.given("series") else { return };
    let is_single = series.integer("count").unwrap_or(0) < 2;
    series.invalid_if(is_single, "count", "", "should be at least 2");
    series.needs(&["lastObservedTime"]);
}

fn new_style_update(new: &Place, old: &Value) {
    let (core, old) = (events_to_core(new.value), events_to_core(old));
    let new = new.stand_in("", &core);
    common(&new, "reportingController");
    if core["series"] != old["series"] {
        series(&new);
    }
    new.fixed(&old, &["involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp"]);
    new.fixed(&old, &["count", "type", "eventTime", "action", "related", "reportingInstance"]);
    let controller = new.text("reportingComponent");
    let is_changed = controller != text(&old, "reportingComponent");
    new.invalid_if(is_changed, "reportingController", controller, IMMUTABLE);
}
