//! Jobs: numbers, modes, policies, generated selectors, and what may still change (K-JOB-1, K-JOB-5).

use super::Rule;
use super::compare::{matches, same, with_changes};
use super::job_policy::{failure_policy, success_policy};
use super::metadata::label_selector;
use super::place::{IMMUTABLE, Place};
use super::pod::pod_template;
use crate::kube::defaults::workloads::{JOB_NAME_LABELS, JOB_UID_LABELS};
use crate::kube::names;
use serde_json::{Value, json};

pub(super) const RULES: &[Rule] = &[Rule::of("batch", "Job", job).on_update(job_update).fixed(&[
    "spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy",
    "spec.successPolicy",
])];

/// An Indexed job keeps one entry per index in its status; these bounds keep that small.
const INDEXES_MAX: i64 = 100_000;
/// The stricter bound for jobs with more completions than `INDEXES_MAX`.
const INDEXES_MAX_WHEN_MANY: i64 = 10_000;
const MANAGED_BY_MAX: usize = 63;

fn job(job: &Place) {
    generated_selector(job);
    job_spec(&job.field("spec"));
    match job.given("spec.selector") {
        None => job.required("spec.selector", ""),
        Some(selector) => {
            label_selector(&selector);
            let labels = "spec.template.metadata.labels";
            let is_matched = matches(selector.value, job.get(labels));
            job.wrong_if(!is_matched, labels, "`selector` does not match template `labels`");
        }
    }
    // The last pod of an Indexed job must have a hostname too.
    let completions = job.integer("spec.completions").unwrap_or(0);
    if completions > 0 && job.text("spec.completionMode") == "Indexed" {
        let name = job.text("metadata.name");
        let hostname = format!("{name}-{}", completions - 1);
        let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
        job.invalid_if(!names::dns_label(&hostname).is_empty(), "metadata.name", name, &detail);
    }
}

/// Without `manualSelector` the generated labels must be there, and the selector must be the generated one.
fn generated_selector(job: &Place) {
    let Some(selector) = job.given("spec.selector") else { return };
    if job.flag("spec.manualSelector") {
        return;
    }
    let labels = job.field("spec.template.metadata.labels");
    let mut expected = json!({});
    for (keys, wanted) in [(JOB_UID_LABELS, job.text("metadata.uid")), (JOB_NAME_LABELS, job.text("metadata.name"))] {
        for key in keys {
            expected[key] = wanted.into();
            let (place, detail) = (format!("[{key}]"), format!("must be '{wanted}'"));
            match labels.value.get(key).and_then(Value::as_str) {
                None => labels.required(&place, &detail),
                Some(present) => labels.invalid_if(present != wanted, &place, labels.value.clone(), &detail),
            }
        }
    }
    selector.wrong_if(!matches(selector.value, &expected), "", "`selector` not auto-generated");
}

/// What a Job's spec and a CronJob's job template have in common.
pub(super) fn job_spec(spec: &Place) {
    spec.not_negative(&["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"]);
    spec.not_negative(&["ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"]);
    spec.one_of_if_given("completionMode", &["NonIndexed", "Indexed"]);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        spec.required("backoffLimitPerIndex", "when maxFailedIndexes is specified");
    }
    if spec.has("managedBy") {
        domain_path(spec, "managedBy", MANAGED_BY_MAX);
    }
    if spec.text("completionMode") == "Indexed" {
        indexed(spec);
    } else {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            spec.wrong_if(spec.has(key), key, "requires indexed completion mode");
        }
    }
    failure_policy(spec);
    let only_failed = spec.has("podFailurePolicy");
    let supported: &[&str] = if only_failed { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    spec.one_of_if_given("podReplacementPolicy", supported);
    pod_template(&spec.field("template"));
    restart_policy(spec);
}

fn indexed(spec: &Place) {
    let (completions, failed_max) = (spec.integer("completions"), spec.integer("maxFailedIndexes"));
    let at_most = |key: &str, limit: i64, when: &str| {
        let is_more = spec.integer(key).is_some_and(|number| number > limit);
        spec.wrong_if(is_more, key, &format!("must be less than or equal to {limit}{when}"));
    };
    at_most("parallelism", INDEXES_MAX, " when completion mode is Indexed");
    at_most("maxFailedIndexes", INDEXES_MAX, "");
    let is_large = completions.is_some_and(|count| count > INDEXES_MAX) && spec.has("backoffLimitPerIndex");
    if is_large {
        let when = format!(" when completions are above {INDEXES_MAX} and used with backoff limit per index");
        at_most("parallelism", INDEXES_MAX_WHEN_MANY, &when);
        at_most("maxFailedIndexes", INDEXES_MAX_WHEN_MANY, &when);
        let detail = format!("must be specified when completions is above {INDEXES_MAX}");
        spec.needs_because("maxFailedIndexes", &detail);
    }
    spec.needs_because("completions", "when completion mode is Indexed");
    let is_beyond = completions.zip(failed_max).is_some_and(|(completions, failed_max)| failed_max > completions);
    spec.wrong_if(is_beyond, "maxFailedIndexes", "must be less than or equal to completions");
    success_policy(spec);
}

/// A path behind a domain (`acme.io/foo`): who manages a Job, who serves an ingress class.
pub(super) fn domain_path(holder: &Place, key: &str, bytes_max: usize) {
    let is_path_byte = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    let text = holder.text(key);
    match text.split_once('/') {
        _ if text.is_empty() => holder.required(key, ""),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            holder.complain(key, host, names::dns_subdomain(host));
            let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
            holder.invalid_if(!rest.bytes().all(is_path_byte), key, rest, detail);
        }
        _ => holder.wrong(key, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    holder.too_long_if(text.len() > bytes_max, key, bytes_max);
}

fn restart_policy(spec: &Place) {
    const KEY: &str = "template.spec.restartPolicy";
    match spec.text(KEY) {
        "" | "Always" => spec.required(KEY, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            spec.wrong_if(spec.has("podFailurePolicy"), KEY, detail);
        }
        _ => spec.one_of(KEY, &["OnFailure", "Never"]),
    }
}

fn job_update(new: &Place, old: &Value) {
    let (new, old_spec) = (new.field("spec"), &old["spec"]);
    if new.text("completionMode") == "Indexed" {
        // Indexed jobs are elastic: completions may change together with parallelism.
        let completions = new.integer("completions");
        let is_changed = completions.is_some() && old_spec["completions"].as_i64() != completions;
        let is_alone = is_changed && new.integer("parallelism") != completions;
        new.wrong_if(is_alone, "completions", "can only be modified in tandem with spec.parallelism");
    } else {
        new.fixed(old_spec, &["completions"]);
    }
    let may_reschedule = old_spec["suspend"] == true && old["status"]["startTime"].is_null();
    let changes = if may_reschedule { RESCHEDULED } else { &[] };
    let allowed = with_changes(&old_spec["template"], new.get("template"), changes);
    new.wrong_if(!same(new.get("template"), &allowed), "template", IMMUTABLE);
}

/// What a suspended job may change in its template (K-JOB-5).
const RESCHEDULED: &[&str] = &[
    "/spec/nodeSelector", "/spec/tolerations", "/spec/schedulingGates", "/spec/affinity/nodeAffinity",
    "/metadata/labels", "/metadata/annotations",
];
