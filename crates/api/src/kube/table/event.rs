//! Rows of events. Both groups show the same columns; the newer one spells most fields differently.

use super::cell::{self, count};
use super::{Column, Printer};
use crate::kube::{at, text, time};
use jiff::Timestamp;
use serde_json::Value;

const COLUMNS: &[Column] = &[
    Column::text("Last Seen", "Time since it last happened."),
    Column::text("Type", "Normal or Warning."),
    Column::text("Reason", "What happened, in one word."),
    Column::text("Object", "What it happened to."),
    Column::text("Subobject", "Part of the object.").wide(),
    Column::text("Source", "Who saw it.").wide(),
    Column::text("Message", "What happened."),
    Column::text("First Seen", "Time since it first happened.").wide(),
    Column::text("Count", "How often it happened.").wide(),
    Column::NAME.wide(),
];

pub const PRINTERS: &[Printer] = &[
    Printer { group: "", kind: "Event", columns: COLUMNS, cells: event_cells },
    Printer { group: "events.k8s.io", kind: "Event", columns: COLUMNS, cells: event_cells },
];

fn event_cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let first = |paths: [&str; 2]| cell::text_or(event, paths[0], text(event, paths[1]));
    let moment = |paths: [&str; 2]| time::parse(first(paths));
    let started = moment(["firstTimestamp", "deprecatedFirstTimestamp"]).or_else(|| moment(["eventTime", "eventTime"]));
    let series = at(event, "series").filter(|series| !series.is_null());
    let last = match series {
        Some(series) => time::parse(text(series, "lastObservedTime")),
        None => moment(["lastTimestamp", "deprecatedLastTimestamp"]).or(started),
    };
    // Events of the newer group that happened once carry no count.
    let times = match series {
        Some(series) => count(series, "count"),
        None => count(event, "count").max(count(event, "deprecatedCount")).max(1),
    };
    let object = at(event, "involvedObject").or_else(|| at(event, "regarding")).unwrap_or(&Value::Null);
    let (kind, name) = (text(object, "kind").to_lowercase(), text(object, "name"));
    vec![
        time::age(last, now).into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        if name.is_empty() { kind.into() } else { format!("{kind}/{name}").into() },
        text(object, "fieldPath").into(),
        source(event).into(),
        first(["message", "note"]).trim().into(),
        time::age(started, now).into(),
        times.into(),
        cell::name(event),
    ]
}

fn source(event: &Value) -> String {
    let first = |paths: &[&str]| paths.iter().map(|path| text(event, path)).find(|text| !text.is_empty()).unwrap_or("");
    let component =
        first(&["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"]);
    let host = first(&["source.host", "deprecatedSource.host", "reportingInstance"]);
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
