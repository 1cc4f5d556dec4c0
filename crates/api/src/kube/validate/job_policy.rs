//! A Job's failure and success policies.

use super::place::Place;
use crate::kube::field::Problem;
use crate::kube::names;
use std::collections::BTreeSet;

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

/// A word that must be given: absent is `Required value: valid values: ["A" "B"]`.
fn needs_word(holder: &Place, key: &str, words: &[&str]) {
    if holder.text(key).is_empty() {
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        holder.required(key, &format!("valid values: [{}]", quoted.join(" ")));
    } else {
        holder.one_of(key, words);
    }
}

pub(super) fn failure_policy(spec: &Place) {
    let Some(policy) = spec.given("podFailurePolicy") else { return };
    policy.items_at_most("rules", RULES_MAX);
    let lists = ["template.spec.containers", "template.spec.initContainers"];
    let containers: BTreeSet<&str> =
        lists.iter().flat_map(|key| spec.items(key)).map(|container| container.text("name")).collect();
    for rule in policy.items("rules") {
        let has_no_index = rule.text("action") == "FailIndex" && !spec.has("backoffLimitPerIndex");
        rule.wrong_if(has_no_index, "action", "requires the backoffLimitPerIndex to be set");
        needs_word(&rule, "action", &["Count", "FailIndex", "FailJob", "Ignore"]);
        failure_rule(&rule, &containers);
    }
}

fn failure_rule(rule: &Place, containers: &BTreeSet<&str>) {
    let codes = rule.given("onExitCodes");
    if let Some(codes) = &codes {
        exit_codes(codes, containers);
    }
    rule.items_at_most("onPodConditions", PATTERNS_MAX);
    for pattern in rule.items("onPodConditions") {
        pattern.named("type", names::qualified_name);
        needs_word(&pattern, "status", &["False", "True", "Unknown"]);
    }
    let detail = match (codes.is_some(), rule.list("onPodConditions").is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) | (false, false) => return,
    };
    rule.worded("", Problem::Invalid, format!("Invalid value: {detail}"));
}

fn exit_codes(codes: &Place, containers: &BTreeSet<&str>) {
    needs_word(codes, "operator", &["In", "NotIn"]);
    let is_unknown = codes.has("containerName") && !containers.contains(codes.text("containerName"));
    let detail = "must be one of the container or initContainer names in the pod template";
    codes.wrong_if(is_unknown, "containerName", detail);
    codes.wrong_if(codes.list("values").is_empty(), "values", "at least one value is required");
    codes.items_at_most("values", EXIT_CODES_MAX);
    let mut seen = BTreeSet::new();
    for item in codes.items("values") {
        let code = item.integer("").unwrap_or(0);
        let is_success = code == 0 && codes.text("operator") == "In";
        item.invalid_if(is_success, "", 0, "must not be 0 for the In operator");
        item.duplicate_if(!seen.insert(code), "", code);
    }
    let is_sorted = codes.list("values").is_sorted_by_key(|code| code.as_i64());
    codes.wrong_if(!is_sorted, "values", "must be ordered");
}

pub(super) fn success_policy(spec: &Place) {
    let Some(policy) = spec.given("successPolicy") else { return };
    policy.needs_because("rules", "at least one rules must be specified when the successPolicy is specified");
    policy.items_at_most("rules", RULES_MAX);
    let completions = spec.integer("completions").unwrap_or(0);
    policy.items("rules").for_each(|rule| success_rule(&rule, completions));
}

fn success_rule(rule: &Place, completions: i64) {
    if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
        rule.required("", "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut listed = None;
    if rule.has("succeededIndexes") {
        let indexes = rule.text("succeededIndexes");
        rule.too_long_if(indexes.len() > INDEXES_BYTES_MAX, "succeededIndexes", INDEXES_BYTES_MAX);
        let parsed = count_indexes(indexes, completions);
        if let Err(why) = &parsed {
            rule.wrong("succeededIndexes", &format!("error parsing succeededIndexes: {why}"));
        }
        listed = Some(parsed.unwrap_or(0));
    }
    rule.not_negative(&["succeededCount"]);
    let limits = [
        (Some(completions), "the number of specified completions"),
        (listed, "the number of indexes in the specified succeededIndexes field"),
    ];
    for (limit, what) in limits {
        let (Some(count), Some(limit)) = (rule.integer("succeededCount"), limit) else { continue };
        let detail = format!("must be less than or equal to {limit} ({what})");
        rule.wrong_if(count > limit, "succeededCount", &detail);
    }
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
