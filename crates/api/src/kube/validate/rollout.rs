//! Update strategies: types, and numbers that are a count or a percentage.

use super::place::Place;
use crate::kube::field::Problem;
use crate::kube::names;
use serde_json::{Value, json};

/// A count, or a percentage of at most 100 where `limited`; an absent value has no problems.
pub(super) fn count_or_percent(holder: &Place, key: &str, limited: bool) {
    if !holder.get(key).is_string() {
        return holder.not_negative(&[key]);
    }
    holder.named(key, names::percent);
    let is_percent = names::percent(holder.text(key)).is_empty();
    let is_beyond = limited && is_percent && amount(holder.get(key)) > 100;
    holder.wrong_if(is_beyond, key, "must not be greater than 100%");
}

/// The number in a count or a percentage; what cannot be read counts as nothing.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}

/// A strategy as the reference prints it in an error: with the field names of its own code, in its order.
fn printed(strategy: &Place) -> String {
    format!(r#"{{"Type":"{}","RollingUpdate":{}}}"#, strategy.text("type"), strategy.get("rollingUpdate"))
}

fn unknown_type(strategy: &Place, first: &str, second: &str) {
    let text = format!("Unsupported value: {}: supported values: \"{first}\", \"{second}\"", printed(strategy));
    strategy.worded("", Problem::NotSupported, text);
}

pub(super) fn deployment_strategy(strategy: &Place) {
    match (strategy.text("type"), strategy.given("rollingUpdate")) {
        ("Recreate", None) => {}
        ("Recreate", Some(rolling)) => {
            rolling.forbidden("", "may not be specified when strategy `type` is 'Recreate'");
        }
        ("RollingUpdate", None) => strategy.required("rollingUpdate", "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(rolling)) => {
            count_or_percent(&rolling, "maxUnavailable", true);
            count_or_percent(&rolling, "maxSurge", false);
            let stands_still = ["maxUnavailable", "maxSurge"].iter().all(|key| amount(rolling.get(key)) == 0);
            let shown = rolling.given("maxUnavailable").map_or(json!(0), |given| given.value.clone());
            rolling.invalid_if(stands_still, "maxUnavailable", shown, "may not be 0 when `maxSurge` is 0");
        }
        _ => unknown_type(strategy, "Recreate", "RollingUpdate"),
    }
}

pub(super) fn daemon_strategy(strategy: &Place) {
    match (strategy.text("type"), strategy.given("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => strategy.required("rollingUpdate", ""),
        ("RollingUpdate", Some(rolling)) => {
            count_or_percent(&rolling, "maxUnavailable", true);
            count_or_percent(&rolling, "maxSurge", true);
            match ["maxUnavailable", "maxSurge"].map(|key| amount(rolling.get(key)) != 0) {
                [true, true] => rolling.wrong("maxSurge", "may not be set when maxUnavailable is non-zero"),
                [false, false] => rolling.required("maxUnavailable", "cannot be 0 when maxSurge is 0"),
                [true, false] | [false, true] => {}
            }
        }
        _ => unknown_type(strategy, "RollingUpdate", "OnDelete"),
    }
}

pub(super) fn stateful_strategy(strategy: &Place) {
    match (strategy.text("type"), strategy.given("rollingUpdate")) {
        ("OnDelete", Some(rolling)) => {
            let partition = rolling.integer("partition").unwrap_or(0);
            let shown = format!(r#"{{"Partition":{partition},"MaxUnavailable":{}}}"#, rolling.get("maxUnavailable"));
            let text = format!("Invalid value: {shown}: only allowed for updateStrategy 'RollingUpdate'");
            rolling.worded("", Problem::Invalid, text);
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        ("RollingUpdate", Some(rolling)) => {
            rolling.not_negative(&["partition"]);
            count_or_percent(&rolling, "maxUnavailable", true);
            let is_zero = rolling.has("maxUnavailable") && amount(rolling.get("maxUnavailable")) == 0;
            rolling.wrong_if(is_zero, "maxUnavailable", "cannot be 0");
        }
        _ => {
            let text = format!("Invalid value: {}: must be 'RollingUpdate' or 'OnDelete'", printed(strategy));
            strategy.worded("", Problem::Invalid, text);
        }
    }
}
