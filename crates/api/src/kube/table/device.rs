//! Rows of device classes, claims and slices.

use super::cell::{self, list};
use super::cluster::name_and_age;
use super::{Column, Printer};
use crate::kube::{at, text};
use jiff::Timestamp;
use serde_json::Value;

const GROUP: &str = "resource.k8s.io";

pub const PRINTERS: &[Printer] = &[
    Printer { group: GROUP, kind: "DeviceClass", columns: &[Column::NAME, Column::AGE], cells: name_and_age },
    Printer { group: GROUP, kind: "ResourceClaimTemplate", columns: &[Column::NAME, Column::AGE], cells: name_and_age },
    Printer {
        group: GROUP,
        kind: "ResourceClaim",
        columns: &[Column::NAME, Column::text("State", "Whether devices are set aside for the claim."), Column::AGE],
        cells: claim_cells,
    },
    Printer {
        group: GROUP,
        kind: "ResourceSlice",
        columns: &[
            Column::NAME,
            Column::text("Node", "Node that has the devices."),
            Column::text("Driver", "Driver of the devices."),
            Column::text("Pool", "Pool that the devices belong to."),
            Column::AGE,
        ],
        cells: slice_cells,
    },
];

fn claim_cells(claim: &Value, now: Timestamp) -> Vec<Value> {
    let is_allocated = at(claim, "status.allocation").is_some_and(|allocation| !allocation.is_null());
    let is_deleting = cell::is_deleting(claim);
    let states = [
        (is_deleting, "deleted"),
        (!is_allocated && !is_deleting, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !list(claim, "status.reservedFor").is_empty(), "reserved"),
    ];
    let holding: Vec<&str> = states.iter().filter(|(holds, _)| *holds).map(|(_, state)| *state).collect();
    vec![cell::name(claim), holding.join(",").into(), cell::age(claim, now)]
}

fn slice_cells(slice: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cell::name(slice),
        text(slice, "spec.nodeName").into(),
        text(slice, "spec.driver").into(),
        text(slice, "spec.pool.name").into(),
        cell::age(slice, now),
    ]
}
