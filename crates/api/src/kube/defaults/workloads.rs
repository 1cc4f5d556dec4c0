//! Defaults of the kinds that make pods from a template (spec K appendix D), and the labels of a Job (K-JOB-1).

use super::pod::pod_template;
use super::rows::Fill::{Flag, Null, Number, Object, Text};
use super::rows::{Kind, fill_row, make_map, map_at};
use super::storage::claim_spec_with_source;
use crate::kube::{at, items_mut, text};
use serde_json::{Map, Value, json};

pub(super) const KINDS: &[Kind] = &[
    Kind::of("batch", "Job").then(fill_job).rows(&[
        ("spec.completionMode", Text("NonIndexed")),
        ("spec.suspend", Flag(false)),
        ("spec.manualSelector", Flag(false)),
        ("spec.template.metadata", Object),
        ("spec.podFailurePolicy?.rules[].onPodConditions[].status", Text("True")),
        ("status", Object),
        ("status.conditions[].lastProbeTime", Null),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("batch", "CronJob").then(fill_cron_job).rows(&[
        ("spec.concurrencyPolicy", Text("Allow")),
        ("spec.suspend", Flag(false)),
        ("spec.successfulJobsHistoryLimit", Number(3)),
        ("spec.failedJobsHistoryLimit", Number(1)),
        ("spec.jobTemplate.metadata", Object),
        ("spec.jobTemplate.spec.template.metadata", Object),
        ("spec.jobTemplate.spec.podFailurePolicy?.rules[].onPodConditions[].status", Text("True")),
        ("status", Object),
    ]),
    Kind::of("apps", "Deployment").then(fill_deployment).rows(&[
        ("spec.replicas", Number(1)),
        ("spec.strategy.type", Text("RollingUpdate")),
        ("spec.revisionHistoryLimit", Number(10)),
        ("spec.progressDeadlineSeconds", Number(600)),
        ("spec.template.metadata", Object),
        ("status", Object),
        ("status.conditions[].lastTransitionTime", Null),
        ("status.conditions[].lastUpdateTime", Null),
    ]),
    Kind::of("apps", "ReplicaSet").then(fill_template).rows(&[
        ("spec.replicas", Number(1)),
        ("spec.template.metadata", Object),
        ("status.replicas", Number(0)),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("apps", "StatefulSet").then(fill_stateful_set).rows(&[
        ("spec.replicas", Number(1)),
        ("spec.podManagementPolicy", Text("OrderedReady")),
        ("spec.revisionHistoryLimit", Number(10)),
        ("spec.serviceName", Text("")),
        ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", Text("Retain")),
        ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", Text("Retain")),
        ("spec.template.metadata", Object),
        ("spec.volumeClaimTemplates[].metadata", Object),
        ("spec.volumeClaimTemplates[].status.phase", Text("Pending")),
        ("status.replicas", Number(0)),
        ("status.availableReplicas", Number(0)),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("apps", "DaemonSet").then(fill_daemon_set).rows(&[
        ("spec.updateStrategy.type", Text("RollingUpdate")),
        ("spec.revisionHistoryLimit", Number(10)),
        ("spec.template.metadata", Object),
        ("status.currentNumberScheduled", Number(0)),
        ("status.desiredNumberScheduled", Number(0)),
        ("status.numberMisscheduled", Number(0)),
        ("status.numberReady", Number(0)),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("apps", "ControllerRevision").rows(&[("revision", Number(0))]),
    Kind::of("", "ReplicationController").then(fill_replication_controller).rows(&[
        ("spec.replicas", Number(1)),
        ("spec.template?.metadata", Object),
        ("status.replicas", Number(0)),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
];

fn fill_template(object: &mut Value) {
    if let Some(template) = object.pointer_mut("/spec/template") {
        pod_template(template);
    }
}

fn fill_job(job: &mut Value) {
    let parallelism_unset = at(job, "spec.parallelism").is_none_or(Value::is_null);
    if parallelism_unset {
        fill_row(job, "spec.completions", Number(1));
    }
    fill_row(job, "spec.parallelism", Number(1));
    let is_set = |job: &Value, path: &str| at(job, path).is_some_and(|value| !value.is_null());
    let backoff = if is_set(job, "spec.backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    fill_row(job, "spec.backoffLimit", Number(backoff));
    let replacement = if is_set(job, "spec.podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill_row(job, "spec.podReplacementPolicy", Text(replacement));
    copy_template_labels(job);
    fill_template(job);
}

/// A Job and a ReplicationController without labels of their own take the template's.
fn copy_template_labels(object: &mut Value) {
    let own = at(object, "metadata.labels").and_then(Value::as_object).is_some_and(|labels| !labels.is_empty());
    let template = at(object, "spec.template.metadata.labels").and_then(Value::as_object);
    if own || template.is_none_or(Map::is_empty) {
        return;
    }
    let labels = template.cloned().unwrap_or_default();
    if let Some(metadata) = make_map(object, "metadata") {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
}

fn fill_cron_job(cron_job: &mut Value) {
    if let Some(template) = cron_job.pointer_mut("/spec/jobTemplate/spec/template") {
        pod_template(template);
    }
}

fn fill_deployment(deployment: &mut Value) {
    if text(deployment, "spec.strategy.type") == "RollingUpdate" {
        fill_row(deployment, "spec.strategy.rollingUpdate.maxUnavailable", Text("25%"));
        fill_row(deployment, "spec.strategy.rollingUpdate.maxSurge", Text("25%"));
    }
    fill_template(deployment);
}

fn fill_daemon_set(daemon_set: &mut Value) {
    if text(daemon_set, "spec.updateStrategy.type") == "RollingUpdate" {
        fill_row(daemon_set, "spec.updateStrategy.rollingUpdate.maxUnavailable", Number(1));
        fill_row(daemon_set, "spec.updateStrategy.rollingUpdate.maxSurge", Number(0));
    }
    fill_template(daemon_set);
}

/// `rollingUpdate` is only made together with the type: who names the type alone gets no partition.
fn fill_stateful_set(stateful_set: &mut Value) {
    if text(stateful_set, "spec.updateStrategy.type").is_empty() {
        fill_row(stateful_set, "spec.updateStrategy.type", Text("RollingUpdate"));
        fill_row(stateful_set, "spec.updateStrategy.rollingUpdate", Object);
    }
    if text(stateful_set, "spec.updateStrategy.type") == "RollingUpdate" {
        fill_row(stateful_set, "spec.updateStrategy.rollingUpdate?.partition", Number(0));
    }
    for claim in items_mut(stateful_set, "spec.volumeClaimTemplates") {
        if let Value::Object(claim) = claim {
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
            claim_spec_with_source(claim.entry("spec").or_insert_with(|| json!({})));
        }
    }
    fill_template(stateful_set);
}

fn fill_replication_controller(controller: &mut Value) {
    let labels = at(controller, "spec.template.metadata.labels").and_then(Value::as_object).cloned();
    let has_selector = at(controller, "spec.selector").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if let (Some(labels), false, Some(spec)) = (labels, has_selector, make_map(controller, "spec")) {
        spec.insert("selector".to_owned(), Value::Object(labels));
    }
    copy_template_labels(controller);
    fill_template(controller);
}

/// The labels that tie a Job's pods to it: job name and uid, each in its old and its new spelling.
pub const JOB_NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
pub const JOB_UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Adds the generated labels and selector to a new Job, unless it brings its own selector (K-JOB-1).
///
/// The server calls it once, after the uid is known. Labels that are there already stay; validation reports the
/// wrong ones. The Job itself shows the template's labels only while it has none of its own.
pub fn job_labels(job: &mut Value, uid: &str) {
    if at(job, "spec.manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let labels_before = at(job, "metadata.labels").cloned();
    let shares_labels = labels_before.is_none() || labels_before == at(job, "spec.template.metadata.labels").cloned();
    let name = text(job, "metadata.name").to_owned();
    if let Some(labels) = make_map(job, "spec.template.metadata.labels") {
        for key in JOB_NAME_LABELS {
            labels.entry(key).or_insert_with(|| name.clone().into());
        }
        for key in JOB_UID_LABELS {
            labels.entry(key).or_insert_with(|| uid.into());
        }
    }
    if shares_labels {
        let labels = at(job, "spec.template.metadata.labels").cloned().unwrap_or_default();
        if let Some(metadata) = map_at(job, "metadata") {
            metadata.insert("labels".to_owned(), labels);
        }
    }
    if let Some(selector) = make_map(job, "spec.selector.matchLabels") {
        selector.entry(JOB_UID_LABELS[0]).or_insert_with(|| uid.into());
    }
}
