//! Update strategies: types, and numbers that are a count or a percentage.

use super::rows::{join, not_negative, set_at};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{names, text};
use serde_json::{Value, json};

/// A count, or a percentage of at most 100 where `limited`; an absent value has no problems.
pub fn check_count_or_percent(value: &Value, path: &str, name: &str, limited: bool) -> Vec<FieldError> {
    let place = join(path, name);
    let Some(present) = set_at(value, name) else { return Vec::new() };
    let Some(percent) = present.as_str() else { return not_negative(value, path, name).into_iter().collect() };
    let mut errors: Vec<FieldError> =
        names::percent(percent).iter().map(|why| FieldError::invalid(place.as_str(), percent, why)).collect();
    if limited && errors.is_empty() && amount(Some(present)) > 100 {
        errors.push(FieldError::invalid(place, percent, "must not be greater than 100%"));
    }
    errors
}

/// The number in a count or a percentage; what cannot be read counts as nothing.
fn amount(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::String(text)) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or(0),
        Some(value) => value.as_i64().unwrap_or(0),
        None => 0,
    }
}

/// A strategy as the reference prints it in an error: with the field names of its own code, in its order.
fn printed(strategy: &Value) -> String {
    let rolling = strategy.get("rollingUpdate").cloned().unwrap_or_default();
    format!(r#"{{"Type":"{}","RollingUpdate":{rolling}}}"#, text(strategy, "type"))
}

fn unknown_type(strategy: &Value, path: &str, supported: [&str; 2]) -> FieldError {
    let [first, second] = supported;
    let text = format!("Unsupported value: {}: supported values: \"{first}\", \"{second}\"", printed(strategy));
    FieldError::new(path, Problem::NotSupported, text)
}

pub fn check_deployment_strategy(strategy: &Value, path: &str) -> Vec<FieldError> {
    let rolling = set_at(strategy, "rollingUpdate");
    let place = join(path, "rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("Recreate", None) => Vec::new(),
        ("Recreate", Some(_)) => {
            vec![FieldError::forbidden(place, "may not be specified when strategy `type` is 'Recreate'")]
        }
        ("RollingUpdate", None) => vec![FieldError::required(place, "this should be defaulted and never be nil")],
        ("RollingUpdate", Some(rolling)) => {
            let mut errors = check_count_or_percent(rolling, &place, "maxUnavailable", true);
            errors.extend(check_count_or_percent(rolling, &place, "maxSurge", false));
            if amount(rolling.get("maxUnavailable")) == 0 && amount(rolling.get("maxSurge")) == 0 {
                let value = rolling.get("maxUnavailable").cloned().unwrap_or(json!(0));
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(join(&place, "maxUnavailable"), value, detail));
            }
            errors
        }
        _ => vec![unknown_type(strategy, path, ["Recreate", "RollingUpdate"])],
    }
}

pub fn check_daemon_strategy(strategy: &Value, path: &str) -> Vec<FieldError> {
    let place = join(path, "rollingUpdate");
    match (text(strategy, "type"), set_at(strategy, "rollingUpdate")) {
        ("OnDelete", _) => Vec::new(),
        ("RollingUpdate", None) => vec![FieldError::required(place, "")],
        ("RollingUpdate", Some(rolling)) => {
            let mut errors = check_count_or_percent(rolling, &place, "maxUnavailable", true);
            errors.extend(check_count_or_percent(rolling, &place, "maxSurge", true));
            let surge = rolling.get("maxSurge").cloned().unwrap_or(json!(0));
            match (amount(rolling.get("maxUnavailable")) != 0, amount(Some(&surge)) != 0) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(join(&place, "maxSurge"), surge, detail));
                }
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(join(&place, "maxUnavailable"), detail));
                }
                (true, false) | (false, true) => {}
            }
            errors
        }
        _ => vec![unknown_type(strategy, path, ["RollingUpdate", "OnDelete"])],
    }
}

pub fn check_stateful_strategy(strategy: &Value, path: &str) -> Vec<FieldError> {
    let place = join(path, "rollingUpdate");
    match (text(strategy, "type"), set_at(strategy, "rollingUpdate")) {
        ("OnDelete", Some(rolling)) => {
            let part = |name: &str| rolling.get(name).cloned().unwrap_or_default();
            let partition = part("partition").as_i64().unwrap_or(0);
            let shown = format!(r#"{{"Partition":{partition},"MaxUnavailable":{}}}"#, part("maxUnavailable"));
            let text = format!("Invalid value: {shown}: only allowed for updateStrategy 'RollingUpdate'");
            vec![FieldError::new(place, Problem::Invalid, text)]
        }
        ("OnDelete" | "RollingUpdate", None) => Vec::new(),
        ("RollingUpdate", Some(rolling)) => {
            let mut errors: Vec<FieldError> = not_negative(rolling, &place, "partition").into_iter().collect();
            errors.extend(check_count_or_percent(rolling, &place, "maxUnavailable", true));
            if let Some(value) = set_at(rolling, "maxUnavailable").filter(|value| amount(Some(value)) == 0) {
                errors.push(FieldError::invalid(join(&place, "maxUnavailable"), value.clone(), "cannot be 0"));
            }
            errors
        }
        _ => {
            let text = format!("Invalid value: {}: must be 'RollingUpdate' or 'OnDelete'", printed(strategy));
            vec![FieldError::new(path, Problem::Invalid, text)]
        }
    }
}
