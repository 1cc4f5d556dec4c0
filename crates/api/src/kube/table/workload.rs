//! Rows of the kinds that run pods: jobs, cron jobs, deployments, sets, autoscalers.

use super::cell::{self, NONE, UNSET, count, list, scalar, text_or};
use super::{Column, Printer};
use crate::kube::{at, text, time};
use jiff::Timestamp;
use serde_json::Value;

const CONTAINERS: Column = Column::text("Containers", "Names of the containers of the template.").wide();
const IMAGES: Column = Column::text("Images", "Images of the containers of the template.").wide();
const SELECTOR: Column = Column::text("Selector", "Labels of the pods that belong to the object.").wide();

const REPLICAS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", "How many pods are wanted."),
    Column::integer("Current", "How many pods exist."),
    Column::integer("Ready", "How many pods are ready."),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub const PRINTERS: &[Printer] = &[
    Printer {
        group: "batch",
        kind: "Job",
        columns: &[
            Column::NAME,
            Column::text("Status", "Where the job stands."),
            Column::text("Completions", "Pods that succeeded, of those wanted."),
            Column::text("Duration", "Time from the start to the end, or until now."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: job_cells,
    },
    Printer {
        group: "batch",
        kind: "CronJob",
        columns: &[
            Column::NAME,
            Column::text("Schedule", "When jobs are made, in cron form."),
            Column::text("Timezone", "Time zone of the schedule."),
            Column::boolean("Suspend", "Whether no new jobs are made."),
            Column::integer("Active", "How many jobs run now."),
            Column::text("Last Schedule", "Time since a job was last made."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: cron_job_cells,
    },
    Printer {
        group: "apps",
        kind: "Deployment",
        columns: &[
            Column::NAME,
            Column::text("Ready", "Ready pods, of those wanted."),
            Column::text("Up-to-date", "Pods made from the present template."),
            Column::text("Available", "Pods that have been ready for long enough."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: deployment_cells,
    },
    Printer { group: "apps", kind: "ReplicaSet", columns: REPLICAS, cells: replica_set_cells },
    Printer { group: "", kind: "ReplicationController", columns: REPLICAS, cells: replication_controller_cells },
    Printer {
        group: "apps",
        kind: "StatefulSet",
        columns: &[
            Column::NAME,
            Column::text("Ready", "Ready pods, of those wanted."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
        ],
        cells: stateful_set_cells,
    },
    Printer {
        group: "apps",
        kind: "DaemonSet",
        columns: &[
            Column::NAME,
            Column::integer("Desired", "How many nodes should run the pod."),
            Column::integer("Current", "How many nodes run the pod."),
            Column::integer("Ready", "How many nodes have a ready pod."),
            Column::integer("Up-to-date", "Nodes with a pod made from the present template."),
            Column::integer("Available", "Nodes whose pod has been ready for long enough."),
            Column::text("Node Selector", "Labels of the nodes that should run the pod."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: daemon_set_cells,
    },
    Printer {
        group: "apps",
        kind: "ControllerRevision",
        columns: &[
            Column::NAME,
            Column::text("Controller", "Object that the revision belongs to."),
            Column::text("Revision", "Number of the revision."),
            Column::AGE,
        ],
        cells: controller_revision_cells,
    },
    Printer {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        columns: &[
            Column::NAME,
            Column::text("Reference", "Object that is scaled."),
            Column::text("Targets", "Measured and wanted value of each metric."),
            Column::text("MinPods", "Least number of pods."),
            Column::text("MaxPods", "Greatest number of pods."),
            Column::text("Replicas", "Present number of pods."),
            Column::AGE,
        ],
        cells: autoscaler_cells,
    },
];

/// Containers, images and selector: the wide columns that most of these kinds end with.
fn template_cells(object: &Value, spec: &str, selector: Value) -> [Value; 3] {
    let [names, images] = cell::containers(object, &format!("{spec}.template.spec"));
    [names, images, selector]
}

fn spec_template_cells(object: &Value) -> [Value; 3] {
    template_cells(object, "spec", cell::selector(object, "spec.selector"))
}

fn ready_of_desired(object: &Value) -> Value {
    format!("{}/{}", count(object, "status.readyReplicas"), count(object, "spec.replicas")).into()
}

fn job_cells(job: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = count(job, "status.succeeded");
    let parallelism = count(job, "spec.parallelism");
    let completions = match at(job, "spec.completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let end = time::parse(text(job, "status.completionTime")).unwrap_or(now);
    let duration = match time::parse(text(job, "status.startTime")) {
        Some(start) => time::age(Some(start), end),
        None => String::new(),
    };
    let head = [cell::name(job), job_status(job).into(), completions.into(), duration.into(), cell::age(job, now)];
    head.into_iter().chain(spec_template_cells(job)).collect()
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| cell::condition(job, kind) == Some("True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if cell::is_deleting(job) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn cron_job_cells(cron_job: &Value, now: Timestamp) -> Vec<Value> {
    let suspend = match at(cron_job, "spec.suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = match text(cron_job, "status.lastScheduleTime") {
        "" => NONE.to_owned(),
        _ => cell::since(cron_job, "status.lastScheduleTime", now),
    };
    let head = [
        cell::name(cron_job),
        text(cron_job, "spec.schedule").into(),
        text_or(cron_job, "spec.timeZone", NONE).into(),
        suspend.into(),
        list(cron_job, "status.active").len().into(),
        last.into(),
        cell::age(cron_job, now),
    ];
    let selector = cell::selector(cron_job, "spec.jobTemplate.spec.selector");
    head.into_iter().chain(template_cells(cron_job, "spec.jobTemplate.spec", selector)).collect()
}

fn deployment_cells(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let head = [
        cell::name(deployment),
        ready_of_desired(deployment),
        count(deployment, "status.updatedReplicas").into(),
        count(deployment, "status.availableReplicas").into(),
        cell::age(deployment, now),
    ];
    head.into_iter().chain(spec_template_cells(deployment)).collect()
}

fn replica_set_cells(set: &Value, now: Timestamp) -> Vec<Value> {
    replica_cells(set, cell::selector(set, "spec.selector"), now)
}

/// The oldest of these kinds selects by a plain map of labels.
fn replication_controller_cells(controller: &Value, now: Timestamp) -> Vec<Value> {
    replica_cells(controller, cell::labels(controller, "spec.selector"), now)
}

fn replica_cells(set: &Value, selector: Value, now: Timestamp) -> Vec<Value> {
    let head = [
        cell::name(set),
        count(set, "spec.replicas").into(),
        count(set, "status.replicas").into(),
        count(set, "status.readyReplicas").into(),
        cell::age(set, now),
    ];
    head.into_iter().chain(template_cells(set, "spec", selector)).collect()
}

fn stateful_set_cells(set: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cell::containers(set, "spec.template.spec");
    vec![cell::name(set), ready_of_desired(set), cell::age(set, now), names, images]
}

fn daemon_set_cells(set: &Value, now: Timestamp) -> Vec<Value> {
    let counts = [
        "status.desiredNumberScheduled",
        "status.currentNumberScheduled",
        "status.numberReady",
        "status.updatedNumberScheduled",
        "status.numberAvailable",
    ];
    let mut cells = vec![cell::name(set)];
    cells.extend(counts.map(|path| Value::from(count(set, path))));
    cells.extend([cell::labels(set, "spec.template.spec.nodeSelector"), cell::age(set, now)]);
    cells.extend(spec_template_cells(set));
    cells
}

fn controller_revision_cells(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(revision, "metadata.ownerReferences").iter().find(|owner| cell::flag(owner, "controller"));
    let controller = owner.map_or(NONE.to_owned(), |owner| {
        let kind = text(owner, "kind").to_lowercase();
        match text(owner, "apiVersion").split_once('/') {
            Some((group, _)) => format!("{kind}.{group}/{}", text(owner, "name")),
            None => format!("{kind}/{}", text(owner, "name")),
        }
    });
    vec![cell::name(revision), controller.into(), count(revision, "revision").into(), cell::age(revision, now)]
}

fn autoscaler_cells(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let target = at(autoscaler, "spec.scaleTargetRef").unwrap_or(&Value::Null);
    let min = scalar(at(autoscaler, "spec.minReplicas"));
    vec![
        cell::name(autoscaler),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        autoscaler_targets(autoscaler).into(),
        cell::or(&min, UNSET).into(),
        count(autoscaler, "spec.maxReplicas").into(),
        count(autoscaler, "status.currentReplicas").into(),
        cell::age(autoscaler, now),
    ]
}

/// Metrics are cut after this many.
const METRICS_MAX: usize = 2;

fn autoscaler_targets(autoscaler: &Value) -> String {
    // The v1 form knows one metric only and keeps it outside the list.
    if let Some(target) = at(autoscaler, "spec.targetCPUUtilizationPercentage") {
        let current = percent(at(autoscaler, "status.currentCPUUtilizationPercentage"));
        return format!("cpu: {}/{target}%", current.unwrap_or(cell::UNKNOWN.to_owned()));
    }
    let statuses = list(autoscaler, "status.currentMetrics");
    let metrics = list(autoscaler, "spec.metrics").iter().enumerate();
    let items: Vec<String> = metrics.map(|(index, spec)| metric_text(spec, statuses.get(index))).collect();
    if items.is_empty() { NONE.to_owned() } else { cell::shortened(&items, METRICS_MAX, ", ") }
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
