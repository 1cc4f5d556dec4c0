//! What is refused: every problem of an object at once, with paths and texts as the reference words them.
//!
//! A kind's own rules stand in the table of its file; `create` and `update` add what is true of all kinds. Objects
//! come here decoded, defaulted and admitted, with their name already generated.

mod access;
mod address;
pub mod claim;
mod config;
mod cron_job;
mod devices;
mod endpoints;
mod event;
mod ingress;
mod job;
mod job_policy;
mod label_selector;
mod limit_range;
pub mod metadata;
mod network_policy;
pub mod path;
pub mod pod;
pub mod pod_affinity;
mod pod_container;
mod pod_env;
mod pod_probe;
pub mod pod_resources;
mod pod_security;
pub mod pod_update;
mod pod_volumes;
pub mod policy;
mod quota;
pub mod read;
pub mod reviews;
mod rollout;
mod rows;
pub mod schedule;
mod service;
pub mod status;
mod storage;
mod volume;
mod webhooks;
mod workloads;

use super::field::FieldError;
use metadata::{metadata, metadata_update, name_rule};
use serde_json::Value;

/// The rules of one built-in kind beyond its metadata.
pub struct Rule {
    pub group: &'static str,
    pub kind: &'static str,
    pub is_namespaced: bool,
    pub create: fn(&Value) -> Vec<FieldError>,
    /// New object first, stored object second.
    pub update: fn(&Value, &Value) -> Vec<FieldError>,
}

/// One row set per file; the first match wins.
const TABLES: &[&[Rule]] = &[
    pod::RULES,
    job::RULES,
    cron_job::RULES,
    workloads::RULES,
    service::RULES,
    endpoints::RULES,
    ingress::RULES,
    network_policy::RULES,
    config::RULES,
    quota::RULES,
    limit_range::RULES,
    event::RULES,
    volume::RULES,
    storage::RULES,
    access::RULES,
    policy::RULES,
    webhooks::RULES,
    devices::RULES,
];

fn rule(group: &str, kind: &str) -> Option<&'static Rule> {
    TABLES.iter().flat_map(|table| table.iter()).find(|rule| rule.group == group && rule.kind == kind)
}

/// Everything wrong with a new object of a built-in kind.
///
/// A kind without a row has its metadata checked; its scope is then read off the object itself.
pub fn create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let rule = rule(group, kind);
    let meta = &object["metadata"];
    let is_namespaced = rule.map_or_else(|| !read::string(meta, "namespace").is_empty(), |rule| rule.is_namespaced);
    let mut errors = metadata(meta, name_rule(group, kind), is_namespaced);
    errors.extend(finalizers(group, meta));
    if let Some(rule) = rule {
        errors.extend((rule.create)(object));
    }
    errors
}

/// Everything wrong with replacing `old` by `new`, of a built-in kind.
pub fn update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata_update(&new["metadata"], &old["metadata"]);
    errors.extend(finalizers(group, &new["metadata"]));
    if let Some(rule) = rule(group, kind) {
        errors.extend((rule.update)(new, old));
    }
    errors
}

/// Custom resource definitions have a finalizer without a domain, and the reference's rule is laxer there.
fn finalizers(group: &str, meta: &Value) -> Vec<FieldError> {
    if group == "apiextensions.k8s.io" { Vec::new() } else { metadata::standard_finalizers(meta) }
}

#[cfg(test)]
mod kinds_tests;
