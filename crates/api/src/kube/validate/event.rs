//! Events of both groups: where they live, and what a new-style event must say (K-EVT-2).

use super::Rule;
use super::rows::{Row, check_update as fixed, named, number, set_at};
use crate::kube::events::events_to_core;
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;

pub const RULES: &[Rule] = &[
    Rule {
        group: "",
        kind: "Event",
        is_namespaced: true,
        create: |event| check_common(event, "reportingComponent"),
        update: |new, _| check_common(new, "reportingComponent"),
    },
    Rule {
        group: "events.k8s.io",
        kind: "Event",
        is_namespaced: true,
        create: check_new_style,
        update: check_new_style_update,
    },
];

const TEXT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// Takes the core view; `reporter` is the name that the request's own view has for the reporting controller.
fn check_common(event: &Value, reporter: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (own, other) = (text(event, "metadata.namespace"), text(event, "involvedObject.namespace"));
    let is_new_style = set_at(event, "eventTime").is_some();
    let fits = match (other, is_new_style) {
        ("", false) => matches!(own, "" | "default"),
        ("", true) => matches!(own, "default" | "kube-system"),
        (other, false) => own == other,
        (_, true) => true,
    };
    if !fits {
        errors.push(FieldError::invalid("involvedObject.namespace", other, "does not match event.namespace"));
    }
    if is_new_style {
        errors.extend(check_reporter(event, reporter));
    }
    errors
}

fn check_reporter(event: &Value, reporter: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let controller = text(event, "reportingComponent");
    if controller.is_empty() {
        errors.push(FieldError::required(reporter, ""));
    }
    errors.extend(named(controller, reporter, names::qualified_name));
    for (name, length_max) in
        [("reportingInstance", TEXT_MAX), ("action", TEXT_MAX), ("reason", TEXT_MAX), ("message", NOTE_MAX)]
    {
        let length = text(event, name).len();
        if length == 0 && name != "message" {
            errors.push(FieldError::required(name, ""));
        } else if length > length_max {
            errors.push(FieldError::invalid(name, "", &format!("can have at most {length_max} characters")));
        }
    }
    errors
}

fn check_new_style(event: &Value) -> Vec<FieldError> {
    let event = events_to_core(event);
    let mut errors = check_common(&event, "reportingController");
    errors.extend(check_series(&event));
    if set_at(&event, "eventTime").is_none() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(&event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", &format!("has invalid value: {kind}")));
    }
    let has_source = !text(&event, "source.component").is_empty() || !text(&event, "source.host").is_empty();
    let old_style = [
        ("firstTimestamp", set_at(&event, "firstTimestamp").is_some()),
        ("lastTimestamp", set_at(&event, "lastTimestamp").is_some()),
        ("count", number(&event, "count").unwrap_or(0) != 0),
        ("source", has_source),
    ];
    let given = old_style.iter().filter(|(_, is_given)| *is_given);
    errors.extend(given.map(|(name, _)| FieldError::invalid(*name, "", "needs to be unset")));
    errors
}

fn check_series(event: &Value) -> Vec<FieldError> {
    let Some(series) = set_at(event, "series") else { return Vec::new() };
    let mut errors = Vec::new();
    if number(series, "count").unwrap_or(0) < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if set_at(series, "lastObservedTime").is_none() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

fn check_new_style_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const FIXED: &[Row] = &[
        Row::Fixed("involvedObject"),
        Row::Fixed("reason"),
        Row::Fixed("message"),
        Row::Fixed("source"),
        Row::Fixed("firstTimestamp"),
        Row::Fixed("lastTimestamp"),
        Row::Fixed("count"),
        Row::Fixed("type"),
        Row::Fixed("eventTime"),
        Row::Fixed("action"),
        Row::Fixed("related"),
        Row::Fixed("reportingInstance"),
    ];
    let (new, old) = (events_to_core(new), events_to_core(old));
    let mut errors = check_common(&new, "reportingController");
    if new.get("series") != old.get("series") {
        errors.extend(check_series(&new));
    }
    errors.extend(fixed(&new, &old, "", FIXED));
    if text(&new, "reportingComponent") != text(&old, "reportingComponent") {
        let value = text(&new, "reportingComponent");
        errors.push(FieldError::invalid("reportingController", value, super::rows::IMMUTABLE));
    }
    errors
}
