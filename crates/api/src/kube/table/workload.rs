//! Rows of the kinds that run pods: jobs, cron jobs, deployments, sets, autoscalers.

use super::Cell::{Count, Labels, Length, Made, Selector, Text, TextOr, Timed};
use super::cell::{self, NONE, UNSET, count, list, scalar};
use super::{Column, Printer};
use crate::kube::{at, text, time};
use jiff::Timestamp;
use serde_json::Value;

/// Containers, images and selector: the wide columns that most of these kinds end with.
const CONTAINERS: Column = containers(Made(|object| cell::containers(object, "spec.template.spec.containers", "name")));
const IMAGES: Column = images(Made(|object| cell::containers(object, "spec.template.spec.containers", "image")));
const SELECTOR: Column = selector(Selector("spec.selector"));

const fn containers(cell: super::Cell) -> Column {
    Column::text("Containers", "Names of the containers of the template.", cell).wide()
}

const fn images(cell: super::Cell) -> Column {
    Column::text("Images", "Images of the containers of the template.", cell).wide()
}

const fn selector(cell: super::Cell) -> Column {
    Column::text("Selector", "Labels of the pods that belong to the object.", cell).wide()
}

const DESIRED: Column = Column::integer("Desired", "How many pods are wanted.", Count("spec.replicas"));
const CURRENT: Column = Column::integer("Current", "How many pods exist.", Count("status.replicas"));
const READY: Column = Column::integer("Ready", "How many pods are ready.", Count("status.readyReplicas"));
const READY_OF_DESIRED: Column = Column::text(
    "Ready",
    "Ready pods, of those wanted.",
    Made(|set| format!("{}/{}", count(set, "status.readyReplicas"), count(set, "spec.replicas")).into()),
);

const JOB_TEMPLATE: &str = "spec.jobTemplate.spec.template.spec.containers";

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of("batch", "Job").columns(&[
        Column::NAME,
        Column::text("Status", "Where the job stands.", Made(job_status)),
        Column::text("Completions", "Pods that succeeded, of those wanted.", Made(completions)),
        Column::text("Duration", "Time from the start to the end, or until now.", Timed(duration)),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    Printer::of("batch", "CronJob").columns(&[
        Column::NAME,
        Column::text("Schedule", "When jobs are made, in cron form.", Text("spec.schedule")),
        Column::text("Timezone", "Time zone of the schedule.", TextOr("spec.timeZone", NONE)),
        Column::boolean("Suspend", "Whether no new jobs are made.", Made(suspend)),
        Column::integer("Active", "How many jobs run now.", Length("status.active")),
        Column::text("Last Schedule", "Time since a job was last made.", Timed(last_schedule)),
        Column::AGE,
        containers(Made(|cron_job| cell::containers(cron_job, JOB_TEMPLATE, "name"))),
        images(Made(|cron_job| cell::containers(cron_job, JOB_TEMPLATE, "image"))),
        selector(Selector("spec.jobTemplate.spec.selector")),
    ]),
    Printer::of("apps", "Deployment").columns(&[
        Column::NAME,
        READY_OF_DESIRED,
        Column::text("Up-to-date", "Pods made from the present template.", Count("status.updatedReplicas")),
        Column::text("Available", "Pods that have been ready for long enough.", Count("status.availableReplicas")),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    Printer::of("apps", "ReplicaSet").columns(&[
        Column::NAME,
        DESIRED,
        CURRENT,
        READY,
        Column::AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    // The oldest of these kinds selects by a plain map of labels.
    Printer::of("", "ReplicationController").columns(&[
        Column::NAME,
        DESIRED,
        CURRENT,
        READY,
        Column::AGE,
        CONTAINERS,
        IMAGES,
        selector(Labels("spec.selector")),
    ]),
    Printer::of("apps", "StatefulSet").columns(&[Column::NAME, READY_OF_DESIRED, Column::AGE, CONTAINERS, IMAGES]),
    Printer::of("apps", "DaemonSet").columns(&[
        Column::NAME,
        Column::integer("Desired", "How many nodes should run the pod.", Count("status.desiredNumberScheduled")),
        Column::integer("Current", "How many nodes run the pod.", Count("status.currentNumberScheduled")),
        Column::integer("Ready", "How many nodes have a ready pod.", Count("status.numberReady")),
        Column::integer("Up-to-date", "Nodes with a pod made from the present template.", UPDATED),
        Column::integer(
            "Available",
            "Nodes whose pod has been ready for long enough.",
            Count("status.numberAvailable"),
        ),
        Column::text("Node Selector", "Labels of the nodes that should run the pod.", NODE_SELECTOR),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    Printer::of("apps", "ControllerRevision").columns(&[
        Column::NAME,
        Column::text("Controller", "Object that the revision belongs to.", Made(controller)),
        Column::text("Revision", "Number of the revision.", Count("revision")),
        Column::AGE,
    ]),
    Printer::of("autoscaling", "HorizontalPodAutoscaler").columns(&[
        Column::NAME,
        Column::text("Reference", "Object that is scaled.", Made(scale_target)),
        Column::text("Targets", "Measured and wanted value of each metric.", Made(autoscaler_targets)),
        Column::text("MinPods", "Least number of pods.", Made(least_pods)),
        Column::text("MaxPods", "Greatest number of pods.", Count("spec.maxReplicas")),
        Column::text("Replicas", "Present number of pods.", Count("status.currentReplicas")),
        Column::AGE,
    ]),
];

const UPDATED: super::Cell = Count("status.updatedNumberScheduled");
const NODE_SELECTOR: super::Cell = Labels("spec.template.spec.nodeSelector");

fn job_status(job: &Value) -> Value {
    let has = |kind: &str| cell::condition(job, kind) == Some("True");
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if cell::is_deleting(job) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    status.into()
}

fn completions(job: &Value) -> Value {
    let succeeded = count(job, "status.succeeded");
    let parallelism = count(job, "spec.parallelism");
    match at(job, "spec.completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
    .into()
}

fn duration(job: &Value, now: Timestamp) -> Value {
    let end = time::parse(text(job, "status.completionTime")).unwrap_or(now);
    let start = time::parse(text(job, "status.startTime"));
    start.map_or(String::new(), |start| time::age(Some(start), end)).into()
}

fn suspend(cron_job: &Value) -> Value {
    let suspend = match at(cron_job, "spec.suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    suspend.into()
}

fn last_schedule(cron_job: &Value, now: Timestamp) -> Value {
    match text(cron_job, "status.lastScheduleTime") {
        "" => NONE.into(),
        _ => cell::since(cron_job, "status.lastScheduleTime", now).into(),
    }
}

fn controller(revision: &Value) -> Value {
    let owner = list(revision, "metadata.ownerReferences").iter().find(|owner| cell::flag(owner, "controller"));
    let Some(owner) = owner else { return NONE.into() };
    let (kind, name) = (text(owner, "kind").to_lowercase(), text(owner, "name"));
    match text(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}").into(),
        None => format!("{kind}/{name}").into(),
    }
}

fn scale_target(autoscaler: &Value) -> Value {
    let part = |key| text(autoscaler, key);
    format!("{}/{}", part("spec.scaleTargetRef.kind"), part("spec.scaleTargetRef.name")).into()
}

fn least_pods(autoscaler: &Value) -> Value {
    cell::or(&scalar(at(autoscaler, "spec.minReplicas")), UNSET).into()
}

/// Metrics are cut after this many.
const METRICS_MAX: usize = 2;

fn autoscaler_targets(autoscaler: &Value) -> Value {
    // The v1 form knows one metric only and keeps it outside the list.
    if let Some(target) = at(autoscaler, "spec.targetCPUUtilizationPercentage") {
        let current = percent(at(autoscaler, "status.currentCPUUtilizationPercentage"));
        return format!("cpu: {}/{target}%", current.unwrap_or(cell::UNKNOWN.to_owned())).into();
    }
    let statuses = list(autoscaler, "status.currentMetrics");
    let metrics = list(autoscaler, "spec.metrics").iter().enumerate();
    let items: Vec<String> = metrics.map(|(index, spec)| metric_text(spec, statuses.get(index))).collect();
    cell::or(&cell::shortened(&items, METRICS_MAX, ", "), NONE).into()
}

fn percent(value: Option<&Value>) -> Option<String> {
    value.map(|value| format!("{value}%"))
}

fn metric_text(spec: &Value, status: Option<&Value>) -> String {
    let source = match text(spec, "type") {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, measured) = (at(spec, source), status.and_then(|status| at(status, source)));
    let target = |key: &str| wanted.and_then(|source| at(source, &format!("target.{key}")));
    let current = |key: &str| measured.and_then(|source| at(source, &format!("current.{key}")));
    let unknown = || cell::UNKNOWN.to_owned();
    let pair = |key: &str| (current(key).map_or_else(unknown, |v| scalar(Some(v))), scalar(target(key)));
    let is_average = target("averageValue").is_some();
    match source {
        "resource" | "containerResource" => {
            let name = wanted.map_or("", |source| text(source, "name"));
            let (now, goal) = if is_average {
                pair("averageValue")
            } else {
                let goal = percent(target("averageUtilization")).unwrap_or("<auto>".to_owned());
                (percent(current("averageUtilization")).unwrap_or_else(unknown), goal)
            };
            format!("{name}: {now}/{goal}")
        }
        _ => {
            let (now, goal) = pair(if is_average { "averageValue" } else { "value" });
            let suffix = if is_average && source != "pods" { " (avg)" } else { "" };
            format!("{now}/{goal}{suffix}")
        }
    }
}
