//! Rows of the kinds that set limits: priorities, quotas, disruption budgets, admission webhooks.

use super::cell::{self, count, list, scalar, text_or};
use super::{Column, Printer};
use crate::kube::{at, text};
use jiff::Timestamp;
use serde_json::Value;

const WEBHOOKS: &[Column] = &[Column::NAME, Column::integer("Webhooks", "Number of webhooks."), Column::AGE];

pub const PRINTERS: &[Printer] = &[
    Printer {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        columns: &[
            Column::NAME,
            Column::integer("Value", "Priority of the pods; higher goes first."),
            Column::boolean("Global-Default", "Whether pods without a class get this one."),
            Column::AGE,
            Column::text("PreemptionPolicy", "Whether the pods may evict others."),
        ],
        cells: priority_class_cells,
    },
    Printer {
        group: "",
        kind: "ResourceQuota",
        columns: &[
            Column::NAME,
            Column::text("Request", "Used and allowed amount of each request."),
            Column::text("Limit", "Used and allowed amount of each limit."),
            Column::AGE,
        ],
        cells: quota_cells,
    },
    Printer {
        group: "policy",
        kind: "PodDisruptionBudget",
        columns: &[
            Column::NAME,
            Column::text("Min Available", "Pods that must stay available."),
            Column::text("Max Unavailable", "Pods that may be unavailable."),
            Column::integer("Allowed Disruptions", "Pods that may be evicted now."),
            Column::AGE,
        ],
        cells: disruption_budget_cells,
    },
    Printer {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        columns: WEBHOOKS,
        cells: webhook_cells,
    },
    Printer {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        columns: WEBHOOKS,
        cells: webhook_cells,
    },
];

fn priority_class_cells(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cell::name(class),
        count(class, "value").into(),
        cell::flag(class, "globalDefault").into(),
        cell::age(class, now),
        text_or(class, "preemptionPolicy", "PreemptLowerPriority").into(),
    ]
}

fn quota_cells(quota: &Value, now: Timestamp) -> Vec<Value> {
    let used = cell::map(quota, "status.used");
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in cell::map(quota, "status.hard").into_iter().flatten() {
        let used = used.and_then(|used| used.get(resource)).map_or("0".to_owned(), |used| scalar(Some(used)));
        let item = format!("{resource}: {used}/{}", scalar(Some(hard)));
        if resource.starts_with("limits.") { limits.push(item) } else { requests.push(item) }
    }
    vec![cell::name(quota), requests.join(", ").into(), limits.join(", ").into(), cell::age(quota, now)]
}

fn disruption_budget_cells(budget: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |path: &str| at(budget, path).map_or("N/A".to_owned(), |value| scalar(Some(value)));
    vec![
        text(budget, "metadata.name").into(),
        bound("spec.minAvailable").into(),
        bound("spec.maxUnavailable").into(),
        count(budget, "status.disruptionsAllowed").into(),
        cell::age(budget, now),
    ]
}

fn webhook_cells(configuration: &Value, now: Timestamp) -> Vec<Value> {
    vec![cell::name(configuration), list(configuration, "webhooks").len().into(), cell::age(configuration, now)]
}
