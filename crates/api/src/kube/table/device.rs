//! Rows of device classes, claims and slices.

use super::Cell::{Made, Text};
use super::cell::{self, list};
use super::{Column, Printer};
use crate::kube::at;
use serde_json::Value;

const GROUP: &str = "resource.k8s.io";

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of(GROUP, "DeviceClass").columns(&[Column::NAME, Column::AGE]),
    Printer::of(GROUP, "ResourceClaimTemplate").columns(&[Column::NAME, Column::AGE]),
    Printer::of(GROUP, "ResourceClaim").columns(&[
        Column::NAME,
        Column::text("State", "Whether devices are set aside for the claim.", Made(claim_state)),
        Column::AGE,
    ]),
    Printer::of(GROUP, "ResourceSlice").columns(&[
        Column::NAME,
        Column::text("Node", "Node that has the devices.", Text("spec.nodeName")),
        Column::text("Driver", "Driver of the devices.", Text("spec.driver")),
        Column::text("Pool", "Pool that the devices belong to.", Text("spec.pool.name")),
        Column::AGE,
    ]),
];

fn claim_state(claim: &Value) -> Value {
    let is_allocated = at(claim, "status.allocation").is_some_and(|allocation| !allocation.is_null());
    let is_deleting = cell::is_deleting(claim);
    let states = [
        (is_deleting, "deleted"),
        (!is_allocated && !is_deleting, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !list(claim, "status.reservedFor").is_empty(), "reserved"),
    ];
    cell::joined(states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state), "")
}
