//! Jobs: numbers, modes, policies, generated selectors, and what may still change (K-JOB-1, K-JOB-5).

use super::Rule;
use super::job_policy::{check_failure_policy, check_success_policy};
use super::label_selector::{check_selector, matches};
use super::path::Path;
use super::pod::pod_template;
use super::rows::{
    Row, check, check_update as fixed, domain_path, fixed_field, flag, join, number, one_of, put, set_at,
};
use crate::kube::defaults::workloads::{JOB_NAME_LABELS, JOB_UID_LABELS};
use crate::kube::field::FieldError;
use crate::kube::{at, names, text};
use serde_json::{Value, json};

pub const RULES: &[Rule] =
    &[Rule { group: "batch", kind: "Job", is_namespaced: true, create: check_job, update: check_job_update }];

/// An Indexed job keeps one entry per index in its status; these bounds keep that small.
const INDEXES_MAX: i64 = 100_000;
/// The stricter bound for jobs with more completions than `INDEXES_MAX`.
const INDEXES_MAX_WHEN_MANY: i64 = 10_000;
const MANAGED_BY_MAX: usize = 63;

const SPEC_ROWS: &[Row] = &[
    Row::NotNegative("parallelism"),
    Row::NotNegative("completions"),
    Row::NotNegative("activeDeadlineSeconds"),
    Row::NotNegative("backoffLimit"),
    Row::NotNegative("ttlSecondsAfterFinished"),
    Row::NotNegative("backoffLimitPerIndex"),
    Row::NotNegative("maxFailedIndexes"),
    Row::OneOf("completionMode", &["NonIndexed", "Indexed"]),
    Row::Fixed("selector"),
    Row::Fixed("completionMode"),
    Row::Fixed("podFailurePolicy"),
    Row::Fixed("backoffLimitPerIndex"),
    Row::Fixed("managedBy"),
    Row::Fixed("successPolicy"),
];

pub fn check_job(job: &Value) -> Vec<FieldError> {
    let spec = &job["spec"];
    let mut errors = check_generated_selector(job);
    errors.extend(check_spec(spec, "spec"));
    match set_at(spec, "selector") {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) => {
            errors.extend(check_selector(Some(selector), "spec.selector"));
            let labels = at(spec, "template.metadata.labels");
            if !matches(selector, labels) {
                let labels = labels.cloned().unwrap_or_default();
                let detail = "`selector` does not match template `labels`";
                errors.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
            }
        }
    }
    errors.extend(check_index_hostnames(job));
    errors
}

/// The last pod of an Indexed job must have a hostname too.
fn check_index_hostnames(job: &Value) -> Option<FieldError> {
    let completions = number(job, "spec.completions").filter(|count| *count > 0)?;
    let name = text(job, "metadata.name");
    let hostname = format!("{name}-{}", completions - 1);
    let is_indexed = text(job, "spec.completionMode") == "Indexed";
    let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
    (is_indexed && !names::dns_label(&hostname).is_empty()).then(|| FieldError::invalid("metadata.name", name, &detail))
}

/// Without `manualSelector` the generated labels must be there, and the selector must be the generated one.
fn check_generated_selector(job: &Value) -> Vec<FieldError> {
    let Some(selector) = set_at(job, "spec.selector") else { return Vec::new() };
    if flag(job, "spec.manualSelector") {
        return Vec::new();
    }
    let (name, uid) = (text(job, "metadata.name"), text(job, "metadata.uid"));
    let labels = at(job, "spec.template.metadata.labels").cloned().unwrap_or_default();
    let mut errors = Vec::new();
    let mut expected = json!({});
    for (keys, wanted) in [(JOB_UID_LABELS, uid), (JOB_NAME_LABELS, name)] {
        for key in keys {
            expected[key] = wanted.into();
            let path = format!("spec.template.metadata.labels[{key}]");
            let detail = format!("must be '{wanted}'");
            match labels.get(key).and_then(Value::as_str) {
                None => errors.push(FieldError::required(path, &detail)),
                Some(present) if present != wanted => errors.push(FieldError::invalid(path, labels.clone(), &detail)),
                Some(_) => {}
            }
        }
    }
    if !matches(selector, Some(&expected)) {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "`selector` not auto-generated"));
    }
    errors
}

/// What a Job's spec and a CronJob's job template have in common.
pub fn check_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = check(spec, path, SPEC_ROWS);
    if set_at(spec, "maxFailedIndexes").is_some() && set_at(spec, "backoffLimitPerIndex").is_none() {
        errors.push(FieldError::required(join(path, "backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = set_at(spec, "managedBy") {
        errors.extend(domain_path(manager.as_str().unwrap_or(""), &join(path, "managedBy"), MANAGED_BY_MAX));
    }
    if text(spec, "completionMode") == "Indexed" {
        errors.extend(check_indexed(spec, path));
    } else {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            if let Some(value) = set_at(spec, name) {
                let detail = "requires indexed completion mode";
                errors.push(FieldError::invalid(join(path, name), value.clone(), detail));
            }
        }
    }
    errors.extend(check_failure_policy(spec, path));
    errors.extend(check_replacement_policy(spec, path));
    errors.extend(pod_template(&spec["template"], &Path::new(path).field("template")));
    errors.extend(check_restart_policy(spec, &join(path, "template.spec.restartPolicy")));
    errors
}

fn check_indexed(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (completions, parallelism) = (number(spec, "completions"), number(spec, "parallelism"));
    let failed_max = number(spec, "maxFailedIndexes");
    let mut at_most = |name: &str, value: Option<i64>, limit: i64, when: &str| {
        if let Some(value) = value.filter(|value| *value > limit) {
            let detail = format!("must be less than or equal to {limit}{when}");
            errors.push(FieldError::invalid(join(path, name), value, &detail));
        }
    };
    at_most("parallelism", parallelism, INDEXES_MAX, " when completion mode is Indexed");
    at_most("maxFailedIndexes", failed_max, INDEXES_MAX, "");
    let is_large =
        completions.is_some_and(|count| count > INDEXES_MAX) && set_at(spec, "backoffLimitPerIndex").is_some();
    if is_large {
        let when = format!(" when completions are above {INDEXES_MAX} and used with backoff limit per index");
        at_most("parallelism", parallelism, INDEXES_MAX_WHEN_MANY, &when);
        at_most("maxFailedIndexes", failed_max, INDEXES_MAX_WHEN_MANY, &when);
        if failed_max.is_none() {
            let detail = format!("must be specified when completions is above {INDEXES_MAX}");
            errors.push(FieldError::required(join(path, "maxFailedIndexes"), &detail));
        }
    }
    match (completions, failed_max) {
        (None, _) => errors.push(FieldError::required(join(path, "completions"), "when completion mode is Indexed")),
        (Some(completions), Some(failed_max)) if failed_max > completions => {
            let detail = "must be less than or equal to completions";
            errors.push(FieldError::invalid(join(path, "maxFailedIndexes"), failed_max, detail));
        }
        _ => {}
    }
    errors.extend(check_success_policy(spec, path));
    errors
}

fn check_replacement_policy(spec: &Value, path: &str) -> Option<FieldError> {
    let policy = set_at(spec, "podReplacementPolicy")?;
    let only_failed = set_at(spec, "podFailurePolicy").is_some();
    let supported: &[&str] = if only_failed { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    one_of(policy, &join(path, "podReplacementPolicy"), supported)
}

fn check_restart_policy(spec: &Value, path: &str) -> Option<FieldError> {
    match text(spec, "template.spec.restartPolicy") {
        "" | "Always" => Some(FieldError::required(path, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if set_at(spec, "podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            Some(FieldError::invalid(path, "OnFailure", detail))
        }
        "OnFailure" | "Never" => None,
        other => Some(FieldError::not_supported(path, other, &["OnFailure", "Never"])),
    }
}

pub fn check_job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    let mut errors = check_job(new);
    errors.extend(fixed(new_spec, old_spec, "spec", SPEC_ROWS));
    errors.extend(check_completions_update(new_spec, old_spec));
    let may_reschedule = flag(old_spec, "suspend") && set_at(old, "status.startTime").is_none();
    let allowed = if may_reschedule { with_scheduling_of(old_spec, new_spec) } else { old_spec.clone() };
    errors.extend(fixed_field(new_spec, &allowed, "spec", "template"));
    errors
}

/// Indexed jobs are elastic: completions may change together with parallelism.
fn check_completions_update(new_spec: &Value, old_spec: &Value) -> Option<FieldError> {
    if text(new_spec, "completionMode") != "Indexed" {
        return fixed_field(new_spec, old_spec, "spec", "completions");
    }
    let completions = number(new_spec, "completions")?;
    let changed = number(old_spec, "completions") != Some(completions);
    let detail = "can only be modified in tandem with spec.parallelism";
    (changed && number(new_spec, "parallelism") != Some(completions))
        .then(|| FieldError::invalid("spec.completions", completions, detail))
}

/// The old spec with everything taken over that a suspended job may change in its template (K-JOB-5).
fn with_scheduling_of(old_spec: &Value, new_spec: &Value) -> Value {
    let mut allowed = old_spec.clone();
    for path in [
        "/template/spec/nodeSelector",
        "/template/spec/tolerations",
        "/template/spec/schedulingGates",
        "/template/spec/affinity/nodeAffinity",
        "/template/metadata/labels",
        "/template/metadata/annotations",
    ] {
        let value = new_spec.pointer(path).cloned().unwrap_or_default();
        put(&mut allowed, path, value);
    }
    allowed
}
