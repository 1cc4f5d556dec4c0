//! Device claims and their templates (resource.k8s.io): requests are named and ask for a class, and specs stay.

use super::Rule;
use super::place::{NOT_POSITIVE, Place};
use crate::kube::names;
use serde_json::Value;
use std::collections::BTreeSet;

const RESOURCE: &str = "resource.k8s.io";

pub(super) const RULES: &[Rule] = &[
    Rule::of(RESOURCE, "ResourceClaim", |_| {}).on_create(|claim| requests(&claim.field("spec"))).fixed(&["spec"]),
    Rule::of(RESOURCE, "ResourceClaimTemplate", |_| {})
        .on_create(|template| requests(&template.field("spec.spec")))
        .fixed(&["spec"]),
    Rule::of(RESOURCE, "DeviceClass", |_| {}).cluster_wide(),
    Rule::of(RESOURCE, "ResourceSlice", |_| {})
        .on_create(|slice| slice.needs(&["spec.driver", "spec.pool.name"]))
        .cluster_wide(),
];

fn requests(spec: &Place) {
    let mut seen = BTreeSet::new();
    for request in spec.items("devices.requests") {
        request.needs_name("name", names::dns_label);
        request.duplicate_if(!seen.insert(request.text("name")), "name", request.text("name"));
        let detail = "exactly one of `exactly` or `firstAvailable` is required";
        match (request.given("exactly"), request.list("firstAvailable")) {
            (None, []) => request.required("", detail),
            (Some(exactly), []) => device(&exactly),
            (None, _) => request.items("firstAvailable").for_each(|choice| device(&choice)),
            (Some(_), _) => request.invalid("", Value::Null, &format!("{detail}, but multiple fields are set")),
        }
    }
}

fn device(request: &Place) {
    request.needs(&["deviceClassName"]);
    let count = request.integer("count").unwrap_or(0);
    match request.text("allocationMode") {
        "All" => request.wrong_if(count != 0, "count", "must not be specified when allocationMode is 'All'"),
        "ExactCount" => request.invalid_if(count <= 0, "count", count, NOT_POSITIVE),
        _ => request.one_of("allocationMode", &["All", "ExactCount"]),
    }
}
