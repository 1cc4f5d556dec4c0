//! A Job's failure and success policies.

use super::rows::{items, join, named, number, one_of, set_at};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::BTreeSet;

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// An error that names no value.
fn invalid_whole(path: &str, detail: &str) -> FieldError {
    FieldError::new(path, Problem::Invalid, format!("Invalid value: {detail}"))
}

/// A word that must be given: absent is `Required value: valid values: ["A" "B"]`.
fn required_word(value: &Value, path: &str, name: &str, words: &[&str]) -> Option<FieldError> {
    let path = join(path, name);
    if text(value, name).is_empty() {
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        return Some(FieldError::required(path, &format!("valid values: [{}]", quoted.join(" "))));
    }
    one_of(&value[name], &path, words)
}

pub fn check_failure_policy(spec: &Value, path: &str) -> Vec<FieldError> {
    let Some(policy) = set_at(spec, "podFailurePolicy") else { return Vec::new() };
    let rules_path = join(path, "podFailurePolicy.rules");
    let rules = items(policy, "rules");
    let mut errors = Vec::new();
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(rules_path.as_str(), rules.len(), RULES_MAX));
    }
    let containers = ["template.spec.containers", "template.spec.initContainers"];
    let names: BTreeSet<&str> =
        containers.iter().flat_map(|path| items(spec, path)).map(|container| text(container, "name")).collect();
    let per_index = set_at(spec, "backoffLimitPerIndex").is_some();
    for (index, rule) in rules.iter().enumerate() {
        let rule_path = format!("{rules_path}[{index}]");
        if text(rule, "action") == "FailIndex" && !per_index {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid(join(&rule_path, "action"), "FailIndex", detail));
        }
        errors.extend(required_word(rule, &rule_path, "action", ACTIONS));
        errors.extend(check_failure_rule(rule, &rule_path, &names));
    }
    errors
}

fn check_failure_rule(rule: &Value, path: &str, containers: &BTreeSet<&str>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (codes, conditions) = (set_at(rule, "onExitCodes"), items(rule, "onPodConditions"));
    if let Some(codes) = codes {
        errors.extend(check_exit_codes(codes, &join(path, "onExitCodes"), containers));
    }
    if conditions.len() > PATTERNS_MAX {
        errors.push(FieldError::too_many(join(path, "onPodConditions"), conditions.len(), PATTERNS_MAX));
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let pattern_path = format!("{path}.onPodConditions[{index}]");
        errors.extend(named(text(pattern, "type"), &join(&pattern_path, "type"), names::qualified_name));
        errors.extend(required_word(pattern, &pattern_path, "status", STATUSES));
    }
    match (codes.is_some(), conditions.is_empty()) {
        (true, false) => {
            errors.push(invalid_whole(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
        }
        (false, true) => {
            errors.push(invalid_whole(path, "specifying one of OnExitCodes and OnPodConditions is required"))
        }
        (true, true) | (false, false) => {}
    }
    errors
}

fn check_exit_codes(codes: &Value, path: &str, containers: &BTreeSet<&str>) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = required_word(codes, path, "operator", OPERATORS).into_iter().collect();
    if let Some(name) = set_at(codes, "containerName").and_then(Value::as_str).filter(|name| !containers.contains(name))
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(join(path, "containerName"), name, detail));
    }
    let values_path = join(path, "values");
    let values: Vec<i64> = items(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        let present = codes.get("values").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(values_path.as_str(), present, "at least one value is required"));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(values_path.as_str(), values.len(), EXIT_CODES_MAX));
    }
    let mut seen = BTreeSet::new();
    for (index, code) in values.iter().enumerate() {
        let place = format!("{values_path}[{index}]");
        if *code == 0 && text(codes, "operator") == "In" {
            errors.push(FieldError::invalid(place.as_str(), 0, "must not be 0 for the In operator"));
        }
        if !seen.insert(*code) {
            errors.push(FieldError::duplicate(place, *code));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(values_path, values, "must be ordered"));
    }
    errors
}

pub fn check_success_policy(spec: &Value, path: &str) -> Vec<FieldError> {
    let Some(policy) = set_at(spec, "successPolicy") else { return Vec::new() };
    let rules_path = join(path, "successPolicy.rules");
    let rules = items(policy, "rules");
    let mut errors = Vec::new();
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(rules_path.as_str(), detail));
    } else if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(rules_path.as_str(), rules.len(), RULES_MAX));
    }
    let completions = number(spec, "completions").unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        errors.extend(check_success_rule(rule, &format!("{rules_path}[{index}]"), completions));
    }
    errors
}

fn check_success_rule(rule: &Value, path: &str, completions: i64) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (count, indexes) = (number(rule, "succeededCount"), set_at(rule, "succeededIndexes").and_then(Value::as_str));
    if count.is_none() && indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let mut listed = None;
    if let Some(indexes) = indexes {
        let place = join(path, "succeededIndexes");
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(place.as_str(), INDEXES_BYTES_MAX));
        }
        let parsed = count_indexes(indexes, completions);
        if let Err(why) = &parsed {
            errors.push(FieldError::invalid(place, indexes, &format!("error parsing succeededIndexes: {why}")));
        }
        listed = Some(parsed.unwrap_or(0));
    }
    if let Some(count) = count {
        let place = join(path, "succeededCount");
        if count < 0 {
            errors.push(FieldError::invalid(place.as_str(), count, "must be greater than or equal to 0"));
        }
        let limits = [
            (Some(completions), "the number of specified completions"),
            (listed, "the number of indexes in the specified succeededIndexes field"),
        ];
        for (limit, what) in limits {
            if let Some(limit) = limit.filter(|limit| count > *limit) {
                let detail = format!("must be less than or equal to {limit} ({what})");
                errors.push(FieldError::invalid(place.as_str(), count, &detail));
            }
        }
    }
    errors
}

/// How many indexes a list such as `0,2-5` names.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (low, high) = read_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= low) {
            return Err(format!("non-increasing order, previous: {last}, current: {low}"));
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

fn read_interval(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let read = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    match interval.split('-').collect::<Vec<_>>().as_slice() {
        [one] => read(one).map(|index| (index, index)),
        [low, high] => {
            let (low, high) = (read(low)?, read(high)?);
            if low >= high {
                return Err(format!("non-increasing order, previous: {low}, current: {high}"));
            }
            Ok((low, high))
        }
        _ => Err(format!(
            "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}
