//! Rows of the kinds that set limits: priorities, quotas, disruption budgets, admission webhooks.

use super::Cell::{Count, Flag, Length, Made, TextOr};
use super::cell::{self, scalar};
use super::{Column, Printer};
use crate::kube::at;
use serde_json::Value;

const ADMISSION: &str = "admissionregistration.k8s.io";
const WEBHOOKS: &[Column] =
    &[Column::NAME, Column::integer("Webhooks", "Number of webhooks.", Length("webhooks")), Column::AGE];
const PREEMPTION: super::Cell = TextOr("preemptionPolicy", "PreemptLowerPriority");

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of("scheduling.k8s.io", "PriorityClass").columns(&[
        Column::NAME,
        Column::integer("Value", "Priority of the pods; higher goes first.", Count("value")),
        Column::boolean("Global-Default", "Whether pods without a class get this one.", Flag("globalDefault")),
        Column::AGE,
        Column::text("PreemptionPolicy", "Whether the pods may evict others.", PREEMPTION),
    ]),
    Printer::of("scheduling.k8s.io", "Workload").columns(&[Column::NAME, Column::AGE]),
    Printer::of("", "ResourceQuota").columns(&[
        Column::NAME,
        Column::text("Request", "Used and allowed amount of each request.", Made(|quota| used(quota, false))),
        Column::text("Limit", "Used and allowed amount of each limit.", Made(|quota| used(quota, true))),
        Column::AGE,
    ]),
    Printer::of("policy", "PodDisruptionBudget").columns(&[
        Column::NAME,
        Column::text("Min Available", "Pods that must stay available.", Made(|pdb| bound(pdb, "spec.minAvailable"))),
        Column::text("Max Unavailable", "Pods that may be unavailable.", Made(|pdb| bound(pdb, "spec.maxUnavailable"))),
        Column::integer("Allowed Disruptions", "Pods that may be evicted now.", Count("status.disruptionsAllowed")),
        Column::AGE,
    ]),
    Printer::of(ADMISSION, "ValidatingWebhookConfiguration").columns(WEBHOOKS),
    Printer::of(ADMISSION, "MutatingWebhookConfiguration").columns(WEBHOOKS),
];

fn used(quota: &Value, are_limits: bool) -> Value {
    let used = cell::map(quota, "status.used");
    let mut items = Vec::new();
    for (resource, hard) in cell::map(quota, "status.hard").into_iter().flatten() {
        if resource.starts_with("limits.") == are_limits {
            let used = used.and_then(|used| used.get(resource)).map_or("0".to_owned(), |used| scalar(Some(used)));
            items.push(format!("{resource}: {used}/{}", scalar(Some(hard))));
        }
    }
    items.join(", ").into()
}

fn bound(budget: &Value, path: &str) -> Value {
    at(budget, path).map_or("N/A".to_owned(), |value| scalar(Some(value))).into()
}
