//! Rows of events. Both groups show the same columns; the newer one spells most fields differently.

use super::Cell::{Made, Text, Timed};
use super::cell::count;
use super::{Column, Printer};
use crate::kube::{at, text, time};
use jiff::Timestamp;
use serde_json::Value;

const COLUMNS: &[Column] = &[
    Column::text("Last Seen", "Time since it last happened.", Timed(|event, now| time::age(last(event), now).into())),
    Column::text("Type", "Normal or Warning.", Text("type")),
    Column::text("Reason", "What happened, in one word.", Text("reason")),
    Column::text("Object", "What it happened to.", Made(object)),
    Column::text("Subobject", "Part of the object.", Made(|event| text(subject(event), "fieldPath").into())).wide(),
    Column::text("Source", "Who saw it.", Made(source)).wide(),
    Column::text("Message", "What happened.", Made(|event| first(event, &["message", "note"]).trim().into())),
    Column::text(
        "First Seen",
        "Time since it first happened.",
        Timed(|event, now| time::age(started(event), now).into()),
    )
    .wide(),
    Column::text("Count", "How often it happened.", Made(times)).wide(),
    Column::NAME.wide(),
];

pub(super) const PRINTERS: &[Printer] =
    &[Printer::of("", "Event").columns(COLUMNS), Printer::of("events.k8s.io", "Event").columns(COLUMNS)];

/// The first text that is not empty.
fn first<'a>(event: &'a Value, paths: &[&str]) -> &'a str {
    paths.iter().map(|path| text(event, path)).find(|text| !text.is_empty()).unwrap_or("")
}

fn started(event: &Value) -> Option<Timestamp> {
    let moment = time::parse(first(event, &["firstTimestamp", "deprecatedFirstTimestamp"]));
    moment.or_else(|| time::parse(text(event, "eventTime")))
}

fn series(event: &Value) -> Option<&Value> {
    at(event, "series").filter(|series| !series.is_null())
}

fn last(event: &Value) -> Option<Timestamp> {
    match series(event) {
        Some(series) => time::parse(text(series, "lastObservedTime")),
        None => time::parse(first(event, &["lastTimestamp", "deprecatedLastTimestamp"])).or(started(event)),
    }
}

/// Events of the newer group that happened once carry no count.
fn times(event: &Value) -> Value {
    match series(event) {
        Some(series) => count(series, "count").into(),
        None => count(event, "count").max(count(event, "deprecatedCount")).max(1).into(),
    }
}

fn subject(event: &Value) -> &Value {
    at(event, "involvedObject").unwrap_or(&event["regarding"])
}

fn object(event: &Value) -> Value {
    let (kind, name) = (text(subject(event), "kind").to_lowercase(), text(subject(event), "name"));
    if name.is_empty() { kind.into() } else { format!("{kind}/{name}").into() }
}

fn source(event: &Value) -> Value {
    let first = |paths: &[&str]| first(event, paths);
    let component =
        first(&["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"]);
    let host = first(&["source.host", "deprecatedSource.host", "reportingInstance"]);
    if host.is_empty() { component.into() } else { format!("{component}, {host}").into() }
}
