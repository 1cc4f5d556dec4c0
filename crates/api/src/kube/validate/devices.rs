//! Device claims and their templates (resource.k8s.io): requests are named and ask for a class, and specs stay.

use super::Rule;
use super::rows::{Row, check, fixed_field, items, join, named, number, set_at};
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::BTreeSet;

const RESOURCE: &str = "resource.k8s.io";

pub const RULES: &[Rule] = &[
    Rule {
        group: RESOURCE,
        kind: "ResourceClaim",
        is_namespaced: true,
        create: |claim| check_requests(&claim["spec"], "spec"),
        update: |new, old| fixed_field(new, old, "", "spec").into_iter().collect(),
    },
    Rule {
        group: RESOURCE,
        kind: "ResourceClaimTemplate",
        is_namespaced: true,
        create: |template| check_requests(&template["spec"]["spec"], "spec.spec"),
        update: |new, old| fixed_field(new, old, "", "spec").into_iter().collect(),
    },
    Rule {
        group: RESOURCE,
        kind: "DeviceClass",
        is_namespaced: false,
        create: |_| Vec::new(),
        update: |_, _| Vec::new(),
    },
    Rule {
        group: RESOURCE,
        kind: "ResourceSlice",
        is_namespaced: false,
        create: |slice| check(slice, "", &[Row::Required("spec.driver", ""), Row::Required("spec.pool.name", "")]),
        update: |_, _| Vec::new(),
    },
];

fn check_requests(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, request) in items(spec, "devices.requests").iter().enumerate() {
        let path = format!("{path}.devices.requests[{index}]");
        let name = text(request, "name");
        if name.is_empty() {
            errors.push(FieldError::required(join(&path, "name"), ""));
        } else {
            errors.extend(named(name, &join(&path, "name"), names::dns_label));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(join(&path, "name"), name));
        }
        match (set_at(request, "exactly"), items(request, "firstAvailable")) {
            (None, []) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required";
                errors.push(FieldError::required(path, detail));
            }
            (Some(exactly), []) => errors.extend(check_device(exactly, &join(&path, "exactly"))),
            (None, choices) => {
                for (place, choice) in choices.iter().enumerate() {
                    errors.extend(check_device(choice, &format!("{path}.firstAvailable[{place}]")));
                }
            }
            (Some(_), _) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.push(FieldError::invalid(path, Value::Null, detail));
            }
        }
    }
    errors
}

fn check_device(request: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = check(request, path, &[Row::Required("deviceClassName", "")]);
    let count = number(request, "count").unwrap_or(0);
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(join(path, "count"), count, detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(FieldError::invalid(join(path, "count"), count, "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => {
            errors.push(FieldError::not_supported(join(path, "allocationMode"), other, &["All", "ExactCount"]));
        }
    }
    errors
}
