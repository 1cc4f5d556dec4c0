//! Defaults of the kinds that make pods from a template (spec K appendix D), and the labels of a Job (K-JOB-1).

use super::pod::pod_template;
use super::rows::{Fill, KindRow, fill_row, items_mut, make_map, map_at, nothing_more};
use super::storage::fill_claim_spec;
use crate::kube::{at, text};
use serde_json::{Map, Value, json};

pub const ROWS: &[KindRow] = &[
    KindRow {
        group: "batch",
        kind: "Job",
        rows: &[
            ("spec.completionMode", Fill::Text("NonIndexed")),
            ("spec.suspend", Fill::Flag(false)),
            ("spec.manualSelector", Fill::Flag(false)),
            ("spec.template.metadata", Fill::Map),
            ("spec.podFailurePolicy?.rules[].onPodConditions[].status", Fill::Text("True")),
            ("status", Fill::Map),
        ],
        more: fill_job,
    },
    KindRow {
        group: "batch",
        kind: "CronJob",
        rows: &[
            ("spec.concurrencyPolicy", Fill::Text("Allow")),
            ("spec.suspend", Fill::Flag(false)),
            ("spec.successfulJobsHistoryLimit", Fill::Number(3)),
            ("spec.failedJobsHistoryLimit", Fill::Number(1)),
            ("spec.jobTemplate.metadata", Fill::Map),
            ("spec.jobTemplate.spec.template.metadata", Fill::Map),
            ("spec.jobTemplate.spec.podFailurePolicy?.rules[].onPodConditions[].status", Fill::Text("True")),
            ("status", Fill::Map),
        ],
        more: fill_cron_job,
    },
    KindRow {
        group: "apps",
        kind: "Deployment",
        rows: &[
            ("spec.replicas", Fill::Number(1)),
            ("spec.strategy.type", Fill::Text("RollingUpdate")),
            ("spec.revisionHistoryLimit", Fill::Number(10)),
            ("spec.progressDeadlineSeconds", Fill::Number(600)),
            ("spec.template.metadata", Fill::Map),
            ("status", Fill::Map),
        ],
        more: fill_deployment,
    },
    KindRow {
        group: "apps",
        kind: "ReplicaSet",
        rows: &[
            ("spec.replicas", Fill::Number(1)),
            ("spec.template.metadata", Fill::Map),
            ("status.replicas", Fill::Number(0)),
        ],
        more: fill_template,
    },
    KindRow {
        group: "apps",
        kind: "StatefulSet",
        rows: &[
            ("spec.replicas", Fill::Number(1)),
            ("spec.podManagementPolicy", Fill::Text("OrderedReady")),
            ("spec.revisionHistoryLimit", Fill::Number(10)),
            ("spec.serviceName", Fill::Text("")),
            ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", Fill::Text("Retain")),
            ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", Fill::Text("Retain")),
            ("spec.template.metadata", Fill::Map),
            ("spec.volumeClaimTemplates[].metadata", Fill::Map),
            ("spec.volumeClaimTemplates[].status.phase", Fill::Text("Pending")),
            ("status.replicas", Fill::Number(0)),
            ("status.availableReplicas", Fill::Number(0)),
        ],
        more: fill_stateful_set,
    },
    KindRow {
        group: "apps",
        kind: "DaemonSet",
        rows: &[
            ("spec.updateStrategy.type", Fill::Text("RollingUpdate")),
            ("spec.revisionHistoryLimit", Fill::Number(10)),
            ("spec.template.metadata", Fill::Map),
            ("status.currentNumberScheduled", Fill::Number(0)),
            ("status.desiredNumberScheduled", Fill::Number(0)),
            ("status.numberMisscheduled", Fill::Number(0)),
            ("status.numberReady", Fill::Number(0)),
        ],
        more: fill_daemon_set,
    },
    KindRow { group: "apps", kind: "ControllerRevision", rows: &[("revision", Fill::Number(0))], more: nothing_more },
    KindRow {
        group: "",
        kind: "ReplicationController",
        rows: &[
            ("spec.replicas", Fill::Number(1)),
            ("spec.template?.metadata", Fill::Map),
            ("status.replicas", Fill::Number(0)),
        ],
        more: fill_replication_controller,
    },
];

fn fill_template(object: &mut Value) {
    if let Some(template) = object.pointer_mut("/spec/template") {
        pod_template(template);
    }
}

fn fill_job(job: &mut Value) {
    let parallelism_unset = at(job, "spec.parallelism").is_none_or(Value::is_null);
    if parallelism_unset {
        fill_row(job, "spec.completions", Fill::Number(1));
    }
    fill_row(job, "spec.parallelism", Fill::Number(1));
    let is_set = |job: &Value, path: &str| at(job, path).is_some_and(|value| !value.is_null());
    let backoff = if is_set(job, "spec.backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    fill_row(job, "spec.backoffLimit", Fill::Number(backoff));
    let replacement = if is_set(job, "spec.podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill_row(job, "spec.podReplacementPolicy", Fill::Text(replacement));
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
        fill_row(deployment, "spec.strategy.rollingUpdate.maxUnavailable", Fill::Text("25%"));
        fill_row(deployment, "spec.strategy.rollingUpdate.maxSurge", Fill::Text("25%"));
    }
    fill_template(deployment);
}

fn fill_daemon_set(daemon_set: &mut Value) {
    if text(daemon_set, "spec.updateStrategy.type") == "RollingUpdate" {
        fill_row(daemon_set, "spec.updateStrategy.rollingUpdate.maxUnavailable", Fill::Number(1));
        fill_row(daemon_set, "spec.updateStrategy.rollingUpdate.maxSurge", Fill::Number(0));
    }
    fill_template(daemon_set);
}

/// `rollingUpdate` is only made together with the type: who names the type alone gets no partition.
fn fill_stateful_set(stateful_set: &mut Value) {
    if text(stateful_set, "spec.updateStrategy.type").is_empty() {
        fill_row(stateful_set, "spec.updateStrategy.type", Fill::Text("RollingUpdate"));
        fill_row(stateful_set, "spec.updateStrategy.rollingUpdate", Fill::Map);
    }
    if text(stateful_set, "spec.updateStrategy.type") == "RollingUpdate" {
        fill_row(stateful_set, "spec.updateStrategy.rollingUpdate?.partition", Fill::Number(0));
    }
    for claim in items_mut(stateful_set, "spec.volumeClaimTemplates") {
        if let Value::Object(claim) = claim {
            claim.insert("apiVersion".to_owned(), "v1".into());
            claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
            fill_claim_spec(claim.entry("spec").or_insert_with(|| json!({})));
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
